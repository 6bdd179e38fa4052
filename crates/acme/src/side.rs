//! The thread that has certificates made, and renews them.
//!
//! Owns: one task for each certificate that is wanted: when it orders, what it does about failures.
//! Never: runs on a worker; orders while another process of the same folder does.
//! Driven by: the binary, which says what a plan wants.
//!
//! ```text
//!   hold the folder ──→ is it due? ── no ──→ sleep until it is, or until the authority is asked again
//!        ↑                  │ yes
//!        │                order ──→ done: keep, show
//!        └── sleep longer ←─┘ failed: what there is goes on serving
//! ```

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::desk::{Desk, now, sweep, usable};
use crate::order::Session;
use crate::{Error, Issuer, Wanted};

/// How often is looked whether another process has left the folder, and what it put there.
const LOOK: Duration = Duration::from_secs(2);

/// The longest pause after failures, and between two looks at the clock.
const LONGEST: Duration = Duration::from_secs(6 * 3600);

/// What the process does with what comes.
pub trait Host: Send + Sync + 'static {
    /// Shows the certificate that the desk has now under this name.
    ///
    /// # Errors
    /// One line: it cannot be used.
    fn show(&self, name: &str) -> Result<(), String>;

    /// Writes a line to the error log.
    fn say(&self, is_error: bool, line: &str);
}

/// The thread. It ends when this is dropped, in the middle of an order, too: the next process takes it up.
pub struct Side {
    tell: UnboundedSender<Vec<Wanted>>,
}

impl Side {
    /// Starts it.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn start(desk: Arc<Desk>, host: Arc<dyn Host>) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (tell, told) = unbounded_channel();
        let run = move || {
            runtime.block_on(serve(&desk, &host, told));
            // A look-up that hangs is left to itself.
            runtime.shutdown_background();
        };
        std::thread::Builder::new().name("acme".into()).spawn(run)?;
        Ok(Self { tell })
    }

    /// Wants these certificates, and no others.
    pub fn want(&self, wanted: Vec<Wanted>) {
        // The thread ends by itself only if it panicked.
        let _ = self.tell.send(wanted);
    }
}

/// A certificate that is looked after.
struct Task {
    wanted: Wanted,
    handle: JoinHandle<()>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

async fn serve(desk: &Arc<Desk>, host: &Arc<dyn Host>, mut told: UnboundedReceiver<Vec<Wanted>>) {
    let mut tasks: HashMap<String, Task> = HashMap::new();
    let mut sessions: Vec<Arc<Session>> = Vec::new();
    while let Some(wanted) = told.recv().await {
        desk.keep_only(&wanted);
        tasks.retain(|_, task| wanted.contains(&task.wanted) && !task.handle.is_finished());
        sessions.retain(|session| wanted.iter().any(|one| *one.issuer == session.issuer));
        for wanted in wanted {
            if tasks.contains_key(&wanted.name) {
                continue;
            }
            let session = session_of(&mut sessions, &wanted.issuer);
            let one = One { desk: Arc::clone(desk), host: Arc::clone(host), session, wanted: wanted.clone() };
            let handle = tokio::spawn(one.tend());
            tasks.insert(wanted.name.clone(), Task { wanted, handle });
        }
    }
}

fn session_of(sessions: &mut Vec<Arc<Session>>, issuer: &Issuer) -> Arc<Session> {
    if let Some(session) = sessions.iter().find(|session| session.issuer == *issuer) {
        return Arc::clone(session);
    }
    let session = Arc::new(Session::new(issuer.clone()));
    sessions.push(Arc::clone(&session));
    session
}

/// One certificate.
struct One {
    desk: Arc<Desk>,
    host: Arc<dyn Host>,
    session: Arc<Session>,
    wanted: Wanted,
}

impl One {
    async fn tend(self) {
        let mut failures = 0;
        loop {
            let done = match self.hold().await {
                Ok(()) => self.order_when_due().await,
                Err(error) => Err(error),
            };
            match done {
                Ok(()) => failures = 0,
                Err(error) => {
                    failures += 1;
                    let pause = self.failed(&error, failures);
                    sleep(pause).await;
                }
            }
        }
    }

    /// Waits until no other process orders. Shows what that one had made meanwhile.
    async fn hold(&self) -> Result<(), Error> {
        let Some(folder) = &self.session.folder else { return Ok(()) };
        loop {
            let mut held = self.session.held.lock().await;
            if held.is_some() {
                return Ok(());
            }
            if let Some(lock) = folder.lock().map_err(|error| Error::folder(folder, &error))? {
                *held = Some(lock);
                sweep(folder);
            }
            let is_ours = held.is_some();
            drop(held);
            self.take_up();
            if is_ours {
                return Ok(());
            }
            sleep(LOOK).await;
        }
    }

    /// Shows what is in the folder, if it is newer than what there is.
    fn take_up(&self) {
        let Some(folder) = &self.session.folder else { return };
        let kept = folder.text(&self.wanted.file()).and_then(|text| usable(&text));
        let Some((pair, life)) = kept else { return };
        let before = self.desk.life(&self.wanted.name);
        if before.is_none_or(|before| before.to < life.to) {
            self.desk.put(&self.wanted.name, pair, life);
            self.show();
        }
    }

    fn show(&self) {
        if let Err(why) = self.host.show(&self.wanted.name) {
            self.host.say(true, &format!("the certificate {} cannot be shown: {why}", self.wanted.name));
        }
    }

    /// Sleeps until a certificate is to be had, and has it.
    async fn order_when_due(&self) -> Result<(), Error> {
        // Another task of the folder may have waited for its turn: what is kept counts.
        self.take_up();
        self.obey_wait().await;
        let mut point = Point::default();
        let before = loop {
            let Some(life) = self.desk.life(&self.wanted.name) else { break None };
            let renewal = self.session.renewal(&life).await;
            let (again, latest) = match &renewal {
                Some(renewal) => (renewal.again, life.from + (life.to - life.from) / 10 * 9),
                None => (LONGEST, life.due()),
            };
            // An authority that says "at once" of each new one is not asked for one after another.
            let due = renewal.map_or(latest, |renewal| {
                point.of(renewal.start, renewal.end).max(life.earliest()).min(latest)
            });
            let left = due - now();
            if left <= 0 {
                break Some(life);
            }
            let left = Duration::from_secs(left.unsigned_abs());
            sleep(left.min(again.max(Duration::from_secs(60))).min(LONGEST)).await;
        };
        let (pair, life) = self.session.obtain(&self.desk, &self.wanted, before.as_ref()).await?;
        let until = date(life.to);
        self.desk.put(&self.wanted.name, pair, life);
        self.desk.count(&self.wanted.name, Ok(()));
        self.show();
        let name = &self.wanted.name;
        self.host
            .say(false, &format!("the certificate {name} was issued and is shown; it is good until {until}"));
        Ok(())
    }

    /// Waits as long as an authority asked this process or one before it to.
    async fn obey_wait(&self) {
        let Some(folder) = &self.session.folder else { return };
        let until = folder.text(&self.wanted.wait_file()).and_then(|text| text.trim().parse::<i64>().ok());
        let left = until.map_or(0, |until| until - now());
        if left > 0 {
            let left = Duration::from_secs(left.unsigned_abs());
            let name = &self.wanted.name;
            let why = format!("the authority asked to be left alone for {} s more", left.as_secs());
            self.host.say(true, &format!("the certificate {name} is not ordered yet: {why}"));
            sleep(left).await;
        }
        folder.remove(&self.wanted.wait_file());
    }

    /// Says so, and how long to wait.
    fn failed(&self, error: &Error, failures: u32) -> Duration {
        let doubled = self.session.issuer.retry.saturating_mul(1 << (failures - 1).min(16));
        let mut pause = jittered(doubled.min(LONGEST));
        if let Some(asked) = error.wait() {
            pause = pause.max(asked);
            if let Some(folder) = &self.session.folder {
                let until = now().saturating_add_unsigned(asked.as_secs());
                // Without it, a process that is started again asks too early: no more than that.
                let _ = folder.write(&self.wanted.wait_file(), until.to_string().as_bytes());
            }
        }
        let why = error.to_string();
        let kept = match self.desk.life(&self.wanted.name) {
            Some(life) if life.to <= now() => {
                format!("the one that is shown is over since {}", date(life.to))
            }
            Some(life) => format!("the one that is shown is good until {}", date(life.to)),
            None => "a placeholder is shown".to_owned(),
        };
        let next = pause.as_secs().max(1);
        let name = &self.wanted.name;
        self.host
            .say(true, &format!("no new certificate {name}: {why}; {kept}; the next attempt is in {next} s"));
        self.desk.count(name, Err(why));
        pause
    }
}

/// A point in a window, the same one for the same window.
#[derive(Default)]
struct Point {
    window: Option<(i64, i64)>,
    at: i64,
}

impl Point {
    fn of(&mut self, start: i64, end: i64) -> i64 {
        if self.window != Some((start, end)) {
            self.window = Some((start, end));
            let span = (end - start).max(1).unsigned_abs();
            self.at = start.saturating_add_unsigned(random() % span);
        }
        self.at
    }
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without it, all wait for the same time.
    let _ = rand::fill(&mut bytes);
    u64::from_ne_bytes(bytes)
}

/// Between three quarters of a pause and five.
fn jittered(pause: Duration) -> Duration {
    let half = u64::try_from(pause.as_millis() / 2).unwrap_or(u64::MAX).max(1);
    pause * 3 / 4 + Duration::from_millis(random() % half)
}

fn date(unix: i64) -> String {
    jiff::Timestamp::from_second(unix).map_or_else(|_| unix.to_string(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_near_what_was_meant() {
        for _ in 0..100 {
            let pause = jittered(Duration::from_secs(60));
            assert!((45..76).contains(&pause.as_secs()), "{pause:?}");
        }
    }

    #[test]
    fn a_window_has_one_point() {
        let mut point = Point::default();
        let at = point.of(100, 200);
        assert!((100..200).contains(&at) && point.of(100, 200) == at);
        assert_eq!(point.of(300, 300), 300);
    }
}
