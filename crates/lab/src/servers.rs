//! Servers under test: started with their configuration, known to listen, ended with their handle.
//!
//! Owns: the testbed they share (pages, certificate, origin), their ports and processes.
//! Never: measures; leaves a process behind when its handle is dropped.
//! Driven by: `run`, a point at a time.

use crate::accounting::{family, memory};
use crate::callgrind;
use crate::cgroup::Group;
use crate::configs::{self, Pem, Role, Service};
use crate::contender::{Contender, Driver, Kind};
use crate::machine::on;
use crate::pages;
use crate::programs::Programs;
use crate::scenario::{Generator, Key, Mode, Origin, Point, Scenario, bytes};
use crate::sites;
use crate::wrk;
use anyhow::{Context, Result, bail};
use rcgen::{CertifiedKey, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, RsaKeySize};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, Permissions};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to listen: one of ten thousand sites has a while to read.
const PATIENCE: Duration = Duration::from_secs(60);

/// How much of what a failed server printed is shown.
const SHOWN: usize = 2_000;

/// How a server began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// From its start to its listening, seconds.
    pub seconds: f64,
    /// Its memory by then, bytes; pages that its processes share count once.
    pub memory: u64,
}

/// A program that runs; dropping it ends it with all its children.
pub struct Running {
    name: String,
    child: Child,
    printed: PathBuf,
    /// Where it listens.
    pub port: u16,
    /// How it began.
    pub start: Start,
    begun: Instant,
    /// What rations its CPU time. It goes last: it must be empty by then.
    group: Option<Group>,
}

impl Running {
    /// Starts `command` in a process group of its own; what it prints goes to a file in `dir`.
    fn start(name: &str, mut command: Command, dir: &Path, port: u16) -> Result<Self> {
        let printed = dir.join("printed");
        let file = File::create(&printed).with_context(|| printed.display().to_string())?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
        let program = command.get_program().to_string_lossy().into_owned();
        let begun = Instant::now();
        let child = command.spawn().with_context(|| format!("cannot run {program}"))?;
        let start = Start::default();
        Ok(Self { name: name.to_owned(), child, printed, port, start, begun, group: None })
    }

    /// Puts it into a control group, with all its processes.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn ration(&mut self, group: Group) -> Result<()> {
        // A master that listens may still be making workers; what a member makes is a member.
        for _ in 0..2 {
            group.take(&family(self.pid()))?;
        }
        self.group = Some(group);
        Ok(())
    }

    /// Lets it use so many CPUs from now on, if it is rationed.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn allow(&mut self, cpus: f64) -> Result<()> {
        self.group.as_mut().map_or(Ok(()), |group| group.limit(cpus))
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Fails if it has ended, with what it printed.
    ///
    /// # Errors
    /// It has.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended ({status}){}", self.name, self.last_words()),
        }
    }

    /// Ends it in its own good order, and tells all that it printed.
    ///
    /// # Errors
    /// It does not end.
    pub fn end(mut self) -> Result<String> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let begun = Instant::now();
        while self.child.try_wait()?.is_none() {
            if begun.elapsed() > PATIENCE {
                bail!("{} does not end after {PATIENCE:?}", self.name);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(String::from_utf8_lossy(&fs::read(&self.printed)?).into_owned())
    }

    fn last_words(&self) -> String {
        let text = fs::read(&self.printed).unwrap_or_default();
        let text = String::from_utf8_lossy(&text[text.len().saturating_sub(SHOWN)..]).trim().to_owned();
        if text.is_empty() { ", and printed nothing".to_owned() } else { format!(": {text}") }
    }

    fn wait_until_it_listens(mut self) -> Result<Self> {
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            self.check()?;
            if self.begun.elapsed() > PATIENCE {
                bail!("{} does not listen after {PATIENCE:?}{}", self.name, self.last_words());
            }
            // There is no event for another program's listening.
            std::thread::sleep(Duration::from_millis(10));
        }
        self.start.seconds = self.begun.elapsed().as_secs_f64();
        self.check()?;
        self.start.memory = memory(self.pid());
        Ok(self)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A master's workers are in its group.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Ports for servers.
#[derive(Clone, Debug)]
pub enum Ports {
    /// Whatever is free.
    Any,
    /// From this one upwards; one that is used is an error.
    From(u16),
}

impl Ports {
    /// The next port.
    ///
    /// # Errors
    /// It is used by another program.
    pub fn take(&mut self) -> Result<u16> {
        match self {
            Self::Any => {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
                Ok(listener.local_addr()?.port())
            }
            Self::From(next) => {
                let port = *next;
                *next = port.checked_add(1).context("--port: no ports are left above it")?;
                TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|why| {
                    anyhow::anyhow!(
                        "port {port} cannot be had ({why}): choose another --port, or leave it out, and free ones are found"
                    )
                })?;
                Ok(port)
            }
        }
    }
}

/// How a server is started.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// The ports of what is behind it.
    pub origins: &'a [u16],
    /// The CPUs that it runs on.
    pub cpus: &'a [usize],
    /// Whether callgrind counts its instructions.
    pub counted: bool,
    /// The port that takes sockets, where the configuration changes while they are open.
    pub sockets: Option<u16>,
}

/// What all contenders of a scenario share: pages, certificates, scripts.
pub struct Testbed {
    dir: tempfile::TempDir,
    key: Key,
    servers: u16,
    origin: Origin,
    /// Sites of the mode that has many, and locations of each.
    sites: [u32; 2],
    descriptors: u64,
}

impl Testbed {
    /// Writes pages of the scenario's sizes, certificates, and scripts for the generator.
    ///
    /// # Errors
    /// The folder for temporary files cannot be written.
    pub fn prepare(scenario: &Scenario, quick: bool, descriptors: u64) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("weir-lab-").tempdir().context("no folder for pages")?;
        // Workers that gave up root read from here.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755))?;
        let folder = dir.path().join("pages");
        let points = scenario.points(quick);
        let many = points.iter().find(|p| p.mode == Mode::Sites);
        let places =
            (0..scenario.locations).filter(|_| many.is_some()).map(|n| folder.join(sites::location(n)));
        for place in places.chain([folder.clone()]) {
            fs::create_dir_all(&place)?;
            for size in scenario.pages() {
                fs::write(place.join(&size), pages::plain(usize::try_from(bytes(&size)?)?))?;
            }
        }
        if points.iter().any(|point| point.mode == Mode::Gzip) {
            let texts = dir.path().join("texts");
            fs::create_dir_all(&texts)?;
            for size in scenario.pages() {
                fs::write(texts.join(&size), pages::text(usize::try_from(bytes(&size)?)?))?;
            }
        }
        let testbed = Self {
            dir,
            key: scenario.tls.key,
            servers: scenario.servers,
            origin: scenario.origin,
            sites: [scenario.sites(quick), scenario.locations],
            descriptors,
        };
        let done = if scenario.generator == Generator::Wrk { wrk::DONE } else { "" };
        fs::write(testbed.file("requests.lua"), done)?;
        if let Some(point) = many {
            let [sites, locations] = testbed.sites;
            fs::write(testbed.file("sites.lua"), sites::script(&point.size, sites, locations) + done)?;
        }
        scenario.keys().into_iter().try_for_each(|key| testbed.write_certificate(key))?;
        Ok(testbed)
    }

    fn write_certificate(&self, kind: Key) -> Result<()> {
        let key = match kind {
            Key::P256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?,
            Key::Rsa2048 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?,
        };
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let cert = rcgen::CertificateParams::new(names)?.self_signed(&key)?;
        let CertifiedKey { cert, signing_key } = CertifiedKey { cert, signing_key: key };
        let (chain, key) = (cert.pem(), signing_key.serialize_pem());
        let [of_chain, of_key, of_both] = self.certificate(kind);
        fs::write(of_chain, &chain)?;
        fs::write(of_key, &key)?;
        fs::write(of_both, chain + &key)?;
        Ok(())
    }

    /// The files of a certificate: its chain, its key, both.
    #[must_use]
    pub fn certificate(&self, kind: Key) -> [PathBuf; 3] {
        ["chain", "key", "both"].map(|part| self.file(&format!("{}-{part}.pem", kind.name())))
    }

    /// What the generator runs at `point`: with wrk a script that tells its figures, and for many sites one that asks them all.
    #[must_use]
    pub fn script(&self, point: &Point) -> PathBuf {
        self.file(if point.mode == Mode::Sites { "sites.lua" } else { "requests.lua" })
    }

    /// As many of the connections that are to wait as the machine's limit lets two programs hold.
    #[must_use]
    pub fn idle(&self, wanted: u32) -> u32 {
        let most = self.descriptors.saturating_sub(crate::idle::SPARE).max(1);
        wanted.min(u32::try_from(most).unwrap_or(wanted))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The configuration of `who`, a program of this kind, at `point` on `port`, before `origins`; `None` for what it does
    /// not do.
    ///
    /// # Errors
    /// The size is none.
    pub fn configuration(
        &self,
        (who, kind): (Contender, Kind),
        point: &Point,
        port: u16,
        origins: &[u16],
        sockets: Option<u16>,
    ) -> Result<Option<String>> {
        let gzip = point.mode == Mode::Gzip;
        let pages = self.file(if gzip { "texts" } else { "pages" });
        let [chain, key, bundle] = self.certificate(point.mode.handshakes().unwrap_or(self.key));
        let size = bytes(&point.size)?;
        let files = Service::Files { root: &pages, file: &point.size, bytes: size, gzip };
        let service = match point.mode {
            Mode::FilesHttp
            | Mode::FilesHttps
            | Mode::HandshakeRsa2048
            | Mode::HandshakeP256
            | Mode::IdleHttp
            | Mode::IdleHttps
            | Mode::Sites
            | Mode::FilesH2c
            | Mode::FilesH2
            | Mode::Gzip => files,
            // The same answers without the cache.
            Mode::Cached if who == Contender::WeirFiles => files,
            Mode::Cached => Service::Cache { origins },
            Mode::Http | Mode::Https => {
                Service::Proxy { origins, bytes: size, kept: !point.closes_behind, sockets }
            }
            Mode::TcpHttp | Mode::TcpHttps => Service::Tcp { origins },
        };
        let pem = Pem { chain: &chain, key: &key, bundle: &bundle };
        let passes_on = matches!(point.mode, Mode::TcpHttp | Mode::TcpHttps);
        let tls = (point.mode.encrypted() && !passes_on).then_some(pem);
        let http2 = point.mode.is_http2();
        let role = Role { service, port, workers: point.workers, descriptors: self.descriptors, tls, http2 };
        let [sites, locations] = self.sites;
        let sites = if who == Contender::WeirOneSite { 1 } else { sites };
        let speaks_haproxy = kind == Kind::Haproxy || who == Contender::WeirHaproxy;
        Ok(match (speaks_haproxy, point.mode) {
            // It serves no folders.
            (true, Mode::Sites) => None,
            (true, _) => configs::haproxy(&role),
            (_, Mode::Sites) => Some(sites::nginx(&role, sites, locations, &pages)),
            _ => Some(configs::nginx(&role)),
        })
    }

    /// The command that runs `who`, a program of this kind, with this configuration, from a folder of its own.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn command(
        &self,
        (who, kind): (Contender, Kind),
        program: &Path,
        text: &str,
        port: u16,
    ) -> Result<(Command, PathBuf)> {
        let (dir, file) = self.place(who, port);
        fs::create_dir_all(&dir)?;
        fs::write(&file, text)?;
        let command = match kind {
            Kind::Nginx => configs::nginx_command(program, &dir, &file, text),
            Kind::Haproxy => configs::haproxy_command(program, &dir, &file),
            Kind::Weir => {
                let mut command = Command::new(program);
                command.args(["run", "-c"]).arg(&file).current_dir(&dir);
                command
            }
        };
        Ok((command, dir))
    }

    /// The folder of `who` on `port`, and the file in it that holds its configuration.
    #[must_use]
    pub fn place(&self, who: Contender, port: u16) -> (PathBuf, PathBuf) {
        let dir = self.file(&format!("{}-{port}", who.name()));
        let file = dir.join("configuration");
        (dir, file)
    }

    /// The command that serves the page of `point` from memory, and the folder it runs in.
    fn origin_command(&self, program: &Path, point: &Point, port: u16) -> Result<(Command, PathBuf)> {
        let dir = self.file(&format!("origin-{port}"));
        fs::create_dir_all(&dir)?;
        let protocol = if point.mode.encrypted() { "--https" } else { "--http" };
        let mut command = Command::new(program);
        command.args(["load", "serve", protocol, &format!("127.0.0.1:{port}"), "--sizes", &point.size]);
        command.args(["--threads", &point.workers.to_string()]).current_dir(&dir);
        if point.mode.encrypted() {
            let [chain, key, _] = self.certificate(self.key);
            command.arg("--cert").arg(chain).arg("--key").arg(key);
        }
        Ok((command, dir))
    }

    /// Starts the origins of `point` on `cpus`; none where the contenders serve pages themselves.
    ///
    /// # Errors
    /// One does not start.
    pub fn origins(
        &self,
        point: &Point,
        cpus: &[usize],
        programs: &Programs,
        ports: &mut Ports,
    ) -> Result<Vec<Running>> {
        let mode = match point.mode {
            Mode::Http | Mode::Https | Mode::TcpHttp | Mode::Cached => Mode::FilesHttp,
            Mode::TcpHttps => Mode::FilesHttps,
            _ => return Ok(Vec::new()),
        };
        let each = cpus.len().div_ceil(usize::from(self.servers));
        let workers = u16::try_from(each).unwrap_or(u16::MAX);
        let as_origin = Point { mode, workers, ..point.clone() };
        let who = match self.origin {
            Origin::WeirLoad => Contender::Direct,
            Origin::Nginx => Contender::Nginx,
        };
        let start = |_| {
            let setup = Setup { origins: &[], cpus, counted: false, sockets: None };
            let started = self.start(who, &as_origin, setup, programs, ports)?;
            started.context("an origin serves whatever is asked")
        };
        (0..self.servers).map(start).collect()
    }

    /// Starts generators that wait for orders on `cpus`, and know each other by `token`.
    ///
    /// # Errors
    /// One does not start.
    pub fn agents(
        &self,
        clients: u16,
        token: &str,
        cpus: &[usize],
        programs: &Programs,
        ports: &mut Ports,
    ) -> Result<Vec<Running>> {
        let start = |_| {
            let port = ports.take()?;
            let dir = self.file(&format!("agent-{port}"));
            fs::create_dir_all(&dir)?;
            let mut command = Command::new(&programs.weir);
            command.args(["load", "agent", "--listen", &format!("127.0.0.1:{port}")]);
            command.env("WEIR_LOAD_TOKEN", token).current_dir(&dir);
            let agent = on(cpus, || Running::start("a generator", command, &dir, port))?;
            agent.wait_until_it_listens()
        };
        (0..clients).map(start).collect()
    }

    /// Starts `who` for `point` and waits until it listens; `None` for what it does not do.
    ///
    /// # Errors
    /// It does not start; its port is used.
    pub fn start(
        &self,
        who: Contender,
        point: &Point,
        setup: Setup<'_>,
        programs: &Programs,
        ports: &mut Ports,
    ) -> Result<Option<Running>> {
        let port = ports.take()?;
        // A worker for each thread of its cores.
        let threads = u16::try_from(setup.cpus.len()).unwrap_or(point.workers);
        let point =
            &Point { workers: if point.hyper_threading { threads } else { point.workers }, ..point.clone() };
        let (program, kind) = (programs.of(who)?, programs.kind(who)?);
        let (name, (mut command, dir)) = match who {
            Contender::Direct => ("the origin", self.origin_command(program, point, port)?),
            _ => match self.configuration((who, kind), point, port, setup.origins, setup.sockets)? {
                Some(text) => (who.name(), self.command((who, kind), program, &text, port)?),
                None => return Ok(None),
            },
        };
        if let Some(driver) = programs.driver(who).filter(|_| kind == Kind::Weir && who != Contender::Direct)
        {
            command.env("WEIR_IO", Driver::word(driver));
        }
        if setup.sockets.is_some() && kind == Kind::Haproxy {
            // Only a master starts new processes, and hands them the sockets.
            command.arg("-W");
        }
        let command = if setup.counted { callgrind::under(&command) } else { command };
        let running = on(setup.cpus, || Running::start(name, command, &dir, port))?;
        running.wait_until_it_listens().map(Some)
    }
}
