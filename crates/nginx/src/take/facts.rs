//! Words about variables that judge a request: `secure_link`, `valid_referers`.

use weir_model::{Pattern, RefererHost};

use super::{Lowering, Scope};
use crate::tree::Directive;

pub(crate) fn secure_link(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    s.parts().facts.link = Some(lo.template(&d.args[0]));
    s.parts().facts.word = None;
}

pub(crate) fn secure_link_md5(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    s.parts().facts.signed = Some(lo.template(&d.args[0]));
    s.parts().facts.word = None;
}

/// `secure_link_secret word`, in a location alone.
pub(crate) fn secure_link_secret(_: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    s.parts().facts.word = Some(d.arg(0).to_owned());
}

/// `valid_referers none | blocked | server_names | name | ~pattern …`.
pub(crate) fn valid_referers(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let level = s.level;
    for (n, word) in d.args.iter().enumerate() {
        if word.text == "server_names" {
            s.parts().facts.referers(level);
            s.parts().facts.server_names = true;
            continue;
        }
        if let Some(source) = word.text.strip_prefix('~') {
            if source.is_empty() {
                return lo.bad_value(d, n, "a pattern after `~`");
            }
            let pattern: Pattern = lo.pattern(source, true, word);
            s.parts().facts.referers(level).patterns.push(pattern);
            continue;
        }
        let Some(found) = host(&word.text) else {
            return lo.bad_value(
                d,
                n,
                "`none`, `blocked`, `server_names`, a host name or a pattern after `~`",
            );
        };
        let referers = s.parts().facts.referers(level);
        match found {
            Named::None => referers.none = true,
            Named::Blocked => referers.blocked = true,
            Named::Host(hosts, path) => {
                referers.hosts.extend(hosts.into_iter().map(|host| (host, path.clone())));
            }
        }
    }
}

/// What one word names.
enum Named {
    None,
    Blocked,
    /// Hosts with a path.
    Host(Vec<RefererHost>, String),
}

fn host(text: &str) -> Option<Named> {
    match text {
        "none" => return Some(Named::None),
        "blocked" => return Some(Named::Blocked),
        _ => {}
    }
    let (name, path) = text.find('/').map_or((text, ""), |at| text.split_at(at));
    let name = name.to_ascii_lowercase();
    let plain = |name: &str| !name.is_empty() && !name.contains('*') && !name.starts_with('.');
    let hosts = if let Some(rest) = name.strip_prefix("*.") {
        plain(rest).then(|| vec![RefererHost::Suffix(rest.to_owned())])?
    } else if let Some(rest) = name.strip_suffix(".*") {
        plain(rest).then(|| vec![RefererHost::Prefix(rest.to_owned())])?
    } else if let Some(rest) = name.strip_prefix('.') {
        plain(rest)
            .then(|| vec![RefererHost::Exact(rest.to_owned()), RefererHost::Suffix(rest.to_owned())])?
    } else {
        plain(&name).then(|| vec![RefererHost::Exact(name)])?
    };
    Some(Named::Host(hosts, path.to_owned()))
}
