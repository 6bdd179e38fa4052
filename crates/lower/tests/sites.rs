//! What 10,000 sites of ten locations cost: memory and time of lowering. Prints figures; asserts only on memory, loosely.
//!
//! `cargo test --profile dist -p weir-lower --test sites -- --nocapture` for figures worth quoting.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use std::time::Instant;

use weir_lower::{Options, lower};
use weir_model::*;

#[path = "../src/tests/build.rs"]
mod build;
use build::*;

const SITES: usize = 10_000;
const LOCATIONS: usize = 10;

/// Sites as a front end writes them: each has its root, log and settings, shared by its locations; every second location
/// proxies to a path of its own with the site's fields.
fn many() -> Model {
    let mut model = Model::default();
    model.pools.push(pool("app", &["127.0.0.1:8001"]));
    let types = files().types.clone();
    let format = Arc::new(Template::var(weir_expr::Var::RequestLine));
    let mut ids = Vec::new();
    for at in 0..SITES {
        let mut common = route("/", prefix("/"), Action::Static);
        common.files = Arc::new(StaticFiles {
            root: Template::literal(format!("/var/www/site{at}")),
            types: types.clone(),
            ..(*files()).clone()
        });
        common.access_logs = Arc::new(vec![AccessLog {
            target: LogTarget::File(format!("/var/log/site{at}.log").into()),
            format: format.clone(),
            escape: Default::default(),
            condition: None,
            only: None,
            buffer: None,
            flush: None,
            gzip: None,
            sample: None,
        }]);
        let Action::Proxy(shared) = proxy("app", &[("Host", Template::var(weir_expr::Var::Host))]) else {
            continue;
        };
        let mut routes = Vec::new();
        for location in 0..LOCATIONS {
            let path = format!("/location{location}/");
            common.name = path.clone();
            common.matching = prefix(&path);
            common.action = match location % 2 {
                0 => Action::Static,
                _ => Action::Proxy(Arc::new(Proxy {
                    uri: UpstreamUri::Replace(format!("/site{at}/{location}/")),
                    ..(*shared).clone()
                })),
            };
            routes.push(model.add_route(common.clone()));
        }
        let fallback = routes[0];
        ids.push(model.add_site(site(&format!("site{at}.example.org"), routes, fallback)));
    }
    model.listeners.push(listener("127.0.0.1:8080", ids));
    model
}

/// Resident bytes of this process.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

#[test]
fn memory_and_time() {
    let model = many();
    let before = resident();
    let start = Instant::now();
    let (plan, findings) = lower(&model, &Memory::default(), &Options::default());
    let time = start.elapsed();
    // The compiler's own tables are gone by now, but the allocator may keep their pages: this is an upper bound.
    let bytes = resident().saturating_sub(before);
    assert!(findings.is_empty(), "{findings:#?}");
    let plan = plan.unwrap();
    let each = bytes / plan.routes.len();
    println!("{} routes: {} bytes each, lowered in {time:?}", plan.routes.len(), each);
    println!(
        "size_of Route {}, Site {}, Proxy {}",
        size_of::<weir_plan::Route>(),
        size_of::<weir_plan::Site>(),
        size_of::<weir_plan::Proxy>()
    );
    assert!(each < 1500, "{each} bytes a route");
    sharing(&plan);
    look_ups(&plan);
}

fn sharing(plan: &weir_plan::Plan) {
    assert!(size_of::<weir_plan::Route>() <= 128, "{}", size_of::<weir_plan::Route>());
    let settings: std::collections::HashSet<_> =
        plan.routes.iter().map(|route| Arc::as_ptr(&route.settings)).collect();
    assert_eq!(settings.len(), SITES, "one group of settings a site");
    let heads: std::collections::HashSet<_> = plan
        .routes
        .iter()
        .filter_map(|route| match &route.action {
            weir_plan::Action::Proxy(proxy) => Some(Arc::as_ptr(&proxy.head)),
            _ => None,
        })
        .collect();
    assert_eq!(heads.len(), 1, "equal heads of all sites are one");
}

fn look_ups(plan: &weir_plan::Plan) {
    let weir_plan::Service::Http(index) = &plan.listeners[0].service else {
        unreachable!("an HTTP listener")
    };
    let hosts: Vec<String> = (0..SITES).map(|at| format!("site{}.example.org", at * 7919 % SITES)).collect();
    let start = Instant::now();
    for host in &hosts {
        let site = plan.site(index.lookup(host.as_bytes()).unwrap().value);
        assert_eq!(*site.name, **host);
        let found = plan.find(site, b"/location7/x").unwrap();
        assert_eq!(&*plan.route(found.route).name, "/location7/");
    }
    println!("host and path look-up: {:?} each", start.elapsed() / hosts.len() as u32);
}
