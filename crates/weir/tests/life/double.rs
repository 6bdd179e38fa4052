//! A data plane that answers every connection with one line about itself, and keeps the contract of `DataPlane`.
//!
//! Driven by: the tests in this folder; it stands for the engine where only the life around it is tested.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::takeover;
use weir::plane::{DataPlane, LogFiles, Options, SocketId, Update};

/// The next `reopen_logs` never returns.
pub(crate) static DEAF: AtomicBool = AtomicBool::new(false);

/// What a connection is told, and where it is written down.
#[derive(Default)]
struct Facts {
    line: String,
    log: Option<Arc<File>>,
}

#[derive(Default)]
struct Double {
    facts: Arc<Mutex<Facts>>,
    acceptors: Mutex<HashMap<SocketId, Acceptor>>,
    stopped: Arc<AtomicBool>,
}

struct Acceptor {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// The start that `weir::main_with` takes.
pub(crate) fn start(_: Options) -> Result<Box<dyn DataPlane>, String> {
    Ok(Box::new(Double::default()))
}

/// `generation=2 pid=7 uid=0 workers=2 sockets=1+2 keys=-----BEGIN…`, and what of the plan the tests look at.
fn describe(update: &Update) -> String {
    let sockets: Vec<String> =
        update.sockets.listeners.iter().map(|one| one.sockets.len().to_string()).collect();
    let uid =
        std::fs::metadata("/proc/self").map_or(u32::MAX, |meta| std::os::unix::fs::MetadataExt::uid(&meta));
    let certificates: usize = update.plan.tls.iter().map(|identity| identity.certificates.len()).sum();
    let pools: Vec<String> =
        update.plan.pools.iter().map(|pool| format!("{}:{}", pool.name, pool.set.endpoints.len())).collect();
    format!(
        "generation={} pid={} uid={uid} workers={} sockets={} certificates={certificates} pools={}",
        update.generation,
        std::process::id(),
        update.workers,
        sockets.join("+"),
        pools.join(","),
    )
}

impl DataPlane for Double {
    fn apply(&self, update: Update) -> Result<(), String> {
        let wanted: HashMap<SocketId, Arc<OwnedFd>> = update
            .sockets
            .listeners
            .iter()
            .flat_map(|one| &one.sockets)
            .map(|socket| (socket.id, Arc::clone(&socket.fd)))
            .collect();
        *self.facts.lock().unwrap() = Facts {
            line: describe(&update),
            log: update
                .logs
                .iter()
                .find(|(path, _)| path.ends_with("access.log"))
                .map(|(_, file)| Arc::clone(file)),
        };
        let mut acceptors = self.acceptors.lock().unwrap();
        for (_, gone) in acceptors.extract_if(|id, _| !wanted.contains_key(id)) {
            gone.ends.store(true, Ordering::Relaxed);
            let _ = gone.thread.join();
        }
        for (id, fd) in wanted {
            acceptors.entry(id).or_insert_with(|| accept(&fd, &self.facts, &self.stopped));
        }
        Ok(())
    }

    fn reopen_logs(&self, logs: LogFiles) {
        while DEAF.load(Ordering::Relaxed) {
            std::thread::park();
        }
        let log =
            logs.iter().find(|(path, _)| path.ends_with("access.log")).map(|(_, file)| Arc::clone(file));
        self.facts.lock().unwrap().log = log;
    }

    fn drain(&self, _: Option<Duration>) {
        for (_, acceptor) in self.acceptors.lock().unwrap().drain() {
            acceptor.ends.store(true, Ordering::Relaxed);
            let _ = acceptor.thread.join();
        }
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn status(&self) -> String {
        "the double is well".into()
    }
}

fn accept(fd: &OwnedFd, facts: &Arc<Mutex<Facts>>, stopped: &Arc<AtomicBool>) -> Acceptor {
    let listener = Listener::from(fd.try_clone().unwrap());
    let (ends, facts, stopped) = (Arc::new(AtomicBool::new(false)), Arc::clone(facts), Arc::clone(stopped));
    let end = Arc::clone(&ends);
    let thread = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            match listener.accept() {
                Some(mut stream) => answer(&mut *stream, &facts.lock().unwrap()),
                None if end.load(Ordering::Relaxed) => return,
                // A double may nap; nothing waits for it but this test.
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    });
    Acceptor { ends, thread }
}

fn answer(stream: &mut (impl Read + Write + ?Sized), facts: &Facts) {
    let mut request = [0; 4096];
    let count = stream.read(&mut request).unwrap_or(0);
    let path = String::from_utf8_lossy(&request[..count]).split(' ').nth(1).map(str::to_owned);
    let deed = path.and_then(|path| takeover::commit(&path));
    let line = deed.as_ref().unwrap_or(&facts.line);
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{line}",
        line.len()
    );
    if let Some(mut log) = facts.log.as_deref() {
        let _ = writeln!(log, "{line}");
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

trait Duplex: Read + Write {}
impl<T: Read + Write> Duplex for T {}

impl From<OwnedFd> for Listener {
    fn from(fd: OwnedFd) -> Self {
        match rustix::net::sockopt::socket_domain(&fd) {
            Ok(rustix::net::AddressFamily::UNIX) => Self::Unix(fd.into()),
            _ => Self::Tcp(fd.into()),
        }
    }
}

impl Listener {
    fn accept(&self) -> Option<Box<dyn Duplex>> {
        match self {
            Self::Tcp(listener) => listener.accept().ok().map(|(stream, _)| {
                stream.set_nonblocking(false).unwrap();
                Box::new(stream) as Box<dyn Duplex>
            }),
            Self::Unix(listener) => listener.accept().ok().map(|(stream, _)| {
                stream.set_nonblocking(false).unwrap();
                Box::new(stream) as Box<dyn Duplex>
            }),
        }
    }
}
