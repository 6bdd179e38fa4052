//! Pages about the process itself.
//!
//! Owns: nginx's `stub_status` text; the way of requests to the other pages, bodies included, and of those to the client.
//! Never: renders HAProxy's page or Prometheus' text: [`crate::Pages`] does, outside the data plane.
//! Driven by: the walk.

use std::convert::Infallible;

use weir_control::snapshot::{Connections, Snapshot};
use weir_expr::settings::Exposition;
use weir_http::{HeaderId, Method};
use weir_plan::StatsPage;

use crate::answer::respond;
use crate::exchange::intake;
use crate::exchange::{Downstream, Ending, Exchange, Next};
use crate::worker::options::{Page, PageRequest};
use crate::worker::snapshot;

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
    let snapshot = taken(exchange);
    let page = exchange.worker.shared.pages.stats(page, &request(exchange), &snapshot);
    answer(exchange, down, page).await
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
    let snapshot = taken(exchange);
    let page = exchange.worker.shared.pages.metrics(form, &request(exchange), &snapshot);
    answer(exchange, down, page).await
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
        body: exchange.body.in_memory().unwrap_or_default(),
    }
}

fn taken(exchange: &Exchange) -> Snapshot {
    snapshot::take(&exchange.worker.shared, &exchange.installed.prepared)
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
