//! Keywords of proxies that belong to no family.

use weir_diag::Diagnostic;

use crate::draft::{At, ErrorAnswer, LogFormat, Mode, Proxy, ProxyKind, ServerLine, StatesFrom};
use crate::findings::Findings;
use crate::read::{Line, Word};
use crate::values::{Host, address, size};
use crate::words::Call;

/// `mode`.
pub(crate) fn mode(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    let word = &call.arguments[0];
    let mode = match word.as_str() {
        "http" => Mode::Http,
        "tcp" => Mode::Tcp,
        // Such a proxy is taken out of the draft before anything is made of it.
        "log" => Mode::Tcp,
        "health" | "spop" | "haterm" => {
            return findings.not_built(
                word.span,
                &format!("mode {}", word.text),
                "it decides what is served",
            );
        }
        _ => return findings.bad_choice(word, "mode", &["http", "tcp", "log", "spop"]),
    };
    proxy.settings.carries_logs = word.as_str() == "log";
    proxy.settings.mode = Some(At::new(mode, call.line.span()));
}

/// `dynamic-cookie-key`.
pub(crate) fn cookie_key(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    proxy.settings.cookie_key = Some(call.text(0).to_owned());
}

/// `load-server-state-from-file`.
pub(crate) fn states_from(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    let word = &call.arguments[0];
    let from = match word.as_str() {
        "none" => StatesFrom::None,
        "global" => StatesFrom::Global,
        "local" => StatesFrom::Local,
        _ => return findings.bad_choice(word, call.keyword.name, &["global", "local", "none"]),
    };
    proxy.settings.states = Some((from, word.span));
}

/// `server-state-file-name [FILE]`.
pub(crate) fn state_file(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    let own = |word: &&Word| word.as_str() != "use-backend-name";
    proxy.settings.state_file =
        Some(call.arguments.first().filter(own).map_or_else(String::new, |word| word.text.clone()));
}

/// `bind`.
pub(crate) fn bind(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    proxy.binds.push(call.line.clone());
}

/// `maxconn`; 0 means: the global one.
pub(crate) fn maxconn(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    let number = findings.value(&call.arguments[0], |text| size::count(text, 0..=i32::MAX as u64));
    proxy.settings.maxconn = number.filter(|n| *n > 0);
}

/// `rate-limit sessions`; 0 means: no bound.
pub(crate) fn session_rate(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    let number = findings.value(&call.arguments[0], |text| size::count(text, 0..=i32::MAX as u64));
    proxy.settings.session_rate = number.filter(|n| *n > 0).and_then(|n| u32::try_from(n).ok());
}

/// `weir-min-send-rate`.
pub(crate) fn min_send_rate(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    proxy.settings.min_send_rate =
        findings.value(&call.arguments[0], |text| size::count(text, 0..=u32::MAX.into()));
}

/// `weir-min-body-rate`.
pub(crate) fn min_body_rate(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    proxy.settings.min_body_rate =
        findings.value(&call.arguments[0], |text| size::count(text, 0..=u32::MAX.into()));
}

/// `fullconn`: statistics show it; `minconn`, which it is for, is not built.
pub(crate) fn fullconn(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    let number = findings.value(&call.arguments[0], |text| size::count(text, 0..=i32::MAX as u64));
    proxy.settings.fullconn = number.filter(|n| *n > 0);
    findings.tuning(call.line.span(), "fullconn", "`maxconn` of servers holds at any load");
}

/// `id`.
pub(crate) fn number(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    let number = findings.value(&call.arguments[0], |text| size::count(text, 1..=i32::MAX as u64));
    proxy.number = number.and_then(|number| u32::try_from(number).ok());
}

/// `backlog`.
pub(crate) fn backlog(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    let number = findings.value(&call.arguments[0], |text| size::count(text, 0..=i32::MAX as u64));
    proxy.settings.backlog = number.and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
}

/// `retries`.
pub(crate) fn retries(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    proxy.settings.retries = findings.value(&call.arguments[0], |text| size::count(text, 0..=1_000));
}

/// `retry-on`.
pub(crate) fn retry_on(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    const CAUSES: &[&str] = &[
        "none",
        "conn-failure",
        "empty-response",
        "junk-response",
        "response-timeout",
        "0rtt-rejected",
        "all-retryable-errors",
        "401",
        "403",
        "404",
        "408",
        "421",
        "425",
        "429",
        "500",
        "501",
        "502",
        "503",
        "504",
    ];
    for word in call.arguments.iter().filter(|word| !CAUSES.contains(&word.as_str())) {
        findings.bad_choice(word, "cause of another attempt", CAUSES);
    }
    proxy.settings.retry_on = call.arguments.to_vec();
}

/// `default_backend`.
pub(crate) fn default_backend(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    proxy.settings.default_backend = Some(call.arguments[0].clone());
}

/// `balance`.
pub(crate) fn balance(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    proxy.settings.balance = Some(call.line.clone());
}

/// `hash-type`.
pub(crate) fn hash_type(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    proxy.settings.hash_type = Some(call.line.clone());
}

/// `hash-balance-factor`.
pub(crate) fn hash_balance(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    proxy.settings.hash_balance = Some(call.arguments[0].clone());
}

/// `server`.
pub(crate) fn server(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    let defaults = proxy.settings.default_server.clone();
    proxy.servers.push(ServerLine { line: call.line.clone(), defaults, template: None });
}

/// `use-fcgi-app`.
pub(crate) fn application(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    proxy.settings.application = call.arguments.first().cloned();
}

/// `default-server`.
pub(crate) fn default_server(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    proxy.settings.default_server.push(call.line.clone());
}

/// `server-template PREFIX N|FROM-TO ADDRESS …` becomes that many servers, or those a name resolves to.
pub(crate) fn server_template(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    let word = &call.arguments[1];
    let bounds = match word.text.split_once('-') {
        Some((from, to)) => (from.parse::<u32>(), to.parse::<u32>()),
        None => (Ok(1), word.text.parse::<u32>()),
    };
    let (Ok(from), Ok(to)) = bounds else {
        findings.bad_value(word, format!("`{}` is neither a number nor a range", word.text));
        return;
    };
    if from > to || to - from >= 10_000 {
        findings.bad_value(word, "the range is empty or over 10,000 servers");
        return;
    }
    // Without name servers every address of a name becomes an endpoint, so one line stands for all of them.
    let defaults = proxy.settings.default_server.iter().flat_map(|line| &line.words);
    let running = defaults.chain(call.arguments.iter()).any(|word| word.as_str() == "resolvers");
    let one =
        !running && address::parse(call.text(2)).is_ok_and(|address| matches!(address.host, Host::Name(..)));
    for number in from..=if one { from } else { to } {
        let name = Word { text: format!("{}{number}", call.text(0)), span: call.arguments[0].span };
        let mut words = vec![call.line.keyword().clone(), name];
        words.extend(call.arguments[2..].iter().cloned());
        let line = Line { words, ..call.line.clone() };
        let defaults = proxy.settings.default_server.clone();
        proxy.servers.push(ServerLine { line, defaults, template: Some(number) });
    }
}

/// `dispatch`.
pub(crate) fn dispatch(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    proxy.dispatch = Some(call.arguments[0].clone());
}

/// `cookie`.
pub(crate) fn cookie(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    proxy.settings.cookie = Some(call.line.clone());
}

/// `log-format`.
pub(crate) fn log_format(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    let format = LogFormat::Custom(call.arguments[0].clone());
    proxy.settings.log_format = Some(At::new(format, call.line.span()));
}

/// `log-format-sd`.
pub(crate) fn log_format_sd(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    proxy.settings.log_format_sd = Some(call.arguments[0].clone());
}

/// `log-tag`.
pub(crate) fn log_tag(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    proxy.settings.log_tag = Some(call.text(0).to_owned());
}

/// `unique-id-header`.
pub(crate) fn unique_id_header(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    proxy.settings.unique_id_header = Some(call.arguments[0].clone());
}

/// `use-server NAME [if|unless CONDITION]`.
pub(crate) fn use_server(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    proxy.server_rules.push(call.line.clone());
}

/// `force-persist if|unless CONDITION`, `ignore-persist if|unless CONDITION`.
pub(crate) fn persistence(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    proxy.persistence.push(call.line.clone());
}

/// `http-send-name-header [NAME]`: without a name, none.
pub(crate) fn send_name_header(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    proxy.settings.name_header = call.arguments.first().map(|word| word.text.clone());
}

/// `unique-id-format`.
pub(crate) fn unique_id_format(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    proxy.settings.unique_id_format = Some(call.arguments[0].clone());
}

const ERROR_STATUSES: &[u16] = &[
    200, 400, 401, 403, 404, 405, 407, 408, 410, 413, 414, 421, 422, 425, 429, 431, 500, 501, 502, 503, 504,
];

/// A status that can have a page.
pub(crate) fn error_status(text: &str) -> Result<u16, String> {
    match text.parse::<u16>() {
        Ok(status) if ERROR_STATUSES.contains(&status) => Ok(status),
        _ => Err(format!("status {text} has no page; those are {ERROR_STATUSES:?}")),
    }
}

/// `errorfile`.
pub(crate) fn errorfile(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    if let Some(status) = findings.value(&call.arguments[0], error_status) {
        proxy.settings.errors.insert(status, ErrorAnswer::File(call.text(1).into()));
    }
}

/// `errorfiles NAME [STATUS …]`: looked up once all sections are known.
pub(crate) fn errorfiles(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    proxy.settings.errorfiles.push(call.line.clone());
}

/// `errorloc`, `errorloc302`, `errorloc303`.
pub(crate) fn errorloc(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    let code = if call.keyword.name == "errorloc303" { 303 } else { 302 };
    if let Some(status) = findings.value(&call.arguments[0], error_status) {
        proxy.settings.errors.insert(status, ErrorAnswer::Redirect(call.text(1).to_owned(), code));
    }
}

/// `http-error status N errorfile FILE`; other forms are not built.
pub(crate) fn http_error(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    let words: Vec<&str> = call.arguments.iter().map(Word::as_str).collect();
    match words.as_slice() {
        ["status", _, "errorfile", file] => {
            if let Some(status) = findings.value(&call.arguments[1], error_status) {
                proxy.settings.errors.insert(status, ErrorAnswer::File((*file).into()));
            }
        }
        _ => findings.not_built(
            call.line.span(),
            "http-error",
            "only `status N errorfile FILE` is; use `errorfile`",
        ),
    }
}

/// `monitor-uri`.
pub(crate) fn monitor_uri(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    proxy.settings.monitor_uri = Some(call.text(0).to_owned());
}

/// `compression …`.
pub(crate) fn compression(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    let compression = &mut proxy.settings.compression;
    match call.keyword.name {
        "compression algo" | "compression algo-res" => {
            for word in call.arguments {
                match word.as_str() {
                    "gzip" => compression.gzip = true,
                    "identity" => {}
                    "deflate" | "raw-deflate" => findings.tuning(
                        word.span,
                        "compression by deflate",
                        "answers are compressed by gzip only",
                    ),
                    _ => findings.bad_choice(
                        word,
                        "algorithm",
                        &["gzip", "identity", "deflate", "raw-deflate"],
                    ),
                }
            }
        }
        "compression type" | "compression type-res" => {
            compression.types.extend(call.arguments.iter().map(|word| word.text.to_ascii_lowercase()));
        }
        "compression offload" => {
            findings.tuning(
                call.line.span(),
                "compression offload",
                "servers may still compress by themselves",
            );
        }
        "compression minsize-res" => {
            compression.min_size = findings.value(&call.arguments[0], size::parse).unwrap_or(0);
        }
        _ => match call.text(0) {
            "response" => {}
            "request" | "both" => {
                findings.tuning(call.line.span(), "compression of requests", "requests are sent as they come")
            }
            _ => findings.bad_choice(&call.arguments[0], "direction", &["request", "response", "both"]),
        },
    }
}

/// `http-reuse`.
pub(crate) fn http_reuse(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    const POLICIES: &[&str] = &["never", "safe", "aggressive", "always"];
    if POLICIES.contains(&call.text(0)) {
        proxy.settings.http_reuse = Some(At::new(call.text(0).to_owned(), call.line.span()));
    } else {
        findings.bad_choice(&call.arguments[0], "policy", POLICIES);
    }
}

/// `source`.
pub(crate) fn source(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    if let Some(word) = call.arguments.iter().find(|word| word.as_str() == "usesrc") {
        findings.not_built(word.span, "source … usesrc", "it decides who the server sees");
        return;
    }
    proxy.settings.source = Some(call.line.clone());
}

/// `description`.
pub(crate) fn description(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    proxy.description = Some(call.joined());
}

/// `disabled`.
pub(crate) fn disabled(proxy: &mut Proxy, _: &Call<'_>, _: &mut Findings) {
    proxy.settings.disabled = true;
}

/// `enabled`.
pub(crate) fn enabled(proxy: &mut Proxy, _: &Call<'_>, _: &mut Findings) {
    proxy.settings.disabled = false;
}

/// `filter`: those that name what is built otherwise, or only observe, are accepted.
pub(crate) fn filter(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    let word = &call.arguments[0];
    match word.as_str() {
        "compression" | "comp-req" | "comp-res" => {}
        "cache" if call.arguments.len() < 2 => findings.missing(call.line, "the name of a cache"),
        // The rules that use the cache name it themselves.
        "cache" => {}
        "trace" | "opentracing" | "otel" => {
            findings.tuning(call.line.span(), "filter for tracing", "nothing is traced")
        }
        "bwlim-in" | "bwlim-out" if call.arguments.len() < 2 => {
            findings.missing(call.line, "the name of the filter");
        }
        "bwlim-in" | "bwlim-out" => {
            let why = match call.arguments.iter().any(|word| word.as_str() == "key") {
                _ if word.as_str() == "bwlim-in" => Some("the pace of requests is not limited"),
                true => Some("limits that streams share are not built"),
                false => None,
            };
            if let Some(why) = why {
                findings.tuning(call.line.span(), "this filter for bandwidth", why);
            }
            proxy.settings.bandwidth.push((call.line.clone(), why.is_none()));
        }
        // `use-fcgi-app` says it; this line only says where among filters.
        "fcgi-app" => {}
        "spoe" => findings.not_built(call.line.span(), "filter", "it decides what is answered"),
        _ => findings.bad_choice(
            word,
            "filter",
            &["compression", "cache", "trace", "spoe", "fcgi-app", "bwlim-in", "bwlim-out"],
        ),
    }
    debug_assert!(proxy.kind != ProxyKind::Defaults, "filters do not stand in defaults");
}

/// Reports that a name was written twice.
pub(crate) fn twice(word: &Word, first: weir_diag::Span, what: &str, findings: &mut Findings) {
    findings.push(
        Diagnostic::error("haproxy::same-name", format!("{what} `{}` is named twice", word.text))
            .at(word.span)
            .also(first, "first here"),
    );
}
