//! Sockets, TLS, timers and buffers of one worker thread.
//!
//! Owns: the I/O driver (io_uring or epoll), every socket of the data plane, its clock, timers and buffer pool.
//! Never: knows a protocol above TLS, or a configuration; shows a type of io-uring or rustls.
//! Driven by: `engine` (one [`Runtime`] per thread) and `wire`.
//! Why one crate: the only user of io-uring and rustls and the only place with `unsafe`, so that either driver, and the
//! TLS library, can be replaced here.
//!
//! # Use
//!
//! An echo server. An idle connection holds no buffer; its one timer is re-armed for a store:
//!
//! ```
//! use std::time::Duration;
//! use weir_rt::*;
//!
//! async fn serve(stream: Stream) -> std::io::Result<()> {
//!     let timer = Timer::new();
//!     let mut buf = Buf::new();
//!     loop {
//!         timer.arm(Duration::from_secs(60));
//!         let Ok(read) = timer.run(stream.read(&mut buf)).await else { return Ok(()) };
//!         if read? == 0 {
//!             return Ok(());
//!         }
//!         // The write owns the buffer while it is in flight; taking leaves nothing behind.
//!         let (written, mut back) = stream.write_all(buf.take()).await;
//!         written?;
//!         back.release();
//!     }
//! }
//!
//! # fn main() -> std::io::Result<()> {
//! let runtime = Runtime::new(RuntimeConfig::default())?;
//! let socket = listen_tcp("127.0.0.1:0".parse().unwrap(), &ListenOptions::default())?;
//! runtime.block_on(async move {
//!     let listener = Listener::from_fd(socket)?;
//!     let addr = listener.local_addr()?.inet().unwrap();
//!     spawn(async move {
//!         while let Ok((stream, _peer)) = listener.accept().await {
//!             spawn(async move { drop(serve(stream).await) });
//!         }
//!     });
//!     let client = connect(addr, &ConnectOptions::default()).await?;
//!     client.write_slice(b"hello").await?;
//!     let mut answer = Buf::new();
//!     client.read(&mut answer).await?;
//!     assert_eq!(&answer[..], b"hello");
//!     Ok(())
//! })
//! # }
//! ```
//!
//! # Cancellation
//!
//! Waits and reads may be dropped at any time (timeouts, `select`): nothing is lost, the next read goes on where it
//! stopped. A dropped *write* may have been sent in part: close the connection.

mod addr;
mod alarm;
mod buf;
mod clock;
mod config;
pub mod confine;
mod conn;
mod connect;
mod datagram;
mod executor;
mod fd;
mod file;
mod listen;
mod mailbox;
mod notify;
mod paged;
mod quic;
mod reactor;
mod replace;
mod runtime;
mod sendfile;
mod shared;
mod side;
mod source;
mod stream;
mod tcp_info;
mod timer;
mod tls;
mod turn;
mod udp;
mod uring;
mod worker;

pub use addr::{PeerAddr, is_local};
pub use alarm::Alarm;
pub use buf::{Buf, LARGE, MEDIUM, PIECE, SMALL, pool_free_bytes, release_pool, set_pool_limits, trim_heap};
pub use clock::Instant;
pub use config::{Driver, IoChoice, PanicHook, RuntimeConfig, UringFlags};
pub use conn::Conn;
pub use connect::{ConnectOptions, connect, connect_unix};
pub use datagram::{BATCH, Batch, Datagram};
pub use file::pread_into;
pub use listen::{ListenOptions, Listener, listen_addr, listen_tcp, listen_unix, probe};
pub use mailbox::{Receiver, Sender, mailbox};
pub use quic::{
    QuicConnection, QuicEndpoint, QuicEvent, QuicFacts, QuicIncoming, QuicKeys, QuicLost, QuicRead,
    QuicServer, QuicSettings, cid_place,
};
pub use replace::replace_file;
pub use runtime::{Runtime, boxed, now, spawn, start, task_panics, unix_now, yield_now};
pub use sendfile::{SendfileCost, compare_sendfile, sendfile_cost, sendfile_pays};
pub use shared::Shared;
pub use side::SideThreads;
pub use stream::{Cutter, Keepalive, PeerClosed, Stream};
pub use tcp_info::TcpInfo;
pub use timer::{Elapsed, Run, Timer, Within, sleep, sleep_until, timeout};
#[doc(hidden)]
pub use tls::fuzzing;
pub use tls::tls_library;
pub use tls::{
    AcceptError, CertFacts, CertFailure, CertInfo, CertKey, CertName, CertView, ClientAuth, ClientAuthMode,
    ClientCert, ClientHello, ClientTls, ClientTlsConfig, Digest, Early, ListFacts, OcspAnswer, OcspFault,
    OcspQuestion, OcspStatus, ServerTls, ServerTlsConfig, ServerVerify, SessionCache, Tickets,
    TlsConfigError, TlsStream, TlsVersion, Trust, cert_facts, cert_names, first_certificate, is_alert,
    is_truncated, list_facts, public_key,
};
pub use turn::fair;
pub use udp::{UdpSocket, bind_udp, probe_udp, takes_datagrams};

#[cfg(test)]
mod sizes {
    //! What an idle connection costs is mostly the size of its futures.
    use crate::*;

    fn size<T>(_: &T) -> usize {
        size_of::<T>()
    }

    #[test]
    fn waiting_is_small() {
        let runtime =
            Runtime::new(RuntimeConfig { io: IoChoice::Epoll, ..Default::default() }).expect("epoll");
        runtime.block_on(async {
            let (one, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
            let conn = Conn::Plain(Stream::from_fd(one.into()).expect("a stream"));
            let mut buf = Buf::new();
            let timer = Timer::new();
            let sizes = [
                size(&conn),
                size(&timer),
                size(&buf),
                size(&timer.run(conn.read(&mut buf))),
                size(&conn.write_all(Buf::new())),
                size(&conn.socket().peer_closed()),
                size(&conn.send_file(&std::fs::File::open("/dev/null").expect("a file"), 0, 0)),
            ];
            let limits = [16, 16, 24, 32, 40, 32, 200];
            assert!(sizes.iter().zip(limits).all(|(size, limit)| *size <= limit), "{sizes:?} {limits:?}");
        });
    }
}
