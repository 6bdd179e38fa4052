//! Sites and pools of two languages in one plan: each keeps what its own does.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io;
use std::net::IpAddr;
use std::path::Path;

use weir_lower::{Options, Resources, lower};
use weir_model::{Model, Service, SiteId};
use weir_plan::settings::{LogEscape, LogLevel, PageLayout};
use weir_plan::{BalanceKey, LogTarget, Plan, Pool, Site};

struct Nothing;

impl Resources for Nothing {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        Err(io::Error::new(io::ErrorKind::NotFound, path.display().to_string()))
    }

    fn addresses(&self, host: &str) -> Vec<IpAddr> {
        host.parse().into_iter().collect()
    }
}

const NGINX: &str = "events {} http { access_log syslog:server=127.0.0.1:5140;
    upstream a { least_conn; server 127.0.0.1:1; server 127.0.0.1:2 backup; }
    upstream a_hash { hash $arg_key; server 127.0.0.1:1; }
    server { listen 127.0.0.1:18080; location / { proxy_pass http://a; } location /h { proxy_pass http://a_hash; } } }";

const HAPROXY: &str = "
defaults
    mode http
    timeout connect 1s
    timeout client 1s
    timeout server 1s
    log 127.0.0.1:5141 local0
    option httplog
listen b
    bind 127.0.0.1:18081
    balance leastconn
    server one 127.0.0.1:3
    server two 127.0.0.1:4 backup
listen b_hash
    bind 127.0.0.1:18082
    balance url_param key
    server one 127.0.0.1:3
";

fn nginx() -> Model {
    let mut files = weir_nginx::Memory::default();
    files.files.insert("nginx.conf".into(), NGINX.as_bytes().to_vec());
    weir_nginx::load(&files, Path::new("nginx.conf"), &weir_nginx::Options::default()).model
}

fn haproxy() -> Model {
    let files = weir_haproxy::Memory::default().with("haproxy.cfg".to_owned(), HAPROXY.to_owned());
    weir_haproxy::load(&files, &["haproxy.cfg".into()], &weir_haproxy::Options::default()).model
}

/// One model of both. Routes are referred to by their place: those of the second follow those of the first.
fn joined(mut first: Model, second: Model) -> Model {
    let (routes, sites) = (first.routes.len() as u32, first.sites.len() as u32);
    let moved = |route: &mut weir_model::RouteId| route.0 += routes;
    for mut route in second.routes {
        assert!(route.program.is_empty(), "a program may refer to routes");
        route.children.iter_mut().for_each(moved);
        first.routes.push(route);
    }
    for mut site in second.sites {
        moved(&mut site.fallback);
        site.routes.iter_mut().for_each(moved);
        first.sites.push(site);
    }
    for mut listener in second.listeners {
        if let Service::Http { sites: of, default } = &mut listener.service {
            of.iter_mut().chain([default]).for_each(|site: &mut SiteId| site.0 += sites);
        }
        first.listeners.push(listener);
    }
    first.pools.extend(second.pools);
    first.variables.extend(second.variables);
    first
}

fn pool<'p>(plan: &'p Plan, name: &str) -> &'p Pool {
    plan.pools.iter().find(|pool| *pool.name == *name).unwrap()
}

fn site<'p>(plan: &'p Plan, port: &str) -> &'p Site {
    let listener = plan.listeners.iter().find(|one| one.address.to_string().ends_with(port)).unwrap();
    let weir_plan::Service::Http(hosts) = &listener.service else { unreachable!() };
    plan.site(hosts.default_value())
}

fn compiled(model: &Model) -> Plan {
    let (plan, findings) = lower(model, &Nothing, &Options::default());
    plan.unwrap_or_else(|| panic!("{findings:?}"))
}

/// Everything that one language's part of a plan is told apart by.
fn check(plan: &Plan, with_nginx: bool, with_haproxy: bool) {
    let method = |name: &str| {
        format!(
            "{:?} {:?}",
            pool(plan, name).set.config.balance(),
            pool(plan, name).set.config.options().backups
        )
    };
    if with_nginx {
        assert_eq!(method("a"), "LeastConn WhenNoneChosen");
        assert_eq!(pool(plan, "a").unavailable.none_live, 502);
        assert!(pool(plan, "a").unavailable.unreachable.is_none() && pool(plan, "a").unavailable.noted);
        assert!(matches!(pool(plan, "a_hash").key, BalanceKey::Text(_)), "an empty key is hashed as well");
        let conduct = site(plan, ":18080").conduct;
        assert_eq!((conduct.pages.layout, conduct.left_status), (PageLayout::Titled, 499));
        assert!(conduct.program_again && conduct.error_lines == LogLevel::Debug);
    }
    if with_haproxy {
        assert_eq!(method("b"), "LeastConnOldest FirstWhenDown");
        assert_eq!(pool(plan, "b").unavailable.none_live, 503);
        assert_eq!(pool(plan, "b").unavailable.unreachable, Some(503));
        assert!(
            matches!(pool(plan, "b_hash").key, BalanceKey::TextOrTurns(_)),
            "without a key servers take turns"
        );
        let conduct = site(plan, ":18081").conduct;
        assert_eq!((conduct.pages.layout, conduct.left_status), (PageLayout::Explained, 0));
        assert!(!conduct.program_again && conduct.error_lines == LogLevel::Crit);
    }
    for listener in &plan.listeners {
        let of_haproxy = !listener.address.to_string().ends_with(":18080");
        assert_eq!(listener.proxy_header_names_client, of_haproxy);
    }
    for log in plan.routes.iter().flat_map(|route| route.settings.access_logs.iter()) {
        let LogTarget::Syslog(syslog) = &plan.log(log.log).target else { continue };
        let of_haproxy = log.escape == LogEscape::Hash;
        assert_eq!(
            (syslog.pid, syslog.newline, syslog.max_length.is_some()),
            (of_haproxy, of_haproxy, of_haproxy)
        );
    }
}

#[test]
fn each_language_keeps_its_own_beside_the_other() {
    check(&compiled(&nginx()), true, false);
    check(&compiled(&haproxy()), false, true);
    check(&compiled(&joined(nginx(), haproxy())), true, true);
    check(&compiled(&joined(haproxy(), nginx())), true, true);
}
