//! What the admin API decides over what the files say.
//!
//! Owns: [`Layer`]: whole objects, or a whole document; putting it over a document; what it decides otherwise than the files.
//! Never: knows what a field means.
//! Driven by: `compile`, once the files are understood; the admin API, which makes layers.
//! Why objects, and not the difference of texts: the files stay what operators read and edit. An object that nobody changed through the API is
//! as the files have it, after a reload too ([why](../../../../docs/decisions/changes.md)).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_diag::Diagnostic;
use weir_native::Plain;

use super::document::{find, put};

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Layer {
    /// A document in place of the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) whole: Option<Plain>,
    /// By section and key, with a slash between: no section's name has one.
    #[serde(default)]
    pub(crate) objects: BTreeMap<String, Decided>,
}

/// An object as the API has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Decided {
    /// What holds; `None`: there is none.
    pub(crate) object: Option<Plain>,
    /// What there was in its place when it was first decided.
    pub(crate) before: Option<Plain>,
}

impl Layer {
    /// Whether the files decide alone.
    pub(crate) fn is_empty(&self) -> bool {
        self.whole.is_none() && self.objects.is_empty()
    }

    /// The document with this over it.
    pub(crate) fn over(&self, base: &Plain) -> Plain {
        let mut document = self.whole.as_ref().unwrap_or(base).clone();
        for (name, decided) in &self.objects {
            let (section, key) = parts(name);
            put(&mut document, section, key, decided.object.as_ref());
        }
        document
    }

    /// The layer with one more object decided. `base`: what the files say.
    pub(crate) fn with(&self, section: &str, key: &str, object: Option<Plain>, base: &Plain) -> Self {
        let mut layer = self.clone();
        let below = layer.whole.as_ref().unwrap_or(base);
        let below = find(below, section, key).cloned();
        let name = format!("{section}/{key}");
        if below == object {
            layer.objects.remove(&name);
        } else {
            let before = layer.objects.remove(&name).map_or(below, |decided| decided.before);
            layer.objects.insert(name, Decided { object, before });
        }
        layer
    }

    /// What it decides, by name.
    pub(crate) fn names(&self) -> Vec<String> {
        let whole = self.whole.iter().map(|_| "all".to_owned());
        whole.chain(self.objects.keys().cloned()).collect()
    }

    /// What operators who changed the files have to know.
    pub(crate) fn findings(&self, base: &Plain) -> Vec<Diagnostic> {
        if self.whole.is_some() {
            let title = "the configuration that the admin API was given holds as a whole, not the files";
            let help = "DELETE /v1/config gives the word back to the files";
            return vec![Diagnostic::warning("admin::decided-by-api", title).help(help)];
        }
        let one = |(name, decided): (&String, &Decided)| {
            let (section, key) = parts(name);
            let now = find(base, section, key);
            let changed = now != decided.before.as_ref();
            if changed && key.contains('#') {
                let title = format!(
                    "{name}: the admin API decided about it, and the files have another object there now"
                );
                let help = "roll back to a version before that, or give the object a key or a name of its own in the files";
                return Some(Diagnostic::error("admin::moved", title).help(help));
            }
            if now == decided.object.as_ref() {
                return None;
            }
            let more = if changed { ", although the files changed it since" } else { "" };
            let title = format!("{name}: what the admin API was told holds, not what the files say{more}");
            Some(Diagnostic::warning("admin::decided-by-api", title))
        };
        self.objects.iter().filter_map(one).collect()
    }
}

fn parts(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or((name, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Plain {
        weir_native::plain(text).unwrap()
    }

    #[test]
    fn objects_are_decided_one_by_one_and_given_back() {
        let base = plain("{pools: [{name: a, x: 1}, {name: b}], process: {workers: 1}}");
        let layer = Layer::default()
            .with("pools", "a", Some(plain("{name: a, x: 2}")), &base)
            .with("pools", "b", None, &base)
            .with("sites", "s", Some(plain("{name: s}")), &base)
            .with("process", "", Some(plain("{workers: 2}")), &base);
        let over = plain("{pools: [{name: a, x: 2}], process: {workers: 2}, sites: [{name: s}]}");
        assert_eq!(layer.over(&base), over);
        assert_eq!(layer.names(), ["pools/a", "pools/b", "process/", "sites/s"]);
        let text = serde_json::to_string(&layer).unwrap();
        assert_eq!(serde_json::from_str::<Layer>(&text).unwrap(), layer);
        // What is as the files have it is theirs again.
        let back = layer.with("pools", "a", Some(plain("{name: a, x: 1}")), &base);
        assert_eq!(back.names(), ["pools/b", "process/", "sites/s"]);
        assert!(Layer::default().with("pools", "a", Some(plain("{name: a, x: 1}")), &base).is_empty());
    }

    #[test]
    fn what_the_files_changed_since_is_told() {
        let base = plain("{pools: [{name: a, x: 1}], sites: [{key: 's#1', y: 1}]}");
        let layer = Layer::default().with("pools", "a", Some(plain("{name: a, x: 2}")), &base);
        let told = |layer: &Layer, now: &str| -> Vec<String> {
            layer.findings(&plain(now)).into_iter().map(|found| found.title).collect()
        };
        assert!(told(&layer, "{pools: [{name: a, x: 1}]}")[0].ends_with("not what the files say"));
        assert!(told(&layer, "{pools: [{name: a, x: 3}]}")[0].ends_with("changed it since"));
        assert!(told(&layer, "{pools: [{name: a, x: 2}]}").is_empty());
        let layer = Layer::default().with("sites", "s#1", None, &base);
        assert!(told(&layer, "{sites: [{key: 's#1', y: 2}]}")[0].contains("another object there now"));
    }
}
