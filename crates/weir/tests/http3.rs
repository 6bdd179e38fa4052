//! HTTP/3 towards clients: what a client of other libraries sees, and what streams by hand must not do.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::net::UdpSocket;

use weir_testkit::{Certificate, H3Client, H3Options, Io, Origin, Proxy, Running, both_drivers, h3};

fn config(workers: usize, settings: &str) -> String {
    format!(
        "worker_processes {workers}; error_log {{dir}}/error.log info; events {{}}
         http {{ log_format v '$request|$server_protocol|$http3|$status|$body_bytes_sent|$ssl_protocol'; access_log {{dir}}/log v;
         default_type text/plain; server {{ listen 127.0.0.1:{{port}} quic reuseport; listen 127.0.0.1:{{port}} ssl;
         server_name a.test; ssl_certificate {{dir}}/a.crt; ssl_certificate_key {{dir}}/a.key;
         root {{dir}}/html; client_max_body_size 8m; {settings} }} }}"
    )
}

fn start_with(io: Io, workers: usize, settings: &str) -> Running {
    Proxy::nginx(&config(workers, settings))
        .io(io)
        .certificate("a", &Certificate::p256(&["a.test"]))
        .file("html/big", vec![b'x'; 3_000_000])
        .file("html/small", "small")
        .start()
}

fn start(io: Io, settings: &str) -> Running {
    start_with(io, 1, settings)
}

fn connect(proxy: &Running) -> H3Client {
    H3Client::connect(proxy.port().number())
}

both_drivers! {
    fn files_small_and_large_and_none(io: Io) {
        let proxy = start(io, "add_header Alt-Svc 'h3=\":443\"; ma=86400' always; location /hi { return 200 $server_protocol-$http3; }");
        let client = connect(&proxy);
        let small = client.get("/small");
        assert_eq!((small.status, small.text().as_str()), (200, "small"));
        assert_eq!((small.header("content-length"), small.header("alt-svc")), ("5", "h3=\":443\"; ma=86400"));
        assert_eq!(client.get("/big").body.len(), 3_000_000);
        assert_eq!(client.get("/hi").text(), "HTTP/3.0-h3");
        let none = client.get("/none");
        assert!(none.status == 404 && none.text().contains("404 Not Found"), "{none:?}");
        let head = client.ask("HEAD", "/big", &[], None).unwrap();
        assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, "3000000", 0));
        let part = client.ask("GET", "/big", &[("range", "bytes=5-14")], None).unwrap();
        assert_eq!((part.status, part.body.len()), (206, 10));
        proxy.wait_for_file("log", "GET /hi HTTP/3.0|HTTP/3.0|h3|200|11|TLSv1.3");
        proxy.wait_for_file("log", "GET /big HTTP/3.0|HTTP/3.0|h3|200|3000000|TLSv1.3");
    }

    fn requests_are_proxied_with_bodies(io: Io) {
        let origin = Origin::named("one", vec![b'y'; 500_000]);
        let proxy = start(io, &format!("location / {{ proxy_pass http://{origin}; }} location /echo {{ client_max_body_size 1k; proxy_pass http://{origin}; }}"));
        let client = connect(&proxy);
        assert_eq!(client.get("/a").body.len(), 500_000);
        let body = vec![b'z'; 1_000_000];
        let posted = client.ask("POST", "/b", &[("content-type", "text/plain")], Some((&body, &[]))).unwrap();
        assert_eq!((posted.status, posted.body.len()), (200, 500_000));
        let refused = client.ask("POST", "/echo", &[("content-length", "1000000")], Some((&body, &[]))).unwrap();
        assert_eq!(refused.status, 413);
        // The connection lives on.
        assert_eq!(client.get("/c").status, 200);
    }

    fn many_streams_at_once(io: Io) {
        let proxy = start(io, "http3_max_concurrent_streams 10;");
        let client = connect(&proxy);
        let all = client.get_many("/small", 300);
        assert!(all.iter().all(|one| one.status == 200 && one.text() == "small"));
        let large = client.get_many("/big", 8);
        assert!(large.iter().all(|one| one.body.len() == 3_000_000));
    }

    fn datagrams_leave_in_batches_where_asked(io: Io) {
        let proxy = start(io, "quic_gso on;");
        assert!(connect(&proxy).get_many("/big", 4).iter().all(|one| one.body.len() == 3_000_000));
    }

    fn heads_are_bounded(io: Io) {
        let proxy = start(io, "large_client_header_buffers 4 2k;");
        let client = connect(&proxy);
        let long = "v".repeat(3000);
        assert_eq!(client.ask("GET", "/small", &[("x-long", &long)], None).unwrap().status, 400);
        assert_eq!(client.ask("GET", &format!("/{long}"), &[], None).unwrap().status, 414);
        assert_eq!(client.get("/small").status, 200);
    }

    fn other_protocols_and_http3_off_end_with_the_handshake(io: Io) {
        let proxy = start(io, "");
        let options = H3Options { alpn: vec![b"hq-interop".to_vec()], ..H3Options::default() };
        let why = H3Client::with(proxy.port().number(), &options).err().expect("a refusal");
        assert!(why.contains("no_application_protocol") || why.contains("peer doesn't support any known protocol") || why.contains("120"), "{why}");
        let off = start(io, "http3 off;");
        if let Ok((runtime, _endpoint, quic)) = h3::quic(off.port().number(), &H3Options::default()) {
            let why = runtime.block_on(quic.closed()).to_string();
            assert!(why.contains("no HTTP/3"), "{why}");
        }
    }

    fn a_retry_shows_where_the_client_is(io: Io) {
        let proxy = start(io, "quic_retry on;");
        assert_eq!(connect(&proxy).get("/small").text(), "small");
        // What a client without a token gets is a Retry (RFC 9000 §17.2.5), and no handshake.
        for (retry, kind) in [(&proxy, 0x30), (&start(io, ""), 0x00)] {
            assert_eq!(first_answer(retry) & 0x30, kind);
        }
    }

    fn clients_move_to_another_address(io: Io) {
        let proxy = start_with(io, 2, "");
        let client = connect(&proxy);
        for _ in 0..6 {
            assert_eq!(client.get("/small").text(), "small");
            client.migrate();
            assert_eq!(client.get("/big").body.len(), 3_000_000);
        }
    }

    fn idle_connections_end(io: Io) {
        let proxy = start(io, "keepalive_timeout 1s;");
        let client = connect(&proxy);
        assert_eq!(client.get("/small").text(), "small");
        let why = client.closed();
        assert!(why.contains("closed"), "{why}");
    }

    fn a_reload_fails_no_request(io: Io) {
        let mut proxy = start_with(io, 2, "location /v { return 200 one; }");
        let client = connect(&proxy);
        assert_eq!(client.get("/v").text(), "one");
        proxy.reload(&config(2, "location /v { return 200 two; }"));
        assert_eq!(client.get("/v").text(), "two");
        assert_eq!(connect(&proxy).get("/v").text(), "two");
    }

    fn rules_that_are_broken_end_the_connection(io: Io) {
        let proxy = start(io, "");
        // Streams of requests, and what follows: a body before its head, settings, HTTP/2's priority, a dynamic table.
        for (bytes, code) in [
            (&[0x00, 1, b'x'][..], 0x105),
            (&[0x04, 0], 0x105),
            (&[0x02, 0], 0x105),
            (&[0x01, 2, 1, 0], 0x200),
            (&[0x01, 4, 0, 0], 0x106),
        ] {
            assert_eq!(broken(&proxy, bytes, true), code, "{bytes:x?}");
        }
        // Streams of one direction: settings that do not come first, a second control stream, pushes, tables.
        for (bytes, code) in [
            (&[0x00, 0x07, 1, 0][..], 0x10a),
            (&[0x00, 0x04, 2, 0x02, 0], 0x109),
            (&[0x01], 0x103),
            (&[0x02, 0x3f, 0xe1, 0x1f], 0x201),
            (&[0x03, 0x80], 0x202),
        ] {
            assert_eq!(broken(&proxy, bytes, false), code, "{bytes:x?}");
        }
        // Datagrams that are no QUIC.
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for n in 0..200_u8 {
            socket.send_to(&vec![n; usize::from(n) * 7], ("127.0.0.1", proxy.port().number())).unwrap();
        }
        assert_eq!(connect(&proxy).get("/small").text(), "small");
    }
}

/// What the connection is closed with after these bytes on a stream.
fn broken(proxy: &Running, bytes: &[u8], both: bool) -> u64 {
    let (runtime, _endpoint, quic) = h3::quic(proxy.port().number(), &H3Options::default()).unwrap();
    runtime.block_on(async {
        // Dropped, the other half would ask for nothing to be answered.
        let (mut send, _answer) = match both {
            true => quic.open_bi().await.map(|(send, answer)| (send, Some(answer))).unwrap(),
            false => (quic.open_uni().await.unwrap(), None),
        };
        send.write_all(bytes).await.unwrap();
        if both {
            let _ = send.finish();
        }
        match quic.closed().await {
            h3::quinn::ConnectionError::ApplicationClosed(close) => close.error_code.into_inner(),
            other => panic!("{other}"),
        }
    })
}

/// The first byte of what the server answers to a client's first packet.
fn first_answer(proxy: &Running) -> u8 {
    // Between the two: what a client sends is passed on, what comes back is looked at and dropped.
    let between = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = between.local_addr().unwrap().port();
    let client =
        std::thread::spawn(move || drop(h3::quic(port, &H3Options { patience: 1, ..H3Options::default() })));
    between.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let mut packet = [0; 2048];
    let (length, _) = between.recv_from(&mut packet).unwrap();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    server.send_to(&packet[..length], ("127.0.0.1", proxy.port().number())).unwrap();
    let mut answer = [0; 2048];
    server.recv_from(&mut answer).unwrap();
    client.join().unwrap();
    answer[0]
}
