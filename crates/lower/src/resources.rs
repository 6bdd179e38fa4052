//! What a configuration refers to outside of itself: files and host names.
//!
//! Owns: the trait through which both are given, and TLS is tried, the plain implementation for the local machine, and
//! what the caller chose about files that cannot be read.
//! Never: looks a name up; the caller did, with its own time limit.
//! Driven by: `weir` (through the keeper, once privileges were dropped), tests.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::IpAddr;
use std::path::Path;

use weir_model::{LogTarget, Model, SyslogServer};
use weir_plan::{TlsFault, TlsIdentity, UpstreamTls};

/// Choices of the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Files that cannot be read (certificates, keys, error pages) are warnings: for `explain` and for checks by users
    /// who may not read keys. A plan made so must not run.
    pub tolerate_unreadable_files: bool,
}

/// Files and addresses, and the making of TLS.
pub trait Resources {
    /// The content of a file: a certificate, a key, a CA, an error page.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The addresses of a host name, in the resolver's order; empty if it did not resolve.
    fn addresses(&self, host: &str) -> Vec<IpAddr>;

    /// What is wrong with TLS towards clients, found by building what would run. Whoever can build none finds nothing.
    fn server_tls_faults(&self, _identity: &TlsIdentity) -> Vec<TlsFault> {
        Vec::new()
    }

    /// As [`Resources::server_tls_faults`], towards endpoints.
    fn client_tls_faults(&self, _tls: &UpstreamTls) -> Vec<TlsFault> {
        Vec::new()
    }
}

/// Files of this machine, and addresses that were looked up before.
#[derive(Clone, Debug, Default)]
pub struct LocalResources {
    /// Addresses by the names that [`host_names`] lists.
    pub addresses: HashMap<String, Vec<IpAddr>>,
}

impl Resources for LocalResources {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn addresses(&self, host: &str) -> Vec<IpAddr> {
        self.addresses.get(host).cloned().unwrap_or_default()
    }
}

/// The host names that a model needs addresses of, each once, sorted.
pub fn host_names(model: &Model) -> Vec<String> {
    let mut names = BTreeSet::new();
    for pool in &model.pools {
        for endpoint in &pool.endpoints {
            names.extend(endpoint.name_at_load().map(str::to_owned));
        }
        let own = pool.endpoints.iter().filter_map(|endpoint| endpoint.resolve.as_ref()?.resolver.as_ref());
        let resolvers = own.chain(&pool.resolver);
        names.extend(resolvers.flat_map(|resolver| &resolver.named_servers).map(|server| server.0.clone()));
    }
    names.extend(
        model.resolver.iter().flat_map(|resolver| &resolver.named_servers).map(|server| server.0.clone()),
    );
    for route in &model.routes {
        let servers = route.resolver.iter().flat_map(|resolver| &resolver.named_servers);
        names.extend(servers.map(|server| server.0.clone()));
        names.extend(route.access_logs.iter().filter_map(|log| syslog_name(&log.target)));
        names.extend(
            route.error_logs.iter().flat_map(|logs| logs.iter()).filter_map(|log| syslog_name(&log.target)),
        );
    }
    for service in &model.tcp {
        let servers = service.resolver.iter().flat_map(|resolver| &resolver.named_servers);
        names.extend(servers.map(|server| server.0.clone()));
        names.extend(service.access_logs.iter().filter_map(|log| syslog_name(&log.target)));
        names.extend(
            service.error_logs.iter().flat_map(|logs| logs.iter()).filter_map(|log| syslog_name(&log.target)),
        );
    }
    names.extend(model.process.error_logs.iter().filter_map(|log| syslog_name(&log.target)));
    let process = &model.process;
    let servers = process.log_rings.iter().flat_map(|ring| &ring.servers);
    let servers = servers.chain(process.log_pools.iter().flat_map(|pool| &pool.servers));
    names.extend(servers.filter_map(|server| Some(server.address.unresolved()?.0.to_owned())));
    names.into_iter().collect()
}

fn syslog_name(target: &LogTarget) -> Option<String> {
    match target {
        LogTarget::Syslog { server: SyslogServer::Name(host, _), .. } => Some(host.clone()),
        _ => None,
    }
}
