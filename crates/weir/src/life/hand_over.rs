//! Listening sockets that one process gives to the one that takes its place (HAProxy's `-x` and `expose-fd listeners`).
//!
//! Owns: both sides of what is said on a `stats socket` then.
//! Never: decides which sockets there are, or which are of use.
//! Driven by: `life::start`, which asks a process before it; `console`, which answers one after it.
//! Why: the sockets themselves change hands, and with them whoever waits in their queues: nobody is refused or reset.
//!
//! ```text
//!   new process            old process, which has to have `expose-fd listeners`
//!   "_getsocks\n"  ──→
//!                  ←──     how many there are, 4 bytes
//!                  ←──     SCM_RIGHTS with at most 252 of them, and six bytes for each
//!   how many came  ──→     after each message; waited for after those that are full
//! ```

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// The command.
pub(crate) const COMMAND: &str = "_getsocks";

/// HAProxy's most in a message; and the kernel's.
const AT_ONCE: usize = 252;
const MOST_AT_ONCE: usize = 253;

/// What stands beside each: no name of a namespace, none of an interface, no options.
const BESIDE_EACH: usize = 6;

/// More than that are no sockets of a proxy.
const MOST: usize = 1 << 16;

/// How long the other side may take for a step.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks the process that answers at `place`: a path, `unix@` with one, or `abns@` with a name. `/dev/null`: none is asked.
pub(crate) fn ask(place: &str) -> io::Result<Vec<OwnedFd>> {
    if place == "/dev/null" {
        return Ok(Vec::new());
    }
    let mut stream = match place.strip_prefix("abns@") {
        Some(name) => {
            // HAProxy gives the kernel the whole field.
            let mut field = name.as_bytes().to_vec();
            field.resize(field.len().max(107), 0);
            UnixStream::connect_addr(&SocketAddr::from_abstract_name(field)?)?
        }
        None => UnixStream::connect(place.strip_prefix("unix@").unwrap_or(place))?,
    };
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{COMMAND}\n").as_bytes())?;
    let mut count = [0; 4];
    stream.read_exact(&mut count).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            io::Error::other("it gives none: its socket needs `expose-fd listeners`")
        }
        _ => error,
    })?;
    let count = usize::try_from(i32::from_ne_bytes(count)).ok().filter(|count| *count <= MOST);
    let count = count.ok_or_else(|| io::Error::other("it speaks another language"))?;
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        let before = all.len();
        let bytes = take(&stream, &mut all)?;
        if bytes == 0 || all.len() > count {
            return Err(io::Error::other(format!("{} of {count} sockets came", all.len())));
        }
        // What stands beside them may come in pieces.
        if all.len() > before {
            let came = i32::try_from(all.len()).unwrap_or(i32::MAX);
            // After the last one nobody may listen any more.
            let _ = stream.write_all(&came.to_ne_bytes());
        }
    }
    Ok(all)
}

fn take(stream: &UnixStream, all: &mut Vec<OwnedFd>) -> io::Result<usize> {
    // Names are at most a path's and an interface's.
    let mut bytes = vec![0; MOST_AT_ONCE * 4200];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_AT_ONCE))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(stream, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?,
        }
    };
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            all.extend(rights);
        }
    }
    Ok(received.bytes)
}

/// Gives these to whoever asked.
pub(crate) fn give(stream: &mut UnixStream, sockets: &[Arc<OwnedFd>]) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let count = i32::try_from(sockets.len()).unwrap_or(i32::MAX);
    stream.write_all(&count.to_ne_bytes())?;
    for some in sockets.chunks(AT_ONCE) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_AT_ONCE))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let rights: Vec<BorrowedFd<'_>> = some.iter().map(|fd| fd.as_fd()).collect();
        if !ancillary.push(SendAncillaryMessage::ScmRights(&rights)) {
            return Err(io::Error::other("no room for descriptors"));
        }
        let beside = vec![0; some.len() * BESIDE_EACH];
        let sent = loop {
            match sendmsg(&*stream, &[IoSlice::new(&beside)], &mut ancillary, SendFlags::NOSIGNAL) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other?,
            }
        };
        stream.write_all(&beside[sent..])?;
        if some.len() == AT_ONCE {
            stream.read_exact(&mut [0; 4])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};
    use std::os::unix::net::UnixListener;

    #[test]
    fn sockets_change_hands_in_as_many_messages_as_it_takes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let at = UnixListener::bind(&path).unwrap();
        let one = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = one.local_addr().unwrap();
        let one = Arc::new(OwnedFd::from(one));
        let old = std::thread::spawn(move || {
            for count in [300, 1, 0] {
                let (mut stream, _) = at.accept().unwrap();
                let mut asked = [0; COMMAND.len() + 1];
                stream.read_exact(&mut asked).unwrap();
                assert_eq!(asked[..], *b"_getsocks\n");
                give(&mut stream, &vec![one.clone(); count]).unwrap();
            }
            // One that does not give any.
            drop(at.accept().unwrap());
        });
        for count in [300, 1, 0] {
            let came = ask(&path.display().to_string()).unwrap();
            assert_eq!(came.len(), count);
            assert!(came.into_iter().all(|fd| TcpListener::from(fd).local_addr().unwrap() == address));
        }
        assert!(ask(&format!("unix@{}", path.display())).is_err());
        assert!(ask("/dev/null").unwrap().is_empty());
        old.join().unwrap();
    }
}
