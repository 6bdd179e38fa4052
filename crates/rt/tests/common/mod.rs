//! What the test files share: both drivers, deadlines, connected pairs.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use weir_rt::*;

pub const DRIVERS: [IoChoice; 2] = [IoChoice::Uring, IoChoice::Epoll];

/// Runs `test` on a fresh runtime of each driver.
pub fn both(test: impl Fn(&Runtime, IoChoice)) {
    for io in DRIVERS {
        let runtime = Runtime::new(RuntimeConfig { io, ..Default::default() }).unwrap();
        test(&runtime, io);
        assert_eq!(runtime.block_on(async { task_panics() }), 0);
    }
}

/// Fails the test when `future` takes half a minute.
pub async fn deadline<F: Future>(future: F) -> F::Output {
    timeout(Instant::now() + Duration::from_secs(30), future).await.expect("the test hangs")
}

/// Serves the first connection to a fresh port with `service`, which must end well.
pub fn serve_once<F, S>(service: S) -> SocketAddr
where
    S: FnOnce(Stream) -> F + 'static,
    F: Future<Output = io::Result<()>>,
{
    let socket = listen_tcp("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
    let addr = listen_addr(&socket).unwrap().inet().unwrap();
    let listener = Listener::from_fd(socket).unwrap();
    spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        service(stream).await.unwrap();
    });
    addr
}

/// A connected pair: (client, server).
pub async fn pair() -> (Stream, Stream) {
    let socket = listen_tcp("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
    let listener = Listener::from_fd(socket).unwrap();
    let addr = listener.local_addr().unwrap().inet().unwrap();
    let client = connect(addr, &ConnectOptions::default()).await.unwrap();
    (client, listener.accept().await.unwrap().0)
}

/// Bytes that do not repeat at any buffer size.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}
