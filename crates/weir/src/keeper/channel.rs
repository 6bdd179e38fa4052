//! Orders from the keeper to the data plane.
//!
//! Owns: the orders, and packets with descriptors on a socket pair that keeps message borders.
//! Never: sends a packet over [`MAX_PACKET`] bytes or [`MAX_FDS`] descriptors (large things travel in a memory file);
//! waits for a data plane that does not read: what it does not take waits in the [`Outbox`].
//! Driven by: `keeper::child` sends, `keeper::plane` receives. The way back is a pipe: see `keeper::replies`.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType, recvmsg, sendmsg, shutdown,
    socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::launch::Launch;
use crate::life::privileges::Identity;
use crate::life::sockets::SocketId;

/// Most bytes of one packet.
const MAX_PACKET: usize = 64 << 10;

/// Most descriptors of one packet; the kernel's own bound is 253.
pub(crate) const MAX_FDS: usize = 64;

/// Most packets that wait for a data plane. A configuration with 10,000 sockets needs 840.
const MAX_WAITING: usize = 4096;

/// From the keeper.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToPlane {
    /// The first: whom to become and what was asked for at start. With it comes the pipe for replies.
    Begin { identity: Box<Identity>, launch: Box<Launch>, open_files: u64 },
    /// Descriptors that the next message uses, named in their order.
    Descriptors(Vec<Named>),
    /// Compile the parcel and change over.
    Apply { generation: u64 },
    /// Use the log files that came before.
    Reopen,
    /// Take no new connections and end.
    Drain { deadline: Option<Duration> },
    /// End.
    Stop,
    /// Write a status line to standard error.
    Status,
}

/// What a descriptor is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Named {
    Socket(SocketId),
    Log(PathBuf),
    Parcel,
    /// What standard error is from now on (after a start in the background, and when logs are opened again).
    Stderr,
}

/// One end.
pub(crate) struct Channel {
    fd: OwnedFd,
}

impl Channel {
    /// The keeper's end and the data plane's. Neither survives an exec by itself, and nothing can be sent back: not even
    /// descriptors, which the keeper would have to close (closing a socket can take as long as its owner likes).
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        shutdown(&a, Shutdown::Read)?;
        Ok((Self { fd: a }, Self { fd: b }))
    }

    /// An end that was inherited.
    pub(crate) fn from_fd(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// The descriptor, to hand to a child.
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// Sends one packet; `WouldBlock` if the other side has too many unread.
    fn try_send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(io::Error::other("no room for descriptors"));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        loop {
            match sendmsg(&self.fd, &[IoSlice::new(bytes)], &mut ancillary, flags) {
                Err(rustix::io::Errno::INTR) => {}
                other => return Ok(other.map(drop)?),
            }
        }
    }

    /// Takes one message; `WouldBlock` if there is none yet, `None` once the other side is gone.
    pub(crate) fn try_receive<M: DeserializeOwned>(&self) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let mut buffer = vec![0; MAX_PACKET];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            match recvmsg(&self.fd, &mut [IoSliceMut::new(&mut buffer)], &mut ancillary, flags) {
                Err(rustix::io::Errno::INTR) => {}
                // The other side died with messages of ours unread.
                Err(rustix::io::Errno::CONNRESET) => return Ok(None),
                other => break other?,
            }
        };
        if received.bytes == 0 {
            return Ok(None);
        }
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a packet over its bounds"));
        }
        let mut fds = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        Ok(Some((read(&buffer[..received.bytes])?, fds)))
    }
}

/// The message of a packet.
pub(crate) fn read<M: DeserializeOwned>(packet: &[u8]) -> io::Result<M> {
    Ok(serde_json::from_slice(packet)?)
}

/// Good packets, for fuzz drivers.
pub(crate) fn samples() -> Vec<Vec<u8>> {
    let launch = Launch::new(crate::launch::Manner::Weir, crate::launch::Sourcing::default());
    let identity = Identity {
        uid: 65534,
        gid: 65534,
        groups: vec![4, 65534],
        chroot: Some("/var/empty".into()),
        working_directory: None,
        transparent: true,
    };
    let orders = [
        ToPlane::Begin { identity: Box::new(identity), launch: Box::new(launch), open_files: 1024 },
        ToPlane::Descriptors(vec![Named::Log("/var/log/a".into()), Named::Parcel, Named::Stderr]),
        ToPlane::Apply { generation: 7 },
        ToPlane::Drain { deadline: Some(Duration::from_secs(30)) },
        ToPlane::Reopen,
        ToPlane::Stop,
        ToPlane::Status,
    ];
    orders.iter().filter_map(|order| serde_json::to_vec(order).ok()).collect()
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The keeper's end, and what the data plane has not taken yet, in order.
pub(crate) struct Outbox {
    channel: Channel,
    waiting: VecDeque<Packet>,
    /// Since when nothing has been taken.
    stuck: Option<Instant>,
}

struct Packet {
    bytes: Vec<u8>,
    fds: Vec<OwnedFd>,
}

impl Outbox {
    pub(crate) fn new(channel: Channel) -> Self {
        Self { channel, waiting: VecDeque::new(), stuck: None }
    }

    /// Sends one message, or keeps it (and copies of its descriptors) until the data plane reads.
    pub(crate) fn send<M: Serialize>(&mut self, message: &M, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        if bytes.len() > MAX_PACKET || fds.len() > MAX_FDS {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the message is too large for one packet",
            ));
        }
        if self.waiting.is_empty() {
            match self.channel.try_send(&bytes, fds) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return sent,
            }
        }
        if self.waiting.len() == MAX_WAITING {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "too many messages wait for it"));
        }
        let fds = fds.iter().map(|fd| fd.try_clone_to_owned()).collect::<io::Result<_>>()?;
        self.stuck.get_or_insert_with(Instant::now);
        self.waiting.push_back(Packet { bytes, fds });
        Ok(())
    }

    /// Sends what waits, as far as it is taken.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while let Some(packet) = self.waiting.front() {
            let fds: Vec<_> = packet.fds.iter().map(AsFd::as_fd).collect();
            match self.channel.try_send(&packet.bytes, &fds) {
                Ok(()) => self.stuck = Some(Instant::now()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
            self.waiting.pop_front();
        }
        self.stuck = None;
        Ok(())
    }

    /// When the data plane last took a message, if others wait.
    pub(crate) fn stuck_since(&self) -> Option<Instant> {
        self.stuck
    }
}

impl AsFd for Outbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    fn pair() -> (Outbox, Channel) {
        let (keeper, plane) = Channel::pair().unwrap();
        (Outbox::new(keeper), plane)
    }

    #[test]
    fn messages_and_descriptors_arrive_together() {
        let (mut a, b) = pair();
        let (mut read, write) = io::pipe().unwrap();
        a.send(&ToPlane::Descriptors(vec![Named::Parcel]), &[write.as_fd()]).unwrap();
        a.send(&ToPlane::Stop, &[]).unwrap();
        drop(write);
        let (message, fds) = b.try_receive::<ToPlane>().unwrap().unwrap();
        assert!(matches!(message, ToPlane::Descriptors(names) if names == [Named::Parcel]));
        let [fd] = <[OwnedFd; 1]>::try_from(fds).unwrap();
        std::fs::File::from(fd).write_all(b"x").unwrap();
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
        assert!(matches!(b.try_receive::<ToPlane>().unwrap(), Some((ToPlane::Stop, _))));
        drop(a);
        assert!(b.try_receive::<ToPlane>().unwrap().is_none());
    }

    #[test]
    fn nothing_can_be_sent_back() {
        let (_a, b) = pair();
        let error = b.try_send(b"{}", &[std::io::stdin().as_fd()]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn nonsense_is_an_error_and_no_panic() {
        let (mut a, b) = pair();
        a.send(&"rubbish", &[]).unwrap();
        assert!(b.try_receive::<ToPlane>().is_err());
        assert!(b.try_receive::<ToPlane>().is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock));
        let long = "x".repeat(MAX_PACKET);
        assert!(a.send(&long, &[]).is_err());
    }

    #[test]
    fn what_is_not_read_waits_in_order_and_within_a_bound() {
        let (mut a, b) = pair();
        let (_read, write) = io::pipe().unwrap();
        // Far more than a socket holds; no call waits, or this test would.
        let mut sent = 0;
        while a.send(&ToPlane::Apply { generation: sent }, &[write.as_fd()]).is_ok() {
            sent += 1;
        }
        assert!(sent > MAX_WAITING as u64 && a.stuck_since().is_some());
        for expected in 0..sent {
            let (message, fds) = b.try_receive::<ToPlane>().unwrap().unwrap();
            assert!(matches!(message, ToPlane::Apply { generation } if generation == expected));
            assert_eq!(fds.len(), 1);
            a.flush().unwrap();
        }
        assert!(a.stuck_since().is_none());
    }
}
