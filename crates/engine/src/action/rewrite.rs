//! From an endpoint's answer to ours: which fields pass, and how Location, Refresh and Set-Cookie change.
//!
//! Owns: hiding, rewriting, and obeying `X-Accel-*`.
//! Driven by: `action::proxy` and `action::fastcgi`, once the final head is here.

use weir_http::HeaderId;
use weir_http::semantics::FieldSource as _;
use weir_plan::settings::{CookieFlags, SameSite};
use weir_plan::{CookieAttribute, CookieRewrite, HeaderSet, Proxy, RedirectRewrite, TextMatch};

use crate::eval::{render, render_with_groups, text};
use crate::exchange::fields::Fields;
use crate::exchange::{Exchange, Next, errors};
use crate::worker::Installed;

/// Fields of which an answer has one: nginx passes the first of several, and drops the others.
const SINGLE: u128 = HeaderId::ContentType.bit()
    | HeaderId::Date.bit()
    | HeaderId::Server.bit()
    | HeaderId::Location.bit()
    | HeaderId::Refresh.bit()
    | HeaderId::LastModified.bit()
    | HeaderId::ETag.bit()
    | HeaderId::Expires.bit();

/// Fills the answer's fields from the endpoint's, without those that are hidden or end at this hop.
pub(crate) fn pass_fields(exchange: &mut Exchange, hidden: &HeaderSet) {
    let first_only = exchange.site().conduct.first_of_several;
    // What the exchange had set before (an authentication's challenge does not get here) is not the endpoint's.
    let response = &mut exchange.response;
    let single = if first_only { SINGLE } else { 0 };
    response.fields.pass_on(&response.upstream_fields, hidden, single);
}

/// [`pass_fields`] with the proxy's rewrites.
pub(crate) fn take_fields(exchange: &mut Exchange, proxy: &Proxy) {
    pass_fields(exchange, &proxy.hide_headers);
    if !proxy.redirects.is_empty() {
        let mut fields = std::mem::take(&mut exchange.response.fields);
        fields.rewrite(HeaderId::Location, |value| {
            // What was rewritten counts as Weir's own redirect, so it becomes absolute where those do.
            let to = redirect(exchange, &proxy.redirects, value)?;
            Some(crate::answer::respond::absolute(exchange, &to).into_owned())
        });
        fields.rewrite(HeaderId::Refresh, |value| refresh(exchange, &proxy.redirects, value));
        exchange.response.fields = fields;
    }
    if !proxy.cookie_rewrites.is_empty() {
        let mut fields = std::mem::take(&mut exchange.response.fields);
        fields.rewrite(HeaderId::SetCookie, |value| cookie(exchange, &proxy.cookie_rewrites, value));
        exchange.response.fields = fields;
    }
    if exchange.response.status == 101
        && let Some(protocol) = exchange.response.upstream_fields.first(HeaderId::Upgrade).map(<[u8]>::to_vec)
    {
        exchange.response.fields.push_id(HeaderId::Upgrade, &protocol);
    }
}

fn redirect(exchange: &Exchange, rules: &[RedirectRewrite], value: &[u8]) -> Option<Vec<u8>> {
    rules.iter().find_map(|rule| replace_head(exchange, &rule.from, &rule.to, value))
}

/// `Refresh: 5; url=http://…`: the part behind `url=`.
fn refresh(exchange: &Exchange, rules: &[RedirectRewrite], value: &[u8]) -> Option<Vec<u8>> {
    let at = value.windows(4).position(|window| window.eq_ignore_ascii_case(b"url="))? + 4;
    let rewritten = redirect(exchange, rules, &value[at..])?;
    Some([&value[..at], &rewritten].concat())
}

/// A value whose beginning (or match) is replaced.
fn replace_head(
    exchange: &Exchange,
    from: &TextMatch,
    to: &weir_plan::Template,
    value: &[u8],
) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match from {
        TextMatch::Prefix(prefix) => {
            let prefix = text(exchange, prefix);
            let rest = value.strip_prefix(&prefix[..])?;
            render(exchange, to, &mut out);
            out.extend_from_slice(rest);
        }
        TextMatch::Regex(pattern) => {
            let captures = pattern.matches(value).unwrap_or_else(|why| {
                exchange.slots.doubt(why);
                None
            })?;
            render_with_groups(exchange, to, &captures, value, &mut out);
        }
    }
    Some(out)
}

fn cookie(exchange: &Exchange, rules: &[CookieRewrite], value: &[u8]) -> Option<Vec<u8>> {
    // What has no value is no cookie to nginx.
    let pair = value.split(|&b| b == b';').next().unwrap_or_default();
    memchr::memchr(b'=', pair)?;
    let mut changed = false;
    let mut parts: Vec<Vec<u8>> = value
        .split(|&b| b == b';')
        .enumerate()
        .map(|(at, part)| {
            if at == 0 {
                return part.to_vec();
            }
            match attribute(exchange, rules, part) {
                Some(new) => {
                    changed = true;
                    new
                }
                None => part.to_vec(),
            }
        })
        .collect();
    if let Some(flags) = flags_of(exchange, rules, &parts[0]) {
        put_flags(&mut parts, flags);
        changed = true;
    }
    // One that is changed is written anew.
    let parts: Vec<&[u8]> =
        parts.iter().map(|part| part.trim_ascii()).filter(|part| !part.is_empty()).collect();
    changed.then(|| parts.join(&b"; "[..]))
}

/// What the first rule that finds a cookie by its name makes of its flags.
fn flags_of(exchange: &Exchange, rules: &[CookieRewrite], pair: &[u8]) -> Option<CookieFlags> {
    let name = pair.split(|&b| b == b'=').next().unwrap_or_default().trim_ascii();
    rules.iter().find_map(|rule| {
        let CookieAttribute::Flags(flags) = rule.attribute else { return None };
        let found = match &rule.from {
            TextMatch::Prefix(own) => text(exchange, own).eq_ignore_ascii_case(name),
            TextMatch::Regex(pattern) => pattern
                .matches(name)
                .unwrap_or_else(|why| {
                    exchange.slots.doubt(why);
                    None
                })
                .is_some(),
        };
        found.then_some(flags)
    })
}

fn put_flags(parts: &mut Vec<Vec<u8>>, flags: CookieFlags) {
    let mut put = |name: &str, new: Option<&[u8]>| {
        let is_it = |part: &Vec<u8>| {
            let own = part.split(|&b| b == b'=').next().unwrap_or_default().trim_ascii();
            own.eq_ignore_ascii_case(name.as_bytes())
        };
        let first = parts.first().cloned().unwrap_or_default();
        let mut rest: Vec<Vec<u8>> = parts.drain(..).skip(1).filter(|part| !is_it(part)).collect();
        parts.push(first);
        parts.append(&mut rest);
        parts.extend(new.map(|new| [b" ", new].concat()));
    };
    if let Some(on) = flags.secure {
        put("secure", on.then_some(b"Secure"));
    }
    if let Some(on) = flags.http_only {
        put("httponly", on.then_some(b"HttpOnly"));
    }
    match flags.same_site {
        None => {}
        Some(SameSite::Away) => put("samesite", None),
        Some(SameSite::Strict) => put("samesite", Some(b"SameSite=Strict")),
        Some(SameSite::Lax) => put("samesite", Some(b"SameSite=Lax")),
        Some(SameSite::None) => put("samesite", Some(b"SameSite=None")),
    }
}

fn attribute(exchange: &Exchange, rules: &[CookieRewrite], part: &[u8]) -> Option<Vec<u8>> {
    let equals = part.iter().position(|&b| b == b'=')?;
    let name = part[..equals].trim_ascii();
    let wanted = if name.eq_ignore_ascii_case(b"domain") {
        CookieAttribute::Domain
    } else if name.eq_ignore_ascii_case(b"path") {
        CookieAttribute::Path
    } else {
        return None;
    };
    let value = part[equals + 1..].trim_ascii();
    let rule = rules.iter().filter(|rule| rule.attribute == wanted);
    let new = rule.into_iter().find_map(|rule| match (&rule.from, wanted) {
        (TextMatch::Prefix(from), CookieAttribute::Domain) => {
            // A leading dot of a domain means nothing (RFC 6265 §5.2.3): it stays where it is.
            let undotted = |name: Vec<u8>| name.strip_prefix(b".").map(<[u8]>::to_vec).unwrap_or(name);
            let (dot, name) = match value.strip_prefix(b".") {
                Some(name) => (&b"."[..], name),
                None => (&b""[..], value),
            };
            let found = undotted(text(exchange, from)).eq_ignore_ascii_case(name);
            found.then(|| [dot, &undotted(text(exchange, &rule.to))].concat())
        }
        (from, _) => replace_head(exchange, from, &rule.to, value),
    })?;
    Some([&part[..=equals], &new].concat())
}

/// Obeys `X-Accel-*`: a redirect inside, a rate, compression's charset. The fields do not reach the client.
pub(crate) fn accelerated<L>(
    exchange: &mut Exchange,
    installed: &Installed,
    proxy: &Proxy,
) -> Option<Next<L>> {
    if !proxy.accel {
        return None;
    }
    obey(exchange, installed, &proxy.ignore_headers)
}

/// Whether the endpoint is read ahead of a slow client: the settings say so, and `X-Accel-Buffering` may know better.
pub(crate) fn buffering(exchange: &Exchange, proxy: &Proxy) -> bool {
    let id = HeaderId::XAccelBuffering;
    let upstream = &exchange.response.upstream_fields;
    if proxy.accel && upstream.has_any(id.bit()) && !proxy.ignore_headers.contains(id, id.name().as_bytes()) {
        match upstream.first(id) {
            Some(value) if value.eq_ignore_ascii_case(b"no") => return false,
            Some(value) if value.eq_ignore_ascii_case(b"yes") => return true,
            _ => {}
        }
    }
    proxy.settings.buffering
}

/// [`accelerated`] for any gateway.
pub(crate) fn obey<L>(
    exchange: &mut Exchange,
    installed: &Installed,
    ignored: &HeaderSet,
) -> Option<Next<L>> {
    if !(&exchange.response.upstream_fields).has_any(ACCEL) {
        return None;
    }
    let upstream = std::mem::take(&mut exchange.response.upstream_fields);
    let next = obey_fields(exchange, installed, ignored, &upstream);
    exchange.response.upstream_fields = upstream;
    next
}

/// The fields that are obeyed.
const ACCEL: u128 = HeaderId::XAccelLimitRate.bit() | HeaderId::XAccelRedirect.bit();

fn obey_fields<L>(
    exchange: &mut Exchange,
    installed: &Installed,
    ignored: &HeaderSet,
    upstream: &Fields,
) -> Option<Next<L>> {
    let value = |id: HeaderId| upstream.first(id).filter(|_| !ignored.contains(id, id.name().as_bytes()));
    if let Some(rate) =
        value(HeaderId::XAccelLimitRate).and_then(|value| std::str::from_utf8(value).ok()?.parse().ok())
    {
        exchange.limit_rate = Some(rate);
    }
    let target = value(HeaderId::XAccelRedirect)?;
    exchange.response.reason = None;
    exchange.edit_kept_fields(upstream);
    if target.starts_with(b"@") {
        let Some(route) = installed.plan.site(exchange.site).named_route(target) else {
            let shown = target.escape_ascii();
            errors::error(exchange, &format!("could not find named location \"{shown}\""));
            return Some(Next::Status(500));
        };
        return Some(Next::Named(route));
    }
    let Some((path, query)) = weir_http::uri::internal_target(target) else {
        errors::unsafe_uri(exchange, target);
        return Some(Next::Status(404));
    };
    // A named route takes the method as it is; so nginx.
    crate::eval::edit::as_get(exchange);
    Some(Next::Internal { path, query })
}

impl Exchange {
    /// Fields of an endpoint's answer that survive its redirect inside (nginx documents them).
    fn edit_kept_fields(&mut self, upstream: &Fields) {
        self.redirect_fields.clear();
        for field in upstream.iter() {
            use HeaderId as H;
            if matches!(
                field.id,
                H::ContentType
                    | H::ContentDisposition
                    | H::AcceptRanges
                    | H::SetCookie
                    | H::CacheControl
                    | H::Expires
            ) {
                self.redirect_fields.push_known(field.id, field.name, field.value);
            }
        }
    }
}
