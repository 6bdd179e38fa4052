//! Status pages: what `weir-admin` renders, as the engine's answers.
//!
//! Owns: the way from a plan's page to the renderer's options and back.
//! Never: renders.
//! Driven by: `adapter`, for the engine.

use weir_admin::dashboard::Source;
use weir_admin::{Request, metrics as prometheus, plus, stats as haproxy};
use weir_control::snapshot::Snapshot;
use weir_engine::{ApiRequest, Page, PageRequest};
use weir_expr::settings::Exposition;
use weir_plan::StatsPage;

/// Prometheus exposition.
pub(crate) fn metrics(form: Exposition, request: &PageRequest<'_>, snapshot: &Snapshot) -> Page {
    page(match form {
        Exposition::Own => prometheus::page(snapshot, request.accept),
        Exposition::Haproxy => haproxy::exposition::page(snapshot, request.target),
    })
}

/// NGINX Plus' API.
pub(crate) fn api(
    request: &ApiRequest<'_>,
    snapshot: &Snapshot,
    backend: &dyn plus::Backend,
    resets: &plus::Resets,
) -> Page {
    let (method, path) = (String::from_utf8_lossy(request.method), String::from_utf8_lossy(request.path));
    let request = plus::Request {
        method: &method,
        base: request.base,
        path: &path,
        query: request.query,
        body: request.body,
        writes: request.writes,
        address: request.address,
        id: request.id,
    };
    page(plus::answer(&request, snapshot, backend, resets))
}

/// HAProxy's statistics page: HTML, or CSV and JSON behind `;csv` and `;json`; its form, for whoever may.
pub(crate) fn stats(
    page_: &StatsPage,
    request: &PageRequest<'_>,
    snapshot: &Snapshot,
    operator: &dyn haproxy::Operator,
) -> Page {
    let options = haproxy::Options { admin: request.admin, ..options(page_) };
    let asked = Request { target: request.target, authorization: request.authorization };
    page(match request.method {
        b"POST" => haproxy::post(&options, &asked, request.body, snapshot, operator),
        _ => haproxy::page(&options, &asked, snapshot),
    })
}

/// Weir's dashboard, or one of its parts.
pub(crate) fn dashboard(request: &PageRequest<'_>, source: &dyn Source) -> Page {
    let asked = Request { target: request.target, authorization: request.authorization };
    page(weir_admin::dashboard::page(request.method, &asked, request.admin, request.body, source))
}

fn options(page: &StatsPage) -> haproxy::Options {
    let text = |text: &Option<Box<str>>| text.as_ref().map(ToString::to_string);
    haproxy::Options {
        uri: page.uri.to_string(),
        hide_version: page.hide_version,
        realm: page.realm.to_string(),
        users: page.users.iter().map(|(user, secret)| (user.clone(), secret.reveal().to_owned())).collect(),
        refresh: page.refresh,
        show_legends: page.show_legends,
        description: text(&page.description),
        node: text(&page.node),
        scope: page.scope.to_vec(),
        admin: false,
    }
}

fn page(page: weir_admin::Page) -> Page {
    Page { status: page.status, headers: page.headers, body: page.body }
}
