//! What panics and a lack of memory cost: one connection, one worker's connections, nothing that was under way.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::Write as _;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use weir_control::snapshot::{EndpointState, Snapshot};
use weir_engine::{Engine, EngineOptions, IoChoice, LogFiles, Page, PageRequest, Pages, Socket};
use weir_expr::settings::Exposition;
use weir_plan::{Plan, StatsPage};
use weir_testkit::{Address as _, Client, Io, Origin, Port, Proxy, Request, both_drivers, eventually};

/// Pages that no test here asks for.
struct NoPages;

impl Pages for NoPages {
    fn stats(&self, _: &StatsPage, _: &PageRequest<'_>, _: &Snapshot) -> Page {
        unreachable!("no route here has this page")
    }

    fn metrics(&self, _: Exposition, _: &[u8], _: &Snapshot) -> Page {
        unreachable!("no route here has this page")
    }
}

struct OneFile(String);

impl weir_nginx::Files for OneFile {
    fn read(&self, _: &Path) -> std::io::Result<Vec<u8>> {
        Ok(self.0.clone().into_bytes())
    }

    fn glob(&self, _: &str) -> Vec<std::path::PathBuf> {
        Vec::new()
    }

    fn resolve(&self, host: &str) -> Vec<std::net::IpAddr> {
        host.parse().into_iter().collect()
    }
}

fn plan(text: &str) -> Arc<Plan> {
    let loaded = weir_nginx::load(
        &OneFile(text.to_owned()),
        Path::new("/etc/nginx/nginx.conf"),
        &weir_nginx::Options::default(),
    );
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    let resources = weir_lower::LocalResources::default();
    let (plan, findings) = weir_lower::lower(&loaded.model, &resources, &weir_lower::Options::default());
    Arc::new(plan.unwrap_or_else(|| panic!("{findings:?}")))
}

fn haproxy_plan(text: &str) -> Arc<Plan> {
    let files = weir_haproxy::Memory::default().with("a.cfg", text);
    let loaded = weir_haproxy::load(&files, &["a.cfg".into()], &weir_haproxy::Options::default());
    let resources = weir_lower::LocalResources::default();
    let (plan, findings) = weir_lower::lower(&loaded.model, &resources, &weir_lower::Options::default());
    Arc::new(plan.unwrap_or_else(|| panic!("{:?} {findings:?}", loaded.diagnostics)))
}

/// An engine in this process, whose workers can be told to panic.
struct Running {
    engine: Engine,
    plan: Arc<Plan>,
    fd: Arc<OwnedFd>,
}

impl Running {
    fn start(io: Io, text: &str) -> (Self, Port) {
        Self::with(io, text, plan)
    }

    fn with(io: Io, text: &str, plan: impl Fn(&str) -> Arc<Plan>) -> (Self, Port) {
        let port = Port::lease();
        let plan = plan(&text.replace("{port}", &port.number().to_string()));
        let address = format!("127.0.0.1:{}", port.number()).parse().unwrap();
        let fd = Arc::new(weir_rt::listen_tcp(address, &weir_rt::ListenOptions::default()).unwrap());
        let io = match io.possible() {
            Io::Auto => IoChoice::Auto,
            Io::Uring => IoChoice::Uring,
            Io::Epoll => IoChoice::Epoll,
        };
        let options = EngineOptions {
            io,
            pages: Arc::new(NoPages),
            changes: Arc::default(),
            logs: LogFiles::default(),
        };
        let engine = Engine::start(plan.clone(), 1, sockets(&plan, &fd), options).unwrap();
        (Self { engine, plan, fd }, port)
    }

    fn with_budget(&mut self, text: &str, port: &Port) {
        let plan = plan(&text.replace("{port}", &port.number().to_string()));
        self.engine.swap(plan.clone(), 1, sockets(&plan, &self.fd)).unwrap();
        self.plan = plan;
    }
}

fn sockets(plan: &Plan, fd: &Arc<OwnedFd>) -> Vec<Socket> {
    vec![Socket { listener: plan.listeners[0].id, id: 1, fd: fd.clone() }]
}

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
        running.with_budget(&ANSWERING.replace("ok", "new"), &port);
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
        running.with_budget(&ANSWERING.replace("ok", "new"), &port);
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
        Client::connect(&proxy).get("/").expect_body("ok");
    }

    fn short_of_memory_nothing_new_is_begun(io: Io) {
        let (mut running, port) = Running::start(io, ANSWERING);
        let mut kept = Client::connect(&port);
        kept.get("/").expect_body("ok");
        running.with_budget(&format!("weir_memory_budget 1k; {ANSWERING}"), &port);
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
        running.with_budget(ANSWERING, &port);
        waiting.read().expect_body("ok");
    }
}
