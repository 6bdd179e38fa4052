//! What CGI calls script and path info.
//!
//! Owns: splitting the path of a route that goes to an application server.
//! Driven by: variables.

use weir_plan::{Action, FastCgi};

use crate::exchange::Exchange;

/// Appends `$fastcgi_script_name`.
pub(crate) fn append_script_name(exchange: &Exchange, out: &mut Vec<u8>) {
    let Some(Action::FastCgi(fastcgi)) = exchange.route_if_any().map(|route| &route.action) else {
        return out.extend_from_slice(&exchange.request.path);
    };
    if let Some((script, _)) = split(exchange, fastcgi) {
        out.extend_from_slice(script);
        return;
    }
    out.extend_from_slice(&exchange.request.path);
    if exchange.request.path.ends_with(b"/")
        && let Some(index) = &fastcgi.index
    {
        out.extend_from_slice(index.as_bytes());
    }
}

/// Appends `$fastcgi_path_info`.
pub(crate) fn append_path_info(exchange: &Exchange, out: &mut Vec<u8>) {
    if let Some(Action::FastCgi(fastcgi)) = exchange.route_if_any().map(|route| &route.action)
        && let Some((_, info)) = split(exchange, fastcgi)
    {
        out.extend_from_slice(info);
    }
}

/// Script and path info, where the path is split.
fn split<'e>(exchange: &'e Exchange, fastcgi: &FastCgi) -> Option<(&'e [u8], &'e [u8])> {
    let path = &exchange.request.path[..];
    let captures = fastcgi.split_path_info.as_ref()?.matches(path).unwrap_or_else(|why| {
        exchange.slots.doubt(why);
        None
    })?;
    Some((captures.text(1, path), captures.text(2, path)))
}
