//! Words about copies of requests (nginx.org: mirror).

use super::{Lowering, Scope};
use crate::tree::Directive;

/// `mirror PATH | off`. Each PATH is one more; `off` ends those of outer blocks.
pub(crate) fn mirror(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let (level, path) = (s.level, d.arg(0));
    match path {
        "off" => s.parts().mirrors.clear(level),
        _ if path.starts_with('/') => s.parts().mirrors.push(level, path.to_owned()),
        _ => lo.bad_value(d, 0, "a path that begins with `/`, or `off`"),
    }
}
