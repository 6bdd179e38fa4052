//! Printing of models and plans for people.
//!
//! Why: what Weir understood is the first question of every migration.

use serde::Serialize;
use serde_norway::Value;
use weir_model::Model;
use weir_plan::Plan;

/// The model in YAML, without secrets and without what is empty.
pub fn explain(model: &Model) -> String {
    print(model)
}

/// The plan in YAML, without secrets and without what is empty.
pub fn explain_plan(plan: &Plan) -> String {
    print(plan)
}

fn print<T: Serialize>(node: &T) -> String {
    // Enums as maps of one key: YAML tags are hard to read, and cannot be nested.
    let value = serde_norway::with::singleton_map_recursive::serialize(node, serde_norway::value::Serializer);
    let text = value.and_then(|value| serde_norway::to_string(&pruned(value).unwrap_or(Value::Null)));
    text.unwrap_or_else(|error| format!("# cannot be printed: {error}\n"))
}

/// A value without nulls and empty lists and maps, as far as they stand in maps; `None` if nothing is left.
fn pruned(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Sequence(items) if items.is_empty() => None,
        // Items keep their places, so only their insides are pruned.
        Value::Sequence(items) => {
            let kept = items.into_iter().map(|item| pruned(item).unwrap_or(Value::Null));
            Some(Value::Sequence(kept.collect()))
        }
        Value::Mapping(map) => match duration(&map) {
            Some(text) => Some(Value::String(text)),
            None => pruned_map(map),
        },
        other => Some(other),
    }
}

fn pruned_map(map: serde_norway::Mapping) -> Option<Value> {
    let left: serde_norway::Mapping =
        map.into_iter().filter_map(|(key, value)| Some((key, pruned(value)?))).collect();
    (!left.is_empty()).then_some(Value::Mapping(left))
}

/// `{ secs: 1, nanos: 500000000 }` as `1.5s`.
fn duration(map: &serde_norway::Mapping) -> Option<String> {
    let (2, Some(secs), Some(nanos)) = (map.len(), map.get("secs"), map.get("nanos")) else { return None };
    let time = std::time::Duration::new(secs.as_u64()?, u32::try_from(nanos.as_u64()?).ok()?);
    Some(format!("{time:?}"))
}
