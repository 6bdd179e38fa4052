//! uwsgi and SCGI, the sending half: what stands in front of a request's body. Memcached's text protocol, both halves.
//!
//! Owns: lengths, their order, and the lines of memcached.
//! Never: chooses parameters (`engine` does), or reads a CGI answer ([`crate::fastcgi::CgiHead`] does).
//! Driven by: `engine`.

/// The parameters do not fit what their lengths can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// Appends one parameter to those of a uwsgi request.
///
/// # Errors
/// Name or value have more than 65,535 bytes; the buffer is as it was.
pub fn uwsgi_param(out: &mut Vec<u8>, name: &[u8], value: &[u8]) -> Result<(), TooLong> {
    let lengths = [name, value].map(|text| u16::try_from(text.len()).map_err(|_| TooLong));
    for (length, text) in [(lengths[0]?, name), (lengths[1]?, value)] {
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(text);
    }
    Ok(())
}

/// What stands in front of the parameters of a uwsgi request.
///
/// # Errors
/// The parameters have more than 65,535 bytes together.
pub fn uwsgi_head(modifiers: (u8, u8), params: usize) -> Result<[u8; 4], TooLong> {
    let [low, high] = u16::try_from(params).map_err(|_| TooLong)?.to_le_bytes();
    Ok([modifiers.0, low, high, modifiers.1])
}

/// Appends one parameter to those of an SCGI request. One that holds NUL would be read as two: it is left out.
pub fn scgi_param(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    if memchr::memchr(0, name).is_none() && memchr::memchr(0, value).is_none() {
        for part in [name, &[0], value, &[0]] {
            out.extend_from_slice(part);
        }
    }
}

/// Appends the head of an SCGI request: `length` of its body, and the other parameters.
pub fn scgi_head(out: &mut Vec<u8>, length: u64, params: &[u8]) {
    let first = format!("CONTENT_LENGTH\0{length}\0");
    out.extend_from_slice(format!("{}:{first}", first.len() + params.len()).as_bytes());
    out.extend_from_slice(params);
    out.push(b',');
}

/// The most bytes that a key of memcached has.
pub const MOST_KEY: usize = 250;

/// Makes a key of a text: what could end a line or a word is escaped as in a URI, as is `%` itself. `None`: it is empty,
/// or longer than memcached takes.
#[must_use]
pub fn memcached_key(text: &[u8]) -> Option<Vec<u8>> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut key = Vec::with_capacity(text.len());
    for &byte in text {
        if byte <= b' ' || byte == b'%' || byte == 0x7f {
            key.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        } else {
            key.push(byte);
        }
    }
    (1..=MOST_KEY).contains(&key.len()).then_some(key)
}

/// What memcached says of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A value follows the line; behind it comes [`MEMCACHED_END`].
    Value {
        /// Bytes of the line, its end included.
        line: usize,
        /// What was stored with the value.
        flags: u32,
        /// Bytes of the value.
        length: u64,
    },
    /// There is none. So many bytes said so.
    Nothing(usize),
    /// The line is not whole yet.
    NeedMore,
}

/// What follows a value.
pub const MEMCACHED_END: &[u8] = b"\r\nEND\r\n";

/// What memcached answers is none of what it may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoAnswer;

/// Reads the first line of the answer to `get KEY`.
///
/// # Errors
/// It is no answer to that, or longer than one can be.
pub fn memcached_answer(input: &[u8], key: &[u8]) -> Result<Found, NoAnswer> {
    const MOST_LINE: usize = MOST_KEY + 64;
    let Some(end) = memchr::memchr(b'\n', &input[..input.len().min(MOST_LINE)]) else {
        return if input.len() < MOST_LINE { Ok(Found::NeedMore) } else { Err(NoAnswer) };
    };
    let line = input[..end].strip_suffix(b"\r").ok_or(NoAnswer)?;
    if line == b"END" {
        return Ok(Found::Nothing(end + 1));
    }
    let mut words = line.split(|&byte| byte == b' ');
    let (Some(b"VALUE"), Some(named), Some(flags), Some(length), None) =
        (words.next(), words.next(), words.next(), words.next(), words.next())
    else {
        return Err(NoAnswer);
    };
    let flags = crate::framing::parse_length(flags).and_then(|flags| u32::try_from(flags).ok());
    let length = crate::framing::parse_length(length).filter(|&length| length < 1 << 40);
    match (named == key, flags, length) {
        (true, Some(flags), Some(length)) => Ok(Found::Value { line: end + 1, flags, length }),
        _ => Err(NoAnswer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uwsgi_requests() {
        let mut params = Vec::new();
        uwsgi_param(&mut params, b"A", b"bc").unwrap();
        assert_eq!(params, b"\x01\0A\x02\0bc");
        assert_eq!(uwsgi_head((5, 9), 0x1234), Ok([5, 0x34, 0x12, 9]));
        assert_eq!(uwsgi_head((0, 0), 65_536), Err(TooLong));
        assert_eq!(uwsgi_param(&mut params, b"A", &[b'x'; 65_536]), Err(TooLong));
        assert_eq!(params.len(), 7);
    }

    #[test]
    fn scgi_requests() {
        let (mut params, mut out) = (Vec::new(), Vec::new());
        scgi_param(&mut params, b"SCGI", b"1");
        scgi_param(&mut params, b"X", b"a\0EVIL\0b");
        scgi_head(&mut out, 27, &params);
        assert_eq!(out, b"25:CONTENT_LENGTH\x0027\0SCGI\x001\0,");
    }

    #[test]
    fn keys_end_no_line() {
        assert_eq!(memcached_key(b"/a b%\r\nx").unwrap(), b"/a%20b%25%0D%0Ax");
        assert_eq!(memcached_key(b""), None);
        assert_eq!(memcached_key(&[b'a'; 251]), None);
        assert_eq!(memcached_key(&[b' '; 84]), None);
    }

    #[test]
    fn answers_of_memcached() {
        let read = |text: &str| memcached_answer(text.as_bytes(), b"/k");
        assert_eq!(read("END\r\n"), Ok(Found::Nothing(5)));
        assert_eq!(read("VALUE /k 2 10\r\nabc"), Ok(Found::Value { line: 15, flags: 2, length: 10 }));
        assert_eq!(read("VALUE /k 2 10\r"), Ok(Found::NeedMore));
        for bad in [
            "VALUE /other 0 1\r\n",
            "VALUE /k -1 1\r\n",
            "VALUE /k 0 99999999999999\r\n",
            "VALUE /k 0\r\n",
            "VALUE /k 0 1 77\r\n",
            "ERROR\r\n",
            "END\n",
        ] {
            assert_eq!(read(bad), Err(NoAnswer), "{bad}");
        }
        assert_eq!(read(&"x".repeat(400)), Err(NoAnswer));
    }
}
