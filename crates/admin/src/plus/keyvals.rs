//! Stores of keys and values: `http/keyvals/` and `stream/keyvals/`.

use serde_json::{Map, Value, json};

use super::fault::Fault;
use super::fields::Fields;
use super::request::{Answer, Backend, Request};

/// A store.
pub trait Keyvals {
    /// Its name.
    fn name(&self) -> &str;
    /// It is one of stream.
    fn tcp(&self) -> bool;
    /// Keys may have an end.
    fn expires(&self) -> bool;
    /// The bytes that it may have, and how many pairs it has.
    fn size(&self) -> (u64, u64);
    /// All pairs, by key.
    fn all(&self) -> Vec<(String, Pair)>;
    /// One of them.
    fn get(&self, key: &str) -> Option<Pair>;
    /// Sets a pair; `expire`: how long it holds, in milliseconds, in place of the zone's own time.
    ///
    /// # Errors
    /// The key is none of the store's kind, or there is no room for it.
    fn set(&self, key: &str, value: &str, expire: Option<u64>) -> Result<(), String>;
    /// Removes a pair. False: there was none.
    fn remove(&self, key: &str) -> bool;
    /// Removes all pairs.
    fn clear(&self);
}

/// A value, and how long it still holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The value.
    pub value: String,
    /// In milliseconds; `None`: for good.
    pub expire: Option<u64>,
}

/// What is asked of one key: another value (`None`: it stays as it is), another time.
struct Wanted {
    key: String,
    value: Option<String>,
    expire: Option<u64>,
}

/// Answers a request to the stores of http, or of stream.
pub(super) fn answer(
    request: &Request<'_>,
    rest: &[&str],
    tcp: bool,
    version: u8,
    backend: &dyn Backend,
) -> Result<Answer, Fault> {
    let mut stores = backend.keyvals();
    stores.retain(|one| one.tcp() == tcp);
    match rest {
        [] if request.method != "GET" => Err(Fault::method()),
        [] => {
            let all: Map<String, Value> =
                stores.iter().map(|one| (one.name().to_owned(), pairs(&**one, version))).collect();
            // Only names are chosen between here: members are keys, not fields.
            let none_wanted = Fields::of(request.query).all(Map::new()).is_array();
            Ok(Answer::Object(if none_wanted {
                all.keys().map(String::as_str).collect()
            } else {
                all.into()
            }))
        }
        [name] => {
            let store = stores.into_iter().find(|one| one.name() == *name);
            let store = store.ok_or_else(|| Fault::missing("KeyvalNotFound", "keyval not found"))?;
            one(request, &*store, version)
        }
        _ => Err(Fault::path()),
    }
}

fn one(request: &Request<'_>, store: &dyn Keyvals, version: u8) -> Result<Answer, Fault> {
    match request.method {
        "GET" => match form_urlencoded::parse(request.query).find(|(name, _)| name == "key") {
            None => Ok(Answer::Object(pairs(store, version))),
            Some((_, key)) => {
                let pair = store.get(&key).ok_or_else(no_key)?;
                Ok(Answer::Object(json!({ (key.into_owned()): shown(pair, store, version) })))
            }
        },
        "POST" => add(request, store, version),
        "PATCH" => modify(request, store, version),
        "DELETE" => {
            store.clear();
            Ok(Answer::Done)
        }
        _ => Err(Fault::method()),
    }
}

fn add(request: &Request<'_>, store: &dyn Keyvals, version: u8) -> Result<Answer, Fault> {
    let wanted = read(request.body, store, version)?;
    if wanted.is_empty() {
        return Err(format("key required"));
    }
    if wanted.len() > 1 && store.size().1 > 0 {
        return Err(format("only one key can be added"));
    }
    for one in &wanted {
        if store.get(&one.key).is_some() {
            return Err(Fault::exists("KeyvalKeyExists", "key already exists"));
        }
        let value = one.value.as_deref().ok_or_else(|| format("invalid value"))?;
        store.set(&one.key, value, one.expire).map_err(format)?;
    }
    Ok(Answer::Created(None))
}

fn modify(request: &Request<'_>, store: &dyn Keyvals, version: u8) -> Result<Answer, Fault> {
    let object = parse(request.body)?;
    if object.len() > 1 {
        return Err(format("only one key can be updated"));
    }
    let Some((key, value)) = object.iter().next() else { return Err(format("key required")) };
    if value.is_null() {
        return if store.remove(key) { Ok(Answer::Done) } else { Err(no_key()) };
    }
    let before = store.get(key).ok_or_else(no_key)?;
    let one = wanted(key, value, store, version)?;
    // A time alone is another end of the same value.
    store.set(key, &one.value.unwrap_or(before.value), one.expire).map_err(format)?;
    Ok(Answer::Done)
}

fn read(body: &[u8], store: &dyn Keyvals, version: u8) -> Result<Vec<Wanted>, Fault> {
    parse(body)?.iter().map(|(key, value)| wanted(key, value, store, version)).collect()
}

fn parse(body: &[u8]) -> Result<Map<String, Value>, Fault> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(format("invalid JSON")),
        Err(_) => Err(Fault::json()),
    }
}

/// `"value"`, or since version 5 `{ "value": "…", "expire": milliseconds }`.
fn wanted(key: &str, value: &Value, store: &dyn Keyvals, version: u8) -> Result<Wanted, Fault> {
    let key = key.to_owned();
    match value {
        Value::String(value) => Ok(Wanted { key, value: Some(value.clone()), expire: None }),
        Value::Object(object) if version >= 5 => {
            let mut wanted = Wanted { key, value: None, expire: None };
            for (name, member) in object {
                match (name.as_str(), member) {
                    ("value", Value::String(value)) => wanted.value = Some(value.clone()),
                    ("expire", Value::Number(time)) if store.expires() => {
                        let time = time.as_u64().ok_or_else(|| format("invalid expire"))?;
                        wanted.expire = Some(time);
                    }
                    ("expire", Value::Number(_)) => return Err(format("keyval timeout is not enabled")),
                    _ => return Err(format("invalid JSON")),
                }
            }
            Ok(wanted)
        }
        _ => Err(format("invalid JSON")),
    }
}

fn pairs(store: &dyn Keyvals, version: u8) -> Value {
    let all = store.all().into_iter();
    Value::Object(all.map(|(key, pair)| (key, shown(pair, store, version))).collect())
}

/// A value; with the time it still has, where keys have an end.
fn shown(pair: Pair, store: &dyn Keyvals, version: u8) -> Value {
    match pair.expire {
        Some(expire) if version >= 5 && store.expires() => json!({ "value": pair.value, "expire": expire }),
        _ => json!(pair.value),
    }
}

fn no_key() -> Fault {
    Fault::missing("KeyvalKeyNotFound", "keyval key not found")
}

fn format(text: impl Into<std::borrow::Cow<'static, str>>) -> Fault {
    Fault::bad("KeyvalFormatError", text)
}
