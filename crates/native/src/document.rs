//! The document: its sections, and what in them refers to one another.
//!
//! Owns: sections, keys of objects, the numbers of routes.
//! Never: knows the fields of an object.
//! Driven by: `lib`.
//!
//! Routes that stand where they are referred to are numbered behind those of the section `routes`: for each site those that
//! have a name, then every route behind what is inside of it, the fallback last.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use serde::de::DeserializeOwned;
use weir_diag::Diagnostic;
use weir_model::{Model, Route, RouteId, RouteMatch, route_ids_of_route, route_ids_of_site};

use crate::node::{Node, Value};
use crate::print::ORDER;
use crate::read::{BY_KEY, Context, INLINE, take};
use crate::shapes;

/// The model of a document.
pub(crate) fn model(root: &Rc<Node>, cx: &Context) -> Model {
    let mut model = Model::default();
    if !matches!(root.value, Value::Map(_)) {
        let title = format!("{} stands where a configuration belongs", root.kind());
        let found = Diagnostic::error("native::not-a-map", title).at(root.span);
        cx.findings.borrow_mut().push(found.help(format!("its sections are: {}", ORDER.join(", "))));
        return model;
    }
    for (kind, section) in SECTIONS {
        cx.keys.borrow_mut().gather(kind, &nodes(root, section), &mut cx.findings.borrow_mut());
    }
    let sites = cx.keys.borrow().all("SiteId");
    model.process = whole(root, "process", cx).unwrap_or_default();
    model.process.prefix.clone_from(&cx.folder);
    model.resolver = root.entry("resolver").filter(|node| !node.is_null()).and_then(|node| take(cx, node));
    let listeners = nodes(root, "listeners").iter().map(|node| shapes::with_service(node, &sites)).collect();
    model.listeners = items(listeners, cx);
    model.sites = list(root, "sites", cx);
    model.routes = list(root, "routes", cx);
    model.tcp = list(root, "tcp", cx);
    model.pools = list(root, "pools", cx);
    model.roster = list(root, "roster", cx);
    model.variables = list(root, "variables", cx);
    model.limit_req_zones = list(root, "limit_req_zones", cx);
    model.limit_conn_zones = list(root, "limit_conn_zones", cx);
    model.stick_tables = list(root, "stick_tables", cx);
    model.cache_zones = list(root, "cache_zones", cx);
    model.acme = list(root, "acme", cx);
    model.memory_caches = list(root, "memory_caches", cx);
    model.key_lists = list(root, "key_lists", cx);
    for (key, _) in root.entries() {
        if !ORDER.contains(&key.text.as_str()) {
            let found =
                Diagnostic::error("native::unknown-section", format!("there is no section `{}`", key.text));
            let found = found.at(key.span).suggest(&key.text, key.span, ORDER);
            cx.findings.borrow_mut().push(found.help(format!("the sections are: {}", ORDER.join(", "))));
        }
    }
    if cx.findings.borrow().is_empty() {
        connect(&mut model, cx);
    }
    model
}

/// What has keys, and where.
const SECTIONS: [(&str, &str); 5] = [
    ("SiteId", "sites"),
    ("RouteId", "routes"),
    ("TcpId", "tcp"),
    ("MemoryCacheId", "memory_caches"),
    ("KeyListId", "key_lists"),
];

fn whole<T: DeserializeOwned>(root: &Node, section: &str, cx: &Context) -> Option<T> {
    let absent = Node::made(root.span, Value::Absent);
    take(cx, root.entry(section).unwrap_or(&absent))
}

fn list<T: DeserializeOwned>(root: &Node, section: &str, cx: &Context) -> Vec<T> {
    items(nodes(root, section), cx)
}

fn items<T: DeserializeOwned>(nodes: Vec<Rc<Node>>, cx: &Context) -> Vec<T> {
    nodes.iter().filter_map(|node| take(cx, node)).collect()
}

/// The objects of a section: a list, or a map from their names.
fn nodes(root: &Node, section: &str) -> Vec<Rc<Node>> {
    let Some(node) = root.entry(section) else { return Vec::new() };
    match &node.value {
        Value::List(items) => items.clone(),
        Value::Map(entries) => entries
            .iter()
            .map(|(key, value)| {
                let mut fields = vec![(key.clone(), Node::text(key.span, key.text.clone()))];
                fields[0].0.text = "name".into();
                match &value.value {
                    Value::Map(own) => {
                        fields.extend(own.iter().filter(|(own, _)| own.text != "name").cloned())
                    }
                    _ if value.is_null() => {}
                    _ => return Rc::clone(value),
                }
                value.with(Value::Map(fields))
            })
            .collect(),
        _ if node.is_null() => Vec::new(),
        _ => vec![Rc::clone(node)],
    }
}

/// Numbers for all that was read without.
fn connect(model: &mut Model, cx: &Context) {
    let mut inline: Vec<Option<(String, Route)>> = cx.inline.take().into_iter().map(Some).collect();
    let order = order(model, &mut inline);
    let base = model.routes.len() as u32;
    let mut numbers = HashMap::new();
    for (at, old) in order.into_iter().enumerate() {
        let Some((key, route)) = inline[old as usize].take() else { continue };
        let number = base + at as u32;
        numbers.insert(old, number);
        cx.keys.borrow_mut().add("RouteId", &key, number);
        model.routes.push(route);
    }
    let references = cx.references.take();
    let find = |number: u32| -> u32 {
        let Some(reference) = references.get((number - BY_KEY) as usize) else { return 0 };
        let findings = &mut cx.findings.borrow_mut();
        cx.keys.borrow().find("RouteId", &reference.key, reference.span, findings).unwrap_or(0)
    };
    model.route_ids(&mut |id| {
        id.0 = match id.0 {
            number if number >= INLINE => numbers.get(&(number - INLINE)).copied().unwrap_or(0),
            number if number >= BY_KEY => find(number),
            number => number,
        };
    });
    unreachable(model, cx);
}

/// Routes among others that nothing chooses.
fn unreachable(model: &Model, cx: &Context) {
    let among =
        model.sites.iter().map(|site| &site.routes).chain(model.routes.iter().map(|route| &route.children));
    for RouteId(number) in among.flatten() {
        let Some(route) = model.routes.get(*number as usize) else { continue };
        if let (RouteMatch::Referred, Some(span)) = (&route.matching, route.origin) {
            let found =
                Diagnostic::error("native::missing", "this route does not say when it is chosen").at(span);
            let help = "add `matching`: a path such as `/api/`, or one of `exact`, `prefix`, `regex`";
            cx.findings.borrow_mut().push(found.help(help));
        }
    }
}

/// The order in which routes that stand in their places are numbered.
fn order(model: &mut Model, inline: &mut [Option<(String, Route)>]) -> Vec<u32> {
    let mut out = Order::default();
    let mut sites = std::mem::take(&mut model.sites);
    for site in &mut sites {
        for RouteId(number) in &site.routes {
            let at = number.checked_sub(INLINE);
            let route = at.and_then(|at| inline.get(at as usize)).and_then(Option::as_ref);
            if route.is_some_and(|(_, route)| matches!(route.matching, RouteMatch::Named(_))) {
                at.into_iter().filter(|&at| out.seen.insert(at)).for_each(|at| out.order.push(at));
            }
        }
        let mut inside = Vec::new();
        route_ids_of_site(site, &mut |id| inside.extend(id.0.checked_sub(INLINE)));
        inside.into_iter().for_each(|at| behind(at, inline, &mut out));
    }
    model.sites = sites;
    let mut rest = Vec::new();
    model.route_ids(&mut |id| rest.extend(id.0.checked_sub(INLINE)));
    rest.into_iter().for_each(|at| behind(at, inline, &mut out));
    out.order
}

/// Routes in their order.
#[derive(Default)]
struct Order {
    order: Vec<u32>,
    seen: HashSet<u32>,
}

/// A route behind what is inside of it.
fn behind(at: u32, inline: &mut [Option<(String, Route)>], out: &mut Order) {
    let Some(slot) = inline.get_mut(at as usize) else { return };
    // One that has a name has its number before, and what is inside of it has not.
    let Some(mut route) = slot.take() else { return };
    let mut inside = Vec::new();
    route_ids_of_route(&mut route.1, &mut |id| inside.extend(id.0.checked_sub(INLINE)));
    for one in inside {
        behind(one, inline, out);
    }
    inline[at as usize] = Some(route);
    if out.seen.insert(at) {
        out.order.push(at);
    }
}
