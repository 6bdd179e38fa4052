//! `show sess` and `shutdown session`: connections of clients, one by one.
//!
//! Owns: the form in which a connection is shown. What HAProxy tells of its own buffers and tasks is zero.

use std::fmt::Write as _;
use std::net::SocketAddr;

use weir_control::sessions::{ClientSession, SessionAttempt};

use super::context::Cx;
use crate::civil::Civil;

/// What a connection is called.
fn id(session: &ClientSession) -> String {
    format!("{:#x}", session.number)
}

/// The number that a client of the command line gave.
fn number(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
}

/// `show sess [<id> | older <age> | all]`.
pub(super) fn show(cx: &mut Cx<'_>) -> String {
    let all = cx.runtime.sessions();
    match (cx.argument(0), cx.argument(1)) {
        ("", _) => all.iter().map(line).collect(),
        ("all", _) => all.iter().map(whole).collect(),
        ("older", age) => match older_than(age) {
            Some(least) => all.iter().filter(|session| session.age_ms >= least).map(line).collect(),
            None => "'show sess older' expects a delay.\n".to_owned(),
        },
        (word, _) => match all.iter().find(|session| number(word) == Some(session.number)) {
            Some(session) => whole(session),
            None => "Session not found.\n".to_owned(),
        },
    }
}

/// `shutdown session <id>`.
pub(super) fn shutdown(cx: &mut Cx<'_>) -> String {
    if cx.argument(0).is_empty() {
        return "Session pointer expected (use 'show sess').\n".to_owned();
    }
    match number(cx.argument(0)).is_some_and(|number| cx.runtime.end_session(number)) {
        true => String::new(),
        false => "No such session (use 'show sess').\n".to_owned(),
    }
}

/// Milliseconds; without a unit it is seconds.
fn older_than(word: &str) -> Option<u64> {
    super::input::delay(word, 1000).and_then(|age| u64::try_from(age.as_millis()).ok())
}

fn protocol(session: &ClientSession) -> &'static str {
    match session.source {
        Some(SocketAddr::V4(_)) => "tcpv4",
        Some(SocketAddr::V6(_)) => "tcpv6",
        None => "unix_stream",
    }
}

fn source(session: &ClientSession) -> String {
    session.source.map_or_else(|| "unix:1".to_owned(), |source| source.to_string())
}

fn pool(attempt: Option<&SessionAttempt>) -> &str {
    attempt.map(|attempt| attempt.pool.as_str()).filter(|name| !name.is_empty()).unwrap_or("<NONE>")
}

fn server(attempt: Option<&SessionAttempt>) -> &str {
    attempt.map(|attempt| attempt.endpoint.as_str()).filter(|name| !name.is_empty()).unwrap_or("<none>")
}

/// One line for each thing that goes on at a server for it, and one where nothing does.
fn line(session: &ClientSession) -> String {
    let mut text = String::new();
    let attempts = session.attempts.iter().map(Some);
    let idle = session.attempts.is_empty().then_some(None);
    for attempt in attempts.chain(idle) {
        let _ = writeln!(
            text,
            "{}: proto={} src={} fe={} be={} srv={} ts=00 epoch=0 age={} calls={} rate=0 cpu=0 lat=0 \
             rq[f=0h,i=0,an=00h,rx=,wx=,ax=] rp[f=0h,i=0,an=00h,rx=,wx=,ax=] scf=[8,0h,fd=-1] scb=[8,1h,fd=-1] \
             exp= rc=0 c_exp=",
            id(session),
            protocol(session),
            source(session),
            session.site,
            pool(attempt),
            server(attempt),
            age(session.age_ms),
            session.requests,
        );
    }
    text
}

fn whole(session: &ClientSession) -> String {
    let mut text = String::new();
    let name = |name: &str| if name.is_empty() { "?" } else { name }.to_owned();
    let _ = writeln!(
        text,
        "{}: [{}] id={} proto={} source={}",
        id(session),
        date(session.accepted_unix_ms),
        session.number,
        protocol(session),
        source(session),
    );
    let _ = writeln!(text, "  flags=0x0, tls={}, age={}", u8::from(session.tls), age(session.age_ms));
    let address = session.destination.map_or_else(|| "unix:1".to_owned(), |address| address.to_string());
    let _ = writeln!(
        text,
        "  frontend={} (mode={}), listener=? addr={address}, requests={}",
        name(&session.site),
        session.mode,
        session.requests
    );
    for attempt in &session.attempts {
        let _ = writeln!(text, "  backend={} (mode={})", pool(Some(attempt)), session.mode);
        let _ = writeln!(
            text,
            "  server={} addr={} connected={}",
            server(Some(attempt)),
            name(&attempt.address),
            age(attempt.age_ms)
        );
    }
    if session.attempts.is_empty() {
        text.push_str("  backend=<NONE> (mode=-)\n  server=<NONE>\n");
    }
    text
}

/// `24/Nov/2026:08:19:42.441`, in UTC.
pub(super) fn date(unix_ms: u64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let Civil { year, month, day, hour, minute, second, millis } = Civil::of(unix_ms);
    format!("{day:02}/{}/{year}:{hour:02}:{minute:02}:{second:02}.{millis:03}", MONTHS[month as usize - 1])
}

/// As there: the two greatest units.
fn age(millis: u64) -> String {
    let seconds = millis / 1000;
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, seconds) => format!("{seconds}s"),
        (0, 0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (0, hours, minutes, _) => format!("{hours}h{minutes}m"),
        (days, hours, ..) => format!("{days}d{hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_shown_with_what_they_do() {
        let attempt = SessionAttempt {
            pool: "app".into(),
            endpoint: "s1".into(),
            address: "192.0.2.9:80".into(),
            age_ms: 900,
        };
        let session = ClientSession {
            number: 0x2a,
            source: Some(([192, 0, 2, 1], 4000).into()),
            site: "web".into(),
            mode: "http",
            age_ms: 3_725_000,
            requests: 7,
            attempts: vec![attempt],
            ..ClientSession::default()
        };
        let shown = line(&session);
        let begins =
            "0x2a: proto=tcpv4 src=192.0.2.1:4000 fe=web be=app srv=s1 ts=00 epoch=0 age=1h2m calls=7 ";
        assert!(shown.starts_with(begins), "{shown}");
        assert!(whole(&session).contains("\n  server=s1 addr=192.0.2.9:80 connected=0s\n"));
        let idle = ClientSession { attempts: Vec::new(), ..session };
        assert!(line(&idle).contains(" be=<NONE> srv=<none> "));
        assert_eq!(date(1_795_508_382_441), "24/Nov/2026:08:19:42.441");
        assert_eq!(date(951_782_399_000), "28/Feb/2000:23:59:59.000");
        assert_eq!(date(951_782_400_000), "29/Feb/2000:00:00:00.000");
        assert_eq!((number("0x2a"), number("2a"), number("zz")), (Some(42), Some(42), None));
    }
}
