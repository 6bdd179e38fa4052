//! Commands about the program itself, in the forms that tools read: captured errors, sinks, threads, profiling, the schema of JSON.
//!
//! Owns: those forms. What Weir does not have is said as none: no message is captured, no task is profiled.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use weir_telemetry::log::Ring;

use super::context::{Cx, Follow};
use super::sessions::date;

/// `show errors`: malformed messages are refused and not kept.
pub(super) fn errors(cx: &mut Cx<'_>) -> String {
    let process = cx.runtime.snapshot().process;
    let now = date(process.started_unix * 1000 + process.uptime_ms);
    format!("Total events captured on [{now}] : 0\n")
}

/// `show events [<sink>] [-w] [-n]`: the standard streams, a buffer in memory, in which nothing is, and rings.
pub(super) fn events(cx: &mut Cx<'_>) -> String {
    let name = cx.argument(0);
    let rings = cx.runtime.rings();
    match name {
        "" => {
            let mut text =
                "Supported events sinks are listed below. Add -w(wait), -n(new). Any key to stop\n    \
                            stdout     : type=fd, 0 dropped, standard output (fd#1)\n    \
                            stderr     : type=fd, 0 dropped, standard output (fd#2)\n    \
                            buf0       : type=buffer, 0 dropped, in-memory ring buffer\n"
                    .to_owned();
            for ring in rings {
                let (spec, dropped) = (ring.spec(), ring.dropped());
                text.push_str(&format!(
                    "    {:<10} : type=buffer, {dropped} dropped, {}\n",
                    spec.name, spec.description
                ));
            }
            text
        }
        "buf0" => String::new(),
        "stdout" | "stderr" => "Nothing to report for this sink\n".to_owned(),
        // After a reload the newest of a name counts.
        _ => match rings.into_iter().rev().find(|ring| ring.spec().name == name) {
            Some(ring) => shown(cx, ring),
            None => "No such event sink".to_owned(),
        },
    }
}

fn shown(cx: &mut Cx<'_>, ring: Arc<Ring>) -> String {
    let (mut waits, mut only_new) = (false, false);
    for option in cx.arguments.iter().skip(1) {
        // `-wn` and `-w -n` are the same.
        let letters = option.strip_prefix('-').filter(|letters| !letters.is_empty());
        if !letters.is_some_and(|letters| letters.chars().all(|c| matches!(c, 'w' | 'n'))) {
            return "unknown option".to_owned();
        }
        waits |= option.contains('w');
        only_new |= option.contains('n');
    }
    let from = if only_new { ring.end_of_lines() } else { 0 };
    let (lines, next) = ring.read(from, usize::MAX, Duration::ZERO);
    let text = lines_of(&lines);
    if waits {
        cx.state.follow = Some(Follow { ring, from: next });
    }
    text
}

/// Lines of a ring as text.
pub fn lines_of(lines: &[Arc<[u8]>]) -> String {
    let mut text = String::with_capacity(lines.iter().map(|line| line.len() + 1).sum());
    for line in lines {
        text.push_str(&String::from_utf8_lossy(line));
        text.push('\n');
    }
    text
}

/// `show fd [<number>]`.
pub(super) fn descriptors(cx: &mut Cx<'_>) -> String {
    let wanted = cx.argument(0).parse::<u32>().ok();
    let all = cx.runtime.descriptors();
    let shown = all.iter().filter(|one| wanted.is_none_or(|wanted| wanted == one.number));
    shown.map(|one| format!("{:>7} : {}\n", one.number, one.about)).collect()
}

/// `show activity`.
pub(super) fn activity(cx: &mut Cx<'_>) -> String {
    let process = cx.runtime.snapshot().process;
    let now = process.started_unix * 1000 + process.uptime_ms;
    format!(
        "thread_id: 1 (1..{})\ndate_now: {}.{:06}\naccepted: {}\n",
        process.workers.max(1),
        now / 1000,
        now % 1000 * 1000,
        process.connections.accepted
    )
}

/// `show threads`.
pub(super) fn threads(cx: &mut Cx<'_>) -> String {
    let workers = cx.runtime.snapshot().process.workers.max(1);
    (1..=workers).map(|at| format!("  Thread {at} : act=1 stuck=0 prof=0 harmless=0\n")).collect()
}

/// `show profiling`.
pub(super) fn profiling(_: &mut Cx<'_>) -> String {
    "Per-task CPU profiling              : off           # set profiling tasks {on|auto|off}\n\
     Memory usage profiling              : off           # set profiling memory {on|off}\n"
        .to_owned()
}

/// `set profiling {tasks|memory} {auto|on|off}`.
pub(super) fn set_profiling(cx: &mut Cx<'_>) -> String {
    match (cx.argument(0), cx.argument(1)) {
        ("tasks", "off" | "auto") | ("memory", "off") => String::new(),
        ("tasks" | "memory", "on") => "Nothing of Weir's is profiled; use perf(1).\n".to_owned(),
        ("tasks", _) => "Expects 'on', 'auto', or 'off'.\n".to_owned(),
        ("memory", _) => "Expects either 'on' or 'off'.\n".to_owned(),
        _ => "Expects either 'tasks' or 'memory'.\n".to_owned(),
    }
}

/// `show pools`: memory has one budget.
pub(super) fn pools(cx: &mut Cx<'_>) -> String {
    let used = cx.runtime.snapshot().process.memory_in_use;
    format!(
        "Dumping pools usage. Use SIGQUIT to flush them.\n\
         Total: 0 pools, {used} bytes allocated, {used} used (~0 by thread caches).\n"
    )
}

/// `show tasks`.
pub(super) fn tasks(cx: &mut Cx<'_>) -> String {
    let workers = cx.runtime.snapshot().process.workers.max(1);
    format!(
        "Running tasks: 0 ({workers} threads)\n  function                     places     %    lat_tot   lat_avg\n"
    )
}

/// `show ssl providers`.
pub(super) fn providers(_: &mut Cx<'_>) -> String {
    "Loaded providers : \n\t- aws-lc\n".to_owned()
}

/// `show ssl ocsp-response [<id>]`: responses stand in files beside certificates, and have no ids.
pub(super) fn ocsp(cx: &mut Cx<'_>) -> String {
    match cx.argument(0) {
        "" => "# Certificate IDs\n".to_owned(),
        _ => "Certificate ID does not match any certificate.\n".to_owned(),
    }
}

/// `show tls-keys`: files of keys have numbers in their order; the keys are not shown.
pub(super) fn tls_keys(_: &mut Cx<'_>) -> String {
    "# id (file)\n".to_owned()
}

/// `show schema json`.
pub(super) fn schema(cx: &mut Cx<'_>) -> String {
    if cx.argument(0) != "json" {
        return "Missing 'json' keyword.\n".to_owned();
    }
    let of = |name: &str| json!({ "$ref": format!("#/definitions/{name}") });
    let item = |properties: serde_json::Value, required: &[&str]| json!({ "title": "InfoItem", "type": "object", "properties": properties, "required": required });
    let natural = || json!({ "type": "integer", "minimum": 0 });
    let words = |words: &[&str]| json!({ "type": "string", "enum": words });
    let value = |kind: &str, value: serde_json::Value| json!({ "properties": { "type": words(&[kind]), "value": value }, "required": ["type", "value"] });
    let between = |least: i64, most: i64| json!({ "type": "integer", "minimum": least, "maximum": most });
    // The largest integer that every reader of JSON has exactly.
    const EXACT: i64 = (1 << 53) - 1;
    let kinds = ["s32Value", "s64Value", "u32Value", "u64Value", "strValue"];
    let info = json!({
        "field": of("field"), "processNum": of("processNum"), "tags": of("tags"), "value": of("typedValue"),
    });
    let stat = json!({
        "objType": { "enum": ["Frontend", "Backend", "Listener", "Server", "Unknown"] },
        "proxyId": natural(), "id": natural(),
        "field": of("field"), "processNum": of("processNum"), "tags": of("tags"), "typedValue": of("typedValue"),
    });
    let schema = json!({
        "$schema": "http://json-schema.org/draft-04/schema#",
        "oneOf": [
            { "title": "Info", "type": "array", "items": item(info, &["field", "processNum", "tags", "value"]) },
            {
                "title": "Stat", "type": "array",
                "items": item(stat, &["objType", "proxyId", "id", "field", "processNum", "tags", "value"]),
            },
            {
                "title": "Error", "type": "object",
                "properties": { "errorStr": { "type": "string" } }, "required": ["errorStr"],
            },
        ],
        "definitions": {
            "field": {
                "type": "object", "pos": natural(), "name": { "type": "string" }, "required": ["pos", "name"],
            },
            "processNum": { "type": "integer", "minimum": 1 },
            "tags": {
                "type": "object",
                "origin": words(&["Metric", "Status", "Key", "Config", "Product", "Unknown"]),
                "nature": words(&[
                    "Gauge", "Limit", "Min", "Max", "Rate", "Counter", "Duration", "Age", "Time", "Name", "Output",
                    "Avg", "Unknown",
                ]),
                "scope": words(&["Cluster", "Process", "Service", "System", "Unknown"]),
                "required": ["origin", "nature", "scope"],
            },
            "typedValue": {
                "type": "object",
                "oneOf": kinds.map(|kind| of(&format!("typedValue/definitions/{kind}"))),
                "definitions": {
                    "s32Value": value("s32", between(i64::from(i32::MIN), i64::from(i32::MAX))),
                    "s64Value": value("s64", between(-EXACT, EXACT)),
                    "u32Value": value("u32", between(0, i64::from(u32::MAX))),
                    "u64Value": value("u64", between(0, EXACT)),
                    "strValue": value("str", json!({ "type": "string" })),
                    "unknownValue": {
                        "properties": { "type": natural(), "value": words(&["unknown"]) },
                        "required": ["type", "value"],
                    },
                },
            },
        },
    });
    format!("{schema}\n")
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn days_have_their_dates() {
        assert_eq!(date(0), "01/Jan/1970:00:00:00.000");
        assert_eq!(date(11_016 * 86_400_000), "29/Feb/2000:00:00:00.000");
        assert_eq!(date(20_780 * 86_400_000), "23/Nov/2026:00:00:00.000");
    }
}
