//! Endpoints that are replaced under traffic, on one worker.

use std::path::Path;
use std::rc::Rc;

use weir_control::changes::{NewEndpoint, PoolChanges};
use weir_http::Method;
use weir_policy::retry::RetryPolicy;

use super::attempts::{Does, Script, keep, run, tried};
use super::{POOL, exchange, on_a_worker, plan, sockets};
use crate::upstream::Answered;
use crate::worker::{Worker, snapshot};

/// Replaces the endpoints of the pool, as a side thread does, and has the worker take them up.
fn replace(worker: &Rc<Worker>, sockets: &[&Path]) {
    let installed = worker.installed();
    let given = sockets.iter().map(|path| NewEndpoint {
        name: path.file_name().unwrap().to_string_lossy().into_owned(),
        address: format!("unix:{}", path.display()),
        ..NewEndpoint::default()
    });
    let changed = PoolChanges { endpoints: Some(given.collect()), ..PoolChanges::default() };
    assert!(installed.prepared.pools[0].change(&installed.plan.pools[0], changed, worker.millis(), |_| None));
    worker.take_up_endpoints(POOL);
}

/// One request; its endpoint, and whether its connection was kept from an earlier one.
async fn ask(worker: &Rc<Worker>) -> (String, &'static str, Answered<Box<weir_wire::ClientConnection>>) {
    let mut exchange = exchange(worker, Method::Get);
    let mut script = Script::new([Does::Answers(200)]);
    let answered = run(&mut exchange, &RetryPolicy::default(), None, &mut script).await.ok().unwrap();
    (tried(&exchange)[0].0.to_owned(), script.given[0], answered)
}

#[test]
fn those_that_stay_keep_connections_and_counts_and_those_that_leave_lose_theirs() {
    let (_folder, [a, b, c], _listeners) = sockets::<3>();
    on_a_worker(plan(&[&a, &b]), async |worker| {
        for _ in 0..2 {
            let (_, given, answered) = ask(&worker).await;
            assert_eq!(given, "new");
            keep(&worker, answered);
        }
        replace(&worker, &[&b, &c]);
        assert_eq!(worker.idle.len(), 1, "that to b");
        let mut seen = Vec::new();
        for _ in 0..2 {
            let (name, given, answered) = ask(&worker).await;
            seen.push((name, given));
            keep(&worker, answered);
        }
        seen.sort();
        assert_eq!(seen, [("b".to_owned(), "kept"), ("c".to_owned(), "new")]);
        let pool =
            &snapshot::take(&worker.shared, &worker.installed().prepared, weir_telemetry::Detail::Quantiles)
                .pools[0];
        let counts: Vec<(&str, u64)> =
            pool.endpoints.iter().map(|one| (&*one.name, one.back.total)).collect();
        assert_eq!(counts, [("b", 2), ("c", 1)]);
        assert_eq!(pool.back.total, 4, "what a did is not undone");
    });
}

#[test]
fn an_answer_under_way_ends_at_the_endpoint_that_left_and_its_connection_with_it() {
    let (_folder, [a, b], _listeners) = sockets::<2>();
    on_a_worker(plan(&[&a]), async |worker| {
        let (name, _, answered) = ask(&worker).await;
        assert_eq!(name, "a");
        replace(&worker, &[&b]);
        assert_eq!(&*answered.picked.endpoint().unwrap().name, "a", "it is still what it was");
        keep(&worker, answered);
        assert_eq!(worker.idle.len(), 0);
        // Back again, it is kept to.
        replace(&worker, &[&a]);
        for given in ["new", "kept"] {
            let (name, how, answered) = ask(&worker).await;
            assert_eq!((&*name, how), ("a", given));
            keep(&worker, answered);
        }
    });
}

#[test]
fn the_same_name_at_another_address_is_never_met_on_the_old_connection() {
    let (folder, [a], _listeners) = sockets::<1>();
    let moved = folder.path().join("moved");
    std::fs::create_dir(&moved).unwrap();
    let there = moved.join("a");
    let _there = std::os::unix::net::UnixListener::bind(&there).unwrap();
    on_a_worker(plan(&[&a]), async |worker| {
        let (_, _, answered) = ask(&worker).await;
        keep(&worker, answered);
        replace(&worker, &[&there]);
        let (name, given, answered) = ask(&worker).await;
        assert_eq!((&*name, given), ("a", "new"));
        assert_eq!(answered.picked.address.to_string(), format!("unix:{}", there.display()));
    });
}

#[test]
fn a_pool_that_lost_all_endpoints_refuses_until_there_are_some() {
    let (_folder, [a], _listeners) = sockets::<1>();
    on_a_worker(plan(&[&a]), async |worker| {
        replace(&worker, &[]);
        let mut refused = exchange(&worker, Method::Get);
        let mut script = Script::new([]);
        assert!(run(&mut refused, &RetryPolicy::default(), None, &mut script).await.is_err());
        replace(&worker, &[&a]);
        assert_eq!(ask(&worker).await.0, "a");
    });
}
