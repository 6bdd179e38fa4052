//! What variables tell about requests.

use std::cmp::Reverse;
use std::sync::Arc;

use weir_model as model;
use weir_plan as plan;

use crate::context::Cx;

impl<'m> Cx<'m> {
    pub(crate) fn facts(&mut self, facts: &'m model::Facts) -> Arc<plan::Facts> {
        if let Some(known) = self.shared.facts.find(facts) {
            return known;
        }
        let secure_link = facts.secure_link.as_ref().map(|link| match link {
            model::SecureLink::Signed { shown, signed } => {
                plan::SecureLink::Signed { shown: self.template(shown), signed: self.template(signed) }
            }
            model::SecureLink::Word(word) => plan::SecureLink::Word(word.as_str().into()),
        });
        let referers = facts.referers.as_ref().map(|referers| self.referers(referers));
        let user_ids = facts
            .user_ids
            .as_ref()
            .map(|ids| plan::UserIds { rules: ids.rules.clone(), reset: self.template(&ids.reset) });
        let browsers = facts.browsers.clone();
        self.shared.facts.keep(facts, Arc::new(plan::Facts { secure_link, browsers, user_ids, referers }))
    }

    fn referers(&mut self, referers: &'m model::Referers) -> plan::Referers {
        let mut lists: [Vec<(Box<str>, Box<str>)>; 3] = Default::default();
        for (host, path) in &referers.hosts {
            let (list, name) = match host {
                model::RefererHost::Exact(name) => (0, name),
                model::RefererHost::Suffix(name) => (1, name),
                model::RefererHost::Prefix(name) => (2, name),
            };
            lists[list].push((name.as_str().into(), path.as_str().into()));
        }
        for list in &mut lists {
            list.sort_by_key(|(name, _)| Reverse(name.len()));
        }
        let [exact, suffixes, prefixes] = lists.map(Into::into);
        plan::Referers {
            none: referers.none,
            blocked: referers.blocked,
            exact,
            suffixes,
            prefixes,
            host_patterns: self.patterns(&referers.host_patterns),
            patterns: self.patterns(&referers.patterns),
        }
    }
}
