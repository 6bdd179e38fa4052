//! HTTP/2 towards clients: what curl, nghttp and h2load see, and what frames by hand must not do.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use weir_testkit::{Certificate, Client, Gate, Io, Origin, Proxy, Request, Running, both_drivers, programs};

fn curl(words: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args(["-s", "--max-time", "30", "--http2-prior-knowledge"]).args(words);
    let (code, text) = programs::run(command);
    assert_eq!(code, 0, "curl {words:?}: {text}");
    text
}

/// Where the proxy serves this.
fn url(proxy: &Running, path: &str) -> String {
    format!("http://127.0.0.1:{}{path}", proxy.port().number())
}

fn start(io: Io, settings: &str) -> Running {
    Proxy::nginx(&format!(
        "worker_processes 1; events {{}} http {{ log_format v '$request|$server_protocol|$http2|$status|$body_bytes_sent'; access_log {{dir}}/log v;
         default_type text/plain; server {{ listen 127.0.0.1:{{port}}; http2 on; root {{dir}}/html; client_max_body_size 8m; {settings} }} }}"
    ))
    .io(io)
    .file("html/big", vec![b'x'; 3_000_000])
    .file("html/small", "small")
    .start()
}

/// A frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// `GET path` to `host`, no body: `:method`, `:scheme` and fields in the static table of HPACK, texts as they are.
fn get(stream: u32, path: &str) -> Vec<u8> {
    let text =
        |index: u8, text: &str| [&[index, u8::try_from(text.len()).unwrap()][..], text.as_bytes()].concat();
    frame(1, 0x5, stream, &[vec![0x82, 0x86], text(0x04, path), text(0x01, "a")].concat())
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection after the preface and empty SETTINGS.
fn connect(proxy: &Running) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port().number())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(&[PREFACE, &frame(4, 0, 0, b"")].concat()).unwrap();
    stream
}

/// The next frame: kind, flags, stream, payload. `None` at the end.
fn next(stream: &mut TcpStream) -> Option<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).ok()?;
    Some((head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), payload))
}

/// Frames up to the first of `kind` for `stream`, which is given.
#[track_caller]
fn until(conn: &mut TcpStream, kind: u8, stream: u32) -> (u8, Vec<u8>) {
    loop {
        let (found, flags, of, payload) = next(conn).expect("the frame comes before the end");
        if (found, of) == (kind, stream) {
            return (flags, payload);
        }
    }
}

both_drivers! {
    fn one_port_serves_both_versions_and_says_which_in_its_log(io: Io) {
        let proxy = start(io, "location /hi { return 200 $server_protocol-$http2; }");
        assert_eq!(curl(&[&url(&proxy, "/hi")]), "HTTP/2.0-h2c");
        Client::connect(&proxy).get("/hi").expect_body("HTTP/1.1-");
        proxy.wait_for_file("log", "GET /hi HTTP/2.0|HTTP/2.0|h2c|200|12");
        proxy.wait_for_file("log", "GET /hi HTTP/1.1|HTTP/1.1|-|200|");
        let head = curl(&["-I", &url(&proxy, "/big")]);
        assert!(head.starts_with("HTTP/2 200") && head.contains("content-length: 3000000"), "{head}");
        assert_eq!(curl(&["-r", "0-4", &url(&proxy, "/small")]), "small");
        assert!(curl(&["-I", &url(&proxy, "/none")]).starts_with("HTTP/2 404"));
    }

    fn alpn_decides_over_tls(io: Io) {
        let site = Certificate::p256(&["a.test"]);
        let server = |listen: &str| format!(
            "worker_processes 1; events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{{port}} {listen};
             ssl_certificate {{dir}}/a.crt; ssl_certificate_key {{dir}}/a.key; location / {{ return 200 $server_protocol-$http2; }} }} }}"
        );
        let haproxy = |words: &str| format!(
            "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n\
             frontend f\n bind 127.0.0.1:{{port}} ssl crt {{dir}}/a.pem {words}\n\
             http-request return status 200 content-type text/plain lf-string %HV\n"
        );
        let nginx = |text: &str| Proxy::nginx(text).io(io).certificate("a", &site).start();
        let haproxy = |words: &str| Proxy::haproxy(&haproxy(words)).io(io).file("a.pem", site.bundle_pem()).start();
        for (proxy, expected) in [
            (nginx(&server("ssl http2")), "HTTP/2.0-h2"),
            (nginx(&server("ssl; http2 on")), "HTTP/2.0-h2"),
            (nginx(&server("ssl")), "HTTP/1.1-"),
            (haproxy("alpn h2,http/1.1"), "HTTP/2.0"),
            (haproxy("alpn http/1.1"), "HTTP/1.1"),
        ] {
            let mut command = Command::new("curl");
            let port = proxy.port().number();
            command.args(["-sk", "--http2", "--resolve", &format!("a.test:{port}:127.0.0.1"), &format!("https://a.test:{port}/")]);
            assert_eq!(programs::run(command), (0, expected.into()));
        }
    }

    fn bodies_pass_in_both_directions(io: Io) {
        let origin = Origin::script(|script| script.expect("PUT /put").respond(200, "taken"));
        let proxy = start(io, &format!("location /put {{ proxy_pass http://{origin}; proxy_http_version 1.1; }}"));
        let file = proxy.dir().join("html/big").display().to_string();
        assert_eq!(curl(&["-T", &file, &url(&proxy, "/put")]), "taken");
        let request = &origin.requests()[0];
        assert_eq!((request.body.len(), request.header("host")), (3_000_000, Some(&*origin.to_string())));
        let copy = proxy.dir().join("copy");
        curl(&["-o", &copy.display().to_string(), &url(&proxy, "/big")]);
        assert!(std::fs::read(copy).unwrap() == vec![b'x'; 3_000_000]);
    }

    fn cookies_are_joined_and_hosts_choose_the_site(io: Io) {
        let origin = Origin::script(|script| script.keep_answering(200, &[], "ok"));
        let proxy = start(io, &format!("server_name first; location / {{ proxy_pass http://{origin}; }} }}
            server {{ listen 127.0.0.1:{{port}}; server_name second; return 200 second;"));
        assert_eq!(curl(&["-H", "Cookie: a=1", "-H", "Cookie: b=2", "-H", "Host: first", &url(&proxy, "/")]), "ok");
        assert_eq!(origin.requests()[0].header("cookie"), Some("a=1; b=2"));
        assert_eq!(curl(&["-H", "Host: second", &url(&proxy, "/")]), "second");
    }

    fn a_stream_that_waits_holds_up_no_other(io: Io) {
        let gate = Gate::new();
        let origin = Origin::script(|script| script.expect("GET /wait").wait_for(&gate).respond(200, "late"));
        let proxy = start(io, &format!("location /wait {{ proxy_pass http://{origin}; proxy_http_version 1.1; }}"));
        let mut conn = connect(&proxy);
        conn.write_all(&[get(1, "/wait"), get(3, "/small")].concat()).unwrap();
        assert_eq!(until(&mut conn, 0, 3), (1, b"small".to_vec()));
        gate.open();
        assert_eq!(until(&mut conn, 0, 1), (1, b"late".to_vec()));
    }

    fn windows_bound_what_is_sent(io: Io) {
        let proxy = start(io, "");
        let mut conn = connect(&proxy);
        conn.write_all(&get(1, "/big")).unwrap();
        let mut sent = 0;
        while sent < 65_535 {
            sent += until(&mut conn, 0, 1).1.len();
        }
        assert_eq!(sent, 65_535);
        // The window is empty: the answer to a ping is all that comes, until there is room.
        conn.write_all(&frame(6, 0, 0, b"are you ")).unwrap();
        assert_eq!(next(&mut conn).unwrap().0, 6);
        let room = |stream| frame(8, 0, stream, &100_u32.to_be_bytes());
        conn.write_all(&[room(0), room(1)].concat()).unwrap();
        let mut more = 0;
        while more < 100 {
            more += until(&mut conn, 0, 1).1.len();
        }
        assert_eq!(more, 100);
    }

    fn streams_at_once_are_bounded(io: Io) {
        let gate = Gate::new();
        let origin = Origin::sequence((0..2).map(|_| weir_testkit::Script::new().expect("GET /wait").wait_for(&gate).respond(200, "late")));
        let proxy = start(io, &format!("http2_max_concurrent_streams 2; location /wait {{ proxy_pass http://{origin}; }}"));
        let mut conn = connect(&proxy);
        let settings = until(&mut conn, 4, 0).1;
        assert!(settings.chunks(6).any(|one| one == [0, 3, 0, 0, 0, 2]), "{settings:?}");
        conn.write_all(&[get(1, "/wait"), get(3, "/wait"), get(5, "/small")].concat()).unwrap();
        // REFUSED_STREAM: it may be sent again.
        assert_eq!(until(&mut conn, 3, 5).1, 7_u32.to_be_bytes());
        origin.wait_for_connections(2);
        gate.open();
        // In any order.
        let mut open = vec![1, 3];
        while !open.is_empty() {
            let (kind, _, stream, _) = next(&mut conn).unwrap();
            open.retain(|&id| (kind, id) != (0, stream));
        }
        conn.write_all(&get(7, "/small")).unwrap();
        assert_eq!(until(&mut conn, 0, 7).1, b"small");
    }

    fn rapid_resets_end_the_connection_and_nobody_elses(io: Io) {
        let proxy = start(io, "");
        let mut other = Client::connect(&proxy);
        let mut conn = connect(&proxy);
        let flood: Vec<u8> = (0..20_000).flat_map(|at| [get(2 * at + 1, "/big"), frame(3, 0, 2 * at + 1, &8_u32.to_be_bytes())]).flatten().collect();
        // The rest of it may find the connection gone.
        let _ = conn.write_all(&flood);
        let mut ended = None;
        while let Some((kind, _, _, payload)) = next(&mut conn) {
            if kind == 7 {
                ended = Some(payload[4..8].to_vec());
            }
        }
        // ENHANCE_YOUR_CALM, unless the reset of what was still sent came first.
        assert!(ended.is_none_or(|reason| reason == 11_u32.to_be_bytes()));
        other.get("/small").expect_body("small");
    }

    fn old_connections_end_without_losing_a_request(io: Io) {
        let mut proxy = start(io, "keepalive_requests 5;");
        // nghttp opens a new connection where the server says that it leaves.
        let mut command = Command::new("h2load");
        command.args(["-n", "5", "-c", "1", "-m", "5", &url(&proxy, "/small")]);
        let (code, told) = programs::run(command);
        assert!(code == 0 && told.contains("5 succeeded, 0 failed"), "{told}");
        // An idle connection hears of a reload's end politely.
        let mut conn = connect(&proxy);
        conn.write_all(&get(1, "/small")).unwrap();
        until(&mut conn, 0, 1);
        let text = std::fs::read_to_string(proxy.config()).unwrap();
        proxy.process();
        proxy.reload(&text);
        conn.write_all(&get(3, "/small")).unwrap();
        assert_eq!(until(&mut conn, 0, 3).1, b"small");
    }

    fn refusals_are_answers_on_their_stream(io: Io) {
        let proxy = start(io, "location /limited { client_max_body_size 1k; proxy_pass http://127.0.0.1:1; } location /closed { return 444; }
            location /forbidden { deny all; }");
        let mut conn = connect(&proxy);
        let text = |index: u8, text: &str| [&[index, u8::try_from(text.len()).unwrap()][..], text.as_bytes()].concat();
        // A body that is too large: 413, then a reset without fault, and the connection goes on.
        let length = [&[0x0f, 0x0d, 4][..], b"9999"].concat();
        conn.write_all(&frame(1, 0x4, 1, &[vec![0x83, 0x86], text(0x04, "/limited"), text(0x01, "a"), length].concat())).unwrap();
        let (_, head) = until(&mut conn, 1, 1);
        assert!(head.windows(3).any(|three| three == b"413") || head.first() == Some(&0x48), "{head:?}");
        assert_eq!(until(&mut conn, 3, 1).1, 0_u32.to_be_bytes());
        conn.write_all(&[get(3, "/closed"), get(5, "/forbidden"), get(7, "/small")].concat()).unwrap();
        let (_, mut seen) = (0, std::collections::BTreeMap::new());
        while seen.len() < 3 {
            let (kind, _, stream, payload) = next(&mut conn).unwrap();
            if stream > 1 && matches!(kind, 1 | 3) {
                seen.entry(stream).or_insert((kind, payload));
            }
        }
        assert_eq!(seen[&3].0, 3, "444 is a reset");
        assert_eq!((seen[&5].0, seen[&7].0), (1, 1));
    }

    fn a_plain_port_without_http2_refuses_the_preface(io: Io) {
        let proxy = Proxy::nginx("worker_processes 1; events {} http { access_log off; server { listen 127.0.0.1:{port}; return 200 a; } }").io(io).start();
        let mut stream = TcpStream::connect(("127.0.0.1", proxy.port().number())).unwrap();
        stream.write_all(PREFACE).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.starts_with("HTTP/1.1 400") || answer.starts_with("HTTP/1.1 505"), "{answer}");
        Client::connect(&proxy).request(&Request::get("/")).expect_body("a");
    }

    /// As nginx does it: trailers follow a body whose length is known, a fragment is cut off, a field whose name is no token is left
    /// out, and the length of a request is that of its header block.
    fn heads_are_read_and_written_as_nginx_does(io: Io) {
        let proxy = start(io, "location / { add_trailer X-T v; return 200 $uri; } location /length { return 200 $request_length; }");
        let mut conn = connect(&proxy);
        let odd = frame(1, 0x5, 1, b"\x82\x86\x04\x04/a#b\x01\x01a\x00\x03x(y\x01z");
        conn.write_all(&odd).unwrap();
        let (flags, payload) = until(&mut conn, 0, 1);
        assert_eq!((flags & 1, &*payload), (0, &b"/a"[..]));
        assert_eq!(until(&mut conn, 1, 1).0 & 1, 1, "trailers end the stream");
        conn.write_all(&get(3, "/length")).unwrap();
        assert_eq!(until(&mut conn, 0, 3).1, b"14");
    }

    /// RFC 9113 §8.1.1: the stream is reset for a malformed request; as in nginx, once it was answered.
    fn malformed_requests_are_answered_and_reset(io: Io) {
        let proxy = start(io, "");
        let mut conn = connect(&proxy);
        for (stream, malformed) in [(1, get(1, "x")), (3, get(3, "")), (5, get(5, "/a b"))] {
            conn.write_all(&malformed).unwrap();
            let (_, head) = until(&mut conn, 1, stream);
            // `:status: 400` in the static table.
            assert_eq!(head[0], 0x8c, "stream {stream}: {head:?}");
            assert_eq!(until(&mut conn, 3, stream).1, 1_u32.to_be_bytes(), "stream {stream}");
        }
        conn.write_all(&get(7, "/small")).unwrap();
        assert_eq!(until(&mut conn, 1, 7).1[0], 0x88);
    }
}
