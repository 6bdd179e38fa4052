//! Making answers: fixed texts, standard pages, redirects, and the way of every body to the client.
//!
//! Owns: the fields every answer of ours has, edits of responses, compression, rate limits.
//! Never: frames or sends; [`Downstream`] does.
//! Driven by: the walk and all actions.
//! Why: whatever an action sends goes through [`start`], [`data`] and [`end`], so that edits, compression and limits
//! hold for all of them alike.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use weir_http::{HeaderId, Method};
use weir_plan::settings::{PageLayout, PhraseSet};
use weir_plan::{Respond, RespondBody, RouteFeatures};
use weir_wire::SendError;

use crate::answer::{filters, include, trailers};
use crate::eval::{browsers, edit, program, user_id};
use crate::eval::{render, text};
use crate::exchange::fields::Fields;
use crate::exchange::{BodySize, Downstream, Ending, Exchange, Filters, Phase, Then, errors};

/// Between two looks at filters that were given more than they can take.
const CROWDED: Duration = Duration::from_millis(5);
/// So many looks a piece.
const MOST_CROWDED: usize = 40;

/// Begins an answer whose status and fields are in `exchange.response`: applies the route's edits and compression.
pub(crate) fn start<D: Downstream>(exchange: &mut Exchange, down: &mut D, size: BodySize) {
    if let Some(status) = exchange.status_override.take() {
        if exchange.response.status != status {
            exchange.response.reason = None;
        }
        exchange.response.status = status;
    }
    if !exchange.redirect_fields.is_empty() {
        let carried = std::mem::take(&mut exchange.redirect_fields);
        // What there may be several of replaces what the answer has of it as a whole.
        if carried.has(HeaderId::WwwAuthenticate) {
            exchange.response.fields.remove(HeaderId::WwwAuthenticate);
        }
        for field in carried.iter() {
            match field.id {
                HeaderId::SetCookie | HeaderId::WwwAuthenticate => {}
                // A redirect of the page's own.
                HeaderId::Location if exchange.response.fields.has(HeaderId::Location) => continue,
                id => drop(exchange.response.fields.remove(id)),
            }
            exchange.response.fields.push_known(field.id, field.name, field.value);
        }
    }
    let size = match size {
        _ if is_bodiless(exchange) => {
            if let BodySize::Known(length) = size
                && !matches!(exchange.response.status, 100..200 | 204 | 304)
                && !exchange.response.fields.has(HeaderId::ContentLength)
            {
                let mut digits = itoa::Buffer::new();
                exchange.response.fields.push_id(HeaderId::ContentLength, digits.format(length).as_bytes());
            }
            BodySize::Bodiless
        }
        size => size,
    };
    put_server(exchange);
    let features = exchange.route().features;
    let coded = if features.intersects(filters::ANY) { filters::begin(exchange, size) } else { size };
    if features.intersects(RouteFeatures::EXPIRES | RouteFeatures::RESPONSE_EDITS) {
        edit::response(exchange);
    }
    if !exchange.after.is_empty() {
        program::run_after(exchange);
    }
    if features.contains(RouteFeatures::USER_IDS) {
        user_id::set_cookie(exchange, text);
    }
    edit::capture_response(exchange);
    let size = match exchange.slots.take_doubt() {
        None => coded,
        Some(why) => fail(exchange, &why),
    };
    down.begin(exchange, size);
}

/// Makes the answer a bare 500: a value in it, or the way to it, is not known. No body follows, whatever was meant.
#[cold]
fn fail(exchange: &mut Exchange, why: &weir_plan::MatchFailed) -> BodySize {
    crate::exchange::errors::undecided(exchange, why);
    exchange.filters.clear();
    let response = &mut exchange.response;
    (response.status, response.reason, response.failed) = (500, None, true);
    response.fields.clear();
    response.fields.push_id(HeaderId::ContentLength, b"0");
    put_server(exchange);
    BodySize::Bodiless
}

/// Says whose answer it is, where the site wants that said.
pub(crate) fn put_server(exchange: &mut Exchange) {
    // Split by hand: the site is borrowed from the plan, the fields are changed.
    let Exchange { core, site, response, .. } = exchange;
    if let Some(server) = &core.installed.plan.site(*site).server_header {
        // An upstream server's own is there only where the configuration passes it on.
        if !response.fields.has(HeaderId::Server) {
            response.fields.push_id(HeaderId::Server, server.as_bytes());
        }
    }
}

/// Whether the rules of method and status leave no room for a body.
pub(crate) fn is_bodiless(exchange: &Exchange) -> bool {
    exchange.request.method == Method::Head
        || matches!(exchange.response.status, 100..200 | 204 | 304)
        || exchange.response.failed
}

/// Whether the body does not go out as it is, all of it and at once: it is filtered, slowed down, or left out.
pub(crate) fn is_changed(exchange: &Exchange) -> bool {
    !exchange.filters.is_empty() || rate_limit(exchange).is_some() || is_bodiless(exchange)
}

/// Sends a piece of the body.
///
/// # Errors
/// The client is gone or too slow: the exchange is over.
pub(crate) async fn data<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    piece: &[u8],
) -> Result<(), SendError> {
    if !exchange.filters.is_empty() {
        return Box::pin(filtered(exchange, down, piece, Then::More)).await;
    }
    if is_bodiless(exchange) {
        return Ok(());
    }
    send_paced(exchange, down, piece).await
}

// What is rare is boxed, here and below: the future of a usual request stays small enough to be had cheaply.
async fn filtered<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    piece: &[u8],
    then: Then,
) -> Result<(), SendError> {
    let mut filters = std::mem::take(&mut exchange.filters);
    let sent = through(exchange, down, &mut filters, piece, then).await;
    if then == Then::End {
        filters.note(&mut exchange.response);
        filters.clear();
    }
    exchange.filters = filters;
    sent
}

/// Takes a piece through filters in steps that suit them.
async fn through<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    filters: &mut Filters,
    piece: &[u8],
    then: Then,
) -> Result<(), SendError> {
    if filters.joined_at(0).is_some() {
        return include::onwards(exchange, down, filters, 0, piece, then).await;
    }
    let step = filters.step();
    let mut rest = piece;
    loop {
        let (now, later) = rest.split_at(rest.len().min(step));
        make_room(filters).await;
        let out = filters.pass(now, if later.is_empty() { then } else { Then::More });
        // One that stores a response wants its body where the client gets none.
        let mut sent = if is_bodiless(exchange) { Ok(()) } else { send_paced(exchange, down, out).await };
        if sent.is_ok()
            && let Some(why) = filters.problem()
        {
            errors::error(exchange, &why);
            sent = Err(SendError::Length);
        }
        if sent.is_err() && !later.is_empty() {
            // They miss the rest: what one of them stores would not be whole.
            filters.clear();
        }
        if sent.is_err() || later.is_empty() {
            return sent;
        }
        rest = later;
    }
}

/// Shows a piece of the body to the filters alone: the client has gone, and one of them stores it.
pub(crate) async fn absorb(exchange: &mut Exchange, piece: &[u8], then: Then) {
    let step = exchange.filters.step();
    for part in piece.chunks(step.max(1)) {
        make_room(&exchange.filters).await;
        exchange.filters.pass(part, Then::More);
    }
    if then == Then::End {
        exchange.filters.pass(b"", Then::End);
        exchange.filters.clear();
    }
}

/// Waits a little for filters that were given more than they can take.
pub(super) async fn make_room(filters: &Filters) {
    for _ in 0..MOST_CROWDED {
        if !filters.are_crowded() {
            return;
        }
        weir_rt::sleep(CROWDED).await;
    }
}

/// Ends the body.
///
/// # Errors
/// As [`data`].
pub(crate) async fn end<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    trailers: &Fields,
) -> Result<(), SendError> {
    if end_now(exchange, down, trailers)? {
        return Ok(());
    }
    if !exchange.filters.is_empty() {
        Box::pin(filtered(exchange, down, b"", Then::End)).await?;
        if let Some(trailers) = trailers::with_own(exchange, trailers) {
            Box::pin(down.finish(exchange, &trailers)).await?;
            exchange.response.complete = true;
            return Ok(());
        }
    }
    Box::pin(down.finish(exchange, trailers)).await?;
    exchange.response.complete = true;
    Ok(())
}

/// As [`end`], where that needs no wait, as for most answers. False: [`end`] is to follow.
///
/// # Errors
/// As [`data`].
pub(crate) fn end_now<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    trailers: &Fields,
) -> Result<bool, SendError> {
    let ended = exchange.filters.is_empty() && trailers.is_empty() && down.finish_now()?;
    exchange.response.complete |= ended;
    Ok(ended)
}

/// Sends what is held back, for answers that trickle.
///
/// # Errors
/// As [`data`].
pub(crate) async fn flush<D: Downstream>(exchange: &mut Exchange, down: &mut D) -> Result<(), SendError> {
    if !exchange.filters.is_empty() {
        Box::pin(filtered(exchange, down, b"", Then::Flush)).await?;
    }
    down.flush(exchange).await
}

/// The rate limit that holds now, in bytes a second.
pub(crate) fn rate_limit(exchange: &Exchange) -> Option<u64> {
    exchange.limit_rate.or(exchange.route().settings.limit_rate).filter(|&rate| rate > 0)
}

/// Sends bytes as they are, at the pace that holds.
pub(super) async fn send_paced<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    piece: &[u8],
) -> Result<(), SendError> {
    match rate_limit(exchange) {
        None => down.send(exchange, piece).await,
        Some(rate) => Box::pin(pace(exchange, down, piece, rate)).await,
    }
}

async fn pace<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    piece: &[u8],
    rate: u64,
) -> Result<(), SendError> {
    let began = *exchange.body_began.get_or_insert(exchange.worker.now());
    // Tenths of a second of data at a time, so that the stream is even.
    let step = (rate / 10).clamp(1, weir_rt::LARGE as u64) as usize;
    for part in piece.chunks(step) {
        down.send(exchange, part).await?;
        let free = exchange.route().settings.limit_rate_after;
        let limited = down.sent().1.saturating_sub(free);
        let due = began + Duration::from_secs_f64(limited as f64 / rate as f64);
        if due > weir_rt::now() {
            down.flush(exchange).await?;
            weir_rt::sleep_until(due).await;
        }
    }
    Ok(())
}

/// Sends a whole answer from memory.
pub(crate) async fn whole<D: Downstream>(exchange: &mut Exchange, down: &mut D, body: &[u8]) {
    start(exchange, down, BodySize::Known(body.len() as u64));
    let sent = async {
        data(exchange, down, body).await?;
        end(exchange, down, &Fields::default()).await
    };
    if let Err(error) = sent.await {
        down.fail(exchange, &error);
    }
}

/// Answers with the standard page of a status.
pub(crate) async fn status<D: Downstream>(exchange: &mut Exchange, down: &mut D, status: u16) {
    explained(exchange, down, status, "").await;
}

/// As [`status()`], with a page that says why, unless that is empty.
pub(crate) async fn explained<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    status: u16,
    why: &'static str,
) {
    begin_answer(exchange, status);
    let shown = exchange.status_override.unwrap_or(status);
    if matches!(status, 204 | 304) || has_no_page(exchange, shown) {
        return whole(exchange, down, b"").await;
    }
    // Edits that are kept across error answers: the challenge of 401, the location of redirects.
    let page = standard_page(exchange, shown, why);
    exchange.response.fields.push_id(HeaderId::ContentType, b"text/html");
    if exchange.site().conduct.pages.no_cache {
        exchange.response.fields.push_id(HeaderId::CacheControl, b"no-cache");
    }
    close_after(exchange, down, status);
    let page = padded(exchange, shown, page);
    whole(exchange, down, &page).await;
}

/// Why a request is refused with a status that has a page of its own and is shown as 400: nginx's 494 to 497.
pub(crate) fn own_status(status: u16) -> Option<&'static str> {
    Some(match status {
        494 => "Request Header Or Cookie Too Large",
        495 => "The SSL certificate error",
        496 => "No required SSL certificate was sent",
        497 => "The plain HTTP request was sent to HTTPS port",
        _ => return None,
    })
}

/// Closes the connection after the refusals that leave in doubt where the next request begins, whatever page shows them.
pub(crate) fn close_after<D: Downstream>(exchange: &mut Exchange, down: &D, status: u16) {
    let fails_closed = exchange.site().conduct.fails_closed;
    exchange.close_after |= match status {
        400 | 408 | 414 | 431 | 495..=497 => true,
        413 => fails_closed || !down.body_done(),
        500 | 501 => fails_closed,
        _ => false,
    };
}

/// Turns a request away for want of memory, so that those under way can end.
pub(crate) async fn shed<D: Downstream>(exchange: &mut Exchange, down: &mut D) {
    exchange.worker.shared.memory.shed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    exchange.close_after = true;
    exchange.ending = Ending::Resource(Phase::Request);
    status(exchange, down, 503).await;
}

/// The methods that are served somewhere: what `Allow` says where no action was asked.
const METHODS: &[u8] = b"GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH";

/// Answers a method that is never served (CONNECT; TRACE on nginx's side): 405 with the others.
pub(crate) async fn not_allowed<D: Downstream>(exchange: &mut Exchange, down: &mut D) {
    exchange.response.fields.push_id(HeaderId::Allow, METHODS);
    status(exchange, down, 405).await;
}

/// Answers as the last recipient of an OPTIONS or TRACE that was not to be forwarded: RFC 9110 §7.6.2.
pub(crate) async fn last_hop<D: Downstream>(exchange: &mut Exchange, down: &mut D) {
    if exchange.request.method == Method::Trace {
        not_allowed(exchange, down).await;
    } else {
        begin_answer(exchange, 200);
        exchange.response.fields.push_id(HeaderId::Allow, METHODS);
        whole(exchange, down, b"").await;
    }
}

/// Forgets what an action had prepared, but what an answer to the client must still say.
fn begin_answer(exchange: &mut Exchange, status: u16) {
    // What belongs to the status itself stays: the challenge, the methods, the length.
    let kept = match status {
        401 => HeaderId::WwwAuthenticate,
        405 => HeaderId::Allow,
        416 => HeaderId::ContentRange,
        _ => HeaderId::Unknown,
    };
    exchange.response.status = status;
    exchange.response.reason = None;
    exchange.response.fields.retain(|field| kept != HeaderId::Unknown && field.id == kept);
    exchange.filters.clear();
    if exchange.ending == Ending::Normal && exchange.attempts.is_empty() {
        exchange.ending = Ending::Local;
    }
}

/// A titled page needs a phrase; statuses without one are answered with a head alone.
fn has_no_page(exchange: &Exchange, status: u16) -> bool {
    exchange.site().conduct.pages.layout == PageLayout::Titled && exchange.phrases().reason(status).is_empty()
}

/// The page of a status.
fn standard_page(exchange: &Exchange, status: u16, why: &str) -> Vec<u8> {
    let reason = exchange.phrases().reason(status);
    let page = match exchange.site().conduct.pages.layout {
        PageLayout::Titled => {
            let name = exchange.site().server_header.as_deref().unwrap_or("weir");
            let (title, more) = match why {
                "" => (title(exchange, status).unwrap_or(reason), String::new()),
                why => (why, format!("<center>{why}</center>\r\n")),
            };
            let heading = if why.is_empty() { title } else { reason };
            format!(
                "<html>\r\n<head><title>{status} {title}</title></head>\r\n<body>\r\n<center><h1>{status} {heading}</h1>\
                 </center>\r\n{more}<hr><center>{name}</center>\r\n</body>\r\n</html>\r\n"
            )
        }
        PageLayout::Explained => {
            let words = explanation(status);
            format!("<html><body><h1>{status} {reason}</h1>\n{words}\n</body></html>\n")
        }
    };
    page.into_bytes()
}

/// A page of an error, long enough for the client's browser to show it.
fn padded(exchange: &Exchange, status: u16, mut page: Vec<u8>) -> Vec<u8> {
    let agent = exchange.request.fields.first(HeaderId::UserAgent);
    let pads = status >= 400
        && exchange.route().settings.client.old_browsers.pads_errors
        && agent.is_some_and(|agent| browsers::is_msie(agent) || browsers::is_chrome(agent));
    if pads {
        page.extend_from_slice(&PADDING.repeat(6));
    }
    page
}

/// What pages are padded with: nginx's words, so that both have the same length.
const PADDING: &[u8] = b"<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n";

/// Whether the client's browser gets a page that takes it to another place, instead of a redirect.
fn refreshes(exchange: &Exchange, status: u16) -> bool {
    matches!(status, 301 | 302)
        && exchange.route().settings.client.old_browsers.refreshes
        && exchange.request.fields.first(HeaderId::UserAgent).is_some_and(browsers::is_msie)
}

async fn refresh<D: Downstream>(exchange: &mut Exchange, down: &mut D, location: &[u8]) {
    let mut page = b"<html><head><meta http-equiv=\"Refresh\" content=\"0; URL=".to_vec();
    weir_http::uri::escape(weir_http::uri::Escape::Refresh, location, &mut page);
    page.extend_from_slice(b"\"></head><body></body></html>\r\n");
    exchange.response.status = 200;
    exchange.response.fields.push_id(HeaderId::ContentType, b"text/html");
    whole(exchange, down, &page).await;
}

/// What a page says where it says something else than the status line.
fn title(exchange: &Exchange, status: u16) -> Option<&'static str> {
    match (exchange.site().conduct.pages.phrases, status) {
        (PhraseSet::Traditional, 302) => Some("Found"),
        (PhraseSet::Traditional, 401) => Some("Authorization Required"),
        _ => None,
    }
}

/// One sentence for a person who meets the status.
fn explanation(status: u16) -> &'static str {
    match status {
        400 => "What your browser sent is not a valid request.",
        401 => "A user name and a password are asked for.",
        403 => "The rules of this site forbid this request.",
        404 => "There is nothing here.",
        408 => "The request did not arrive in time.",
        413 => "The request is too large.",
        429 => "Too many requests in a short time.",
        500 => "An error happened here.",
        502 => "The server behind gave no valid answer.",
        503 => "No server can take this request now.",
        504 => "The server behind did not answer in time.",
        _ => "",
    }
}

/// Redirects the client. A relative location is made absolute as the site says.
pub(crate) async fn redirect<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    status: u16,
    location: &[u8],
) {
    begin_answer(exchange, status);
    if refreshes(exchange, status) {
        return refresh(exchange, down, location).await;
    }
    let location = absolute(exchange, location);
    exchange.response.fields.push_id(HeaderId::Location, &location);
    if exchange.site().conduct.pages.no_cache {
        forbid_caching(exchange, status);
    }
    if exchange.site().conduct.pages.bare_redirects {
        return whole(exchange, down, b"").await;
    }
    let page = standard_page(exchange, status, "");
    exchange.response.fields.push_id(HeaderId::ContentType, b"text/html");
    whole(exchange, down, &page).await;
}

/// The location as it is sent: absolute if the site asks for it.
pub(crate) fn absolute<'l>(exchange: &Exchange, location: &'l [u8]) -> Cow<'l, [u8]> {
    let site = exchange.site();
    if !location.starts_with(b"/") || !site.absolute_redirect {
        return Cow::Borrowed(location);
    }
    let secure = exchange.client.tls.is_some();
    let address;
    let host = if site.server_name_in_redirect {
        site.name.as_bytes()
    } else if exchange.request.host.is_empty() {
        address = exchange.client.destination().map_or(String::new(), |(ip, _)| match ip {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        });
        address.as_bytes()
    } else {
        &exchange.request.host
    };
    let mut out = Vec::with_capacity(location.len() + host.len() + 16);
    out.extend_from_slice(if secure { b"https://" } else { b"http://" });
    out.extend_from_slice(host);
    let default = if secure { 443 } else { 80 };
    if site.port_in_redirect
        && let Some((_, port)) = exchange.client.destination()
        && port != default
    {
        out.extend_from_slice(format!(":{port}").as_bytes());
    }
    out.extend_from_slice(location);
    Cow::Owned(out)
}

/// Sends an answer that the configuration made.
pub(crate) async fn fixed<D: Downstream>(exchange: &mut Exchange, down: &mut D, respond: &Respond) {
    if let RespondBody::Redirect(location) = &respond.body {
        let location = text(exchange, location);
        add_fields(exchange, respond);
        return redirect_with(exchange, down, respond.status, &location).await;
    }
    // The text may show it.
    exchange.response.status = exchange.status_override.unwrap_or(respond.status);
    let body: Cow<'_, [u8]> = match &respond.body {
        RespondBody::Text(template) => Cow::Owned(text(exchange, template)),
        RespondBody::Bytes(bytes) => Cow::Borrowed(bytes),
        RespondBody::Standard | RespondBody::Redirect(_) => {
            if respond.headers.is_empty() {
                return status(exchange, down, respond.status).await;
            }
            begin_answer(exchange, respond.status);
            add_fields(exchange, respond);
            let page = standard_page(exchange, respond.status, "");
            exchange.response.fields.push_id(HeaderId::ContentType, b"text/html");
            if exchange.site().conduct.pages.no_cache {
                exchange.response.fields.push_id(HeaderId::CacheControl, b"no-cache");
            }
            return whole(exchange, down, &page).await;
        }
    };
    begin_answer(exchange, respond.status);
    exchange.response.reason = respond.reason.as_deref().map(|reason| reason.as_bytes().into());
    let mut content_type = Vec::new();
    match &respond.content_type {
        // There is no content that could have a type.
        _ if matches!(respond.status, 204 | 304) => {}
        Some(template) => render(exchange, template, &mut content_type),
        None => {
            content_type.extend_from_slice(exchange.route().files.types.of(&exchange.request.path).as_bytes())
        }
    }
    if !content_type.is_empty() {
        exchange.response.fields.push_id(HeaderId::ContentType, &content_type);
    }
    add_fields(exchange, respond);
    whole(exchange, down, &body).await;
}

async fn redirect_with<D: Downstream>(exchange: &mut Exchange, down: &mut D, status: u16, location: &[u8]) {
    let added: Vec<(Vec<u8>, Vec<u8>)> =
        exchange.response.fields.iter().map(|field| (field.name.to_vec(), field.value.to_vec())).collect();
    begin_answer(exchange, status);
    for (name, value) in added {
        exchange.response.fields.push(&name, &value);
    }
    if refreshes(exchange, status) {
        return refresh(exchange, down, location).await;
    }
    let location = absolute(exchange, location).into_owned();
    exchange.response.fields.push_id(HeaderId::Location, &location);
    let pages = exchange.site().conduct.pages;
    if pages.no_cache {
        forbid_caching(exchange, status);
    }
    let page = if pages.bare_redirects { Vec::new() } else { standard_page(exchange, status, "") };
    if !page.is_empty() {
        exchange.response.fields.push_id(HeaderId::ContentType, b"text/html");
    }
    whole(exchange, down, &page).await;
}

/// Redirects that are not for good say that they are not to be kept.
fn forbid_caching(exchange: &mut Exchange, status: u16) {
    if matches!(status, 302 | 303 | 307) {
        exchange.response.fields.push_id(HeaderId::CacheControl, b"no-cache");
    }
}

fn add_fields(exchange: &mut Exchange, respond: &Respond) {
    for (name, value) in &respond.headers {
        let value = text(exchange, value);
        exchange.response.fields.push_known(name.id, name.name.as_bytes(), &value);
    }
}
