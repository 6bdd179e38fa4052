//! Places in a document: objects by section and key, and what is inside of them by path.
//!
//! Owns: finding, replacing, patching and completing them.
//! Never: knows what a field means.
//! Driven by: `compile::layer`, and the admin API.

use weir_expr::form::REDACTED;
use weir_native::Plain;

/// Sections that are one object each; all others are lists.
pub(crate) const SINGLE: [&str; 2] = ["process", "resolver"];

/// The key that an object of a list goes by.
pub(crate) fn key_of(object: &Plain) -> Option<&str> {
    let fields = ["key", "name", "address"];
    fields.iter().find_map(|field| object.get(field)?.as_text()).or_else(|| object.as_text())
}

/// The object of a section that has this key; of a section that is one object, this.
pub(crate) fn find<'d>(document: &'d Plain, section: &str, key: &str) -> Option<&'d Plain> {
    match document.get(section)? {
        object if SINGLE.contains(&section) => Some(object),
        Plain::List(items) => items.iter().find(|item| key_of(item) == Some(key)),
        _ => None,
    }
}

/// Puts an object into a section, or takes it out.
pub(crate) fn put(document: &mut Plain, section: &str, key: &str, object: Option<&Plain>) {
    let Plain::Map(sections) = document else { return };
    let at = sections.iter().position(|(name, _)| name == section);
    if SINGLE.contains(&section) {
        match (at, object) {
            (Some(at), Some(object)) => sections[at].1 = object.clone(),
            (Some(at), None) => drop(sections.remove(at)),
            (None, Some(object)) => sections.push((section.to_owned(), object.clone())),
            (None, None) => {}
        }
        return;
    }
    let at = at.unwrap_or_else(|| {
        sections.push((section.to_owned(), Plain::List(Vec::new())));
        sections.len() - 1
    });
    let Plain::List(items) = &mut sections[at].1 else { return };
    let place = items.iter().position(|item| key_of(item) == Some(key));
    match (place, object) {
        (Some(place), Some(object)) => items[place] = object.clone(),
        (Some(place), None) => drop(items.remove(place)),
        (None, Some(object)) => items.push(object.clone()),
        (None, None) => {}
    }
    if items.is_empty() {
        sections.remove(at);
    }
}

/// What stands at the end of a path: fields by name, items of a list by number or by key.
pub(crate) fn inside<'d>(object: &'d Plain, path: &[&str]) -> Option<&'d Plain> {
    path.iter().try_fold(object, |at, step| match at {
        Plain::Map(_) => at.get(step),
        Plain::List(items) => items.get(place(items, step)?),
        _ => None,
    })
}

/// Puts a value at the end of a path, or takes what is there away. An item `-` is a new one at the end of its list. False: there is no
/// such place.
pub(crate) fn set_inside(object: &mut Plain, path: &[&str], value: Option<Plain>) -> bool {
    let Some((step, rest)) = path.split_first() else {
        return value.map(|value| *object = value).is_some();
    };
    if !rest.is_empty() {
        let next = match object {
            Plain::Map(_) => object.get_mut(step),
            Plain::List(items) => place(items, step).and_then(|at| items.get_mut(at)),
            _ => None,
        };
        return next.is_some_and(|next| set_inside(next, rest, value));
    }
    match object {
        Plain::Map(fields) => {
            let at = fields.iter().position(|(name, _)| name == step);
            match (at, value) {
                (Some(at), Some(value)) => fields[at].1 = value,
                (Some(at), None) => drop(fields.remove(at)),
                (None, Some(value)) => fields.push(((*step).to_owned(), value)),
                (None, None) => return false,
            }
            true
        }
        Plain::List(items) => match (place(items, step), value) {
            (Some(at), Some(value)) => items.get_mut(at).map(|item| *item = value).is_some(),
            (Some(at), None) => {
                items.remove(at);
                true
            }
            (None, Some(value)) if *step == "-" => {
                items.push(value);
                true
            }
            _ => false,
        },
        _ => false,
    }
}

/// The place of an item in its list.
fn place(items: &[Plain], step: &str) -> Option<usize> {
    let number = step.parse().ok().filter(|&at: &usize| at < items.len());
    number.or_else(|| items.iter().position(|item| key_of(item) == Some(step)))
}

/// A change as RFC 7396 (JSON Merge Patch) has it: `null` takes a field away.
pub(crate) fn merge(target: &Plain, patch: &Plain) -> Plain {
    let Plain::Map(changes) = patch else { return patch.clone() };
    let mut fields = match target {
        Plain::Map(fields) => fields.clone(),
        _ => Vec::new(),
    };
    for (name, change) in changes {
        let at = fields.iter().position(|(known, _)| known == name);
        match (at, change) {
            (Some(at), Plain::Null) => drop(fields.remove(at)),
            (None, Plain::Null) => {}
            (Some(at), change) => fields[at].1 = merge(&fields[at].1, change),
            (None, change) => fields.push((name.clone(), merge(&Plain::Null, change))),
        }
    }
    Plain::Map(fields)
}

/// Secrets that were left out of what somebody read, changed and sends back are those of `known` at the same place.
pub(crate) fn complete(sent: &mut Plain, known: &Plain) {
    match sent {
        Plain::Text(text) if text == REDACTED => *sent = known.clone(),
        Plain::Map(fields) => {
            for (name, value) in fields {
                if let Some(known) = known.get(name) {
                    complete(value, known);
                }
            }
        }
        Plain::List(items) => {
            let Plain::List(others) = known else { return };
            for (at, item) in items.iter_mut().enumerate() {
                let same = |other: &&Plain| key_of(other).is_some() && key_of(other) == key_of(item);
                if let Some(known) = others.iter().find(same).or_else(|| others.get(at)) {
                    complete(item, known);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Plain {
        weir_native::plain(text).unwrap()
    }

    #[test]
    fn objects_are_put_in_by_their_keys() {
        let mut document = plain("{pools: [{name: a, x: 1}, {name: b}], listeners: ['127.0.0.1:80']}");
        put(&mut document, "pools", "a", Some(&plain("{name: a, x: 2}")));
        put(&mut document, "pools", "b", None);
        put(&mut document, "sites", "s", Some(&plain("{name: s}")));
        put(&mut document, "resolver", "", Some(&plain("{x: 1}")));
        put(&mut document, "listeners", "127.0.0.1:80", None);
        assert_eq!(document, plain("{pools: [{name: a, x: 2}], sites: [{name: s}], resolver: {x: 1}}"));
        assert_eq!(find(&document, "pools", "a"), Some(&plain("{name: a, x: 2}")));
        assert_eq!(find(&document, "resolver", ""), Some(&plain("{x: 1}")));
    }

    #[test]
    fn places_inside_are_named_by_fields_numbers_and_keys() {
        let mut site = plain("{name: s, routes: [{matching: /}, {name: api, x: 1}]}");
        assert_eq!(inside(&site, &["routes", "api", "x"]), Some(&Plain::Int(1)));
        assert_eq!(inside(&site, &["routes", "0"]), Some(&plain("{matching: /}")));
        assert_eq!(inside(&site, &["routes", "2"]), None);
        assert!(set_inside(&mut site, &["routes", "api", "x"], Some(Plain::Int(2))));
        assert!(set_inside(&mut site, &["routes", "-"], Some(plain("{matching: /b}"))));
        assert!(set_inside(&mut site, &["routes", "0"], None));
        assert!(!set_inside(&mut site, &["routes", "7"], None));
        assert!(!set_inside(&mut site, &["name", "x"], None));
        assert_eq!(site, plain("{name: s, routes: [{name: api, x: 2}, {matching: /b}]}"));
    }

    #[test]
    fn patches_merge_as_the_rfc_has_it() {
        let merged = merge(&plain("{a: {b: 1, c: 2}, d: [1]}"), &plain("{a: {b: null, e: 3}, d: [2]}"));
        assert_eq!(merged, plain("{a: {c: 2, e: 3}, d: [2]}"));
    }

    #[test]
    fn secrets_that_were_left_out_are_put_back() {
        let known = plain("{a: [{name: x, k: one}, {name: y, k: two}], b: three}");
        let mut sent =
            plain("{a: [{name: y, k: <redacted>}, {name: x, k: new}], b: <redacted>, c: <redacted>}");
        complete(&mut sent, &known);
        assert_eq!(sent, plain("{a: [{name: y, k: two}, {name: x, k: new}], b: three, c: <redacted>}"));
    }
}
