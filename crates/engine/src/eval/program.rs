//! The rule program's interpreter.
//!
//! Owns: running instructions on one exchange.
//! Never: waits or does I/O, but for a password to be verified ([`run_waiting`]); what else has to wait is handed back as a
//! [`Verdict`].
//! Driven by: `walk`, once for the site and once for each route entered.
//! Why: programs only go forward, so every one ends; what goes back (route searches) is counted by the walk.

use std::sync::Arc;

use weir_expr::Normalizer;
use weir_plan::{BasicAuth, MatchFailed, Op, Respond, RewriteFlag, RouteIx, TargetPart};

use super::{condition, edit, keep_match, render, text, users};
use crate::exchange::{Asking, Exchange, Traffic};
use crate::worker::passwords;

/// What a program came to.
pub(crate) enum Verdict {
    /// Go on with the route.
    Go,
    /// Answer.
    Respond(Arc<Respond>),
    /// Redirect the client.
    Redirect {
        /// 301 or 302.
        status: u16,
        /// Where to.
        location: Vec<u8>,
    },
    /// Close without an answer; logs show this status, if any.
    Close(Option<u16>),
    /// Wait, then answer.
    Tarpit(u64, Arc<Respond>),
    /// Ask for credentials.
    Unauthorized(Arc<BasicAuth>),
    /// Go on with another route and its program.
    Enter(RouteIx),
    /// Internal error: a rewrite led to a path that cannot be.
    Failed,
    /// The client's fault: a rule wants no such target.
    Malformed,
    /// Too many passwords are being verified.
    Overloaded,
    /// A password is to be verified first: `exchange.asking` says which, and where the program stands.
    Waits,
    /// A pattern gave up, so that what the rules want is not known: refuse.
    Undecided(MatchFailed),
}

/// How a list of instructions ended.
enum Flow {
    Next,
    Stop,
    Wait,
    Done(Verdict),
}

/// Runs a program. `exchange.path_changed` says afterwards whether a route must be searched again.
pub(crate) fn run(exchange: &mut impl Traffic, program: &[Op]) -> Verdict {
    if let Some(exchange) = exchange.exchange_mut() {
        exchange.asking = None;
    }
    verdict(run_list(exchange, program, 0))
}

/// Runs what programs want to be run on the response. Whether it has a body they do not change.
#[cold]
pub(crate) fn run_after(exchange: &mut Exchange) {
    let status = exchange.response.status;
    for program in std::mem::take(&mut exchange.after).iter().rev() {
        if let Verdict::Undecided(why) = run(exchange, program) {
            exchange.slots.doubt(why);
        }
    }
    let bodiless = |status| matches!(status, 100..200 | 204 | 304);
    if bodiless(status) != bodiless(exchange.response.status) {
        exchange.response.status = status;
    }
}

/// As [`run`], and waits where a condition asks for a password that has to be verified.
pub(crate) async fn run_waiting(exchange: &mut Exchange, program: &[Op]) -> Verdict {
    match run(exchange, program) {
        Verdict::Waits => Box::pin(go_on(exchange, program)).await,
        verdict => verdict,
    }
}

async fn go_on(exchange: &mut Exchange, program: &[Op]) -> Verdict {
    while let Some(asking) = exchange.asking.take() {
        let worker = exchange.worker.clone();
        let Asking { question, place } = *asking;
        if passwords::verify(&worker.shared.passwords, &worker.passwords, question).await.is_none() {
            return Verdict::Overloaded;
        }
        match verdict(resume(exchange, program, &place)) {
            Verdict::Waits => {}
            verdict => return verdict,
        }
    }
    Verdict::Overloaded
}

fn verdict(flow: Flow) -> Verdict {
    match flow {
        Flow::Next | Flow::Stop => Verdict::Go,
        Flow::Wait => Verdict::Waits,
        Flow::Done(verdict) => verdict,
    }
}

/// Runs a list from an instruction on.
fn run_list<T: Traffic>(exchange: &mut T, program: &[Op], from: usize) -> Flow {
    for (at, op) in program.iter().enumerate().skip(from) {
        let flow = step(exchange, op).unwrap_or_else(undecided);
        if let Some(why) = exchange.slots.take_doubt() {
            return undecided(why);
        }
        match flow {
            Flow::Next if !is_asking(exchange) => {}
            Flow::Next | Flow::Wait => return waits(exchange, at),
            other => return other,
        }
    }
    Flow::Next
}

/// Notes where a list stands that has to wait.
fn waits(exchange: &mut impl Traffic, at: usize) -> Flow {
    if let Some(asking) = exchange.exchange_mut().and_then(|exchange| exchange.asking.as_deref_mut()) {
        asking.place.push(at);
    }
    Flow::Wait
}

/// Whether a condition has to wait for a password to be verified.
fn is_asking(exchange: &impl Traffic) -> bool {
    exchange.exchange().is_some_and(|exchange| exchange.asking.is_some())
}

/// Goes on where a program stood; the instruction that had to wait is run again, and has done nothing yet.
fn resume(exchange: &mut Exchange, program: &[Op], place: &[usize]) -> Flow {
    let Some((&at, within)) = place.split_last() else { return Flow::Next };
    let Some((&branch, within)) = within.split_last() else { return run_list(exchange, program, at) };
    let Some(Op::When { then, otherwise, .. }) = program.get(at) else { return Flow::Next };
    let taken = if branch == 1 { then } else { otherwise };
    match resume(exchange, taken, within) {
        Flow::Next => run_list(exchange, program, at + 1),
        Flow::Wait => {
            waits(exchange, branch);
            waits(exchange, at)
        }
        other => other,
    }
}

#[cold]
fn undecided(why: MatchFailed) -> Flow {
    Flow::Done(Verdict::Undecided(why))
}

/// An instruction that sessions have as well as requests.
fn step<T: Traffic>(exchange: &mut T, op: &Op) -> Result<Flow, MatchFailed> {
    match op {
        Op::When { condition, then, otherwise } => {
            let holds = condition::holds(exchange, condition)?;
            if is_asking(exchange) {
                return Ok(Flow::Wait);
            }
            let flow = run_list(exchange, if holds { then } else { otherwise }, 0);
            return Ok(if let Flow::Wait = flow { waits(exchange, usize::from(holds)) } else { flow });
        }
        Op::Set { slot, value } => {
            let value = text(exchange, value);
            exchange.slots.set(*slot, &value);
        }
        Op::Stick(op) => super::stick_rules::run(exchange, op),
        Op::Close(status) => return Ok(Flow::Done(Verdict::Close(*status))),
        Op::Stop => return Ok(Flow::Stop),
        // A session has nothing that these could change: what a rule wants cannot be done, so it is not carried.
        op => match exchange.exchange_mut() {
            Some(exchange) => return request_step(exchange, op),
            None => return Ok(Flow::Done(Verdict::Close(None))),
        },
    }
    Ok(Flow::Next)
}

/// An instruction about a request.
fn request_step(exchange: &mut Exchange, op: &Op) -> Result<Flow, MatchFailed> {
    match op {
        Op::When { .. } | Op::Set { .. } | Op::Stick(_) | Op::Close(_) | Op::Stop => {}
        Op::SetLimitRate(value) => exchange.limit_rate = Some(parse_size(&text(exchange, value))),
        Op::Rewrite { pattern, replacement, keep_query, flag } => {
            let subject = std::mem::take(&mut exchange.request.path);
            let matched = pattern.matches(&subject);
            if let Ok(Some(captures)) = &matched {
                keep_match(exchange, pattern, captures, &subject);
            }
            exchange.request.path = subject;
            if matched?.is_some() {
                return Ok(rewrite(exchange, replacement, *keep_query, *flag));
            }
        }
        Op::SetPath(value) => {
            let value = text(exchange, value);
            return Ok(set_target(exchange, value, None));
        }
        Op::SetQuery(value) => {
            let value = text(exchange, value);
            exchange.request.query = value;
        }
        Op::SetTarget(value) => {
            let value = text(exchange, value);
            let (path, query) = split_query(&value);
            let (path, query) = (path.to_vec(), query.map(<[u8]>::to_vec));
            return Ok(set_target(exchange, path, Some(query.unwrap_or_default())));
        }
        Op::Normalize(normalizer) => return Ok(normalize(exchange, *normalizer)),
        Op::SetMethod(value) => {
            let value = text(exchange, value);
            if weir_http::scan::is_token(&value) {
                exchange.request.method = weir_http::Method::of(&value);
                exchange.request.method_text = value;
            }
        }
        Op::ReplaceTarget { part, pattern, with } => return replace_target(exchange, *part, pattern, with),
        Op::EditRequest(edit) => edit::request(exchange, edit)?,
        Op::AfterResponse(program) => exchange.after.push(program.clone()),
        Op::Respond(respond) => return Ok(Flow::Done(Verdict::Respond(respond.clone()))),
        Op::Tarpit { millis, respond } => return Ok(Flow::Done(Verdict::Tarpit(*millis, respond.clone()))),
        Op::RequireUser(auth) => {
            if !users::holds(exchange, auth) && exchange.asking.is_none() {
                return Ok(Flow::Done(Verdict::Unauthorized(auth.clone())));
            }
        }
        Op::Adopt(route) => exchange.route = *route,
        Op::Enter(route) => return Ok(Flow::Done(Verdict::Enter(*route))),
        Op::CaptureRequestHeader { name, length, slot } => {
            let value = exchange.request.fields.iter().rfind(|field| name.is(field.id, field.name));
            let value = value.map(|field| field.value[..field.value.len().min(*length)].into());
            put(&mut exchange.captured.request, usize::from(*slot), value);
        }
        Op::EditAnswer(edit) => edit::answer(exchange, edit),
        Op::SetStatus { status, reason } => {
            exchange.response.status = *status;
            exchange.response.reason = reason.as_deref().map(|reason| reason.as_bytes().into());
        }
        Op::CaptureValue { value, length, slot, response } => {
            let mut value = text(exchange, value);
            value.truncate(*length);
            let captured = &mut exchange.captured;
            let list = if *response { &mut captured.response } else { &mut captured.request };
            put(list, usize::from(*slot), (!value.is_empty()).then(|| value.into()));
        }
        Op::EditList { list, edit, key, value } => {
            let (key, value) = (text(exchange, key), text(exchange, value));
            exchange.installed.prepared.keys.edit(*list, *edit, &key, &value);
        }
        Op::UseMemory(cache) => super::memory::look(exchange, *cache),
        Op::StoreInMemory(cache) => super::memory::store(exchange, *cache),
        Op::SkipLog => exchange.unlogged = true,
        Op::CaptureResponseHeader { name, length, slot } => {
            exchange.captured.wanted.push((name.lower.as_bytes().into(), *length, *slot));
        }
    }
    Ok(Flow::Next)
}

fn put(list: &mut Vec<Option<Box<[u8]>>>, at: usize, value: Option<Box<[u8]>>) {
    if list.len() <= at {
        list.resize(at + 1, None);
    }
    list[at] = value;
}

/// nginx's `rewrite` after a match.
fn rewrite(
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

fn split_query(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'?', target) {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    }
}

/// Sets the path as received (HAProxy's meaning): it goes upstream as it is, and `path` follows it.
fn set_target(exchange: &mut Exchange, raw_path: Vec<u8>, query: Option<Vec<u8>>) -> Flow {
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
fn normalize(exchange: &mut Exchange, normalizer: Normalizer) -> Flow {
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
    set_target(exchange, path, query)
}

fn replace_target(
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
    Ok(set_target(exchange, path.to_vec(), query))
}

/// A size with an optional unit (`512`, `10k`, `1m`); what is none counts as no limit.
pub(crate) fn parse_size(value: &[u8]) -> u64 {
    let text = std::str::from_utf8(value).unwrap_or_default().trim();
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    digits.parse::<u64>().map_or(0, |n| n.saturating_mul(unit))
}
