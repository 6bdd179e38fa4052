//! `option httpchk` with `http-check`.

use weir_expr::check::{CheckRequest, CheckStep, CheckVersion};

use super::computed::Computed;
use super::connect::connect;
use super::expect::expectation;
use super::rule::Rule;
use crate::findings::Findings;
use crate::read::{Line, Word};

/// The rules of a script. `words`: of the option; `tells_state`: `http-check send-state`.
pub(super) fn rules(
    words: &[Word],
    lines: &[Line],
    tells_state: bool,
    computed: &mut Computed<'_>,
    findings: &mut Findings,
) -> Vec<Rule> {
    // The option's request, which the first `send` completes, comes before all else but a connection.
    let mut first = CheckRequest { tells_state, ..option_request(words) };
    let mut rules = Vec::new();
    let (mut sends, mut connected) = (0, false);
    for line in lines {
        match line.text(1) {
            "send" => {
                sends += 1;
                if sends == 1 {
                    send(&mut first, line.from(2), computed, findings);
                    continue;
                }
                if !std::mem::take(&mut connected) {
                    findings.missing(line, "a connection of its own: put `http-check connect` before it");
                }
                let mut request = CheckRequest { tells_state, ..option_request(&[]) };
                send(&mut request, line.from(2), computed, findings);
                rules.push(Rule::Step(CheckStep::Ask(Box::new(request))));
            }
            "expect" => {
                let expectation = expectation(line.from(2), true, computed, findings);
                rules.extend(expectation.map(|one| Rule::Step(CheckStep::Expect(Box::new(one)))));
            }
            "connect" => {
                connected = sends > 0;
                rules.push(Rule::Connect(connect(line.from(2), computed, findings)));
            }
            _ => drop(computed.rule(line, findings)),
        }
    }
    let place = usize::from(matches!(rules.first(), Some(Rule::Connect(_))));
    rules.insert(place, Rule::Step(CheckStep::Ask(Box::new(first))));
    rules
}

/// `option httpchk [URI | METHOD URI [VERSION [HOST]]]`. Old files hide header fields behind the version.
fn option_request(words: &[Word]) -> CheckRequest {
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
    CheckRequest {
        method: method.into(),
        target: target.into(),
        version: version_of(version),
        headers,
        body: String::new(),
        tells_state: false,
        keep: None,
    }
}

fn version_of(word: &str) -> CheckVersion {
    if word.eq_ignore_ascii_case("HTTP/1.1") { CheckVersion::Http11 } else { CheckVersion::Http10 }
}

fn send(request: &mut CheckRequest, words: &[Word], computed: &Computed<'_>, findings: &mut Findings) {
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
            "ver" => request.version = version_of(&value.text),
            "body" => request.body = value.text.clone(),
            "comment" => {}
            "hdr" => {
                let Some(text) = words.next() else {
                    findings.bad_value(key, "`hdr` needs a name and a value");
                    return;
                };
                let Some(text) = computed.text(text, findings) else { return };
                headers.push((value.text.clone(), text));
            }
            "uri-lf" | "body-lf" => {
                let Some(text) = computed.text(value, findings) else { return };
                *(if key.as_str() == "uri-lf" { &mut request.target } else { &mut request.body }) = text;
            }
            _ => findings.bad_choice(
                key,
                "word of `http-check send`",
                &["meth", "uri", "uri-lf", "ver", "hdr", "body", "body-lf", "comment"],
            ),
        }
    }
    if !headers.is_empty() {
        request.headers = headers;
    }
}
