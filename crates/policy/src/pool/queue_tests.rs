//! The queue of a full pool, on one thread and on several.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use weir_control::{AdminState, EndpointKey, PoolId};

use super::*;
use crate::time::Millis;

const NOW: Millis = Millis(1000);

fn pools(bounds: &[u32], workers: u64) -> Vec<Pool> {
    let endpoints = bounds.iter().enumerate().map(|(i, &max_conns)| {
        let name = format!("e{i}");
        EndpointConfig { max_conns, ..EndpointConfig::new(EndpointKey::of(PoolId(1), &name), &name) }
    });
    let options = PoolOptions {
        counts: Placement::Process,
        rotation: Placement::Process,
        backups: BackupUse::FirstWhenDown,
        times: None,
        panic_percent: 0,
        load_percent: 0,
        near_percent: None,
    };
    let config = Arc::new(PoolConfig::new(Balance::RoundRobin, options, endpoints.collect()));
    let shared = Arc::new(PoolShared::new(&config, None));
    (0..workers).map(|seed| Pool::new(Arc::clone(&config), Arc::clone(&shared), seed)).collect()
}

fn choose(pool: &mut Pool, queued: bool) -> Option<Lease> {
    let mut selection = Selection::default();
    if queued {
        selection.queued();
    }
    match pool.choose(NOW, Key::None, &mut selection) {
        Choice::Endpoint(lease) => Some(lease),
        _ => None,
    }
}

fn ready(place: &mut Place) -> bool {
    pin!(place).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn a_lower_class_and_an_earlier_time_go_first() {
    let pool = &mut pools(&[1], 1)[0];
    let held = choose(pool, false);
    let turns = [(0, 5), (1, 0), (0, 3), (-1, 9), (0, 5)].map(|(class, due)| Turn { class, due });
    let mut places = turns.map(|turn| pool.shared().join(None, 0, turn).unwrap());
    assert!(ready(&mut places[0]), "the first looks once more");
    places[0].again();
    assert_eq!(places.each_ref().map(Place::position), [2, 4, 1, 0, 3]);
    drop(held);
    let called: Vec<bool> = places.iter_mut().map(ready).collect();
    assert_eq!(called, [false, false, false, true, false]);
}

#[test]
fn first_come_first_served() {
    let pool = &mut pools(&[1], 1)[0];
    let held = choose(pool, false);
    let mut first = pool.shared().join(None, 0, Turn::default()).unwrap();
    assert!(ready(&mut first), "the first looks once more");
    assert!(choose(pool, true).is_none());
    first.again();
    let mut second = pool.shared().join(None, 2, Turn::default()).unwrap();
    assert!(!ready(&mut first) && !ready(&mut second));
    assert!(pool.shared().join(None, 2, Turn::default()).is_none(), "bounded");
    assert_eq!((second.position(), pool.shared().waiting()), (1, 2));

    drop(held);
    assert!(ready(&mut first) && !ready(&mut second));
    assert!(choose(pool, false).is_none(), "a newcomer stands behind");
    let held = choose(pool, true).unwrap();
    first.seated();
    assert!(!ready(&mut second));
    drop(held);
    assert!(ready(&mut second));
    drop(second);
    assert_eq!(pool.shared().waiting(), 0);
    assert!(choose(pool, false).is_some());
    assert_eq!(pool.shared().waiting_peak(), 2);
}

#[test]
fn who_gives_up_passes_the_call_on() {
    let pool = &mut pools(&[1], 1)[0];
    let held = choose(pool, false);
    let mut first = pool.shared().join(None, 0, Turn::default()).unwrap();
    first.again();
    let mut second = pool.shared().join(None, 0, Turn::default()).unwrap();
    drop(held);
    assert!(ready(&mut first) && !ready(&mut second));
    drop(first);
    assert!(ready(&mut second));
}

#[test]
fn a_particular_endpoint_is_waited_for() {
    let pool = &mut pools(&[1, 1], 1)[0];
    let (a, b) = (choose(pool, false).unwrap(), choose(pool, false).unwrap());
    let mut for_b = pool.shared().join(Some(b.index()), 0, Turn::default()).unwrap();
    for_b.again();
    assert_eq!(pool.shared().members()[1].waiting(), 1);
    drop(a);
    assert!(!ready(&mut for_b));
    assert!(choose(pool, false).is_some_and(|lease| lease.index() == EndpointIndex(0)), "a is free for all");
    drop(b);
    assert!(ready(&mut for_b));
}

#[test]
fn changes_call_everybody() {
    let pool = &mut pools(&[1], 1)[0];
    let _held = choose(pool, false);
    let mut place = pool.shared().join(None, 0, Turn::default()).unwrap();
    place.again();
    assert!(!ready(&mut place));
    pool.shared().set_admin(0, AdminState::Maintenance, NOW);
    assert!(ready(&mut place));
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for `place`; false if it takes suspiciously long.
fn wait(place: &mut Place) -> bool {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    for _ in 0..500 {
        if pin!(&mut *place).poll(&mut Context::from_waker(&waker)) == Poll::Ready(()) {
            return true;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    false
}

#[test]
fn nobody_is_forgotten_over_threads() {
    let served = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for mut pool in pools(&[1, 2], 6) {
            let served = &served;
            scope.spawn(move || {
                for _ in 0..300 {
                    let lease = match choose(&mut pool, false) {
                        Some(lease) => lease,
                        None => {
                            let mut place = pool.shared().join(None, 0, Turn::default()).unwrap();
                            loop {
                                assert!(wait(&mut place), "forgotten in the queue");
                                if let Some(lease) = choose(&mut pool, true) {
                                    place.seated();
                                    break lease;
                                }
                                place.again();
                            }
                        }
                    };
                    std::thread::yield_now();
                    served.fetch_add(1, Ordering::Relaxed);
                    lease.succeed();
                }
            });
        }
    });
    assert_eq!(served.into_inner(), 1800);
}
