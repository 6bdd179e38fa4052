//! What CGI calls script and path info.
//!
//! Owns: splitting the path of a route that goes to an application server.
//! Driven by: variables; the action, which looks at what the path came to.

use std::borrow::Cow;
use std::ops::Range;

use weir_expr::settings::PathReading;
use weir_http::uri;
use weir_plan::{Action, FastCgi};

use crate::exchange::Exchange;

/// The path as an application is told it: decoded, whatever rules see.
pub(crate) fn path(exchange: &Exchange) -> Cow<'_, [u8]> {
    let path = &exchange.request.path[..];
    if is_decoded(exchange) || !path.contains(&b'%') {
        return path.into();
    }
    let mut out = Vec::with_capacity(path.len());
    uri::unescape(path, &mut out);
    out.into()
}

/// Whether the path may lead out of a folder: a rewrite made it, or it was not read as one that may not.
pub(crate) fn may_be_unsafe(exchange: &Exchange) -> bool {
    !exchange.request.path_is_raw || !is_decoded(exchange)
}

fn is_decoded(exchange: &Exchange) -> bool {
    exchange.site_if_any().is_none_or(|site| site.client.paths == PathReading::Decoded)
}

/// Appends `$fastcgi_script_name`.
pub(crate) fn append_script_name(exchange: &Exchange, out: &mut Vec<u8>) {
    let path = path(exchange);
    let Some(Action::FastCgi(fastcgi)) = exchange.route_if_any().map(|route| &route.action) else {
        return out.extend_from_slice(&path);
    };
    if let Some((script, _)) = split(exchange, fastcgi, &path) {
        out.extend_from_slice(&path[script]);
        return;
    }
    out.extend_from_slice(&path);
    if path.ends_with(b"/")
        && let Some(index) = &fastcgi.index
    {
        out.extend_from_slice(index.as_bytes());
    }
}

/// Appends `$fastcgi_path_info`.
pub(crate) fn append_path_info(exchange: &Exchange, out: &mut Vec<u8>) {
    let path = path(exchange);
    if let Some(Action::FastCgi(fastcgi)) = exchange.route_if_any().map(|route| &route.action)
        && let Some((_, info)) = split(exchange, fastcgi, &path)
    {
        out.extend_from_slice(&path[info]);
    }
}

/// Where script and path info are, where the path is split.
fn split(exchange: &Exchange, fastcgi: &FastCgi, path: &[u8]) -> Option<(Range<usize>, Range<usize>)> {
    let captures = fastcgi.split_path_info.as_ref()?.matches(path).unwrap_or_else(|why| {
        exchange.slots.doubt(why);
        None
    })?;
    let range = |group| captures.range(group).unwrap_or_default();
    Some((range(1), range(2)))
}
