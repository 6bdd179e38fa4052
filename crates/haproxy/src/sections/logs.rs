//! `ring`, and backends in `mode log`: log lines on their way through memory and to several servers.
//!
//! Owns: their words and those of their servers.

use std::time::Duration;

use weir_diag::Diagnostic;
use weir_expr::settings::{LogAddress, LogBalance, LogKeyStep, LogPool, LogRing, LogServer, SyslogForm};

use super::named::{known, name};
use crate::draft::{Draft, Proxy, ServerLine};
use crate::findings::Findings;
use crate::read::{Line, Section, Word};
use crate::take::logs::form;
use crate::values::{Host, Port, address, size, time};
use crate::words::{ParameterStatus, SERVER};

/// Bytes of a ring where none are asked for: HAProxy's buffer.
const BUFFER: u64 = 16_384;

/// How long a server is called, and may take nothing, where nothing is said.
const CONNECT: Duration = Duration::from_secs(5);
const SEND: Duration = Duration::from_secs(60);

/// `ring`.
pub(super) fn ring(draft: &mut Draft, section: &Section, findings: &mut Findings) {
    let Some(name) = name(section, findings) else { return };
    let taken = |name: &str| matches!(name, "stdout" | "stderr" | "buf0");
    if taken(&name) || draft.log_rings.iter().any(|ring| ring.name == name) {
        let title = format!("there are two rings named `{name}`");
        return findings.push(Diagnostic::error("haproxy::same-name", title).at(section.header.span()));
    }
    let mut ring = LogRing {
        description: name.clone(),
        name,
        form: SyslogForm::Raw,
        size: BUFFER,
        max_length: BUFFER,
        connect_timeout: CONNECT,
        send_timeout: SEND,
        servers: Vec::new(),
    };
    for line in &section.lines {
        if known(line, "ring", findings) {
            ring_line(&mut ring, line, findings);
        }
    }
    draft.log_rings.push(ring);
}

fn ring_line(ring: &mut LogRing, line: &Line, findings: &mut Findings) {
    let Some(word) = line.word(1) else { return findings.missing(line, "a value") };
    let mut bytes = || findings.value(word, bytes);
    match line.keyword().as_str() {
        "description" => ring.description = word.text.clone(),
        "format" => ring.form = form(word, findings).unwrap_or(ring.form),
        "maxlen" => ring.max_length = bytes().unwrap_or(ring.max_length),
        "size" => ring.size = bytes().unwrap_or(ring.size),
        "timeout" => match (word.as_str(), line.word(2)) {
            ("connect", Some(value)) => {
                ring.connect_timeout = positive(value, findings).unwrap_or(CONNECT);
            }
            ("server", Some(value)) => ring.send_timeout = positive(value, findings).unwrap_or(SEND),
            ("connect" | "server", None) => findings.missing(line, "a time"),
            _ => findings.bad_choice(word, "timeout of a ring", &["connect", "server"]),
        },
        "backing-file" => findings.tuning(
            line.span(),
            "backing-file",
            "lines are kept in memory alone; a server gets what it missed as far as `size` goes, no restart is survived",
        ),
        _ => {
            let line = ServerLine { line: line.clone(), defaults: Vec::new(), template: None };
            if let Some(server) = server(&line, "ring", findings) {
                match server.address {
                    LogAddress::Udp(_) | LogAddress::UdpName(..) | LogAddress::Datagrams(_) => findings
                        .not_built(
                            line.line.words[2].span,
                            "a server of a ring by datagrams",
                            "name it in the `log` line itself",
                        ),
                    _ => ring.servers.push(server),
                }
            }
        }
    }
}

fn bytes(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        0 => Err("nothing fits into no bytes".into()),
        size if size > u64::from(u32::MAX) => Err("rings have up to 4 GB".into()),
        size => Ok(size),
    }
}

/// A time; zero is none, as the kernel has it.
fn positive(word: &Word, findings: &mut Findings) -> Option<Duration> {
    findings.value(word, time::millis).filter(|time| !time.is_zero())
}

/// A server of log lines.
fn server(of: &ServerLine, place: &str, findings: &mut Findings) -> Option<LogServer> {
    let line = &of.line;
    let (Some(name), Some(place_word)) = (line.word(1), line.word(2)) else {
        findings.missing(line, "a name and an address");
        return None;
    };
    let address = log_address(place_word, findings);
    let mut server = LogServer {
        name: name.text.clone(),
        address: address?,
        octet_count: false,
        backup: false,
        buffer: BUFFER,
    };
    let defaults = of.defaults.iter().map(|line| line.from(1));
    for words in defaults.chain([line.from(3)]) {
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let Some(parameter) = SERVER.iter().find(|known| known.name == word.text) else {
                findings.unknown(word, "`server` parameter", SERVER.iter().map(|known| known.name));
                break;
            };
            let value = words.get(at + 1);
            at += 1 + usize::from(parameter.arguments);
            match (word.as_str(), value) {
                ("log-proto", Some(value)) => match value.as_str() {
                    "octet-count" => server.octet_count = true,
                    "legacy" => server.octet_count = false,
                    _ => findings.bad_choice(value, "log-proto", &["legacy", "octet-count"]),
                },
                ("log-bufsize", Some(value)) => {
                    let bytes = findings.value(value, bytes);
                    server.buffer = bytes.unwrap_or(BUFFER);
                }
                ("backup", _) => server.backup = true,
                ("ssl", _) => {
                    findings.not_built(word.span, "ssl towards log servers", "lines would go in clear")
                }
                _ if parameter.status == ParameterStatus::Accepted => {}
                _ => findings.tuning(
                    word.span,
                    word.as_str(),
                    &format!("a server of a {place} gets lines as long as it can be reached"),
                ),
            }
        }
    }
    Some(server)
}

/// Where a server of log lines is.
fn log_address(word: &Word, findings: &mut Findings) -> Option<LogAddress> {
    let text = word.as_str();
    let datagrams = ["udp@", "udp4@", "udp6@", "dgram+ipv4@", "dgram+ipv6@", "uxdg@"];
    let udp = datagrams.iter().find_map(|scheme| text.strip_prefix(scheme));
    let plain = Word { text: udp.unwrap_or(text).to_owned(), span: word.span };
    let parsed = findings.value(&plain, address::parse)?;
    let port = match parsed.port {
        Port::One(port) => port,
        _ => 514,
    };
    match (parsed.host, udp.is_some()) {
        (Host::Ip(ip), true) => Some(LogAddress::Udp((ip, port).into())),
        (Host::Ip(ip), false) => Some(LogAddress::Tcp((ip, port).into())),
        (Host::Any, true) => Some(LogAddress::Udp((std::net::Ipv4Addr::LOCALHOST, port).into())),
        (Host::Any, false) => Some(LogAddress::Tcp((std::net::Ipv4Addr::LOCALHOST, port).into())),
        (Host::Name(name, _), true) => Some(LogAddress::UdpName(name, port)),
        (Host::Name(name, _), false) => Some(LogAddress::TcpName(name, port)),
        (Host::Unix(path), true) => Some(LogAddress::Datagrams(path.into())),
        (Host::Unix(path), false) => Some(LogAddress::Stream(path.into())),
        (Host::Abstract(_) | Host::Fd(_) | Host::Other(_), _) => {
            findings.bad_value(word, "log servers are reached by TCP, by `udp@`, or at a path");
            None
        }
    }
}

/// A backend in `mode log`.
pub(super) fn pool(proxy: &Proxy, findings: &mut Findings) -> LogPool {
    let balance = proxy.settings.balance.as_ref().map(|line| balance(line, findings));
    LogPool {
        name: proxy.name.text.clone(),
        balance: balance.unwrap_or_default(),
        connect_timeout: proxy.settings.timeout("connect").unwrap_or(CONNECT),
        send_timeout: proxy.settings.timeout("server").unwrap_or(SEND),
        servers: proxy.servers.iter().filter_map(|line| server(line, "log backend", findings)).collect(),
    }
}

fn balance(line: &Line, findings: &mut Findings) -> LogBalance {
    let Some(word) = line.word(1) else { return LogBalance::default() };
    match word.as_str() {
        "roundrobin" => LogBalance::RoundRobin,
        "random" => LogBalance::Random,
        "sticky" => LogBalance::Sticky,
        "log-hash" => {
            let steps = line.word(2).map(|word| key_steps(word, findings));
            if steps.is_none() {
                findings.missing(line, "what of a line is hashed: `log-hash field(2,' ')`");
            }
            LogBalance::Hash(steps.unwrap_or_default())
        }
        _ => {
            let choices = ["roundrobin", "random", "sticky", "log-hash"];
            findings.bad_choice(word, "balance of a log backend", &choices);
            LogBalance::default()
        }
    }
}

/// Converters that a key is made by.
fn key_steps(word: &Word, findings: &mut Findings) -> Vec<LogKeyStep> {
    let mut steps = Vec::new();
    for converter in split_outside(&word.text, ',') {
        let (name, arguments) = match converter.split_once('(') {
            Some((name, rest)) => (name, rest.strip_suffix(')').unwrap_or(rest)),
            None => (converter, ""),
        };
        let arguments: Vec<&str> = split_outside(arguments, ',').collect();
        let number = |at: usize| arguments.get(at).and_then(|text| text.trim().parse::<i32>().ok());
        let size = |at: usize| number(at).and_then(|number| u64::try_from(number).ok());
        let delimiters = || arguments.get(1).map(|text| unquoted(text));
        let step = match (name, arguments.len()) {
            ("lower", _) => Some(LogKeyStep::Lower),
            ("upper", _) => Some(LogKeyStep::Upper),
            ("field", 2) => number(0).zip(delimiters()).map(|(at, by)| LogKeyStep::Field(at, by)),
            ("word", 2) => number(0).zip(delimiters()).map(|(at, by)| LogKeyStep::Word(at, by)),
            ("bytes", 1) => size(0).map(|from| LogKeyStep::Bytes(from, None)),
            ("bytes", 2) => size(0).zip(size(1)).map(|(from, most)| LogKeyStep::Bytes(from, Some(most))),
            _ => None,
        };
        match step {
            Some(step) => steps.push(step),
            None => findings.not_built(
                word.span,
                converter,
                "keys of log lines are made by field(N,DELIMITERS), word(N,DELIMITERS), bytes(FROM[,MOST]), lower and upper",
            ),
        }
    }
    steps
}

/// Parts of a text between separators that stand neither in parentheses nor in quotes.
fn split_outside(text: &str, by: char) -> impl Iterator<Item = &str> {
    let (mut depth, mut quote) = (0_u32, None);
    text.split(move |c: char| {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            (None, c) => return c == by && depth == 0,
        }
        false
    })
}

fn unquoted(text: &str) -> String {
    let inner = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    let plain = inner('\'').or_else(|| inner('"')).unwrap_or(text);
    plain.replace("\\ ", " ").replace("\\t", "\t")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_in_quotes_and_parentheses_do_not_split() {
        let parts: Vec<&str> = split_outside("field(2,' '),lower,word(1,',')", ',').collect();
        assert_eq!(parts, ["field(2,' ')", "lower", "word(1,',')"]);
        assert_eq!((unquoted("' '"), unquoted("\\ ")), (" ".to_owned(), " ".to_owned()));
    }
}
