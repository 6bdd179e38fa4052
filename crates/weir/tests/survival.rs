//! What panics and a lack of memory cost: one connection, one worker's connections, nothing that was under way.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod in_process;

use std::io::Write as _;
use std::net::TcpStream;

use in_process::{Running, haproxy_plan};
use weir_control::snapshot::EndpointState;
use weir_testkit::{Address as _, Client, Io, Origin, Proxy, Request, both_drivers, eventually};

const ANSWERING: &str = "events {} http { access_log off; error_log /dev/null; server { listen 127.0.0.1:{port}; return 200 ok; } }";

const CHECKED: &str = "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\nlisten a\n bind 127.0.0.1:{port}\n server s {origin} check inter 20ms fall 1\n";

both_drivers! {
    fn a_panic_costs_its_connection_only(io: Io) {
        let (running, port) = Running::start(io, ANSWERING);
        let mut other = Client::connect(&port);
        other.get("/").expect_body("ok");
        running.engine.inject_panic();
        let mut unlucky = Client::connect(&port);
        // Orders and connections arrive by different ways: the first of these requests after the order meets it.
        eventually("the panic", || {
            let request = Request::get("/");
            if unlucky.try_request(&request).is_err() {
                return Some(());
            }
            None
        });
        other.get("/").expect_body("ok");
        Client::connect(&port).get("/").expect_body("ok");
        assert_eq!(running.engine.snapshot().process.panics, 1);
        assert_eq!(running.engine.snapshot().process.worker_deaths, 0);
    }

    fn a_listener_goes_on_when_accepting_panicked(io: Io) {
        let (mut running, port) = Running::start(io, ANSWERING);
        let mut before = Client::connect(&port);
        before.get("/").expect_body("ok");
        for round in 1..=2 {
            running.engine.inject_accept_panic();
            // Orders and connections arrive by different ways: the first connection after the order meets it.
            eventually("the panic", || {
                let unlucky = Client::connect(&port).try_request(&Request::get("/")).is_err();
                unlucky.then_some(())
            });
            Client::connect(&port).get("/").expect_body("ok");
            assert_eq!(running.engine.snapshot().process.panics, round);
        }
        // Nobody else lost a connection, and the loop can still be ended and replaced.
        before.get("/").expect_body("ok");
        assert_eq!(running.engine.snapshot().process.worker_deaths, 0);
        running.swap(&ANSWERING.replace("ok", "new"), &port);
        Client::connect(&port).get("/").expect_body("new");
        assert!(running.engine.drain(Some(std::time::Duration::from_secs(10))), "nothing is left after a drain");
    }

    fn a_worker_that_dies_is_started_again_on_its_sockets(io: Io) {
        let (mut running, port) = Running::start(io, ANSWERING);
        for round in 1..=3 {
            let mut before = Client::connect(&port);
            before.get("/").expect_body("ok");
            running.engine.inject_death();
            before.expect_closed();
            // No connection is refused meanwhile: the socket stays open.
            Client::connect(&port).get("/").expect_body("ok");
            assert_eq!(running.engine.snapshot().process.worker_deaths, round);
        }
        let process = running.engine.snapshot().process;
        eventually("the connections to be counted out", || {
            (running.engine.snapshot().process.connections.active == 0).then_some(())
        });
        assert_eq!(process.workers, 1);
        // It still takes orders: another plan, and the end.
        running.swap(&ANSWERING.replace("ok", "new"), &port);
        Client::connect(&port).get("/").expect_body("new");
        assert!(running.engine.drain(Some(std::time::Duration::from_secs(10))), "nothing is left after a drain");
    }

    fn checks_of_endpoints_go_on_when_one_panicked(io: Io) {
        let origin = Origin::named("one", "ok");
        let (running, port) = Running::with(io, &CHECKED.replace("{origin}", &origin.to_string()), haproxy_plan);
        Client::connect(&port).get("/").expect_body("ok");
        running.engine.inject_check_panic();
        eventually("the panic", || (running.engine.snapshot().process.panics == 1).then_some(()));
        drop(origin);
        eventually("the endpoint to be seen down", || {
            let pools = running.engine.snapshot().pools;
            pools.iter().flat_map(|pool| &pool.endpoints).any(|e| e.state == EndpointState::Down).then_some(())
        });
        assert_eq!(running.engine.snapshot().process.worker_deaths, 0);
    }

    fn memory_that_was_short_suffices_again_once_it_is_free(io: Io) {
        let proxy = Proxy::nginx(
            "weir_memory_budget 48m; worker_processes 1; events { worker_connections 2000; } http { access_log off;
             client_body_buffer_size 1m; client_max_body_size 2m; server { listen 127.0.0.1:{port};
             location / { return 200 ok; } location /kept { proxy_pass http://127.0.0.1:1; } } }",
        )
        .io(io)
        .start();
        let mut watcher = Client::connect(&proxy);
        let (mut flood, body) = (Vec::new(), vec![b'x'; 990_000]);
        eventually("memory to be short", || {
            // Each holds almost a megabyte of a body that does not end.
            for _ in 0..8 {
                let mut client = TcpStream::connect(proxy.address()).ok()?;
                client.write_all(b"POST /kept HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n").ok()?;
                client.set_nonblocking(true).ok()?;
                flood.push((client, 990_000));
            }
            for (client, left) in &mut flood {
                while let Ok(sent @ 1..) = client.write(&body[..*left]) {
                    *left -= sent;
                }
            }
            let answer = watcher.try_request(&Request::get("/"));
            (!answer.is_ok_and(|answer| answer.status == 200)).then_some(())
        });
        drop(flood);
        // What the accept loop waited for when memory became short is turned away still.
        eventually("requests to be served again", || {
            let answer = Client::connect(&proxy).try_request(&Request::get("/")).ok()?;
            (answer.status == 200 && answer.body == b"ok").then_some(())
        });
    }

    fn short_of_memory_nothing_new_is_begun(io: Io) {
        let (mut running, port) = Running::start(io, ANSWERING);
        let mut kept = Client::connect(&port);
        kept.get("/").expect_body("ok");
        running.swap(&format!("weir_memory_budget 1k; {ANSWERING}"), &port);
        eventually("a request to be turned away", || {
            let response = kept.try_request(&Request::get("/")).ok()?;
            (response.status == 503).then_some(())
        });
        kept.expect_closed();
        // What the accept loop waited for already is answered, too; what comes after that waits.
        Client::connect(&port).get("/").expect_status(503);
        let mut waiting = Client::connect(&port);
        waiting.send(Request::get("/").bytes());
        waiting.expect_silence(std::time::Duration::from_millis(300));
        assert!(running.engine.snapshot().process.shed >= 1);
        running.swap(ANSWERING, &port);
        waiting.read().expect_body("ok");
    }
}
