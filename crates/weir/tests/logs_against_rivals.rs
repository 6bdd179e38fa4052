//! Log lines and figures for the same requests, of Weir and of Debian's nginx and haproxy.
//!
//! Where they may differ, the comparison says why.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_testkit::{Client, Io, Origin, Proxy, Request, Running, both_drivers, eventually};

const NGINX: &str = r#"user root; worker_processes 1; error_log stderr info; events {} http {
    log_format full '$remote_addr|$remote_user|$request|$status|$http_referer|$http_user_agent|$is_args|$args|$https|'
        '$host|$upstream_status|$ssl_protocol|$request_completion|$sent_http_content_type|$cookie_a|$arg_x|$server_name|'
        '$connection_requests|$pipe|$empty|$upstream_response_length';
    log_format json escape=json '{"r":"$request","ua":"$http_user_agent","ref":"$http_referer","s":"$status"}';
    log_format raw escape=none '$request $http_user_agent';
    map $request_uri $wanted { ~^/skip 0; default 1; }
    map $uri $empty { default ""; }
    access_log {dir}/full full if=$wanted;
    access_log {dir}/json json;
    access_log {dir}/raw raw;
    access_log {dir}/by-$arg_h full;
    server { listen 127.0.0.1:{port}; server_name www.example.org other.example.org; root {dir};
        location / { return 200 "fine\n"; }
        location /dead { proxy_pass http://127.0.0.1:1; }
        location /no { access_log off; return 204; }
        location /st { stub_status; }
    } }"#;

fn ask(proxy: &Running) {
    let agent = "agent \"q\" \\ \u{e9}\tz";
    let odd = Request::get("/?x=1").header("User-Agent", agent).header("Referer", "http://ref/");
    let named =
        Request::get("/a?h=one").header("Authorization", "Basic bWU6cHc=").header("Cookie", "b=c; a=b");
    let mut client = Client::connect(proxy);
    client.request(&odd.host("www.example.org")).expect_status(200);
    client.request(&named).expect_status(200);
    client.get("/dead").expect_status(502);
    client.get("/skip").expect_status(200);
    client.get("/no").expect_status(204);
    for bad in ["GET /bad path HTTP/1.1\r\nHost: x\r\n\r\n", "BAD\r\n\r\n"] {
        let mut client = Client::connect(proxy);
        client.send(bad);
        client.read().expect_status(400);
    }
    Client::connect(proxy).get("/last").expect_status(200);
}

fn lines(proxy: &Running, name: &str, last: &str) -> Vec<String> {
    // Workers hand over their lines apart, so the order of lines is not fixed.
    let mut lines: Vec<String> = proxy.wait_for_file(name, last).lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

both_drivers! {
    fn lines_are_nginx_s(io: Io) {
        let (ours, theirs) = (Proxy::nginx(NGINX).io(io).start(), Proxy::nginx(NGINX).by_rival().start());
        ask(&ours);
        ask(&theirs);
        for (name, last) in [("full", "/last"), ("json", "/last"), ("raw", "/last"), ("by-one", "h=one"), ("by-", "/last")] {
            assert_eq!(lines(&ours, name, last), lines(&theirs, name, last), "{name}");
        }
        let told = "connect() failed (111: Connection refused) while connecting to upstream, client: 127.0.0.1, server: \
                    www.example.org, request: \"GET /dead HTTP/1.1\", upstream: \"http://127.0.0.1:1/dead\", host: \"";
        ours.wait_for_log(told);
        theirs.wait_for_log(told);
    }

    fn stub_status_counts_as_nginx_does(io: Io) {
        let (ours, theirs) = (Proxy::nginx(NGINX).io(io).start(), Proxy::nginx(NGINX).by_rival().start());
        let text = |proxy: &Running| {
            let mut client = Client::connect(proxy);
            client.get("/");
            client.get("/");
            let answer = client.get("/st");
            (answer.header("content-type").map(str::to_owned), String::from_utf8(answer.body).unwrap())
        };
        let (ours, theirs) = (text(&ours), text(&theirs));
        assert_eq!(ours.0, theirs.0);
        // How often the readiness of each was probed before is not the same.
        let without_totals = |text: &str| {
            text.lines().enumerate().filter(|(at, _)| *at != 2).map(|(_, line)| line.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(without_totals(&ours.1), without_totals(&theirs.1));
        let totals: Vec<u64> = ours.1.lines().nth(2).unwrap().split_whitespace().map(|n| n.parse().unwrap()).collect();
        assert!(totals[0] == totals[1] && totals[2] >= 3, "{totals:?}");
    }
}

fn haproxy(origin: &Origin) -> String {
    format!(
        "global\n  log stdout format raw local0\ndefaults\n  mode http\n  log global\n  option httplog\n  timeout connect 1s\n  \
         timeout client 5s\n  timeout server 5s\nfrontend www\n  bind 127.0.0.1:{{port}}\n  capture request header X-Odd \
         len 20\n  http-request deny if {{ path_beg /deny }}\n  use_backend dead if {{ path_beg /dead }}\n  stats enable\n  \
         stats uri /st\n  default_backend app\nbackend app\n  server a {origin}\n  server b 127.0.0.1:1 backup\n  server c \
         127.0.0.1:1 disabled\nbackend dead\n  retries 0\n  server d 127.0.0.1:1\n"
    )
}

/// The CSV as rows of `column → value`, by proxy and service.
fn rows(text: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap().trim_start_matches("# ").split(',').collect();
    lines
        .filter(|line| !line.is_empty())
        .map(|line| {
            let values: Vec<&str> = line.split(',').collect();
            let pairs =
                head.iter().zip(&values).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            (format!("{}/{}", values[0], values[1]), pairs.collect())
        })
        .collect()
}

#[test]
fn figures_are_haproxy_s() {
    let answer = || Origin::named("app", "hello");
    let (first, second) = (answer(), answer());
    let ours = Proxy::haproxy(&haproxy(&first)).start();
    let theirs = Proxy::haproxy(&haproxy(&second)).by_rival().start();
    let figures = |proxy: &Running| {
        Client::connect(proxy).get("/").expect_status(200);
        Client::connect(proxy).get("/").expect_status(200);
        Client::connect(proxy).get("/deny").expect_status(403);
        Client::connect(proxy).get("/dead").expect_status(503);
        // An answer is counted once it is sent, which its client may see first.
        eventually("the four answers to be counted", || {
            let csv = Client::connect(proxy).get("/st;csv");
            let rows = rows(&String::from_utf8(csv.body).unwrap());
            let counted = |name: &str, column: &str, count: &str| {
                let row = rows.iter().find(|row| row.0 == name)?;
                row.1.iter().find(|(name, value)| name == column && value == count)
            };
            counted("www/FRONTEND", "hrsp_4xx", "1")?;
            counted("app/BACKEND", "hrsp_2xx", "2")?;
            counted("dead/BACKEND", "hrsp_5xx", "1")?;
            Some(rows)
        })
    };
    let (ours, theirs) = (figures(&ours), figures(&theirs));
    let names =
        |rows: &[(String, Vec<(String, String)>)]| rows.iter().map(|row| row.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(&ours), names(&theirs));
    // Figures that do not depend on time, on the size of a head or on the machine.
    let steady = [
        "pxname",
        "svname",
        "qcur",
        "stot",
        "dresp",
        "econ",
        "eresp",
        "wretr",
        "wredis",
        "status",
        "weight",
        "act",
        "bck",
        "sid",
        "lbtot",
        "type",
        "hrsp_1xx",
        "hrsp_2xx",
        "hrsp_3xx",
        "hrsp_5xx",
        "hrsp_other",
        "mode",
        "algo",
        "cli_abrt",
        "srv_abrt",
        "uweight",
    ];
    for ((name, ours), (_, theirs)) in
        ours.iter().zip(&theirs).filter(|(row, _)| !row.0.ends_with("FRONTEND"))
    {
        for column in steady {
            let of = |row: &[(String, String)]| {
                row.iter().find(|(name, _)| name == column).map(|pair| pair.1.clone())
            };
            assert_eq!(of(ours), of(theirs), "{column} of {name}");
        }
    }
}

#[test]
fn compressed_logs_can_be_read_while_they_grow() {
    let text = "events {} error_log /dev/null; http { log_format one '$request'; access_log {dir}/log.gz one gzip flush=50ms; \
                server { listen 127.0.0.1:{port}; location / { return 200; } } }";
    let proxy = Proxy::nginx(text).start();
    let path = proxy.dir().join("log.gz");
    for path_asked in ["/one", "/two"] {
        Client::connect(&proxy).get(path_asked).expect_status(200);
        eventually(path_asked, || {
            let mut zcat = std::process::Command::new("zcat");
            let (_, text) = weir_testkit::programs::run({
                zcat.arg(&path);
                zcat
            });
            text.contains(&format!("GET {path_asked} HTTP/1.1")).then_some(())
        });
    }
}
