//! An exchange's way through the plan.
//!
//! Owns: the order site program → route → route program → hooks (`hooks`: limits, access, try_files) → action, internal
//! redirects, error pages, and the bound on going back.
//! Never: knows how an action answers.
//! Driven by: `http::connection`, once a request.

mod hooks;
mod identity;
pub(crate) mod included;
mod subrequest;
mod whole;

pub(crate) use subrequest::afterwards;

use weir_http::HeaderId;
use weir_plan::{Action, ErrorTarget, Respond, RespondBody};

use crate::action::cached::gateway::Gateway;
use crate::action::{self, Later, authority};
use crate::admission::access;
use crate::answer::{respond, stub};
use crate::eval::program::{self, Verdict};
use crate::eval::{edit, memory, trace};
use crate::eval::{keep_match, text};
use crate::exchange::{Downstream, Ending, Exchange, Phase, Verified};
use crate::exchange::{errors, intake};
use crate::worker::Installed;
use crate::worker::watch::{Ends, Watch};

/// Internal redirects, route searches and error pages of one exchange, all together (nginx: 10).
const MAX_REDIRECTS: u8 = 10;

/// What comes next, with what any action may leave for later.
type Next = crate::exchange::Next<Later>;

/// Takes an exchange through the plan until it is answered, or what is left of that can be carried without the plan.
pub(crate) async fn run<D: Downstream>(exchange: &mut Exchange, down: &mut D) -> Option<Later> {
    let installed = exchange.installed.clone();
    if let Some(zone) = installed.plan.site(exchange.site).zone
        && exchange.asked_for.is_none()
        && exchange.zone.is_none()
    {
        exchange.zone = Some(exchange.worker.counters.enter_zone(zone));
    }
    let next = enter_site(exchange, down, &installed).await;
    go_on(exchange, down, &installed, next).await
}

/// Takes an exchange whose path was set by us through the plan.
pub(crate) async fn run_path<D: Downstream>(exchange: &mut Exchange, down: &mut D) -> Option<Later> {
    let installed = exchange.installed.clone();
    let next = enter_again(exchange, down, &installed).await;
    go_on(exchange, down, &installed, next).await
}

/// Takes an exchange whose route was set by us through the plan.
async fn run_route<D: Downstream>(exchange: &mut Exchange, down: &mut D) -> Option<Later> {
    let installed = exchange.installed.clone();
    let next = enter_route(exchange, down, &installed).await;
    go_on(exchange, down, &installed, next).await
}

async fn go_on<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
    mut next: Next,
) -> Option<Later> {
    loop {
        next = match next {
            Next::Done => return None,
            Next::Later(later) => return Some(later),
            Next::Close(status) => {
                exchange.ending = Ending::Proxy(Phase::Request);
                if exchange.response.status == 0 {
                    exchange.response.status = status.unwrap_or(0);
                }
                down.cut();
                return None;
            }
            Next::Status(_) | Next::Redirect { .. } if stub::is_wanted(exchange) => {
                Box::pin(stub::instead(exchange, down)).await;
                Next::Done
            }
            Next::Respond(ref respond) if stub::is_wanted_for(exchange, respond) => {
                Box::pin(stub::instead(exchange, down)).await;
                Next::Done
            }
            Next::Status(408) if exchange.site().conduct.silent_timeouts => {
                exchange.response.status = 408;
                down.cut();
                return None;
            }
            Next::Status(status) => Box::pin(status_or_page(exchange, down, installed, status)).await,
            Next::Respond(respond) => Box::pin(fixed(exchange, down, installed, &respond)).await,
            Next::Redirect { status, location, pages } => {
                Box::pin(redirect_or_page(exchange, down, installed, (status, &location, pages))).await
            }
            Next::Internal { path, query } => {
                Box::pin(internal_redirect(exchange, down, installed, path, query)).await
            }
            Next::InternalPath(path) => {
                if spent(exchange, "internally redirecting to", &path) {
                    Next::Status(500)
                } else {
                    exchange.request.path = path;
                    exchange.request.path_is_raw = false;
                    exchange.internal = true;
                    Box::pin(enter_again(exchange, down, installed)).await
                }
            }
            Next::Named(route) => {
                let name = &installed.plan.route(route).name;
                if spent(exchange, "redirect to named location", name.as_bytes()) {
                    Next::Status(500)
                } else {
                    exchange.internal = true;
                    exchange.path_changed = false;
                    exchange.route = route;
                    Box::pin(enter_route(exchange, down, installed)).await
                }
            }
        }
    }
}

/// Counts a step back; true if there were too many, which the error log says in nginx's words.
fn spent(exchange: &mut Exchange, doing: &str, to: &[u8]) -> bool {
    let spent = is_spent(exchange);
    if spent {
        let to = String::from_utf8_lossy(to);
        errors::error(exchange, &format!("rewrite or internal redirection cycle while {doing} \"{to}\""));
    }
    spent
}

/// As [`spent`], without a word.
fn is_spent(exchange: &mut Exchange) -> bool {
    exchange.redirects += 1;
    exchange.redirects > MAX_REDIRECTS
}

/// As [`spent`], for a path that a program changed.
fn spent_on_path(exchange: &mut Exchange) -> bool {
    let path = std::mem::take(&mut exchange.request.path);
    let spent = spent(exchange, "processing", &path);
    exchange.request.path = path;
    spent
}

/// From the rules of the site to the action. One function for the usual way, on which nothing waits before the action;
/// whatever may wait is boxed, so that the future of a usual request is small.
async fn enter_site<D: Downstream>(exchange: &mut Exchange, down: &mut D, installed: &Installed) -> Next {
    exchange.route = installed.plan.site(exchange.site).fallback;
    if must_wait_first(exchange, installed)
        && let Some(instead) = Box::pin(before_search(exchange, down, installed)).await
    {
        return instead;
    }
    if let Some(instead) = search(exchange, installed) {
        return instead;
    }
    if asks_before_action(exchange, installed)
        && let Some(instead) = Box::pin(before_action(exchange, down, installed)).await
    {
        return instead;
    }
    act(exchange, down, installed).await
}

/// Whether there is anything for [`before_search`] to do.
fn must_wait_first(exchange: &Exchange, installed: &Installed) -> bool {
    let site = installed.plan.site(exchange.site);
    site.program.is_some()
        || installed.plan.route(site.fallback).settings.real_ip.is_some()
        || exchange.handshake_refusal.is_some()
        || exchange.request.path == b"*"
        || authority::may_ask(exchange, installed)
}

/// What a site does before a route is searched. `Some`: none is to be.
async fn before_search<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
) -> Option<Next> {
    let site = installed.plan.site(exchange.site);
    let settings = &installed.plan.route(site.fallback).settings;
    if let Some(rules) = &settings.real_ip {
        access::real_ip(exchange, rules);
    }
    if let Some(status) = exchange.handshake_refusal {
        return Some(handshake_refused(exchange, down, installed, status).await);
    }
    if authority::may_ask(exchange, installed) && Box::pin(authority::answer(exchange, down)).await {
        return Some(Next::Done);
    }
    if exchange.request.path == b"*" && site.conduct.answer_asterisk {
        // `OPTIONS *` asks about the server, and no location is called so.
        Box::pin(respond::last_hop(exchange, down)).await;
        return Some(Next::Done);
    }
    if site.conduct.body_first
        && exchange.request.has_body()
        && let Err(status) = Box::pin(intake::buffer(exchange, down)).await
    {
        return Some(Next::Status(status));
    }
    let verdict_of_site = match &site.program {
        Some(program) => program::run_waiting(exchange, down, program).await,
        None => Verdict::Go,
    };
    match verdict_of_site {
        Verdict::Go => None,
        other => Some(Box::pin(verdict(exchange, down, installed, other)).await),
    }
}

/// Answers a client whose handshake does not do. nginx's 495, 496 and 497 choose an error page; what is answered is 400.
#[cold]
async fn handshake_refused<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
    status: u16,
) -> Next {
    exchange.ending = Ending::Proxy(Phase::Request);
    let verified = exchange.client.tls.as_ref().map(|facts| facts.verified);
    let told = match (status, verified) {
        (495, Some(Verified::Failed(failure))) => {
            format!("client SSL certificate verify error: ({}:{})", failure.code, failure.text)
        }
        (495 | 496, _) => "client sent no required SSL certificate".to_owned(),
        (497, _) => "client sent plain HTTP request to HTTPS port".to_owned(),
        _ => "client attempted to request the server name different from the one that was negotiated"
            .to_owned(),
    };
    errors::client_error(exchange, &format!("{told} while reading client request headers"));
    Box::pin(status_or_page(exchange, down, installed, status)).await
}

/// Answers a request whose head was refused: with the page of its site for the status, if it has one. nginx
/// calls heads that are too large 494.
pub(crate) async fn refuse<D: Downstream>(exchange: &mut Exchange, down: &mut D, status: u16) {
    let installed = exchange.installed.clone();
    exchange.route = installed.plan.site(exchange.site).fallback;
    let status = if status == 431 { exchange.site().conduct.large_heads } else { status };
    let _ = go_on(exchange, down, &installed, Next::Status(status)).await;
}

/// The page for a status of nginx's own, answered as `shown` unless the page has a status.
fn page_answered_as(exchange: &mut Exchange, installed: &Installed, status: u16, shown: u16) -> Option<Next> {
    let page = error_page(exchange, installed, status)?;
    exchange.status_override = exchange.status_override.map(|own| if own == status { shown } else { own });
    Some(page)
}

/// Searches the route of the current path, and enters it.
async fn enter_path<D: Downstream>(exchange: &mut Exchange, down: &mut D, installed: &Installed) -> Next {
    match search(exchange, installed) {
        Some(instead) => instead,
        None => enter_route(exchange, down, installed).await,
    }
}

/// Searches the route of the current path. `Some`: it is not to be entered.
fn search(exchange: &mut Exchange, installed: &Installed) -> Option<Next> {
    (exchange.path_changed, exchange.rewritten) = (false, false);
    let site = installed.plan.site(exchange.site);
    let found = match installed.plan.find(site, &exchange.request.path) {
        Ok(found) => found,
        Err(why) => return Some(undecided(exchange, &why)),
    };
    exchange.route = found.route;
    exchange.matched = found.matched_len;
    if found.redirect_slash {
        let mut location = Vec::new();
        weir_http::uri::escape(weir_http::uri::Escape::Uri, &exchange.request.path, &mut location);
        location.push(b'/');
        if !exchange.request.query.is_empty() {
            location.push(b'?');
            location.extend_from_slice(&exchange.request.query);
        }
        return Some(Next::Redirect { status: 301, location, pages: true });
    }
    if !found.matches.is_empty() {
        let path = exchange.request.path.clone();
        for (pattern, captures) in &found.matches {
            keep_match(exchange, pattern, captures, &path);
        }
    }
    let hidden = installed.plan.route(exchange.route).internal && !exchange.internal;
    hidden.then_some(Next::Status(404))
}

/// The current route from its program on.
async fn enter_route<D: Downstream>(exchange: &mut Exchange, down: &mut D, installed: &Installed) -> Next {
    if asks_before_action(exchange, installed)
        && let Some(instead) = Box::pin(before_action(exchange, down, installed)).await
    {
        return instead;
    }
    act(exchange, down, installed).await
}

/// Whether there is anything for [`before_action`] to do.
fn asks_before_action(exchange: &Exchange, installed: &Installed) -> bool {
    let route = installed.plan.route(exchange.route);
    route.program.is_some()
        || route.features.intersects(hooks::ANY)
        || exchange.request.content_length.is_some()
}

/// What a route does before its action. `Some`: it is not to act.
async fn before_action<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
) -> Option<Next> {
    loop {
        // As nginx: a declared body that is too large is refused before anything answers, be it a mere `return`.
        if !exchange.in_error_page && crate::exchange::intake::declared_too_large(exchange) {
            return Some(Next::Status(413));
        }
        let route = installed.plan.route(exchange.route);
        let Some(program) = &route.program else { break };
        if let Some(tracing) = &route.settings.tracing {
            trace::begin(exchange, tracing);
        }
        match program::run_waiting(exchange, down, program).await {
            Verdict::Go => {}
            other => return Some(Box::pin(verdict(exchange, down, installed, other)).await),
        }
        if !exchange.path_changed {
            break;
        }
        if spent_on_path(exchange) {
            return Some(Next::Status(500));
        }
        if let Some(instead) = search(exchange, installed) {
            return Some(instead);
        }
    }
    // `Adopt` may have changed the route.
    let route = installed.plan.route(exchange.route);
    if route.features.intersects(hooks::ANY) { hooks::run(exchange, down, installed).await } else { None }
}

async fn verdict<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
    verdict: Verdict,
) -> Next {
    match verdict {
        Verdict::Go => Next::Status(500),
        Verdict::Respond(respond) => {
            exchange.note_cause(respond.cause, Phase::Request);
            Next::Respond(respond)
        }
        Verdict::Redirect { status, location } => Next::Redirect { status, location, pages: true },
        Verdict::Close(status) => Next::Close(status),
        Verdict::Status(status) => Next::Status(status),
        Verdict::Failed | Verdict::Waits => Next::Status(500),
        Verdict::Malformed => {
            exchange.ending = Ending::Proxy(Phase::Request);
            Next::Status(400)
        }
        Verdict::Undecided(why) => undecided(exchange, &why),
        Verdict::Overloaded => Next::Status(access::overloaded(exchange)),
        Verdict::Tarpit(millis, respond) => {
            let wait = std::time::Duration::from_millis(millis);
            let _ = Watch::new(down.watched(), Ends::Reset).over(weir_rt::sleep(wait)).await;
            exchange.ending = Ending::Tarpitted;
            crate::exchange::sticks::refused(exchange);
            Next::Respond(respond)
        }
        Verdict::Unauthorized(auth) => {
            access::challenge(exchange, &auth);
            Next::Status(401)
        }
        // As in HAProxy: what was found in a cache is the answer of those rules that looked for it.
        Verdict::Enter(_) if memory::is_due(exchange) => act(exchange, down, installed).await,
        Verdict::Enter(route) => {
            if spent_on_path(exchange) {
                return Next::Status(500);
            }
            exchange.route = route;
            enter_route(exchange, down, installed).await
        }
    }
}

async fn act<D: Downstream>(exchange: &mut Exchange, down: &mut D, installed: &Installed) -> Next {
    if let Some(why) = exchange.slots.take_doubt() {
        return undecided(exchange, &why);
    }
    if memory::is_due(exchange) {
        return Box::pin(action::cached::memory::serve(exchange, down, installed)).await.wrap(Later::memory);
    }
    let route = installed.plan.route(exchange.route);
    match &route.action {
        Action::Static => action::files::serve(exchange, down, installed).await.wrap(Later::file),
        Action::Proxy(proxy) | Action::Http2(proxy) if proxy.cache.is_some() => {
            Box::pin(cached(exchange, down, installed)).await
        }
        Action::FastCgi(fastcgi) if fastcgi.cache.is_some() => {
            Box::pin(cached(exchange, down, installed)).await
        }
        Action::Proxy(proxy) => {
            weir_rt::boxed(|| action::proxy::serve(exchange, down, installed, proxy)).await
        }
        Action::Http2(proxy) => {
            weir_rt::boxed(|| action::http2::serve(exchange, down, installed, proxy)).await.wrap(Later::http2)
        }
        Action::FastCgi(fastcgi) => {
            weir_rt::boxed(|| action::fastcgi::serve(exchange, down, installed, fastcgi))
                .await
                .wrap(Later::fast_cgi)
        }
        Action::Respond(respond) => {
            exchange.note_cause(respond.cause, Phase::Request);
            Next::Respond(respond.clone())
        }
        Action::StubStatus => Box::pin(action::status::stub(exchange, down)).await.wrap(Later::never),
        Action::EmptyGif => Box::pin(action::image::serve(exchange, down)).await.wrap(Later::never),
        Action::Stats(page) => Box::pin(action::status::stats(exchange, down, page)).await.wrap(Later::never),
        Action::Dashboard(dashboard) => {
            Box::pin(action::status::dashboard(exchange, down, *dashboard)).await.wrap(Later::never)
        }
        Action::Api(writes) => {
            Box::pin(action::status::api(exchange, down, *writes)).await.wrap(Later::never)
        }
        Action::Metrics(form) => {
            Box::pin(action::status::metrics(exchange, down, *form)).await.wrap(Later::never)
        }
    }
}

/// An action whose upstream is cached.
#[cold]
async fn cached<D: Downstream>(exchange: &mut Exchange, down: &mut D, installed: &Installed) -> Next {
    let (gateway, settings) = match &installed.plan.route(exchange.route).action {
        Action::Proxy(proxy) => (Gateway::Proxy(proxy), &proxy.cache),
        Action::Http2(proxy) => (Gateway::Http2(proxy), &proxy.cache),
        Action::FastCgi(fastcgi) => (Gateway::FastCgi(fastcgi), &fastcgi.cache),
        _ => return Next::Status(500),
    };
    let Some(settings) = settings else { return Next::Status(500) };
    action::cached::serve(exchange, down, installed, (gateway, settings)).await
}

async fn fixed<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
    respond: &Respond,
) -> Next {
    let is_bare = matches!(respond.body, RespondBody::Standard) && respond.headers.is_empty();
    if respond.error_pages && is_bare {
        return status_or_page(exchange, down, installed, respond.status).await;
    }
    if respond.error_pages
        && respond.status >= 300
        && let Some(next) = error_page(exchange, installed, respond.status)
    {
        if let RespondBody::Redirect(location) = &respond.body {
            let location = text(exchange, location);
            keep_location(exchange, &location);
        }
        return next;
    }
    if matches!(respond.body, RespondBody::Redirect(_)) {
        exchange.status_override = None;
    }
    respond::fixed(exchange, down, respond).await;
    Next::Done
}

/// Redirects the client, unless the route has a page for that.
async fn redirect_or_page<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
    (status, location, pages): (u16, &[u8], bool),
) -> Next {
    if pages && let Some(next) = error_page(exchange, installed, status) {
        keep_location(exchange, location);
        return next;
    }
    exchange.status_override = None;
    respond::redirect(exchange, down, status, location).await;
    Next::Done
}

/// A page that takes the place of a redirect still says where that led, unless it redirects, too.
fn keep_location(exchange: &mut Exchange, location: &[u8]) {
    let location = respond::absolute(exchange, location).into_owned();
    exchange.redirect_fields.push_id(HeaderId::Location, &location);
}

async fn status_or_page<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
    status: u16,
) -> Next {
    if exchange.response.head_sent {
        down.cut();
        return Next::Done;
    }
    respond::close_after(exchange, down, status);
    let own = respond::own_status(status);
    let page = match own {
        Some(_) => page_answered_as(exchange, installed, status, 400),
        None => error_page(exchange, installed, status),
    };
    if let Some(next) = page {
        return next;
    }
    // What fails in an error page is shown for what it is.
    exchange.status_override = None;
    match own {
        Some(why) => respond::explained(exchange, down, 400, why).await,
        None => respond::status(exchange, down, status).await,
    }
    Next::Done
}

/// The page of the current route for a status.
fn error_page(exchange: &mut Exchange, installed: &Installed, status: u16) -> Option<Next> {
    let settings = &installed.plan.route(exchange.route).settings;
    if exchange.last_error_page {
        return None;
    }
    let page = settings.error_pages.find(status)?;
    if is_spent(exchange) {
        return None;
    }
    exchange.in_error_page = true;
    // Whether another one may follow is what the location says that this one is a page of.
    exchange.last_error_page = !settings.recursive_error_pages;
    exchange.status_override = match page.answer {
        None => Some(status),
        Some(None) => None,
        Some(Some(answer)) => Some(answer),
    };
    if status == 401 {
        // The challenge belongs to the status, whatever page shows it.
        let challenges: Vec<_> =
            exchange.response.fields.all(HeaderId::WwwAuthenticate).map(<[u8]>::to_vec).collect();
        for challenge in challenges {
            exchange.redirect_fields.push_id(HeaderId::WwwAuthenticate, &challenge);
        }
    }
    Some(match &page.target {
        ErrorTarget::Uri(target) => {
            let target = text(exchange, target);
            match target.first() {
                Some(b'/') => {
                    edit::as_get(exchange);
                    Next::internal(&target)
                }
                Some(b'@') => match installed.plan.site(exchange.site).named_route(&target) {
                    Some(route) => Next::Named(route),
                    None => {
                        let shown = target.escape_ascii();
                        errors::error(exchange, &format!("could not find named location \"{shown}\""));
                        Next::Status(500)
                    }
                },
                _ => page_elsewhere(exchange, target),
            }
        }
        ErrorTarget::Named(route) => Next::Named(*route),
        ErrorTarget::Redirect(location) => {
            let to = text(exchange, location);
            page_elsewhere(exchange, to)
        }
        ErrorTarget::Whole(respond) => {
            exchange.status_override = Some(status);
            Next::Respond(respond.clone())
        }
    })
}

/// A page that the client is sent to.
fn page_elsewhere(exchange: &mut Exchange, location: Vec<u8>) -> Next {
    let answer = exchange.status_override.take().filter(|status| matches!(status, 301..=303 | 307 | 308));
    Next::Redirect { status: answer.unwrap_or(302), location, pages: false }
}

/// A pattern gave up: the exchange is refused.
#[cold]
fn undecided(exchange: &mut Exchange, why: &weir_plan::MatchFailed) -> Next {
    errors::undecided(exchange, why);
    Next::Status(500)
}

async fn internal_redirect<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
    path: Vec<u8>,
    query: Vec<u8>,
) -> Next {
    if spent(exchange, "internally redirecting to", &path) {
        return Next::Status(500);
    }
    if let Some(last) = exchange.attempts.last_mut() {
        last.new_group = false;
    }
    if !path.starts_with(b"/") {
        return Next::Status(500);
    }
    // Of error pages and last candidates with variables; what an application names was looked at before.
    if weir_http::uri::is_unsafe(&path) {
        errors::unsafe_uri(exchange, &path);
        return Next::Status(404);
    }
    exchange.request.path = path;
    exchange.request.query = query;
    exchange.request.path_is_raw = false;
    exchange.internal = true;
    enter_again(exchange, down, installed).await
}

/// The site again, with another path: its program runs for that, too, where the site says so.
async fn enter_again<D: Downstream>(exchange: &mut Exchange, down: &mut D, installed: &Installed) -> Next {
    let site = installed.plan.site(exchange.site);
    if let Some(program) = site.program.as_ref().filter(|_| site.conduct.program_again) {
        exchange.route = site.fallback;
        match program::run_waiting(exchange, down, program).await {
            Verdict::Go => {}
            other => return Box::pin(verdict(exchange, down, installed, other)).await,
        }
    }
    enter_path(exchange, down, installed).await
}
