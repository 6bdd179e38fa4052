//! Parts of a Content-Type value: RFC 9110 §8.3.

use crate::list;

/// `text/html` of `text/html; charset=utf-8`.
#[must_use]
pub fn media_type(value: &[u8]) -> &[u8] {
    list::parts(value).next().unwrap_or_default()
}

/// The charset, without quotes.
#[must_use]
pub fn charset(value: &[u8]) -> Option<&[u8]> {
    list::parts(value)
        .skip(1)
        .map(list::parameter)
        .find_map(|(name, value)| value.filter(|_| name.eq_ignore_ascii_case(b"charset")))
        .map(list::unquote)
}

/// The part of a file name behind its last dot, as nginx looks it up in `types`: no dot, or a slash behind it, means
/// none. Compare without regard to case.
#[must_use]
pub fn extension(path: &[u8]) -> Option<&[u8]> {
    let name = path.rsplit(|&b| b == b'/').next()?;
    let dot = memchr::memrchr(b'.', name)?;
    Some(&name[dot + 1..]).filter(|extension| !extension.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_type() {
        assert_eq!(media_type(b"text/html; charset=utf-8"), b"text/html");
        assert_eq!(media_type(b" text/html "), b"text/html");
        assert_eq!(charset(b"text/html; a=b; Charset=\"utf-8\""), Some(b"utf-8".as_slice()));
        assert_eq!(charset(b"text/html"), None);
        assert_eq!(extension(b"/a.b/c.tar.GZ"), Some(b"GZ".as_slice()));
        assert_eq!(extension(b"/a.b/c"), None);
        assert_eq!(extension(b"/a."), None);
    }
}
