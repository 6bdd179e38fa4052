//! What is written for nginx and HAProxy is what they accept.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use weir_lab::programs::Programs;
use weir_lab::scenario::{Mode, Point, Scenario, Who};
use weir_lab::servers::Ground;

const MODES: [Mode; 6] =
    [Mode::FilesHttp, Mode::FilesHttps, Mode::Http, Mode::Https, Mode::TcpHttp, Mode::TcpHttps];

/// Every mode, size and number of workers, tested by the program itself; how many were accepted.
fn accepted(who: Who, flag: &str) -> usize {
    let found = Programs::rival(who).unwrap();
    let mut count = 0;
    for scenario in Scenario::built_in().unwrap() {
        let ground = Ground::prepare(&scenario, 4096).unwrap();
        for (mode, size) in MODES.iter().flat_map(|m| scenario.sizes.iter().map(move |s| (*m, s.clone()))) {
            for workers in [1, 4] {
                let point = Point { mode, keepalive: true, size: size.clone(), workers };
                let Some(text) = ground.configuration(who, &point, 12_345, 12_346).unwrap() else {
                    assert!(who == Who::Haproxy && size == "100k", "{who:?} can {}", point.name());
                    continue;
                };
                let (mut command, _) = ground.command(who, &found, &text, 12_345).unwrap();
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
    assert!(accepted(Who::Nginx, "-t") > 40);
}

#[test]
fn haproxy_accepts_its_configurations() {
    assert!(accepted(Who::Haproxy, "-c") > 40);
}

#[test]
fn a_missing_rival_is_told_with_the_remedy() {
    let told = BTreeMap::from([(Who::Haproxy, "/nowhere/haproxy".into())]);
    let why = Programs::find("/bin/true".into(), &[Who::Haproxy], &told).unwrap_err().to_string();
    assert!(why.contains("--haproxy /nowhere/haproxy"), "{why}");
}
