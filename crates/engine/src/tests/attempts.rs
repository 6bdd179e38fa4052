//! The loop of attempts, with a scripted protocol towards endpoints that only accept.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use weir_http::Method;
use weir_plan::settings::Queue;
use weir_plan::{Address, EndpointSet, Plan, PoolIx};
use weir_policy::pool::{Balance, EndpointConfig, PoolConfig, PoolOptions};
use weir_policy::retry::{Failure, Redispatch, RetryOn, RetryPolicy};
use weir_rt::Timer;
use weir_wire::{ClientConnection, Conn};

use super::{exchange, on_a_worker, plan, reach, sockets};
use crate::exchange::{Ending, Exchange, Phase};
use crate::upstream::target::Destination;
use crate::upstream::{Answered, Attempts, Failed, Opened, Protocol, Stop, Unanswered};
use crate::worker::Worker;
use crate::worker::idle::Kept;
use crate::worker::watch::{Ends, Watch, Watched};

/// What an endpoint does with one request.
pub(super) enum Does {
    Answers(u16),
    Fails(Failure),
    /// Something that ends the exchange.
    Stops(fn() -> Stop),
    /// Nothing, for ever.
    Hangs,
}

/// A protocol that follows a script, and tells which connections it was given.
pub(super) struct Script {
    does: VecDeque<Does>,
    pub(super) given: Vec<&'static str>,
}

impl Script {
    pub(super) fn new(does: impl IntoIterator<Item = Does>) -> Self {
        Self { does: does.into_iter().collect(), given: Vec::new() }
    }
}

impl Protocol for Script {
    type Traffic = Exchange;
    type Link = Box<ClientConnection>;

    fn take_up(&mut self, opened: Opened) -> Box<ClientConnection> {
        match opened {
            Opened::Kept(conn) => {
                self.given.push("kept");
                conn
            }
            Opened::New(conn) => {
                self.given.push("new");
                Box::new(ClientConnection::new(conn))
            }
        }
    }

    async fn send(&mut self, _: &mut Exchange, _: &mut Box<ClientConnection>) -> Result<(), Stop> {
        Ok(())
    }

    async fn head(&mut self, _: &mut Exchange, _: &mut Box<ClientConnection>) -> Result<Option<u16>, Stop> {
        match self.does.pop_front().expect("the script has another step") {
            Does::Answers(status) => Ok(Some(status)),
            Does::Fails(failure) => Err(Failed { failure, sent: true, why: "as scripted".into() }.into()),
            Does::Stops(stop) => Err(stop()),
            Does::Hangs => std::future::pending().await,
        }
    }

    fn sent(&self, _: &Box<ClientConnection>) -> u64 {
        7
    }
}

/// Runs the attempts of one exchange under a watch over `client`.
pub(super) async fn run(
    exchange: &mut Exchange,
    retry: &RetryPolicy,
    client: Option<Conn>,
    script: &mut Script,
) -> Result<Answered<Box<ClientConnection>>, Unanswered> {
    let installed = exchange.installed.clone();
    let (timer, watch) =
        (Timer::new(), Watch::new(client.map_or(Watched::Nobody, Watched::Connection), Ends::Closed));
    let attempts =
        Attempts { installed: &installed, retry: *retry, reach: reach(), timer: &timer, watch: &watch };
    attempts.run(exchange, script, Destination::Pool(PoolIx(0))).await
}

/// The answer is through: its connection is kept, if it may be.
pub(super) fn keep(worker: &Rc<Worker>, answered: Answered<Box<ClientConnection>>) {
    let installed = worker.installed();
    let bounds = answered.destination.keepalive(&installed);
    let kept = (Kept { conn: answered.link, history: answered.history }, answered.counted.keeps());
    worker.park(answered.picked.pool, &bounds, answered.key, kept);
}

pub(super) fn tried(exchange: &Exchange) -> Vec<(&str, u16)> {
    exchange.attempts.iter().map(|attempt| (&*attempt.endpoint, attempt.status)).collect()
}

#[test]
fn each_endpoint_is_tried_once_in_turn_and_the_last_answer_counts_whatever_it_is() {
    let (_folder, [a, b], _listeners) = sockets::<2>();
    on_a_worker(plan(&[&a, &b]), async |worker| {
        let retry = RetryPolicy { on: RetryOn::default() | RetryOn::HTTP_503, ..RetryPolicy::default() };
        let mut exchange = exchange(&worker, Method::Get);
        let mut script = Script::new([Does::Answers(503), Does::Answers(503)]);
        let answered = run(&mut exchange, &retry, None, &mut script).await.ok().unwrap();
        assert_eq!(tried(&exchange), [("a", 503), ("b", 503)]);
        assert_eq!(answered.picked.key, worker.installed().plan.pools[0].set.endpoints[1].key);
        assert_eq!(exchange.attempts[1].sent, 7);
        assert!(exchange.attempts[1].header.is_some());
        assert_eq!(exchange.ending, Ending::Normal);
    });
}

#[test]
fn what_may_not_be_sent_twice_is_not() {
    let (_folder, [a, b], _listeners) = sockets::<2>();
    on_a_worker(plan(&[&a, &b]), async |worker| {
        let mut exchange = exchange(&worker, Method::Post);
        let mut script = Script::new([Does::Fails(Failure::Io)]);
        let given_up = run(&mut exchange, &RetryPolicy::default(), None, &mut script).await;
        assert_eq!(given_up.err(), Some(Unanswered::Status(502)));
        assert_eq!(tried(&exchange), [("a", 502)]);
        assert_eq!(exchange.ending, Ending::ServerAborted(Phase::Headers));
    });
}

#[test]
fn a_stale_connection_is_no_attempt_and_the_next_is_new() {
    let (_folder, [a], _listeners) = sockets::<1>();
    on_a_worker(plan(&[&a]), async |worker| {
        let retry = RetryPolicy::default();
        let mut first = exchange(&worker, Method::Get);
        let mut script =
            Script::new([Does::Answers(200), Does::Fails(Failure::StaleConnection), Does::Answers(204)]);
        let answered = run(&mut first, &retry, None, &mut script).await.ok().unwrap();
        keep(&worker, answered);
        let mut second = exchange(&worker, Method::Get);
        assert!(run(&mut second, &retry, None, &mut script).await.is_ok());
        assert_eq!(script.given, ["new", "kept", "new"]);
        assert_eq!(tried(&second), [("a", 204)], "nobody failed");
    });
}

#[test]
fn the_same_endpoint_is_tried_again_where_the_settings_say_so() {
    let (_folder, [a, b], _listeners) = sockets::<2>();
    on_a_worker(plan(&[&a, &b]), async |worker| {
        let retry = RetryPolicy { attempts: 3, redispatch: Redispatch::Never, ..RetryPolicy::default() };
        let mut exchange = exchange(&worker, Method::Get);
        let mut script =
            Script::new([Does::Fails(Failure::Timeout), Does::Fails(Failure::Io), Does::Answers(200)]);
        assert!(run(&mut exchange, &retry, None, &mut script).await.is_ok());
        assert_eq!(tried(&exchange), [("a", 504), ("a", 502), ("a", 200)]);
    });
}

#[test]
fn a_client_that_leaves_ends_the_work_for_it() {
    let (_folder, [a, front], [_a, client]) = sockets::<2>();
    on_a_worker(plan(&[&a]), async |worker| {
        let ours = Conn::Plain(weir_rt::connect_unix(&front).await.unwrap());
        drop(client.accept().unwrap());
        let mut exchange = exchange(&worker, Method::Get);
        let mut script = Script::new([Does::Hangs]);
        let gone = run(&mut exchange, &RetryPolicy::default(), Some(ours), &mut script).await;
        assert_eq!(gone.err(), Some(Unanswered::Gone));
        assert_eq!(exchange.ending, Ending::ClientAborted(Phase::Headers));
    });
}

/// A plan whose one endpoint takes one exchange at a time, while others wait in a queue.
fn queued(socket: &std::path::Path) -> Plan {
    let mut plan = plan(&[socket]);
    let pool = &mut plan.pools[0];
    pool.queue = Some(Queue { max: None, timeout: Duration::from_secs(60) });
    let mut only = EndpointConfig::new(pool.set.endpoints[0].key, "a");
    only.max_conns = 1;
    let config = PoolConfig::new(Balance::RoundRobin, PoolOptions::default(), vec![only]);
    pool.set = Arc::new(EndpointSet { config: Arc::new(config), ..EndpointSet::clone(&pool.set) });
    plan
}

#[test]
fn a_client_that_leaves_the_queue_takes_no_slot_with_it() {
    let (_folder, [a, front], [_a, client]) = sockets::<2>();
    on_a_worker(queued(&a), async |worker| {
        let retry = RetryPolicy::default();
        let mut first = exchange(&worker, Method::Get);
        let mut script = Script::new([Does::Answers(200)]);
        let holds = run(&mut first, &retry, None, &mut script).await.ok().unwrap();

        let ours = Conn::Plain(weir_rt::connect_unix(&front).await.unwrap());
        drop(client.accept().unwrap());
        let mut leaves = exchange(&worker, Method::Get);
        let gone = run(&mut leaves, &retry, Some(ours), &mut Script::new([])).await;
        assert_eq!(gone.err(), Some(Unanswered::Gone));
        assert_eq!(leaves.ending, Ending::ClientAborted(Phase::Queue));
        assert!(leaves.attempts.is_empty(), "nobody was asked for it");
        assert!(leaves.times.queued.is_some());

        drop(holds);
        let mut next = exchange(&worker, Method::Get);
        let mut script = Script::new([Does::Answers(200)]);
        assert!(run(&mut next, &retry, None, &mut script).await.is_ok(), "the slot is free");
    });
}

#[test]
fn a_client_that_leaves_while_its_endpoint_is_being_reached_ends_that() {
    let (_folder, [front], [client]) = sockets::<1>();
    // A queue of nobody: those that connect beyond its one place wait for an answer to their SYN.
    let options = weir_rt::ListenOptions { backlog: 0, ..weir_rt::ListenOptions::default() };
    let deaf = weir_rt::listen_tcp("127.0.0.1:0".parse().unwrap(), &options).unwrap();
    let deaf = std::net::TcpListener::from(deaf);
    let address = deaf.local_addr().unwrap();
    let _fills = std::net::TcpStream::connect(address).unwrap();
    let mut plan = plan(&[&front]);
    let pool = &mut plan.pools[0];
    let mut set = EndpointSet::clone(&pool.set);
    set.endpoints[0].address = Some(Address::Tcp(address));
    pool.set = Arc::new(set);
    on_a_worker(plan, async |worker| {
        let ours = Conn::Plain(weir_rt::connect_unix(&front).await.unwrap());
        drop(client.accept().unwrap());
        let mut exchange = exchange(&worker, Method::Get);
        let mut script = Script::new([]);
        let gone = run(&mut exchange, &RetryPolicy::default(), Some(ours), &mut script).await;
        assert_eq!(gone.err(), Some(Unanswered::Gone));
        assert_eq!(exchange.ending, Ending::ClientAborted(Phase::Connect));
        assert_eq!(exchange.attempts.len(), 1);
        assert!(exchange.attempts[0].connect.is_none() && script.given.is_empty());
    });
}

#[test]
fn own_faults_and_clients_nonsense_are_no_failures_of_endpoints() {
    let (_folder, [a, b], _listeners) = sockets::<2>();
    on_a_worker(plan(&[&a, &b]), async |worker| {
        let retry = RetryPolicy::default();
        let mut own = exchange(&worker, Method::Get);
        let mut script = Script::new([Does::Stops(|| Stop::Own("no memory".into()))]);
        assert_eq!(run(&mut own, &retry, None, &mut script).await.err(), Some(Unanswered::Own));
        assert_eq!(own.ending, Ending::Resource(Phase::Headers));
        let mut nonsense = exchange(&worker, Method::Post);
        let mut script = Script::new([Does::Stops(|| Stop::Client(413))]);
        let refused = run(&mut nonsense, &retry, None, &mut script).await;
        assert_eq!(refused.err(), Some(Unanswered::Status(413)));
        assert_eq!(nonsense.attempts.len(), 1);
    });
}

#[test]
fn endpoints_that_cannot_be_reached_are_told_from_those_that_answer_badly() {
    let (folder, [a], _listeners) = sockets::<1>();
    let nowhere = folder.path().join("nowhere");
    on_a_worker(plan(&[&nowhere, &a]), async |worker| {
        let retry = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
        let mut exchange = exchange(&worker, Method::Post);
        let mut script = Script::new([]);
        let given_up = run(&mut exchange, &retry, None, &mut script).await;
        assert_eq!(given_up.err(), Some(Unanswered::Status(502)));
        assert_eq!(exchange.ending, Ending::ServerAborted(Phase::Connect));
        assert!(exchange.attempts[0].connect.is_none());
        assert!(script.given.is_empty());
    });
}
