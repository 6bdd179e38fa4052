//! Checks of particular protocols: `option redis-check`, `smtpchk`, `mysql-check`, `pgsql-check`, `ldap-check`,
//! `ssl-hello-chk`.
//!
//! Owns: their messages.

use weir_expr::check::{CheckStep, Expect, Expectation};
use weir_model::Pattern;

use super::rule::Rule;
use crate::findings::Findings;
use crate::read::Word;

/// A server that asks for a password by one of these, or for none, is well (PostgreSQL's protocol, AuthenticationRequest).
const PGSQL_AUTH: &str = "^52000000[A-Z0-9]{2}000000(00|02|03|04|05|06|07|09|0A)";
/// LDAP's BindResponse to message 1 that says success (RFC 4511 §4.2.2), with lengths of one byte or five.
const LDAP_BOUND: &str = "^30(84[0-9A-F]{8}|[0-9A-F]{2})02010161(84[0-9A-F]{8}|[0-9A-F]{2})0A0100";

/// The rules of an option's script.
pub(super) fn rules(name: &str, words: &[Word], findings: &mut Findings) -> Vec<Rule> {
    let steps = match name {
        "redis-check" => vec![
            CheckStep::Send(b"*1\r\n$4\r\nPING\r\n".to_vec()),
            expect(Expect::Bytes(b"+PONG\r\n".to_vec()), None, "L7STS", ""),
        ],
        "smtpchk" => smtp(words),
        "mysql-check" => mysql(words, findings),
        "pgsql-check" => pgsql(words, findings),
        "ldap-check" => vec![
            // An anonymous simple bind of version 3.
            CheckStep::Send(vec![0x30, 0x0c, 2, 1, 1, 0x60, 7, 2, 1, 3, 4, 0, 0x80, 0]),
            expect(hexadecimal("^30"), 14, "L7RSP", "Not LDAPv3 protocol"),
            expect(hexadecimal(LDAP_BOUND), 14, "L7STS", "the bind was refused"),
        ],
        _ => {
            let answered = Expectation {
                min_received: Some(5),
                ok: "L6OK".to_owned(),
                error: "L6RSP".to_owned(),
                timeout: "L6TOUT".to_owned(),
                ..Expectation::new(hexadecimal("^1[56]"))
            };
            vec![CheckStep::Send(hello()), CheckStep::Expect(Box::new(answered))]
        }
    };
    steps.into_iter().map(Rule::Step).collect()
}

fn text(source: &str) -> Expect<Pattern> {
    Expect::BytesMatch(Pattern { source: source.to_owned(), ignore_case: false, origin: None })
}

fn hexadecimal(source: &str) -> Expect<Pattern> {
    Expect::HexMatches(Pattern { source: source.to_owned(), ignore_case: false, origin: None })
}

fn expect(
    what: Expect<Pattern>,
    min_received: impl Into<Option<usize>>,
    error: &str,
    says: &str,
) -> CheckStep<Pattern> {
    CheckStep::Expect(Box::new(Expectation {
        min_received: min_received.into(),
        error: error.to_owned(),
        says: says.to_owned(),
        ..Expectation::new(what)
    }))
}

fn never(
    what: Expect<Pattern>,
    min_received: impl Into<Option<usize>>,
    error: &str,
    says: &str,
) -> CheckStep<Pattern> {
    match expect(what, min_received, error, says) {
        CheckStep::Expect(one) => CheckStep::Expect(Box::new(Expectation { negated: true, ..*one })),
        other => other,
    }
}

/// `option smtpchk [HELO|EHLO DOMAIN]`.
fn smtp(words: &[Word]) -> Vec<CheckStep<Pattern>> {
    let (hello, domain) = match words {
        [hello, domain, ..] if matches!(hello.as_str(), "EHLO" | "HELO") => (hello.as_str(), domain.as_str()),
        [_, domain, ..] => ("HELO", domain.as_str()),
        _ => ("HELO", "localhost"),
    };
    vec![
        expect(text("^[0-9]{3}[ \r]"), 4, "L7RSP", ""),
        expect(text("^2[0-9]{2}[ \r]"), 4, "L7STS", ""),
        CheckStep::Send(format!("{hello} {domain}\r\n").into_bytes()),
        expect(text("^2[0-9]{2}[- \r]"), 4, "L7STS", ""),
        CheckStep::Send(b"QUIT\r\n".to_vec()),
        expect(text("^2[0-9]{2}[- \r]"), 4, "L7STS", ""),
    ]
}

/// `option mysql-check [user NAME [post-41 | pre-41]]`.
fn mysql(words: &[Word], findings: &mut Findings) -> Vec<CheckStep<Pattern>> {
    // A packet has four bytes of head; 255 behind them says that it is an error.
    let fine = || never(hexadecimal("^[0-9A-F]{8}FF"), 5, "L7STS", "MySQL refuses");
    let (user, old) = match words {
        [] => return vec![fine()],
        [key, user] if key.as_str() == "user" => (user, false),
        [key, user, version] if key.as_str() == "user" => {
            if !["post-41", "pre-41"].contains(&version.as_str()) {
                findings.bad_choice(version, "version", &["post-41", "pre-41"]);
            }
            (user, version.as_str() == "pre-41")
        }
        [word, ..] => {
            findings.bad_value(word, "write `user NAME`, perhaps with `post-41` or `pre-41`");
            return Vec::new();
        }
    };
    // Capabilities (4.1's protocol with its authentication, or none), the longest packet, the character set, the user.
    let mut login = match old {
        true => vec![0x00, 0x80, 0x00, 0x00, 0x01],
        false => [&[0x00, 0x82, 0, 0, 0x00, 0x80, 0, 1, 0x21][..], &[0; 23]].concat(),
    };
    login.extend_from_slice(user.text.as_bytes());
    // The end of the name, and no password.
    login.extend_from_slice(&[0, 0]);
    let length = u8::try_from(login.len()).unwrap_or_else(|_| {
        findings.bad_value(user, "this name is too long");
        0
    });
    // Behind it the packet that says goodbye.
    let packets = [&[length, 0, 0, 1][..], &login, &[1, 0, 0, 0, 1]].concat();
    vec![fine(), CheckStep::Send(packets), fine()]
}

/// `option pgsql-check user NAME`.
fn pgsql(words: &[Word], findings: &mut Findings) -> Vec<CheckStep<Pattern>> {
    let user = match words {
        [key, user] if key.as_str() == "user" => user,
        [word, ..] => {
            findings.bad_value(word, "write `user NAME`");
            return Vec::new();
        }
        [] => return Vec::new(),
    };
    // StartupMessage of protocol 3.0.
    let body = [&[0, 3, 0, 0][..], b"user\0", user.text.as_bytes(), &[0, 0]].concat();
    let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX).to_be_bytes();
    vec![
        CheckStep::Send([&length[..], &body].concat()),
        never(text("^E"), 5, "L7RSP", ""),
        expect(hexadecimal(PGSQL_AUTH), 9, "L7STS", "PostgreSQL unknown error"),
    ]
}

/// A ClientHello that every TLS server answers, if only with an alert.
fn hello() -> Vec<u8> {
    let suites: [u16; 8] = [0x1301, 0x1302, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0x009c, 0x002f];
    let groups = [0, 10, 0, 6, 0, 4, 0, 0x1d, 0, 0x17];
    let signatures = [0, 13, 0, 8, 0, 6, 4, 3, 8, 4, 4, 1];
    let extensions = [&groups[..], &signatures].concat();
    let mut body = vec![3, 3];
    // Who listens only for an answer needs no random numbers.
    body.extend_from_slice(&[0x57; 32]);
    body.push(0);
    body.extend_from_slice(&[0, 16]);
    suites.iter().for_each(|suite| body.extend_from_slice(&suite.to_be_bytes()));
    body.extend_from_slice(&[1, 0, 0, extensions.len() as u8]);
    body.extend_from_slice(&extensions);
    let mut message = vec![1, 0, 0, body.len() as u8];
    message.extend_from_slice(&body);
    [&[0x16, 3, 1, 0, message.len() as u8][..], &message].concat()
}
