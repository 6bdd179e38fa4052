//! Two network namespaces joined by a veth pair: fixed addresses and low ports without touching the machine's own network.
//!
//! Owns: the namespaces (each held by a sleeping process) and the pair's two ends.
//! Never: needs root: a user namespace serves as well, where the kernel allows one.
//! Driven by: tests of configurations that name addresses, such as the ELB benchmark's.

use crate::process::Process;
use crate::programs;
use std::process::Command;

/// A front namespace (for Weir) and a back one (for the servers behind it). Both end with this value.
pub struct Namespaces {
    front: Process,
    back: Process,
}

impl Namespaces {
    /// Makes the pair with these addresses, each with its prefix length (`172.20.110.1/24`).
    ///
    /// # Errors
    /// With the reason, where this machine does not let its user make namespaces.
    pub fn joined(front: &[&str], back: &[&str]) -> Result<Self, String> {
        let mut unshare = Command::new("unshare");
        unshare.args(if rustix::process::getuid().is_root() { &["-n"][..] } else { &["-U", "-r", "-n"] });
        let holder = holding(unshare)?;
        // The second in the user namespace of the first, which may then move a device into it.
        let second = holding(inside(&holder, "unshare", &["-n"]))?;
        let pair = Self { front: holder, back: second };
        let pid = pair.back.pid().to_string();
        ip(&pair.front, &["link", "add", "weir0", "type", "veth", "peer", "name", "weir1", "netns", &pid])?;
        for (side, device, addresses) in [(&pair.front, "weir0", front), (&pair.back, "weir1", back)] {
            ip(side, &["link", "set", "lo", "up"])?;
            for address in addresses {
                ip(side, &["address", "add", address, "dev", device])?;
            }
            ip(side, &["link", "set", device, "up"])?;
        }
        Ok(pair)
    }

    /// A command that runs in the front namespace.
    #[must_use]
    pub fn front(&self, program: &str, arguments: &[&str]) -> Command {
        inside(&self.front, program, arguments)
    }

    /// A command that runs in the back namespace.
    #[must_use]
    pub fn back(&self, program: &str, arguments: &[&str]) -> Command {
        inside(&self.back, program, arguments)
    }
}

/// Starts `unshare …` (or the like) with a process that holds the new namespace.
fn holding(mut unshare: Command) -> Result<Process, String> {
    // `exec` keeps the process id, by which the namespace is found.
    unshare.args(["sh", "-c", "echo held; exec sleep 3600"]);
    let mut holder = Process::spawn(unshare).map_err(|e| format!("unshare: {e}"))?;
    let deadline = crate::Deadline::standard();
    while !holder.printed().contains("held") {
        if holder.ended().is_some() || !deadline.look_again() {
            return Err(format!("no network namespace: {}", holder.printed()));
        }
    }
    Ok(holder)
}

fn inside(holder: &Process, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["-t", &holder.pid().to_string()]);
    if !rustix::process::getuid().is_root() {
        command.args(["-U", "--preserve-credentials"]);
    }
    command.args(["-n", "--", program]).args(arguments);
    command
}

fn ip(side: &Process, arguments: &[&str]) -> Result<(), String> {
    let (code, text) = programs::run(inside(side, "ip", arguments));
    if code == 0 { Ok(()) } else { Err(format!("ip {}: {text}", arguments.join(" "))) }
}
