use proptest::prelude::*;

use super::*;
use crate::{Action, MimeTable, RouteFeatures, RouteSettings, StaticFiles, Template};

#[derive(Clone, Debug)]
enum Match {
    Exact(String),
    Prefix { path: String, stop: bool, auto_redirect: bool },
    Regex(String),
}

/// A level of a location tree as written.
#[derive(Clone, Debug)]
struct Location {
    matching: Match,
    children: Vec<Location>,
}

/// Numbers of routes follow the order of writing, children after their parent.
struct Built {
    top: PathIndex,
    routes: Vec<Route>,
    /// Names by route, for messages.
    tree: Vec<(Location, u32)>,
}

fn build(locations: &[Location]) -> Built {
    let mut built = Built { top: PathIndex::default(), routes: Vec::new(), tree: Vec::new() };
    built.top = level(locations, &mut built.routes, &mut built.tree);
    built
}

fn level(locations: &[Location], routes: &mut Vec<Route>, tree: &mut Vec<(Location, u32)>) -> PathIndex {
    let (mut exact, mut prefixes, mut patterns) = (Vec::new(), Vec::new(), Vec::new());
    for location in locations {
        let ix = RouteIx(routes.len() as u32);
        routes.push(route());
        tree.push((location.clone(), ix.0));
        let children = level(&location.children, routes, tree);
        routes[ix.at()].children = (!children.is_empty()).then(|| Box::new(children));
        match &location.matching {
            Match::Exact(path) => exact.push((path.as_bytes().into(), ix, false)),
            Match::Prefix { path, stop, auto_redirect } => prefixes.push(Prefix {
                path: path.as_bytes().into(),
                route: ix,
                stop: *stop,
                auto_redirect: *auto_redirect,
            }),
            Match::Regex(text) => patterns.push((Arc::new(Pattern::new(text, false, |_| None).unwrap()), ix)),
        }
    }
    PathIndex::new(exact, prefixes, patterns)
}

fn route() -> Route {
    let mime = MimeTable::new([], "text/plain", None, Arc::default());
    let files = StaticFiles {
        root: Template::default(),
        alias: false,
        index: Box::default(),
        listing: None,
        types: Arc::new(mime),
        etag: true,
        if_modified_since: crate::IfModifiedSince::Exact,
        max_ranges: None,
        precompressed: Box::default(),
        sendfile: false,
        symlinks: crate::Symlinks::Follow,
        random_index: false,
        video: None,
        dav: None,
    };
    let settings = RouteSettings::default();
    Route {
        name: "".into(),
        counts_for: None,
        features: RouteFeatures::empty(),
        internal: false,
        prefix: Arc::new(*b"/"),
        children: None,
        program: None,
        response_program: None,
        try_files: None,
        files: Arc::new(files),
        action: Action::Static,
        settings: Arc::new(settings),
    }
}

const FALLBACK: u32 = u32::MAX;

/// What nginx's documentation of `location` says, by scanning. Returns the route, whether the choice is final, and
/// whether the slash is missing.
fn naive(
    locations: &[Location],
    numbers: &mut impl FnMut(&Location) -> u32,
    path: &str,
) -> (u32, bool, bool) {
    let named: Vec<(u32, &Location)> =
        locations.iter().map(|location| (numbers(location), location)).collect();
    for (at, location) in &named {
        if matches!(&location.matching, Match::Exact(text) if text == path) {
            return (*at, true, false);
        }
    }
    // "Among them, the location with the longest matching prefix is selected and remembered." The first of equals.
    let mut remembered: Option<(u32, &Location, usize, bool)> = None;
    for (at, location) in &named {
        if let Match::Prefix { path: text, stop, .. } = &location.matching
            && path.starts_with(text.as_str())
            && remembered.is_none_or(|(_, _, len, _)| text.len() > len)
        {
            remembered = Some((*at, location, text.len(), *stop));
        }
    }
    // "… the request with URI equal to this string, but without the trailing slash, a permanent redirect …"
    if remembered.is_none_or(|(_, _, len, _)| len < path.len()) {
        for (at, location) in &named {
            if matches!(&location.matching, Match::Prefix { path: text, .. } if *text == format!("{path}/")) {
                // The first of two equal locations counts; a configuration with two is refused elsewhere.
                if matches!(&location.matching, Match::Prefix { auto_redirect: true, .. }) {
                    return (*at, true, true);
                }
                break;
            }
        }
    }
    let mut chosen = FALLBACK;
    if let Some((at, location, _, stop)) = remembered {
        chosen = at;
        let (inner, is_final, slash) = naive(&location.children, numbers, path);
        if is_final {
            return (inner, true, slash);
        }
        if inner != FALLBACK {
            chosen = inner;
        }
        if stop {
            return (chosen, false, false);
        }
    }
    for (at, location) in &named {
        if let Match::Regex(text) = &location.matching
            && regex::Regex::new(text).unwrap().is_match(path)
        {
            let (inner, _, _) = naive(&location.children, numbers, path);
            return (if inner == FALLBACK { *at } else { inner }, true, false);
        }
    }
    (chosen, false, false)
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["/", "a", "b", "/a", "!"]), 0..5)
        .prop_map(|parts| format!("/{}", parts.concat()))
}

fn matching() -> impl Strategy<Value = Match> {
    prop_oneof![
        1 => text().prop_map(Match::Exact),
        4 => (text(), any::<bool>(), any::<bool>()).prop_map(|(path, stop, redirect)| Match::Prefix {
            auto_redirect: redirect && path.ends_with('/'),
            path,
            stop,
        }),
        2 => prop::sample::select(vec!["a$", "b", "^/a", "/$", "aa"]).prop_map(|text| Match::Regex(text.into())),
    ]
}

fn locations() -> impl Strategy<Value = Vec<Location>> {
    let leaf = matching().prop_map(|matching| Location { matching, children: Vec::new() });
    let tree = leaf.prop_recursive(3, 24, 5, |inner| {
        (matching(), prop::collection::vec(inner, 0..4))
            .prop_map(|(matching, children)| Location { matching, children: distinct(children) })
    });
    prop::collection::vec(tree, 0..8).prop_map(distinct)
}

/// Two locations of one level with the same text are refused when a file is read.
fn distinct(locations: Vec<Location>) -> Vec<Location> {
    let mut seen = std::collections::HashSet::new();
    let key = |matching: &Match| match matching {
        Match::Exact(path) => format!("={path}"),
        Match::Prefix { path, .. } => path.clone(),
        Match::Regex(text) => format!("~{text}"),
    };
    locations.into_iter().filter(|location| seen.insert(key(&location.matching))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn agrees_with_the_documented_choice(locations in locations(), paths in prop::collection::vec(text(), 12)) {
        let built = build(&locations);
        // Numbers by place in memory: the naive walk visits the same tree.
        let mut order = std::collections::HashMap::new();
        number(&locations, &mut order);
        for path in paths {
            let mut numbers = |location: &Location| order[&(std::ptr::from_ref(location) as usize)];
            let (route, _, slash) = naive(&locations, &mut numbers, &path);
            let found = built.top.lookup(path.as_bytes(), &built.routes, RouteIx(FALLBACK)).unwrap();
            prop_assert_eq!((found.route.0, found.redirect_slash), (route, slash), "{}", path);
        }
    }
}

fn number(locations: &[Location], order: &mut std::collections::HashMap<usize, u32>) {
    for location in locations {
        let next = order.len() as u32;
        order.insert(std::ptr::from_ref(location) as usize, next);
        number(&location.children, order);
    }
}

fn prefix(path: &str) -> Match {
    Match::Prefix { path: path.into(), stop: false, auto_redirect: false }
}

fn leaf(matching: Match) -> Location {
    Location { matching, children: Vec::new() }
}

#[test]
fn the_example_of_the_documentation() {
    // = / · / · /documents/ · ^~ /images/ · ~* \.(gif|jpg|jpeg)$
    let built = build(&[
        leaf(Match::Exact("/".into())),
        leaf(prefix("/")),
        leaf(prefix("/documents/")),
        leaf(Match::Prefix { path: "/images/".into(), stop: true, auto_redirect: false }),
        leaf(Match::Regex(r"\.(gif|jpg|jpeg)$".into())),
    ]);
    let check = |path: &str| built.top.lookup(path.as_bytes(), &built.routes, RouteIx(FALLBACK)).unwrap();
    assert_eq!(check("/").route, RouteIx(0));
    assert_eq!(check("/index.html").route, RouteIx(1));
    assert_eq!(check("/documents/document.html").route, RouteIx(2));
    assert_eq!(check("/images/1.gif").route, RouteIx(3));
    assert_eq!(check("/images/1.gif").matched_len, 8);
    let found = check("/documents/1.jpg");
    assert_eq!((found.route, found.matched_len), (RouteIx(4), 16));
    assert_eq!(found.matches[0].1.text(1, b"/documents/1.jpg"), b"jpg");
    assert_eq!(check("").route, RouteIx(FALLBACK));
    assert_eq!(built.tree.len(), 5);
}

#[test]
fn nested_patterns_come_before_outer_ones() {
    let nested = Location { matching: prefix("/a/"), children: vec![leaf(Match::Regex(r"(\d)\.x$".into()))] };
    let built = build(&[leaf(Match::Regex(r"\.x$".into())), nested, leaf(prefix("/"))]);
    let found = built.top.lookup(b"/a/1.x", &built.routes, RouteIx(FALLBACK)).unwrap();
    assert_eq!(found.route, RouteIx(2));
    assert_eq!(found.matches[0].1.text(1, b"/a/1.x"), b"1");
    assert_eq!(built.top.lookup(b"/a/b.x", &built.routes, RouteIx(FALLBACK)).unwrap().route, RouteIx(0));
    assert_eq!(built.top.lookup(b"/a/b.y", &built.routes, RouteIx(FALLBACK)).unwrap().route, RouteIx(1));
}

#[test]
fn all_patterns_on_the_way_are_kept() {
    let inner = vec![leaf(Match::Regex("b(.)".into()))];
    let built = build(&[Location { matching: Match::Regex("^/a(.)".into()), children: inner }]);
    let found = built.top.lookup(b"/axby", &built.routes, RouteIx(FALLBACK)).unwrap();
    assert_eq!(found.route, RouteIx(1));
    let groups: Vec<&[u8]> = found.matches.iter().map(|(_, captures)| captures.text(1, b"/axby")).collect();
    assert_eq!(groups, [b"x", b"y"]);
}

#[test]
fn a_missing_slash_is_seen_past_other_entries() {
    let redirected = leaf(Match::Prefix { path: "/dir/".into(), stop: false, auto_redirect: true });
    let built =
        build(&[leaf(prefix("/")), redirected, leaf(prefix("/dir!")), leaf(Match::Regex("dir".into()))]);
    let check = |path: &str| {
        let found = built.top.lookup(path.as_bytes(), &built.routes, RouteIx(FALLBACK)).unwrap();
        (found.route.0, found.redirect_slash)
    };
    assert_eq!(check("/dir"), (1, true));
    assert_eq!(check("/di"), (0, false));
    assert_eq!(check("/dir/x"), (3, false));
}
