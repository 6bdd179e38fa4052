//! The data plane under a keeper, with everything given up that it has no use for, does all its work.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::Duration;

use weir_testkit::dns::{NameAnswer, NameServer};
use weir_testkit::process::UnixSignal as Signal;
use weir_testkit::{Certificate, Client, H3Client, Io, Proxy, Request, Running, both_drivers, eventually};

const CONF: &str = "user nobody nogroup; worker_processes {workers};
    error_log {dir}/error.log info; events {} http {
    access_log {dir}/access.log; gzip on; gzip_types *; resolver {dns} ipv6=off;
    proxy_cache_path {dir}/cache levels=1:2 keys_zone=objects:1m;
    client_body_temp_path {dir}/body 1; client_body_buffer_size 16k; client_max_body_size 10m;
    proxy_temp_path {dir}/proxy; proxy_buffers 4 4k; proxy_buffer_size 4k; proxy_busy_buffers_size 8k;
    upstream u { server unix:{dir}/up.sock; keepalive 4; }
    server { listen 127.0.0.1:{port}; root {dir}/html;
        listen 127.0.0.1:{port_tls} ssl; listen 127.0.0.1:{port_tls} quic reuseport; quic_gso on; ssl_certificate {dir}/c.crt; ssl_certificate_key {dir}/c.key;
        location /list/ { autoindex on; }
        location /up { proxy_pass http://u; }
        location /cached { proxy_pass http://u; proxy_cache objects; proxy_cache_valid 1m;
            add_header X-Cache $upstream_cache_status; }
        location /by-name { set $to origin.test:{tcp}; proxy_pass http://$to; }
        location /private/ { auth_basic r; auth_basic_user_file {dir}/users; alias {dir}/html/; }
        location /dav/ { dav_methods PUT DELETE MKCOL COPY MOVE; dav_access group:rw; create_full_put_path on; alias {dir}/dav/; }
        location /own { access_log {dir}/logs/$arg_name.log; return 200 own; }
    } }
    stream { server { listen 127.0.0.1:{port_udp} udp; proxy_responses 1; proxy_timeout 5s; proxy_pass {dns}; } }";

/// Answers each request with the length of its body, in as many bytes as the path's number says.
fn origin(mut stream: impl Read + Write) {
    let mut bytes = Vec::new();
    let mut chunk = [0; 64 << 10];
    loop {
        let head = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let text = head.map(|at| String::from_utf8_lossy(&bytes[..at]).to_lowercase());
        let length = text.as_ref().map(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("content-length: "));
            line.map_or(0, |n| n.parse::<usize>().unwrap())
        });
        if let (Some(head), Some(text), Some(length)) = (head, text, length)
            && bytes.len() >= head + 4 + length
        {
            let wanted = text.split(['?', ' ']).nth(2).and_then(|n| n.parse().ok()).unwrap_or(0);
            let body = format!("{length}{}", "x".repeat(wanted));
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
            bytes.drain(..head + 4 + length);
            continue;
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
        }
    }
}

struct Scene {
    proxy: Running,
    certificate: Certificate,
    text: String,
    _names: NameServer,
}

fn start(io: Io) -> Scene {
    let certificate = Certificate::p256(&["localhost"]);
    let names = NameServer::start();
    names.tell("origin.test", NameAnswer::Addresses(vec![std::net::Ipv4Addr::LOCALHOST], 60));
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let text = CONF.replace("{dns}", &names.address().to_string());
    let text = text.replace("{tcp}", &tcp.local_addr().unwrap().port().to_string());
    std::thread::spawn(move || {
        tcp.incoming().flatten().for_each(|stream| drop(std::thread::spawn(|| origin(stream))));
    });
    let big: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let proxy = Proxy::nginx(&text.replace("{workers}", "2"))
        .io(io)
        .certificate("c", &certificate)
        .file("html/small", "small")
        .file("html/big", big)
        .file("html/list/entry", "x")
        .file("logs/keep", "")
        .file("dav/keep", "")
        .file("users", format!("six:{}\nyes:{}\n", crypt("$6$rounds=20000$abc$"), crypt("$y$j9T$saltsalt$")))
        .start();
    let everyone: std::fs::Permissions = PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(proxy.dir().join("logs"), everyone.clone()).unwrap();
    std::fs::set_permissions(proxy.dir().join("dav"), everyone).unwrap();
    let socket = proxy.dir().join("up.sock");
    let unix = UnixListener::bind(&socket).unwrap();
    std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o777)).unwrap();
    std::thread::spawn(move || {
        unix.incoming().flatten().for_each(|stream| drop(std::thread::spawn(|| origin(stream))));
    });
    Scene { proxy, certificate, text, _names: names }
}

/// What crypt(3) stores for `secret`.
fn crypt(setting: &str) -> String {
    let script = "print crypt('secret', $ARGV[0])";
    let out = Command::new("perl").args(["-e", script, setting]).output().unwrap();
    String::from_utf8(out.stdout).unwrap()
}

/// A question of DNS, answered through the proxy.
fn asks_by_datagrams(proxy: &Running) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket.connect(("127.0.0.1", proxy.port_of("port_udp").number())).unwrap();
    let question = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x06origin\x04test\0\0\x01\0\x01";
    socket.send(question).unwrap();
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer).unwrap();
    assert_eq!((&answer[..2], &answer[length - 4..length]), (&[0, 7][..], &[127, 0, 0, 1][..]));
}

/// Threads that verify passwords begin and allocate after everything was given up.
fn verifies_passwords(client: &mut Client) {
    // base64 of `six:secret`, `yes:secret`, `six:wrong!` and `yes:wrong!`.
    let credentials = [
        ("c2l4OnNlY3JldA==", 200),
        ("eWVzOnNlY3JldA==", 200),
        ("c2l4Ondyb25nIQ==", 401),
        ("eWVzOndyb25nIQ==", 401),
    ];
    for (text, status) in credentials {
        let request = Request::get("/private/small").header("Authorization", &format!("Basic {text}"));
        client.request(&request).expect_status(status);
    }
}

/// Files that requests bring, copy, move and remove, with rights and times.
fn changes_files(client: &mut Client) {
    let to = |method: &str, from: &str, to: &str| Request::new(method, from).header("Destination", to);
    let put = Request::new("PUT", "/dav/a/b/file").body(vec![b'd'; 100_000]);
    client.request(&put.header("Date", "Sun, 06 Nov 1994 08:49:37 GMT")).expect_status(201);
    client.get("/dav/a/b/file").expect_header("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT");
    client.request(&Request::new("MKCOL", "/dav/made/")).expect_status(201);
    client.request(&to("COPY", "/dav/a/", "/dav/copy/")).expect_status(201);
    client.request(&to("MOVE", "/dav/copy/b/file", "/dav/made/file")).expect_status(204);
    assert_eq!(client.get("/dav/made/file").expect_status(200).body.len(), 100_000);
    for path in ["/dav/a/", "/dav/copy/", "/dav/made/"] {
        client.request(&Request::new("DELETE", path)).expect_status(204);
    }
}

fn does_all_its_work(scene: &Scene) {
    let proxy = &scene.proxy;
    let mut client = Client::connect(proxy);
    client.get("/small").expect_status(200).expect_body("small");
    assert_eq!(client.get("/big").expect_status(200).body.len(), 1_000_000);
    assert!(client.get("/list/").expect_status(200).text().contains("entry"));
    let zipped = client.request(&Request::get("/big").header("Accept-Encoding", "gzip"));
    zipped.expect_status(200).expect_header("Content-Encoding", "gzip");
    // Bodies that go to disk, in both directions.
    client.request(&Request::post("/up", vec![b'a'; 2 << 20])).expect_status(200).expect_body("2097152");
    assert_eq!(client.get("/up?3000000").expect_status(200).body.len(), 3_000_001);
    // Objects of a cache, which move from one folder to another.
    eventually("an object of the cache", || {
        let response = client.get("/cached?30");
        (response.expect_status(200).header("X-Cache") == Some("HIT")).then_some(())
    });
    client.get("/by-name").expect_status(200).expect_body("0");
    let mut tls = Client::tls_trusting(proxy.port_of("port_tls"), &scene.certificate);
    tls.get("/small").expect_status(200).expect_body("small");
    assert_eq!(tls.get("/big").expect_status(200).body.len(), 1_000_000);
    let http3 = H3Client::connect(proxy.port_of("port_tls").number());
    assert_eq!(http3.get("/small").text(), "small");
    assert_eq!(http3.get("/big").body.len(), 1_000_000);
    assert_eq!(http3.get("/up?30").status, 200);
    asks_by_datagrams(proxy);
    verifies_passwords(&mut client);
    changes_files(&mut client);
    client.get("/own?name=one").expect_status(200);
    proxy.wait_for_file("logs/one.log", "GET /own?name=one");
    proxy.wait_for_file("access.log", "GET /by-name");
}

/// The states of the data plane, a child of the process.
fn status_of_the_data_plane(proxy: &Running) -> Option<String> {
    let pid = proxy.pid();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let child = children.split_whitespace().next()?;
    std::fs::read_to_string(format!("/proc/{child}/status")).ok()
}

both_drivers! {
    fn a_confined_data_plane_does_all_its_work(io: Io) {
        let mut scene = start(io);
        does_all_its_work(&scene);
        if let Some(status) = status_of_the_data_plane(&scene.proxy) {
            assert!(status.contains("Seccomp:\t2") && status.contains("NoNewPrivs:\t1"), "{status}");
        } else {
            assert!(!rustix::process::geteuid().is_root(), "root has a keeper");
        }
        // Further workers, a log that was rotated, and paths that were not there before.
        scene.proxy.write("html/list/later/new", "new");
        let text = scene.text.replace("{workers}", "4").replace("location /list/ ", "location /list/later { root {dir}/html; } location /list/ ");
        scene.proxy.reload(&text);
        std::fs::rename(scene.proxy.dir().join("access.log"), scene.proxy.dir().join("access.log.1")).unwrap();
        scene.proxy.process().signal(Signal::USR1);
        eventually("the new log", || scene.proxy.dir().join("access.log").exists().then_some(()));
        does_all_its_work(&scene);
        Client::connect(&scene.proxy).get("/list/later/new").expect_status(200).expect_body("new");
        let errors = std::fs::read_to_string(scene.proxy.dir().join("error.log")).unwrap();
        let refused = ["Invalid cross-device link", "not implemented", "os error 38", "not permitted", "emerg", "crit", "alert"];
        assert!(!refused.iter().any(|word| errors.contains(word)), "{errors}");
    }
}
