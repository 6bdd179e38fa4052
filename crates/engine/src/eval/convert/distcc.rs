//! Messages of distcc: tokens of four letters, each with a number of eight hexadecimal digits, some with so many bytes behind it.
//!
//! Owns: finding one. What is not there whole is no value, so that rules can wait for it.

use weir_expr::number;

/// Tokens whose number says how many bytes follow.
const WITH_BODY: [&[u8; 4]; 7] = [b"ARGV", b"DOTI", b"DOTO", b"SERR", b"SOUT", b"NAME", b"LINK"];

/// The number behind the n-th token of a name, from 1.
pub(super) fn param(message: &[u8], token: &[u8], nth: &[u8]) -> Option<u32> {
    find(message, token, nth).map(|(number, _)| number)
}

/// The bytes that this number announces.
pub(super) fn body<'m>(message: &'m [u8], token: &[u8], nth: &[u8]) -> Option<&'m [u8]> {
    let (number, rest) = find(message, token, nth)?;
    rest.get(..usize::try_from(number).ok()?)
}

fn find<'m>(mut message: &'m [u8], token: &[u8], nth: &[u8]) -> Option<(u32, &'m [u8])> {
    let mut left = if nth.is_empty() { 1 } else { number(nth) };
    loop {
        let (head, rest) = message.split_at_checked(12)?;
        let (name, digits) = head.split_at(4);
        let digits = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?;
        let number = u32::from_str_radix(digits, 16).ok()?;
        if name == token {
            left -= 1;
            if left <= 0 {
                return Some((number, rest));
            }
        }
        let has_body = WITH_BODY.iter().any(|known| &known[..] == name);
        message = if has_body { rest.get(usize::try_from(number).ok()?..)? } else { rest };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_behind_the_bytes_of_others() {
        let message = b"DIST00000001ARGC00000002ARGV00000003gccARGV00000002-cDOTI00000004ARGV";
        assert_eq!(param(message, b"ARGC", b""), Some(2));
        assert_eq!(param(message, b"ARGV", b"2"), Some(2));
        assert_eq!(body(message, b"ARGV", b"1"), Some(&b"gcc"[..]));
        assert_eq!(body(message, b"DOTI", b""), Some(&b"ARGV"[..]));
        assert_eq!(param(message, b"ARGV", b"3"), None);
        assert_eq!(body(&message[..message.len() - 1], b"DOTI", b""), None);
        assert_eq!(param(b"DIST0000000x", b"DIST", b""), None);
    }
}
