//! HAProxy's statistics page (its management guide, section 9).
//!
//! Owns: who may see it, and which of its forms answers.
//! Never: changes anything but through an [`Operator`], for whoever may.
//! Driven by: the route that `stats uri` made.

mod columns;
mod csv;
pub mod exposition;
#[cfg(test)]
pub(crate) mod fixtures;
mod form;
mod html;
mod json;
mod rows;
mod typed;
mod view;

use base64::Engine as _;
use weir_control::snapshot::{EndpointState, Snapshot};

use crate::{Page, Request};
pub use columns::COLUMNS;
pub use form::Operator;
pub use view::Options;
use view::{Form, View};

/// Answers a request for the page.
pub fn page(options: &Options, request: &Request<'_>, snapshot: &Snapshot) -> Page {
    if !options.users.is_empty() && !is_known(options, request.authorization) {
        return challenge(options);
    }
    let view = View::of(options, request.target);
    let shown = scoped(options, &view, snapshot);
    let mut page = match view.form {
        Form::Csv => Page::new("text/plain; charset=utf-8", csv(&shown, options)),
        Form::Json => Page::new("application/json", json(&shown, options)),
        Form::Html => Page::new("text/html; charset=utf-8", html::render(&shown, options, &view)),
    };
    if let Some(seconds) = options.refresh.filter(|&seconds| seconds > 0 && !view.no_refresh) {
        page.headers.push(("Refresh", seconds.to_string()));
    }
    page
}

/// Answers a form that was sent to the page.
pub fn post(
    options: &Options,
    request: &Request<'_>,
    body: &[u8],
    snapshot: &Snapshot,
    operator: &dyn Operator,
) -> Page {
    if !options.users.is_empty() && !is_known(options, request.authorization) {
        return challenge(options);
    }
    form::answer(options, request, body, snapshot, operator)
}

/// The page as CSV: [`COLUMNS`], a line a frontend, endpoint and backend.
pub fn csv(snapshot: &Snapshot, options: &Options) -> String {
    csv::render(&rows::all(snapshot, options))
}

/// The page as JSON: typed fields with their tags, as `show stat json` writes them.
pub fn json(snapshot: &Snapshot, options: &Options) -> String {
    json::render(&rows::all(snapshot, options))
}

/// The rows of the page, to be shown in part.
pub struct Rows(Vec<rows::Row>);

impl Rows {
    /// All of a snapshot.
    pub fn of(snapshot: &Snapshot, options: &Options) -> Self {
        Self(rows::all(snapshot, options))
    }

    /// Keeps those for which this holds of the proxy's number, the row's kind (the column `type`) and its id.
    pub fn keep(&mut self, keep: impl Fn(u32, u32, u32) -> bool) {
        self.0.retain(|row| keep(row.proxy, row.kind as u32, row.id));
    }

    /// As CSV.
    pub fn csv(&self) -> String {
        csv::render(&self.0)
    }

    /// As JSON.
    pub fn json(&self) -> String {
        json::render(&self.0)
    }

    /// A line a field.
    pub fn typed(&self) -> String {
        typed::render(&self.0)
    }
}

/// The page as HTML.
pub fn html(snapshot: &Snapshot, options: &Options) -> String {
    html::render(snapshot, options, &View::default())
}

/// What of the snapshot this page shows.
fn scoped(options: &Options, view: &View, snapshot: &Snapshot) -> Snapshot {
    let mut shown = snapshot.clone();
    let visible = |name: &str| {
        (options.scope.is_empty() || options.scope.iter().any(|known| known == name))
            && name.contains(&view.scope)
    };
    shown.sites.retain(|site| visible(&site.name));
    shown.pools.retain(|pool| visible(&pool.name));
    if view.hide_down {
        for pool in &mut shown.pools {
            pool.endpoints.retain(|endpoint| endpoint.state != EndpointState::Down);
        }
    }
    shown
}

/// Whether the credentials are those of a user (RFC 7617).
fn is_known(options: &Options, authorization: Option<&[u8]>) -> bool {
    let decoded = authorization.and_then(|value| {
        let (scheme, token) = value.split_at_checked(6)?;
        let token = scheme.eq_ignore_ascii_case(b"Basic ").then_some(token)?;
        base64::engine::general_purpose::STANDARD.decode(token.trim_ascii()).ok()
    });
    let Some(given) = decoded else { return false };
    // All are compared, and each in whole, so that time tells nothing.
    options
        .users
        .iter()
        .fold(false, |known, (user, password)| known | same(format!("{user}:{password}").as_bytes(), &given))
}

fn same(a: &[u8], b: &[u8]) -> bool {
    let differing = a.iter().zip(b).fold(a.len() ^ b.len(), |sum, (a, b)| sum | usize::from(a ^ b));
    differing == 0
}

fn challenge(options: &Options) -> Page {
    let realm: String =
        options.realm.chars().filter(|c| !c.is_control() && !matches!(c, '"' | '\\')).collect();
    let realm = if realm.is_empty() { "Weir statistics" } else { &realm };
    let body =
        "<html><body><h1>401 Unauthorized</h1>\nA user name and a password are asked for.\n</body></html>\n";
    let mut page = Page::new("text/html", body.to_owned());
    page.status = 401;
    page.headers.push(("WWW-Authenticate", format!("Basic realm=\"{realm}\"")));
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(options: &Options, target: &str, authorization: Option<&str>) -> Page {
        let request = Request { target: target.as_bytes(), authorization: authorization.map(str::as_bytes) };
        page(options, &request, &Snapshot::default())
    }

    fn header<'p>(page: &'p Page, name: &str) -> Option<&'p str> {
        page.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn only_users_are_let_in() {
        let options = Options {
            uri: "/st".into(),
            realm: "my \"realm".into(),
            users: vec![("a".into(), "x".into()), ("admin".into(), "secret".into())],
            ..Options::default()
        };
        let refused = ask(&options, "/st", None);
        assert_eq!(refused.status, 401);
        assert_eq!(header(&refused, "WWW-Authenticate"), Some("Basic realm=\"my realm\""));
        for wrong in ["Basic YTp5", "Basic", "Basic !", "Bearer YWRtaW46c2VjcmV0", "Basic YWRtaW46c2VjcmV"] {
            assert_eq!(ask(&options, "/st", Some(wrong)).status, 401, "{wrong}");
        }
        assert_eq!(ask(&options, "/st", Some("basic YWRtaW46c2VjcmV0")).status, 200);
    }

    #[test]
    fn the_path_chooses_the_form() {
        let options = Options { uri: "/haproxy?stats".into(), refresh: Some(5), ..Options::default() };
        let form = |target: &str| header(&ask(&options, target, None), "Content-Type").unwrap().to_owned();
        assert_eq!(form("/haproxy?stats"), "text/html; charset=utf-8");
        assert_eq!(form("/haproxy?stats;csv"), "text/plain; charset=utf-8");
        assert_eq!(form("/haproxy?stats;json;norefresh"), "application/json");
        assert_eq!(header(&ask(&options, "/haproxy?stats", None), "Refresh"), Some("5"));
        assert_eq!(header(&ask(&options, "/haproxy?stats;norefresh", None), "Refresh"), None);
    }
}
