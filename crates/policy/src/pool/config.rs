//! The configuration of a pool: its endpoints, its method, and the tables that follow from them.
//!
//! Owns: endpoint options, the balancing method, tables computed once and shared by all workers.
//! Never: holds anything that changes while running.
//! Driven by: `plan`, which builds one per pool; `Pool`, which reads it.
//! Why: rings of thousands of points are costly to build and never change, so a worker borrows them.

use std::time::Duration;

use weir_control::EndpointKey;
pub use weir_expr::settings::{BackupUse, Measured, Times};

use super::table::{Groups, KetamaRing, Maglev, Spread};
use crate::hash::HashFunction;
use crate::time::millis;

/// Weights above this are cut: HAProxy's bound is 256, nginx's practical one is far below.
pub const MAX_WEIGHT: u32 = 65_535;

/// One endpoint as configured.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// The stable name under which its state is kept.
    pub key: EndpointKey,
    /// The server as the configuration spells it (`10.0.0.1:80`, `unix:/run/x`). nginx's consistent hash is computed
    /// from it, and addresses that one name resolved to share it.
    pub name: Box<str>,
    /// HAProxy's server id, which its consistent hash is computed from; counted from one.
    pub id: u32,
    /// Its share of the traffic, relative to the others. Zero takes no new work (HAProxy's meaning).
    pub weight: u32,
    /// It is drained, and its weight is therefore zero: what it would be.
    pub drains: Option<u32>,
    /// Used only when the primaries are not; see [`BackupUse`].
    pub backup: bool,
    /// Configured out of service: nginx's `down`, HAProxy's `disabled`.
    pub down: bool,
    /// Failures within `fail_timeout` that make it unavailable; zero never does.
    pub max_fails: u32,
    /// How long failures are remembered, and how long it then stays unavailable.
    pub fail_timeout: Duration,
    /// Most exchanges in flight at a time; zero is unlimited.
    pub max_conns: u32,
    /// After it comes up, the time over which its weight grows from next to nothing to full; zero is at once.
    pub slow_start: Duration,
    /// It is in the zone that the pool prefers; see [`PoolOptions::near_percent`].
    pub near: bool,
}

impl EndpointConfig {
    /// An endpoint with nginx's defaults: weight 1, one failure in 10 seconds, no limit.
    pub fn new(key: EndpointKey, name: &str) -> Self {
        Self {
            key,
            name: name.into(),
            id: 0,
            weight: 1,
            drains: None,
            backup: false,
            down: false,
            max_fails: 1,
            fail_timeout: Duration::from_secs(10),
            max_conns: 0,
            slow_start: Duration::ZERO,
            near: false,
        }
    }
}

/// How an endpoint is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// nginx's smooth weighted round robin; also serves HAProxy's `roundrobin`.
    #[default]
    RoundRobin,
    /// HAProxy's `static-rr`: rounds over its precomputed map.
    StaticRoundRobin,
    /// nginx's `least_conn`: least in flight for its weight, equals in smooth weighted turns.
    LeastConn,
    /// HAProxy's `leastconn`: the same, equals by longest unused.
    LeastConnOldest,
    /// HAProxy's `first`: the first with a free slot.
    First,
    /// nginx's `ip_hash`: three octets of IPv4, all of IPv6.
    IpHash,
    /// nginx's `hash KEY`.
    HashModulo,
    /// nginx's `hash KEY consistent`: ketama with 160 points a unit of weight.
    HashKetama,
    /// nginx Plus' `least_time`: least average time for its weight, by [`PoolOptions::times`], equals in turns.
    LeastTime,
    /// Maglev: the slot of the key in a table that endpoints share. Weir's own, so its placement equals nobody's.
    Maglev,
    /// The better of two weighted random draws, by the time to the head of an answer, in which a peak counts at once and is
    /// forgotten over this time, times what is in flight.
    PeakEwma(Duration),
    /// The least loaded of this many weighted random draws; one is nginx's `random`, two its `random two`
    /// and HAProxy's `random`. Zero counts as one.
    Random(u8),
    /// HAProxy's `source`, `uri`, `hash` … with `hash-type map-based`.
    Map(KeyHash),
    /// The same with `hash-type consistent`: the nearest point on a ring.
    Ring(KeyHash),
}

/// How HAProxy turns a key into 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyHash {
    /// Applied to byte keys; an address key (`balance source`) is folded by exclusive or instead.
    pub function: HashFunction,
    /// Mixed once more: implied by `hash-type consistent` without a function.
    pub avalanche: bool,
}

/// Where a kind of running state lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Each worker has its own: free of contention, and nginx's meaning without `zone`.
    #[default]
    Worker,
    /// One for the process: HAProxy's meaning, and nginx's with `zone`.
    Process,
}

/// A pool as configured. Build with [`PoolConfig::new`], share by `Arc`.
#[derive(Debug)]
pub struct PoolConfig {
    pub(super) endpoints: Box<[EndpointConfig]>,
    pub(super) balance: Balance,
    pub(super) options: PoolOptions,
    /// Indices of primaries, then of backups, in declared order.
    pub(super) tiers: [Box<[u32]>; 2],
    /// Configured weights of the primaries laid end to end, for nginx's modulo hashes.
    pub(super) spread: Spread,
    pub(super) ketama: Option<KetamaRing>,
    pub(super) maglev: Option<Maglev>,
    pub(super) groups: Groups,
    pub(super) fail_timeouts: Box<[u64]>,
    pub(super) ramps: bool,
}

/// Options of a pool beside its method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolOptions {
    /// When backups take over.
    pub backups: BackupUse,
    /// Where in-flight counts and failures live. `max_conns` is exact across workers only with `Process`.
    pub counts: Placement,
    /// Where the turn of round robin lives. `Process` takes a short mutex a choice, and gives strict turns over all
    /// workers; `Worker` takes none, and each worker starts at the first endpoint.
    pub rotation: Placement,
    /// What of its answers an endpoint is measured by; `None`: nothing is measured.
    pub times: Option<Times>,
    /// While fewer than so many percent of a tier's endpoints are up, those whose checks or traffic have them down are chosen as
    /// well: a few that are overrun serve worse than all. 0: never.
    pub panic_percent: u8,
    /// Under consistent hashing: an endpoint that has more in flight than so many percent of its share of all is passed over for the
    /// next one on the ring. Above 100; near it keys move more often. 0: no bound.
    pub load_percent: u16,
    /// Endpoints that are near are preferred while at least so many percent of their weight are up. `None`: nobody is preferred.
    pub near_percent: Option<u8>,
}

impl PoolConfig {
    /// Compiles a pool. Cost: for ketama, 160 points a unit of weight, sorted; for Maglev, 65,537 slots.
    pub fn new(balance: Balance, options: PoolOptions, mut endpoints: Vec<EndpointConfig>) -> Self {
        for endpoint in &mut endpoints {
            endpoint.weight = endpoint.weight.min(MAX_WEIGHT);
        }
        let tier = |backup: bool| -> Box<[u32]> {
            (0u32..).zip(&endpoints).filter(|(_, e)| e.backup == backup).map(|(i, _)| i).collect()
        };
        let tiers = [tier(false), tier(true)];
        let spread = Spread::new(tiers[0].iter().map(|&i| (i, endpoints[i as usize].weight)));
        let groups = Groups::new(&endpoints);
        let ketama =
            (balance == Balance::HashKetama).then(|| KetamaRing::new(&endpoints, &tiers[0], &groups));
        let maglev = (balance == Balance::Maglev).then(|| Maglev::new(&endpoints, &tiers[0]));
        Self {
            maglev,
            fail_timeouts: endpoints.iter().map(|e| millis(e.fail_timeout)).collect(),
            ramps: endpoints.iter().any(|e| !e.slow_start.is_zero()),
            tiers,
            spread,
            ketama,
            groups,
            balance,
            options,
            endpoints: endpoints.into(),
        }
    }

    /// The endpoints, in declared order; an index counts into this.
    pub fn endpoints(&self) -> &[EndpointConfig] {
        &self.endpoints
    }

    /// The method.
    pub fn balance(&self) -> Balance {
        self.balance
    }

    /// The options.
    pub fn options(&self) -> PoolOptions {
        self.options
    }

    /// How many attempts nginx would make by default: one for each endpoint that is not configured `down`.
    pub fn attempts(&self) -> u32 {
        let up = self.endpoints.iter().filter(|e| !e.down).count();
        u32::try_from(up).unwrap_or(u32::MAX).max(1)
    }

    /// A pool of one: its failures are not counted, because there is nowhere else to go (nginx).
    pub(super) fn lone(&self) -> bool {
        self.endpoints.len() == 1
    }
}
