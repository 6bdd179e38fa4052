//! What a data plane does once somebody has taken it over: it is asked for by a request's path.
//!
//! Driven by: the double, in the real process with the real rights and descriptors of a data plane.

use std::fs::File;
use std::io::{IoSlice, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// Does what the path says, and tells how it went; `None` for any other path.
pub(crate) fn commit(path: &str) -> Option<String> {
    match path {
        "/flood" => Some(spawn(|pipe| {
            let forged = b"{\"Status\":\"fine\\n2026/01/01 00:00:00 [emerg] forged\"}\n";
            while pipe.write_all(forged).is_ok() {}
        })),
        "/endless" => Some(spawn(|pipe| while pipe.write_all(&[b' '; 4096]).is_ok() {})),
        "/descriptors" => Some(send_descriptors()),
        "/deaf" => Some(stop_the_control_thread()),
        "/powers" => Some(powers()),
        _ => None,
    }
}

/// Runs `deed` on the pipe to the keeper. The answer to the request comes first, or not at all.
fn spawn(deed: impl FnOnce(&mut File) + Send + 'static) -> String {
    let mut pipe = File::from(pipe_to_keeper());
    std::thread::spawn(move || {
        // A double may nap: the answer to the request leaves meanwhile; nothing depends on it.
        std::thread::sleep(Duration::from_millis(20));
        deed(&mut pipe);
    });
    "deed=done".into()
}

/// The only pipe of this process, but for the standard streams, that it writes to.
fn pipe_to_keeper() -> OwnedFd {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let number = |path: &std::path::Path| path.file_name().unwrap().to_str().unwrap().parse::<i32>().unwrap();
    let mut pipes = entries.filter(|path| {
        let is_pipe =
            std::fs::read_link(path).is_ok_and(|target| target.to_string_lossy().starts_with("pipe:"));
        let number = number(path);
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or("0");
        is_pipe && number > 2 && u32::from_str_radix(flags.trim(), 8).is_ok_and(|flags| flags & 3 == 1)
    });
    copy(number(&pipes.next().expect("a pipe to the keeper"))).unwrap()
}

/// Tries to hand the keeper a descriptor on every unix socket there is.
fn send_descriptors() -> String {
    let mut told = Vec::new();
    for number in 3..64 {
        let Ok(copy) = copy(number) else { continue };
        if rustix::net::sockopt::socket_domain(&copy) != Ok(rustix::net::AddressFamily::UNIX) {
            continue;
        }
        let stdin = std::io::stdin();
        told.push(match send(copy.as_fd(), stdin.as_fd()) {
            Ok(()) => "sent".to_owned(),
            Err(error) => error.to_string(),
        });
    }
    format!("deed={}", told.join("+"))
}

/// A copy of a descriptor by its number, without `unsafe`. By its name in /proc a socket, or root's pipe, cannot be had.
fn copy(number: i32) -> rustix::io::Result<OwnedFd> {
    let own = rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty())?;
    rustix::process::pidfd_getfd(own, number, rustix::process::PidfdGetfdFlags::empty())
}

fn send(socket: BorrowedFd<'_>, fd: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(b"{}")], &mut ancillary, flags).map(drop)
}

/// From now on nobody reads what the keeper sends: the double's next word to the control thread never ends.
fn stop_the_control_thread() -> String {
    crate::double::DEAF.store(true, std::sync::atomic::Ordering::Relaxed);
    "deed=done".into()
}

/// What this process may still do.
fn powers() -> String {
    let can = |name: &str, able: bool| format!("{name}={}", if able { "yes" } else { "no" });
    let family = |family| rustix::net::socket(family, rustix::net::SocketType::RAW, None);
    let parent = rustix::process::getppid().unwrap();
    [
        can("execute", Command::new("/bin/true").status().is_ok()),
        can("packets", family(rustix::net::AddressFamily::PACKET).err() != Some(rustix::io::Errno::NOSYS)),
        can("trace", pidfd_of(parent).is_ok()),
        can("thread", std::thread::spawn(|| ()).join().is_ok()),
        can("file", std::fs::read("/etc/passwd").is_ok()),
        can(
            "connect",
            std::net::TcpStream::connect("127.0.0.1:1")
                .is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused),
        ),
    ]
    .join(" ")
}

fn pidfd_of(pid: rustix::process::Pid) -> rustix::io::Result<OwnedFd> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
}
