//! `http-check connect` and `tcp-check connect`.

use super::computed::Computed;
use super::rule::ConnectRule;
use crate::findings::Findings;
use crate::read::Word;

const DECIDES: &str = "it decides which servers are used";

const WORDS: &[&str] =
    &["default", "port", "addr", "send-proxy", "ssl", "sni", "alpn", "proto", "linger", "comment"];

/// The words behind `connect`.
pub(super) fn connect(words: &[Word], computed: &Computed<'_>, findings: &mut Findings) -> ConnectRule {
    // Without a word it is the server's own connection.
    let mut rule = ConnectRule { default: words.is_empty(), ..ConnectRule::default() };
    let mut words = words.iter();
    while let Some(key) = words.next() {
        match key.as_str() {
            "default" => rule.default = true,
            "linger" => {}
            "send-proxy" => rule.send_proxy = true,
            "ssl" => rule.tls = true,
            "via-socks4" => findings.not_built(key.span, "connect via-socks4", DECIDES),
            word if WORDS.contains(&word) => {
                let Some(value) = words.next() else {
                    findings.bad_value(key, format!("`{word}` lacks its value"));
                    return rule;
                };
                with_value(&mut rule, word, value, computed, findings);
            }
            _ => {
                findings.bad_choice(key, "word of `connect`", WORDS);
                return rule;
            }
        }
    }
    rule
}

fn with_value(
    rule: &mut ConnectRule,
    word: &str,
    value: &Word,
    computed: &Computed<'_>,
    findings: &mut Findings,
) {
    match word {
        "port" => rule.port = computed.number(value, "port", findings),
        "addr" => {
            rule.address =
                findings.value(value, |text| text.parse().map_err(|_| format!("`{text}` is no address")));
        }
        "sni" => rule.name = Some(value.text.clone()),
        "alpn" if value.text.split(',').any(|name| name == "http/1.1" || name == "http/1.0") => {}
        "proto" if matches!(value.as_str(), "h1" | "none") => {}
        "alpn" | "proto" => {
            findings.not_built(value.span, &format!("connect {word} {}", value.text), DECIDES);
        }
        _ => {}
    }
}
