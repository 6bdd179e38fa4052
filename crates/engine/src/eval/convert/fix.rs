//! Messages of the Financial Information eXchange protocol (FIX): `tag=value` parted by SOH.
//!
//! Owns: what a valid first message is, and the values of tags.
//! Never: knows what a tag means.

/// What ends each field.
const SOH: u8 = 1;

/// Fields in order; `None` for what is no field.
fn fields(message: &[u8]) -> impl Iterator<Item = Option<(&[u8], &[u8])>> {
    let body = message.strip_suffix(&[SOH]).unwrap_or(message);
    body.split(|byte| *byte == SOH).map(|field| {
        let at = field.iter().position(|byte| *byte == b'=')?;
        let (tag, value) = (&field[..at], &field[at + 1..]);
        let good = !tag.is_empty() && tag.iter().all(u8::is_ascii_digit) && !value.is_empty();
        good.then_some((tag, value))
    })
}

/// The value of a tag in the first message of some bytes.
pub(super) fn value<'m>(message: &'m [u8], tag: &[u8]) -> Option<&'m [u8]> {
    fields(message).map_while(|field| field).find(|(known, _)| *known == tag).map(|(_, value)| value)
}

/// Whether some bytes are one message: version, length, type first, a checksum that holds last.
pub(super) fn is_valid(message: &[u8]) -> bool {
    const VERSIONS: [&[u8]; 9] = [
        b"FIX.4.0",
        b"FIX.4.1",
        b"FIX.4.2",
        b"FIX.4.3",
        b"FIX.4.4",
        b"FIX.5.0",
        b"FIXT.1.1",
        b"FIX.5.0SP1",
        b"FIX.5.0SP2",
    ];
    let Some(all) = fields(message).collect::<Option<Vec<_>>>() else { return false };
    let [(b"8", version), (b"9", length), (b"35", _), .., (b"10", sum)] = all.as_slice() else {
        return false;
    };
    let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<usize>().ok());
    let (Some(length), Some(sum)) = (number(length), number(sum)) else { return false };
    // The length counts from behind its own field to the field of the checksum: `10=NNN` and SOH.
    let head =
        message.iter().enumerate().filter(|(_, byte)| **byte == SOH).nth(1).map_or(0, |(at, _)| at + 1);
    let Some(tail) = message.len().checked_sub(7).filter(|_| message.ends_with(&[SOH])) else { return false };
    let told = message[..tail].iter().map(|byte| usize::from(*byte)).sum::<usize>() % 256;
    VERSIONS.contains(version) && head + length == tail && told == sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Vec<u8> {
        let body = "35=A|49=one|56=two|34=1|52=20260101-00:00:00|98=0|108=30|".replace('|', "\x01");
        let head = format!("8=FIX.4.4\x019={}\x01{body}", body.len());
        let sum = head.bytes().map(usize::from).sum::<usize>() % 256;
        format!("{head}10={sum:03}\x01").into_bytes()
    }

    #[test]
    fn messages_are_checked_and_read() {
        let whole = message();
        assert!(is_valid(&whole));
        assert_eq!(value(&whole, b"35"), Some(&b"A"[..]));
        assert_eq!(value(&whole, b"56"), Some(&b"two"[..]));
        assert_eq!(value(&whole, b"99"), None);
        assert!((0..whole.len()).all(|end| !is_valid(&whole[..end])));
        let mut other = whole.clone();
        other[20] ^= 1;
        assert!(!is_valid(&other));
    }
}
