//! Who the data plane is.
//!
//! Owns: looking up user and group, and becoming them in the one order that leaves nothing behind.
//! Never: runs after a thread was started or traffic was read.
//! Driven by: `keeper::child` looks up, `keeper::plane` becomes.

use std::ffi::CString;
use std::path::PathBuf;

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Group, Uid, User, chdir, chroot, getgrouplist, setgid, setgroups, setuid};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use serde::{Deserialize, Serialize};
use weir_diag::Diagnostic;
use weir_model::Process;

/// Whom to become.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
    pub(crate) chroot: Option<PathBuf>,
    pub(crate) working_directory: Option<PathBuf>,
    /// Keep the right to send from addresses of other machines, and no other of root's.
    pub(crate) transparent: bool,
}

/// The identity that a configuration asks for, if this process may and must change into it: it is root, and another
/// user, group or root folder is named.
pub(crate) fn wanted(process: &Process) -> Result<Option<Identity>, Box<Diagnostic>> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    let (uid, gid, groups) = match &process.user {
        Some(user) => look_up(user)?,
        None => (Uid::effective(), Gid::effective(), Vec::new()),
    };
    if uid.is_root() && gid == Gid::effective() && process.chroot.is_none() {
        return Ok(None);
    }
    Ok(Some(Identity {
        uid: uid.as_raw(),
        gid: gid.as_raw(),
        groups: groups.into_iter().map(Gid::as_raw).collect(),
        chroot: process.chroot.clone(),
        working_directory: process.working_directory.clone(),
        transparent: process.transparent,
    }))
}

/// User, primary group and all groups, by name or number.
fn look_up(user: &weir_model::User) -> Result<(Uid, Gid, Vec<Gid>), Box<Diagnostic>> {
    let complain = |what: &str, name: &str| {
        let found = Diagnostic::error(
            "process::unknown-user",
            format!("there is no {what} `{name}` on this machine"),
        )
        .help(format!("create it, or name another {what}"));
        Box::new(match user.origin {
            Some(span) => found.at(span),
            None => found,
        })
    };
    let by_name = User::from_name(&user.user).ok().flatten();
    let by_number =
        || user.user.parse().ok().map(|number| User::from_uid(Uid::from_raw(number)).ok().flatten());
    let (uid, entry) = match (by_name, user.user.parse().ok()) {
        (Some(entry), _) => (entry.uid, Some(entry)),
        (None, Some(number)) => (Uid::from_raw(number), by_number().flatten()),
        (None, None) => return Err(complain("user", &user.user)),
    };
    let gid = match &user.group {
        Some(name) => match (Group::from_name(name).ok().flatten(), name.parse().ok()) {
            (Some(group), _) => group.gid,
            (None, Some(number)) => Gid::from_raw(number),
            (None, None) => return Err(complain("group", name)),
        },
        None => match &entry {
            Some(entry) => entry.gid,
            None => return Err(complain("group for user", &user.user)),
        },
    };
    let groups = entry
        .and_then(|entry| CString::new(entry.name).ok())
        .and_then(|name| getgrouplist(&name, gid).ok())
        .unwrap_or_else(|| vec![gid]);
    Ok((uid, gid, groups))
}

/// Becomes `identity` for good: root folder, then groups, group and user, then no way back.
pub(crate) fn become_identity(identity: &Identity) -> Result<(), String> {
    let say = |what: String| move |error: nix::Error| format!("cannot {what}: {}", error.desc());
    if let Some(root) = &identity.chroot {
        chroot(root).map_err(say(format!("change the root folder to {}", root.display())))?;
        chdir("/").map_err(say("enter the root folder".into()))?;
    }
    if let Some(folder) = &identity.working_directory {
        chdir(folder).map_err(say(format!("enter {}", folder.display())))?;
    }
    let groups: Vec<Gid> = identity.groups.iter().copied().map(Gid::from_raw).collect();
    let uid = Uid::from_raw(identity.uid);
    if Uid::current() != uid || !uid.is_root() || Gid::current().as_raw() != identity.gid {
        setgroups(&groups).map_err(say("give up supplementary groups".into()))?;
        setgid(Gid::from_raw(identity.gid)).map_err(say(format!("become group {}", identity.gid)))?;
        let keeps = identity.transparent && !uid.is_root();
        if keeps {
            prctl::set_keepcaps(true).map_err(say("keep a capability".into()))?;
        }
        setuid(uid).map_err(say(format!("become user {}", identity.uid)))?;
        if keeps {
            keep_only(CapabilitySet::NET_RAW).map_err(|error| {
                format!("cannot keep CAP_NET_RAW (a `transparent` proxy needs it): {error}")
            })?;
        }
        // A process that can become root again never gave it up.
        if !uid.is_root() && setuid(Uid::from_raw(0)).is_ok() {
            return Err("root could be taken back after it was given up".into());
        }
    }
    prctl::set_no_new_privs().map_err(say("forbid new privileges".into()))
}

/// Gives up all rights of root but some.
fn keep_only(rights: CapabilitySet) -> rustix::io::Result<()> {
    let sets = CapabilitySets { effective: rights, permitted: rights, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets)
}

/// Asks for TERM when the parent dies. Becoming another user clears this, so call it afterwards. The data plane
/// takes TERM as a request to drain only if its parent is really gone.
pub(crate) fn tie_to_parent() {
    // Older kernels than any we run on may refuse; the closed channel says the same.
    let _ = prctl::set_pdeathsig(Signal::SIGTERM);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, group: Option<&str>) -> weir_model::User {
        weir_model::User { user: name.into(), group: group.map(Into::into), origin: None }
    }

    #[test]
    fn names_and_numbers_are_found() {
        let (uid, gid, groups) = look_up(&user("root", None)).unwrap();
        assert!(uid.is_root() && gid.as_raw() == 0 && groups.contains(&Gid::from_raw(0)));
        let (uid, gid, groups) = look_up(&user("12345", Some("54321"))).unwrap();
        assert_eq!((uid.as_raw(), gid.as_raw()), (12345, 54321));
        assert_eq!(groups, [Gid::from_raw(54321)]);
    }

    #[test]
    fn strangers_are_named() {
        let found = look_up(&user("no-such-user-here", None)).unwrap_err();
        assert!(found.title.contains("no-such-user-here"));
        let found = look_up(&user("root", Some("no-such-group-here"))).unwrap_err();
        assert!(found.title.contains("no-such-group-here"));
    }
}
