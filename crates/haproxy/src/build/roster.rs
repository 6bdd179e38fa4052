//! Proxies as the statistics list them: in the order of the file, with HAProxy's numbers.
//!
//! Owns: the numbers that proxies and servers have where the file names none, and which frontends a backend's tenth is of.
//! Never: decides what serves.
//! Driven by: `proxies`, at its end.
//! Why: tools that read the statistics know proxies by these numbers, and expect those without servers, too.

use std::collections::BTreeSet;

use weir_model::settings::{Listed, ListedBackend};

use super::context::mode;
use super::scope::Scope;
use crate::draft::{Draft, Mode, Proxy, RuleList};
use crate::read::Word;

/// The number of the proxy in whose scope something stands.
pub(super) fn number_of(scope: &Scope<'_>) -> u32 {
    let numbered = roster(scope.draft);
    numbered.iter().find(|one| one.name == scope.proxy.name.text).map_or(0, |one| one.number)
}

/// All proxies that run. A disabled one has a number all the same.
pub(super) fn roster(draft: &Draft) -> Vec<Listed> {
    let given: Vec<Option<u32>> = draft.proxies.iter().map(|proxy| proxy.number).collect();
    // A socket for commands is a proxy of HAProxy's, and the first.
    let first = if draft.global.stats_sockets.is_empty() { 1 } else { 2 };
    let numbers = numbers(&given, first);
    let numbered = || draft.proxies.iter().zip(&numbers).filter(|(proxy, _)| !proxy.settings.disabled);
    let listed = |(proxy, number): (&Proxy, &u32)| Listed {
        name: proxy.name.text.clone(),
        number: *number,
        http: mode(proxy) == Mode::Http,
        front: proxy.kind.is_frontend(),
        back: proxy.kind.is_backend().then(|| ListedBackend {
            full: proxy.settings.fullconn,
            feeders: numbered()
                .filter(|(front, _)| front.kind.is_frontend() && enters(front, proxy))
                .map(|(_, number)| *number)
                .collect(),
        }),
    };
    numbered().map(listed).collect()
}

/// Whether a frontend may enter a backend, as far as the file names it.
fn enters(front: &Proxy, back: &Proxy) -> bool {
    let name = back.name.as_str();
    let rules = front.settings.rules.iter().filter(|rule| rule.list == RuleList::UseBackend);
    std::ptr::eq(front, back)
        || front.settings.default_backend.as_ref().map(Word::as_str) == Some(name)
        || rules.map(|rule| rule.line.text(rule.from)).any(|named| named == name)
}

/// Numbers given, and for each of the others the next that is free from its place on.
pub(super) fn numbers(given: &[Option<u32>], first: u32) -> Vec<u32> {
    let mut taken: BTreeSet<u32> = given.iter().flatten().copied().collect();
    let mut next = first;
    let mut number = |given: &Option<u32>| {
        let number = given.unwrap_or_else(|| {
            while !taken.insert(next) {
                next += 1;
            }
            next
        });
        next += 1;
        number
    };
    given.iter().map(&mut number).collect()
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn numbers_are_those_that_haproxy_gives() {
        // As its statistics showed them.
        assert_eq!(numbers(&[None, None, Some(5), None, None, None, None], 1), [1, 2, 5, 4, 6, 7, 8]);
        assert_eq!(numbers(&[None, Some(7), None], 1), [1, 7, 3]);
        assert_eq!(numbers(&[Some(2), None], 1), [2, 3]);
        assert_eq!(numbers(&[None, Some(1)], 1), [2, 1]);
        assert_eq!(numbers(&[None, None], 2), [2, 3]);
    }
}
