//! Networks to values.
//!
//! Owns: [`NetMap`] (longest prefix, or lowest value, of the networks that hold an address).
//! Driven by: access rules, real-IP rules, `geo`, address tests.
//! Why: one hash look-up for each prefix length in use answers for lists of any size; most lists use a handful.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Serialize, Serializer};

/// Values by network. IPv4-mapped IPv6 addresses count as IPv4, as in nginx.
#[derive(Clone, Debug, Default)]
pub struct NetMap<T> {
    v4: Vec<Level<u32, T>>,
    v6: Vec<Level<u128, T>>,
    /// In the order given, for printing.
    listed: Vec<(IpNet, T)>,
}

/// Networks of one prefix length.
#[derive(Clone, Debug)]
struct Level<A, T> {
    mask: A,
    networks: HashMap<A, T, ahash::RandomState>,
}

impl<T: Copy> NetMap<T> {
    /// Compiles a list. Of equal networks, `keep_first` says which value stands (access rules: the first; `geo`: the last).
    pub fn new(networks: impl IntoIterator<Item = (IpNet, T)>, keep_first: bool) -> Self {
        let mut map = Self { v4: Vec::new(), v6: Vec::new(), listed: Vec::new() };
        for (net, value) in networks {
            map.listed.push((net, value));
            match canonical(net) {
                IpNet::V4(net) => {
                    let mask = u32::from(net.netmask());
                    insert(&mut map.v4, mask, u32::from(net.network()), value, keep_first);
                }
                IpNet::V6(net) => {
                    let mask = u128::from(net.netmask());
                    insert(&mut map.v6, mask, u128::from(net.network()), value, keep_first);
                }
            }
        }
        // Longest prefixes first: their masks are the greatest numbers.
        map.v4.sort_by_key(|level| std::cmp::Reverse(level.mask));
        map.v6.sort_by_key(|level| std::cmp::Reverse(level.mask));
        map
    }

    /// Values of the networks that hold `address`, longest prefix first.
    pub fn all(&self, address: IpAddr) -> impl Iterator<Item = T> + '_ {
        let (v4, v6) = match address.to_canonical() {
            IpAddr::V4(v4) => (Some(u32::from(v4)), None),
            IpAddr::V6(v6) => (None, Some(u128::from(v6))),
        };
        let short = v4
            .into_iter()
            .flat_map(|bits| self.v4.iter().filter_map(move |l| l.networks.get(&(bits & l.mask))));
        let long = v6
            .into_iter()
            .flat_map(|bits| self.v6.iter().filter_map(move |l| l.networks.get(&(bits & l.mask))));
        short.chain(long).copied()
    }

    /// The value of the longest prefix that holds `address`.
    pub fn longest(&self, address: IpAddr) -> Option<T> {
        self.all(address).next()
    }

    /// True if any network holds `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.longest(address).is_some()
    }

    /// True if there is no network.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }
}

impl<T: Serialize> Serialize for NetMap<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.listed.iter())
    }
}

/// Prints networks without values, for maps that are sets.
pub(crate) fn show_set<S: Serializer>(map: &NetMap<()>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(map.listed.iter().map(|entry| entry.0))
}

/// `::ffff:10.0.0.0/104` as `10.0.0.0/8`.
pub(crate) fn canonical(net: IpNet) -> IpNet {
    if let IpNet::V6(v6) = net
        && let (Some(v4), 96..) = (v6.network().to_ipv4_mapped(), v6.prefix_len())
        && let Ok(v4) = ipnet::Ipv4Net::new(v4, v6.prefix_len() - 96)
    {
        return IpNet::V4(v4);
    }
    net
}

fn insert<A: Copy + Eq + std::hash::Hash, T>(
    levels: &mut Vec<Level<A, T>>,
    mask: A,
    network: A,
    value: T,
    keep: bool,
) {
    let at = levels.iter().position(|level| level.mask == mask).unwrap_or_else(|| {
        levels.push(Level { mask, networks: HashMap::default() });
        levels.len() - 1
    });
    let networks = &mut levels[at].networks;
    if keep {
        networks.entry(network).or_insert(value);
    } else {
        networks.insert(network, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn at(map: &NetMap<u32>, address: &str) -> Option<u32> {
        map.longest(address.parse().unwrap())
    }

    #[test]
    fn the_longest_prefix_wins() {
        let list =
            [("0.0.0.0/0", 0), ("10.0.0.0/8", 1), ("10.1.0.0/16", 2), ("::/0", 3), ("2001:db8::/32", 4)];
        let map = NetMap::new(list.map(|(text, value)| (net(text), value)), true);
        assert_eq!(at(&map, "10.1.2.3"), Some(2));
        assert_eq!(at(&map, "10.2.2.3"), Some(1));
        assert_eq!(at(&map, "11.2.2.3"), Some(0));
        assert_eq!(at(&map, "::ffff:10.1.2.3"), Some(2));
        assert_eq!(at(&map, "2001:db8::1"), Some(4));
        assert_eq!(at(&map, "2002::1"), Some(3));
    }

    #[test]
    fn mapped_networks_hold_plain_addresses() {
        let map = NetMap::new([(net("::ffff:10.0.0.0/104"), 1)], true);
        assert_eq!(at(&map, "10.9.9.9"), Some(1));
        assert_eq!(at(&map, "::1"), None);
    }

    #[test]
    fn of_equals_the_first_or_the_last_stands() {
        let twice = [(net("10.0.0.0/8"), 1), (net("10.0.0.0/8"), 2)];
        assert_eq!(at(&NetMap::new(twice, true), "10.0.0.1"), Some(1));
        assert_eq!(at(&NetMap::new(twice, false), "10.0.0.1"), Some(2));
    }
}
