//! One request and its response.
//!
//! Owns: the state of one exchange, whatever the HTTP versions on its two sides.
//! Never: touches a socket; the downstream and upstream halves do.
//! Driven by: `http::connection`, which makes one a request; `walk`, which takes it through the plan.
//! Why: variables, logs, programs and actions all look at the same thing, and find it here.
//!
//! ```text
//!   received → site → program → route → program → limits → access → action → answered → logged
//!                        ^         |                                    |
//!                        +---------+-- internal redirect, error page ---+
//! ```

mod asking;
mod body;
pub(crate) mod caching;
mod captures;
mod client;
pub(crate) mod clientless;
mod core;
pub(crate) mod detach;
mod downstream;
mod ending;
pub(crate) mod errors;
pub(crate) mod fields;
mod filters;
mod flight;
mod identity;
pub(crate) mod intake;
pub(crate) mod memory;
mod next;
mod nobody;
pub(crate) mod own;
pub(crate) mod page;
mod request;
mod response;
pub(crate) mod seen;
mod session;
pub(crate) mod slice;
mod slots;
pub(crate) mod sticks;
mod tally;
mod times;
mod tls_facts;
mod traffic;
mod user_id;

pub(crate) use asking::{Asking, Awaited};
pub(crate) use body::{BodyPiece, RequestBody, create_named_file, create_spool_file};
pub(crate) use caching::{CacheStatus, Caching};
pub(crate) use client::{Client, ToldAddresses};
pub(crate) use core::Core;
pub(crate) use downstream::{BodySize, Downstream};
pub(crate) use ending::{Ending, Phase};
pub(crate) use filters::{AtJoint, BodyFilter, Filters, Joint, Slices, Then};
pub(crate) use identity::{Identity, Token};
pub(crate) use next::Next;
pub(crate) use nobody::Nobody;
pub(crate) use own::Trace;
pub(crate) use page::Page;
pub(crate) use request::Request;
pub(crate) use response::{Attempt, Response};
pub(crate) use session::{Peeked, Session};
use slice::Slice;
pub(crate) use slots::Value;
pub(crate) use tls_facts::{TlsFacts, Verified};
pub(crate) use traffic::{Kind, Traffic};
pub(crate) use user_id::{GivenId, UserId, UserNumber};

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;

use weir_expr::settings::{PathReading, PhraseSet};
use weir_http::HeaderId;
use weir_http::uri::{self, UriError};
use weir_plan::{Cause, PoolIx, Program, ProxyTarget, Route, RouteIx, Site, SiteIx};
use weir_rt::Instant;

use crate::exchange::fields::Fields;
use crate::worker::{Installed, Worker};

/// One request and its response.
pub(crate) struct Exchange {
    /// What it has in common with a session of a TCP service.
    pub(crate) core: Core,
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
    /// What the program wants to be run on the response, last first.
    pub(crate) after: Vec<Arc<Program>>,
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
    /// User that authenticated.
    pub(crate) user: Option<Vec<u8>>,
    /// Internal redirects so far.
    pub(crate) redirects: u8,
    /// It was redirected internally; internal routes are open to it.
    pub(crate) internal: bool,
    /// Status to answer with instead of the action's own (error pages).
    pub(crate) status_override: Option<u16>,
    /// An error page is being made; others are not followed unless the route says so.
    pub(crate) in_error_page: bool,
    /// What fails now has no page.
    pub(crate) last_error_page: bool,
    /// Outcome word of limits of rates.
    pub(crate) limit_req_status: Option<&'static str>,
    /// It is a request of our own for another exchange: nobody but that exchange is answered, and it is neither limited
    /// nor asked who it is, nor logged.
    pub(crate) asked_for: Option<Box<AskedFor>>,
    /// Close the client's connection after the answer.
    pub(crate) close_after: bool,
    /// What became of a persistence cookie: in the request, in the response (HAProxy's letters).
    pub(crate) persistence: [u8; 2],
    /// When its client was seen, as its persistence cookie says.
    pub(crate) cookie_seen: Option<seen::Seen>,
    /// Its body is a page with commands.
    pub(crate) page: Option<Box<Page>>,
    /// What it has to do with the cache.
    pub(crate) caching: Option<Box<Caching>>,
    /// What it has to do with caches in memory.
    pub(crate) looked: Option<Box<memory::Looked>>,
    /// By what its client is known, once somebody asked.
    pub(crate) user_id: OnceCell<Rc<UserId>>,
    /// Who sends it, once somebody asked.
    identity: OnceCell<Rc<Identity>>,
    /// The slice of the response that is asked for.
    pub(crate) slice: Cell<Option<Slice>>,
}

/// For what a request of our own is.
#[derive(Default)]
pub(crate) struct AskedFor {
    /// The method of the request that it is for.
    pub(crate) method: Vec<u8>,
    /// What its pages share with those of that request.
    pub(crate) pages: Option<Rc<page::Shared>>,
    /// So many requests lie around it.
    pub(crate) depth: u8,
    /// What is sent where it has nothing of its own to say.
    pub(crate) stub: Option<Stub>,
}

/// The body of an answer that there would otherwise be none of.
pub(crate) struct Stub {
    pub(crate) body: Rc<[u8]>,
    pub(crate) content_type: Vec<u8>,
}

impl AskedFor {
    fn by(exchange: &Exchange) -> Self {
        let outer = exchange.asked_for.as_ref();
        let pages = exchange.page.as_ref().map(|page| &page.shared);
        Self {
            method: outer.map_or(&exchange.request.method_text, |outer| &outer.method).clone(),
            pages: pages.or_else(|| outer?.pages.as_ref()).cloned(),
            depth: outer.map_or(0, |outer| outer.depth) + 1,
            stub: None,
        }
    }
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

impl Exchange {
    /// An exchange that has not begun.
    pub(crate) fn new(worker: Rc<Worker>, installed: Rc<Installed>, client: Rc<Client>) -> Self {
        Self {
            core: Core::new(worker, installed, client),
            site: SiteIx(0),
            route: RouteIx(0),
            matched: 0,
            request: Request::default(),
            request_trailers: Fields::default(),
            body: RequestBody::default(),
            response: Response::default(),
            after: Vec::new(),
            redirect_fields: Fields::default(),
            path_changed: false,
            rewritten: false,
            limit_rate: None,
            filters: Filters::default(),
            body_began: None,
            captured: CapturedFields::default(),
            handshake_refusal: None,
            user: None,
            redirects: 0,
            internal: false,
            status_override: None,
            in_error_page: false,
            last_error_page: false,
            limit_req_status: None,
            asked_for: None,
            close_after: false,
            persistence: *b"--",
            cookie_seen: None,
            page: None,
            caching: None,
            looked: None,
            user_id: OnceCell::new(),
            identity: OnceCell::new(),
            slice: Cell::default(),
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
            self.sticks = None;
            self.flight = None;
            self.zone = None;
            self.body.clear();
            self.filters.clear();
            self.page = None;
            self.caching = None;
            self.looked = None;
            self.identity.take();
            worker.give_spare(self);
        }
    }

    /// Begins another request on memory that was used before. Each field is named here, so that none can be forgotten:
    /// what is left of one client's request would be seen by the next.
    fn restart(&mut self, installed: Rc<Installed>, client: Rc<Client>) {
        let Self {
            core,
            site,
            route,
            matched,
            request,
            request_trailers,
            body,
            response,
            after,
            redirect_fields,
            path_changed,
            rewritten,
            limit_rate,
            filters,
            body_began,
            captured: CapturedFields { request: captured_request, response: captured_response, wanted },
            handshake_refusal,
            user,
            redirects,
            internal,
            status_override,
            in_error_page,
            last_error_page,
            limit_req_status,
            asked_for,
            close_after,
            persistence,
            cookie_seen,
            page,
            caching,
            looked,
            user_id,
            identity,
            slice,
        } = self;
        core.restart(installed, client);
        (*site, *route, *matched) = (SiteIx(0), RouteIx(0), 0);
        request.clear();
        request_trailers.clear();
        body.clear();
        response.clear();
        after.clear();
        redirect_fields.clear();
        (*path_changed, *rewritten) = (false, false);
        *limit_rate = None;
        filters.clear();
        *body_began = None;
        captured_request.clear();
        captured_response.clear();
        wanted.clear();
        *handshake_refusal = None;
        *user = None;
        *redirects = 0;
        *internal = false;
        *status_override = None;
        (*in_error_page, *last_error_page) = (false, false);
        *limit_req_status = None;
        *asked_for = None;
        *close_after = false;
        *persistence = *b"--";
        *cookie_seen = None;
        *page = None;
        *caching = None;
        *looked = None;
        user_id.take();
        identity.take();
        slice.take();
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
        asked.asked_for = Some(Box::new(AskedFor::by(self)));
        asked.real_client = self.real_client;
        asked.meant = self.meant;
        asked.share_id(self);
        asked.user_id = self.user_id.clone();
        asked.identity = self.identity.clone();
        asked
    }

    /// This request once more, on the route that it has reached, with all that was made of it on its way.
    pub(crate) fn again(&self) -> Box<Exchange> {
        let mut copy = self.ask_for(&self.request.path);
        let (from, to) = (&self.request, &mut copy.request);
        to.method = from.method;
        to.method_text.clone_from(&from.method_text);
        to.query.clone_from(&from.query);
        to.path_is_raw = from.path_is_raw;
        copy.route = self.route;
        copy.matched = self.matched;
        copy.rewritten = self.rewritten;
        copy.user.clone_from(&self.user);
        copy.captures = self.captures.clone();
        copy
    }

    /// This request once more, for a path of its site; with its body, if that is wanted and all of it is here.
    ///
    /// # Errors
    /// The body cannot be read twice.
    pub(crate) fn copy_to(&self, path: &[u8], with_body: bool) -> std::io::Result<Box<Exchange>> {
        let mut copy = self.ask_for(path);
        copy.request.method = self.request.method;
        copy.request.method_text.clone_from(&self.request.method_text);
        copy.request.query.clone_from(&self.request.query);
        if with_body && self.request.has_body() && self.body.complete {
            copy.body = self.body.again()?;
            let length = copy.body.buffered();
            copy.request.content_length = Some(length);
            copy.request.fields.push_id(HeaderId::ContentLength, length.to_string().as_bytes());
        }
        Ok(copy)
    }

    /// Takes over what variables say of the answer of another.
    pub(crate) fn knows_answer_of(&mut self, other: &Self) {
        let (from, to) = (&other.response, &mut self.response);
        (to.status, to.complete) = (from.status, from.complete);
        (to.bytes_sent, to.body_bytes_sent) = (from.bytes_sent, from.body_bytes_sent);
        self.user.clone_from(&other.user);
    }

    /// The head of the response is on its way: nothing else can be answered any more.
    pub(crate) fn head_leaves(&mut self) {
        self.response.head_sent = true;
        self.times.first_byte = Some(self.elapsed());
    }

    /// Its site.
    pub(crate) fn site(&self) -> &Site {
        self.installed.plan.site(self.site)
    }

    /// The reason phrases of its site.
    pub(crate) fn phrases(&self) -> weir_http::Phrases {
        match self.site().conduct.pages.phrases {
            PhraseSet::Registered => weir_http::Phrases::Rfc,
            PhraseSet::Traditional => weir_http::Phrases::Traditional,
        }
    }

    /// Its site, once it is known.
    pub(crate) fn site_if_any(&self) -> Option<&Site> {
        self.installed.plan.sites.get(self.site.at())
    }

    /// The route whose settings hold now, once it is known.
    pub(crate) fn route_if_any(&self) -> Option<&Route> {
        self.installed.plan.routes.get(self.route.at())
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

    /// Notes why an answer is made here, where that is more than its content.
    pub(crate) fn note_cause(&mut self, cause: Cause, phase: Phase) {
        match cause {
            Cause::Content => {}
            // A rule denied it: HAProxy's log says `PR`, and it counts as denied.
            Cause::Refusal => {
                self.ending = Ending::Proxy(phase);
                sticks::refused(self);
            }
            Cause::NoPool => self.ending = Ending::ServerAborted(Phase::Connect),
        }
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

    /// The pool that its action names.
    pub(crate) fn pool_of_action(&self) -> Option<PoolIx> {
        let proxy = self.route_if_any()?.action.proxy()?;
        match proxy.target {
            ProxyTarget::Pool(pool) => Some(pool),
            ProxyTarget::Computed(_) => None,
        }
    }
}

impl Deref for Exchange {
    type Target = Core;

    #[inline]
    fn deref(&self) -> &Core {
        &self.core
    }
}

impl DerefMut for Exchange {
    #[inline]
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.core
    }
}
