//! An agent: waits for orders, runs its share, reports.
//!
//! Owns: its socket, and that one run goes on at a time.
//! Never: obeys who cannot prove to know the token; goes on with a run whose leader is gone.
//! Driven by: `weir load agent`.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::wire::{self, Answer, Command, Hello, Job, Order, Tick, VERSION};
use crate::run::{Interval, RunError, Watch, run};

/// How long a leader may take for its order, and a message to be taken.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an agent that is ready waits for the others.
const WAIT_FOR_GO: Duration = Duration::from_secs(300);
/// How long an order waits for the run before it: one that was given up is noticed a moment after its leader has gone.
const WAIT_FOR_TURN: Duration = Duration::from_secs(2);
/// Before anything is proved no more than this is read.
const LONGEST_ORDER: usize = 128 << 20;

/// What an agent is told by its owner.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// Where it waits.
    pub listen: SocketAddr,
    /// Who knows it may give orders.
    pub token: String,
    /// Whether orders may bring Lua scripts, which can read and write files here.
    pub scripts: bool,
}

/// An agent that waits.
pub struct Agents {
    listener: TcpListener,
    options: Arc<AgentOptions>,
    turns: Arc<Turns>,
}

impl Agents {
    /// Binds the socket.
    ///
    /// # Errors
    /// The address cannot be bound, or the token is too short to be a secret.
    pub fn bind(options: AgentOptions) -> Result<Self, String> {
        if options.token.len() < 8 {
            return Err("a token has eight characters at least".into());
        }
        let listener = TcpListener::bind(options.listen)
            .map_err(|error| format!("cannot listen on {}: {error}", options.listen))?;
        Ok(Self { listener, options: Arc::new(options), turns: Arc::default() })
    }

    /// Where it waits; port 0 has become a port.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Obeys, one run after the other, for ever. `told` is called with a line about each.
    pub fn serve(&self, told: impl Fn(&str) + Clone + Send + 'static) {
        for stream in self.listener.incoming() {
            let Ok(stream) = stream else {
                // Out of descriptors, most likely: they come back.
                std::thread::sleep(Duration::from_millis(100));
                continue;
            };
            let (options, turns, told) = (self.options.clone(), self.turns.clone(), told.clone());
            let handled = std::thread::Builder::new().spawn(move || {
                let from = stream.peer_addr().map_or_else(|_| "?".to_owned(), |addr| addr.to_string());
                if let Err(why) = handle(&stream, &options, &turns, &told, &from) {
                    told(&format!("{from}: {why}"));
                    let _ = wire::send(&stream, &Answer::Failed(why));
                }
            });
            drop(handled);
        }
    }
}

/// One run at a time.
#[derive(Default)]
struct Turns {
    taken: Mutex<bool>,
    freed: Condvar,
}

impl Turns {
    /// A turn, once it is free; `None` if it is not in time.
    fn take(&self) -> Option<Turn<'_>> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.freed.wait_timeout_while(taken, WAIT_FOR_TURN, |taken| *taken);
        let (mut taken, late) = waited.unwrap_or_else(PoisonError::into_inner);
        if late.timed_out() {
            return None;
        }
        *taken = true;
        Some(Turn(self))
    }
}

/// Frees the agent again.
struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.freed.notify_one();
    }
}

fn handle(
    stream: &TcpStream,
    options: &AgentOptions,
    turns: &Turns,
    told: &impl Fn(&str),
    from: &str,
) -> Result<(), String> {
    let fault = |error: io::Error| format!("the conversation broke: {error}");
    stream.set_read_timeout(Some(PATIENCE)).map_err(fault)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(fault)?;
    let _ = stream.set_nodelay(true);
    let nonce = wire::nonce().map_err(fault)?;
    wire::send(stream, &Hello { weir_load_agent: VERSION, nonce: nonce.clone() }).map_err(fault)?;
    let order: Order = wire::receive_up_to(stream, LONGEST_ORDER).map_err(fault)?;
    if !wire::is_proved(&options.token, &nonce, &order) {
        return Err("the token is another one here".into());
    }
    let job: Job =
        serde_json::from_str(&order.job).map_err(|error| format!("an order not understood: {error}"))?;
    if job.script.is_some() && !options.scripts {
        return Err("scripts are not allowed here (--allow-scripts)".into());
    }
    let _turn = turns.take().ok_or("busy with another run")?;
    let options = job.options()?;
    let stagger = Duration::from_nanos(job.stagger_ns);
    let mut watch = Follower { stream, stagger, halt: Arc::default(), gone: false };
    let ended = run(options, &mut watch);
    // Nobody listens to the leader any more.
    let _ = stream.shutdown(Shutdown::Read);
    let report = match ended {
        Ok(report) => report,
        Err(RunError::GivenUp) => return Err("the leader is gone".into()),
        Err(error) => return Err(error.to_string()),
    };
    told(&format!("{from}: {} units in {:.1}s", report.total.requests, report.total.elapsed_s));
    wire::send(stream, &Answer::Report(Box::new(report))).map_err(fault)
}

/// Follows the leader: waits for its word, tells it of each second.
struct Follower<'a> {
    stream: &'a TcpStream,
    stagger: Duration,
    /// The leader says no more: it has stopped the run, or is gone.
    halt: Arc<AtomicBool>,
    /// It does not listen either.
    gone: bool,
}

impl Follower<'_> {
    /// Listens to the leader while the run goes on.
    fn listen(&self) -> io::Result<()> {
        self.stream.set_read_timeout(None)?;
        let (mut stream, halt) = (self.stream.try_clone()?, self.halt.clone());
        std::thread::Builder::new().spawn(move || {
            // It has nothing to say but that it is over.
            let _ = io::copy(&mut stream, &mut io::sink());
            halt.store(true, Ordering::Relaxed);
        })?;
        Ok(())
    }
}

impl Watch for Follower<'_> {
    fn halt(&self) -> Option<Arc<AtomicBool>> {
        Some(self.halt.clone())
    }

    fn ready(&mut self) -> bool {
        let waits = self.stream.set_read_timeout(Some(WAIT_FOR_GO)).is_ok();
        let told = waits && wire::send(self.stream, &Answer::Ready).is_ok();
        if !told || wire::receive_up_to::<Command>(self.stream, 1024).is_err() {
            return false;
        }
        std::thread::sleep(self.stagger.min(Duration::from_secs(1)));
        self.listen().is_ok()
    }

    fn interval(&mut self, interval: &Interval<'_>) {
        let tick = Tick {
            at_s: interval.at_s,
            run_s: interval.run_s,
            requests: interval.requests,
            errors: interval.errors.sum() + interval.failed,
        };
        self.gone |= wire::send(self.stream, &Answer::Tick(tick)).is_err();
    }

    fn gives_up(&mut self) -> bool {
        self.gone
    }
}
