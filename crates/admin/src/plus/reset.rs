//! What was counted before resets.
//!
//! Owns: the counters of each object at its last reset.
//! Never: changes a counter: each has one writer, and other pages show it, too.
//! Driven by: DELETE, which notes them; GET, which shows what was counted since.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

/// Objects whose counters were reset are so many at most: zones, workers and endpoints of a configuration. Of more than this,
/// the counters of those that were reset first are whole again.
const MOST: usize = 65_536;

/// Members that say how things are, rather than how often something happened.
const STATES: &[&str] = &[
    "processing",
    "active",
    "idle",
    "current",
    "size",
    "max_size",
    "id",
    "pid",
    "weight",
    "max_conns",
    "header_time",
    "response_time",
    "connect_time",
    "first_byte_time",
    "used",
    "free",
];

/// See the module.
#[derive(Debug, Default)]
pub struct Resets(Mutex<HashMap<String, Value>>);

impl Resets {
    /// Counts an object from zero.
    pub(super) fn reset(&self, name: &str, object: Value) {
        let mut known = self.known();
        if known.len() >= MOST && !known.contains_key(name) {
            known.clear();
        }
        known.insert(name.to_owned(), object);
    }

    /// What an object counted since its last reset.
    pub(super) fn since(&self, name: &str, mut object: Value) -> Value {
        if let Some(before) = self.known().get(name) {
            subtract(&mut object, before);
        }
        object
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Value>> {
        // Each change is one step on the map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn subtract(object: &mut Value, before: &Value) {
    let (Value::Object(members), Value::Object(before)) = (object, before) else { return };
    for (name, value) in members.iter_mut().filter(|(name, _)| !STATES.contains(&name.as_str())) {
        let Some(before) = before.get(name) else { continue };
        match (value.as_u64(), before.as_u64()) {
            // What counts less than before began anew, as one that left and came back does.
            (Some(now), Some(before)) if now >= before => *value = (now - before).into(),
            (None, None) => subtract(value, before),
            _ => {}
        }
    }
    // A code that was not met since is none that was met.
    if let Some(codes) = members.get_mut("codes").and_then(Value::as_object_mut) {
        codes.retain(|_, count| count.as_u64() != Some(0));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counters_begin_at_zero_and_states_stay() {
        let resets = Resets::default();
        let at = |requests: u64, codes: Value| json!({ "processing": 2, "requests": requests, "responses": { "2xx": requests, "codes": codes }, "state": "up" });
        resets.reset("zone", at(7, json!({ "200": 7 })));
        let shown = resets.since("zone", at(9, json!({ "200": 7, "204": 2 })));
        assert_eq!(shown, at(2, json!({ "204": 2 })));
        assert_eq!(resets.since("other", at(9, json!({}))), at(9, json!({})));
        assert_eq!(resets.since("zone", at(3, json!({ "200": 3 })))["requests"], 3, "it began anew");
    }
}
