//! Active health checks: `health_check` and `match` (nginx.org: ngx_http_upstream_hc_module, ngx_stream_upstream_hc_module).
//!
//! Owns: what a response to a check must be, how often it is asked for, which upstream is checked.
//! Never: checks: the engine plays the script that these words become.
//! Driven by: the http and stream blocks, for `match`; locations and servers, once their upstream is known.

use std::time::Duration;

use weir_diag::Diagnostic;
use weir_expr::check::{
    ApplicationCheck, CheckConnect, CheckRequest, CheckStep, CheckVersion, Expect, Expectation, FirstState,
    GrpcCheck, TextMatch,
};
use weir_model::{HealthCheck, Pattern, ProxyTarget, UpstreamTls, Var};

use super::Lowering;
use super::parts::{HealthSpec, Place, StreamScope};
use crate::lexer::Word;
use crate::tree::Directive;
use crate::value;
use crate::variables::Dialect;

/// `health_check` of a location.
pub(crate) fn of_location(lo: &mut Lowering<'_>, place: &mut Place, d: &Directive) {
    place.health = spec(lo, d);
}

/// `health_check` of a TCP service.
pub(crate) fn of_service(lo: &mut Lowering<'_>, scope: &mut StreamScope, d: &Directive) {
    scope.health = spec(lo, d);
}

/// Most different checks of one upstream: each is made of each server.
const MOST_CHECKS: usize = 16;

/// What a server of datagrams is sent where no `match` says it (nginx.org: ngx_stream_upstream_hc_module, `udp`).
const DATAGRAM: &[u8] = b"nginx health check";

/// `health_check [interval=T] [jitter=T] [fails=N] [passes=N] [uri=URI] [mandatory [persistent]] [match=NAME] [port=N]
/// [keepalive_time=T] [type=grpc [grpc_service=NAME] [grpc_status=N]]`, and in stream `udp`.
fn spec(lo: &mut Lowering<'_>, d: &Directive) -> Option<HealthSpec> {
    let http = lo.dialect == Dialect::Http;
    let mut spec = HealthSpec {
        span: d.span,
        interval: Duration::from_secs(5),
        jitter: Duration::ZERO,
        fails: 1,
        passes: 1,
        uri: "/".to_owned(),
        mandatory: false,
        matching: None,
        port: None,
        keepalive: None,
        grpc: None,
        udp: false,
    };
    let mut uri = None;
    for at in 0..d.args.len() {
        let word = &d.args[at];
        let (key, text) = word.text.split_once('=').unwrap_or((&word.text, ""));
        let count = || value::number(text).and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
        let mut fits = true;
        let mut set = |done: Option<()>| fits = done.is_some();
        match key {
            "interval" => {
                set(value::time(text).filter(|time| !time.is_zero()).map(|time| spec.interval = time));
            }
            "fails" => set(count().map(|n| spec.fails = n)),
            "passes" => set(count().map(|n| spec.passes = n)),
            "uri" if http && text.starts_with('/') => {
                text.clone_into(&mut spec.uri);
                uri = Some(word.span);
            }
            "port" => {
                set(count().and_then(|n| u16::try_from(n).ok()).map(|port| spec.port = Some(port)));
            }
            "match" if !text.is_empty() => {
                spec.matching = Some(Word { text: text.to_owned(), ..word.clone() });
            }
            "mandatory" if text.is_empty() => spec.mandatory = true,
            // States are kept over reloads whether it stands or not.
            "persistent" if text.is_empty() => {}
            "jitter" => set(value::time(text).map(|time| spec.jitter = time)),
            "keepalive_time" if http => {
                set(value::time(text).map(|time| spec.keepalive = Some(time).filter(|time| !time.is_zero())));
            }
            "type" if http && text == "grpc" => spec.grpc = Some((String::new(), None)),
            "grpc_service" if http => {
                set(spec.grpc.as_mut().filter(|_| !text.is_empty()).map(|grpc| text.clone_into(&mut grpc.0)));
            }
            "grpc_status" if http => {
                let status = value::number(text).and_then(|n| u32::try_from(n).ok());
                set(status.and_then(|status| spec.grpc.as_mut().map(|grpc| grpc.1 = Some(status))));
            }
            "udp" if !http && text.is_empty() => spec.udp = true,
            _ => fits = false,
        }
        if !fits {
            lo.bad_value(
                d,
                at,
                "a parameter of `health_check`, such as `interval=5s`, `uri=/up` or `match=NAME`",
            );
        }
    }
    if spec.grpc.is_some()
        && let Some(span) = uri.or(spec.matching.as_ref().map(|word| word.span))
    {
        let title = "a check of `type=grpc` has neither `uri` nor `match`: gRPC's health service is asked";
        lo.report(Diagnostic::error("nginx::bad-value", title).at(span));
    }
    Some(spec)
}

/// `match NAME { status …; header …; body …; }`, and in stream `match NAME { send …; expect …; }`.
pub(crate) fn matching(lo: &mut Lowering<'_>, d: &Directive) {
    let http = lo.dialect == Dialect::Http;
    let mut steps = Vec::new();
    for line in d.children() {
        let expects = |one: Expectation<Pattern>| CheckStep::Expect(Box::new(one));
        let found = match line.name() {
            "status" if http => status(&line.args).map(expects),
            "header" if http => header(lo, &line.args).map(expects),
            "body" if http => body(lo, &line.args).map(expects),
            "require" if http && !line.args.is_empty() => {
                for word in &line.args {
                    steps.extend(require(lo, word).map(expects));
                }
                continue;
            }
            "send" if !http && line.args.len() == 1 => Some(CheckStep::Send(bytes(line.arg(0)))),
            "expect" if !http => expect(lo, &line.args).map(expects),
            _ => None,
        };
        match found {
            // What is expected comes after what is sent, wherever it stands.
            Some(step @ CheckStep::Send(_)) => steps.insert(0, step),
            Some(step) => steps.push(step),
            None => {
                let title = match http {
                    true => {
                        "a condition of `match` is `status`, `header`, `body` or `require` with what it must be"
                    }
                    false => {
                        "`match` in stream takes `send` with a text and `expect` with a text or a pattern"
                    }
                };
                lo.report(Diagnostic::error("nginx::bad-value", title).at(line.span));
            }
        }
    }
    if lo.matches.insert((lo.dialect, d.arg(0).to_owned()), steps).is_some() {
        let title = format!("there are two `match` blocks called `{}`", d.arg(0));
        lo.report(Diagnostic::error("nginx::duplicate", title).at(d.span));
    }
}

/// `expect TEXT`, `expect ~ PATTERN`, `expect ~* PATTERN`.
fn expect(lo: &mut Lowering<'_>, words: &[Word]) -> Option<Expectation<Pattern>> {
    match words {
        [text] => Some(expected(Expect::Bytes(bytes(&text.text)), false)),
        [operator, pattern] if matches!(operator.text.as_str(), "~" | "~*") => {
            let pattern = lo.pattern(&pattern.text, operator.text == "~*", pattern);
            Some(expected(Expect::BytesMatch(pattern), false))
        }
        _ => None,
    }
}

/// A text with bytes written as `\xHH`.
fn bytes(text: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find("\\x") {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let byte = rest.get(at + 2..at + 4).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(byte.unwrap_or(b'\\'));
        rest = &rest[at + if byte.is_some() { 4 } else { 1 }..];
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

fn expected(what: Expect<Pattern>, negated: bool) -> Expectation<Pattern> {
    Expectation { negated, ..Expectation::new(what) }
}

/// `status [!] CODE|CODE-CODE …`.
fn status(words: &[Word]) -> Option<Expectation<Pattern>> {
    let (negated, words) = match words.split_first()? {
        (first, rest) if first.text == "!" => (true, rest),
        _ => (false, words),
    };
    let code = |text: &str| text.parse::<u16>().ok().filter(|code| (100..=599).contains(code));
    let range = |word: &Word| match word.text.split_once('-') {
        Some((from, to)) => Some((code(from)?, code(to)?)).filter(|(from, to)| from <= to),
        None => code(&word.text).map(|code| (code, code)),
    };
    let ranges: Option<Vec<(u16, u16)>> = words.iter().map(range).collect();
    ranges.filter(|ranges| !ranges.is_empty()).map(|ranges| expected(Expect::Status(ranges), negated))
}

/// `header NAME`, `header ! NAME`, `header NAME =|!=|~|!~ VALUE`.
fn header(lo: &mut Lowering<'_>, words: &[Word]) -> Option<Expectation<Pattern>> {
    let field =
        |name: &Word, value| Expect::Header { name: TextMatch::Is(name.text.clone()), value, full: true };
    match words {
        [name] => Some(expected(field(name, None), false)),
        [not, name] if not.text == "!" => Some(expected(field(name, None), true)),
        [name, operator, value] => {
            let wanted = match operator.text.as_str() {
                "=" | "!=" => TextMatch::Is(value.text.clone()),
                "~" | "!~" => TextMatch::Matches(lo.pattern(&value.text, false, value)),
                _ => return None,
            };
            Some(expected(field(name, Some(wanted)), operator.text.starts_with('!')))
        }
        _ => None,
    }
}

/// `require $VARIABLE`: it is neither empty nor `0`.
fn require(lo: &mut Lowering<'_>, word: &Word) -> Option<Expectation<Pattern>> {
    let template = lo.template(word);
    let variable = match template.pieces.as_slice() {
        [weir_expr::Piece::Var(variable, filters)] if filters.is_empty() => variable,
        _ => {
            let title = "`require` takes variables, such as `$upstream_http_x_ready`";
            lo.report(Diagnostic::error("nginx::bad-value", title).at(word.span));
            return None;
        }
    };
    match variable {
        Var::UpstreamHeader(name) => {
            let set = lo.pattern("(?s)^(?:[^0]|0.)", false, word);
            let name = TextMatch::Is(name.clone());
            let value = Some(TextMatch::Matches(set));
            Some(expected(Expect::Header { name, value, full: true }, false))
        }
        _ => {
            let title = format!("`require` cannot know `{}`: a check belongs to no request", word.text);
            let help = "variables of the response that is judged are known: `$upstream_http_NAME`";
            lo.report(Diagnostic::error("nginx::not-built", title).at(word.span).help(help));
            None
        }
    }
}

/// `body ~|!~ PATTERN`.
fn body(lo: &mut Lowering<'_>, words: &[Word]) -> Option<Expectation<Pattern>> {
    let [operator, pattern] = words else { return None };
    let negated = match operator.text.as_str() {
        "~" => false,
        "!~" => true,
        _ => return None,
    };
    Some(expected(Expect::BodyMatches(lo.pattern(&pattern.text, false, pattern)), negated))
}

/// What a check needs to know of the place where it stands.
pub(crate) struct Checked<'a> {
    pub(crate) target: &'a ProxyTarget,
    pub(crate) spoken: Spoken<'a>,
    pub(crate) tls: Option<&'a UpstreamTls>,
    pub(crate) timeout: Duration,
}

/// What is spoken with the servers of an upstream.
pub(crate) enum Spoken<'a> {
    /// Nothing is known of it: stream.
    Bytes,
    /// HTTP/1, with this Host.
    Http(&'a str),
    /// HTTP/2, with this Host; `grpc`: it is gRPC.
    Http2 { host: &'a str, grpc: bool },
    /// FastCGI, uwsgi, SCGI or memcached; the request.
    Application(ApplicationCheck),
}

/// Has the servers of an upstream checked.
pub(crate) fn attach(lo: &mut Lowering<'_>, spec: &HealthSpec, checked: &Checked<'_>) {
    let ProxyTarget::Pool(name) = checked.target else {
        let title = "`health_check` needs an upstream that is named without variables";
        return lo.report(Diagnostic::error("nginx::health-check", title).at(spec.span));
    };
    let Some(steps) = script(lo, spec, checked) else { return };
    let check = HealthCheck {
        steps,
        interval: spec.interval,
        jitter: spec.jitter,
        fast_interval: None,
        down_interval: None,
        timeout: Some(checked.timeout),
        rise: spec.passes,
        fall: spec.fails,
        tls: checked.tls.cloned().map(|tls| match checked.spoken {
            Spoken::Http2 { .. } => UpstreamTls { alpn: vec!["h2".to_owned()], ..tls },
            _ => tls,
        }),
        first: if spec.mandatory { FirstState::FullyDown } else { FirstState::FullyUp },
        drains_on_404: false,
        observe: None,
    };
    let Some(pool) = lo.model.pools.iter_mut().find(|pool| pool.name == *name) else { return };
    let mut full = false;
    for endpoint in pool.endpoints.iter_mut().chain(pool.fresh.as_deref_mut()) {
        match &endpoint.check {
            None => endpoint.check = Some(check.clone()),
            // Two places that say the same mean one check.
            Some(known) if *known == check || endpoint.more_checks.contains(&check) => {}
            Some(_) if endpoint.more_checks.len() + 1 >= MOST_CHECKS => full = true,
            Some(_) => endpoint.more_checks.push(check.clone()),
        }
    }
    // Workers share what checks find.
    pool.shared = true;
    if full {
        let title = format!("the upstream `{name}` has {MOST_CHECKS} different health checks already");
        lo.report(Diagnostic::error("nginx::too-many", title).at(spec.span));
    }
}

/// What a check does. `None`: what is wrong was reported.
fn script(
    lo: &mut Lowering<'_>,
    spec: &HealthSpec,
    checked: &Checked<'_>,
) -> Option<Vec<CheckStep<Pattern>>> {
    let of_http = !matches!(checked.spoken, Spoken::Bytes);
    let mut conditions = match &spec.matching {
        None if spec.udp => vec![CheckStep::Send(DATAGRAM.to_vec())],
        None if !of_http || spec.grpc.is_some() => Vec::new(),
        None => vec![CheckStep::Expect(Box::new(expected(Expect::Status(vec![(200, 399)]), false)))],
        Some(name) => match lo.matches.get(&(lo.dialect, name.text.clone())) {
            Some(found) => found.clone(),
            None => {
                let title = format!("there is no `match` block called `{}`", name.text);
                lo.report(Diagnostic::error("nginx::unknown-name", title).at(name.span));
                return None;
            }
        },
    };
    if spec.udp && !conditions.iter().any(|step| matches!(step, CheckStep::Send(_))) {
        conditions.insert(0, CheckStep::Send(DATAGRAM.to_vec()));
    }
    let connect = CheckConnect {
        port: spec.port,
        tls: checked.tls.is_some() && !spec.udp,
        datagrams: spec.udp,
        ..CheckConnect::default()
    };
    let asks = match (&checked.spoken, &spec.grpc) {
        (Spoken::Http2 { host, grpc: true }, Some((service, accepts))) => {
            let (service, authority) = (service.clone(), (*host).to_owned());
            Some(CheckStep::AskGrpc(Box::new(GrpcCheck { service, authority, accepts: *accepts })))
        }
        (_, Some(_)) => {
            let title = "a check of `type=grpc` stands beside `grpc_pass`";
            lo.report(Diagnostic::error("nginx::bad-value", title).at(spec.span));
            return None;
        }
        (Spoken::Bytes, None) => None,
        (Spoken::Http(host), None) => Some(CheckStep::Ask(Box::new(request(spec, host)))),
        (Spoken::Http2 { host, .. }, None) => {
            let request = CheckRequest { version: CheckVersion::Http2, keep: None, ..request(spec, host) };
            Some(CheckStep::Ask(Box::new(request)))
        }
        (Spoken::Application(asked), None) => Some(CheckStep::AskApplication(Box::new(asked.clone()))),
    };
    let steps = [CheckStep::Connect(connect)].into_iter().chain(asks).chain(conditions);
    Some(steps.collect())
}

fn request(spec: &HealthSpec, host: &str) -> CheckRequest {
    let mut headers = vec![("Host".to_owned(), host.to_owned())];
    if spec.keepalive.is_none() {
        headers.push(("Connection".to_owned(), "close".to_owned()));
    }
    CheckRequest {
        method: "GET".to_owned(),
        target: spec.uri.clone(),
        version: if spec.keepalive.is_some() { CheckVersion::Http11 } else { CheckVersion::Http10 },
        headers,
        body: String::new(),
        tells_state: false,
        keep: spec.keepalive,
    }
}
