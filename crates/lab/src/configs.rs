//! The configuration of each contender: equal in meaning, and the best each can do.
//!
//! Owns: nginx.conf (for Weir and nginx alike) and haproxy.cfg (for HAProxy and one of Weir's own contenders) for each kind of service,
//! and the command lines that take them.
//! Never: handicaps a rival. nginx gets `open_file_cache`, `sendfile`, `tcp_nopush`, upstream keep-alive, a socket a worker and
//! 64 KB stream buffers; HAProxy answers from memory, reuses connections always, and gets 64 KB buffers where bodies are large.
//! Driven by: `servers`; `sites` builds its files of the same parts.

use std::path::{Path, PathBuf};
use std::process::Command;

/// More requests than any run makes: nobody closes for having served enough.
const UNLIMITED: &str = "1000000000";

/// Bodies above this are large: buffers are chosen for them.
const LARGE: u64 = 64 << 10;

/// The largest body that HAProxy's buffer of 16 KB holds with its head.
const IN_A_BUFFER: u64 = 12 << 10;

/// A certificate, as files.
#[derive(Clone, Copy, Debug)]
pub struct Pem<'a> {
    /// The chain.
    pub chain: &'a Path,
    /// Its key.
    pub key: &'a Path,
    /// Both in one file.
    pub bundle: &'a Path,
}

/// What a server does for its clients.
#[derive(Clone, Copy, Debug)]
pub enum Service<'a> {
    /// Serves the files below `root`. The one that is asked for is `file`, of so many bytes: HAProxy, which serves no
    /// folders, answers with it from memory where it fits a buffer.
    Files {
        /// The folder.
        root: &'a Path,
        /// The file's name in it.
        file: &'a str,
        /// Its size.
        bytes: u64,
        /// Compressed as it is sent.
        gzip: bool,
    },
    /// Passes requests on to the HTTP server on this port of loopback, and keeps what it answers.
    Cache {
        /// Its port.
        origins: &'a [u16],
    },
    /// Passes requests on to the HTTP servers on these ports of loopback, in turn.
    Proxy {
        /// Their ports.
        origins: &'a [u16],
        /// The size of its answers.
        bytes: u64,
        /// Whether connections to them are kept for the next request.
        kept: bool,
        /// The port of loopback that takes sockets (`/socket`), if there is one.
        sockets: Option<u16>,
    },
    /// Passes connections on to the servers on these ports of loopback, in turn.
    Tcp {
        /// Their ports.
        origins: &'a [u16],
    },
}

/// A server as the configurations need to know it.
#[derive(Clone, Copy, Debug)]
pub struct Role<'a> {
    /// What it does.
    pub service: Service<'a>,
    /// The port of loopback that it listens on.
    pub port: u16,
    /// Worker threads or processes.
    pub workers: u16,
    /// Descriptors that each may have.
    pub descriptors: u64,
    /// Its certificate, if it speaks TLS.
    pub tls: Option<Pem<'a>>,
    /// It speaks HTTP/2.
    pub http2: bool,
}

/// The nginx.conf of a server.
#[must_use]
pub fn nginx(role: &Role<'_>) -> String {
    let body = match role.service {
        Service::Files { root, gzip, .. } => {
            let filter = if gzip { " gzip on; gzip_types *;" } else { "" };
            let body = format!("root {};\n  location / {{{filter} }}", root.display());
            nginx_http(&nginx_site(role, &body))
        }
        Service::Cache { origins } => nginx_http(&nginx_cache(role, origins)),
        Service::Proxy { origins, bytes, kept, sockets } => {
            nginx_http(&nginx_proxy(role, origins, bytes, kept, sockets))
        }
        Service::Tcp { origins } => format!(
            "stream {{ upstream origin {{{} }}\n server {{ listen {}; proxy_pass origin; proxy_buffer_size 64k; proxy_timeout 600s; }} }}\n",
            upstreams(origins),
            listen(role)
        ),
    };
    nginx_file(role, &body)
}

/// An nginx.conf around its `http` or `stream` block.
#[must_use]
pub(crate) fn nginx_file(role: &Role<'_>, body: &str) -> String {
    format!(
        "worker_processes {};\nworker_rlimit_nofile {};\nerror_log stderr crit;\nevents {{ worker_connections 16384; }}\n{body}",
        role.workers, role.descriptors
    )
}

/// An `http` block around its servers.
#[must_use]
pub(crate) fn nginx_http(body: &str) -> String {
    format!(
        "http {{\n access_log off;\n sendfile on;\n tcp_nopush on;\n tcp_nodelay on;\n \
         keepalive_requests {UNLIMITED};\n keepalive_timeout 600s;\n default_type application/octet-stream;\n \
         open_file_cache max=1000 inactive=600s;\n open_file_cache_valid 60s;\n{body}}}\n"
    )
}

/// A `server` block that listens as `role` says, around the rest of it.
#[must_use]
pub(crate) fn nginx_site(role: &Role<'_>, body: &str) -> String {
    let tls = role.tls.map_or_else(String::new, |pem| {
        format!(
            "  ssl_certificate {};\n  ssl_certificate_key {};\n  ssl_protocols TLSv1.2 TLSv1.3;\n",
            pem.chain.display(),
            pem.key.display()
        )
    });
    let ssl = if role.tls.is_some() { " ssl" } else { "" };
    let http2 = if role.http2 { " http2" } else { "" };
    format!(" server {{\n  listen {}{ssl}{http2};\n{tls}  {body}\n }}\n", listen(role))
}

/// What stands behind `listen` the first time.
pub(crate) fn listen(role: &Role<'_>) -> String {
    // One socket for all workers lets one of them take most connections.
    let own_socket = if role.workers > 1 { " reuseport" } else { "" };
    format!("127.0.0.1:{} backlog=4096{own_socket}", role.port)
}

fn upstreams(origins: &[u16]) -> String {
    origins.iter().map(|port| format!(" server 127.0.0.1:{port};")).collect()
}

fn nginx_proxy(role: &Role<'_>, origins: &[u16], bytes: u64, kept: bool, sockets: Option<u16>) -> String {
    // nginx's default of buffering costs it twice as much for large bodies.
    let buffering =
        if bytes > LARGE { "proxy_buffering off; proxy_buffer_size 64k; proxy_buffers 4 64k;" } else { "" };
    // Without these it closes after each request.
    let [pool, version] = if kept {
        [
            format!(" keepalive 128; keepalive_requests {UNLIMITED}; keepalive_timeout 600s;"),
            " proxy_http_version 1.1; proxy_set_header Connection \"\";".to_owned(),
        ]
    } else {
        [String::new(), String::new()]
    };
    let upstream = format!(" upstream origin {{{}{pool} }}\n", upstreams(origins));
    let sockets = sockets.map_or_else(String::new, |port| {
        format!(
            "location /socket {{ proxy_pass http://127.0.0.1:{port}; proxy_http_version 1.1; proxy_read_timeout 1d; \
             proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }}\n  "
        )
    });
    let location = format!("{sockets}location / {{ proxy_pass http://origin;{version} {buffering} }}");
    upstream + &nginx_site(role, &location)
}

/// What is kept stays fresh for longer than any run; the folder is inside that of the server.
fn nginx_cache(role: &Role<'_>, origins: &[u16]) -> String {
    let location = "location / { proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection \"\"; \
                    proxy_cache kept; proxy_cache_valid 200 1d; }";
    format!(
        " proxy_cache_path cache levels=1:2 keys_zone=kept:10m max_size=100m inactive=1d;\n \
         upstream origin {{{} keepalive 16; }}\n",
        upstreams(origins)
    ) + &nginx_site(role, location)
}

/// The haproxy.cfg of a server, or `None` for a file that HAProxy cannot answer with.
#[must_use]
pub fn haproxy(role: &Role<'_>) -> Option<String> {
    let backend = |origins: &[u16]| {
        let servers = origins.iter().map(|port| format!(" server o{port} 127.0.0.1:{port}\n"));
        format!(" default_backend b\nbackend b\n{}", servers.collect::<String>())
    };
    let buffer = |large| if large { 65_536 } else { 16_384 };
    let (mode, buffer, body) = match role.service {
        // It compresses no answers of its own.
        Service::Files { gzip: true, .. } => return None,
        Service::Files { bytes: 0, .. } => {
            ("http", buffer(false), " http-request return status 200\n".to_owned())
        }
        Service::Files { root, file, bytes, .. } if bytes <= IN_A_BUFFER => {
            let file = root.join(file);
            let answer = format!(
                " http-request return status 200 content-type application/octet-stream file {}\n",
                file.display()
            );
            ("http", buffer(false), answer)
        }
        Service::Files { .. } => return None,
        Service::Proxy { origins, bytes, sockets: Some(port), .. } => (
            "http",
            buffer(bytes > LARGE),
            format!(
                " use_backend sockets if {{ path /socket }}\n{}backend sockets\n timeout tunnel 1d\n \
                 server sockets 127.0.0.1:{port}\n",
                backend(origins)
            ),
        ),
        Service::Proxy { origins, bytes, .. } => ("http", buffer(bytes > LARGE), backend(origins)),
        Service::Tcp { origins } => ("tcp", buffer(true), backend(origins)),
        Service::Cache { origins } => {
            let rules = " http-request cache-use kept\n http-response cache-store kept\n";
            ("http", buffer(false), format!("{rules}{}", backend(origins)))
        }
    };
    let cache = match role.service {
        Service::Cache { .. } => {
            "cache kept\n total-max-size 100\n max-object-size 1000000\n max-age 86400\n"
        }
        _ => "",
    };
    let mut bind = role.tls.map_or_else(String::new, |pem| format!(" ssl crt {}", pem.bundle.display()));
    if role.http2 {
        bind += if role.tls.is_some() { " alpn h2,http/1.1" } else { " proto h2" };
    }
    Some(format!(
        "global\n nbthread {}\n maxconn 9000\n tune.bufsize {buffer}\n\
         {cache}defaults\n mode {mode}\n timeout connect 10s\n timeout client 600s\n timeout server 600s\n timeout http-keep-alive 600s\n \
         {}\
         frontend f\n bind 127.0.0.1:{} backlog 4096{bind}\n{body}",
        role.workers,
        match (mode, role.service) {
            (_, Service::Proxy { kept: false, .. }) => "option http-server-close\n http-reuse never\n",
            ("http", _) => "option http-keep-alive\n http-reuse always\n",
            _ => "",
        },
        role.port
    ))
}

/// The command that runs nginx in the foreground of `dir`, with `text` in `file`; for a test of the text alone add `-t`.
///
/// Where nginx has its stream module in a file, that is loaded if the text needs it.
#[must_use]
pub fn nginx_command(program: &Path, dir: &Path, file: &Path, text: &str) -> Command {
    let mut globals = format!("daemon off; pid {}/pid;", dir.display());
    if text.contains("\nstream {")
        && let Some(module) = stream_module(program)
    {
        globals += &format!(" load_module {};", module.display());
    }
    let mut command = Command::new(program);
    command.arg("-p").arg(dir).arg("-c").arg(file).args(["-e", "stderr", "-g", &globals]).current_dir(dir);
    command
}

/// The command that runs HAProxy in the foreground; for a test of the text alone add `-c`.
#[must_use]
pub fn haproxy_command(program: &Path, dir: &Path, file: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("-db").arg("-f").arg(file).current_dir(dir);
    command
}

/// Where this nginx has its stream module, if that is a file of its own.
fn stream_module(program: &Path) -> Option<PathBuf> {
    let output = Command::new(program).arg("-V").output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut words = text.split_ascii_whitespace();
    let folder = words.clone().find_map(|w| w.strip_prefix("--modules-path="))?;
    words.any(|w| w == "--with-stream=dynamic").then(|| Path::new(folder).join("ngx_stream_module.so"))
}
