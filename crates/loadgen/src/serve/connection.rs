//! One connection of a server.
//!
//! Owns: reading requests, whole with their bodies; answering, late or not, kept or not.
//! Never: holds a buffer while idle; reads a request again that is the same bytes as the one before.
//! Driven by: the runtime, as one task a connection.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use weir_http::body::chunked::ChunkedDecoder;
use weir_http::{BodyEvent, ChunkLimits};
use weir_rt::{Buf, Conn, Instant, LARGE, Listener, MEDIUM, Receiver, ServerTls, Stream, Timer, spawn};

use weir_wire::h2::{ALPN, PREFACE};

use super::ServeOptions;
use super::h2;
use super::page::Pages;
use crate::pace::Pace;

/// Connections of one thread.
const MAX_CONNECTIONS: u32 = 65_536;
const MAX_HEAD: usize = 64 * 1024;
/// How long a connection may be silent.
pub(super) const IDLE: Duration = Duration::from_secs(600);
const HANDSHAKE: Duration = Duration::from_secs(30);

/// What an address speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Http,
    Https,
    Echo,
}

/// What the connections of one thread share.
pub(super) struct Shared {
    pub(super) pages: Arc<Pages>,
    tls: Option<ServerTls>,
    begin: Instant,
    pub(super) delay: u64,
    pub(super) pace: Option<Pace>,
    /// Numbers of connections that are free.
    free: RefCell<Vec<u32>>,
    pub(super) errors: Share,
    pub(super) closes: Share,
    last: RefCell<Last>,
}

/// Every n-th of many, for a share of 1/n.
pub(super) struct Share {
    rate: f64,
    sum: Cell<f64>,
}

impl Share {
    fn new(rate: f64) -> Self {
        Self { rate, sum: Cell::new(0.0) }
    }

    pub(super) fn hit(&self) -> bool {
        let sum = self.sum.get() + self.rate;
        let hit = sum >= 1.0 - 1e-9;
        self.sum.set(if hit { sum - 1.0 } else { sum });
        hit
    }
}

/// The last request without a body that was read in this thread: clients send the same bytes again and again.
#[derive(Default)]
struct Last {
    bytes: Vec<u8>,
    request: Option<Request>,
}

/// What matters of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Request {
    /// Where its target stands.
    target: (usize, usize),
    head_len: usize,
    to_head: bool,
    close: bool,
    body: Body,
    expects: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Length(u64),
    Chunked,
}

impl Shared {
    pub(super) fn new(
        options: &ServeOptions,
        pages: Arc<Pages>,
        tls: Option<ServerTls>,
        begin: Instant,
    ) -> Self {
        let delayed = !options.delay.is_zero();
        Self {
            pages,
            tls,
            begin,
            delay: u64::try_from(options.delay.as_nanos()).unwrap_or(u64::MAX),
            pace: delayed.then(|| Pace::new(MAX_CONNECTIONS as usize, begin)),
            free: RefCell::new((0..MAX_CONNECTIONS).rev().collect()),
            errors: Share::new(options.error_rate),
            closes: Share::new(options.close_rate),
            last: RefCell::default(),
        }
    }

    pub(super) fn now(&self) -> u64 {
        weir_rt::now().saturating_duration_since(self.begin).as_nanos() as u64
    }

    /// Lets delayed answers go when they are due, until told to stop.
    pub(super) async fn keep_time(&self, stopped: &mut Receiver<()>) {
        let Some(pace) = &self.pace else { return };
        let mut stop = std::pin::pin!(stopped.recv());
        loop {
            let mut next = std::pin::pin!(pace.next(u64::MAX / 2));
            let over = std::future::poll_fn(|cx| {
                if stop.as_mut().poll(cx).is_ready() {
                    return std::task::Poll::Ready(true);
                }
                next.as_mut().poll(cx).map(|()| false)
            });
            if over.await {
                return;
            }
            pace.fire(self.now());
        }
    }

    async fn hold_back(&self, number: u32) {
        if let Some(pace) = &self.pace {
            pace.wait(number, self.now().saturating_add(self.delay)).await;
        }
    }
}

/// A connection's number; gives it back at its end.
pub(super) struct Number {
    pub(super) shared: Rc<Shared>,
    pub(super) number: u32,
}

impl Drop for Number {
    fn drop(&mut self) {
        self.shared.free.borrow_mut().push(self.number);
    }
}

/// Accepts for ever. A connection beyond the bound is closed.
pub(super) async fn accept(shared: Rc<Shared>, kind: Kind, listener: Listener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let Some(number) = shared.free.borrow_mut().pop() else { continue };
                let number = Number { shared: shared.clone(), number };
                spawn(async move {
                    // How a connection ends is its client's business.
                    let _ = serve(&number, kind, stream).await;
                });
            }
            // Out of descriptors: those that are there go on, and leave some.
            Err(_) => weir_rt::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn serve(number: &Number, kind: Kind, stream: Stream) -> io::Result<()> {
    let timer = Timer::new();
    match (kind, &number.shared.tls) {
        (Kind::Echo, _) => echo(number, &timer, stream).await,
        (Kind::Https, Some(tls)) => {
            timer.arm(HANDSHAKE);
            let accepted = timer.run(Box::pin(tls.accept(stream))).await;
            match accepted {
                Ok(Ok(tls)) if tls.alpn_is(ALPN) => {
                    h2::serve(number, &timer, Conn::Tls(tls), Buf::new()).await
                }
                Ok(Ok(tls)) => pages(number, &timer, Conn::Tls(tls), Buf::new()).await,
                _ => Ok(()),
            }
        }
        _ => {
            let (conn, mut buf) = (Conn::Plain(stream), Buf::new());
            if begins_h2(&timer, &conn, &mut buf).await? {
                h2::serve(number, &timer, conn, buf).await
            } else {
                pages(number, &timer, conn, buf).await
            }
        }
    }
}

/// Whether the client begins with the preface of HTTP/2: it knows what we speak (RFC 9113 §3.3).
async fn begins_h2(timer: &Timer, conn: &Conn, buf: &mut Buf) -> io::Result<bool> {
    loop {
        let known = buf.len().min(PREFACE.len());
        if buf[..known] != PREFACE[..known] {
            return Ok(false);
        }
        if known == PREFACE.len() {
            return Ok(true);
        }
        timer.arm(IDLE);
        match timer.run(conn.read_up_to(buf, MEDIUM)).await {
            Ok(read) => {
                if read? == 0 {
                    return Ok(false);
                }
            }
            Err(_) => return Ok(false),
        }
    }
}

async fn echo(number: &Number, timer: &Timer, stream: Stream) -> io::Result<()> {
    let mut buf = Buf::new();
    loop {
        timer.arm(IDLE);
        let Ok(read) = timer.run(stream.read_up_to(&mut buf, LARGE)).await else { return Ok(()) };
        if read? == 0 {
            return Ok(());
        }
        number.shared.hold_back(number.number).await;
        let (written, mut back) = stream.write_all(buf.take()).await;
        written?;
        back.release();
    }
}

async fn pages(number: &Number, timer: &Timer, conn: Conn, mut buf: Buf) -> io::Result<()> {
    let shared = &*number.shared;
    loop {
        let Some(request) = receive(shared, timer, &conn, &mut buf).await? else { return Ok(()) };
        let page = if shared.errors.hit() {
            shared.pages.busy()
        } else {
            shared.pages.find(&buf[request.target.0..request.target.1])
        };
        buf.consume(request.head_len);
        let whole = drain(timer, &conn, &mut buf, &request).await?;
        if buf.is_empty() {
            buf.release();
        }
        shared.hold_back(number.number).await;
        let close = request.close || !whole || shared.closes.hit();
        let (head, body) = page.pieces(close, request.to_head);
        conn.write_slice(head).await?;
        match (&conn, page.file()) {
            _ if body.is_empty() => {}
            (Conn::Plain(stream), Some(file)) if weir_rt::sendfile_pays() => {
                stream.send_file(file, 0, body.len() as u64).await?;
            }
            _ => conn.write_slice(body).await?,
        }
        if close {
            return farewell(timer, &conn).await;
        }
    }
}

/// The next request, its head at the start of `buf`; `None` at the end of the connection.
async fn receive(shared: &Shared, timer: &Timer, conn: &Conn, buf: &mut Buf) -> io::Result<Option<Request>> {
    loop {
        if !buf.is_empty()
            && let Some(request) = recognise(&mut shared.last.borrow_mut(), buf)?
        {
            return Ok(Some(request));
        }
        timer.arm(IDLE);
        match timer.run(conn.read_up_to(buf, MEDIUM)).await {
            Ok(read) => {
                if read? == 0 {
                    return Ok(None);
                }
            }
            Err(_) => return Ok(None),
        }
    }
}

/// As [`scan`], from memory where the bytes are those of the last request.
fn recognise(last: &mut Last, buf: &[u8]) -> io::Result<Option<Request>> {
    if let Some(request) = last.request
        && buf.starts_with(&last.bytes)
    {
        return Ok(Some(request));
    }
    let request = scan(buf)?;
    if let Some(request) = request
        && request.body == Body::Length(0)
    {
        last.bytes.clear();
        last.bytes.extend_from_slice(&buf[..request.head_len]);
        last.request = Some(request);
    }
    Ok(request)
}

fn bad() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

/// The request that `buf` begins with; `None` if its head is not whole.
fn scan(buf: &[u8]) -> io::Result<Option<Request>> {
    let Some(end) = memchr::memmem::find(buf, b"\r\n\r\n") else {
        return if buf.len() > MAX_HEAD { Err(bad()) } else { Ok(None) };
    };
    let mut lines = buf[..end].split(|&b| b == b'\n').map(<[u8]>::trim_ascii_end);
    let line = lines.next().unwrap_or_default();
    let from = memchr::memchr(b' ', line).ok_or_else(bad)? + 1;
    let to = memchr::memrchr(b' ', line).filter(|&to| to >= from).ok_or_else(bad)?;
    let version = &line[to + 1..];
    if !version.starts_with(b"HTTP/1.") {
        return Err(bad());
    }
    let mut request = Request {
        target: (from, to),
        head_len: end + 4,
        to_head: line.starts_with(b"HEAD "),
        close: version.ends_with(b".0"),
        body: Body::Length(0),
        expects: false,
    };
    for line in lines {
        let Some(colon) = memchr::memchr(b':', line) else { return Err(bad()) };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
            request.body = Body::Length(length.ok_or_else(bad)?);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            request.body = Body::Chunked;
        } else if name.eq_ignore_ascii_case(b"connection") {
            let has =
                |word: &[u8]| value.split(|&b| b == b',').any(|w| w.trim_ascii().eq_ignore_ascii_case(word));
            request.close = has(b"close") || (request.close && !has(b"keep-alive"));
        } else if name.eq_ignore_ascii_case(b"expect") {
            request.expects = true;
        }
    }
    Ok(Some(request))
}

/// Takes the body in; false if the connection ended first.
async fn drain(timer: &Timer, conn: &Conn, buf: &mut Buf, request: &Request) -> io::Result<bool> {
    if request.expects && request.body != Body::Length(0) {
        conn.write_slice(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    let mut left = match request.body {
        Body::Length(length) => length,
        Body::Chunked => return drain_chunks(timer, conn, buf).await,
    };
    loop {
        let taken = (buf.len() as u64).min(left);
        buf.consume(taken as usize);
        left -= taken;
        if left == 0 {
            return Ok(true);
        }
        if !more(timer, conn, buf).await? {
            return Ok(false);
        }
    }
}

async fn drain_chunks(timer: &Timer, conn: &Conn, buf: &mut Buf) -> io::Result<bool> {
    let mut decoder = ChunkedDecoder::new(ChunkLimits::default());
    loop {
        match decoder.next(buf).map_err(|_| bad())? {
            BodyEvent::Data(range) => buf.consume(range.end),
            BodyEvent::End(taken) => {
                buf.consume(taken);
                return Ok(true);
            }
            BodyEvent::NeedMore(taken) => {
                buf.consume(taken);
                if !more(timer, conn, buf).await? {
                    return Ok(false);
                }
            }
        }
    }
}

async fn more(timer: &Timer, conn: &Conn, buf: &mut Buf) -> io::Result<bool> {
    timer.arm(IDLE);
    match timer.run(conn.read_up_to(buf, LARGE)).await {
        Ok(read) => Ok(read? > 0),
        Err(_) => Ok(false),
    }
}

/// Closes so that the last answer is not lost to a reset: FIN, then what still comes is read to its end.
pub(super) async fn farewell(timer: &Timer, conn: &Conn) -> io::Result<()> {
    conn.shutdown_write().await?;
    timer.arm(Duration::from_secs(1));
    let mut rest = Buf::new();
    while let Ok(Ok(read)) = timer.run(conn.read_up_to(&mut rest, MEDIUM)).await
        && read > 0
    {
        rest.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read() {
        let of = |text: &str| scan(text.as_bytes()).unwrap().unwrap();
        let get = of("GET /1k HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!((get.target, get.close, get.body), ((4, 7), false, Body::Length(0)));
        assert!(of("GET / HTTP/1.0\r\n\r\n").close);
        assert!(!of("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").close);
        assert!(of("GET / HTTP/1.1\r\nConnection: x, Close\r\n\r\n").close);
        let post = of("POST / HTTP/1.1\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n");
        assert!(post.expects && post.body == Body::Length(9));
        assert_eq!(of("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").body, Body::Chunked);
        for bad in
            ["nonsense\r\n\r\n", "GET /\r\n\r\n", "GET / HTTP/2\r\n\r\n", "GET / HTTP/1.1\r\nx\r\n\r\n"]
        {
            assert!(scan(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn shares_are_exact_and_even() {
        let share = Share::new(0.25);
        let hits: Vec<bool> = (0..8).map(|_| share.hit()).collect();
        assert_eq!(hits, [false, false, false, true, false, false, false, true]);
        assert!((0..5).all(|_| Share::new(1.0).hit() && !Share::new(0.0).hit()));
    }
}
