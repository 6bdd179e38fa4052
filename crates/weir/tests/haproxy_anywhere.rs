//! Servers whose address is the client's to say (`server s *`, without a port, `set-dst`): the same file and the same requests,
//! to Weir and to Debian's haproxy.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::net::Ipv4Addr;

use weir_testkit::dns::{NameAnswer, NameServer};
use weir_testkit::{Client, Io, Origin, Proxy, Request, Running, both_drivers};

const DEFAULTS: &str = "global\n nbthread 1\n log stdout format raw local0\n\
     defaults\n mode http\n log global\n timeout connect 5s\n timeout client 10s\n timeout server 10s\n";

fn each(io: Io, text: &str, case: impl Fn(&Running, &str)) {
    let proxy = Proxy::haproxy(&format!("{DEFAULTS}{text}"));
    case(&proxy.clone().io(io).start(), "weir");
    case(&proxy.by_rival().start(), "haproxy");
}

fn origin(body: &'static str) -> Origin {
    Origin::script(|c| c.keep_answering(200, &[], body))
}

fn to(client: &mut Client, port: u16) -> String {
    client.request(&Request::get("/").header("X-Port", &port.to_string())).text()
}

both_drivers! {
    fn requests_go_where_rules_say(io: Io) {
        let (a, b) = (origin("a"), origin("b"));
        for server in ["*", "0.0.0.0", "*:0", "0.0.0.0:0"] {
            let text = format!(
                "frontend f\n bind 127.0.0.1:{{port}}\n log-format \"END %ST %si %sp %[dst]:%[dst_port]\"\n http-request set-dst str(127.0.0.1)\n\
                 http-request set-dst-port req.hdr(x-port)\n default_backend b\nbackend b\n http-reuse always\n server s {server}\n"
            );
            each(io, &text, |proxy, who| {
                let mut client = Client::connect(proxy);
                // Connections are kept, each for those who want to go there.
                for (port, body) in [(a.port(), "a"), (b.port(), "b"), (a.port(), "a"), (b.port(), "b")] {
                    assert_eq!(to(&mut client, port), body, "{who} {server}");
                    proxy.wait_for_log(&format!("END 200 127.0.0.1 {port} 127.0.0.1:{port}"));
                }
            });
        }
    }

    fn a_server_without_a_port_has_the_clients(io: Io) {
        let (a, b) = (origin("a"), origin("b"));
        let text = "frontend f\n bind 127.0.0.1:{port} accept-proxy\n default_backend b\nbackend b\n use-server plus if { path /plus }\n use-server s unless { path /plus }\n\
                    server s 127.0.0.1\n server plus 127.0.0.1:+1\n server other *:1 backup\n";
        each(io, text, |proxy, who| {
            for (path, to, body) in [("/", a.port(), "a"), ("/", b.port(), "b"), ("/plus", a.port() - 1, "a"), ("/plus", b.port() - 1, "b")] {
                let mut client = Client::connect(proxy);
                client.send(format!("PROXY TCP4 192.0.2.1 198.51.100.2 1111 {to}\r\nGET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
                assert_eq!(client.read().text(), body, "{who} {path} {to}");
            }
        });
    }

    fn connections_go_where_rules_say(io: Io) {
        let a = origin("a");
        for rule in ["tcp-request connection", "tcp-request content"] {
            let text = format!(
                "frontend f\n mode tcp\n bind 127.0.0.1:{{port}}\n {rule} set-dst str(127.0.0.1)\n {rule} set-dst-port int({})\n default_backend b\n\
                 backend b\n mode tcp\n server s 0.0.0.0:0\n", a.port()
            );
            each(io, &text, |proxy, who| {
                assert_eq!(Client::connect(proxy).get("/").text(), "a", "{who}: {rule}");
            });
        }
    }

    fn names_are_looked_up_where_rules_ask(io: Io) {
        let (a, names) = (origin("a"), NameServer::start());
        names.tell("here.test", NameAnswer::Addresses(vec![Ipv4Addr::LOCALHOST], 60));
        names.tell("broken.test", NameAnswer::Code(2));
        let (port, server) = (a.port(), names.address());
        let text = format!(
            "resolvers mine\n nameserver one {server}\n timeout resolve 1s\n timeout retry 300ms\n hold valid 10s\n\
             frontend f\n bind 127.0.0.1:{{port}}\n http-request do-resolve(txn.ip,mine,ipv4) hdr(host),host_only\n\
             http-request deny deny_status 502 unless {{ var(txn.ip) -m found }}\n http-request return status 200 content-type text/plain lf-string \"%[var(txn.ip)]\" if {{ path /said }}\n\
             http-request set-dst var(txn.ip)\n http-request set-dst-port int({port})\n default_backend b\nbackend b\n server s *\n"
        );
        each(io, &text, |proxy, who| {
            let get = |host: &str, path: &str| Client::connect(proxy).request(&Request::get(path).host(host));
            for _ in 0..2 {
                assert_eq!(get("here.test", "/").text(), "a", "{who}");
                assert_eq!(get("here.test:80", "/said").text(), "127.0.0.1", "{who}");
                for nowhere in ["none.test", "broken.test"] {
                    assert_eq!(get(nowhere, "/").status, 502, "{who} {nowhere}");
                }
            }
        });
    }

    fn names_are_looked_up_for_sessions(io: Io) {
        let (a, names) = (origin("a"), NameServer::start());
        names.tell("here.test", NameAnswer::Addresses(vec![Ipv4Addr::LOCALHOST], 60));
        let (port, server) = (a.port(), names.address());
        let text = format!(
            "resolvers mine\n nameserver one {server}\n timeout resolve 1s\n timeout retry 300ms\n hold valid 10s\n\
             frontend f\n mode tcp\n log-format \"TO %[var(sess.name)] %[var(sess.ip)] %[dst]\"\n bind 127.0.0.1:{{port}}\n tcp-request inspect-delay 5s\n tcp-request content reject unless {{ req.len ge 12 }}\n tcp-request content set-var(sess.name) req.payload(0,12),field(1,\\ )\n\
             tcp-request content do-resolve(sess.ip,mine,ipv4) var(sess.name)\n tcp-request content reject unless {{ var(sess.ip) -m found }}\n\
             tcp-request content set-dst var(sess.ip)\n tcp-request content set-dst-port int({port})\n default_backend b\nbackend b\n mode tcp\n server s 0.0.0.0:0\n"
        );
        each(io, &text, |proxy, who| {
            let mut client = Client::connect(proxy);
            client.send("here.test / HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(client.read().text(), "a", "{who}");
            drop(client);
            proxy.wait_for_log("TO here.test 127.0.0.1 127.0.0.1");
            let mut client = Client::connect(proxy);
            client.send("none.test / HTTP/1.1\r\nHost: a\r\n\r\n");
            client.expect_closed();
            proxy.wait_for_log("TO none.test - ");
        });
    }

    fn who_wants_to_go_nowhere_is_told(io: Io) {
        let text = "frontend f\n bind unix@{dir}/f.sock\n bind 127.0.0.1:{port}\n http-request set-dst-port int(0)\n default_backend b\nbackend b\n server s *\n";
        let proxy = Proxy::haproxy(&format!("{DEFAULTS}{text}")).io(io).start();
        Client::connect(&proxy).get("/").expect_status(503);
    }
}

#[test]
fn a_look_up_has_to_be_one() {
    let of = |rule: &str| {
        format!(
            "{DEFAULTS}resolvers mine\n nameserver one 127.0.0.1:53\nfrontend f\n bind 127.0.0.1:{{port}}\n {rule}\n"
        )
    };
    for (rule, fault) in [
        ("http-request do-resolve(txn.ip,other) hdr(host)", "no resolvers section is named `other`"),
        ("http-request do-resolve(txn.ip) hdr(host)", "is the form"),
        ("http-request do-resolve(txn.ip,mine,ipv5) hdr(host)", "ipv4"),
        ("http-request do-resolve(ip,mine) hdr(host)", "ip"),
        ("http-request do-resolve(txn.ip,mine)", "needs 1 argument"),
    ] {
        let (code, said) = Proxy::haproxy(&of(rule)).check();
        assert!(code != 0 && said.contains(fault), "{rule}: {said}");
    }
}

#[test]
fn a_check_has_to_know_its_port() {
    let of = |server: &str| {
        format!(
            "{DEFAULTS}frontend f\n bind 127.0.0.1:{{port}}\n bind 127.0.0.1:{{port_other}}\n default_backend b\nbackend b\n server s {server}\n"
        )
    };
    for (server, wanted) in
        [("* check", false), ("127.0.0.1 check", false), ("127.0.0.1 check port 80", true), ("*", true)]
    {
        let file = Proxy::haproxy(&of(server));
        let (code, said) = file.check();
        assert_eq!(code == 0, wanted, "{server}: {said}");
        assert_eq!(said.contains("neither service port nor check port"), !wanted, "{server}: {said}");
    }
}
