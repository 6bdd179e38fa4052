//! `http-check expect` and `tcp-check expect`.

use weir_expr::check::{Expect, Expectation, TextMatch};
use weir_model::Pattern;

use super::super::condition::pattern;
use super::computed::Computed;
use crate::findings::Findings;
use crate::read::Word;

const DECIDES: &str = "it decides which servers are used";

/// Kinds of expectations of an HTTP check.
const HTTP: &[&str] = &["status", "rstatus", "string", "rstring", "hdr", "fhdr"];
/// The same of a TCP check.
const TCP: &[&str] = &["string", "rstring", "binary", "rbinary"];
/// Words for a check that ended so.
const GOOD: &[&str] = &["L7OK", "L7OKC", "L6OK", "L4OK"];
const BAD: &[&str] = &["L7OKC", "L7RSP", "L7STS", "L6RSP", "L4CON"];
const LATE: &[&str] = &["L7TOUT", "L6TOUT", "L4TOUT"];

/// What is said of the result.
#[derive(Default)]
struct Side {
    min_received: Option<usize>,
    ok: String,
    error: String,
    timeout: String,
    says: String,
}

/// Reads an expectation. `of_http`: of a response.
pub(super) fn expectation(
    words: &[Word],
    of_http: bool,
    computed: &Computed<'_>,
    findings: &mut Findings,
) -> Option<Expectation<Pattern>> {
    let mut at = 0;
    let mut side = Side::default();
    while let Some(used) = words.get(at).and_then(|word| side.take(word, words.get(at + 1), findings)) {
        at += used;
    }
    let mut negated = false;
    if words.get(at).is_some_and(|word| word.as_str() == "!") {
        (negated, at) = (true, at + 1);
    }
    let (Some(word), Some(value)) = (words.get(at), words.get(at + 1)) else {
        if let Some(word) = words.first() {
            findings.bad_value(word, "an expectation needs a kind and a value");
        }
        return None;
    };
    let kind = word.text.strip_prefix('!').unwrap_or(word.as_str());
    negated ^= word.text.starts_with('!');
    let known = if of_http { HTTP } else { TCP };
    if kind == "custom" {
        findings.not_built(word.span, &format!("expect {kind}"), DECIDES);
        return None;
    }
    if kind == "string-lf" || kind == "binary-lf" && !of_http {
        let text = computed.text(value, findings)?;
        let what = match kind {
            "string-lf" if of_http => Expect::Body(text),
            "string-lf" => Expect::Bytes(text.into_bytes()),
            _ => Expect::Bytes(findings.value(&Word { text, span: value.span }, hex)?),
        };
        return Some(side.of(what, negated));
    }
    if !known.contains(&kind) {
        findings.bad_choice(word, "kind of expectation", known);
        return None;
    }
    let what = match kind {
        "status" => Expect::Status(statuses(value, findings)?),
        "rstatus" => Expect::StatusMatches(pattern(value, false)),
        "string" if of_http => Expect::Body(value.text.clone()),
        "rstring" if of_http => Expect::BodyMatches(pattern(value, false)),
        "string" => Expect::Bytes(value.text.clone().into_bytes()),
        "rstring" => Expect::BytesMatch(pattern(value, false)),
        "binary" => Expect::Bytes(findings.value(value, hex)?),
        "rbinary" => Expect::HexMatches(pattern(value, false)),
        _ => header(&words[at + 1..], kind == "fhdr", findings)?,
    };
    Some(side.of(what, negated))
}

impl Side {
    /// Takes a word and its value, if it is one of these; how many words that were.
    fn take(&mut self, word: &Word, value: Option<&Word>, findings: &mut Findings) -> Option<usize> {
        let names =
            ["comment", "min-recv", "ok-status", "error-status", "tout-status", "on-success", "on-error"];
        if !names.contains(&word.as_str()) && word.as_str() != "status-code" {
            return None;
        }
        let Some(value) = value else {
            findings.bad_value(word, format!("`{}` lacks its value", word.text));
            return Some(1);
        };
        let mut choice = |known: &[&str]| {
            if !known.contains(&value.as_str()) {
                findings.bad_choice(value, "status", known);
            }
            value.text.clone()
        };
        match word.as_str() {
            "ok-status" => self.ok = choice(GOOD),
            "error-status" => self.error = choice(BAD),
            "tout-status" => self.timeout = choice(LATE),
            // -1 is as good as nothing said.
            "min-recv" if value.as_str() == "-1" => {}
            "min-recv" => {
                let number = |text: &str| match text.parse::<usize>() {
                    Ok(number) if number <= 1 << 16 => Ok(number),
                    _ => Err(format!("`{text}` is no number of bytes up to 65536")),
                };
                self.min_received = findings.value(value, number);
            }
            "on-error" => {
                if value.text.contains("%[") {
                    findings.tuning(value.span, "a computed text of a check", "it is shown as it is written");
                }
                self.says = value.text.clone();
            }
            "status-code" => {
                findings.tuning(value.span, "status-code", "the status of the response is shown");
            }
            _ => {}
        }
        Some(2)
    }

    fn of(self, what: Expect<Pattern>, negated: bool) -> Expectation<Pattern> {
        let usual = Expectation::new(what);
        let given = |given: String, usual: String| if given.is_empty() { usual } else { given };
        Expectation {
            negated,
            min_received: self.min_received,
            ok: self.ok,
            error: given(self.error, usual.error),
            timeout: given(self.timeout, usual.timeout),
            says: self.says,
            what: usual.what,
        }
    }
}

/// `200`, `200-399`, or several with commas.
fn statuses(value: &Word, findings: &mut Findings) -> Option<Vec<(u16, u16)>> {
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        match (from.parse::<u16>(), to.parse::<u16>()) {
            (Ok(from), Ok(to)) if (100..=999).contains(&from) && from <= to => Ok((from, to)),
            _ => Err(format!("`{part}` is no status, nor a range of them")),
        }
    };
    findings.value(value, |text| text.split(',').map(range).collect())
}

/// `[name] [-m METHOD] NAME [[value] [-m METHOD] VALUE]`.
fn header(words: &[Word], full: bool, findings: &mut Findings) -> Option<Expect<Pattern>> {
    let (mut name, mut value) = (None, None);
    let mut method = "str";
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "name-lf" | "value-lf" => {
                findings.not_built(word.span, &format!("expect hdr {}", word.text), DECIDES);
                return None;
            }
            "name" if name.is_none() => {}
            "value" if name.is_some() && value.is_none() => {}
            "-m" => {
                let Some(given) = words.next() else {
                    findings.bad_value(word, "`-m` lacks its method");
                    return None;
                };
                if !["str", "beg", "end", "sub", "reg"].contains(&given.as_str()) {
                    findings.bad_choice(given, "method", &["str", "beg", "end", "sub", "reg"]);
                    return None;
                }
                method = given.as_str();
            }
            _ if name.is_none() => name = Some(text_match(word, std::mem::replace(&mut method, "str"))),
            _ if value.is_none() => value = Some(text_match(word, std::mem::replace(&mut method, "str"))),
            _ => {
                findings.bad_value(word, "nothing more is expected here");
                return None;
            }
        }
    }
    Some(Expect::Header { name: name?, value, full })
}

fn text_match(word: &Word, method: &str) -> TextMatch<Pattern> {
    let text = word.text.clone();
    match method {
        "beg" => TextMatch::Begins(text),
        "end" => TextMatch::Ends(text),
        "sub" => TextMatch::Contains(text),
        "reg" => TextMatch::Matches(pattern(word, false)),
        _ => TextMatch::Is(text),
    }
}

/// Bytes written in hexadecimal.
pub(super) fn hex(text: &str) -> Result<Vec<u8>, String> {
    let bad = || format!("`{text}` is no even number of hexadecimal digits");
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return Err(bad());
    }
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| bad()))
        .collect()
}
