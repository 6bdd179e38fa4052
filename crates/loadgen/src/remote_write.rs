//! Prometheus remote write: each second's figures, sent to a receiver.
//!
//! Owns: the request (protobuf `WriteRequest`, version 0.1.0 of the protocol, in a snappy block), the queue, what the
//! receiver refuses.
//! Never: delays the run, or keeps more than [`QUEUED`] seconds: what a slow receiver does not take is lost, and told.
//! Driven by: `run`, through [`Watch`]; a thread of its own sends.
//! Why snappy without compression: a block of literals is a valid one, and a second's figures are two kilobytes.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use weir_rt::{
    Buf, ClientTls, ClientTlsConfig, Conn, Instant, IoChoice, MEDIUM, Runtime, RuntimeConfig, ServerVerify,
    Timer, Trust,
};

use crate::answer::{Fed, HeadCache, Reader};
use crate::dial::{self, Peer};
use crate::plan::Options;
use crate::prometheus::{Counts, Sample};
use crate::report::Report;
use crate::run::{Interval, Watch};
use crate::shot::Request;
use crate::target::{Scheme, Target};

/// The most seconds that wait to be sent.
const QUEUED: usize = 120;
/// What one request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// What all that is left may take when the run is over.
const LEFT: Duration = Duration::from_secs(15);
/// How often a request is tried that finds no receiver, or one in trouble, and how long it waits in between.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// Sends figures while a run goes on.
pub struct RemoteWrite {
    counts: Counts,
    seconds: Option<SyncSender<Vec<u8>>>,
    sender: Option<JoinHandle<Outcome>>,
    labels: Vec<(String, String)>,
    lost: u64,
    /// When to give up what is left; set at the end of the run.
    until: Arc<OnceLock<Instant>>,
}

/// Why a second was not taken.
enum Refusal {
    /// It may be taken later.
    Trouble(String),
    /// It will never be.
    Bad(String),
}

/// What became of it.
#[derive(Debug, Default)]
struct Outcome {
    sent: u64,
    refused: u64,
    /// The first reason.
    why: Option<String>,
}

/// Where it is sent.
struct Receiving {
    target: Target,
    peers: Vec<Peer>,
    tls: Option<ClientTls>,
    headers: Vec<(String, String)>,
}

impl RemoteWrite {
    /// Gets ready to send to `url`; a user and a password in it are sent as Basic authentication. The certificate of an
    /// https:// receiver must be for its name and of an authority in `ca_pem`, or of one that the system trusts.
    ///
    /// # Errors
    /// A sentence: the URL is none, its host has no address, there are no authorities.
    pub fn start(
        url: &str,
        ca_pem: Option<Vec<u8>>,
        headers: Vec<(String, String)>,
        labels: Vec<(String, String)>,
    ) -> Result<Self, String> {
        let told = |why: String| format!("--remote-write: {why}");
        let target = Target::parse(url).map_err(told)?;
        if !matches!(target.scheme, Scheme::Http | Scheme::Https) {
            return Err(told(format!("`{url}` is neither http:// nor https://")));
        }
        let peers = dial::peers(&target, &Options::default()).map_err(told)?;
        let tls = target.scheme.is_encrypted().then(|| verifying(ca_pem)).transpose().map_err(told)?;
        let mut all = vec![
            ("Content-Type".to_owned(), "application/x-protobuf".to_owned()),
            ("Content-Encoding".to_owned(), "snappy".to_owned()),
            ("X-Prometheus-Remote-Write-Version".to_owned(), "0.1.0".to_owned()),
            ("User-Agent".to_owned(), concat!("weir-load/", env!("CARGO_PKG_VERSION")).to_owned()),
        ];
        all.extend(
            user(url)
                .map(|user| ("Authorization".to_owned(), format!("Basic {}", BASE64_STANDARD.encode(user)))),
        );
        all.extend(headers);
        let receiving = Receiving { target, peers, tls, headers: all };
        let (seconds, queue) = sync_channel(QUEUED);
        let until = Arc::<OnceLock<Instant>>::default();
        let deadline = until.clone();
        let sender = std::thread::Builder::new()
            .name("load-metrics".into())
            .spawn(move || send_all(&receiving, &queue, &deadline))
            .map_err(|error| told(format!("cannot start a thread: {error}")))?;
        Ok(Self {
            counts: Counts::default(),
            seconds: Some(seconds),
            sender: Some(sender),
            labels,
            lost: 0,
            until,
        })
    }

    fn queue(&mut self, samples: &[Sample]) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let body = snappy(&request(samples, &self.labels, now.as_millis() as i64));
        if let Some(seconds) = &self.seconds
            && seconds.try_send(body).is_err()
        {
            self.lost += 1;
        }
    }

    /// Waits until all has been sent, or cannot be.
    ///
    /// # Errors
    /// A sentence: how much was not taken, and why.
    pub fn finish(mut self) -> Result<(), String> {
        // Set once, here.
        let _ = self.until.set(Instant::now() + LEFT);
        drop(self.seconds.take());
        let outcome = self.sender.take().and_then(|sender| sender.join().ok()).unwrap_or_default();
        let missing = outcome.refused + self.lost;
        if missing == 0 {
            return Ok(());
        }
        let why = outcome.why.unwrap_or_else(|| "it was too slow".into());
        Err(format!(
            "the receiver of --remote-write did not take {missing} of {} seconds: {why}",
            missing + outcome.sent
        ))
    }
}

impl Watch for RemoteWrite {
    fn interval(&mut self, interval: &Interval<'_>) {
        if let Some(samples) = self.counts.take(interval) {
            self.queue(&samples);
        }
    }

    fn finished(&mut self, report: &Report) {
        self.queue(&Counts::of(report));
    }
}

/// User and password of a URL.
fn user(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    authority.rsplit_once('@').map(|(user, _)| user)
}

/// Credentials travel: whom they go to is verified.
fn verifying(ca_pem: Option<Vec<u8>>) -> Result<ClientTls, String> {
    let found = || {
        let named = std::env::var("SSL_CERT_FILE").ok();
        named
            .as_deref()
            .into_iter()
            .chain(weir_expr::authorities::SYSTEM)
            .find_map(|path| std::fs::read(path).ok())
    };
    let ca_pem =
        ca_pem.or_else(found).ok_or("no authorities are known here: --remote-write-ca names a file")?;
    let trust = Trust { ca_pem, ..Trust::default() };
    let verify = ServerVerify::Ca { trust, check_name: true };
    ClientTls::new(ClientTlsConfig { verify, ..ClientTlsConfig::default() })
        .map_err(|error| error.to_string())
}

/// The sending thread: one request after the other, until the run is over and nothing is left.
fn send_all(receiving: &Receiving, queue: &Receiver<Vec<u8>>, until: &OnceLock<Instant>) -> Outcome {
    let mut outcome = Outcome::default();
    let runtime = Runtime::new(RuntimeConfig { io: IoChoice::Epoll, ..RuntimeConfig::default() });
    let mut open = None;
    while let Ok(body) = queue.recv() {
        let sent = match &runtime {
            Ok(runtime) => runtime.block_on(deliver(receiving, &mut open, &body, until)),
            Err(error) => Err(format!("cannot open an I/O driver: {error}")),
        };
        match sent {
            Ok(()) => outcome.sent += 1,
            Err(why) => {
                outcome.refused += 1;
                outcome.why.get_or_insert(why);
            }
        }
    }
    outcome
}

/// Sends one request, several times if need be.
async fn deliver(
    receiving: &Receiving,
    open: &mut Option<Conn>,
    body: &[u8],
    until: &OnceLock<Instant>,
) -> Result<(), String> {
    let is_over = || until.get().is_some_and(|until| Instant::now() >= *until);
    let mut why = "it was too slow".to_owned();
    for attempt in 0..TRIES {
        if is_over() {
            break;
        }
        if attempt > 0 {
            weir_rt::sleep(PAUSE).await;
        }
        match send(receiving, open, body).await {
            Ok(()) => return Ok(()),
            Err(Refusal::Bad(why)) => return Err(why),
            Err(Refusal::Trouble(trouble)) => why = trouble,
        }
    }
    Err(why)
}

/// Sends one request, on the open connection or on a new one.
async fn send(receiving: &Receiving, open: &mut Option<Conn>, body: &[u8]) -> Result<(), Refusal> {
    let timer = Timer::new();
    timer.arm(PATIENCE);
    let sent = timer.run(async {
        if let Some(conn) = open.take() {
            // The receiver may have closed it meanwhile: then a new one is opened.
            if let Ok(answer) = ask(receiving, conn, open, body).await {
                return judge(answer);
            }
        }
        let conn = connect(receiving).await.map_err(Refusal::Trouble)?;
        judge(ask(receiving, conn, open, body).await.map_err(Refusal::Trouble)?)
    });
    sent.await.unwrap_or_else(|_| Err(Refusal::Trouble("no answer in time".into())))
}

/// What an answer means: an error of the server's, or 429, may pass ("Prometheus remote write", retries).
fn judge((status, text): (u16, String)) -> Result<(), Refusal> {
    let said = || format!("it answered {status} {text}").trim_end().to_owned();
    match status {
        200..300 => Ok(()),
        429 | 500.. => Err(Refusal::Trouble(said())),
        _ => Err(Refusal::Bad(said())),
    }
}

async fn connect(receiving: &Receiving) -> Result<Conn, String> {
    let mut why = String::new();
    for peer in &receiving.peers {
        match dial::dial(peer, &[], 0).await {
            Err(error) => why = format!("cannot connect to {peer}: {error}"),
            Ok(stream) => {
                let Some(tls) = &receiving.tls else { return Ok(Conn::Plain(stream)) };
                let shaken = tls.connect(stream, &receiving.target.host).await;
                return shaken.map(Conn::Tls).map_err(|error| format!("TLS handshake with {peer}: {error}"));
            }
        }
    }
    Err(why)
}

/// Status and beginning of the answer; the connection is kept if it may be used again.
async fn ask(
    receiving: &Receiving,
    conn: Conn,
    open: &mut Option<Conn>,
    body: &[u8],
) -> Result<(u16, String), String> {
    let request = Request {
        method: "POST",
        path: &receiving.target.path,
        authority: &receiving.target.authority,
        headers: &receiving.headers,
        body: Some(body),
        close: false,
    };
    let of = |error: std::io::Error| error.to_string();
    conn.write_slice(&request.build().bytes).await.map_err(of)?;
    let (mut reader, mut heads, mut buf) = (Reader::new(true), HeadCache::default(), Buf::new());
    reader.begin(false);
    loop {
        buf.clear();
        let read = conn.read_up_to(&mut buf, MEDIUM).await.map_err(of)?;
        let fed = match read {
            0 => reader.end_of_stream().ok_or("it closed the connection before its answer")?,
            _ => reader.feed(&mut heads, &buf).map_err(|_| "its answer is no HTTP".to_owned())?,
        };
        if let Fed::Answer { status, keep, .. } = fed {
            let text = reader.collected().map(|kept| String::from_utf8_lossy(&kept.body).into_owned());
            let text: String =
                text.unwrap_or_default().chars().take_while(|c| *c != '\n').take(200).collect();
            if keep && read > 0 {
                *open = Some(conn);
            }
            return Ok((status, text));
        }
    }
}

/// `prometheus.WriteRequest`: a time series a sample, labels in the order of their names.
fn request(samples: &[Sample], more: &[(String, String)], at_ms: i64) -> Vec<u8> {
    let mut out = Vec::new();
    for sample in samples {
        let mut labels: Vec<(&str, &str)> = vec![("__name__", sample.name)];
        labels.extend(sample.labels.iter().map(|(name, value)| (*name, value.as_str())));
        labels.extend(more.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        labels.sort_unstable();
        let mut series = Vec::new();
        for (name, value) in labels {
            let mut label = Vec::new();
            bytes(&mut label, 1, name.as_bytes());
            bytes(&mut label, 2, value.as_bytes());
            bytes(&mut series, 1, &label);
        }
        // A sample: the value (1, a double), its time (2, milliseconds).
        let mut point = vec![0x09];
        point.extend_from_slice(&sample.value.to_le_bytes());
        point.push(0x10);
        varint(&mut point, at_ms as u64);
        bytes(&mut series, 2, &point);
        bytes(&mut out, 1, &series);
    }
    out
}

/// A field of bytes.
fn bytes(out: &mut Vec<u8>, field: u8, value: &[u8]) {
    out.push(field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A snappy block of literals: its length, then pieces of up to 65,536 bytes, each after a tag.
fn snappy(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len() + 16);
    varint(&mut out, data.len() as u64);
    for piece in data.chunks(1 << 16) {
        let length = (piece.len() - 1) as u16;
        // Two bytes of length follow: 61 in the tag's upper six bits.
        out.push(61 << 2);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(piece);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_the_protocol_s() {
        let samples =
            [Sample { name: "weir_load_errors_total", labels: vec![("cause", "reset".into())], value: 1.5 }];
        let bytes = request(&samples, &[("a".into(), "b".into())], 300);
        let mut wanted = vec![0x0a, 76];
        for (name, value) in [("__name__", "weir_load_errors_total"), ("a", "b"), ("cause", "reset")] {
            wanted.extend([0x0a, (name.len() + value.len() + 4) as u8, 0x0a, name.len() as u8]);
            wanted.extend(name.as_bytes());
            wanted.extend([0x12, value.len() as u8]);
            wanted.extend(value.as_bytes());
        }
        wanted.extend([0x12, 12, 0x09]);
        wanted.extend(1.5_f64.to_le_bytes());
        wanted.extend([0x10, 0xac, 0x02]);
        wanted[1] = (wanted.len() - 2) as u8;
        assert_eq!(bytes, wanted);
    }

    #[test]
    fn blocks_are_literals() {
        assert_eq!(snappy(b"abc"), [3, 61 << 2, 2, 0, b'a', b'b', b'c']);
        let long = snappy(&vec![7; 70_000]);
        assert_eq!(long.len(), 70_000 + 3 + 2 * 3);
        assert_eq!(long[..6], [0xf0, 0xa2, 0x04, 61 << 2, 0xff, 0xff]);
    }

    #[test]
    fn users_are_taken_from_the_url() {
        assert_eq!(user("http://u:p@host:9090/api/v1/write"), Some("u:p"));
        assert_eq!(user("http://host/@x"), None);
        assert!(RemoteWrite::start("tcp://127.0.0.1:1", None, Vec::new(), Vec::new()).is_err());
    }
}
