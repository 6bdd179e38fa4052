//! FastCGI, with PHP's own server behind.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use weir_testkit::{Client, Io, Proxy, Request, both_drivers, programs};

const SCRIPT: &str = "<?php header('X-Script: ' . $_SERVER['SCRIPT_NAME']); if (isset($_GET['status'])) http_response_code((int)$_GET['status']);
echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['QUERY_STRING'], ' ', $_SERVER['PATH_INFO'] ?? '', ' ', file_get_contents('php://input');
if (isset($_GET['big'])) echo str_repeat('x', 300000);";

/// What an application saw: for each connection, whether each of its requests asked to keep it.
type Seen = Arc<Mutex<Vec<Vec<bool>>>>;

/// An application that answers each request with `head`, and closes a connection where it was not asked to keep it.
fn application(head: &'static str) -> (SocketAddr, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Seen::default());
    let told = seen.clone();
    std::thread::spawn(move || {
        for (at, conn) in listener.incoming().enumerate() {
            told.lock().unwrap().push(Vec::new());
            let told = told.clone();
            std::thread::spawn(move || {
                let mut conn = conn.unwrap();
                while let Some(keep) = request(&mut conn) {
                    told.lock().unwrap()[at].push(keep);
                    let length = u16::try_from(head.len()).unwrap().to_be_bytes();
                    let stdout = [&[1, 6, 0, 1, length[0], length[1], 0, 0], head.as_bytes()].concat();
                    conn.write_all(&[&stdout[..], &[1, 3, 0, 1, 0, 8, 0, 0], &[0; 8]].concat()).unwrap();
                    if !keep {
                        return;
                    }
                }
            });
        }
    });
    (address, seen)
}

/// Reads a request up to the end of its body: whether it asks to keep the connection.
fn request(conn: &mut std::net::TcpStream) -> Option<bool> {
    let mut keep = false;
    loop {
        let mut head = [0; 8];
        conn.read_exact(&mut head).ok()?;
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let mut content = vec![0; length + usize::from(head[6])];
        conn.read_exact(&mut content).ok()?;
        match head[1] {
            1 => keep = content[2] & 1 == 1,
            5 if length == 0 => return Some(keep),
            _ => {}
        }
    }
}

fn before(io: Io, application: SocketAddr, settings: &str) -> weir_testkit::Running {
    Proxy::nginx(&format!(
        "worker_processes 1; events {{}} http {{ access_log off; upstream u {{ server {application}; keepalive 4; }}
         server {{ listen 127.0.0.1:{{port}}; location / {{ fastcgi_pass u; fastcgi_param REQUEST_METHOD $request_method;
         {settings} }} }} }}"
    ))
    .io(io)
    .start()
}

const CONF: &str =
    "worker_processes 1; events {} http { access_log off; server { listen 127.0.0.1:{port}; root {dir}/html;
    location ~ ^(.+\\.php)(/.*)?$ {
        fastcgi_split_path_info ^(.+?\\.php)(/.*)$;
        fastcgi_pass unix:{dir}/php.sock; fastcgi_index index.php;
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
        fastcgi_param SCRIPT_NAME $fastcgi_script_name; fastcgi_param PATH_INFO $fastcgi_path_info;
        fastcgi_param QUERY_STRING $query_string; fastcgi_param REQUEST_METHOD $request_method;
        fastcgi_param CONTENT_TYPE $content_type; fastcgi_param CONTENT_LENGTH $content_length;
    } } }";

both_drivers! {
    fn php_is_checked_by_its_ping(io: Io) {
        let dir = tempfile::tempdir().unwrap();
        let _php = programs::php_fpm(dir.path());
        for (uri, up) in [("/ping", true), ("/none", false)] {
            let text = format!(
                "worker_processes 1; error_log stderr info; events {{}} http {{ access_log off;
                 upstream u {{ zone u 64k; server unix:{0}/php.sock; }} match pong {{ body ~ ^pong; }}
                 server {{ listen 127.0.0.1:{{port}}; root {0}; location / {{ fastcgi_pass u;
                 fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
                 health_check interval=20ms uri={uri} {1}; }} }} }}",
                dir.path().display(),
                if up { "mandatory match=pong" } else { "" },
            );
            let proxy = Proxy::nginx(&text).io(io).start();
            // php-fpm knows no such script as the second.
            proxy.wait_for_log(if up { "is UP" } else { "is DOWN, reason: answered 404" });
        }
    }

    fn responses_are_cached(io: Io) {
        let head = "Status: 200 OK\r\nContent-Type: text/plain\r\nETag: \"x\"\r\nCache-Control: max-age=60\r\n\r\nhello";
        for rival in [false, true] {
            let (address, seen) = application(head);
            let file = Proxy::nginx(&format!(
                "worker_processes 1; error_log {{dir}}/error.log; events {{}} http {{ access_log off; \
                 fastcgi_cache_path {{dir}}/cache levels=1:2 keys_zone=z:1m; \
                 server {{ listen 127.0.0.1:{{port}}; add_header X-Cache $upstream_cache_status always; \
                 location / {{ fastcgi_pass {address}; fastcgi_param REQUEST_METHOD $request_method; \
                 fastcgi_cache z; fastcgi_cache_key $uri; fastcgi_cache_bypass $arg_by; }} }} }}"
            ))
            .io(io);
            let proxy = if rival { file.by_rival().start() } else { file.start() };
            for expected in ["MISS", "HIT", "HIT"] {
                let got = Client::connect(&proxy).get("/a?b").expect_status(200).expect_body("hello");
                got.expect_header("X-Cache", expected).expect_header("Content-Type", "text/plain");
            }
            let asked = Request::get("/a").header("If-None-Match", "\"x\"");
            Client::connect(&proxy).request(&asked).expect_status(304).expect_header("X-Cache", "HIT");
            assert_eq!(seen.lock().unwrap().len(), 1, "rival: {rival}");
            Client::connect(&proxy).get("/a?by=1").expect_header("X-Cache", "BYPASS").expect_body("hello");
            assert_eq!(seen.lock().unwrap().len(), 2, "rival: {rival}");
        }
    }

    fn php_answers(io: Io) {
        let proxy = Proxy::nginx(CONF).io(io).file("html/a.php", SCRIPT).start();
        let mut client = Client::connect(&proxy);
        client.get("/a.php").expect_status(502);
        let _php = programs::php_fpm(proxy.dir());
        client.get("/a.php?x=1").expect_status(200).expect_header("X-Script", "/a.php").expect_body("GET x=1  ");
        client.get("/a.php/info/x?y").expect_body("GET y /info/x ");
        client.get("/a.php?status=404").expect_status(404);
        let body = vec![b'b'; 100_000];
        let posted = client.request(&Request::post("/a.php", &body));
        assert_eq!(posted.expect_status(200).body.len(), "POST   ".len() + body.len());
        let posted = client.request(&Request::post("/a.php", "chunks").chunked());
        posted.expect_body("POST   chunks");
        assert_eq!(client.get("/a.php?big").body.len(), "GET big  ".len() + 300_000);
        client.request(&Request::head("/a.php")).expect_status(200).expect_body("");
    }

    fn connections_are_kept_where_that_is_asked_for(io: Io) {
        for (settings, expected) in [
            ("fastcgi_keep_conn on;", vec![vec![true, true, true]]),
            ("", vec![vec![false], vec![false], vec![false]]),
        ] {
            let (application, seen) = application("Content-Length: 2\r\n\r\nok");
            let proxy = before(io, application, settings);
            let mut client = Client::connect(&proxy);
            client.get("/").expect_status(200).expect_body("ok");
            client.request(&Request::post("/", "body")).expect_status(200).expect_body("ok");
            client.get("/").expect_status(200).expect_body("ok");
            assert_eq!(*seen.lock().unwrap(), expected, "{settings}");
        }
    }

    fn the_words_of_a_status_are_the_application_s(io: Io) {
        let (application, _) = application("Status: 404 Nobody Here\r\nContent-Length: 0\r\n\r\n");
        let proxy = before(io, application, "");
        let mut client = Client::connect(&proxy);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.read_exactly(25), b"HTTP/1.1 404 Nobody Here\r");
    }
}
