//! Fleets whose members are slow, hang, reset, flap or are far away, and Weir's own words about them. No peer has these words.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use weir_testkit::{Client, Gate, Io, Origin, Proxy, Request, Running, both_drivers};

fn proxy(io: Io, upstream: &str, words: &str) -> Running {
    Proxy::nginx(&file(upstream, words)).io(io).start()
}

fn file(upstream: &str, words: &str) -> String {
    format!(
        "worker_processes 1; error_log stderr info; events {{}} http {{ access_log off; upstream u {{ zone u 64k; {upstream} }} \
         server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://u; {words} }} \
         location = /metrics {{ weir_metrics; }} }} }}"
    )
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(20), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The value of a pool's or endpoint's metric.
fn metric(proxy: &Running, name: &str) -> u64 {
    let text = Client::connect(proxy).get("/metrics").expect_status(200).text();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
    line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap() as u64
}

fn servers(all: &[&Origin]) -> String {
    all.iter().map(|origin| format!("server {origin} max_fails=0; ")).collect()
}

/// Who answers for each of these targets.
fn who(proxy: &Running, targets: impl Iterator<Item = String>) -> HashMap<String, String> {
    let mut client = Client::connect(proxy);
    targets.map(|target| (target.clone(), client.get(&target).expect_status(200).text())).collect()
}

fn keys() -> impl Iterator<Item = String> {
    (0..60).map(|n| format!("/item/{n}"))
}

both_drivers! {
    fn maglev_keeps_keys_and_moves_only_those_of_who_is_gone(io: Io) {
        let all = ["a", "b", "c"].map(|name| Origin::named(name, name));
        let [a, b, c] = &all;
        let mut proxy = proxy(io, &format!("{} weir_maglev $uri;", servers(&[a, b, c])), "");
        let before = who(&proxy, keys());
        assert_eq!(before, who(&proxy, keys().map(|key| format!("{key}?x=1"))).into_iter()
            .map(|(key, who)| (key.trim_end_matches("?x=1").to_owned(), who)).collect());
        for name in ["a", "b", "c"] {
            let count = before.values().filter(|who| *who == name).count();
            assert!((8..=34).contains(&count), "{name} has {count} of 60");
        }
        let less = format!("server {a}; server {b} down; server {c}; weir_maglev $uri;");
        proxy.reload(&file(&less, ""));
        let after = who(&proxy, keys());
        for (key, now) in &after {
            assert!(now != "b" && (before[key] == "b" || before[key] == *now), "{key}");
        }
    }

    fn a_peak_of_time_keeps_work_away(io: Io) {
        let slow = Origin::script(|mut c| {
            for _ in 0..40 {
                c = c.expect("GET /").pause(Duration::from_millis(150)).send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow");
            }
            c.until_closed()
        });
        let (a, b) = (Origin::named("a", "a"), Origin::named("b", "b"));
        let proxy = proxy(io, &format!("{} weir_peak_ewma decay=1h;", servers(&[&slow, &a, &b])), "");
        let mut client = Client::connect(&proxy);
        let names: Vec<String> = (0..40).map(|_| client.get("/").expect_status(200).text()).collect();
        let slow = names.iter().filter(|name| *name == "slow").count();
        assert!(slow <= 3, "it is asked once to know it: {names:?}");
        assert!(["a", "b"].iter().all(|name| names.iter().filter(|one| one == name).count() > 5), "{names:?}");
    }

    fn near_endpoints_serve_until_they_fail(io: Io) {
        let (near, far) = (Origin::named("near", "near"), Origin::named("far", "far"));
        let gone = weir_testkit::Port::lease();
        for (first, wanted) in [(near.to_string(), "near"), (format!("127.0.0.1:{}", gone.number()), "far")] {
            let upstream = format!("weir_locality here; server {first} weir_zone=here; server {far} weir_zone=there;");
            let proxy = proxy(io, &upstream, "");
            let mut client = Client::connect(&proxy);
            for _ in 0..6 {
                client.get("/").expect_status(200).expect_body(wanted);
            }
        }
    }

    fn who_would_wait_too_is_refused_at_once(io: Io) {
        let gate = Gate::new();
        let held = Origin::script(|c| c.expect("GET /").wait_for(&gate).respond(200, "held"));
        let proxy = proxy(io, &format!("{} weir_max_pending 2;", servers(&[&held])), "");
        let mut waiting = [Client::connect(&proxy), Client::connect(&proxy)];
        for client in &mut waiting {
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        held.wait_for_connections(2);
        Client::connect(&proxy).get("/").expect_status(503);
        assert_eq!(held.connections(), 2, "nobody was asked for the third");
        proxy.wait_for_log("too many requests wait for an answer of this upstream");
        assert_eq!(metric(&proxy, "weir_pool_pending_refused_total"), 1);
        gate.open();
        for client in &mut waiting {
            client.read().expect_status(200).expect_body("held");
        }
        until("their places are free", || {
            Client::connect(&proxy).get("/").status == 200
        });
    }

    fn an_answer_that_began_waits_no_more(io: Io) {
        let gate = Gate::new();
        let held = Origin::script(|c| {
            c.expect("GET /").send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhe").wait_for(&gate).send("ld").until_closed()
        });
        let proxy = proxy(io, &format!("{} weir_max_pending 1;", servers(&[&held])), "proxy_buffering off;");
        let mut clients: Vec<Client> = (0..3)
            .map(|_| {
                let mut client = Client::connect(&proxy);
                client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                assert_eq!(client.read_head().status, 200);
                client
            })
            .collect();
        gate.open();
        for client in &mut clients {
            assert_eq!(client.read_exactly(4), b"held");
        }
    }

    fn retries_keep_within_their_budget(io: Io) {
        let all = [(); 3].map(|()| Origin::script(|c| c.expect("GET /").reset()));
        let [a, b, c] = &all;
        let connections = |all: &[Origin; 3]| all.iter().map(Origin::connections).sum::<usize>();
        {
            let proxy = proxy(io, &servers(&[a, b, c]), "");
            (0..20).for_each(|_| drop(Client::connect(&proxy).get("/").expect_status(502)));
            assert_eq!(connections(&all), 60, "each is asked by each request");
        }
        let proxy = proxy(io, &format!("{} weir_retry_budget 20% least=0;", servers(&[a, b, c])), "");
        (0..20).for_each(|_| drop(Client::connect(&proxy).get("/").expect_status(502)));
        let asked = connections(&all) - 60;
        // A window may end between: what it knew of requests is forgotten with it.
        assert!((21..=24).contains(&asked), "{asked} attempts of 20 requests");
        assert!(metric(&proxy, "weir_pool_retries_withheld_total") >= 16);
    }

    fn an_answer_that_the_budget_does_not_let_be_retried_is_forwarded(io: Io) {
        let bad = Origin::script(|c| c.keep_answering(503, &[], "busy"));
        let other = Origin::script(|c| c.keep_answering(503, &[], "busy"));
        let words = "proxy_next_upstream http_503;";
        let proxy = proxy(io, &format!("{} weir_retry_budget 0% least=0;", servers(&[&bad, &other])), words);
        Client::connect(&proxy).get("/").expect_status(503).expect_body("busy");
        assert_eq!(bad.requests().len() + other.requests().len(), 1);
    }

    fn a_keyed_cookie_tells_nothing_and_stays(io: Io) {
        let (a, b) = (Origin::named("a", "a"), Origin::named("b", "b"));
        let upstream = |key: &str| format!("{} sticky cookie at; {key}", servers(&[&a, &b]));
        let values = |proxy: &Running| -> HashMap<String, String> {
            (0..6)
                .map(|_| {
                    let got = Client::connect(proxy).get("/").expect_status(200);
                    let line = got.header("Set-Cookie").unwrap().to_owned();
                    let value = line.split(';').next().unwrap().trim_start_matches("at=").to_owned();
                    (got.text(), value)
                })
                .collect()
        };
        let plain = values(&proxy(io, &upstream(""), ""));
        let mut keyed = proxy(io, &upstream("weir_sticky_key one;"), "");
        let first = values(&keyed);
        assert!(first.values().all(|value| value.len() == 24 && value.bytes().all(|b| b.is_ascii_hexdigit())));
        assert!(plain["a"] != first["a"] && first["a"] != first["b"]);
        keyed.reload_same();
        assert_eq!(values(&keyed), first);
        let cookie = format!("at={}", first["a"]);
        for _ in 0..4 {
            Client::connect(&keyed).request(&Request::get("/").header("Cookie", &cookie)).expect_body("a");
        }
        keyed.reload(&file(&upstream("weir_sticky_key two;"), ""));
        let other = values(&keyed);
        assert!(other["a"] != first["a"] && other["b"] != first["b"]);
    }

    fn the_examples_run(io: Io) {
        let all = ["a", "b", "far"].map(|name| Origin::named(name, name));
        let fit = |text: &str| {
            let places = ["10.0.1.1:8080", "10.0.1.2:8080", "10.0.2.1:8080"];
            places.iter().zip(&all).fold(text.to_owned(), |text, (place, origin)| text.replace(place, &origin.to_string()))
                .replace("127.0.0.1:8080", "127.0.0.1:{port}")
        };
        let nginx = Proxy::nginx(&fit(include_str!("../../../examples/fleet/nginx.conf"))).io(io);
        let native = Proxy::native(&fit(include_str!("../../../examples/fleet/weir.yaml"))).io(io);
        for proxy in [nginx.start(), native.start()] {
            for _ in 0..6 {
                let got = Client::connect(&proxy).get("/").expect_status(200);
                assert!(got.text() == "a" || got.text() == "b");
                let cookie = got.header("Set-Cookie").unwrap();
                assert!(cookie.starts_with("app_at=") && cookie.contains("HttpOnly"), "{cookie}");
            }
            let names = who(&proxy, (0..30).map(|n| format!("/shards/{n}")));
            assert!(names.values().any(|name| name == "far"));
        }
    }
}

#[test]
fn mistakes_are_named() {
    for (upstream, wanted) in [
        ("weir_peak_ewma decay=0;", "`decay=` with a time"),
        ("weir_peak_ewma soon;", "`decay=` with a time"),
        ("weir_locality a least=101%;", "`least=` with a percentage"),
        ("weir_max_pending 0;", "at least 1"),
        ("weir_retry_budget 20;", "a percentage such as `20%`"),
        ("weir_retry_budget 20% least=-1;", "`least=` with retries a second"),
        ("weir_sticky_key s;", "nobody sets one here"),
        ("sticky route $arg_r; weir_sticky_key s;", "nobody sets one here"),
        ("weir_maglev $uri; least_conn;", "chosen twice"),
    ] {
        let (_, told) = Proxy::nginx(&file(&format!("server 127.0.0.1:1; {upstream}"), "")).check();
        assert!(told.contains(wanted), "{upstream}: {told}");
    }
}
