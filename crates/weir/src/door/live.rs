//! What runs: figures, endpoints, certificates.
//!
//! Owns: `/v1/status`, `/v1/pools`, `/v1/certificates`.
//! Never: changes the configuration: what is changed here is a layer of changes that outlives reloads
//! ([why](../../../../docs/decisions/changes.md)).
//! Driven by: `api`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use weir_control::Change;
use weir_control::changes::{AdminState, KeyPair, NewEndpoint};

use super::access::Role;
use super::api::{Call, missing, wrong_method};
use super::reply::Reply;
use crate::plane::{DashboardRequest, DataPlane};

impl Call<'_> {
    fn plane(&self) -> Result<Arc<dyn DataPlane>, Reply> {
        if self.desk.is_apart() {
            let detail = "what runs is in a process of its own here, which answers no questions of this one: \
                          use a dashboard, NGINX Plus' API or a stats socket of the configuration";
            return Err(Reply::problem(501, "not here", detail));
        }
        self.desk.plane().ok_or_else(|| Reply::problem(503, "not yet", "it does not serve yet"))
    }

    /// The document that the dashboard reads, as the query wants it.
    fn observe(&self, query: &str) -> Result<Value, Reply> {
        let target = format!("/status.json?{query}");
        let asked = DashboardRequest { method: "GET", target: &target, may_write: false, body: b"" };
        let page = self.plane()?.dashboard(&asked);
        if page.status != 200 {
            let why = String::from_utf8_lossy(&page.body).trim().to_owned();
            return Err(Reply::problem(page.status, "bad request", &why));
        }
        let mut value: Value = serde_json::from_slice(&page.body).unwrap_or_default();
        if let Some(fields) = value.as_object_mut() {
            // Whether the page may change something: roles say that here.
            fields.remove("write");
        }
        Ok(value)
    }

    /// The dashboard, with what its page may do here besides.
    pub(super) fn dashboard(&self) -> Result<Reply, Reply> {
        let is_document = self.asked.path.ends_with("/status.json");
        // A change is the page's own only with its field, which no page of another site can set.
        let may_write = self.visitor.role >= Role::Operate && (self.asked.reads() || self.asked.is_from_page);
        let target = format!("{}?{}", self.asked.path, self.asked.query);
        let target = if self.asked.query.is_empty() { &self.asked.path } else { &target };
        let asked =
            DashboardRequest { method: &self.asked.method, target, may_write, body: &self.asked.body };
        let mut page = self.plane()?.dashboard(&asked);
        if is_document && page.status == 200 {
            let mut value: Value = serde_json::from_slice(&page.body).unwrap_or_default();
            value["api"] = json!({
                "path": "/v1", "configure": self.visitor.role >= Role::Configure,
                "version": self.desk.current().and_then(Result::ok).map(|current| current.version),
            });
            page.body = serde_json::to_vec(&value).unwrap_or_default();
        }
        if !self.asked.reads() {
            let body: String = String::from_utf8_lossy(&self.asked.body).chars().take(200).collect();
            self.note(&format!("status {} to {body}", page.status));
        }
        Ok(Reply::of_page(page))
    }

    pub(super) fn status(&self) -> Result<Reply, Reply> {
        let mut value = self.observe(&self.asked.query)?;
        value["version"] = json!(self.desk.current().and_then(Result::ok).map(|current| current.version));
        Ok(Reply::json(200, &value))
    }

    pub(super) fn pools(&self, path: &[&str]) -> Result<Reply, Reply> {
        match path {
            [] => self.get(|| Ok(Reply::json(200, &self.observe("requests=0")?["pools"]))),
            [name] => self.get(|| Ok(Reply::json(200, &self.pool(name)?))),
            [name, "endpoints"] => self.endpoints(name),
            [name, "endpoints", endpoint] => self.endpoint(name, endpoint),
            _ => Err(missing()),
        }
    }

    fn pool(&self, name: &str) -> Result<Value, Reply> {
        let query =
            form_urlencoded::Serializer::new("requests=0".to_owned()).append_pair("pool", name).finish();
        let mut all = self.observe(&query)?;
        let pools = all["pools"].as_array_mut();
        pools.into_iter().flatten().find(|one| one["name"] == name).map(Value::take).ok_or_else(missing)
    }

    fn endpoints(&self, name: &str) -> Result<Reply, Reply> {
        let pool = self.pool(name)?;
        let endpoints = match self.asked.method.as_str() {
            "GET" | "HEAD" => return Ok(Reply::json(200, &pool["endpoints"])),
            "PUT" => {
                self.need(Role::Operate)?;
                let given: Vec<Endpoint> = self.asked.json()?;
                Some(given.into_iter().map(NewEndpoint::from).collect())
            }
            "DELETE" => {
                self.need(Role::Operate)?;
                None
            }
            _ => return Err(wrong_method("GET, HEAD, PUT, DELETE")),
        };
        self.change(vec![Change::Endpoints { pool: name.to_owned(), endpoints }])
    }

    fn endpoint(&self, name: &str, endpoint: &str) -> Result<Reply, Reply> {
        let pool = self.pool(name)?;
        let is_it = |one: &&Value| one["name"] == endpoint;
        let found = pool["endpoints"].as_array().into_iter().flatten().find(is_it).ok_or_else(missing)?;
        match self.asked.method.as_str() {
            "GET" | "HEAD" => return Ok(Reply::json(200, found)),
            "PATCH" => {}
            _ => return Err(wrong_method("GET, HEAD, PATCH")),
        }
        self.need(Role::Operate)?;
        let patch: Patch = self.asked.json()?;
        let (pool, endpoint) = (name.to_owned(), endpoint.to_owned());
        let mut changes = Vec::new();
        if let Some(weight) = patch.weight {
            changes.push(Change::Weight { pool: pool.clone(), endpoint: endpoint.clone(), weight });
        }
        if let Some(state) = patch.state {
            changes.push(Change::State { pool, endpoint, state });
        }
        match changes.is_empty() {
            true => Err(Reply::problem(422, "unprocessable", "neither `weight` nor `state` is there")),
            false => self.change(changes),
        }
    }

    pub(super) fn certificates(&self, path: &[&str]) -> Result<Reply, Reply> {
        let name = match path {
            [] => {
                return self.get(|| {
                    let all = self.plane()?.certificates().into_iter();
                    let all: Vec<Value> =
                        all.map(|(name, given)| json!({ "name": name, "given": given })).collect();
                    Ok(Reply::json(200, &json!(all)))
                });
            }
            [name] => (*name).to_owned(),
            _ => return Err(missing()),
        };
        if !matches!(self.asked.method.as_str(), "PUT" | "DELETE") {
            return Err(wrong_method("PUT, DELETE"));
        }
        self.need(Role::Operate)?;
        if !self.plane()?.certificates().iter().any(|(known, _)| *known == name) {
            return Err(missing());
        }
        let given = self.asked.method == "PUT";
        let certificate: Option<KeyPair> = given.then(|| self.asked.json()).transpose()?;
        self.change(vec![Change::Certificate { name, certificate }])
    }

    /// Makes changes of what runs, one after another.
    fn change(&self, changes: Vec<Change>) -> Result<Reply, Reply> {
        let plane = self.plane()?;
        for change in changes {
            // Keys are not among what it shows of itself.
            let shown = format!("{change:?}");
            if let Err(reason) = plane.change(change) {
                self.note(&format!("refused: {reason}"));
                return Err(Reply::problem(422, "refused", &reason));
            }
            self.note(&format!("done: {shown}"));
        }
        Ok(Reply::json(200, &json!({ "done": true })))
    }
}

/// What may be asked of an endpoint. `"weight": null` takes a weight back.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Patch {
    #[serde(default, deserialize_with = "some")]
    weight: Option<Option<u32>>,
    #[serde(default)]
    state: Option<AdminState>,
}

#[expect(clippy::option_option, reason = "absent, null and a number are three things")]
fn some<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u32>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// An endpoint as it is given.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Endpoint {
    name: String,
    address: String,
    weight: Option<u32>,
    backup: Option<bool>,
    max_connections: Option<u32>,
    max_fails: Option<u32>,
    fail_timeout_ms: Option<u64>,
    slow_start_ms: Option<u64>,
    down: Option<bool>,
    drain: Option<bool>,
}

impl From<Endpoint> for NewEndpoint {
    fn from(given: Endpoint) -> Self {
        Self {
            name: given.name,
            address: given.address,
            weight: given.weight,
            backup: given.backup,
            max_connections: given.max_connections,
            max_fails: given.max_fails,
            fail_timeout_ms: given.fail_timeout_ms,
            slow_start_ms: given.slow_start_ms,
            down: given.down,
            drain: given.drain,
            ..Self::default()
        }
    }
}
