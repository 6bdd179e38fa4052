//! Messages between leader and agents.
//!
//! Owns: their form, their bounds, and the proof that a job comes from who knows the token.
//! Driven by: `lead` and `serve`.

use std::io::{self, Read, Write};
use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weir_rt::{IoChoice, TlsVersion};

use crate::plan::{Options, Rate, ScriptFile};
use crate::report::{Report, Work};
use crate::targets::Asked;

/// Raised when a message changes its meaning.
pub(super) const VERSION: u32 = 2;
/// The longest message: a report of many steps, or a job with a large body.
const LONGEST: usize = 256 << 20;

/// The agent's first message.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) weir_load_agent: u32,
    pub(super) nonce: String,
}

/// The leader's first message.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// A [`Job`], as text: what is proved is these bytes.
    pub(super) job: String,
    pub(super) proof: String,
}

/// What an agent says from then on.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    Ready,
    Failed(String),
    Tick(Tick),
    Report(Box<Report>),
}

/// A second of an agent's run.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Tick {
    pub(super) at_s: f64,
    pub(super) run_s: f64,
    pub(super) requests: u64,
    pub(super) errors: u64,
}

/// What the leader says after the job.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Command {
    Go,
}

/// [`Options`], as they travel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Job {
    urls: Vec<String>,
    threads: u32,
    connections: u32,
    duration_ns: u64,
    warmup_ns: u64,
    rates: Vec<(f64, f64)>,
    headers: Vec<(String, String)>,
    method: Option<String>,
    body: Option<String>,
    timeout_ns: u64,
    work: Work,
    batch: bool,
    h2: Option<u32>,
    targets: Vec<Asking>,
    requests: Option<u64>,
    grpc: bool,
    any_reply: bool,
    connect_to: Vec<String>,
    resume: bool,
    tls: Option<String>,
    suites: Option<String>,
    curves: Option<String>,
    server_name: Option<String>,
    echo_bytes: usize,
    /// Name and text.
    pub(super) script: Option<(String, String)>,
    script_args: Vec<String>,
    io: String,
    /// How much later than the first agent this one begins, so that they do not all send at the same moments.
    pub(super) stagger_ns: u64,
}

/// [`Asked`], as it travels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Asking {
    url: String,
    method: Option<String>,
    headers: Vec<(String, String)>,
    body: Option<String>,
}

fn encoded(body: Option<&Vec<u8>>) -> Option<String> {
    body.map(|body| BASE64_STANDARD.encode(body))
}

fn decoded(body: Option<&String>) -> Result<Option<Vec<u8>>, String> {
    let decode = |text: &String| BASE64_STANDARD.decode(text).map_err(|error| format!("a body: {error}"));
    body.map(decode).transpose()
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Job {
    /// The share of agent `at` of `of`: connections and rates are divided, threads are each machine's own.
    pub(super) fn share(options: &Options, at: u32, of: u32) -> Self {
        let connections = options.connections / of + u32::from(at < options.connections % of);
        let share = |rate: f64| rate / f64::from(of);
        let first = options.rates.first().map_or(0.0, |rate| rate.from.max(rate.to));
        let stagger = if first > 0.0 { f64::from(at) / first } else { 0.0 };
        Self {
            urls: options.urls.clone(),
            threads: options.threads.min(connections).max(1),
            connections,
            duration_ns: ns(options.duration),
            warmup_ns: ns(options.warmup),
            rates: options.rates.iter().map(|rate| (share(rate.from), share(rate.to))).collect(),
            headers: options.headers.clone(),
            method: options.method.clone(),
            body: encoded(options.body.as_ref()),
            timeout_ns: ns(options.timeout),
            work: options.work,
            batch: options.batch,
            h2: options.h2,
            targets: options
                .targets
                .iter()
                .map(|asked| Asking {
                    url: asked.url.clone(),
                    method: asked.method.clone(),
                    headers: asked.headers.clone(),
                    body: encoded(asked.body.as_ref()),
                })
                .collect(),
            requests: options.requests.map(|all| {
                let (of, at) = (u64::from(of), u64::from(at));
                all / of + u64::from(at < all % of)
            }),
            grpc: options.grpc,
            any_reply: options.any_reply,
            connect_to: options.connect_to.iter().map(ToString::to_string).collect(),
            resume: options.resume,
            tls: options.tls_version.map(|version| version.name().to_owned()),
            suites: options.suites.clone(),
            curves: options.curves.clone(),
            server_name: options.server_name.clone(),
            echo_bytes: options.echo_bytes,
            script: options
                .script
                .as_ref()
                .map(|script| (script.name.clone(), String::from_utf8_lossy(&script.text).into_owned())),
            script_args: options.script_args.clone(),
            io: match options.io {
                IoChoice::Auto => "auto",
                IoChoice::Uring => "uring",
                IoChoice::Epoll => "epoll",
            }
            .to_owned(),
            stagger_ns: (stagger * 1e9) as u64,
        }
    }

    /// The options of this share.
    pub(super) fn options(&self) -> Result<Options, String> {
        let body = decoded(self.body.as_ref())?;
        let asked = |its: &Asking| {
            Ok(Asked {
                url: its.url.clone(),
                method: its.method.clone(),
                headers: its.headers.clone(),
                body: decoded(its.body.as_ref())?,
            })
        };
        Ok(Options {
            urls: self.urls.clone(),
            threads: self.threads,
            connections: self.connections,
            duration: Duration::from_nanos(self.duration_ns),
            warmup: Duration::from_nanos(self.warmup_ns),
            rates: self.rates.iter().map(|&(from, to)| Rate { from, to }).collect(),
            headers: self.headers.clone(),
            method: self.method.clone(),
            body,
            timeout: Duration::from_nanos(self.timeout_ns),
            work: self.work,
            batch: self.batch,
            h2: self.h2,
            targets: self.targets.iter().map(asked).collect::<Result<_, String>>()?,
            requests: self.requests,
            grpc: self.grpc,
            any_reply: self.any_reply,
            connect_to: self.connect_to.iter().map(|rule| rule.parse()).collect::<Result<_, _>>()?,
            // Paths of one machine.
            unix_socket: None,
            certificate: None,
            resume: self.resume,
            tls_version: match self.tls.as_deref() {
                None => None,
                Some("TLSv1.2") => Some(TlsVersion::Tls12),
                Some("TLSv1.3") => Some(TlsVersion::Tls13),
                Some(other) => return Err(format!("TLS version `{other}` is not known here")),
            },
            suites: self.suites.clone(),
            curves: self.curves.clone(),
            server_name: self.server_name.clone(),
            sources: Vec::new(),
            echo_bytes: self.echo_bytes,
            script: self.script.clone().map(|(name, text)| ScriptFile { name, text: text.into_bytes() }),
            script_args: self.script_args.clone(),
            io: match self.io.as_str() {
                "uring" => IoChoice::Uring,
                "epoll" => IoChoice::Epoll,
                _ => IoChoice::Auto,
            },
        })
    }
}

/// The proof that `job` is of somebody who knows `token`, for this nonce alone.
pub(super) fn proof(token: &str, nonce: &str, job: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes());
    BASE64_STANDARD.encode(hmac::sign(&key, format!("{nonce}\n{job}").as_bytes()).as_ref())
}

/// Whether a proof is one. Takes the same time whichever byte is wrong.
pub(super) fn is_proved(token: &str, nonce: &str, order: &Order) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes());
    let Ok(proof) = BASE64_STANDARD.decode(&order.proof) else { return false };
    hmac::verify(&key, format!("{nonce}\n{}", order.job).as_bytes(), &proof).is_ok()
}

/// A number that nobody can foresee.
pub(super) fn nonce() -> io::Result<String> {
    let mut bytes = [0; 24];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| io::Error::other("no random numbers"))?;
    Ok(BASE64_STANDARD.encode(bytes))
}

/// Sends a message.
pub(super) fn send(mut out: impl Write, message: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    if text.len() > LONGEST {
        return Err(io::Error::other("the message is too long"));
    }
    let mut frame = (text.len() as u32).to_be_bytes().to_vec();
    frame.extend_from_slice(&text);
    out.write_all(&frame)
}

/// Receives a message of at most `longest` bytes; memory is taken as bytes come, not as they are announced.
pub(super) fn receive_up_to<T: DeserializeOwned>(input: impl Read, longest: usize) -> io::Result<T> {
    let mut input = input;
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > longest.min(LONGEST) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message that is too long"));
    }
    let mut text = Vec::new();
    input.take(length as u64).read_to_end(&mut text)?;
    if text.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Receives a message.
pub(super) fn receive<T: DeserializeOwned>(input: impl Read) -> io::Result<T> {
    receive_up_to(input, LONGEST)
}

/// Messages of whoever connects: none panics, none takes memory that did not come.
pub(crate) fn fuzz(data: &[u8]) {
    let _ = receive::<Hello>(data);
    let _ = receive::<Answer>(data);
    let _ = receive::<Command>(data);
    if let Ok(order) = receive_up_to::<Order>(data, 1 << 20) {
        assert!(!is_proved("a token that nobody knows", "nonce", &order));
        let _ = serde_json::from_str::<Job>(&order.job).map(|job| job.options());
    }
    let _ = serde_json::from_slice::<Job>(data).map(|job| job.options());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_its_options_again() {
        let options = Options {
            urls: vec!["http://a/".into()],
            connections: 11,
            threads: 2,
            rates: vec![Rate { from: 100.0, to: 300.0 }],
            body: Some(vec![0, 255]),
            tls_version: Some(TlsVersion::Tls12),
            requests: Some(20),
            targets: vec![Asked { url: "http://b/".into(), body: Some(vec![7]), ..Asked::default() }],
            connect_to: vec!["a:80:b:81".parse().unwrap()],
            grpc: true,
            ..Options::default()
        };
        let shares: Vec<Job> = (0..3).map(|at| Job::share(&options, at, 3)).collect();
        let text = serde_json::to_string(&shares).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Job>>(&text).unwrap(), shares);
        let all: Vec<Options> = shares.iter().map(|job| job.options().unwrap()).collect();
        assert_eq!(all.iter().map(|o| o.connections).collect::<Vec<_>>(), [4, 4, 3]);
        assert!(all.iter().all(|o| (o.rates[0].from - 100.0 / 3.0).abs() < 1e-9 && o.body == options.body));
        assert_eq!(all[0].tls_version, options.tls_version);
        assert_eq!(all.iter().map(|o| o.requests).collect::<Vec<_>>(), [Some(7), Some(7), Some(6)]);
        assert!(
            all.iter().all(|o| o.targets == options.targets && o.connect_to == options.connect_to && o.grpc)
        );
        assert!(shares[1].stagger_ns > shares[0].stagger_ns);
    }

    #[test]
    fn only_the_token_proves_and_only_this_job() {
        let order =
            |token: &str, nonce: &str, job: &str| Order { job: job.into(), proof: proof(token, nonce, job) };
        assert!(is_proved("secret", "n", &order("secret", "n", "job")));
        assert!(!is_proved("secret", "n", &order("guess", "n", "job")));
        assert!(!is_proved("secret", "n", &order("secret", "old", "job")));
        let mut changed = order("secret", "n", "job");
        changed.job.push('!');
        assert!(!is_proved("secret", "n", &changed));
    }

    #[test]
    fn messages_are_bounded() {
        let mut frame = Vec::new();
        send(&mut frame, &Answer::Failed("why".into())).unwrap();
        assert!(matches!(receive(&frame[..]).unwrap(), Answer::Failed(why) if why == "why"));
        assert!(receive::<Answer>(&frame[..frame.len() - 1]).is_err());
        assert!(receive_up_to::<Answer>(&frame[..], 3).is_err());
        assert!(receive::<Answer>(&[255, 255, 255, 255, 0][..]).is_err());
    }
}
