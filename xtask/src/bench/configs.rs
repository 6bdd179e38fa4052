//! What each kind of work asks of a contender's configuration.
//!
//! Owns: the mapping from work to service, and the file of ten thousand sites.
//! Never: knows how a server is tuned: `weir_lab::configs` does, for benchmark and lab alike.
//! Driven by: `servers`.

use super::rows::{Size, Work};
use super::servers::Ground;
use std::path::Path;
use weir_lab::configs::{self, Pem, Role, Service};

/// The nginx.conf for `work` on `port`.
pub(super) fn nginx(work: Work, port: u16, ground: &Ground) -> String {
    let html = ground.html();
    let role = role(work, port, ground, &html);
    match work {
        Work::Sites => many_sites(&role, SITES, &html),
        _ => configs::nginx(&role),
    }
}

/// The haproxy.cfg for `work` on `port`, or `None` for what HAProxy does not do.
pub(super) fn haproxy(work: Work, port: u16, ground: &Ground) -> Option<String> {
    match work {
        Work::Static(_) | Work::Sites => None,
        _ => configs::haproxy(&role(work, port, ground, &ground.html())),
    }
}

/// One site of ten locations: what ten thousand are compared with.
pub(super) fn nginx_one_site(port: u16, ground: &Ground) -> String {
    let html = ground.html();
    many_sites(&role(Work::Sites, port, ground, &html), 1, &html)
}

fn role<'a>(work: Work, port: u16, ground: &'a Ground, html: &'a Path) -> Role<'a> {
    let files = |size: Size| Service::Files { root: html, file: size.file(), bytes: size.bytes() as u64 };
    let origins = &ground.origin_ports;
    let proxy = |size: Size| Service::Proxy { origins, bytes: size.bytes() as u64 };
    let service = match work {
        Work::Static(size) | Work::Https(size) => files(size),
        Work::Handshake(_) | Work::Idle { .. } | Work::Sites => files(Size::Zero),
        Work::Proxy(size) => proxy(size),
        Work::Connection => proxy(Size::K1),
        Work::Tcp(_) => Service::Tcp { origins },
    };
    let encrypted = matches!(work, Work::Https(_) | Work::Handshake(_) | Work::Idle { tls: true });
    let certificate = ground.certificate(work);
    let pem = Pem { chain: &certificate.chain, key: &certificate.key, bundle: &certificate.bundle };
    Role { service, port, workers: 1, descriptors: ground.descriptors, tls: encrypted.then_some(pem) }
}

/// How many sites, and locations in each.
pub(super) const SITES: usize = 10_000;
pub(super) const LOCATIONS: usize = 10;

/// The host name of the n-th site.
pub(super) fn host(n: usize) -> String {
    format!("site{n}.example.com")
}

fn many_sites(role: &Role<'_>, sites: usize, root: &Path) -> String {
    let mut out = String::from(" server_names_hash_max_size 65536;\n server_names_hash_bucket_size 128;\n");
    let locations: String = (0..LOCATIONS).map(|l| format!("  location /l{l}/ {{ }}\n")).collect();
    for n in 0..sites {
        let body = format!("root {};\n  server_name {};\n{locations}", root.display(), host(n));
        // One listener: nginx wants its options said once only.
        let site = configs::nginx_site(role, &body);
        out += &if n == 0 { site } else { site.replace(" backlog=4096", "") };
    }
    configs::nginx_file(role, &configs::nginx_http(&out))
}
