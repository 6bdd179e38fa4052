//! Settings of variables that judge a request.
//!
//! Owns: the fields, and what they make together.
//! Never: reports, or reads a directive; `take::facts` does.
//! Driven by: `Parts`, whose part it is; `build` asks for the finished facts.

use std::sync::Arc;

use weir_expr::settings::{Browsers, KnownBrowser};
use weir_model::{Facts, NamePattern, RefererHost, Referers, SecureLink, Template};

use super::scope::{Level, List};
use super::user_id_parts::UserIdParts;

/// What inner blocks inherit.
#[derive(Clone, Debug, Default)]
pub(crate) struct FactParts {
    pub link: Option<Template>,
    pub signed: Option<Template>,
    pub word: Option<String>,
    /// `modern_browser`; `None`: `unlisted`.
    pub modern: List<Option<(KnownBrowser, u64)>>,
    /// `ancient_browser`.
    pub ancient: List<String>,
    pub modern_value: Option<String>,
    pub ancient_value: Option<String>,
    /// `userid` and its kin.
    pub user_ids: UserIdParts,
    referers: Option<Arc<Referers>>,
    referers_level: Level,
    /// The names of the server may refer here, too.
    pub server_names: bool,
}

impl FactParts {
    /// The facts, if there are any; `names` are those of the server.
    pub(crate) fn build(&self, names: &[NamePattern]) -> Option<Arc<Facts>> {
        let secure_link = match (&self.word, &self.link, &self.signed) {
            (Some(word), ..) => Some(SecureLink::Word(word.clone())),
            (None, Some(shown), Some(signed)) => {
                Some(SecureLink::Signed { shown: shown.clone(), signed: signed.clone() })
            }
            _ => None,
        };
        let mut referers = self.referers.as_deref().cloned();
        if let Some(referers) = referers.as_mut().filter(|_| self.server_names) {
            names.iter().for_each(|name| add_server_name(referers, name));
        }
        let user_ids = self.user_ids.build();
        let facts = Facts { secure_link, browsers: self.browsers(), user_ids, referers };
        (facts != Facts::default()).then(|| Arc::new(facts))
    }

    fn browsers(&self) -> Option<Arc<Browsers>> {
        let (modern, ancient) = (self.modern.items(), self.ancient.items());
        let mut known: Vec<_> = modern.iter().flatten().copied().collect();
        // Which is looked for first counts where a browser calls itself another.
        known.sort_by_key(|(browser, _)| *browser);
        let value = |written: &Option<String>| written.clone().unwrap_or_else(|| "1".to_owned());
        let browsers = Browsers {
            modern: known,
            unlisted: modern.iter().any(Option::is_none),
            ancient: ancient.iter().filter(|text| *text != "netscape4").cloned().collect(),
            netscape4: ancient.iter().any(|text| text == "netscape4"),
            modern_value: value(&self.modern_value),
            ancient_value: value(&self.ancient_value),
        };
        (browsers != Browsers::default()).then(|| Arc::new(browsers))
    }

    /// The pages of this level, for a change; what was inherited goes.
    pub(crate) fn referers(&mut self, level: Level) -> &mut Referers {
        if self.referers_level != level {
            (self.referers, self.referers_level, self.server_names) = (None, level, false);
        }
        Arc::make_mut(self.referers.get_or_insert_default())
    }
}

fn add_server_name(referers: &mut Referers, name: &NamePattern) {
    let host = match name {
        NamePattern::Exact(name) if name.is_empty() => return,
        NamePattern::Exact(name) => RefererHost::Exact(name.clone()),
        NamePattern::Suffix(name) => RefererHost::Suffix(name.clone()),
        NamePattern::Prefix(name) => RefererHost::Prefix(name.clone()),
        NamePattern::Regex(pattern) => return referers.host_patterns.push(pattern.clone()),
    };
    referers.hosts.push((host, String::new()));
}
