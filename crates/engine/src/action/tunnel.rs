//! Carrying bytes both ways: upgraded connections and TCP services.
//!
//! Owns: the two directions, half-closing, idle times, rate limits of TCP services.
//! Never: looks at the bytes.
//! Driven by: `action::proxy` after a 101, `tcp`.
//! Why: a tunnel lives long, so it holds buffers only while bytes pass, and no plan at all.
//!
//! ```text
//!   client ──read──> buffer ──write──> endpoint        each direction ends with the reader's FIN, which is passed on;
//!   client <──write── buffer <──read── endpoint        the tunnel ends when both have, or nobody spoke for too long
//! ```

use std::cell::Cell;
use std::time::Duration;

use weir_plan::Proxy;
use weir_rt::{Buf, Instant, Timer};
use weir_telemetry::AttemptEnd;
use weir_wire::{ClientConnection, Conn};

use crate::answer::respond;
use crate::exchange::{BodySize, Downstream, Ending, Exchange, Phase};
use crate::upstream::LeaseEnd;
use crate::worker::count::Attempting;
use crate::worker::race::{Either, race};

/// Times and limits of a tunnel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TunnelSettings {
    /// The client may be silent for so long, while the endpoint is silent too.
    pub(crate) client_idle: Duration,
    /// The endpoint may be silent for so long, while the client is silent too.
    pub(crate) server_idle: Duration,
    /// A side that ended leaves the other open; otherwise the tunnel is over once what it said has arrived.
    pub(crate) half_close: bool,
    /// Idle time once one side has ended.
    pub(crate) half_closed: Option<Duration>,
    /// Bytes of buffer each way.
    pub(crate) buffer: usize,
    /// Bytes a second from and to the client.
    pub(crate) rate: (Option<u64>, Option<u64>),
}

/// How a tunnel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TunnelEnd {
    /// Both sides said they were done.
    Closed,
    /// Nobody spoke for too long.
    Idle,
    /// The client's connection failed.
    ClientFailed,
    /// The endpoint's connection failed.
    EndpointFailed,
    /// Rules refused what the endpoint said.
    Refused,
}

/// Bytes that passed.
#[derive(Default)]
pub(crate) struct Carried {
    /// From the client.
    pub(crate) up: Cell<u64>,
    /// To the client.
    pub(crate) down: Cell<u64>,
    /// When the first byte came from the endpoint.
    pub(crate) first_down: Cell<Option<Instant>>,
    last: Cell<Option<Instant>>,
    up_done: Cell<bool>,
    down_done: Cell<bool>,
    /// A reader failed, and not for want of a close_notify: many peers never send one.
    reset: Cell<bool>,
}

/// Which way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

/// What is done by the first bytes of an endpoint.
pub(crate) struct Looking<'a> {
    /// So long more of them are waited for.
    pub(crate) wait: Duration,
    /// So many are waited for.
    pub(crate) least: usize,
    /// Most that are looked at.
    pub(crate) most: usize,
    /// What becomes of them.
    pub(crate) judge: &'a dyn Fn(&[u8]) -> Judged,
}

/// What becomes of the first bytes of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// They go on, and what follows them.
    Pass,
    /// They go on, and nothing more.
    Last,
    /// They do not.
    Refuse,
}

impl Looking<'_> {
    /// Looks at the bytes that have come, and at more where too few have.
    async fn look(&self, from: &Conn, buf: &mut Buf) -> Result<Judged, TunnelEnd> {
        let until = weir_rt::now() + self.wait;
        while buf.len() < self.least {
            let read = from.read_up_to(buf, self.most - buf.len());
            if !matches!(weir_rt::timeout(until, read).await, Ok(Ok(1..))) {
                break;
            }
        }
        match (self.judge)(buf) {
            Judged::Refuse => Err(TunnelEnd::Refused),
            judged => Ok(judged),
        }
    }
}

/// Carries bytes until both sides are done. `up` and `down` hold what was read ahead.
pub(crate) async fn carry(
    client: &Conn,
    endpoint: &Conn,
    (up, down): (Buf, Buf),
    settings: &TunnelSettings,
    timer: &Timer,
    carried: &Carried,
    looking: Option<&Looking<'_>>,
) -> TunnelEnd {
    carried.last.set(Some(weir_rt::now()));
    let both = async {
        let upward = pump(client, endpoint, up, settings, carried, (Way::Up, None));
        let downward = pump(endpoint, client, down, settings, carried, (Way::Down, looking));
        join(upward, downward).await
    };
    let end = match race(both, silence(settings, timer, carried)).await {
        Either::Left(end) => end,
        Either::Right(()) => TunnelEnd::Idle,
    };
    match end {
        // One side broke off: an orderly end on the other would make whole what was cut.
        TunnelEnd::EndpointFailed if carried.reset.get() => client.clone().abort(),
        TunnelEnd::ClientFailed if carried.reset.get() => endpoint.clone().abort(),
        TunnelEnd::Refused => endpoint.clone().abort(),
        _ => {}
    }
    end
}

/// Both futures, unless one fails.
async fn join(
    a: impl Future<Output = Result<(), TunnelEnd>>,
    b: impl Future<Output = Result<(), TunnelEnd>>,
) -> TunnelEnd {
    use std::task::Poll;
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    let (mut a_done, mut b_done) = (false, false);
    std::future::poll_fn(move |cx| {
        if !a_done && let Poll::Ready(result) = a.as_mut().poll(cx) {
            a_done = true;
            if let Err(end) = result {
                return Poll::Ready(end);
            }
        }
        if !b_done && let Poll::Ready(result) = b.as_mut().poll(cx) {
            b_done = true;
            if let Err(end) = result {
                return Poll::Ready(end);
            }
        }
        if a_done && b_done { Poll::Ready(TunnelEnd::Closed) } else { Poll::Pending }
    })
    .await
}

/// Ready when nobody has spoken for too long. Looks again when its time comes rather than being re-armed by each byte.
async fn silence(settings: &TunnelSettings, timer: &Timer, carried: &Carried) {
    loop {
        let half = carried.up_done.get() || carried.down_done.get();
        let idle = settings.client_idle.min(settings.server_idle);
        let idle = if half { settings.half_closed.unwrap_or(idle) } else { idle };
        let last = carried.last.get().unwrap_or_else(weir_rt::now);
        let due = last + idle;
        if due <= weir_rt::now() {
            return;
        }
        timer.arm_at(due);
        timer.wait().await;
    }
}

/// One direction until its reader ends.
async fn pump(
    from: &Conn,
    to: &Conn,
    mut buf: Buf,
    settings: &TunnelSettings,
    carried: &Carried,
    (way, mut looking): (Way, Option<&Looking<'_>>),
) -> Result<(), TunnelEnd> {
    let (read_failed, write_failed) = match way {
        Way::Up => (TunnelEnd::ClientFailed, TunnelEnd::EndpointFailed),
        Way::Down => (TunnelEnd::EndpointFailed, TunnelEnd::ClientFailed),
    };
    let (count, rate) = match way {
        Way::Up => (&carried.up, settings.rate.0),
        Way::Down => (&carried.down, settings.rate.1),
    };
    let began = weir_rt::now();
    let mut is_last = false;
    loop {
        if buf.is_empty() {
            if is_last {
                return Err(TunnelEnd::Closed);
            }
            buf.release();
            let limit = rate.map_or(settings.buffer, |rate| settings.buffer.min(rate.max(1) as usize));
            let read = from.read_up_to(&mut buf, limit).await.map_err(|error| {
                carried.reset.set(!weir_rt::is_truncated(&error));
                read_failed
            })?;
            if read == 0 {
                break;
            }
        }
        if let Some(looking) = looking.take() {
            is_last = looking.look(from, &mut buf).await? == Judged::Last;
        }
        carried.last.set(Some(weir_rt::now()));
        if way == Way::Down && carried.first_down.get().is_none() {
            carried.first_down.set(Some(weir_rt::now()));
        }
        count.set(count.get() + buf.len() as u64);
        let (result, emptied) = to.write_all(buf).await;
        result.map_err(|_| write_failed)?;
        carried.last.set(Some(weir_rt::now()));
        buf = emptied;
        buf.clear();
        if let Some(rate) = rate.filter(|&rate| rate > 0) {
            let due = began + Duration::from_secs_f64(count.get() as f64 / rate as f64);
            if due > weir_rt::now() {
                buf.release();
                weir_rt::sleep_until(due).await;
            }
        }
    }
    match way {
        Way::Up => carried.up_done.set(true),
        Way::Down => carried.down_done.set(true),
    }
    // The other side may still speak: the end is passed on as an end of this direction only.
    let _ = to.shutdown_write().await;
    if settings.half_close { Ok(()) } else { Err(TunnelEnd::Closed) }
}

/// An upgraded connection whose 101 was passed on: all that is left to do.
pub(crate) struct Upgraded {
    conn: Box<ClientConnection>,
    client: Conn,
    above: Buf,
    below: Buf,
    settings: TunnelSettings,
    counted: Attempting,
    /// Holds the endpoint's slot.
    _lease: LeaseEnd,
}

/// Passes a 101 on. What follows is carried by [`carry_upgraded`], once the walk through the plan has ended: its
/// frames would hold on to the plan. `None`: the client is gone.
pub(crate) async fn upgraded<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    proxy: &Proxy,
    mut conn: Box<ClientConnection>,
    mut counted: Attempting,
    lease: LeaseEnd,
) -> Option<Box<Upgraded>> {
    respond::start(exchange, down, BodySize::Bodiless);
    if let Err(error) = down.flush(exchange).await {
        down.fail(exchange, &error);
        counted.end(AttemptEnd::ClientAbort, exchange);
        return None;
    }
    let read_timeout = exchange.tunnel_timeout(&proxy.settings);
    let settings = TunnelSettings {
        client_idle: read_timeout,
        server_idle: read_timeout,
        half_close: true,
        half_closed: None,
        buffer: weir_rt::MEDIUM,
        rate: (None, None),
    };
    conn.skip_head();
    let below = conn.incoming.take_pending();
    let Some((client, above)) = down.take_tunnel() else {
        counted.end(AttemptEnd::ClientAbort, exchange);
        return None;
    };
    Some(Box::new(Upgraded { conn, client, above, below, settings, counted, _lease: lease }))
}

/// Carries what follows a 101, to its end. The exchange holds on to no plan meanwhile.
pub(crate) async fn carry_upgraded(exchange: &mut Exchange, tunnel: Upgraded) {
    let Upgraded { conn, client, above, below, settings, mut counted, _lease } = tunnel;
    crate::exchange::detach::exchange(exchange);
    let carried = Carried::default();
    let timer = Timer::new();
    let end = carry(&client, conn.io(), (above, below), &settings, &timer, &carried, None).await;
    exchange.body.count_streamed(carried.up.get() as usize);
    exchange.response.tunnelled = carried.down.get();
    exchange.response.bytes_sent += carried.down.get();
    exchange.response.body_bytes_sent += carried.down.get();
    exchange.response.complete = end == TunnelEnd::Closed;
    exchange.ending = match end {
        TunnelEnd::Closed => Ending::Normal,
        TunnelEnd::Idle => Ending::ServerTimeout(Phase::Data),
        TunnelEnd::ClientFailed => Ending::ClientAborted(Phase::Data),
        TunnelEnd::EndpointFailed => counted.broken(None),
        TunnelEnd::Refused => Ending::Proxy(Phase::Data),
    };
    let elapsed = exchange.elapsed();
    if let Some(record) = exchange.attempts.last_mut() {
        record.response = Some(elapsed);
        record.length = carried.down.get();
    }
    counted.end(AttemptEnd::Answer(101), exchange);
}
