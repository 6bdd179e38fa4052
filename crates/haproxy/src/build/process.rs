//! `global` as the process.

use std::path::PathBuf;

use weir_model::{Process, User, Workers};

use super::logs;
use crate::draft::Draft;
use crate::findings::Findings;

/// The process of a draft.
pub(crate) fn process(draft: &Draft, findings: &mut Findings) -> Process {
    let global = &draft.global;
    let tag = logs::tag(None, global);
    // Events of proxies (servers up and down) go where their lines go.
    let own = draft.proxies.iter().flat_map(|proxy| proxy.settings.logs.own.iter());
    let targets: Vec<_> = global.logs.iter().chain(own).cloned().collect();
    let workers = global.nbthread.as_ref().and_then(|number| u16::try_from(number.value).ok());
    Process {
        workers: workers.map_or(Workers::Auto, Workers::Count),
        user: user(draft),
        pid_file: global.pidfile.clone(),
        daemon: global.daemon,
        master_worker: global.master_worker,
        open_files: global.ulimit.as_ref().map(|limit| limit.value),
        open_files_origin: global.ulimit.as_ref().map(|limit| limit.span),
        connections_per_worker: None,
        max_connections: global.maxconn.as_ref().map(|limit| limit.value),
        paces: global.paces,
        error_logs: logs::error_logs(&targets, &tag, draft, findings),
        shutdown_timeout: global.hard_stop_after,
        chroot: global.chroot.clone(),
        description: global.description.clone().or_else(|| global.node.clone()),
        prefix: PathBuf::from("."),
        ..Process::default()
    }
}

fn user(draft: &Draft) -> Option<User> {
    let global = &draft.global;
    let group = global.group.as_ref().map(|group| group.value.clone());
    match &global.user {
        Some(user) => Some(User { user: user.value.clone(), group, origin: Some(user.span) }),
        // A group alone keeps the user, which started as root is root.
        None => global.group.as_ref().map(|group| User {
            user: "root".into(),
            group: Some(group.value.clone()),
            origin: Some(group.span),
        }),
    }
}
