//! Whether sendfile(2) or a copy is the cheaper way for a file that is in memory anyway.
//!
//! Owns: one comparison in a process's life, over the loopback device.
//! Driven by: the engine and `weir load serve` at their start; caches of files and pages ask for the verdict.
//! Why: it depends on the machine. Where the calls for each page are dear, sendfile costs 31 µs a 100 KB and a copy 12; where
//! they are not, 8 and 12. Neither guess does for both.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::buf::PIECE;

/// What is sent, in bytes.
const SIZE: usize = 100 * 1024;

/// Times each way is gone; the fastest counts, so that other work on the machine does not.
const ROUNDS: usize = 24;

/// No call takes longer on a machine where the verdict could matter.
const PATIENCE: Duration = Duration::from_secs(1);

static PAYS: AtomicBool = AtomicBool::new(false);

/// Compares the two ways in a thread of its own, in some milliseconds. Where that cannot be done copying stays.
pub fn weigh_sendfile() {
    let weigh = || PAYS.store(compare().unwrap_or(false), Relaxed);
    let _ = std::thread::Builder::new().name("weir-weigh".into()).spawn(weigh);
}

/// Whether sendfile is the cheaper way. False until the comparison is done.
pub fn sendfile_pays() -> bool {
    PAYS.load(Relaxed)
}

fn compare() -> io::Result<bool> {
    let (mut sender, mut receiver) = pair()?;
    let bytes = vec![b'x'; SIZE];
    let mut file = File::from(rustix::fs::memfd_create("weir-weigh", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all(&bytes)?;
    let mut room = vec![0; SIZE];
    let (mut copied, mut lent) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        for piece in bytes.chunks(PIECE) {
            sender.write_all(piece)?;
        }
        copied = copied.min(begun.elapsed());
        receiver.read_exact(&mut room)?;
        let (begun, mut offset) = (Instant::now(), 0);
        while offset < SIZE as u64 {
            let left = SIZE - offset as usize;
            if rustix::fs::sendfile(&sender, &file, Some(&mut offset), left)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        lent = lent.min(begun.elapsed());
        receiver.read_exact(&mut room)?;
    }
    // Copies are made from a warm cache here, as they rarely are: a server has more than one file.
    Ok(lent * 10 < copied * 14)
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
        super::compare().expect("a loopback device");
    }
}
