//! Endpoints that a request names, and the name servers that know them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use weir_testkit::dns::{NameAnswer, NameServer};
use weir_testkit::port::listeners_on_one_port;
use weir_testkit::{Client, Io, Proxy, Running, both_drivers, eventually};

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
}
