//! Weir's dashboard: its document, what its buttons do, who may press them. The page itself is opened in a browser (`browser.mjs`).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use weir_testkit::{Client, Gate, Io, Origin, Port, Proxy, Request, Running, both_drivers, eventually};

/// What lies at `pointer` of the document.
fn status(proxy: &Running) -> Value {
    status_at(&proxy.port(), "/dashboard/status.json")
}

fn status_at(port: &Port, target: &str) -> Value {
    let answer = Client::connect(port)
        .get(target)
        .expect_status(200)
        .expect_header("Content-Type", "application/json");
    serde_json::from_str(&answer.text()).unwrap()
}

fn row<'v>(rows: &'v Value, name: &str) -> &'v Value {
    rows.as_array()
        .unwrap()
        .iter()
        .find(|row| row["name"] == name)
        .unwrap_or_else(|| panic!("{name}: {rows}"))
}

fn change(proxy: &Running, headers: &[(&str, &str)], body: &str) -> (u16, String) {
    let mut request = Request::post("/dashboard/change", body);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let answer = Client::connect(proxy).request(&request);
    (answer.status, answer.text())
}

/// A terminal of 80 by 24 with a program in it, kept by tmux.
struct Screen {
    socket: tempfile::TempDir,
}

impl Screen {
    fn start(program: &std::path::Path, arguments: &[&str]) -> Self {
        let screen = Self { socket: tempfile::tempdir().unwrap() };
        let program = program.to_str().unwrap();
        let words = ["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "-s", "top", program];
        let (code, said) = screen.tmux(&[&words, arguments].concat());
        assert_eq!(code, 0, "`cargo xtask deps` installs tmux: {said}");
        screen
    }

    fn tmux(&self, words: &[&str]) -> (i32, String) {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.socket.path().join("s")).args(words).env("TERM", "xterm-256color");
        weir_testkit::programs::run_for(command, Duration::from_secs(30)).unwrap()
    }

    fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-t", "top"]).1
    }

    fn press(&self, keys: &str) {
        for key in keys.chars() {
            let (name, key) = (["Enter", "Escape"], key.to_string());
            let word = match key.as_str() {
                "\r" => name[0],
                "\u{1b}" => name[1],
                key => key,
            };
            assert_eq!(self.tmux(&["send-keys", "-t", "top", word]).0, 0);
        }
    }

    fn wait_for(&self, part: &str) -> String {
        self.wait_until(part, |text| text.contains(part))
    }

    fn wait_until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(what, || {
                last = self.text();
                holds(&last).then(|| last.clone())
            })
        }));
        seen.unwrap_or_else(|_| panic!("{what}: {last}"))
    }

    /// The program ended, and its terminal with it.
    fn ended(&self) {
        eventually("the program to end", || (self.tmux(&["has-session", "-t", "top"]).0 != 0).then_some(()));
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

const PAGE: &[(&str, &str)] = &[("X-Weir-Dashboard", "1")];

both_drivers! {
    fn what_is_served_is_seen_while_it_is(io: Io) {
        let gate = Gate::new();
        let slow = Origin::script(|c| c.expect("GET /slow?a=b").wait_for(&gate).respond(200, "late"));
        let bad = Origin::script(|c| c.expect("GET /bad").close());
        let proxy = Proxy::nginx(&format!(
            "worker_processes 2; events {{}} http {{ access_log off;
             upstream slow {{ server {slow}; }} upstream bad {{ server {bad}; }}
             server {{ listen 127.0.0.1:{{port}}; server_name shop;
               location /slow {{ proxy_pass http://slow; }}
               location /bad {{ proxy_pass http://bad; proxy_next_upstream off; }}
               location /dashboard {{ weir_dashboard; }} }} }}"
        )).io(io).start();
        let mut client = Client::connect(&proxy);
        client.send("GET /slow?a=b HTTP/1.1\r\nHost: a\r\n\r\n");
        slow.wait_for_requests(1);
        let document = eventually("the request to be waiting", || {
            let document = status(&proxy);
            (document["requests"]["in_flight"][0]["stage"] == "waiting").then_some(document)
        });
        let seen = &document["requests"]["in_flight"][0];
        assert_eq!(document["requests"]["total"], 1, "those of the page are left out");
        assert_eq!((&seen["method"], &seen["target"]), (&"GET".into(), &"/slow?a=b".into()));
        assert_eq!((&seen["site"], &seen["pool"]), (&"shop".into(), &"slow".into()));
        assert_eq!(seen["endpoint"], slow.to_string());
        assert_eq!(seen["client"], client.local().to_string());
        gate.open();
        client.read().expect_body("late");
        Client::connect(&proxy).get("/bad").expect_status(502);
        let document = eventually("both to be over", || {
            let document = status(&proxy);
            let slowest = document["requests"]["slowest"].as_array().unwrap().len();
            (document["requests"]["total"] == 0 && slowest >= 1).then_some(document)
        });
        let failed = document["requests"]["failed"].as_array().unwrap();
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert_eq!((&failed[0]["target"], &failed[0]["status"], &failed[0]["ending"]), (&"/bad".into(), &502.into(), &"SH".into()));
        let slowest = document["requests"]["slowest"].as_array().unwrap();
        assert!(slowest.iter().any(|one| one["target"] == "/slow?a=b"), "{slowest:?}");
    }

    fn phases_are_counted_apart(io: Io) {
        let gate = Gate::new();
        let origin = Origin::script(|c| {
            c.expect("GET /").send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab").wait_for(&gate).send("cd")
        });
        let proxy = Proxy::nginx(&format!(
            "worker_processes 1; events {{}} http {{ access_log off; upstream app {{ server {origin}; }}
             server {{ listen 127.0.0.1:{{port}}; server_name shop;
               location / {{ proxy_pass http://app; proxy_buffering off; }}
               location /dashboard {{ weir_dashboard; }} location /metrics {{ weir_metrics; }} }} }}"
        )).io(io).start();
        let mut client = Client::connect(&proxy);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.read_head().expect_status(200);
        assert_eq!(client.read_exactly(2), b"ab");
        // What makes the transfer long enough to be told from nothing.
        client.expect_silence(std::time::Duration::from_millis(30));
        gate.open();
        assert_eq!(client.read_exactly(2), b"cd");
        let document = eventually("the request to be counted", || {
            let document = status(&proxy);
            (row(&document["pools"], "app")["latency"]["total"]["count"] == 1).then_some(document)
        });
        let pool = &row(&document["pools"], "app")["latency"];
        assert_eq!((&pool["connect"]["count"], &pool["first_byte"]["count"]), (&1.into(), &1.into()));
        assert!(pool["transfer"]["p50_us"].as_u64().unwrap() >= 28_000, "{pool}");
        assert!(pool["first_byte"]["p50_us"].as_u64() < pool["transfer"]["p50_us"].as_u64(), "{pool}");
        let route = document["routes"].as_array().unwrap().iter().find(|row| row["name"] == "/").unwrap();
        for front in [&row(&document["sites"], "shop")["latency"], &route["latency"]] {
            assert!(front["transfer"]["steps"].as_array().unwrap().iter().any(|step| step[0].as_u64() >= Some(28_000)), "{front}");
            assert!(front["total"]["count"].as_u64() >= Some(1), "{front}");
        }
        let metrics = Client::connect(&proxy).get("/metrics").text();
        for line in [
            "weir_pool_connect_duration_seconds_count{pool=\"app\"} 1\n",
            "weir_pool_transfer_duration_seconds_bucket{pool=\"app\",le=\"0.01\"} 0\n",
            "weir_site_first_byte_duration_seconds_count{site=\"shop\"} ",
        ] {
            assert!(metrics.contains(line), "{line}\n{metrics}");
        }
        assert!(!metrics.contains("weir_listener_first_byte"));
    }

    fn buttons_change_endpoints_where_they_may(io: Io) {
        let origins = [Origin::named("a", "a"), Origin::named("b", "b")];
        let proxy = Proxy::nginx(&format!(
            "worker_processes 2; events {{}} http {{ access_log off;
             upstream app {{ server {}; server {}; }}
             server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://app; }}
               location /dashboard/ {{ weir_dashboard write=on; }} }}
             server {{ listen 127.0.0.1:{{port_shown}}; location /dashboard/ {{ weir_dashboard write=off; }} }} }}",
            origins[0], origins[1]
        )).io(io).start();
        let endpoint = origins[0].to_string();
        let body = |deed: &str| format!("{{\"pool\":\"app\",\"endpoint\":\"{endpoint}\",{deed}}}");
        let state = |wanted: &str| {
            let document = status(&proxy);
            assert_eq!(document["write"], true);
            let pool = row(&document["pools"], "app");
            let endpoint = row(&pool["endpoints"], &endpoint);
            assert_eq!(endpoint["state"], wanted);
            endpoint.clone()
        };
        assert_eq!(change(&proxy, PAGE, &body("\"do\":\"drain\"")), (200, "{}".into()));
        assert_eq!(state("draining")["asked"], "drain");
        for _ in 0..6 {
            Client::connect(&proxy).get("/").expect_body("b");
        }
        assert_eq!(change(&proxy, PAGE, &body("\"do\":\"ready\"")).0, 200);
        assert_eq!(change(&proxy, PAGE, &body("\"do\":\"weight\",\"weight\":5")).0, 200);
        let endpoint_row = state("up");
        assert_eq!((&endpoint_row["weight"], &endpoint_row["weight_configured"]), (&5.into(), &1.into()));
        assert_eq!(change(&proxy, PAGE, &body("\"do\":\"weight_as_configured\"")).0, 200);
        assert_eq!(state("up")["weight"], 1);
        assert_eq!(change(&proxy, PAGE, &body("\"do\":\"maintenance\"")).0, 200);
        state("maintenance");
        let (status_code, why) = change(&proxy, PAGE, "{\"pool\":\"none\",\"endpoint\":\"a\",\"do\":\"drain\"}");
        assert_eq!(status_code, 409);
        assert!(why.contains("none"), "{why}");

        // Forms of other sites can be sent by whoever is let in here, and do nothing.
        let here = format!("http://127.0.0.1:{}", proxy.port());
        let good = [("X-Weir-Dashboard", "1"), ("Origin", here.as_str()), ("Host", &here[7..])];
        let ready = body("\"do\":\"ready\"");
        assert_eq!(change(&proxy, &[], &ready).0, 403);
        assert_eq!(change(&proxy, &[("X-Weir-Dashboard", "1"), ("Origin", "http://elsewhere.test")], &ready).0, 403);
        state("maintenance");
        assert_eq!(change(&proxy, &good[..1], &ready).0, 200);
        state("up");
        let large = format!("{{\"pool\":\"{}\"}}", "x".repeat(100_000));
        assert_eq!(change(&proxy, PAGE, &large).0, 413);

        let shown = proxy.port_of("port_shown");
        assert_eq!(status_at(&shown, "/dashboard/status.json")["write"], false);
        let request = Request::post("/dashboard/change", &ready).header("X-Weir-Dashboard", "1");
        Client::connect(&shown).request(&request).expect_status(403);
    }

    fn sessions_and_streams_are_among_them(io: Io) {
        let tcp = Origin::script(|c| c.echo());
        let proxy = Proxy::nginx(&format!(
            "worker_processes 1; events {{}}
             http {{ access_log off; server {{ listen 127.0.0.1:{{port}}; location /dashboard {{ weir_dashboard; }} }} }}
             stream {{ upstream back {{ server {tcp}; }} server {{ listen 127.0.0.1:{{port_tcp}}; proxy_pass back; }} }}"
        )).io(io).start();
        let mut session = Client::connect(proxy.port_of("port_tcp"));
        session.send("hello");
        assert_eq!(session.read_exactly(5), b"hello");
        let document = status(&proxy);
        let seen = &document["requests"]["in_flight"][0];
        assert_eq!((&seen["method"], &seen["pool"], &seen["stage"]), (&"".into(), &"back".into(), &"transferring".into()));
        session.reset();
        eventually("the session to be gone", || (status(&proxy)["requests"]["total"] == 0).then_some(()));
    }

    fn haproxy_serves_it_too(io: Io) {
        let origin = Origin::named("a", "a");
        let proxy = Proxy::haproxy(&format!(
            "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n\
             frontend web\n bind 127.0.0.1:{{port}}\n\
             \x20http-request use-service weir-dashboard-admin if {{ path_beg /dashboard }} {{ hdr(x-who) admin }}\n\
             \x20http-request use-service weir-dashboard if {{ path_beg /dashboard }}\n\
             \x20default_backend app\n\
             backend app\n server one {origin}\n"
        )).io(io).start();
        Client::connect(&proxy).get("/").expect_body("a");
        let document = status(&proxy);
        assert_eq!(document["write"], false);
        assert_eq!(row(&row(&document["pools"], "app")["endpoints"], "one")["responses"]["2xx"], 1);
        let drain = "{\"pool\":\"app\",\"endpoint\":\"one\",\"do\":\"drain\"}";
        assert_eq!(change(&proxy, PAGE, drain).0, 403);
        assert_eq!(change(&proxy, &[("X-Weir-Dashboard", "1"), ("X-Who", "admin")], drain).0, 200);
        let document = status(&proxy);
        assert_eq!(row(&row(&document["pools"], "app")["endpoints"], "one")["state"], "draining");
    }

    fn without_it_nothing_is_noted(io: Io) {
        let text = |page: &str| format!(
            "worker_processes 1; events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{{port}}; location / {{ return 503; }} {page} }} }}"
        );
        let mut proxy = Proxy::nginx(&text("")).io(io).start();
        Client::connect(&proxy).get("/before").expect_status(503);
        proxy.reload(&text("location /dashboard { weir_dashboard; }"));
        Client::connect(&proxy).get("/after").expect_status(503);
        let failed = eventually("the second request to be over", || {
            let failed = status(&proxy)["requests"]["failed"].as_array().unwrap().clone();
            (!failed.is_empty()).then_some(failed)
        });
        assert_eq!((failed.len(), &failed[0]["target"]), (1, &"/after".into()));
    }
}

/// Every button, plots that are not empty, keys, a phone's width, both schemes, and axe: `pages_in_browser/dashboard.mjs` has the list.
#[test]
fn the_page_works_in_a_browser() {
    // Takes connections in the kernel, and never says anything.
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = Port::lease();
    let proxy = Proxy::nginx(&format!(
        "worker_processes 2; events {{}} http {{ access_log off;
         upstream app {{ server 127.0.0.1:{{port_a}}; server 127.0.0.1:{{port_b}}; }}
         upstream held {{ server {}; }} upstream broken {{ server 127.0.0.1:{dead} max_fails=0; }}
         server {{ listen 127.0.0.1:{{port_a}}; server_name a; return 200 a; }}
         server {{ listen 127.0.0.1:{{port_b}}; server_name b; return 200 b; }}
         server {{ listen 127.0.0.1:{{port}}; server_name shop.test;
           location / {{ proxy_pass http://app; }} location /held {{ proxy_pass http://held; }}
           location /broken {{ proxy_pass http://broken; }} location /none {{ return 404; }}
           location /dashboard {{ weir_dashboard write=on; }} }} }}",
        held.local_addr().unwrap()
    ))
    .start();
    let mut waiting = Client::connect(&proxy);
    waiting.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
    let port = proxy.port();
    let over = Arc::new(AtomicBool::new(false));
    let is_over = over.clone();
    let traffic = std::thread::spawn(move || {
        while !is_over.load(Ordering::Relaxed) {
            let mut client = Client::connect(&port);
            for path in ["/", "/a", "/none", "/broken", "/b", "/c", "/d", "/e"] {
                client.get(path);
            }
        }
    });
    let modules = weir_testkit::programs::peer("browser").join("node_modules");
    let mut command = Command::new("node");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pages_in_browser/dashboard.mjs"));
    command.arg(modules).arg(format!("http://127.0.0.1:{}/dashboard/", proxy.port()));
    command.args(std::env::var_os("WEIR_PICTURES"));
    let outcome = weir_testkit::programs::run_for(command, Duration::from_secs(240));
    over.store(true, Ordering::Relaxed);
    traffic.join().unwrap();
    let (code, said) = outcome.expect("`cargo xtask deps` installs node and what it runs");
    assert_eq!(code, 0, "{said}");
}

/// What alerts and the dashboard for Grafana ask for is there by that name.
#[test]
fn metrics_that_are_asked_for_exist() {
    let origin = Origin::named("a", "a");
    let proxy = Proxy::nginx(&format!(
        "events {{}} http {{ access_log off; upstream app {{ server {origin}; }}
         server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://app; }} location /metrics {{ weir_metrics; }} }} }}"
    ))
    .start();
    Client::connect(&proxy).get("/").expect_body("a");
    let packaging = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let text = ["prometheus/weir.rules.yml", "grafana/weir.json"]
        .map(|name| std::fs::read_to_string(packaging.join(name)).unwrap())
        .concat();
    let _: Value =
        serde_json::from_slice(&std::fs::read(packaging.join("grafana/weir.json")).unwrap()).unwrap();
    let asked: std::collections::BTreeSet<&str> = regex::Regex::new(r"weir_[a-z_]*[a-z]\b")
        .unwrap()
        .find_iter(&text)
        .map(|found| found.as_str())
        .collect();
    assert!(asked.len() > 20, "{asked:?}");
    let metrics = eventually("the request to be counted", || {
        let metrics = Client::connect(&proxy).get("/metrics").text();
        metrics.contains("weir_pool_attempt_duration_seconds_count").then_some(metrics)
    });
    for name in asked.iter().filter(|name| !matches!(**name, "weir_metrics" | "weir_dashboard")) {
        let is_named = |after: &str| metrics.lines().any(|line| line.starts_with(&format!("{name}{after}")));
        assert!(is_named("{") || is_named(" "), "{name}");
    }
}

/// `weir top` on a screen of 80 by 24, and as text.
#[test]
fn top_shows_pools_and_leads_into_them() {
    let origins = [Origin::named("a", "a"), Origin::named("b", "b")];
    let proxy = Proxy::nginx(&format!(
        "events {{}} http {{ access_log off; upstream app {{ server {}; server {}; }} upstream idle {{ server {}; }}
         server {{ listen 127.0.0.1:{{port}}; server_name shop.test; location / {{ proxy_pass http://app; }}
           location /idle {{ proxy_pass http://idle; }} location /dashboard {{ weir_dashboard; }} }}
         server {{ listen unix:{{dir}}/web.sock; location /d {{ weir_dashboard; }} }} }}",
        origins[0], origins[1], origins[0]
    ))
    .start();
    let url = format!("http://127.0.0.1:{}/dashboard/", proxy.port());
    let weir = weir_testkit::proxy::weir_binary();
    let once = |arguments: &[&str]| {
        let mut command = Command::new(&weir);
        command.args(["top", "--once", "-i", "0.2"]).args(arguments);
        weir_testkit::programs::run_for(command, Duration::from_secs(30)).unwrap()
    };
    Client::connect(&proxy).get("/").expect_status(200);
    let (code, text) = once(&[&url]);
    assert_eq!(code, 0, "{text}");
    for part in ["Pools\n", "Endpoints of app\n", "shop.test", "Slowest of five minutes\n"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let socket = format!("unix:{}", proxy.dir().join("web.sock").display());
    assert_eq!(once(&[&socket, "--path", "/d"]).0, 0);
    let (code, said) = once(&[&format!("http://127.0.0.1:{}/nothing/", proxy.port())]);
    assert!(code == 1 && said.contains("weir top: http://127.0.0.1"), "{said}");

    let screen = Screen::start(&weir, &["top", "-i", "0.2", &url]);
    screen.wait_for("q end");
    let first = screen.wait_for("idle");
    assert!(first.contains("Flying") && first.contains("Queued"), "{first}");
    screen.press("/idle\r");
    screen.wait_for("[idle]");
    screen.press("\r");
    screen.wait_for(" Pools > idle ");
    screen.press("\u{1b}");
    screen.wait_until("the list again", |text| !text.contains("Pools > idle"));
    screen.press("5");
    screen.wait_for("Took");
    screen.press("q");
    screen.ended();
}

#[test]
fn a_page_needs_room_below_its_path() {
    let check = |directive: &str| {
        let text = format!("events {{}} http {{ server {{ listen {{port}}; location {directive} }} }}");
        Proxy::nginx(&text).check()
    };
    assert_eq!(check("/d { weir_dashboard write=off; }").0, 0);
    for (directive, says) in [
        ("= /d { weir_dashboard; }", "exact location"),
        ("/d { weir_dashboard write=maybe; }", "write=on"),
        ("/d { weir_dashboard; proxy_pass http://127.0.0.1:1; }", "weir_dashboard"),
    ] {
        let (code, said) = check(directive);
        assert!(code != 0 || directive.contains("proxy_pass"), "{directive}: {said}");
        assert!(said.contains(says), "{directive}: {said}");
    }
}
