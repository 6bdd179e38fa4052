//! The contenders, and starting them on the same ground.
//!
//! Owns: who takes part (`WEIR_RIVALS` adds more), the files and certificates they share, the origin behind them.
//! Never: measures.
//! Driven by: `bench`, for each kind of work.

use super::configs;
use super::rows::{Key, Size, Work};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use weir_lab::configs::{haproxy_command, nginx_command};
use weir_testkit::cert::CertificateFiles;
use weir_testkit::{Certificate, Deadline, Io, Port, Process, port};

/// Ten thousand sites may take a while to read.
const START_LIMIT: Duration = Duration::from_secs(60);

/// What kind of program a contender is: it decides configuration and command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Weir(Io),
    Nginx,
    Haproxy,
}

/// One program that takes part.
#[derive(Clone, Debug)]
pub(super) struct Contender {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) program: PathBuf,
}

impl Contender {
    fn new(name: &str, kind: Kind, program: &str) -> Self {
        Self { name: name.into(), kind, program: program.into() }
    }

    pub(super) fn is_weir(&self) -> bool {
        matches!(self.kind, Kind::Weir(_))
    }

    /// Debian's two.
    fn debian() -> [Self; 2] {
        [
            Self::new("nginx", Kind::Nginx, "/usr/sbin/nginx"),
            Self::new("haproxy", Kind::Haproxy, "/usr/sbin/haproxy"),
        ]
    }
}

/// Debian's rivals and those of `WEIR_RIVALS`: `NAME=nginx:PATH` or `NAME=haproxy:PATH`, separated by commas.
pub(super) fn rivals() -> Result<Vec<Contender>> {
    let mut found = Contender::debian().to_vec();
    let more = std::env::var("WEIR_RIVALS").unwrap_or_default();
    for entry in more.split(',').filter(|e| !e.is_empty()) {
        let (name, program) = entry.split_once('=').context("WEIR_RIVALS: NAME=KIND:PATH")?;
        let kind = match program.split_once(':') {
            Some(("nginx", path)) => (Kind::Nginx, path),
            Some(("haproxy", path)) => (Kind::Haproxy, path),
            _ => bail!("WEIR_RIVALS: `{program}` is neither nginx:PATH nor haproxy:PATH"),
        };
        found.push(Contender::new(name, kind.0, kind.1));
    }
    Ok(found)
}

/// What all contenders stand on: files of each size, certificates, the origin's port.
pub(super) struct Ground {
    dir: tempfile::TempDir,
    p256: (Certificate, CertificateFiles),
    rsa: (Certificate, CertificateFiles),
    pub(super) origin: Port,
    /// Its number, as configurations take it.
    pub(super) origin_ports: [u16; 1],
    /// The most descriptors a process may have here.
    pub(super) descriptors: u64,
    origin_process: Option<Process>,
}

impl Ground {
    pub(super) fn prepare(descriptors: u64) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("weir-bench-").tempdir()?;
        // Workers that gave up root read from here.
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let html = dir.path().join("html");
        let places = (0..configs::LOCATIONS).map(|l| html.join(format!("l{l}"))).chain([html.clone()]);
        for place in places {
            std::fs::create_dir_all(&place)?;
            for size in Size::ALL {
                std::fs::write(place.join(size.file()), vec![b'x'; size.bytes()])?;
            }
        }
        let made = |certificate: Certificate, name: &str| {
            let files = certificate.write(dir.path(), name);
            (certificate, files)
        };
        let names = ["localhost", "127.0.0.1"];
        let p256 = made(Certificate::p256(&names), "p256");
        let rsa = made(Certificate::rsa2048(&names), "rsa");
        let origin = Port::lease();
        let origin_ports = [origin.number()];
        let mut ground = Self { dir, p256, rsa, origin, origin_ports, descriptors, origin_process: None };
        ground.start_origin()?;
        Ok(ground)
    }

    /// Debian's nginx from files it keeps open: fast, and the same for all.
    fn start_origin(&mut self) -> Result<()> {
        let [nginx, _] = Contender::debian();
        let text = configs::nginx(Work::Static(Size::K1), self.origin.number(), self);
        let started = launch(&nginx, "origin", &text, &self.origin, self)?;
        self.origin_process = Some(started.process);
        Ok(())
    }

    pub(super) fn html(&self) -> PathBuf {
        self.dir.path().join("html")
    }

    /// The certificate files for `work`.
    pub(super) fn certificate(&self, work: Work) -> &CertificateFiles {
        match work {
            Work::Handshake(Key::Rsa2048) => &self.rsa.1,
            _ => &self.p256.1,
        }
    }

    /// The certificate that a client trusts in `work`.
    pub(super) fn trusted(&self, work: Work) -> &Certificate {
        match work {
            Work::Handshake(Key::Rsa2048) => &self.rsa.0,
            _ => &self.p256.0,
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// A contender that serves.
pub(super) struct Server {
    pub(super) process: Process,
    pub(super) port: Port,
    /// From its start to its port being open.
    pub(super) started_in: Duration,
}

/// Starts `contender` for `work`; `None` if it does no such work.
pub(super) fn start(contender: &Contender, work: Work, ground: &Ground) -> Result<Option<Server>> {
    let port = Port::lease();
    let text = match contender.kind {
        Kind::Haproxy => configs::haproxy(work, port.number(), ground),
        Kind::Weir(_) | Kind::Nginx => Some(configs::nginx(work, port.number(), ground)),
    };
    text.map(|text| launch(contender, &contender.name, &text, &port, ground)).transpose()
}

/// Starts `contender` with this configuration, and waits until `port` is open.
pub(super) fn launch(
    contender: &Contender,
    label: &str,
    text: &str,
    port: &Port,
    ground: &Ground,
) -> Result<Server> {
    let dir = ground.path().join(format!("{}-{port}", label.replace(' ', "-")));
    std::fs::create_dir_all(&dir)?;
    let file = dir.join("configuration");
    std::fs::write(&file, text)?;
    let begun = Instant::now();
    let process = Process::spawn(command(contender, &dir, &file, text))
        .with_context(|| format!("cannot run {}", contender.program.display()))?;
    let mut server = Server { process, port: port.clone(), started_in: Duration::ZERO };
    let deadline = Deadline::after(START_LIMIT);
    while !port::is_listening(port.number()) {
        if let Some(status) = server.process.ended() {
            bail!("{label} ended ({status}): {}", server.process.printed().trim());
        }
        if !deadline.look_again() {
            bail!("{label} does not listen after {START_LIMIT:?}: {}", server.process.printed().trim());
        }
    }
    server.started_in = begun.elapsed();
    Ok(server)
}

fn command(contender: &Contender, dir: &Path, file: &Path, text: &str) -> Command {
    match contender.kind {
        Kind::Weir(io) => {
            let mut command = Command::new(&contender.program);
            command.args(["run", "--io", io.word(), "-c"]).arg(file).current_dir(dir);
            command
        }
        Kind::Nginx => nginx_command(&contender.program, dir, file, text),
        Kind::Haproxy => haproxy_command(&contender.program, dir, file),
    }
}
