//! Health checks and agents of a haproxy.cfg: the same file and the same servers, to Weir and to Debian's haproxy.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::{Duration, Instant};

use weir_testkit::{Certificate, Io, Origin, Proxy, Running, Script, both_drivers, console};

fn file(backends: &str) -> Proxy {
    Proxy::haproxy(&format!(
        "global\n nbthread 1\n stats socket {{dir}}/cli.sock level admin\n\
         defaults\n mode tcp\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n timeout check 10s\n\
         default-server inter 50ms rise 1 fall 1\n\
         frontend f\n bind 127.0.0.1:{{port}}\n default_backend b\n{backends}"
    ))
}

/// Both, one after the other.
fn each(io: Io, backends: &str, case: impl Fn(&Running, &str)) {
    case(&file(backends).io(io).start(), "weir");
    case(&file(backends).by_rival().start(), "haproxy");
}

fn ask(proxy: &Running, line: &str) -> String {
    console::ask(proxy, line)
}

/// Columns of a server in the statistics. Of its status the first word: what follows tells of other things.
fn columns(proxy: &Running, server: &str, names: [&str; 3]) -> [String; 3] {
    let table = ask(proxy, "show stat");
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().unwrap().trim_start_matches("# ").split(',').collect();
    let line = lines.find(|line| line.starts_with(&format!("{},", server.replace('/', ",")))).unwrap();
    let line: Vec<&str> = line.split(',').collect();
    names.map(|name| {
        let at = head.iter().position(|known| *known == name).unwrap();
        let word = line[at].trim_start_matches("* ");
        if name == "status" { word.split(' ').next().unwrap().to_owned() } else { word.to_owned() }
    })
}

fn until<T: PartialEq + std::fmt::Debug>(what: &str, expected: T, now: impl Fn() -> T) {
    let began = Instant::now();
    loop {
        let seen = now();
        if seen == expected {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{what}: {seen:?} is not {expected:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Checks of one server come to this: status, HAProxy's word, the code.
fn come_to(io: Io, words: &str, origin: &Origin, expected: [&str; 3]) {
    let text = format!("backend b\n{words} server s {origin} check\n").replace("SERVER", "server s");
    each(io, &text, |proxy, who| {
        let seen = || {
            let [status, word, code] = columns(proxy, "b/s", ["status", "check_status", "check_code"]);
            // Only responses of HTTP have a code that is the same in both.
            let code = if words.contains("httpchk") { code } else { String::new() };
            [status, word, code]
        };
        until(&format!("{who}: {words}"), expected.map(str::to_owned), seen);
    });
    // Checks end as soon as they know, and servers may have more to say.
    let _ = origin.take_failures();
}

fn script(steps: impl FnOnce(Script) -> Script) -> Origin {
    Origin::script(|c| steps(c).until_closed())
}

const LOGIN: &[u8] = b"\x27\0\0\x01\0\x82\0\0\0\x80\0\x01\x21\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    haprx\0\0\x01\0\0\0\x01";

fn greeting() -> Vec<u8> {
    let body = b"\x0a8.0.1\0\x01\0\0\0abcdefgh\0\xff\xf7\x21\x02\0\x7f\x80\x15\0\0\0\0\0\0\0\0\0\0abcdefghijkl\0mysql_native_password\0";
    [&[u8::try_from(body.len()).unwrap(), 0, 0, 0][..], body].concat()
}

both_drivers! {
    fn redis_answers_a_ping(io: Io) {
        // What may still become another answer is waited for.
        let ping = |answer: &str| Origin::script(|c| c.expect_bytes("*1\r\n$4\r\nPING\r\n").send(answer).half_close().until_closed());
        come_to(io, " option redis-check\n", &ping("+PONG\r\n"), ["UP", "L7OK", ""]);
        come_to(io, " option redis-check\n", &ping("-NOAUTH Authentication required.\r\n"), ["DOWN", "L7STS", ""]);
    }

    fn smtp_servers_greet(io: Io) {
        let good = script(|c| {
            c.send("220 mx.test ready\r\n").expect_bytes("EHLO a.test\r\n").send("250-mx.test\r\n250 HELP\r\n")
                .expect_bytes("QUIT\r\n").send("221 bye\r\n")
        });
        come_to(io, " option smtpchk EHLO a.test\n", &good, ["UP", "L7OK", ""]);
        come_to(io, " option smtpchk\n", &script(|c| c.send("554 go away\r\n")), ["DOWN", "L7STS", ""]);
        come_to(io, " option smtpchk\n", &script(|c| c.send("hello\r\n")), ["DOWN", "L7RSP", ""]);
    }

    fn mysql_shakes_hands(io: Io) {
        come_to(io, " option mysql-check\n", &script(|c| c.send(greeting())), ["UP", "L7OK", ""]);
        let refused = b"\x17\0\0\0\xff\x10\x04Too many connections";
        come_to(io, " option mysql-check\n", &script(|c| c.send(refused)), ["DOWN", "L7STS", ""]);
        let login = |answer: &[u8]| script(|c| c.send(greeting()).expect_bytes(LOGIN).send(answer));
        come_to(io, " option mysql-check user haprx\n", &login(b"\x07\0\0\x02\0\0\0\x02\0\0\0"), ["UP", "L7OK", ""]);
        let denied = b"\x16\0\0\x02\xff\x15\x04#28000Access denied";
        come_to(io, " option mysql-check user haprx\n", &login(denied), ["DOWN", "L7STS", ""]);
    }

    fn postgresql_asks_for_a_password(io: Io) {
        let start = |answer: &[u8]| script(|c| c.expect_bytes(b"\0\0\0\x14\0\x03\0\0user\0haprx\0\0").send(answer));
        come_to(io, " option pgsql-check user haprx\n", &start(b"R\0\0\0\x0c\0\0\0\x05abcd"), ["UP", "L7OK", ""]);
        come_to(io, " option pgsql-check user haprx\n", &start(b"E\0\0\0\x09SFATAL\0"), ["DOWN", "L7RSP", ""]);
        come_to(io, " option pgsql-check user haprx\n", &start(b"R\0\0\0\x08\0\0\0\x63"), ["DOWN", "L7STS", ""]);
    }

    fn ldap_binds(io: Io) {
        let bind = |code: u8| script(|c| {
            c.expect_bytes(b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\0\x80\0")
                .send([0x30, 0x0c, 2, 1, 1, 0x61, 7, 0x0a, 1, code, 4, 0, 4, 0])
        });
        come_to(io, " option ldap-check\n", &bind(0), ["UP", "L7OK", ""]);
        come_to(io, " option ldap-check\n", &bind(0x31), ["DOWN", "L7STS", ""]);
        come_to(io, " option ldap-check\n", &script(|c| c.send("no directory is here\r\n")), ["DOWN", "L7RSP", ""]);
    }

    fn tls_servers_answer_a_hello(io: Io) {
        let origin = Origin::tls(&Certificate::p256(&["a.test"]), |c| c.until_closed());
        come_to(io, " option ssl-hello-chk\n", &origin, ["UP", "L6OK", ""]);
        come_to(io, " option ssl-hello-chk\n", &script(|c| c.send("220 not TLS\r\n")), ["DOWN", "L6RSP", ""]);
    }

    fn scripts_send_and_expect_in_turn(io: Io) {
        let banner = || script(|c| c.send("+OK POP3 <1@a>\r\n").expect_bytes("STAT\r\n").send(b"+OK 2 \xff\x01\r\n"));
        for (words, expected) in [
            ("tcp-check expect string +OK\n tcp-check expect rstring <.+@a>\n tcp-check send STAT\\r\\n\n tcp-check expect rbinary 20FF01\n", ["UP", "L7OK", ""]),
            ("tcp-check expect string +OK\n tcp-check send-binary 535441540d0a\n tcp-check expect binary ff01\n tcp-check expect min-recv 4 ! string -ERR\n", ["UP", "L7OK", ""]),
            ("tcp-check expect ! string POP3\n", ["DOWN", "L7RSP", ""]),
            ("tcp-check expect error-status L7STS ! rstring ^.OK\n", ["DOWN", "L7STS", ""]),
            ("tcp-check connect\n tcp-check expect min-recv 10 ok-status L7OKC rbinary ^2B4F4B20\n", ["NOLB", "L7OKC", ""]),
        ] {
            let words: String = format!(" option tcp-check\n {words}");
            come_to(io, &words, &banner(), expected);
        }
    }

    fn responses_are_judged_by_more_than_their_status(io: Io) {
        let origin = || Origin::script(|c| c.keep_answering(203, &[("X-Role", "primary, writable"), ("X-Lag", "12ms")], "state: fine"));
        for (words, expected) in [
            ("", ["UP", "L7OK", "203"]),
            ("http-check expect status 200,202-204\n", ["UP", "L7OK", "203"]),
            ("http-check expect ! status 203\n", ["DOWN", "L7STS", "203"]),
            ("http-check expect hdr name x-role value writable\n", ["UP", "L7OK", "203"]),
            ("http-check expect fhdr name x-role value writable\n", ["DOWN", "L7STS", "203"]),
            ("http-check expect hdr name -m beg x-l value -m end ms\n", ["UP", "L7OK", "203"]),
            ("http-check expect hdr name x-none\n", ["DOWN", "L7STS", "203"]),
            ("http-check expect error-status L7RSP ! rstring state:.(fine|good)\n", ["DOWN", "L7RSP", ""]),
            ("http-check expect string fine\n http-check expect status 203\n", ["UP", "L7OK", "203"]),
        ] {
            let words = format!(" option httpchk GET /\n {words}");
            come_to(io, &words, &origin(), expected);
        }
        // Each request has a connection.
        let both = Origin::script(|c| c.keep_answering(200, &[], "one"));
        let words = " option httpchk\n http-check connect\n http-check send meth GET uri /a ver HTTP/1.1 hdr host a.test\n http-check expect string one\n \
             http-check connect\n http-check send meth POST uri /b ver HTTP/1.1 hdr host a.test body x\n http-check expect status 200\n";
        come_to(io, words, &both, ["UP", "L7OK", "200"]);
        let lines: Vec<String> = both.requests().iter().map(|request| request.line().to_owned()).collect();
        assert!(["GET /a", "POST /b"].iter().all(|line| lines.iter().any(|seen| seen == line)), "{lines:?}");
    }

    fn connections_of_scripts_go_where_their_rules_say(io: Io) {
        let (first, other) = (script(|c| c.send("hello")), script(|c| c.send("other")));
        let words = format!(
            " option tcp-check\n tcp-check connect\n tcp-check expect string hello\n tcp-check connect port {}\n tcp-check expect string other\n",
            other.port()
        );
        come_to(io, &words, &first, ["UP", "L7OK", ""]);
        // The header names both ends of the connection.
        let proxied = script(|c| c.expect_bytes("PROXY TCP4 127.0.0.1 127.0.0.1 ").send("fine"));
        let words = " option tcp-check\n tcp-check connect send-proxy\n tcp-check send hello\n tcp-check expect string fine\n";
        come_to(io, words, &proxied, ["UP", "L7OK", ""]);
        let words = " option tcp-check\n tcp-check send hello\n tcp-check expect string fine\n default-server check-send-proxy\n";
        come_to(io, words, &proxied, ["UP", "L7OK", ""]);
        let local = script(|c| c.expect_bytes(b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0hello").send("fine"));
        let words = format!("{words} default-server send-proxy-v2\n");
        come_to(io, &words, &local, ["UP", "L7OK", ""]);
    }

    fn a_404_drains_and_servers_are_told_their_state(io: Io) {
        let leaving = Origin::script(|c| c.keep_answering(404, &[], ""));
        come_to(io, " option httpchk GET /\n http-check disable-on-404\n", &leaving, ["NOLB", "L7OKC", "404"]);
        let told = Origin::script(|c| c.keep_answering(200, &[], ""));
        let text = format!("backend b\n option httpchk GET /\n http-check send-state\n server s {told} check weight 3\n server t {told} weight 5\n");
        each(io, &text, |proxy, who| {
            let before = told.requests().len();
            until(who, "UP".to_owned(), || columns(proxy, "b/s", ["status", "check_status", "check_code"])[0].clone());
            let state = told.wait_for_requests(before + 2).last().unwrap().header("X-Haproxy-Server-State").unwrap().to_owned();
            // HAProxy also tells the address.
            for part in ["UP", "name=b/s; node=", "; weight=3/8; scur=0/0; qcur=0"] {
                assert!(state.contains(part), "{who}: {state}");
            }
        });
    }

    fn agents_are_obeyed(io: Io) {
        let server = Origin::script(|c| c.keep_answering(200, &[], ""));
        for (said, status, weight) in [
            ("up 50%\n", "UP", "5"),
            ("down #going away\n", "DOWN", "10"),
            ("drain\n", "DRAIN", "10"),
            ("maint\n", "MAINT", "10"),
            ("nonsense\n", "UP", "10"),
        ] {
            let agent = script(|c| c.expect_bytes("how are you?\n").send(said));
            let text = format!(
                "backend b\n server s {server} check weight 10 agent-check agent-port {} agent-inter 50ms agent-send \"how are you?\\n\"\n",
                agent.port()
            );
            each(io, &text, |proxy, who| {
                agent.wait_for_connections(1);
                // HAProxy shows the weight of what is drained as 0.
                let seen = || {
                    let [status, weight, _] = columns(proxy, "b/s", ["status", "weight", "check_code"]);
                    [status, if said.starts_with("drain") { "10".to_owned() } else { weight }]
                };
                until(&format!("{who}: {said}"), [status.to_owned(), weight.to_owned()], seen);
            });
            let _ = agent.take_failures();
        }
    }

    fn servers_follow_those_that_they_track(io: Io) {
        let origin = Origin::script(|c| c.keep_answering(500, &[], ""));
        let text = format!(
            "backend b\n option httpchk GET /\n server s {origin} check\n\
             backend c\n server t 127.0.0.1:1 track b/s\n server u 127.0.0.1:1 track t\n"
        );
        for program in [file(&text).io(io), file(&text).by_rival()] {
            let proxy = program.start();
            for name in ["b/s", "c/t", "c/u"] {
                until(name, "DOWN".to_owned(), || columns(&proxy, name, ["status", "weight", "check_code"])[0].clone());
            }
        }
    }

    fn servers_in_maintenance_are_not_asked(io: Io) {
        for program in ["weir", "haproxy"] {
            let fine = || Origin::script(|c| c.keep_answering(200, &[], ""));
            let (out, there) = (fine(), fine());
            let text = format!("backend b\n option httpchk GET /\n server s {out} check disabled\n server t {there} check\n");
            let proxy = if program == "weir" { file(&text).io(io) } else { file(&text).by_rival() }.start();
            there.wait_for_requests(5);
            assert_eq!(out.connections(), 0, "{program}");
            ask(&proxy, "set server b/s state ready");
            out.wait_for_requests(1);
        }
    }

    fn servers_begin_as_the_file_says(io: Io) {
        // HAProxy 2.6 does not know the word.
        let slow = script(|c| c);
        let states = [("up", "UP"), ("fully-up", "UP"), ("down", "DOWN"), ("fully-down", "DOWN")];
        for (word, expected) in states {
            let text = format!("backend b\n option httpchk GET /\n server s {slow} check init-state {word}\n");
            let proxy = file(&text).io(io).start();
            // What it is before anybody has been asked.
            assert_eq!(columns(&proxy, "b/s", ["status", "weight", "check_code"])[0], expected, "{word}");
        }
    }
}

#[test]
fn mistakes_are_found() {
    let cases = [
        (" option httpchk\n http-check expect hdr name x -m nonsense y\n", "nonsense"),
        (" option httpchk\n http-check expect status 99\n", "`99` is no status"),
        (" option tcp-check\n tcp-check expect ok-status L9 string x\n", "L9"),
        (" option httpchk\n http-check send uri /a\n http-check send uri /b\n", "a connection of its own"),
        (" option mysql-check name x\n", "write `user NAME`"),
        (" server s 127.0.0.1:1 agent-check\n", "`agent-check` needs `agent-port`"),
        (" server s 127.0.0.1:1 track c/x\n", "there is no server `x` in `c`"),
        (" server s 127.0.0.1:1 check init-state sideways\n", "sideways"),
    ];
    for (words, expected) in cases {
        let (code, printed) = file(&format!("backend b\n{words} server z 127.0.0.1:2 check\n")).check();
        assert!(code == 1 && printed.contains(expected), "{words}: {code} {printed}");
    }
}
