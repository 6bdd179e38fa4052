//! Clients that keep their endpoint, and requests that wait for one, from an nginx.conf. Debian's nginx knows neither.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use weir_testkit::{Client, Gate, Io, Origin, Proxy, Request, Running, both_drivers};

fn proxy(io: Io, upstream: &str, words: &str) -> Running {
    let text = format!(
        "worker_processes 2; events {{}} http {{ access_log off; upstream u {{ {upstream} }} \
         server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://u; {words} }} }} }}"
    );
    Proxy::nginx(&text).io(io).start()
}

fn ask(proxy: &Running, target: &str, cookie: &str) -> weir_testkit::Response {
    Client::connect(proxy).request(&Request::get(target).header("Cookie", cookie)).expect_status(200)
}

both_drivers! {
    fn a_cookie_names_the_endpoint(io: Io) {
        let (a, b) = (Origin::named("a", "a"), Origin::named("b", "b"));
        let upstream = format!(
            "server {a}; server {b} route=second; sticky cookie at expires=1h domain=a.test path=/x httponly secure samesite=lax;"
        );
        let proxy = proxy(io, &upstream, "");
        let mut seen = Vec::new();
        for _ in 0..4 {
            let got = ask(&proxy, "/", "other=1");
            let line = got.header("Set-Cookie").unwrap().to_owned();
            let (pair, attributes) = line.split_once("; ").unwrap();
            for attribute in ["Max-Age=3600", "domain=a.test", "HttpOnly", "Secure", "SameSite=Lax"] {
                assert!(attributes.contains(attribute), "{line}");
            }
            assert_eq!(pair == "at=second", got.text() == "b", "{line}");
            for _ in 0..4 {
                let again = ask(&proxy, "/", pair);
                assert_eq!(again.text(), got.text());
                assert_eq!(again.header("Set-Cookie"), None, "it has it already");
            }
            seen.push(got.text());
        }
        assert!(["a", "b"].iter().all(|name| seen.iter().any(|one| one == name)), "others take turns: {seen:?}");
    }

    fn a_route_names_the_endpoint(io: Io) {
        let (a, b) = (Origin::named("a", "a"), Origin::named("b", "b"));
        let upstream = format!("zone u 64k; server {a} route=r.a; server {b} route=r.b; sticky route $cookie_route $arg_route;");
        let proxy = proxy(io, &upstream, "");
        for _ in 0..3 {
            for (target, cookie, expected) in
                [("/", "route=r.a", "a"), ("/?route=r.b", "x=y", "b"), ("/?route=r.b", "route=r.a", "a"), ("/?route=r.a", "route=", "a")]
            {
                let got = ask(&proxy, target, cookie);
                assert_eq!(got.text(), expected, "{target} {cookie}");
                assert_eq!(got.header("Set-Cookie"), None);
            }
        }
        let mut seen: Vec<String> = (0..4).map(|_| ask(&proxy, "/?route=nobody", "x=y").text()).collect();
        seen.sort();
        assert_eq!(seen, ["a", "a", "b", "b"], "who names nobody is balanced");
    }

    fn what_is_drained_serves_those_that_are_bound_to_it(io: Io) {
        let (a, b) = (Origin::named("a", "a"), Origin::named("b", "b"));
        let upstream = format!("server {a} route=a drain; server {b} route=b; sticky route $arg_route;");
        let proxy = proxy(io, &upstream, "");
        for (target, expected) in [("/", "b"), ("/?route=a", "a"), ("/", "b"), ("/?route=b", "b"), ("/", "b")] {
            assert_eq!(ask(&proxy, target, "x=y").text(), expected, "{target}");
        }
    }

    fn requests_wait_for_a_place(io: Io) {
        let gate = Gate::new();
        let origin = Origin::script(|c| c.expect("GET").wait_for(&gate).respond(200, "held"));
        let upstream = format!("server {origin} max_conns=1; queue 1 timeout=20s;");
        let proxy = proxy(io, &upstream, "");
        let mut first = Client::connect(&proxy);
        first.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
        origin.wait_for_requests(1);
        // One waits; which of the two is not told. The other gets 502 at once.
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let (tell, port) = (tell.clone(), proxy.port());
                scope.spawn(move || tell.send(Client::connect(&port).get("/next").status).unwrap());
            }
            assert_eq!(told.recv_timeout(Duration::from_secs(20)).unwrap(), 502);
            gate.open();
            assert_eq!(told.recv_timeout(Duration::from_secs(20)).unwrap(), 200);
        });
        first.read().expect_status(200).expect_body("held");
    }

    fn waiting_has_an_end(io: Io) {
        let gate = Gate::new();
        let origin = Origin::script(|c| c.expect("GET").wait_for(&gate).respond(200, "held"));
        let proxy = proxy(io, &format!("server {origin} max_conns=1; queue 8 timeout=50ms;"), "");
        let mut first = Client::connect(&proxy);
        first.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        origin.wait_for_requests(1);
        Client::connect(&proxy).get("/").expect_status(502);
        gate.open();
        first.read().expect_status(200);
    }

    fn sessions_that_servers_begin_are_learnt(io: Io) {
        let named = |name: &'static str| {
            Origin::script(move |c| {
                c.keep_answering(200, &[("Set-Cookie", &format!("sid={name}-1; path=/"))], name)
            })
        };
        let (a, b) = (named("a"), named("b"));
        let upstream = format!(
            "server {a}; server {b}; sticky learn create=$upstream_cookie_sid lookup=$cookie_sid lookup=$arg_sid zone=s:1m timeout=1h header sync;"
        );
        let mut running = proxy(io, &upstream, "");
        let seen: Vec<String> = (0..4).map(|_| ask(&running, "/", "other=1").text()).collect();
        assert!(
            ["a", "b"].iter().all(|name| seen.iter().any(|one| one == name)),
            "newcomers take turns: {seen:?}"
        );
        for _ in 0..4 {
            assert_eq!(ask(&running, "/", "sid=a-1").text(), "a");
            assert_eq!(ask(&running, "/?sid=b-1", "x=y").text(), "b", "the first that is not empty counts");
        }
        running.reload_same();
        assert_eq!(ask(&running, "/", "sid=b-1").text(), "b", "what was learnt outlives a reload");
        let seen: Vec<String> = (0..4).map(|_| ask(&running, "/", "sid=unknown").text()).collect();
        assert!(["a", "b"].iter().all(|name| seen.iter().any(|one| one == name)), "{seen:?}");
    }

    fn the_quicker_server_gets_the_requests(io: Io) {
        let quick = Origin::named("quick", "quick");
        let slow = Origin::script(|c| {
            c.expect("*").pause(Duration::from_millis(60)).respond_with(
                200,
                &[("Connection", "close")],
                "slow",
            )
        });
        for method in [
            "least_time header",
            "least_time last_byte",
            "least_time header inflight",
            "random two least_time=header",
        ] {
            let running = proxy(io, &format!("zone u 64k; server {slow}; server {quick}; {method};"), "");
            let seen: Vec<String> = (0..12).map(|_| ask(&running, "/", "x=y").text()).collect();
            let slow = seen.iter().filter(|one| *one == "slow").count();
            assert!(
                (1..=3).contains(&slow) || method.starts_with("random") && slow <= 3,
                "{method}: {seen:?}"
            );
        }
    }
}

#[test]
fn mistakes_are_found() {
    for (words, expected) in [
        ("sticky learn create=$arg_a;", "needs `create=`, `lookup=` and `zone=`"),
        ("sticky learn create=$arg_a lookup=$arg_a zone=z;", "`zone=name:size`"),
        ("least_time first_byte;", "`header` or `last_byte`"),
        ("queue 0;", "a number of requests"),
        ("queue 5 wait=1s;", "`timeout=` with a time"),
    ] {
        let text = format!("events {{}} http {{ upstream u {{ server 127.0.0.1:1; {words} }} }}");
        let (code, printed) = Proxy::nginx(&text).check();
        assert!(code == 1 && printed.contains(expected), "{words}: {code} {printed}");
    }
}
