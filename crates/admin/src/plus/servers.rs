//! Servers of upstreams as settings, and their changes: `…/upstreams/NAME/servers/`.

use serde_json::{Map, Value, json};
use weir_control::changes::NewEndpoint;
use weir_control::snapshot::{Endpoint, Group, Pool};

use super::fault::Fault;
use super::request::{Answer, Backend, Request};
use super::time::{parse, shown};

/// The longest `route`, as in nginx.
const LONGEST_ROUTE: usize = 32;

/// The largest weight.
const MOST_WEIGHT: u64 = 65_535;

/// What a server has where nothing is said: nginx's defaults.
const FAIL_TIMEOUT_MS: u64 = 10_000;

/// The number of a peer. Addresses of one name share its number, so theirs follow from their keys: above those that are
/// counted, and the same for as long as the address is one of the name's.
pub(super) fn id_of(endpoint: &Endpoint) -> u32 {
    match endpoint.settings.resolved {
        true => 1 << 30 | endpoint.key.0 as u32 >> 2,
        false => endpoint.settings.id,
    }
}

/// What the requests of a pool's servers act on.
pub(super) struct Servers<'a> {
    pub(super) pool: &'a Pool,
    pub(super) group: &'a Group,
    pub(super) version: u8,
    pub(super) backend: &'a dyn Backend,
}

impl Servers<'_> {
    /// Answers a request to all servers, or to the one of this number.
    pub(super) fn answer(&self, request: &Request<'_>, id: Option<&str>) -> Result<Answer, Fault> {
        let id = id
            .map(|id| id.parse::<u32>().map_err(|_| Fault::bad("UpstreamBadServerId", "invalid server ID")));
        match (request.method, id.transpose()?) {
            ("GET", None) => Ok(Answer::Object(self.all()?)),
            ("GET", Some(id)) => Ok(Answer::Object(self.one(id)?)),
            ("POST", None) => self.add(request.body),
            ("PATCH", Some(id)) => self.modify(id, request.body),
            ("DELETE", Some(id)) => self.remove(id),
            _ => Err(Fault::method()),
        }
    }

    fn given(&self) -> Result<Vec<NewEndpoint>, Fault> {
        self.backend
            .endpoints(&self.pool.name)
            .map_err(|_| Fault::missing("UpstreamNotFound", "upstream not found"))
    }

    /// All servers: those that were written or given, each with the addresses that its name has now.
    fn list(&self) -> Result<Vec<Value>, Fault> {
        let mut all = Vec::new();
        for one in &self.given()? {
            all.push(self.server(one));
            if one.resolve == Some(true) {
                all.extend(self.resolved(one));
            }
        }
        Ok(all)
    }

    fn all(&self) -> Result<Value, Fault> {
        Ok(Value::Array(self.list()?))
    }

    fn one(&self, id: u32) -> Result<Value, Fault> {
        let all = self.list()?;
        all.into_iter().find(|one| one["id"] == id).ok_or_else(|| missing(id))
    }

    /// The addresses that a name has now.
    fn resolved(&self, one: &NewEndpoint) -> Vec<Value> {
        let of_name = |endpoint: &&Endpoint| {
            endpoint.settings.resolved && Some(endpoint.settings.id) == one.id && !endpoint.address.is_empty()
        };
        let each = self.pool.endpoints.iter().filter(of_name).map(|endpoint| {
            let mut server = self.server(one);
            server["id"] = json!(id_of(endpoint));
            server["server"] = json!(endpoint.address);
            server["parent"] = json!(one.id);
            server["host"] = json!(one.address);
            server
        });
        each.collect()
    }

    fn server(&self, one: &NewEndpoint) -> Value {
        let mut server = json!({
            "id": one.id,
            "server": one.address,
            "weight": one.weight.unwrap_or(1),
            "max_conns": one.max_connections.unwrap_or(0),
            "max_fails": one.max_fails.unwrap_or(1),
            "fail_timeout": shown(one.fail_timeout_ms.unwrap_or(FAIL_TIMEOUT_MS)),
            "slow_start": shown(one.slow_start_ms.unwrap_or(0)),
            "backup": one.backup.unwrap_or(false),
            "down": one.down.unwrap_or(false),
        });
        if !self.group.tcp {
            server["route"] = json!(one.cookie.as_deref().unwrap_or_default());
        }
        if one.drain == Some(true) && self.version >= 2 {
            server["drain"] = json!(true);
        }
        server
    }

    fn add(&self, body: &[u8]) -> Result<Answer, Fault> {
        let settings = self.settings(body)?;
        let mut made = None;
        self.backend.edit(&self.pool.name, &mut |all, next| {
            let mut new = NewEndpoint {
                id: Some(next),
                weight: Some(1),
                backup: Some(false),
                max_connections: Some(0),
                max_fails: Some(1),
                fail_timeout_ms: Some(FAIL_TIMEOUT_MS),
                slow_start_ms: Some(0),
                down: Some(false),
                drain: Some(false),
                ..NewEndpoint::default()
            };
            for (name, value) in &settings {
                self.set(&mut new, name, value)?;
            }
            if new.address.is_empty() {
                return Err(Fault::format("missing \"server\" argument"));
            }
            if new.backup == Some(true) && !self.takes_backups() {
                let text = format!("upstream \"{}\" has no backup", self.group.name);
                return Err(Fault::bad("UpstreamNoBackup", text));
            }
            if all.iter().any(|one| one.name == new.name) {
                return Err(Fault::exists("EntryExists", "entry exists"));
            }
            made = Some(new.clone());
            all.push(new);
            Ok(())
        })?;
        let Some(made) = made else { return Ok(Answer::Created(None)) };
        let kind = if self.group.tcp { "stream" } else { "http" };
        let path = format!("{kind}/upstreams/{}/servers/{}", self.group.name, made.id.unwrap_or_default());
        Ok(Answer::Created(Some((path, self.server(&made)))))
    }

    fn modify(&self, id: u32, body: &[u8]) -> Result<Answer, Fault> {
        let settings = self.settings(body)?;
        let mut made = None;
        self.backend.edit(&self.pool.name, &mut |all, _| {
            let at = self.place(all, id)?;
            let mut new = all[at].clone();
            for (name, value) in &settings {
                self.reset(&mut new, name, value)?;
            }
            if all.iter().enumerate().any(|(other, one)| other != at && one.name == new.name) {
                return Err(Fault::exists("EntryExists", "entry exists"));
            }
            made = Some(new.clone());
            all[at] = new;
            Ok(())
        })?;
        Ok(made.map_or(Answer::Done, |made| Answer::Object(self.server(&made))))
    }

    /// Sets what may be set of a server that is there; what may not has to be what it is.
    fn reset(&self, one: &mut NewEndpoint, name: &str, value: &Value) -> Result<(), Fault> {
        let before = one.clone();
        self.set(one, name, value)?;
        if name == "backup" && one.backup != before.backup {
            return Err(Fault::format("\"backup\" parameter cannot be changed"));
        }
        if name == "server"
            && (before.resolve == Some(true) || one.resolve == Some(true))
            && one.address != before.address
        {
            let text = format!("server \"{}\" address is immutable", before.id.unwrap_or_default());
            return Err(Fault::bad("UpstreamServerImmutable", text));
        }
        Ok(())
    }

    fn remove(&self, id: u32) -> Result<Answer, Fault> {
        self.backend.edit(&self.pool.name, &mut |all, _| {
            let at = self.place(all, id)?;
            all.remove(at);
            Ok(())
        })?;
        Ok(Answer::Object(self.all()?))
    }

    /// Where the server of a number is. An address of a name is there for as long as it is one of the name's.
    fn place(&self, all: &[NewEndpoint], id: u32) -> Result<usize, Fault> {
        if self.pool.endpoints.iter().any(|one| one.settings.resolved && id_of(one) == id) {
            let text = format!("server \"{id}\" is immutable");
            return Err(Fault::bad("UpstreamServerImmutable", text));
        }
        all.iter().position(|one| one.id == Some(id)).ok_or_else(|| missing(id))
    }

    fn settings(&self, body: &[u8]) -> Result<Map<String, Value>, Fault> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(_) => Err(Fault::format("invalid JSON")),
            Err(_) => Err(Fault::json()),
        }
    }

    fn takes_backups(&self) -> bool {
        !matches!(self.pool.balance.as_str(), "ip_hash" | "hash" | "hash consistent" | "random")
    }

    fn set(&self, one: &mut NewEndpoint, name: &str, value: &Value) -> Result<(), Fault> {
        if value.is_object() || value.is_array() {
            return Err(Fault::format("nested object or list"));
        }
        let number = |code, most: u64| {
            let number = value.as_u64().or_else(|| value.as_str()?.parse().ok()).filter(|n| *n <= most);
            number.ok_or_else(|| Fault::bad(code, format!("invalid \"{name}\"")))
        };
        let time = |code| {
            let time = match value {
                Value::String(text) => parse(text),
                other => other.as_u64().and_then(|seconds| seconds.checked_mul(1000)),
            };
            time.ok_or_else(|| Fault::bad(code, format!("invalid \"{name}\"")))
        };
        let flag = || value.as_bool().ok_or_else(|| invalid(name));
        let text = || value.as_str().ok_or_else(|| invalid(name));
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let most = u64::from(u32::MAX);
        match name {
            "server" => self.place_at(one, text()?)?,
            "weight" => match number("UpstreamBadWeight", MOST_WEIGHT)? {
                0 => return Err(Fault::bad("UpstreamBadWeight", "invalid \"weight\"")),
                weight => one.weight = Some(small(weight)),
            },
            "max_conns" => one.max_connections = Some(small(number("UpstreamBadMaxConns", most)?)),
            "max_fails" => one.max_fails = Some(small(number("UpstreamBadMaxFails", most)?)),
            "fail_timeout" => one.fail_timeout_ms = Some(time("UpstreamBadFailTimeout")?),
            "slow_start" => one.slow_start_ms = Some(time("UpstreamBadSlowStart")?),
            "backup" => one.backup = Some(flag()?),
            "down" => one.down = Some(flag()?),
            "drain" if self.version >= 2 && !self.group.tcp => one.drain = Some(flag()?),
            "route" if !self.group.tcp => {
                let route = text()?;
                if route.len() > LONGEST_ROUTE {
                    return Err(Fault::bad("UpstreamBadRoute", "route is too long"));
                }
                one.cookie = Some(route.to_owned()).filter(|route| !route.is_empty());
            }
            "service" => {
                let why =
                    if text()?.is_empty() { "\"service\" is empty" } else { "\"service\" is not supported" };
                return Err(Fault::bad("UpstreamBadService", why));
            }
            _ => return Err(Fault::format(format!("unknown parameter \"{name}\""))),
        }
        Ok(())
    }

    /// Gives a server an address: one of its own, or a name that is looked up while running.
    fn place_at(&self, one: &mut NewEndpoint, text: &str) -> Result<(), Fault> {
        let bad = |text: String| Fault::bad("UpstreamBadAddress", text);
        let (address, resolve) = match (text.strip_prefix("unix:"), self.group.tcp) {
            (Some(""), _) => return Err(bad("no path in the unix domain socket while parsing".to_owned())),
            (Some(_), _) => (text.to_owned(), false),
            (None, tcp) => {
                let (host, port) =
                    split(text).ok_or_else(|| bad(format!("invalid host or port in \"{text}\"")))?;
                if port.is_none() && tcp {
                    return Err(bad(format!("no port in server \"{text}\"")));
                }
                let port = port.unwrap_or(80);
                match host.parse::<std::net::IpAddr>() {
                    Ok(ip) => (std::net::SocketAddr::from((ip, port)).to_string(), false),
                    Err(_) => (format!("{}:{port}", host.to_ascii_lowercase()), true),
                }
            }
        };
        one.name.clone_from(&address);
        (one.address, one.resolve, one.shown) = (address, Some(resolve), None);
        Ok(())
    }
}

/// Host and port of `host`, `host:port` or `[v6]:port`.
fn split(text: &str) -> Option<(&str, Option<u16>)> {
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            match after.strip_prefix(':') {
                Some(digits) => (host, Some(port(digits)?)),
                None => (host, after.is_empty().then_some(None)?),
            }
        }
        None => match text.split_once(':') {
            Some((host, digits)) => (host, Some(port(digits)?)),
            None => (text, None),
        },
    };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    (!host.is_empty() && host.len() <= 253 && host.bytes().all(fits)).then_some((host, port))
}

fn invalid(name: &str) -> Fault {
    Fault::format(format!("invalid \"{name}\" value"))
}

fn missing(id: u32) -> Fault {
    Fault::missing("UpstreamServerNotFound", format!("server with ID \"{id}\" does not exist"))
}
