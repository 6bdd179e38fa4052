//! `explain` prints whatever can be configured: every golden of both front ends and every example, as model and as plan.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use weir_lower::{Options, Resources};
use weir_model::Model;

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
    let texts = wanted.map(|path| (path.clone(), std::fs::read_to_string(path).unwrap()));
    texts.collect()
}

fn nginx(name: &str, input: &str) -> Model {
    let mut files = weir_nginx::Memory::default();
    let mut main = None;
    for section in input.split("=== ").skip(1) {
        let (name, text) = section.split_once('\n').unwrap();
        main.get_or_insert(PathBuf::from(name));
        files.files.insert(name.into(), text.as_bytes().to_vec());
    }
    let main = main.unwrap_or_else(|| {
        files.files.insert(name.into(), input.as_bytes().to_vec());
        name.into()
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

/// Prints both; says what is wrong. True if there was a plan to print.
fn explained(name: &Path, model: &Model) -> bool {
    let check = |what: &str, text: &str| {
        assert!(!text.contains("cannot be printed"), "{what} of {}: {text}", name.display());
        assert!(!text.contains("!!") && text.contains(':'), "{what} of {}: {text}", name.display());
    };
    check("model", &weir_lower::explain(model));
    let options = Options { tolerate_unreadable_files: true };
    let (plan, _) = weir_lower::lower(model, &NoFiles, &options);
    plan.inspect(|plan| check("plan", &weir_lower::explain_plan(plan))).is_some()
}

#[test]
fn every_golden_and_example_can_be_explained() {
    let mut models = Vec::new();
    for (path, text) in texts_in(&crates().join("nginx/tests/goldens"), &["txt"]) {
        let input = text.split("=== diagnostics\n").next().unwrap().to_owned();
        models.push((nginx("/etc/nginx/nginx.conf", &input), path));
    }
    for (path, text) in texts_in(&crates().join("haproxy/tests/goldens"), &["txt"]) {
        let input = text.split("==== model\n").next().unwrap().to_owned();
        models.push((haproxy(&input), path));
    }
    let examples = crates().parent().unwrap().join("examples");
    for folder in ["elb", "demo"] {
        for (path, text) in texts_in(&examples.join(folder), &["conf", "cfg"]) {
            let is_haproxy = path.extension().is_some_and(|extension| extension == "cfg");
            models.push((
                if is_haproxy { haproxy(&text) } else { nginx("/etc/nginx/nginx.conf", &text) },
                path,
            ));
        }
    }
    let count = models.len();
    let planned = models.iter().filter(|(model, path)| explained(path, model)).count();
    assert!(count > 30 && planned * 2 > count, "{planned} plans of {count} models");
}
