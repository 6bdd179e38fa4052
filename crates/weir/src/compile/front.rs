//! Front ends and the compiler, joined to the store.
//!
//! Owns: telling languages apart by content, and adapting [`Store`] to what each crate asks through.
//! Never: looks inside a language.
//! Driven by: `compile`.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use weir_diag::Diagnostic;
use weir_plan::{TlsFault, TlsIdentity, UpstreamTls};

use super::store::Store;
use super::{Compiled, bounded};
use crate::launch::{Dialect, Launch, Manner};

impl weir_nginx::Files for Store {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        Store::read(self, path)
    }

    fn glob(&self, pattern: &str) -> Vec<PathBuf> {
        Store::glob(self, pattern)
    }

    fn resolve(&self, host: &str) -> Vec<IpAddr> {
        Store::resolve(self, host)
    }
}

impl weir_haproxy::Files for Store {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        Store::read(self, path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        Store::list(self, folder)
    }

    fn resolve(&self, host: &str) -> Vec<IpAddr> {
        Store::resolve(self, host)
    }
}

impl weir_native::Files for Store {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        Store::read(self, path)
    }
}

impl weir_lower::Resources for Store {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        Store::read(self, path)
    }

    fn addresses(&self, host: &str) -> Vec<IpAddr> {
        Store::resolve(self, host)
    }

    // What is replayed was tried where it was read.
    fn server_tls_faults(&self, identity: &TlsIdentity) -> Vec<TlsFault> {
        if self.is_replay() { Vec::new() } else { weir_engine::server_tls_faults(identity) }
    }

    fn client_tls_faults(&self, tls: &UpstreamTls) -> Vec<TlsFault> {
        if self.is_replay() { Vec::new() } else { weir_engine::client_tls_faults(tls) }
    }
}

/// The language of a file, by content, or by a name that only Weir's has. A folder is HAProxy's; what cannot be read is left
/// to its front end to complain about, nginx's being the more common.
pub(crate) fn tell_apart(path: &Path, store: &Store) -> Dialect {
    if store.list(path).is_ok() {
        return Dialect::Haproxy;
    }
    let text = Store::read(store, path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let named = path.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known));
    if named || weir_native::looks_like(&text) {
        return Dialect::Native;
    }
    match weir_haproxy::looks_like(&text) && !weir_nginx::looks_like(&text) {
        true => Dialect::Haproxy,
        false => Dialect::Nginx,
    }
}

/// Reads a configuration. Nothing here is lowered yet.
pub(crate) fn load(launch: &Launch, dialect: Dialect, store: &Store) -> Compiled {
    match dialect {
        Dialect::Haproxy => load_haproxy(launch, store),
        Dialect::Nginx => load_nginx(launch, store),
        Dialect::Native => load_native(launch, store),
    }
}

fn load_nginx(launch: &Launch, store: &Store) -> Compiled {
    let path = launch.main_path();
    let defaults = weir_nginx::Options::default();
    let sourcing = &launch.sourcing;
    let options = weir_nginx::Options {
        prefix: sourcing.prefix.clone().unwrap_or_else(|| prefix_of(launch.manner, &path, defaults.prefix)),
        directives: sourcing.globals.clone(),
        error_log: sourcing.error_log.clone(),
        // `weir run` writes a pid file only where the file or a flag names it.
        pid_file: defaults.pid_file.filter(|_| launch.manner != Manner::Weir),
        privileged: sourcing.low_ports,
        hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        access_log: sourcing.default_access_log.clone(),
    };
    let mut loaded = weir_nginx::load(store, &path, &options);
    loaded.diagnostics.extend(unlogged(launch, &loaded.model));
    Compiled::understood(loaded.model, loaded.diagnostics, loaded.sources)
}

/// Says that requests are not logged where the file leaves it to the default, and the default cannot be written.
fn unlogged(launch: &Launch, model: &weir_model::Model) -> Option<Diagnostic> {
    let default = &launch.sourcing.default_access_log;
    let nowhere = weir_model::LogTarget::File(crate::launch::NO_LOG.into());
    let uses = |route: &weir_model::Route| route.access_logs.iter().any(|log| log.target == nowhere);
    (default == Path::new(crate::launch::NO_LOG) && model.routes.iter().any(uses)).then(|| {
        let title = "requests are not logged: /var/log/nginx, the default, cannot be written by this user";
        Diagnostic::warning("log::no-default", title)
            .help("name a file with `access_log`, or say `access_log off`")
    })
}

/// Relative paths start from nginx's own folder in nginx's manner and for its own configuration; `weir run` and its kin
/// take the folder of the file.
fn prefix_of(manner: Manner, path: &Path, nginxs: PathBuf) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.into());
    match absolute.parent() {
        Some(folder) if manner != Manner::Nginx && !folder.starts_with("/etc/nginx") => folder.into(),
        _ => nginxs,
    }
}

fn load_haproxy(launch: &Launch, store: &Store) -> Compiled {
    let options = haproxy_options(launch.sourcing.local_peer.as_deref());
    let loaded = weir_haproxy::load(store, &launch.sourcing.paths, &options);
    Compiled::understood(loaded.model, loaded.diagnostics, loaded.sources)
}

fn load_native(launch: &Launch, store: &Store) -> Compiled {
    let path = launch.main_path();
    let own = || crate::launch::absolute(path.clone()).parent().map(Path::to_owned).unwrap_or_default();
    let loaded = weir_native::load(store, &path, launch.sourcing.prefix.clone().unwrap_or_else(own));
    Compiled::understood(loaded.model, loaded.diagnostics, loaded.sources)
}

/// What a haproxy.cfg sees of the process that reads it.
pub(crate) fn haproxy_options(local_peer: Option<&str>) -> weir_haproxy::Options {
    let texts =
        std::env::vars_os().filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok()));
    let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    weir_haproxy::Options {
        env: texts.collect(),
        local_peer: local_peer.map_or_else(host, str::to_owned),
        local_peer_given: local_peer.is_some(),
    }
}

/// Lowers a model that has no errors.
pub(crate) fn lower(compiled: &mut Compiled, launch: &Launch, store: &Store) {
    let options = weir_lower::Options { tolerate_unreadable_files: launch.tolerate_unreadable_files };
    let (plan, findings) = weir_lower::lower(&compiled.model, store, &options);
    compiled.plan = plan;
    compiled.diagnostics.extend(bounded(findings));
}
