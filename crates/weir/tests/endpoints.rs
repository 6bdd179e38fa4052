//! Endpoints whose names are looked up while running: nginx `resolve`, HAProxy `resolvers`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use weir_testkit::dns::{NameAnswer, NameServer};
use weir_testkit::port::listeners_on_one_port;
use weir_testkit::{Client, Io, Load, Proxy, Running, both_drivers, eventually};

const ONE: Ipv4Addr = Ipv4Addr::LOCALHOST;
const TWO: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Origins on two addresses with one port, which is given. Each answers on connections that it keeps, with its address and
/// which of its connections it is.
fn two_origins() -> u16 {
    let (port, listeners) = listeners_on_one_port([ONE, TWO]);
    for listener in listeners {
        std::thread::spawn(move || {
            for (number, stream) in (1..).zip(listener.incoming()) {
                let stream = stream.unwrap();
                std::thread::spawn(move || serve(stream, number));
            }
        });
    }
    port
}

fn serve(mut stream: TcpStream, number: u32) {
    let body = format!("{} #{number}", stream.local_addr().unwrap().ip());
    let mut request: Vec<u8> = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(read) => request.extend(&piece[..read]),
        }
        while let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            request.drain(..end + 4);
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn at(addresses: &[Ipv4Addr], seconds: u32) -> NameAnswer {
    NameAnswer::Addresses(addresses.to_vec(), seconds)
}

fn http(names: &NameServer, workers: u32, upstreams: &str, locations: &str) -> String {
    format!(
        "worker_processes {workers}; error_log {{dir}}/error.log notice; events {{}} http {{ access_log off; resolver {} ipv6=off; \
         resolver_timeout 1s; {upstreams} server {{ listen 127.0.0.1:{{port}}; keepalive_requests 100000000; proxy_http_version 1.1; \
         proxy_set_header Connection ''; {locations} }} }}",
        names.address()
    )
}

fn one_upstream(names: &NameServer, workers: u32, servers: &str) -> String {
    let upstream =
        format!("upstream u {{ zone u 64k; keepalive 8; keepalive_requests 100000000; {servers} }}");
    http(names, workers, &upstream, "location / { proxy_pass http://u; }")
}

/// The address of the origin that answers.
fn address(client: &mut Client, path: &str) -> String {
    let text = client.get(path).expect_status(200).text();
    text.split(' ').next().unwrap().to_owned()
}

fn wait_for(proxy: &Running, path: &str, wanted: Ipv4Addr) {
    let mut client = Client::connect(proxy);
    eventually("an answer from the new address", || {
        (address(&mut client, path) == wanted.to_string()).then_some(())
    });
}

/// Waits until the endpoints are these: the last line about them says so, written as they are replaced.
fn wait_until_they_are(proxy: &Running, addresses: &[Ipv4Addr], port: u16) {
    let said = "the endpoints of u are now ";
    let mut wanted: Vec<String> = addresses.iter().map(|ip| format!("{ip}:{port}")).collect();
    wanted.sort();
    eventually("the endpoints to be replaced", || {
        let log = std::fs::read_to_string(proxy.dir().join("error.log")).ok()?;
        let last = log.lines().rev().find_map(|line| line.split_once(said))?.1;
        let mut now: Vec<&str> = last.split(", ").collect();
        now.sort_unstable();
        (now == wanted).then_some(())
    });
}

both_drivers! {
    fn an_endpoint_is_replaced_under_load_and_no_request_fails(io: Io) {
        let names = NameServer::start();
        names.tell("app.test", at(&[ONE], 1));
        let port = two_origins();
        let text = one_upstream(&names, 2, &format!("server app.test:{port} resolve;"));
        let mut proxy = Proxy::nginx(&text).io(io).start();
        // The first request already finds it.
        assert_eq!(address(&mut Client::connect(&proxy), "/"), ONE.to_string());
        let kept = Load::to(&proxy).connections(4).start();
        let fresh = Load::to(&proxy).connections(2).one_request_a_connection().start();
        for (addresses, seen) in [(&[TWO][..], TWO), (&[ONE, TWO], ONE), (&[TWO], TWO), (&[ONE], ONE)] {
            names.tell("app.test", at(addresses, 1));
            wait_until_they_are(&proxy, addresses, port);
            wait_for(&proxy, "/", seen);
            kept.wait_for_more(20);
            fresh.wait_for_more(20);
        }
        // Name servers that fail take nothing away, and neither does a reload meanwhile.
        names.tell("app.test", NameAnswer::Code(3));
        proxy.wait_for_file("error.log", "app.test could not be resolved (3: Host not found); its last known addresses are used");
        kept.wait_for_more(20);
        names.tell("app.test", NameAnswer::Silence);
        proxy.reload(&text.replace("worker_processes 2", "worker_processes 1"));
        kept.wait_for_more(20);
        assert_eq!(address(&mut Client::connect(&proxy), "/"), ONE.to_string());
        kept.finish().expect_no_failure();
        fresh.finish().expect_no_failure();
    }

    fn connections_to_an_endpoint_that_stays_are_kept(io: Io) {
        let names = NameServer::start();
        names.tell("app.test", at(&[ONE], 1));
        let port = two_origins();
        let proxy = Proxy::nginx(&one_upstream(&names, 1, &format!("server app.test:{port} resolve;"))).io(io).start();
        let mut client = Client::connect(&proxy);
        client.get("/").expect_body(format!("{ONE} #1"));
        names.tell("app.test", at(&[TWO, ONE], 1));
        let seen = eventually("both", || {
            let seen = [(); 2].map(|()| client.get("/").expect_status(200).text());
            seen.iter().any(|text| text.starts_with("127.0.0.2 ")).then_some(seen)
        });
        assert!(seen.contains(&format!("{ONE} #1")) && seen.contains(&format!("{TWO} #1")), "{seen:?}");
        // One that left and comes back is met on a new connection: the old one was closed.
        names.tell("app.test", at(&[TWO], 1));
        wait_until_they_are(&proxy, &[TWO], port);
        wait_for(&proxy, "/", TWO);
        names.tell("app.test", at(&[ONE], 1));
        wait_until_they_are(&proxy, &[ONE], port);
        let back = eventually("one to come back", || {
            let text = client.get("/").expect_status(200).text();
            text.starts_with("127.0.0.1 ").then_some(text)
        });
        assert_eq!(back, format!("{ONE} #2"));
    }

    fn answers_hold_for_their_ttl_or_as_long_as_valid_says(io: Io) {
        let names = NameServer::start();
        let port = two_origins();
        let upstream = |name: &str, more: &str| format!("upstream {name} {{ zone {name} 64k; {more} server {name}.test:{port} resolve; }}");
        let valid = format!("resolver {} valid=1s ipv6=off;", names.address());
        let upstreams = [upstream("short", ""), upstream("long", ""), upstream("valid", &valid)].concat();
        let locations = "location /short { proxy_pass http://short; } location /long { proxy_pass http://long; } location /valid { proxy_pass http://valid; }";
        let told = |addresses: &[Ipv4Addr]| {
            names.tell("short.test", at(addresses, 1));
            names.tell("long.test", at(addresses, 3600));
            names.tell("valid.test", at(addresses, 3600));
        };
        told(&[ONE]);
        let proxy = Proxy::nginx(&http(&names, 1, &upstreams, locations)).io(io).start();
        let mut client = Client::connect(&proxy);
        for path in ["/short", "/long", "/valid"] {
            assert_eq!(address(&mut client, path), ONE.to_string(), "{path}");
        }
        told(&[TWO]);
        wait_for(&proxy, "/short", TWO);
        wait_for(&proxy, "/valid", TWO);
        assert_eq!(address(&mut client, "/long"), ONE.to_string());
    }

    fn it_starts_without_the_name_and_serves_once_there_is_one_with_the_weight_of_its_line(io: Io) {
        let names = NameServer::start();
        let port = two_origins();
        let text = one_upstream(&names, 1, &format!("server late.test:{port} weight=3 resolve; server {TWO}:{port};"));
        let proxy = Proxy::nginx(&text).io(io).start();
        let mut client = Client::connect(&proxy);
        assert_eq!(address(&mut client, "/"), TWO.to_string());
        names.tell("late.test", at(&[ONE], 3600));
        wait_for(&proxy, "/", ONE);
        let seen: Vec<String> = (0..8).map(|_| address(&mut client, "/")).collect();
        assert_eq!(seen.iter().filter(|seen| **seen == ONE.to_string()).count(), 6, "{seen:?}");
    }

    fn an_upstream_of_names_that_nobody_knows_answers_502(io: Io) {
        let names = NameServer::start();
        let port = two_origins();
        let proxy = Proxy::nginx(&one_upstream(&names, 2, &format!("server late.test:{port} resolve;"))).io(io).start();
        Client::connect(&proxy).get("/").expect_status(502);
        proxy.wait_for_file("error.log", "no live upstreams while connecting to upstream");
        names.tell("late.test", at(&[ONE, TWO], 1));
        let mut client = Client::connect(&proxy);
        eventually("an answer", || (client.get("/").status == 200).then_some(()));
    }

    fn streams_follow_names_too(io: Io) {
        let names = NameServer::start();
        names.tell("app.test", at(&[ONE], 1));
        let port = two_origins();
        let module = "/usr/lib/nginx/modules/ngx_stream_module.so";
        let text = format!(
            "load_module {module}; worker_processes 2; events {{}} stream {{ resolver {} ipv6=off; \
             upstream u {{ zone u 64k; server app.test:{port} resolve; }} server {{ listen 127.0.0.1:{{port}}; proxy_pass u; }} }}",
            names.address()
        );
        let proxy = Proxy::nginx(&text).io(io).start();
        // A session that has begun stays where it is.
        let mut first = Client::connect(&proxy);
        assert_eq!(address(&mut first, "/"), ONE.to_string());
        names.tell("app.test", at(&[TWO], 1));
        eventually("a session at the new address", || {
            (address(&mut Client::connect(&proxy), "/") == TWO.to_string()).then_some(())
        });
        assert_eq!(address(&mut first, "/"), ONE.to_string());
    }

    fn a_haproxy_server_is_where_its_name_is(io: Io) {
        let names = NameServer::start();
        let port = two_origins();
        let text = format!(
            "global\n nbthread 1\nresolvers r\n nameserver n {}\n resolve_retries 2\n timeout resolve 100ms\n timeout retry 100ms\n \
             hold valid 100ms\n hold nx 0s\n hold obsolete 0s\n hold timeout 30s\n hold refused 30s\n hold other 30s\n accepted_payload_size 8192\n\
             defaults\n mode http\n timeout connect 2s\n timeout client 5s\n timeout server 5s\n\
             frontend f\n bind 127.0.0.1:{{port}}\n default_backend b\n\
             backend b\n server s app.test:{port} resolvers r init-addr none resolve-prefer ipv4\n",
            names.address()
        );
        let file = Proxy::haproxy(&text);
        for proxy in [file.clone().io(io).start(), file.clone().by_rival().start()] {
            names.tell("app.test", NameAnswer::Code(3));
            let status = || Client::connect(&proxy).get("/").status;
            // Without an address it is in maintenance.
            eventually("503", || (status() == 503).then_some(()));
            names.tell("app.test", at(&[ONE], 1));
            eventually("an answer", || (status() == 200).then_some(()));
            names.tell("app.test", at(&[TWO], 1));
            eventually("the new address", || {
                let answer = Client::connect(&proxy).get("/");
                (answer.status == 200 && answer.text().starts_with("127.0.0.2 ")).then_some(())
            });
            // Servers that refuse are borne for thirty seconds, names that are gone not at all (`hold nx 0s`).
            names.tell("app.test", NameAnswer::Code(5));
            for _ in 0..20 {
                assert_eq!(status(), 200);
            }
            names.tell("app.test", NameAnswer::Code(3));
            eventually("503 again", || (status() == 503).then_some(()));
        }
    }

    fn servers_of_a_template_share_the_addresses_of_their_name_out(io: Io) {
        let names = NameServer::start();
        names.tell("app.test", at(&[ONE, TWO], 1));
        let port = two_origins();
        let text = format!(
            "global\n nbthread 1\nresolvers r\n nameserver n {}\n timeout resolve 100ms\n hold valid 100ms\n hold obsolete 0s\n\
             defaults\n mode http\n timeout connect 2s\n timeout client 5s\n timeout server 5s\n\
             frontend f\n bind 127.0.0.1:{{port}}\n http-request return status 200 content-type text/plain lf-string %[nbsrv(b)] if {{ path /count }}\n default_backend b\n\
             backend b\n server-template s 3 app.test:{port} resolvers r init-addr none resolve-prefer ipv4\n",
            names.address()
        );
        let file = Proxy::haproxy(&text);
        for proxy in [file.clone().io(io).start(), file.clone().by_rival().start()] {
            names.tell("app.test", at(&[ONE, TWO], 1));
            let count = || Client::connect(&proxy).get("/count").expect_status(200).text();
            eventually("two of three servers with an address", || (count() == "2").then_some(()));
            let mut seen = [(); 2].map(|()| address(&mut Client::connect(&proxy), "/"));
            seen.sort();
            assert_eq!(seen, [ONE.to_string(), TWO.to_string()]);
            names.tell("app.test", at(&[TWO], 1));
            eventually("one of three", || (count() == "1").then_some(()));
        }
    }
}

#[test]
fn a_restart_begins_where_the_last_process_left_off() {
    let names = NameServer::start();
    names.tell("app.test", at(&[ONE], 3600));
    let port = two_origins();
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let text = one_upstream(&names, 1, &format!("server app.test:{port} resolve;"));
    let file = Proxy::nginx(&text).argument("--state").argument(state.to_str().unwrap());
    let first = file.start();
    assert_eq!(address(&mut Client::connect(&first), "/"), ONE.to_string());
    eventually("the address in the file", || {
        std::fs::read_to_string(&state).is_ok_and(|text| text.contains("127.0.0.1\"")).then_some(())
    });
    first.stop();
    names.tell("app.test", NameAnswer::Silence);
    let second = file.start();
    assert_eq!(address(&mut Client::connect(&second), "/"), ONE.to_string());
}

#[test]
fn names_to_follow_need_a_zone_and_a_resolver() {
    let check = |upstream: &str, http: &str| {
        let text = format!(
            "events {{}} http {{ access_log off; {http} upstream u {{ {upstream} }} server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://u; }} }} }}"
        );
        Proxy::nginx(&text).check()
    };
    let (code, said) = check("server app.test resolve;", "resolver 127.0.0.1;");
    assert!(code != 0 && said.contains("need shared memory"), "{said}");
    let (code, said) = check("zone u 64k; server app.test resolve;", "");
    assert!(code != 0 && said.contains("no resolver is defined"), "{said}");
    let (code, said) = check("zone u 64k; server app.test service=http resolve;", "resolver 127.0.0.1;");
    assert_eq!(code, 0, "{said}");
    let (code, said) = check("zone u 64k; resolver 127.0.0.1; server nowhere.invalid resolve;", "");
    assert_eq!(code, 0, "{said}");
}
