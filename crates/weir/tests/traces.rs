//! Traces by OpenTelemetry, told to a receiver made of opentelemetry-proto and grpcio, over gRPC and over HTTP.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_testkit::{Client, Io, Origin, Port, Proxy, Request, Running, both_drivers};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319d-b7ad6b7169203331-00";
const PACKAGES: [&str; 2] = ["grpcio==1.85.3", "opentelemetry-proto==1.45.2"];

/// The folder of the receiver's packages, installed at the first use.
fn packages() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let folder = target.join("otlp-receiver-1");
        if !folder.exists() {
            let new = target.join(format!("otlp-receiver-{}", std::process::id()));
            let pip = ["-m", "pip", "install", "--quiet", "--target"];
            let done = Command::new("python3").args(pip).arg(&new).args(PACKAGES).status().unwrap();
            assert!(done.success(), "pip cannot install {PACKAGES:?}");
            // Another test run may have been quicker.
            let _ = std::fs::rename(&new, &folder);
        }
        folder
    })
}

/// A running receiver.
struct Collector {
    child: Child,
    lines: Receiver<Value>,
    grpc: u64,
    http: u64,
}

impl Collector {
    fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/otlp/receiver.py");
        let mut command = Command::new("python3");
        command.arg(script).env("PYTHONPATH", packages()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (tell, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = tell.send(serde_json::from_str(&line).unwrap());
            }
        });
        let ports: Value = lines.recv_timeout(Duration::from_secs(60)).unwrap();
        let port = |way: &str| ports[way].as_u64().unwrap();
        Self { grpc: port("grpc"), http: port("http"), child, lines }
    }

    fn span(&self) -> Value {
        self.lines.recv_timeout(Duration::from_secs(30)).expect("a span comes")
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn file(endpoint: &str, http: &str, locations: &str) -> String {
    format!(
        "worker_processes 1; error_log stderr info; events {{}} http {{ access_log off; \
         otel_exporter {{ endpoint {endpoint}; interval 50ms; header x-key secret; }} {http} \
         server {{ listen 127.0.0.1:{{port}}; {locations} location = /metrics {{ otel_trace off; weir_metrics; }} }} }}"
    )
}

fn metric(proxy: &Running, name: &str) -> u64 {
    let text = Client::connect(proxy).get("/metrics").expect_status(200).text();
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap_or(0)
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(30), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

both_drivers! {
    fn spans_reach_a_collector_both_ways(io: Io) {
        let collector = Collector::start();
        for (way, endpoint) in [
            ("grpc", format!("127.0.0.1:{}", collector.grpc)),
            ("http", format!("http://127.0.0.1:{}/v1/traces", collector.http)),
        ] {
            let origin = Origin::named("a", "hello");
            let http = "otel_service_name shop; otel_resource_attr zone a; otel_trace on; otel_span_attr outer 1;";
            let locations = format!(
                "location /in {{ otel_trace_context propagate; otel_span_name \"in $uri\"; otel_span_attr who $arg_who; otel_span_attr more 1; proxy_pass http://{origin}; \
                 add_header X-Ids $otel_trace_id/$otel_span_id/$otel_parent_id/$otel_parent_sampled; }} \
                 location /own {{ otel_trace_context inject; proxy_pass http://{origin}; }} \
                 location /alone {{ proxy_pass http://{origin}; }} \
                 location /here {{ return 503; }}"
            );
            let proxy = Proxy::nginx(&file(&endpoint, http, &locations)).io(io).start();
            let asked = Request::get("/in?who=me").header("traceparent", PARENT).header("tracestate", "a=1").header("User-Agent", "test");
            let got = Client::connect(&proxy).request(&asked).expect_status(200);
            let span = collector.span();
            assert_eq!(span["way"], way);
            assert_eq!(span["fields"]["x-key"], "secret");
            assert_eq!((&span["resource"]["service.name"], &span["resource"]["zone"]), (&"shop".into(), &"a".into()));
            assert_eq!((&span["trace"], &span["parent"]), (&"0af7651916cd43dd8448eb211c80319c".into(), &"b7ad6b7169203331".into()));
            assert_eq!((&span["state"], &span["name"], &span["kind"], &span["status"]), (&"a=1".into(), &"in /in".into(), &2.into(), &0.into()));
            assert!(span["took"].as_i64().unwrap() >= 0);
            for (name, wanted) in [
                ("http.method", Value::from("GET")),
                ("http.target", "/in?who=me".into()),
                ("http.route", "/in".into()),
                ("http.scheme", "http".into()),
                ("http.flavor", "1.1".into()),
                ("http.user_agent", "test".into()),
                ("http.status_code", 200.into()),
                ("http.response_content_length", 5.into()),
                ("net.sock.peer.addr", "127.0.0.1".into()),
                ("net.host.port", proxy.port().number().into()),
                ("who", "me".into()),
                ("more", "1".into()),
            ] {
                assert_eq!(span["attributes"][name], wanted, "{name}: {span}");
            }
            assert_eq!(span["attributes"]["outer"], Value::Null, "as in nginx, those of a location take the place of others");
            let id = span["span"].as_str().unwrap();
            let ids = format!("0af7651916cd43dd8448eb211c80319c/{id}/b7ad6b7169203331/1");
            assert_eq!(got.header("X-Ids"), Some(&*ids));
            let passed = origin.requests().pop().unwrap();
            assert_eq!(passed.header("traceparent"), Some(&*format!("00-0af7651916cd43dd8448eb211c80319c-{id}-01")));
            assert_eq!(passed.header("tracestate"), Some("a=1"));

            Client::connect(&proxy).request(&Request::get("/own").header("traceparent", PARENT)).expect_status(200);
            let own = collector.span();
            assert_eq!((&own["parent"], &own["name"]), (&"".into(), &"/own".into()));
            assert_ne!(own["trace"], span["trace"], "what comes is not taken up");
            let passed = origin.requests().pop().unwrap();
            let wanted = format!("00-{}-{}-01", own["trace"].as_str().unwrap(), own["span"].as_str().unwrap());
            assert_eq!(passed.header("traceparent"), Some(&*wanted));

            Client::connect(&proxy).request(&Request::get("/alone").header("traceparent", PARENT)).expect_status(200);
            let alone = collector.span();
            assert_eq!((&alone["parent"], &alone["attributes"]["outer"]), (&"".into(), &"1".into()));
            assert_eq!(origin.requests().pop().unwrap().header("traceparent"), Some(PARENT), "it is passed as it came");

            Client::connect(&proxy).get("/here").expect_status(503);
            let failed = collector.span();
            assert_eq!((&failed["status"], &failed["attributes"]["http.status_code"]), (&2.into(), &503.into()));
            until("they are counted", || metric(&proxy, "weir_spans_exported_total") == 4);
        }
    }

    fn a_variable_decides_and_a_redirect_inside_does_not(io: Io) {
        let collector = Collector::start();
        let endpoint = format!("127.0.0.1:{}", collector.grpc);
        let locations = "otel_trace $otel_parent_sampled; otel_trace_context extract; \
             location /a { rewrite ^ /b last; } location /b { otel_trace on; return 200 $otel_trace_id; } \
             location /off { otel_trace off; otel_trace_context ignore; return 200 none$otel_trace_id; } \
             location /page { error_page 404 /b; return 404; }";
        let proxy = Proxy::nginx(&file(&endpoint, "", locations)).io(io).start();
        let ask = |target: &str, parent: &str| Client::connect(&proxy).request(&Request::get(target).header("traceparent", parent));
        ask("/off", PARENT).expect_body("none");
        // The location where it begins decides.
        ask("/a", UNSAMPLED).expect_status(200).expect_body("0af7651916cd43dd8448eb211c80319d");
        ask("/a", PARENT).expect_body("0af7651916cd43dd8448eb211c80319c");
        assert_eq!(collector.span()["trace"], "0af7651916cd43dd8448eb211c80319c");
        ask("/page", UNSAMPLED);
        ask("/b", "nonsense").expect_status(200);
        let span = collector.span();
        assert_eq!((&span["parent"], &span["name"]), (&"".into(), &"/b".into()), "nothing of the others came");
    }

    fn a_collector_that_is_gone_does_no_harm(io: Io) {
        let gone = Port::lease();
        let endpoint = format!("127.0.0.1:{}; batch_size 1; batch_count 2", gone.number());
        let proxy = Proxy::nginx(&file(&endpoint, "otel_trace on;", "location / { return 200 fine; }")).io(io).start();
        let mut client = Client::connect(&proxy);
        for _ in 0..200 {
            client.get("/").expect_status(200).expect_body("fine");
        }
        proxy.wait_for_log("OTel export failure: cannot connect to 127.0.0.1:");
        until("all are counted", || {
            metric(&proxy, "weir_spans_failed_total") + metric(&proxy, "weir_spans_dropped_total") == 200
        });
        assert_eq!(metric(&proxy, "weir_spans_exported_total"), 0);
    }

    fn a_collector_that_says_nothing_costs_only_its_spans(io: Io) {
        let silent = Origin::silent();
        let endpoint = format!("http://{silent}/v1/traces; batch_size 2; batch_count 2");
        let proxy = Proxy::nginx(&file(&endpoint, "otel_trace on;", "location / { return 200 fine; }")).io(io).start();
        let mut client = Client::connect(&proxy);
        for _ in 0..100 {
            client.get("/").expect_status(200);
        }
        assert!(metric(&proxy, "weir_spans_dropped_total") >= 90, "four may wait");
    }

    fn the_examples_run(io: Io) {
        let collector = Collector::start();
        let origin = Origin::named("a", "hello");
        let fit = |text: &str| {
            text.replace("127.0.0.1:4317", &format!("127.0.0.1:{}", collector.grpc))
                .replace("127.0.0.1:9000", &origin.to_string())
                .replace("127.0.0.1:8080", "127.0.0.1:{port}")
        };
        for proxy in [
            Proxy::nginx(&fit(include_str!("../../../examples/traces/nginx.conf"))),
            Proxy::native(&fit(include_str!("../../../examples/traces/weir.yaml"))),
        ] {
            let proxy = proxy.io(io).start();
            let asked = Request::get("/x").header("traceparent", PARENT).header("Cookie", "cart=7");
            Client::connect(&proxy).request(&asked).expect_status(200);
            let span = collector.span();
            assert_eq!(span["resource"], serde_json::json!({"service.name": "shop", "deployment.environment": "test"}));
            assert_eq!((&span["name"], &span["attributes"]["shop.cart"]), (&"GET page".into(), &"7".into()));
            assert_eq!(span["parent"], "b7ad6b7169203331");
        }
    }
}

#[test]
fn mistakes_are_named() {
    for (endpoint, http, wanted) in [
        ("a:1", "otel_trace yes;", "`on`, `off` or a variable"),
        ("a:1", "otel_trace_context both;", "one of `extract`"),
        ("ftp://a", "", "is no place to tell spans to"),
        ("unix:/x", "", "is no place to tell spans to"),
        ("a:1; batch_size 0", "", "at least 1"),
        ("a:1; colour red", "", "`otel_exporter` knows no `colour`"),
        ("a:1; header x", "", "takes 2 arguments"),
    ] {
        let (code, told) = Proxy::nginx(&file(endpoint, http, "")).check();
        let wanted = wanted.trim_start_matches("one of ");
        assert!(code != 0 && told.contains(wanted), "{endpoint} {http}: {told}");
    }
    let none = "events {} http { server { listen 127.0.0.1:{port}; otel_trace on; } }";
    let (code, told) = Proxy::nginx(none).check();
    assert!(code != 0 && told.contains("nobody is named whom spans are told to"), "{told}");
}
