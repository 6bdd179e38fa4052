//! The generator's own servers: pages of given sizes from memory, over HTTP/1.1 and HTTP/2, plain and in TLS, and as TCP
//! echo.
//!
//! Owns: sockets, threads and their end.
//! Never: reads a file or a configuration while it serves; logs; keeps more connections than its bound.
//! Driven by: `weir load serve`, tests.
//! Why: a load balancer is measured between a generator and origins. Origins that cost next to nothing leave the CPU to
//! what is measured, and need no other program on the machine.

mod connection;
mod h2;
mod page;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use weir_rt::{
    CertKey, Instant, IoChoice, ListenOptions, Listener, Receiver, Runtime, RuntimeConfig, Sender, ServerTls,
    ServerTlsConfig, listen_addr, listen_tcp, mailbox, probe, spawn,
};

use weir_wire::h2::ALPN;

use connection::{Kind, Shared};
use page::Pages;

/// What is served, and how.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Addresses for HTTP.
    pub http: Vec<SocketAddr>,
    /// Addresses for HTTPS.
    pub https: Vec<SocketAddr>,
    /// Addresses that echo.
    pub echo: Vec<SocketAddr>,
    /// Sizes of pages in bytes: `/1024` and `/1k` are pages of 1,024 bytes; `/` is the first.
    pub sizes: Vec<u64>,
    /// Threads, each with a socket of its own on every address.
    pub threads: u32,
    /// How long each answer is held back.
    pub delay: Duration,
    /// Share of requests answered 503, 0 to 1, evenly spread.
    pub error_rate: f64,
    /// Share of answers after which the connection is closed, 0 to 1, evenly spread.
    pub close_rate: f64,
    /// Certificate chain and key, PEM; none: a self-signed one for P-256 is made.
    pub certificate: Option<(Vec<u8>, Vec<u8>)>,
    /// The I/O driver.
    pub io: IoChoice,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            http: Vec::new(),
            https: Vec::new(),
            echo: Vec::new(),
            sizes: vec![0, 128, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 10 << 20],
            threads: 1,
            delay: Duration::ZERO,
            error_rate: 0.0,
            close_rate: 0.0,
            certificate: None,
            io: IoChoice::Auto,
        }
    }
}

/// Pages of more bytes than this in all are refused: they are held in memory, twice for TLS and for sendfile.
const MAX_BYTES: u64 = 2 << 30;

/// Servers that run. Dropping it ends them.
pub struct Server {
    /// Where HTTP is served; port 0 has become a port.
    pub http: Vec<SocketAddr>,
    /// Where HTTPS is served.
    pub https: Vec<SocketAddr>,
    /// Where bytes are echoed.
    pub echo: Vec<SocketAddr>,
    stop: Vec<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Binds all addresses and starts the threads; what is asked from then on is answered.
    ///
    /// # Errors
    /// A sentence that names what is wrong: an address in use, a bad certificate, too many bytes.
    pub fn start(options: ServeOptions) -> Result<Self, String> {
        let rates = [options.error_rate, options.close_rate];
        if rates.iter().any(|rate| !(0.0..=1.0).contains(rate)) {
            return Err("error and close rates are 0 to 1".into());
        }
        if options.sizes.iter().sum::<u64>() > MAX_BYTES {
            return Err("pages of more than 2 GB in all do not fit".into());
        }
        if options.http.len() + options.https.len() + options.echo.len() == 0 {
            return Err("there is no address to listen on".into());
        }
        let tls = if options.https.is_empty() { None } else { Some(tls(options.certificate.as_ref())?) };
        let pages = Arc::new(Pages::new(&options.sizes));
        weir_rt::compare_sendfile(drop);
        let threads = options.threads.clamp(1, 1024) as usize;
        let mut per_thread: Vec<Vec<(Kind, OwnedFd)>> = (0..threads).map(|_| Vec::new()).collect();
        let mut bind = |kind: Kind, addrs: &[SocketAddr]| -> Result<Vec<SocketAddr>, String> {
            addrs.iter().map(|&addr| bind(kind, addr, &mut per_thread)).collect()
        };
        let http = bind(Kind::Http, &options.http)?;
        let https = bind(Kind::Https, &options.https)?;
        let echo = bind(Kind::Echo, &options.echo)?;
        let mut server = Self { http, https, echo, stop: Vec::new(), threads: Vec::new() };
        for (at, sockets) in per_thread.into_iter().enumerate() {
            let (stop, stopped) = mailbox();
            let (options, pages, tls) = (options.clone(), pages.clone(), tls.clone());
            let started = std::thread::Builder::new()
                .name(format!("serve-{at}"))
                .spawn(move || run(&options, pages, tls, sockets, stopped))
                .map_err(|error| format!("cannot start a thread: {error}"))?;
            server.stop.push(stop);
            server.threads.push(started);
        }
        Ok(server)
    }

    /// Waits for ever, or until a thread ends.
    pub fn wait(mut self) {
        for thread in self.threads.drain(..) {
            // A thread that died said why when it did.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for stop in &self.stop {
            let _ = stop.send(());
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn bind(kind: Kind, addr: SocketAddr, threads: &mut [Vec<(Kind, OwnedFd)>]) -> Result<SocketAddr, String> {
    let options = ListenOptions { reuse_port: threads.len() > 1, ..ListenOptions::default() };
    let fault = |addr: SocketAddr| move |error: io::Error| format!("cannot listen on {addr}: {error}");
    if addr.port() != 0 {
        probe(addr, &options).map_err(fault(addr))?;
    }
    let mut addr = addr;
    for sockets in threads {
        let socket = listen_tcp(addr, &options).map_err(fault(addr))?;
        // The first socket's port is everybody's.
        if let Some(bound) = listen_addr(&socket).ok().and_then(|bound| bound.inet()) {
            addr = bound;
        }
        sockets.push((kind, socket));
    }
    Ok(addr)
}

fn tls(certificate: Option<&(Vec<u8>, Vec<u8>)>) -> Result<ServerTls, String> {
    let (chain_pem, key_pem) = match certificate {
        Some(pair) => pair.clone(),
        None => self_signed().map_err(|error| format!("cannot make a certificate: {error}"))?,
    };
    let pair =
        CertKey { chain_pem, key_pem, passwords: Vec::new(), staple: None, names: Vec::new(), default: true };
    let tickets = weir_rt::Tickets::new().map_err(|error| error.to_string())?;
    ServerTls::new(ServerTlsConfig {
        certificates: vec![pair],
        tickets: Some(tickets),
        alpn: vec![ALPN.to_vec(), b"http/1.1".to_vec()],
        ..ServerTlsConfig::default()
    })
    .map_err(|error| format!("cannot use the certificate: {error}"))
}

fn self_signed() -> Result<(Vec<u8>, Vec<u8>), rcgen::Error> {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
    let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    let certificate = rcgen::CertificateParams::new(names)?.self_signed(&key)?;
    Ok((certificate.pem().into_bytes(), key.serialize_pem().into_bytes()))
}

fn run(
    options: &ServeOptions,
    pages: Arc<Pages>,
    tls: Option<ServerTls>,
    sockets: Vec<(Kind, OwnedFd)>,
    mut stopped: Receiver<()>,
) {
    let runtime = match Runtime::new(RuntimeConfig { io: options.io, ..RuntimeConfig::default() }) {
        Ok(runtime) => runtime,
        Err(error) => return eprintln!("weir load serve: cannot open an I/O driver: {error}"),
    };
    runtime.block_on(async {
        let shared = Rc::new(Shared::new(options, pages, tls, Instant::now()));
        for (kind, socket) in sockets {
            match Listener::from_fd(socket) {
                Ok(listener) => spawn(connection::accept(shared.clone(), kind, listener)),
                Err(error) => eprintln!("weir load serve: cannot accept: {error}"),
            }
        }
        if options.delay.is_zero() {
            stopped.recv().await;
        } else {
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            shared.keep_time(&mut stopped).await;
        }
    });
}
