//! Finding status, framing and persistence in a response head.
//!
//! Owns: the scan of a head, and the memory of the last one.
//! Never: looks at fields that do not matter here.
//! Driven by: `reader`.

use memchr::memchr;

use super::Malformed;

/// The longest head that is waited for.
pub(crate) const MAX_HEAD: usize = 64 * 1024;

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// What matters of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) framing: Framing,
    /// The connection may carry another request.
    pub(crate) keep: bool,
    /// Bytes of the head.
    pub(crate) len: usize,
}

/// Reads the head that `buf` begins with; `None` if it is not whole. `to_head` says that the request was HEAD.
pub(crate) fn scan(buf: &[u8], to_head: bool) -> Result<Option<Head>, Malformed> {
    let mut line = match memchr(b'\n', buf) {
        Some(end) => end + 1,
        None if buf.len() > MAX_HEAD || !b"HTTP/1.".starts_with(&buf[..buf.len().min(7)]) => {
            return Err(Malformed);
        }
        None => return Ok(None),
    };
    let (status, http11) = status_line(&buf[..line])?;
    let (mut length, mut chunked, mut keep) = (None, false, http11);
    loop {
        let Some(end) = memchr(b'\n', &buf[line..]) else {
            return if buf.len() > MAX_HEAD { Err(Malformed) } else { Ok(None) };
        };
        let field = &buf[line..line + end];
        line += end + 1;
        match field.first() {
            None | Some(b'\r') => break,
            // `c`: Content-Length, Connection. `t`: Transfer-Encoding.
            Some(b'c' | b'C' | b't' | b'T') => {}
            Some(_) => continue,
        }
        if let Some(value) = value(field, b"content-length") {
            let this = number(value)?;
            if length.is_some_and(|other| other != this) {
                return Err(Malformed);
            }
            length = Some(this);
        } else if let Some(value) = value(field, b"transfer-encoding") {
            chunked |= last_word_is(value, b"chunked");
        } else if let Some(value) = value(field, b"connection") {
            if has_word(value, b"close") {
                keep = false;
            } else if has_word(value, b"keep-alive") {
                keep = true;
            }
        }
    }
    let framing = if to_head || matches!(status, 100..200 | 204 | 304) {
        Framing::Length(0)
    } else if chunked {
        Framing::Chunked
    } else {
        length.map_or(Framing::UntilClose, Framing::Length)
    };
    let keep = keep && framing != Framing::UntilClose && status != 101;
    Ok(Some(Head { status, framing, keep, len: line }))
}

fn status_line(line: &[u8]) -> Result<(u16, bool), Malformed> {
    let Some(&[b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor, b' ', a, b, c, after]) = line.first_chunk()
    else {
        return Err(Malformed);
    };
    let digits = [a, b, c];
    if !digits.iter().all(u8::is_ascii_digit) || a == b'0' || !matches!(after, b' ' | b'\r' | b'\n') {
        return Err(Malformed);
    }
    Ok((digits.iter().fold(0, |n, d| n * 10 + u16::from(d - b'0')), minor != b'0'))
}

/// The value of a field line, if it has this name (in lower case).
fn value<'a>(field: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = field.split_at_checked(name.len())?;
    let rest = rest.strip_prefix(b":")?;
    start.eq_ignore_ascii_case(name).then(|| rest.trim_ascii())
}

fn number(value: &[u8]) -> Result<u64, Malformed> {
    if value.is_empty() || value.len() > 18 || !value.iter().all(u8::is_ascii_digit) {
        return Err(Malformed);
    }
    Ok(value.iter().fold(0, |n, d| n * 10 + u64::from(d - b'0')))
}

fn words(value: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(<[u8]>::trim_ascii)
}

fn has_word(value: &[u8], word: &[u8]) -> bool {
    words(value).any(|this| this.eq_ignore_ascii_case(word))
}

fn last_word_is(value: &[u8], word: &[u8]) -> bool {
    words(value).next_back().is_some_and(|last| last.eq_ignore_ascii_case(word))
}

/// The last head read by this thread: a server's answers are the same bytes for a second at a time.
#[derive(Default)]
pub(crate) struct HeadCache {
    bytes: Vec<u8>,
    head: Option<(Head, bool)>,
}

impl HeadCache {
    /// As [`scan`].
    pub(crate) fn scan(&mut self, buf: &[u8], to_head: bool) -> Result<Option<Head>, Malformed> {
        if let Some((head, for_head)) = self.head
            && for_head == to_head
            && buf.starts_with(&self.bytes)
        {
            return Ok(Some(head));
        }
        let head = scan(buf, to_head)?;
        if let Some(head) = head {
            self.bytes.clear();
            self.bytes.extend_from_slice(&buf[..head.len]);
            self.head = Some((head, to_head));
        }
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Head {
        for cut in 0..text.len() {
            assert_eq!(scan(&text.as_bytes()[..cut], false), Ok(None), "cut at {cut}");
        }
        let head = scan(text.as_bytes(), false).unwrap().unwrap();
        assert_eq!(head.len, text.len());
        head
    }

    fn framing(fields: &str) -> Framing {
        whole(&format!("HTTP/1.1 200 OK\r\nServer: x\r\n{fields}\r\n")).framing
    }

    #[test]
    fn bodies_end_where_the_head_says() {
        assert_eq!(framing("Content-Length: 12\r\n"), Framing::Length(12));
        assert_eq!(framing("content-length:0\r\ncontent-length: 0\r\n"), Framing::Length(0));
        assert_eq!(framing("Transfer-Encoding: gzip, Chunked\r\nContent-Length: 3\r\n"), Framing::Chunked);
        assert_eq!(framing("Content-Type: a\r\nTrailer: b\r\n"), Framing::UntilClose);
        assert_eq!(
            whole("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n").framing,
            Framing::Length(0)
        );
        assert_eq!(whole("HTTP/1.1 204 No Content\r\n\r\n").framing, Framing::Length(0));
        let head = scan(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", true).unwrap().unwrap();
        assert_eq!(head.framing, Framing::Length(0));
    }

    #[test]
    fn connections_go_on_where_they_may() {
        let keep = |line: &str| whole(&format!("{line}\r\nContent-Length: 1\r\n\r\n")).keep;
        assert!(keep("HTTP/1.1 200 OK"));
        assert!(!keep("HTTP/1.0 200 OK"));
        assert!(keep("HTTP/1.0 200 OK\r\nConnection: Keep-Alive"));
        assert!(!keep("HTTP/1.1 200\r\nCONNECTION: foo, Close"));
        assert!(!whole("HTTP/1.1 200 OK\r\n\r\n").keep, "only the close ends such a body");
    }

    #[test]
    fn what_is_no_answer_is_refused_early() {
        for bad in [
            "SSH-2.0-x",
            "HTTP/2 200\r\n",
            "HTTP/1.1 2x0 OK\r\n",
            "HTTP/1.1 2000\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        ] {
            assert_eq!(scan(bad.as_bytes(), false), Err(Malformed), "{bad}");
        }
        assert_eq!(
            scan(&b"HTTP/1.1 200 OK\r\n".iter().chain(&[b'x'; MAX_HEAD]).copied().collect::<Vec<_>>(), false),
            Err(Malformed)
        );
    }

    #[test]
    fn the_memory_of_a_head_is_only_for_the_same_bytes() {
        let mut cache = HeadCache::default();
        let one = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        let two = b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n";
        for _ in 0..2 {
            assert_eq!(cache.scan(one, false).unwrap().unwrap().framing, Framing::Length(5));
            assert_eq!(cache.scan(one, true).unwrap().unwrap().framing, Framing::Length(0));
            assert_eq!(cache.scan(two, false).unwrap().unwrap().framing, Framing::Length(50));
            assert_eq!(cache.scan(&two[..20], false), Ok(None));
        }
    }
}
