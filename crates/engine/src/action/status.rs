//! Pages about the process itself.
//!
//! Owns: nginx's `stub_status` text; the way of requests to the other pages, bodies included, and of those to the client.
//! Never: renders HAProxy's page or Prometheus' text: [`crate::Pages`] does, outside the data plane.
//! Driven by: the walk.

use std::convert::Infallible;

use weir_control::snapshot::{Connections, Snapshot};
use weir_expr::settings::{Dashboard, Exposition};
use weir_http::{HeaderId, Method};
use weir_plan::StatsPage;
use weir_telemetry::Detail;

use crate::answer::respond;
use crate::eval::condition;
use crate::exchange::{Downstream, Ending, Exchange, Next};
use crate::exchange::{errors, intake};
use crate::worker::options::{ApiRequest, Page, PageRequest};
use crate::worker::snapshot;

/// The field that requests of the dashboard's page carry.
const MARK: &[u8] = b"x-weir-dashboard";

/// The largest body that a page takes; larger ones are refused with 413.
const MOST_OF_A_BODY: usize = 64 << 10;

/// nginx's `stub_status`.
pub(crate) async fn stub<D: Downstream>(exchange: &mut Exchange, down: &mut D) -> Next<Infallible> {
    if !matches!(exchange.request.method, Method::Get | Method::Head) {
        return Next::Status(405);
    }
    let process = snapshot::process(&exchange.worker.shared);
    let page = Page {
        status: 200,
        headers: vec![("Content-Type", "text/plain".into())],
        body: stub_text(&process.connections, process.requests).into_bytes(),
    };
    answer(exchange, down, page).await
}

/// HAProxy's statistics page.
pub(crate) async fn stats<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    page: &StatsPage,
) -> Next<Infallible> {
    if let Err(status) = take_body(exchange, down).await {
        return Next::Status(status);
    }
    let snapshot = taken(exchange, Detail::Quantiles);
    let admin = match &page.admin {
        Some(may) => match condition::holds(exchange, may) {
            Ok(holds) => holds && !is_foreign(exchange),
            Err(why) => {
                errors::undecided(exchange, &why);
                return Next::Status(500);
            }
        },
        None => false,
    };
    let shared = exchange.worker.shared.clone();
    let asked = PageRequest { admin, ..request(exchange) };
    let page = match exchange.request.method {
        // What changes something waits for workers: it is no work of one.
        Method::Post => {
            let (page, asked, pages) = (page.clone(), Asked::of(&asked), shared.pages.clone());
            let done = shared.errands.run(move || pages.stats(&page, &asked.request(), &snapshot));
            let Some(done) = done.await else { return Next::Status(503) };
            done
        }
        _ => shared.pages.stats(page, &asked, &snapshot),
    };
    answer(exchange, down, page).await
}

/// Weir's dashboard.
pub(crate) async fn dashboard<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    dashboard: Dashboard,
) -> Next<Infallible> {
    // Whoever looks at requests does not want to see their own looking.
    exchange.flight = None;
    if let Err(status) = take_body(exchange, down).await {
        return Next::Status(status);
    }
    let reads = matches!(exchange.request.method, Method::Get | Method::Head);
    let admin = dashboard.write && (reads || is_from_the_page(exchange));
    let asked = Asked::of(&PageRequest { admin, ..request(exchange) });
    let shared = exchange.worker.shared.clone();
    let pages = shared.pages.clone();
    // It asks all workers, which none of them can wait for.
    match shared.errands.run(move || pages.dashboard(&asked.request())).await {
        Some(page) => answer(exchange, down, page).await,
        None => Next::Status(503),
    }
}

/// Whether the dashboard's own page sent this. A page of another site can neither set this field without being asked about it
/// first (Fetch §3.2), nor hide where it comes from.
fn is_from_the_page(exchange: &Exchange) -> bool {
    let marked = exchange.request.fields.iter().any(|field| field.name.eq_ignore_ascii_case(MARK));
    marked && !is_foreign(exchange)
}

/// Whether a page of another site sent this (RFC 6454 §7): whoever looks at that may be let in here, and not know of it.
fn is_foreign(exchange: &Exchange) -> bool {
    let Some(origin) = exchange.request.fields.first(HeaderId::Origin) else { return false };
    let host = exchange.request.fields.first(HeaderId::Host).unwrap_or_default();
    let named = origin.splitn(3, |&byte| byte == b'/').nth(2);
    !named.is_some_and(|named| named.eq_ignore_ascii_case(host))
}

/// A request for a page that outlives its exchange's turn.
struct Asked {
    method: Vec<u8>,
    target: Vec<u8>,
    authorization: Option<Vec<u8>>,
    accept: Option<Vec<u8>>,
    admin: bool,
    body: Vec<u8>,
}

impl Asked {
    fn of(request: &PageRequest<'_>) -> Self {
        let PageRequest { method, target, authorization, accept, admin, body } = *request;
        let [authorization, accept] = [authorization, accept].map(|value| value.map(<[u8]>::to_vec));
        Self { method: method.into(), target: target.into(), authorization, accept, admin, body: body.into() }
    }

    fn request(&self) -> PageRequest<'_> {
        PageRequest {
            method: &self.method,
            target: &self.target,
            authorization: self.authorization.as_deref(),
            accept: self.accept.as_deref(),
            admin: self.admin,
            body: &self.body,
        }
    }
}

/// Prometheus' text.
pub(crate) async fn metrics<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    form: Exposition,
) -> Next<Infallible> {
    if let Err(status) = take_body(exchange, down).await {
        return Next::Status(status);
    }
    let asked = request(exchange);
    // Only the format that carries native histograms has room for them.
    let native =
        form == Exposition::Own && asked.accept.is_some_and(weir_telemetry::prometheus::wants_protobuf);
    let snapshot = taken(exchange, if native { Detail::Steps } else { Detail::Quantiles });
    let page = exchange.worker.shared.pages.metrics(form, &request(exchange), &snapshot);
    answer(exchange, down, page).await
}

/// nginx's API. What it is asked for waits for workers at times, or is large: it is no work of one.
pub(crate) async fn api<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    writes: bool,
) -> Next<Infallible> {
    if let Err(status) = take_body(exchange, down).await {
        return Next::Status(status);
    }
    let request = &exchange.request;
    let reads = matches!(request.method, Method::Get | Method::Head);
    if !reads && is_foreign(exchange) {
        return Next::Status(403);
    }
    let prefix = &exchange.installed.plan.route(exchange.route).prefix;
    let path = request.path.strip_prefix(&prefix[..]).unwrap_or(&request.path).to_vec();
    let base = String::from_utf8_lossy(prefix).trim_end_matches('/').to_owned();
    let (method, query) = (request.method_text.to_vec(), request.query.to_vec());
    let body = exchange.body.in_memory().unwrap_or_default().to_vec();
    let address = exchange.client.destination().map_or_else(String::new, |(ip, _)| ip.to_string());
    let (id, shared) = (exchange.id(), exchange.worker.shared.clone());
    let (prepared, own) = (exchange.installed.prepared.clone(), shared.clone());
    let done = shared.errands.run(move || {
        let snapshot = snapshot::take(&own, &prepared, weir_telemetry::Detail::Quantiles);
        let request = ApiRequest {
            method: &method,
            base: &base,
            path: &path,
            query: &query,
            body: &body,
            writes,
            address: &address,
            id,
        };
        own.pages.api(&request, &snapshot)
    });
    match done.await {
        Some(page) => answer(exchange, down, page).await,
        None => Next::Status(503),
    }
}

/// Takes in the body of a request that may mean something by it. `Err`: the status to answer with.
async fn take_body<D: Downstream>(exchange: &mut Exchange, down: &mut D) -> Result<(), u16> {
    let meant = !matches!(exchange.request.method, Method::Get | Method::Head);
    match meant && exchange.request.has_body() {
        true => intake::into_memory(exchange, down, MOST_OF_A_BODY).await,
        false => Ok(()),
    }
}

fn request(exchange: &Exchange) -> PageRequest<'_> {
    PageRequest {
        method: &exchange.request.method_text,
        target: &exchange.request.target,
        authorization: exchange.request.fields.first(HeaderId::Authorization),
        accept: exchange.request.fields.first(HeaderId::Accept),
        admin: false,
        body: exchange.body.in_memory().unwrap_or_default(),
    }
}

fn taken(exchange: &Exchange, detail: Detail) -> Snapshot {
    snapshot::take(&exchange.worker.shared, &exchange.installed.prepared, detail)
}

async fn answer<D: Downstream>(exchange: &mut Exchange, down: &mut D, page: Page) -> Next<Infallible> {
    exchange.ending = Ending::Local;
    exchange.response.status = page.status;
    exchange.response.fields.clear();
    for (name, value) in &page.headers {
        exchange.response.fields.push(name.as_bytes(), value.as_bytes());
    }
    respond::whole(exchange, down, &page.body).await;
    Next::Done
}

fn stub_text(connections: &Connections, requests: u64) -> String {
    let Connections { accepted, handled, active, reading, writing, waiting, .. } = connections;
    format!(
        "Active connections: {active} \nserver accepts handled requests\n {accepted} {handled} {requests} \n\
         Reading: {reading} Writing: {writing} Waiting: {waiting} \n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_nginx_s_to_the_space() {
        let connections = Connections {
            accepted: 7,
            handled: 6,
            active: 3,
            reading: 0,
            writing: 1,
            waiting: 2,
            ..Connections::default()
        };
        assert_eq!(
            stub_text(&connections, 31),
            "Active connections: 3 \nserver accepts handled requests\n 7 6 31 \nReading: 0 Writing: 1 Waiting: 2 \n"
        );
    }
}
