//! haproxy.cfg, run: balancing, rules, logs, health, statistics.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::net::UdpSocket;
use std::time::Duration;
use weir_testkit::response::Response;
use weir_testkit::{Client, Io, Origin, Port, Proxy, Request, both_drivers, eventually, tcp};

const DEFAULTS: &str = "defaults\n mode http\n timeout connect 2s\n timeout client 5s\n timeout server 5s\n";

fn file(io: Io, text: &str) -> Proxy {
    Proxy::haproxy(&format!("global\n nbthread 1\n maxconn 200\n{DEFAULTS}{text}")).io(io)
}

fn who(response: &Response) -> String {
    response.header("X-Origin").unwrap_or_default().to_owned()
}

/// The next line about `frontend`: the program may tell of itself as well.
fn logged(syslog: &UdpSocket, frontend: &str) -> String {
    loop {
        let mut line = [0; 4096];
        let n = syslog.recv(&mut line).expect("a log line");
        let line = String::from_utf8_lossy(&line[..n]).trim_end().to_owned();
        if line.contains(&format!(" {frontend} ")) {
            return line;
        }
    }
}

fn syslog() -> (UdpSocket, u16) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let port = socket.local_addr().unwrap().port();
    (socket, port)
}

both_drivers! {
    fn servers_take_turns_by_weight(io: Io) {
        let (a, b) = (Origin::named("a", "x"), Origin::named("b", "x"));
        let text = format!("frontend f\n bind 127.0.0.1:{{port}}\n default_backend web\nbackend web\n balance roundrobin\n server a {a} weight 2\n server b {b} weight 1\n");
        let proxy = file(io, &text).start();
        let mut client = Client::connect(&proxy);
        for _ in 0..9 {
            client.get("/").expect_status(200);
        }
        assert_eq!((a.requests().len(), b.requests().len()), (6, 3));
        proxy.stop();
    }

    fn rules_choose_and_edit(io: Io) {
        let (web, api) = (Origin::named("web", "x"), Origin::named("api", "x"));
        let text = format!(
            "frontend f\n bind 127.0.0.1:{{port}}\n acl is_api path_beg /api\n acl evil hdr_sub(User-Agent) -i evil\n \
             http-request deny deny_status 403 if evil\n http-request redirect location https://new.test/ code 302 if {{ path /old }}\n \
             http-request set-header X-Set one\n http-request add-header X-Add two\n http-request del-header X-Del\n option forwardfor\n \
             use_backend api if is_api\n default_backend web\nbackend web\n server s {web}\nbackend api\n server s {api}\n"
        );
        let proxy = file(io, &text).start();
        let mut client = Client::connect(&proxy);
        assert_eq!(who(&client.request(&Request::get("/").header("X-Del", "gone"))), "web");
        assert_eq!(who(&client.get("/api/x")), "api");
        client.get("/old").expect_status(302).expect_header("Location", "https://new.test/");
        Client::connect(&proxy).request(&Request::get("/").header("User-Agent", "Evil/1")).expect_status(403);
        let sent = &web.wait_for_requests(1)[0];
        assert_eq!((sent.header("X-Set"), sent.header("X-Add"), sent.header("X-Del")), (Some("one"), Some("two"), None));
        assert_eq!(sent.header("X-Forwarded-For"), Some("127.0.0.1"));
    }

    fn server_close_and_keep_alive(io: Io) {
        for (option, connections) in [("http-keep-alive", 1), ("http-server-close", 3)] {
            let origin = Origin::named("a", "x");
            let text = format!("frontend f\n bind 127.0.0.1:{{port}}\n option {option}\n default_backend b\nbackend b\n option {option}\n server s {origin}\n");
            let proxy = file(io, &text).start();
            let mut client = Client::connect(&proxy);
            for _ in 0..3 {
                client.get("/").expect_body("x");
            }
            assert_eq!(origin.connections(), connections, "{option}");
        }
    }

    fn dead_and_backup_servers(io: Io) {
        let (dead, spare) = (Port::lease(), Origin::named("spare", "x"));
        let text = format!(
            "frontend f\n bind 127.0.0.1:{{port}}\n default_backend b\nbackend b\n option redispatch\n retries 1\n \
             server dead 127.0.0.1:{dead} check inter 100ms fall 1\n server spare {spare} backup\n"
        );
        let proxy = file(io, &text).start();
        eventually("the check to find the server dead", || {
            let answer = Client::connect(&proxy).get("/");
            (answer.status == 200 && who(&answer) == "spare").then_some(())
        });
    }

    fn nobody_there_is_503(io: Io) {
        let dead = Port::lease();
        let text = format!("frontend f\n bind 127.0.0.1:{{port}}\n default_backend b\nbackend b\n retries 0\n server dead 127.0.0.1:{dead}\n");
        let proxy = file(io, &text).start();
        Client::connect(&proxy).get("/").expect_status(503);
    }

    fn tcp_goes_through_and_is_logged(io: Io) {
        let echo = tcp::echo();
        let (log, port) = syslog();
        let text = format!(
            "frontend tcpin\n mode tcp\n option tcplog\n log 127.0.0.1:{port} local0\n bind 127.0.0.1:{{port}}\n default_backend echoes\n\
             backend echoes\n mode tcp\n server one {echo}\n"
        );
        let proxy = file(io, &text).start();
        let mut client = Client::connect(&proxy);
        client.send("hello");
        assert_eq!(client.read_exactly(5), b"hello");
        client.half_close();
        client.expect_closed();
        let line = logged(&log, "tcpin");
        assert!(line.starts_with("<134>"), "{line}");
        assert!(line.contains(" tcpin echoes/one "), "{line}");
        assert!(line.contains(" 5 -- "), "bytes and termination: {line}");
    }

    fn requests_are_logged(io: Io) {
        let origin = Origin::named("a", "four");
        let (log, port) = syslog();
        let text = format!(
            "frontend web\n option httplog\n log 127.0.0.1:{port} local1 info\n bind 127.0.0.1:{{port}}\n default_backend b\nbackend b\n server s {origin}\n"
        );
        let proxy = file(io, &text).start();
        Client::connect(&proxy).get("/path?q=1").expect_body("four");
        let line = logged(&log, "web");
        assert!(line.starts_with("<142>"), "{line}");
        assert!(line.contains(" web b/s ") && line.ends_with("\"GET /path?q=1 HTTP/1.1\""), "{line}");
        assert!(line.contains(" 200 ") && line.contains(" ---- "), "{line}");
    }

    fn statistics_have_the_columns_that_tools_read(io: Io) {
        let origin = Origin::named("a", "x");
        let text = format!(
            "frontend f\n bind 127.0.0.1:{{port}}\n stats enable\n stats uri /stats\n stats hide-version\n default_backend b\nbackend b\n server one {origin}\n"
        );
        let csv = |proxy: &weir_testkit::Running| {
            let mut client = Client::connect(proxy);
            client.get("/").expect_status(200);
            client.get("/stats;csv").expect_status(200).text()
        };
        let (ours, theirs) = (csv(&file(io, &text).start()), csv(&file(io, &text).by_rival().start()));
        let columns = |text: &str| text.lines().next().unwrap().trim_end_matches(',').split(',').map(str::to_owned).collect::<Vec<_>>();
        let (ours_head, theirs_head) = (columns(&ours), columns(&theirs));
        // Later versions append to the fixed columns, which end before `-`; what follows depends on the build.
        let fixed: Vec<String> = theirs_head.into_iter().take_while(|c| c != "-").collect();
        assert_eq!(ours_head[..fixed.len()], fixed[..]);
        assert_eq!(ours_head.len(), 119);
        for row in ["f,FRONTEND,", "b,one,", "b,BACKEND,"] {
            assert!(ours.lines().any(|l| l.starts_with(row)), "no {row} in:\n{ours}");
        }
        let total = |text: &str, row: &str| {
            let at = columns(text).iter().position(|c| c == "stot").unwrap();
            text.lines().find(|l| l.starts_with(row)).and_then(|l| l.split(',').nth(at)).map(str::to_owned)
        };
        assert_eq!(total(&ours, "b,one,"), total(&theirs, "b,one,"));
        let proxy = file(io, &text).start();
        Client::connect(&proxy).get("/stats").expect_status(200).expect_text("<html").expect_text("one");
    }

    fn proxies_are_listed_as_haproxy_lists_them(io: Io) {
        let origin = Origin::named("a", "x");
        // Backends before frontends, numbers given and not, nobody behind some, one that is disabled.
        let text = format!(
            "backend early\n server a {origin}\n server b {origin} id 7\n server c {origin}\n\
             backend off\n disabled\n server d {origin}\n\
             frontend web\n bind 127.0.0.1:{{port}}\n maxconn 120\n use_backend empty if {{ path_beg /e }}\n \
             use_backend noone if {{ path /n }}\n default_backend app\n\
             backend empty\n http-request deny if {{ path /ed }}\n http-request return status 200\n\
             backend app\n fullconn 33\n server s1 {origin} maxconn 5\n\
             listen both\n bind 127.0.0.1:{{port2}}\n id 4\n maxconn 60\n stats enable\n stats uri /st\n server z {origin}\n\
             listen alone\n bind 127.0.0.1:{{port3}}\n id 20\n\
             backend noone\n\
             backend last\n mode tcp\n server t {origin}\n\
             frontend tcp\n mode tcp\n bind 127.0.0.1:{{port4}}\n default_backend last\n"
        );
        let table = |proxy: &weir_testkit::Running| {
            let csv = Client::connect(proxy.port_of("port2")).get("/st;csv").expect_status(200).text();
            let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
            let head = lines.next().unwrap();
            let columns = [
                "# pxname", "svname", "iid", "sid", "type", "mode", "slim", "status", "weight", "act", "bck", "dreq", "econ",
                "hrsp_2xx", "hrsp_4xx", "hrsp_5xx",
            ];
            let at = |name: &str| head.iter().position(|column| *column == name).unwrap();
            let places: Vec<usize> = columns.iter().map(|name| at(name)).collect();
            lines
                .map(|line| {
                    // How many answers were asked for here is this function's own doing.
                    let asked_here = line.starts_with(&["both", "FRONTEND"]);
                    let places = places.iter().take(if asked_here { columns.len() - 3 } else { columns.len() });
                    places.map(|place| line[*place]).collect::<Vec<_>>().join(" ")
                })
                .collect::<Vec<_>>()
        };
        let shown = |proxy: &weir_testkit::Running| {
            for (path, status) in [("/", 200), ("/e", 200), ("/ed", 403), ("/n", 503), ("/e", 200)] {
                // HAProxy closes after answers of its own.
                Client::connect(proxy).get(path).expect_status(status);
            }
            // An answer is counted once it is sent, which its client may see first.
            eventually("the five answers to be counted", || {
                let rows = table(proxy);
                let counted = |name: &str, statuses: &str| rows.iter().any(|row| row.starts_with(name) && row.ends_with(statuses));
                let all = [("web FRONTEND", " 3 1 1"), ("empty BACKEND", " 2 1 0"), ("app BACKEND", " 1 0 0"), ("noone BACKEND", " 0 0 1")];
                all.iter().all(|(name, statuses)| counted(name, statuses)).then_some(rows)
            })
        };
        let text = format!("global\n maxconn 500\n{DEFAULTS}{text}");
        let ours = shown(&Proxy::haproxy(&text).io(io).start());
        let theirs = shown(&Proxy::haproxy(&text).by_rival().start());
        assert_eq!(ours, theirs);
    }
}
