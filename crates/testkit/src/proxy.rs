//! Weir, started from a configuration text, ready to be tested.
//!
//! Owns: the temporary directory, leased ports, the process and its readiness.
//! Never: sleeps until it is "probably up": it waits for `READY=1`, or for its ports to listen.
//! Driven by: tests of the whole program.
//! Why: the same text can be run by Debian's own program ([`Proxy::by_rival`]), which makes the rival the reference.

use crate::cert::Certificate;
use crate::deadline::Deadline;
use crate::notify::NotifySocket;
use crate::port::{self, Address, Port};
use crate::process::Process;
use rustix::process::Signal;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// Which I/O driver Weir is to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Io {
    /// Whatever works, io_uring first.
    #[default]
    Auto,
    /// io_uring, or fail.
    Uring,
    /// The polling driver.
    Epoll,
}

impl Io {
    /// The driver that this machine can run: where io_uring is refused (containers, hardened kernels), `Auto` for `Uring`.
    ///
    /// Said on standard error, so that a log shows which tests ran on the fallback.
    #[must_use]
    pub fn possible(self) -> Self {
        if self == Self::Uring && !uring_works() {
            eprintln!("io_uring is refused here: this test runs on what Weir falls back to");
            return Self::Auto;
        }
        self
    }

    /// The word for `--io`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Uring => "uring",
            Self::Epoll => "epoll",
        }
    }
}

/// True if the kernel sets up a ring for this process.
fn uring_works() -> bool {
    static WORKS: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *WORKS.get_or_init(|| io_uring::IoUring::new(2).is_ok())
}

/// The language of the configuration text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    Nginx,
    Haproxy,
    Native,
}

/// Set, it makes every test run Debian's program instead of Weir: where both should agree, a test that fails there is wrong.
const RIVAL: &str = "WEIR_TEST_RIVAL";

/// Whose command line is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spoken {
    /// `weir run -c FILE`.
    Run,
    /// `weir nginx …` or `weir haproxy …`.
    Foreign,
    /// Debian's own program.
    Rival,
}

/// A proxy that is about to be started.
///
/// In the text, `{port}` stands for a leased port, `{port2}`, `{port_tls}` and so on for further ones (the same word is the same port),
/// and `{dir}` for the directory that holds the configuration and every [`Proxy::file`].
#[derive(Clone)]
pub struct Proxy {
    language: Language,
    text: String,
    spoken: Spoken,
    io: Io,
    files: Vec<(String, Vec<u8>)>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    ports: Vec<(String, Port)>,
    in_memory: bool,
}

impl Proxy {
    /// From an nginx.conf.
    #[must_use]
    pub fn nginx(text: &str) -> Self {
        Self::new(Language::Nginx, text)
    }

    /// From a haproxy.cfg.
    #[must_use]
    pub fn haproxy(text: &str) -> Self {
        Self::new(Language::Haproxy, text)
    }

    /// From a weir.yaml. Only `weir run` reads it.
    #[must_use]
    pub fn native(text: &str) -> Self {
        Self { spoken: Spoken::Run, ..Self::new(Language::Native, text) }
    }

    fn new(language: Language, text: &str) -> Self {
        Self {
            language,
            text: text.into(),
            spoken: if std::env::var_os(RIVAL).is_some() { Spoken::Rival } else { Spoken::Run },
            io: Io::default(),
            files: Vec::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
            ports: Vec::new(),
            in_memory: false,
        }
    }

    /// With `{dir}` in memory: a test of what a cache does at once must not be judged by how busy the disk is.
    #[must_use]
    pub fn in_memory(mut self) -> Self {
        self.in_memory = true;
        self
    }

    /// With this I/O driver.
    #[must_use]
    pub fn io(mut self, io: Io) -> Self {
        self.io = io.possible();
        self
    }

    /// Through `weir nginx` or `weir haproxy` instead of `weir run`; the driver then goes through `WEIR_IO`.
    #[must_use]
    pub fn foreign_flags(mut self) -> Self {
        self.spoken = Spoken::Foreign;
        self
    }

    /// By Debian's nginx or haproxy instead of Weir: the reference of a differential test.
    #[must_use]
    pub fn by_rival(mut self) -> Self {
        self.spoken = Spoken::Rival;
        self
    }

    /// With a file `name` (a relative path) in `{dir}`.
    #[must_use]
    pub fn file(mut self, name: &str, content: impl AsRef<[u8]>) -> Self {
        self.files.push((name.into(), content.as_ref().to_vec()));
        self
    }

    /// With `NAME.crt`, `NAME.key` and `NAME.pem` (both in one) in `{dir}`.
    #[must_use]
    pub fn certificate(self, name: &str, certificate: &Certificate) -> Self {
        self.file(&format!("{name}.crt"), certificate.chain_pem())
            .file(&format!("{name}.key"), certificate.key_pem())
            .file(&format!("{name}.pem"), certificate.bundle_pem())
    }

    /// With a further argument at the end of the command line.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// With a variable in its environment.
    #[must_use]
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// With this port for the placeholder `{word}`, instead of a fresh lease.
    #[must_use]
    pub fn port(mut self, word: &str, port: &Port) -> Self {
        self.ports.push((word.into(), port.clone()));
        self
    }

    /// Starts it and waits until it serves.
    ///
    /// # Panics
    /// When it does not.
    #[must_use]
    #[track_caller]
    pub fn start(&self) -> Running {
        self.try_start().unwrap_or_else(|printed| panic!("it did not start:\n{printed}"))
    }

    /// Starts it, or gives what it printed before it ended.
    ///
    /// # Errors
    /// When it ended, or was not ready before the deadline.
    ///
    /// # Panics
    /// When its files cannot be written or the program is missing.
    pub fn try_start(&self) -> Result<Running, String> {
        let place = Place::new(self);
        let notify = NotifySocket::bind(place.dir.path()).expect("the directory can hold a socket");
        let mut command = self.command(&place);
        command.env("NOTIFY_SOCKET", notify.path());
        let name = command.get_program().to_string_lossy().into_owned();
        let process = Process::spawn(command)
            .unwrap_or_else(|e| panic!("cannot run {name} (`cargo xtask deps` installs programs): {e}"));
        let nginx_signals = self.spoken == Spoken::Run || self.language == Language::Nginx;
        let mut running = Running { process, notify, place, nginx_signals };
        running.until_ready()?;
        Ok(running)
    }

    /// Runs `weir check` on the text, and gives its exit code and all that it printed.
    ///
    /// # Panics
    /// When the program is missing or does not end.
    #[must_use]
    pub fn check(&self) -> (i32, String) {
        self.once(&["check"])
    }

    /// Runs `weir WORDS… FILE`, and gives its exit code and all that it printed.
    ///
    /// # Panics
    /// When the program is missing or does not end.
    #[must_use]
    pub fn once(&self, words: &[&str]) -> (i32, String) {
        let place = Place::new(self);
        let mut command = Command::new(weir_binary());
        command.args(words).arg(&place.config).args(&self.arguments).current_dir(place.dir.path());
        crate::programs::run(command)
    }

    fn command(&self, place: &Place) -> Command {
        let dir = place.dir.path();
        let mut command = match (self.spoken, self.language) {
            (Spoken::Run, _) | (_, Language::Native) => {
                let mut c = Command::new(weir_binary());
                c.args(["run", "--io", self.io.word(), "-c"]).arg(&place.config);
                c
            }
            (Spoken::Foreign, Language::Nginx) => {
                let mut c = Command::new(weir_binary());
                c.arg("nginx").args(nginx_arguments(place)).env("WEIR_IO", self.io.word());
                c
            }
            (Spoken::Foreign, Language::Haproxy) => {
                let mut c = Command::new(weir_binary());
                c.arg("haproxy").args(haproxy_arguments(place)).env("WEIR_IO", self.io.word());
                c
            }
            (Spoken::Rival, Language::Nginx) => {
                let mut c = Command::new("/usr/sbin/nginx");
                c.args(nginx_arguments(place)).args(["-e", "stderr"]);
                c
            }
            (Spoken::Rival, Language::Haproxy) => {
                let mut c = Command::new("/usr/sbin/haproxy");
                c.args(haproxy_arguments(place));
                c
            }
        };
        command.args(&self.arguments).envs(self.environment.iter().cloned()).current_dir(dir);
        command
    }
}

fn nginx_arguments(place: &Place) -> Vec<String> {
    let dir = place.dir.path().display();
    let text = std::fs::read_to_string(&place.config).unwrap_or_default();
    let mut globals = "daemon off;".to_owned();
    if !text.lines().any(|l| l.trim_start().starts_with("pid ")) {
        globals += &format!(" pid {dir}/nginx.pid;");
    }
    vec![
        "-p".into(),
        format!("{dir}/"),
        "-c".into(),
        place.config.display().to_string(),
        "-g".into(),
        globals,
    ]
}

fn haproxy_arguments(place: &Place) -> Vec<String> {
    vec!["-db".into(), "-f".into(), place.config.display().to_string()]
}

/// A directory whose files are in memory, where the system has such a place; else any.
///
/// # Panics
/// When it cannot be made.
#[must_use]
pub fn folder_in_memory() -> TempDir {
    let shared = Path::new("/dev/shm");
    match rustix::fs::access(shared, rustix::fs::Access::WRITE_OK) {
        Ok(()) => folder_in(shared),
        Err(_) => folder_in(&std::env::temp_dir()),
    }
}

fn folder_in(parent: &Path) -> TempDir {
    tempfile::Builder::new().prefix("weir-test-").tempdir_in(parent).expect("a temporary directory")
}

/// Where one proxy lives: its directory, configuration file and ports.
struct Place {
    dir: TempDir,
    config: PathBuf,
    ports: Vec<(String, Port)>,
}

impl Place {
    fn new(proxy: &Proxy) -> Self {
        let dir = if proxy.in_memory { folder_in_memory() } else { folder_in(&std::env::temp_dir()) };
        // Workers that gave up root read files from here.
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("it is ours");
        let name = match proxy.language {
            Language::Nginx => "nginx.conf",
            Language::Haproxy => "haproxy.cfg",
            Language::Native => "weir.yaml",
        };
        let mut place = Self { config: dir.path().join(name), dir, ports: proxy.ports.clone() };
        for (name, content) in &proxy.files {
            place.write(name, content);
        }
        place.configure(&proxy.text);
        place
    }

    fn write(&self, name: &str, content: &[u8]) {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it lies in the directory")).expect("it can be made");
        std::fs::write(path, content).expect("the directory can be written");
    }

    fn configure(&mut self, text: &str) {
        let text = self.fill_in(text);
        std::fs::write(&self.config, text).expect("the directory can be written");
    }

    /// Replaces `{dir}` and each `{port…}`.
    fn fill_in(&mut self, text: &str) -> String {
        let text = text.replace("{dir}", &self.dir.path().display().to_string());
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(at) = rest.find("{port") {
            out.push_str(&rest[..at]);
            let word: String =
                rest[at + 1..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            let end = at + 1 + word.len();
            if rest[end..].starts_with('}') {
                out.push_str(&self.port(&word).to_string());
                rest = &rest[end + 1..];
            } else {
                out.push_str(&rest[at..end]);
                rest = &rest[end..];
            }
        }
        out + rest
    }

    fn port(&mut self, word: &str) -> Port {
        if let Some((_, port)) = self.ports.iter().find(|(w, _)| w == word) {
            return port.clone();
        }
        let port = Port::lease();
        self.ports.push((word.into(), port.clone()));
        port
    }
}

/// A proxy that serves. Dropping it kills it.
pub struct Running {
    process: Process,
    notify: NotifySocket,
    place: Place,
    /// `weir run` takes nginx's signals whatever it runs; HAProxy's own are those of `weir haproxy`.
    nginx_signals: bool,
}

impl Running {
    fn until_ready(&mut self) -> Result<(), String> {
        let deadline = Deadline::standard();
        loop {
            if self.notify.told("READY=1", Duration::from_millis(10)) || self.listens() {
                return Ok(());
            }
            if let Some(status) = self.process.ended() {
                return Err(format!("{status}\n{}", self.process.printed()));
            }
            if deadline.passed() {
                return Err(format!("not ready in time\n{}", self.process.printed()));
            }
        }
    }

    fn listens(&self) -> bool {
        !self.place.ports.is_empty() && self.place.ports.iter().all(|(_, p)| port::is_listening(p.number()))
    }

    /// The port behind `{port}`.
    ///
    /// # Panics
    /// When the text had none.
    #[must_use]
    #[track_caller]
    pub fn port(&self) -> Port {
        self.port_of("port")
    }

    /// The port behind `{word}`.
    ///
    /// # Panics
    /// When the text had none.
    #[must_use]
    #[track_caller]
    pub fn port_of(&self, word: &str) -> Port {
        let found = self.place.ports.iter().find(|(w, _)| w == word);
        found.unwrap_or_else(|| panic!("the configuration has no {{{word}}}")).1.clone()
    }

    /// The directory behind `{dir}`.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.place.dir.path()
    }

    /// The configuration file.
    #[must_use]
    pub fn config(&self) -> &Path {
        &self.place.config
    }

    /// The process: its id, signals, end.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// What it printed so far.
    #[must_use]
    pub fn logs(&self) -> String {
        self.process.printed()
    }

    /// Waits until it prints `text`.
    ///
    /// # Panics
    /// When it does not before the deadline.
    #[track_caller]
    pub fn wait_for_log(&self, text: &str) {
        self.process.wait_for_output(text);
    }

    /// Waits until the file `name` in `{dir}` contains `text`, and gives all of it.
    ///
    /// # Panics
    /// When it does not before the deadline.
    #[track_caller]
    pub fn wait_for_file(&self, name: &str, text: &str) -> String {
        let path = self.dir().join(name);
        crate::eventually(&format!("`{text}` in {name}"), || {
            std::fs::read_to_string(&path).ok().filter(|content| content.contains(text))
        })
    }

    /// Writes a file into `{dir}`.
    ///
    /// # Panics
    /// When it cannot.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        self.place.write(name, content.as_ref());
    }

    /// Replaces the configuration text, placeholders filled in as at the start, without telling the process.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn rewrite(&mut self, text: &str) {
        self.place.configure(text);
    }

    /// Replaces the text, sends the reload signal and waits until the reload is done, well or badly.
    ///
    /// Weir tells `RELOADING=1` and then `READY=1`, also when it kept the old configuration.
    ///
    /// # Panics
    /// When it does not, before the deadline.
    #[track_caller]
    pub fn reload(&mut self, text: &str) {
        self.rewrite(text);
        self.reload_same();
    }

    /// Sends the reload signal and waits until the reload is done, well or badly.
    ///
    /// # Panics
    /// When it does not end before the deadline.
    #[track_caller]
    pub fn reload_same(&mut self) {
        self.notify.forget();
        self.process.signal(if self.nginx_signals { Signal::HUP } else { Signal::USR2 });
        // Where its ports listen before it says so at the start, an earlier READY=1 may still be on its way.
        let told = ["RELOADING=1", "READY=1"].map(|word| self.notify.told(word, crate::deadline::patience()));
        assert!(told == [true; 2], "the reload did not end (no READY=1):\n{}", self.logs());
    }

    /// What it tells its service manager.
    #[must_use]
    pub fn notify(&self) -> &NotifySocket {
        &self.notify
    }

    /// Stops it gracefully (QUIT for nginx, USR1 for HAProxy) and fails the test unless it exits with 0.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn stop(mut self) {
        self.process.expect_clean_exit(if self.nginx_signals { Signal::QUIT } else { Signal::USR1 });
    }
}

impl Address for Running {
    fn address(&self) -> SocketAddr {
        self.port().address()
    }
}

/// The `weir` that was built with the running test.
///
/// # Panics
/// When there is none: build it with `cargo build -p weir`.
#[must_use]
pub fn weir_binary() -> PathBuf {
    for variable in ["WEIR_BIN", "CARGO_BIN_EXE_weir", "NEXTEST_BIN_EXE_weir"] {
        if let Some(path) = std::env::var_os(variable) {
            return path.into();
        }
    }
    // A test runs from target/PROFILE/deps, its binary lies one up; xtask runs from target/PROFILE.
    let exe = std::env::current_exe().expect("a process knows its executable");
    let found = exe.ancestors().skip(1).take(3).map(|dir| dir.join("weir")).find(|path| path.is_file());
    found.expect("no `weir` beside this test: run `cargo build -p weir`, or set WEIR_BIN")
}
