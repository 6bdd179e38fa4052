//! `server … socks4` and `check-via-socks4`; and fetches and converters that HAProxy 2.6 has not.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_testkit::{Client, Io, Origin, Proxy, both_drivers, eventually};

const DEFAULTS: &str = "global\n nbthread 1\ndefaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n";

/// A proxy of SOCKS 4 that leads to where it is asked to, or refuses; and how often it was asked.
fn socks(leads: bool) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, asked) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counted = asked.clone();
    std::thread::spawn(move || {
        for conn in listener.incoming().flatten() {
            let counted = counted.clone();
            std::thread::spawn(move || pass(conn, leads, &counted));
        }
    });
    (address, asked)
}

fn pass(mut conn: TcpStream, leads: bool, asked: &AtomicUsize) -> Option<()> {
    let mut head = [0; 8];
    conn.read_exact(&mut head).ok()?;
    let mut user = [1];
    while user[0] != 0 {
        conn.read_exact(&mut user).ok()?;
    }
    assert_eq!(head[..2], [4, 1]);
    asked.fetch_add(1, Ordering::SeqCst);
    if !leads {
        return conn.write_all(&[0, 91, 0, 0, 0, 0, 0, 0]).ok();
    }
    let to = SocketAddr::from(([head[4], head[5], head[6], head[7]], u16::from_be_bytes([head[2], head[3]])));
    let mut there = TcpStream::connect(to).ok()?;
    conn.write_all(&[0, 90, 0, 0, 0, 0, 0, 0]).ok()?;
    let (mut back, mut from) = (conn.try_clone().ok()?, there.try_clone().ok()?);
    std::thread::spawn(move || std::io::copy(&mut from, &mut back));
    std::io::copy(&mut conn, &mut there).ok().map(drop)
}

both_drivers! {
    fn servers_are_reached_through_a_proxy_of_socks(io: Io) {
        let origin = Origin::named("o", "o");
        for (leads, status) in [(true, 200), (false, 503)] {
            let (proxy, asked) = socks(leads);
            let text = format!(
                "{DEFAULTS}frontend f\n bind 127.0.0.1:{{port}}\n default_backend b\nbackend b\n retries 0\n server s {origin} socks4 {proxy}\n"
            );
            let file = Proxy::haproxy(&text);
            for (proxy, who) in [(file.clone().io(io).start(), "weir"), (file.by_rival().start(), "haproxy")] {
                let before = asked.load(Ordering::SeqCst);
                assert_eq!(Client::connect(&proxy).get("/").status, status, "{who}");
                assert!(asked.load(Ordering::SeqCst) > before, "{who}");
            }
        }
    }

    fn checks_go_through_it_where_they_are_told_to(io: Io) {
        let origin = Origin::named("o", "o");
        for words in ["", "check-via-socks4"] {
            let (socks, asked) = socks(true);
            let text = format!(
                "{DEFAULTS}frontend f\n bind 127.0.0.1:{{port}}\n http-request return status 200 if {{ srv_is_up(b/s) }} {{ path /up }}\n default_backend b\n\
                 backend b\n server s {origin} socks4 {socks} check inter 20ms init-state fully-down {words}\n"
            );
            let proxy = Proxy::haproxy(&text).io(io).start();
            eventually("the server to be up", || (Client::connect(&proxy).get("/up").status == 200).then_some(()));
            assert_eq!(asked.load(Ordering::SeqCst) > 0, words == "check-via-socks4", "{words}");
        }
    }

    fn newer_fetches_and_converters_say_what_they_mean(io: Io) {
        let origin = Origin::named("b", "b");
        let expressions = [
            ("str(www.example.org),reverse_dom", "org.example.www"),
            ("bin(450000280000400040060000c0000201c6336402),ip.src", "192.0.2.1"),
            ("bin(450000280000400040060000c0000201c6336402),ip.dst", "198.51.100.2"),
            ("bin(138801bb0000000900000000a002faf000000000020405b40402080a00000007000000000103030700),tcp.options.mss", "1460"),
            ("bin(138801bb0000000900000000a002faf000000000020405b40402080a00000007000000000103030700),tcp.dst", "443"),
            ("str(x),when(normal)", "x"),
            ("str(x),when(error)", ""),
            ("str(x),when(stopping)", ""),
            ("so_name", "front"),
            ("so_id", "7"),
            ("connslots(b)", "15"),
            ("cur_tarpit_timeout", "3000"),
            ("bc_err", "0"),
            ("acl_holds", "1"),
        ];
        let rules: String = expressions
            .iter()
            .enumerate()
            .filter(|(_, (expression, _))| *expression != "acl_holds")
            .map(|(at, (expression, _))| format!(" http-request return status 200 content-type text/plain lf-string \"%[{expression}]\" if {{ path /{at} }}\n"))
            .collect();
        let text = format!(
            "{DEFAULTS} timeout tarpit 3s\nfrontend f\n bind 127.0.0.1:{{port}} name front id 7\n acl one path /13\n acl two method POST\n{rules}\
             http-request return status 200 content-type text/plain string 1 if {{ acl(one,!two) }}\n http-request deny if {{ acl(two) }}\n default_backend b\n\
             backend b\n http-response set-header X-Ver \"%[res.ver] %[bc_http_major] %[capture.res.ver]\"\n server s {origin} maxconn 10 maxqueue 5\n"
        );
        let proxy = Proxy::haproxy(&text).io(io).start();
        let mut client = Client::connect(&proxy);
        for (at, (expression, expected)) in expressions.iter().enumerate() {
            assert_eq!(client.get(&format!("/{at}")).expect_status(200).text(), *expected, "{expression}");
        }
        client.get("/other").expect_header("X-Ver", "1.1 1 HTTP/1.1");
    }
}

#[test]
fn mistakes_in_them_are_told() {
    for (line, wanted) in [
        ("acl a acl(b)\n acl b acl(a)\n http-request deny if { acl(a) }", "in a circle"),
        ("http-request deny if { acl(none) }", "no ACL is named `none`"),
        ("http-request set-var(txn.a) str(x),when(sometimes)", "nothing that `when` asks for"),
        ("server s 127.0.0.1:9 socks4 127.0.0.1", "an address with a port"),
        ("stick-table type ip size 10 peers p write-to none", "no stick table is named `none`"),
    ] {
        let text = format!(
            "{DEFAULTS}global\n localpeer me\npeers p\n peer me 127.0.0.1:{{port_p}}\nlisten f\n bind 127.0.0.1:{{port}}\n {line}\n"
        );
        let (status, said) = Proxy::haproxy(&text).check();
        assert!(status != 0 && said.contains(wanted), "{line}: {said}");
    }
}
