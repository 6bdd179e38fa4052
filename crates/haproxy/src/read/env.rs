//! The environment a configuration is read in.
//!
//! Owns: names and values, and what `setenv`, `presetenv`, `unsetenv` and `resetenv` do to them while reading.
//! Never: touches the process's own environment; the binary hands it in.
//! Driven by: `read`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::condition::VERSION;
use super::formats;

/// Names and values. HAProxy changes them while it reads (`setenv`), so later lines see earlier changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Env {
    all: BTreeMap<String, String>,
    /// The command line says what this process is called among peers.
    pub(crate) names_peer: bool,
}

impl Env {
    /// An environment of these.
    pub(crate) fn new(all: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { all: all.into_iter().collect(), names_peer: false }
    }

    /// Sets what HAProxy tells its configuration about itself (configuration manual 2.4). The formats are those of
    /// `option httplog` and its kin.
    pub(crate) fn describe(&mut self, files: &[PathBuf], local_peer: &str) {
        let files: Vec<_> = files.iter().map(|path| path.to_string_lossy()).collect();
        self.set("HAPROXY_CFGFILES", &files.join(";"));
        self.set("HAPROXY_LOCALPEER", local_peer);
        let [major, minor, _] = VERSION;
        self.set("HAPROXY_BRANCH", &format!("{major}.{minor}"));
        for (name, format) in [
            ("HAPROXY_TCP_LOG_FMT", formats::TCP),
            ("HAPROXY_HTTP_LOG_FMT", formats::HTTP),
            ("HAPROXY_HTTPS_LOG_FMT", &format!("{}{}", formats::HTTP, formats::HTTPS_TAIL)),
            ("HAPROXY_HTTP_CLF_LOG_FMT", formats::CLF),
        ] {
            self.set(name, format);
        }
    }

    /// The value, if the name is set.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.all.get(name).map(String::as_str)
    }

    /// `setenv`.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.all.insert(name.to_owned(), value.to_owned());
    }

    /// `presetenv`: only where it is not set yet.
    pub(crate) fn preset(&mut self, name: &str, value: &str) {
        self.all.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }

    /// `unsetenv`.
    pub(crate) fn unset(&mut self, name: &str) {
        self.all.remove(name);
    }

    /// `resetenv`: keeps only these.
    pub(crate) fn keep_only(&mut self, names: &[&str]) {
        self.all.retain(|name, _| names.contains(&name.as_str()));
    }
}
