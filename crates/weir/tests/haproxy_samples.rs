//! Fetches and converters of a haproxy.cfg: the same expressions over the same requests, by Weir and by Debian's haproxy.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_testkit::{Client, Io, Origin, Proxy, Request, Running, both_drivers, console};

/// Answers with the value of each expression, in a field of its own.
fn telling(expressions: &[&str], origin: &Origin) -> Proxy {
    let mut rules = String::new();
    for (at, expression) in expressions.iter().enumerate() {
        let escaped = expression.replace('$', "\\$");
        rules += &format!(
            " http-request return status 200 content-type text/plain lf-string \"[%[{escaped}]]\" if {{ path /{at} }}\n"
        );
    }
    Proxy::haproxy(&format!(
        "global\n nbthread 1\n\
         defaults\n mode http\n option http-buffer-request\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
         frontend f\n bind 127.0.0.1:{{port}}\n http-request set-var(txn.key) str(secret)\n http-request set-var(txn.two) int(2)\n{rules} default_backend b\n\
         backend b\n server s1 {origin}\n server s2 127.0.0.1:1 backup\n"
    ))
}

fn told(proxy: &Running, at: usize, request: &dyn Fn(String) -> Request) -> String {
    Client::connect(proxy).request(&request(format!("/{at}?a=1&b=two%20words&c=3"))).expect_status(200).text()
}

/// Both say the same of all.
fn agree(io: Io, expressions: &[&str], request: &dyn Fn(String) -> Request) {
    let origin = Origin::named("b", "b");
    let proxy = telling(expressions, &origin);
    let (ours, theirs) = (proxy.clone().io(io).start(), proxy.by_rival().start());
    let mut wrong = Vec::new();
    for (at, expression) in expressions.iter().enumerate() {
        let both = [told(&ours, at, request), told(&theirs, at, request)];
        if both[0] != both[1] {
            wrong.push(format!("{expression}: {} and not {}", both[0], both[1]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const JSON: &str = r#"{"user":{"name":"ann","age":41,"tags":["x","y"]},"ok":true,"none":null}"#;
/// Signed with HS256 by `secret`: {"alg":"HS256","typ":"JWT"} {"sub":"ann","exp":1}.
const TOKEN: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbm4iLCJleHAiOjF9.";

both_drivers! {
    fn variables_are_set_where_there_is_a_value(io: Io) {
        let found: String = ["a", "e", "f", "u", "s", "x", "n", "ne", "ne2", "none"].iter().map(|name| {
            let scope = if *name == "s" { "sess" } else { "txn" };
            format!(" http-request set-var-fmt(txn.said) \"%[var(txn.said)] {name}=%[var({scope}.{name})]\" if {{ var({scope}.{name}) -m found }}\n")
        }).collect();
        let text = format!(
            "frontend f\n bind 127.0.0.1:{{port}}\n http-request set-var(txn.a) req.hdr(x-a)\n http-request set-var(txn.a) req.hdr(x-b)\n\
             http-request set-var(txn.e) str()\n http-request set-var-fmt(txn.f) \"%[req.hdr(x-a)]\"\n http-request set-var(txn.u) str(u)\n http-request unset-var(txn.u)\n\
             http-request set-var(sess.s) req.hdr(x-a)\n http-request set-var(txn.n,ifnotexists) str(first)\n http-request set-var(txn.n,ifnotexists) str(second)\n\
             http-request set-var(txn.x,ifexists) str(x)\n http-request set-var(txn.n,ifempty) str(third)\n http-request set-var(txn.ne,ifnotempty) req.hdr(x-a)\n\
             http-request set-var(txn.ne2,ifnotempty,ifnotset) str()\n{found} http-request return status 200 content-type text/plain lf-string \"%[var(txn.said)]\"\n"
        );
        let file = Proxy::haproxy(&format!("defaults\n mode http\n timeout connect 5s\n timeout client 10s\n timeout server 10s\n{text}"));
        let (ours, theirs) = (file.clone().io(io).start(), file.by_rival().start());
        for fields in [&[("X-A", "1")][..], &[("X-B", "2")], &[("X-A", "1"), ("X-B", "2")], &[("X-A", "")], &[]] {
            let request = fields.iter().fold(Request::get("/"), |request, (name, value)| request.header(name, value));
            let [ours, theirs] = [&ours, &theirs].map(|proxy| Client::connect(proxy).request(&request).text());
            assert_eq!(ours, theirs, "{fields:?}");
            assert_eq!(ours.contains(" a="), !fields.is_empty(), "{ours}");
        }
    }

    fn variables_outlive_their_exchange(io: Io) {
        let text = "global\n nbthread 1\n stats socket {dir}/cli.sock level admin\n set-var proc.a str(hello)\n set-var proc.n int(5)\n set-var-fmt proc.f \"%[str(x)]/%%/y\"\n\
            defaults\n mode http\n timeout client 5s\n\
            frontend f\n bind 127.0.0.1:{port}\n tcp-request connection set-var(sess.came) str(yes)\n tcp-request session set-var(sess.first) int(1)\n \
            http-request set-var(proc.last) path\n http-request set-var(proc.n) var(proc.n),add(1)\n \
            http-request set-var(sess.count) int(0) if !{ var(sess.count) -m found }\n http-request set-var(sess.count) var(sess.count),add(1)\n \
            http-request unset-var(sess.count) if { path /forget }\n http-request unset-var(proc.a) if { path /forget }\n \
            http-request return status 200 content-type text/plain lf-string \"a=%[var(proc.a)] n=%[var(proc.n)] f=%[var(proc.f)] last=%[var(proc.last)] came=%[var(sess.came)] first=%[var(sess.first)] count=%[var(sess.count)] none=%[var(proc.none)]%[var(sess.none)]\"\n";
        let proxy = Proxy::haproxy(text);
        for (proxy, who) in [(proxy.clone().io(io).start(), "weir"), (proxy.by_rival().start(), "haproxy")] {
            let told = |client: &mut Client, path: &str| client.get(path).expect_status(200).text();
            let said = |a: &str, n: u32, last: &str, count: &str| format!("a={a} n={n} f=x/%/y last={last} came=yes first=1 count={count} none=");
            let mut one = Client::connect(&proxy);
            assert_eq!(told(&mut one, "/1"), said("hello", 6, "/1", "1"), "{who}");
            assert_eq!(told(&mut one, "/2"), said("hello", 7, "/2", "2"), "{who}");
            let mut two = Client::connect(&proxy);
            assert_eq!(told(&mut two, "/3"), said("hello", 8, "/3", "1"), "{who}: another connection");
            assert_eq!(told(&mut one, "/4"), said("hello", 9, "/4", "3"), "{who}");
            let run = |line: &str| console::ask(&proxy, line).trim_end().to_owned();
            for (line, wanted) in [
                ("get var proc.a", "proc.a: type=str value=<hello>"), ("get var proc.n", "proc.n: type=sint value=<9>"), ("get var proc.last", "proc.last: type=str value=</4>"),
                ("get var proc.none", "Variable not found."), ("get var txn.a", "Variable not found."), ("get var", "Missing process-wide variable identifier."),
                ("set var proc.a str(bye)", "This command is restricted to experimental mode only."),
            ] {
                assert_eq!(run(line), wanted, "{who}: {line}");
            }
            for (line, wanted) in [
                ("set var proc.a str(bye)", ""), ("set var proc.n expr int(40)", ""), ("set var txn.q int(1)", "'set var': cannot set variable 'txn.q', only scope 'proc' is permitted here."),
                ("set var proc.a", "Missing either 'expr', 'fmt' or expression."), ("set var proc.a nothing", "unknown fetch method 'nothing'"), ("set var proc.new fmt words", ""),
            ] {
                assert_eq!(run(&format!("experimental-mode on; {line}")).trim(), wanted, "{who}: {line}");
            }
            assert_eq!(told(&mut one, "/5"), said("bye", 41, "/5", "4"), "{who}");
            assert_eq!(run("get var proc.new"), "proc.new: type=str value=<words>", "{who}");
            assert_eq!(told(&mut one, "/forget"), said("", 42, "/forget", ""), "{who}");
            assert_eq!(told(&mut one, "/6"), said("", 43, "/6", "1"), "{who}");
        }
    }

    fn rates_and_numbers_of_proxies(io: Io) {
        let origin = Origin::named("s", "x");
        let text = format!(
            "global\n nbthread 1\ndefaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
             frontend f\n id 7\n bind 127.0.0.1:{{port}}\n http-request set-header X-Fe %[fe_id]\n \
             http-request set-var(txn.rates) fe_req_rate\n http-request deny deny_status 429 if {{ fe_req_rate(f) gt 1000 }} or {{ be_sess_rate(b) gt 1000 }} or {{ srv_sess_rate(b/s) gt 1000 }}\n default_backend b\n\
             backend b\n http-request set-header X-Be %[be_id]\n http-response set-header X-Rates \"%[var(txn.rates)] %[fe_sess_rate(f)] %[be_sess_rate(b)] %[srv_sess_rate(b/s)]\"\n server s {origin}\n"
        );
        let proxy = Proxy::haproxy(&text);
        for (proxy, who) in [(proxy.clone().io(io).start(), "weir"), (proxy.by_rival().start(), "haproxy")] {
            let before = origin.requests().len();
            // Three connections and six requests: in one second, or in a few.
            let mut most = [0; 4];
            for _ in 0..3 {
                let mut client = Client::connect(&proxy);
                for _ in 0..2 {
                    let response = client.get("/").expect_status(200);
                    let rates: Vec<u64> = response.header("x-rates").unwrap().split(' ').map(|text| text.parse().unwrap()).collect();
                    for (most, rate) in most.iter_mut().zip(rates) {
                        *most = rate.max(*most);
                    }
                }
            }
            for (rate, bound) in most.into_iter().zip([6, 3, 6, 6]) {
                assert!((1..=bound).contains(&rate), "{who}: {most:?}");
            }
            let asked = &origin.wait_for_requests(before + 6)[before];
            assert_eq!((asked.header("x-fe"), asked.header("x-be")), (Some("7"), Some("2")), "{who}");
        }
    }

    fn times_are_what_their_tags_say(io: Io) {
        let pairs = [
            ("req.timer.idle", "Ti"), ("req.timer.hdr", "TR"), ("req.timer.tq", "Tq"), ("req.timer.queue", "Tw"), ("res.timer.hdr", "Tr"),
            ("res.timer.data", "Td"), ("txn.timer.total", "Ta"), ("fc.timer.handshake", "Th"), ("request_date", "Ts"), ("txn.redispatched", "rc"),
        ];
        let format: Vec<String> = pairs.iter().map(|(fetch, tag)| format!("%[{fetch}]=%{tag}")).collect();
        let origin = Origin::named("s", "x");
        let text = format!(
            "global\n nbthread 1\n log stdout format raw local0\ndefaults\n mode http\n log global\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
             frontend f\n bind 127.0.0.1:{{port}}\n log-format \"END {} %[request_date(us)] %[accept_date(us)]\"\n default_backend b\nbackend b\n server s {origin}\n",
            format.join(" ")
        );
        let proxy = Proxy::haproxy(&text).io(io).start();
        Client::connect(&proxy).get("/").expect_status(200);
        proxy.wait_for_log("END ");
        let logs = proxy.logs();
        let line = logs.lines().find_map(|line| line.split_once("END ")).unwrap().1;
        let words: Vec<&str> = line.split(' ').collect();
        for (word, (fetch, _)) in words.iter().zip(pairs) {
            let (value, tag) = word.split_once('=').unwrap();
            assert_eq!(value, tag, "{fetch}");
        }
        let [begun, accepted] = [words[10], words[11]].map(|text| text.parse::<u64>().unwrap());
        assert!(accepted <= begun + 1000 && begun - accepted.min(begun) < 60_000_000, "{line}");
    }

    fn hashes_and_codings_are_haproxy_s(io: Io) {
        agree(io, &[
            "str(hello),sha1,hex", "str(hello),sha2,hex", "str(hello),sha2(384),hex", "str(hello),sha2(512),base64", "str(hello),digest(md5),hex",
            "str(hello),digest(sha256),hex", "str(hello),hmac(sha256,c2VjcmV0),hex", "str(hello),crc32", "str(hello),crc32(1)", "str(hello),crc32c",
            "str(hello),xxh32", "str(hello),xxh32(7)", "str(hello),xxh64", "str(hello),xxh64(7)", "str(hello),xxh3", "str(hello),xxh3(7)", "str(hello),djb2",
            "str(hello),sdbm(1)", "str(hello),wt6", "str(hello),hex", "str(68656c6c6f),hex2i", "str(ff),hex2i", "str(hello),base64,b64dec", "str(hello),ub64enc,ub64dec",
            "str(hello),be2dec(:,2)", "str(hello),be2hex(:,2)", "str(hello),be2hex(,1,1)",
        ], &|target| Request::get(&target));
    }

    fn texts_are_cut_joined_and_compared(io: Io) {
        agree(io, &[
            "str(hello),bytes(1,3)", "str(hello),bytes(2)", "str(hello),length", "str(hello),strcmp(txn.key)", "str(secret),strcmp(txn.key)",
            "str(secret),secure_memcmp(txn.key)", "str(hello),secure_memcmp(txn.key)", "str(hello),concat(-,txn.key,.)", "str('a,b;c'),field(2,;)",
            "str(a b c),word(2, )", "str(hello),upper", "str(Hello),lower", "str(' x '),ltrim(' '),rtrim(' ')", "str(hello),regsub(l,L,g)", "str(7),add(txn.two)", "str(7),mul(txn.two)",
            "str(7),sub(9)", "str(7),mod(4)", "str(7),div(2)", "str(6),and(3)", "str(6),or(1)", "str(6),xor(2)", "int(0),not", "int(5),bool", "str(-7),neg", "str(6),even",
            "str(x),iif(yes,no)", "bool(true),iif(yes,no)", "bool(false),iif(yes,no)", "str(line\\r\\nnext),cut_crlf", "str(a%20b),url_dec", "str(a b/c),url_enc",
            "str(10.1.2.3),ipmask(24)", "src,ipmask(8)", "str(hello),set-var(txn.other)", "str(x),debug",
        ], &|target| Request::get(&target));
    }

    fn times_are_written(io: Io) {
        agree(io, &[
            "int(1700000000),utime(%Y-%m-%d %H:%M:%S)", "int(1700000000),http_date", "int(1700000000),http_date(60)", "int(1700000000),utime(%a %d %b)",
            "int(1700000000),ltime(%Y)", "int(1700000000000),http_date(0,ms)", "int(1700000000000000),http_date(0,us)", "int(1700000000123),http_date(0,ms)", "int(1700000000005),http_date(0,ms)", "int(1700000000000042),http_date(0,us)",
        ], &|target| Request::get(&target));
    }

    fn json_and_tokens_are_read(io: Io) {
        agree(io, &[
            "req.body,json_query('$.user.name')", "req.body,json_query('$.user.age','int')", "req.body,json_query('$.ok')",
            "req.body,json_query('$.none')", "req.body,json_query('$.nothing')", "req.body,length", "req.body_len", "req.body_size",
            "req.hdr(x-token),jwt_header_query('$.alg')", "req.hdr(x-token),jwt_payload_query('$.sub')", "req.hdr(x-token),jwt_payload_query('$.exp','int')",
            "req.hdr(x-token),jwt_verify('HS256','secret')", "req.hdr(x-token),jwt_verify('HS256','other')", "req.hdr(x-token),jwt_verify('HS512','secret')",
        ], &|target| {
            // The signature, by HMAC-SHA256 with the key `secret`.
            let token = format!("{TOKEN}{}", signature());
            Request::post(&target, JSON).header("X-Token", &token)
        });
    }

    fn languages_and_counts_are_found(io: Io) {
        agree(io, &[
            "req.hdr(accept-language),language(es;fr;en)", "req.hdr(accept-language),language(fr)", "req.hdr(accept-language),language(xx,en)",
            "str(b),nbsrv", "nbsrv(b)", "srv_is_up(b/s1)", "be_conn(b)", "queue(b)", "avg_queue(b)", "req.hdr_cnt(accept-language)", "req.hdr_names", "req.fhdr(accept-language)",
            "req.cook(x)", "req.cook_cnt(x)", "req.ver", "method", "query", "url_param(a)", "urlp(b)", "urlp(b),url_dec", "urlp_val(c)", "path", "pathq", "base", "base32", "url32", "req.hdr_ip(x-forwarded-for)",
            "req.hdr_val(x-number)", "req.hdr(x-list,-1)", "req.hdr(x-list,2)", "dst", "src", "fe_name", "fe_defbe", "always_true", "always_false",
        ], &|target| {
            Request::get(&target).host("a.test").header("Accept-Language", "fr;q=0.5, en, de;q=0.1").header("Cookie", "x=1; y=2")
                .header("X-Forwarded-For", "192.0.2.7").header("X-Number", "17").header("X-List", "one, two").header("X-List", "three")
        });
    }

    fn whatever_else_a_rule_may_ask(io: Io) {
        agree(io, &[
            "src_is_local", "dst_is_local", "fc_dst_is_local", "fc_src_is_local", "fc_err", "fc_err_str", "prio_class", "prio_offset", "bin(4a4b)", "bin(4a4b),length",
            "str(x),set-var(sess.kept),concat(:,sess.kept)", "str(y),set-var(proc.kept),concat(:,proc.kept)", "str(z),set-var(txn.a),unset-var(txn.a),concat(:,txn.a)",
            "url_ip", "url_port", "dst_conn", "req.payload(0,4),hex",
        ], &|target| Request::post(&target, "body of it").host("a.test"));
        // In absolute form.
        agree(io, &["url_ip", "url_port"], &|target| Request::get(&format!("http://192.0.2.1:8080{target}")).host("192.0.2.1:8080"));
    }

    fn servers_and_their_connections_are_told(io: Io) {
        let origin = Origin::named("s", "x");
        let file = Proxy::haproxy(&format!(
            "global\n nbthread 1\n log stdout format raw local0\ndefaults\n mode http\n log global\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
             frontend f\n bind 127.0.0.1:{{port}}\n log-format \"END id=%[srv_id] src=%[bc_src] %bi p=%bp %[bc_src_port] comp=%[res.comp] %[res.comp_algo]\"\n default_backend b\n\
             backend b\n http-reuse always\n server other 127.0.0.1:1 backup\n server s {origin} id 7\n"
        ));
        let told = [file.clone().io(io).start(), file.by_rival().start()].map(|proxy| {
            let mut client = Client::connect(&proxy);
            client.get("/").expect_status(200);
            client.get("/").expect_status(200);
            drop(client);
            weir_testkit::eventually("two lines", || (proxy.logs().matches("END ").count() == 2).then_some(()));
            let logs = proxy.logs();
            let lines = logs.lines().filter_map(|line| line.split_once("END ")).map(|(_, line)| {
                let (before, ports) = line.split_once("p=").unwrap();
                let words: Vec<&str> = ports.split(' ').collect();
                assert_eq!(words[0], words[1], "{line}");
                assert!(words[0].parse::<u16>().is_ok_and(|port| port > 0), "{line}");
                format!("{before}{}", words[2..].join(" "))
            });
            lines.collect::<Vec<_>>()
        });
        assert_eq!(told[0], told[1]);
    }
}

/// The last part of [`TOKEN`].
fn signature() -> String {
    let output = std::process::Command::new("sh")
        .arg("-c")
        .arg(format!(
            "printf %s '{}' | openssl dgst -sha256 -hmac secret -binary | openssl base64 -A | tr '+/' '-_' | tr -d '='",
            TOKEN.trim_end_matches('.')
        ))
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}
