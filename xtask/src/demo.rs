//! Three web servers and two load balancers, all Weir: one balancer from an nginx.conf, one from a haproxy.cfg.
//!
//! Owns: a directory with the files, the ports, the five processes, the load and the table.
//! Never: asks a question, needs root, or leaves a process behind.
//! Driven by: `make demo`, `make demo ONCE=1`.
//! Why: the configuration files under examples/demo/ are real and run by themselves; the demo only swaps ports that are taken.

use crate::{build, listening};
use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use weir_testkit::{Address, Certificate, Deadline, Load, LoadReport, Port, Process, TlsOptions};

/// How the demo runs.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// End after the table; fail if any request failed
    #[arg(long)]
    once: bool,
    /// Seconds of load on each path
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Connections of each path
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// A `weir` that is built already
    #[arg(long)]
    weir: Option<PathBuf>,
}

const SERVERS: [&str; 5] = ["web1.conf", "web2.conf", "web3.conf", "lb.conf", "lb.cfg"];

/// The ports written in the files: each server's, the first balancer's HTTP, HTTPS, status and TCP, the second one's HTTP and statistics.
const HTTP: u16 = 8080;
const HTTPS: u16 = 8443;
const STATUS: u16 = 8090;
const TCP: u16 = 9000;
const FROM_CFG: u16 = 8091;
const STATISTICS: u16 = 8404;
const WRITTEN: [u16; 9] = [8081, 8082, 8083, HTTP, HTTPS, STATUS, TCP, FROM_CFG, STATISTICS];

/// Runs the demo to its end: the table, or Ctrl-C.
pub(crate) fn run(options: &Options) -> Result<()> {
    // Before anything starts, so that an early Ctrl-C cleans up as well.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let weir = match &options.weir {
        Some(path) => path.clone(),
        None => build::weir("dev")?,
    };
    let demo = Demo::start(&weir)?;
    let reports = demo.measure(options)?;
    println!("\n{}", table(&reports));
    let failed: u64 = reports.iter().map(|(_, r)| r.failed).sum();
    demo.tell();
    if options.once {
        return verdict(failed, &reports);
    }
    println!("\nCtrl-C ends it.");
    signals.forever().next();
    Ok(())
}

fn verdict(failed: u64, reports: &[(&str, LoadReport)]) -> Result<()> {
    if let Some((path, _)) = reports.iter().find(|(_, r)| r.answered() == 0) {
        bail!("{path}: no request was answered");
    }
    if failed > 0 {
        let why: Vec<&str> =
            reports.iter().flat_map(|(_, r)| &r.failures).map(String::as_str).take(5).collect();
        bail!("{failed} requests failed: {}", why.join("; "));
    }
    Ok(())
}

struct Demo {
    /// Written port → port in use.
    ports: Vec<(u16, Port)>,
    certificate: Certificate,
    dir: tempfile::TempDir,
    _servers: Vec<Process>,
}

impl Demo {
    fn start(weir: &Path) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("weir-demo-").tempdir()?;
        // Workers that gave up root read from here.
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let certificate = Certificate::p256(&["localhost", "127.0.0.1"]);
        certificate.write(dir.path(), "demo");
        let ports = WRITTEN.iter().map(|&p| (p, Port::lease_near(p))).collect();
        let mut demo = Self { ports, certificate, dir, _servers: Vec::new() };
        demo.lay_out()?;
        for file in SERVERS {
            let server = demo.serve(weir, file)?;
            demo._servers.push(server);
        }
        Ok(demo)
    }

    /// Copies the files of examples/demo/, with the ports of this run.
    fn lay_out(&self) -> Result<()> {
        let from = build::root().join("examples/demo");
        std::fs::create_dir(self.dir.path().join("html"))?;
        std::fs::copy(from.join("html/index.html"), self.dir.path().join("html/index.html"))?;
        for file in SERVERS {
            let text =
                std::fs::read_to_string(from.join(file)).with_context(|| format!("examples/demo/{file}"))?;
            std::fs::write(self.dir.path().join(file), self.with_ports(&text))?;
        }
        Ok(())
    }

    fn with_ports(&self, text: &str) -> String {
        let swapped = |text: String, (written, port): &(u16, Port)| {
            text.replace(&format!("127.0.0.1:{written}"), &format!("127.0.0.1:{port}"))
        };
        self.ports.iter().fold(text.to_owned(), swapped)
    }

    fn port(&self, written: u16) -> &Port {
        // Every caller names a port of WRITTEN.
        self.ports.iter().find(|(w, _)| *w == written).map(|(_, p)| p).expect("a port of the demo's files")
    }

    fn serve(&self, weir: &Path, file: &str) -> Result<Process> {
        let dir = self.dir.path();
        let mut command = Command::new(weir);
        if file.ends_with(".cfg") {
            command.args(["haproxy", "-db", "-f"]).arg(dir.join(file));
        } else {
            command.arg("nginx").arg("-p").arg(format!("{}/", dir.display()));
            command.arg("-c").arg(dir.join(file)).args(["-g", "daemon off;"]);
        }
        let mut server = Process::spawn(command).with_context(|| format!("cannot run {}", weir.display()))?;
        let text = std::fs::read_to_string(dir.join(file))?;
        let listens: Vec<u16> = self
            .ports
            .iter()
            .filter(|(_, p)| {
                ["listen", "bind"].iter().any(|word| text.contains(&format!("{word} 127.0.0.1:{p}")))
            })
            .map(|(_, p)| p.number())
            .collect();
        listening::wait(&mut server, file, &listens, Deadline::standard())?;
        Ok(server)
    }

    fn measure(&self, options: &Options) -> Result<Vec<(&'static str, LoadReport)>> {
        let time = Duration::from_secs_f64(options.seconds);
        let to = |written| Load::to(self.port(written)).connections(options.connections);
        let tls = TlsOptions::trusting(&self.certificate);
        let paths = [
            ("HTTP", to(HTTP)),
            ("HTTP, a connection each", to(HTTP).one_request_a_connection()),
            ("HTTPS", to(HTTPS).tls(&tls)),
            ("HTTPS, a handshake each", to(HTTPS).tls(&tls).one_request_a_connection()),
            ("TCP", to(TCP)),
            ("HTTP, from haproxy.cfg", to(FROM_CFG)),
        ];
        println!("{:.1} s of load from {} connections on each path …", options.seconds, options.connections);
        Ok(paths.into_iter().map(|(name, load)| (name, load.run_for(time))).collect())
    }

    fn tell(&self) {
        println!("  http://{}/", self.port(HTTP).address());
        println!(
            "  https://localhost:{}/  (certificate made just now: curl --cacert {}/demo.crt)",
            self.port(HTTPS),
            self.dir.path().display()
        );
        println!("  http://{}/  (the same web servers, balanced as plain TCP)", self.port(TCP).address());
        println!("  http://{}/  (the same, by the load balancer of lb.cfg)", self.port(FROM_CFG).address());
        println!("  http://{}/status  (nginx's stub_status)", self.port(STATUS).address());
        println!("  http://{}/  (the statistics page, HAProxy's)", self.port(STATISTICS).address());
    }
}

fn table(reports: &[(&str, LoadReport)]) -> String {
    let mut out = format!(
        "{:<26}{:>10}{:>9}{:>9}{:>9}{:>9}{:>8}  share of each web server\n",
        "path", "req/s", "mean", "p50", "p95", "p99", "errors"
    );
    for (name, r) in reports {
        let at = |q: f64| milliseconds(r.latencies.value_at_quantile(q) as f64);
        let all = r.answered().max(1) as f64;
        let shares: Vec<String> =
            r.shares.iter().map(|(who, n)| format!("{who} {:.1}%", *n as f64 * 100.0 / all)).collect();
        out += &format!(
            "{name:<26}{:>10.0}{:>9}{:>9}{:>9}{:>9}{:>8}  {}\n",
            r.rate(),
            milliseconds(r.latencies.mean()),
            at(0.50),
            at(0.95),
            at(0.99),
            r.failed,
            shares.join(", ")
        );
    }
    out
}

fn milliseconds(microseconds: f64) -> String {
    format!("{:.2}ms", microseconds / 1000.0)
}
