//! What two documents say differently.
//!
//! Owns: the comparison: objects by their names or keys, lists item by item.
//! Driven by: `weir diff`, and the admin API.
//!
//! ```text
//! - pools.app.endpoints.10.0.0.2:80: 10.0.0.2:80
//! + pools.app.balance: ip_hash
//! ```

use std::collections::BTreeMap;

use crate::plain::Plain;

/// Most differences that are told.
const MOST: usize = 1000;

/// A line for each difference, in the order of the first document: `-` is only there, `+` only in the second.
pub fn differences(one: &Plain, other: &Plain) -> Vec<String> {
    let mut out = Vec::new();
    compare("", one, other, &mut out);
    let more = out.len().saturating_sub(MOST);
    out.truncate(MOST);
    if more > 0 {
        out.push(format!("… and {more} more"));
    }
    out
}

fn compare(path: &str, one: &Plain, other: &Plain, out: &mut Vec<String>) {
    if one == other {
        return;
    }
    match (one, other) {
        (Plain::Map(ones), Plain::Map(others)) => {
            let at = |entries: &[(String, Plain)], key: &str| {
                entries.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
            };
            for (key, value) in ones {
                step(&below(path, key), Some(value), at(others, key).as_ref(), out);
            }
            for (key, value) in others.iter().filter(|(key, _)| at(ones, key).is_none()) {
                step(&below(path, key), None, Some(value), out);
            }
        }
        (Plain::List(ones), Plain::List(others)) => items(path, ones, others, out),
        _ => step(path, Some(one), Some(other), out),
    }
}

fn step(path: &str, one: Option<&Plain>, other: Option<&Plain>, out: &mut Vec<String>) {
    match (one, other) {
        (Some(one @ (Plain::Map(_) | Plain::List(_))), Some(other)) if is_same_kind(one, other) => {
            compare(path, one, other, out);
        }
        (one, other) if one != other => {
            out.extend(one.map(|one| format!("- {path}: {}", told(one))));
            out.extend(other.map(|other| format!("+ {path}: {}", told(other))));
        }
        _ => {}
    }
}

fn is_same_kind(one: &Plain, other: &Plain) -> bool {
    matches!((one, other), (Plain::Map(_), Plain::Map(_)) | (Plain::List(_), Plain::List(_)))
}

/// Items that have names are compared by them; others by their places.
fn items(path: &str, ones: &[Plain], others: &[Plain], out: &mut Vec<String>) {
    let (Some(one_names), Some(other_names)) = (names(ones), names(others)) else {
        for at in 0..ones.len().max(others.len()) {
            step(&format!("{path}[{at}]"), ones.get(at), others.get(at), out);
        }
        return;
    };
    for (name, item) in one_names.iter().zip(ones) {
        let at = other_names.iter().position(|other| other == name);
        step(&below(path, name), Some(item), at.and_then(|at| others.get(at)), out);
    }
    for (name, item) in other_names.iter().zip(others).filter(|(name, _)| !one_names.contains(name)) {
        step(&below(path, name), None, Some(item), out);
    }
    let common = |names: &[String], all: &[String]| -> Vec<String> {
        names.iter().filter(|name| all.contains(name)).cloned().collect()
    };
    if common(&one_names, &other_names) != common(&other_names, &one_names) {
        out.push(format!("- {path}: in the order {}", one_names.join(", ")));
        out.push(format!("+ {path}: in the order {}", other_names.join(", ")));
    }
}

/// The names of items, each once; `None` if some have none.
fn names(items: &[Plain]) -> Option<Vec<String>> {
    let mut times = BTreeMap::<String, u32>::new();
    items
        .iter()
        .map(|item| {
            let name = match item {
                Plain::Text(text) => Some(text.clone()),
                item => ["key", "name", "address"]
                    .iter()
                    .find_map(|field| item.get(field)?.as_text().map(str::to_owned)),
            }?;
            let times = times.entry(name.clone()).or_default();
            *times += 1;
            Some(if *times == 1 { name } else { format!("{name}#{times}") })
        })
        .collect()
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// A value on one line.
fn told(value: &Plain) -> String {
    let text = match value {
        Plain::Text(text) => text.clone(),
        other => serde_json::to_string(other).unwrap_or_default(),
    };
    let text = text.replace('\n', "\\n");
    match text.char_indices().nth(160) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
