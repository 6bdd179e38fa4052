//! The parsers: every one that reads bytes of the network, of a disk, or of the data plane.
//!
//! Owns: their names, and the few properties that need several crates.
//! Never: holds input: `corpus` does.
//! Driven by: the smoke run and, under libFuzzer, `coverage`.

use std::io;
use std::net::IpAddr;
use std::path::Path;

/// A function that panics where a property does not hold.
pub(crate) type Run = fn(&[u8]);

/// Every parser there is, by name.
pub(crate) fn all() -> Vec<(&'static str, Run)> {
    let mut all: Vec<(&'static str, Run)> = vec![
        ("nginx_conf", weir_nginx::fuzzing::config),
        ("nginx_tables", weir_nginx::fuzzing::tables),
        ("nginx_ciphers", ciphers),
        ("nginx_plan", nginx_plan),
        ("haproxy_cfg", weir_haproxy::fuzzing::config),
        ("haproxy_tables", weir_haproxy::fuzzing::tables),
        ("haproxy_plan", haproxy_plan),
        ("stats_page", stats_page),
        ("console_line", weir_admin::cli::fuzz),
        ("jose_token", weir_jose::fuzzing::token),
        ("password_form", weir_password::fuzzing::form),
        ("media_mp4", weir_media::fuzzing::mp4),
        ("lab_scenario", scenario),
    ];
    all.extend(weir_http::fuzzing::TARGETS);
    all.extend(weir_wire::h2::fuzzing::TARGETS);
    all.extend(weir_wire::h3::fuzzing::TARGETS);
    all.extend(weir_rt::fuzzing::TARGETS);
    all.extend(weir_engine::fuzzing::TARGETS);
    all.extend(weir_loadgen::fuzzing::TARGETS);
    all.extend(weir::fuzzing::TARGETS);
    all
}

fn ciphers(bytes: &[u8]) {
    let _ = weir_expr::ciphers::select(&String::from_utf8_lossy(bytes));
}

/// A machine without files and names.
struct Nothing;

impl weir_lower::Resources for Nothing {
    fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn addresses(&self, _: &str) -> Vec<IpAddr> {
        vec![IpAddr::from([127, 0, 0, 1])]
    }
}

const OPTIONS: weir_lower::Options = weir_lower::Options { tolerate_unreadable_files: true };

/// What nginx's front end made of any bytes can be lowered, mistakes and all.
fn nginx_plan(bytes: &[u8]) {
    let path = Path::new("/etc/nginx/nginx.conf");
    let files = weir_nginx::Memory::with(path, bytes);
    let loaded = weir_nginx::load(&files, path, &weir_nginx::Options::default());
    let _ = weir_lower::lower(&loaded.model, &Nothing, &OPTIONS);
}

/// As [`nginx_plan`].
fn haproxy_plan(bytes: &[u8]) {
    let files = weir_haproxy::Memory::default().with("fuzz.cfg", bytes.to_vec());
    let loaded = weir_haproxy::load(&files, &["fuzz.cfg".into()], &weir_haproxy::Options::default());
    let _ = weir_lower::lower(&loaded.model, &Nothing, &OPTIONS);
}

/// A scenario of the lab, and the machines of a cluster that it may name.
fn scenario(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(scenario) = weir_lab::scenario::Scenario::parse(&text) {
        for quick in [false, true] {
            assert!(!scenario.points(quick).is_empty());
            let _ = (scenario.goals(quick).len(), scenario.seconds(quick, 4));
        }
    }
    let _ = (weir_lab::rate::Rate::parse(&text), weir_lab::scenario::bytes(&text));
}

/// The statistics page under any path and credentials: nobody gets in without a password, and no markup of theirs
/// gets onto the page.
fn stats_page(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let (target, authorization) = rest.split_at(usize::from(*first).min(rest.len()));
    let request =
        weir_admin::Request { target, authorization: (!authorization.is_empty()).then_some(authorization) };
    let snapshot = weir_control::snapshot::Snapshot::default();
    let mut options = weir_admin::stats::Options { uri: "/stats".into(), ..Default::default() };
    let page = weir_admin::stats::page(&options, &request, &snapshot);
    let is_html = page.headers.iter().any(|(_, value)| value.starts_with("text/html"));
    let text = String::from_utf8_lossy(&page.body).to_lowercase();
    assert!(
        !is_html || !["<script", "<img", "javascript:"].iter().any(|markup| text.contains(markup)),
        "{text}"
    );
    let metrics = weir_admin::stats::exposition::page(&snapshot, target);
    assert!(metrics.headers.iter().all(|(_, value)| !value.starts_with("text/html")));
    options.users = vec![("nobody".into(), "a password that no input holds".into())];
    assert_eq!(weir_admin::stats::page(&options, &request, &snapshot).status, 401);
}
