//! Peers that always have more to say, or never come to the point: they cost their own requests, and nobody else's.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;
use weir_testkit::{Client, Io, Origin, Proxy, Running, both_drivers, eventually};

/// FastCGI record types.
const STDOUT: u8 = 6;
const STDERR: u8 = 7;

/// A FastCGI record with its padding.
fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    let mut out = vec![1, kind, 0, 1, length[0], length[1], padding, 0];
    out.extend_from_slice(content);
    out.extend(std::iter::repeat_n(0, usize::from(padding)));
    out
}

/// An application that says `first`, then `again` without end, as fast as it is read. Ends with its last connection.
fn flooding(first: Vec<u8>, again: &[u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let block = again.repeat((64 << 10) / again.len());
    std::thread::spawn(move || {
        let (mut conn, _) = listener.accept().unwrap();
        // The request is small, and arrives whole.
        let _ = conn.read(&mut [0; 64 << 10]);
        let _ = conn.write_all(&first);
        while conn.write_all(&block).is_ok() {}
    });
    address
}

/// One worker, with the application at `/flood` and an answer of its own elsewhere.
fn proxy(io: Io, app: SocketAddr) -> Running {
    Proxy::nginx(&format!(
        "worker_processes 1; error_log {{dir}}/error.log info; events {{}} http {{ access_log off;
         server {{ listen 127.0.0.1:{{port}}; location / {{ return 200 here; }}
         location /flood {{ fastcgi_pass {app}; fastcgi_read_timeout 2s; fastcgi_param REQUEST_METHOD GET; }} }} }}"
    ))
    .io(io)
    .start()
}

/// Others are served while a client waits for the application.
fn others_are_served(proxy: &Running) {
    let mut other = Client::connect(proxy);
    for _ in 0..100 {
        other.get("/").expect_status(200).expect_body("here");
    }
}

/// The question of a message: its only name, then type and class.
fn asked(message: &[u8]) -> &[u8] {
    let end = 12 + message[12..].iter().position(|byte| *byte == 0).unwrap();
    &message[12..end + 5]
}

/// A name server that answers over UDP with `answers` to a question, and over TCP with `stream` without end.
fn name_server(answers: fn(&[u8]) -> Vec<Vec<u8>>, stream: Vec<u8>) -> SocketAddr {
    let (udp, tcp) = eventually("a port that is free for both", || {
        let tcp = TcpListener::bind("127.0.0.1:0").ok()?;
        Some((UdpSocket::bind(tcp.local_addr().ok()?).ok()?, tcp))
    });
    let address = udp.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((length, from)) = udp.recv_from(&mut question) {
            for answer in answers(&question[..length]) {
                let _ = udp.send_to(&answer, from);
            }
        }
    });
    std::thread::spawn(move || {
        for conn in tcp.incoming() {
            let Ok(mut conn) = conn else { return };
            let _ = conn.read(&mut [0; 512]);
            while conn.write_all(&stream).is_ok() {}
        }
    });
    address
}

/// A request whose name nobody ever resolves costs itself, and nobody else.
fn a_flood_of_answers_costs_its_own_request_only(io: Io, names: SocketAddr) {
    let proxy = Proxy::nginx(&format!(
        "worker_processes 1; error_log {{dir}}/error.log info; events {{}} http {{ access_log off; resolver {names} ipv6=off; resolver_timeout 2s;
         server {{ listen 127.0.0.1:{{port}}; location / {{ return 200 here; }}
         location /flood {{ proxy_pass http://$arg_h:1; }} }} }}"
    ))
    .io(io)
    .start();
    let mut client = Client::connect(&proxy);
    client.send("GET /flood?h=a.test HTTP/1.1\r\nHost: a\r\n\r\n");
    others_are_served(&proxy);
    client.read().expect_status(502);
    proxy.wait_for_file("error.log", "a.test could not be resolved");
}

both_drivers! {
    fn answers_to_other_questions_do_not_keep_a_look_up_alive(io: Io) {
        // Answers that fit but for their number, more of them than a turn looks at.
        let names = name_server(|question| {
            let answer = |n: u16| {
                let id = u16::from_be_bytes([question[0], question[1]]).wrapping_add(n).to_be_bytes();
                let head = [id[0], id[1], 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
                [&head[..], asked(question), &[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]].concat()
            };
            (1..20_000).map(answer).collect()
        }, Vec::from([0]));
        a_flood_of_answers_costs_its_own_request_only(io, names);
    }

    fn a_name_server_that_never_stops_talking_is_left(io: Io) {
        // Cut short over UDP, so that the question is asked over TCP, where messages of 64 KB follow one another.
        let cut = |question: &[u8]| {
            let head = [question[0], question[1], 0x83, 0x80, 0, 1, 0, 0, 0, 0, 0, 0];
            vec![[&head[..], asked(question)].concat()]
        };
        a_flood_of_answers_costs_its_own_request_only(io, name_server(cut, vec![0xff; 2 + 0xffff]));
    }

    fn an_application_that_floods_stderr_costs_its_own_request_only(io: Io) {
        let app = flooding(Vec::new(), &record(STDERR, b"PHP message: again", 0));
        let proxy = proxy(io, app);
        let mut client = Client::connect(&proxy);
        client.send("GET /flood HTTP/1.1\r\nHost: a\r\n\r\n");
        proxy.wait_for_file("error.log", "sent more than");
        others_are_served(&proxy);
        // The time for a head does not begin anew with each read.
        client.read().expect_status(504);
        let log = proxy.wait_for_file("error.log", "upstream timed out");
        // 32 KB are 1,821 messages of 18 bytes. The error log writes the same text 20 times a second, and counts the others.
        let lines = log.lines().filter(|line| line.contains("FastCGI sent in stderr")).count();
        assert!((1..=200).contains(&lines), "{lines} lines for 32 KB of messages");
        proxy.wait_for_file("error.log", "lines like those of the second before were not written");
    }

    fn records_that_hold_nothing_do_not_keep_a_request_alive(io: Io) {
        let app = flooding(Vec::new(), &record(STDERR, b"", 255));
        let proxy = proxy(io, app);
        let mut client = Client::connect(&proxy);
        client.send("GET /flood HTTP/1.1\r\nHost: a\r\n\r\n");
        others_are_served(&proxy);
        client.read().expect_status(504);
    }

    fn records_that_hold_nothing_do_not_keep_a_body_alive(io: Io) {
        let head = record(STDOUT, b"Content-Length: 10\r\n\r\nbegun", 0);
        let app = flooding(head, &record(STDOUT, b"", 7));
        let proxy = proxy(io, app);
        let mut client = Client::connect(&proxy);
        client.send("GET /flood HTTP/1.1\r\nHost: a\r\n\r\n");
        client.read_head().expect_status(200);
        assert_eq!(client.read_exactly(5), b"begun");
        others_are_served(&proxy);
        client.expect_closed();
    }

    fn the_head_of_an_answer_has_a_deadline(io: Io) {
        let head = "HTTP/1.1 200 OK\r\nX: a head that trickles in, and is never too late with its next byte\r\n\r\n";
        let origin = Origin::script(|c| c.expect("GET /").send_slowly(head, 1, Duration::from_millis(100)));
        let proxy = Proxy::nginx(&format!(
            "worker_processes 1; events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{{port}};
             location / {{ proxy_pass http://{origin}; proxy_read_timeout 1s; }} }} }}"
        )).io(io).start();
        Client::connect(&proxy).get("/").expect_status(504);
        // It could not say all that it had to say: that is the point.
        let _ = origin.take_failures();
    }
}
