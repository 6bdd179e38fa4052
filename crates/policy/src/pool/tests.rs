//! Sequences recorded from nginx 1.22 and HAProxy 2.6 on loopback (one worker, endpoints answering their own name),
//! and properties that hold for every pool.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use weir_control::{AdminState, EndpointKey, PoolId};

use super::*;
use crate::hash::HashFunction;
use crate::time::Millis;

const T0: Millis = Millis(1_000_000);

/// An endpoint `name` of the given weight, at the address that the recordings used.
fn endpoint(name: &str, weight: u32) -> EndpointConfig {
    let port = 27_101 + u32::from(name.as_bytes()[0] - b'a');
    let mut endpoint = EndpointConfig::new(EndpointKey::of(PoolId(1), name), &format!("127.0.0.1:{port}"));
    endpoint.weight = weight;
    endpoint.id = u32::from(name.as_bytes()[0] - b'a') + 1;
    endpoint
}

fn abc(weights: [u32; 3]) -> Vec<EndpointConfig> {
    ["a", "b", "c"].iter().zip(weights).map(|(n, w)| endpoint(n, w)).collect()
}

fn abc_without_b() -> Vec<EndpointConfig> {
    let mut endpoints = abc([1, 3, 2]);
    endpoints[1].down = true;
    endpoints
}

fn pool(balance: Balance, endpoints: Vec<EndpointConfig>) -> Pool {
    pool_with(balance, PoolOptions::default(), endpoints)
}

fn pool_with(balance: Balance, options: PoolOptions, endpoints: Vec<EndpointConfig>) -> Pool {
    let config = Arc::new(PoolConfig::new(balance, options, endpoints));
    let shared = Arc::new(PoolShared::new(&config, None));
    Pool::new(config, shared, 42)
}

const HAPROXY: PoolOptions = PoolOptions {
    backups: BackupUse::FirstWhenDown,
    counts: Placement::Process,
    rotation: Placement::Process,
    times: None,
    panic_percent: 0,
    load_percent: 0,
    near_percent: None,
};

fn letter(index: EndpointIndex) -> char {
    char::from(b'a' + index.0 as u8)
}

/// One exchange whose every attempt succeeds.
fn serve(pool: &mut Pool, now: Millis, key: Key<'_>) -> char {
    match pool.choose(now, key, &mut Selection::default()) {
        Choice::Endpoint(lease) => {
            let index = lease.index();
            lease.succeed();
            letter(index)
        }
        _ => '!',
    }
}

fn serve_many(pool: &mut Pool, count: usize) -> String {
    (0..count).map(|_| serve(pool, T0, Key::None)).collect()
}

/// One exchange in which the endpoints `dead` refuse, and the next is tried.
fn serve_around(pool: &mut Pool, now: Millis, dead: &[char]) -> char {
    let mut selection = Selection::default();
    for _ in 0..pool.config().attempts() {
        let Choice::Endpoint(lease) = pool.choose(now, Key::None, &mut selection) else { break };
        let name = letter(lease.index());
        if !dead.contains(&name) {
            lease.succeed();
            return name;
        }
        lease.fail(now);
    }
    '!'
}

fn recorded_clients() -> (Vec<IpAddr>, Vec<IpAddr>) {
    let v4 = |i: u32| IpAddr::V4(Ipv4Addr::new(10, (i * 7 % 256) as u8, (i * 31 % 256) as u8, i as u8));
    let v6 = |i: u16| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, i * 977, 0, 0, 0, 0, i * 13 + 1));
    ((0..40).map(v4).collect(), (0..12).map(v6).collect())
}

fn serve_clients(pool: &mut Pool) -> (String, String) {
    let (v4, v6) = recorded_clients();
    let mut serve_all =
        |clients: Vec<IpAddr>| clients.into_iter().map(|c| serve(pool, T0, Key::Client(c))).collect();
    (serve_all(v4), serve_all(v6))
}

fn serve_keys(pool: &mut Pool, form: impl Fn(u32) -> String) -> String {
    (0..40).map(|i| serve(pool, T0, Key::Bytes(form(i * i).as_bytes()))).collect()
}

#[test]
fn smooth_weighted_turns_as_nginx() {
    let mut even = pool(Balance::RoundRobin, abc([5, 1, 1]));
    assert_eq!(serve_many(&mut even, 40), "aabacaaaabacaaaabacaaaabacaaaabacaaaabac");
    let mut mixed = pool(Balance::RoundRobin, abc([3, 2, 7]));
    assert_eq!(serve_many(&mut mixed, 40), "cacbcaccbcaccacbcaccbcaccacbcaccbcaccacb");
}

#[test]
fn process_wide_turns_are_the_same_turns() {
    let options = PoolOptions { rotation: Placement::Process, ..PoolOptions::default() };
    let mut one = pool_with(Balance::RoundRobin, options, abc([5, 1, 1]));
    let mut two = Pool::new(Arc::clone(one.config()), Arc::clone(one.shared()), 1);
    let turns: String =
        (0..7).flat_map(|_| [serve(&mut one, T0, Key::None), serve(&mut two, T0, Key::None)]).collect();
    assert_eq!(turns, "aabacaaaabacaa");
}

#[test]
fn failures_lower_the_weight_as_in_nginx() {
    let mut endpoints = abc([2, 4, 3]);
    (endpoints[1].max_fails, endpoints[1].fail_timeout) = (3, Duration::from_secs(3600));
    let mut three = pool(Balance::RoundRobin, endpoints);
    let served: String = (0..40).map(|_| serve_around(&mut three, T0, &['b'])).collect();
    assert_eq!(served, "cacacaccacaccacaccacaccacaccacaccacaccac");

    let mut endpoints = abc([1, 4, 3]);
    endpoints[1].max_fails = 0;
    let mut never = pool(Balance::RoundRobin, endpoints);
    let served: String = (0..40).map(|_| serve_around(&mut never, T0, &['b'])).collect();
    assert_eq!(served, "ccaccccaccccaccaccccaccaccccaccaccccacca");
}

#[test]
fn backups_take_over_as_in_nginx() {
    let mut endpoints = abc([1, 1, 2]);
    endpoints[0].max_fails = 2;
    endpoints[0].fail_timeout = Duration::from_secs(3600);
    (endpoints[1].backup, endpoints[2].backup) = (true, true);
    let mut pool = pool(Balance::RoundRobin, endpoints);
    let served: String = (0..40).map(|_| serve_around(&mut pool, T0, &['a'])).collect();
    assert_eq!(served, "cbccbccbccbccbccbccbccbccbccbccbccbccbcc");
}

#[test]
fn ip_hash_as_nginx() {
    let mut all = pool(Balance::IpHash, abc([1, 3, 2]));
    let (v4, v6) = serve_clients(&mut all);
    assert_eq!((&*v4, &*v6), ("bbbbbbbbbccccbbbbccccccccaaaacccccbbbbbb", "bbcbbccbacbb"));
    let mut without = pool(Balance::IpHash, abc_without_b());
    let (v4, v6) = serve_clients(&mut without);
    assert_eq!((&*v4, &*v6), ("cccaaaccaccccacccccccccccaaaacccccccaacc", "cacaccccacca"));
}

#[test]
fn hashes_as_nginx() {
    let key = |i| format!("k{i}");
    let mut modulo = pool(Balance::HashModulo, abc([1, 3, 2]));
    assert_eq!(serve_keys(&mut modulo, key), "bacbbaacbabcababcbabcbcbaacaabbcccbbbbcc");
    let mut modulo = pool(Balance::HashModulo, abc_without_b());
    assert_eq!(serve_keys(&mut modulo, key), "cacacaaccaccacacccacccccaacaaccccccaaccc");
    let mut ketama = pool(Balance::HashKetama, abc([1, 3, 2]));
    assert_eq!(serve_keys(&mut ketama, key), "bacbbccbccbccbcbcabbccbcbcbaabcabbcacaaa");
    let mut ketama = pool(Balance::HashKetama, abc_without_b());
    assert_eq!(serve_keys(&mut ketama, key), "caccaccaccaccccacacaccacacaaaacaaacacaaa");
}

#[test]
fn source_as_haproxy() {
    let mut map = pool_with(Balance::Map(KeyHash::default()), HAPROXY, abc([1, 3, 2]));
    let (v4, v6) = serve_clients(&mut map);
    assert_eq!((&*v4, &*v6), ("bbbbbbbbbbabababaccccccccbbbbbbbbbabaccc", "babcbbcbbaba"));
    let avalanche = KeyHash { avalanche: true, ..KeyHash::default() };
    let mut ring = pool_with(Balance::Ring(avalanche), HAPROXY, abc([1, 3, 2]));
    let (v4, v6) = serve_clients(&mut ring);
    assert_eq!((&*v4, &*v6), ("cbbbcbabbccbbbccbbbcbccbbbbbcbbbbbcbaacb", "aabccbbbcbcb"));
}

#[test]
fn uri_as_haproxy() {
    let key =
        |i: u32| String::from_utf8_lossy(uri_key(format!("/p/k{i}?q=1").as_bytes(), 0, 0, false)).into();
    let hash = |function, avalanche| KeyHash { function, avalanche };
    for (balance, served) in [
        (Balance::Map(hash(HashFunction::Sdbm, false)), "bbbaaacabcccbccabbcbcbcbbaabcbcbcbbbccbc"),
        (Balance::Ring(hash(HashFunction::Sdbm, true)), "cbcccbcbbabcbbcbbcbabcbcbbbbbabbcbabaabb"),
        (Balance::Map(hash(HashFunction::Wt6, false)), "bccacbbcbbbccabbbabcbccbbccbbbbabccbbabb"),
        (Balance::Ring(hash(HashFunction::Djb2, true)), "abcbbaaabbccbacbbabbabbbcbbcbbcbbcbbcbbc"),
        (Balance::Map(hash(HashFunction::Crc32, true)), "bcbbbccbcbbbbcaccccbcababcabbbaabbcbbcbc"),
    ] {
        let mut pool = pool_with(balance, HAPROXY, abc([1, 3, 2]));
        assert_eq!(serve_keys(&mut pool, key), served, "{balance:?}");
    }
}

#[test]
fn turns_of_haproxy() {
    let mut pool = pool_with(Balance::StaticRoundRobin, HAPROXY, abc([5, 1, 1]));
    assert_eq!(serve_many(&mut pool, 21), "aaabaacaaabaacaaabaac");
    let mut pool = pool_with(Balance::StaticRoundRobin, HAPROXY, abc([20, 30, 10]));
    assert_eq!(serve_many(&mut pool, 21), "ababbcababbcababbcaba");
    let mut pool = pool_with(Balance::RoundRobin, HAPROXY, abc([1, 1, 1]));
    assert_eq!(serve_many(&mut pool, 21), "abcabcabcabcabcabcabc");
}

#[test]
fn least_connections_by_weight() {
    for balance in [Balance::LeastConn, Balance::LeastConnOldest] {
        let mut pool = pool(balance, abc([1, 3, 2]));
        let mut held = Vec::new();
        for _ in 0..60 {
            match pool.choose(T0, Key::None, &mut Selection::default()) {
                Choice::Endpoint(lease) => held.push(lease),
                other => panic!("{other:?}"),
            }
        }
        let count = |i| held.iter().filter(|l| l.index() == EndpointIndex(i)).count();
        let counts = [count(0), count(1), count(2)];
        assert!(counts.iter().zip([10usize, 30, 20]).all(|(&n, want)| n.abs_diff(want) <= 1), "{counts:?}");
    }
}

#[test]
fn least_connections_among_equals_takes_turns() {
    let mut nginx = pool(Balance::LeastConn, abc([1, 1, 1]));
    assert_eq!(serve_many(&mut nginx, 6), "abcabc");
    let mut haproxy = pool_with(Balance::LeastConnOldest, HAPROXY, abc([1, 1, 1]));
    assert_eq!(serve_many(&mut haproxy, 6), "abcabc");
}

#[test]
fn max_conns_is_exact_over_workers() {
    let mut endpoints = abc([1, 1, 1]);
    for endpoint in &mut endpoints {
        endpoint.max_conns = 5;
    }
    let options = PoolOptions { counts: Placement::Process, ..PoolOptions::default() };
    let first = pool_with(Balance::RoundRobin, options, endpoints);
    let (config, shared) = (Arc::clone(first.config()), Arc::clone(first.shared()));
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let mut pool = Pool::new(Arc::clone(&config), Arc::clone(&shared), seed);
            scope.spawn(move || {
                let mut held = std::collections::VecDeque::new();
                for _ in 0..5000 {
                    if let Choice::Endpoint(lease) = pool.choose(T0, Key::None, &mut Selection::default()) {
                        assert!(lease.load.in_flight() <= 5);
                        held.push_back(lease);
                    }
                    if held.len() > 4 {
                        held.pop_front();
                    }
                }
            });
        }
    });
    assert!(shared.members().iter().all(|m| m.load().in_flight() == 0));
}

#[test]
fn full_and_down_are_told_apart() {
    let mut endpoints = abc([1, 1, 1]);
    endpoints.truncate(2);
    endpoints[0].max_conns = 1;
    endpoints[1].down = true;
    let mut pool = pool(Balance::RoundRobin, endpoints);
    let held = pool.choose(T0, Key::None, &mut Selection::default());
    assert!(matches!(held, Choice::Endpoint(_)));
    let busy = pool.choose(T0, Key::None, &mut Selection::default());
    assert!(matches!(busy, Choice::AllBusy { wanted: None }));
    pool.shared().set_admin(0, AdminState::Maintenance, T0);
    assert!(matches!(pool.choose(T0, Key::None, &mut Selection::default()), Choice::NoneLive));
    pool.shared().set_admin(1, AdminState::Ready, T0);
    assert_eq!(serve(&mut pool, T0, Key::None), 'b', "ready overrides a configured down");
}

#[test]
fn haproxy_hash_waits_for_its_endpoint() {
    let mut endpoints = abc([1, 1, 1]);
    for endpoint in &mut endpoints {
        endpoint.max_conns = 1;
    }
    let mut pool = pool_with(Balance::Map(KeyHash::default()), HAPROXY, endpoints);
    let key = Key::Bytes(b"same");
    let Choice::Endpoint(held) = pool.choose(T0, key, &mut Selection::default()) else { panic!() };
    match pool.choose(T0, key, &mut Selection::default()) {
        Choice::AllBusy { wanted } => assert_eq!(wanted, Some(held.index())),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_failed_endpoint_rests_and_is_probed_once() {
    let mut endpoints = abc([1, 1, 1]);
    endpoints.truncate(2);
    endpoints[0].max_fails = 2;
    endpoints[0].fail_timeout = Duration::from_secs(10);
    let mut pool = pool(Balance::RoundRobin, endpoints);
    let at = |s: u64| Millis(T0.0 + s * 1000);
    let mut tried = Vec::new();
    for _ in 0..8 {
        let mut selection = Selection::default();
        while let Choice::Endpoint(lease) = pool.choose(T0, Key::None, &mut selection) {
            tried.push(letter(lease.index()));
            match lease.index().0 {
                0 => assert_eq!(
                    lease.fail(T0) == Turnover::Disabled,
                    tried.iter().filter(|&&c| c == 'a').count() == 2
                ),
                _ => {
                    lease.succeed();
                    break;
                }
            }
        }
    }
    assert_eq!(tried.iter().filter(|&&c| c == 'a').count(), 2);
    assert!(pool.failed(EndpointIndex(0), at(10)) && !pool.failed(EndpointIndex(0), at(11)));

    // The probe: one exchange only, until it ended.
    let mut probes = Vec::new();
    for _ in 0..6 {
        if let Choice::Endpoint(lease) = pool.choose(at(11), Key::None, &mut Selection::default()) {
            probes.push(lease);
        }
    }
    assert_eq!(probes.iter().filter(|l| l.index().0 == 0).count(), 1);
    let turnover: Vec<_> = probes.into_iter().map(Lease::succeed).collect();
    assert_eq!(turnover.iter().filter(|t| **t == Turnover::Restored).count(), 1);
    assert!(!pool.failed(EndpointIndex(0), at(11)));
}

#[test]
fn the_only_endpoint_is_never_held_to_its_failures() {
    let mut pool = pool(Balance::RoundRobin, vec![endpoint("a", 1)]);
    for _ in 0..5 {
        assert_eq!(serve_around(&mut pool, T0, &['a']), '!');
    }
    assert_eq!(serve(&mut pool, T0, Key::None), 'a');
}

#[test]
fn haproxy_backups_wait_until_all_are_down() {
    let mut endpoints = abc([1, 1, 1]);
    (endpoints[1].backup, endpoints[2].backup) = (true, true);
    endpoints[0].max_conns = 1;
    let mut pool = pool_with(Balance::RoundRobin, HAPROXY, endpoints.clone());
    let held = pool.choose(T0, Key::None, &mut Selection::default());
    assert!(matches!(pool.choose(T0, Key::None, &mut Selection::default()), Choice::AllBusy { .. }));
    drop(held);
    pool.shared().set_health(0, false, T0);
    assert_eq!(serve_many(&mut pool, 4), "bbbb", "the first backup takes all");
    pool.shared().set_health(1, false, T0);
    assert_eq!(serve_many(&mut pool, 2), "cc");
    pool.shared().set_health(0, true, T0);
    assert_eq!(serve_many(&mut pool, 2), "aa");
    let all = PoolOptions { backups: BackupUse::AllWhenDown, ..HAPROXY };
    let mut pool = pool_with(Balance::RoundRobin, all, endpoints);
    pool.shared().set_health(0, false, T0);
    assert_eq!(serve_many(&mut pool, 4), "bcbc");
}

#[test]
fn redispatch_comes_back_when_all_were_tried() {
    let mut pool = pool_with(Balance::RoundRobin, HAPROXY, abc([1, 1, 1]));
    let mut selection = Selection::default();
    let order: String = (0..5)
        .map(|_| match pool.choose(T0, Key::None, &mut selection) {
            Choice::Endpoint(lease) => letter(lease.index()),
            _ => '!',
        })
        .collect();
    assert_eq!(order.len(), 5);
    assert!(!order.contains('!') && order.as_bytes().windows(2).all(|w| w[0] != w[1]), "{order}");
}

#[test]
fn drained_and_weightless_take_bound_work_only() {
    let mut pool = pool(Balance::RoundRobin, abc([1, 1, 1]));
    pool.shared().set_admin(0, AdminState::Drain, T0);
    pool.shared().set_weight(1, Some(0));
    assert_eq!(serve_many(&mut pool, 3), "ccc");
    for index in [0, 1] {
        assert!(pool.take(EndpointIndex(index), T0, &mut Selection::default()).is_some());
    }
    pool.shared().set_health(0, false, T0);
    assert!(pool.take(EndpointIndex(0), T0, &mut Selection::default()).is_none());
    pool.shared().set_weight(1, None);
    assert_eq!(serve_many(&mut pool, 4).matches('b').count(), 2);
}

#[test]
fn slow_start_grows_with_time() {
    let mut endpoints = abc([1, 1, 1]);
    endpoints.truncate(2);
    endpoints[0].slow_start = Duration::from_secs(100);
    let mut pool = pool(Balance::RoundRobin, endpoints);
    let mut share = |now: Millis| (0..1000).filter(|_| serve(&mut pool, now, Key::None) == 'a').count();
    assert_eq!(share(T0), 500, "never down: full weight");
    pool.shared().set_health(0, false, T0);
    pool.shared().set_health(0, true, T0);
    let mut share = |s: u64| {
        let now = Millis(T0.0 + s * 1000);
        (0..1000).filter(|_| serve(&mut pool, now, Key::None) == 'a').count()
    };
    let shares = [share(0), share(25), share(50), share(100)];
    assert!(shares[0] < 30 && shares.windows(2).all(|w| w[0] < w[1]) && shares[3] == 500, "{shares:?}");
}

#[test]
fn a_reload_keeps_counts_turns_and_drains() {
    for placement in [Placement::Worker, Placement::Process] {
        let options = PoolOptions { counts: placement, rotation: placement, ..PoolOptions::default() };
        let mut old = pool_with(Balance::RoundRobin, options, abc([1, 1, 1]));
        assert_eq!(serve(&mut old, T0, Key::None), 'a');
        let Choice::Endpoint(lease) = old.choose(T0, Key::None, &mut Selection::default()) else { panic!() };
        assert_eq!(lease.index(), EndpointIndex(1));
        old.shared().set_admin(0, AdminState::Drain, T0);

        let mut endpoints = abc([1, 1, 1]);
        endpoints.reverse();
        endpoints.push(endpoint("d", 1));
        let config = Arc::new(PoolConfig::new(Balance::RoundRobin, options, endpoints));
        let shared = Arc::new(PoolShared::new(&config, Some(old.shared())));
        let mut new = old.reconfigured(config, shared);
        let in_flight = |pool: &Pool, i| pool.load(EndpointIndex(i)).map(|l| l.in_flight());
        assert_eq!(in_flight(&new, 1), Some(1), "b's exchange, begun under the old plan");
        lease.succeed();
        assert_eq!(in_flight(&new, 1), Some(0));
        let served: HashSet<_> = (0..6)
            .filter_map(|_| match new.choose(T0, Key::None, &mut Selection::default()) {
                Choice::Endpoint(lease) => Some(lease.index().0),
                _ => None,
            })
            .collect();
        assert_eq!(served, HashSet::from([0, 1, 3]), "a stays drained");
    }
}

#[test]
fn uri_keys_are_cut_as_told() {
    let uri = b"/a/b/c?q=/1";
    assert_eq!(uri_key(uri, 0, 0, false), b"/a/b/c");
    assert_eq!(uri_key(uri, 0, 0, true), uri);
    assert_eq!(uri_key(uri, 3, 0, false), b"/a/");
    assert_eq!(uri_key(uri, 0, 1, false), b"/a");
    assert_eq!(uri_key(uri, 0, 9, false), b"/a/b/c");
}

fn any_pool(balance: Balance, weights: &[u32]) -> Pool {
    let pool_id = PoolId(9);
    let endpoints = weights.iter().enumerate().map(|(i, &w)| {
        let name = format!("10.0.0.{i}:80");
        EndpointConfig {
            weight: w,
            id: i as u32 + 1,
            max_fails: 0,
            ..EndpointConfig::new(EndpointKey::of(pool_id, &name), &name)
        }
    });
    pool(balance, endpoints.collect())
}

fn shares(pool: &mut Pool, rounds: usize, key: impl Fn(usize) -> String) -> Vec<usize> {
    let mut shares = vec![0; pool.config().endpoints().len()];
    for round in 0..rounds {
        let key = key(round);
        if let Choice::Endpoint(lease) =
            pool.choose(T0, Key::Bytes(key.as_bytes()), &mut Selection::default())
        {
            shares[lease.index().0 as usize] += 1;
        }
    }
    shares
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Turns respect weights exactly over each period, so nobody starves.
    #[test]
    fn turns_respect_weights(weights in prop::collection::vec(1u32..12, 1..12)) {
        let total: u32 = weights.iter().sum();
        for balance in [Balance::RoundRobin, Balance::StaticRoundRobin] {
            let mut pool = any_pool(balance, &weights);
            let shares = shares(&mut pool, total as usize * 3, |_| String::new());
            let want: Vec<_> = weights.iter().map(|&w| w as usize * 3).collect();
            prop_assert_eq!(shares, want);
        }
    }

    /// Draws respect weights by and large.
    #[test]
    fn draws_respect_weights(weights in prop::collection::vec(1u32..6, 2..6)) {
        let total: u32 = weights.iter().sum();
        let mut pool = any_pool(Balance::Random(1), &weights);
        let shares = shares(&mut pool, 6000, |_| String::new());
        for (share, weight) in shares.iter().zip(&weights) {
            let want = 6000 * *weight as usize / total as usize;
            prop_assert!(share.abs_diff(want) < 350, "{shares:?} for {weights:?}");
        }
    }

    /// One endpoint leaving a consistent hash moves its own keys and few others.
    #[test]
    fn consistent_hashes_move_little(count in 3usize..9, gone in 0usize..3) {
        let ring = Balance::Ring(KeyHash { avalanche: true, ..KeyHash::default() });
        for (balance, stray) in [(Balance::HashKetama, 0), (ring, 0)] {
            let mut pool = any_pool(balance, &vec![1; count]);
            let mut place = |round: usize| {
                match pool.choose(T0, Key::Bytes(format!("key{round}").as_bytes()), &mut Selection::default()) {
                    Choice::Endpoint(lease) => lease.index().0 as usize,
                    _ => usize::MAX,
                }
            };
            let before: Vec<_> = (0..1000).map(&mut place).collect();
            pool.shared().set_health(gone, false, T0);
            let mut place = |round: usize| {
                match pool.choose(T0, Key::Bytes(format!("key{round}").as_bytes()), &mut Selection::default()) {
                    Choice::Endpoint(lease) => lease.index().0 as usize,
                    _ => usize::MAX,
                }
            };
            let after: Vec<_> = (0..1000).map(&mut place).collect();
            let moved = before.iter().zip(&after).filter(|(b, a)| b != a && **b != gone).count();
            prop_assert!(moved <= stray, "{moved} keys of others moved with {balance:?}");
            prop_assert!(after.iter().all(|&a| a != gone && a != usize::MAX));
        }
    }

    /// Whatever happens, counts are those of the leases held, limits hold, and a pool with a free endpoint serves.
    #[test]
    fn simulation(
        seed in any::<u64>(),
        balance in 0usize..9,
        process in any::<bool>(),
        actions in prop::collection::vec((0u8..10, 0u32..5), 0..250),
    ) {
        let balance = [
            Balance::RoundRobin, Balance::LeastConn, Balance::LeastConnOldest, Balance::First, Balance::IpHash,
            Balance::HashModulo, Balance::HashKetama, Balance::Random(2), Balance::StaticRoundRobin,
        ][balance];
        let placement = if process { Placement::Process } else { Placement::Worker };
        let options = PoolOptions { counts: placement, rotation: placement, ..PoolOptions::default() };
        let endpoints: Vec<_> = (0..5u32).map(|i| {
            let name = format!("10.0.0.{i}:80");
            EndpointConfig {
                weight: i % 3 + 1,
                id: i + 1,
                backup: i == 4,
                max_conns: if i % 2 == 0 { 3 } else { 0 },
                max_fails: 2,
                fail_timeout: Duration::from_secs(5),
                ..EndpointConfig::new(EndpointKey::of(PoolId(3), &name), &name)
            }
        }).collect();
        let config = Arc::new(PoolConfig::new(balance, options, endpoints));
        let shared = Arc::new(PoolShared::new(&config, None));
        let mut pool = Pool::new(config, shared, seed);
        let mut held: Vec<Lease> = Vec::new();
        let mut down = [false; 5];
        let mut now = T0;
        for (action, index) in actions {
            let key = format!("k{index}");
            match action {
                0..=4 => {
                    let free = (0..5).any(|i| {
                        let at = EndpointIndex(i);
                        let full = i % 2 == 0 && pool.load(at).is_some_and(|l| l.in_flight() >= 3);
                        !down[i as usize] && !full && !pool.failed(at, now)
                    });
                    match pool.choose(now, Key::Bytes(key.as_bytes()), &mut Selection::default()) {
                        Choice::Endpoint(lease) => {
                            prop_assert!(!down[lease.index().0 as usize]);
                            held.push(lease);
                        }
                        other => prop_assert!(!free, "{other:?} although one was free"),
                    }
                }
                5 if !held.is_empty() => { held.swap_remove(index as usize % held.len()).succeed(); }
                6 if !held.is_empty() => { held.swap_remove(index as usize % held.len()).fail(now); }
                7 if !held.is_empty() => drop(held.swap_remove(index as usize % held.len())),
                8 => {
                    let is_down = &mut down[index as usize];
                    *is_down = !*is_down;
                    pool.shared().set_health(index as usize, !*is_down, now);
                }
                _ => now = now.plus(Duration::from_secs(2)),
            }
            for i in 0..5 {
                let count = held.iter().filter(|l| l.index().0 == i).count() as u32;
                prop_assert_eq!(pool.load(EndpointIndex(i)).map(|l| l.in_flight()), Some(count));
                prop_assert!(i % 2 == 1 || count <= 3);
            }
        }
    }
}

/// The pool with these endpoints instead, as when they are replaced under traffic.
fn replaced(old: &Pool, endpoints: Vec<EndpointConfig>) -> Pool {
    let config = old.config();
    let config = Arc::new(PoolConfig::new(config.balance(), config.options(), endpoints));
    let shared = Arc::new(PoolShared::new(&config, Some(old.shared())));
    old.reconfigured(config, shared)
}

#[test]
fn endpoints_that_are_replaced_between_attempts_are_not_taken_for_those_that_were_tried() {
    let mut pool = pool(Balance::RoundRobin, abc([1, 1, 1]));
    let mut selection = Selection::default();
    let mut next = |pool: &mut Pool| match pool.choose(T0, Key::None, &mut selection) {
        Choice::Endpoint(lease) => pool.config().endpoints()[lease.index().0 as usize].key,
        other => panic!("{other:?}"),
    };
    let key = |name: &str| EndpointKey::of(PoolId(1), name);
    assert_eq!(next(&mut pool), key("a"));
    // Where `a` was, which was tried, is `d` now, which was not; `a` moved.
    let mut pool = replaced(&pool, vec![endpoint("d", 1), endpoint("a", 1)]);
    assert_eq!(next(&mut pool), key("d"));
}

#[test]
fn health_that_is_told_to_the_set_before_is_seen_in_the_next() {
    let old = pool_with(Balance::RoundRobin, HAPROXY, abc([1, 1, 1]));
    let before = Arc::clone(old.shared());
    let mut new = replaced(&old, vec![endpoint("c", 1), endpoint("b", 1)]);
    assert_eq!(serve(&mut new, T0, Key::None), 'a', "index 0: c");
    before.set_health(2, false, T0);
    let served: HashSet<char> = (0..4).map(|_| serve(&mut new, T0, Key::None)).collect();
    assert_eq!(served, HashSet::from(['b']), "c is down");
}

#[test]
fn a_pool_in_panic_asks_those_that_are_down_as_well() {
    let options = PoolOptions { panic_percent: 50, ..PoolOptions::default() };
    let mut pool = pool_with(Balance::RoundRobin, options, abc([1, 1, 1]));
    let seen = |pool: &mut Pool| -> String {
        let mut seen: Vec<char> = (0..6).map(|_| serve(pool, T0, Key::None)).collect();
        seen.sort_unstable();
        seen.dedup();
        seen.into_iter().collect()
    };
    pool.shared().set_health(0, false, T0);
    assert_eq!(seen(&mut pool), "bc", "two of three are more than half");
    pool.shared().set_ejected(1, true, T0);
    assert_eq!(seen(&mut pool), "abc");
    // What an operator took out does not count, and stays out.
    pool.shared().set_admin(0, AdminState::Maintenance, T0);
    assert_eq!(seen(&mut pool), "c", "one of two is half of them");
    pool.shared().set_health(2, false, T0);
    assert_eq!(seen(&mut pool), "bc");
    pool.shared().set_health(2, true, T0);
    pool.shared().set_ejected(1, false, T0);
    assert_eq!(seen(&mut pool), "bc");
}

#[test]
fn consistent_hashing_passes_over_endpoints_that_have_more_than_their_share() {
    let hash = KeyHash { function: HashFunction::Sdbm, avalanche: true };
    for balance in [Balance::Ring(hash), Balance::HashKetama] {
        let options = PoolOptions { counts: Placement::Process, load_percent: 150, ..PoolOptions::default() };
        let mut pool = pool_with(balance, options, abc([1, 1, 2]));
        let mut held = Vec::new();
        let mut count = [0u32; 3];
        // One key, and nothing ever ends.
        for _ in 0..40 {
            match pool.choose(T0, Key::Bytes(b"the same"), &mut Selection::default()) {
                Choice::Endpoint(lease) => {
                    count[lease.index().0 as usize] += 1;
                    held.push(lease);
                }
                other => panic!("{other:?}"),
            }
        }
        // Of 40: 10, 10 and 20, half as much again at most.
        let most = [15, 15, 30];
        assert!(count.iter().zip(most).all(|(count, most)| *count <= most), "{balance:?}: {count:?}");
        assert!(count.iter().filter(|count| **count > 0).count() >= 2, "{balance:?}: {count:?}");
        // Once they ended the key has its own again, whoever it is.
        held.clear();
        let own = serve(&mut pool, T0, Key::Bytes(b"the same"));
        assert_eq!(serve(&mut pool, T0, Key::Bytes(b"the same")), own);
    }
}
