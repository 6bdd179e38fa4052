//! The workout that the profile is taken from.
//!
//! Owns: the processes, from `training.conf` and `training.cfg` beside this file, and the load on each of their paths.
//! Never: measures: a program that counts is slow, and how slow tells nothing.
//! Driven by: `dist`.
//! Why: nothing but the program itself is needed, as its own generator (which is trained along) and its own origin.

use crate::listening;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;
use weir_testkit::process::UnixSignal;
use weir_testkit::{Certificate, Deadline, Io, Port, Process};

/// Sizes of pages, and their names.
const PAGES: [(&str, usize); 5] =
    [("0", 0), ("1k", 1 << 10), ("10k", 10 << 10), ("100k", 100 << 10), ("1m", 1 << 20)];

/// What is asked of both, `{…}` being a port: the generator's arguments.
const COMMON: [&str; 9] = [
    "http://127.0.0.1:{PLAIN}/api/1k",
    "http://127.0.0.1:{PLAIN}/api/10k",
    "http://127.0.0.1:{PLAIN}/api/100k",
    "--new-connections http://127.0.0.1:{PLAIN}/api/1k",
    "--body 0123456789 http://127.0.0.1:{PLAIN}/api/1k",
    "https://localhost:{SECURE}/api/1k",
    "--handshakes https://localhost:{SECURE}/",
    "http://127.0.0.1:{TCP}/1k http://127.0.0.1:{TCP}/100k",
    "--new-connections http://127.0.0.1:{TCP}/1k",
];

/// What only the nginx.conf has.
const WEB_SERVER: [&str; 15] = [
    "http://127.0.0.1:{PLAIN}/lean/1k",
    "http://127.0.0.1:{PLAIN}/lean/10k",
    "http://127.0.0.1:{PLAIN}/lean/100k",
    "--new-connections http://127.0.0.1:{PLAIN}/lean/1k",
    "http://127.0.0.1:{PLAIN}/several/1k http://127.0.0.1:{PLAIN}/anew/1k",
    "http://127.0.0.1:{PLAIN}/0",
    "http://127.0.0.1:{PLAIN}/1k",
    "http://127.0.0.1:{PLAIN}/10k",
    "http://127.0.0.1:{PLAIN}/100k",
    "http://127.0.0.1:{PLAIN}/1m",
    "http://127.0.0.1:{PLAIN}/logged/1k http://127.0.0.1:{PLAIN}/gone http://127.0.0.1:{PLAIN}/missing",
    "-H Accept-Encoding:gzip http://127.0.0.1:{PLAIN}/zipped/10k",
    "https://localhost:{SECURE}/1k https://localhost:{SECURE}/10k",
    "https://localhost:{SECURE}/100k",
    "https://localhost:{TCPTLS}/1k https://localhost:{TCPTLS}/100k",
];

/// How long each of these lasts.
const LOAD: &str = "700ms";

/// Works `weir`, which leaves a profile of each of its processes in `profiles`.
pub(super) fn run(weir: &Path, profiles: &Path) -> Result<()> {
    let dir = tempfile::Builder::new().prefix("weir-training-").tempdir()?;
    // Workers that gave up root read from here.
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let html = dir.path().join("html");
    std::fs::create_dir(&html)?;
    for (name, bytes) in PAGES {
        std::fs::write(html.join(name), vec![b'x'; bytes])?;
    }
    Certificate::p256(&["localhost"]).write(dir.path(), "train");
    let gym = Gym { weir, profiles, dir: dir.path() };
    let ports = Ports::lease();
    for io in [Io::Uring, Io::Epoll] {
        println!("trains: {} driver", io.word());
        // The web server's process is the origin of the other as well.
        let web = gym.start("training.conf", include_str!("training.conf"), &ports, io)?;
        gym.work(&ports, COMMON.iter().chain(&WEB_SERVER))?;
        let balancer = Ports { origin: ports.origin.clone(), ..Ports::lease() };
        let proxy = gym.start("training.cfg", include_str!("training.cfg"), &balancer, io)?;
        gym.work(&balancer, COMMON.iter())?;
        end(proxy)?;
        end(web)?;
    }
    Ok(())
}

/// The ports that the files name.
struct Ports {
    origin: Port,
    plain: Port,
    secure: Port,
    tcp: Port,
    tcp_tls: Port,
}

impl Ports {
    fn lease() -> Self {
        let [origin, plain, secure, tcp, tcp_tls] = std::array::from_fn(|_| Port::lease());
        Self { origin, plain, secure, tcp, tcp_tls }
    }

    /// Puts the ports in the place of their names, which stand in braces.
    fn fill(&self, text: &str) -> String {
        let named = [
            ("ORIGIN", &self.origin),
            ("PLAIN", &self.plain),
            ("SECURE", &self.secure),
            ("TCPTLS", &self.tcp_tls),
            ("TCP", &self.tcp),
        ];
        named.iter().fold(text.to_owned(), |text, (word, port)| {
            text.replace(&format!("{{{word}}}"), &port.to_string())
        })
    }
}

struct Gym<'a> {
    weir: &'a Path,
    profiles: &'a Path,
    dir: &'a Path,
}

impl Gym<'_> {
    fn command(&self) -> Command {
        let mut command = Command::new(self.weir);
        command.current_dir(self.dir).env("LLVM_PROFILE_FILE", self.profiles.join("%p.profraw"));
        command
    }

    fn start(&self, name: &str, text: &str, ports: &Ports, io: Io) -> Result<Process> {
        std::fs::write(self.dir.join(name), ports.fill(text))?;
        let mut command = self.command();
        command.args(["run", "--io", io.word(), "-c", name]);
        let mut process = Process::spawn(command).context("cannot run weir")?;
        // The counting build is slow to start.
        let deadline = Deadline::after(std::time::Duration::from_secs(30));
        listening::wait(&mut process, name, &[ports.tcp.number()], deadline)?;
        Ok(process)
    }

    fn work<'b>(&self, ports: &Ports, loads: impl Iterator<Item = &'b &'b str>) -> Result<()> {
        for load in loads {
            let mut command = self.command();
            command.args(["load", "-t1", "-c20", "-d", LOAD]);
            command.args(ports.fill(load).split(' '));
            let done = command.output().context("cannot run weir load")?;
            if !done.status.success() {
                bail!("weir load {load}: {}", String::from_utf8_lossy(&done.stderr).trim());
            }
        }
        Ok(())
    }
}

/// Ends a server as it likes to be ended: only then it writes its profile.
fn end(mut process: Process) -> Result<()> {
    process.signal(UnixSignal::QUIT);
    let ended = process.wait(Deadline::after(std::time::Duration::from_secs(30)));
    match ended {
        Some(status) if status.success() => Ok(()),
        ended => bail!("weir did not end well ({ended:?}): {}", process.printed().trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_named_has_a_number() {
        let ports = Ports::lease();
        let files = [include_str!("training.conf"), include_str!("training.cfg")];
        for text in files.iter().chain(&COMMON).chain(&WEB_SERVER) {
            let filled = ports.fill(text);
            assert!(!filled.contains("127.0.0.1:{") && !filled.contains("localhost:{"), "{filled}");
            assert!(filled.contains(':'), "{filled}");
        }
    }
}
