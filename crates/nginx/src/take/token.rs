//! Words about tokens and what has to hold of variables (nginx.org: ngx_http_auth_jwt_module, ngx_http_auth_require_module).
//!
//! Owns: their arguments. What they make together is `token_parts`'.

use weir_diag::{Diagnostic, Span};
use weir_model::settings::TokenKind;
use weir_model::{Definition, Requirement, Template, TokenKeys, Var};

use super::maps::{define, variable_at};
use super::token_parts::Written;
use super::{Lowering, Scope};
use crate::tree::Directive;
use crate::value;

/// `auth_jwt string [token=$variable] | off [token=$variable]`.
pub(crate) fn auth_jwt(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let token = match d.args.get(1).map(|word| (word, word.text.strip_prefix("token="))) {
        None => None,
        Some((word, Some(text))) if text.starts_with('$') => Some(lo.template_of(text, word)),
        Some(_) => return lo.bad_value(d, 1, "`token=` with a variable, such as `token=$cookie_token`"),
    };
    let realm = (d.arg(0) != "off").then(|| lo.template(&d.args[0]));
    let none = realm.is_none() && token.is_none();
    s.parts().token.auth = (!none).then_some(Written { realm, token, span: d.span });
}

pub(crate) fn kind(_: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    s.parts().token.kind = match d.arg(0) {
        "encrypted" => TokenKind::Encrypted,
        "nested" => TokenKind::Nested,
        _ => TokenKind::Signed,
    };
}

/// A file of keys; relative to the folder of the main file.
pub(crate) fn key_file(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let file = lo.conf_file(&d.args[0]);
    let level = s.level;
    s.parts().token.keys.push(level, TokenKeys::File(file));
}

/// A path where keys are asked for.
pub(crate) fn key_request(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    if !d.arg(0).starts_with(['/', '$']) {
        return lo.bad_value(d, 0, "a path that begins with `/`");
    }
    let path = lo.template(&d.args[0]);
    let level = s.level;
    s.parts().token.keys.push(level, TokenKeys::Request(path));
}

pub(crate) fn key_cache(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    match value::time(d.arg(0)) {
        Some(time) => s.parts().token.cache = (!time.is_zero()).then_some((time, d.span)),
        None => lo.bad_value(d, 0, "a time such as `10m`"),
    }
}

pub(crate) fn leeway(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    match value::time(d.arg(0)) {
        Some(time) => s.parts().token.leeway = time,
        None => lo.bad_value(d, 0, "a time such as `30s`"),
    }
}

/// `auth_jwt_require $value … [error=401|403]`.
pub(crate) fn jwt_require(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let taken = requirement(lo, d, 401, "`error=401` or `error=403`", |status| matches!(status, 401 | 403));
    let level = s.level;
    taken.into_iter().for_each(|taken| s.parts().token.require.push(level, taken));
}

/// `auth_require $value … [error=4xx|5xx]`.
pub(crate) fn require(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let taken = requirement(lo, d, 403, "`error=` with a status from 400 to 599", |status| {
        (400..=599).contains(&status) && !matches!(status, 444 | 499)
    });
    let level = s.level;
    taken.into_iter().for_each(|taken| s.parts().token.always.push(level, taken));
}

fn requirement(
    lo: &mut Lowering<'_>,
    d: &Directive,
    default: u16,
    wanted: &str,
    fits: impl Fn(u16) -> bool,
) -> Option<Requirement> {
    let (mut values, mut status) = (Vec::new(), default);
    for (n, word) in d.args.iter().enumerate() {
        if let Some(text) = word.text.strip_prefix("error=") {
            match text.parse().ok().filter(|status| fits(*status)) {
                Some(told) => status = told,
                None => {
                    lo.bad_value(d, n, wanted);
                    return None;
                }
            }
            continue;
        }
        if !word.text.starts_with('$') {
            lo.bad_value(d, n, "a value that begins with a variable");
            return None;
        }
        values.push(lo.template(word));
    }
    if values.is_empty() {
        let text = format!("`{}` names no value", d.name());
        lo.report(
            Diagnostic::error("nginx::arguments", text).at(d.span).help("name a variable, such as `$ok`"),
        );
        return None;
    }
    Some(Requirement { values, status })
}

/// `auth_jwt_claim_set $variable name …`.
pub(crate) fn claim_set(lo: &mut Lowering<'_>, d: &Directive) {
    set(lo, d, Var::TokenClaim);
}

/// `auth_jwt_header_set $variable name …`.
pub(crate) fn header_set(lo: &mut Lowering<'_>, d: &Directive) {
    set(lo, d, Var::TokenHeader);
}

fn set(lo: &mut Lowering<'_>, d: &Directive, part: fn(Vec<String>) -> Var) {
    let Some(name) = variable_at(lo, d, 0) else { return };
    let path = d.args[1..].iter().map(|word| word.text.clone()).collect();
    define(lo, d, &name, Definition::Converted { source: Template::var(part(path)), steps: Vec::new() });
}

/// Tokens without keys would hold unverified, which nginx lets pass; keys that depend on a request are not kept.
pub(crate) fn check(lo: &mut Lowering<'_>, s: &Scope) {
    let token = &s.parts.token;
    let Some(auth) = token.auth.as_ref().filter(|auth| auth.realm.is_some()) else { return };
    let told = |lo: &Lowering<'_>, code: &str, span: Span| {
        lo.diagnostics.iter().any(|d| d.code == code && d.primary.as_ref().is_some_and(|l| l.span == span))
    };
    if token.keys.items().is_empty() && !told(lo, "nginx::auth-without-keys", auth.span) {
        let text = "`auth_jwt` without `auth_jwt_key_file` or `auth_jwt_key_request` verifies nothing";
        let found = Diagnostic::error("nginx::auth-without-keys", text).at(auth.span);
        lo.report(found.help("NGINX Plus accepts any token here; name the keys"));
    }
    let varies = |keys: &TokenKeys| {
        let (TokenKeys::File(text) | TokenKeys::Request(text)) = keys;
        text.as_literal().is_none()
    };
    if let Some((_, span)) = token.cache.filter(|_| token.keys.items().iter().any(varies))
        && !told(lo, "nginx::bad-value", span)
    {
        let text = "`auth_jwt_key_cache` does not go with keys whose place has variables";
        lo.report(Diagnostic::error("nginx::bad-value", text).at(span));
    }
}
