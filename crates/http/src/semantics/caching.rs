//! What a response says of being stored and used again: RFC 9111 §5.2.2, RFC 5861.
//!
//! Owns: reading Cache-Control, Vary and Age.
//! Never: judges whether something is stored; whoever stores does, by this and by its own settings.
//! Why: what cannot be read counts as what stores less: a number that is none is 0, a directive with an argument that
//! narrows it (`no-cache="Set-Cookie"`) as the one without.

use crate::list;

/// What Cache-Control of a response says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseControl {
    /// `no-store`.
    pub no_store: bool,
    /// `no-cache`.
    pub no_cache: bool,
    /// `private`.
    pub private: bool,
    /// `public`.
    pub public: bool,
    /// `must-revalidate` or `proxy-revalidate`: never used when it is too old.
    pub must_revalidate: bool,
    /// `max-age`, in seconds.
    pub max_age: Option<u64>,
    /// `s-maxage`, in seconds.
    pub s_maxage: Option<u64>,
    /// `stale-while-revalidate`, in seconds.
    pub stale_while_revalidate: Option<u64>,
    /// `stale-if-error`, in seconds.
    pub stale_if_error: Option<u64>,
}

impl ResponseControl {
    /// Reads the lines of the field.
    pub fn read<'v>(lines: impl Iterator<Item = &'v [u8]>) -> Self {
        let mut control = Self::default();
        for item in lines.flat_map(list::items) {
            let (name, value) = list::parameter(item);
            let is = |word: &[u8]| name.eq_ignore_ascii_case(word);
            // Of two the one that stores less.
            let least = |known: Option<u64>| {
                let found = seconds(value.unwrap_or_default());
                Some(known.map_or(found, |known| known.min(found)))
            };
            if is(b"no-store") {
                control.no_store = true;
            } else if is(b"no-cache") {
                control.no_cache = true;
            } else if is(b"private") {
                control.private = true;
            } else if is(b"public") {
                control.public = true;
            } else if is(b"must-revalidate") || is(b"proxy-revalidate") {
                control.must_revalidate = true;
            } else if is(b"max-age") {
                control.max_age = least(control.max_age);
            } else if is(b"s-maxage") {
                control.s_maxage = least(control.s_maxage);
            } else if is(b"stale-while-revalidate") {
                control.stale_while_revalidate = least(control.stale_while_revalidate);
            } else if is(b"stale-if-error") {
                control.stale_if_error = least(control.stale_if_error);
            }
        }
        control
    }

    /// Whether a shared cache may not store it at all.
    #[must_use]
    pub fn forbids(&self) -> bool {
        self.no_store || self.no_cache || self.private
    }

    /// How long it is fresh in a shared cache, in seconds.
    #[must_use]
    pub fn lifetime(&self) -> Option<u64> {
        self.s_maxage.or(self.max_age)
    }

    /// Whether it may be stored although its request named credentials (RFC 9111 §3.5).
    #[must_use]
    pub fn is_for_all(&self) -> bool {
        self.public || self.must_revalidate || self.s_maxage.is_some()
    }
}

/// Delta seconds (RFC 9111 §1.2.2): too many are as many as can be counted, what is no number is 0.
#[must_use]
pub fn seconds(value: &[u8]) -> u64 {
    let digits = list::unquote(value);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return 0;
    }
    let text = std::str::from_utf8(digits).unwrap_or_default();
    text.parse().unwrap_or(u64::from(u32::MAX)).min(u64::from(u32::MAX))
}

/// The names of request fields that a response varies by: lower case, each once, sorted, and separated by commas.
/// `None`: it varies by more than fields (`*`), or its names are no names.
pub fn vary<'v>(lines: impl Iterator<Item = &'v [u8]>) -> Option<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = lines.flat_map(list::items).map(<[u8]>::to_ascii_lowercase).collect();
    let is_name = |name: &Vec<u8>| name != b"*" && name.iter().all(|&byte| crate::scan::is_token_byte(byte));
    if !names.iter().all(is_name) {
        return None;
    }
    names.sort_unstable();
    names.dedup();
    Some(names.join(&b','))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> ResponseControl {
        ResponseControl::read(lines.iter().map(|line| line.as_bytes()))
    }

    #[test]
    fn directives_of_all_lines_count() {
        let control = read(&["Public, MAX-AGE=60", "s-maxage=\"30\" , stale-if-error=5"]);
        assert_eq!((control.lifetime(), control.public, control.forbids()), (Some(30), true, false));
        assert_eq!((control.stale_if_error, control.stale_while_revalidate), (Some(5), None));
        assert!(control.is_for_all());
        assert!(read(&["max-age=5, no-cache=\"Set-Cookie, X\""]).forbids());
        assert!(read(&["private"]).forbids() && read(&["no-store"]).forbids());
        assert!(read(&["proxy-revalidate"]).must_revalidate && !read(&["max-age=5"]).is_for_all());
        // Inside quotes is no directive.
        assert!(!read(&["ext=\"a, no-store\""]).forbids());
    }

    #[test]
    fn what_cannot_be_read_stores_less() {
        for (text, lifetime) in [
            ("max-age", 0),
            ("max-age=", 0),
            ("max-age=-1", 0),
            ("max-age=1x", 0),
            ("max-age=60, max-age=20", 20),
            ("max-age=99999999999999999999999", u64::from(u32::MAX)),
        ] {
            assert_eq!(read(&[text]).lifetime(), Some(lifetime), "{text}");
        }
    }

    #[test]
    fn names_that_a_response_varies_by() {
        let of = |lines: &[&str]| vary(lines.iter().map(|line| line.as_bytes()));
        assert_eq!(of(&["Accept-Encoding, X-B", "x-a,accept-encoding"]).unwrap(), b"accept-encoding,x-a,x-b");
        assert_eq!(of(&[]).unwrap(), b"");
        assert_eq!((of(&["A, *"]), of(&["a b"])), (None, None));
    }
}
