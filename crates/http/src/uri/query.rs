//! Arguments of a query.
//!
//! Owns: walking `a=b&c=d`, and nginx's `$arg_name`.
//! Never: decodes; nginx's arguments are raw, and HAProxy's callers decode themselves.

/// The arguments in order: name and value, as written. An argument without `=` has no value.
pub fn args(query: &[u8]) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    query.split(|&b| b == b'&').filter(|part| !part.is_empty()).map(crate::list::parameter)
}

/// The value of the first argument of this name, in any case: `$arg_name`. One without `=` does not count.
#[must_use]
pub fn arg<'a>(query: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    args(query).find_map(|(other, value)| value.filter(|_| other.eq_ignore_ascii_case(name)))
}

/// Splits at the first `?`.
#[must_use]
pub fn split(uri: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'?', uri) {
        Some(at) => (&uri[..at], Some(&uri[at + 1..])),
        None => (uri, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups() {
        let query = b"a=1&bc=2&c=3&A=4&d&e=&=x&&f=a=b";
        assert_eq!(arg(query, b"a"), Some(b"1".as_slice()));
        assert_eq!(arg(query, b"C"), Some(b"3".as_slice()));
        assert_eq!(arg(query, b"b"), None);
        assert_eq!(arg(query, b"d"), None);
        assert_eq!(arg(query, b"e"), Some(b"".as_slice()));
        assert_eq!(arg(query, b"f"), Some(b"a=b".as_slice()));
        assert_eq!(args(query).count(), 8);
        assert_eq!(split(b"/a?b?c"), (b"/a".as_slice(), Some(b"b?c".as_slice())));
        assert_eq!(split(b"/a"), (b"/a".as_slice(), None));
    }
}
