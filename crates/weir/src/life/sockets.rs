//! The process's listening sockets.
//!
//! Owns: every listening socket from bind to close, under ids that stay the same across reloads; binding by
//! difference, so that a reload that cannot have a port changes nothing.
//! Never: accepts; decides when a removed listener is empty (the data plane holds its own reference until then).
//! Driven by: `life::master`.
//! Why: a TCP listener has one SO_REUSEPORT socket for each worker, and closing one of them resets what the kernel
//! queued on it. So their number only grows while a listener lives: with fewer workers, somebody adopts the
//! orphans. And as SO_REUSEPORT would silently share a port with any other program of ours, each address is first
//! probed without it. Listeners of one address have sockets of their own, and the kernel spreads connections over all.
//! A socket that was handed over stays open for as long as the process does: there is no second one to be had. All workers share it.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use serde::{Deserialize, Serialize};
use weir_diag::{Diagnostic, Origin};
use weir_model::{Address, Model, SocketOptions};
use weir_rt::{ListenOptions, PeerAddr, bind_udp, listen_addr, listen_tcp, probe, probe_udp};

use super::inherited::{self, Passed};
use super::places;
use crate::launch::Manner;

/// Names one listening socket for as long as it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SocketId(pub u64);

/// A listening socket.
#[derive(Clone, Debug)]
pub struct OpenSocket {
    /// Stays the same for as long as it is open.
    pub id: SocketId,
    /// The socket. It closes with the last clone.
    pub fd: Arc<OwnedFd>,
}

/// The sockets of one listener of the model.
#[derive(Clone, Debug)]
pub struct ListenerSockets {
    /// The listener's name in the model.
    pub name: String,
    /// TCP: at least one for each worker. Unix: exactly one, for all.
    pub sockets: Vec<OpenSocket>,
}

/// All sockets of one configuration, in the order of the model's listeners; admin addresses last.
#[derive(Clone, Debug, Default)]
pub struct Sockets {
    /// One entry for each listener.
    pub listeners: Vec<ListenerSockets>,
}

/// Something to listen on.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) address: Address,
    /// Which of the listeners of this address it is.
    share: u32,
    options: SocketOptions,
    origin: Origin,
}

/// What tells listeners apart: an address, and which of those that share it.
type Key = (Address, u32);

impl Wanted {
    fn key(&self) -> Key {
        (self.address.clone(), self.share)
    }
}

/// What a model listens on.
pub(crate) fn wanted(model: &Model, manner: Manner) -> Vec<Wanted> {
    let wanted = model.listeners.iter().map(|listener| Wanted {
        name: listener.name.clone(),
        address: listener.address.clone(),
        share: listener.share,
        options: with_default_mode(listener.socket.clone(), manner),
        origin: listener.origin,
    });
    let control = model.process.control.iter().map(|one| Wanted {
        name: one.control.name.clone(),
        address: one.address.clone(),
        share: CONTROL,
        options: with_default_mode(one.socket.clone(), manner),
        origin: one.origin,
    });
    wanted.chain(control).collect()
}

/// A share that no listener has: sockets for commands have sockets of their own at any address.
const CONTROL: u32 = u32::MAX;

/// nginx gives its unix sockets mode 0666; HAProxy leaves it to the umask.
fn with_default_mode(mut options: SocketOptions, manner: Manner) -> SocketOptions {
    if manner != Manner::Haproxy {
        options.mode = options.mode.or(Some(0o666));
    }
    options
}

/// How a port that somebody else holds is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contention {
    /// At once an error.
    Refuse,
    /// Tried again for a moment: at a restart the old process may still be closing.
    Wait(Duration),
    /// Shared: the holder is an old process that is asked to end once we are bound (HAProxy's `-sf`).
    Share,
}

/// Open sockets by address.
#[derive(Default)]
pub(crate) struct SocketTable {
    open: HashMap<Key, Vec<OpenSocket>>,
    next: u64,
    /// Sockets that a service manager opened: who wants to listen there takes them up instead of binding.
    passed: Vec<Passed>,
    /// Another process has the same sockets.
    shared: bool,
}

/// New sockets that no configuration uses yet. Dropped, it leaves the table as it was.
pub(crate) struct Change {
    added: HashMap<Key, Vec<OpenSocket>>,
    created_files: Vec<std::path::PathBuf>,
    /// Of a process whose place we take.
    replaced: Vec<places::Replaced>,
    keep: HashSet<Key>,
    next: u64,
}

impl SocketTable {
    /// An empty table, beside what a service manager has opened already.
    pub(crate) fn beside(passed: Vec<Passed>) -> Self {
        let mut table = Self::default();
        table.passed = passed;
        table
    }

    fn passed_at(&self, address: &Address) -> Option<RawFd> {
        self.passed.iter().find(|one| one.address.as_ref() == Some(address)).map(|one| one.number)
    }

    /// Removes the file of a unix socket that is let go, unless somebody else made it or has it.
    fn remove_file(&self, address: &Address) {
        if !self.shared && self.passed_at(address).is_none() {
            remove_file(address);
        }
    }

    /// Binds what `wanted` adds for `workers` workers. All failures are reported at once, and then nothing changes.
    pub(crate) fn prepare(
        &self,
        wanted: &[Wanted],
        workers: usize,
        contention: Contention,
    ) -> Result<Change, Vec<Diagnostic>> {
        let mut change = Change {
            added: HashMap::new(),
            created_files: Vec::new(),
            replaced: Vec::new(),
            keep: wanted.iter().map(Wanted::key).collect(),
            next: self.next,
        };
        let mut failures = Vec::new();
        // Probes come first: they would fail on our own new sockets.
        let blocked = self.probe_all(wanted, contention, &mut failures);
        for one in wanted {
            if blocked.contains(&one.address) || change.added.contains_key(&one.key()) {
                continue;
            }
            // Commands are one thread's business.
            let workers = if one.share == CONTROL { 1 } else { workers };
            match self.bind_missing(one, workers, contention, &mut change) {
                Ok(()) => {}
                Err(error) => failures.push(bind_failure(one, &error)),
            }
        }
        if failures.is_empty() { Ok(change) } else { Err(failures) }
    }

    fn probe_all(
        &self,
        wanted: &[Wanted],
        contention: Contention,
        failures: &mut Vec<Diagnostic>,
    ) -> HashSet<Address> {
        let deadline = match contention {
            Contention::Share => return HashSet::new(),
            Contention::Refuse => Instant::now(),
            Contention::Wait(time) => Instant::now() + time,
        };
        let mut blocked = HashSet::new();
        for one in wanted {
            let (Address::Tcp(address) | Address::Udp(address)) = one.address else { continue };
            // Overlapping with a socket of our own, a probe fails because of us; and nobody else can hold it.
            let ours = self.passed_at(&one.address).is_some() || self.overlaps(&one.address);
            if address.port() == 0 || ours || blocked.contains(&one.address) {
                continue;
            }
            if let Err(error) = probe_until(&one.address, &one.options, deadline) {
                failures.push(bind_failure(one, &error));
                blocked.insert(one.address.clone());
            }
        }
        blocked
    }

    fn overlaps(&self, wanted: &Address) -> bool {
        self.open.keys().any(|(open, _)| match (open, wanted) {
            (Address::Tcp(open), Address::Tcp(wanted)) | (Address::Udp(open), Address::Udp(wanted)) => {
                open.port() == wanted.port()
                    && (open.ip() == wanted.ip()
                        || open.ip().is_unspecified()
                        || wanted.ip().is_unspecified())
            }
            _ => false,
        })
    }

    fn bind_missing(
        &self,
        one: &Wanted,
        workers: usize,
        contention: Contention,
        change: &mut Change,
    ) -> io::Result<()> {
        let existing = self.open.get(&one.key()).map_or(&[][..], Vec::as_slice);
        let options = listen_options(&one.options);
        let mut new = Vec::new();
        let handed_over = match one.address {
            Address::Inherited(number) => Some(number),
            _ => self.passed_at(&one.address),
        };
        if let Some(number) = handed_over {
            let wanted = if matches!(one.address, Address::Unix(_)) { 1 } else { workers.max(1) };
            while existing.len() + new.len() < wanted {
                new.push(Arc::new(inherited::listener(number)?));
            }
        }
        match &one.address {
            _ if handed_over.is_some() => {}
            Address::Unix(path) if existing.is_empty() => {
                let (socket, replaced) = open_unix(path, one, &options, contention)?;
                new.push(socket);
                match replaced {
                    Some(replaced) => change.replaced.push(replaced),
                    None => change.created_files.push(path.clone()),
                }
            }
            Address::Unix(_) | Address::Inherited(_) => {}
            Address::Tcp(address) | Address::Udp(address) => {
                let mut address = *address;
                while existing.len() + new.len() < workers.max(1) {
                    if let (0, Some(first)) =
                        (address.port(), existing.first().map(|s| &s.fd).or(new.first()))
                    {
                        address.set_port(port_of(first)?);
                    }
                    let bound = match one.address {
                        Address::Udp(_) => bind_udp(address, &options),
                        _ => listen_tcp(address, &options),
                    };
                    new.push(match (bound, existing.first()) {
                        // One that was handed over shares its address with nobody: all workers have that one.
                        (Err(error), Some(first)) if error.kind() == io::ErrorKind::AddrInUse => {
                            Arc::new(first.fd.try_clone()?)
                        }
                        (bound, _) => Arc::new(bound?),
                    });
                }
            }
        }
        let sockets = new.into_iter().map(|fd| {
            change.next += 1;
            OpenSocket { id: SocketId(change.next), fd }
        });
        change.added.insert(one.key(), sockets.collect());
        Ok(())
    }

    /// The sockets of `wanted` as they will be once `change` is taken.
    pub(crate) fn listing(&self, wanted: &[Wanted], change: &Change) -> Sockets {
        let of = |key: &Key| {
            let old = self.open.get(key).into_iter().flatten();
            old.chain(change.added.get(key).into_iter().flatten()).cloned().collect()
        };
        let listeners =
            wanted.iter().map(|one| ListenerSockets { name: one.name.clone(), sockets: of(&one.key()) });
        Sockets { listeners: listeners.collect() }
    }

    /// Makes a change last: new sockets stay, those that no listener wants are let go.
    pub(crate) fn commit(&mut self, mut change: Change) {
        self.next = change.next;
        for (key, sockets) in change.added.drain() {
            self.open.entry(key).or_default().extend(sockets);
        }
        change.created_files.clear();
        change.replaced.clear();
        let keep = std::mem::take(&mut change.keep);
        let mut open = std::mem::take(&mut self.open);
        open.retain(|key, _| {
            let stays = keep.contains(key);
            if !stays {
                self.remove_file(&key.0);
            }
            stays
        });
        self.open = open;
    }

    /// Takes a socket that is open already, for whichever listener has its address.
    pub(crate) fn adopt(&mut self, address: Address, fd: OwnedFd) {
        self.next += 1;
        let socket = OpenSocket { id: SocketId(self.next), fd: Arc::new(fd) };
        self.open.entry((address, 0)).or_default().push(socket);
    }

    /// Takes sockets of another process that listen where somebody wants to; all others are closed.
    pub(crate) fn take_over(&mut self, sockets: Vec<OwnedFd>, wanted: &[Wanted]) {
        let wanted: HashSet<&Address> =
            wanted.iter().filter(|one| one.share == 0).map(|one| &one.address).collect();
        for fd in sockets {
            let listens = sockopt::socket_acceptconn(&fd).unwrap_or(false);
            if let Ok(PeerAddr::Inet(at)) = listen_addr(fd.as_fd())
                && listens
                && wanted.contains(&Address::Tcp(at))
                && rustix::io::ioctl_fionbio(&fd, true).is_ok()
            {
                self.adopt(Address::Tcp(at), fd);
            }
        }
    }

    /// All sockets.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = &OwnedFd> {
        self.open.values().flatten().map(|socket| &*socket.fd)
    }

    /// Another process has the same sockets: their files stay when this one lets go of them.
    pub(crate) fn share_files(&mut self, shared: bool) {
        self.shared = shared;
    }

    /// Lets all go: the data plane's own references are then the last.
    pub(crate) fn close(&mut self) {
        for ((address, _), _) in std::mem::take(&mut self.open) {
            self.remove_file(&address);
        }
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        for path in self.created_files.drain(..) {
            remove_file(&Address::Unix(path));
        }
        self.replaced.drain(..).for_each(places::Replaced::restore);
    }
}

impl Drop for SocketTable {
    fn drop(&mut self) {
        self.close();
    }
}

fn remove_file(address: &Address) {
    if let Address::Unix(path) = address
        && !path.as_os_str().as_encoded_bytes().starts_with(b"@")
    {
        places::remove_socket(path);
    }
}

fn probe_until(address: &Address, options: &SocketOptions, deadline: Instant) -> io::Result<()> {
    loop {
        match probed(address, options) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(50));
            }
            other => return other,
        }
    }
}

/// Binds to an address and lets it go again.
fn probed(address: &Address, options: &SocketOptions) -> io::Result<()> {
    match address {
        Address::Tcp(address) => probe(*address, &listen_options(options)),
        Address::Udp(address) => probe_udp(*address, &listen_options(options)),
        Address::Inherited(number) => inherited::listener(*number).map(drop),
        Address::Unix(_) => Ok(()),
    }
}

/// Tries each address as a start would, and forgives one that is in use (by the server that is being checked for).
pub(crate) fn try_addresses(wanted: &[Wanted]) -> Vec<Diagnostic> {
    let failed = |one: &Wanted| {
        let error = probed(&one.address, &one.options).err()?;
        (error.kind() != io::ErrorKind::AddrInUse).then(|| bind_failure(one, &error))
    };
    wanted.iter().filter_map(failed).collect()
}

fn open_unix(
    path: &Path,
    one: &Wanted,
    options: &ListenOptions,
    contention: Contention,
) -> io::Result<(Arc<OwnedFd>, Option<places::Replaced>)> {
    if let Some(name) = path.as_os_str().as_encoded_bytes().strip_prefix(b"@") {
        let listener = UnixListener::bind_addr(&UnixAddr::from_abstract_name(name)?)?;
        listener.set_nonblocking(true)?;
        return Ok((Arc::new(listener.into()), None));
    }
    let owner = one.options.owner.as_deref().map(uid_of).transpose()?.map(nix::unistd::Uid::as_raw);
    let group = one.options.group.as_deref().map(gid_of).transpose()?.map(nix::unistd::Gid::as_raw);
    let (socket, replaced) = match contention {
        Contention::Share => places::listen_instead(path, options, one.options.mode, (owner, group))?,
        _ => (places::listen(path, options, one.options.mode, (owner, group))?, None),
    };
    Ok((Arc::new(socket), replaced))
}

fn uid_of(name: &str) -> io::Result<nix::unistd::Uid> {
    let number = || name.parse().ok().map(nix::unistd::Uid::from_raw);
    let found = nix::unistd::User::from_name(name)?.map(|user| user.uid).or_else(number);
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("there is no user `{name}`")))
}

fn gid_of(name: &str) -> io::Result<nix::unistd::Gid> {
    let number = || name.parse().ok().map(nix::unistd::Gid::from_raw);
    let found = nix::unistd::Group::from_name(name)?.map(|group| group.gid).or_else(number);
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("there is no group `{name}`")))
}

fn port_of(fd: &OwnedFd) -> io::Result<u16> {
    match listen_addr(fd)? {
        PeerAddr::Inet(address) => Ok(address.port()),
        PeerAddr::Unix(_) => Err(io::Error::other("a TCP listener with a unix address")),
    }
}

fn listen_options(options: &SocketOptions) -> ListenOptions {
    let seconds = |n: u32| Duration::from_secs(n.into());
    ListenOptions {
        backlog: options.backlog.map_or(4096, |n| n.min(i32::MAX as u32) as i32),
        reuse_port: true,
        v6_only: options.ipv6_only.unwrap_or(true),
        fast_open: options.fast_open,
        defer_accept: options.deferred.then_some(Duration::from_secs(1)),
        recv_buffer: options.receive_buffer.map(|n| n as usize),
        send_buffer: options.send_buffer.map(|n| n as usize),
        keepalive: options.keepalive.map(|probes| weir_rt::Keepalive {
            on: true,
            idle: probes.idle.map(seconds),
            interval: probes.interval.map(seconds),
            count: probes.count,
        }),
        device: options.device.clone(),
        free_bind: options.free_bind,
        ..ListenOptions::default()
    }
}

fn bind_failure(one: &Wanted, error: &io::Error) -> Diagnostic {
    let cause = match error.raw_os_error() {
        Some(number) => format!("{number}: {}", nix::errno::Errno::from_raw(number).desc()),
        None => error.to_string(),
    };
    let title = match one.address {
        Address::Inherited(number) => format!("cannot use file descriptor '{number}' : {cause}"),
        _ => format!("bind() to {} failed ({cause})", one.address),
    };
    let found = Diagnostic::error("process::bind", title);
    let found = match one.origin {
        Some(span) => found.at(span),
        None => found,
    };
    match error.kind() {
        _ if matches!(one.address, Address::Inherited(_)) => found
            .help("whoever starts this process hands the socket over, open and listening, under this number"),
        io::ErrorKind::AddrInUse => {
            found.help("another program holds this address; stop it, or listen elsewhere")
        }
        io::ErrorKind::PermissionDenied => found
            .help("ports below net.ipv4.ip_unprivileged_port_start (1024) need root or CAP_NET_BIND_SERVICE"),
        io::ErrorKind::AddrNotAvailable => found.help("no interface of this machine has this address"),
        _ => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{SocketAddr, TcpListener, TcpStream};

    fn tcp(address: SocketAddr) -> Wanted {
        Wanted {
            name: address.to_string(),
            address: Address::Tcp(address),
            share: 0,
            options: SocketOptions::default(),
            origin: None,
        }
    }

    fn free() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
    }

    #[test]
    fn sockets_are_kept_by_address_and_only_grow() {
        let mut table = SocketTable::default();
        let wanted = [tcp(free())];
        let ids = |table: &mut SocketTable, workers| {
            let change = table.prepare(&wanted, workers, Contention::Refuse).unwrap();
            let listing = table.listing(&wanted, &change);
            table.commit(change);
            listing.listeners[0].sockets.iter().map(|s| s.id.0).collect::<Vec<_>>()
        };
        assert_eq!(ids(&mut table, 2), [1, 2]);
        assert_eq!(ids(&mut table, 1), [1, 2]);
        assert_eq!(ids(&mut table, 3), [1, 2, 3]);
    }

    #[test]
    fn a_port_of_another_program_refuses_the_whole_change() {
        let mut table = SocketTable::default();
        let held = TcpListener::bind("127.0.0.1:0").unwrap();
        let (ours, theirs) = (tcp(free()), tcp(held.local_addr().unwrap()));
        let Address::Tcp(address) = ours.address else { unreachable!() };
        let failures = table.prepare(&[ours.clone(), theirs], 2, Contention::Refuse).err().unwrap();
        assert_eq!(failures.len(), 1);
        assert!(failures[0].title.contains("98: "), "{}", failures[0].title);
        assert!(TcpStream::connect(address).is_err(), "nothing may be left listening");
        let change = table.prepare(std::slice::from_ref(&ours), 1, Contention::Refuse).unwrap();
        table.commit(change);
        assert!(TcpStream::connect(address).is_ok());
    }

    #[test]
    fn a_removed_listener_closes_and_a_general_one_may_join_a_special_one() {
        let mut table = SocketTable::default();
        let special = tcp(free());
        let Address::Tcp(address) = special.address else { unreachable!() };
        let general = tcp(SocketAddr::new("0.0.0.0".parse().unwrap(), address.port()));
        for wanted in [vec![special.clone()], vec![special.clone(), general.clone()], vec![general.clone()]] {
            let change = table.prepare(&wanted, 1, Contention::Refuse).unwrap();
            table.commit(change);
            assert!(TcpStream::connect(address).is_ok());
        }
        let change = table.prepare(&[], 1, Contention::Refuse).unwrap();
        table.commit(change);
        assert!(TcpStream::connect(address).is_err());
    }

    #[test]
    fn port_zero_gives_all_workers_the_same_port() {
        let table = SocketTable::default();
        let wanted = [tcp("127.0.0.1:0".parse().unwrap())];
        let change = table.prepare(&wanted, 3, Contention::Refuse).unwrap();
        let listing = table.listing(&wanted, &change);
        let ports: HashSet<_> =
            listing.listeners[0].sockets.iter().map(|socket| port_of(&socket.fd).unwrap()).collect();
        assert_eq!(ports.len(), 1);
    }

    #[test]
    fn unix_sockets_come_and_go_with_their_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let wanted = [Wanted {
            name: "u".into(),
            address: Address::Unix(path.clone()),
            share: 0,
            options: SocketOptions::default(),
            origin: None,
        }];
        let mut table = SocketTable::default();
        drop(table.prepare(&wanted, 2, Contention::Refuse).unwrap());
        assert!(!path.exists(), "a change that is not taken leaves no file");
        let change = table.prepare(&wanted, 2, Contention::Refuse).unwrap();
        assert_eq!(table.listing(&wanted, &change).listeners[0].sockets.len(), 1);
        table.commit(change);
        assert!(path.exists());
        let change = table.prepare(&[], 2, Contention::Refuse).unwrap();
        table.commit(change);
        assert!(!path.exists());
    }
}
