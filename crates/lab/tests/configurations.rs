//! What is written for nginx and HAProxy is what they accept.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use weir_lab::contender::Contender;
use weir_lab::programs::Programs;
use weir_lab::scenario::{Mode, Point, Scenario};
use weir_lab::servers::Testbed;

const MODES: [Mode; 15] = [
    Mode::FilesHttp,
    Mode::FilesHttps,
    Mode::Http,
    Mode::Https,
    Mode::TcpHttp,
    Mode::TcpHttps,
    Mode::HandshakeRsa2048,
    Mode::HandshakeP256,
    Mode::IdleHttp,
    Mode::IdleHttps,
    Mode::Sites,
    Mode::FilesH2c,
    Mode::FilesH2,
    Mode::Cached,
    Mode::Gzip,
];

/// Every mode, size and number of workers, tested by the program itself; how many were accepted.
fn accepted(who: Contender, flag: &str) -> usize {
    let (found, kind) = (Programs::rival(who).unwrap(), who.kind().unwrap());
    let mut count = 0;
    for scenario in Scenario::built_in().unwrap() {
        let testbed = Testbed::prepare(&scenario, true, 4096).unwrap();
        let keys = scenario.keys();
        // What takes pages of its own, or as long as many sites do, is tried where it is used.
        let used: Vec<Mode> = scenario.points(true).iter().map(|p| p.mode).collect();
        let everywhere = |m: Mode| !m.is_idle() && !matches!(m, Mode::Sites | Mode::Gzip);
        let fits = |m: &&Mode| {
            m.handshakes().is_none_or(|key| keys.contains(&key)) && (everywhere(**m) || used.contains(*m))
        };
        let works = MODES.iter().filter(fits);
        for (mode, size) in works.flat_map(|m| scenario.pages().into_iter().map(move |s| (*m, s))) {
            let closing = matches!(mode, Mode::Http | Mode::Https).then_some((1, true));
            for (workers, closes_behind) in
                [Some((1, false)), Some((4, false)), closing].into_iter().flatten()
            {
                let point = Point {
                    mode,
                    keepalive: true,
                    size: size.clone(),
                    workers,
                    rate: None,
                    streams: None,
                    closes_behind,
                    hyper_threading: false,
                };
                let sockets = closes_behind.then_some(12_400);
                let origins: Vec<u16> = (0..scenario.servers).map(|n| 12_346 + n).collect();
                let Some(text) =
                    testbed.configuration((who, kind), &point, 12_345, &origins, sockets).unwrap()
                else {
                    let large = ["100k", "1m", "10m"].contains(&size.as_str());
                    assert!(
                        who == Contender::Haproxy && (large || matches!(mode, Mode::Sites | Mode::Gzip)),
                        "{who:?} can {}",
                        point.name()
                    );
                    continue;
                };
                let passes_on =
                    matches!(mode, Mode::Http | Mode::Https | Mode::TcpHttp | Mode::TcpHttps | Mode::Cached);
                let named = origins.iter().filter(|o| text.contains(&format!("127.0.0.1:{o}"))).count();
                assert_eq!(named, if passes_on { origins.len() } else { 0 }, "{text}");
                let keeps = ["keepalive 128", "http-reuse always"].iter().any(|word| text.contains(word));
                assert!(!(closes_behind && keeps), "{text}");
                let (mut command, _) = testbed.command((who, kind), &found, &text, 12_345).unwrap();
                let output = command.arg(flag).output().unwrap();
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(output.status.success(), "{}: {said}\n{text}", point.name());
                assert!(!said.contains("[emerg]") && !said.contains("[WARNING]"), "{said}\n{text}");
                count += 1;
            }
        }
    }
    count
}

#[test]
fn nginx_accepts_its_configurations() {
    assert!(accepted(Contender::Nginx, "-t") > 40);
}

#[test]
fn haproxy_accepts_its_configurations() {
    assert!(accepted(Contender::Haproxy, "-c") > 40);
}

#[test]
fn a_missing_rival_is_told_with_the_remedy() {
    let told = BTreeMap::from([(Contender::Haproxy, "/nowhere/haproxy".into())]);
    let why = Programs::find("/bin/true".into(), &[Contender::Haproxy], &told, &[]).unwrap_err().to_string();
    assert!(why.contains("--haproxy /nowhere/haproxy"), "{why}");
}
