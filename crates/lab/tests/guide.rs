//! Sizing guides of several machines, and answers from measured curves.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Shown, fill, settings};
use std::path::Path;
use weir_lab::contender::Contender;
use weir_lab::prices::Prices;
use weir_lab::report::guide::merge;
use weir_lab::scenario::{Mode, Point};
use weir_lab::size::{Demand, answers, told};

const SCENARIO: &str = "\
id: B6
title: a reverse proxy
about: for a test
contenders: [weir, nginx]
modes: [http, https, handshake-rsa2048]
keepalive: [true, false]
sizes: ['128', 10k]
workers: [1, 2, 4, 8]
connections: 48
full: { runs: 9, seconds: 20, warmup: 2 }
quick: { runs: 3, seconds: 1, warmup: 0.1 }
";

/// A busy server: 10 µs a request at 128 bytes and 20 at 10 KB (nginx twice that), 500 µs a handshake and 1,000 a transaction, on any cores.
fn shown(who: Contender, point: &Point, run: u32) -> Option<Shown> {
    let each = match (point.mode, point.size.as_str()) {
        // With a connection, a request and its end a handshake costs more than alone.
        (Mode::HandshakeRsa2048, _) => 500.0,
        (Mode::Https, _) if !point.keepalive => 1000.0,
        (_, "128") => 10.0,
        _ => 20.0,
    } * if who == Contender::Nginx { 2.0 } else { 1.0 };
    let each = each * (1.0 + (f64::from(run) - 1.0) * 0.01);
    let rate = f64::from(point.workers) * 1e6 / each;
    Some(Shown { rate, us: 50e6 / rate, cpu_us: each })
}

fn machine(dir: &Path, name: &str, cpus: usize, virtualisation: &str) -> String {
    let mut settings = settings(name, cpus);
    settings.environment.virtualisation = virtualisation.into();
    let folder = dir.join(name);
    fill(&folder, &settings, SCENARIO, &shown);
    folder.display().to_string()
}

fn prices() -> Prices {
    Prices::read(None).unwrap()
}

#[test]
fn machines_stand_side_by_side_in_the_layout_that_was_published() {
    let dir = tempfile::tempdir().unwrap();
    let (metal, cloud) = (machine(dir.path(), "metal", 8, ""), machine(dir.path(), "cloud", 2, "KVM"));
    let out = dir.path().join("guide");
    let guide = merge(&[metal, format!("our cloud={cloud}")], &out, &prices()).unwrap();
    assert_eq!(guide.conflicts, Vec::<String>::new());
    let names: Vec<&str> = guide.machines.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["bare metal", "our cloud"]);
    let text = std::fs::read_to_string(out.join("guide.md")).unwrap();
    let cells = |start: &str| -> Vec<String> {
        let line = text.lines().find(|l| l.starts_with(start)).unwrap_or_else(|| panic!("{start}: {text}"));
        line.split('|').map(|c| c.trim().to_owned()).collect()
    };
    let head = cells("| cores |");
    let at = |name: &str| head.iter().position(|h| h == name).unwrap_or_else(|| panic!("{name}: {head:?}"));
    let (four, two) = (cells("| 4 |"), cells("| 2 |"));
    assert_eq!(four[at("price, USD")], "1,300");
    assert!(four[at("RPS, bare metal")].starts_with("400,000"), "{four:?}");
    assert_eq!(four[at("RPS, our cloud")], "", "it has two CPUs");
    assert!(two[at("RPS, our cloud")].starts_with("200,000"), "{two:?}");
    assert_eq!(four[at("RPS each USD, bare metal")], "308");
    assert!(four[at("TPS, bare metal")].starts_with("4,000"), "transactions, not handshakes alone: {four:?}");
    assert_eq!(four[at("RPS, published: NGINX, bare metal")], "192,000");
    assert_eq!(four[at("TPS, published: NGINX, hypervisor")], "2,900");
    common::browser::check(&out.join("guide.html"), 4);
    let csv = std::fs::read_to_string(out.join("guide.csv")).unwrap();
    let columns: Vec<usize> = csv.lines().map(|l| l.split(',').count()).collect();
    assert!(columns.iter().all(|c| *c == columns[0]) && columns.len() > 40, "{csv}");
    // A guide is what a folder of results is: it can be joined with others, and sized from.
    let more = machine(dir.path(), "third", 4, "Xen");
    let again = merge(&[out.display().to_string(), more], &dir.path().join("more"), &prices()).unwrap();
    assert_eq!(again.machines.len(), 3);
}

#[test]
fn what_does_not_fit_together_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (machine(dir.path(), "one", 4, ""), machine(dir.path(), "two", 4, ""));
    let out = dir.path().join("guide");
    let join = |folders: &[String]| merge(folders, &out, &prices());
    let same = join(&[one.clone(), two.clone()]).unwrap_err().to_string();
    assert!(same.contains("two machines would be called `bare metal`") && same.contains("NAME="), "{same}");
    let twice = join(&[format!("a={one}"), format!("b={one}")]).unwrap_err().to_string();
    assert!(twice.contains("one folder"), "{twice}");
    assert!(join(&["/nowhere".into()]).is_err());

    let mut other = settings("three", 4);
    other.environment.versions.insert("nginx".into(), "nginx version: nginx/1.31.1".into());
    other.debug_build = true;
    let three = dir.path().join("three");
    fill(&three, &other, &SCENARIO.replace("connections: 48", "connections: 8"), &shown);
    let guide = join(&[one, format!("three={}", three.display())]).unwrap();
    let all = guide.conflicts.join("\n");
    for part in [
        "nginx/1.22.1",
        "nginx/1.31.1",
        "three: Weir was a debug build",
        "B6 was not the same scenario",
        "connections",
    ] {
        assert!(all.contains(part), "{part}: {all}");
    }
    assert!(std::fs::read_to_string(out.join("guide.html")).unwrap().contains("nginx/1.31.1"));
}

fn demand(rps: f64, tps: f64, page: u64) -> Demand {
    Demand { rps, tps, page, mode: None, headroom: 0.3 }
}

#[test]
fn a_load_is_sized_from_measured_curves() {
    let dir = tempfile::tempdir().unwrap();
    let folder = machine(dir.path(), "metal", 8, "");
    let folder = Path::new(&folder);
    let all = answers(folder, &demand(100_000.0, 1000.0, 10_240), &prices()).unwrap();
    // 100,000 × 20 µs and 1,000 × 500 µs are 2.5 CPUs, of which each may be busy 70%: 4 cores. nginx: 5 of them, 8.
    let weir = &all[0];
    assert_eq!((weir.contender, weir.cores.expected), (Contender::Weir, 4.0));
    assert!(weir.cores.low <= 4.0 && weir.cores.high >= 4.0);
    assert_eq!((all[1].contender, all[1].cores.expected), (Contender::Nginx, 8.0));
    let hardware = weir.hardware.as_ref().unwrap();
    assert_eq!((hardware.count, hardware.price), (1, 1300.0));
    assert!(weir.parts.iter().all(|p| p.beyond.is_empty()), "{:?}", weir.parts);
    assert!(weir.parts[0].what.contains("HTTPS"), "requests of a site with handshakes are HTTPS");

    // Halfway between two sizes, half the difference.
    let between = answers(folder, &demand(1e5, 0.0, 5184), &prices()).unwrap();
    assert!((between[0].parts[0].cost_us.expected - 15.0).abs() < 0.1, "{between:?}");
}

#[test]
fn beyond_what_was_measured_it_says_so_and_is_less_sure() {
    let dir = tempfile::tempdir().unwrap();
    let folder = machine(dir.path(), "metal", 8, "");
    let demand = demand(1e5, 0.0, 1 << 20);
    let all = answers(Path::new(&folder), &demand, &prices()).unwrap();
    let weir = &all[0];
    assert!(weir.cores.expected > 8.0 && weir.cores.high > weir.cores.low * 1.2, "{weir:?}");
    assert_eq!(weir.parts[0].beyond.len(), 2, "{:?}", weir.parts);
    let text = told(&demand, &all, &prices());
    assert!(
        text.contains("more than 8 cores were not measured") && text.contains("pages above 10240 bytes"),
        "{text}"
    );
    assert!(weir.hardware.as_ref().unwrap().count > 1);
}

#[test]
fn without_a_curve_there_is_no_answer() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("some");
    let scenario = SCENARIO.replace("modes: [http, https, handshake-rsa2048]", "modes: [http]");
    fill(&folder, &settings("p", 4), &scenario, &shown);
    let why = answers(&folder, &demand(1.0, 5.0, 1024), &prices()).unwrap_err().to_string();
    assert!(why.contains("no curve") && why.contains("HTTPS") && why.contains("weir lab run"), "{why}");
    let nothing = answers(&folder, &demand(0.0, 0.0, 1024), &prices()).unwrap_err().to_string();
    assert!(nothing.contains("--rps"), "{nothing}");
    let nowhere = answers(Path::new("/nowhere"), &demand(1.0, 0.0, 1), &prices()).unwrap_err().to_string();
    assert!(nowhere.contains("holds no results"), "{nowhere}");
}

#[test]
fn a_page_is_sized_from_pages_around_it() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("some");
    let settings = settings("p", 8);
    fill(&folder, &settings, &SCENARIO.replace("['128', 10k]", "['128']"), &shown);
    let small = demand(1e4, 0.0, 4096);
    let why = answers(&folder, &small, &prices()).unwrap_err().to_string();
    assert!(why.contains("no curve"), "one size does not say what a larger page costs: {why}");
    assert!(why.contains("pages of 128 bytes alone") && why.contains("4096 bytes"), "what is missing: {why}");
    assert!(!why.contains("were not measured;"), "they were: {why}");
    // Fewer workers, but the sizes that it takes.
    let other = SCENARIO
        .replace("id: B6", "id: B8")
        .replace("['128', 10k]", "[1k, 10k]")
        .replace("[1, 2, 4, 8]", "[1]");
    fill(&folder, &settings, &other, &shown);
    let all = answers(&folder, &small, &prices()).unwrap();
    assert!(all[0].parts[0].source.starts_with("B8, with 1 worker,"), "{:?}", all[0].parts);
    let tiny = answers(&folder, &demand(1e4, 0.0, 128), &prices()).unwrap();
    assert!(tiny[0].parts[0].source.starts_with("B6"), "{:?}", tiny[0].parts);
}
