//! The engine's logic at its seams, on a worker without a listener.

mod attempts;
mod clients;
mod endpoints;
mod half;
mod http1;
mod origin;
mod responses;
mod session;

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use weir_control::snapshot::Snapshot;
use weir_control::{EndpointKey, ListenerId, PoolId};
use weir_expr::settings::Exposition;
use weir_http::Method;
use weir_plan::{
    Address, BalanceKey, Endpoint, EndpointSet, Plan, Pool, PoolIx, Reuse, StatsPage, UpstreamKeepalive,
};
use weir_policy::pool::{Balance, EndpointConfig, PoolConfig, PoolOptions};
use weir_rt::{IoChoice, PeerAddr, Runtime};

use crate::exchange::{Client, Exchange};
use crate::logging::LogFiles;
use crate::upstream::Reach;
use crate::worker::Worker;
use crate::worker::options::{ApiRequest, EngineOptions, Page, PageRequest, Pages};
use crate::worker::prepared::Prepared;
use crate::worker::shared::Shared;

struct NoPages;

impl Pages for NoPages {
    fn stats(&self, _: &StatsPage, _: &PageRequest<'_>, _: &Snapshot) -> Page {
        Page { status: 404, headers: Vec::new(), body: Vec::new() }
    }

    fn dashboard(&self, _: &PageRequest<'_>) -> Page {
        Page { status: 404, headers: Vec::new(), body: Vec::new() }
    }

    fn api(&self, _: &ApiRequest<'_>, _: &Snapshot) -> Page {
        Page { status: 404, headers: Vec::new(), body: Vec::new() }
    }

    fn metrics(&self, _: Exposition, _: &PageRequest<'_>, _: &Snapshot) -> Page {
        Page { status: 404, headers: Vec::new(), body: Vec::new() }
    }
}

/// Runs a test as a task of a worker that serves `plan`, with both drivers.
fn on_a_worker(plan: Plan, test: impl AsyncFn(Rc<Worker>)) {
    let plan = Arc::new(plan);
    for io in [IoChoice::Auto, IoChoice::Epoll] {
        let options = EngineOptions {
            issued: None,
            registry: weir_telemetry::Registry::new(),
            io,
            pages: Arc::new(NoPages),
            changes: Arc::default(),
            logs: LogFiles::default(),
        };
        let shared = Arc::new(Shared::new(options, &plan).unwrap());
        let prepared = Arc::new(Prepared::new(&shared, plan.clone()).unwrap());
        let runtime = Runtime::new(shared.runtime_config()).unwrap();
        runtime.block_on(async {
            let worker = Rc::new(Worker::new(0, shared, prepared));
            test(worker.clone()).await;
            worker.let_go();
        });
    }
}

const POOL: PoolId = PoolId::from_name("pool");

/// Endpoints at these sockets, each named after its file.
fn set(sockets: &[&Path]) -> Arc<EndpointSet> {
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let endpoint = |path: &&Path| Endpoint {
        begins: None,
        follows: None,
        socks: None,
        key: EndpointKey::of(POOL, &name(path)),
        name: name(path).into(),
        address: Some(Address::Unix(path.to_path_buf())),
        host: None,
        max_queue: None,
        tls: None,
        send_proxy: None,
        check: None,
        more_checks: Vec::new(),
        agent: None,
        tracks: None,
        cuts: weir_expr::check::Cuts::default(),
        cookie: None,
        resolve: None,
    };
    let configured = |path: &&Path| EndpointConfig::new(EndpointKey::of(POOL, &name(path)), &name(path));
    let configured = sockets.iter().map(configured).collect();
    Arc::new(EndpointSet {
        config: Arc::new(PoolConfig::new(Balance::RoundRobin, PoolOptions::default(), configured)),
        endpoints: sockets.iter().map(endpoint).collect(),
        fresh: None,
        cookies: None,
    })
}

/// A plan with one pool of these sockets.
fn plan(sockets: &[&Path]) -> Plan {
    let pool = Pool {
        id: POOL,
        name: "pool".into(),
        set: set(sockets),
        key: BalanceKey::None,
        keepalive: UpstreamKeepalive {
            idle: 4,
            requests: None,
            time: None,
            timeout: Duration::from_secs(60),
            reuse: Reuse::Always,
        },
        unavailable: weir_plan::settings::Unavailable::default(),
        outliers: None,
        guards: None,
        queue: None,
        sticky: None,
        stickiness: None,
        assigned: Box::default(),
        persistence: Box::default(),
        group: None,
    };
    Plan { pools: vec![pool], pools_by_id: [(POOL, PoolIx(0))].into_iter().collect(), ..Plan::default() }
}

/// Sockets that accept into their queues, and their folder.
fn sockets<const N: usize>() -> (tempfile::TempDir, [std::path::PathBuf; N], [UnixListener; N]) {
    let folder = tempfile::tempdir().unwrap();
    let paths = std::array::from_fn(|at| folder.path().join(["a", "b", "c"][at]));
    let listeners = std::array::from_fn(|at| UnixListener::bind(&paths[at]).unwrap());
    (folder, paths, listeners)
}

fn exchange(worker: &Rc<Worker>, method: Method) -> Box<Exchange> {
    let address = PeerAddr::Unix(None);
    let client = Client::new(worker, address.clone(), Rc::new(address), ListenerId::from_name("none"));
    let mut exchange = Exchange::take(worker, worker.installed(), Rc::new(client));
    exchange.request.method = method;
    exchange.request.method_text.extend_from_slice(method.name().as_bytes());
    exchange
}

/// Endpoints are reached plainly, by kept connections too.
fn reach() -> Reach<'static> {
    Reach {
        timeout: Duration::from_secs(30),
        keepalive: false,
        bind: None,
        transparent: false,
        tls: None,
        secure: None,
        host: None,
        send_proxy: None,
        reuse: true,
        spoken: 0,
    }
}
