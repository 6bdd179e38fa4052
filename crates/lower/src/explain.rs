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
    let text = value.and_then(|mut value| {
        Names::of(&value).put_into(&mut value);
        serde_norway::to_string(&pruned(value).unwrap_or(Value::Null))
    });
    text.unwrap_or_else(|error| format!("# cannot be printed: {error}\n"))
}

/// What is referred to by a number, by name.
struct Names {
    sites: Vec<String>,
    tcp: Vec<String>,
    pools: Vec<String>,
}

impl Names {
    fn of(whole: &Value) -> Self {
        let of =
            |list: &str| names_in(whole.get(list).and_then(Value::as_sequence).map_or(&[], Vec::as_slice));
        Self { sites: of("sites"), tcp: of("tcp"), pools: of("pools") }
    }

    /// Names instead of the numbers of sites, TCP services and pools.
    fn put_into(&self, value: &mut Value) {
        match value {
            Value::Sequence(items) => items.iter_mut().for_each(|item| self.put_into(item)),
            Value::Mapping(map) => {
                for (key, value) in map.iter_mut() {
                    match key.as_str() {
                        Some("service") => self.put_into_service(value),
                        Some("pool") if value.is_u64() => replace(value, &self.pools),
                        _ => self.put_into(value),
                    }
                }
            }
            _ => {}
        }
    }

    /// All numbers in a listener's service are sites or TCP services.
    fn put_into_service(&self, service: &mut Value) {
        for (kind, names) in [("http", &self.sites), ("tcp", &self.tcp)] {
            if let Some(value) = service.get_mut(kind) {
                replace(value, names);
            }
        }
    }
}

/// The names of a list's items; where several have one, with their place in the list.
fn names_in(list: &[Value]) -> Vec<String> {
    let name = |item: &Value| item.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let names: Vec<String> = list.iter().map(name).collect();
    let mut times = std::collections::HashMap::<&str, usize>::new();
    names.iter().for_each(|name| *times.entry(name).or_default() += 1);
    let told = |(at, name): (usize, &String)| match times[name.as_str()] {
        1 if !name.is_empty() => name.clone(),
        _ => format!("{name} #{at}").trim_start().to_owned(),
    };
    names.iter().enumerate().map(told).collect()
}

fn replace(value: &mut Value, names: &[String]) {
    match value {
        Value::Number(number) => {
            let at = number.as_u64().and_then(|at| usize::try_from(at).ok());
            if let Some(name) = at.and_then(|at| names.get(at)) {
                *value = Value::String(name.clone());
            }
        }
        Value::Sequence(items) => items.iter_mut().for_each(|item| replace(item, names)),
        Value::Mapping(map) => map.iter_mut().for_each(|(_, item)| replace(item, names)),
        _ => {}
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_names() {
        let text = "listeners: [{service: {http: {exact: {a: 0, b: 2}, default: 1}}}, {service: {tcp: 0}}]\n\
            sites: [{name: a}, {name: _}, {name: _, routes: [0]}]\ntcp: [{name: t, target: {pool: 0}}]\npools: [{name: p}]\n";
        let value: Value = serde_norway::from_str(text).unwrap();
        let told: Value = serde_norway::from_str(&print(&value)).unwrap();
        let http = &told["listeners"][0]["service"]["http"];
        assert_eq!((http["exact"]["a"].as_str(), http["exact"]["b"].as_str()), (Some("a"), Some("_ #2")));
        assert_eq!(http["default"].as_str(), Some("_ #1"));
        assert_eq!(told["listeners"][1]["service"]["tcp"].as_str(), Some("t"));
        assert_eq!(told["tcp"][0]["target"]["pool"].as_str(), Some("p"));
        assert_eq!(told["sites"][2]["routes"][0].as_u64(), Some(0));
    }
}
