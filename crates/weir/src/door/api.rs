//! `/v1`: what the admin API answers; the dashboard is beside it.
//!
//! Owns: its paths, roles, what all methods have in common: bodies, conditions, errors.
//! Never: reads a socket, applies a configuration.
//! Driven by: `door`, one call for each request, in a thread that may wait.

use serde::de::DeserializeOwned;
use serde_json::json;
use weir_http::Request;
use weir_native::Plain;

use super::access::{Role, Visitor};
use super::desk::Desk;
use super::openapi;
use super::reply::Reply;

/// A request.
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) accept: String,
    content_type: Option<String>,
    pub(super) if_match: Option<String>,
    pub(super) if_none_match: Option<String>,
    /// The dashboard's page says so.
    pub(super) is_from_page: bool,
    pub(super) body: Vec<u8>,
}

/// Parameters of queries.
const PARAMETERS: [&str; 4] = ["dry_run", "to", "requests", "pool"];

/// Types of bodies that are understood.
pub(super) const TYPES: [&str; 5] = [
    "application/json",
    "application/merge-patch+json",
    "application/yaml",
    "application/x-yaml",
    "text/yaml",
];

impl Asked {
    pub(super) fn of(request: &Request<'_>, body: &[u8]) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let field = |name: &[u8]| request.headers().by_name(name).map(text);
        Self {
            method: text(request.method_text()),
            path: text(request.path()),
            query: text(request.query().unwrap_or_default()),
            accept: field(b"accept").unwrap_or_default().to_ascii_lowercase(),
            content_type: field(b"content-type"),
            if_match: field(b"if-match"),
            if_none_match: field(b"if-none-match"),
            is_from_page: field(b"x-weir-dashboard").is_some(),
            body: body.to_vec(),
        }
    }

    pub(super) fn reads(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD")
    }

    fn unknown_parameter(&self) -> Option<String> {
        let mut names = form_urlencoded::parse(self.query.as_bytes()).map(|(name, _)| name);
        names.find(|name| !PARAMETERS.contains(&&**name)).map(|name| name.chars().take(64).collect())
    }

    /// The value of a parameter of the query.
    pub(super) fn parameter(&self, wanted: &str) -> Option<String> {
        let mut all = form_urlencoded::parse(self.query.as_bytes());
        all.find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
    }

    /// The body as data, in the language that its type says.
    pub(super) fn data(&self) -> Result<Plain, Reply> {
        let kind = self.content_type.as_deref().unwrap_or("application/json").to_ascii_lowercase();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_owned();
        if !TYPES.contains(&kind.as_str()) {
            let detail = format!("the Content-Type is `{kind}`; it may be {}", TYPES.join(", "));
            return Err(Reply::problem(415, "unsupported media type", &detail));
        }
        let bad = |detail: &str| Reply::problem(400, "bad request", detail);
        let text = std::str::from_utf8(&self.body).map_err(|_| bad("the body is not UTF-8"))?;
        if text.trim().is_empty() {
            return Err(bad("the body is empty"));
        }
        match kind.ends_with("json") {
            true => {
                serde_json::from_str(text).map_err(|error| bad(&format!("the body is not JSON: {error}")))
            }
            false => weir_native::plain(text).map_err(|error| bad(&error)),
        }
    }

    /// The body as a value of a type.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, Reply> {
        let data = serde_json::to_value(self.data()?).unwrap_or_default();
        serde_json::from_value(data).map_err(|error| Reply::problem(422, "unprocessable", &error.to_string()))
    }
}

/// The answer to a request.
pub(super) fn answer(asked: &Asked, visitor: &Visitor, desk: &Desk) -> Reply {
    let call = Call { asked, visitor, desk };
    match call.route() {
        Ok(reply) | Err(reply) => reply,
    }
}

/// One request, with all that it may look at.
pub(super) struct Call<'c> {
    pub(super) asked: &'c Asked,
    pub(super) visitor: &'c Visitor,
    pub(super) desk: &'c Desk,
}

impl Call<'_> {
    fn route(&self) -> Result<Reply, Reply> {
        if self.asked.path == "/dashboard" || self.asked.path.starts_with("/dashboard/") {
            return self.dashboard();
        }
        // One that is misspelt must not turn a question into a change.
        if let Some(unknown) = self.asked.unknown_parameter() {
            let detail =
                format!("`{unknown}` is none of the parameters of this API: {}", PARAMETERS.join(", "));
            return Err(Reply::problem(400, "bad request", &detail));
        }
        let parts: Vec<String> =
            self.asked.path.split('/').skip(1).map(decoded).collect::<Option<_>>().ok_or_else(missing)?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match parts.as_slice() {
            ["v1"] | ["v1", ""] => self.get(|| Ok(self.entrance())),
            ["v1", "openapi.json"] => self.get(|| Ok(Reply::json(200, &openapi::document()))),
            ["v1", "audit"] => self.get(|| Ok(Reply::json(200, &json!(self.desk.journal())))),
            ["v1", "config", place @ ..] => self.config(place),
            ["v1", "versions", place @ ..] => self.versions(place),
            ["v1", "status"] => self.get(|| self.status()),
            ["v1", "pools", place @ ..] => self.pools(place),
            ["v1", "certificates", place @ ..] => self.certificates(place),
            _ => Err(missing()),
        }
    }

    fn entrance(&self) -> Reply {
        let version = self.desk.current().and_then(Result::ok).map(|current| current.version);
        let links = ["config", "versions", "audit", "status", "pools", "certificates", "openapi.json"];
        let links: Vec<String> = links.iter().map(|name| format!("/v1/{name}")).collect();
        Reply::json(
            200,
            &json!({
                "weir": env!("WEIR_VERSION"), "version": version,
                "you": { "name": self.visitor.name, "role": self.visitor.role.word() }, "links": links,
            }),
        )
    }

    pub(super) fn get(&self, reply: impl FnOnce() -> Result<Reply, Reply>) -> Result<Reply, Reply> {
        match self.asked.reads() {
            true => reply(),
            false => Err(wrong_method("GET, HEAD")),
        }
    }

    /// Refuses whoever may not do this.
    pub(super) fn need(&self, role: Role) -> Result<(), Reply> {
        if self.visitor.role >= role {
            return Ok(());
        }
        self.note("not allowed");
        let (wanted, own) = (role.word(), self.visitor.role.word());
        Err(Reply::problem(403, "forbidden", &format!("this needs the role {wanted}, and yours is {own}")))
    }

    /// What is asked, for logs. Bodies and queries are left out: they may hold what is nobody's business.
    pub(super) fn what(&self) -> String {
        format!("{} {}", self.asked.method, self.asked.path)
    }

    pub(super) fn note(&self, outcome: &str) {
        self.desk.note(&self.visitor.name, &self.what(), outcome);
    }
}

pub(super) fn missing() -> Reply {
    Reply::problem(404, "not found", "there is nothing of this name")
}

pub(super) fn wrong_method(allowed: &str) -> Reply {
    Reply::problem(405, "method not allowed", &format!("this takes {allowed}"))
        .with("Allow", allowed.to_owned())
}

/// A part of a path without its escapes.
fn decoded(part: &str) -> Option<String> {
    percent_encoding::percent_decode_str(part).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}
