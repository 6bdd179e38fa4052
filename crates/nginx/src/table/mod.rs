//! The directives of nginx, each declared once.
//!
//! Owns: names, contexts, arguments, defaults, documentation lines, and what Weir does with each word.
//! Never: takes a word in by itself; an entry names the function of `take` that does.
//! Driven by: `build` looks words up; [`compatibility`] feeds the documentation.
//! Why: reference, suggestions, checks and the compatibility table cannot drift apart if they are one table.

mod access;
mod acme;
mod applications;
mod codings;
mod core;
mod entry;
mod events;
mod fastcgi;
mod files;
mod filters;
mod gateway;
mod gateway_tls;
mod grpc;
mod gzip;
mod headers;
mod http;
mod identity;
mod known;
mod log;
mod otel;
mod plus;
mod proxy;
mod rewrite;
mod stream;
mod tls;
mod upstream;

use std::collections::HashMap;
use std::sync::LazyLock;

pub use entry::{Contexts, Status};
pub(crate) use entry::{Entry, Kind, Taker};

/// One line of the compatibility table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Module or file of the table.
    pub module: &'static str,
    /// The word.
    pub name: &'static str,
    /// Where it may stand, in words.
    pub contexts: String,
    /// Its default as nginx documents it; empty if none.
    pub default: &'static str,
    /// What Weir does with it.
    pub status: Status,
    /// What it is for, or why it does not do what it does in nginx.
    pub note: &'static str,
}

/// Every directive that Weir knows, in the order of the tables.
pub fn compatibility() -> Vec<Row> {
    all()
        .map(|(module, entry)| Row {
            module,
            name: entry.name,
            contexts: entry.contexts.to_string(),
            default: entry.default,
            status: entry.status,
            note: if entry.why.is_empty() { entry.doc } else { entry.why },
        })
        .collect()
}

fn all() -> impl Iterator<Item = (&'static str, &'static Entry)> {
    let written = [
        ("core", core::ENTRIES),
        ("events", events::ENTRIES),
        ("http core", http::ENTRIES),
        ("static files", files::ENTRIES),
        ("rewrite", rewrite::ENTRIES),
        ("access and limits", access::ENTRIES),
        ("headers", headers::ENTRIES),
        ("logs", log::ENTRIES),
        ("NGINX Plus", plus::ENTRIES),
        ("NGINX Plus", identity::ENTRIES),
        ("gzip", gzip::ENTRIES),
        ("codings", codings::ENTRIES),
        ("filters", filters::ENTRIES),
        ("proxy", proxy::ENTRIES),
        ("proxy", gateway::PROXY_BASIC),
        ("proxy", gateway::PROXY_BUFFERED),
        ("proxy", gateway_tls::PROXY),
        ("fastcgi", fastcgi::ENTRIES),
        ("fastcgi", gateway::FASTCGI_BASIC),
        ("fastcgi", gateway::FASTCGI_BUFFERED),
        ("uwsgi", applications::UWSGI),
        ("uwsgi", gateway::UWSGI_BASIC),
        ("uwsgi", gateway::UWSGI_BUFFERED),
        ("uwsgi", gateway_tls::UWSGI),
        ("scgi", applications::SCGI),
        ("scgi", gateway::SCGI_BASIC),
        ("scgi", gateway::SCGI_BUFFERED),
        ("memcached", applications::MEMCACHED),
        ("memcached", gateway::MEMCACHED_BASIC),
        ("grpc", grpc::ENTRIES),
        ("grpc", gateway::GRPC_BASIC),
        ("grpc", gateway_tls::GRPC),
        ("upstream", upstream::ENTRIES),
        ("otel", otel::ENTRIES),
        ("ssl", tls::ENTRIES),
        ("acme", acme::ENTRIES),
        ("stream", stream::ENTRIES),
    ];
    let written = written.into_iter().flat_map(|(module, entries)| entries.iter().map(move |e| (module, e)));
    written.chain(known::entries().iter().map(|(module, entry)| (*module, entry)))
}

static BY_NAME: LazyLock<HashMap<&'static str, Vec<&'static Entry>>> = LazyLock::new(|| {
    let mut map: HashMap<&'static str, Vec<&'static Entry>> = HashMap::new();
    for (_, entry) in all() {
        map.entry(entry.name).or_default().push(entry);
    }
    map
});

/// All entries of a name; one word may mean different things in different contexts.
pub(crate) fn named(name: &str) -> &'static [&'static Entry] {
    BY_NAME.get(name).map_or(&[], Vec::as_slice)
}

/// The words that may stand in a context, for suggestions and completion.
pub fn words_in(context: Contexts) -> impl Iterator<Item = &'static str> {
    all().map(|(_, entry)| entry).filter(move |e| e.contexts.has(context)).map(|entry| entry.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_is_declared_twice_in_a_context() {
        for (name, entries) in BY_NAME.iter() {
            for (n, entry) in entries.iter().enumerate() {
                for other in &entries[n + 1..] {
                    assert!(!entry.contexts.overlaps(other.contexts), "{name}");
                }
            }
        }
    }

    #[test]
    fn every_word_is_explained() {
        for row in compatibility() {
            assert!(!row.note.is_empty(), "{}", row.name);
            assert!(!row.contexts.is_empty(), "{}", row.name);
        }
    }
}
