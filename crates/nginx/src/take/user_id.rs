//! Words about cookies that tell clients apart: `userid` and its kin.

use weir_expr::settings::{UserIdExpires, UserIdMode};

use super::args::count;
use super::user_id_parts::UserIdFlags;
use super::{Lowering, Scope};
use crate::tree::Directive;
use crate::value;

/// `userid off | log | v1 | on`.
pub(crate) fn userid(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let reset = lo.template_of("$uid_reset", &d.args[0]);
    let ids = &mut s.parts().facts.user_ids;
    ids.reset = reset;
    ids.mode = match d.arg(0) {
        "log" => Some(UserIdMode::Read),
        "v1" => Some(UserIdMode::First),
        "on" => Some(UserIdMode::Second),
        _ => None,
    };
}

/// `userid_service number`.
pub(crate) fn service(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    match u32::try_from(count(d)) {
        Ok(number) => s.parts().facts.user_ids.service = Some(number),
        Err(_) => lo.bad_value(d, 0, "a number of 32 bits"),
    }
}

/// `userid_expires time | max | off`.
pub(crate) fn expires(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    s.parts().facts.user_ids.expires = match (d.arg(0), value::seconds(d.arg(0))) {
        ("max", _) => UserIdExpires::Latest,
        ("off", _) | (_, Some(0)) => UserIdExpires::Session,
        (_, Some(seconds)) => UserIdExpires::After(seconds),
        (_, None) => return lo.bad_value(d, 0, "a time such as `365d`, `max` or `off`"),
    };
}

/// `userid_flags off | flag …`.
pub(crate) fn flags(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let mut flags = UserIdFlags::default();
    for (n, word) in d.args.iter().enumerate() {
        match word.text.to_ascii_lowercase().as_str() {
            "off" => {}
            "secure" => flags.secure = true,
            "httponly" => flags.http_only = true,
            "samesite=strict" => flags.strict = true,
            "samesite=lax" => flags.lax = true,
            "samesite=none" => flags.none = true,
            _ => {
                let known =
                    "one of `off`, `secure`, `httponly`, `samesite=strict`, `samesite=lax`, `samesite=none`";
                return lo.bad_value(d, n, known);
            }
        }
    }
    s.parts().facts.user_ids.flags = flags;
}

/// `userid_mark letter | digit | = | off`.
pub(crate) fn mark(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    s.parts().facts.user_ids.mark = match d.arg(0).as_bytes() {
        b"off" => None,
        [mark] if mark.is_ascii_alphanumeric() || *mark == b'=' => Some(*mark),
        _ => return lo.bad_value(d, 0, "`off`, a letter, a digit or `=`"),
    };
}

/// The value of a word that has `none`.
pub(crate) fn unless_none(d: &Directive) -> String {
    if d.arg(0) == "none" { String::new() } else { d.arg(0).to_owned() }
}
