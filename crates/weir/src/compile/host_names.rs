//! Looking up host names when a configuration is read.
//!
//! Owns: parallel look-ups by the system's resolver, within one bound of time for all.
//! Never: fails a configuration because one name is bad: it has no addresses, and the pool says so.
//! Driven by: `compile` in a process that keeps its rights; by a helper process of the keeper's, because a process
//! that stays root reads no answers from the network, and one in a changed root folder has no resolv.conf.
//! Why threads: getaddrinfo blocks, and it is what honours /etc/hosts, nsswitch.conf and search domains.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// All look-ups of one configuration end within this.
pub(crate) const BUDGET: Duration = Duration::from_secs(5);

/// Look-ups at once. More names wait their turn.
const PARALLEL: usize = 64;

/// Looks up all names; a name that failed or took too long has no addresses.
pub(crate) fn resolve_all(names: &[String], budget: Duration) -> BTreeMap<String, Vec<IpAddr>> {
    let deadline = Instant::now() + budget;
    let queue = Arc::new(Mutex::new(names.to_vec()));
    let (done, results) = mpsc::channel();
    for _ in 0..names.len().min(PARALLEL) {
        let (queue, done) = (Arc::clone(&queue), done.clone());
        // A thread that still waits for its resolver at the deadline ends by itself when that gives up.
        let spawned = std::thread::Builder::new().name("resolve".into()).spawn(move || {
            while let Some(name) = queue.lock().unwrap_or_else(PoisonError::into_inner).pop() {
                let addresses = look_up(&name);
                if done.send((name, addresses)).is_err() {
                    return;
                }
            }
        });
        if spawned.is_err() {
            break;
        }
    }
    drop(done);
    let mut found: BTreeMap<_, _> = names.iter().map(|name| (name.clone(), Vec::new())).collect();
    while let Some(left) = deadline.checked_duration_since(Instant::now())
        && let Ok((name, addresses)) = results.recv_timeout(left)
    {
        found.insert(name, addresses);
    }
    found
}

/// Addresses in the resolver's order, each once.
fn look_up(name: &str) -> Vec<IpAddr> {
    let Ok(addresses) = (name, 0).to_socket_addrs() else { return Vec::new() };
    let mut seen = BTreeSet::new();
    addresses.map(|address| address.ip()).filter(|ip| seen.insert(*ip)).collect()
}

/// The helper process: names on standard input, a line each; answers on standard output, JSON.
pub(crate) fn helper() -> std::io::Result<()> {
    let mut text = String::new();
    std::io::stdin().take(1 << 24).read_to_string(&mut text)?;
    let names: Vec<String> = text.lines().map(Into::into).collect();
    let found = resolve_all(&names, BUDGET);
    std::io::stdout().write_all(&serde_json::to_vec(&found)?)
}

/// Reads the helper's answers. They come from a process that read the network, so anything odd is no answer.
pub(crate) fn parse_answers(names: &[String], json: &[u8]) -> BTreeMap<String, Vec<IpAddr>> {
    let mut told: BTreeMap<String, Vec<IpAddr>> = serde_json::from_slice(json).unwrap_or_default();
    names.iter().map(|name| (name.clone(), told.remove(name).unwrap_or_default())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_name_does_not_stop_the_rest() {
        let names = ["localhost".to_owned(), "nothing.invalid".to_owned()];
        let found = resolve_all(&names, Duration::from_secs(20));
        assert!(found["localhost"].iter().any(IpAddr::is_loopback));
        assert!(found["nothing.invalid"].is_empty());
    }

    #[test]
    fn odd_answers_are_none() {
        let names = ["a".to_owned()];
        assert_eq!(parse_answers(&names, b"{\"a\":[\"192.0.2.1\"],\"b\":[]}")["a"].len(), 1);
        assert!(parse_answers(&names, b"{\"a\":7}")["a"].is_empty());
        assert!(parse_answers(&names, b"rubbish")["a"].is_empty());
    }
}
