//! `global`.

use crate::draft::{At, Global};
use crate::findings::Findings;
use crate::take::logs::log_target;
use crate::values::{size, time};
use crate::words::Call;

fn count(call: &Call<'_>, range: std::ops::RangeInclusive<u64>, findings: &mut Findings) -> Option<At<u64>> {
    let word = call.arguments.first()?;
    findings.value(word, |text| size::count(text, range)).map(|value| At::new(value, call.line.span()))
}

fn text(call: &Call<'_>) -> At<String> {
    At::new(call.text(0).to_owned(), call.line.span())
}

/// `maxconn`; 0 means: as many as there can be.
pub(crate) fn maxconn(global: &mut Global, call: &Call<'_>, findings: &mut Findings) {
    global.maxconn = count(call, 0..=i32::MAX as u64, findings).filter(|n| n.value > 0);
}

/// `maxconnrate`, `maxsessrate` and `maxsslrate`; 0 means: no bound.
pub(crate) fn pace(global: &mut Global, call: &Call<'_>, findings: &mut Findings) {
    let most = count(call, 0..=i32::MAX as u64, findings).map_or(0, |most| most.value as u32);
    match call.keyword.name {
        "maxconnrate" => global.paces.connections = most,
        "maxsessrate" => global.paces.sessions = most,
        _ => global.paces.tls = most,
    }
}

/// `localpeer`; what the command line says (`-L`) comes first.
pub(crate) fn local_peer(global: &mut Global, call: &Call<'_>, findings: &mut Findings) {
    once(&mut global.local_peer, call.text(0).to_owned(), call, findings);
}

/// `ulimit-n`.
pub(crate) fn ulimit(global: &mut Global, call: &Call<'_>, findings: &mut Findings) {
    global.ulimit = count(call, 0..=i32::MAX as u64, findings).filter(|n| n.value > 0);
}

/// `nbthread`.
pub(crate) fn nbthread(global: &mut Global, call: &Call<'_>, findings: &mut Findings) {
    global.nbthread = count(call, 1..=4096, findings);
}

/// `nbproc`: removed in 2.5; its number becomes that of threads.
pub(crate) fn nbproc(global: &mut Global, call: &Call<'_>, findings: &mut Findings) {
    let number = count(call, 1..=4096, findings);
    if let Some(number) = number {
        findings.push(
            weir_diag::Diagnostic::warning("haproxy::removed", "`nbproc` was removed from HAProxy in 2.5")
                .at(number.span)
                .help("write `nbthread` today"),
        );
        if number.value > 1 {
            global.nbthread.get_or_insert(number);
        }
    }
}

/// Takes what counts once: of two, the first.
fn once<T>(slot: &mut Option<T>, value: T, call: &Call<'_>, findings: &mut Findings) {
    if slot.is_some() {
        let title = format!("`{}` changes nothing: what was said first holds", call.keyword.name);
        return findings.ignored(call.line.span(), title);
    }
    *slot = Some(value);
}

/// `uid` and `gid` take numbers; HAProxy takes a name for 0, which is root.
fn number_or_name(call: &Call<'_>, words: [&str; 2], findings: &mut Findings) -> bool {
    let [number, name] = words;
    let fits = call.keyword.name != number || call.text(0).parse::<u32>().is_ok();
    if !fits {
        let word = &call.arguments[0];
        findings.bad_value(word, format!("`{}` is no number; write `{name} {}`", word.text, word.text));
    }
    fits
}

/// `user` and `uid`.
pub(crate) fn user(global: &mut Global, call: &Call<'_>, findings: &mut Findings) {
    if number_or_name(call, ["uid", "user"], findings) {
        once(&mut global.user, text(call), call, findings);
    }
}

/// `group` and `gid`.
pub(crate) fn group(global: &mut Global, call: &Call<'_>, findings: &mut Findings) {
    if number_or_name(call, ["gid", "group"], findings) {
        once(&mut global.group, text(call), call, findings);
    }
}

/// `chroot`.
pub(crate) fn chroot(global: &mut Global, call: &Call<'_>, findings: &mut Findings) {
    once(&mut global.chroot, call.text(0).into(), call, findings);
}

/// `server-state-base`.
pub(crate) fn state_base(global: &mut Global, call: &Call<'_>, _: &mut Findings) {
    global.state_base = Some(call.text(0).to_owned());
}

/// `server-state-file`.
pub(crate) fn state_file(global: &mut Global, call: &Call<'_>, _: &mut Findings) {
    global.state_file = Some(call.text(0).to_owned());
}

/// `master-worker`.
pub(crate) fn master_worker(global: &mut Global, call: &Call<'_>, _: &mut Findings) {
    global.master_worker = call.line.prefix != crate::read::Prefix::No;
}

/// `daemon`.
pub(crate) fn daemon(global: &mut Global, _: &Call<'_>, _: &mut Findings) {
    global.daemon = true;
}

/// `pidfile`.
pub(crate) fn pidfile(global: &mut Global, call: &Call<'_>, findings: &mut Findings) {
    once(&mut global.pidfile, call.text(0).into(), call, findings);
}

/// `log`.
pub(crate) fn log(global: &mut Global, call: &Call<'_>, findings: &mut Findings) {
    if call.line.prefix == crate::read::Prefix::No {
        global.logs.clear();
    } else if call.text(0) == "global" {
        findings.bad_value(&call.arguments[0], "`log global` refers to this section, from others");
    } else if let Some(target) = log_target(call, findings) {
        global.logs.push(target);
    }
}

/// `log-tag`.
pub(crate) fn log_tag(global: &mut Global, call: &Call<'_>, _: &mut Findings) {
    global.log_tag = Some(call.text(0).to_owned());
}

/// `log-send-hostname`.
pub(crate) fn log_send_hostname(global: &mut Global, call: &Call<'_>, _: &mut Findings) {
    // Without a name it is the machine's.
    global.send_hostname = Some(call.text(0).to_owned());
}

/// `description`.
pub(crate) fn description(global: &mut Global, call: &Call<'_>, _: &mut Findings) {
    global.description = Some(call.joined());
}

/// `set-var proc.NAME EXPRESSION`, `set-var-fmt proc.NAME FORMAT`.
pub(crate) fn set_var(global: &mut Global, call: &Call<'_>, _: &mut Findings) {
    global.variables.push(call.line.clone());
}

/// `node`.
pub(crate) fn node(global: &mut Global, call: &Call<'_>, _: &mut Findings) {
    global.node = Some(call.text(0).to_owned());
}

/// `hard-stop-after`.
pub(crate) fn hard_stop_after(global: &mut Global, call: &Call<'_>, findings: &mut Findings) {
    global.hard_stop_after = findings.value(&call.arguments[0], time::millis);
}

/// `ca-base`.
pub(crate) fn ca_base(global: &mut Global, call: &Call<'_>, _: &mut Findings) {
    global.ca_base = Some(call.text(0).into());
}

/// `crt-base`.
pub(crate) fn crt_base(global: &mut Global, call: &Call<'_>, _: &mut Findings) {
    global.crt_base = Some(call.text(0).into());
}

/// `key-base`: of keys that `crt-store` sections name.
pub(crate) fn key_base(global: &mut Global, call: &Call<'_>, _: &mut Findings) {
    global.key_base = Some(call.text(0).into());
}

/// `httpclient.ssl.ca-file`.
pub(crate) fn client_ca(global: &mut Global, call: &Call<'_>, _: &mut Findings) {
    global.client_ca = call.arguments.first().cloned();
}

/// `httpclient.ssl.verify`.
pub(crate) fn client_verify(global: &mut Global, call: &Call<'_>, findings: &mut Findings) {
    match call.arguments.first().map(|word| (word, word.as_str())) {
        None | Some((_, "required")) => global.client_verifies = Some(true),
        Some((_, "none")) => global.client_verifies = Some(false),
        Some((word, _)) => findings.bad_choice(word, "httpclient.ssl.verify", &["none", "required"]),
    }
}

/// `default-path`.
pub(crate) fn default_path(global: &mut Global, call: &Call<'_>, findings: &mut Findings) {
    match call.text(0) {
        "current" => {}
        "config" | "parent" => global.base_is_config = Some(call.line.span()),
        "origin" if call.arguments.len() == 2 => global.base = Some(call.text(1).into()),
        _ => findings.bad_choice(
            &call.arguments[0],
            "place for relative paths",
            &["current", "config", "parent", "origin"],
        ),
    }
}

/// `ssl-default-…`.
pub(crate) fn ssl_default(global: &mut Global, call: &Call<'_>, _: &mut Findings) {
    global.ssl_defaults.insert(call.keyword.name.to_owned(), call.line.clone());
}

/// `ssl-server-verify`.
pub(crate) fn ssl_server_verify(global: &mut Global, call: &Call<'_>, findings: &mut Findings) {
    match call.text(0) {
        "none" => global.no_server_verify = true,
        "required" => global.no_server_verify = false,
        _ => findings.bad_choice(&call.arguments[0], "policy", &["none", "required"]),
    }
}

/// `unix-bind`.
pub(crate) fn unix_bind(global: &mut Global, call: &Call<'_>, _: &mut Findings) {
    global.unix_bind = call.arguments.to_vec();
}

/// `stats socket`.
pub(crate) fn stats_socket(global: &mut Global, call: &Call<'_>, _: &mut Findings) {
    global.stats_sockets.push(call.line.clone());
}

/// `stats timeout`.
pub(crate) fn stats_timeout(global: &mut Global, call: &Call<'_>, findings: &mut Findings) {
    global.stats_timeout = findings.value(&call.arguments[0], time::millis);
}

/// `stats maxconn`.
pub(crate) fn stats_maxconn(global: &mut Global, call: &Call<'_>, findings: &mut Findings) {
    global.stats_maxconn = count(call, 1..=u64::from(u16::MAX), findings).map(|most| most.value);
}
