//! Ten thousand sites of ten locations: start, memory, and what a request costs against one site.
//!
//! Owns: the comparison of Weir with itself, and nginx's start and memory beside it.
//! Never: favours one site: requests go to hosts and locations all over the file, and the same requests to both servers.
//! Driven by: `bench`.

use super::configs;
use super::drive::drive_script;
use super::rows::Work;
use super::servers::{self, Contender, Ground, Server};
use anyhow::{Context, Result};
use std::path::PathBuf;
use weir_lab::accounting::{Cpu, memory};
use weir_testkit::Port;

/// Different requests in the script: enough that no cache holds all they touch.
const REQUESTS: usize = 2_000;

/// How one server carries the file.
#[derive(Clone, Debug)]
pub(super) struct Start {
    pub(super) name: String,
    pub(super) seconds: f64,
    pub(super) megabytes: f64,
}

/// What came of the comparison.
#[derive(Default)]
pub(super) struct Outcome {
    /// CPU microseconds a request: of ten thousand sites, and of one.
    pub(super) many: Vec<f64>,
    pub(super) one: Vec<f64>,
    /// Requests a second, likewise.
    pub(super) many_rates: Vec<f64>,
    pub(super) one_rates: Vec<f64>,
    pub(super) starts: Vec<Start>,
}

/// Measures `weir` against itself, in pairs.
pub(super) fn measure(
    weir: &Contender,
    rivals: &[Contender],
    ground: &Ground,
    runs: usize,
    seconds: u64,
) -> Result<Outcome> {
    let many = servers::start(weir, Work::Sites, ground)?.context("every Weir serves sites")?;
    let port = Port::lease();
    let one =
        servers::launch(weir, "one-site", &configs::nginx_one_site(port.number(), ground), &port, ground)?;
    let script = script(ground)?;
    let mut starts = vec![started(&weir.name, &many)];
    for rival in rivals.iter().filter(|r| r.kind == servers::Kind::Nginx) {
        let server = servers::start(rival, Work::Sites, ground)?.context("nginx serves sites")?;
        starts.push(started(&rival.name, &server));
    }
    let mut outcome = Outcome { starts, ..Outcome::default() };
    for server in [&many, &one] {
        drive_script(&script, server, 1)?;
    }
    for run in 0..runs {
        let mut sides = [(&many, true), (&one, false)];
        if run % 2 == 1 {
            sides.reverse();
        }
        for (server, is_many) in sides {
            let before = Cpu::of(server.process.pid());
            let done = drive_script(&script, server, seconds)?;
            let cost = Cpu::of(server.process.pid()).since(&before) as f64 / 1000.0 / done.requests as f64;
            let rate = done.requests as f64 / done.seconds;
            if is_many {
                outcome.many.push(cost);
                outcome.many_rates.push(rate);
            } else {
                outcome.one.push(cost);
                outcome.one_rates.push(rate);
            }
        }
    }
    Ok(outcome)
}

fn started(name: &str, server: &Server) -> Start {
    Start {
        name: name.into(),
        seconds: server.started_in.as_secs_f64(),
        megabytes: memory(server.process.pid()) as f64 / f64::from(1 << 20),
    }
}

/// A wrk script whose requests are written out beforehand, so that the generator's cost is the same for all of them.
fn script(ground: &Ground) -> Result<PathBuf> {
    let mut lua = String::from("local r = {}\n");
    for n in 0..REQUESTS {
        // Steps that share no factor with the number of sites reach all over the file.
        let site = n * 4_999 % configs::SITES;
        let location = n * 7 % configs::LOCATIONS;
        lua += &format!(
            "r[{}] = wrk.format('GET', '/l{location}/1k', {{ Host = '{}' }})\n",
            n + 1,
            configs::host(site)
        );
    }
    lua += &format!("local i = 0\nfunction request()\n i = i % {REQUESTS} + 1\n return r[i]\nend\n");
    let path = ground.path().join("sites.lua");
    std::fs::write(&path, lua)?;
    Ok(path)
}
