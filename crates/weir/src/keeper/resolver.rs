//! Name look-ups on behalf of the keeper, in a process without rights.
//!
//! Owns: starting that process, and a bound on how long it may take and how much it may say.
//! Never: reads an answer of a name server in the keeper itself.
//! Driven by: `life::master`, when it compiles as a keeper.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use super::confine::{Part, confine};
use crate::compile::host_names::{self, BUDGET, parse_answers};
use crate::launch::Sandbox;
use crate::life::notify;
use crate::role::Role;

/// Most bytes of all answers.
const MAX_ANSWER: usize = 16 << 20;

/// Looks up all names as `uid` and `gid`; names without an answer have no addresses.
pub(crate) fn resolve_as(
    uid: u32,
    gid: u32,
    sandbox: Sandbox,
    names: &[String],
) -> BTreeMap<String, Vec<IpAddr>> {
    let answer = run(uid, gid, sandbox, names).unwrap_or_default();
    parse_answers(names, &answer)
}

fn run(uid: u32, gid: u32, sandbox: Sandbox, names: &[String]) -> io::Result<Vec<u8>> {
    let mut child = Role::Resolver
        .command("weir: resolver")
        .env_remove(notify::VARIABLE)
        .env(Sandbox::VARIABLE, sandbox.word())
        .uid(uid)
        .gid(gid)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let answer = converse(&mut child, names);
    // It has said all it will, or took too long.
    let _ = child.kill();
    let _ = child.wait();
    answer
}

fn converse(child: &mut Child, names: &[String]) -> io::Result<Vec<u8>> {
    if let Some(mut input) = child.stdin.take() {
        input.write_all(names.join("\n").as_bytes())?;
    }
    let Some(mut output) = child.stdout.take() else { return Ok(Vec::new()) };
    let deadline = Instant::now() + BUDGET + Duration::from_secs(2);
    let mut answer = Vec::new();
    let mut chunk = [0; 16 << 10];
    while let Some(left) = deadline.checked_duration_since(Instant::now()) {
        let limit = left.try_into().ok();
        if poll(&mut [PollFd::new(&output, PollFlags::IN)], limit.as_ref())? == 0 {
            break;
        }
        match output.read(&mut chunk)? {
            0 => return Ok(answer),
            n if answer.len() + n <= MAX_ANSWER => answer.extend_from_slice(&chunk[..n]),
            _ => break,
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// The whole life of that process.
pub(crate) fn helper() -> io::Result<()> {
    nix::sys::prctl::set_no_new_privs()?;
    // Without the filter it still has no rights.
    let _ = confine(Part::Resolver, Sandbox::from_environment());
    host_names::helper()
}
