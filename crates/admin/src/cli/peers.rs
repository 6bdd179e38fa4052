//! `show peers`: other processes that stick tables are shared with.

use std::fmt::Write as _;
use std::time::Duration;

use super::context::Cx;

/// A group of peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSection {
    /// Its name.
    pub name: String,
    /// What this process is called in it.
    pub own: String,
    /// The others.
    pub peers: Vec<PeerReport>,
    /// Tables by their names among peers, and how often each changed here.
    pub tables: Vec<(String, u64)>,
}

/// Another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerReport {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub address: String,
    /// It is talked to at this moment.
    pub talks: bool,
    /// Time since the last greeting.
    pub greeted: Option<Duration>,
    /// Conversations so far.
    pub conversations: u64,
    /// Entries that were learnt from it.
    pub learnt: u64,
    /// Messages, its or ours, that made no sense.
    pub faults: u64,
}

/// `show peers [dict|-] [<section>]`
pub(super) fn show(cx: &mut Cx<'_>) -> String {
    let wanted = match (cx.argument(0), cx.argument(1)) {
        ("dict" | "-", name) => name,
        (name, _) => name,
    };
    let all = cx.runtime.peers();
    if !wanted.is_empty() && all.iter().all(|section| section.name != wanted) {
        return "No such peers\n".to_owned();
    }
    let mut text = String::new();
    for section in all.iter().filter(|section| wanted.is_empty() || section.name == wanted) {
        one(section, &mut text);
    }
    text
}

fn one(section: &PeerSection, text: &mut String) {
    let _ =
        writeln!(text, "0x1: id={} disabled=0 flags=0x0 resync_timeout=<PAST> task_calls=0", section.name);
    for (number, peer) in (2..).zip(&section.peers) {
        let (activity, state) = if peer.talks { ("active", "ESTA") } else { ("inactive", "NONE") };
        let since = peer.greeted.map_or_else(|| "<NEVER>".to_owned(), |time| format!("{}s", time.as_secs()));
        let _ = writeln!(
            text,
            "  {number:#x}: id={}(remote,{activity}) addr={} last_status={state} last_hdshk={since}",
            peer.name, peer.address,
        );
        let _ = writeln!(
            text,
            "        reconnect=<NEVER> heartbeat=<NEVER> confirm=0 tx_hbt=0 rx_hbt=0 no_hbt=0 new_conn={} proto_err={} coll=0 \
             learnt={}",
            peer.conversations, peer.faults, peer.learnt,
        );
        let _ = writeln!(text, "        flags=0x0\n        shared tables:");
        for (id, (table, changes)) in (1..).zip(&section.tables) {
            let _ = writeln!(
                text,
                "          {id:#x} local_id={id} id={table} update={changes} localupdate={changes}"
            );
        }
    }
    let _ = writeln!(text, "  0x0: id={}(local,inactive)", section.own);
}
