//! Floor of the runtime: the least a server can do per request, for measuring with `wrk`.
//!
//! `floor [--io uring|epoll] [--listen ADDR] [--size BYTES] [--proxy ADDR] [--tls]`
//!
//! Answers every request head with a fixed body of SIZE bytes, or forwards head and answer to and from a kept-alive
//! upstream. Prints its address. CPU per request: the first field of `/proc/PID/task/*/schedstat`, before and
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
}

fn options() -> Options {
    let mut options =
        Options { io: IoChoice::Auto, listen: ([127, 0, 0, 1], 0).into(), size: 1024, proxy: None };
    let mut args = std::env::args().skip(1);
    while let Some(word) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| panic!("{word} wants a value"));
        match word.as_str() {
            "--io" if value() == "epoll" => options.io = IoChoice::Epoll,
            "--io" => options.io = IoChoice::Uring,
            "--listen" => options.listen = value().parse().expect("an address"),
            "--size" => options.size = value().parse().expect("a number"),
            "--proxy" => options.proxy = Some(value().parse().expect("an address")),
            _ => panic!("unknown word {word}"),
        }
    }
    options
}

fn head_len(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

async fn fixed(stream: Stream, answer: Rc<Vec<u8>>) -> io::Result<()> {
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
        if buf.is_empty() {
            buf.release();
        }
    }
}

fn content_length(head: &[u8]) -> usize {
    let text = String::from_utf8_lossy(head);
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok())
        .unwrap_or(0)
}

async fn forward(stream: Stream, upstream: SocketAddr, pool: Rc<RefCell<Vec<Stream>>>) -> io::Result<()> {
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
            answer = stream.write_all(answer).await.1;
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
            spawn(async move {
                let result = match proxy {
                    Some(upstream) => forward(stream, upstream, pool).await,
                    None => fixed(stream, answer).await,
                };
                drop(result);
            });
        }
    })
}
