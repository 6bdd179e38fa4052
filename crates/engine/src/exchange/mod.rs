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
pub(crate) mod fields;
pub(crate) mod intake;
mod request;
pub(crate) mod residue;
mod response;

pub(crate) use body::{BodyPiece, RequestBody, create_spool_file};
pub(crate) use captures::Captured;
pub(crate) use client::{Client, TlsFacts, ToldAddresses, Verified};
pub(crate) use downstream::{BodySize, Downstream};
pub(crate) use ending::{Ending, Phase};
pub(crate) use request::Request;
pub(crate) use response::{Attempt, Response};

use std::borrow::Cow;
use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_http::uri::{self, UriError};
use weir_plan::{Action, HeaderEdit, PoolIx, ProxyTarget, Route, RouteIx, Site, SiteIx};

use crate::eval::Slots;
use crate::exchange::fields::Fields;
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
    /// Compressor of the answer's body.
    pub(crate) encoder: Option<Box<crate::answer::filter::Encoder>>,
    /// When the first byte of body was sent, for the rate limit.
    pub(crate) body_began: Option<Instant>,
    /// Fields kept for the log.
    pub(crate) captured: CapturedFields,
    /// The client's handshake does not do for this site: the status to refuse with.
    pub(crate) handshake_refusal: Option<u16>,
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
    /// The answer was 101 and is sent; this carries what follows, without the plan.
    pub(crate) tunnel: Option<Box<crate::action::tunnel::Upgraded>>,
    /// The answer lasts; this carries what is left of it, without the plan.
    pub(crate) rest: Option<Box<crate::action::rest::Rest>>,
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
    /// An exchange that has not begun.
    pub(crate) fn new(worker: Rc<Worker>, installed: Rc<Installed>, client: Rc<Client>) -> Self {
        Self {
            started: worker.now(),
            started_unix: weir_rt::unix_now(),
            worker,
            installed,
            client,
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
            encoder: None,
            body_began: None,
            captured: CapturedFields::default(),
            handshake_refusal: None,
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
            tunnel: None,
            rest: None,
            id: Cell::new(None),
        }
    }

    /// Begins another request on memory that was used before.
    pub(crate) fn restart(&mut self, installed: Rc<Installed>, client: Rc<Client>) {
        self.installed = installed;
        self.client = client;
        self.request.clear();
        self.request_trailers.clear();
        self.body.clear();
        self.response.clear();
        self.captures.clear();
        self.slots.clear();
        self.response_edits.clear();
        self.redirect_fields.clear();
        self.path_changed = false;
        self.rewritten = false;
        self.limit_rate = None;
        self.encoder = None;
        self.body_began = None;
        self.captured.request.clear();
        self.captured.response.clear();
        self.captured.wanted.clear();
        self.handshake_refusal = None;
        self.user = None;
        self.times = Times::default();
        self.ending = Ending::Normal;
        self.redirects = 0;
        self.internal = false;
        self.status_override = None;
        self.in_error_page = false;
        self.pool = None;
        self.limit_req_status = None;
        self.limit_conn_status = None;
        self.guards.clear();
        self.asked_for = None;
        self.close_after = false;
        self.persistence = *b"--";
        self.unlogged = false;
        self.tunnel = None;
        self.rest = None;
        self.id.set(None);
        self.started = self.worker.now();
        self.started_unix = weir_rt::unix_now();
    }

    /// A request of our own for this exchange: GET of a path, with the client's fields and no body.
    pub(crate) fn ask_for(&self, path: &[u8]) -> Box<Exchange> {
        let mut asked = self.worker.take_exchange(self.installed.clone(), self.client.clone());
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

    /// Name of its site, or of the TCP service whose session it stands for.
    pub(crate) fn label(&self) -> &str {
        let plan = &self.installed.plan;
        let listener = self.installed.listener(self.client.listener);
        match listener.map(|listener| &plan.listener(listener).service) {
            Some(weir_plan::Service::Tcp(service)) => &plan.tcp_service(*service).name,
            _ => &self.site().name,
        }
    }

    /// The route whose settings hold now.
    pub(crate) fn route(&self) -> &Route {
        self.installed.plan.route(self.route)
    }

    /// `$host`: the request's host, else the site's first name.
    pub(crate) fn host(&self) -> &[u8] {
        if self.request.host.is_empty() { self.site().name.as_bytes() } else { &self.request.host }
    }

    /// The client's address and port, after PROXY header and real-IP rules. `None` on unix sockets.
    pub(crate) fn client_source(&self) -> Option<(IpAddr, u16)> {
        self.request.real_client.or_else(|| self.client.source())
    }

    /// A random number that names this exchange.
    pub(crate) fn id(&self) -> u128 {
        self.id.get().unwrap_or_else(|| {
            let id = u128::from(self.worker.random()) << 64 | u128::from(self.worker.random());
            self.id.set(Some(id));
            id
        })
    }

    /// Sets the path as received: normalises it into `path`, with adjacent slashes merged if so asked, and remembers
    /// that upstream can have it unchanged.
    ///
    /// # Errors
    /// The path cannot be decoded or climbs above the root.
    pub(crate) fn set_raw_path(&mut self, raw: &[u8], merge: bool) -> Result<(), UriError> {
        let request = &mut self.request;
        let mut path = std::mem::take(&mut request.path);
        if raw == b"*" {
            path.clear();
            path.push(b'*');
        } else {
            let mut scratch = Vec::new();
            let normal = uri::normalize(raw, merge, &mut scratch)?;
            path.clear();
            path.extend_from_slice(normal);
        }
        request.path = path;
        if request.raw_path != raw {
            request.raw_path.clear();
            request.raw_path.extend_from_slice(raw);
        }
        request.path_is_raw = true;
        Ok(())
    }

    /// Appends the folder that the path is looked for in.
    pub(crate) fn append_root(&self, out: &mut Vec<u8>) {
        crate::eval::render(self, &self.route().files.root, out);
    }

    /// Appends the file name that the path maps to.
    pub(crate) fn append_filename(&self, out: &mut Vec<u8>) {
        self.append_root(out);
        let files = &self.route().files;
        let path = &self.request.path;
        if files.alias {
            // A pattern stands for the whole path; a prefix for its own bytes.
            out.extend_from_slice(path.get(self.matched..).unwrap_or_default());
        } else {
            if out.last() == Some(&b'/') && path.first() == Some(&b'/') {
                out.pop();
            }
            out.extend_from_slice(path);
        }
    }

    /// Host and port named by the proxy action; of a computed target, what it comes to now.
    pub(crate) fn proxy_host(&self) -> Option<(Cow<'_, [u8]>, u16)> {
        let Action::Proxy(proxy) = &self.route().action else { return None };
        if let ProxyTarget::Computed(template) = &proxy.target {
            let (host, port) = crate::upstream::named_host(&crate::eval::text(self, template))?;
            return Some((Cow::Owned(host), port));
        }
        let host = proxy.host.as_bytes();
        let default = if proxy.tls.is_some() { 443 } else { 80 };
        let port = proxy.host.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(default);
        Some((Cow::Borrowed(host), port))
    }

    /// Name of the pool chosen, or of the one that the action names.
    pub(crate) fn pool_name(&self) -> Option<&str> {
        let named = || match &self.installed.plan.routes.get(self.route.at())?.action {
            Action::Proxy(proxy) => match proxy.target {
                ProxyTarget::Pool(pool) => Some(pool),
                ProxyTarget::Computed(_) => None,
            },
            _ => None,
        };
        self.pool.or_else(named).map(|pool| &*self.installed.plan.pool(pool).name)
    }
}
