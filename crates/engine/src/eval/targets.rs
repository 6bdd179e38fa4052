//! Instructions that change the target of a request.
//!
//! Owns: nginx's `rewrite`, HAProxy's `set-path` and its kin, its normalizers and `replace-path` and its kin.
//! Never: searches a route for the target that it makes; the walk does.
//! Driven by: the interpreter of programs.

use weir_expr::Normalizer;
use weir_plan::{MatchFailed, RewriteFlag, TargetPart};

use super::program::{Flow, Verdict};
use super::{keep_match, render};
use crate::exchange::Exchange;

/// nginx's `rewrite` after a match.
pub(super) fn rewrite(
    exchange: &mut Exchange,
    replacement: &weir_plan::Template,
    keep_query: bool,
    flag: RewriteFlag,
) -> Flow {
    let (mut target, args) = render_replacement(exchange, replacement, flag);
    match flag {
        RewriteFlag::Redirect | RewriteFlag::Permanent => {
            if keep_query && !exchange.request.query.is_empty() {
                target.push(if args.is_some() { b'&' } else { b'?' });
                target.extend_from_slice(&exchange.request.query);
            }
            let status = if flag == RewriteFlag::Permanent { 301 } else { 302 };
            Flow::Done(Verdict::Redirect { status, location: target })
        }
        _ => {
            let mut query = args.map_or_else(Vec::new, |at| target.split_off(at));
            if keep_query && !exchange.request.query.is_empty() {
                // As in nginx also where the replacement's own query came out empty.
                query.push(b'&');
                query.extend_from_slice(&exchange.request.query);
            }
            if !query.is_empty() {
                // What separates it from the path, or from nothing.
                query.remove(0);
            }
            exchange.request.path = target;
            if exchange.request.path.is_empty() {
                return Flow::Done(Verdict::Failed);
            }
            exchange.request.query = query;
            exchange.request.path_is_raw = false;
            exchange.path_changed = flag != RewriteFlag::Break;
            exchange.rewritten = true;
            // nginx: what a rewrite changed may enter internal locations.
            exchange.internal = true;
            if flag == RewriteFlag::Continue { Flow::Next } else { Flow::Stop }
        }
    }
}

/// The replacement's text, and where its query begins, at a `?`: one that the configuration has. One that a variable
/// brought belongs to the path. Groups of the path hold decoded bytes: in a redirect, and in what becomes the query, they
/// are escaped again. As in nginx that is left out for a path that came without escapes.
fn render_replacement(
    exchange: &Exchange,
    replacement: &weir_plan::Template,
    flag: RewriteFlag,
) -> (Vec<u8>, Option<usize>) {
    let redirects = matches!(flag, RewriteFlag::Redirect | RewriteFlag::Permanent);
    let came_escaped = exchange.request.target.iter().any(|byte| matches!(byte, b'%' | b'+'));
    let mut args = None;
    let mut out = Vec::new();
    for piece in &replacement.pieces {
        match piece {
            weir_plan::Piece::Var(weir_expr::Var::Capture(group), _)
                if redirects || args.is_some() && came_escaped =>
            {
                let value = exchange.captures.group(usize::from(*group)).unwrap_or_default();
                let kind =
                    if args.is_some() { weir_http::uri::Escape::Args } else { weir_http::uri::Escape::Uri };
                weir_http::uri::escape(kind, value, &mut out);
            }
            piece => {
                if let (None, weir_plan::Piece::Literal(text)) = (args, piece) {
                    args = text.find('?').map(|at| out.len() + at);
                }
                render(exchange, &weir_plan::Template { pieces: vec![piece.clone()] }, &mut out);
            }
        }
    }
    (out, args)
}

pub(super) fn split_query(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'?', target) {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    }
}

/// Sets the path as received (HAProxy's meaning): it goes upstream as it is, and `path` follows it.
pub(super) fn set(exchange: &mut Exchange, raw_path: Vec<u8>, query: Option<Vec<u8>>) -> Flow {
    if !raw_path.starts_with(b"/") && raw_path != b"*" {
        return Flow::Done(Verdict::Failed);
    }
    let client = exchange.site_if_any().map(|site| &site.client);
    let (reading, merge) =
        client.map_or_else(Default::default, |client| (client.paths, client.merge_slashes));
    if exchange.set_raw_path(&raw_path, reading, merge).is_err() {
        return Flow::Done(Verdict::Failed);
    }
    if let Some(query) = query {
        exchange.request.query = query;
    }
    Flow::Next
}

/// HAProxy's `normalize-uri`: of what is to go upstream, path, query or both.
pub(super) fn normalize(exchange: &mut Exchange, normalizer: Normalizer) -> Flow {
    use weir_http::uri::normalizers as http;
    let request = &exchange.request;
    let whole = || {
        let mark: &[u8] = if request.query.is_empty() { b"" } else { b"?" };
        [&request.raw_path, mark, &request.query].concat()
    };
    let path = &request.raw_path;
    let (path, query) = match normalizer {
        Normalizer::MergeSlashes => (http::merge_slashes(path), None),
        Normalizer::StripDot => (http::strip_dot(path), None),
        Normalizer::StripDotDot { full } => (http::strip_dotdot(path, full), None),
        Normalizer::SortQuery => {
            exchange.request.query = http::sort_query(&exchange.request.query);
            return Flow::Next;
        }
        Normalizer::DecodeUnreserved { .. }
        | Normalizer::UppercaseEscapes { .. }
        | Normalizer::StripFragment
        | Normalizer::EncodeFragment => {
            let whole = whole();
            let changed = match normalizer {
                Normalizer::DecodeUnreserved { strict } => http::decode_unreserved(&whole, strict),
                Normalizer::UppercaseEscapes { strict } => http::uppercase_escapes(&whole, strict),
                Normalizer::StripFragment => Ok(http::strip_fragment(&whole).to_vec()),
                _ => Ok(http::encode_fragment(&whole).into_owned()),
            };
            let Ok(changed) = changed else { return Flow::Done(Verdict::Malformed) };
            let (path, query) = split_query(&changed);
            (path.to_vec(), Some(query.unwrap_or_default().to_vec()))
        }
    };
    set(exchange, path, query)
}

pub(super) fn replace(
    exchange: &mut Exchange,
    part: TargetPart,
    pattern: &weir_plan::Pattern,
    with: &weir_plan::Template,
) -> Result<Flow, MatchFailed> {
    let request = &exchange.request;
    // As rules see it, or another spelling would pass by this one.
    let mut subject = request.path.clone();
    if part != TargetPart::Path && !request.query.is_empty() {
        subject.push(b'?');
        subject.extend_from_slice(&request.query);
    }
    let Some(captures) = pattern.matches(&subject)? else { return Ok(Flow::Next) };
    keep_match(exchange, pattern, &captures, &subject);
    let whole = captures.range(0).unwrap_or(0..subject.len());
    let mut replaced = subject[..whole.start].to_vec();
    render(exchange, with, &mut replaced);
    replaced.extend_from_slice(&subject[whole.end..]);
    let (path, query) = split_query(&replaced);
    let query = if part == TargetPart::Path { None } else { Some(query.unwrap_or_default().to_vec()) };
    Ok(set(exchange, path.to_vec(), query))
}
