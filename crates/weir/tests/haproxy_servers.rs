//! Servers that rules name (`use-server`), and identifiers of requests: the same file and the same requests, to Weir and to
//! Debian's haproxy.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::time::Duration;

use regex::Regex;
use weir_testkit::{
    Address, Client, Gate, H2Origin, Io, Origin, Proxy, Request, Running, Script, both_drivers, console,
    eventually,
};

const DEFAULTS: &str = "global\n nbthread 1\n\
     defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n";

fn each(io: Io, file: &str, case: impl Fn(&Running, &str)) {
    let proxy = Proxy::haproxy(&format!("{DEFAULTS}{file}"));
    case(&proxy.clone().io(io).start(), "weir");
    case(&proxy.by_rival().start(), "haproxy");
}

/// Who answers a request for `target` with these fields.
fn who(proxy: &Running, target: &str, fields: &[(&str, &str)]) -> String {
    let request =
        fields.iter().fold(Request::get(target), |request, (name, value)| request.header(name, value));
    Client::connect(proxy).request(&request).expect_status(200).text()
}

both_drivers! {
    fn log_lines_begin_in_every_form(io: Io) {
        const FORMS: [&str; 9] = ["", "rfc3164", "rfc5424", "local", "raw", "short", "timed", "iso", "priority"];
        let own = Regex::new(r"(\w{3} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00)").unwrap();
        let pid = Regex::new(r"haproxy(\[| )\d+").unwrap();
        for named in [false, true] {
            let told = [false, true].map(|rival| {
                let sockets = FORMS.map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
                let lines: String = FORMS.iter().zip(&sockets).map(|(form, socket)| {
                    let form = if form.is_empty() { String::new() } else { format!("format {form} ") };
                    format!(" log {} {form}local0\n", socket.local_addr().unwrap())
                }).collect();
                let file = Proxy::haproxy(&format!(
                    "global\n nbthread 1\n{}{lines}defaults\n mode http\n log global\n timeout client 5s\n\
                     frontend f\n bind 127.0.0.1:{{port}}\n log-format \"hello %ST\"\n log-format-sd \"[a@1 st=\\\"%ST\\\"]\"\n http-request return status 200\n",
                    if named { " log-send-hostname h.test\n" } else { "" }
                ));
                let proxy = if rival { file.by_rival().start() } else { file.io(io).start() };
                Client::connect(&proxy).get("/").expect_status(200);
                FORMS.iter().zip(&sockets).map(|(form, socket)| {
                    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                    let mut bytes = [0; 2000];
                    let message = loop {
                        let length = socket.recv(&mut bytes).unwrap_or_else(|error| panic!("{form}: {error}"));
                        let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
                        if text.contains("hello") {
                            break text;
                        }
                    };
                    format!("{form}: {}", pid.replace(&own.replace(&message, "TIME"), "haproxy${1}PID"))
                }).collect::<Vec<_>>()
            });
            assert_eq!(told[0], told[1]);
        }
    }

    fn cookies_say_when_their_clients_came(io: Io) {
        let (a, b) = (Origin::named("a", "a"), Origin::named("b", "b"));
        let own = Origin::script(|script| script.keep_answering(200, &[("Set-Cookie", "OWN=mine; path=/x")], "own"));
        let text = format!(
            "global\n nbthread 1\n log stdout format raw local0\ndefaults\n mode http\n log global\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
             frontend f\n bind 127.0.0.1:{{port}}\n log-format \"END %HP %tsc %ST\"\n use_backend dated if {{ path_beg /dated }}\n use_backend dynamic if {{ path_beg /dynamic }}\n use_backend own if {{ path_beg /own }}\n default_backend passive\n\
             backend dated\n cookie SRV insert indirect nocache maxidle 30m maxlife 8h\n server a {a} cookie a\n server b {b} cookie b\n\
             backend dynamic\n dynamic-cookie-key secret\n cookie DYN insert dynamic\n server a {a}\n server b 127.0.0.1:1 disabled\n\
             backend own\n cookie OWN insert indirect preserve\n server a {own} cookie a\n\
             backend passive\n cookie SRV\n server a {a} cookie a\n server b {b} cookie b\n"
        );
        let six = |byte: u8| b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[usize::from(byte)];
        let date = |seconds: u64| -> String { [24, 18, 12, 6, 0].iter().map(|shift| char::from(six((((seconds / 4) >> shift) & 63) as u8))).collect() };
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
        let dated = Regex::new(r"\|[A-Za-z0-9+/]{5}").unwrap();
        let file = Proxy::haproxy(&text);
        let mut told = Vec::new();
        for proxy in [file.clone().io(io).start(), file.by_rival().start()] {
            let mut lines = Vec::new();
            let mut ask = |target: &str, cookie: &str| {
                let request = Request::get(target);
                let request = if cookie.is_empty() { request } else { request.header("Cookie", cookie) };
                let answer = Client::connect(&proxy).request(&request).expect_status(200);
                let set = answer.header("set-cookie").unwrap_or("-").to_owned();
                // Dates of now differ by what a test takes; that they are there, and which, is what counts.
                let dates: Vec<&str> = set.split([';', ' ']).next().unwrap().split('|').skip(1).collect();
                let shown = dated.replace_all(&set, "|DATE").into_owned();
                let kept = dates.get(1).is_some_and(|first| *first == date(now - 3600));
                lines.push(format!("{target} {shown} {} {kept}", if target.starts_with("/dynamic") { String::new() } else { answer.text() }));
            };
            ask("/dynamic", "");
            ask("/own", "");
            ask("/plain", "SRV=b");
            ask("/dated/1", &format!("SRV=b|{}|{}", date(now - 60), date(now - 3600)));
            ask("/dated/2", &format!("SRV=b|{}|{}", date(now + 8), date(now - 3600)));
            ask("/dated/3", "SRV=b");
            for (at, cookie) in [(4, format!("SRV=b|{}|{}", date(now - 3600), date(now - 3600))), (5, format!("SRV=b|{}|{}", date(now), date(now - 40_000)))] {
                let answer = Client::connect(&proxy).request(&Request::get(&format!("/dated/{at}")).header("Cookie", &cookie)).expect_status(200);
                assert!(answer.header("set-cookie").is_some_and(|set| set.starts_with("SRV=")), "{at}");
            }
            proxy.wait_for_log("END /dated/5");
            let states = |at: &str| proxy.logs().lines().find_map(|line| line.split_once(&format!("END {at} ")).map(|(_, state)| state.to_owned())).unwrap();
            lines.extend(["/own", "/dated/1", "/dated/2", "/dated/3", "/dated/4", "/dated/5"].map(|at| format!("{at} {}", states(at))));
            told.push(lines);
        }
        assert_eq!(told[0], told[1]);
    }

    fn servers_are_spoken_http2_to(io: Io) {
        let origin = H2Origin::answering(&[("x-from", "h2")], b"by frames");
        let text = format!(
            "frontend f\n bind 127.0.0.1:{{port}}\n default_backend b\nbackend b\n http-request set-header X-Told yes\n server s {origin} proto h2\n"
        );
        each(io, &text, |proxy, name| {
            let before = origin.requests().len();
            let answer = Client::connect(proxy).request(&Request::post("/a?b=c", "what is said").host("a.test")).expect_status(200);
            assert_eq!((answer.header("x-from"), answer.text().as_str()), (Some("h2"), "by frames"), "{name}");
            let asked = &origin.requests()[before];
            assert_eq!((asked.field(":path"), asked.field(":authority"), asked.field("x-told")), (Some("/a?b=c"), Some("a.test"), Some("yes")), "{name}");
        });
    }

    fn states_of_servers_are_read_at_the_start(io: Io) {
        let (a, b) = (Origin::named("a", "a"), Origin::named("b", "b"));
        let text = format!(
            "global\n nbthread 1\n stats socket {{dir}}/cli.sock level admin\n server-state-file {{dir}}/states\n server-state-base {{dir}}\n\
             defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n load-server-state-from-file global\n\
             frontend f\n bind 127.0.0.1:{{port}}\n use_backend two if {{ path_beg /two }}\n default_backend one\n\
             backend one\n server a {a} weight 10\n server b {b} weight 10\nbackend two\n load-server-state-from-file local\n server-state-file-name own\n server a {a}\n server b {b}\n"
        );
        let file = Proxy::haproxy(&text).file("states", "1\n").file("own", "1\n");
        let start = |file: Proxy, rival: bool| if rival { file.by_rival().start() } else { file.io(io).start() };
        for (rival, who) in [(false, "weir"), (true, "haproxy")] {
            // What one process says of its servers is how the next one begins.
            let first = start(file.clone(), rival);
            for line in ["set server one/a state maint", "set server one/b weight 7", "set server two/b state drain"] {
                let said = console::ask(&first, line);
                assert!(said.trim().is_empty(), "{who}: {line}: {said}");
            }
            let [states, own] = ["one", "two"].map(|backend| console::ask(&first, &format!("show servers state {backend}")));
            drop(first);
            let next = start(file.clone().file("states", states.trim_end().to_owned() + "\n").file("own", own.trim_end().to_owned() + "\n"), rival);
            let columns = |backend: &str| -> Vec<String> {
                let said = console::ask(&next, &format!("show servers state {backend}"));
                let rows = said.lines().skip(2).filter(|line| !line.is_empty());
                rows.map(|row| { let words: Vec<&str> = row.split(' ').collect(); format!("{} {} {}", words[3], words[6], words[7]) }).collect()
            };
            assert_eq!(columns("one"), ["a 1 10", "b 0 7"], "{who}");
            assert_eq!(columns("two"), ["a 0 1", "b 8 1"], "{who}");
            for _ in 0..4 {
                assert_eq!(Client::connect(&next).get("/").expect_status(200).text(), "b", "{who}");
                assert_eq!(Client::connect(&next).get("/two").expect_status(200).text(), "a", "{who}");
            }
        }
    }

    fn who_waits_is_served_by_class_and_time(io: Io) {
        let (gate, names) = (Gate::new(), ["/first", "/plain", "/low", "/high", "/late", "/early"]);
        // One connection each: the server takes one request at a time.
        let held = Script::new().expect("*").wait_for(&gate).respond_with(200, &[("Connection", "close")], "");
        let next = || Script::new().expect("*").respond_with(200, &[("Connection", "close")], "");
        for rival in [false, true] {
            let gate = if rival { Gate::new() } else { gate.clone() };
            let held = if rival { Script::new().expect("*").wait_for(&gate).respond_with(200, &[("Connection", "close")], "") } else { held.clone() };
            let origin = Origin::sequence(std::iter::once(held).chain((1..names.len()).map(|_| next())));
            let text = format!(
                "global\n nbthread 1\n stats socket {{dir}}/cli.sock level admin\ndefaults\n mode http\n timeout connect 5s\n timeout client 20s\n timeout server 20s\n timeout queue 20s\n\
                 frontend f\n bind 127.0.0.1:{{port}}\n http-request set-priority-class int(5) if {{ path /low }}\n http-request set-priority-class int(-5) if {{ path /high }}\n\
                 http-request set-priority-offset int(20000) if {{ path /late }}\n http-request set-priority-offset int(-20000) if {{ path /early }}\n\
                 default_backend b\nbackend b\n server s {origin} maxconn 1\n"
            );
            let file = Proxy::haproxy(&text);
            let proxy = if rival { file.by_rival() } else { file.io(io) }.start();
            let mut clients = Vec::new();
            for (n, path) in names.iter().enumerate() {
                let mut client = Client::connect(&proxy);
                client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
                clients.push(client);
                if n == 0 {
                    origin.wait_for_connections(1);
                }
                eventually("it waits in the queue", || {
                    let stat = console::ask(&proxy, "show stat");
                    let line = stat.lines().find(|line| line.starts_with("b,BACKEND,"))?;
                    (line.split(',').nth(2)? == n.to_string()).then_some(())
                });
            }
            gate.open();
            for client in &mut clients {
                client.read().expect_status(200);
            }
            let order: Vec<String> = origin.requests().iter().map(|request| request.line().split(' ').nth(1).unwrap().to_owned()).collect();
            assert_eq!(order, ["/first", "/high", "/early", "/plain", "/late", "/low"], "{}", if rival { "haproxy" } else { "weir" });
        }
    }

    fn persistence_is_forced_or_ignored(io: Io) {
        let servers: Vec<Origin> = ["a", "b", "c"].map(|name| Origin::named(name, name)).into();
        let lines = |words: &str| -> String {
            let one = |(origin, name): (&Origin, &str)| format!(" server {name} {origin} cookie {name}{}\n", if name == "a" { " disabled" } else { "" });
            format!("{words}{}", servers.iter().zip(["a", "b", "c"]).map(one).collect::<String>())
        };
        let rules = lines(" cookie S insert indirect\n balance first\n http-send-name-header X-Server\n force-persist if { path_beg /force }\n ignore-persist unless { path_beg / } ! { path_beg /ignore }\n");
        let always = lines(" cookie S insert indirect\n balance first\n option persist\n");
        let text = format!(
            "global\n nbthread 1\n log stdout format raw local0\ndefaults\n mode http\n log global\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
             frontend f\n bind 127.0.0.1:{{port}}\n log-format \"END %HP %s %tsc\"\n use_backend always if {{ path_beg /always }}\n default_backend rules\nbackend rules\n{rules}backend always\n{always}"
        );
        let proxy = Proxy::haproxy(&text);
        for (proxy, who) in [(proxy.clone().io(io).start(), "weir"), (proxy.by_rival().start(), "haproxy")] {
            for (path, cookie, server, letters) in [
                ("/1", "c", "c", "--VN"), ("/2", "a", "b", "--DI"), ("/3", "x", "b", "--II"), ("/force/1", "a", "a", "--DN"), ("/force/2", "c", "c", "--VN"),
                ("/ignore/1", "c", "b", "--UN"), ("/ignore/2", "", "b", "--NN"), ("/always/1", "a", "a", "--DN"), ("/always/2", "b", "b", "--VN"),
            ] {
                let request = Request::get(path).header("Cookie", &if cookie.is_empty() { "T=1".to_owned() } else { format!("S={cookie}") }).header("X-Server", "mine");
                let at = ["a", "b", "c"].iter().position(|name| *name == server).unwrap();
                let before = servers[at].requests().len();
                Client::connect(&proxy).request(&request).expect_status(200).expect_body(server);
                let asked = &servers[at].wait_for_requests(before + 1)[before];
                let told: Vec<&str> = asked.all("x-server").collect();
                assert_eq!(told, [if path.starts_with("/always") { "mine" } else { server }], "{who}: {path}");
                proxy.wait_for_log(&format!("END {path} {server} {letters}"));
            }
        }
    }

    fn rules_name_servers(io: Io) {
        let [a, b, c] = ["a", "b", "c"].map(|name| Origin::named(name, name));
        // Nobody but rules chooses b, c or the one that is down.
        let file = format!(
            "frontend f\n bind 127.0.0.1:{{port}}\n default_backend s\n\
             backend s\n cookie SRV insert indirect\n acl bee path /b\n\
             use-server down if {{ path /down }}\n use-server b if bee or {{ path /down }}\n\
             use-server %[req.hdr(x-server)] if {{ req.hdr(x-server) -m found }}\n\
             use-server c unless {{ path_beg /a /b /down }}\n\
             server a {a} cookie a\n server b {b} weight 0 cookie b\n server c {c} weight 0 cookie c\n \
             server down 127.0.0.1:1 weight 0 disabled\n"
        );
        each(io, &file, |proxy, name| {
            for _ in 0..2 {
                assert_eq!(who(proxy, "/a", &[]), "a", "{name}");
                assert_eq!(who(proxy, "/b", &[]), "b", "{name}");
                assert_eq!(who(proxy, "/c", &[]), "c", "{name}");
            }
            // The server of the first rule is down: the next one that holds has it.
            assert_eq!(who(proxy, "/down", &[]), "b", "{name}");
            // Rules come before cookies, which decide where no rule holds.
            assert_eq!(who(proxy, "/b", &[("Cookie", "SRV=c")]), "b", "{name}");
            assert_eq!(who(proxy, "/a", &[("Cookie", "SRV=c")]), "c", "{name}");
            // A name that is made from the request; one that no server has names none.
            assert_eq!(who(proxy, "/a", &[("X-Server", "c")]), "c", "{name}");
            assert_eq!(who(proxy, "/a", &[("X-Server", "nobody")]), "a", "{name}");
        });
    }

    fn rules_come_before_stick_tables_and_hold_for_connections(io: Io) {
        let [a, b] = ["a", "b"].map(|name| Origin::named(name, name));
        let file = format!(
            "frontend f\n bind 127.0.0.1:{{port}}\n default_backend s\n\
             backend s\n stick-table type ip size 10\n stick on src\n use-server b if {{ path /b }}\n \
             server a {a}\n server b {b} weight 0\n\
             listen t\n mode tcp\n bind unix@{{dir}}/tcp.sock\n use-server b if {{ always_true }}\n server a {a}\n server b {b} weight 0\n"
        );
        each(io, &file, |proxy, name| {
            assert_eq!(who(proxy, "/", &[]), "a", "{name}");
            assert_eq!(who(proxy, "/b", &[]), "b", "{name}");
            let mut stream = std::os::unix::net::UnixStream::connect(proxy.dir().join("tcp.sock")).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.ends_with("\r\n\r\nb"), "{name}: {answer}");
        });
    }

    fn requests_have_the_identifier_that_the_file_describes(io: Io) {
        let origin = Origin::named("o", "o");
        let file = format!(
            "frontend f\n bind 127.0.0.1:{{port}}\n unique-id-format %{{{{+X}}}}o\\ %ci:%cp_%fi:%fp_%Ts_%ms_%rt:%pid_%[req.hdr(x-a)]\n\
             unique-id-header X-Unique-ID\n default_backend s\n\
             backend s\n http-response set-header x-id %[unique-id]\n http-response set-header x-log %ID\n server o {origin}\n"
        )
        .replace("{{+X}}", "{+X}");
        let form = "^7F000001:[0-9A-F]{4}_7F000001:[0-9A-F]{4}_[0-9A-F]{8}_[0-9A-F]{2,3}_[0-9A-F]{4}:[0-9A-F]{4,}_one$";
        let form = Regex::new(form).unwrap();
        each(io, &file, |proxy, name| {
            let mut client = Client::connect(proxy);
            let mut ids: Vec<String> = Vec::new();
            for _ in 0..3 {
                let answer = client.request(&Request::get("/").header("X-A", "one")).expect_status(200);
                let id = answer.header("x-id").unwrap().to_owned();
                assert!(form.is_match(&id), "{name}: {id}");
                assert_eq!(answer.header("x-log"), Some(id.as_str()), "{name}");
                ids.push(id);
            }
            let received: Vec<String> = origin.requests().iter().rev().take(3).rev()
                .map(|request| request.header("x-unique-id").unwrap().to_owned()).collect();
            assert_eq!(received, ids, "{name}: the server is told what is logged");
            ids.dedup();
            assert_eq!(ids.len(), 3, "{name}: no two requests of a connection have the same");
        });
    }
}

#[test]
fn a_name_that_no_server_has_is_a_mistake() {
    for (line, wanted) in [
        ("use-server two if { path / }", "`b` has no server `two`"),
        ("use-server one and more", "takes a name and a condition, not `and`"),
        ("use-server one if", "a condition is missing"),
    ] {
        let file = format!(
            "{DEFAULTS}frontend f\n bind 127.0.0.1:{{port}}\n default_backend b\nbackend b\n {line}\n server one 127.0.0.1:1\n"
        );
        let (code, told) = Proxy::haproxy(&file).check();
        assert!(code != 0 && told.contains(wanted), "{line}: {told}");
    }
}

#[test]
fn connections_have_identifiers_too() {
    let origin = Origin::named("o", "o");
    let syslog = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = syslog.local_addr().unwrap();
    let proxy = Proxy::haproxy(&format!(
        "{DEFAULTS}listen t\n mode tcp\n bind 127.0.0.1:{{port}}\n unique-id-format id-%ci-%rt\n log {address} local0\n \
         log-format \"%ID is %[unique-id]\"\n server o {origin}\n"
    ))
    .start();
    let mut stream = TcpStream::connect(proxy.port().address()).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    syslog.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // What the process says of itself comes first.
    let line = loop {
        let mut line = [0; 1024];
        let read = syslog.recv(&mut line).unwrap();
        let line = String::from_utf8_lossy(&line[..read]).into_owned();
        if line.contains(" is ") {
            break line;
        }
    };
    assert!(line.trim_end().ends_with("id-127.0.0.1-1 is id-127.0.0.1-1"), "{line}");
}
