//! The engine's logic at its seams, on a worker without a listener.

mod attempts;

use std::rc::Rc;
use std::sync::Arc;

use weir_control::snapshot::Snapshot;
use weir_plan::{Plan, StatsPage};
use weir_rt::{IoChoice, Runtime};

use crate::logging::LogFiles;
use crate::worker::Worker;
use crate::worker::options::{EngineOptions, Page, PageRequest, Pages};
use crate::worker::prepared::Prepared;
use crate::worker::shared::Shared;

struct NoPages;

impl Pages for NoPages {
    fn stats(&self, _: &StatsPage, _: &PageRequest<'_>, _: &Snapshot) -> Page {
        Page { status: 404, headers: Vec::new(), body: Vec::new() }
    }

    fn metrics(&self, _: &Snapshot) -> Page {
        Page { status: 404, headers: Vec::new(), body: Vec::new() }
    }
}

/// Runs a test as a task of a worker that serves `plan`, with both drivers.
fn on_a_worker(plan: Plan, test: impl AsyncFn(Rc<Worker>)) {
    let plan = Arc::new(plan);
    for io in [IoChoice::Auto, IoChoice::Epoll] {
        let options = EngineOptions { io, pages: Arc::new(NoPages), logs: LogFiles::default() };
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
