//! Rules about the course of an exchange (`wait-for-body`, `early-hint`, `set-timeout`, `set-src`, `pause`): the same file
//! and the same requests, to Weir and to Debian's haproxy.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::{Duration, Instant};

use weir_testkit::{Client, Io, Origin, Proxy, Request, Running, both_drivers};

const DEFAULTS: &str = "global\n nbthread 1\n log stdout format raw local0\n\
     defaults\n mode http\n log global\n timeout connect 5s\n timeout client 10s\n timeout server 10s\n\
     frontend f\n bind 127.0.0.1:{port}\n log-format \"END %ST %ts %HP %ci %cp\"\n";

fn each(io: Io, rules: &str, case: impl Fn(&Running, &str)) {
    let proxy = Proxy::haproxy(&format!("{DEFAULTS}{rules}"));
    case(&proxy.clone().io(io).start(), "weir");
    case(&proxy.by_rival().start(), "haproxy");
}

const SAID: &str = " http-request set-var(txn.body) req.body\n http-request return status 200 content-type text/plain lf-string \"%[var(txn.body)]\" if { path_beg /said }\n";

both_drivers! {
    fn rules_see_a_body_that_they_wait_for(io: Io) {
        let rules = " http-request wait-for-body time 10s at-least 3 if { path /said/three }\n http-request wait-for-body time 10s if { path /said/all }\n\
             http-request wait-for-body time 100ms if { path /said/soon }\n";
        each(io, &format!("{rules}{SAID}"), |proxy, who| {
            let posted = |path: &str, length: usize, first: &str, rest: &str| {
                let mut client = Client::connect(proxy);
                client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{first}"));
                if !rest.is_empty() {
                    client.expect_silence(Duration::from_millis(100));
                    client.send(rest);
                }
                client.read()
            };
            assert_eq!(posted("/said/all", 6, "abc", "def").text(), "abcdef", "{who}");
            assert_eq!(posted("/said/three", 6, "ab", "cd").text(), "abcd", "{who}");
            assert_eq!(posted("/said/three", 6, "abcd", "").text(), "abcd", "{who}");
            assert_eq!(posted("/said/all", 0, "", "").text(), "", "{who}");
            assert_eq!(posted("/said/soon", 6, "abc", "").status, 408, "{who}");
            proxy.wait_for_log("END 408 cR /said/soon");
            let chunked = Request::post("/said/all", "in chunks").chunked();
            assert_eq!(Client::connect(proxy).request(&chunked).text(), "in chunks", "{who}");
        });
    }

    fn a_server_gets_all_of_a_body_that_rules_waited_for(io: Io) {
        let body: String = (0..40_000_u32).map(|n| char::from(b'a' + (n % 26) as u8)).collect();
        let origin = Origin::script(|c| c.keep_answering(200, &[], "ok"));
        let rules = format!(
            " http-request wait-for-body time 10s at-least 1000 if {{ path_beg /least }}\n http-request wait-for-body time 10s if {{ path_beg /all }}\n\
             default_backend b\nbackend b\n server s {origin}\n"
        );
        each(io, &rules, |proxy, who| {
            for path in ["/least", "/all"] {
                for chunked in [false, true] {
                    let request = Request::post(path, &body);
                    let request = if chunked { request.chunked() } else { request };
                    let before = origin.requests().len();
                    assert_eq!(Client::connect(proxy).request(&request).status, 200, "{who}: {path}");
                    let got = &origin.wait_for_requests(before + 1)[before];
                    assert!(got.body == body.as_bytes(), "{who}: {path} {chunked}: {} bytes", got.body.len());
                }
            }
        });
    }

    fn hints_come_before_the_response(io: Io) {
        let rules = " http-request early-hint Link \"<%[path].css>; rel=preload\" if { path_beg /a }\n http-request early-hint X-Second two if { path /a/b }\n\
             http-request return status 200\n";
        each(io, rules, |proxy, who| {
            let heads = |path: &str, version: &str| {
                let mut client = Client::connect(proxy);
                client.send(format!("GET {path} HTTP/{version}\r\nHost: a\r\nConnection: close\r\n\r\n"));
                let (bytes, _) = client.read_to_end();
                let text = String::from_utf8(bytes).unwrap().to_ascii_lowercase();
                let head = |head: &str| head.lines().filter(|line| line.starts_with("http/") || line.starts_with("link") || line.starts_with("x-")).collect::<Vec<_>>().join("|");
                text.split("\r\n\r\n").map(head).filter(|head| !head.is_empty()).collect::<Vec<_>>().join(" then ")
            };
            let link = |path: &str| format!("http/1.1 103 early hints|link: <{path}.css>; rel=preload");
            assert_eq!(heads("/a", "1.1"), format!("{} then http/1.1 200 ok", link("/a")), "{who}");
            assert_eq!(heads("/a/b", "1.1"), format!("{} then http/1.1 103 early hints|x-second: two then http/1.1 200 ok", link("/a/b")), "{who}");
            assert_eq!((heads("/b", "1.1"), heads("/a", "1.0")), ("http/1.1 200 ok".into(), "http/1.1 200 ok".into()), "{who}");
        });
    }

    fn times_are_set_for_one_exchange(io: Io) {
        let silent = Origin::silent();
        let rules = format!(
            " default_backend b\nbackend b\n http-request set-timeout server 150ms if {{ path /time }}\n http-request set-timeout server req.hdr(x-time) if {{ req.hdr(x-time) -m found }}\n\
             http-request return status 200 content-type text/plain lf-string \"%[cur_server_timeout] %[be_server_timeout]\" if {{ path /told }}\n server s {silent}\n"
        );
        each(io, &rules, |proxy, who| {
            for request in [Request::get("/time"), Request::get("/field").header("X-Time", "150")] {
                let began = Instant::now();
                assert_eq!(Client::connect(proxy).request(&request).status, 504, "{who}");
                assert!(began.elapsed() < Duration::from_secs(8), "{who}: {:?}", began.elapsed());
            }
            proxy.wait_for_log("END 504 sH /time");
            let told = |time: &str| Client::connect(proxy).request(&Request::get("/told").header("X-Time", time)).text();
            assert_eq!(told("300"), "300 10000", "{who}");
            // HAProxy takes what is no time for none at all.
            assert!(who == "haproxy" || told("no time") == "10000 10000", "{who}");
        });
    }

    fn rules_say_who_a_client_is(io: Io) {
        let rules = " http-request set-src req.hdr(x-src)\n http-request set-src-port req.hdr(x-port)\n\
             http-request deny if { src 192.0.2.0/24 }\n http-request return status 200 content-type text/plain lf-string \"%[src]:%[src_port]\"\n";
        each(io, rules, |proxy, who| {
            let mut client = Client::connect(proxy);
            let port = client.local().port();
            let mut said = |fields: &[(&str, &str)]| {
                let request = fields.iter().fold(Request::get("/"), |request, (name, value)| request.header(name, value));
                let response = client.request(&request);
                if response.status == 200 { response.text() } else { response.status.to_string() }
            };
            for (fields, wanted) in [
                (&[("X-Src", "1.2.3.4")][..], format!("1.2.3.4:{port}")),
                (&[], format!("127.0.0.1:{port}")),
                (&[("X-Src", "2001:db8::1"), ("X-Port", "77")], "2001:db8::1:77".to_owned()),
                (&[("X-Port", "78")], "127.0.0.1:78".to_owned()),
                (&[("X-Src", "nobody")], format!("127.0.0.1:{port}")),
                (&[("X-Src", "192.0.2.7")], "403".to_owned()),
            ] {
                assert_eq!(said(fields), wanted, "{who}: {fields:?}");
            }
            proxy.wait_for_log("END 403 PR / 192.0.2.7");
        });
    }

    fn rules_on_connections_say_it_for_all_that_follows(io: Io) {
        let rules = " tcp-request connection set-src str(10.1.1.1)\n tcp-request connection set-src-port int(77)\n http-request return status 200 content-type text/plain lf-string \"%[src]:%[src_port]\"\n";
        each(io, rules, |proxy, who| {
            let mut client = Client::connect(proxy);
            let said = [client.get("/").text(), client.get("/").text()];
            assert_eq!(said, ["10.1.1.1:77", "10.1.1.1:77"], "{who}");
        });
    }

    fn a_proxy_header_says_both_ends(io: Io) {
        let rules = " http-request return status 200 content-type text/plain lf-string \"%[src]:%[src_port] %[dst]:%[dst_port] %fi:%fp %[fc_src] %[fc_dst]\"\n";
        let text = format!("{DEFAULTS}{rules}").replace("127.0.0.1:{port}", "127.0.0.1:{port} accept-proxy");
        let proxy = Proxy::haproxy(&text);
        for (proxy, who) in [(proxy.clone().io(io).start(), "weir"), (proxy.by_rival().start(), "haproxy")] {
            let mut client = Client::connect(&proxy);
            client.send("PROXY TCP4 192.0.2.1 198.51.100.2 1111 2222\r\n");
            let told = client.request(&Request::get("/")).expect_status(200).text();
            assert_eq!(told, "192.0.2.1:1111 198.51.100.2:2222 198.51.100.2:2222 127.0.0.1 127.0.0.1", "{who}");
        }
    }

    fn a_proxy_header_is_expected_of_some(io: Io) {
        let text = "defaults\n mode http\n timeout client 10s\nfrontend f\n bind 127.0.0.1:{port}\n bind 127.0.0.1:{port_balanced}\n\
            tcp-request connection expect-proxy layer4 if { dst_port {port_balanced} }\n\
            http-request return status 200 content-type text/plain lf-string \"%[src] %[dst] %[fc_rcvd_proxy]\"\n";
        let file = Proxy::haproxy(text);
        for (proxy, who) in [(file.clone().io(io).start(), "weir"), (file.by_rival().start(), "haproxy")] {
            Client::connect(&proxy).get("/").expect_body("127.0.0.1 127.0.0.1 0");
            let mut client = Client::connect(proxy.port_of("port_balanced"));
            client.send("PROXY TCP4 192.0.2.1 198.51.100.2 1111 2222\r\n");
            assert_eq!(client.get("/").text(), "192.0.2.1 198.51.100.2 1", "{who}");
            let mut none = Client::connect(proxy.port_of("port_balanced"));
            assert!(none.try_request(&Request::get("/")).is_err(), "{who}");
            // Who does not have to send one is not believed.
            let mut liar = Client::connect(&proxy);
            liar.send("PROXY TCP4 192.0.2.1 198.51.100.2 1111 2222\r\n");
            assert_ne!(liar.try_request(&Request::get("/")).map_or(0, |response| response.status), 200, "{who}");
        }
    }

    fn retries_are_set_for_one_exchange(io: Io) {
        let origin = Origin::script(|c| c.read_body().close());
        let rules = format!(
            " http-request disable-l7-retry if {{ path /none }}\n http-request set-retries 2 if {{ path /two }}\n\
             http-request set-retries req.hdr(x-retries) if {{ path /computed }}\n default_backend b\nbackend b\n retry-on empty-response conn-failure\n retries 1\n server s {origin}\n"
        );
        let proxy = Proxy::haproxy(&format!("{DEFAULTS}{rules}")).io(io).start();
        for (path, attempts) in [("/", 2), ("/none", 1), ("/two", 3), ("/computed", 4)] {
            let before = origin.connections();
            assert_eq!(Client::connect(&proxy).request(&Request::get(path).header("X-Retries", "3")).status, 502, "{path}");
            origin.wait_for_connections(before + attempts);
            assert_eq!(origin.connections(), before + attempts, "{path}");
        }
    }

    fn responses_have_the_pace_that_rules_give_them(io: Io) {
        // HAProxy has this since 2.7; by its manual.
        let body = "x".repeat(40_000);
        let origin = Origin::script(|c| c.keep_answering(200, &[("X-Limit", "20000")], &body));
        let rules = format!(
            " filter bwlim-out slow default-limit 40000 default-period 2s min-size 1k\n filter bwlim-in up default-limit 1k default-period 1s\n\
             http-request set-bandwidth-limit up\n http-request set-bandwidth-limit slow if {{ path /request }}\n\
             http-response set-bandwidth-limit slow limit 20k period 1s if {{ capture.req.uri /response }}\n\
             http-response set-bandwidth-limit slow limit res.hdr(x-limit) period 1s if {{ capture.req.uri /computed }}\n\
             default_backend b\nbackend b\n server s {origin}\n"
        );
        let proxy = Proxy::haproxy(&format!("{DEFAULTS}{rules}")).io(io).start();
        for (path, least) in [("/", 0), ("/request", 1500), ("/response", 1500), ("/computed", 1500)] {
            let began = Instant::now();
            assert_eq!(Client::connect(&proxy).get(path).body.len(), body.len(), "{path}");
            let took = began.elapsed();
            assert!(took >= Duration::from_millis(least) && (least > 0 || took < Duration::from_millis(1000)), "{path}: {took:?}");
        }
    }

    fn a_pause_passes_before_the_next_rule(io: Io) {
        let rules = " http-request pause 150 if { path /expression }\n http-request pause 150ms if { path /time }\n http-request return status 200\n";
        let proxy = Proxy::haproxy(&format!("{DEFAULTS}{rules}")).io(io).start();
        for path in ["/time", "/expression"] {
            let began = Instant::now();
            assert_eq!(Client::connect(&proxy).get(path).status, 200);
            assert!(began.elapsed() >= Duration::from_millis(150), "{path}");
        }
    }
}

both_drivers! {
    fn responses_pause_whatever_their_server_speaks(io: Io) {
        let origin = Origin::script(|c| c.keep_answering(200, &[], "ok"));
        let rules = format!(
            " default_backend b\nbackend b\n http-response pause 150 if {{ status 200 }}\n http-response set-header X-Seen yes\n http-response return status 203 if {{ res.hdr(x-none) -m found }}\n\
             server s {origin}\n"
        );
        let proxy = Proxy::haproxy(&format!("{DEFAULTS}{rules}")).io(io).start();
        let mut client = Client::connect(&proxy);
        for _ in 0..3 {
            let began = Instant::now();
            client.get("/").expect_status(200).expect_header("X-Seen", "yes").expect_body("ok");
            assert!(began.elapsed() >= Duration::from_millis(150));
        }
    }

    fn rules_judge_responses_of_servers_that_speak_http_2(io: Io) {
        let text = "frontend inner\n bind 127.0.0.1:{port_inner} proto h2\n http-request return status 201 content-type text/plain string inner\n\
            frontend g\n bind 127.0.0.1:{port_outer}\n default_backend b\nbackend b\n http-response set-header X-Seen yes\n http-response deny deny_status 418 if { src 127.0.0.1 } { capture.req.uri /denied }\n\
            server s 127.0.0.1:{port_inner} proto h2\n";
        let proxy = Proxy::haproxy(&format!("{DEFAULTS}{text}")).io(io).start();
        let mut client = Client::connect(proxy.port_of("port_outer"));
        client.get("/").expect_status(201).expect_header("X-Seen", "yes").expect_body("inner");
        client.get("/denied").expect_status(418);
        client.get("/").expect_status(201).expect_body("inner");
    }
}

#[test]
fn what_these_rules_take_is_checked() {
    for (rule, wanted) in [
        ("wait-for-body", "needs `time`"),
        ("wait-for-body at-least 5", "needs `time`"),
        ("wait-for-body time soon", "soon"),
        ("wait-for-body for 5s", "wait-for-body"),
        ("set-timeout queue 5s", "set-timeout"),
        ("set-timeout server nothing", "unknown fetch `nothing`"),
        ("set-src nothing", "unknown fetch `nothing`"),
        ("early-hint Link", "needs 2 arguments"),
    ] {
        let (code, told) = Proxy::haproxy(&format!("{DEFAULTS} http-request {rule}\n")).check();
        assert!(code != 0 && told.contains(wanted), "{rule}: {told}");
    }
}
