//! Floor of the runtime: the least a server can do per request, for measuring with `wrk`.
//!
//! `floor [--io uring|epoll] [--listen ADDR] [--size BYTES] [--proxy ADDR] [--tcp ADDR] [--tls CERT KEY] [--close]`
//!
//! Answers every request head with a fixed body of SIZE bytes, or forwards head and answer to and from a kept-alive
//! upstream, or copies bytes both ways. `--close` answers once. Prints its address. CPU per request: the first field of `/proc/PID/task/*/schedstat`, before and
//! after, over wrk's count of requests:
//!
//! ```text
//! taskset -c 0 target/release/examples/floor --io uring --listen 127.0.0.1:8080 &
//! taskset -c 0 wrk -t1 -c50 -d5s http://127.0.0.1:8080/
//! ```

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use weir_rt::*;

const IDLE: Duration = Duration::from_secs(60);

struct Options {
    io: IoChoice,
    listen: SocketAddr,
    size: usize,
    proxy: Option<SocketAddr>,
    tcp: Option<SocketAddr>,
    tls: Option<ServerTls>,
    close: bool,
}

fn options() -> Options {
    let mut options = Options {
        io: IoChoice::Auto,
        listen: ([127, 0, 0, 1], 0).into(),
        size: 1024,
        proxy: None,
        tcp: None,
        tls: None,
        close: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(word) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| panic!("{word} wants a value"));
        match word.as_str() {
            "--io" if value() == "epoll" => options.io = IoChoice::Epoll,
            "--io" => options.io = IoChoice::Uring,
            "--listen" => options.listen = value().parse().expect("an address"),
            "--size" => options.size = value().parse().expect("a number"),
            "--tcp" => options.tcp = Some(value().parse().expect("an address")),
            "--tls" => options.tls = Some(tls(&value(), &value())),
            "--close" => options.close = true,
            "--proxy" => options.proxy = Some(value().parse().expect("an address")),
            _ => panic!("unknown word {word}"),
        }
    }
    options
}

fn tls(cert: &str, key: &str) -> ServerTls {
    let pair = CertKey {
        staple: None,
        chain_pem: std::fs::read(cert).expect("a certificate"),
        key_pem: std::fs::read(key).expect("a key"),
        passwords: Vec::new(),
        names: Vec::new(),
        default: true,
    };
    let config = ServerTlsConfig {
        certificates: vec![pair],
        tickets: Some(Tickets::new().expect("random keys")),
        ..Default::default()
    };
    ServerTls::new(config).expect("a usable configuration")
}

fn head_len(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

async fn fixed(stream: Conn, answer: Rc<Vec<u8>>, close: bool) -> io::Result<()> {
    let timer = Timer::new();
    let mut buf = Buf::new();
    loop {
        timer.arm(IDLE);
        match timer.run(stream.read(&mut buf)).await {
            Ok(Ok(n)) if n > 0 => {}
            _ => return Ok(()),
        }
        while let Some(len) = head_len(&buf) {
            buf.consume(len);
            if answer.len() <= LARGE {
                let mut out = Buf::with_capacity(answer.len());
                out.extend(&answer);
                stream.write_all(out).await.0?;
            } else {
                stream.write_slice(&answer).await?;
            }
        }
        if close {
            return Ok(());
        }
        if buf.is_empty() {
            buf.release();
        }
    }
}

async fn copy(from: Stream, to: Stream) -> io::Result<()> {
    let mut buf = Buf::new();
    loop {
        if from.read_up_to(&mut buf, LARGE).await? == 0 {
            return to.shutdown_write().await;
        }
        loop {
            let (result, back) = to.write_all(buf).await;
            result?;
            buf = back;
            // The end is read again by the outer loop.
            if from.try_read_up_to(&mut buf, LARGE)?.unwrap_or(0) == 0 {
                break;
            }
        }
        buf.release();
    }
}

async fn tunnel(client: Stream, upstream: SocketAddr) -> io::Result<()> {
    let server = connect(upstream, &ConnectOptions { nodelay: true, ..Default::default() }).await?;
    let (from, to) = (client.clone(), server.clone());
    spawn(async move { drop(copy(from, to).await) });
    copy(server, client).await
}

fn content_length(head: &[u8]) -> usize {
    let text = String::from_utf8_lossy(head);
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok())
        .unwrap_or(0)
}

async fn forward(stream: Conn, upstream: SocketAddr, pool: Rc<RefCell<Vec<Stream>>>) -> io::Result<()> {
    let timer = Timer::new();
    let mut buf = Buf::new();
    loop {
        timer.arm(IDLE);
        match timer.run(stream.read(&mut buf)).await {
            Ok(Ok(n)) if n > 0 => {}
            _ => return Ok(()),
        }
        if head_len(&buf).is_none() {
            continue;
        }
        let idle = pool.borrow_mut().pop();
        let server = match idle {
            Some(server) => server,
            None => connect(upstream, &ConnectOptions { nodelay: true, ..Default::default() }).await?,
        };
        server.write_all(buf.take()).await.0?;
        timer.arm(IDLE);
        let mut answer = Buf::new();
        let head = loop {
            timer.run(server.read(&mut answer)).await.map_err(io::Error::other)??;
            if let Some(len) = head_len(&answer) {
                break len;
            }
        };
        let mut left = (head + content_length(&answer[..head])).saturating_sub(answer.len());
        while left > 0 {
            if answer.len() < MEDIUM {
                let room = (LARGE - answer.len()).min(left);
                if let Some(n) = server.try_read_up_to(&mut answer, room)? {
                    if n == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    left -= n;
                    continue;
                }
            }
            if answer.is_empty() {
                left -= server.read_up_to(&mut answer, LARGE).await?;
                continue;
            }
            let (result, back) = stream.write_all(answer).await;
            result?;
            answer = back;
        }
        stream.write_all(answer).await.0?;
        pool.borrow_mut().push(server);
    }
}

fn main() -> io::Result<()> {
    let options = options();
    let socket = listen_tcp(options.listen, &ListenOptions::default())?;
    let runtime = Runtime::new(RuntimeConfig { io: options.io, ..Default::default() })?;
    println!("{} on {} {}", listen_addr(&socket)?, runtime.driver(), runtime.driver_note());
    let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", options.size).into_bytes();
    answer.resize(answer.len() + options.size, b'x');
    let answer = Rc::new(answer);
    let pool = Rc::new(RefCell::new(Vec::new()));
    runtime.block_on(async move {
        let listener = Listener::from_fd(socket)?;
        loop {
            let (stream, _) = listener.accept().await?;
            let (answer, pool, proxy) = (answer.clone(), pool.clone(), options.proxy);
            let close = options.close;
            if let Some(upstream) = options.tcp {
                spawn(async move { drop(tunnel(stream, upstream).await) });
                continue;
            }
            let tls = options.tls.clone();
            spawn(async move {
                let conn = match tls {
                    None => Conn::Plain(stream),
                    // Boxed: the handshake's state is far larger than that of an idle connection.
                    Some(tls) => match Box::pin(async move { tls.accept(stream).await }).await {
                        Ok(tls) => Conn::Tls(tls),
                        Err(_) => return,
                    },
                };
                match proxy {
                    Some(upstream) => drop(Box::pin(forward(conn, upstream, pool)).await),
                    None => drop(fixed(conn, answer, close).await),
                }
            });
        }
    })
}
