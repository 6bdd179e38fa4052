//! The master's command line (HAProxy's `-S`): what a program that manages the process says and hears.
//!
//! Owns: its socket, its few commands, passing others on to the process that carries the traffic.
//! Never: changes anything by itself: a reload is asked of the master as `weir reload` does; understands what it passes on.
//! Driven by: `life::master`, with `-S`, which notes what there is to show.
//! Why: in the master's process, because that is the one which reloads. What is passed on goes through a `stats socket` of the
//! configuration: the process that carries the traffic has no other way in.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::{SocketFlags, accept_with};
use weir_admin::cli::{Input, Level, Lines};
use weir_expr::settings::{ControlLevel, ControlPurpose};
use weir_model::{Address, Model};

use super::control;

/// Most connections at a time; more wait.
const MOST: usize = 10;

/// Idle time of a connection.
const IDLE: Duration = Duration::from_secs(600);

/// How long an answer of the process that carries the traffic may take.
const ANSWER: Duration = Duration::from_secs(30);

/// How long a reload may take.
const RELOAD: Duration = Duration::from_secs(300);

/// Between two looks of a socket that cannot take connections at the moment.
const PAUSE: Duration = Duration::from_millis(50);

/// Most bytes of an answer that is passed on.
const MOST_ANSWER: u64 = 64 << 20;

/// What a master tells of itself.
pub(crate) struct View {
    started: Instant,
    /// The process that carries the traffic.
    worker: AtomicU32,
    reloads: AtomicU64,
    failed: AtomicU64,
    /// A socket on which that process takes commands.
    way: Mutex<Option<Address>>,
}

impl View {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            worker: AtomicU32::new(std::process::id()),
            reloads: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            way: Mutex::default(),
        }
    }

    /// The process that carries the traffic.
    pub(crate) fn note_worker(&self, pid: u32) {
        self.worker.store(pid, Ordering::Relaxed);
    }

    /// A configuration serves: what may be the way to the process that carries the traffic.
    pub(crate) fn note_applied(&self, model: &Model, first: bool) {
        let is_way = |level: ControlLevel, purpose: &ControlPurpose| {
            level == ControlLevel::Admin && *purpose == ControlPurpose::Commands
        };
        let found = model.process.control.iter().find(|one| is_way(one.control.level, &one.control.purpose));
        *self.way.lock().unwrap_or_else(PoisonError::into_inner) = found.map(|one| one.address.clone());
        self.reloads.fetch_add(u64::from(!first), Ordering::Relaxed);
    }

    /// A configuration was refused.
    pub(crate) fn note_refused(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    fn show(&self) -> String {
        let seconds = self.started.elapsed().as_secs();
        let uptime = format!(
            "{}d{:02}h{:02}m{:02}s",
            seconds / 86_400,
            seconds / 3600 % 24,
            seconds / 60 % 60,
            seconds % 60
        );
        let version = env!("CARGO_PKG_VERSION");
        let (reloads, failed) = (self.reloads.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed));
        let reloads = format!("{reloads} [failed: {failed}]");
        let row = |pid: u32, kind: &str, reloads: &str| {
            format!("{pid:<15} {kind:<15} {reloads:<15} {uptime:<15} {version:<15}\n")
        };
        format!(
            "{:<15} {:<15} {:<15} {:<15} {:<15}\n{}# workers\n{}# programs\n",
            "#<PID>",
            "<type>",
            "<reloads>",
            "<uptime>",
            "<version>",
            row(std::process::id(), "master", &reloads),
            row(self.worker.load(Ordering::Relaxed), "worker", "0"),
        )
    }
}

/// Opens the socket that `-S` names, and answers on it as long as the process lives.
///
/// # Errors
/// One line.
pub(crate) fn open(written: &str, view: Arc<View>) -> Result<(), String> {
    let mut words = written.split(',');
    let address = words.next().unwrap_or_default();
    let (mut level, mut mode) = (Level::Admin, None);
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_default();
        match (word, value) {
            ("level", "user") => level = Level::User,
            ("level", "operator") => level = Level::Operator,
            ("level", "admin") => level = Level::Admin,
            ("mode", value) => {
                let bits = u32::from_str_radix(value, 8);
                mode = Some(bits.map_err(|_| format!("-S: `{value}` is no octal mode"))?);
            }
            _ => return Err(format!("-S: `{word}` is not understood; `level` and `mode` are")),
        }
    }
    let socket = bind(address, mode).map_err(|error| format!("-S: cannot listen on {address}: {error}"))?;
    let run = move || accept(&socket, level, &view);
    std::thread::Builder::new().name("master-cli".into()).spawn(run).map_err(|error| error.to_string())?;
    Ok(())
}

fn bind(address: &str, mode: Option<u32>) -> io::Result<OwnedFd> {
    if let Some(number) = address.strip_prefix("fd@") {
        let number = number.parse().map_err(|_| io::Error::other("it is no number"))?;
        return super::inherited::listener(number);
    }
    if let Some(name) = address.strip_prefix("abns@") {
        return Ok(UnixListener::bind_addr(&UnixAddr::from_abstract_name(name)?)?.into());
    }
    let path = address.strip_prefix("unix@").or(Some(address).filter(|address| address.starts_with('/')));
    if let Some(path) = path.map(PathBuf::from) {
        // What an earlier master left behind is no longer listened on.
        if UnixStream::connect(&path).is_err() {
            let _ = std::fs::remove_file(&path);
        }
        let old = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o777 & !mode.unwrap_or(0o600)));
        let bound = UnixListener::bind(&path);
        rustix::process::umask(old);
        return Ok(bound?.into());
    }
    let text = address.strip_prefix("ipv4@").or(address.strip_prefix("ipv6@")).unwrap_or(address);
    let at: SocketAddr = text.parse().map_err(|_| io::Error::other("it is no address"))?;
    Ok(TcpListener::bind(at)?.into())
}

fn accept(socket: &OwnedFd, level: Level, view: &Arc<View>) {
    let open = Arc::new(AtomicUsize::new(0));
    let _ = rustix::io::ioctl_fionbio(socket, false);
    loop {
        if open.load(Ordering::Relaxed) >= MOST {
            std::thread::sleep(PAUSE);
            continue;
        }
        match accept_with(socket, SocketFlags::CLOEXEC) {
            Ok(stream) => {
                let (view, open) = (view.clone(), open.clone());
                open.fetch_add(1, Ordering::Relaxed);
                let leave = open.clone();
                let talk = move || {
                    // Whoever leaves, or says too much, ends the conversation.
                    let _ = Talk::new(level, &view).run(UnixStream::from(stream));
                    open.fetch_sub(1, Ordering::Relaxed);
                };
                if std::thread::Builder::new().name("master-cli".into()).spawn(talk).is_err() {
                    leave.fetch_sub(1, Ordering::Relaxed);
                }
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {}
            // Also a socket that was handed over and does not block; or without descriptors.
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// To whom commands without a prefix go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Master,
    Worker,
}

/// One connection.
struct Talk<'a> {
    view: &'a View,
    level: Level,
    target: Target,
    prompt: bool,
    quit: bool,
}

const COMMANDS: [(&str, &str); 12] = [
    ("@!<pid>", "send a command to the <pid> process"),
    ("@<relative pid>", "send a command to the <relative pid> process"),
    ("@master", "send a command to the master process"),
    ("operator", "lower the level of the current CLI session to operator"),
    ("reload", "reload haproxy"),
    ("show cli level", "display the level of the current CLI session"),
    ("show proc", "show processes status"),
    ("show version", "show version of the current process"),
    ("user", "lower the level of the current CLI session to user"),
    ("help [<command>]", "list matching or all commands"),
    ("prompt", "toggle interactive mode with prompt"),
    ("quit", "disconnect"),
];

fn help(title: &str) -> String {
    let line = |(usage, help): &(&str, &str)| format!("  {usage:<40}: {help}\n");
    format!("{title}\n{}", COMMANDS.iter().map(line).collect::<String>())
}

impl<'a> Talk<'a> {
    fn new(level: Level, view: &'a View) -> Self {
        Self { view, level, target: Target::Master, prompt: false, quit: false }
    }

    /// Works for TCP as for unix sockets: both are streams.
    fn run(mut self, mut stream: UnixStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(IDLE))?;
        stream.set_write_timeout(Some(ANSWER))?;
        let (mut lines, mut bytes, mut ended) = (Lines::default(), [0; 4096], false);
        while !self.quit {
            let Some(commands) = lines.next_line() else {
                if ended {
                    break;
                }
                match stream.read(&mut bytes)? {
                    0 => {
                        ended = true;
                        lines.end();
                    }
                    count => lines.feed(&bytes[..count]).map_err(|_| io::ErrorKind::InvalidData)?,
                }
                continue;
            };
            for command in &commands {
                let mut text = self.answer(command);
                if !text.is_empty() || !self.prompt {
                    text.push('\n');
                }
                if self.prompt && !self.quit {
                    text.push_str(&self.sign());
                }
                stream.write_all(text.as_bytes())?;
            }
            // Without a prompt it is one line, or as many as came at once.
            if !self.prompt && lines.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn sign(&self) -> String {
        match self.target {
            Target::Master => "master> ".to_owned(),
            Target::Worker => format!("{}> ", self.view.worker.load(Ordering::Relaxed)),
        }
    }

    fn answer(&mut self, command: &Input) -> String {
        let mut words = &command.words[..];
        let mut target = self.target;
        if let Some(prefix) = words.first().and_then(|word| word.strip_prefix('@')) {
            let worker = self.view.worker.load(Ordering::Relaxed).to_string();
            target = match prefix {
                "" | "master" | "0" => Target::Master,
                "1" => Target::Worker,
                pid if pid.strip_prefix('!') == Some(&*worker) => Target::Worker,
                _ => return format!("Can't find the target PID matching the prefix '@{prefix}'\n"),
            };
            words = &words[1..];
            if words.is_empty() {
                self.target = target;
                return String::new();
            }
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match target {
            // These are of this connection, whoever it talks to.
            _ if matches!(words[..], ["prompt" | "quit", ..]) => self.own(&words),
            Target::Master => self.own(&words),
            Target::Worker => self.pass_on(&words, command.payload.as_deref()),
        }
    }

    fn own(&mut self, words: &[&str]) -> String {
        const DENIED: &str = "Permission denied\n";
        match words {
            [] => String::new(),
            ["show", "proc", ..] => self.view.show(),
            ["show", "version", ..] => format!("{}\n", env!("CARGO_PKG_VERSION")),
            ["show", "cli", "level"] => format!("{}\n", self.level.word()),
            ["reload" | "hard-reload"] if self.level < Level::Admin => DENIED.to_owned(),
            ["reload" | "hard-reload"] => reload(),
            ["operator"] => {
                self.level = self.level.min(Level::Operator);
                String::new()
            }
            ["user"] => {
                self.level = Level::User;
                String::new()
            }
            ["prompt", ..] => {
                self.prompt = !self.prompt;
                String::new()
            }
            ["quit"] => {
                self.quit = true;
                String::new()
            }
            ["help", ..] => help("The following commands are valid at this level:"),
            _ => help("Unknown command. Please enter one of the following commands only:"),
        }
    }

    /// What the process that carries the traffic answers.
    fn pass_on(&self, words: &[&str], payload: Option<&str>) -> String {
        let way = self.view.way.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(way) = way else {
            return "commands for the worker need a `stats socket` with `level admin` in `global`\n"
                .to_owned();
        };
        let lowered = if self.level == Level::Admin { "" } else { self.level.word() };
        let mut text = String::new();
        if !lowered.is_empty() {
            text = format!("{lowered};");
        }
        text.push_str(&words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "));
        text.push('\n');
        if let Some(payload) = payload {
            text.pop();
            text.push_str(
                &format!(" <<%end of payload%\n{payload}%end of payload%\n").replace("%end of payload%", END),
            );
        }
        match converse(&way, &text) {
            // The answer to the word that lowers the level is an empty line.
            Ok(said) => {
                let said =
                    if lowered.is_empty() { &said[..] } else { said.strip_prefix('\n').unwrap_or(&said) };
                said.strip_suffix('\n').unwrap_or(said).to_owned()
            }
            Err(error) => format!("the worker cannot be asked: {error}\n"),
        }
    }
}

/// The line that ends a payload that is passed on.
const END: &str = "_END_OF_WHAT_IS_PASSED_ON_";

/// A word as it is written for it to be read as one.
fn quoted(word: &str) -> String {
    let special = |c: char| matches!(c, ' ' | '\t' | ';' | '\\');
    word.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

fn converse(way: &Address, text: &str) -> io::Result<String> {
    let mut said = String::new();
    match way {
        Address::Tcp(at) => {
            let mut stream = TcpStream::connect_timeout(at, ANSWER)?;
            stream.set_read_timeout(Some(ANSWER))?;
            stream.write_all(text.as_bytes())?;
            stream.take(MOST_ANSWER).read_to_string(&mut said)?;
        }
        Address::Unix(path) => {
            let name = path.to_string_lossy();
            let mut stream = match name.strip_prefix('@') {
                Some(name) => {
                    UnixStream::connect_addr(&UnixAddr::from_abstract_name(name.trim_end_matches('\0'))?)?
                }
                None => UnixStream::connect(path)?,
            };
            stream.set_read_timeout(Some(ANSWER))?;
            stream.write_all(text.as_bytes())?;
            stream.take(MOST_ANSWER).read_to_string(&mut said)?;
        }
        Address::Inherited(number) => {
            let bound = weir_rt::confine::with_inherited(*number, |fd| fd.try_clone_to_owned())??;
            return match TcpListener::from(bound.try_clone()?).local_addr() {
                Ok(at) => converse(&Address::Tcp(at), text),
                Err(_) => match UnixListener::from(bound).local_addr()?.as_pathname() {
                    Some(path) => converse(&Address::Unix(path.into()), text),
                    None => Err(io::Error::other("its socket has no name")),
                },
            };
        }
        Address::Udp(_) => return Err(io::ErrorKind::Unsupported.into()),
    }
    Ok(said)
}

/// Asks the master, which is this process.
fn reload() -> String {
    match control::ask_reload(std::process::id() as i32, RELOAD) {
        Ok((accepted, text)) => {
            let word = if accepted { "Success=1" } else { "Success=0" };
            format!("{word}\n--\n{text}")
        }
        Err(error) => format!("Success=0\n--\nthe master cannot be asked: {error}\n"),
    }
}
