//! What a process that reads from the network may still ask of the kernel.
//!
//! Owns: the table of system calls for the data plane and for the resolver, and what they give up beside that.
//! Never: takes a site down: what is refused fails as on a kernel that does not have it, and libraries do without.
//! Driven by: `keeper::plane` once it is the user, `compile::host_names` in the helper process.
//! Why ENOSYS and not the end of the process: a new version of a library that tries something new then falls back, and
//! the kernel's log tells of it all the same. Why no list of files by Landlock: it could never be made longer, and each
//! reload may bring new paths. So it denies what no configuration can need.

use std::collections::BTreeMap;
use std::io;

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use weir_rt::confine::{denied, deny_by_landlock, filter_calls};

use crate::launch::{Io, Sandbox};

/// A process that is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Under a keeper; its driver decides whether it needs io_uring.
    Plane(Io),
    /// Looks up names.
    Resolver,
}

/// Memory, threads, time, and knowing oneself.
const SELF: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_madvise,
    libc::SYS_msync,
    libc::SYS_membarrier,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_getcpu,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getgroups,
    libc::SYS_getrlimit,
    libc::SYS_getrusage,
    libc::SYS_sysinfo,
    libc::SYS_times,
    libc::SYS_uname,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
];

/// Descriptors, and waiting for them.
const DESCRIPTORS: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_lseek,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_signalfd4,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
];

/// Looking at files. Which ones, owners and modes decide.
const READING: &[libc::c_long] = &[
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_fadvise64,
    libc::SYS_readahead,
];

/// Bodies and objects of caches that go to disk, files that requests change, logs with computed names.
const WRITING: &[libc::c_long] = &[
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_copy_file_range,
    libc::SYS_mkdirat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_flock,
    // Rights and times of files that requests bring (`dav_methods`, `proxy_store`).
    libc::SYS_fchmod,
    libc::SYS_utimensat,
];

/// Sockets but for what makes them. Listening ones come from the keeper, but for one: at its start the data plane compares
/// sendfile and copies on a connection to itself.
const SOCKETS: &[libc::c_long] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_listen,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_shutdown,
];

/// The ring. Its operations are open, read, connect and the like: none of them is refused above.
const RING: &[libc::c_long] =
    &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// The same by older names, which libraries still use on this architecture.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[
    libc::SYS_access,
    libc::SYS_alarm,
    libc::SYS_arch_prctl,
    libc::SYS_dup2,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_getdents,
    libc::SYS_lstat,
    libc::SYS_open,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// Bodies that go to disk, by older names.
#[cfg(target_arch = "x86_64")]
const OLDER_WRITING: &[libc::c_long] =
    &[libc::SYS_mkdir, libc::SYS_rename, libc::SYS_rmdir, libc::SYS_unlink];
#[cfg(not(target_arch = "x86_64"))]
const OLDER_WRITING: &[libc::c_long] = &[];

/// Calls that are allowed with certain arguments only: call, which argument, its values.
fn conditional(pid: u32) -> Vec<(libc::c_long, u8, Vec<u64>)> {
    let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let families: Vec<u64> = families.into_iter().map(as_argument).collect();
    let requests = [
        libc::FIONBIO,
        libc::FIONREAD,
        libc::FIOCLEX,
        libc::FIONCLEX,
        libc::TIOCOUTQ,
        libc::TCGETS,
        libc::TIOCGWINSZ,
    ];
    let options = [
        libc::PR_SET_NAME,
        libc::PR_GET_NAME,
        libc::PR_SET_VMA,
        libc::PR_SET_THP_DISABLE,
        libc::PR_GET_THP_DISABLE,
        libc::PR_SET_PDEATHSIG,
    ];
    vec![
        (libc::SYS_socket, 0, families),
        (libc::SYS_socketpair, 0, vec![as_argument(libc::AF_UNIX)]),
        // Threads that verify passwords give way to the workers: the priority of the calling thread.
        (libc::SYS_getpriority, 1, vec![0]),
        (libc::SYS_setpriority, 1, vec![0]),
        (libc::SYS_ioctl, 1, requests.to_vec()),
        (libc::SYS_prctl, 0, options.into_iter().map(as_argument).collect()),
        // Limits and signals of oneself: an abort is a signal, too.
        (libc::SYS_prlimit64, 0, vec![0, pid.into()]),
        (libc::SYS_tgkill, 0, vec![pid.into()]),
    ]
}

/// The kernel's numbers are small and positive.
fn as_argument(number: libc::c_int) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Confines this process for good, before it reads from the network. It must have one thread, and have given up new
/// privileges.
///
/// # Errors
/// What could not be had. The process may go on without it.
pub(crate) fn confine(part: Part, sandbox: Sandbox) -> io::Result<()> {
    if sandbox == Sandbox::Off {
        return Ok(());
    }
    if sandbox == Sandbox::On {
        let rights = denied::EXECUTE
            | denied::MAKE_CHAR
            | denied::MAKE_BLOCK
            | denied::MAKE_FIFO
            | denied::MAKE_SOCKET
            | denied::MAKE_LINK;
        // Many kernels are built without it; the filter denies nearly the same.
        let _ = deny_by_landlock(rights);
    }
    let program = filter(part, sandbox).map_err(io::Error::other)?;
    let program: Vec<_> = program.iter().map(|one| (one.code, one.jt, one.jf, one.k)).collect();
    filter_calls(&program)
}

fn filter(part: Part, sandbox: Sandbox) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut groups = vec![SELF, DESCRIPTORS, READING, SOCKETS, OLDER];
    if let Part::Plane(io) = part {
        groups.extend([WRITING, OLDER_WRITING]);
        if io != Io::Epoll {
            groups.push(RING);
        }
    }
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        groups.into_iter().flatten().map(|call| (*call, Vec::new())).collect();
    for (call, argument, values) in conditional(std::process::id()) {
        let one = |value| when(argument, SeccompCmpOp::Eq, value);
        rules.insert(call, values.into_iter().map(one).collect::<Result<_, _>>()?);
    }
    // A thread, never a process. The newer clone3 hides its flags in memory; without it, libraries take this one.
    let thread = as_argument(libc::CLONE_THREAD);
    rules.insert(libc::SYS_clone, vec![when(0, SeccompCmpOp::MaskedEq(thread), thread)?]);
    let otherwise = match sandbox {
        Sandbox::Log => SeccompAction::Log,
        _ => SeccompAction::Errno(libc::ENOSYS.unsigned_abs()),
    };
    let machine = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, otherwise, SeccompAction::Allow, machine)?.try_into()
}

fn when(argument: u8, is: SeccompCmpOp, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, is, value)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_compiles() {
        for part in [Part::Plane(Io::Auto), Part::Plane(Io::Epoll), Part::Resolver] {
            for sandbox in [Sandbox::On, Sandbox::Log] {
                assert!(filter(part, sandbox).is_ok_and(|program| program.len() < 4096), "{part:?}");
            }
        }
    }
}
