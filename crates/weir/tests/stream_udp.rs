//! Datagrams: sessions, balancing, answers, failures. With `WEIR_TEST_RIVAL=1` Debian's nginx answers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use weir_testkit::dns::{NameAnswer, NameServer};
use weir_testkit::{Io, Port, Proxy, Running, both_drivers, eventually, tcp};

const FORMAT: &str = "log_format told '$status $protocol $bytes_received/$bytes_sent $upstream_addr $upstream_bytes_sent/$upstream_bytes_received'; \
    access_log {dir}/told told; error_log {dir}/error.log info;";

fn stream(io: Io, text: &str) -> Proxy {
    stream_by(io, 1, text)
}

fn stream_by(io: Io, workers: u8, text: &str) -> Proxy {
    let module = "/usr/lib/nginx/modules/ngx_stream_module.so";
    // TCP on the same ports: it says when a rival is ready, and that the two do not meet.
    let beside = ["port", "port2"].map(|word| match text.contains(&format!("{{{word}}} udp")) {
        true => format!("server {{ listen 127.0.0.1:{{{word}}}; return tcp; }}"),
        false => String::new(),
    });
    let text = format!(
        "load_module {module}; worker_processes {workers}; events {{}} stream {{ {FORMAT} {text} {} }}",
        beside.concat()
    );
    Proxy::nginx(&text).io(io)
}

fn start(io: Io, text: &str) -> Running {
    stream(io, text).start()
}

/// A service that answers each datagram with its name, the datagram, and who sent it, by its own thread.
struct Peer {
    address: SocketAddr,
    socket: UdpSocket,
}

impl Peer {
    fn answering(name: &'static str, times: usize) -> Self {
        let peer = Self::silent();
        let socket = peer.socket.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut bytes = vec![0; 65_535];
            while let Ok((length, from)) = socket.recv_from(&mut bytes) {
                let text = [name.as_bytes(), b":", &bytes[..length]].concat();
                (0..times).for_each(|_| drop(socket.send_to(&text, from)));
            }
        });
        peer
    }

    fn silent() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        Self { address: socket.local_addr().unwrap(), socket }
    }

    /// The next datagram, and from whom.
    fn next(&self) -> (Vec<u8>, SocketAddr) {
        self.socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut bytes = vec![0; 65_535];
        let (length, from) = self.socket.recv_from(&mut bytes).unwrap();
        (bytes[..length].to_vec(), from)
    }
}

/// A client with a socket of its own.
fn client(to: &Port) -> UdpSocket {
    client_at(SocketAddr::from((Ipv4Addr::LOCALHOST, to.number())))
}

fn client_at(to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket
}

fn heard(socket: &UdpSocket) -> String {
    let mut bytes = vec![0; 65_535];
    let length = socket.recv(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

fn asked(socket: &UdpSocket, text: &str) -> String {
    socket.send(text.as_bytes()).unwrap();
    heard(socket)
}

/// A question of DNS for the IPv4 address of a name (RFC 1035 §4.1).
fn question(number: u8, name: &str) -> Vec<u8> {
    let mut out = vec![0, number, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        out.push(u8::try_from(label.len()).unwrap());
        out.extend(label.bytes());
    }
    out.extend([0, 0, 1, 0, 1]);
    out
}

both_drivers! {
    fn a_session_keeps_its_endpoint_and_its_socket(io: Io) {
        let (one, two) = (Peer::answering("one", 1), Peer::answering("two", 1));
        let proxy = start(io, &format!(
            "upstream u {{ server {}; server {}; }} server {{ listen 127.0.0.1:{{port}} udp; proxy_pass u; }}", one.address, two.address
        ));
        let mut names = Vec::new();
        for _ in 0..4 {
            let client = client(&proxy.port());
            let first = asked(&client, "a");
            let name = first.split(':').next().unwrap().to_owned();
            // All of a client's datagrams go where its first one went.
            for text in ["b", "", "c"] {
                assert_eq!(asked(&client, text), format!("{name}:{text}"));
            }
            names.push(name);
        }
        names.sort();
        assert_eq!(names, ["one", "one", "two", "two"]);
    }

    fn names_are_resolved_through_it(io: Io) {
        let names = NameServer::start();
        names.tell("here.test", NameAnswer::Addresses(vec![Ipv4Addr::new(192, 0, 2, 7)], 60));
        let proxy = start(io, &format!(
            "server {{ listen 127.0.0.1:{{port}} udp reuseport; proxy_responses 1; proxy_timeout 5s; proxy_pass {}; }}", names.address()
        ));
        for n in 0..20 {
            let client = client(&proxy.port());
            client.send(&question(n, "here.test")).unwrap();
            let mut answer = [0; 512];
            let length = client.recv(&mut answer).unwrap();
            assert_eq!((answer[0], answer[1], answer[7]), (0, n, 1), "the number, and one record");
            assert_eq!(answer[length - 4..length], [192, 0, 2, 7]);
        }
        // Each answer ended its session.
        let told = eventually("twenty lines", || {
            let told = proxy.wait_for_file("told", "200 UDP ");
            (told.lines().count() == 20).then_some(told)
        });
        assert!(told.lines().all(|line| line.starts_with("200 UDP ")), "{told}");
    }

    fn no_answer_is_expected_of_a_log(io: Io) {
        let syslog = Peer::silent();
        let proxy = start(io, &format!(
            "server {{ listen 127.0.0.1:{{port}} udp; proxy_responses 0; proxy_pass {}; }}", syslog.address
        ));
        let client = client(&proxy.port());
        let mut senders = Vec::new();
        for n in 0..3 {
            let text = format!("<14>line {n}");
            client.send(text.as_bytes()).unwrap();
            let (line, from) = syslog.next();
            assert_eq!(line, text.as_bytes());
            senders.push(from);
            let line = format!("200 UDP {}/0 {} {}/0\n", text.len(), syslog.address, text.len());
            eventually("a line for each", || {
                let told = proxy.wait_for_file("told", &line);
                (told.matches(&line).count() == n + 1).then_some(())
            });
        }
    }

    fn sessions_end_after_their_requests_and_answers(io: Io) {
        let peer = Peer::answering("p", 2);
        let proxy = start(io, &format!(
            "server {{ listen 127.0.0.1:{{port}} udp; proxy_requests 2; proxy_responses 2; proxy_pass {}; }}", peer.address
        ));
        let client = client(&proxy.port());
        for n in 0..2 {
            for text in ["a", "bc"] {
                assert_eq!(asked(&client, text), format!("p:{text}"));
                assert_eq!(heard(&client), format!("p:{text}"));
            }
            let line = format!("200 UDP 3/14 {} 3/14\n", peer.address);
            eventually("a line for each session", || {
                let told = proxy.wait_for_file("told", &line);
                (told.matches(&line).count() == n + 1).then_some(())
            });
        }
    }

    fn a_silent_endpoint_fails_only_where_answers_are_due(io: Io) {
        let peer = Peer::silent();
        let proxy = start(io, &format!(
            "proxy_timeout 200ms; server {{ listen 127.0.0.1:{{port}} udp; proxy_pass {0}; }}
             server {{ listen 127.0.0.1:{{port2}} udp; proxy_responses 1; proxy_pass {0}; }}", peer.address
        ));
        client(&proxy.port()).send(b"one").unwrap();
        proxy.wait_for_file("told", &format!("200 UDP 3/0 {} 3/0\n", peer.address));
        client(&proxy.port_of("port2")).send(b"none").unwrap();
        proxy.wait_for_file("told", &format!("502 UDP 4/0 {} 4/0\n", peer.address));
        proxy.wait_for_file("error.log", "upstream timed out (110: Connection timed out) while proxying");
        proxy.wait_for_file("error.log", ", udp client: 127.0.0.1, server: 127.0.0.1:");
    }

    fn an_endpoint_that_is_not_there_is_avoided(io: Io) {
        let dead = Port::lease();
        let alive = Peer::answering("alive", 1);
        let proxy = start(io, &format!(
            "upstream u {{ server 127.0.0.1:{dead} fail_timeout=60s; server {}; }}
             server {{ listen 127.0.0.1:{{port}} udp; proxy_responses 1; proxy_pass u; }}", alive.address
        ));
        client(&proxy.port()).send(b"lost").unwrap();
        proxy.wait_for_file("error.log", "recv() failed (111: Connection refused) while proxying and reading from upstream");
        proxy.wait_for_file("told", &format!("127.0.0.1:{dead}"));
        for _ in 0..6 {
            assert_eq!(asked(&client(&proxy.port()), "x"), "alive:x");
        }
    }

    fn a_hash_keeps_a_client_where_it_is(io: Io) {
        let peers = [Peer::answering("one", 1), Peer::answering("two", 1), Peer::answering("three", 1)];
        let servers: String = peers.iter().map(|peer| format!("server {};", peer.address)).collect();
        let proxy = start(io, &format!(
            "upstream u {{ hash $remote_addr consistent; {servers} }}
             server {{ listen 127.0.0.1:{{port}} udp; proxy_requests 1; proxy_responses 1; proxy_pass u; }}"
        ));
        let first = asked(&client(&proxy.port()), "x");
        for _ in 0..8 {
            assert_eq!(asked(&client(&proxy.port()), "x"), first);
        }
    }

    fn who_may_not_is_not_heard(io: Io) {
        let peer = Peer::answering("p", 1);
        let proxy = start(io, &format!(
            "limit_conn_zone $remote_addr zone=z:1m; proxy_timeout 10s;
             server {{ listen 127.0.0.1:{{port}} udp; deny all; proxy_pass {0}; }}
             server {{ listen 127.0.0.1:{{port2}} udp; limit_conn z 1; proxy_pass {0}; }}", peer.address
        ));
        client(&proxy.port()).send(b"x").unwrap();
        proxy.wait_for_file("told", "403 UDP 1/0 - -/-\n");
        let limited = proxy.port_of("port2");
        let first = client(&limited);
        assert_eq!(asked(&first, "a"), "p:a");
        client(&limited).send(b"bb").unwrap();
        proxy.wait_for_file("told", "503 UDP 2/0 - -/-\n");
        assert_eq!(asked(&first, "c"), "p:c");
    }

    fn answers_come_from_the_address_that_was_asked(io: Io) {
        let proxy = start(io, "server { listen {port} udp; return \"$server_addr $server_port $protocol $remote_port\"; }");
        let port = proxy.port().number();
        for ip in [[127, 0, 0, 1], [127, 0, 0, 2]] {
            // Connected: answers from elsewhere would not be heard.
            let client = client_at(SocketAddr::from((ip, port)));
            let own = client.local_addr().unwrap().port();
            assert_eq!(asked(&client, "x"), format!("{} {port} UDP {own}", Ipv4Addr::from(ip)));
            assert_eq!(asked(&client, "y"), format!("{} {port} UDP {own}", Ipv4Addr::from(ip)));
        }
    }

    fn the_largest_datagram_passes(io: Io) {
        let peer = Peer::answering("p", 1);
        let proxy = start(io, &format!("proxy_buffer_size 64k; server {{ listen 127.0.0.1:{{port}} udp; proxy_pass {}; }}", peer.address));
        let client = client(&proxy.port());
        let text = "x".repeat(60_000);
        assert!(asked(&client, &text) == format!("p:{text}"));
    }

    fn a_proxy_header_goes_before_the_first_datagram(io: Io) {
        let peer = Peer::silent();
        let proxy = start(io, &format!(
            "server {{ listen 127.0.0.1:{{port}} udp; proxy_protocol on; proxy_pass {}; }}", peer.address
        ));
        let client = client(&proxy.port());
        let own = client.local_addr().unwrap().port();
        client.send(b"one").unwrap();
        assert_eq!(String::from_utf8(peer.next().0).unwrap(), format!("PROXY TCP4 127.0.0.1 127.0.0.1 {own} {}\r\none", proxy.port()));
        client.send(b"two").unwrap();
        assert_eq!(peer.next().0, b"two");
    }

    fn a_local_address_is_sent_from(io: Io) {
        let peer = Peer::silent();
        let proxy = start(io, &format!(
            "server {{ listen 127.0.0.1:{{port}} udp; proxy_bind 127.0.0.3; proxy_responses 0; proxy_pass {}; }}", peer.address
        ));
        client(&proxy.port()).send(b"x").unwrap();
        assert_eq!(peer.next().1.ip(), Ipv4Addr::new(127, 0, 0, 3));
    }

    fn many_clients_of_two_workers_are_served(io: Io) {
        let peer = Peer::answering("p", 1);
        let text = format!("server {{ listen 127.0.0.1:{{port}} udp reuseport; proxy_timeout 1s; proxy_pass {}; }}", peer.address);
        let proxy = stream_by(io, 2, &text).start();
        let clients: Vec<UdpSocket> = (0..200).map(|_| client(&proxy.port())).collect();
        for round in 0..3 {
            for (n, client) in clients.iter().enumerate() {
                let text = format!("{round}/{n}");
                assert_eq!(asked(client, &text), format!("p:{text}"));
            }
        }
        // Each client was one session, and none stays.
        eventually("a line for each", || {
            let told = proxy.wait_for_file("told", "200 UDP");
            (told.lines().count() == 200).then_some(())
        });
    }

    fn a_computed_target_is_resolved(io: Io) {
        let peer = Peer::answering("p", 1);
        let names = NameServer::start();
        names.tell("peer.test", NameAnswer::Addresses(vec![Ipv4Addr::LOCALHOST], 60));
        let proxy = start(io, &format!(
            "resolver {} ipv6=off; map $remote_addr $host_name {{ default peer.test; }}
             server {{ listen 127.0.0.1:{{port}} udp; proxy_pass $host_name:{}; }}", names.address(), peer.address.port()
        ));
        assert_eq!(asked(&client(&proxy.port()), "x"), "p:x");
    }
}

both_drivers! {
    fn sessions_live_through_a_reload(io: Io) {
        let peer = Peer::silent();
        let text = format!("worker_processes 1; events {{}} stream {{ server {{ listen 127.0.0.1:{{port}} udp; proxy_pass {}; }} }}", peer.address);
        let mut proxy = Proxy::nginx(&text).io(io).start();
        let client = client(&proxy.port());
        client.send(b"one").unwrap();
        let (_, from) = peer.next();
        proxy.reload(&text.replace("proxy_pass", "proxy_timeout 1m; proxy_pass"));
        peer.socket.send_to(b"late", from).unwrap();
        assert_eq!(heard(&client), "late");
        client.send(b"two").unwrap();
        assert_eq!(peer.next(), (b"two".to_vec(), from));
        // Removed, it is let go at once, whoever still waits.
        let port = proxy.port();
        proxy.reload(&format!("worker_processes 1; events {{}} stream {{ server {{ listen 127.0.0.1:{{port2}}; proxy_pass {}; }} }}", tcp::echo()));
        eventually("the port is free", || UdpSocket::bind((Ipv4Addr::LOCALHOST, port.number())).ok());
        proxy.stop();
    }

    fn sessions_have_a_bound(io: Io) {
        let peer = Peer::answering("p", 1);
        let text = format!(
            "worker_processes 1; error_log {{dir}}/error.log info; events {{ worker_connections 20; }} stream {{ server {{ listen 127.0.0.1:{{port}} udp; proxy_timeout 500ms; proxy_pass {}; }} }}",
            peer.address
        );
        let proxy = Proxy::nginx(&text).io(io).start();
        let clients: Vec<UdpSocket> = (0..60).map(|_| client(&proxy.port())).collect();
        clients.iter().for_each(|client| drop(client.send(b"x")));
        proxy.wait_for_file("error.log", "a limit is reached: datagrams are dropped");
        // Once the sessions have ended there is room again.
        let last = client(&proxy.port());
        last.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        eventually("an answer", || {
            last.send(b"y").unwrap();
            last.recv(&mut [0; 9]).ok()
        });
    }
}
