//! Whether sendfile(2) or a copy is the cheaper way for a file that is in memory anyway.
//!
//! Owns: one comparison in a process's life, over the loopback device, in CPU time of the thread that compares.
//! Driven by: the engine and `weir load serve` at their start; caches of files and pages ask for the verdict.
//! Why: it depends on the machine. Where the calls for each page are dear, sendfile costs 31 µs a 100 KB and a copy 12; where
//! they are not, 8 and 12. Neither guess does for both. Why CPU time: what others of the machine take meanwhile, or its host
//! takes from it, decides nothing then.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::OnceLock;
use std::time::Duration;

use crate::buf::PIECE;

/// What is sent, in bytes.
const SIZE: usize = 100 * 1024;

/// Times each way is gone; the cheapest counts: interrupts in between are charged to it, too.
const ROUNDS: usize = 24;

/// No call takes longer on a machine where the verdict could matter.
const PATIENCE: Duration = Duration::from_secs(1);

static COMPARED: OnceLock<SendfileCost> = OnceLock::new();

/// What 100 KB cost either way, in CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendfileCost {
    /// By a copy from memory.
    pub copy: Duration,
    /// By sendfile(2).
    pub sendfile: Duration,
}

impl SendfileCost {
    /// Whether sendfile is the cheaper way. Copies are made from a warm cache here, as they rarely are: a server has more
    /// than one file.
    pub fn sendfile_pays(self) -> bool {
        self.sendfile * 10 < self.copy * 14
    }
}

/// Compares the two ways in a thread of its own, in some milliseconds, and tells `done` of it; a process compares once.
/// Where that cannot be done copying stays.
pub fn compare_sendfile(done: impl FnOnce(io::Result<SendfileCost>) + Send + 'static) {
    if COMPARED.get().is_some() {
        return;
    }
    let comparison = || {
        let cost = compare();
        if let Ok(cost) = cost {
            let _ = COMPARED.set(cost);
        }
        done(cost);
    };
    let _ = std::thread::Builder::new().name("weir-sendfile".into()).spawn(comparison);
}

/// What the comparison came to; `None` until it is done, and where it cannot be done.
pub fn sendfile_cost() -> Option<SendfileCost> {
    COMPARED.get().copied()
}

/// Whether sendfile is the cheaper way. False until the comparison is done.
pub fn sendfile_pays() -> bool {
    sendfile_cost().is_some_and(SendfileCost::sendfile_pays)
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn compare() -> io::Result<SendfileCost> {
    let (mut sender, mut receiver) = pair()?;
    let bytes = vec![b'x'; SIZE];
    let mut file = File::from(rustix::fs::memfd_create("weir-sendfile", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all(&bytes)?;
    let mut room = vec![0; SIZE];
    let (mut copy, mut lent) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        let begun = cpu_time();
        for piece in bytes.chunks(PIECE) {
            sender.write_all(piece)?;
        }
        copy = copy.min(cpu_time().saturating_sub(begun));
        receiver.read_exact(&mut room)?;
        let (begun, mut offset) = (cpu_time(), 0);
        while offset < SIZE as u64 {
            let left = SIZE - offset as usize;
            if rustix::fs::sendfile(&sender, &file, Some(&mut offset), left)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        lent = lent.min(cpu_time().saturating_sub(begun));
        receiver.read_exact(&mut room)?;
    }
    Ok(SendfileCost { copy, sendfile: lent })
}

/// Two ends of a connection, with room for all that is sent at once.
fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    socket2::SockRef::from(&listener).set_recv_buffer_size(4 * SIZE)?;
    let sender = TcpStream::connect_timeout(&listener.local_addr()?, PATIENCE)?;
    let (receiver, peer) = listener.accept()?;
    if peer != sender.local_addr()? {
        return Err(io::Error::other("somebody else was faster"));
    }
    socket2::SockRef::from(&sender).set_send_buffer_size(4 * SIZE)?;
    sender.set_nodelay(true)?;
    sender.set_write_timeout(Some(PATIENCE))?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    Ok((sender, receiver))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_comparison_comes_to_an_end() {
        let cost = super::compare().expect("a loopback device");
        // Neither way is free, and neither takes the time that the thread only waits.
        for way in [cost.copy, cost.sendfile] {
            assert!(!way.is_zero() && way < super::PATIENCE, "{cost:?}");
        }
    }
}
