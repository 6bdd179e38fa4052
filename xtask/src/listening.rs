//! Waiting for a server to listen.
//!
//! Owns: the wait, and what is said of a server that does not.
//! Driven by: the demo, and the workout of the guided build.

use anyhow::{Result, bail};
use weir_testkit::{Deadline, Process, port};

/// Waits until all of these ports are open, at most to the deadline.
///
/// # Errors
/// The server ended, or does not listen in time: with what it printed.
pub(crate) fn wait(server: &mut Process, name: &str, ports: &[u16], deadline: Deadline) -> Result<()> {
    while !ports.iter().all(|&port| port::is_listening(port)) {
        if let Some(status) = server.ended() {
            bail!("{name} ended ({status}):\n{}", server.printed());
        }
        if !deadline.look_again() {
            bail!("{name} does not listen:\n{}", server.printed());
        }
    }
    Ok(())
}
