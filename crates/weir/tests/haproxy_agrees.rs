//! haproxy.cfg through Weir and through Debian's haproxy: the same requests, the same answers, the same choices.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::net::UdpSocket;
use std::time::Duration;

use weir_testkit::{
    Certificate, Client, Io, Origin, Port, Proxy, Request, Running, TlsOptions, both_drivers,
};

const DEFAULTS: &str = "defaults\n mode http\n option dontlognull\n timeout connect 2s\n timeout client 5s\n timeout server 5s\n";

fn file(text: &str) -> Proxy {
    Proxy::haproxy(&format!("global\n nbthread 1\n{DEFAULTS}{text}"))
}

/// Weir and its rival on the same text.
fn both(io: Io, text: &str) -> [Running; 2] {
    [file(text).io(io).start(), file(text).by_rival().start()]
}

/// What one exchange came to: status, phrase, and the fields that matter here.
fn told(client: &mut Client, request: &Request) -> String {
    let answer = client.request(request);
    let fields =
        ["Location", "Set-Cookie", "Cache-Control", "X-Fe", "X-Be", "X-After", "X-Was", "WWW-Authenticate"];
    let shown: Vec<String> = fields
        .iter()
        .flat_map(|name| answer.all(name).map(move |value| format!("{name}: {value}")))
        .collect();
    format!("{} {shown:?}", answer.status)
}

fn agree(io: Io, text: &str, requests: &[Request]) {
    let [ours, theirs] = both(io, text);
    for request in requests {
        let tell = |proxy: &Running| told(&mut Client::connect(proxy), request);
        assert_eq!(tell(&ours), tell(&theirs), "{}", String::from_utf8_lossy(&request.bytes()));
    }
}

/// Lines of traffic, without times and ports.
struct Syslog(UdpSocket);

impl Syslog {
    fn open() -> (Self, u16) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let port = socket.local_addr().unwrap().port();
        (Self(socket), port)
    }

    /// The next line about `frontend`: from the backend's name on, without timers and bytes.
    fn next(&self, frontend: &str) -> String {
        loop {
            let mut line = [0; 4096];
            let n = self.0.recv(&mut line).expect("a log line");
            let line = String::from_utf8_lossy(&line[..n]).trim_end().to_owned();
            if let Some((_, rest)) = line.split_once(&format!(" {frontend} ")) {
                let words: Vec<&str> = rest.split(' ').collect();
                return [&words[..1], &words[2..3], &words[4..]].concat().join(" ");
            }
        }
    }
}

both_drivers! {
    fn rules_for_responses_touch_what_endpoints_said(io: Io) {
        let origin = Origin::named("s", "x");
        let gone = Origin::script(|c| c.keep_answering(404, &[("X-Was", "404")], "gone"));
        let text = format!(
            "frontend f\n bind 127.0.0.1:{{port}}\n http-request set-var(txn.p) path\n http-response set-header X-Fe 1\n http-after-response set-header X-After 1\n \
             http-request deny if {{ path /deny }}\n http-request redirect location / if {{ path /away }}\n \
             http-request return status 503 if {{ path /busy }}\n use_backend gone if {{ path_beg /gone }}\n default_backend b\n\
             backend b\n http-response set-header X-Be 1\n http-response set-status 201 if {{ var(txn.p) -m str /made }}\n server s {origin}\n\
             backend gone\n http-response redirect location /moved if {{ var(txn.p) -m str /gone/r }}\n \
             http-response return status 200 content-type text/plain string fixed if {{ var(txn.p) -m str /gone/f }}\n \
             http-response deny deny_status 503\n server s {gone}\n"
        );
        let paths = ["/", "/made", "/deny", "/away", "/busy", "/gone", "/gone/r", "/gone/f"];
        agree(io, &text, &paths.map(Request::get));
    }

    fn rules_after_responses_have_all_their_actions(io: Io) {
        let origin = Origin::named("s", "x");
        let text = |counts: &str| format!(
            "frontend f\n bind 127.0.0.1:{{port}}\n http-request track-sc0 src table t\n http-request set-var(txn.p) path\n \
             http-request deny if {{ path /deny }}\n http-request return status 200 if {{ path /count }}\n \
             http-after-response set-var(txn.s) status\n http-after-response set-status 418 reason \"I am a teapot\" if {{ var(txn.s) -m int 403 }}\n \
             http-after-response set-header X-Was %[var(txn.s)]\n{counts} \
             http-after-response allow if {{ var(txn.p) -m str /b/1 }}\n http-after-response add-header X-Last f\n \
             default_backend b\nbackend b\n http-after-response add-header X-Last b\n http-after-response set-header X-Seen %[status]\n server s {origin}\n\
             backend t\n stick-table type ip size 10 store gpc0,gpt0\n"
        );
        let paths = ["/b/1", "/b/2", "/deny", "/count", "/other"];
        agree(io, &text(""), &paths.map(Request::get));
        // HAProxy 2.6 does not have these yet.
        let proxy = file(&text(
            " http-after-response sc-inc-gpc0(0) if { var(txn.p) -m beg /b }\n http-after-response sc-set-gpt0(0) 7 if { var(txn.p) -m str /b/2 }\n \
             http-after-response set-header X-Counted %[sc_get_gpc0(0)]-%[sc_get_gpt0(0)]\n",
        )).io(io).start();
        let counted = paths.map(|path| Client::connect(&proxy).get(path).header("x-counted").map(str::to_owned));
        assert_eq!(counted, ["1-0", "2-7", "2-7", "2-7", "2-7"].map(|value| Some(value.to_owned())));
    }

    fn quoted_words_of_log_lines_stay_in_their_quotes(io: Io) {
        let odd = Request::get("/a?b=[c]%22").header("User-Agent", "x\" 200 \"y\\\" z\u{e9}").header("X-Other", "a\tb#22 {c|d}");
        let line = |rival: bool| {
            let (log, at) = Syslog::open();
            let text = format!(
                "frontend f\n log 127.0.0.1:{at} local0\n bind 127.0.0.1:{{port}}\n capture request header User-Agent len 64\n capture request header X-Other len 64\n \
                 log-format \"- f 1 2 3 4 %{{+Q}}r %{{+Q}}hr %{{+Q}}[capture.req.hdr(1)] %{{+Q,+E}}[capture.req.hdr(0)] end\"\n http-request return status 200\n"
            );
            let proxy = if rival { file(&text).by_rival().start() } else { file(&text).io(io).start() };
            Client::connect(&proxy).request(&odd).expect_status(200);
            log.next("f")
        };
        let (ours, theirs) = (line(false), line(true));
        assert!(!ours.chars().any(char::is_control), "{ours:?}");
        // The request line and captured fields are spelt alike.
        let captured = |line: &str| line.split_once("}\"").map(|(before, _)| before.to_owned());
        assert_eq!(captured(&ours), captured(&theirs));
        // Expressions are HAProxy's own trap: it writes them as they came, and without `+E` a quote ends them.
        assert!(theirs.contains("\"a\tb#22 {c|d}\""), "{theirs:?}");
        assert!(ours.ends_with(r##" "a#09b#2322 #7Bc#7Cd#7D" "x#22 200 #22y\#22 z#C3#A9" end"##), "{ours:?}");
    }

    fn redirects_are_spelt_alike(io: Io) {
        let text = "frontend f\n bind 127.0.0.1:{port}\n http-request redirect prefix http://p.test append-slash drop-query if { path_beg /a }\n \
            http-request redirect prefix / code 307 if { path_beg /b }\n http-request redirect scheme https code 308 drop-query if { path_beg /c }\n \
            http-request redirect location /y set-cookie SEEN=1 if { path /d }\n http-request redirect location /y clear-cookie SEEN= if { path /e }\n \
            redirect prefix http://old.test code 301 if { path_beg /f }\n";
        let paths = ["/a?x=1", "/a/?x=1", "/b?q", "/c/d?q=1", "/d", "/e", "/f?g"];
        agree(io, text, &paths.map(|path| Request::get(path).host("www.test")));
    }

    fn conversions_give_what_haproxy_s_do(io: Io) {
        let origin = Origin::named("s", "x");
        let words = [
            "path,field(2,/)", "path,word(-1,/)", "path,regsub(a,<b>,g)", "path,sha1,hex", "path,base64", "path,length", "path,crc32",
            "req.hdr(x-n),add(5),mul(2)", "path,bytes(1,3)", "req.hdr(x-b),b64dec", "src,ipmask(24)", "path,url_dec", "path,ltrim(/),rtrim(d)",
            "path,sdbm", "path,djb2(1)", "path,wt6", "int(100),div(7)", "int(3),even", "req.hdr(x-n),neg",
            "hdr(host),host_only", "path,field(9,/)", "req.hdr(none),add(1)", "req.ver", "req.hdr_cnt(x-m)", "nbsrv(b)", "path,concat(<,txn.v,>)",
            "req.hdr(x-n),bool", "query,url_dec,field(1,&),upper",
        ];
        let rules: Vec<String> = words.iter().enumerate().map(|(at, word)| format!(" http-request set-header X-{at} \"[%[{word}]]\"\n")).collect();
        let text = |origin: &Origin| format!(
            "frontend f\n bind 127.0.0.1:{{port}}\n http-request set-var(txn.v) str(v)\n{} http-request set-header X-More yes if {{ req.hdr_cnt(x-m) gt 1 }} {{ path,length 10:20 }}\n \
             default_backend b\nbackend b\n server s {origin}\n", rules.concat()
        );
        let other = Origin::named("s", "x");
        let proxies = [file(&text(&origin)).io(io).start(), file(&text(&other)).by_rival().start()];
        let request = Request::get("/abc/a%20d/d?a=b%20c&z").host("www.test:80").header("X-N", "7").header("X-B", "aGVsbG8=").header("X-M", "1, 2");
        for proxy in &proxies {
            Client::connect(proxy).request(&request).expect_status(200);
        }
        let (ours, theirs) = (&origin.wait_for_requests(1)[0], &other.wait_for_requests(1)[0]);
        for (at, word) in words.iter().enumerate() {
            let name = format!("X-{at}");
            assert_eq!(ours.header(&name), theirs.header(&name), "{word}");
        }
        assert_eq!(ours.header("X-More"), Some("yes"));
    }

    fn cookies_stay_between_client_and_proxy(io: Io) {
        let (a, b) = (Origin::named("a", "x"), Origin::named("b", "x"));
        let (log, port) = Syslog::open();
        let text = format!(
            "frontend f\n option httplog\n log 127.0.0.1:{port} local0\n bind 127.0.0.1:{{port}}\n default_backend p\nbackend p\n \
             cookie SRV insert indirect nocache\n server a {a} cookie one\n server b {b} cookie two\n"
        );
        let tell = |proxy: &Running, cookie: &str| {
            let request = Request::get("/").header("Cookie", cookie);
            let said = told(&mut Client::connect(proxy), &request);
            (said, log.next("f").split(' ').nth(4).map(str::to_owned))
        };
        let [ours, theirs] = both(io, &text);
        for cookie in ["x=1", "SRV=two; x=1", "x=1; SRV=one", "SRV=gone"] {
            assert_eq!(tell(&ours, cookie), tell(&theirs, cookie), "{cookie}");
        }
        let seen: Vec<_> = b.requests().iter().map(|r| r.header("Cookie").map(str::to_owned)).collect();
        assert!(seen.iter().flatten().all(|cookie| !cookie.contains("SRV")), "{seen:?}");
    }

    fn only_what_retry_on_names_is_tried_again(io: Io) {
        let closes = || Origin::script(|c| c.expect("GET *").close());
        let dead = Port::lease();
        let (log, port) = Syslog::open();
        let text = |origin: &Origin| format!(
            "frontend f\n option httplog\n log 127.0.0.1:{port} local0\n bind 127.0.0.1:{{port}}\n use_backend moved if {{ path /moved }}\n \
             default_backend p\nbackend p\n server a {origin}\nbackend moved\n retries 1\n option redispatch\n server dead 127.0.0.1:{dead}\n server a {origin}\n"
        );
        let (first, second) = (closes(), closes());
        let proxies = [file(&text(&first)).io(io).start(), file(&text(&second)).by_rival().start()];
        let lines = proxies.each_ref().map(|proxy| {
            Client::connect(proxy).get("/").expect_status(502);
            log.next("f")
        });
        assert_eq!(lines[0], lines[1]);
        assert_eq!((first.connections(), second.connections()), (1, 1));
        let lines = proxies.each_ref().map(|proxy| {
            Client::connect(proxy).get("/moved").expect_status(502);
            log.next("f")
        });
        assert_eq!(lines[0], lines[1]);
        assert!(lines[0].contains("/+1 "), "{}", lines[0]);
    }

    fn a_full_server_s_queue_moves_on(io: Io) {
        let gate = weir_testkit::Gate::new();
        let origin = Origin::sequence([
            weir_testkit::Script::new().expect("GET /first").wait_for(&gate).respond(200, "one").close(),
            weir_testkit::Script::new().expect("GET /second").respond(200, "two").close(),
        ]);
        let text = format!(
            "frontend f\n bind 127.0.0.1:{{port}}\n default_backend p\nbackend p\n option http-server-close\n timeout queue 4s\n \
             server a {origin} maxconn 1\n"
        );
        let proxy = file(&text).io(io).start();
        let mut first = Client::connect(&proxy);
        first.send(Request::get("/first").bytes());
        origin.wait_for_connections(1);
        let mut second = Client::connect(&proxy);
        second.send(Request::get("/second").bytes());
        second.expect_silence(Duration::from_millis(50));
        gate.open();
        first.read().expect_body("one");
        second.read().expect_body("two");
    }

    fn a_frontend_s_bound_holds(io: Io) {
        let origin = Origin::named("a", "x");
        let text = format!("frontend f\n bind 127.0.0.1:{{port}}\n maxconn 1\n option http-keep-alive\n default_backend p\nbackend p\n server a {origin}\n");
        let proxy = file(&text).io(io).start();
        let mut first = Client::connect(&proxy);
        first.get("/").expect_status(200);
        let mut second = Client::connect(&proxy);
        second.send(Request::get("/").bytes());
        second.expect_silence(Duration::from_millis(100));
        drop(first);
        second.read().expect_status(200);
    }

    fn httpclose_closes_clients_too(io: Io) {
        let origin = Origin::named("a", "x");
        let text = format!("frontend f\n bind 127.0.0.1:{{port}}\n option httpclose\n default_backend p\nbackend p\n server a {origin}\n");
        let proxy = file(&text).io(io).start();
        let mut client = Client::connect(&proxy);
        client.get("/").expect_header("Connection", "close");
        client.expect_closed();
    }

    fn server_names_choose_without_ending_tls(io: Io) {
        let (one, two) = (Certificate::p256(&["one.test"]), Certificate::p256(&["two.test"]));
        let answer = |cert: &Certificate, body: &'static str| Origin::tls(cert, move |c| c.keep_answering(200, &[], body));
        let (first, second) = (answer(&one, "one"), answer(&two, "two"));
        let plain = Origin::named("plain", "plain");
        let text = format!(
            "frontend f\n mode tcp\n bind 127.0.0.1:{{port}}\n tcp-request inspect-delay 2s\n tcp-request content accept if {{ req_ssl_hello_type 1 }}\n \
             use_backend one if {{ req_ssl_sni -i one.test }}\n use_backend two if {{ req.ssl_sni -m end .test }}\n default_backend plain\n\
             backend one\n mode tcp\n server s {first}\nbackend two\n mode tcp\n server s {second}\nbackend plain\n mode tcp\n server s {plain}\n"
        );
        for proxy in both(io, &text) {
            let ask = |cert: &Certificate, name: &str| {
                let options = TlsOptions::trusting(cert).name(name);
                Client::tls(&proxy, &options).get("/").text()
            };
            assert_eq!(ask(&one, "one.test"), "one");
            assert_eq!(ask(&two, "two.test"), "two");
            assert_eq!(Client::connect(&proxy).get("/").text(), "plain");
        }
    }

    fn targets_are_normalised_alike(io: Io) {
        // No conditions: HAProxy 2.6 takes a normalizer without its option for `path-merge-slashes` where one follows.
        let rules = [
            "path-merge-slashes", "path-strip-dot", "path-strip-dotdot", "path-strip-dotdot full", "percent-decode-unreserved",
            "percent-decode-unreserved strict", "percent-to-uppercase", "percent-to-uppercase strict", "query-sort-by-name",
        ];
        let paths = [
            "/", "/.", "/..", "/a/b", "/a//b///c/", "/./a/./b/.", "/a/../b", "/../../a/..", "/a/b/../../../c", "/..a/..b/...", "/a/..", "//..//",
            "/a//../b", "/final/../final", "/%66inal", "/%2f%2F%7e%41%zz", "/a%", "/a%4", "/x?%7e=%c3%A9&a", "/%2e%2e/a", "/q?b=2&a=1&b=1&ab=3&a",
            "/q?&&b&a=", "/q?a=2&A=1&%61=3", "/raw/../x",
        ];
        for rule in rules {
            let text = format!(
                "global\n nbthread 1\n expose-experimental-directives\n{DEFAULTS}frontend f\n bind 127.0.0.1:{{port}}\n \
                 http-request deny if {{ path /raw/../x }}\n http-request normalize-uri {rule}\n \
                 http-request redirect location /to code 302 if {{ path /final }}\n \
                 http-request return status 200 hdr X-Was \"%[path]|%[query]|%[url]\"\n"
            );
            let [ours, theirs] = [Proxy::haproxy(&text).io(io).start(), Proxy::haproxy(&text).by_rival().start()];
            for path in paths {
                let tell = |proxy: &Running| told(&mut Client::connect(proxy), &Request::get(path));
                assert_eq!(tell(&ours), tell(&theirs), "{rule}: {path}");
            }
        }
    }

    fn client_certificates_are_shown_alike(io: Io) {
        let site = Certificate::p256(&["a.test"]);
        let member = Certificate::signed_by_authority(&["member"], true);
        // Bytes as such are left out: HAProxy 2.6 puts them raw into what must be text. So are bits of keys: which suite of
        // TLS 1.3 is taken is each server's own choice.
        let words = [
            "ssl_c_used", "ssl_c_verify", "ssl_c_err", "ssl_c_ca_err", "ssl_c_ca_err_depth", "ssl_c_s_dn", "ssl_c_i_dn", "ssl_c_s_dn(CN)",
            "ssl_c_s_dn(cn,-1)", "ssl_c_i_dn(cn,2)", "ssl_c_i_dn('',0,rfc2253)", "ssl_c_serial,hex,lower", "ssl_c_sha1,hex", "ssl_c_notbefore",
            "ssl_c_notafter", "ssl_c_key_alg", "ssl_c_sig_alg", "ssl_c_version", "ssl_c_der,sha1,hex", "ssl_c_der,base64,length",
            "ssl_c_sha1,bytes(0,3),hex", "ssl_fc_has_crt", "ssl_fc_sni",
        ];
        let shown: String = words.iter().map(|word| format!("%[{word}]|")).collect();
        let text = format!(
            "frontend f\n bind 127.0.0.1:{{port}} ssl crt {{dir}}/a.pem ca-file {{dir}}/ca.pem verify optional\n \
             http-request set-header X-Was \"{shown}\"\n http-request deny deny_status 410 if {{ ssl_c_verify 0 }} {{ ssl_c_used }} {{ path /ok }}\n \
             http-request deny deny_status 404 if {{ ssl_c_version 3 }} {{ path /v3 }}\n \
             http-request deny deny_status 413 if {{ ssl_c_s_dn -m found }} {{ path /found }}\n \
             http-request deny deny_status 429 if {{ ssl_c_s_dn(cn) -m str rcgen }} {{ path /cn }}\n \
             http-request deny deny_status 422 if {{ ssl_c_sig_alg -m sub ecdsa }} {{ path /alg }}\n \
             http-request deny deny_status 503 unless {{ ssl_c_verify 0 }}\n \
             http-request return status 200 hdr X-Was \"{shown}\"\n"
        );
        let start = |proxy: Proxy| proxy.file("a.pem", site.bundle_pem()).file("ca.pem", member.root_pem());
        let [ours, theirs] = [start(file(&text)).io(io).start(), start(file(&text)).by_rival().start()];
        let plain = TlsOptions::trusting(&site).name("a.test");
        let options = [plain.clone(), plain.clone().identity(&member), plain.only_tls12().identity(&member)];
        for options in &options {
            for path in ["/", "/ok", "/v3", "/found", "/cn", "/alg", "/bad"] {
                let tell = |proxy: &Running| told(&mut Client::tls(proxy, options), &Request::get(path));
                assert_eq!(tell(&ours), tell(&theirs), "{path}");
            }
        }
    }

    fn metrics_have_the_names_and_labels_of_its_exporter(io: Io) {
        let origin = Origin::named("a", "x");
        let text = format!(
            "frontend f\n bind 127.0.0.1:{{port}}\n http-request use-service prometheus-exporter if {{ path /metrics }}\n \
             default_backend b\nbackend b\n server up {origin}\n server out {origin} disabled\n"
        );
        let [ours, theirs] = both(io, &text);
        let series = |proxy: &Running, query: &str| -> std::collections::BTreeSet<String> {
            Client::connect(proxy).get("/").expect_status(200);
            let text = Client::connect(proxy).get(&format!("/metrics{query}")).expect_status(200).text();
            let lines = text.lines().filter(|line| line.starts_with("haproxy_"));
            lines.filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect()
        };
        for query in ["", "?scope=frontend&scope=server", "?scope=server&no-maint", "?scope=global", "?scope="] {
            let (mine, known) = (series(&ours, query), series(&theirs, query));
            let invented: Vec<&String> =
                mine.difference(&known).filter(|name| !name.starts_with("haproxy_process_build_info")).collect();
            assert!(invented.is_empty(), "{query}: {invented:?}");
            // Of the process those that Weir has nothing like are left out; of all else nothing is.
            let missing: Vec<&String> =
                known.difference(&mine).filter(|name| !name.starts_with("haproxy_process_")).collect();
            assert!(missing.is_empty(), "{query}: {missing:?}");
        }
        let value = |proxy: &Running, name: &str| {
            let text = Client::connect(proxy).get("/metrics").text();
            text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned())).unwrap_or_default()
        };
        for name in [
            "haproxy_server_status{proxy=\"b\",server=\"out\",state=\"MAINT\"}",
            "haproxy_server_status{proxy=\"b\",server=\"up\",state=\"UP\"}",
            "haproxy_backend_status{proxy=\"b\",state=\"UP\"}",
            "haproxy_backend_active_servers{proxy=\"b\"}",
            "haproxy_backend_http_responses_total{proxy=\"b\",code=\"2xx\"}",
        ] {
            assert_eq!(value(&ours, name), value(&theirs, name), "{name}");
        }
        assert_eq!(Client::connect(&ours).get("/metrics?scope=nonsense").status, 400);
        assert!(Client::connect(&ours).get("/metrics").text().contains("weir_"));
    }

    fn tcp_rules_turn_clients_away(io: Io) {
        let origin = Origin::named("a", "x");
        let text = format!(
            "frontend f\n mode tcp\n bind 127.0.0.1:{{port}}\n tcp-request inspect-delay 1s\n tcp-request content reject if !{{ req_ssl_hello_type 1 }}\n \
             default_backend p\nbackend p\n mode tcp\n server a {origin}\n\
             frontend g\n mode tcp\n bind 127.0.0.1:{{port_two}}\n tcp-request connection reject if {{ src 127.0.0.0/8 }}\n default_backend p\n"
        );
        let other = Port::lease();
        let proxy = file(&text).port("port_two", &other).io(io).start();
        let mut client = Client::connect(&proxy);
        client.send(Request::get("/").bytes());
        client.expect_closed();
        Client::connect(proxy.port_of("port_two")).expect_closed();
        assert_eq!(origin.connections(), 0);
    }
}

#[test]
fn a_mistake_is_told_and_ends_the_start() {
    let text = "global\ndefaults\n mode http\nfrontend f\n bind 127.0.0.1:{port}\n http-request lua.x\n default_backend nowhere\n";
    let (code, said) = Proxy::haproxy(text).once(&["haproxy", "-db", "-f"]);
    assert!(!said.contains("panicked"), "{said}");
    assert_eq!(code, 1, "{said}");
}
