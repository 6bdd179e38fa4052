//! Documents: what the other front ends mean is carried whole (every golden of theirs and every example becomes a document
//! that is read again to the same model and lowers to the same plan), mistakes are told as the golden says
//! (`UPDATE_EXPECT=1` rewrites it), examples mean what they say, differences are few lines.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use weir_lower::{Options, Resources};
use weir_model::Model;
use weir_native::{Loaded, Style, differences, document, read, to_long_yaml, to_yaml};

/// Files that a plan names are not there; tolerated, as `explain` does.
struct NoFiles;

impl Resources for NoFiles {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        Err(io::Error::new(io::ErrorKind::NotFound, path.display().to_string()))
    }

    fn addresses(&self, host: &str) -> Vec<IpAddr> {
        host.parse().into_iter().collect()
    }
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn texts_in(folder: &Path, extensions: &[&str]) -> Vec<(PathBuf, String)> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let wanted = files.filter(|path| {
        path.extension().is_some_and(|extension| extensions.iter().any(|wanted| extension == *wanted))
    });
    let mut texts: Vec<_> =
        wanted.map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect();
    texts.sort();
    texts
}

fn nginx(input: &str) -> Model {
    let mut files = weir_nginx::Memory::default();
    let mut main = None;
    for section in input.split("=== ").skip(1) {
        let (name, text) = section.split_once('\n').unwrap();
        main.get_or_insert(PathBuf::from(name));
        files.files.insert(name.into(), text.as_bytes().to_vec());
    }
    let main = main.unwrap_or_else(|| {
        files.files.insert("/etc/nginx/nginx.conf".into(), input.as_bytes().to_vec());
        "/etc/nginx/nginx.conf".into()
    });
    weir_nginx::load(&files, &main, &weir_nginx::Options::default()).model
}

fn haproxy(input: &str) -> Model {
    let main = input.split("%% ").next().unwrap();
    let files = weir_haproxy::Memory::default().with("haproxy.cfg".to_owned(), main.to_owned());
    let env = vec![("FE_PORT".into(), "8080".into()), ("HOME".into(), "/root".into())];
    weir_haproxy::load(&files, &["haproxy.cfg".into()], &weir_haproxy::Options { env, ..Default::default() })
        .model
}

fn models() -> Vec<(PathBuf, Model)> {
    let mut models = Vec::new();
    for (path, text) in texts_in(&crates().join("nginx/tests/goldens"), &["txt"]) {
        models.push((path, nginx(text.split("=== diagnostics\n").next().unwrap())));
    }
    for (path, text) in texts_in(&crates().join("haproxy/tests/goldens"), &["txt"]) {
        models.push((path, haproxy(text.split("==== model\n").next().unwrap())));
    }
    for folder in ["elb", "demo"] {
        for (path, text) in
            texts_in(&crates().parent().unwrap().join("examples").join(folder), &["conf", "cfg"])
        {
            let is_haproxy = path.extension().is_some_and(|extension| extension == "cfg");
            models.push((path, if is_haproxy { haproxy(&text) } else { nginx(&text) }));
        }
    }
    models
}

fn exact(model: &Model) -> String {
    let style = Style { secrets: true, defaults: true, nested: false };
    to_long_yaml(&document(model, style).unwrap())
}

fn plan(model: &Model) -> Option<String> {
    let options = Options { tolerate_unreadable_files: true };
    weir_lower::lower(model, &NoFiles, &options).0.map(|plan| weir_lower::explain_plan(&plan))
}

/// What differs first, with a few lines around it.
fn difference(what: &str, path: &Path, one: &str, other: &str) -> Option<String> {
    if one == other {
        return None;
    }
    let at = one.lines().zip(other.lines()).position(|(a, b)| a != b).unwrap_or(0);
    let near = |text: &str| text.lines().skip(at.saturating_sub(6)).take(9).collect::<Vec<_>>().join("\n");
    Some(format!("{what} of {} differ\n--- meant\n{}\n--- read\n{}", path.display(), near(one), near(other)))
}

/// Carries a model over; what is wrong with what came of it. `Ok` says whether it has a plan.
fn carry(path: &Path, model: &Model, nested: bool) -> Result<bool, String> {
    let text = to_yaml(&document(model, Style { secrets: true, defaults: false, nested })?);
    let loaded = read(Path::new("converted.yaml"), &text, PathBuf::new());
    if !loaded.diagnostics.is_empty() {
        let told = |found| weir_diag::render_terminal(found, &loaded.sources, false);
        let told: String = loaded.diagnostics.iter().take(5).map(told).collect();
        return Err(format!("{}: {told}", path.display()));
    }
    let (one, other) = (plan(model), plan(&loaded.model));
    let models = difference("models", path, &exact(model), &exact(&loaded.model));
    let plans =
        difference("plans", path, one.as_deref().unwrap_or_default(), other.as_deref().unwrap_or_default());
    models.or(plans).map_or(Ok(one.is_some()), Err)
}

#[test]
fn every_golden_and_example_is_carried_whole() {
    let models = models();
    let flat: Vec<_> = models.iter().map(|(path, model)| carry(path, model, false)).collect();
    let failed: Vec<_> =
        flat.iter().filter_map(|outcome| outcome.as_ref().err()).map(String::as_str).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
    let plans = flat.iter().filter(|outcome| **outcome == Ok(true)).count();
    assert!(models.len() > 30 && plans * 2 > models.len(), "{plans} plans of {} models", models.len());
}

/// Routes in their places keep their numbers, but where HAProxy's frontends refer to backends that stand behind others.
#[test]
fn most_are_carried_with_routes_in_their_places() {
    let models = models();
    let outcomes: Vec<_> = models.iter().map(|(path, model)| (path, carry(path, model, true))).collect();
    let unread = outcomes
        .iter()
        .filter_map(|(_, outcome)| outcome.as_ref().err())
        .find(|error| !error.contains(" differ"));
    assert_eq!(unread, None);
    let of_nginx = outcomes.iter().filter(|(path, _)| path.display().to_string().contains("nginx"));
    let failed: Vec<_> =
        of_nginx.filter_map(|(_, outcome)| outcome.as_ref().err()).map(String::as_str).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

fn drawn(loaded: &Loaded) -> String {
    loaded.diagnostics.iter().map(|found| weir_diag::render_terminal(found, &loaded.sources, false)).collect()
}

#[test]
fn every_mistake_is_told_with_its_place() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/mistakes.txt");
    let golden = std::fs::read_to_string(&path).unwrap();
    let (text, _) = golden.split_once("=== diagnostics\n").unwrap();
    let told = drawn(&read(Path::new("weir.yaml"), text, PathBuf::new()));
    let actual = format!("{text}=== diagnostics\n{told}");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        return std::fs::write(&path, &actual).unwrap();
    }
    assert!(actual == golden, "UPDATE_EXPECT=1 rewrites it\n{told}");
}

#[test]
fn examples_have_plans_and_are_written_as_they_are_read() {
    let examples = texts_in(&crates().parent().unwrap().join("examples/native"), &["yaml"]);
    assert!(examples.len() >= 3);
    for (path, text) in examples {
        let loaded = read(&path, &text, "/etc/weir".into());
        assert!(loaded.diagnostics.is_empty(), "{}", drawn(&loaded));
        let options = Options { tolerate_unreadable_files: true };
        let (plan, found) = weir_lower::lower(&loaded.model, &NoFiles, &options);
        let told = |found| weir_diag::render_terminal(found, &loaded.sources, false);
        assert!(plan.is_some(), "{}: {}", path.display(), found.iter().map(told).collect::<String>());
        carry(&path, &loaded.model, true).unwrap();
    }
}

#[test]
fn short_forms_mean_what_they_stand_for() {
    let meant = |text: &str| {
        let loaded = read(Path::new("weir.yaml"), text, "/etc/weir".into());
        assert!(loaded.diagnostics.is_empty(), "{}", drawn(&loaded));
        exact(&loaded.model)
    };
    let short = "listeners: [':8080']\nsites: [{name: a, names: '*.a.example', routes: [{matching: /x/, action: {proxy: p}}]}]\n\
                 pools: {p: {endpoints: [a.example:80, 'unix:/run/x']}}\n";
    let long = r#"{"listeners": [{"name": ":8080", "address": {"tcp": "0.0.0.0:8080"},
        "service": {"http": {"sites": ["a"], "default": "a"}}}],
        "sites": [{"name": "a", "names": [{"suffix": "a.example"}], "fallback": "otherwise", "routes": [
            {"name": "/x/", "matching": {"prefix": {"path": "/x/", "stop": false, "auto_redirect": false}},
             "action": {"proxy": {"target": {"pool": "p"}}}}]}],
        "routes": [{"name": "otherwise", "action": {"respond": {"status": 404}}}],
        "pools": [{"name": "p", "endpoints": [
            {"name": "a.example:80", "address": {"name": {"host": "a.example", "port": 80, "all_addresses": true}}},
            {"name": "unix:/run/x", "address": {"unix": "/run/x"}}]}]}"#;
    let without_keys =
        |text: String| text.lines().filter(|line| !line.contains("fallback:")).collect::<Vec<_>>().join("\n");
    let sorted = |text: String| {
        let mut lines: Vec<String> = without_keys(text).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(meant(short)), sorted(meant(long)));
}

#[test]
fn relative_paths_start_from_the_folder_of_the_file() {
    let text = "listeners: [{address: ':8443', tls: {default: {certificates: [tls/own.pem]}}}]\n\
                process: {pid_file: weir.pid, error_logs: [{target: {file: error.log}}]}\n\
                sites: [{name: a, routes: [{matching: /, files: {root: html}, access: {basic: {users: {file: passwords}}}}]}]\n";
    let loaded = read(Path::new("weir.yaml"), text, "/etc/weir".into());
    assert!(loaded.diagnostics.is_empty(), "{}", drawn(&loaded));
    let meant = exact(&loaded.model);
    for path in [
        "/etc/weir/tls/own.pem",
        "/etc/weir/weir.pid",
        "/etc/weir/error.log",
        "/etc/weir/html",
        "/etc/weir/passwords",
    ] {
        assert!(meant.contains(path), "{path} in\n{meant}");
    }
}

#[test]
fn secrets_are_shown_only_where_asked_for() {
    let text = "sites: [{name: a, routes: [{matching: /, access: {basic: {users: {list: {joe: {plain: hush}}}}}}]}]\n";
    let loaded = read(Path::new("weir.yaml"), text, PathBuf::new());
    assert!(loaded.diagnostics.is_empty(), "{}", drawn(&loaded));
    let written = |secrets| {
        to_yaml(&document(&loaded.model, Style { secrets, defaults: false, nested: true }).unwrap())
    };
    assert!(written(true).contains("hush") && !written(false).contains("hush"), "{}", written(false));
    let again = read(Path::new("weir.yaml"), &written(false), PathBuf::new());
    assert!(drawn(&again).contains("a secret was left out here"), "{}", drawn(&again));
}

#[test]
fn differences_are_few_lines() {
    let of = |text: &str| {
        let loaded = read(Path::new("weir.yaml"), text, PathBuf::new());
        assert!(loaded.diagnostics.is_empty(), "{}", drawn(&loaded));
        document(&loaded.model, Style { secrets: false, defaults: false, nested: true }).unwrap()
    };
    let one = of("pools: {a: {endpoints: [10.0.0.1:80, 10.0.0.2:80]}, b: {endpoints: [10.0.0.1:80]}}");
    let other =
        of("pools: {a: {balance: ip_hash, endpoints: [10.0.0.1:80, {address: 10.0.0.2:80, weight: 5}]}}");
    let expected = [
        "- pools.a.endpoints.10.0.0.2:80: 10.0.0.2:80",
        r#"+ pools.a.endpoints.10.0.0.2:80: {"address":"10.0.0.2:80","weight":5}"#,
        "+ pools.a.balance: ip_hash",
        r#"- pools.b: {"name":"b","endpoints":["10.0.0.1:80"]}"#,
    ];
    let mut told = differences(&one, &other);
    let mut wanted = expected.map(str::to_owned).to_vec();
    told.sort();
    wanted.sort();
    assert_eq!(told, wanted);
    assert!(differences(&one, &one).is_empty());
}

/// The objects and fields of the model by their own documentation, for docs/native-reference.md.
mod reference {
    use std::fmt::Write as _;
    use std::path::Path;

    use super::{crates, texts_in};

    /// Files of the model and of what it shares, without those that hold no configuration.
    fn sources() -> Vec<String> {
        let mut all = Vec::new();
        for folder in ["model/src", "expr/src", "expr/src/settings"] {
            all.extend(texts_in(&crates().join(folder), &["rs"]).into_iter().map(|(_, text)| text));
        }
        all
    }

    /// The lines of a type's body with their documentation.
    fn members(body: &str) -> Vec<(String, String)> {
        let (mut out, mut about) = (Vec::new(), String::new());
        for line in body.lines() {
            let Some(line) = line.strip_prefix("    ") else { continue };
            if let Some(text) = line.strip_prefix("/// ") {
                about.push_str(text.trim());
                about.push(' ');
            } else if !line.starts_with([' ', '#', '}', '/']) && !line.trim().is_empty() {
                out.push((line.trim_end_matches([',', '{', ' ']).to_owned(), std::mem::take(&mut about)));
            }
        }
        out
    }

    /// A type without its path, and without how it is held.
    fn plain_kind(kind: &str) -> String {
        let held = kind.matches("Arc<").count() + kind.matches("Box<").count();
        let mut text = kind.replace("Arc<", "").replace("Box<", "");
        for path in ["crate::", "std::time::", "std::path::", "std::net::", "weir_expr::", "settings::"] {
            text = text.replace(path, "");
        }
        for _ in 0..held {
            text.pop();
        }
        text
    }

    fn snake(name: &str) -> String {
        let mut out = String::new();
        for (at, letter) in name.char_indices() {
            if at > 0 && letter.is_ascii_uppercase() {
                out.push('_');
            }
            out.push(letter.to_ascii_lowercase());
        }
        out
    }

    fn one_sentence(about: &str) -> String {
        let text = about.replace("[`", "`").replace("`]", "`").replace("crate::", "").replace('|', "\\|");
        let end = text.find(". ").map_or(text.len(), |at| at + 1);
        text[..end].trim().to_owned()
    }

    fn row(out: &mut String, name: &str, kind: &str, default: &str, about: &str) {
        let code = |text: &str| {
            if text.is_empty() { String::new() } else { format!("`{}`", text.replace('|', "\\|")) }
        };
        let _ = writeln!(out, "| `{name}` | {} | {} | {} |", code(kind), code(default), one_sentence(about));
    }

    fn of_type(name: &str, kind: &str, about: &str, body: &str) -> String {
        let mut out = format!("\n### {name}\n\n{}\n\n", one_sentence(about));
        out += if kind == "struct" {
            "| field | kind | default | |\n|---|---|---|---|\n"
        } else {
            "| value | holds | | |\n|---|---|---|---|\n"
        };
        for (line, about) in members(body) {
            if kind == "struct" {
                let Some((field, kind)) = line.strip_prefix("pub ").and_then(|line| line.split_once(": "))
                else {
                    continue;
                };
                if field == "origin" || field.ends_with("_origin") {
                    continue;
                }
                let default = weir_native::default_of(name, field).unwrap_or_default();
                row(&mut out, field, &plain_kind(kind), &default, &about);
            } else {
                let (variant, held) = line.split_once('(').unwrap_or((&line, ""));
                row(&mut out, &snake(variant), &plain_kind(held.trim_end_matches(')')), "", &about);
            }
        }
        out
    }

    fn types() -> Vec<(String, String)> {
        let mut all = Vec::new();
        for text in sources() {
            let mut about = String::new();
            let mut readable = false;
            for (at, _) in text.match_indices('\n') {
                let rest = &text[at + 1..];
                let line = rest.lines().next().unwrap_or_default();
                if let Some(text) = line.strip_prefix("/// ") {
                    about.push_str(text);
                    about.push(' ');
                } else if line.starts_with("#[") {
                    readable |= line.contains("Deserialize");
                } else {
                    let kind =
                        ["struct", "enum"].into_iter().find(|kind| line.starts_with(&format!("pub {kind} ")));
                    let name = line.split_whitespace().nth(2).unwrap_or_default();
                    let name = name.split(['<', '(', ';', ':']).next().unwrap_or_default();
                    if let (Some(kind), true, true) = (kind, readable, line.ends_with('{'))
                        && let Some(end) = rest.find("\n}")
                    {
                        all.push((name.to_owned(), of_type(name, kind, &about, &rest[..end])));
                    }
                    about.clear();
                    readable = false;
                }
            }
        }
        all.sort();
        all
    }

    #[test]
    fn the_page_is_that_of_the_code() {
        let mut page = String::from(
            "# weir.yaml: reference\n\nEvery object and field of [weir.yaml](native.md), from the code. `Vec` is a list, `Option` may be \
             absent, `Template` is text with variables. Fields whose default is empty here are empty, off or absent, or have to be \
             written.\n\n## Variables\n\n",
        );
        let names: Vec<String> =
            weir_expr::text::variable_names().iter().map(|name| format!("`{name}`")).collect();
        page += &names.join(", ");
        page += "\n\n## Objects\n";
        types().into_iter().for_each(|(_, text)| page += &text);
        let path = crates().parent().unwrap().join("docs/native-reference.md");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&path, &page).unwrap();
        }
        let written = std::fs::read_to_string(Path::new(&path)).unwrap_or_default();
        assert!(written == page, "UPDATE_EXPECT=1 rewrites {}", path.display());
    }
}
