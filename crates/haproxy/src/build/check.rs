//! Health checks of a backend: `option httpchk` with `http-check`, `option tcp-check` with `tcp-check`.

use std::time::Duration;

use weir_model::{Expect, Probe, TcpStep};

use super::condition::pattern;
use crate::draft::{Check, Proxy};
use crate::findings::Findings;
use crate::read::{Line, Word};

/// What all servers of a backend are asked.
pub(crate) struct Checks {
    pub(crate) probe: Probe,
    pub(crate) timeout: Option<Duration>,
    /// From `http-check connect` or the first `tcp-check connect`.
    pub(crate) port: Option<u16>,
    pub(crate) tls: bool,
}

/// The checks of a backend.
pub(crate) fn checks(proxy: &Proxy, findings: &mut Findings) -> Checks {
    let mut checks =
        Checks { probe: Probe::Connect, timeout: proxy.settings.timeout("check"), port: None, tls: false };
    match &proxy.settings.check {
        // Without `option httpchk` nothing is asked, but mistakes are mistakes.
        None => {
            let mut unused = Checks { probe: Probe::Connect, timeout: None, port: None, tls: false };
            http(&mut unused, &[], &proxy.settings.http_check, findings);
        }
        Some(Check::Http(words)) => http(&mut checks, words, &proxy.settings.http_check, findings),
        Some(Check::Tcp) => tcp(&mut checks, &proxy.settings.tcp_check, findings),
    }
    checks
}

/// The request of an HTTP check while it is put together.
struct Request {
    method: String,
    target: String,
    version: String,
    headers: Vec<(String, String)>,
    body: String,
}

fn http(checks: &mut Checks, words: &[Word], lines: &[Line], findings: &mut Findings) {
    let mut request = option_request(words);
    let mut expect = Vec::new();
    let mut sends = 0;
    for line in lines {
        match line.text(1) {
            "send" => {
                sends += 1;
                if sends > 1 {
                    findings.not_built(
                        line.span(),
                        "more than one `http-check send`",
                        "one request is sent in each check",
                    );
                }
                send(&mut request, line.from(2), findings);
            }
            "expect" => expect.extend(expected(line.from(2), findings)),
            "connect" => connect(checks, line.from(2), findings),
            _ => {}
        }
    }
    let Request { method, target, version, headers, body } = request;
    checks.probe = Probe::Http { method, target, version, headers, body, expect };
}

/// `option httpchk [URI | METHOD URI [VERSION [HOST]]]`. Old files hide header fields behind the version.
fn option_request(words: &[Word]) -> Request {
    let text = |at: usize| words.get(at).map_or("", Word::as_str);
    let (method, target) = match words.len() {
        0 => ("OPTIONS", "/"),
        1 => ("OPTIONS", text(0)),
        _ => (text(0), text(1)),
    };
    let mut lines = text(2).split(['\r', '\n']).filter(|line| !line.is_empty());
    // `HTTP/1.1\r\nHost:\ name` may also come as text with the escapes kept by single quotes.
    let first = lines.next().unwrap_or("HTTP/1.0");
    let mut headers: Vec<(String, String)> = Vec::new();
    let mut escaped = first.split("\\r\\n");
    let version = escaped.next().unwrap_or("HTTP/1.0").trim();
    for line in escaped.chain(lines.flat_map(|line| line.split("\\r\\n"))) {
        if let Some((name, value)) = line.split_once(':') {
            headers.push((name.trim().to_owned(), value.replace("\\ ", " ").trim().to_owned()));
        }
    }
    if words.len() > 3 {
        headers.push(("Host".into(), text(3).to_owned()));
    }
    let version = if version.eq_ignore_ascii_case("HTTP/1.1") { "HTTP/1.1" } else { "HTTP/1.0" };
    Request {
        method: method.into(),
        target: target.into(),
        version: version.into(),
        headers,
        body: String::new(),
    }
}

fn send(request: &mut Request, words: &[Word], findings: &mut Findings) {
    let mut words = words.iter();
    let mut headers = Vec::new();
    while let Some(key) = words.next() {
        let Some(value) = words.next() else {
            findings.bad_value(key, format!("`{}` lacks its value", key.text));
            return;
        };
        match key.as_str() {
            "meth" => request.method = value.text.clone(),
            "uri" => request.target = value.text.clone(),
            "ver" => request.version = value.text.clone(),
            "body" => request.body = value.text.clone(),
            "comment" => {}
            "hdr" => {
                let Some(text) = words.next() else {
                    findings.bad_value(key, "`hdr` needs a name and a value");
                    return;
                };
                if text.text.contains("%[") {
                    findings.not_built(
                        text.span,
                        "a computed field in a check",
                        "it decides which servers are used",
                    );
                }
                headers.push((value.text.clone(), text.text.clone()));
            }
            "uri-lf" | "body-lf" => {
                findings.not_built(
                    key.span,
                    &format!("http-check send {}", key.text),
                    "it decides which servers are used",
                );
            }
            _ => findings.bad_choice(
                key,
                "word of `http-check send`",
                &["meth", "uri", "ver", "hdr", "body", "comment"],
            ),
        }
    }
    if !headers.is_empty() {
        request.headers = headers;
    }
}

/// Words of `expect` that hold a value and say nothing about the answer.
const SIDE_WORDS: &[&str] = &[
    "comment",
    "ok-status",
    "error-status",
    "tout-status",
    "on-success",
    "on-error",
    "status-code",
    "min-recv",
];

/// Words after the side words, and whether a `!` stood before the kind.
fn kind_of(words: &[Word]) -> Option<(bool, &str, &Word, &Word)> {
    let mut at = 0;
    while words.get(at).is_some_and(|word| SIDE_WORDS.contains(&word.as_str())) {
        at += 2;
    }
    let mut negated = false;
    if words.get(at)?.as_str() == "!" {
        negated = true;
        at += 1;
    }
    let word = words.get(at)?;
    let kind = word.text.strip_prefix('!').unwrap_or(word.as_str());
    negated ^= word.text.starts_with('!');
    Some((negated, kind, word, words.get(at + 1)?))
}

fn expected(words: &[Word], findings: &mut Findings) -> Option<Expect> {
    let Some((negated, kind, word, value)) = kind_of(words) else {
        if let Some(first) = words.first() {
            findings.bad_value(first, "`http-check expect` needs a kind and a value");
        }
        return None;
    };
    let expect = match kind {
        "status" => statuses(value, findings)?,
        "rstatus" => Expect::StatusMatches(pattern(value, false)),
        "string" => Expect::Body(value.text.clone()),
        "rstring" => Expect::BodyMatches(pattern(value, false)),
        "hdr" | "fhdr" | "string-lf" | "custom" => {
            findings.not_built(
                word.span,
                &format!("http-check expect {kind}"),
                "it decides which servers are used",
            );
            return None;
        }
        _ => {
            findings.bad_choice(word, "kind of expectation", &["status", "rstatus", "string", "rstring"]);
            return None;
        }
    };
    Some(if negated { Expect::Not(Box::new(expect)) } else { expect })
}

/// `200`, `200-399`, or several with commas: of several, one must hold, written as no other.
fn statuses(value: &Word, findings: &mut Findings) -> Option<Expect> {
    let mut ranges = Vec::new();
    for part in value.text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        match (from.parse::<u16>(), to.parse::<u16>()) {
            (Ok(from), Ok(to)) if (100..=999).contains(&from) && from <= to => ranges.push((from, to)),
            _ => {
                findings.bad_value(value, format!("`{part}` is no status, nor a range of them"));
                return None;
            }
        }
    }
    match ranges.as_slice() {
        [(from, to)] => Some(Expect::Status(*from, *to)),
        _ => {
            let one = |(from, to): &(u16, u16)| {
                (*from..=*to).map(|status| status.to_string()).collect::<Vec<_>>().join("|")
            };
            let source = format!("^(?:{})$", ranges.iter().map(one).collect::<Vec<_>>().join("|"));
            Some(Expect::StatusMatches(weir_model::Pattern {
                source,
                ignore_case: false,
                origin: Some(value.span),
            }))
        }
    }
}

/// `connect [port N] [ssl] …`: where checks connect.
fn connect(checks: &mut Checks, words: &[Word], findings: &mut Findings) {
    let mut words = words.iter();
    while let Some(key) = words.next() {
        match key.as_str() {
            "default" | "linger" | "send-proxy" => {}
            "ssl" => checks.tls = true,
            "port" => {
                let Some(value) = words.next() else { return };
                checks.port =
                    findings.value(value, |text| text.parse().map_err(|_| format!("`{text}` is no port")));
            }
            "addr" | "sni" | "alpn" | "proto" | "via-socks4" => {
                findings.not_built(
                    key.span,
                    &format!("connect {}", key.text),
                    "it decides which servers are used",
                );
                return;
            }
            "comment" => {
                words.next();
            }
            _ => {
                findings.bad_choice(
                    key,
                    "word of `connect`",
                    &[
                        "default",
                        "port",
                        "addr",
                        "send-proxy",
                        "ssl",
                        "sni",
                        "alpn",
                        "proto",
                        "linger",
                        "comment",
                    ],
                );
                return;
            }
        }
    }
}

fn tcp(checks: &mut Checks, lines: &[Line], findings: &mut Findings) {
    let mut steps = Vec::new();
    for line in lines {
        match line.text(1) {
            "connect" => {
                let mut own = Checks { probe: Probe::Connect, timeout: None, port: None, tls: false };
                connect(&mut own, line.from(2), findings);
                checks.tls |= own.tls;
                steps.push(TcpStep::Connect(own.port));
            }
            "send" => steps.extend(line.word(2).map(|word| TcpStep::Send(word.text.clone().into_bytes()))),
            "send-binary" => {
                let bytes = line.word(2).and_then(|word| findings.value(word, hex));
                steps.extend(bytes.map(TcpStep::Send));
            }
            "expect" => steps.extend(tcp_expected(line.from(2), findings)),
            _ => {}
        }
    }
    checks.probe = if steps.is_empty() { Probe::Connect } else { Probe::Tcp(steps) };
}

fn tcp_expected(words: &[Word], findings: &mut Findings) -> Option<TcpStep> {
    let Some((negated, kind, word, value)) = kind_of(words) else {
        if let Some(first) = words.first() {
            findings.bad_value(first, "`tcp-check expect` needs a kind and a value");
        }
        return None;
    };
    if negated {
        findings.not_built(
            word.span,
            "a negated expectation of a TCP check",
            "it decides which servers are used",
        );
        return None;
    }
    match kind {
        "string" => Some(TcpStep::Expect(value.text.clone().into_bytes())),
        "rstring" => Some(TcpStep::ExpectMatches(pattern(value, false))),
        "binary" => findings.value(value, hex).map(TcpStep::Expect),
        "rbinary" | "string-lf" | "binary-lf" | "custom" => {
            findings.not_built(
                word.span,
                &format!("tcp-check expect {kind}"),
                "it decides which servers are used",
            );
            None
        }
        _ => {
            findings.bad_choice(word, "kind of expectation", &["string", "rstring", "binary"]);
            None
        }
    }
}

/// Bytes written in hexadecimal.
fn hex(text: &str) -> Result<Vec<u8>, String> {
    let bad = || format!("`{text}` is no even number of hexadecimal digits");
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return Err(bad());
    }
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| bad()))
        .collect()
}
