//! Connections that are used once and then wait: what an idle client looks like to a server.
//!
//! Owns: opening them one after the other, one request on each, keeping them until told.
//! Never: counts a connection whose answer was not whole, or that the server closes after it.
//! Driven by: `weir load hold`; `weir lab`, which reads the server's memory meanwhile.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use weir_rt::{Buf, ClientTls, Conn, MEDIUM, Runtime, RuntimeConfig, Timer};

use crate::answer::{Fed, HeadCache, Reader};
use crate::dial::dial;
use crate::plan::{Options, Origin, Plan};
use crate::report::Work;

/// Connections that wait. Dropping it closes them.
pub struct Held {
    /// How many there are.
    pub connections: u32,
    end: Option<weir_rt::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Held {
    /// Opens `options.connections`, uses each once, and returns when all of them wait. Of the other options those of a
    /// request and of TLS count.
    ///
    /// # Errors
    /// A sentence: what was asked for cannot be, a connection cannot be opened, or its answer is not as it should be.
    pub fn open(options: Options) -> Result<Self, String> {
        let plan = Plan::new(Options { threads: 1, ..options })?;
        if plan.work != Work::Requests || plan.options.h2.is_some() || plan.options.script.is_some() {
            return Err(
                "connections that are held have one HTTP/1.1 request each: http:// or https://".into()
            );
        }
        let connections = plan.options.connections;
        let (ready, opened) = channel();
        let (end, ended) = weir_rt::mailbox();
        let thread = std::thread::Builder::new()
            .name("load-hold".into())
            .spawn(move || run(&plan, &ready, ended))
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        let held = Self { connections, end: Some(end), thread: Some(thread) };
        wait(&opened).map(|()| held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            // One that has failed is gone already.
            let _ = end.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn wait(opened: &Receiver<Result<(), String>>) -> Result<(), String> {
    opened.recv().unwrap_or_else(|_| Err("the thread that holds connections has died".into()))
}

fn run(plan: &Plan, ready: &Sender<Result<(), String>>, mut ended: weir_rt::Receiver<()>) {
    let runtime = match Runtime::new(RuntimeConfig { io: plan.options.io, ..RuntimeConfig::default() }) {
        Ok(runtime) => runtime,
        Err(error) => return drop(ready.send(Err(format!("cannot open an I/O driver: {error}")))),
    };
    runtime.block_on(async {
        let opened = open_all(plan).await;
        // They live as long as this does.
        let (_held, told) = match opened {
            Ok(held) => (held, Ok(())),
            Err(why) => (Vec::new(), Err(why)),
        };
        let failed = told.is_err();
        if ready.send(told).is_ok() && !failed {
            ended.recv().await;
        }
    });
}

async fn open_all(plan: &Plan) -> Result<Vec<Conn>, String> {
    let (tls, timer) = (plan.tls(), Timer::new());
    let (mut buf, mut heads) = (Buf::new(), HeadCache::default());
    let mut held = Vec::with_capacity(plan.slots.len());
    for (n, &origin) in plan.slots.iter().enumerate() {
        let origin = &plan.origins[origin];
        timer.arm(plan.options.timeout);
        let used = timer.run(async {
            let conn = open(plan, origin, tls.as_ref(), n).await?;
            ask(&conn, origin, &mut buf, &mut heads).await?;
            Ok(conn)
        });
        let told = |why: String| format!("connection {} of {}: {why}", n + 1, plan.slots.len());
        held.push(used.await.map_err(|_| told("no answer in time".into()))?.map_err(told)?);
        buf.clear();
    }
    Ok(held)
}

async fn open(plan: &Plan, origin: &Origin, tls: Option<&ClientTls>, n: usize) -> Result<Conn, String> {
    let peer = &origin.peers[n % origin.peers.len()];
    let stream = dial(peer, &plan.options.sources, n)
        .await
        .map_err(|error| format!("unable to connect to {peer}: {error}"))?;
    match tls.filter(|_| origin.target.scheme.is_encrypted()) {
        None => Ok(Conn::Plain(stream)),
        Some(tls) => {
            let shaken = tls.connect(stream, &origin.server_name).await;
            shaken.map(Conn::Tls).map_err(|error| format!("TLS handshake with {peer} failed: {error}"))
        }
    }
}

/// One request, and its whole answer.
async fn ask(conn: &Conn, origin: &Origin, buf: &mut Buf, heads: &mut HeadCache) -> Result<(), String> {
    let shot = &origin.shots[0];
    let mut reader = Reader::new(false);
    reader.begin(shot.head);
    conn.write_slice(&shot.bytes).await.map_err(|error| error.to_string())?;
    loop {
        buf.clear();
        let read = conn.read_up_to(buf, MEDIUM).await.map_err(|error| error.to_string())?;
        if read == 0 {
            return Err("closed before the answer was whole".into());
        }
        match reader.feed(heads, buf).map_err(|_| "the answer is no HTTP".to_owned())? {
            Fed::More => {}
            Fed::Answer { status, keep: true, .. } if status < 400 => return Ok(()),
            Fed::Answer { status, keep, .. } => {
                return Err(format!("answered {status}{}", if keep { "" } else { ", and not kept open" }));
            }
        }
    }
}
