//! Messages between keeper and data plane.
//!
//! Owns: the messages, and packets with descriptors on a socket pair that keeps message borders.
//! Never: sends a packet over [`MAX_PACKET`] bytes or [`MAX_FDS`] descriptors; large things travel in a memory file.
//! Driven by: `keeper::child`, `keeper::plane`.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
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

/// From the keeper.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToPlane {
    /// The first: whom to become and what was asked for at start.
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
}

/// From the data plane.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromPlane {
    /// Privileges are dropped.
    Ready,
    /// This generation serves.
    Applied { generation: u64 },
    /// It does not, and the one before still does.
    Refused { generation: u64, reason: String },
    /// Nothing is left to serve.
    Drained,
    /// An answer to `Status`.
    Status(String),
}

/// One end.
pub(crate) struct Channel {
    fd: OwnedFd,
}

impl Channel {
    /// Both ends. Neither survives an exec by itself.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
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

    /// Sends fail if the other side does not take them for this long.
    pub(crate) fn set_send_timeout(&self, timeout: Duration) -> io::Result<()> {
        use rustix::net::sockopt::{Timeout, set_socket_timeout};
        Ok(set_socket_timeout(&self.fd, Timeout::Send, Some(timeout))?)
    }

    /// Sends one message.
    pub(crate) fn send<M: Serialize>(&self, message: &M, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        if bytes.len() > MAX_PACKET || fds.len() > MAX_FDS {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the message is too large for one packet",
            ));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(io::Error::other("no room for descriptors"));
        }
        loop {
            match sendmsg(&self.fd, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL) {
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
        Ok(Some((serde_json::from_slice(&buffer[..received.bytes])?, fds)))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn messages_and_descriptors_arrive_together() {
        let (a, b) = Channel::pair().unwrap();
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
    fn nonsense_is_an_error_and_no_panic() {
        let (a, b) = Channel::pair().unwrap();
        a.send(&"rubbish", &[]).unwrap();
        assert!(b.try_receive::<FromPlane>().is_err());
        assert!(b.try_receive::<FromPlane>().is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock));
        let long = "x".repeat(MAX_PACKET);
        assert!(a.send(&long, &[]).is_err());
    }
}
