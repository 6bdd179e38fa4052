//! What the process has open, as `show fd` shows it.
//!
//! Owns: the words about each descriptor.
//! Never: keeps one open, or looks at what is in it.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;

use rustix::net::{SocketType, sockopt};
use weir_admin::cli::Descriptor;
use weir_rt::{PeerAddr, listen_addr};

/// Numbers that are looked at where there is no /proc.
const MOST: u32 = 4096;

/// All of them, by number.
pub(super) fn all() -> Vec<Descriptor> {
    let listed = std::fs::read_dir("/proc/self/fd").map(|entries| {
        let number =
            |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
        entries.filter_map(number).collect::<Vec<u32>>()
    });
    let mut numbers = listed.unwrap_or_else(|_| (0..MOST).collect());
    numbers.sort_unstable();
    let one = |number: u32| {
        let raw = i32::try_from(number).ok()?;
        let about = weir_rt::confine::with_inherited(raw, about).ok()?;
        let link = || std::fs::read_link(PathBuf::from(format!("/proc/self/fd/{number}"))).ok();
        let about =
            about.or_else(|| Some(link()?.display().to_string())).unwrap_or_else(|| "open".to_owned());
        Some(Descriptor { number, about })
    };
    numbers.into_iter().filter_map(one).collect()
}

/// Of a socket; nothing else tells what it is.
fn about(fd: BorrowedFd<'_>) -> Option<String> {
    let kind = sockopt::socket_type(fd).ok()?;
    let listens = sockopt::socket_acceptconn(fd).unwrap_or(false);
    let state = if listens { "l.st=RDY " } else { "" };
    let kind = if kind == SocketType::DGRAM { " dgram" } else { "" };
    Some(match listen_addr(fd.as_fd()) {
        Ok(PeerAddr::Inet(at)) if at.is_ipv4() => format!("{state}fam=ipv4 lport={}{kind}", at.port()),
        Ok(PeerAddr::Inet(at)) => format!("{state}fam=ipv6 lport={}{kind}", at.port()),
        Ok(PeerAddr::Unix(Some(path))) => format!("{state}fam=unix path={}{kind}", path.display()),
        _ => format!("{state}fam=unix{kind}"),
    })
}
