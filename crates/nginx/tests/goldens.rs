//! One file a case under `goldens/`: texts in, model and diagnostics out. `UPDATE_EXPECT=1` writes what comes out.
//!
//! ```text
//! === /etc/nginx/nginx.conf      a text; several may stand, the first is the main file
//! …
//! === diagnostics                as drawn for a terminal
//! === model                      YAML, without what nginx's defaults say of every site (see `shorten`)
//! ```

#![allow(clippy::unwrap_used, reason = "a test helper may stop the test")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use weir_nginx::{Memory, Options, Status, load};

#[test]
fn goldens() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "txt"));
    paths.sort();
    assert!(!paths.is_empty());
    let failed: Vec<String> = paths.iter().filter_map(|path| check(path)).collect();
    assert!(failed.is_empty(), "{}\nUPDATE_EXPECT=1 rewrites them", failed.join("\n"));
}

/// Compares one case; what differs is returned.
fn check(path: &Path) -> Option<String> {
    let golden = std::fs::read_to_string(path).unwrap();
    let input = match golden.find("=== diagnostics\n") {
        Some(at) => &golden[..at],
        None => &golden,
    };
    let actual = format!("{input}{}", outcome(input));
    if actual == golden {
        return None;
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, actual).unwrap();
        return None;
    }
    let line = actual.lines().zip(golden.lines()).position(|(a, b)| a != b).unwrap_or(0);
    let got = actual.lines().nth(line).unwrap_or("");
    let wanted = golden.lines().nth(line).unwrap_or("");
    Some(format!("{}:{}\n  expected: {wanted}\n  got:      {got}", path.display(), line + 1))
}

fn outcome(input: &str) -> String {
    let mut files = Memory::default();
    let mut main = None;
    for section in input.split("=== ").skip(1) {
        let (name, text) = section.split_once('\n').unwrap();
        main.get_or_insert(PathBuf::from(name));
        // Bytes that no editor shows are written as `<0D>`.
        files.files.insert(name.into(), unhex(text));
    }
    let loaded = load(&files, &main.unwrap(), &Options::default());
    let mut out = String::from("=== diagnostics\n");
    for found in &loaded.diagnostics {
        out.push_str(&weir_diag::render_terminal(found, &loaded.sources, false));
    }
    out.push_str("=== model\n");
    let mut model = serde_json::to_value(&loaded.model).unwrap();
    shorten(&mut model);
    let _ = write!(out, "{}", serde_norway::to_string(&model).unwrap());
    out
}

fn unhex(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        if let [b'<', a, b, b'>', after @ ..] = rest
            && let Ok(byte) = u8::from_str_radix(&String::from_utf8_lossy(&[*a, *b]), 16)
        {
            out.push(byte);
            rest = after;
            continue;
        }
        out.push(*first);
        rest = tail;
    }
    out
}

/// Takes out of every node what equals the same node of an empty configuration, so that goldens show what was meant.
fn shorten(model: &mut Value) {
    let files = Memory::with(
        "/etc/nginx/nginx.conf",
        "events {} http { upstream u { server 10.9.9.9; } server { location / {} } }",
    );
    let plain = load(&files, Path::new("/etc/nginx/nginx.conf"), &Options::default());
    let plain = serde_json::to_value(&plain.model).unwrap();
    for (key, value) in model.as_object_mut().unwrap().iter_mut() {
        match (value, plain.get(key)) {
            (Value::Object(own), Some(Value::Object(default))) => drop_equal(own, default),
            (Value::Array(nodes), Some(Value::Array(defaults))) => {
                let Some(Value::Object(default)) = defaults.first() else { continue };
                for node in nodes.iter_mut().filter_map(Value::as_object_mut) {
                    drop_equal(node, default);
                }
            }
            _ => {}
        }
    }
    drop_empty(model);
}

fn drop_equal(own: &mut Map<String, Value>, default: &Map<String, Value>) {
    own.retain(|key, value| {
        let same = default.get(key);
        if let (Value::Object(value), Some(Value::Object(same))) = (&mut *value, same) {
            drop_equal(value, same);
            return !value.is_empty();
        }
        let absent = |value: &Value| *value == Value::Null || *value == Value::Array(vec![]);
        if absent(value) && same.is_some_and(|same| !absent(same)) {
            *value = Value::from("none");
            return true;
        }
        same != Some(value) || matches!(key.as_str(), "name" | "matching" | "action" | "address")
    });
}

/// Drops nulls, `false` and empty lists, which say what is absent anyway.
fn drop_empty(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.iter_mut().for_each(|(_, value)| drop_empty(value));
            map.retain(|_, value| {
                !matches!(value, Value::Null | Value::Bool(false)) && *value != Value::Array(vec![])
            });
        }
        Value::Array(list) => list.iter_mut().for_each(drop_empty),
        _ => {}
    }
}

/// The list in docs/nginx.md, from the table of directives: what is the same, what differs and how, what is absent.
#[test]
fn the_manual_lists_every_directive_and_variable() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/nginx.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- directives:begin -->\n", "<!-- directives:end -->");
    let (before, rest) = page.split_once(begin).expect("the page has a list");
    let (_, after) = rest.split_once(end).expect("and its end");
    let wanted = format!("{before}{begin}{}{}{end}{after}", directives(), variables());
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    assert!(page == wanted || std::env::var_os("UPDATE_EXPECT").is_some(), "run with UPDATE_EXPECT=1");
}

fn directives() -> String {
    let rows = weir_nginx::compatibility();
    let mut modules: Vec<&str> = Vec::new();
    for row in &rows {
        if !modules.contains(&row.module) {
            modules.push(row.module);
        }
    }
    let mut out = String::new();
    for module in modules {
        let of = || rows.iter().filter(|row| row.module == module);
        let _ = writeln!(out, "### {module}\n");
        let same = of().filter(|row| row.status == Status::Built);
        let mut same: Vec<String> = same.map(|row| format!("`{}`", row.name)).collect();
        same.dedup();
        if !same.is_empty() {
            let _ = writeln!(out, "{}\n", same.join(", "));
        }
        let mut others: Vec<String> = Vec::new();
        for row in of().filter(|row| row.status != Status::Built) {
            let how = match row.status {
                Status::TuningOnly => "ignored with a warning",
                Status::NotYet => "absent, an error",
                _ => "removed from nginx, an error",
            };
            let line = format!("| `{}` | {how} | {} |\n", row.name, row.note.replace('|', "\\|"));
            if !others.contains(&line) {
                others.push(line);
            }
        }
        if !others.is_empty() {
            let _ = writeln!(out, "| directive | | why |\n|---|---|---|\n{}", others.concat());
        }
    }
    out
}

fn variables() -> String {
    let all = weir_nginx::variables();
    let list = |built: bool| {
        let names = all.iter().filter(|(_, is)| *is == built);
        let names: Vec<String> = names
            .map(|(name, _)| match name.ends_with('_') {
                true => format!("`${name}…`"),
                false => format!("`${name}`"),
            })
            .collect();
        names.join(", ")
    };
    format!(
        "### Variables\n\nThe same: {}\n\nAbsent, an error where they are used: {}\n\n",
        list(true),
        list(false)
    )
}
