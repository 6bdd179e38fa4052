//! Asking OCSP responders about own certificates.
//!
//! Owns: a side thread that asks again before a response is over; when that is, and how long it waits after a failure.
//! Never: blocks a worker or a handshake; shows what does not verify. The last good response serves until it is over.
//! Driven by: [`crate::Engine`], at each new plan and when a certificate was given.
//! Why beside the workers: one answer serves all of them, and a responder that is silent is nobody's handshake.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use weir_fetch::{Bytes, Client, Names, Options, http};
use weir_plan::{Certificate, Plan, Stapling};
use weir_rt::{OcspQuestion, OcspStatus};
use weir_telemetry::Level;

use crate::worker::command::Crew;
use crate::worker::dns::Asked;
use crate::worker::lasting;
use crate::worker::prepared::Prepared;
use crate::worker::shared::Shared;
use crate::worker::staples::Staple;

/// Requests at once.
const PARALLEL: usize = 8;
/// The largest response.
const LARGEST: usize = 64 << 10;
/// How long a responder may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long to wait after the first failure; after each further one twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// How long a thread without work waits at most.
const IDLE: Duration = Duration::from_secs(3600);

/// Asks responders for what certificates of a plan are to be shown with, if it wants that of any.
///
/// # Errors
/// No thread could be started.
pub(crate) fn follow(shared: &Arc<Shared>, crew: &Arc<Crew>, prepared: &Arc<Prepared>) -> Result<(), String> {
    if crew.staples.get().is_none() {
        if prepared.plan.tls.iter().all(|identity| identity.stapling.is_none()) {
            return Ok(());
        }
        let _ = crew.staples.set(start_thread(shared, crew)?);
    }
    if let Some(thread) = crew.staples.get() {
        let _ = thread.send(prepared.clone());
    }
    Ok(())
}

fn start_thread(
    shared: &Arc<Shared>,
    crew: &Arc<Crew>,
) -> Result<mpsc::UnboundedSender<Arc<Prepared>>, String> {
    let (sender, mut orders) = mpsc::unbounded_channel();
    let weak = Arc::downgrade(shared);
    let note = move |payload: &(dyn std::any::Any + Send)| {
        if let Some(shared) = weak.upgrade() {
            shared.note_panic("asking OCSP responders", payload);
        }
    };
    // The thread ends with the engine, whose end closes the mailbox.
    let engine = Engine(Arc::downgrade(shared), Arc::downgrade(crew));
    let mut state = State { asked: HashMap::new(), prepared: None };
    lasting::thread("weir-ocsp", note, move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(state.serve(&engine, &mut orders));
    })
    .map_err(|error| format!("cannot start the thread that asks OCSP responders: {error}"))?;
    Ok(sender)
}

/// The engine, if it is still there.
struct Engine(Weak<Shared>, Weak<Crew>);

impl Engine {
    fn there(&self) -> Option<(Arc<Shared>, Arc<Crew>)> {
        self.0.upgrade().zip(self.1.upgrade())
    }
}

/// A certificate that a responder is asked about.
#[derive(Clone)]
struct One {
    name: String,
    question: OcspQuestion,
    responder: String,
    stapling: Stapling,
    due: Instant,
    failures: u32,
    asking: bool,
}

struct State {
    /// By chain.
    asked: HashMap<Arc<[u8]>, One>,
    prepared: Option<Arc<Prepared>>,
}

/// What came of asking: a response, and when it is over.
type Found = Result<Staple, String>;

impl State {
    async fn serve(&mut self, engine: &Engine, orders: &mut mpsc::UnboundedReceiver<Arc<Prepared>>) {
        let mut asking: JoinSet<(Arc<[u8]>, Found)> = JoinSet::new();
        // What was being asked as this began anew has no one to tell.
        self.asked.values_mut().for_each(|one| one.asking = false);
        loop {
            self.ask(&mut asking);
            let waiting = self.asked.values().filter(|one| !one.asking);
            let next = waiting.map(|one| one.due).min().unwrap_or_else(|| Instant::now() + IDLE);
            // What is over is not shown, asked or not.
            let next = next.min(Instant::now() + Duration::from_secs(60));
            tokio::select! {
                order = orders.recv() => {
                    let (Some(prepared), Some((shared, _))) = (order, engine.there()) else { return };
                    self.take_up(&shared, prepared);
                }
                Some(done) = asking.join_next(), if !asking.is_empty() => {
                    let Some((shared, crew)) = engine.there() else { return };
                    if let Ok((chain, found)) = done {
                        self.learn(&shared, &crew, &chain, found);
                    }
                }
                () = tokio::time::sleep_until(next), if asking.len() < PARALLEL => {
                    let Some((shared, crew)) = engine.there() else { return };
                    let over = shared.staples.forget(now().as_secs(), |chain| self.asked.contains_key(chain));
                    if !over.is_empty() {
                        self.show(&shared, &crew, &over);
                    }
                }
            }
        }
    }

    /// Asks what is due.
    fn ask(&mut self, asking: &mut JoinSet<(Arc<[u8]>, Found)>) {
        let Some(prepared) = &self.prepared else { return };
        let due = Instant::now();
        for (chain, one) in &mut self.asked {
            if asking.len() >= PARALLEL || one.asking || one.due > due {
                continue;
            }
            one.asking = true;
            let (chain, one, plan) = (chain.clone(), one.clone(), prepared.plan.clone());
            asking.spawn(async move { (chain, ask(&one, &plan).await) });
        }
    }

    /// Follows another plan; what is known of certificates that stay stays known.
    fn take_up(&mut self, shared: &Shared, prepared: Arc<Prepared>) {
        let mut before = std::mem::take(&mut self.asked);
        for identity in &prepared.plan.tls {
            let Some(stapling) = &identity.stapling else { continue };
            for certificate in &identity.certificates {
                let chain = chain_of(shared, certificate);
                if self.asked.contains_key(&chain) {
                    continue;
                }
                let known = before.remove(&chain).filter(|one| one.stapling == *stapling);
                match known.map_or_else(|| One::new(certificate, &chain, stapling), |one| Ok(Some(one))) {
                    Ok(Some(one)) => drop(self.asked.insert(chain, one)),
                    Ok(None) => {}
                    Err(why) => shared.logs.event(
                        Level::Warn,
                        &format!("no OCSP response for the certificate {}: {why}", certificate.name()),
                    ),
                }
            }
        }
        self.prepared = Some(prepared);
        let asked = &self.asked;
        shared.staples.forget(now().as_secs(), |chain| asked.contains_key(chain));
    }

    /// Takes in what came of asking.
    fn learn(&mut self, shared: &Shared, crew: &Crew, chain: &Arc<[u8]>, found: Found) {
        let Some(one) = self.asked.get_mut(chain) else { return };
        one.asking = false;
        match found {
            Ok(staple) => {
                one.failures = 0;
                let left = staple.until.saturating_sub(now().as_secs());
                one.due = Instant::now() + wait(Duration::from_secs(left), &one.stapling);
                let line = format!("the certificate {} has a new OCSP response", one.name);
                shared.logs.event(Level::Info, &line);
                shared.staples.put(chain.clone(), staple);
                self.show(shared, crew, std::slice::from_ref(chain));
            }
            Err(why) => {
                let pause = pause(one.failures, &one.stapling);
                one.failures = one.failures.saturating_add(1);
                one.due = Instant::now() + pause;
                let line = format!(
                    "no OCSP response for the certificate {} from {}: {why}; asked again in {} s",
                    one.name,
                    one.responder,
                    pause.as_secs()
                );
                shared.logs.event(Level::Error, &line);
            }
        }
    }

    /// Has workers show what there is now with the certificates of these chains.
    fn show(&self, shared: &Shared, crew: &Crew, chains: &[Arc<[u8]>]) {
        let Some(prepared) = &self.prepared else { return };
        match prepared.tls.restaple(shared, &prepared.plan, chains) {
            Ok(()) => crew.tell_certificates(),
            Err(why) => shared.log_process_error(&format!("cannot show an OCSP response: {why}")),
        }
    }
}

/// The chain that is shown under a certificate's name: the configuration's, or one that was given or issued while running.
fn chain_of(shared: &Shared, certificate: &Certificate) -> Arc<[u8]> {
    match shared.pair_in_place_of(&certificate.name()) {
        Some(pair) => pair.chain.into_bytes().into(),
        None => certificate.chain.bytes.clone(),
    }
}

impl One {
    /// `None`: nobody is asked about it.
    fn new(certificate: &Certificate, chain: &[u8], stapling: &Stapling) -> Result<Option<Self>, String> {
        let trusted: Vec<&[u8]> = stapling.trusted.iter().map(|pem| &*pem.bytes).collect();
        let question = OcspQuestion::of_chain(chain, &trusted).map_err(|fault| fault.to_string())?;
        if question.is_self_issued() {
            return Ok(None);
        }
        let Some(responder) = stapling.responder.clone().or_else(|| question.responder()) else {
            return Err("it names no responder".to_owned());
        };
        let (name, stapling) = (certificate.name(), stapling.clone());
        let due = Instant::now();
        Ok(Some(Self { name, question, responder, stapling, due, failures: 0, asking: false }))
    }
}

/// Asks the responder of a certificate.
async fn ask(one: &One, plan: &Plan) -> Found {
    let names =
        plan.resolver.clone().map_or(Names::System, |resolver| Names::Asked(Arc::new(Asked(resolver))));
    let options = Options { names, timeout: PATIENCE, largest: LARGEST, ..Options::default() };
    let client = Client::new(&options).map_err(|error| error.to_string())?;
    let request = http::Request::post(&one.responder)
        .header("content-type", "application/ocsp-request")
        .header("accept", "application/ocsp-response")
        .body(Bytes::from(one.question.request()))
        .map_err(|error| format!("\"{}\" is no URL: {error}", one.responder))?;
    let answer = client.send(request).await.map_err(|error| error.to_string())?;
    if answer.head.status != http::StatusCode::OK {
        return Err(format!("the responder answers with {}", answer.head.status.as_u16()));
    }
    let found = one.question.answer(&answer.body, now()).map_err(|fault| fault.to_string())?;
    match found.status {
        OcspStatus::Good => {}
        OcspStatus::Revoked => return Err("the certificate was revoked".to_owned()),
        OcspStatus::Unknown => return Err("the responder does not know the certificate".to_owned()),
    }
    if one.stapling.verify {
        let trusted: Vec<u8> =
            one.stapling.trusted.iter().flat_map(|pem| [&*pem.bytes, b"\n"].concat()).collect();
        if !one.question.comes_from(&trusted, now()) {
            return Err("its issuer comes from none of the trusted certificates".to_owned());
        }
    }
    Ok(Staple { response: answer.body.to_vec().into(), until: found.until })
}

fn now() -> Duration {
    weir_rt::unix_now()
}

/// How long a response is used that is good for so long: half of that, within bounds, and never past its end.
fn wait(left: Duration, stapling: &Stapling) -> Duration {
    let (least, most) = (Duration::from_secs(stapling.least), Duration::from_secs(stapling.most));
    (left / 2).min(most).max(least.min(left * 3 / 4)).max(Duration::from_secs(1))
}

/// How long to wait after so many failures before another.
fn pause(failures: u32, stapling: &Stapling) -> Duration {
    let most = Duration::from_secs(stapling.least).max(FIRST_PAUSE);
    FIRST_PAUSE.saturating_mul(1 << failures.min(16)).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_asked_for_before_they_are_over() {
        let stapling = Stapling { least: 300, most: 3600, ..Stapling::default() };
        for (left, waited) in [(7 * 86_400, 3600), (4000, 2000), (500, 300), (360, 270), (60, 45), (0, 1)] {
            assert_eq!(wait(Duration::from_secs(left), &stapling).as_secs(), waited, "{left}");
        }
        let pauses: Vec<u64> = (0..9).map(|failures| pause(failures, &stapling).as_secs()).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
    }
}
