use std::sync::Arc;

use weir_diag::{Diagnostic, Severity};
use weir_model::*;

use super::build::*;
use crate::{Options, host_names, lower};

fn codes(findings: &[Diagnostic]) -> Vec<&str> {
    findings.iter().map(|finding| finding.code).collect()
}

#[track_caller]
fn check(model: &Model, expected: &[&str]) -> Vec<Diagnostic> {
    let (plan, findings) = run(model, &Memory::default());
    assert_eq!(codes(&findings), expected, "{findings:#?}");
    assert_eq!(plan.is_none(), weir_diag::has_errors(&findings));
    findings
}

fn root(action: Action) -> Route {
    route("/", prefix("/"), action)
}

#[test]
fn every_mistake_is_told_at_its_place() {
    let mut bad = root(proxy("ap", &[("X", Template::var(weir_expr::Var::User("vra".into())))]));
    bad.origin = span(10, 20);
    bad.limit_req = Arc::new(vec![LimitReq {
        zone: "perip".into(),
        burst: 1,
        delay: None,
        status: 503,
        log_level: Default::default(),
        dry_run: false,
    }]);
    let mut model = single(vec![bad]);
    model.pools.push(pool("app", &["127.0.0.1:1"]));
    model.variables.push(variable("var"));
    let findings = check(&model, &["pool::unknown", "variable::unknown", "zone::unknown"].map(|code| code));
    let pool = findings.iter().find(|finding| finding.code == "pool::unknown").unwrap();
    assert_eq!(pool.primary.as_ref().unwrap().span.start, 10);
    assert_eq!(pool.help, ["did you mean `app`?"]);
}

#[test]
fn a_pattern_error_points_into_the_pattern() {
    let mut one = root(Action::Static);
    one.matching =
        RouteMatch::Regex(Pattern { source: "^/(a|b".into(), ignore_case: false, origin: span(100, 106) });
    let mut two = root(Action::Static);
    two.matching =
        RouteMatch::Regex(Pattern { source: "^/(a|b".into(), ignore_case: false, origin: span(200, 208) });
    let findings = check(&single(vec![one, two]), &["pattern::invalid", "pattern::invalid"]);
    assert_eq!(findings[0].primary.as_ref().unwrap().span.start, 106);
    assert_eq!(findings[1].primary.as_ref().unwrap().span.start, 207, "in quotes");
    assert!(findings[0].title.contains("closing parenthesis"), "{}", findings[0].title);
}

#[test]
fn pools() {
    let with = |pools: Vec<Pool>| {
        let mut model = single(vec![root(Action::Static)]);
        model.pools = pools;
        model
    };
    check(&with(vec![pool("a", &[])]), &["pool::empty"]);
    check(&with(vec![pool("a", &["127.0.0.1:1"]), pool("a", &["127.0.0.1:1"])]), &["pool::defined-twice"]);
    let mut weightless = pool("a", &["127.0.0.1:1"]);
    weightless.endpoints[0].weight = 0;
    check(&with(vec![weightless]), &["pool::no-weight"]);
    let mut limited = pool("a", &["127.0.0.1:1"]);
    limited.endpoints[0].max_connections = Some(5);
    let findings = check(&with(vec![limited.clone()]), &["pool::limit-per-worker"]);
    assert_eq!(findings[0].severity, Severity::Note);
    limited.shared = true;
    check(&with(vec![limited]), &[]);
}

#[test]
fn a_pool_that_may_be_empty_is_no_error() {
    let mut model = single(vec![root(Action::Static)]);
    model.pools.push(pool("a", &[]));
    model.pools[0].may_be_empty = true;
    let (plan, findings) = run(&model, &Memory::default());
    assert_eq!(findings[0].severity, Severity::Warning);
    assert!(plan.is_some());
}

#[test]
fn one_bad_name_stops_nothing() {
    let mut model = single(vec![root(proxy("app", &[]))]);
    model.pools.push(pool("app", &["good.example:80", "bad.example:80"]));
    assert_eq!(host_names(&model), ["bad.example", "good.example"]);
    let memory = Memory::default().name("good.example", &["192.0.2.1", "2001:db8::1"]);
    let (plan, findings) = run(&model, &memory);
    assert_eq!(codes(&findings), ["pool::name-unresolved"]);
    let plan = plan.unwrap();
    let pool = &plan.pools[0].set;
    let places: Vec<Option<String>> =
        pool.endpoints.iter().map(|one| one.address.as_ref().map(ToString::to_string)).collect();
    assert_eq!(places, [Some("192.0.2.1:80".into()), Some("[2001:db8::1]:80".into()), None]);
    let down: Vec<bool> = pool.config.endpoints().iter().map(|one| one.down).collect();
    assert_eq!(down, [false, false, true]);
    let keys: std::collections::HashSet<_> = pool.endpoints.iter().map(|one| one.key).collect();
    assert_eq!(keys.len(), 3);
    // State follows an address, whatever the resolver's order.
    let (again, _) = run(&model, &Memory::default().name("good.example", &["2001:db8::1", "192.0.2.1"]));
    assert_eq!(again.unwrap().pools[0].set.endpoints[0].key, pool.endpoints[1].key);
}

#[test]
fn listeners_and_sites() {
    let mut model = single(vec![root(Action::Static)]);
    model.listeners.push(listener("127.0.0.1:8080", vec![SiteId(0)]));
    check(&model, &["listener::duplicate"]);

    let mut model = single(vec![root(Action::Static)]);
    let second = model.add_site(site("example.org", vec![], RouteId(0)));
    model.listeners[0].service = Service::Http { sites: vec![SiteId(0), second], default: SiteId(0) };
    let index = plan(&model);
    let weir_plan::Service::Http(index) = &index.listeners[0].service else { panic!("HTTP") };
    assert_eq!(index.lookup(b"example.org").unwrap().value, weir_plan::SiteIx(0), "the first stands");

    let mut model = single(vec![root(Action::Static)]);
    model.listeners[0].service = Service::Http { sites: vec![SiteId(7)], default: SiteId(0) };
    check(&model, &["listener::dangling"]);
}

#[test]
fn routes() {
    check(&single(vec![root(Action::Static), root(Action::Static)]), &["route::duplicate"]);

    let mut looping = root(Action::Static);
    looping.children = vec![RouteId(0)];
    check(&single(vec![looping]), &["route::nested-in-itself"]);

    let mut entering = root(Action::Static);
    entering.program = vec![Op::When {
        condition: Condition::Always(true),
        then: vec![Op::Enter(RouteId(0))],
        otherwise: vec![],
    }];
    check(&single(vec![entering]), &["route::enters-itself"]);

    let mut dangling = root(Action::Static);
    dangling.program = vec![Op::Adopt(RouteId(9))];
    check(&single(vec![dangling]), &["route::unknown"]);

    let mut dead = root(Action::Static);
    dead.program = vec![Op::Close(None), Op::Stop];
    check(&single(vec![dead]), &["program::unreachable"]);
}

#[test]
fn a_rewrite_to_itself() {
    let rewrite = |flag| Op::Rewrite {
        pattern: pattern("^/app"),
        replacement: Template::literal("/app/index.php?x"),
        keep_query: true,
        flag,
    };
    let mut one = root(Action::Static);
    one.program = vec![rewrite(RewriteFlag::Last)];
    check(&single(vec![one.clone()]), &["route::rewrite-loop"]);
    one.program = vec![rewrite(RewriteFlag::Break)];
    check(&single(vec![one.clone()]), &[]);
    one.program = vec![rewrite(RewriteFlag::Last)];
    check(&single(vec![one, route("/app/", prefix("/app/"), Action::Static)]), &[]);
}

#[test]
fn variables() {
    let mut model = single(vec![root(Action::Static)]);
    model.variables = vec![variable("a"), variable("b"), variable("c"), variable("a")];
    model.routes[0].program = vec![Op::Set { variable: "a".into(), value: Template::default() }];
    model.routes[0].matching = RouteMatch::Regex(pattern("^/(?<b>.)"));
    check(&model, &["variable::defined-twice"]);
    model.variables.pop();
    let findings = check(&model, &["variable::never-assigned"]);
    assert!(findings[0].title.contains("`c`"));
}

#[test]
fn the_rate_limit_is_no_user_variable() {
    let mut model = single(vec![root(Action::Static)]);
    model.routes[0].program =
        vec![Op::Set { variable: "limit_rate".into(), value: Template::literal("10k") }];
    let plan = plan(&model);
    assert!(matches!(plan.routes[0].program.as_deref().unwrap()[0], weir_plan::Op::SetLimitRate(_)));
}

fn tls(chain: &str, key: &str) -> ListenerTls {
    let certificate = Certificate {
        chain: Pem::file(chain.into(), span(5, 9)),
        key: Pem::file(key.into(), None),
        passwords: None,
        staple: None,
    };
    ListenerTls {
        lists: Vec::new(),
        default: TlsIdentity {
            certificates: vec![certificate],
            versions: vec![weir_expr::settings::TlsVersion::V1_3],
            alpn: vec![],
            ..TlsIdentity::default()
        },
        by_name: vec![],
        strict_sni: false,
        tickets: true,
        ticket_keys: Vec::new(),
        session_cache: 0,
        session_timeout: 300,
        answer_bad_certificates: true,
    }
}

#[test]
fn certificates_of_authorities() {
    use weir_model::{AcmeCertificate, AcmeIssuer};
    let issuer = |name: &str, state: &str| AcmeIssuer {
        name: name.into(),
        origin: None,
        directory: "https://ca.example/dir".into(),
        contact: Vec::new(),
        account_key: Default::default(),
        account_key_file: None,
        challenge: weir_expr::settings::AcmeChallenge::TlsAlpn01,
        external: None,
        preferred_chain: None,
        profile: None,
        authorities: None,
        verify: true,
        state: Some(state.into()),
        accepts_terms: true,
        retry: std::time::Duration::from_secs(60),
    };
    let with = |issuers: Vec<AcmeIssuer>, names: &[&str]| {
        let mut model = single(vec![root(Action::Static)]);
        let mut tls = tls("/c", "/k");
        tls.default.certificates.clear();
        tls.default.issued = vec![AcmeCertificate {
            issuer: "le".into(),
            origin: span(5, 9),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            key: Default::default(),
        }];
        // Another listener that wants the same.
        let mut other = model.listeners[0].clone();
        other.name = "other".into();
        other.address = weir_model::Address::Tcp("127.0.0.1:9".parse().unwrap());
        (model.listeners[0].tls, other.tls) = (Some(tls.clone()), Some(tls));
        model.listeners.push(other);
        model.acme = issuers;
        model
    };
    let le = || issuer("le", "/state");
    let plan = plan(&with(vec![le()], &["B.example", "a.example", "b.example"]));
    let [wanted] = &plan.acme.certificates[..] else { panic!("{:?}", plan.acme.certificates) };
    assert_eq!(wanted.names, ["b.example", "a.example"]);
    assert_eq!(wanted.name, plan.tls[0].certificates[0].name());
    assert!(plan.tls[0].certificates[0].is_issued());

    check(&with(vec![le()], &["*.a.example"]), &["acme::bad-name"]);
    check(&with(vec![le()], &["192.0.2.1"]), &["acme::bad-name"]);
    check(&with(vec![issuer("other", "/state")], &["a.example"]), &["acme::unknown-issuer"]);
    check(&with(vec![le(), issuer("le", "/two")], &["a.example"]), &["acme::duplicate"]);
    check(&with(vec![le(), issuer("two", "/state")], &["a.example"]), &["acme::same-state"]);
    let clear = AcmeIssuer { directory: "http://ca.example/dir".into(), ..le() };
    check(&with(vec![clear], &["a.example"]), &["acme::bad-directory"]);
    let by_http = AcmeIssuer { challenge: weir_expr::settings::AcmeChallenge::Http01, ..le() };
    check(&with(vec![by_http], &["a.example"]), &["acme::nobody-answers"]);
}

const CHAIN: &str = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n";
const KEY: &str = "-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----\n";

#[test]
fn certificates() {
    let with = |tls: ListenerTls| {
        let mut model = single(vec![root(Action::Static)]);
        model.listeners[0].tls = Some(tls);
        model
    };
    let memory = Memory::default()
        .file("/c", CHAIN)
        .file("/k", KEY)
        .file("/locked", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nx\n")
        .file("/empty", "");
    let codes = |tls| codes(&run(&with(tls), &memory).1).into_iter().map(str::to_owned).collect::<Vec<_>>();
    assert!(codes(tls("/c", "/k")).is_empty());
    assert_eq!(codes(tls("/c", "/gone")), ["tls::unreadable-key"]);
    assert_eq!(codes(tls("/gone", "/k")), ["tls::unreadable-certificate"]);
    assert_eq!(codes(tls("/both", "/both")), ["tls::unreadable-certificate"], "a combined file is told once");
    assert_eq!(codes(tls("/k", "/c")), ["tls::bad-certificate", "tls::bad-key"]);
    assert_eq!(codes(tls("/empty", "/locked")), ["tls::bad-certificate", "tls::bad-key"]);

    // What an object holds is read from no file, and findings name its field.
    let held = |chain: &str, key: &str| {
        let mut tls = tls("/c", "/k");
        tls.default.certificates = vec![Certificate {
            chain: Pem::field("Secret shop/tls", "data[tls.crt]", chain.as_bytes().into()),
            key: Pem::field("Secret shop/tls", "data[tls.key]", key.as_bytes().into()),
            passwords: None,
            staple: None,
        }];
        with(tls)
    };
    let (plan, findings) = run(&held(CHAIN, KEY), &memory);
    assert!(findings.is_empty(), "{findings:?}");
    let certificate = &plan.unwrap().tls[0].certificates[0];
    assert_eq!(certificate.chain.bytes[..], *CHAIN.as_bytes());
    assert_eq!(certificate.name(), "Secret shop/tls, data[tls.crt]");
    let model = held(CHAIN, CHAIN);
    assert!(!format!("{model:?}").contains("MA=="), "what is held is not printed");
    let (_, findings) = run(&model, &memory);
    let place = findings[0].object.as_ref().unwrap();
    assert_eq!(
        (findings[0].code, &*place.object, &*place.field),
        ("tls::bad-key", "Secret shop/tls", "data[tls.key]")
    );
    assert_eq!(findings[0].primary, None);

    let mut asks = tls("/c", "/k");
    asks.default.verify = weir_expr::settings::ClientVerify::Required;
    assert_eq!(codes(asks), ["tls::no-client-ca"]);
    let mut bare = tls("/c", "/k");
    bare.default.certificates.clear();
    assert_eq!(codes(bare), ["tls::no-certificate"]);

    let (plan, _) = run(&with(tls("/c", "/k")), &memory);
    let plan = plan.unwrap();
    assert_eq!(plan.tls[0].alpn, ["http/1.1"]);
    assert_eq!(plan.tls[0].certificates[0].key.reveal(), KEY.as_bytes());
    assert!(!format!("{plan:?}").contains("SECRET"));
    assert!(!crate::explain_plan(&plan).contains("SECRET"));

    let tolerant = Options { tolerate_unreadable_files: true };
    let (plan, findings) = lower(&with(tls("/c", "/gone")), &memory, &tolerant);
    assert_eq!(findings[0].severity, Severity::Warning);
    assert!(plan.is_some());
}

#[test]
fn secrets_are_not_printed() {
    let page = StatsPage {
        uri: "/".into(),
        hide_version: true,
        realm: "r".into(),
        users: vec![("joe".into(), "SECRET".into())],
        refresh: None,
        show_legends: false,
        description: None,
        node: None,
        scope: vec![],
        admin: None,
        origin: None,
    };
    let mut guarded =
        route("/x", prefix("/x"), proxy("app", &[("Authorization", Template::literal("SECRET"))]));
    guarded.access = Arc::new(Access {
        rules: vec![],
        basic: Some(BasicAuth {
            realm: Template::literal("r"),
            users: Users::List(vec![("joe".into(), Password::Plain("SECRET".into()))]),
            origin: None,
        }),
        ask: None,
        token: None,
        require: Vec::new(),
        any: false,
        delay: std::time::Duration::ZERO,
    });
    let mut model = single(vec![root(Action::Stats(Arc::new(page))), guarded]);
    model.pools.push(pool("app", &["127.0.0.1:1"]));
    model.routes[0].program = vec![Op::When {
        condition: Condition::Not(Box::new(Condition::Any(vec![Condition::Always(false)]))),
        then: vec![Op::Stop],
        otherwise: vec![],
    }];
    let plan = plan(&model);
    for printed in [crate::explain(&model), crate::explain_plan(&plan), format!("{plan:?}")] {
        assert!(!printed.contains("SECRET"), "{printed}");
        assert!(printed.contains("joe") && !printed.contains("cannot be printed"), "{printed}");
    }
}

#[test]
fn odd_settings() {
    let mut model = single(vec![root(proxy("app", &[]))]);
    model.pools.push(pool("app", &["127.0.0.1:1"]));
    let client = weir_expr::settings::ClientSettings {
        header_timeout: std::time::Duration::ZERO,
        max_headers: 100,
        ..Default::default()
    };
    let client = Arc::new(client);
    model.routes[0].client = client.clone();
    model.sites[0].client = client;
    model.limit_req_zones.push(LimitReqZone {
        name: "z".into(),
        key: Template::default(),
        size: 10,
        rate_milli: 0,
    });
    model.process.open_files = Some(10);
    model.process.connections_per_worker = Some(100);
    let mut expected =
        vec!["process::too-few-files", "zone::small", "zone::no-rate", "time::zero", "size::conflict"];
    // The group is shared by site and route in memory, yet looked at in two passes.
    expected.extend(["time::zero", "size::conflict"]);
    check(&model, &expected);
}
