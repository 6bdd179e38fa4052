//! An engine in the test's own process: for tests that tell it what no command line can.

#![allow(dead_code, reason = "each test file uses what it needs")]

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use weir_control::snapshot::Snapshot;
use weir_engine::{ApiRequest, Engine, EngineOptions, IoChoice, LogFiles, Page, PageRequest, Pages, Socket};
use weir_expr::settings::Exposition;
use weir_plan::{Plan, StatsPage};
use weir_testkit::{Io, Port};

/// Pages that say what they were asked.
struct Echo;

impl Pages for Echo {
    fn stats(&self, _: &StatsPage, request: &PageRequest<'_>, _: &Snapshot) -> Page {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = format!("{} {} {}", text(request.method), text(request.target), text(request.body));
        let headers = vec![("Content-Type", "text/plain".into())];
        Page { status: 200, headers, body: said.into_bytes() }
    }

    fn dashboard(&self, request: &PageRequest<'_>) -> Page {
        Page { status: 200, headers: Vec::new(), body: request.body.to_vec() }
    }

    fn api(&self, request: &ApiRequest<'_>, _: &Snapshot) -> Page {
        Page { status: 200, headers: Vec::new(), body: request.path.to_vec() }
    }

    fn metrics(&self, _: Exposition, request: &PageRequest<'_>, _: &Snapshot) -> Page {
        Page { status: 200, headers: Vec::new(), body: request.body.to_vec() }
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

/// The plan of a haproxy.cfg.
pub(crate) fn haproxy_plan(text: &str) -> Arc<Plan> {
    let files = weir_haproxy::Memory::default().with("a.cfg", text);
    let loaded = weir_haproxy::load(&files, &["a.cfg".into()], &weir_haproxy::Options::default());
    let resources = weir_lower::LocalResources::default();
    let (plan, findings) = weir_lower::lower(&loaded.model, &resources, &weir_lower::Options::default());
    Arc::new(plan.unwrap_or_else(|| panic!("{:?} {findings:?}", loaded.diagnostics)))
}

/// An engine in this process, whose workers can be told to panic.
pub(crate) struct Running {
    /// The engine.
    pub(crate) engine: Engine,
    plan: Arc<Plan>,
    fd: Arc<OwnedFd>,
}

impl Running {
    /// Serves an nginx.conf with one listener, at `{port}`.
    pub(crate) fn start(io: Io, text: &str) -> (Self, Port) {
        Self::with(io, text, plan)
    }

    /// As [`Running::start`], of any language.
    pub(crate) fn with(io: Io, text: &str, plan: impl Fn(&str) -> Arc<Plan>) -> (Self, Port) {
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
            issued: None,
            io,
            pages: Arc::new(Echo),
            changes: Arc::default(),
            registry: weir_telemetry::Registry::new(),
            logs: LogFiles::default(),
        };
        let engine = Engine::start(plan.clone(), 1, sockets(&plan, &fd), options).unwrap();
        (Self { engine, plan, fd }, port)
    }

    /// Goes on with another nginx.conf, as a reload does.
    pub(crate) fn swap(&mut self, text: &str, port: &Port) {
        let plan = plan(&text.replace("{port}", &port.number().to_string()));
        self.engine.swap(plan.clone(), 1, sockets(&plan, &self.fd)).unwrap();
        self.plan = plan;
    }
}

fn sockets(plan: &Plan, fd: &Arc<OwnedFd>) -> Vec<Socket> {
    vec![Socket { listener: plan.listeners[0].id, id: 1, fd: fd.clone() }]
}
