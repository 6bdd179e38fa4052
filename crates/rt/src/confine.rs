//! What a process gives up for good.
//!
//! Owns: the system calls for it, which have no safe form in the crates we use: a seccomp filter, a Landlock domain,
//! and closing descriptors that came from outside.
//! Never: decides what is given up.
//! Driven by: the process, when it starts and has one thread.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// One instruction of a filter, as the kernel has it: code, jump if true, jump if false, value.
pub type Instruction = (u16, u8, u8, u32);

/// Filters the system calls of this thread, and of all that it starts, from now on. What the filter refuses, the kernel
/// also logs (as far as `kernel.seccomp.actions_logged` has it). New privileges must have been forbidden before.
///
/// Kernels before 5.16 would slow a filtered thread down by their measures against speculation, which are for programs
/// that run code of strangers; they are left as they are for other processes.
///
/// # Errors
/// The kernel has no such filters, refuses this one, or is itself kept from it by another.
pub fn filter_calls(program: &[Instruction]) -> io::Result<()> {
    let mut program: Vec<_> =
        program.iter().map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k }).collect();
    let length = program.len().try_into().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let program = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    // SAFETY: the program and its instructions outlive the call, which copies them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_LOG | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW,
            std::ptr::from_ref(&program),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Rights on files that are denied everywhere, whatever the files' owners and modes say.
pub mod denied {
    /// Running it as a program.
    pub const EXECUTE: u64 = 1 << 0;
    /// Making a character device.
    pub const MAKE_CHAR: u64 = 1 << 6;
    /// Making a unix socket.
    pub const MAKE_SOCKET: u64 = 1 << 9;
    /// Making a FIFO.
    pub const MAKE_FIFO: u64 = 1 << 10;
    /// Making a block device.
    pub const MAKE_BLOCK: u64 = 1 << 11;
    /// Making a symbolic link.
    pub const MAKE_LINK: u64 = 1 << 12;
}

/// `struct landlock_ruleset_attr`.
#[repr(C)]
struct RulesetAttr {
    files: u64,
    net: u64,
    scoped: u64,
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct PathBeneathAttr {
    allowed: u64,
    parent: RawFd,
}

/// LANDLOCK_RULE_PATH_BENEATH.
const PATH_BENEATH: u32 = 1;
/// Renaming from one folder to another (LANDLOCK_ACCESS_FS_REFER), and the first version that can allow it. A domain
/// that does not name it denies it: the kernel says `EXDEV`.
const REFER: u64 = 1 << 13;
const REFERS: libc::c_long = 2;
/// LANDLOCK_CREATE_RULESET_VERSION.
const ASK_VERSION: u32 = 1;
/// The first version that scopes signals, and LANDLOCK_SCOPE_SIGNAL.
const SCOPES: libc::c_long = 6;
const SCOPE_SIGNAL: u64 = 1 << 1;

/// Denies this thread, and all that it starts, rights on files (see [`denied`]) and, where the kernel can, signals to
/// processes outside. There is no exception and no way back. New privileges must have been forbidden before.
///
/// # Errors
/// The kernel has no Landlock, or it is switched off; or it is of the first version (Linux before 5.19), which cannot be
/// told to let files be renamed from one folder to another.
pub fn deny_by_landlock(rights: u64) -> io::Result<()> {
    let attr = RulesetAttr { files: rights | REFER, net: 0, scoped: SCOPE_SIGNAL };
    let version = create_ruleset(None, 0, ASK_VERSION)?;
    if version < REFERS {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // Kernels refuse fields that they do not know, unless they are zero or not sent.
    let size = if version >= SCOPES { size_of::<RulesetAttr>() } else { size_of::<u64>() };
    let number = create_ruleset(Some(&attr), size, 0)?;
    let number = RawFd::try_from(number).map_err(io::Error::other)?;
    // SAFETY: the kernel just made this descriptor for us.
    let ruleset = unsafe { OwnedFd::from_raw_fd(number) };
    allow_renames(&ruleset)?;
    // SAFETY: a descriptor that is open and a number.
    let result = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets files be renamed from any folder to any other.
fn allow_renames(ruleset: &OwnedFd) -> io::Result<()> {
    let root = std::fs::File::open("/")?;
    let attr = PathBeneathAttr { allowed: REFER, parent: root.as_raw_fd() };
    let attr = std::ptr::from_ref(&attr);
    // SAFETY: two descriptors that are open, and a struct that outlives the call.
    let result =
        unsafe { libc::syscall(libc::SYS_landlock_add_rule, ruleset.as_raw_fd(), PATH_BENEATH, attr, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn create_ruleset(attr: Option<&RulesetAttr>, size: usize, flags: u32) -> io::Result<libc::c_long> {
    let attr = attr.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: null, or a struct of at least `size` bytes that outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, attr, size, flags) };
    if result >= 0 { Ok(result) } else { Err(io::Error::last_os_error()) }
}

/// Closes the descriptors above standard error that this process was started with, except some.
///
/// Those are told by what is not marked to be closed at an exec: everything that Rust opens is marked, and nothing that
/// is marked survives one. So what this process opened itself stays open, which close_range(2) would not see to.
///
/// # Errors
/// /proc is not there to tell what is open.
pub fn close_inherited(keep: impl Fn(RawFd) -> bool) -> io::Result<()> {
    let numbers = std::fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<RawFd>().ok())
        .collect::<Vec<_>>();
    for number in numbers.into_iter().filter(|number| *number > libc::STDERR_FILENO && !keep(*number)) {
        // SAFETY: asking for the flags of a number that may be closed by now does no harm.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
        if flags >= 0 && flags & libc::FD_CLOEXEC == 0 {
            // SAFETY: not marked, so it came through the exec, and nothing in this process owns it.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
        }
    }
    Ok(())
}

/// Looks at a descriptor that came from outside, by its number.
///
/// # Errors
/// It is not open.
pub fn with_inherited<T>(number: RawFd, look: impl FnOnce(BorrowedFd<'_>) -> T) -> io::Result<T> {
    // SAFETY: asking for the flags of a number that may be closed does no harm.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and what came from outside is closed by `close_inherited` alone, which runs before there are
    // threads. Were it closed meanwhile, calls would fail or meet another file, and nothing here trusts what they say.
    Ok(look(unsafe { BorrowedFd::borrow_raw(number) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_ours_stays_open() {
        let (ours, theirs) = io::pipe().unwrap();
        let kept = ours.try_clone().unwrap();
        rustix::io::fcntl_setfd(&theirs, rustix::io::FdFlags::empty()).unwrap();
        rustix::io::fcntl_setfd(&kept, rustix::io::FdFlags::empty()).unwrap();
        let (keep, gone) = (kept.as_raw_fd(), theirs.as_raw_fd());
        // From here on this number is not ours to close.
        std::mem::forget(theirs);
        close_inherited(|number| number == keep || number != gone).unwrap();
        assert!(
            rustix::io::fcntl_getfd(ours.as_fd()).is_ok() && rustix::io::fcntl_getfd(kept.as_fd()).is_ok()
        );
        // Nobody writes to the pipe any more.
        let mut byte = [0];
        assert_eq!(io::Read::read(&mut &ours, &mut byte).unwrap(), 0);
    }
}
