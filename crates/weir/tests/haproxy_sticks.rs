//! Stick tables: the same rules and requests to Weir and to Debian's haproxy, the same counts and the same refusals.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::{Duration, Instant};

use weir_testkit::{Client, Io, Origin, Proxy, Request, Running, both_drivers, console, tcp};

const DEFAULTS: &str =
    "defaults\n mode http\n timeout connect 5s\n timeout client 20s\n timeout server 20s\n";

fn file(text: &str) -> Proxy {
    Proxy::haproxy(&format!("global\n nbthread 1\n{DEFAULTS}{text}"))
}

fn both(io: Io, text: &str) -> [Running; 2] {
    [file(text).io(io).start(), file(text).by_rival().start()]
}

/// Status and the field that shows counters.
fn told(client: &mut Client, request: &Request) -> String {
    let answer = client.request(request);
    format!("{} {}", answer.status, answer.header("X").unwrap_or("-"))
}

/// Both answer alike; each inner list is a connection of its own, whose requests follow one another.
fn agree(io: Io, text: &str, connections: &[&[Request]]) -> Vec<String> {
    let proxies = both(io, text);
    let [ours, theirs] = proxies.each_ref().map(|proxy| -> Vec<String> {
        let one = |requests: &&[Request]| {
            let mut client = Client::connect(proxy);
            requests.iter().map(|request| told(&mut client, request)).collect::<Vec<_>>()
        };
        connections.iter().flat_map(one).collect()
    });
    assert_eq!(ours, theirs, "{text}");
    ours
}

fn gets(paths: &[&str]) -> Vec<Request> {
    paths.iter().map(|path| Request::get(path)).collect()
}

/// Waits until something holds.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An answer that shows samples.
fn shows(samples: &[&str]) -> String {
    let shown: Vec<String> = samples.iter().map(|sample| format!("%[{sample}]")).collect();
    format!(" http-request return status 200 hdr X {}\n", shown.join("|"))
}

both_drivers! {
    fn requests_beyond_a_rate_are_refused(io: Io) {
        let text = format!(
            "frontend f\n bind 127.0.0.1:{{port}}\n http-request track-sc0 src table st\n \
             http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 3 }}\n{}\
             backend st\n stick-table type ip size 100k expire 10m store http_req_rate(10m),http_req_cnt,http_err_cnt,conn_cnt,conn_cur,sess_cnt\n",
            shows(&["sc_http_req_cnt(0)", "sc0_conn_cnt", "sc_conn_cur(0)", "sc_sess_cnt(0)", "sc_http_err_cnt(0)", "sc_tracked(0)", "sc_tracked(1)",
                "sc1_conn_cnt", "src_http_req_rate(st)", "table_cnt(st)", "table_avl(st)", "sc_trackers(0)", "sc_gpc0_rate(0)"]),
        );
        let five = gets(&["/1", "/2", "/3", "/4", "/5"]);
        let told = agree(io, &text, &[&five]);
        assert!(told[2].starts_with("200 3|3|1|0|0|1|0||3|1|"), "{told:?}");
        assert!(told[3].starts_with("429"), "{told:?}");
    }

    fn a_connection_s_counters_count_its_requests(io: Io) {
        let samples = shows(&["sc_conn_cnt(0)", "sc_sess_cnt(0)", "sc_http_req_cnt(0)", "sc_get_gpc0(0)", "sc_get_gpt0(0)",
            "sc_conn_cnt(1)", "sc_http_req_cnt(1)", "sc_conn_cnt(2)", "sc_http_req_cnt(2)"]);
        let text = format!(
            "frontend f\n bind 127.0.0.1:{{port}}\n stick-table type ip size 10 store conn_cnt,sess_cnt,conn_cur,http_req_cnt,gpc0,gpt0\n \
             tcp-request connection track-sc0 src\n tcp-request connection sc-inc-gpc0(0)\n tcp-request session sc-set-gpt0(0) 7\n \
             tcp-request session track-sc1 src table s\n tcp-request inspect-delay 5s\n tcp-request content track-sc2 src table c\n{samples}\
             backend s\n stick-table type ip size 10 store conn_cnt,http_req_cnt\nbackend c\n stick-table type ip size 10 store conn_cnt,http_req_cnt\n"
        );
        let two = gets(&["/", "/"]);
        let told = agree(io, &text, &[&two, &two]);
        assert_eq!(told, ["200 1|1|1|1|7|1|1|1|1", "200 1|1|2|1|7|1|2|2|2", "200 2|2|3|2|7|2|3|3|3", "200 2|2|4|2|7|2|4|4|4"]);
    }

    fn connections_that_are_open_are_counted(io: Io) {
        // One connection alone: when another would be known to be closed, nobody can tell.
        let text = format!(
            "frontend f
 bind 127.0.0.1:{{port}}
 stick-table type ip size 10 store conn_cur
 tcp-request connection track-sc0 src
{}",
            shows(&["sc_conn_cur(0)", "src_conn_cur"])
        );
        assert_eq!(agree(io, &text, &[&gets(&["/", "/"])]), ["200 1|1", "200 1|1"]);
    }

    fn errors_of_clients_and_failures_of_servers_count(io: Io) {
        let gone = Origin::script(|c| c.keep_answering(404, &[], "gone"));
        let broken = Origin::script(|c| c.keep_answering(503, &[], "broken"));
        let fine = Origin::named("s", "x");
        let text = format!(
            "frontend f\n bind 127.0.0.1:{{port}}\n stick-table type ip size 10 store http_err_cnt,http_fail_cnt,http_req_cnt,http_err_rate(1h),http_fail_rate(1h)\n \
             http-request track-sc0 src\n http-request deny if {{ path /deny }}\n http-request auth if {{ path /auth }}\n \
             http-request return status 404 if {{ path /own }}\n http-request redirect location / if {{ path /away }}\n{}\
             use_backend gone if {{ path /gone }}\n use_backend broken if {{ path /broken }}\n default_backend fine\n\
             backend gone\n server s {gone}\nbackend broken\n server s {broken}\nbackend fine\n server s {fine}\n",
            shows(&["sc_http_err_cnt(0)", "sc_http_fail_cnt(0)", "sc_http_req_cnt(0)", "src_http_err_rate", "src_http_fail_rate"]).trim_end().to_owned()
                + " if { path /show }\n",
        );
        let requests = gets(&["/show", "/gone", "/show", "/broken", "/show", "/deny", "/show", "/auth", "/show", "/own", "/show", "/away", "/show", "/", "/show"]);
        let each: Vec<&[Request]> = requests.chunks(1).collect();
        agree(io, &text, &each);
    }

    fn what_is_no_request_counts_for_its_connection(io: Io) {
        let text = format!(
            "frontend f\n bind 127.0.0.1:{{port}}\n stick-table type ip size 10 store http_err_cnt,http_req_cnt\n tcp-request connection track-sc0 src\n{}",
            shows(&["sc_http_err_cnt(0)", "sc_http_req_cnt(0)"]),
        );
        for proxy in both(io, &text) {
            let mut bad = Client::connect(&proxy);
            bad.send("GET / HTTP/1.1\r\nHost: a\r\nBad Name: x\r\n\r\n");
            bad.read_to_end();
            let mut count = 0;
            eventually("the bad request counts", || {
                count += 1;
                told(&mut Client::connect(&proxy), &Request::get("/")) == format!("200 1|{}", count + 1)
            });
        }
    }

    fn keys_are_cast_to_the_type_of_their_table(io: Io) {
        let text = format!(
            "frontend f\n bind 127.0.0.1:{{port}}\n \
             http-request track-sc0 hdr(x-key) table text\n http-request track-sc1 url_param(n) table number\n http-request track-sc2 hdr(x-ip) table six\n{}\
             backend text\n stick-table type string len 4 size 10 store http_req_cnt\n\
             backend number\n stick-table type integer size 10 store http_req_cnt,gpc0\n\
             backend six\n stick-table type ipv6 size 10 store http_req_cnt\n",
            shows(&["sc_http_req_cnt(0)", "sc_tracked(0)", "sc_http_req_cnt(1)", "sc_http_req_cnt(2)", "hdr(x-key),table_http_req_cnt(text)",
                "str(abcd),in_table(text)", "int(7),in_table(number)", "int(8),table_http_req_cnt(number)", "int(7),table_conn_cnt(number)",
                "sc_http_req_cnt(0,text)", "hdr(x-ip),in_table(six)"]),
        );
        let requests = [
            Request::get("/"),
            Request::get("/?n=7").header("X-Key", "abcdef").header("X-Ip", "2001:db8::1"),
            Request::get("/?n=7").header("X-Key", "abcdxy").header("X-Ip", "2001:db8:0::1"),
            Request::get("/?n=x").header("X-Key", "ab").header("X-Ip", "none"),
        ];
        let told = agree(io, &text, &[&requests]);
        assert!(told[0].starts_with("200 |0|"), "nothing is tracked without a key: {told:?}");
        assert!(told[2].starts_with("200 2|1|2|2|2|1|1|0|"), "{told:?}");
    }

    fn rules_change_what_is_tracked(io: Io) {
        let text = format!(
            "frontend f\n bind 127.0.0.1:{{port}}\n stick-table type ip size 10 store gpc(3),gpt(2),gpc_rate(1,1h)\n http-request track-sc0 src\n \
             http-request sc-inc-gpc(0,0) if {{ path /count }}\n http-request sc-inc-gpc(2,0) if {{ path /count }}\n http-request sc-set-gpt(1,0) 42 if {{ path /note }}\n \
             http-request sc-set-gpt(0,0) req.hdr(x-n) if {{ path /note }}\n http-request deny deny_status 401 if {{ path /inc }} {{ sc_inc_gpc(1,0) gt 2 }}\n \
             http-request deny deny_status 403 if {{ path /src }} {{ src_inc_gpc(2,f) gt 1 }}\n http-request deny deny_status 410 if {{ path /clear }} {{ src_clr_gpc(0,f) gt 0 }}\n{}",
            shows(&["sc_get_gpc(0,0)", "sc_get_gpc(1,0)", "src_get_gpc(2,f)", "sc_get_gpt(0,0)", "src_get_gpt(1,f)", "sc_gpc_rate(0,0)", "sc_get_gpc0(0)", "sc_get_gpc(9,0)",
                "src,table_gpc(0,f)", "src,table_gpt(1,f)"]),
        );
        let mut requests = gets(&["/", "/count", "/inc", "/inc", "/inc", "/src", "/clear", "/clear", "/count"]);
        requests.push(Request::get("/note").header("X-N", "5"));
        agree(io, &text, &[&requests]);
    }

    fn the_oldest_goes_where_a_table_is_full_unless_it_must_stay(io: Io) {
        for (nopurge, last) in [("", "1"), (" nopurge", "")] {
            let text = format!(
                "frontend f\n bind 127.0.0.1:{{port}}\n http-request track-sc0 url_param(k) table t\n{}\
                 backend t\n stick-table type string len 8 size 2 expire 1h{nopurge} store http_req_cnt\n",
                shows(&["sc_http_req_cnt(0)", "str(a),in_table(t)", "str(b),in_table(t)"]),
            );
            let each = gets(&["/?k=a", "/?k=b", "/?k=c"]);
            let told = agree(io, &text, &[&each]);
            assert!(told[2].starts_with(&format!("200 {last}|")), "{told:?}");
        }
    }

    fn an_entry_that_nobody_uses_expires(io: Io) {
        let text = format!(
            "frontend f\n bind 127.0.0.1:{{port}}\n http-request track-sc0 src table t if {{ path /track }}\n{}\
             backend t\n stick-table type ip size 2 expire 300ms store http_req_cnt\n",
            shows(&["src_http_req_cnt(t)", "src,in_table(t)"]),
        );
        for proxy in both(io, &text) {
            assert_eq!(told(&mut Client::connect(&proxy), &Request::get("/track")), "200 1|1");
            eventually("it expires", || told(&mut Client::connect(&proxy), &Request::get("/")) == "200 0|0");
        }
    }

    fn bytes_count_as_they_pass(io: Io) {
        let origin = Origin::named("s", vec![b'x'; 5000]);
        let text = format!(
            "frontend f\n bind 127.0.0.1:{{port}}\n stick-table type ip size 2 store bytes_in_rate(1h),bytes_out_rate(1h),bytes_out_cnt\n \
             http-request track-sc0 src if {{ path / }}\n{} if {{ path /show }}\n default_backend b\nbackend b\n server s {origin}\n",
            shows(&["src_bytes_in_rate", "src_bytes_out_rate", "src_kbytes_out"]).trim_end(),
        );
        for proxy in both(io, &text) {
            Client::connect(&proxy).request(&Request::post("/", vec![b'y'; 3000])).expect_status(200);
            eventually("the bytes count", || {
                let shown = told(&mut Client::connect(&proxy), &Request::get("/show"));
                let numbers: Vec<u64> = shown[4..].split('|').filter_map(|n| n.parse().ok()).collect();
                // The heads are written a little differently.
                matches!(numbers[..], [3001..=3400, 5001..=5400, 4 | 5])
            });
        }
    }

    fn sessions_of_mode_tcp_are_bounded(io: Io) {
        let echo = tcp::echo();
        let text = format!(
            "listen l\n mode tcp\n bind 127.0.0.1:{{port}}\n stick-table type ip size 10 expire 1h store conn_cur,conn_rate(1h),gpc0\n \
             tcp-request connection track-sc0 src\n tcp-request connection reject if {{ sc0_conn_cur gt 2 }}\n server s {echo}\n"
        );
        for proxy in both(io, &text) {
            let mut held: Vec<Client> = (0..2).map(|_| Client::connect(&proxy)).collect();
            for client in &mut held {
                assert_eq!(client.send("ping").read_exactly(4), b"ping");
            }
            let is_served = || {
                // What is turned away at once may be gone before it is looked at.
                let Ok(mut client) = Client::try_connect(&proxy) else { return false };
                client.try_send("ping").is_ok() && client.half_close().read_to_end().0 == b"ping"
            };
            assert!(!is_served());
            drop(held.pop());
            eventually("one more is let in", is_served);
        }
    }

    fn sessions_of_mode_tcp_beyond_a_rate_are_closed(io: Io) {
        let echo = tcp::echo();
        let text = format!(
            "frontend f\n mode tcp\n bind 127.0.0.1:{{port}}\n tcp-request inspect-delay 5s\n tcp-request content track-sc1 src table t\n \
             tcp-request content reject if {{ sc_conn_rate(1) gt 2 }}\n default_backend b\n\
             backend b\n mode tcp\n server s {echo}\n\
             backend t\n stick-table type ip size 10 expire 1h store conn_rate(1h)\n"
        );
        for proxy in both(io, &text) {
            for _ in 0..2 {
                let mut client = Client::connect(&proxy);
                assert_eq!(client.send("ping").read_exactly(4), b"ping");
            }
            let mut third = Client::connect(&proxy);
            let _ = third.try_send("ping");
            assert_eq!(third.read_to_end().0, b"");
        }
    }

    fn entries_outlive_a_reload_as_long_as_their_table_stays_the_same(io: Io) {
        let text = |store: &str| {
            let shown = shows(&["sc_http_req_cnt(0)"]);
            format!(
                "global\n nbthread 1\n{DEFAULTS}frontend f\n bind 127.0.0.1:{{port}}\n http-request track-sc0 src table t\n{shown}\
                 backend t\n stick-table type ip size 10 expire 1h store {store}\n"
            )
        };
        let mut proxy = Proxy::haproxy(&text("http_req_cnt")).io(io).start();
        let told = |proxy: &Running| told(&mut Client::connect(proxy), &Request::get("/"));
        assert_eq!(told(&proxy), "200 1");
        proxy.reload_same();
        assert_eq!(told(&proxy), "200 2");
        proxy.reload(&text("http_req_cnt,conn_cnt"));
        assert_eq!(told(&proxy), "200 1", "another table");
    }
}

both_drivers! {
    fn keys_stay_at_their_server(io: Io) {
        let (a, b) = (Origin::named("a", "from a"), Origin::named("b", "from b"));
        let text = format!(
            "frontend f\n bind 127.0.0.1:{{port}}\n default_backend k\n\
             backend k\n stick-table type string len 16 size 100 expire 1h\n stick match url_param(k)\n stick on req.hdr(x-key) if {{ path_beg /on }}\n \
             stick store-request req.hdr(x-learn)\n stick store-response res.hdr(server) table sid if {{ status 200 }}\n \
             server a {a}\n server b {b}\n\
             backend sid\n stick-table type string len 16 size 100\n"
        );
        for proxy in both(io, &text) {
            let ask = |request: &Request| Client::connect(&proxy).request(request).body;
            let on = |key: &str| Request::get("/on").header("X-Key", key);
            let first = ask(&on("one"));
            // Turns go on with others, and come back to it.
            let others: Vec<Vec<u8>> = (0..3).map(|n| ask(&on(&format!("other{n}")))).collect();
            assert!(others.iter().any(|other| *other != first), "both serve");
            for _ in 0..3 {
                assert_eq!(ask(&on("one")), first);
            }
            let learnt = ask(&Request::get("/").header("X-Learn", "two"));
            for _ in 0..3 {
                assert_eq!(ask(&Request::get("/?k=two")), learnt, "what one rule learns another matches");
                assert_eq!(ask(&Request::get("/?k=one")), first);
            }
            // A rule whose condition does not hold neither knows nor learns.
            let free: Vec<Vec<u8>> = (0..4).map(|_| ask(&Request::get("/off").header("X-Key", "one"))).collect();
            assert!(free.iter().any(|other| *other != first));
        }
    }

    fn a_server_that_is_down_is_forgotten_for_the_one_that_serves(io: Io) {
        let (a, b) = (Origin::named("a", "from a"), Origin::named("b", "from b"));
        let text = format!(
            "global\n nbthread 1\n stats socket {{dir}}/cli.sock level admin\n{DEFAULTS}\
             frontend f\n bind 127.0.0.1:{{port}}\n default_backend k\n\
             backend k\n stick-table type ip size 100 expire 1h\n stick on src\n server a {a} id 7\n server b {b} non-stick\n"
        );
        for proxy in [Proxy::haproxy(&text).io(io).start(), Proxy::haproxy(&text).by_rival().start()] {
            let get = || Client::connect(&proxy).request(&Request::get("/")).body;
            eventually("the first server is learnt", || get() == b"from a" && ask(&proxy, "show table k").contains("server_id=7"));
            assert!((0..3).all(|_| get() == b"from a"));
            ask(&proxy, "set server k/a state maint");
            eventually("the other serves", || get() == b"from b");
            ask(&proxy, "set server k/a state ready");
            eventually("a server that is not learnt leaves the entry as it was", || get() == b"from a");
            assert!((0..3).all(|_| get() == b"from a"));
        }
    }

    fn sessions_of_mode_tcp_stay_at_their_server(io: Io) {
        let (a, b) = (tcp::named_echo("a"), tcp::named_echo("b"));
        let text = format!(
            "listen l\n mode tcp\n bind 127.0.0.1:{{port}}\n stick-table type ip size 100 expire 1h\n stick on src\n server a {a}\n server b {b}\n"
        );
        for proxy in both(io, &text) {
            let served = || {
                let mut client = Client::connect(&proxy);
                client.send("ping").half_close().read_to_end().0
            };
            let first = served();
            assert!(!first.is_empty() && (0..4).all(|_| served() == first));
        }
    }
}

/// What the runtime command line answers, without numbers of entries and times.
fn ask(proxy: &Running, command: &str) -> String {
    let answer = console::ask(proxy, command);
    let word = |word: &str| match word.split_once('=') {
        Some(("exp", "0")) => word.to_owned(),
        Some(("exp", _)) => "exp".to_owned(),
        _ if word.starts_with("0x") => "0x".to_owned(),
        _ => word.to_owned(),
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    answer.trim_end().lines().map(line).collect::<Vec<_>>().join("\n")
}

both_drivers! {
    fn commands_show_and_change_entries(io: Io) {
        let text = format!(
            "global\n nbthread 1\n stats socket {{dir}}/cli.sock level admin\n{DEFAULTS}\
             frontend f\n bind 127.0.0.1:{{port}}\n http-request track-sc0 src table st\n http-request track-sc1 path table tx\n http-request track-sc2 url_param(n) table nn\n{}\
             backend st\n stick-table type ip size 100k expire 1h store http_req_rate(1h),gpc0,http_req_cnt,conn_cur,conn_cnt,gpc1,http_fail_cnt,http_err_cnt,sess_cnt,gpc0_rate(5s),gpt0,bytes_out_rate(1m)\n\
             backend tx\n stick-table type string len 20 size 5 store gpc_rate(2,10s),gpc(2),gpt(1)\n\
             backend nn\n stick-table type integer size 1m nopurge expire 1h store gpc1\n\
             backend b\n stick-table type binary len 4 size 10\nbackend s6\n stick-table type ipv6 size 1k expire 10m store conn_cnt\n",
            shows(&["sc_get_gpc0(0)", "sc_http_req_rate(0)", "sc_get_gpt0(0)"]),
        );
        let proxies = [Proxy::haproxy(&text).io(io).start(), Proxy::haproxy(&text).by_rival().start()];
        let agree = |command: &str| {
            let [ours, theirs] = proxies.each_ref().map(|proxy| ask(proxy, command));
            assert_eq!(ours, theirs, "{command}");
            ours
        };
        for proxy in &proxies {
            let mut client = Client::connect(proxy);
            for target in ["/a%20b=c?n=7", "/b?n=300"] {
                client.request(&Request::get(target)).expect_status(200);
            }
            drop(client);
            eventually("the requests are over", || ask(proxy, "show table st").contains("use=0"));
        }
        for command in [
            "show table none", "show table tx", "show table nn", "show table tx key /b", "show table tx key /c", "show table tx key", "show table tx foo",
            "show table b key aa", "show table st data.gpc1 gt 5", "show table st data.http_fail_rate gt 5", "show table st data.nope gt 5", "show table st data.http_req_cnt xx 5",
            "show table st data.http_req_cnt gt x", "show table st data.http_req_cnt gt", "show table st data.http_req_cnt gt 1 data.conn_cnt",
            "show table st data.http_req_cnt gt 1 data.gpc0 eq 1", "show table st data.http_req_cnt gt 1 xdata.gpc0", "show table tx data.gpc gt 1",
            "set table", "set table st key", "set table st key 1.2.3.4 data.gpc0", "set table st key 1.2.3.4 data.gpc5 4", "set table st key 1.2.3.4 data.http_fail_rate 4",
            "set table st key 1.2.3.4 foo 4", "clear table st key 1.2.3.4", "set table s6 key x", "set table s6 key ::1 data.conn_cnt 7", "show table s6", "set table nn key 12 data.gpc1 3",
            "set table nn key x", "show table nn data.gpc1 eq 3", "show table nn data.gpc1 ne 3", "set table tx key aa data.gpt 5", "set table tx key zz data.gpc 5",
            "show table tx data.gpt gt 0", "show table tx", "clear table tx data.gpt gt 0", "show table tx", "clear table", "clear table st foo", "clear table none",
            "clear table tx key /b", "clear table tx key /b", "show table tx", "clear table tx", "show table tx", "set table b key ab", "clear table b key ab",
            "operator;clear table s6;show table s6", "user;show table s6", "user;set table s6 key ::3;show table s6",
        ] {
            agree(command);
        }
        agree("set table st key 127.0.0.1 data.gpc0 5 data.http_req_rate 9 data.gpt0 3");
        for proxy in &proxies {
            assert_eq!(told(&mut Client::connect(proxy), &Request::get("/")), "200 5|10|3");
            let shown = ask(proxy, "show table st data.gpc0 ge 5 data.http_req_rate gt 8");
            assert!(shown.contains(" http_req_cnt=3 http_req_rate(3600000)=10 http_err_cnt=0 "), "{shown}");
            assert!(!ask(proxy, "show table st data.gpc0 gt 5").contains("key="));
        }
        // Tables without their bytes, which differ a little.
        let shown = |proxy: &Running| ask(proxy, "show table st").split(" bytes_out").next().unwrap_or_default().to_owned();
        for proxy in &proxies {
            eventually("the request is over", || shown(proxy).contains("use=0"));
        }
        assert_eq!(shown(&proxies[0]), shown(&proxies[1]));
        let sorted = |proxy: &Running| {
            let mut lines: Vec<String> = ask(proxy, "show table").lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&proxies[0]), sorted(&proxies[1]));
    }

    fn an_entry_in_use_stays(io: Io) {
        let echo = tcp::echo();
        let text = format!(
            "global\n nbthread 1\n stats socket {{dir}}/cli.sock level admin\n{DEFAULTS}listen l\n mode tcp\n bind 127.0.0.1:{{port}}\n \
             stick-table type ip size 10 expire 1h store conn_cur\n tcp-request connection track-sc0 src\n server s {echo}\n"
        );
        for proxy in [Proxy::haproxy(&text).io(io).start(), Proxy::haproxy(&text).by_rival().start()] {
            let mut client = Client::connect(&proxy);
            assert_eq!(client.send("ping").read_exactly(4), b"ping");
            assert!(ask(&proxy, "show table l").contains("key=127.0.0.1 use=1 exp conn_cur=1"));
            assert_eq!(ask(&proxy, "clear table l key 127.0.0.1"), "Entry currently in use, cannot remove");
            drop(client);
            eventually("it is let go of", || ask(&proxy, "show table l").contains("use=0 exp conn_cur=0"));
            assert_eq!(ask(&proxy, "clear table l key 127.0.0.1"), "");
            assert_eq!(ask(&proxy, "show table l"), "# table: l, type: ip, size:10, used:0");
        }
    }
}

#[test]
fn mistakes_are_told_where_they_stand() {
    for (line, found) in [
        ("stick-table type ip size 10 store http_req_rat(1s)", "did you mean `http_req_rate`?"),
        ("stick-table type ip size 10 store http_req_rate", "needs its period"),
        ("stick-table type ip store conn_cur", "lacks `size`"),
        ("stick-table size 10", "lacks `type`"),
        ("stick-table type text size 10", "is no type of keys"),
        ("stick-table type ip size 10 expires 3s", "`expire`"),
        ("http-request track-sc0 src table tt", "`tt` has no stick table"),
        ("http-request track-sc0 src", "`f` has no stick table"),
        ("http-request track-sc0 src tabel t", "takes a key, and `table` with a name"),
        ("http-request track-sc0 nothing table t", "unknown fetch `nothing`"),
        ("http-request sc-inc-gpc(1) if { always_true }", "has not the numbers that `sc-inc-gpc` takes"),
        ("http-request sc-set-gpt0(0)", "takes another number of arguments"),
        ("http-request deny if { sc_http_req_rate gt 3 }", "lacks its counter"),
        ("http-request deny if { sc_http_req_rate(0,x) gt 3 }", "`x` has no stick table"),
        ("http-request deny if { src,in_table(x) }", "`x` has no stick table"),
        ("http-request deny if { sc_http_req_rate(200) gt 3 }", "is no counter"),
    ] {
        let text = format!(
            "frontend f\n bind 127.0.0.1:{{port}}\n {line}\nbackend t\n stick-table type ip size 10\n"
        );
        let (code, told) = file(&text).check();
        assert!(code != 0 && told.contains(found), "{line}: {told}");
    }
}
