//! gRPC: the peers of grpc-go's own interoperation tests on both sides, and origins that misbehave frame by frame.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;

use weir_testkit::h2::{H2Conn, H2Origin, Reason, StreamKey};
use weir_testkit::{
    Certificate, Client, Io, Process, Proxy, Request, Running, both_drivers, eventually, programs,
};

/// grpc-go's test server: the process, and its port.
fn server(files: &[&std::path::Path], max_age: Option<&str>) -> (Process, u16) {
    server_with(files, max_age.map(|age| ("MAX_AGE", age)))
}

fn server_with(files: &[&std::path::Path], variable: Option<(&str, &str)>) -> (Process, u16) {
    let mut command = Command::new(programs::peer("grpc"));
    command.arg("serve").args(files).envs(variable);
    let server = programs::server(command);
    let port = eventually("the port of grpc-go", || server.printed().lines().next()?.trim().parse().ok());
    (server, port)
}

/// Runs cases of grpc-go's test client.
#[track_caller]
fn ask(address: &str, cases: &[&str]) {
    let mut command = Command::new(programs::peer("grpc"));
    command.arg("ask").arg(address).args(cases);
    let (code, text) = programs::run(command);
    assert_eq!(code, 0, "{text}");
    assert_eq!(text.lines().collect::<Vec<_>>(), cases);
}

fn address(proxy: &Running) -> String {
    format!("127.0.0.1:{}", proxy.port().number())
}

fn conf(server: &str) -> String {
    format!(
        "worker_processes 1; error_log {{dir}}/error.log; events {{}} http {{ access_log {{dir}}/log; client_max_body_size 0;
         server {{ listen 127.0.0.1:{{port}}; http2 on; {server} }} }}"
    )
}

/// What gRPC's implementations ask of one another.
const CASES: [&str; 16] = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "custom_metadata",
    "status_code_and_message",
    "special_status_message",
    "unimplemented_method",
    "unimplemented_service",
    "huge_unary",
    "late_reader",
];

both_drivers! {
    fn the_health_service_says_who_serves(io: Io) {
        let certificate = Certificate::p256(&["localhost"]);
        let dir = tempfile::tempdir().unwrap();
        let files = certificate.write(dir.path(), "peer");
        let files: Vec<&std::path::Path> = vec![&files.chain, &files.key];
        for (scheme, files) in [("grpc", &[][..]), ("grpcs", &files[..])] {
            let file = |port: u16, parameters: &str| {
                conf(&format!(
                    "location / {{ grpc_pass {scheme}://u; health_check interval=20ms {parameters}; }} }}
                     upstream u {{ zone u 64k; server 127.0.0.1:{port} max_fails=0;"
                ))
            };
            let serves = |proxy: &Running| {
                let response = Client::connect(proxy).request(&Request::post("/grpc.testing.TestService/EmptyCall", ""));
                response.status != 502
            };
            // The server as a whole, and one service of it.
            let (peer, port) = server_with(files, Some(("HEALTH", "shop.Cart")));
            for parameters in ["mandatory type=grpc", "mandatory type=grpc grpc_service=shop.Cart"] {
                let proxy = Proxy::nginx(&file(port, parameters)).io(io).start();
                eventually("it serves", || serves(&proxy).then_some(()));
                peer.signal(weir_testkit::process::UnixSignal::USR1);
                eventually("it serves no more", || (!serves(&proxy)).then_some(()));
                peer.signal(weir_testkit::process::UnixSignal::USR2);
                eventually("it serves again", || serves(&proxy).then_some(()));
            }
            let proxy = Proxy::nginx(&file(port, "type=grpc grpc_service=shop.Other")).io(io).start();
            proxy.wait_for_file("error.log", "is DOWN, reason: its status of gRPC is 5");
            // A server without the health service says that it is not implemented (12).
            let (_other, port) = server_with(files, None);
            let proxy = Proxy::nginx(&file(port, "mandatory type=grpc grpc_status=12")).io(io).start();
            eventually("it serves", || serves(&proxy).then_some(()));
            let proxy = Proxy::nginx(&file(port, "type=grpc")).io(io).start();
            proxy.wait_for_file("error.log", "is DOWN, reason: its status of gRPC is 12");
            // Without the type a request of HTTP/2 is sent, which is no gRPC.
            let proxy = Proxy::nginx(&file(port, "uri=/up")).io(io).start();
            proxy.wait_for_file("error.log", "is DOWN, reason: answered 4");
        }
    }

    fn the_cases_of_grpc_pass(io: Io) {
        let (_server, port) = server(&[], None);
        let proxy = Proxy::nginx(&conf(&format!("location / {{ grpc_pass grpc://127.0.0.1:{port}; }}"))).io(io).start();
        ask(&address(&proxy), &CASES);
    }

    fn errors_are_in_grpc_s_words(io: Io) {
        let proxy = Proxy::nginx(&conf(
            "location / { grpc_pass 127.0.0.1:1; error_page 502 = /none; }
             location = /none { internal; default_type application/grpc; add_header grpc-status 14; add_header grpc-message 'nobody there'; return 200 ''; }",
        )).io(io).start();
        ask(&address(&proxy), &["unavailable"]);
    }

    fn tls_is_spoken_on_both_sides_and_the_target_may_be_computed(io: Io) {
        let site = Certificate::p256(&["a.test"]);
        let folder = tempfile::tempdir().unwrap();
        let (chain, key) = (folder.path().join("c.pem"), folder.path().join("k.pem"));
        std::fs::write(&chain, site.chain_pem()).unwrap();
        std::fs::write(&key, site.key_pem()).unwrap();
        let (_server, port) = server(&[&chain, &key], None);
        let proxy = Proxy::nginx(&format!(
            "worker_processes 1; error_log {{dir}}/error.log; events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{{port}} ssl; http2 on;
             ssl_certificate {{dir}}/a.crt; ssl_certificate_key {{dir}}/a.key; set $scheme_of grpcs; client_max_body_size 0;
             location / {{ grpc_pass $scheme_of://127.0.0.1:{port}; grpc_ssl_verify on; grpc_ssl_name a.test; grpc_ssl_server_name on;
               grpc_ssl_trusted_certificate {{dir}}/a.crt; }} }} }}"
        )).io(io).certificate("a", &site).start();
        ask(&format!("tls:{}", address(&proxy)), &CASES);
    }

    fn servers_that_end_their_connections_cost_no_request(io: Io) {
        let (_server, port) = server(&[], Some("20ms"));
        let proxy = Proxy::nginx(&conf(&format!(
            "location / {{ grpc_pass u; }} }} upstream u {{ server 127.0.0.1:{port}; keepalive 4;"
        ))).io(io).start();
        ask(&address(&proxy), &["empty_unary"; 300]);
        ask(&address(&proxy), &["large_unary"; 20]);
    }

    fn requests_are_spelt_as_nginx_spells_them(io: Io) {
        let origin = H2Origin::answering(&[("content-type", "text/x"), ("x-own", "1"), ("server", "me")], b"answer");
        let proxy = Proxy::nginx(&conf(&format!(
            "location /plain {{ grpc_pass {origin}; grpc_set_header X-Set $uri; grpc_set_header X-None ''; grpc_hide_header X-Own; }}
             location /host {{ grpc_pass {origin}; grpc_set_header Host custom; }}
             location /two/ {{ proxy_pass http://{origin}/other/; proxy_http_version 2; proxy_set_header Host mine; }}"
        ))).io(io).start();
        let mut client = Client::connect(&proxy);
        let asked = Request::post("/plain?a=b", "body").header("X-None", "x").header("X-Mine", "y").header("Authorization", "secret");
        let got = client.request(&asked);
        got.expect_status(200).expect_header("content-type", "text/x").expect_no_header("x-own").expect_body("answer");
        client.request(&Request::get("/host")).expect_body("answer");
        client.request(&Request::post("/two/x", "chunks").chunked()).expect_body("answer");
        let requests = origin.requests();
        let authority = origin.to_string();
        let own = |at: usize, names: &[&str]| names.iter().map(|name| requests[at].field(name).map(str::to_owned)).collect::<Vec<_>>();
        assert_eq!(
            own(0, &[":method", ":scheme", ":path", ":authority", "te", "content-length", "x-set", "x-none", "x-mine", "authorization", "host", "connection"]),
            [Some("POST"), Some("http"), Some("/plain?a=b"), Some(&*authority), Some("trailers"), Some("4"), Some("/plain"), None, Some("y"), Some("secret"), None, None]
                .map(|value| value.map(str::to_owned))
        );
        assert_eq!(requests[0].body, b"body");
        assert_eq!(own(1, &["host", ":method"]), [Some("custom".to_owned()), Some("GET".to_owned())]);
        assert_eq!(
            own(2, &[":path", ":authority", "content-length", "te"]),
            [Some("/other/x"), Some("mine"), Some("6"), None].map(|value| value.map(str::to_owned))
        );
        assert_eq!(requests[2].body, b"chunks");
        assert_eq!(origin.connections(), 1, "one way to one endpoint");
    }

    fn connections_are_kept_and_their_end_is_noticed(io: Io) {
        let origin = H2Origin::new(|conn| {
            for at in 0..3 {
                let Some(request) = conn.request() else { return };
                conn.respond(request.stream, &[], b"ok", &[]);
                if at == 1 && conn.nth() == 0 {
                    conn.go_away();
                }
            }
            conn.until_closed();
        });
        let proxy = Proxy::nginx(&conf(&format!("location / {{ grpc_pass u; }} }} upstream u {{ server {origin}; keepalive 1;"))).io(io).start();
        let mut client = Client::connect(&proxy);
        for _ in 0..4 {
            client.request(&Request::post("/", "body")).expect_status(200).expect_body("ok");
        }
        let of: Vec<usize> = origin.requests().iter().map(|request| request.connection).collect();
        assert_eq!(of, [0, 0, 1, 1]);
    }

    fn what_was_refused_is_asked_elsewhere(io: Io) {
        for goaway in [false, true] {
            let refusing = H2Origin::new(move |conn| {
                let Some(request) = conn.request() else { return };
                if goaway {
                    // Last stream 0: this one was not looked at.
                    conn.raw(&[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                } else {
                    conn.reset(request.stream, Reason::REFUSED_STREAM);
                }
                conn.until_closed();
            });
            let other = H2Origin::answering(&[], b"other");
            let proxy = Proxy::nginx(&conf(&format!(
                "location / {{ grpc_pass u; }} }} upstream u {{ server {refusing}; server {other} backup;"
            ))).io(io).start();
            Client::connect(&proxy).request(&Request::post("/", "body")).expect_status(200).expect_body("other");
            assert_eq!(other.requests()[0].body, b"body", "goaway: {goaway}");
            // What may have been done is not done again.
            let resetting = H2Origin::new(|conn| {
                let Some(request) = conn.request() else { return };
                conn.reset(request.stream, Reason::INTERNAL_ERROR);
                conn.until_closed();
            });
            let proxy = Proxy::nginx(&conf(&format!(
                "location / {{ grpc_pass u; }} }} upstream u {{ server {resetting}; server {other} backup;"
            ))).io(io).start();
            Client::connect(&proxy).request(&Request::post("/", "body")).expect_status(502);
            assert_eq!(other.requests().len(), 1);
        }
    }

    fn trailers_pass_in_both_directions(io: Io) {
        let origin = H2Origin::new(|conn| {
            while let Some(request) = conn.request() {
                conn.respond(request.stream, &[], b"answer", &[("x-after", "1"), ("grpc-status", "0")]);
            }
        });
        let proxy = Proxy::nginx(&conf(&format!(
            "location /g {{ grpc_pass {origin}; }} location /p {{ proxy_pass http://{origin}; proxy_http_version 2; }}"
        ))).io(io).start();
        for path in ["/g", "/p"] {
            let mut client = Client::connect(&proxy);
            client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nX-Before: 2\r\n\r\n"));
            let got = client.read();
            assert_eq!((got.status, &got.body[..]), (200, &b"answer"[..]));
            let request = origin.requests().pop().unwrap();
            assert_eq!((&request.body[..], &request.trailers[..]), (&b"body"[..], &[("x-before".to_owned(), "2".to_owned())][..]), "{path}");
        }
    }

    fn large_bodies_wait_for_windows(io: Io) {
        let body: Vec<u8> = (0..1_500_000_u32).map(|n| n as u8).collect();
        let origin = H2Origin::new(|conn| {
            while let Some(request) = conn.request() {
                let echoed = request.body.clone();
                conn.respond(request.stream, &[], &echoed, &[]);
            }
        });
        let proxy = Proxy::nginx(&conf(&format!(
            "client_body_temp_path {{dir}}; location /g {{ grpc_pass {origin}; }} location /p {{ proxy_pass http://{origin}; proxy_http_version 2; }}"
        ))).io(io).start();
        for path in ["/g", "/p"] {
            let got = Client::connect(&proxy).request(&Request::post(path, &body));
            assert!(got.body == body, "{path}");
        }
    }

    fn hostile_origins_are_cut_and_nobody_else_suffers(io: Io) {
        let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
            let [_, a, b, c] = u32::try_from(payload.len()).unwrap().to_be_bytes();
            [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
        };
        let rows: Vec<(&str, Vec<u8>)> = vec![
            ("no HTTP/2", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()),
            ("nothing", Vec::new()),
            ("a frame too large", frame(0, 0, 1, &[0; 20_000])),
            ("DATA before a head", frame(0, 1, 1, b"ok")),
            ("a head without a status", frame(1, 5, 1, b"\x00\x01a\x01b")),
            ("a status of three letters", frame(1, 5, 1, b"\x08\x03abc")),
            ("a change of protocol", frame(1, 5, 1, b"\x08\x03101")),
            ("an upper-case field", frame(1, 5, 1, b"\x88\x00\x01A\x01b")),
            ("a field with a line end", frame(1, 5, 1, b"\x88\x00\x01a\x03b\r\n")),
            ("a field of the connection", frame(1, 5, 1, b"\x88\x00\x0aconnection\x01b")),
            ("no HPACK", frame(1, 5, 1, b"\xff\xff\xff\xff\xff\xff\xff")),
            ("a push", frame(5, 4, 1, b"\0\0\0\x02\x82")),
            ("a stream that nobody opened", frame(1, 5, 7, b"\x88")),
            ("a window too large", [frame(8, 0, 0, &[0x7f, 0xff, 0xff, 0xff]), frame(8, 0, 0, &[0x7f, 0xff, 0xff, 0xff])].concat()),
            ("a head without end", [frame(1, 0, 1, b"\x88"), frame(9, 0, 1, b"").repeat(40)].concat()),
            ("interim heads without end", frame(1, 4, 1, b"\x08\x03103").repeat(40)),
            ("pings without end", frame(6, 0, 0, &[0; 8]).repeat(20_000)),
            ("settings without end", frame(4, 0, 0, &[]).repeat(20_000)),
            ("frames that nobody knows", frame(99, 0, 0, &[]).repeat(20_000)),
        ];
        for (name, bytes) in rows {
            let settings = name != "no HTTP/2" && name != "nothing";
            let origin = H2Origin::new(move |conn| {
                if settings {
                    let Some(_) = conn.request() else { return };
                    conn.raw(&bytes);
                    if !name.ends_with("without end") && name != "frames that nobody knows" {
                        conn.until_closed();
                    }
                } else {
                    conn.wire.output().clear();
                    conn.raw(&bytes);
                }
            });
            let proxy = Proxy::nginx(&conf(&format!("location / {{ grpc_pass {origin}; }} location /own {{ return 200 here; }}"))).io(io).start();
            let got = Client::connect(&proxy).get("/x");
            assert_eq!(got.status, 502, "{name}: {got}");
            Client::connect(&proxy).get("/own").expect_body("here");
        }
    }

    fn answers_that_were_cut_never_look_whole(io: Io) {
        type Cut = fn(&mut H2Conn, StreamKey);
        let rows: [(&str, Cut); 4] = [
            ("reset", |conn, stream| conn.reset(stream, Reason::INTERNAL_ERROR)),
            ("closed", |_, _| {}),
            ("broken", |conn, _| conn.raw(&[0xff; 64])),
            ("too much", |conn, stream| {
                let id = stream.id().to_be_bytes();
                conn.raw(&[&[0, 0, 200, 0, 1][..], &id, &[b'x'; 200]].concat());
            }),
        ];
        for (name, cut) in rows {
            let origin = H2Origin::new(move |conn| {
                let Some(request) = conn.request() else { return };
                conn.send_head(request.stream, &[(":status", "200"), ("content-length", "100")], false);
                conn.send_data(request.stream, b"part", false);
                cut(conn, request.stream);
            });
            let proxy = Proxy::nginx(&conf(&format!("location / {{ grpc_pass {origin}; }}"))).io(io).start();
            let mut client = Client::connect(&proxy);
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            match client.try_read("GET") {
                Err(_) => {}
                Ok(got) => assert_eq!(got.status, 502, "{name}: {got}"),
            }
        }
    }

    fn silence_is_bounded(io: Io) {
        let origin = H2Origin::new(H2Conn::until_closed);
        let proxy = Proxy::nginx(&conf(&format!(
            "location / {{ grpc_pass {origin}; grpc_read_timeout 300ms; grpc_send_timeout 300ms; }}"
        ))).io(io).start();
        Client::connect(&proxy).get("/").expect_status(504);
        // It gives no window for the body.
        let stingy = H2Origin::new(|conn| {
            while conn.head().is_some() {}
            conn.until_closed();
        });
        let proxy = Proxy::nginx(&conf(&format!(
            "location / {{ grpc_pass {stingy}; grpc_read_timeout 300ms; grpc_send_timeout 300ms; }}"
        ))).io(io).start();
        Client::connect(&proxy).request(&Request::post("/", vec![b'x'; 10])).expect_status(504);
    }

    fn nginx_is_an_origin_too(io: Io) {
        let origin = Proxy::nginx("worker_processes 1; events {} http { access_log {dir}/log; server { listen 127.0.0.1:{port} http2; root {dir}/html; } }")
            .by_rival().file("html/a", vec![b'x'; 400_000]).start();
        let port = origin.port().number();
        let proxy = Proxy::nginx(&conf(&format!(
            "location / {{ proxy_pass http://u; proxy_http_version 2; }} }} upstream u {{ server 127.0.0.1:{port}; keepalive 2;"
        ))).io(io).start();
        let mut client = Client::connect(&proxy);
        for _ in 0..3 {
            client.get("/a").expect_status(200).expect_header("Content-Length", "400000");
            client.request(&Request::head("/a")).expect_status(200).expect_body("");
            client.get("/none").expect_status(404);
        }
        origin.wait_for_file("log", "GET /none HTTP/2.0");
    }
}
