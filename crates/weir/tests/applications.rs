//! uwsgi, SCGI and memcached: scripted peers beside Debian's nginx, and the real programs behind.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use weir_testkit::{
    Client, Io, Origin, Process, Proxy, Request, Running, Script, both_drivers, eventually, programs,
};

/// A server of one location, of Weir and of Debian's nginx.
fn both(io: Io, location: &str) -> [(bool, Running); 2] {
    let file = || {
        Proxy::nginx(&format!(
            "worker_processes 1; error_log {{dir}}/error.log; events {{}} http {{ access_log off; default_type text/plain;
             client_body_temp_path {{dir}}; uwsgi_temp_path {{dir}}; scgi_temp_path {{dir}};
             server {{ listen 127.0.0.1:{{port}}; {location} }} }}"
        ))
        .io(io)
    };
    [(false, file().start()), (true, file().by_rival().start())]
}

/// A parameter as uwsgi spells it.
fn pair(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&u16::try_from(text.len()).unwrap().to_le_bytes()[..], text.as_bytes()].concat();
    [text(name), text(value)].concat()
}

/// A request of uwsgi.
fn uwsgi(modifiers: (u8, u8), pairs: &[(&str, &str)], body: &str) -> Vec<u8> {
    let pairs: Vec<u8> = pairs.iter().flat_map(|(name, value)| pair(name, value)).collect();
    let [low, high] = u16::try_from(pairs.len()).unwrap().to_le_bytes();
    [&[modifiers.0, low, high, modifiers.1][..], &pairs, body.as_bytes()].concat()
}

/// A request of SCGI.
fn scgi(pairs: &[(&str, &str)], body: &str) -> Vec<u8> {
    let pairs: String = pairs.iter().map(|(name, value)| format!("{name}\0{value}\0")).collect();
    format!("{}:{pairs},{body}", pairs.len()).into_bytes()
}

/// An origin that waits for these bytes, once for each server, and answers with those.
fn answering(expected: &[u8], answer: &[u8]) -> Origin {
    Origin::script(|script| script.expect_bytes(expected).send(answer).close())
}

/// Python in uwsgi's own server, on sockets of both protocols in `dir`.
fn python(dir: &Path) -> Process {
    let script = "def application(e, start):\n    n = int(e.get('CONTENT_LENGTH') or 0)\n    body = e['wsgi.input'].read(n)\n    \
        start('201 Made Here', [('Content-Type', 'text/x-py'), ('X-Path', e['PATH_INFO'])])\n    \
        return [e['REQUEST_METHOD'].encode(), b' ', e.get('HTTP_X_ASKED', '-').encode(), b' ', body]\n";
    std::fs::write(dir.join("app.py"), script).unwrap();
    let mut command = Command::new("uwsgi");
    command.current_dir(dir).args([
        "--plugin",
        "python3",
        "--uwsgi-socket",
        "uwsgi.sock",
        "--scgi-socket",
        "scgi.sock",
    ]);
    command.args([
        "--chmod-socket=666",
        "--wsgi-file",
        "app.py",
        "--need-app",
        "--disable-logging",
        "--die-on-term",
    ]);
    let server = programs::server(command);
    for socket in ["uwsgi.sock", "scgi.sock"] {
        eventually("uwsgi to listen", || UnixStream::connect(dir.join(socket)).ok());
    }
    server
}

/// Memcached on a socket in `dir`, with these values: key, flags, value.
fn memcached(dir: &Path, values: &[(&str, u32, &[u8])]) -> Process {
    let socket = dir.join("memcached.sock");
    let mut command = Command::new("memcached");
    command.arg("-s").arg(&socket).args(["-a", "0666", "-U", "0", "-m", "16", "-u"]);
    command.arg(
        if std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0) {
            "root"
        } else {
            "nobody"
        },
    );
    let server = programs::server(command);
    let mut conn = eventually("memcached to listen", || UnixStream::connect(&socket).ok());
    for (key, flags, value) in values {
        let line = format!("set {key} {flags} 0 {}\r\n", value.len());
        conn.write_all(&[line.as_bytes(), value, b"\r\n"].concat()).unwrap();
        let mut stored = [0; 8];
        conn.read_exact(&mut stored).unwrap();
        assert_eq!(&stored, b"STORED\r\n");
    }
    server
}

both_drivers! {
    fn uwsgi_requests_are_those_of_nginx(io: Io) {
        let expected = uwsgi((9, 30), &[("METHOD", "GET"), ("HTTP_HOST", "a"), ("HTTP_X_ASKED", "this")], "");
        let origin = answering(&expected, b"HTTP/1.1 404 Nobody Here\r\nX-Own: yes\r\nContent-Length: 4\r\n\r\ngone");
        for (_, proxy) in both(io, &format!("location / {{ uwsgi_pass {origin}; uwsgi_modifier1 9; uwsgi_modifier2 30;
            uwsgi_param METHOD $request_method; uwsgi_param EMPTY '' if_not_empty; }}")) {
            let mut client = Client::connect(&proxy);
            client.send("GET /x HTTP/1.1\r\nHost: a\r\nX-Asked: this\r\n\r\n");
            assert_eq!(client.read_exactly(25), b"HTTP/1.1 404 Nobody Here\r");
        }
        origin.wait_for_completed(2);
    }

    fn scgi_requests_are_those_of_nginx(io: Io) {
        let expected = scgi(&[("CONTENT_LENGTH", "6"), ("SCGI", "1"), ("URI", "/x?y")], "a body");
        let origin = answering(&expected, b"Status: 201 Made\r\nX-Own: yes\r\n\r\nuntil the end");
        for (_, proxy) in both(io, &format!(
            "location / {{ scgi_pass {origin}; scgi_param SCGI 1; scgi_param URI $request_uri; scgi_pass_request_headers off; }}"
        )) {
            let mut client = Client::connect(&proxy);
            client.send("POST /x?y HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\na body");
            client.read().expect_status(201).expect_header("X-Own", "yes").expect_body("until the end");
        }
        origin.wait_for_completed(2);
    }

    fn what_an_application_says_is_bounded_by_its_length(io: Io) {
        let rows: [(&[u8], u16, &str); 6] = [
            (b"Content-Length: 2\r\n\r\nmore", 200, "mo"),
            (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 200, ""),
            (b"Location: /there\r\n\r\n", 302, ""),
            (b"", 502, "*"),
            (b"Status: 200\r\n", 502, "*"),
            (b"no head at all\r\n\r\n", 502, "*"),
        ];
        for (answer, status, body) in rows {
            let origin = Origin::script(|script| script.expect_bytes(scgi(&[("CONTENT_LENGTH", "0")], "")).send(answer).close());
            for (rival, proxy) in both(io, &format!("location / {{ scgi_pass {origin}; scgi_pass_request_headers off; }}")) {
                let got = Client::connect(&proxy).get("/");
                assert_eq!(got.status, status, "rival: {rival}, {}", answer.escape_ascii());
                if body != "*" {
                    got.expect_body(body);
                }
            }
        }
        // A body that was cut never looks whole.
        let origin = Origin::script(|script| {
            script.expect_bytes(scgi(&[("CONTENT_LENGTH", "0")], "")).send("Content-Length: 9\r\n\r\npart").close()
        });
        let [(_, proxy), _] = both(io, &format!("location / {{ scgi_pass {origin}; scgi_pass_request_headers off; }}"));
        let mut client = Client::connect(&proxy);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(client.try_read("GET").is_err());
        proxy.wait_for_file("error.log", "scgi://127.0.0.1");
    }

    fn python_answers_both_protocols(io: Io) {
        let location = |at: &str, gateway: &str| format!(
            "location /{at} {{ {gateway}_pass unix:{{dir}}/{at}.sock; {gateway}_param REQUEST_METHOD $request_method; {gateway}_param PATH_INFO $uri;
             {gateway}_param QUERY_STRING $query_string; {gateway}_param CONTENT_LENGTH $content_length; {gateway}_param SERVER_PROTOCOL $server_protocol;
             {gateway}_param REQUEST_URI $request_uri; {gateway}_param SERVER_NAME a; {gateway}_param SERVER_PORT 80; {gateway}_param SCGI 1; }} "
        );
        let proxy = Proxy::nginx(&format!(
            "worker_processes 1; events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{{port}}; {} {} }} }}",
            location("uwsgi", "uwsgi"), location("scgi", "scgi")
        )).io(io).start();
        let mut client = Client::connect(&proxy);
        client.get("/uwsgi").expect_status(502);
        let _python = python(proxy.dir());
        for path in ["/uwsgi/a", "/scgi/a"] {
            client.request(&Request::get(path).header("X-Asked", "me")).expect_status(201)
                .expect_header("X-Path", path).expect_header("Content-Type", "text/x-py").expect_body("GET me ");
            let body = vec![b'b'; 200_000];
            let posted = client.request(&Request::post(path, &body));
            assert_eq!(posted.expect_status(201).body.len(), "POST - ".len() + body.len(), "{path}");
            client.request(&Request::post(path, "chunks").chunked()).expect_body("POST - chunks");
            client.request(&Request::head(path)).expect_status(201).expect_body("");
        }
    }

    fn memcached_gives_values(io: Io) {
        let location = "location / { set $memcached_key $uri$is_args$args; memcached_pass unix:{dir}/memcached.sock; memcached_gzip_flag 2;
            error_page 404 = @none; } location @none { return 200 nothing; }
            location /plain { set $memcached_key $arg_key; memcached_pass unix:{dir}/memcached.sock; }";
        let large = vec![b'v'; 300_000];
        for (_, proxy) in both(io, location) {
            let mut client = Client::connect(&proxy);
            client.get("/plain?key=/a.txt").expect_status(502);
            let _memcached = memcached(proxy.dir(), &[
                ("/a.txt", 0, b"value"), ("/z", 2, b"\x1f\x8b"), ("/large?x=1", 0, &large), ("/a%20b", 0, b"escaped"), ("/empty", 0, b""),
            ]);
            for _ in 0..2 {
                client.get("/a.txt").expect_status(200).expect_header("Content-Length", "5").expect_header("Content-Type", "text/plain").expect_body("value");
            }
            assert_eq!(client.get("/large?x=1").body, large);
            client.get("/a%20b").expect_body("escaped");
            client.get("/empty").expect_status(200).expect_header("Content-Length", "0");
            client.get("/none").expect_status(200).expect_body("nothing");
            client.get("/plain?key=none").expect_status(404);
            client.request(&Request::head("/a.txt")).expect_status(200).expect_header("Content-Length", "5");
            let zipped = client.request(&Request::get("/z").header("Accept-Encoding", "gzip"));
            zipped.expect_status(200).expect_header("Content-Encoding", "gzip");
            client.get("/plain").expect_status(500);
        }
    }

    fn memcached_is_kept_and_lies_of_it_are_found(io: Io) {
        let script = |script: Script| script
            .expect_bytes("get /a\r\n").send("VALUE /a 0 2\r\nok\r\nEND\r\n")
            .expect_bytes("get /none\r\n").send("END\r\n")
            .expect_bytes("get /b\r\n").send("VALUE /other 0 2\r\nno\r\nEND\r\n").until_closed();
        let origin = Origin::sequence([script(Script::new())]);
        let proxy = Proxy::nginx(&format!(
            "worker_processes 1; error_log {{dir}}/error.log; events {{}} http {{ access_log off; upstream u {{ server {origin}; keepalive 1; }}
             server {{ listen 127.0.0.1:{{port}}; location / {{ set $memcached_key $uri; memcached_pass u; }} }} }}"
        )).io(io).start();
        let mut client = Client::connect(&proxy);
        client.get("/a").expect_body("ok");
        client.get("/none").expect_status(404);
        client.get("/b").expect_status(502);
        proxy.wait_for_file("error.log", "memcached sent invalid response");
        origin.wait_for_completed(1);
    }

    fn another_memcached_may_have_it(io: Io) {
        let (first, second) = (
            Origin::script(|script| script.expect_bytes("get /a\r\n").send("END\r\n").close()),
            Origin::script(|script| script.expect_bytes("get /a\r\n").send("VALUE /a 0 5\r\nfound\r\nEND\r\n").close()),
        );
        let proxy = Proxy::nginx(&format!(
            "worker_processes 1; events {{}} http {{ access_log off; upstream u {{ server {first}; server {second} backup; }}
             server {{ listen 127.0.0.1:{{port}}; location / {{ set $memcached_key $uri; memcached_pass u; memcached_next_upstream not_found; }} }} }}"
        )).io(io).start();
        Client::connect(&proxy).get("/a").expect_status(200).expect_body("found");
    }
}
