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

/// A value without nulls, `false`, and empty lists and maps; `None` if nothing is left.
fn pruned(value: Value) -> Option<Value> {
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::Sequence(items) if items.is_empty() => None,
        // Items keep their places, so only their insides are pruned.
        Value::Sequence(items) => {
            Some(Value::Sequence(items.into_iter().map(|item| pruned(item).unwrap_or(Value::Null)).collect()))
        }
        Value::Mapping(map) => {
            let left: serde_norway::Mapping =
                map.into_iter().filter_map(|(key, value)| Some((key, pruned(value)?))).collect();
            (!left.is_empty()).then_some(Value::Mapping(left))
        }
        other => Some(other),
    }
}
