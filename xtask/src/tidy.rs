//! What the compiler does not check.
//!
//! Owns: the table of who may import whom, and rules of the house that a machine can see.
//! Never: judges taste. Each rule names the file, the line and the remedy.
//! Driven by: `cargo xtask tidy`, and by `cargo test` as an ordinary test.

use crate::{build, claims, floors};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

/// Which crates of ours each crate may name in `[dependencies]`; ARCHITECTURE.md says why. `*` means all.
const IMPORTS: &[(&str, &[&str])] = &[
    ("diag", &[]),
    ("expr", &[]),
    ("model", &["diag", "expr"]),
    ("nginx", &["model", "expr", "diag"]),
    ("haproxy", &["model", "expr", "diag"]),
    ("native", &["model", "expr", "diag"]),
    ("http", &[]),
    ("control", &[]),
    ("policy", &["control", "expr"]),
    ("password", &[]),
    ("jose", &[]),
    ("media", &[]),
    ("cache", &["rt"]),
    ("fetch", &["expr"]),
    ("acme", &["control", "expr", "fetch"]),
    ("plan", &["http", "policy", "control", "expr"]),
    ("lower", &["model", "plan", "diag", "expr", "policy", "http", "password"]),
    ("rt", &[]),
    ("wire", &["http", "rt"]),
    ("telemetry", &["control", "policy"]),
    (
        "engine",
        &[
            "plan",
            "wire",
            "policy",
            "control",
            "telemetry",
            "rt",
            "http",
            "expr",
            "password",
            "jose",
            "media",
            "cache",
            "fetch",
        ],
    ),
    ("admin", &["model", "control", "telemetry"]),
    ("loadgen", &["wire", "rt", "http", "expr"]),
    ("lab", &["loadgen"]),
    ("weir", &["*"]),
    ("testkit", &["rt", "wire"]),
    ("xtask", &["*"]),
];

/// Crates without a socket, a clock or a runtime, and what they may therefore not depend on.
const PURE: &[&str] = &[
    "diag", "expr", "model", "nginx", "haproxy", "native", "http", "control", "policy", "plan", "lower",
    "password", "jose", "media",
];
const IMPURE: &[&str] = &["io-uring", "tokio", "mio", "socket2", "rustls", "libc", "rustix"];

/// The crates that may name these; everybody else goes through `rt`. The kit's peers are no part of the product.
const WRAPPED: &[(&str, &[&str])] =
    &[("io-uring", &["rt", "testkit"]), ("rustls", &["fetch", "rt", "testkit"])];

/// Floors of the top-level modules inside a crate, lowest first; ARCHITECTURE.md says why. A module may import those below
/// it and those beside it.
const FLOORS: &[(&str, &[&[&str]])] = &[
    (
        "engine",
        &[
            &["files", "logging", "worker"],
            &["exchange"],
            &["eval"],
            &["upstream"],
            &["answer"],
            &["admission"],
            &["action"],
            &["walk"],
            &["http", "tcp"],
            &["entry"],
            &["fuzzing"],
        ],
    ),
    (
        "haproxy",
        &[
            &["values"],
            &["read"],
            &["draft", "findings"],
            &["words"],
            &["take"],
            // Entries name the functions that take their lines in.
            &["table"],
            &["files", "reference", "sections", "sniff"],
            &["build"],
            &["lib"],
            &["fuzzing"],
        ],
    ),
    (
        "lab",
        &[
            &[
                "accounting",
                "burst",
                "cgroup",
                "configs",
                "contender",
                "instructions",
                "pages",
                "prices",
                "progress",
                "rate",
                "scope",
                "sizes",
                "stats",
            ],
            &["mode", "programs", "scenario", "sites"],
            &["cluster", "machine", "wrk"],
            &["callgrind", "idle", "servers"],
            &["changes", "generator", "results"],
            &["report", "run"],
            &["size"],
        ],
    ),
    (
        "native",
        &[
            &["differ", "node", "plain", "tree", "words"],
            &["keys", "shapes"],
            &["defaults", "print", "read"],
            &["document", "emit"],
            &["lib"],
        ],
    ),
    (
        "nginx",
        &[
            &["decode", "files", "lexer", "options", "value", "variables"],
            &["tree"],
            &["include", "take"],
            // As in haproxy: entries name the functions that take their directives in.
            &["table"],
            &["build"],
            &["lib"],
            &["fuzzing"],
        ],
    ),
];

/// Most files of a crate that may import one another in a circle.
const MOST_IN_A_CIRCLE: usize = 3;

/// Where claims name their tests.
const SECURITY: &str = "docs/security.md";

const MAX_LINES: usize = 900;

/// Fails with every finding.
pub(crate) fn run() -> Result<()> {
    let findings = check(build::root());
    if findings.is_empty() {
        println!("tidy");
        return Ok(());
    }
    bail!("{} findings:\n{}", findings.len(), findings.join("\n"))
}

fn check(root: &Path) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, dir) in crates(root) {
        manifest(&name, &dir, &mut findings);
        unsafe_code(&name, &dir, &mut findings);
        layout(&name, &dir.join("src"), &mut findings);
        for file in rust_files(&dir) {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            source(&shown(root, &file), &text, &mut findings);
        }
    }
    for dir in ["examples", "docs", "scripts", ".ci"] {
        for file in files(&root.join(dir)) {
            paths(&shown(root, &file), &std::fs::read_to_string(&file).unwrap_or_default(), &mut findings);
        }
    }
    for file in documents(root) {
        links(root, &shown(root, &file), &std::fs::read_to_string(&file).unwrap_or_default(), &mut findings);
    }
    tests_named(root, SECURITY, &mut findings);
    claims::check(root, &mut findings);
    findings
}

/// A file as findings name it.
pub(crate) fn shown(root: &Path, file: &Path) -> String {
    file.strip_prefix(root).unwrap_or(file).display().to_string()
}

/// The floors of a crate, and its circles.
fn layout(name: &str, src: &Path, findings: &mut Vec<String>) {
    if let Some((_, rows)) = FLOORS.iter().find(|(n, _)| *n == name) {
        floors::check(name, src, rows, findings);
    }
    floors::circles(name, src, MOST_IN_A_CIRCLE, findings);
}

/// The pages of the repository.
fn documents(root: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.is_file());
    found.extend(["docs", "crates", "examples"].iter().flat_map(|dir| files(&root.join(dir))));
    found.retain(|file| file.extension().is_some_and(|extension| extension == "md"));
    found
}

/// Links of a page, and paths of the repository that it names as code, lead somewhere.
fn links(root: &Path, shown: &str, text: &str, findings: &mut Vec<String>) {
    let here = root.join(shown);
    let folder = here.parent().unwrap_or(root);
    for (at, line) in text.lines().enumerate() {
        let linked = line.split("](").skip(1).filter_map(|rest| rest.split([')', '#', ' ']).next());
        for target in linked.filter(|target| !target.is_empty() && !target.contains(':')) {
            if !folder.join(target).exists() {
                findings.push(format!("{shown}:{}: a link to {target}, which is not there", at + 1));
            }
        }
        let named = line.split('`').skip(1).step_by(2).filter(|code| {
            let ours = ["crates/", "docs/", "xtask/"].iter().any(|dir| code.starts_with(dir));
            ours && !code.contains([' ', '*', '{', '<'])
        });
        for path in named {
            // A test is named behind its file.
            let path = path.split("::").next().unwrap_or(path);
            if !root.join(path).exists() {
                findings.push(format!("{shown}:{}: names {path}, which is not there", at + 1));
            }
        }
    }
}

/// A claim about security names the test that proves it, as `crates/…/file.rs::name`: each must exist.
fn tests_named(root: &Path, document: &str, findings: &mut Vec<String>) {
    let Ok(text) = std::fs::read_to_string(root.join(document)) else {
        findings.push(format!("{document}: missing"));
        return;
    };
    for (at, line) in text.lines().enumerate() {
        // What stands between backticks, one and the next.
        for quoted in line.split('`').skip(1).step_by(2) {
            let Some((file, name)) = quoted.split_once(".rs::") else { continue };
            let source = std::fs::read_to_string(root.join(format!("{file}.rs"))).unwrap_or_default();
            let name = name.rsplit("::").next().unwrap_or(name);
            // A function, or a row of a harness of our own.
            if !source.contains(&format!("fn {name}(")) && !source.contains(&format!("\"{name}\"")) {
                findings.push(format!("{document}:{}: there is no test {quoted}", at + 1));
            }
        }
    }
}

fn crates(root: &Path) -> Vec<(String, PathBuf)> {
    let mut found: Vec<(String, PathBuf)> = std::fs::read_dir(root.join("crates"))
        .into_iter()
        .flatten()
        .flatten()
        .filter(|e| e.path().join("Cargo.toml").is_file())
        .map(|e| (e.file_name().to_string_lossy().into_owned(), e.path()))
        .collect();
    found.push(("xtask".into(), root.join("xtask")));
    found.sort();
    found
}

fn manifest(name: &str, dir: &Path, findings: &mut Vec<String>) {
    let text = std::fs::read_to_string(dir.join("Cargo.toml")).unwrap_or_default();
    let Some((_, allowed)) = IMPORTS.iter().find(|(n, _)| *n == name) else {
        findings.push(format!("crates/{name}: no row in xtask's table of imports (and ARCHITECTURE.md's)"));
        return;
    };
    for dependency in dependencies(&text) {
        if let Some(ours) = dependency.strip_prefix("weir-") {
            if !allowed.contains(&ours) && !allowed.contains(&"*") {
                findings.push(format!("crates/{name} imports {ours}: ARCHITECTURE.md does not allow it"));
            }
            continue;
        }
        if PURE.contains(&name) && IMPURE.contains(&dependency) {
            findings.push(format!("crates/{name} is pure and depends on {dependency}"));
        }
        if let Some((_, owners)) = WRAPPED.iter().find(|(n, _)| *n == dependency)
            && !owners.contains(&name)
        {
            findings.push(format!("crates/{name} names {dependency}: only {} may", owners.join(", ")));
        }
    }
    if !text.contains("[lints]\nworkspace = true") {
        findings.push(format!("crates/{name}: the workspace's lints are not switched on"));
    }
}

/// Names in `[dependencies]`; what tests alone depend on is free.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let section = manifest.split("\n[").find_map(|s| s.strip_prefix("dependencies]")).unwrap_or_default();
    section.lines().filter_map(|line| {
        let name = line.split(['.', '=', ' ']).next()?;
        (!name.is_empty() && !name.starts_with('#')).then_some(name)
    })
}

fn unsafe_code(name: &str, dir: &Path, findings: &mut Vec<String>) {
    if name == "rt" {
        return;
    }
    let roots = ["src/lib.rs", "src/main.rs"].map(|f| dir.join(f));
    for root in roots.iter().filter(|r| r.is_file()) {
        if !std::fs::read_to_string(root).unwrap_or_default().contains("#![forbid(unsafe_code)]") {
            findings.push(format!("{name}: {} lacks #![forbid(unsafe_code)]", root.display()));
        }
    }
}

fn source(shown: &str, text: &str, findings: &mut Vec<String>) {
    let lines = text.lines().count();
    if lines > MAX_LINES {
        findings.push(format!("{shown}: {lines} lines; look for the seam ({MAX_LINES} is the most)"));
    }
    // Unit tests say by their place what they are.
    let unit_tests =
        shown.ends_with("/tests.rs") || shown.contains("/src/tests/") || shown.contains("/tests/mod.rs");
    if !text.starts_with("//!") && !unit_tests {
        findings.push(format!("{shown}:1: no module header (Owns, Never, Driven by)"));
    }
    // Put together, so that this file does not find itself.
    for word in
        [concat!("todo", "!("), concat!("unimpl", "emented!("), concat!("FIX", "ME"), concat!("XX", "X:")]
    {
        for (at, _) in text.lines().enumerate().filter(|(_, l)| l.contains(word)) {
            findings.push(format!("{shown}:{}: {word}", at + 1));
        }
    }
    paths(shown, text, findings);
}

/// Paths that exist on one machine only.
fn paths(shown: &str, text: &str, findings: &mut Vec<String>) {
    let told = [concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/tmp", "/t/")];
    for (at, line) in text.lines().enumerate() {
        if let Some(path) = told.iter().find(|p| line.contains(**p)) {
            findings.push(format!("{shown}:{}: a path of one machine: {path}", at + 1));
        }
    }
}

pub(crate) fn rust_files(dir: &Path) -> Vec<PathBuf> {
    files(dir).into_iter().filter(|f| f.extension().is_some_and(|e| e == "rs")).collect()
}

/// All files below `dir`, builds left out.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if entry.file_name() != "target" {
                found.extend(files(&path));
            }
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let findings = check(build::root());
        assert!(findings.is_empty(), "\n{}", findings.join("\n"));
    }

    #[test]
    fn dependencies_are_read() {
        let manifest = "[package]\nname = \"x\"\n\n[dependencies]\na.workspace = true\n# why\nb = { path = \"..\" }\n\n[dev-dependencies]\nc = \"1\"\n";
        assert_eq!(dependencies(manifest).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let mut findings = Vec::new();
        let page =
            "[map](../ARCHITECTURE.md) [gone](gone.md) [out](https://x.y/z) `crates/gone/src` `crates/rt`\n";
        links(build::root(), "docs/x.md", page, &mut findings);
        assert_eq!(findings.len(), 2, "{findings:?}");
    }

    #[test]
    fn tests_that_do_not_exist_are_found() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("docs")).unwrap();
        std::fs::write(root.path().join("docs/a.rs"), "mod t { fn there(io: Io) {} }").unwrap();
        let text = "- sound: `docs/a.rs::there`.\n- `x` not: `docs/a.rs::elsewhere`, `docs/b.rs::there`\n";
        std::fs::write(root.path().join(SECURITY), text).unwrap();
        let mut findings = Vec::new();
        tests_named(root.path(), SECURITY, &mut findings);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings.iter().all(|finding| finding.starts_with("docs/security.md:2: ")));
    }

    #[test]
    fn faults_are_found() {
        let mut findings = Vec::new();
        source("a.rs", &format!("fn f() {{ {}) }}\n", concat!("todo", "!(")), &mut findings);
        assert_eq!(findings.len(), 2, "{findings:?}");
    }
}
