//! Words about what is done to bodies of responses.

use super::{Lowering, Scope};
use crate::tree::Directive;

/// `sub_filter string replacement`.
pub(crate) fn sub_filter(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    if d.arg(0).is_empty() {
        return lo.bad_value(d, 0, "a text to look for");
    }
    let pair = (lo.template(&d.args[0]), lo.template(&d.args[1]));
    let level = s.level;
    s.parts().filters.subs.push(level, pair);
}

/// A list of media types; `text/html` is always one of them, so nginx warns of it; Weir just takes it.
pub(crate) fn types(d: &Directive) -> Vec<String> {
    let mut types = vec!["text/html".to_owned()];
    for word in &d.args {
        let media = word.text.to_ascii_lowercase();
        if !types.contains(&media) {
            types.push(media);
        }
    }
    types
}

/// `add_before_body path`.
pub(crate) fn before(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    if let Some(path) = added(lo, d) {
        s.parts().filters.before = path;
    }
}

/// `add_after_body path`.
pub(crate) fn after(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    if let Some(path) = added(lo, d) {
        s.parts().filters.after = path;
    }
}

/// A path, or none where it is empty, as nginx documents it. `None`: it is neither.
fn added(lo: &mut Lowering<'_>, d: &Directive) -> Option<Option<String>> {
    let path = d.arg(0);
    if !path.is_empty() && !path.starts_with('/') {
        lo.bad_value(d, 0, "a path that begins with `/`, or an empty text");
        return None;
    }
    Some((!path.is_empty()).then(|| path.to_owned()))
}
