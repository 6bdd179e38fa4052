//! The rule program's interpreter.
//!
//! Owns: running instructions on one exchange.
//! Never: waits or does I/O, but in [`run_waiting`], for what its instructions have to wait for; what else has to wait is
//! handed back as a [`Verdict`].
//! Driven by: `walk`, once for the site and once for each route entered.
//! Why: programs only go forward, so every one ends; what goes back (route searches) is counted by the walk.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use weir_expr::{AddressPart, End, KeptIn, KeptValue, OwnTimeout};
use weir_plan::{BasicAuth, MatchFailed, Op, Resolver, Respond, RouteIx};

use super::{condition, edit, keep_match, targets, text, users};
use crate::exchange::fields::Fields;
use crate::exchange::{
    Asking, Awaited, Downstream, Ending, Exchange, Phase, Session, Traffic, Value, errors, intake,
};
use crate::worker::watch::{Ends, Watch, Watched};
use crate::worker::{dns, passwords};

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
    /// Answer with this status; error pages apply.
    Status(u16),
    /// Too many passwords are being verified.
    Overloaded,
    /// It has to wait: `exchange.asking` says what for, and where the program stands.
    Waits,
    /// A pattern gave up, so that what the rules want is not known: refuse.
    Undecided(MatchFailed),
}

/// How a list of instructions ended.
pub(super) enum Flow {
    Next,
    Stop,
    Wait,
    Done(Verdict),
}

/// Runs a program. `exchange.path_changed` says afterwards whether a route must be searched again.
pub(crate) fn run(exchange: &mut impl Traffic, program: &[Op]) -> Verdict {
    exchange.asking = None;
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

/// As [`run`], and waits where an instruction has to.
pub(crate) async fn run_waiting<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    program: &[Op],
) -> Verdict {
    match run(exchange, program) {
        Verdict::Waits => Box::pin(go_on_with(exchange, down, program)).await,
        verdict => verdict,
    }
}

/// Goes on with a program that [`run`] has found to wait.
pub(crate) async fn go_on_with<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    program: &[Op],
) -> Verdict {
    go_on(exchange, OfRequest(down), program).await
}

/// The same of a session, whose client is watched meanwhile.
pub(crate) async fn run_session(session: &mut Session, client: &Watched, program: &[Op]) -> Verdict {
    match run(session, program) {
        Verdict::Waits => Box::pin(go_on(session, OfSession(client), program)).await,
        verdict => verdict,
    }
}

/// Who waits for what programs ask for.
trait Waits<T> {
    /// Waits. `Err`: that ends the program.
    async fn wait(&mut self, traffic: &mut T, awaited: Awaited) -> Result<(), Verdict>;
}

async fn go_on<T: Traffic>(traffic: &mut T, mut waits: impl Waits<T>, program: &[Op]) -> Verdict {
    while let Some(asking) = traffic.asking.take() {
        let Asking { awaited, mut place } = *asking;
        let again = matches!(awaited, Awaited::Password(_));
        if let Err(verdict) = waits.wait(traffic, awaited).await {
            return verdict;
        }
        if let Some(innermost) = place.first_mut().filter(|_| !again) {
            *innermost += 1;
        }
        match verdict(resume(traffic, program, &place)) {
            Verdict::Waits => {}
            verdict => return verdict,
        }
    }
    Verdict::Overloaded
}

struct OfRequest<'d, D>(&'d mut D);

impl<D: Downstream> Waits<Exchange> for OfRequest<'_, D> {
    async fn wait(&mut self, exchange: &mut Exchange, awaited: Awaited) -> Result<(), Verdict> {
        let Self(down) = self;
        match awaited {
            Awaited::Password(question) => {
                let worker = exchange.worker.clone();
                let known = passwords::verify(&worker.shared.passwords, &worker.passwords, question).await;
                known.map(drop).ok_or(Verdict::Overloaded)
            }
            Awaited::Body(least, time) => {
                let until = weir_rt::now() + time;
                match weir_rt::timeout(until, intake::wait_for(exchange, *down, least)).await {
                    Ok(waited) => waited.map_err(Verdict::Status),
                    Err(_) => {
                        exchange.close_after = true;
                        exchange.ending = Ending::ClientTimeout(Phase::Request);
                        Err(Verdict::Status(408))
                    }
                }
            }
            Awaited::Handshake(early) => {
                let until = weir_rt::now() + exchange.client_timeout();
                let whole = async {
                    down.finish_handshake().await;
                    early.complete().await
                };
                let ended = weir_rt::timeout(until, whole).await;
                if let Ok(true) = ended {
                    return Ok(());
                }
                exchange.close_after = true;
                exchange.ending = match ended {
                    Err(_) => Ending::ClientTimeout(Phase::Request),
                    Ok(_) => Ending::ClientAborted(Phase::Request),
                };
                Err(Verdict::Close(None))
            }
            Awaited::Pause(time) => pause(exchange, down.watched(), time).await,
            Awaited::Name(name, resolver, ipv4_first) => {
                resolve(exchange, &name, &resolver, ipv4_first).await;
                Ok(())
            }
            Awaited::Hints(fields) => down.interim(103, &fields).await.map_err(|_| {
                exchange.ending = Ending::ClientAborted(Phase::Request);
                Verdict::Close(None)
            }),
        }
    }
}

struct OfSession<'c>(&'c Watched);

impl Waits<Session> for OfSession<'_> {
    async fn wait(&mut self, session: &mut Session, awaited: Awaited) -> Result<(), Verdict> {
        match awaited {
            Awaited::Pause(time) => pause(session, self.0.clone(), time).await,
            Awaited::Name(name, resolver, ipv4_first) => {
                resolve(session, &name, &resolver, ipv4_first).await;
                Ok(())
            }
            // Only requests ask for these.
            Awaited::Password(_) | Awaited::Body(..) | Awaited::Handshake(_) | Awaited::Hints(_) => {
                Err(Verdict::Close(None))
            }
        }
    }
}

/// Waits for a time to pass, unless the client leaves meanwhile.
async fn pause(traffic: &mut impl Traffic, client: Watched, time: Duration) -> Result<(), Verdict> {
    let watch = Watch::new(client, Ends::Reset);
    watch.over(weir_rt::sleep(time)).await.map_err(|_| {
        traffic.ending = Ending::ClientAborted(Phase::Request);
        Verdict::Close(None)
    })
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
    if let Some(asking) = exchange.asking.as_deref_mut() {
        asking.place.push(at);
    }
    Flow::Wait
}

/// Whether an instruction has to wait.
fn is_asking(exchange: &impl Traffic) -> bool {
    exchange.asking.is_some()
}

/// Goes on where a program stood. An instruction that is run again has done nothing yet.
fn resume<T: Traffic>(exchange: &mut T, program: &[Op], place: &[usize]) -> Flow {
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
        Op::ExpectProxy => exchange.client.expects_proxy.set(true),
        Op::Unset(slot) => exchange.slots.put(*slot, Value::Unset),
        Op::SetFound { slot, value } => {
            if let Some(value) = super::found(exchange, value) {
                exchange.slots.set(*slot, &value);
            }
        }
        Op::Stick(op) => super::stick_rules::run(exchange, op),
        Op::Keep { of, name, value, number } => keep(exchange, *of, name, value.as_ref(), *number),
        Op::SetAddress { end, part, value, connection } => {
            set_address(exchange, (*end, *part), value, *connection);
        }
        Op::Close(status) => return Ok(Flow::Done(Verdict::Close(*status))),
        Op::Stop => return Ok(Flow::Stop),
        Op::SkipLog => exchange.unlogged = true,
        Op::Pause(_)
        | Op::Resolve { .. }
        | Op::SetTimeout(..)
        | Op::SetRetries(_)
        | Op::SetQueueClass(_)
        | Op::SetQueueOffset(_) => course(exchange, op),
        // A session has nothing that these could change: what a rule wants cannot be done, so it is not carried.
        op => match exchange.exchange_mut() {
            Some(exchange) => return request_step(exchange, op),
            None => return Ok(Flow::Done(Verdict::Close(None))),
        },
    }
    Ok(Flow::Next)
}

/// An instruction about how an exchange or session goes on.
#[cold]
fn course(traffic: &mut impl Traffic, op: &Op) {
    let awaited = match op {
        Op::Resolve { name, resolver, ipv4_first } => {
            let name = String::from_utf8_lossy(&text(traffic, name)).into_owned();
            Some(Awaited::Name(name, resolver.clone(), *ipv4_first))
        }
        Op::Pause(millis) => millis_of(&text(traffic, millis)).map(Awaited::Pause),
        Op::SetTimeout(which, value) => {
            set_timeout(traffic, *which, value);
            None
        }
        Op::SetRetries(most) => {
            let most = std::str::from_utf8(&text(traffic, most)).ok().and_then(|most| most.parse().ok());
            traffic.own.get_or_insert_default().retries = most;
            None
        }
        Op::SetQueueClass(class) => {
            let class = number_of(&text(traffic, class)).clamp(-2047, 2047);
            traffic.own.get_or_insert_default().priority.0 = class as i16;
            None
        }
        Op::SetQueueOffset(millis) => {
            let millis = number_of(&text(traffic, millis)).clamp(-524_287, 524_287);
            traffic.own.get_or_insert_default().priority.1 = millis as i32;
            None
        }
        _ => None,
    };
    if let Some(awaited) = awaited {
        traffic.asking = Some(Box::new(Asking { awaited, place: Vec::new() }));
    }
}

/// An instruction about a request.
fn request_step(exchange: &mut Exchange, op: &Op) -> Result<Flow, MatchFailed> {
    match op {
        Op::When { .. }
        | Op::Set { .. }
        | Op::SetFound { .. }
        | Op::Unset(_)
        | Op::ExpectProxy
        | Op::Stick(_)
        | Op::Keep { .. }
        | Op::SetAddress { .. }
        | Op::Close(_)
        | Op::Pause(_)
        | Op::Resolve { .. }
        | Op::SetTimeout(..)
        | Op::SetRetries(_)
        | Op::SetQueueClass(_)
        | Op::SetQueueOffset(_)
        | Op::SkipLog
        | Op::Stop => {}
        Op::EarlyHints(_) | Op::WaitForBody { .. } | Op::WaitForHandshake => await_later(exchange, op),
        Op::RetryConnectOnly => exchange.own.get_or_insert_default().connect_only = true,
        Op::SetLimitRate(value) => exchange.limit_rate = Some(parse_size(&text(exchange, value))),
        Op::Rewrite { pattern, replacement, keep_query, flag } => {
            let subject = std::mem::take(&mut exchange.request.path);
            let matched = pattern.matches(&subject);
            if let Ok(Some(captures)) = &matched {
                keep_match(exchange, pattern, captures, &subject);
            }
            exchange.request.path = subject;
            if matched?.is_some() {
                return Ok(targets::rewrite(exchange, replacement, *keep_query, *flag));
            }
        }
        Op::SetPath(value) => {
            let value = text(exchange, value);
            return Ok(targets::set(exchange, value, None));
        }
        Op::SetQuery(value) => {
            let value = text(exchange, value);
            exchange.request.query = value;
        }
        Op::SetTarget(value) => {
            let value = text(exchange, value);
            let (path, query) = targets::split_query(&value);
            let (path, query) = (path.to_vec(), query.map(<[u8]>::to_vec));
            return Ok(targets::set(exchange, path, Some(query.unwrap_or_default())));
        }
        Op::Normalize(normalizer) => return Ok(targets::normalize(exchange, *normalizer)),
        Op::SetMethod(value) => {
            let value = text(exchange, value);
            if weir_http::scan::is_token(&value) {
                exchange.request.method = weir_http::Method::of(&value);
                exchange.request.method_text = value;
            }
        }
        Op::ReplaceTarget { part, pattern, with } => return targets::replace(exchange, *part, pattern, with),
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
        Op::CaptureResponseHeader { name, length, slot } => {
            exchange.captured.wanted.push((name.lower.as_bytes().into(), *length, *slot));
        }
    }
    Ok(Flow::Next)
}

/// Notes the address of a name: of the family that is preferred, if there is one.
async fn resolve(traffic: &mut impl Traffic, name: &str, resolver: &Resolver, ipv4_first: bool) {
    let found = match name.parse() {
        Ok(ip) => Some(ip),
        Err(_) => match dns::lookup(&traffic.worker, Some(resolver), name).await {
            Ok(found) => found.iter().find(|ip| ip.is_ipv4() == ipv4_first).or(found.first()).copied(),
            Err(why) => {
                errors::error(traffic, &format!("{name} could not be resolved ({why})"));
                None
            }
        },
    };
    traffic.own.get_or_insert_default().resolved = found;
}

/// Notes what an instruction waits for.
#[cold]
fn await_later(exchange: &mut Exchange, op: &Op) {
    let awaited = match op {
        Op::EarlyHints(hints) => {
            let mut fields = Fields::default();
            hints.iter().for_each(|(name, value)| fields.push(name.name.as_bytes(), &text(exchange, value)));
            Awaited::Hints(fields)
        }
        Op::WaitForBody { millis, least } if exchange.request.has_body() => {
            Awaited::Body(*least, Duration::from_millis(*millis))
        }
        Op::WaitForHandshake => match exchange.client.tls.as_ref().and_then(|tls| tls.early.clone()) {
            Some(early) if early.is_open() => Awaited::Handshake(early),
            _ => return,
        },
        _ => return,
    };
    exchange.asking = Some(Box::new(Asking { awaited, place: Vec::new() }));
}

/// A number; zero where it is none.
fn number_of(value: &[u8]) -> i64 {
    std::str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// A time in milliseconds; `None`: it is none.
fn millis_of(text: &[u8]) -> Option<Duration> {
    let millis: u32 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
    (millis > 0).then(|| Duration::from_millis(millis.into()))
}

fn set_timeout(exchange: &mut impl Traffic, which: OwnTimeout, value: &weir_plan::Template) {
    let Some(time) = millis_of(&text(exchange, value)) else { return };
    let own = exchange.own.get_or_insert_default();
    let place = match which {
        OwnTimeout::Endpoint => &mut own.endpoint,
        OwnTimeout::Tunnel => &mut own.tunnel,
        OwnTimeout::Client => &mut own.client,
    };
    *place = Some(time);
}

/// Keeps a value for longer than the exchange, or lets go of it.
#[cold]
fn keep(
    traffic: &mut impl Traffic,
    of: KeptIn,
    name: &str,
    value: Option<&weir_plan::Template>,
    number: bool,
) {
    let value = value.map(|value| KeptValue { text: text(traffic, value), number });
    traffic.keep_value(of, name, value);
}

/// Sets one end of what the client meant; the other part of its address stays.
#[cold]
fn set_address(
    traffic: &mut impl Traffic,
    (end, part): (End, AddressPart),
    value: &weir_plan::Template,
    connection: bool,
) {
    let value = text(traffic, value);
    let value = String::from_utf8_lossy(&value);
    let known = match end {
        End::Source => traffic.client_source(),
        End::Destination => traffic.destination(),
    };
    let (ip, port) = known.unwrap_or((Ipv4Addr::UNSPECIFIED.into(), 0));
    let set = match part {
        AddressPart::Ip => value.parse().ok().map(|ip: IpAddr| (ip.to_canonical(), port)),
        AddressPart::Port => value.parse().ok().map(|port| (ip, port)),
    };
    let Some(set) = set else { return };
    match (end, connection) {
        (End::Source, true) => traffic.client.moved.set(Some(set)),
        (End::Source, false) => traffic.real_client = Some(set),
        (End::Destination, true) => traffic.client.meant.set(Some(set)),
        (End::Destination, false) => traffic.meant = Some(set),
    }
}

fn put(list: &mut Vec<Option<Box<[u8]>>>, at: usize, value: Option<Box<[u8]>>) {
    if list.len() <= at {
        list.resize(at + 1, None);
    }
    list[at] = value;
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
