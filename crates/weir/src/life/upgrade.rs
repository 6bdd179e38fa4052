//! Another program in the place of this one, on the same sockets (nginx.org/en/docs/control.html).
//!
//! Owns: the new process, the names of the pid files meanwhile; in the new process, the sockets that it was given.
//! Never: ends either process: whoever replaces a program tells the old one when to go.
//! Driven by: `life::master`, at USR2 and when a child ends; `life::start`, in the new process.
//! Why: both accept from the same sockets, so that no connection is refused or reset in between, and either can be
//! the one that stays.
//!
//! ```text
//!   serving ──USR2──→ pid file becomes .oldbin, the new process starts and writes its own
//!      ↑                │ QUIT, or WINCH and later QUIT: the new one stays
//!      └── it ended ────┘ its pid file is ours again; HUP brings the workers back that WINCH sent away
//! ```

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use weir_model::Address;
use weir_rt::{PeerAddr, listen_addr};

use super::pid_file::PidFile;
use super::sockets::SocketTable;
use crate::role::Role;

/// What tells a new program about its sockets: their numbers, each with a `;` behind it. nginx's name.
const VARIABLE: &str = "NGINX";

/// The program that is to take this one's place.
pub(crate) struct Upgrade {
    child: Child,
    /// Ours, under its other name.
    pid_file: Option<PidFile>,
}

impl Upgrade {
    /// Starts it, as this process was started.
    pub(crate) fn start(table: &SocketTable, pid_path: Option<&Path>) -> io::Result<Self> {
        let mut arguments = std::env::args_os();
        let called = arguments.next().unwrap_or_else(|| OsString::from("nginx"));
        let mut command = Command::new(program(&called));
        command.arg0(&called).args(arguments);
        Role::Front.of_command(&mut command);
        // Ours are closed in other programs. These copies are not, and are gone as soon as it runs.
        let copies: Vec<OwnedFd> = table
            .descriptors()
            .map(|fd| rustix::io::dup(fd).map_err(io::Error::from))
            .collect::<Result<_, _>>()?;
        let numbers: String = copies.iter().map(|fd| format!("{};", fd.as_raw_fd())).collect();
        command.env(VARIABLE, numbers);
        let pid_file = pid_path.map(|path| PidFile::write(&old_name(path))).transpose()?;
        let child = command.spawn()?;
        Ok(Self { child, pid_file })
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Our pid file under its other name.
    pub(crate) fn into_pid_file(self) -> Option<PidFile> {
        self.pid_file
    }
}

/// The name of the pid file of a program that is being replaced.
fn old_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".oldbin");
    name.into()
}

/// The file of the program by the name that we were called by: the one that is there now, whatever was there then.
fn program(called: &OsString) -> PathBuf {
    let called = Path::new(called);
    if called.components().count() > 1 {
        return called.to_owned();
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|folder| folder.join(called)).find(|path| path.is_file());
    found.unwrap_or_else(|| "/proc/self/exe".into())
}

/// The numbers of the sockets that this process was given.
pub(crate) fn given() -> Vec<RawFd> {
    let text = std::env::var(VARIABLE).unwrap_or_default();
    text.split([';', ':']).filter_map(|number| number.trim().parse().ok()).filter(|&fd| fd > 2).collect()
}

/// Whether this process takes the place of another.
pub(crate) fn is_replacing() -> bool {
    !given().is_empty()
}

/// Takes up the sockets that this process was given, each under its address.
pub(crate) fn take_up(table: &mut SocketTable) {
    let numbers = given();
    for &number in &numbers {
        let taken = weir_rt::confine::with_inherited(number, |fd| {
            let address = address_of(fd)?;
            io::Result::Ok((address, fd.try_clone_to_owned()?))
        });
        // What is no socket is left to whoever meant something by it.
        if let Ok(Ok((address, fd))) = taken {
            table.adopt(address, fd);
        }
    }
    // The copies are ours; what came goes, or a listener that is removed would never close.
    let _ = weir_rt::confine::close_inherited(|number| !numbers.contains(&number));
}

fn address_of(fd: BorrowedFd<'_>) -> io::Result<Address> {
    use rustix::net::{SocketType, sockopt};
    rustix::io::ioctl_fionbio(fd, true)?;
    let kind = sockopt::socket_type(fd)?;
    Ok(match (listen_addr(fd)?, kind) {
        (PeerAddr::Inet(address), SocketType::DGRAM) => Address::Udp(address),
        (PeerAddr::Inet(address), _) => Address::Tcp(address),
        (PeerAddr::Unix(path), _) => Address::Unix(path.ok_or(io::ErrorKind::InvalidInput)?),
    })
}
