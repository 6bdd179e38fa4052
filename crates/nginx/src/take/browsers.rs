//! Words about browsers: `modern_browser`, `ancient_browser`.

use weir_expr::settings::{KnownBrowser, browser_version};

use super::{Lowering, Scope};
use crate::tree::Directive;

/// `modern_browser name version`, `modern_browser unlisted`.
pub(crate) fn modern(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let level = s.level;
    if d.args.len() == 1 {
        if d.arg(0) != "unlisted" {
            return lo.bad_value(d, 0, "`unlisted`, or a browser with a version");
        }
        return s.parts().facts.modern.push(level, None);
    }
    let known = match d.arg(0) {
        "opera" => KnownBrowser::Opera,
        "msie" => KnownBrowser::Msie,
        "gecko" => KnownBrowser::Gecko,
        "safari" => KnownBrowser::Safari,
        "konqueror" => KnownBrowser::Konqueror,
        _ => return lo.bad_value(d, 0, "one of `msie`, `gecko`, `opera`, `safari`, `konqueror`"),
    };
    let version = d.arg(1);
    let plain = version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if !plain || version.is_empty() {
        return lo.bad_value(d, 1, "a version such as `5.5`");
    }
    s.parts().facts.modern.push(level, Some((known, browser_version(version.as_bytes()))));
}

/// `ancient_browser text …`; `netscape4` is a word of its own.
pub(crate) fn ancient(_: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let level = s.level;
    for word in &d.args {
        s.parts().facts.ancient.push(level, word.text.clone());
    }
}
