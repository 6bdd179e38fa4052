//! The list of parts (SBOM): which crates are in the program, in CycloneDX 1.5.
//!
//! Owns: the walk over what cargo resolved, from `weir` down, and the JSON.
//! Never: lists what only tests or builds use: a reader asks what runs.
//! Driven by: `package`.
//! Why: cargo knows all of it already. A tool of its own would be built for minutes, and writes a time and a random number.

use super::file::Release;
use crate::build;
use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// The list, as the text of a file.
pub(super) fn list(release: &Release) -> Result<Vec<u8>> {
    let lock = std::fs::read_to_string(build::root().join("Cargo.lock")).context("Cargo.lock")?;
    let document = document(&metadata()?, &checksums(&lock), release)?;
    let mut text = serde_json::to_vec_pretty(&document)?;
    text.push(b'\n');
    Ok(text)
}

fn metadata() -> Result<Value> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(build::root())
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &build::host()?])
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata")
}

fn document(
    metadata: &Value,
    checksums: &BTreeMap<(String, String), String>,
    release: &Release,
) -> Result<Value> {
    let packages: BTreeMap<&str, &Value> =
        array(&metadata["packages"]).filter_map(|one| Some((one["id"].as_str()?, one))).collect();
    let edges: BTreeMap<&str, BTreeSet<&str>> = array(&metadata["resolve"]["nodes"])
        .filter_map(|node| Some((node["id"].as_str()?, array(&node["deps"]).filter_map(running).collect())))
        .collect();
    let root =
        packages.iter().find(|(_, one)| one["name"] == "weir").map(|(id, _)| *id).context("no crate weir")?;
    let reached = reach(root, &edges);
    let part = |id: &str, kind: &str| {
        let package = packages.get(id).with_context(|| format!("cargo names no package {id}"))?;
        Ok::<_, anyhow::Error>(component(package, kind, checksums))
    };
    let below: Vec<Value> =
        reached.iter().filter(|id| **id != root).map(|id| part(id, "library")).collect::<Result<_>>()?;
    let reference = |id: &&str| packages.get(id).map(|package| purl(package));
    let needs: Vec<Value> = reached
        .iter()
        .map(|id| {
            let on: BTreeSet<String> = edges.get(id).into_iter().flatten().filter_map(reference).collect();
            json!({ "ref": reference(id), "dependsOn": on })
        })
        .collect();
    let time = jiff::Timestamp::from_second(release.epoch.try_into()?)?;
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time.to_string(),
            "tools": { "components": [{ "type": "application", "name": "cargo xtask package", "version": release.number }] },
            "component": part(root, "application")?,
        },
        "components": below,
        "dependencies": needs,
    }))
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The package that an edge leads to, unless only tests or build scripts go there.
fn running(edge: &Value) -> Option<&str> {
    let normal = array(&edge["dep_kinds"]).any(|kind| kind["kind"].is_null());
    if normal { edge["pkg"].as_str() } else { None }
}

fn reach<'a>(root: &'a str, edges: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::from([root]);
    let mut open = vec![root];
    while let Some(id) = open.pop() {
        for next in edges.get(id).into_iter().flatten() {
            if reached.insert(next) {
                open.push(next);
            }
        }
    }
    reached
}

fn purl(package: &Value) -> String {
    format!("pkg:cargo/{}@{}", text(package, "name"), text(package, "version").replace('+', "%2B"))
}

fn text<'a>(package: &'a Value, field: &str) -> &'a str {
    package[field].as_str().unwrap_or_default()
}

fn component(package: &Value, kind: &str, checksums: &BTreeMap<(String, String), String>) -> Value {
    let mut part = Map::new();
    let purl = purl(package);
    part.insert("type".into(), kind.into());
    part.insert("bom-ref".into(), purl.clone().into());
    part.insert("name".into(), package["name"].clone());
    part.insert("version".into(), package["version"].clone());
    if let Some(about) = package["description"].as_str() {
        part.insert("description".into(), about.trim().into());
    }
    if let Some(license) = package["license"].as_str() {
        // Older crates write `MIT/Apache-2.0`, which is no expression of SPDX.
        part.insert("licenses".into(), json!([{ "expression": license.replace('/', " OR ") }]));
    }
    part.insert("purl".into(), purl.into());
    let key = (text(package, "name").to_owned(), text(package, "version").to_owned());
    if let Some(sum) = checksums.get(&key) {
        part.insert("hashes".into(), json!([{ "alg": "SHA-256", "content": sum }]));
    }
    Value::Object(part)
}

/// What Cargo.lock says each archive's SHA-256 is, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let field = |package: &str, name: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    lock.split("[[package]]")
        .filter_map(|one| Some(((field(one, "name")?, field(one, "version")?), field(one, "checksum")?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_tests_use_is_no_part() {
        let package = |name: &str| json!({ "id": name, "name": name, "version": "1.0.0+x", "license": "MIT/Apache-2.0", "description": " does it\n" });
        let edge = |to: &str, kind: Value| json!({ "pkg": to, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [package("weir"), package("used"), package("below"), package("tested"), package("builds")],
            "resolve": { "nodes": [
                { "id": "weir", "deps": [edge("used", Value::Null), edge("tested", "dev".into()), edge("builds", "build".into())] },
                { "id": "used", "deps": [edge("below", Value::Null)] },
            ] },
        });
        let lock = "[[package]]\nname = \"used\"\nversion = \"1.0.0+x\"\nchecksum = \"abc\"\n";
        let release = Release {
            number: "1.0.0".into(),
            epoch: 86400,
            compression: String::new(),
            architecture: String::new(),
        };
        let document = document(&metadata, &checksums(lock), &release).unwrap();
        let names: Vec<_> =
            array(&document["components"]).map(|part| part["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["below", "used"]);
        let used = &document["components"][1];
        assert_eq!(used["purl"], "pkg:cargo/used@1.0.0%2Bx");
        assert_eq!(used["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(used["hashes"][0]["content"], "abc");
        assert_eq!(document["metadata"]["timestamp"], "1970-01-02T00:00:00Z");
        assert_eq!(document["metadata"]["component"]["name"], "weir");
    }
}
