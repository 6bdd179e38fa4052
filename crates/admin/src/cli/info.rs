//! `show info` and `show version`: the process.
//!
//! Owns: the fields with their places and tags, as exporters know them. What is not measured here is left out, and what is
//! absent (pipes, peers) is zero.

use serde_json::json;
use weir_control::snapshot::Snapshot;

use super::context::Cx;

/// When the language that is spoken was last brought up to date.
const RELEASED: &str = "2026/11/23";

/// The version that clients compare with HAProxy's.
fn version_of(snapshot: &Snapshot) -> String {
    format!("3.4.0-weir{}", snapshot.process.version)
}

pub(super) fn version(cx: &mut Cx<'_>) -> String {
    format!("{}\n", version_of(&cx.runtime.snapshot()))
}

enum Value {
    U32(u64),
    U64(u64),
    Text(String),
}

struct Field {
    place: usize,
    name: &'static str,
    /// Origin, nature and scope, a letter each.
    tags: &'static str,
    value: Value,
}

pub(super) fn show(cx: &mut Cx<'_>) -> String {
    let asked = |word: &str| cx.arguments.iter().any(|argument| argument == word);
    let (idle, paces) = (cx.runtime.idle_percent(), cx.runtime.paces());
    let fields = fields(&cx.runtime.snapshot(), (idle, paces), asked("float"));
    if asked("json") {
        let all: Vec<_> = fields.iter().map(json_of).collect();
        return format!("{}\n", json!(all));
    }
    let mut text = String::new();
    for field in &fields {
        let (kind, value) = shown(&field.value);
        let line = match asked("typed") {
            true => format!("{}.{}.1:{}:{kind}:{value}", field.place, field.name, field.tags),
            false => format!("{}: {value}", field.name),
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

fn shown(value: &Value) -> (&'static str, String) {
    match value {
        Value::U32(number) => ("u32", number.to_string()),
        Value::U64(number) => ("u64", number.to_string()),
        Value::Text(text) => ("str", text.clone()),
    }
}

fn json_of(field: &Field) -> serde_json::Value {
    let (kind, value) = match &field.value {
        Value::U32(number) => ("u32", json!(number)),
        Value::U64(number) => ("u64", json!(number)),
        Value::Text(text) => ("str", json!(text)),
    };
    let word = |at: usize, words: &[(char, &'static str)]| {
        let letter = field.tags.chars().nth(at).unwrap_or_default();
        words.iter().find(|(known, _)| *known == letter).map_or("Unknown", |(_, word)| *word)
    };
    let origins = [('M', "Metric"), ('S', "Status"), ('K', "Key"), ('C', "Config"), ('P', "Product")];
    let natures = [
        ('G', "Gauge"),
        ('L', "Limit"),
        ('M', "Max"),
        ('R', "Rate"),
        ('C', "Counter"),
        ('D', "Duration"),
        ('O', "Output"),
        ('a', "Avg"),
        ('P', "Process"),
    ];
    let scopes = [('P', "Process"), ('S', "Service"), ('C', "Cluster")];
    json!({
        "field": { "pos": field.place, "name": field.name },
        "processNum": 1,
        "tags": { "origin": word(0, &origins), "nature": word(1, &natures), "scope": word(2, &scopes) },
        "value": { "type": kind, "value": value },
    })
}

/// `0d 0h00m01s`.
fn uptime(seconds: u64) -> String {
    let (minutes, hours) = (seconds / 60 % 60, seconds / 3600 % 24);
    format!("{}d {hours}h{minutes:02}m{:02}s", seconds / 86_400, seconds % 60)
}

#[rustfmt::skip]
fn fields(snapshot: &Snapshot, (idle, paces): (u64, super::Rates), float: bool) -> Vec<Field> {
    use Value::{Text, U32, U64};
    let process = &snapshot.process;
    let (connections, rates, tls) = (&process.connections, &process.rates, &process.tls);
    let text = |text: &str| Text(text.to_owned());
    let mut fields = Vec::new();
    let mut put = |place, name, tags, value| fields.push(Field { place, name, tags, value });
    let seconds = process.uptime_ms / 1000;
    let version = version_of(snapshot);
    let reused = tls.resumed.saturating_mul(100).checked_div(tls.full + tls.resumed).unwrap_or(0);
    let megabytes = |bytes: u64| U32(bytes >> 20);
    put(0, "Name", "POS", text("HAProxy"));
    put(1, "Version", "POS", Text(version.clone()));
    put(2, "Release_date", "POS", text(RELEASED));
    put(3, "Nbthread", "CGS", U32(process.workers.into()));
    put(4, "Nbproc", "CGS", U32(1));
    put(5, "Process_num", "KGP", U32(1));
    put(6, "Pid", "SGP", U32(process.pid.into()));
    put(7, "Uptime", "MDP", Text(uptime(seconds)));
    match float {
        true => put(8, "Uptime_sec", "MDP", Text(format!("{:.6}", process.uptime_ms as f64 / 1000.0))),
        false => put(8, "Uptime_sec", "MDP", U32(seconds)),
    }
    put(9, "Memmax_MB", "CLP", megabytes(process.memory_budget));
    put(10, "PoolAlloc_MB", "MGP", megabytes(process.memory_in_use));
    put(11, "PoolUsed_MB", "MGP", megabytes(process.memory_in_use));
    put(12, "PoolFailed", "MCP", U32(process.shed));
    put(13, "Ulimit-n", "CLP", U32(process.descriptor_limit));
    put(14, "Maxsock", "CLP", U32(process.descriptor_limit));
    put(15, "Maxconn", "CLP", U32(process.max_connections));
    put(16, "Hard_maxconn", "CLP", U32(process.max_connections));
    put(17, "CurrConns", "MGP", U32(connections.active));
    put(18, "CumConns", "MCP", U32(connections.accepted));
    put(19, "CumReq", "MCP", U32(process.requests));
    put(21, "CurrSslConns", "MGP", U32(tls.current));
    put(22, "CumSslConns", "MCP", U32(tls.full + tls.resumed + tls.failed));
    put(23, "Maxpipes", "CLP", U32(0));
    put(24, "PipesUsed", "MGP", U32(0));
    put(25, "PipesFree", "MGP", U32(0));
    put(26, "ConnRate", "MRP", U32(rates.connections));
    put(27, "ConnRateLimit", "CLP", U32(paces.connections.into()));
    put(28, "MaxConnRate", "MMP", U32(rates.connections_max));
    put(29, "SessRate", "MRP", U32(rates.sessions));
    put(30, "SessRateLimit", "CLP", U32(paces.sessions.into()));
    put(31, "MaxSessRate", "MRP", U32(rates.sessions_max));
    put(33, "SslRateLimit", "CLP", U32(paces.tls.into()));
    put(37, "SslFrontendSessionReuse_pct", "MGP", U32(reused));
    put(40, "SslCacheLookups", "MCP", U32(tls.full + tls.resumed));
    put(41, "SslCacheMisses", "MCP", U32(tls.full));
    put(44, "CompressBpsRateLim", "CLP", U32(0));
    put(47, "Tasks", "MGP", U32(connections.active + u64::from(process.workers)));
    put(48, "Run_queue", "MGP", U32(0));
    put(49, "Idle_pct", "MaP", U32(idle.min(100)));
    put(50, "node", "COS", Text(process.node.clone()));
    put(52, "Stopping", "MGP", U32(process.stopping.into()));
    put(53, "Jobs", "MGP", U32(connections.active + snapshot.listeners.len() as u64));
    put(54, "Unstoppable Jobs", "MGP", U32(0));
    put(55, "Listeners", "MGP", U32(snapshot.listeners.len() as u64));
    put(56, "ActivePeers", "MGP", U32(0));
    put(57, "ConnectedPeers", "MGP", U32(0));
    put(58, "DroppedLogs", "MGP", U32(process.dropped_logs));
    put(59, "BusyPolling", "MGP", U32(0));
    put(60, "FailedResolutions", "MGP", U32(0));
    put(61, "TotalBytesOut", "MGP", U64(process.bytes.client_out));
    put(62, "TotalSplicdedBytesOut", "MGP", U64(0));
    put(64, "DebugCommandsIssued", "MGP", U32(0));
    put(65, "CumRecvLogs", "MCP", U32(0));
    put(66, "Build info", "POS", Text(version));
    put(67, "Memmax_bytes", "CLP", U64(process.memory_budget));
    put(68, "PoolAlloc_bytes", "MGP", U64(process.memory_in_use));
    put(69, "PoolUsed_bytes", "MGP", U64(process.memory_in_use));
    put(70, "Start_time_sec", "MDP", U32(process.started_unix));
    put(71, "Tainted", "SGP", text("0"));
    fields
}
