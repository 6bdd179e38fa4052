//! Endpoints that a request names, and the name servers that know them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use weir_testkit::dns::{NameAnswer, NameServer};
use weir_testkit::port::listeners_on_one_port;
use weir_testkit::{Client, Io, Origin, Port, Proxy, Request, Running, both_drivers, eventually};

const ONE: Ipv4Addr = Ipv4Addr::LOCALHOST;
const TWO: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Origins on two addresses with one port, which is given; each answers with its address.
fn two_origins() -> u16 {
    let (port, listeners) = listeners_on_one_port([ONE, TWO]);
    for listener in listeners {
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let own = stream.local_addr().unwrap().ip().to_string();
                let mut request = [0; 4096];
                if stream.read(&mut request).is_ok_and(|read| read > 0) {
                    let length = own.len();
                    let _ = write!(
                        stream,
                        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{own}"
                    );
                }
            }
        });
    }
    port
}

fn proxy(io: Io, names: &NameServer, port: u16) -> Running {
    Proxy::nginx(&format!(
        "worker_processes 1; error_log {{dir}}/error.log; events {{}} http {{ access_log off; \
         resolver {} ipv6=off; resolver_timeout 300ms; \
         server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://$arg_h:{port}; }} }} }}",
        names.address()
    ))
    .io(io)
    .start()
}

fn addresses(of: &[Ipv4Addr], seconds: u32) -> NameAnswer {
    NameAnswer::Addresses(of.to_vec(), seconds)
}

/// A file whose upstream follows the service records of `_http._tcp.app.test`.
fn services(names: &NameServer, dialect: &str) -> Proxy {
    let address = names.address();
    match dialect {
        "nginx" => Proxy::nginx(&format!(
            "worker_processes 1; error_log {{dir}}/error.log notice; events {{}} http {{ access_log off; resolver {address} ipv6=off valid=1s; \
             upstream u {{ zone u 64k; server app.test service=http resolve; }} \
             server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://u; }} }} }}"
        )),
        "stream" => Proxy::nginx(&format!(
            "worker_processes 1; error_log {{dir}}/error.log notice; events {{}} stream {{ resolver {address} ipv6=off valid=1s; \
             upstream u {{ zone u 64k; server app.test service=_http._tcp resolve; }} \
             server {{ listen 127.0.0.1:{{port}}; proxy_pass u; }} }}"
        )),
        _ => Proxy::haproxy(&format!(
            "global\n log /dev/null local0\nresolvers r\n nameserver n {address}\n hold valid 1s\n timeout resolve 1s\n timeout retry 1s\n\
             defaults\n mode http\n timeout client 5s\n timeout connect 5s\n timeout server 5s\n\
             frontend f\n bind 127.0.0.1:{{port}}\n default_backend b\n\
             backend b\n server-template s 3 _http._tcp.app.test resolvers r resolve-prefer ipv4 init-addr none\n"
        )),
    }
}

/// How often each origin answers of so many requests, each on a connection of its own.
fn shares(proxy: &Running, requests: usize) -> BTreeMap<String, usize> {
    let mut seen = BTreeMap::new();
    for _ in 0..requests {
        *seen.entry(Client::connect(proxy).get("/").expect_status(200).text()).or_default() += 1;
    }
    seen
}

both_drivers! {
    fn all_addresses_of_a_name_share_the_load(io: Io) {
        let names = NameServer::start();
        names.tell("both.test", addresses(&[ONE, TWO], 60));
        let proxy = proxy(io, &names, two_origins());
        let mut client = Client::connect(&proxy);
        // By chance: that one of two is never chosen in 64 requests happens once in 10^19 runs.
        let mut seen: Vec<String> = (0..64).map(|_| client.get("/?h=both.test").expect_status(200).text()).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen, [ONE.to_string(), TWO.to_string()]);
    }

    fn a_name_that_moves_is_followed(io: Io) {
        let names = NameServer::start();
        names.tell("moves.test", addresses(&[ONE], 1));
        let proxy = proxy(io, &names, two_origins());
        let mut client = Client::connect(&proxy);
        client.get("/?h=moves.test").expect_body(ONE.to_string());
        names.tell("moves.test", addresses(&[TWO], 1));
        eventually("the new address", || {
            (client.get("/?h=moves.test").expect_status(200).text() == TWO.to_string()).then_some(())
        });
        // Name servers that fail do not take the last address away.
        names.tell("moves.test", NameAnswer::Code(2));
        eventually("the name server to be missed", || {
            client.get("/?h=moves.test").expect_body(TWO.to_string());
            let log = std::fs::read_to_string(proxy.dir().join("error.log")).unwrap();
            log.contains("moves.test could not be resolved (2: Server failure); its last known").then_some(())
        });
    }

    fn a_name_gives_so_many_addresses_at_most(io: Io) {
        let names = NameServer::start();
        let many: Vec<Ipv4Addr> = (1..=70).map(|n| Ipv4Addr::new(127, 0, 1, n)).collect();
        names.tell("many.test", addresses(&many, 60));
        let proxy = Proxy::nginx(&format!(
            "worker_processes 1; error_log /dev/null; events {{}} http {{ access_log off; resolver {} ipv6=off; \
             server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://$arg_h:1; add_header X-Tried $upstream_addr always; }} }} }}",
            names.address()
        ))
        .io(io)
        .start();
        let answer = Client::connect(&proxy).get("/?h=many.test").expect_status(502);
        assert_eq!(answer.header("X-Tried").unwrap_or_default().split(", ").count(), 64);
    }

    fn what_cannot_be_resolved_is_a_502_and_the_log_says_why(io: Io) {
        let names = NameServer::start();
        names.tell("failing.test", NameAnswer::Code(2));
        names.tell("refused.test", NameAnswer::Code(5));
        names.tell("silent.test", NameAnswer::Silence);
        names.tell("bare.test", addresses(&[], 60));
        let proxy = proxy(io, &names, 1);
        for (name, why) in [
            ("failing.test", "2: Server failure"),
            ("refused.test", "5: Operation refused"),
            ("silent.test", "110: Operation timed out"),
            ("missing.test", "3: Host not found"),
            ("bare.test", "3: Host not found"),
            ("no..name", "3: Host not found"),
        ] {
            Client::connect(&proxy).get(&format!("/?h={name}")).expect_status(502);
            proxy.wait_for_file("error.log", &format!("{name} could not be resolved ({why})"));
        }
        Client::connect(&proxy).get("/?h=").expect_status(500);
        proxy.wait_for_file("error.log", "no host in upstream \":1\"");
    }

    fn service_records_say_ports_weights_and_backups(io: Io) {
        for dialect in ["nginx", "stream", "haproxy"] {
            let names = NameServer::start();
            let origins = ["a", "b", "c"].map(|name| Origin::named(name, name));
            let [a, b, c] = [&origins[0], &origins[1], &origins[2]].map(Origin::port);
            names.tell("one.test", addresses(&[ONE], 1));
            // HAProxy's weights are the records' divided by 256, plus one; it does not look at priorities.
            let (heavy, light) = if dialect == "haproxy" { (512, 0) } else { (3, 1) };
            let records = vec![(1, heavy, a, "one.test"), (1, light, b, "one.test"), (2, 1, c, "one.test"), (1, 1, 9, "gone.test")];
            let without_last = if dialect == "haproxy" { vec![records[0], records[1]] } else { records.clone() };
            names.tell("_http._tcp.app.test", NameAnswer::Services(without_last, 1));
            let proxy = services(&names, dialect).io(io).start();
            eventually("endpoints", || Client::connect(&proxy).try_request(&Request::get("/")).is_ok_and(|one| one.status == 200).then_some(()));
            let seen = shares(&proxy, 8);
            assert_eq!(seen, BTreeMap::from([("a".to_owned(), 6), ("b".to_owned(), 2)]), "{dialect}");
            // The records move to another port.
            names.tell("_http._tcp.app.test", NameAnswer::Services(vec![(1, 1, c, "one.test")], 1));
            eventually("the other port", || (shares(&proxy, 4) == BTreeMap::from([("c".to_owned(), 4)])).then_some(()));
        }
    }

    fn what_stands_behind_serves_when_the_best_fail(io: Io) {
        let names = NameServer::start();
        let behind = Origin::named("behind", "behind");
        names.tell("one.test", addresses(&[ONE], 60));
        let records = vec![(1, 1, Port::lease().number(), "one.test"), (5, 1, behind.port(), "one.test")];
        names.tell("_http._tcp.app.test", NameAnswer::Services(records, 60));
        let proxy = services(&names, "nginx").io(io).start();
        eventually("endpoints", || Client::connect(&proxy).try_request(&Request::get("/")).is_ok_and(|one| one.status == 200).then_some(()));
        assert_eq!(Client::connect(&proxy).get("/").text(), "behind");
    }
}
