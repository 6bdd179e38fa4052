//! Looking names up while running.
//!
//! Owns: a side thread with DNS clients, and a bounded cache of answers.
//! Never: blocks a worker: it awaits an answer that the side thread sends.
//! Driven by: computed proxy targets; rules that look a name up; `names`, which follows endpoints' names on a thread of its own and asks as this does.
//! Why: when name servers are silent or fail, the last known addresses serve for a while longer, which beats an error
//! for every request (nginx answers 502 at once).

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::RData;
use hickory_resolver::{Resolver as Client, TokioResolver};
use tokio::sync::{mpsc, oneshot};
use weir_control::Spot;
use weir_control::zones::ResolverZone;
use weir_plan::Resolver;
use weir_policy::names::NameFailure;
use weir_rt::Instant;

use crate::worker::Worker;
use crate::worker::lasting;

/// Most names remembered.
const REMEMBERED: usize = 10_000;
/// How long addresses may serve after their time while name servers fail.
const STALE: Duration = Duration::from_secs(600);
/// Most addresses of a name that are used: an answer over TCP has room for thousands, and each name may have as many.
const MOST_ADDRESSES: usize = 64;
/// Longest time that an answer is believed, whatever its TTL (RFC 8767 §4 says a week at most).
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// How long a failure is remembered, so that dead name servers are not asked for each request.
const FAILURE: Duration = Duration::from_secs(1);

const TIMED_OUT: &str = "110: Operation timed out";

/// A question for the side thread.
struct Question {
    name: String,
    resolver: Option<Arc<ResolverKey>>,
    answer: oneshot::Sender<Result<(Vec<IpAddr>, Duration), String>>,
}

/// What a DNS client is made from.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct ResolverKey {
    servers: Vec<SocketAddr>,
    timeout: Duration,
    attempts: u32,
    ipv4: bool,
    ipv6: bool,
}

impl ResolverKey {
    /// `None`: the system is asked.
    fn of(resolver: &Resolver) -> Option<Arc<Self>> {
        let Resolver { servers, timeout, attempts, ipv4, ipv6, .. } = resolver;
        let (servers, timeout, attempts) = (servers.clone(), *timeout, *attempts);
        (!servers.is_empty()).then(|| Arc::new(Self { servers, timeout, attempts, ipv4: *ipv4, ipv6: *ipv6 }))
    }
}

/// What came of a look-up: addresses, and for how long they hold.
pub(crate) type Found = Result<(Vec<Spot>, Duration), Failed>;

/// As [`Found`], of a host.
type Addresses = Result<(Vec<IpAddr>, Duration), Failed>;

/// Why there is no address.
pub(crate) struct Failed {
    /// What a policy makes of it.
    pub(crate) kind: NameFailure,
    /// For the log.
    pub(crate) words: String,
}

impl Failed {
    fn new(kind: NameFailure, words: impl Into<String>) -> Self {
        Self { kind, words: words.into() }
    }
}

/// DNS clients of a thread.
pub(crate) type Clients = HashMap<Arc<ResolverKey>, Rc<TokioResolver>>;

/// Looks a name up, on a thread of its own with a runtime: no cache stands before it.
/// With `services` its service records are asked for, and the addresses of their targets.
pub(crate) async fn look_up(
    clients: &RefCell<Clients>,
    resolver: &Resolver,
    name: &str,
    services: bool,
) -> Found {
    let name = name.trim_end_matches('.');
    let found = match ResolverKey::of(resolver) {
        None => tokio::time::timeout(resolver.timeout, ask_system(name.to_owned())).await.map(spots),
        Some(key) => {
            let client = client_for(&mut clients.borrow_mut(), &key);
            let client = client.map_err(|words| Failed::new(NameFailure::Other, words))?;
            match services {
                true => tokio::time::timeout(resolver.timeout, ask_services(&client, &key, name)).await,
                false => tokio::time::timeout(resolver.timeout, ask(&client, &key, name)).await.map(spots),
            }
        }
    };
    let found = found.unwrap_or_else(|_| Err(Failed::new(NameFailure::Timeout, TIMED_OUT)));
    count(resolver, found.as_ref().err().map(|failed| failed.words.as_str()));
    found
}

/// Looks up the names of whom requests of our own go to.
pub(crate) struct Asked(pub(crate) Arc<Resolver>);

impl weir_fetch::Lookup for Asked {
    fn lookup(&self, host: &str) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> {
        let (key, host) = (ResolverKey::of(&self.0), host.trim_end_matches('.').to_owned());
        Box::pin(async move {
            let found = match key {
                None => ask_system(host).await,
                Some(key) => ask(&client(&key).map_err(io::Error::other)?, &key, &host).await,
            };
            found.map(|(addresses, _)| addresses).map_err(|failed| io::Error::other(failed.words))
        })
    }
}

fn spots(found: Addresses) -> Found {
    found.map(|(addresses, ttl)| (addresses.into_iter().map(Spot::Address).collect(), ttl))
}

/// What was asked of the resolvers that have a zone. Whoever asks waits for a name server: a lock is nothing beside it.
static ASKED: Mutex<BTreeMap<Box<str>, ResolverZone>> = Mutex::new(BTreeMap::new());

/// Counts a question for a name, and what came of it; `None`: addresses.
fn count(resolver: &Resolver, failed: Option<&str>) {
    let Some(zone) = &resolver.zone else { return };
    let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    let counted = asked.entry(zone.clone()).or_default();
    counted.names += 1;
    let code = |words: &str| words.split_once(':')?.0.parse::<usize>().ok();
    let at = match failed {
        None => 0,
        Some(TIMED_OUT) => 6,
        Some(words) => code(words).filter(|code| (1..6).contains(code)).unwrap_or(7),
    };
    counted.answers[at] += 1;
}

/// What was asked of a resolver with this zone.
pub(crate) fn asked(zone: &str) -> ResolverZone {
    let asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    ResolverZone { name: zone.to_owned(), ..asked.get(zone).cloned().unwrap_or_default() }
}

/// A remembered answer.
struct Known {
    addresses: Result<Vec<IpAddr>, String>,
    until: Instant,
    /// The last addresses that were good, and until when they may still serve.
    last_good: Option<(Vec<IpAddr>, Instant)>,
}

#[derive(Default)]
struct Cache {
    known: HashMap<(String, Option<Arc<ResolverKey>>), Known>,
}

static CACHE: Mutex<Option<Cache>> = Mutex::new(None);
static THREAD: OnceLock<mpsc::Sender<Question>> = OnceLock::new();

/// Addresses of a name. With name servers these are asked, else the system is.
///
/// # Errors
/// A few words for the log.
pub(crate) async fn lookup(
    worker: &Rc<Worker>,
    resolver: Option<&Resolver>,
    name: &str,
) -> Result<Vec<IpAddr>, String> {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let key = resolver.and_then(ResolverKey::of);
    let now = worker.now();
    let cache_key = (name.clone(), key.clone());
    if let Some(known) = cached(&cache_key, now) {
        return known;
    }
    let valid = resolver.and_then(|resolver| resolver.valid);
    let timeout = resolver.map_or(Duration::from_secs(30), |resolver| resolver.timeout);
    let (answer, answered) = oneshot::channel();
    let asked = thread(worker)?.try_send(Question { name, resolver: key, answer }).is_ok();
    let result = if asked {
        match weir_rt::timeout(now + timeout, answered).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err("the resolver stopped".to_owned()),
            Err(_) => Err(TIMED_OUT.to_owned()),
        }
    } else {
        Err("too many names are being looked up".to_owned())
    };
    if let Some(resolver) = resolver {
        count(resolver, result.as_ref().err().map(String::as_str));
    }
    remember(
        cache_key,
        result.map(|(addresses, ttl)| (addresses, valid.unwrap_or(ttl))),
        worker.now(),
        worker,
    )
}

fn cached(key: &(String, Option<Arc<ResolverKey>>), now: Instant) -> Option<Result<Vec<IpAddr>, String>> {
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let known = cache.get_or_insert_default().known.get(key)?;
    (known.until > now).then(|| known.addresses.clone())
}

fn remember(
    key: (String, Option<Arc<ResolverKey>>),
    result: Result<(Vec<IpAddr>, Duration), String>,
    now: Instant,
    worker: &Rc<Worker>,
) -> Result<Vec<IpAddr>, String> {
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let known = &mut cache.get_or_insert_default().known;
    if known.len() >= REMEMBERED {
        known.retain(|_, entry| entry.until > now);
        if known.len() >= REMEMBERED {
            known.clear();
        }
    }
    let before = known.get(&key).and_then(|entry| entry.last_good.clone());
    match result {
        Ok((addresses, ttl)) => {
            let until = now + ttl.clamp(Duration::from_secs(1), LONGEST);
            let last_good = Some((addresses.clone(), until + STALE));
            known.insert(key, Known { addresses: Ok(addresses.clone()), until, last_good });
            Ok(addresses)
        }
        Err(error) => {
            let stale = before.filter(|(_, until)| *until > now);
            if let Some((addresses, _)) = &stale {
                worker.shared.log_process_error(&format!(
                    "{} could not be resolved ({error}); its last known addresses are used",
                    key.0
                ));
                let again = Known {
                    addresses: Ok(addresses.clone()),
                    until: now + FAILURE,
                    last_good: stale.clone(),
                };
                let addresses = addresses.clone();
                known.insert(key, again);
                return Ok(addresses);
            }
            known.insert(key, Known { addresses: Err(error.clone()), until: now + FAILURE, last_good: None });
            Err(error)
        }
    }
}

fn thread(worker: &Worker) -> Result<&'static mpsc::Sender<Question>, String> {
    if let Some(sender) = THREAD.get() {
        return Ok(sender);
    }
    let (sender, mut receiver) = mpsc::channel(1024);
    let shared = Arc::downgrade(&worker.shared);
    let note = move |payload: &(dyn std::any::Any + Send)| {
        if let Some(shared) = shared.upgrade() {
            shared.note_panic("looking names up", payload);
        }
    };
    lasting::thread("weir-dns", note, move || serve(&mut receiver))
        .map_err(|error| format!("no thread for look-ups: {error}"))?;
    Ok(THREAD.get_or_init(|| sender))
}

fn serve(questions: &mut mpsc::Receiver<Question>) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async move {
        let mut clients = Clients::new();
        while let Some(Question { name, resolver, answer }) = questions.recv().await {
            let client = match resolver {
                None => None,
                Some(key) => match client_for(&mut clients, &key) {
                    Ok(client) => Some((client, key)),
                    Err(error) => {
                        let _ = answer.send(Err(error));
                        continue;
                    }
                },
            };
            tokio::task::spawn_local(async move {
                let result = match client {
                    Some((client, key)) => ask(&client, &key, &name).await,
                    None => ask_system(name).await,
                };
                let _ = answer.send(result.map_err(|failed| failed.words));
            });
        }
    });
}

fn client(key: &ResolverKey) -> Result<TokioResolver, String> {
    let servers = key.servers.iter().map(|server| {
        let mut udp = ConnectionConfig::udp();
        udp.port = server.port();
        let mut tcp = ConnectionConfig::tcp();
        tcp.port = server.port();
        NameServerConfig::new(server.ip(), true, vec![udp, tcp])
    });
    let config = ResolverConfig::from_parts(None, Vec::new(), servers.collect());
    let mut builder = Client::builder_with_config(config, TokioRuntimeProvider::default());
    let options = builder.options_mut();
    options.timeout = (key.timeout / key.attempts.max(1)).max(Duration::from_millis(500));
    options.attempts = key.attempts.saturating_sub(1) as usize;
    options.cache_size = 0;
    options.ip_strategy = match (key.ipv4, key.ipv6) {
        (true, false) => hickory_resolver::config::LookupIpStrategy::Ipv4Only,
        (false, true) => hickory_resolver::config::LookupIpStrategy::Ipv6Only,
        _ => hickory_resolver::config::LookupIpStrategy::Ipv4AndIpv6,
    };
    builder.build().map_err(|error| error.to_string())
}

fn client_for(clients: &mut Clients, key: &Arc<ResolverKey>) -> Result<Rc<TokioResolver>, String> {
    if let Some(client) = clients.get(key) {
        return Ok(client.clone());
    }
    let client = Rc::new(client(key)?);
    if clients.len() >= 64 {
        clients.clear();
    }
    clients.insert(key.clone(), client.clone());
    Ok(client)
}

async fn ask(client: &TokioResolver, key: &ResolverKey, name: &str) -> Addresses {
    let found = client.lookup_ip(format!("{name}.")).await.map_err(|error| words(&error))?;
    let addresses: Vec<IpAddr> = found
        .iter()
        .filter(|ip| if ip.is_ipv4() { key.ipv4 } else { key.ipv6 })
        .take(MOST_ADDRESSES)
        .collect();
    if addresses.is_empty() {
        return Err(Failed::new(NameFailure::Missing, "no address"));
    }
    let ttl = found.valid_until().saturating_duration_since(std::time::Instant::now());
    Ok((addresses, ttl))
}

/// The places that a name's service records lead to, the best priority first, then the greatest weight. Targets whose
/// addresses are not found are left out, unless none is.
async fn ask_services(client: &Rc<TokioResolver>, key: &Arc<ResolverKey>, name: &str) -> Found {
    let found = client.srv_lookup(format!("{name}.")).await.map_err(|error| words(&error))?;
    let mut ttl = found.valid_until().saturating_duration_since(std::time::Instant::now());
    let mut records: Vec<(u16, u16, u16, String)> = found
        .answers()
        .iter()
        .filter_map(|record| match &record.data {
            RData::SRV(srv) => Some((srv.priority, srv.weight, srv.port, srv.target.to_string())),
            _ => None,
        })
        // A root is no target: the service is said not to be there (RFC 2782).
        .filter(|record| record.3 != ".")
        .take(MOST_ADDRESSES)
        .collect();
    records.sort_by_key(|(priority, weight, port, _)| (*priority, std::cmp::Reverse(*weight), *port));
    let best = records.first().map(|record| record.0);
    let asked: Vec<_> = records
        .into_iter()
        .map(|record| {
            let (client, key, target) =
                (client.clone(), key.clone(), record.3.trim_end_matches('.').to_owned());
            (record, tokio::task::spawn_local(async move { ask(&client, &key, &target).await }))
        })
        .collect();
    let mut spots = Vec::new();
    let mut failed = None;
    for ((priority, weight, port, _), answer) in asked {
        match answer.await {
            Ok(Ok((addresses, holds))) => {
                ttl = ttl.min(holds);
                let backup = Some(priority) != best;
                spots.extend(addresses.into_iter().map(|ip| Spot::Service { ip, port, weight, backup }));
            }
            Ok(Err(why)) => failed = Some(why),
            Err(_) => failed = Some(Failed::new(NameFailure::Other, "the look-up was given up")),
        }
    }
    spots.truncate(MOST_ADDRESSES);
    match spots.is_empty() {
        true => Err(failed.unwrap_or_else(|| Failed::new(NameFailure::Missing, "3: Host not found"))),
        false => Ok((spots, ttl)),
    }
}

/// Why there is no answer, in nginx's words where it has any: the code of RFC 1035 §4.1.1 and its meaning.
fn words(error: &NetError) -> Failed {
    let code = match error {
        NetError::Timeout => return Failed::new(NameFailure::Timeout, TIMED_OUT),
        NetError::Dns(DnsError::ResponseCode(code)) => *code,
        NetError::Dns(DnsError::NoRecordsFound(none)) => match none.response_code {
            // The name exists, without an address: nobody is found either.
            ResponseCode::NoError => ResponseCode::NXDomain,
            code => code,
        },
        // No server was ever asked for what is no name.
        NetError::Proto(_) => ResponseCode::NXDomain,
        error => return Failed::new(NameFailure::Other, error.to_string()),
    };
    match code {
        ResponseCode::FormErr => Failed::new(NameFailure::Other, "1: Format error"),
        ResponseCode::ServFail => Failed::new(NameFailure::Other, "2: Server failure"),
        ResponseCode::NXDomain => Failed::new(NameFailure::Missing, "3: Host not found"),
        ResponseCode::NotImp => Failed::new(NameFailure::Other, "4: Unimplemented"),
        ResponseCode::Refused => Failed::new(NameFailure::Refused, "5: Operation refused"),
        code => Failed::new(NameFailure::Other, code.to_string()),
    }
}

async fn ask_system(name: String) -> Addresses {
    let found = tokio::net::lookup_host((name, 0)).await;
    // The system does not say why in a way that could be told apart.
    let found = found.map_err(|error| Failed::new(NameFailure::Missing, error.to_string()))?;
    let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    addresses.dedup();
    addresses.truncate(MOST_ADDRESSES);
    if addresses.is_empty() {
        return Err(Failed::new(NameFailure::Missing, "no address"));
    }
    Ok((addresses, Duration::from_secs(30)))
}
