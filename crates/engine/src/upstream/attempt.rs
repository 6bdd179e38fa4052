//! One attempt after the other, until an endpoint answers.
//!
//! Owns: the loop pick → connect → send → head → judge → retry → record, for every protocol towards endpoints.
//! Never: speaks a protocol ([`Protocol`] does), chooses (`picker`), decides on retries (`policy::retry`), or answers a client.
//! Driven by: the actions that ask endpoints, and TCP services.
//! Why: who notices a client that leaves, what is retried where, what is counted and logged of an attempt, are the same
//! whatever is spoken. The protocol is a type parameter: each has a loop of its own once compiled, and pays for no other.
//!
//! ```text
//!   pick ── connect ── send ── head ──┬─ a status that is intercepted, or a failure: the next attempt, or none
//!     ^______________retry____________|─ the answer: the action carries it on
//! ```

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use weir_control::EndpointKey;
use weir_control::requests::Stage;
use weir_expr::settings::{ClientAbort, ProxyProtocol, Unavailable};
use weir_plan::{Endpoint, NamedCertificate, Reuse, Template, UpstreamTlsIx, UpstreamTlsUse};
use weir_policy::idle::History;
use weir_policy::pool::{Lease, Measured};
use weir_policy::retry::{Failure, Retry, RetryPolicy};
use weir_rt::{ClientTls, Instant, PeerClosed, Timer};
use weir_telemetry::AttemptEnd;
use weir_wire::{ClientConnection, Conn};

use super::connect::{ConnectFailure, ConnectSettings, local_address, open};
use super::picker::{Picked, Picker, Refusal, Stuck};
use super::target::Destination;
use crate::exchange::{self, Core, Downstream, Ending, Exchange, Next, Phase, TlsFacts, Traffic, errors};
use crate::worker::count::Attempting;
use crate::worker::idle::{IdleKey, Kept, TlsKey};
use crate::worker::links::Carried;
use crate::worker::watch::Watch;
use crate::worker::{Installed, Tls};

/// What is spoken with an endpoint. One value serves all attempts of an exchange, one after the other: for each
/// [`Protocol::take_up`], then [`Protocol::send`], then [`Protocol::head`].
#[allow(async_fn_in_trait, reason = "used within this crate on one thread")]
pub(crate) trait Protocol {
    /// What is served by it: requests, or sessions.
    type Traffic: Traffic;

    /// A connection that carries one request.
    type Link;

    /// Takes up a connection for an attempt.
    fn take_up(&mut self, opened: Opened) -> Self::Link;

    /// Whether a kept connection can carry another request. `look`: it is looked at, whatever was noticed of it.
    #[inline]
    fn is_usable(kept: &mut ClientConnection, look: bool) -> bool {
        kept.was_silent(look)
    }

    /// Sends the request. An answer that comes early may end it.
    async fn send(&mut self, traffic: &mut Self::Traffic, link: &mut Self::Link) -> Result<(), Stop>;

    /// Waits for the head of the answer. Its status; `None`: there is no head, bytes follow.
    async fn head(&mut self, traffic: &mut Self::Traffic, link: &mut Self::Link)
    -> Result<Option<u16>, Stop>;

    /// Bytes sent so far.
    fn sent(&self, link: &Self::Link) -> u64;
}

/// A connection to an endpoint.
pub(crate) enum Opened {
    /// It carried a request before.
    Kept(Box<ClientConnection>),
    /// Nobody used it before.
    New(Conn),
}

impl Opened {
    fn io(&self) -> &Conn {
        match self {
            Self::Kept(kept) => kept.io(),
            Self::New(conn) => conn,
        }
    }
}

/// Why an attempt gave no answer.
#[derive(Debug)]
pub(crate) struct Failed {
    /// What went wrong.
    pub(crate) failure: Failure,
    /// Bytes of the request may have reached the endpoint.
    pub(crate) sent: bool,
    /// For the log.
    pub(crate) why: String,
}

impl Failed {
    /// What came is not what the protocol says.
    pub(crate) fn malformed(why: impl Into<String>) -> Self {
        Self { failure: Failure::InvalidHeader, sent: true, why: why.into() }
    }
}

/// What ends an attempt.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The endpoint failed; another may be tried.
    Endpoint(Failed),
    /// The client sent nonsense: answer with this status.
    Client(u16),
    /// The client went away: there is nobody to answer.
    Gone,
    /// Our own fault.
    Own(String),
}

impl From<Failed> for Stop {
    fn from(failed: Failed) -> Self {
        Self::Endpoint(failed)
    }
}

/// How endpoints are reached.
pub(crate) struct Reach<'a> {
    /// For connecting, handshakes included.
    pub(crate) timeout: Duration,
    /// Send TCP keep-alive probes.
    pub(crate) keepalive: bool,
    /// The local address to connect from.
    pub(crate) bind: Option<&'a Template>,
    /// It may be an address of another machine.
    pub(crate) transparent: bool,
    /// TLS where the endpoint has no settings of its own.
    pub(crate) tls: Option<&'a UpstreamTlsUse>,
    /// What the scheme of a computed target says.
    pub(crate) secure: Option<bool>,
    /// The name in TLS where the settings have none; `None`: the pool's.
    pub(crate) host: Option<&'a str>,
    /// PROXY header where the endpoint has no settings of its own.
    pub(crate) send_proxy: Option<ProxyProtocol>,
    /// Whether the protocol can go on with a connection that carried a request before.
    pub(crate) reuse: bool,
    /// Sets kept connections of one protocol apart from those of another: even, 0 is HTTP/1's.
    pub(crate) spoken: u64,
}

/// All that attempts need beside the exchange.
pub(crate) struct Attempts<'a> {
    /// The plan.
    pub(crate) installed: &'a Installed,
    /// What is tried again.
    pub(crate) retry: RetryPolicy,
    /// How endpoints are reached.
    pub(crate) reach: Reach<'a>,
    /// Over whatever is waited for.
    pub(crate) timer: &'a Timer,
    /// Over the client.
    pub(crate) watch: &'a Watch,
}

/// An endpoint that answered.
pub(crate) struct Answered<L> {
    /// Its connection, with the answer's head.
    pub(crate) link: L,
    /// Under what the connection may be kept.
    pub(crate) key: IdleKey,
    /// What it did so far.
    pub(crate) history: History,
    /// The endpoint.
    pub(crate) picked: Picked,
    /// Whose it is.
    pub(crate) destination: Destination,
    /// Its slot.
    pub(crate) lease: LeaseEnd,
    /// The attempt, in flight.
    pub(crate) counted: Attempting,
}

/// No endpoint answered. What is to be noted and logged has been.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// Answer with this status.
    Status(u16),
    /// Our own fault.
    Own,
    /// There is nobody to answer.
    Gone,
}

impl Unanswered {
    /// What follows for the client.
    pub(crate) fn end<D: Downstream, L>(self, down: &mut D) -> Next<L> {
        match self {
            Self::Status(status) => Next::Status(status),
            Self::Own => Next::Status(500),
            Self::Gone => {
                down.cut();
                Next::Done
            }
        }
    }
}

/// Our own end of a connection, where somebody asks for it.
fn local_end(installed: &Installed, opened: &Opened) -> Option<std::net::SocketAddr> {
    if !installed.plan.notes_local_ends {
        return None;
    }
    opened.io().socket().local_addr().ok()?.inet()
}

/// What TLS of a connection is like, where somebody asks for that.
fn endpoint_tls(installed: &Installed, opened: &Opened) -> Option<Rc<TlsFacts>> {
    let tls = opened.io().tls().filter(|_| installed.plan.notes_endpoint_tls)?;
    Some(Rc::new(TlsFacts {
        protocol: tls.version().name(),
        cipher: tls.cipher(),
        alpn: tls.alpn().map(Into::into),
        resumed: tls.resumed(),
        certificate: tls.client_cert().map(|certificate| certificate.der.into()),
        ..TlsFacts::asking(None)
    }))
}

/// Says that the endpoint did well, when the answer is through.
pub(crate) struct LeaseEnd {
    lease: Option<Lease>,
    /// When the attempt began, where the time to its end is measured.
    began: Option<Instant>,
}

impl LeaseEnd {
    /// Of the last attempt, which answered; `has_head`: what came is the head of an answer.
    fn of(lease: Option<Lease>, exchange: &Core, has_head: bool) -> Self {
        let began = lease.as_ref().and_then(|lease| measure_last(lease, exchange, has_head));
        Self { lease, began }
    }

    /// The first byte of an answer without a head came after this time.
    pub(crate) fn first_byte(&self, took: Duration) {
        if let Some(lease) = self.lease.as_ref().filter(|lease| lease.measures() == Some(Measured::First)) {
            lease.measured(took);
        }
    }
}

/// Takes the time that is measured of the last attempt. `Some`: its end is what counts, and it began then.
#[inline]
fn measure_last(lease: &Lease, exchange: &Core, has_head: bool) -> Option<Instant> {
    let what = lease.measures()?;
    let attempt = exchange.attempts.last()?;
    match what {
        Measured::Connect => lease.measured(attempt.connect?),
        Measured::First if has_head => lease.measured(attempt.header?),
        Measured::First => {}
        Measured::Last => return exchange.now().checked_sub(attempt.header?),
    }
    None
}

impl Drop for LeaseEnd {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            if let Some(began) = self.began {
                lease.measured(weir_rt::now().saturating_duration_since(began));
            }
            lease.succeed();
        }
    }
}

impl Attempts<'_> {
    /// Tries one endpoint after the other.
    ///
    /// # Errors
    /// None answered.
    pub(crate) async fn run<P: Protocol>(
        &self,
        exchange: &mut P::Traffic,
        protocol: &mut P,
        destination: Destination,
    ) -> Result<Answered<P::Link>, Unanswered> {
        let installed = self.installed;
        let retry = exchange.retry(self.retry);
        let mut picker = Picker::new(exchange, destination, retry);
        if let Err(refusal) = picker.begin(exchange, installed) {
            return Err(refused(exchange, &refusal));
        }
        let mut fresh = false;
        // One session of an endpoint, however often it is tried again there.
        let mut held: Option<Attempting> = None;
        loop {
            let picked = match picker.next(exchange, installed) {
                Ok(picked) => picked,
                Err(Stuck::Refused(refusal)) => return Err(refused(exchange, &refusal)),
                Err(Stuck::Full(wanted)) => Box::pin(self.queue(exchange, &mut picker, wanted)).await?,
            };
            let counters = &exchange.worker.counters;
            let mut counted =
                held.take().unwrap_or_else(|| counters.attempt(picked.pool, picked.key, exchange.now()));
            let tried = {
                // Pinned where it stands: by value it would be moved twice.
                let trying = pin!(self.once(exchange, protocol, &picker, &picked, &mut counted, fresh));
                self.watch.over(trying).await
            };
            if picked.observed().is_some() {
                super::observe::note(exchange, &picked, &tried);
            }
            fresh = false;
            let replayable = exchange.exchange().is_none_or(|exchange| !exchange.body.streamed);
            let failed = match tried {
                Ok(Ok(Tried { link, key, history, status })) => {
                    note_status(exchange, status);
                    let intercepted =
                        |status: &u16| picker.intercepts(exchange, installed, *status, replayable);
                    let Some(status) = status.filter(intercepted) else {
                        let lease = LeaseEnd::of(picker.succeeded(), exchange, status.is_some());
                        let destination = picker.into_destination();
                        return Ok(Answered { link, key, history, picked, destination, lease, counted });
                    };
                    let why = format!("upstream answered {status}");
                    Failed { failure: Failure::Status(status), sent: true, why }
                }
                Ok(Err(Stop::Endpoint(failed))) => failed,
                Ok(Err(Stop::Client(status))) => {
                    counted.end(AttemptEnd::ClientAbort, exchange);
                    return Err(Unanswered::Status(status));
                }
                Ok(Err(Stop::Gone)) => {
                    counted.end(AttemptEnd::ClientAbort, exchange);
                    return Err(Unanswered::Gone);
                }
                Ok(Err(Stop::Own(why))) => {
                    counted.own_fault();
                    errors::server_error(exchange, &why);
                    exchange.ending = Ending::Resource(phase_reached(exchange));
                    return Err(Unanswered::Own);
                }
                Err(how) => {
                    counted.end(AttemptEnd::ClientAbort, exchange);
                    let phase = phase_reached(exchange);
                    return Err(left(exchange, phase, &how));
                }
            };
            if let Some(cut) = counted.cut() {
                counted.end(end_of(failed.failure), exchange);
                note_failure(exchange, &failed, Retry::No);
                exchange.ending = Ending::Cut(cut, Some(Phase::Headers));
                return Err(Unanswered::Status(502));
            }
            let retry = picker.failed(exchange, installed, failed.failure, failed.sent, replayable);
            match (retry, failed.failure) {
                (Retry::Same, _) => {}
                (_, Failure::StaleConnection) => counted.cancel(),
                (_, failure) => counted.end(end_of(failure), exchange),
            }
            note_failure(exchange, &failed, retry);
            match retry {
                Retry::No => return Err(gave_up(exchange, failed.failure)),
                Retry::Fresh => fresh = true,
                Retry::Next => counted.retried(false),
                Retry::Same => {
                    counted.retried(true);
                    if failed.failure == Failure::Connect
                        && let Err(how) = Box::pin(self.watch.over(weir_rt::sleep(self.pause()))).await
                    {
                        counted.end(AttemptEnd::ClientAbort, exchange);
                        return Err(left(exchange, Phase::Connect, &how));
                    }
                    held = Some(counted);
                }
            }
        }
    }

    /// Waits for an endpoint that has room.
    async fn queue(
        &self,
        exchange: &mut impl Traffic,
        picker: &mut Picker,
        wanted: Option<EndpointKey>,
    ) -> Result<Picked, Unanswered> {
        let asked_at = exchange.now();
        match self.watch.over(picker.queue(exchange, self.installed, wanted)).await {
            Ok(Ok(picked)) => Ok(picked),
            Ok(Err(refusal)) => Err(refused(exchange, &refusal)),
            Err(how) => {
                exchange.times.queued = Some(exchange.now().saturating_duration_since(asked_at));
                Err(left(exchange, Phase::Queue, &how))
            }
        }
    }

    /// HAProxy gives a server that refused connections time to come back.
    fn pause(&self) -> Duration {
        Duration::from_secs(1).min(self.reach.timeout)
    }

    /// One attempt: a connection, the request, the answer's head.
    async fn once<P: Protocol>(
        &self,
        exchange: &mut P::Traffic,
        protocol: &mut P,
        picker: &Picker,
        picked: &Picked,
        counted: &mut Attempting,
        fresh: bool,
    ) -> Result<Tried<P::Link>, Stop> {
        let began = exchange.now();
        if let (Some(flight), Some(record)) = (&exchange.flight, exchange.attempts.last()) {
            flight.reach(Some(picked.pool), &record.address, exchange.client_source());
        }
        let named = match self.named_certificate(picked) {
            Some(named) => Some(Box::pin(self.named(exchange, named)).await?),
            None => None,
        };
        let (opened, mut history, key) =
            match self.take_kept::<P>(exchange, picker, picked, counted, fresh, named)? {
                Ok((Kept { conn, history }, key)) => (Opened::Kept(conn), history, key),
                Err(way) => {
                    counted.connecting();
                    let key = way.key;
                    let conn = Box::pin(self.open(exchange, picked, way)).await?;
                    let history = History { opened: exchange.worker.millis(), requests: 0 };
                    (Opened::New(conn), history, key)
                }
            };
        let connected = exchange.now().saturating_duration_since(began);
        let local = local_end(self.installed, &opened);
        let tls = endpoint_tls(self.installed, &opened);
        if let Some(record) = exchange.attempts.last_mut() {
            record.connect = Some(connected);
            record.reused = matches!(opened, Opened::Kept(_));
            record.local = local;
            record.tls = tls;
        }
        history.requests += 1;
        let carried = Carried {
            client: exchange.client.serial,
            pool: picked.pool,
            endpoint: picked.key,
            since: exchange.now(),
        };
        counted.goes_over(exchange.worker.counters.links.enter(carried, opened.io().socket()));
        note_stage(exchange, Stage::Waiting);
        let mut link = protocol.take_up(opened);
        protocol.send(exchange, &mut link).await?;
        let head = protocol.head(exchange, &mut link).await;
        let header = exchange.now().saturating_duration_since(began);
        if let Some(record) = exchange.attempts.last_mut() {
            record.sent = protocol.sent(&link);
            if head.is_ok() {
                record.header = Some(header);
            }
        }
        note_stage(exchange, Stage::Transferring);
        Ok(Tried { status: head?, link, key, history })
    }

    /// How an endpoint is reached.
    fn way(&self, exchange: &impl Traffic, picked: &Picked, named: Option<ClientTls>) -> Result<Way, Stop> {
        let reach = &self.reach;
        let endpoint = picked.endpoint();
        let tls = match self.tls_use(endpoint)? {
            None => None,
            Some(tls) => {
                let name = match &tls.name {
                    Some(template) => {
                        String::from_utf8_lossy(&crate::eval::text(exchange, template)).into_owned()
                    }
                    None => {
                        let host = reach.host.or_else(|| exchange.pool_name()).unwrap_or_default();
                        host_without_port(host).to_owned()
                    }
                };
                Some(TlsWay { made: self.installed.tls(), config: tls.config, named, name })
            }
        };
        let local = reach.bind.map(|template| crate::eval::text(exchange, template));
        if let Some(why) = exchange.slots.take_doubt() {
            return Err(Stop::Own(why.to_string()));
        }
        let key = IdleKey {
            endpoint: picked.link,
            tls: tls.as_ref().map(|tls| TlsKey::new(tls.client().digest(), &tls.name)),
            local: local.as_ref().map_or(reach.spoken, |local| (crate::eval::hash(local) | 1) ^ reach.spoken),
        };
        let send_proxy = endpoint.and_then(|endpoint| endpoint.send_proxy).or(reach.send_proxy);
        Ok(Way { tls, local, send_proxy, key })
    }

    /// A connection that carried requests before; else, the way to a new one.
    fn take_kept<P: Protocol>(
        &self,
        exchange: &P::Traffic,
        picker: &Picker,
        picked: &Picked,
        counted: &Attempting,
        fresh: bool,
        named: Option<ClientTls>,
    ) -> Result<Result<(Kept, IdleKey), Way>, Stop> {
        let way = self.way(exchange, picked, named)?;
        let is_wanted = self.reach.reuse && !fresh && way.send_proxy.is_none();
        if !is_wanted || !may_reuse(exchange, picker.keepalive(self.installed).reuse) {
            return Ok(Err(way));
        }
        // A request that must not be sent twice, or of which the body cannot be, gets a connection that was looked at first.
        let careful = exchange.exchange().is_some_and(|exchange| {
            let streams = exchange.request.has_body() && !exchange.body.complete;
            streams || !exchange.request.method.is_idempotent()
        });
        let worker = &exchange.worker;
        while let Some(mut kept) = worker.idle.take(worker.millis(), picked.pool, &way.key) {
            if P::is_usable(&mut kept.conn, careful) {
                counted.reused();
                return Ok(Ok((kept, way.key)));
            }
        }
        Ok(Err(way))
    }

    /// A new connection.
    async fn open(&self, exchange: &impl Traffic, picked: &Picked, way: Way) -> Result<Conn, Stop> {
        let settings = ConnectSettings {
            timeout: self.reach.timeout,
            local: way.local.as_deref().and_then(local_address),
            transparent: self.reach.transparent,
            keepalive: self.reach.keepalive,
            socks: picked.endpoint().and_then(|endpoint| endpoint.socks).map(|socks| socks.address),
            proxy: way.send_proxy.map(|version| (version, Some(&*exchange.client), exchange.client_source())),
            tls: way.tls.as_ref().map(|tls| (tls.client(), tls.name.as_str())),
        };
        open(&picked.address, &settings, self.timer).await.map_err(not_connected)
    }

    /// The certificate that variables name, if one is to be shown.
    fn named_certificate<'e>(&'e self, picked: &'e Picked) -> Option<(UpstreamTlsIx, &'e NamedCertificate)> {
        let tls = self.tls_use(picked.endpoint()).ok()??;
        Some((tls.config, tls.named.as_deref()?))
    }

    #[cold]
    async fn named(
        &self,
        exchange: &impl Traffic,
        named: (UpstreamTlsIx, &NamedCertificate),
    ) -> Result<ClientTls, Stop> {
        let name = crate::eval::certificates::named(exchange, named.1);
        let shared = &exchange.worker.shared;
        let prepared = &self.installed.prepared;
        prepared.named.client(shared, &prepared.plan, named, name).await.map_err(Stop::Own)
    }

    /// TLS towards an endpoint.
    fn tls_use<'e>(&'e self, endpoint: Option<&'e Endpoint>) -> Result<Option<&'e UpstreamTlsUse>, Stop> {
        let of_action = self.reach.tls.filter(|_| self.reach.secure != Some(false));
        let tls_use = endpoint.and_then(|endpoint| endpoint.tls.as_ref()).or(of_action);
        if self.reach.secure == Some(true) && tls_use.is_none() {
            return Err(Stop::Own(
                "the computed target is https, but this action has no TLS settings".into(),
            ));
        }
        Ok(tls_use)
    }
}

/// How an endpoint is reached, and what a connection must have in common with this way to be used again.
struct Way {
    tls: Option<TlsWay>,
    /// The local address, as text.
    local: Option<Vec<u8>>,
    send_proxy: Option<ProxyProtocol>,
    key: IdleKey,
}

/// TLS towards an endpoint, as it was when the attempt began.
struct TlsWay {
    made: Rc<Tls>,
    config: UpstreamTlsIx,
    /// In place of that of the configuration, with the certificate that variables name.
    named: Option<ClientTls>,
    name: String,
}

impl TlsWay {
    fn client(&self) -> &ClientTls {
        self.named.as_ref().unwrap_or_else(|| self.made.client(self.config))
    }
}

/// An attempt that gave a head.
pub(super) struct Tried<L> {
    link: L,
    key: IdleKey,
    history: History,
    pub(super) status: Option<u16>,
}

fn not_connected(failure: ConnectFailure) -> Stop {
    match failure {
        ConnectFailure::Timeout => Stop::Endpoint(Failed {
            failure: Failure::ConnectTimeout,
            sent: false,
            why: "upstream timed out (110: Connection timed out) while connecting to upstream".into(),
        }),
        ConnectFailure::Failed(why) => Stop::Endpoint(Failed {
            failure: Failure::Connect,
            sent: false,
            why: format!("{why} while connecting to upstream"),
        }),
        ConnectFailure::Resources(why) => Stop::Own(format!("cannot connect to an endpoint: {why}")),
    }
}

/// Whether the pool lets this request go on a connection that carried others.
fn may_reuse(exchange: &impl Traffic, reuse: Reuse) -> bool {
    match reuse {
        Reuse::Never => false,
        Reuse::Always => true,
        // The first request of a client goes on a connection of its own, unless it may be sent twice.
        Reuse::Safe | Reuse::Aggressive => {
            let idempotent = |traffic: &Exchange| traffic.request.method.is_idempotent();
            exchange.client.requests.get() > 1 || exchange.exchange().is_some_and(idempotent)
        }
    }
}

/// Where requests in flight are shown, this one has come so far.
#[inline]
fn note_stage(traffic: &impl Traffic, stage: Stage) {
    if let Some(flight) = &traffic.flight {
        flight.stage(stage);
    }
}

fn host_without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

pub(super) fn refused(exchange: &mut impl Traffic, &Refusal { status, why }: &Refusal) -> Unanswered {
    if exchange.ending == Ending::Normal {
        exchange.ending = Ending::ServerAborted(Phase::Connect);
    }
    if unavailable(exchange).noted
        && let Some(pool) = exchange.pool_name()
    {
        let name: Rc<str> = pool.into();
        let mut attempt = exchange::Attempt::new(name.clone(), name);
        attempt.status = status;
        attempt.response = Some(Duration::ZERO);
        exchange.attempts.push(attempt);
    }
    errors::upstream_error(exchange, why);
    Unanswered::Status(status)
}

/// What the pool in use has answered where no endpoint of it serves.
fn unavailable(exchange: &Core) -> Unavailable {
    exchange.pool.map(|pool| exchange.installed.plan.pool(pool).unavailable).unwrap_or_default()
}

/// How far the last attempt had come before there was an answer.
fn phase_reached(exchange: &Core) -> Phase {
    let connected = exchange.attempts.last().is_some_and(|last| last.connect.is_some());
    if connected { Phase::Headers } else { Phase::Connect }
}

/// The client went away before there was an answer: what was done for it has ended, and is noted.
fn left(exchange: &mut impl Traffic, phase: Phase, how: &PeerClosed) -> Unanswered {
    let reset = matches!(how, PeerClosed::Failed(_));
    // So logs tell the two apart.
    let told = if reset && phase == Phase::Headers { Phase::Data } else { phase };
    exchange.ending = Ending::ClientAborted(told);
    let doing = match phase {
        Phase::Queue => "waiting for an upstream",
        Phase::Connect => "connecting to upstream",
        _ => "reading response header from upstream",
    };
    let cause = match how {
        PeerClosed::Failed(error) => format!(" ({})", errors::system(error)),
        PeerClosed::Finished => String::new(),
    };
    errors::client_error(
        exchange,
        &format!(
            "client prematurely closed connection, so upstream connection is closed too{cause} while {doing}"
        ),
    );
    let elapsed = exchange.elapsed();
    if let Some(attempt) = exchange.attempts.last_mut() {
        attempt.response.get_or_insert(elapsed);
    }
    if !reset && phase == Phase::Headers && exchange.client_abort() == ClientAbort::Refuse {
        // It may have ended its half only, and is told.
        if let Some(exchange) = exchange.exchange_mut() {
            exchange.close_after = true;
        }
        return Unanswered::Status(400);
    }
    Unanswered::Gone
}

fn end_of(failure: Failure) -> AttemptEnd {
    match failure {
        Failure::Connect | Failure::ConnectTimeout => AttemptEnd::ConnectError,
        Failure::Status(status) => AttemptEnd::Answer(status),
        _ => AttemptEnd::ResponseError,
    }
}

fn note_status(exchange: &mut Core, status: Option<u16>) {
    if let (Some(status), Some(record)) = (status, exchange.attempts.last_mut()) {
        record.status = status;
    }
}

/// Keeps the record of a failed attempt for the log.
pub(super) fn note_failure(exchange: &mut impl Traffic, failed: &Failed, retry: Retry) {
    if retry == Retry::Fresh {
        // A lost race with an idle timeout is nobody's failure, and no attempt.
        exchange.attempts.pop();
        return;
    }
    let elapsed = exchange.elapsed();
    if let Some(attempt) = exchange.attempts.last_mut() {
        attempt.response = Some(elapsed);
        if attempt.status == 0 {
            attempt.status = failed.failure.status();
        }
    }
    errors::upstream_error(exchange, &failed.why);
}

pub(super) fn gave_up(exchange: &mut Core, failure: Failure) -> Unanswered {
    exchange.ending = match failure {
        Failure::Connect => Ending::ServerAborted(Phase::Connect),
        Failure::ConnectTimeout => Ending::ServerTimeout(Phase::Connect),
        Failure::Timeout => Ending::ServerTimeout(Phase::Headers),
        Failure::InvalidHeader => Ending::Proxy(Phase::Headers),
        _ => Ending::ServerAborted(Phase::Headers),
    };
    let unreached = matches!(failure, Failure::Connect | Failure::ConnectTimeout);
    let status = unavailable(exchange).unreachable.filter(|_| unreached);
    Unanswered::Status(status.unwrap_or_else(|| failure.status()))
}
