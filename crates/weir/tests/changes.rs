//! What is changed while running: endpoints, weights, drains and certificates, over reloads and restarts.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod in_process;

use std::path::Path;

use in_process::Running;
use serde_json::json;
use weir_control::changes::{KeyPair, NewEndpoint};
use weir_control::{AdminState, Change};
use weir_testkit::dns::{NameAnswer, NameServer};
use weir_testkit::{
    Address, Authority, Certificate, Client, Io, Load, Origin, Proxy, Request, TlsOptions, both_drivers,
    eventually,
};

/// A listener with TLS, and a pool of two origins behind `/POOL` for each of these pools.
fn conf(folder: &Path, pools: &[&str], servers: &str) -> String {
    let upstreams: String = pools.iter().map(|pool| format!("upstream {pool} {{ {servers} }} ")).collect();
    let locations: String =
        pools.iter().map(|pool| format!("location /{pool} {{ proxy_pass http://{pool}; }} ")).collect();
    let folder = folder.display();
    format!(
        "worker_processes 1; error_log {folder}/error.log; events {{}} http {{ access_log off; {upstreams} \
         server {{ listen 127.0.0.1:{{port}} ssl; ssl_certificate {folder}/own.crt; ssl_certificate_key {folder}/own.key; {locations} }} }}"
    )
}

fn two_origins() -> (Origin, Origin, String) {
    let (a, b) = (Origin::named("a", "a"), Origin::named("b", "b"));
    let servers = format!("server {a}; server {b};");
    (a, b, servers)
}

/// Who answered, of so many requests.
fn answers(to: &impl Address, trusted: &Certificate, pool: &str, count: usize) -> String {
    let mut client = Client::tls_trusting(to.address(), trusted);
    let mut seen: Vec<String> =
        (0..count).map(|_| client.get(&format!("/{pool}")).expect_status(200).text()).collect();
    seen.sort();
    seen.concat()
}

fn shown(to: &impl Address, certificate: &Certificate) -> bool {
    Client::try_tls(to.address(), &TlsOptions::trusting(certificate)).is_ok()
}

fn pair(certificate: &Certificate) -> KeyPair {
    KeyPair { chain: certificate.chain_pem().to_owned(), key: certificate.key_pem().to_owned() }
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("error.log")).unwrap()
}

both_drivers! {
    fn what_a_state_file_says_holds_over_reloads_and_restarts(io: Io) {
        let folder = tempfile::tempdir().unwrap();
        let (own, given) = (Certificate::p256(&["localhost"]), Certificate::rsa2048(&["localhost"]));
        let name = own.write(folder.path(), "own").chain;
        let (a, b, servers) = two_origins();
        let state = folder.path().join("state");
        let record = json!({
            "format": 1,
            "pools": {
                "heavy": { "weights": { b.to_string(): 3 } },
                "drained": { "states": { a.to_string(): "drain" } },
                "moved": { "endpoints": [{ "name": "new", "address": b.to_string() }], "weights": { "new": 2, "old": 9 } },
                "gone": { "states": { "x": "maintenance" } },
            },
            "certificates": { name.to_str().unwrap(): { "chain": given.chain_pem(), "key": given.key_pem() } },
        });
        std::fs::write(&state, record.to_string()).unwrap();
        let text = conf(folder.path(), &["heavy", "drained", "moved"], &servers);
        let file = Proxy::nginx(&text).io(io).argument("--state").argument(state.to_str().unwrap());
        let mut proxy = file.start();
        let in_force = |proxy: &weir_testkit::Running| {
            assert!(shown(proxy, &given) && !shown(proxy, &own));
            assert_eq!(answers(proxy, &given, "heavy", 8), "aabbbbbb");
            assert_eq!(answers(proxy, &given, "moved", 4), "bbbb");
        };
        in_force(&proxy);
        assert_eq!(answers(&proxy, &given, "drained", 4), "bbbb");
        let expect = |lines: &[String]| lines.iter().for_each(|line| {
            let log = log(folder.path());
            assert_eq!(log.matches(line).count(), 1, "{line}\n{log}");
        });
        let lasting = [
            format!("{b} of the pool heavy has the weight 3, given while running, not 1"),
            "the pool moved has the 1 endpoints given while running, not the 2 of the configuration".into(),
            format!("the certificate {} is the one given while running, not the configuration's", name.display()),
        ];
        expect(&lasting);
        expect(&[
            format!("{a} of the pool drained is draining, as was asked for while running"),
            "there is no pool gone any more: what was changed of it while running is forgotten".into(),
            "the pool moved has no endpoint old any more: its weight, given while running, is forgotten".into(),
        ]);
        // What the new configuration does not have is dropped, for good.
        std::fs::write(folder.path().join("error.log"), "").unwrap();
        proxy.reload(&conf(folder.path(), &["heavy", "moved"], &servers));
        in_force(&proxy);
        expect(&lasting);
        expect(&["there is no pool drained any more: what was changed of it while running is forgotten".into()]);
        assert!(!log(folder.path()).contains("pool gone"));
        eventually("the file to be written", || {
            let text = std::fs::read_to_string(&state).unwrap();
            (!text.contains("\"drained\"") && !text.contains("\"old\"")).then_some(())
        });
        proxy.reload(&text);
        assert_eq!(answers(&proxy, &given, "drained", 4), "aabb", "it was forgotten");
        proxy.stop();
        in_force(&file.start());
    }

    fn counters_survive_restarts_and_all_but_the_last_seconds_of_a_kill(io: Io) {
        let folder = tempfile::tempdir().unwrap();
        let origin = Origin::named("a", "a");
        let state = folder.path().join("state");
        let text = format!(
            "worker_processes 2; error_log {}/error.log; events {{}} http {{ access_log off; upstream app {{ server {origin}; }} \
             server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://app; }} \
             location = /status {{ stub_status; }} location = /metrics {{ weir_metrics; }} }} }}",
            folder.path().display()
        );
        let file = Proxy::nginx(&text).io(io).argument("--state").argument(state.to_str().unwrap());
        let requests = |proxy: &weir_testkit::Running| {
            let page = Client::connect(proxy).get("/status").expect_status(200).text();
            let line = page.lines().nth(2).unwrap().to_owned();
            line.split_whitespace().last().unwrap().parse::<u64>().unwrap()
        };
        let ask = |proxy: &weir_testkit::Running, times| {
            let mut client = Client::connect(proxy);
            (0..times).for_each(|_| drop(client.get("/").expect_status(200)));
        };
        let proxy = file.start();
        ask(&proxy, 20);
        assert_eq!(requests(&proxy), 21);
        proxy.stop();
        // What was open or busy then is not; what was counted is.
        let mut proxy = file.start();
        assert_eq!(requests(&proxy), 22);
        let metrics = Client::connect(&proxy).get("/metrics").expect_status(200).text();
        let of_app = metrics.lines().find(|line| line.starts_with("weir_endpoint_attempts_total{") && line.contains("\"app\""));
        let of_app = of_app.unwrap_or_else(|| panic!("{metrics}"));
        assert!(of_app.ends_with(" 20"), "{of_app}");
        ask(&proxy, 10);
        let counted = requests(&proxy);
        assert_eq!(counted, 34);
        let counters = folder.path().join("state.counters");
        let began = std::time::Instant::now();
        eventually("what was counted is in the file", || {
            let kept: serde_json::Value = serde_json::from_slice(&std::fs::read(&counters).ok()?).ok()?;
            (kept["process"]["requests"].as_u64()? >= counted).then_some(())
        });
        let took = began.elapsed();
        assert!(took < std::time::Duration::from_secs(8), "{took:?}: five seconds, and three for a busy machine");
        proxy.process().signal(weir_testkit::process::UnixSignal::KILL);
        let deadline = weir_testkit::Deadline::standard();
        proxy.process().wait(deadline).unwrap();
        drop(proxy);
        assert_eq!(requests(&file.start()), counted + 1);
    }

    fn a_broken_state_file_is_said_and_keeps_nothing_from_running(io: Io) {
        let folder = tempfile::tempdir().unwrap();
        let own = Certificate::p256(&["localhost"]);
        let name = own.write(folder.path(), "own").chain;
        let (a, b, servers) = two_origins();
        let state = folder.path().join("state");
        let text = conf(folder.path(), &["p"], &servers);
        let file = Proxy::nginx(&text).io(io).argument("--state").argument(state.to_str().unwrap());
        for broken in ["{\"pools\": [", "{\"format\": 99}"] {
            std::fs::write(&state, broken).unwrap();
            let proxy = file.start();
            assert_eq!(answers(&proxy, &own, "p", 4), "aabb");
            proxy.wait_for_log("what was changed before the start is not known, and the configuration decides");
            assert_eq!(std::fs::read_to_string(folder.path().join("state.broken")).unwrap(), broken);
            proxy.stop();
        }
        // One that is whole, and asks for what cannot be: the rest of it holds.
        let record = json!({
            "pools": { "p": { "endpoints": [{ "name": "x", "address": "nowhere" }], "weights": { b.to_string(): 3, "x": 5 } } },
            "certificates": { name.to_str().unwrap(): { "chain": own.chain_pem(), "key": "none" } },
        });
        std::fs::write(&state, record.to_string()).unwrap();
        let proxy = file.start();
        assert_eq!(answers(&proxy, &own, "p", 8), "aabbbbbb");
        let log = log(folder.path());
        for line in ["the endpoints given to the pool p while running cannot be used and are forgotten: x: `nowhere` is neither an address",
            "own.crt: ", ": the one given while running is forgotten"] {
            assert!(log.contains(line), "{line}\n{log}");
        }
        drop(a);
    }

    fn changes_are_made_under_traffic_and_taken_back(io: Io) {
        let folder = tempfile::tempdir().unwrap();
        let (own, given) = (Certificate::p256(&["localhost"]), Certificate::p256(&["localhost"]));
        let name = own.write(folder.path(), "own").chain.to_str().unwrap().to_owned();
        let (a, b, servers) = two_origins();
        let c = Origin::named("c", "c");
        let text = conf(folder.path(), &["p"], &servers);
        let (mut running, port) = Running::start(io, &text);
        let change = |running: &Running, change: Change| running.engine.change(change);
        let (pool, first) = (|| "p".to_owned(), || a.to_string());
        // Old connections go on over all of it.
        let mut old = Client::tls_trusting(&port, &own);
        let mut go_on = |running: &Running, made: Change| {
            old.get("/p").expect_status(200);
            change(running, made).unwrap();
            old.get("/p").expect_status(200);
        };
        go_on(&running, Change::Weight { pool: pool(), endpoint: first(), weight: Some(3) });
        assert_eq!(answers(&port, &own, "p", 8), "aaaaaabb");
        go_on(&running, Change::State { pool: pool(), endpoint: first(), state: AdminState::Maintenance });
        assert_eq!(answers(&port, &own, "p", 4), "bbbb");
        go_on(&running, Change::State { pool: pool(), endpoint: first(), state: AdminState::AsConfigured });
        go_on(&running, Change::Weight { pool: pool(), endpoint: first(), weight: None });
        assert_eq!(answers(&port, &own, "p", 8), "aaaabbbb");
        let endpoints = [("c", &c), ("b", &b)].map(|(name, origin)| NewEndpoint {
            name: name.into(),
            address: origin.to_string(),
            ..NewEndpoint::default()
        });
        go_on(&running, Change::Endpoints { pool: pool(), endpoints: Some(endpoints.into()) });
        assert_eq!(answers(&port, &own, "p", 4), "bbcc");
        go_on(&running, Change::Weight { pool: pool(), endpoint: "c".into(), weight: Some(0) });
        assert_eq!(answers(&port, &own, "p", 4), "bbbb");
        go_on(&running, Change::Certificate { name: name.clone(), certificate: Some(pair(&given)) });
        assert!(shown(&port, &given) && !shown(&port, &own));
        // All of it is there after a reload.
        running.swap(&text, &port);
        assert!(shown(&port, &given) && !shown(&port, &own));
        assert_eq!(answers(&port, &given, "p", 4), "bbbb");
        // What cannot be is refused, and changes nothing.
        let nobody = |name: &str| Change::Weight { pool: pool(), endpoint: name.into(), weight: Some(1) };
        let wrong_key = KeyPair { chain: own.chain_pem().into(), key: given.key_pem().into() };
        for (wrong, why) in [
            (nobody("a"), "the pool p has no endpoint a"),
            (Change::Weight { pool: "q".into(), endpoint: "c".into(), weight: Some(1) }, "there is no pool q"),
            (Change::Weight { pool: pool(), endpoint: "c".into(), weight: Some(70_000) }, "a weight is at most"),
            (Change::Certificate { name: name.clone(), certificate: Some(wrong_key) }, "cannot use the certificate"),
            (Change::Certificate { name: "other".into(), certificate: Some(pair(&given)) }, "nothing uses a certificate other"),
        ] {
            let said = change(&running, wrong).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
        assert_eq!(answers(&port, &given, "p", 4), "bbbb");
        go_on(&running, Change::Endpoints { pool: pool(), endpoints: None });
        go_on(&running, Change::Certificate { name, certificate: None });
        assert!(shown(&port, &own) && !shown(&port, &given));
        assert_eq!(answers(&port, &own, "p", 4), "aabb");
    }

    fn a_certificate_that_is_shown_to_endpoints_is_replaced_too(io: Io) {
        let folder = tempfile::tempdir().unwrap();
        let site = Certificate::p256(&["localhost"]);
        let authority = Authority::root("authority");
        let [own, given] = ["own", "given"].map(|name| authority.certificate(&[name]));
        let name = own.write(folder.path(), "own").chain.to_str().unwrap().to_owned();
        let origin = Proxy::nginx(
            "events {} http { access_log off; server { listen 127.0.0.1:{port} ssl; ssl_certificate {dir}/site.crt;
             ssl_certificate_key {dir}/site.key; ssl_verify_client on; ssl_client_certificate {dir}/ca;
             return 200 \"$ssl_client_fingerprint $connection\"; } }",
        )
        .by_rival()
        .certificate("site", &site)
        .file("ca", authority.root_pem())
        .start();
        let folder = folder.path().display();
        let text = format!(
            "worker_processes 1; error_log /dev/null; events {{}} http {{ access_log off; upstream u {{ server {}; keepalive 4; }} \
             server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass https://u; proxy_http_version 1.1; proxy_set_header Connection ''; \
             proxy_ssl_certificate {folder}/own.crt; proxy_ssl_certificate_key {folder}/own.key; }} }} }}",
            origin.address()
        );
        let (running, port) = Running::start(io, &text);
        let mut client = Client::connect(&port);
        let mut shown = || client.get("/").expect_status(200).text();
        let first = shown();
        assert_eq!(shown(), first, "the connection is kept");
        running.engine.change(Change::Certificate { name: name.clone(), certificate: Some(pair(&given)) }).unwrap();
        let second = shown();
        assert_ne!(first.split(' ').next(), second.split(' ').next(), "one that knows the old certificate is not used");
        assert_eq!(shown(), second);
        running.engine.change(Change::Certificate { name, certificate: None }).unwrap();
        assert_eq!(shown().split(' ').next(), first.split(' ').next());
    }

    fn servers_of_a_haproxy_cfg_are_drained_and_taken_into_service_by_name(io: Io) {
        let folder = tempfile::tempdir().unwrap();
        let (a, b, _) = two_origins();
        let state = folder.path().join("state");
        let record = json!({ "pools": { "b": { "states": { "s1": "drain", "s2": "ready" }, "weights": { "s2": 7 } } } });
        std::fs::write(&state, record.to_string()).unwrap();
        let proxy = Proxy::haproxy(&format!(
            "global\n nbthread 1\ndefaults\n mode http\n timeout connect 2s\n timeout client 5s\n timeout server 5s\n\
             frontend f\n bind 127.0.0.1:{{port}}\n stats enable\n stats uri /stats\n default_backend b\n\
             backend b\n cookie C insert\n server s1 {a} cookie one\n server s2 {b} cookie two disabled\n"
        ))
        .io(io)
        .argument("--state")
        .argument(state.to_str().unwrap())
        .start();
        let mut client = Client::connect(&proxy);
        for _ in 0..4 {
            client.get("/").expect_body("b");
        }
        // Who is bound to a server that drains stays there.
        client.request(&Request::get("/").header("Cookie", "C=one")).expect_body("a");
        let table = client.get("/stats;csv").expect_status(200).text();
        let cell = |server: &str, column: &str| {
            let at = table.lines().next().unwrap().split(',').position(|name| name == column).unwrap();
            let row = table.lines().find(|line| line.starts_with(&format!("b,{server},"))).unwrap();
            row.split(',').nth(at).unwrap().to_owned()
        };
        assert_eq!((&*cell("s1", "status"), &*cell("s2", "weight")), ("DRAIN", "7"), "{table}");
        proxy.wait_for_log("s1 of the pool b is draining, as was asked for while running");
    }

    fn names_that_are_looked_up_leave_given_endpoints_alone_and_have_the_weight_of_their_line(io: Io) {
        let folder = tempfile::tempdir().unwrap();
        let (a, b, _) = two_origins();
        let names = NameServer::start();
        let (one, nowhere) = ([127, 0, 0, 1].into(), [127, 0, 0, 9].into());
        names.tell("app.test", NameAnswer::Addresses(vec![one], 1));
        let state = folder.path().join("state");
        let line = format!("app.test:{}", a.port());
        let record = json!({ "pools": {
            "given": { "endpoints": [{ "name": "b", "address": b.to_string() }] },
            "named": { "weights": { &*line: 3 } },
        } });
        std::fs::write(&state, record.to_string()).unwrap();
        let proxy = Proxy::nginx(&format!(
            "worker_processes 1; error_log {{dir}}/error.log notice; events {{}} http {{ access_log off; resolver {} ipv6=off; \
             upstream given {{ zone g 64k; server {line} resolve; }} upstream named {{ zone n 64k; server {line} resolve; server {b}; }} \
             server {{ listen 127.0.0.1:{{port}}; location /given {{ proxy_pass http://given; }} location /named {{ proxy_pass http://named; }} }} }}",
            names.address()
        ))
        .io(io)
        .argument("--state")
        .argument(state.to_str().unwrap())
        .start();
        let mut client = Client::connect(&proxy);
        let mut seen = |path: &str, count: usize| {
            let mut seen: Vec<String> = (0..count).map(|_| client.get(path).expect_status(200).text()).collect();
            seen.sort();
            seen.concat()
        };
        assert_eq!(seen("/named", 8), "aaaaaabb");
        assert_eq!(seen("/given", 2), "bb");
        names.tell("app.test", NameAnswer::Addresses(vec![nowhere], 1));
        proxy.wait_for_file("error.log", &format!("the endpoints of named are now 127.0.0.9:{}", a.port()));
        names.tell("app.test", NameAnswer::Addresses(vec![one], 1));
        eventually("the name to be back", || {
            let log = std::fs::read_to_string(proxy.dir().join("error.log")).unwrap();
            log.lines().last()?.contains(&format!("the endpoints of named are now 127.0.0.1:{}", a.port())).then_some(())
        });
        assert_eq!(seen("/given", 2), "bb");
        assert_eq!(seen("/named", 8), "aaaaaabb", "an endpoint that comes back has it, too");
        assert!(!std::fs::read_to_string(proxy.dir().join("error.log")).unwrap().contains("the endpoints of given are now"));
    }

    fn no_request_fails_while_endpoints_and_weights_change(io: Io) {
        let folder = tempfile::tempdir().unwrap();
        Certificate::p256(&["localhost"]).write(folder.path(), "own");
        let (a, b, servers) = two_origins();
        let text = conf(folder.path(), &["p"], &servers).replace(" ssl;", ";").replace("/p {", "/ {");
        let (running, port) = Running::start(io, &text);
        let load = Load::to(&port).connections(4).start();
        for round in 0..8_u32 {
            let only = |origin: &Origin| NewEndpoint { name: origin.to_string(), address: origin.to_string(), ..NewEndpoint::default() };
            let endpoints = [None, Some(vec![only(&a)]), Some(vec![only(&b)])][round as usize % 3].clone();
            running.engine.change(Change::Endpoints { pool: "p".into(), endpoints }).unwrap();
            let one = if round % 3 == 2 { &b } else { &a };
            running.engine.change(Change::Weight { pool: "p".into(), endpoint: one.to_string(), weight: Some(round + 1) }).unwrap();
            load.wait_for_more(20);
        }
        load.finish().expect_no_failure();
    }
}
