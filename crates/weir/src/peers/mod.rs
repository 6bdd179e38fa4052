//! Other processes that stick tables are shared with (HAProxy's `peers`).
//!
//! Owns: a thread for each of them, and one for each call that is taken; who was asked for everything, and who gave it.
//! Never: understands the protocol (`weir_http::peers`), or an entry (`table`).
//! Driven by: `adapter`, with each configuration, in the process that carries the traffic, with its rights.
//! Why: threads of their own, because they wait for the network while workers must not; they are as few as peers are.

mod session;
mod table;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketFlags, accept_with};
use weir_admin::cli::{PeerReport, PeerSection};
use weir_engine::StickTables;
use weir_expr::settings::{Peer, PeerGroup};
use weir_http::peers::{Hello, Status, read_status};
use weir_policy::Millis;

use crate::life::bell::Bell;
use session::Session;
use table::Shared;

/// Most tables that a peer may define.
const MOST_TABLES: usize = 1024;

/// How long a call and its greeting may take.
const GREETING: Duration = Duration::from_secs(5);

/// Before a peer is called again; as much again at random, so that two do not call each other at once for ever.
const BEFORE_AGAIN: Duration = Duration::from_millis(500);

/// How long somebody is waited for who gives everything, before what there is counts as everything.
const LEARNING: Duration = Duration::from_secs(5);

/// Calls of one group that are taken at a time.
const MOST_CALLS: usize = 64;

/// Between two looks of a socket that cannot take calls at the moment.
const PAUSE: Duration = Duration::from_millis(100);

/// All groups of the configuration that serves.
#[derive(Default)]
pub(crate) struct Peers(Mutex<Vec<Running>>);

/// A group at work. It ends with this.
struct Running {
    group: Arc<Group>,
}

/// A group, its tables, and who talks.
pub(super) struct Group {
    config: PeerGroup,
    tables: Vec<Shared>,
    members: Vec<Member>,
    /// Wakes the threads that wait for calls; rung once, at the end.
    ended: Bell,
    ending: AtomicBool,
    calls: AtomicUsize,
    resync: Mutex<Resync>,
    began: (Instant, Millis),
}

/// Another process.
struct Member {
    peer: Peer,
    /// Wakes whoever talks to it.
    bell: Bell,
    /// The number of the conversation that counts; those before it end. Zero: nobody talks to it.
    talk: AtomicU64,
    talks: AtomicU64,
    /// Held by the conversation that goes on: the one after it waits until nothing of this one is heard any more.
    turn: Mutex<()>,
    /// Up to which change it said to have heard, of each group of each table.
    heard: Mutex<Vec<Vec<u64>>>,
    state: Mutex<State>,
}

/// What is shown of it.
#[derive(Clone, Copy, Default)]
struct State {
    greeted: Option<Instant>,
    learnt: u64,
    faults: u64,
}

/// Learning everything that others have, once after the start.
enum Resync {
    /// Nobody was found yet who gives it.
    Wanted,
    /// Asked of a member.
    Asked(Option<usize>),
    /// It is known, or nobody has it.
    Done,
}

impl Peers {
    /// Talks to these from now on. What goes on as before goes on; groups that are gone end.
    pub(crate) fn open(
        &self,
        groups: &[PeerGroup],
        sockets: impl Fn(&str) -> Vec<OwnedFd>,
        (tables, now): (&StickTables, Millis),
    ) -> io::Result<()> {
        let mut running = self.held();
        let goes_on = |group: &Group| {
            let config = groups.iter().find(|config| **config == group.config);
            let same = |shared: &Shared, name: &str| {
                tables.get(name).is_some_and(|table| Arc::ptr_eq(table, &shared.table))
            };
            config.is_some_and(|config| {
                config.tables.len() == group.tables.len()
                    && config.tables.iter().zip(&group.tables).all(|(one, shared)| same(shared, &one.table))
            })
        };
        running.retain(|one| goes_on(&one.group));
        for config in groups {
            if running.iter().any(|one| one.group.config == *config) {
                continue;
            }
            let group = Group::new(config, tables, now)?;
            group.begin(sockets(&config.name))?;
            running.push(Running { group });
        }
        Ok(())
    }

    /// Talks to nobody any more.
    pub(crate) fn close(&self) {
        self.held().clear();
    }

    /// What there is to show.
    pub(crate) fn report(&self) -> Vec<PeerSection> {
        self.held().iter().map(|one| one.group.report()).collect()
    }

    fn held(&self) -> MutexGuard<'_, Vec<Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.group.ending.store(true, Ordering::Release);
        self.group.ended.ring();
        self.group.members.iter().for_each(|member| member.bell.ring());
    }
}

impl Group {
    fn new(config: &PeerGroup, tables: &StickTables, now: Millis) -> io::Result<Arc<Self>> {
        let shared = config.tables.iter().filter_map(|one| {
            let also_in = one.also_in.as_ref().and_then(|name| tables.get(name.as_str())).cloned();
            Some(Shared::new(tables.get(one.table.as_str())?.clone(), one, also_in))
        });
        let members = config.others.iter().map(|peer| -> io::Result<Member> {
            Ok(Member {
                peer: peer.clone(),
                bell: Bell::new()?,
                talk: AtomicU64::new(0),
                talks: AtomicU64::new(0),
                turn: Mutex::default(),
                heard: Mutex::default(),
                state: Mutex::default(),
            })
        });
        Ok(Arc::new(Self {
            config: config.clone(),
            tables: shared.collect(),
            members: members.collect::<io::Result<_>>()?,
            ended: Bell::new()?,
            ending: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            resync: Mutex::new(Resync::Wanted),
            began: (Instant::now(), now),
        }))
    }

    fn begin(self: &Arc<Self>, sockets: Vec<OwnedFd>) -> io::Result<()> {
        for table in &self.tables {
            let group = Arc::downgrade(self);
            table.table.follow(move || {
                if let Some(group) = group.upgrade() {
                    group.members.iter().for_each(|member| member.bell.ring());
                }
            });
        }
        let spawn = |run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name("peers".into()).spawn(run).map(drop)
        };
        for socket in sockets {
            let group = self.clone();
            spawn(Box::new(move || group.take_calls(&socket)))?;
        }
        for at in 0..self.members.len() {
            let group = self.clone();
            spawn(Box::new(move || group.call_again_and_again(at)))?;
        }
        Ok(())
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// The time that tables go by.
    fn now(&self) -> Millis {
        let (began, then) = self.began;
        Millis(then.0 + began.elapsed().as_millis() as u64)
    }

    /// Waits, but not beyond the end.
    fn pause(&self, time: Duration) {
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        let mut fds = [PollFd::new(&self.ended, PollFlags::IN)];
        let _ = poll(&mut fds, Some(&time));
    }

    // Calling.

    fn call_again_and_again(&self, at: usize) {
        let member = &self.members[at];
        while !self.is_ending() {
            // Somebody who called us is talked to already.
            if member.talk.load(Ordering::Acquire) == 0
                && let Ok((stream, left)) = self.call(&member.peer)
            {
                self.talk(Some(at), stream, left, true);
            }
            self.pause(BEFORE_AGAIN + at_random(BEFORE_AGAIN));
        }
    }

    fn call(&self, peer: &Peer) -> io::Result<(TcpStream, Vec<u8>)> {
        let mut stream = TcpStream::connect_timeout(&peer.address, GREETING)?;
        stream.set_read_timeout(Some(GREETING))?;
        stream.set_write_timeout(Some(GREETING))?;
        stream.write_all(Hello::lines(&peer.name, &self.config.own, std::process::id()).as_bytes())?;
        let (status, left) = greeting(&mut stream, read_status)?;
        match status {
            Status::Agreed => Ok((stream, left)),
            _ => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }

    // Being called.

    fn take_calls(self: &Arc<Self>, socket: &OwnedFd) {
        while !self.is_ending() {
            let mut fds = [PollFd::new(&self.ended, PollFlags::IN), PollFd::new(socket, PollFlags::IN)];
            let _ = poll(&mut fds, None);
            if self.is_ending() {
                return;
            }
            if fds[1].revents().is_empty() {
                continue;
            }
            if self.calls.load(Ordering::Relaxed) >= MOST_CALLS {
                self.pause(PAUSE);
                continue;
            }
            match accept_with(socket, SocketFlags::CLOEXEC) {
                Ok(stream) => {
                    let group = self.clone();
                    let counted = Counted::new(self);
                    let take = move || {
                        let _counted = counted;
                        // Whoever says nothing that makes sense is gone.
                        let _ = group.take_call(TcpStream::from(stream));
                    };
                    let _ = std::thread::Builder::new().name("peers".into()).spawn(take);
                }
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {}
                Err(_) => self.pause(PAUSE),
            }
        }
    }

    fn take_call(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(GREETING))?;
        stream.set_write_timeout(Some(GREETING))?;
        let greeted = greeting(&mut stream, |bytes| match Hello::read(bytes) {
            Ok(None) => Ok(None),
            Ok(Some((hello, length))) => Ok(Some((Ok(hello), length))),
            Err(status) => Ok(Some((Err(status), bytes.len()))),
        })?;
        let (hello, left) = greeted;
        let who = hello.and_then(|hello| self.who(&hello));
        let status = who.as_ref().err().copied().unwrap_or(Status::Agreed);
        stream.write_all(status.line().as_bytes())?;
        if let Ok(member) = who {
            self.talk(member, stream, left, false);
        }
        Ok(())
    }

    /// Who calls; `None`: a process of this one's own name, which hands over what it has.
    fn who(&self, hello: &Hello) -> Result<Option<usize>, Status> {
        if hello.to != self.config.own {
            return Err(Status::NotMe);
        }
        if hello.from == self.config.own {
            return Ok(None);
        }
        let found = self.members.iter().position(|member| member.peer.name == hello.from);
        found.map(Some).ok_or(Status::Stranger)
    }

    /// Talks until it is over. A conversation that begins ends the one before it: whoever calls knows that it is broken.
    /// `calls`: it was this process that called.
    fn talk(&self, member: Option<usize>, stream: TcpStream, left: Vec<u8>, calls: bool) {
        let Some(at) = member else {
            if let Ok(bell) = Bell::new() {
                let _ = Session::new(self, None, stream, left, calls).run(&bell, || !self.is_ending());
            }
            return self.is_left(None);
        };
        let one = &self.members[at];
        let number = one.talks.fetch_add(1, Ordering::AcqRel) + 1;
        one.talk.store(number, Ordering::Release);
        one.bell.ring();
        let counts = || !self.is_ending() && one.talk.load(Ordering::Acquire) == number;
        let turn = one.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if counts() {
            self.state(at).greeted = Some(Instant::now());
            // Why it ended makes no difference: it is called again.
            let _ = Session::new(self, member, stream, left, calls).run(&one.bell, counts);
            self.is_left(member);
        }
        drop(turn);
        let _ = one.talk.compare_exchange(number, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    fn state(&self, at: usize) -> MutexGuard<'_, State> {
        self.members[at].state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Up to which change this peer said to have heard; nothing of a process of this one's own name.
    fn heard(&self, member: Option<usize>) -> Vec<Vec<u64>> {
        let nothing = || self.tables.iter().map(|table| vec![0; table.table.groups()]).collect();
        let Some(at) = member else { return nothing() };
        let heard = self.members[at].heard.lock().unwrap_or_else(PoisonError::into_inner);
        if heard.is_empty() { nothing() } else { heard.clone() }
    }

    fn note_heard(&self, member: Option<usize>, heard: &[Vec<u64>]) {
        if let Some(at) = member {
            heard.clone_into(&mut self.members[at].heard.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn note_learnt(&self, member: Option<usize>) {
        if let Some(at) = member {
            self.state(at).learnt += 1;
        }
    }

    fn note_fault(&self, member: Option<usize>) {
        if let Some(at) = member {
            self.state(at).faults += 1;
        }
    }

    // Learning everything.

    fn resync(&self) -> MutexGuard<'_, Resync> {
        self.resync.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this peer is to be asked for everything, now.
    fn asks(&self, member: Option<usize>) -> bool {
        let mut resync = self.resync();
        let asks = matches!(*resync, Resync::Wanted);
        if asks {
            *resync = Resync::Asked(member);
        }
        asks
    }

    /// A peer gave what it has. One that does not have everything itself leaves others to be asked.
    fn was_taught(&self, member: Option<usize>, whole: bool) {
        let mut resync = self.resync();
        if matches!(&*resync, Resync::Asked(asked) if *asked == member) {
            // Nobody else could have more if there is nobody else.
            *resync = if whole || self.members.len() < 2 { Resync::Done } else { Resync::Wanted };
        }
    }

    /// A conversation is over.
    fn is_left(&self, member: Option<usize>) {
        let mut resync = self.resync();
        if matches!(&*resync, Resync::Asked(asked) if *asked == member) {
            *resync = Resync::Wanted;
        }
    }

    /// Whether what is here is everything that anybody could have.
    fn knows_all(&self) -> bool {
        matches!(*self.resync(), Resync::Done) || self.began.0.elapsed() >= LEARNING
    }

    fn report(&self) -> PeerSection {
        let peers = self.members.iter().enumerate().map(|(at, member)| {
            let state = *self.state(at);
            PeerReport {
                name: member.peer.name.clone(),
                address: member.peer.address.to_string(),
                talks: member.talk.load(Ordering::Acquire) != 0,
                greeted: state.greeted.map(|at| at.elapsed()),
                conversations: member.talks.load(Ordering::Acquire),
                learnt: state.learnt,
                faults: state.faults,
            }
        });
        let tables = self
            .tables
            .iter()
            .map(|shared| (String::from_utf8_lossy(&shared.name).into_owned(), shared.table.last_change()));
        PeerSection {
            name: self.config.name.clone(),
            own: self.config.own.clone(),
            peers: peers.collect(),
            tables: tables.collect(),
        }
    }
}

/// A call that counts for as long as it lives.
struct Counted(Arc<Group>);

impl Counted {
    fn new(group: &Arc<Group>) -> Self {
        group.calls.fetch_add(1, Ordering::Relaxed);
        Self(group.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reads until `read` has what it wants: that, and what came behind it. All of it within the time of a greeting.
fn greeting<T>(
    stream: &mut TcpStream,
    read: impl Fn(&[u8]) -> Result<Option<(T, usize)>, Status>,
) -> io::Result<(T, Vec<u8>)> {
    let end = Instant::now() + GREETING;
    let (mut bytes, mut piece) = (Vec::new(), [0; 1024]);
    loop {
        match read(&bytes) {
            Ok(Some((found, length))) => return Ok((found, bytes.split_off(length))),
            Ok(None) if Instant::now() < end => {}
            Ok(None) | Err(_) => return Err(io::ErrorKind::InvalidData.into()),
        }
        match stream.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => bytes.extend_from_slice(&piece[..count]),
        }
    }
}

/// Up to this long.
fn at_random(most: Duration) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let most = most.as_millis().max(1) as u64;
    Duration::from_millis(RandomState::new().hash_one(0u8) % most)
}
