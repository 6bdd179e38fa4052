//! Claims that a configuration makes: what is accepted has somebody who reads it.
//!
//! Owns: the search for fields of the plan and of the shared settings that nobody reads, and for directives and keywords
//! that are called built and lower to nothing.
//! Never: understands Rust. A field is read where its name stands behind a dot, or where its struct is taken apart; two
//! fields of one name stand for each other. What it finds is wrong; what it does not find may be wrong all the same.
//! Driven by: `tidy`.
//! Why: a setting that is parsed, carried, printed and documented, and then read by nobody, looks built to everybody
//! but the user.

use std::path::Path;

use crate::tidy::{rust_files, shown};

/// Fields that nobody reads, why, and what will.
const UNREAD: &[(&str, &str)] = &[
    ("Process.control", "the binary answers commands, beside the engine"),
    ("AccessLog.asks_for_answer", "a route's features gather it, for whoever asks them"),
];

/// Words that are called built and lower to nothing, and why.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("no-sslv3", "Weir never speaks it"),
    ("no-tlsv10", "Weir never speaks it"),
    ("no-tlsv11", "Weir never speaks it"),
];

/// Who reads a plan: the data plane, and the plan's own look-ups.
const PLAN_READERS: &[&str] = &["engine", "admin", "plan"];
/// Settings are also read by whoever compiles them, or gives a verdict by them, and by the binary beside the engine.
const SETTINGS_READERS: &[&str] = &["acme", "engine", "admin", "plan", "policy", "lower", "weir"];
/// Who hands a part of the plan to a crate that acts by it, and has no plan.
const PLAN_READER_BESIDE: &str = "crates/weir/src/issuing.rs";

/// Files that copy, print or check what they do not act by.
const COPIES: &[&str] =
    &["plan/src/part.rs", "plan/src/show.rs", "plan/src/features.rs", "lower/src/check.rs"];

pub(crate) fn check(root: &Path, findings: &mut Vec<String>) {
    let plan = fields(&sources(root, "plan"));
    let settings: Vec<Source> =
        sources(root, "expr").into_iter().filter(|file| file.shown.contains("settings")).collect();
    let plan_readers = format!("{}\n{}", readers(root, PLAN_READERS), bare(&root.join(PLAN_READER_BESIDE)));
    unread(&plan, &plan_readers, findings);
    let gathered = bare(&root.join("crates/plan/src/features.rs"));
    flags(&gathered, &plan_readers, findings);
    unread(&fields(&settings), &readers(root, SETTINGS_READERS), findings);
    nginx(root, findings);
    haproxy(root, findings);
}

/// A file without its comments and unit tests.
struct Source {
    shown: String,
    text: String,
}

fn sources(root: &Path, name: &str) -> Vec<Source> {
    let files = rust_files(&root.join("crates").join(name).join("src"));
    files
        .into_iter()
        .map(|file| Source { shown: shown(root, &file), text: bare(&file) })
        .filter(|file| !file.shown.contains("/tests"))
        .collect()
}

fn bare(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn readers(root: &Path, crates: &[&str]) -> String {
    let all = crates.iter().flat_map(|name| sources(root, name));
    let acting = all.filter(|file| !COPIES.iter().any(|copy| file.shown.ends_with(copy)));
    acting.map(|file| file.text).collect::<Vec<_>>().join("\n")
}

/// `(struct, field)` of every public field.
fn fields(files: &[Source]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for file in files {
        let mut owner = None;
        for line in file.text.lines() {
            let line = line.trim();
            if let Some(rest) = line.strip_prefix("pub struct ").filter(|_| line.ends_with('{')) {
                owner = Some(word(rest).to_owned());
            } else if line == "}" {
                owner = None;
            } else if let (Some(owner), Some(rest)) = (&owner, line.strip_prefix("pub ")) {
                let name = word(rest);
                if rest[name.len()..].starts_with(':') {
                    found.push((owner.clone(), name.to_owned()));
                }
            }
        }
    }
    found
}

fn unread(fields: &[(String, String)], readers: &str, findings: &mut Vec<String>) {
    for (owner, field) in fields {
        let name = format!("{owner}.{field}");
        let excepted = UNREAD.iter().any(|(known, _)| *known == name);
        match (is_read(owner, field, readers), excepted) {
            (false, false) => findings.push(format!(
                "{name}: nobody reads it; build what it promises, or remove it with what writes it"
            )),
            (true, true) => findings.push(format!("{name} has a reader: strike it from xtask's list")),
            _ => {}
        }
    }
}

/// Flags of routes that nobody asks for, by themselves or as one of those that are asked for together.
fn flags(declared: &str, readers: &str, findings: &mut Vec<String>) {
    let together = declared.split("const BEFORE_ACTION").nth(1).and_then(|rest| rest.split(';').next());
    let names =
        |text: &str, start: &str, name: &str| text.split(start).skip(1).any(|rest| word(rest) == name);
    for line in declared.lines() {
        let Some(rest) = line.trim().strip_prefix("const ").filter(|rest| rest.contains(" = 1")) else {
            continue;
        };
        let name = word(rest);
        if !names(readers, "RouteFeatures::", name) && !names(together.unwrap_or_default(), "Self::", name) {
            findings
                .push(format!("RouteFeatures::{name}: nobody asks for it; remove it, or build what asks"));
        }
    }
}

fn is_read(owner: &str, field: &str, readers: &str) -> bool {
    behind_a_dot(field, readers) || taken_apart(owner, field, readers)
}

/// `.field` that is neither called nor assigned.
fn behind_a_dot(field: &str, text: &str) -> bool {
    let dotted = format!(".{field}");
    text.match_indices(&dotted).any(|(at, _)| {
        let rest = &text[at + dotted.len()..];
        let ends = !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let next = rest.trim_start();
        let assigned = next.starts_with('=') && !next.starts_with("==") && !next.starts_with("=>");
        ends && !next.starts_with('(') && !assigned
    })
}

/// `let Owner { …, field, … } =`.
fn taken_apart(owner: &str, field: &str, text: &str) -> bool {
    text.split(&format!("{owner} {{")).skip(1).any(|rest| {
        let (inside, after) = rest.split_once('}').unwrap_or_default();
        after.trim_start().starts_with('=') && inside.split(',').any(|part| part.trim() == field)
    })
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

fn nginx(root: &Path, findings: &mut Vec<String>) {
    let tables = sources(root, "nginx").into_iter().filter(|file| file.shown.contains("/table/"));
    let lower: String =
        sources(root, "nginx").into_iter().filter(|f| !f.shown.contains("/table/")).map(|f| f.text).collect();
    for table in tables {
        for entry in table.text.split("Entry::").skip(1) {
            let starts = ["one(", "new("].iter().any(|start| entry.starts_with(start));
            let Some(name) = name_of(entry).filter(|_| starts) else { continue };
            let other = [".tuning(", ".not_yet(", ".removed("].iter().any(|status| entry.contains(status));
            if !other && !has_effect(entry, &name, &lower) {
                without_effect("nginx", &name, findings);
            }
        }
    }
}

/// The name of an entry: its first text, or the second of `concat!($prefix, "name")`.
fn name_of(entry: &str) -> Option<String> {
    entry.split('"').nth(1).filter(|name| !name.is_empty() && !name.contains(' ')).map(Into::into)
}

fn has_effect(entry: &str, name: &str, lower: &str) -> bool {
    let how = [".scope(", ".place(", ".server(", ".pool(", ".stream(", ".process(", ".shared("];
    let Some((kind, taker)) = how.iter().find_map(|how| Some((*how, entry.split_once(how)?.1))) else {
        // Its block reads it by name.
        return lower.contains(&format!("\"{name}\""));
    };
    // What is written is the first parameter for the process and for tables, the second for all others.
    let written = usize::from(!matches!(kind, ".process(" | ".shared("));
    let is_used = |parameters: &str| {
        let parameter = parameters.split(',').nth(written).unwrap_or_default().trim();
        !parameter.is_empty() && parameter != "_" && !parameter.starts_with("_:")
    };
    match taker.trim_start().strip_prefix('|') {
        Some(closure) => is_used(closure.split('|').next().unwrap_or_default()),
        None => {
            let path = taker.split([')', ',']).next().unwrap_or_default();
            let function = format!("fn {}(", path.trim().rsplit("::").next().unwrap_or_default());
            // Modules may have functions of one name: one that writes suffices.
            lower.split(&function).skip(1).any(|rest| is_used(rest.split(')').next().unwrap_or_default()))
        }
    }
}

fn haproxy(root: &Path, findings: &mut Vec<String>) {
    let all = sources(root, "haproxy");
    let text = |part: &str| -> String {
        all.iter().filter(|file| file.shown.contains(part)).map(|file| file.text.as_str()).collect()
    };
    let (tables, words) = (text("/table/"), text("/words/"));
    // Parameters of a section whose lines are no proxy's are read where the section is.
    let (takers, builders) = (text("/take/"), text("/build/") + &text("/sections/"));
    for entry in tables.split("word(").skip(1) {
        let Some(name) = entry.split('"').nth(1) else { continue };
        let taker = ["Global(", "Proxy("].iter().find_map(|kind| Some(entry.split_once(kind)?.1));
        let Some(path) = taker.and_then(|rest| rest.split(')').next()) else { continue };
        let function = format!("fn {}(_:", path.rsplit("::").next().unwrap_or_default());
        if takers.contains(&function) {
            without_effect("haproxy", name, findings);
        }
    }
    for entry in words.split("parameter(").skip(1) {
        let Some(name) = entry.split('"').nth(1) else { continue };
        let built = entry.split(')').next().unwrap_or_default().trim_end_matches([',', '\n', ' ']);
        let read = [&takers, &builders].iter().any(|text| text.contains(&format!("\"{name}\"")));
        let base = name.strip_prefix("no-").unwrap_or(name);
        if built.ends_with("Built") && !read && !builders.contains(&format!("\"{base}\"")) {
            without_effect("haproxy", name, findings);
        }
    }
}

fn without_effect(language: &str, name: &str, findings: &mut Vec<String>) {
    if !WITHOUT_EFFECT.iter().any(|(known, _)| *known == name) {
        findings.push(format!("{language}: `{name}` is called built, and lowers to nothing"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_without_a_reader_are_found() {
        let source = Source {
            shown: "a.rs".into(),
            text: "pub struct A {\n    pub read: u8,\n    pub called: u8,\n    pub set: u8,\n    pub apart: u8,\n}\n".into(),
        };
        let readers = "if a.read == 1 { a.called(); a.set = 2; }\nlet A { apart, .. } = a;\na.reads";
        let mut findings = Vec::new();
        unread(&fields(&[source]), readers, &mut findings);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].starts_with("A.called") && findings[1].starts_with("A.set"), "{findings:?}");
    }

    #[test]
    fn flags_that_nobody_asks_for_are_found() {
        let declared = "const ASKED = 1;\nconst TOGETHER = 1 << 1;\nconst NEVER = 1 << 2;\n\
                        pub const BEFORE_ACTION: Self = Self::ASKED.union(Self::TOGETHER);\nSelf::NEVER";
        let mut findings = Vec::new();
        flags(declared, "f.contains(RouteFeatures::ASKED)", &mut findings);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("RouteFeatures::NEVER"), "{findings:?}");
    }

    #[test]
    fn words_that_lower_to_nothing_are_found() {
        let lower =
            "fn warns(lo: &mut Lowering<'_>, _: &mut Scope, d: &Directive) {}\nmatch name { \"read\" => {} }";
        assert!(!has_effect("one(\"a\", H).scope(client::warns),", "a", lower));
        assert!(!has_effect("one(\"a\", H).process(|_, _| {}),", "a", lower));
        assert!(!has_effect("one(\"a\", H),", "a", lower));
        assert!(has_effect("one(\"read\", H),", "read", lower));
        assert!(has_effect("one(\"a\", H).place(|_, place, _| place.internal = true),", "a", lower));
    }
}
