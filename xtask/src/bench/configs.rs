//! The configuration of each contender: equal in meaning, and the best each can do.
//!
//! Owns: nginx.conf (for Weir and nginx alike) and haproxy.cfg for each kind of work.
//! Never: handicaps a rival. nginx gets `open_file_cache`, `sendfile`, `tcp_nopush`, upstream keep-alive and 64 KB stream buffers;
//! HAProxy answers from memory, reuses connections always, and gets 64 KB buffers where bodies are large.
//! Driven by: `servers`.

use super::rows::{Size, Work};
use super::servers::Ground;

/// More requests than any run makes: nobody closes for having served enough.
const UNLIMITED: &str = "1000000000";

/// The nginx.conf for `work` on `port`.
pub(super) fn nginx(work: Work, port: u16, ground: &Ground) -> String {
    let body = match work {
        Work::Tcp(_) => stream(port, ground),
        Work::Static(_) => http(&site(port, "", "location / { }", ground)),
        Work::Https(_) | Work::Handshake(_) | Work::Idle { tls: true } => http(&tls_site(work, port, ground)),
        Work::Idle { tls: false } => http(&site(port, "", "location / { }", ground)),
        Work::Sites => http(&ten_thousand_sites(port, ground)),
        Work::Proxy(size) => http(&proxy(port, size, ground)),
        Work::Connection => http(&proxy(port, Size::K1, ground)),
    };
    format!(
        "worker_processes 1;\nworker_rlimit_nofile {};\nerror_log stderr crit;\nevents {{ worker_connections 16384; }}\n{body}",
        ground.descriptors
    )
}

fn http(body: &str) -> String {
    format!(
        "http {{\n access_log off;\n sendfile on;\n tcp_nopush on;\n tcp_nodelay on;\n \
         keepalive_requests {UNLIMITED};\n keepalive_timeout 600s;\n default_type application/octet-stream;\n \
         open_file_cache max=1000 inactive=600s;\n open_file_cache_valid 60s;\n{body}}}\n"
    )
}

fn site(port: u16, options: &str, body: &str, ground: &Ground) -> String {
    let root = ground.html().display().to_string();
    format!(" server {{\n  listen 127.0.0.1:{port} backlog=4096{options};\n  root {root};\n  {body}\n }}\n")
}

fn tls_site(work: Work, port: u16, ground: &Ground) -> String {
    let cert = ground.certificate(work);
    let tls = format!(
        "ssl_certificate {};\n  ssl_certificate_key {};\n  ssl_protocols TLSv1.2 TLSv1.3;\n  location / {{ }}",
        cert.chain.display(),
        cert.key.display()
    );
    site(port, " ssl", &tls, ground)
}

fn proxy(port: u16, size: Size, ground: &Ground) -> String {
    // nginx's default of buffering costs it twice as much for large bodies.
    let buffering = if size.bytes() > 64 << 10 {
        "proxy_buffering off; proxy_buffer_size 64k; proxy_buffers 4 64k;"
    } else {
        ""
    };
    let upstream = format!(
        " upstream origin {{ server 127.0.0.1:{}; keepalive 128; keepalive_requests {UNLIMITED}; keepalive_timeout 600s; }}\n",
        ground.origin
    );
    let location = format!(
        "location / {{ proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection \"\"; {buffering} }}"
    );
    upstream + &site(port, "", &location, ground)
}

fn stream(port: u16, ground: &Ground) -> String {
    format!(
        "stream {{ server {{ listen 127.0.0.1:{port} backlog=4096; proxy_pass 127.0.0.1:{}; proxy_buffer_size 64k; proxy_timeout 600s; }} }}\n",
        ground.origin
    )
}

/// How many sites, and locations in each.
pub(super) const SITES: usize = 10_000;
pub(super) const LOCATIONS: usize = 10;

/// The host name of the n-th site.
pub(super) fn host(n: usize) -> String {
    format!("site{n}.example.com")
}

fn ten_thousand_sites(port: u16, ground: &Ground) -> String {
    let mut out = String::from(" server_names_hash_max_size 65536;\n server_names_hash_bucket_size 128;\n");
    for n in 0..SITES {
        let body = format!("server_name {};\n{}", host(n), locations());
        // One listener: nginx wants its options said once only.
        let site = site(port, "", &body, ground);
        out += &if n == 0 { site } else { site.replace(" backlog=4096", "") };
    }
    out
}

fn locations() -> String {
    (0..LOCATIONS).map(|l| format!("  location /l{l}/ {{ }}\n")).collect()
}

/// One site of ten locations: what ten thousand are compared with.
pub(super) fn nginx_one_site(port: u16, ground: &Ground) -> String {
    let body = http(&site(port, "", &format!("server_name {};\n{}", host(0), locations()), ground));
    format!("worker_processes 1;\nerror_log stderr crit;\nevents {{ worker_connections 16384; }}\n{body}")
}

/// The haproxy.cfg for `work` on `port`, or `None` for what HAProxy does not do.
pub(super) fn haproxy(work: Work, port: u16, ground: &Ground) -> Option<String> {
    let answer = |size: Size| match size {
        Size::Zero => " http-request return status 200\n".to_owned(),
        _ => format!(
            " http-request return status 200 content-type application/octet-stream file {}\n",
            ground.html().join(size.file()).display()
        ),
    };
    let origin = format!(" default_backend b\nbackend b\n server o 127.0.0.1:{}\n", ground.origin);
    let tls = || format!(" ssl crt {}", ground.certificate(work).bundle.display());
    let (mode, buffer, options, body) = match work {
        Work::Proxy(size) => {
            ("http", if size.bytes() > 64 << 10 { 65_536 } else { 16_384 }, String::new(), origin)
        }
        Work::Connection => ("http", 16_384, String::new(), origin),
        Work::Tcp(_) => ("tcp", 65_536, String::new(), origin),
        Work::Https(size @ (Size::Zero | Size::K1 | Size::K10)) => ("http", 16_384, tls(), answer(size)),
        Work::Handshake(_) => ("http", 16_384, tls(), answer(Size::Zero)),
        Work::Idle { tls: true } => ("http", 16_384, tls(), answer(Size::Zero)),
        Work::Idle { tls: false } => ("http", 16_384, String::new(), answer(Size::Zero)),
        Work::Static(_) | Work::Https(_) | Work::Sites => return None,
    };
    Some(format!(
        "global\n nbthread 1\n maxconn 9000\n tune.bufsize {buffer}\n\
         defaults\n mode {mode}\n timeout connect 10s\n timeout client 600s\n timeout server 600s\n timeout http-keep-alive 600s\n \
         {}\
         frontend f\n bind 127.0.0.1:{port} backlog 4096{options}\n{body}",
        if mode == "http" { "option http-keep-alive\n http-reuse always\n" } else { "" }
    ))
}
