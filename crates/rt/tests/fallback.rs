//! Where io_uring is refused, as in containers with the default seccomp profile, epoll takes over and says why.

#![allow(clippy::unwrap_used)]

mod common;

use weir_rt::*;

/// Makes io_uring_setup(2) fail with EPERM in the calling thread, as container runtimes do.
fn refuse_io_uring() {
    let statement = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = [
        // The system call's number is the first word of the data.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_io_uring_setup as u32, 0, 1),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0, 0),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: plain values; the filter program outlives the call, which copies it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter), 0);
    }
}

#[test]
fn epoll_takes_over() {
    // The filter binds the thread that asks for it, and no other.
    let thread = std::thread::spawn(|| {
        refuse_io_uring();
        let forced = Runtime::new(RuntimeConfig { io: IoChoice::Uring, ..Default::default() });
        assert!(forced.is_err());
        let runtime = Runtime::new(RuntimeConfig::default()).unwrap();
        assert_eq!(runtime.driver(), Driver::Epoll);
        assert!(runtime.driver_note().contains("io_uring"), "{}", runtime.driver_note());
        runtime.block_on(common::deadline(async {
            let (client, server) = common::pair().await;
            client.write_slice(b"through epoll").await.unwrap();
            let mut buf = Buf::new();
            server.read(&mut buf).await.unwrap();
            assert_eq!(&buf[..], b"through epoll");
        }));
    });
    thread.join().unwrap();
}
