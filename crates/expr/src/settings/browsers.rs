//! Rules by which modern browsers are told from ancient ones (nginx's browser module).

use serde::{Deserialize, Serialize};

/// The rules of a place.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Browsers {
    /// Browsers, each with the least version that is modern, as [`browser_version`] gives it.
    pub modern: Vec<(KnownBrowser, u64)>,
    /// What no rule names is modern.
    pub unlisted: bool,
    /// Texts in User-Agent that make a browser ancient.
    pub ancient: Vec<String>,
    /// Versions 1 to 4 of Netscape are ancient.
    pub netscape4: bool,
    /// What `$modern_browser` is for a modern one.
    pub modern_value: String,
    /// What `$ancient_browser` is for an ancient one.
    pub ancient_value: String,
}

impl Default for Browsers {
    fn default() -> Self {
        Self {
            modern: Vec::new(),
            unlisted: false,
            ancient: Vec::new(),
            netscape4: false,
            modern_value: "1".into(),
            ancient_value: "1".into(),
        }
    }
}

/// What is done for browsers that misread answers (nginx `keepalive_disable`, `msie_padding`, `msie_refresh`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OldBrowsers {
    /// Connections of old MSIE close after a POST.
    pub msie_posts_close: bool,
    /// Connections of Safari on Apple's systems are not kept.
    pub safari_closes: bool,
    /// Standard pages of errors are padded for MSIE and Chrome, which show small ones in words of their own.
    pub pads_errors: bool,
    /// MSIE gets a page that refreshes itself instead of a redirect.
    pub refreshes: bool,
}

impl OldBrowsers {
    /// True if nothing is done for them.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Browsers that are known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KnownBrowser {
    /// Opera; first, because it calls itself MSIE as well.
    Opera,
    /// Internet Explorer.
    Msie,
    /// Gecko, by its `rv:`.
    Gecko,
    /// Safari.
    Safari,
    /// Konqueror.
    Konqueror,
}

/// A version such as `5.5` as a number: its first part in millions, the next in ten thousands, then in hundreds and ones.
pub fn browser_version(text: &[u8]) -> u64 {
    let scales = [1_000_000u64, 10_000, 100, 1];
    text.split(|&byte| byte == b'.')
        .zip(scales)
        .map(|(part, scale)| {
            let digits = part.iter().take(9).filter(|byte| byte.is_ascii_digit());
            digits.fold(0u64, |number, byte| number * 10 + u64::from(byte - b'0')) * scale
        })
        .sum()
}
