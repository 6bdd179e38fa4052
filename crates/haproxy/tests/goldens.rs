//! Goldens: one file per case holds the input, the model and the diagnostics. `UPDATE_EXPECT=1` rewrites them.
//!
//! A case's input may hold further files behind lines `%% NAME`; the first, without a name, is `haproxy.cfg`.

use std::path::{Path, PathBuf};

use weir_haproxy::{Loaded, Memory, Options, load};

const MODEL: &str = "==== model\n";
const FINDINGS: &str = "==== diagnostics\n";

fn read_case(input: &str) -> Loaded {
    let mut files = Memory::default();
    let mut name = "haproxy.cfg".to_owned();
    let mut text = String::new();
    for line in input.split_inclusive('\n') {
        match line.strip_prefix("%% ") {
            Some(next) => {
                files = files
                    .with(std::mem::replace(&mut name, next.trim().to_owned()), std::mem::take(&mut text));
            }
            None => text.push_str(line),
        }
    }
    files = files.with(name, text);
    let options = Options {
        env: vec![("FE_PORT".into(), "8080".into()), ("HOME".into(), "/root".into())],
        ..Options::default()
    };
    load(&files, &["haproxy.cfg".into()], &options)
}

fn render(input: &str) -> String {
    let loaded = read_case(input);
    let model = yaml(&loaded.model);
    let mut out = format!("{input}{MODEL}{}{FINDINGS}", without_defaults(&model));
    for diagnostic in &loaded.diagnostics {
        out += &weir_diag::render_terminal(diagnostic, &loaded.sources, false);
    }
    out
}

/// Enums as maps of one key: YAML tags cannot be nested.
fn yaml(model: &weir_model::Model) -> String {
    let mut out = Vec::new();
    let mut serializer = serde_norway::Serializer::new(&mut out);
    serde_norway::with::singleton_map_recursive::serialize(model, &mut serializer)
        .expect("every model prints");
    drop(serializer);
    String::from_utf8(out).expect("YAML is UTF-8")
}

/// Leaves out what says nothing (`null`, empty lists and maps, `false`), and blocks that every route repeats
/// (`client`, `body`, `files`; sites show the first), so that cases can be read.
fn without_defaults(yaml: &str) -> String {
    let mut out = String::new();
    let (mut section, mut skipping) = (String::new(), false);
    for line in yaml.lines() {
        let text = line.trim_start_matches([' ', '-']);
        let indent = line.len() - text.len();
        if indent == 0 {
            section = text.to_owned();
        }
        if indent <= 2 {
            skipping = section == "routes:" && matches!(text, "client:" | "body:" | "files:");
        }
        let quiet = [": null", ": []", ": {}", ": false"].iter().any(|end| line.ends_with(end))
            && !line.contains("- ");
        if !skipping && !quiet {
            out += line;
            out.push('\n');
        }
    }
    out
}

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens");
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("the goldens").map(|e| e.expect("an entry").path()).collect();
    all.sort();
    all
}

#[test]
fn goldens() {
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut failed = Vec::new();
    for path in cases() {
        let kept = std::fs::read_to_string(&path).expect("a golden");
        let input = kept.split(MODEL).next().expect("an input");
        let now = render(input);
        if now == kept {
            continue;
        }
        if update {
            std::fs::write(&path, now).expect("a golden is written");
        } else {
            let differs = now.lines().zip(kept.lines()).position(|(a, b)| a != b);
            let at = differs.unwrap_or_else(|| now.lines().count().min(kept.lines().count()));
            let line = |text: &str| text.lines().nth(at).unwrap_or("(end)").to_owned();
            failed.push(format!(
                "{}:{}\n  kept: {}\n  now:  {}",
                path.display(),
                at + 1,
                line(&kept),
                line(&now)
            ));
        }
    }
    assert!(failed.is_empty(), "run with UPDATE_EXPECT=1 and read the difference:\n{}", failed.join("\n"));
}

/// docs/haproxy-words.md, from the tables of words.
#[test]
fn the_manual_lists_every_word() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/haproxy-words.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let begin = "<!-- words:begin -->\n";
    let (before, _) = page.split_once(begin).expect("the page has tables");
    let cell = |text: &str| text.replace('|', "\\|");
    let mut tables = String::new();
    for section in ["global", "defaults", "frontend", "backend", "bind", "server"] {
        let what = if matches!(section, "bind" | "server") { "Parameters of" } else { "Keywords of" };
        tables += &format!("\n## {what} `{section}`\n\n| word | status | |\n|---|---|---|\n");
        for entry in weir_haproxy::entries().iter().filter(|entry| entry.sections.contains(&section)) {
            let told = if entry.note.is_empty() { entry.doc } else { entry.note };
            let name = entry.name.rsplit("… ").next().unwrap_or_default();
            tables += &format!("| `{}` | {} | {} |\n", cell(name), entry.status, cell(told));
        }
    }
    tables += "\n## Actions of rules\n\n| action | rules | status |\n|---|---|---|\n";
    for action in weir_haproxy::actions() {
        let note = if action.note.is_empty() { String::new() } else { format!(": {}", cell(action.note)) };
        tables +=
            &format!("| `{}` | {} | {}{note} |\n", action.name, action.places.join(", "), action.status);
    }
    for (title, all) in
        [("Sample fetches", weir_haproxy::fetches()), ("Converters", weir_haproxy::converters())]
    {
        for status in ["built", "not built"] {
            let names =
                all.iter().filter(|word| word.status == status).map(|word| format!("`{}`", word.name));
            tables += &format!("\n## {title}: {status}\n\n{}\n", names.collect::<Vec<_>>().join(" "));
        }
    }
    let wanted = format!("{before}{begin}{tables}");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &wanted).unwrap();
        return;
    }
    assert!(page == wanted, "run with UPDATE_EXPECT=1");
}
