//! The programs that tests, benchmark and lints need.
//!
//! Owns: which program comes from which Debian package, and installing it without a question.
//! Never: starts a service, nor stops one that ran before: ports 80 and 81 belong to the user.
//! Driven by: `make test`, `make bench`, `make lint`.
//! Why: a fresh machine has Rust and a C compiler; everything else is our business. When nothing is missing, nothing runs.

use anyhow::{Context, Result, bail};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The version that `deny.toml` is written for.
pub(crate) const CARGO_DENY: &str = "0.20.2";

/// What to install.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only what the benchmark needs
    #[arg(long)]
    bench: bool,
    /// cargo-deny, for `make lint`
    #[arg(long)]
    lint: bool,
}

/// Something that must exist, and the package that brings it.
struct Need {
    /// A program's name, a path, or a path with one `*`.
    file: &'static str,
    package: &'static str,
    bench: bool,
}

const fn need(file: &'static str, package: &'static str, bench: bool) -> Need {
    Need { file, package, bench }
}

const NEEDS: &[Need] = &[
    need("nginx", "nginx", true),
    need("/usr/lib/nginx/modules/ngx_stream_module.so", "libnginx-mod-stream", true),
    need(
        "/usr/lib/nginx/modules/ngx_http_headers_more_filter_module.so",
        "libnginx-mod-http-headers-more-filter",
        true,
    ),
    need("/usr/lib/nginx/modules/ngx_http_brotli_filter_module.so", "libnginx-mod-http-brotli-filter", false),
    need("/usr/lib/nginx/modules/ngx_http_brotli_static_module.so", "libnginx-mod-http-brotli-static", false),
    need("/usr/lib/nginx/modules/ngx_http_geoip2_module.so", "libnginx-mod-http-geoip2", false),
    need("haproxy", "haproxy", true),
    need("wrk", "wrk", true),
    need("curl", "curl", false),
    need("openssl", "openssl", false),
    need("h2load", "nghttp2-client", false),
    need("nghttpd", "nghttp2-server", false),
    need("ip", "iproute2", false),
    need("unshare", "util-linux", false),
    need("nsenter", "util-linux", false),
    need("/usr/sbin/php-fpm*", "php-fpm", false),
    need("uwsgi", "uwsgi-core", false),
    need("/usr/lib/uwsgi/plugins/python3*_plugin.so", "uwsgi-plugin-python3", false),
    need("memcached", "memcached", false),
    need("socat", "socat", false),
    need("tmux", "tmux", false),
    need("prometheus-haproxy-exporter", "prometheus-haproxy-exporter", false),
    need("fail2ban-regex", "fail2ban", false),
    need("chromium", "chromium", false),
    need("logrotate", "logrotate", false),
    need("dpkg-shlibdeps", "dpkg-dev", false),
    need("strip", "binutils", false),
    need("setpriv", "util-linux", false),
    need("systemd-analyze", "systemd", false),
    need("node", "nodejs", false),
    need("npm", "npm", false),
];

/// Installs what is missing.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.lint {
        return cargo_deny();
    }
    let mut missing: Vec<&str> =
        NEEDS.iter().filter(|n| (n.bench || !options.bench) && !exists(n.file)).map(|n| n.package).collect();
    missing.dedup();
    if !options.bench && peers_are_old() && !exists("go") {
        missing.push("golang-go");
    }
    if missing.is_empty() {
        return if options.bench { Ok(()) } else { peers() };
    }
    println!("installing {}", missing.join(" "));
    install(&missing)?;
    if !options.bench {
        peers()?;
    }
    let still: Vec<&str> =
        NEEDS.iter().filter(|n| missing.contains(&n.package) && !exists(n.file)).map(|n| n.file).collect();
    if still.is_empty() { Ok(()) } else { bail!("installed, and still missing: {}", still.join(", ")) }
}

/// What opens pages in Chromium and looks at them: packages of npm, pinned by a lock file.
const BROWSER: &str = "browser";

/// Programs of others that are built from source, each with the folder of its module: h2spec, the peers of gRPC's own
/// interoperation tests, the client library of NGINX Plus' API, and the exporter that uses it (these two need Go 1.25); an
/// authority of ACME for tests, with a name server.
const PEERS: [(&str, &str, &str); 6] = [
    ("h2spec", ".", "github.com/summerwind/h2spec/cmd/h2spec"),
    ("grpc", ".", "weir.example/peers/grpc"),
    ("plus", "plus", "weir.example/peers/plus"),
    ("plus-exporter", "plus", "github.com/nginx/nginx-prometheus-exporter"),
    ("pebble", "acme", "github.com/letsencrypt/pebble/v2/cmd/pebble"),
    ("pebble-challtestsrv", "acme", "github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv"),
];

/// Their sources, and what pins those of others.
fn peers_source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/testkit/peers")
}

/// Where they are put: beside what cargo builds.
fn peers_folder() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    Some(own.parent()?.parent()?.join("peers"))
}

/// Whether one of them is missing, or older than its source.
fn peers_are_old() -> bool {
    let changed = |path: &Path| std::fs::metadata(path).and_then(|found| found.modified()).ok();
    let sources = ["go.sum", "grpc/main.go", "plus/go.sum", "plus/main.go", "acme/go.sum"];
    let sources = sources.map(|name| changed(&peers_source().join(name)));
    let Some(folder) = peers_folder() else { return true };
    browser_is_old(&folder)
        || PEERS.iter().any(|(name, ..)| {
            let Some(built) = changed(&folder.join(name)) else { return true };
            sources.iter().flatten().any(|source| *source > built)
        })
}

/// Whether its packages are missing, or older than the lock file.
fn browser_is_old(peers: &Path) -> bool {
    let changed = |path: PathBuf| std::fs::metadata(path).and_then(|found| found.modified()).ok();
    let lock = changed(peers_source().join(BROWSER).join("package-lock.json"));
    let done = changed(peers.join(BROWSER).join("node_modules/.package-lock.json"));
    done.is_none() || done < lock
}

fn browser(peers: &Path) -> Result<()> {
    let folder = peers.join(BROWSER);
    std::fs::create_dir_all(&folder)?;
    for name in ["package.json", "package-lock.json"] {
        std::fs::copy(peers_source().join(BROWSER).join(name), folder.join(name))?;
    }
    let status = Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .current_dir(&folder)
        .stdin(Stdio::null())
        .status()
        .context("cannot run npm")?;
    if status.success() { Ok(()) } else { bail!("the packages of {} cannot be installed", folder.display()) }
}

/// Builds them where that is needed.
fn peers() -> Result<()> {
    if !peers_are_old() {
        return Ok(());
    }
    let Some(folder) = peers_folder() else { bail!("this program is in no folder of cargo's") };
    std::fs::create_dir_all(&folder)?;
    if browser_is_old(&folder) {
        println!("installing what opens pages");
        browser(&folder)?;
    }
    println!("building peers of tests that are written in Go");
    for (name, module, package) in PEERS {
        let status = Command::new("go")
            .args(["build", "-o"])
            .arg(folder.join(name))
            .arg(package)
            .current_dir(peers_source().join(module))
            .stdin(Stdio::null())
            .status()
            .context("cannot run go")?;
        if !status.success() {
            bail!("{package} cannot be built (Go 1.25 or newer builds all of them)");
        }
    }
    Ok(())
}

/// Installs what brings one program, if it is missing.
pub(crate) fn have(program: &str, package: &str) -> Result<()> {
    if exists(program) {
        return Ok(());
    }
    println!("installing {package}");
    install(&[package])?;
    if exists(program) { Ok(()) } else { bail!("{package} is installed, and {program} is still missing") }
}

fn exists(file: &str) -> bool {
    match file.rsplit_once('/') {
        Some((dir, name)) => in_dir(Path::new(dir), name),
        None => search_path().iter().any(|dir| in_dir(dir, file)),
    }
}

/// PATH, and the system directories that a user's PATH leaves out.
fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from)).collect()
}

fn in_dir(dir: &Path, name: &str) -> bool {
    match name.split_once('*') {
        None => dir.join(name).exists(),
        Some((start, end)) => std::fs::read_dir(dir).into_iter().flatten().flatten().any(|entry| {
            let found = entry.file_name();
            let found = found.to_string_lossy();
            found.starts_with(start) && found.ends_with(end)
        }),
    }
}

/// Installs Debian packages without a question.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    if !exists("apt-get") {
        bail!("this machine has no apt-get; install by hand what Debian calls: {}", packages.join(" "));
    }
    let _quiet = NoServices::begin()?;
    let arguments = [&["install", "-y", "--no-install-recommends"], packages].concat();
    if apt_get(&arguments)? {
        return Ok(());
    }
    // Fresh images carry no package lists, old ones stale ones.
    apt_get(&["update"])?;
    if apt_get(&arguments)? { Ok(()) } else { bail!("apt-get could not install {}", packages.join(" ")) }
}

fn apt_get(arguments: &[&str]) -> Result<bool> {
    let status = as_root("env")
        .args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .context("cannot run apt-get")?;
    Ok(status.success())
}

/// `sudo` only where it is needed, and never with a question.
fn as_root(program: &str) -> Command {
    if rustix::process::getuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("sudo");
    command.args(["-n", program]);
    command
}

const POLICY: &str = "/usr/sbin/policy-rc.d";

/// While it lives, Debian's packages do not start the services they bring.
struct NoServices {
    ours: bool,
}

impl NoServices {
    fn begin() -> Result<Self> {
        // Somebody's own policy stays: containers have one that says the same.
        if Path::new(POLICY).exists() {
            return Ok(Self { ours: false });
        }
        let mut file = tempfile::NamedTempFile::new()?;
        std::io::Write::write_all(&mut file, b"#!/bin/sh\nexit 101\n")?;
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o755))?;
        let status = as_root("install").args(["-m", "755"]).arg(file.path()).arg(POLICY).status()?;
        if status.success() { Ok(Self { ours: true }) } else { bail!("cannot write {POLICY}") }
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.ours {
            let _ = as_root("rm").args(["-f", POLICY]).status();
        }
    }
}

/// cargo-deny, built without optimisation: it runs for seconds, and building it well takes minutes more.
fn cargo_deny() -> Result<()> {
    let found = Command::new("cargo").args(["deny", "--version"]).stderr(Stdio::null()).output();
    if found.is_ok_and(|o| o.status.success()) {
        return Ok(());
    }
    println!("building cargo-deny {CARGO_DENY}");
    let status = Command::new("cargo")
        .args(["install", "--quiet", "--locked", "--debug", &format!("cargo-deny@{CARGO_DENY}")])
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env_remove("CARGO_TARGET_DIR")
        .current_dir(std::env::temp_dir())
        .status()?;
    if status.success() { Ok(()) } else { bail!("cargo-deny does not build") }
}
