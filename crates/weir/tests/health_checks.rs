//! Active health checks of an nginx.conf (`health_check`, `match`): NGINX Plus's words, which no peer here has.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_testkit::{Certificate, Client, Io, Origin, Proxy, Running, both_drivers};

const OK: &str = "200 OK\r\nContent-Type: text/html\r\n\r\nServer is up";

/// A server whose answer to checks the test chooses; to all else it says its name.
struct Server {
    port: u16,
    answer: Arc<Mutex<String>>,
    /// Request lines and Host fields of checks.
    checks: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(name: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (answer, checks) = (Arc::new(Mutex::new(OK.to_owned())), Arc::<Mutex<Vec<String>>>::default());
        let (answers, checked) = (answer.clone(), checks.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let (answers, checked) = (answers.clone(), checked.clone());
                std::thread::spawn(move || {
                    let head: Vec<String> = BufReader::new(stream.try_clone().unwrap())
                        .lines()
                        .map_while(Result::ok)
                        .take_while(|line| !line.is_empty())
                        .collect();
                    let Some(first) = head.first() else { return };
                    let answer = if first.contains(" /up") {
                        let host =
                            head.iter().find(|line| line.to_ascii_lowercase().starts_with("host:")).cloned();
                        checked
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(format!("{first} {}", host.unwrap_or_default().to_ascii_lowercase()));
                        answers.lock().unwrap().clone()
                    } else {
                        format!("200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len())
                    };
                    let _ = stream.write_all(format!("HTTP/1.1 {answer}").as_bytes());
                });
            }
        });
        Self { port, answer, checks }
    }

    fn says(&self, answer: &str) {
        *self.answer.lock().unwrap() = answer.to_owned();
    }

    /// Waits for so many further checks.
    fn checked(&self, more: usize) {
        let wanted = self.checks.lock().unwrap().len() + more;
        until("checks", || self.checks.lock().unwrap().len() >= wanted);
    }
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(20), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn file(http: &str, servers: &str, check: &str) -> Proxy {
    Proxy::nginx(&format!(
        "worker_processes 1; error_log stderr info; events {{}}\n\
         http {{ access_log off; {http} upstream u {{ zone u 64k; {servers} }}\n\
         server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://u; {check} }} }} }}\n"
    ))
}

fn one(server: &Server) -> String {
    format!("server 127.0.0.1:{} max_fails=0;", server.port)
}

fn answers(proxy: &Running) -> (u16, String) {
    let response = Client::connect(proxy).get("/");
    (response.status, response.text())
}

/// Who answers eight requests.
fn names(proxy: &Running) -> String {
    let mut names: Vec<String> = (0..8).map(|_| answers(proxy).1).collect();
    names.sort();
    names.dedup();
    names.join("")
}

both_drivers! {
    fn a_server_that_fails_its_checks_gets_no_requests(io: Io) {
        let (a, b) = (Server::start("a"), Server::start("b"));
        let servers = one(&a) + &one(&b);
        let proxy = file("", &servers, "health_check interval=20ms fails=2 passes=2 uri=/up?x=1;").io(io).start();
        assert_eq!(names(&proxy), "ab", "both are up before they are checked");
        a.checked(2);
        assert_eq!(a.checks.lock().unwrap()[0], "GET /up?x=1 HTTP/1.0 host: u");
        a.says("500 No\r\n\r\n");
        until("a is down", || names(&proxy) == "b");
        b.says("404 No\r\n\r\n");
        until("nobody is up", || answers(&proxy).0 == 502);
        a.says("302 Found\r\nLocation: /\r\n\r\n");
        until("a is up", || names(&proxy) == "a");
        b.says(OK);
        until("both are up", || names(&proxy) == "ab");
    }

    fn what_a_response_must_be(io: Io) {
        let server = Server::start("s");
        for (conditions, good, bad) in [
            ("status 200;", OK, "204 X\r\n\r\n"),
            ("status ! 500 503;", "404 X\r\n\r\n", "503 X\r\n\r\n"),
            ("status 200-399 404;", "404 X\r\n\r\n", "405 X\r\n\r\n"),
            ("status ! 400-599;", "302 X\r\n\r\n", "403 X\r\n\r\n"),
            ("header Content-Type = text/html;", OK, "200 X\r\nContent-Type: text/plain\r\n\r\n"),
            ("status 200; header Content-Type != text/html;", "200 X\r\nContent-Type: text/plain\r\n\r\n", OK),
            ("header Content-Type ~ ^text/;", OK, "200 X\r\nContent-Type: image/png\r\n\r\n"),
            ("header Content-Type !~ ^text/;", "200 X\r\nContent-Type: image/png\r\n\r\n", OK),
            ("header X-Ready;", "200 X\r\nX-Ready: 1\r\n\r\n", OK),
            ("header ! X-Busy;", OK, "200 X\r\nX-Busy: 1\r\n\r\n"),
            ("status 200; body ~ \"is up$\";", OK, "200 X\r\n\r\nServer is up not"),
            ("require $upstream_http_x_ready;", "200 X\r\nX-Ready: 01\r\n\r\n", "200 X\r\nX-Ready: 0\r\n\r\n"),
            ("body !~ \"maintenance mode\";", OK, "200 X\r\n\r\nin maintenance mode"),
        ] {
            let http = format!("match fine {{ {conditions} }}");
            let proxy = file(&http, &one(&server), "health_check mandatory interval=10ms uri=/up match=fine;").io(io);
            server.says(bad);
            let running = proxy.start();
            server.checked(3);
            assert_eq!(answers(&running).0, 502, "{conditions}: down until a check says otherwise");
            server.says(good);
            until(&format!("{conditions}: up"), || answers(&running) == (200, "s".to_owned()));
            server.says(bad);
            until(&format!("{conditions}: down"), || answers(&running).0 == 502);
        }
    }

    fn checks_have_a_port_and_tls_of_their_own(io: Io) {
        let (server, probe) = (Server::start("s"), Server::start("p"));
        let check = format!("health_check mandatory interval=10ms uri=/up port={};", probe.port);
        let proxy = file("", &one(&server), &check).io(io).start();
        until("it is up", || answers(&proxy) == (200, "s".to_owned()));
        probe.says("500 X\r\n\r\n");
        until("it is down", || answers(&proxy).0 == 502);
        assert!(server.checks.lock().unwrap().is_empty());

        let certificate = Certificate::p256(&["s.test"]);
        let secure = Origin::tls(&certificate, |c| c.keep_answering(200, &[], "secure"));
        let text = format!(
            "events {{}}\nhttp {{ access_log off; upstream u {{ zone u 64k; server {secure}; }}\n\
             server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass https://u; health_check mandatory interval=10ms uri=/up; }} }} }}\n"
        );
        let proxy = Proxy::nginx(&text).io(io).start();
        until("it is up over TLS", || answers(&proxy) == (200, "secure".to_owned()));
    }

    fn servers_of_tcp_services_are_checked(io: Io) {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let banner = Arc::new(Mutex::new("+PONG 1\r\n"));
        let said = banner.clone();
        std::thread::spawn(move || {
            for stream in server.incoming() {
                let mut stream = stream.unwrap();
                let mut asked = [0; 64];
                let length = stream.read(&mut asked).unwrap_or(0);
                let answer = match &asked[..length] {
                    b"PING\x01\r\n" => *said.lock().unwrap(),
                    _ => "data",
                };
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        let file = |conditions: &str, check: &str| {
            Proxy::nginx(&format!(
                "worker_processes 1; error_log stderr info; events {{}}\n\
                 stream {{ match pong {{ {conditions} }} upstream u {{ zone u 64k; server 127.0.0.1:{port} max_fails=0; }}\n\
                 server {{ listen 127.0.0.1:{{port}}; proxy_pass u; health_check_timeout 500ms; health_check interval=10ms {check}; }} }}\n"
            ))
        };
        let carried = |proxy: &Running| {
            let mut client = Client::connect(proxy);
            let _ = client.try_send("x");
            client.read_to_end().0 == b"data"
        };
        let send = r"send PING\x01\r\n;".replace("\\r\\n", "\\x0d\\x0a");
        for expect in ["expect +PONG;", r"expect ~ ^\+PONG\s\d;", "expect ~* pong;"] {
            *banner.lock().unwrap() = "+PONG 1\r\n";
            let proxy = file(&format!("{send} {expect}"), "mandatory match=pong").io(io).start();
            until(&format!("{expect}: up"), || carried(&proxy));
            *banner.lock().unwrap() = "-ERR\r\n";
            until(&format!("{expect}: down"), || !carried(&proxy));
        }
        let proxy = file("send x;", "mandatory").io(io).start();
        until("it can be connected to", || carried(&proxy));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let proxy = file("send x;", &format!("port={port}")).io(io).start();
        until("nobody listens there", || !carried(&proxy));
    }

    fn what_a_check_finds_holds_for_all_workers_at_once(io: Io) {
        let (a, b) = (Server::start("a"), Server::start("b"));
        let text = format!(
            "worker_processes 4; error_log stderr info; events {{}}\n\
             http {{ access_log off; upstream u {{ zone u 64k; {}{} }}\n\
             server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://u; health_check interval=100ms uri=/up; }} }} }}\n",
            one(&a),
            one(&b)
        );
        let proxy = Proxy::nginx(&text).io(io).start();
        for (says, expected) in [("500 No\r\n\r\n", "b"), (OK, "ab"), ("500 No\r\n\r\n", "b")] {
            a.says(says);
            // The one before the last of these had its answer, and the next one is 100 ms away: connections of all workers know.
            a.checked(3);
            let mut seen: Vec<String> = (0..40).map(|_| answers(&proxy).1).collect();
            seen.sort();
            seen.dedup();
            assert_eq!(seen.concat(), expected);
        }
    }

    fn all_checks_of_an_upstream_must_pass(io: Io) {
        let (server, other) = (Server::start("s"), Server::start("o"));
        let more = format!("location /more {{ proxy_pass http://u; health_check interval=10ms uri=/up?more port={}; }}", other.port);
        let check = format!("health_check interval=10ms uri=/up; }} {more} location /last {{ proxy_pass http://u;");
        let proxy = file("", &one(&server), &check).io(io).start();
        until("it is up", || answers(&proxy) == (200, "s".to_owned()));
        other.says("500 X\r\n\r\n");
        until("one failed", || answers(&proxy).0 == 502);
        server.says("500 X\r\n\r\n");
        server.checked(2);
        other.says(OK);
        other.checked(3);
        assert_eq!(answers(&proxy).0, 502, "the other one fails now");
        server.says(OK);
        until("both pass", || answers(&proxy) == (200, "s".to_owned()));
    }

    fn a_connection_is_kept_for_checks(io: Io) {
        // How many requests each connection carries.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::<Mutex<Vec<usize>>>::default();
        let told = seen.clone();
        std::thread::spawn(move || {
            for (at, stream) in listener.incoming().enumerate() {
                let mut stream = stream.unwrap();
                told.lock().unwrap().push(0);
                let told = told.clone();
                std::thread::spawn(move || {
                    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                    while let Some(first) = lines.next() {
                        assert!(first.ends_with("HTTP/1.1"), "{first}");
                        lines.by_ref().take_while(|line| !line.is_empty()).for_each(drop);
                        let mut all = told.lock().unwrap();
                        all[at] += 1;
                        // The second connection breaks after two answers: that is no fault of the server.
                        let last = at == 1 && all[at] == 2;
                        drop(all);
                        let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
                        let _ = stream.write_all(answer.as_bytes());
                        if last {
                            return;
                        }
                    }
                });
            }
        });
        let check = "health_check mandatory fails=1 interval=20ms keepalive_time=100ms uri=/up;";
        let proxy = file("", &format!("server 127.0.0.1:{port} max_fails=0;"), check).io(io).start();
        until("four connections", || seen.lock().unwrap().len() >= 4);
        let counts = seen.lock().unwrap().clone();
        assert!(counts[0] >= 2 && counts[0] <= 6, "100 ms have room for a few: {counts:?}");
        assert_eq!(counts[1], 2, "{counts:?}");
        assert!(!proxy.logs().contains("is DOWN"), "{}", proxy.logs());
    }

    fn servers_of_datagrams_are_checked(io: Io) {
        let file = |port: u16, conditions: &str, check: &str| {
            Proxy::nginx(&format!(
                "worker_processes 1; error_log stderr info; events {{}}\n\
                 stream {{ match m {{ {conditions} }} upstream u {{ zone u 64k; server 127.0.0.1:{port} max_fails=0; }}\n\
                 server {{ listen 127.0.0.1:{{port}} udp; proxy_pass u; health_check_timeout 300ms; health_check interval=20ms udp {check}; }} }}\n"
            ))
            .io(io)
        };
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let answer = Arc::new(Mutex::new("PONG 1"));
        let (said, heard) = (answer.clone(), Arc::<Mutex<Vec<String>>>::default());
        let asked = heard.clone();
        std::thread::spawn(move || {
            let mut datagram = [0; 100];
            while let Ok((length, from)) = server.recv_from(&mut datagram) {
                asked.lock().unwrap().push(String::from_utf8_lossy(&datagram[..length]).into_owned());
                let _ = server.send_to(said.lock().unwrap().as_bytes(), from);
            }
        });
        let proxy = file(port, "send PING; expect ~ PONG;", "mandatory match=m").start();
        proxy.wait_for_log("is UP");
        assert_eq!(heard.lock().unwrap()[0], "PING");
        *answer.lock().unwrap() = "PANG";
        proxy.wait_for_log("is DOWN");
        // Without conditions silence is good, and a machine that says that nobody listens is not.
        heard.lock().unwrap().clear();
        let proxy = file(port, "send x;", "mandatory").start();
        proxy.wait_for_log("is UP");
        assert!(heard.lock().unwrap().iter().any(|one| one == "nginx health check"));
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let proxy = file(silent.local_addr().unwrap().port(), "send x;", "mandatory match=m").start();
        proxy.wait_for_log("is UP");
        drop(silent);
        proxy.wait_for_log("is DOWN");
    }

    fn applications_are_checked_in_their_own_words(io: Io) {
        let scripted = |port: u16, text: &str| {
            Proxy::nginx(&format!(
                "worker_processes 1; error_log stderr info; events {{}}\n\
                 http {{ access_log off; upstream u {{ zone u 64k; server 127.0.0.1:{port} max_fails=0; }}\n\
                 server {{ listen 127.0.0.1:{{port}}; root /srv; location / {{ {text} health_check mandatory interval=20ms uri=/up?x=1; }} }} }}\n"
            ))
            .io(io)
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (answer, heard) = (Arc::new(Mutex::new("")), Arc::<Mutex<Vec<String>>>::default());
        let (said, asked) = (answer.clone(), heard.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut bytes = [0; 2000];
                let length = stream.read(&mut bytes).unwrap_or(0);
                asked.lock().unwrap().push(String::from_utf8_lossy(&bytes[..length]).into_owned());
                let _ = stream.write_all(said.lock().unwrap().as_bytes());
            }
        });
        for (text, good, bad, request) in [
            (
                "scgi_pass u; scgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;",
                "Status: 204 No\r\n\r\n",
                "Status: 500 No\r\n\r\n",
                "SCRIPT_FILENAME\0/srv/up\0",
            ),
            ("uwsgi_pass u;", "HTTP/1.1 302 X\r\n\r\n", "HTTP/1.1 404 X\r\n\r\n", "QUERY_STRING\u{3}\0x=1"),
            ("set $memcached_key a; memcached_pass u;", "VALUE /up?x=1 0 1\r\n1\r\nEND\r\n", "END\r\n", "get /up?x=1\r\n"),
        ] {
            *answer.lock().unwrap() = good;
            heard.lock().unwrap().clear();
            let proxy = scripted(port, text).start();
            proxy.wait_for_log("is UP");
            let first = heard.lock().unwrap()[0].clone();
            assert!(first.contains(request), "{first:?}");
            *answer.lock().unwrap() = bad;
            proxy.wait_for_log("is DOWN");
        }
    }

    fn who_fails_too_often_is_ejected_and_comes_back(io: Io) {
        let bad = Origin::script(|c| c.keep_answering(500, &[], "bad"));
        let (a, b) = (Server::start("a"), Server::start("b"));
        let servers = format!(
            "server {bad} max_fails=0; {}{} weir_outliers failures=20% interval=100ms ejection=700ms requests=3;",
            one(&a),
            one(&b)
        );
        let proxy = file("", &servers, "").io(io).start();
        until("it is ejected", || names(&proxy) == "ab");
        proxy.wait_for_log(&format!("Server u/{bad} is ejected for 0.7 s: "));
        proxy.wait_for_log("2 active and 0 backup servers left.");
        until("it is back", || names(&proxy) == "abbad");
        proxy.wait_for_log(&format!("Server u/{bad} is no longer ejected."));
        // It does no better: out for twice as long.
        until("it is ejected again", || names(&proxy) == "ab");
        proxy.wait_for_log(&format!("Server u/{bad} is ejected for 1.4 s: "));
    }

    fn too_few_live_servers_are_a_panic_and_all_are_used(io: Io) {
        let (a, b, c) = (Server::start("a"), Server::start("b"), Server::start("c"));
        let servers = one(&a) + &one(&b) + &one(&c) + "weir_panic_threshold 50%;";
        let proxy = file("", &servers, "health_check interval=20ms uri=/up;").io(io).start();
        a.says("500 No\r\n\r\n");
        until("one of three is out", || names(&proxy) == "bc");
        b.says("500 No\r\n\r\n");
        until("one of three is too few", || names(&proxy) == "abc");
        a.says(OK);
        until("two are enough", || names(&proxy) == "ac");
    }

    fn a_reload_keeps_what_checks_found(io: Io) {
        let server = Server::start("s");
        let proxy = file("", &one(&server), "health_check mandatory persistent interval=10ms uri=/up;");
        let mut running = proxy.io(io).start();
        until("it is up", || answers(&running) == (200, "s".to_owned()));
        running.reload_same();
        assert_eq!(answers(&running), (200, "s".to_owned()));
    }
}

#[test]
fn mistakes_are_named() {
    let server = "server 127.0.0.1:1;";
    for (http, check, wanted) in [
        ("", "health_check match=none;", "there is no `match` block called `none`"),
        ("", "health_check interval=0;", "a parameter of `health_check`"),
        ("", "health_check uri=up;", "a parameter of `health_check`"),
        ("", "health_check type=grpc;", "a check of `type=grpc` stands beside `grpc_pass`"),
        ("", "health_check grpc_status=12;", "a parameter of `health_check`"),
        ("", "health_check uri=/up type=grpc;", "has neither `uri` nor `match`"),
        ("", "health_check udp;", "a parameter of `health_check`"),
        ("match m { status; }", "health_check match=m;", "a condition of `match`"),
        ("match m { status 99; }", "", "a condition of `match`"),
        ("match m { header A < 1; }", "", "a condition of `match`"),
        ("match m { require $host; }", "", "`require` cannot know `$host`"),
        ("match m { require a; }", "", "`require` takes variables"),
        ("match m { status 200; } match m { status 200; }", "", "two `match` blocks called `m`"),
        (
            "server { listen 127.0.0.1:1; location / { return 200; health_check; } }",
            "",
            "stands beside `proxy_pass`",
        ),
        (
            "server { listen 127.0.0.1:1; location / { proxy_pass http://$host; health_check; } }",
            "",
            "without variables",
        ),
    ] {
        let (code, told) = file(http, server, check).check();
        assert!(code != 0 && told.contains(wanted), "{http} {check}: {told}");
    }
}
