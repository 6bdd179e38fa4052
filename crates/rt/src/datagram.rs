//! Datagrams as the kernel hands them over: many in one call, each with its addresses.
//!
//! Owns: the memory they are read into, and reading and writing control messages.
//! Never: opens or registers a socket; `udp` does.
//! Driven by: `udp`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Most datagrams that are read in one call.
pub const BATCH: usize = 16;

/// The longest datagram of IPv4 and IPv6.
const LONGEST: usize = 65_535;

/// Room for control messages: an address, and how to cut.
const CONTROL: usize = 96;

/// A datagram in a [`Batch`].
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Its payload.
    pub data: &'a [u8],
    /// Who sent it.
    pub from: SocketAddr,
    /// To which of our addresses, where the socket is bound to all of them.
    pub to: Option<IpAddr>,
}

/// Memory for control messages, aligned as they have to be.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct Control([u8; CONTROL]);

impl Default for Control {
    fn default() -> Self {
        Self([0; CONTROL])
    }
}

impl Control {
    pub(crate) fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        self.0.as_mut_ptr().cast()
    }

    /// Makes it say from which address a datagram for `to` is sent; how long it then is.
    pub(crate) fn set_source(&mut self, from: IpAddr, to: SocketAddr) -> usize {
        match (from, to) {
            (IpAddr::V4(from), SocketAddr::V4(_)) => {
                let info = libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: libc::in_addr { s_addr: u32::from_ne_bytes(from.octets()) },
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                self.write(libc::IPPROTO_IP, libc::IP_PKTINFO, info)
            }
            (from, _) => {
                let from = match from {
                    IpAddr::V4(from) => from.to_ipv6_mapped(),
                    IpAddr::V6(from) => from,
                };
                let info = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr { s6_addr: from.octets() },
                    ipi6_ifindex: 0,
                };
                self.write(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info)
            }
        }
    }

    /// Adds how the content is to be cut into datagrams, behind `length` bytes; how long it then is.
    pub(crate) fn add_segments(&mut self, length: usize, size: u16) -> usize {
        self.write_at(length, libc::SOL_UDP, libc::UDP_SEGMENT, size)
    }

    /// Writes one message with this content; how long it is.
    fn write<T: Copy>(&mut self, level: libc::c_int, kind: libc::c_int, content: T) -> usize {
        self.write_at(0, level, kind, content)
    }

    /// Writes a message behind others; how long all are.
    fn write_at<T: Copy>(&mut self, at: usize, level: libc::c_int, kind: libc::c_int, content: T) -> usize {
        let header = size_of::<libc::cmsghdr>();
        assert!(
            at + header + size_of::<T>() <= CONTROL && header.is_multiple_of(align_of::<libc::cmsghdr>())
        );
        assert!(at.is_multiple_of(align_of::<libc::cmsghdr>()));
        // SAFETY: all zeros is a header, and every field is written below.
        let mut message: libc::cmsghdr = unsafe { std::mem::zeroed() };
        message.cmsg_len = (header + size_of::<T>()) as _;
        message.cmsg_level = level;
        message.cmsg_type = kind;
        // SAFETY: both fit, as was just checked; the memory is aligned for the first and the second is written unaligned.
        unsafe {
            let at = self.0.as_mut_ptr().add(at);
            at.cast::<libc::cmsghdr>().write(message);
            at.add(header).cast::<T>().write_unaligned(content);
        }
        // With the padding that CMSG_SPACE counts.
        at + (header + size_of::<T>()).next_multiple_of(size_of::<usize>())
    }

    /// The address that a received datagram was sent to, if the first of `length` bytes say so.
    fn destination(&self, length: usize) -> Option<IpAddr> {
        let header = size_of::<libc::cmsghdr>();
        let length = length.min(CONTROL);
        if length < header {
            return None;
        }
        // SAFETY: the memory is aligned for a header and holds one, of plain numbers.
        let message = unsafe { self.0.as_ptr().cast::<libc::cmsghdr>().read() };
        let content = self.0.get(header..message.cmsg_len.min(length))?;
        match (message.cmsg_level, message.cmsg_type) {
            // struct in_pktinfo: the interface, the local address, the address of the header.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let octets: [u8; 4] = content.get(8..12)?.try_into().ok()?;
                Some(Ipv4Addr::from(octets).into())
            }
            // struct in6_pktinfo: the address, the interface.
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let octets: [u8; 16] = content.get(..16)?.try_into().ok()?;
                Some(Ipv6Addr::from(octets).into())
            }
            _ => None,
        }
    }
}

/// An address in the kernel's form.
pub(crate) fn sock_addr(addr: SocketAddr) -> socket2::SockAddr {
    addr.into()
}

/// Datagrams that were read in one call. Its memory is taken from the system as it is used.
pub struct Batch {
    /// Payloads, each in its part of [`LONGEST`] bytes.
    bytes: Vec<u8>,
    names: [libc::sockaddr_storage; BATCH],
    controls: [Control; BATCH],
    heard: Vec<Heard>,
}

/// What is known of one datagram.
struct Heard {
    length: usize,
    from: SocketAddr,
    to: Option<IpAddr>,
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl Batch {
    /// An empty one.
    pub fn new() -> Self {
        Self {
            bytes: vec![0; BATCH * LONGEST],
            // SAFETY: all zeros is an address of no family.
            names: [unsafe { std::mem::zeroed() }; BATCH],
            controls: [Control::default(); BATCH],
            heard: Vec::with_capacity(BATCH),
        }
    }

    /// The datagrams, in the order they came.
    pub fn iter(&self) -> impl Iterator<Item = Datagram<'_>> {
        let parts = self.bytes.chunks_exact(LONGEST);
        self.heard.iter().zip(parts).map(|(heard, part)| Datagram {
            data: &part[..heard.length],
            from: heard.from,
            to: heard.to,
        })
    }

    /// Reads what has arrived; how many datagrams that was. Those without an address of a peer are empty and from nobody.
    pub(crate) fn fill(&mut self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        self.heard.clear();
        let mut pieces: [libc::iovec; BATCH] = std::array::from_fn(|n| libc::iovec {
            iov_base: self.bytes[n * LONGEST..].as_mut_ptr().cast(),
            iov_len: LONGEST,
        });
        // SAFETY: all zeros is a message without anything.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for (n, message) in messages.iter_mut().enumerate() {
            let header = &mut message.msg_hdr;
            header.msg_name = std::ptr::from_mut(&mut self.names[n]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_iov = &mut pieces[n];
            header.msg_iovlen = 1;
            header.msg_control = self.controls[n].as_mut_ptr();
            header.msg_controllen = CONTROL as _;
        }
        // SAFETY: every message points at memory of its own in `self` and `pieces`, with its length; all outlive the call.
        let count = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                messages.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        for (n, message) in messages.iter().enumerate().take(count) {
            let from = peer(&self.names[n]);
            self.heard.push(Heard {
                length: (message.msg_len as usize).min(LONGEST),
                from: from.unwrap_or_else(|| SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0)),
                to: self.controls[n].destination(message.msg_hdr.msg_controllen),
            });
        }
        Ok(count)
    }
}

/// An address from the kernel's form.
fn peer(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let at = std::ptr::from_ref(name);
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: an address of this family, in memory that is large enough and aligned for every family.
            let v4 = unsafe { at.cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { at.cast::<libc::sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let (flow, scope) = (v6.sin6_flowinfo, v6.sin6_scope_id);
            Some(std::net::SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), flow, scope).into())
        }
        _ => None,
    }
}
