//! Ids that stay the same from one configuration to the next.
//!
//! Owns: the newtypes and the one hash that makes them out of names.
//! Never: hands out numbers by order of declaration, which would move at each edit of a file.
//! Driven by: `lower`, which names things; everything that keeps state by id.
//! Why: a reload must find the counters, health and drains of what it kept. The name that a user gave is the only
//! thing that both configurations share, so its hash is the id.

use serde::Serialize;

/// FNV-1a over 64 bits: the same in every process, so ids may be compared across restarts and in saved state.
/// It is no defence against chosen collisions; names come from the operator's own configuration.
const fn fnv1a(mut state: u64, bytes: &[u8]) -> u64 {
    let mut at = 0;
    while at < bytes.len() {
        state = (state ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        at += 1;
    }
    state
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

macro_rules! named_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The id of the thing with this name. Equal names give equal ids, in every process.
            pub const fn from_name(name: &str) -> Self {
                Self(fnv1a(FNV_START, name.as_bytes()))
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({:016x})"), self.0)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{:016x}", self.0)
            }
        }
    };
}

named_id! {
    /// A listening address: named by its canonical text (`tcp:0.0.0.0:80`, `unix:/run/x`, `udp:[::]:53`).
    ListenerId
}
named_id! {
    /// A site: what nginx calls a server block and HAProxy a frontend.
    SiteId
}
named_id! {
    /// A route within its site, by the name that people know it by: nginx's location.
    RouteId
}
named_id! {
    /// A pool of endpoints: nginx's upstream, HAProxy's backend.
    PoolId
}
named_id! {
    /// An endpoint within its pool. State kept under it survives every change of weight, order or options.
    EndpointKey
}

named_id! {
    /// What is counted apart under a name of its own: see [`ZoneId::of`].
    ZoneId
}

impl ZoneId {
    /// The id of a name among those of its kind: different kinds may use one name.
    pub const fn of(kind: &str, name: &str) -> Self {
        Self(fnv1a(fnv1a(FNV_START, kind.as_bytes()).rotate_left(32), name.as_bytes()))
    }
}

impl EndpointKey {
    /// The key of the endpoint called `name` (HAProxy's server name, else its address) in `pool`.
    pub const fn of(pool: PoolId, name: &str) -> Self {
        Self(fnv1a(pool.0 ^ FNV_START.rotate_left(32), name.as_bytes()))
    }
}

/// A worker, counted from zero. It names a thread and its cells, not a user's thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct WorkerId(pub u16);

/// A client connection, unique in the process: nginx's `$connection`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ConnectionId(pub u64);

impl std::fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_make_the_same_id_everywhere() {
        // Published FNV-1a vectors, so that saved state stays readable by later versions.
        assert_eq!(PoolId::from_name("").0, 0xcbf2_9ce4_8422_2325);
        assert_eq!(PoolId::from_name("a").0, 0xaf63_dc4c_8601_ec8c);
        assert_eq!(PoolId::from_name("foobar").0, 0x8594_4171_f739_67e8);
    }

    #[test]
    fn an_endpoint_belongs_to_its_pool() {
        let (a, b) = (PoolId::from_name("a"), PoolId::from_name("b"));
        assert_ne!(EndpointKey::of(a, "web1"), EndpointKey::of(b, "web1"));
        assert_ne!(EndpointKey::of(a, "web1"), EndpointKey::of(a, "web2"));
        assert_eq!(EndpointKey::of(a, "web1"), EndpointKey::of(a, "web1"));
    }
}
