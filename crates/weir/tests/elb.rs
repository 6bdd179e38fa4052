//! The two files of the ELB benchmark, verbatim, in the network they were written for.
//!
//! Front: Weir and the clients. Back: the web servers' addresses, each with a web server that says its name.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use weir_testkit::netns::{WebServer, isolated};
use weir_testkit::{Client, Io, Proxy, both_drivers};

const WEB: [&str; 2] = ["172.20.110.23:80", "172.20.110.28:80"];

fn at(port: u16) -> SocketAddr {
    SocketAddr::from(([172, 20, 110, 1], port))
}

/// Runs `body` in the front namespace with both web servers up behind it.
fn in_the_lab(test: &str, io: Io, body: impl FnOnce()) {
    let test = format!("{test}::{}", io.word());
    isolated(&test, &["172.20.110.1/24"], &["172.20.110.23/24", "172.20.110.28/24"], |back| {
        let _servers: Vec<WebServer> =
            WEB.iter().map(|a| back.web_server(a.parse().unwrap(), "hello")).collect();
        body();
    });
}

/// Who answered each of four requests on connections of their own.
fn four_answers() -> Vec<String> {
    let ask = || {
        Client::connect(at(80))
            .get("/")
            .expect_status(200)
            .expect_body("hello")
            .header("X-Origin")
            .unwrap()
            .to_owned()
    };
    (0..4).map(|_| ask()).collect()
}

fn expect_round_robin() {
    let who = four_answers();
    assert_ne!(who[0], who[1]);
    assert_eq!(who[0..2], who[2..4]);
}

both_drivers! {
    fn the_nginx_file(io: Io) {
        in_the_lab("the_nginx_file", io, || {
            let proxy = Proxy::nginx(include_str!("../../../examples/elb/nginx.conf")).io(io).start();
            // One worker a core, each with a rotation of its own: count instead of expecting an order.
            let who: Vec<String> = (0..8).flat_map(|_| four_answers()).collect();
            assert!(WEB.iter().all(|w| who.iter().any(|h| h == w)), "{who:?}");
            proxy.stop();
        });
    }

    fn the_haproxy_file(io: Io) {
        in_the_lab("the_haproxy_file", io, || {
            let syslog = UdpSocket::bind("127.0.0.1:514").unwrap();
            syslog.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let proxy = Proxy::haproxy(include_str!("../../../examples/elb/haproxy.cfg")).io(io).start();
            expect_round_robin();
            // facility local0, severity info: <134>; then tcplog's client, frontend, backend/server.
            let line = loop {
                let mut datagram = [0; 2048];
                let n = syslog.recv(&mut datagram).expect("a datagram for each request");
                let line = String::from_utf8_lossy(&datagram[..n]).into_owned();
                // The program may tell of itself as well.
                if line.contains(" all ") {
                    break line;
                }
            };
            assert!(line.starts_with("<134>"), "{line}");
            assert!(line.contains("all webcluster/web"), "{line}");
            let page = Client::connect(at(81)).get("/").expect_status(200);
            assert!(page.text().contains("webcluster"), "{page}");
            assert!(!page.text().contains("HAProxy version"), "hide-version: {page}");
            Client::connect(at(81)).get("/;csv").expect_status(200).expect_text("webcluster,web1,");
            assert!(proxy.logs().contains("timeout connect"), "the modern word is named:\n{}", proxy.logs());
            proxy.stop();
        });
    }
}
