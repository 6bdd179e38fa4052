//! One request and its response.
//!
//! Owns: the state of one exchange, whatever the HTTP versions on its two sides.
//! Never: touches a socket; the downstream and upstream halves do.
//! Driven by: `http::connection`, which makes one a request; `exchange::walk`, which takes it through the plan.
//! Why: variables, logs, programs and actions all look at the same thing, and find it here.
//!
//! ```text
//!   received → site → program → route → program → limits → access → action → answered → logged
//!                        ^         |                                    |
//!                        +---------+-- internal redirect, error page ---+
//! ```

mod body;
mod captures;
mod client;
mod downstream;
mod ending;
pub(crate) mod errors;
pub(crate) mod fields;
mod filters;
pub(crate) mod intake;
mod next;
mod request;
pub(crate) mod residue;
mod response;
mod slots;
mod tally;

pub(crate) use body::{BodyPiece, RequestBody, create_spool_file};
pub(crate) use captures::Captured;
pub(crate) use client::{Client, TlsFacts, ToldAddresses, Verified};
pub(crate) use downstream::{BodySize, Downstream};
pub(crate) use ending::{Ending, Phase};
pub(crate) use filters::{BodyFilter, Filters, Then};
pub(crate) use next::Next;
pub(crate) use request::Request;
pub(crate) use response::{Attempt, Response};
pub(crate) use slots::{Slots, Value};

use std::borrow::Cow;
use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_expr::settings::PathReading;
use weir_http::uri::{self, UriError};
use weir_plan::{
    Action, Cause, HeaderEdit, PoolIx, ProxyTarget, Route, RouteIx, Site, SiteIx, TcpIx, TcpService,
};

use crate::exchange::fields::Fields;
use crate::worker::passwords::Question;
use crate::worker::{Installed, Worker};

/// One request and its response.
pub(crate) struct Exchange {
    /// The worker it lives on.
    pub(crate) worker: Rc<Worker>,
    /// The plan it began with; it keeps it to its end, or until it becomes a tunnel or its answer
    /// lasts (see `residue`).
    pub(crate) installed: Rc<Installed>,
    /// The client's connection.
    pub(crate) client: Rc<Client>,
    /// It stands for a session of this TCP service: it has no request, no site and no route.
    pub(crate) tcp: Option<TcpIx>,
    /// The site.
    pub(crate) site: SiteIx,
    /// The route whose settings hold now.
    pub(crate) route: RouteIx,
    /// Bytes of the path that the route matched.
    pub(crate) matched: usize,
    /// The request.
    pub(crate) request: Request,
    /// Its trailers.
    pub(crate) request_trailers: Fields,
    /// Its body.
    pub(crate) body: RequestBody,
    /// The answer.
    pub(crate) response: Response,
    /// Groups of the last pattern that matched.
    pub(crate) captures: Captured,
    /// Values of user variables.
    pub(crate) slots: Slots,
    /// Edits of the response that the program asked for, in order.
    pub(crate) response_edits: Vec<Arc<HeaderEdit>>,
    /// Fields of an endpoint's answer that its redirect inside carries over.
    pub(crate) redirect_fields: Fields,
    /// A rewrite changed the path since the route was searched, and it is to be searched again.
    pub(crate) path_changed: bool,
    /// A rewrite changed the path since the route was searched: what the route matched is no part of it.
    pub(crate) rewritten: bool,
    /// Bytes a second to the client, if the program or an upstream set it; 0: no limit.
    pub(crate) limit_rate: Option<u64>,
    /// What changes the answer's body on its way.
    pub(crate) filters: Filters,
    /// When the first byte of body was sent, for the rate limit.
    pub(crate) body_began: Option<Instant>,
    /// Fields kept for the log.
    pub(crate) captured: CapturedFields,
    /// The client's handshake does not do for this site: the status to refuse with.
    pub(crate) handshake_refusal: Option<u16>,
    /// A condition asks whose credentials these are, and has to wait for a password to be verified.
    pub(crate) asking: Option<Box<Asking>>,
    /// User that authenticated.
    pub(crate) user: Option<Vec<u8>>,
    /// First byte of the request, by both clocks.
    pub(crate) started: Instant,
    /// See `started`.
    pub(crate) started_unix: Duration,
    /// Durations of phases.
    pub(crate) times: Times,
    /// How it ended.
    pub(crate) ending: Ending,
    /// Internal redirects so far.
    pub(crate) redirects: u8,
    /// It was redirected internally; internal routes are open to it.
    pub(crate) internal: bool,
    /// Status to answer with instead of the action's own (error pages).
    pub(crate) status_override: Option<u16>,
    /// An error page is being made; others are not followed unless the route says so.
    pub(crate) in_error_page: bool,
    /// The pool of the last attempt.
    pub(crate) pool: Option<PoolIx>,
    /// Outcome words of limits.
    pub(crate) limit_req_status: Option<&'static str>,
    /// See `limit_req_status`.
    pub(crate) limit_conn_status: Option<&'static str>,
    /// Guards of concurrency limits, held to the end.
    pub(crate) guards: Vec<weir_policy::limit::ConnGuard>,
    /// It is a request of our own for another exchange, whose method this is: nobody but that exchange is answered, and
    /// it is neither limited nor asked who it is, nor logged.
    pub(crate) asked_for: Option<Vec<u8>>,
    /// Close the client's connection after the answer.
    pub(crate) close_after: bool,
    /// What a session's first bytes say, where rules asked for it.
    pub(crate) peeked: Option<Box<Peeked>>,
    /// What became of a persistence cookie: in the request, in the response (HAProxy's letters).
    pub(crate) persistence: [u8; 2],
    /// A rule wants no access log of it.
    pub(crate) unlogged: bool,
    id: Cell<Option<u128>>,
}

/// Fields kept by capture rules.
#[derive(Default)]
pub(crate) struct CapturedFields {
    /// From the request.
    pub(crate) request: Vec<Option<Box<[u8]>>>,
    /// From the response.
    pub(crate) response: Vec<Option<Box<[u8]>>>,
    /// What to take from the response: name, most bytes, slot.
    pub(crate) wanted: Vec<(Box<[u8]>, usize, u16)>,
}

/// What a program waits for.
pub(crate) struct Asking {
    /// The password to be verified.
    pub(crate) question: Question,
    /// Where the program stands: the instruction of the innermost list first, then from list to list the branch taken and
    /// its instruction.
    pub(crate) place: Vec<usize>,
}

/// What a session's first bytes say.
pub(crate) struct Peeked {
    /// How many there were.
    pub(crate) length: usize,
    /// The hello, if they are one.
    pub(crate) hello: Option<weir_http::hello::Hello>,
}

/// Durations of phases.
#[derive(Default, Clone, Copy)]
pub(crate) struct Times {
    /// Idle on the connection before the first byte.
    pub(crate) idle: Duration,
    /// First byte to end of head.
    pub(crate) head: Option<Duration>,
    /// In queues.
    pub(crate) queued: Option<Duration>,
    /// Its place in the queue when it came, from 1; 0: it did not have to wait.
    pub(crate) queue_position: u32,
    /// It waited for one endpoint, not for any.
    pub(crate) queued_for_one: bool,
}

impl Exchange {
    /// A session of a TCP service that has not begun.
    pub(crate) fn of_service(
        worker: Rc<Worker>,
        installed: Rc<Installed>,
        client: Rc<Client>,
        tcp: TcpIx,
    ) -> Self {
        Self { tcp: Some(tcp), ..Self::new(worker, installed, client) }
    }

    /// An exchange that has not begun.
    pub(crate) fn new(worker: Rc<Worker>, installed: Rc<Installed>, client: Rc<Client>) -> Self {
        Self {
            started: worker.now(),
            started_unix: weir_rt::unix_now(),
            worker,
            installed,
            client,
            tcp: None,
            site: SiteIx(0),
            route: RouteIx(0),
            matched: 0,
            request: Request::default(),
            request_trailers: Fields::default(),
            body: RequestBody::default(),
            response: Response::default(),
            captures: Captured::default(),
            slots: Slots::default(),
            response_edits: Vec::new(),
            redirect_fields: Fields::default(),
            path_changed: false,
            rewritten: false,
            limit_rate: None,
            filters: Filters::default(),
            body_began: None,
            captured: CapturedFields::default(),
            handshake_refusal: None,
            asking: None,
            user: None,
            times: Times::default(),
            ending: Ending::Normal,
            redirects: 0,
            internal: false,
            status_override: None,
            in_error_page: false,
            pool: None,
            limit_req_status: None,
            limit_conn_status: None,
            guards: Vec::new(),
            asked_for: None,
            close_after: false,
            persistence: *b"--",
            peeked: None,
            unlogged: false,
            id: Cell::new(None),
        }
    }

    /// An exchange for a request, on memory that was used before if there is any.
    pub(crate) fn take(worker: &Rc<Worker>, installed: Rc<Installed>, client: Rc<Client>) -> Box<Self> {
        match worker.take_spare().and_then(|spare| spare.downcast::<Self>().ok()) {
            Some(mut exchange) => {
                exchange.restart(installed, client);
                exchange
            }
            None => Box::new(Self::new(worker.clone(), installed, client)),
        }
    }

    /// Keeps the memory for another request. It holds on to its plan until it is used again, so none is kept of an older plan.
    pub(crate) fn give(mut self: Box<Self>) {
        let worker = self.worker.clone();
        if worker.keeps_spare(&self.installed) {
            self.guards.clear();
            self.body.clear();
            worker.give_spare(self);
        }
    }

    /// Begins another request on memory that was used before. Each field is named here, so that none can be forgotten:
    /// what is left of one client's request would be seen by the next.
    fn restart(&mut self, new_installed: Rc<Installed>, new_client: Rc<Client>) {
        let Self {
            worker,
            installed,
            client,
            tcp,
            site,
            route,
            matched,
            request,
            request_trailers,
            body,
            response,
            captures,
            slots,
            response_edits,
            redirect_fields,
            path_changed,
            rewritten,
            limit_rate,
            filters,
            body_began,
            captured: CapturedFields { request: captured_request, response: captured_response, wanted },
            handshake_refusal,
            asking,
            user,
            started,
            started_unix,
            times,
            ending,
            redirects,
            internal,
            status_override,
            in_error_page,
            pool,
            limit_req_status,
            limit_conn_status,
            guards,
            asked_for,
            close_after,
            peeked,
            persistence,
            unlogged,
            id,
        } = self;
        *installed = new_installed;
        *client = new_client;
        *tcp = None;
        (*site, *route, *matched) = (SiteIx(0), RouteIx(0), 0);
        request.clear();
        request_trailers.clear();
        body.clear();
        response.clear();
        captures.clear();
        slots.clear();
        response_edits.clear();
        redirect_fields.clear();
        (*path_changed, *rewritten) = (false, false);
        *limit_rate = None;
        filters.clear();
        *body_began = None;
        captured_request.clear();
        captured_response.clear();
        wanted.clear();
        *handshake_refusal = None;
        *asking = None;
        *user = None;
        *started = worker.now();
        *started_unix = weir_rt::unix_now();
        *times = Times::default();
        *ending = Ending::Normal;
        *redirects = 0;
        *internal = false;
        *status_override = None;
        *in_error_page = false;
        *pool = None;
        (*limit_req_status, *limit_conn_status) = (None, None);
        guards.clear();
        *asked_for = None;
        *close_after = false;
        *peeked = None;
        *persistence = *b"--";
        *unlogged = false;
        id.set(None);
    }

    /// A request of our own for this exchange: GET of a path, with the client's fields and no body.
    pub(crate) fn ask_for(&self, path: &[u8]) -> Box<Exchange> {
        let mut asked = Self::take(&self.worker, self.installed.clone(), self.client.clone());
        asked.site = self.site;
        asked.route = self.site().fallback;
        self.request.copy_for(path, &mut asked.request);
        asked.slots = self.slots.clone();
        asked.times = self.times;
        asked.internal = true;
        asked.redirects = self.redirects + 1;
        asked.asked_for = Some(self.request.method_text.clone());
        asked.id.set(Some(self.id()));
        asked
    }

    /// The time of this wake-up.
    pub(crate) fn now(&self) -> Instant {
        self.worker.now()
    }

    /// Time since the first byte of the request.
    pub(crate) fn elapsed(&self) -> Duration {
        self.now().saturating_duration_since(self.started)
    }

    /// Its site.
    pub(crate) fn site(&self) -> &Site {
        self.installed.plan.site(self.site)
    }

    /// The TCP service whose session it stands for.
    pub(crate) fn service(&self) -> Option<&TcpService> {
        self.tcp.map(|tcp| self.installed.plan.tcp_service(tcp))
    }

    /// Its site, where it has one: sessions of TCP services do not.
    pub(crate) fn site_if_any(&self) -> Option<&Site> {
        if self.tcp.is_some() { None } else { self.installed.plan.sites.get(self.site.at()) }
    }

    /// The route whose settings hold now, where it has one.
    pub(crate) fn route_if_any(&self) -> Option<&Route> {
        if self.tcp.is_some() { None } else { self.installed.plan.routes.get(self.route.at()) }
    }

    /// Name of its site, or of its TCP service.
    pub(crate) fn label(&self) -> &str {
        match self.service() {
            Some(service) => &service.name,
            None => self.site_if_any().map_or("", |site| &site.name),
        }
    }

    /// The route whose settings hold now.
    pub(crate) fn route(&self) -> &Route {
        self.installed.plan.route(self.route)
    }

    /// `$host`: the request's host, else the site's first name.
    pub(crate) fn host(&self) -> &[u8] {
        if !self.request.host.is_empty() {
            return &self.request.host;
        }
        self.site_if_any().map_or(&[], |site| site.name.as_bytes())
    }

    /// The client's address and port, after PROXY header and real-IP rules. `None` on unix sockets.
    pub(crate) fn client_source(&self) -> Option<(IpAddr, u16)> {
        self.request.real_client.or_else(|| self.client.source())
    }

    /// Notes why an answer is made here, where that is more than its content.
    pub(crate) fn note_cause(&mut self, cause: Cause, phase: Phase) {
        match cause {
            Cause::Content => {}
            // A rule denied it: HAProxy's log says `PR`, and it counts as denied.
            Cause::Refusal => self.ending = Ending::Proxy(phase),
            Cause::NoPool => self.ending = Ending::ServerAborted(Phase::Connect),
        }
    }

    /// A random number that names this exchange.
    pub(crate) fn id(&self) -> u128 {
        self.id.get().unwrap_or_else(|| {
            let id = u128::from(self.worker.random()) << 64 | u128::from(self.worker.random());
            self.id.set(Some(id));
            id
        })
    }

    /// Sets the path as received: what rules see of it into `path`, what upstream can have into `raw_path`, both as
    /// the settings say.
    ///
    /// # Errors
    /// The path cannot be decoded or climbs above the root.
    pub(crate) fn set_raw_path(
        &mut self,
        raw: &[u8],
        reading: PathReading,
        merge_slashes: bool,
    ) -> Result<(), UriError> {
        let request = &mut self.request;
        let resolved = match reading {
            PathReading::Resolved => uri::resolve_dots(raw),
            PathReading::Decoded | PathReading::Raw => Cow::Borrowed(raw),
        };
        let raw = &*resolved;
        let mut path = std::mem::take(&mut request.path);
        path.clear();
        match reading {
            PathReading::Decoded if raw != b"*" => {
                let mut scratch = Vec::new();
                path.extend_from_slice(uri::normalize(raw, merge_slashes, &mut scratch)?);
            }
            PathReading::Resolved => path.extend_from_slice(&uri::decode_unreserved(raw)),
            PathReading::Decoded | PathReading::Raw => path.extend_from_slice(raw),
        }
        request.path = path;
        if request.raw_path != raw {
            request.raw_path.clear();
            request.raw_path.extend_from_slice(raw);
        }
        request.path_is_raw = true;
        Ok(())
    }

    /// Name of the pool chosen, or of the one that the action names.
    pub(crate) fn pool_name(&self) -> Option<&str> {
        let named = || match &self.route_if_any()?.action {
            Action::Proxy(proxy) => match proxy.target {
                ProxyTarget::Pool(pool) => Some(pool),
                ProxyTarget::Computed(_) => None,
            },
            _ => None,
        };
        self.pool.or_else(named).map(|pool| &*self.installed.plan.pool(pool).name)
    }
}
