//! Lists of keys that change while running.

use weir_diag::Diagnostic;
use weir_model as model;
use weir_plan::{KeyIndex, KeyListFile, KeyListIx, KeyListUse, KeyUseIx, MOST_TRIED};

use crate::context::Cx;

impl<'m> Cx<'m> {
    pub(crate) fn key_list(&mut self, list: &'m model::KeyList) -> KeyListFile {
        let written = list.entries.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into()));
        KeyListFile {
            name: list.name.as_str().into(),
            values: list.values,
            about: list.about.as_str().into(),
            written: written.collect(),
        }
    }

    /// A way in which a list is used. Keys that do not fit it are reported, once for each way.
    pub(crate) fn key_use(&mut self, one: model::KeyUse) -> KeyUseIx {
        let new = KeyListUse { list: KeyListIx(one.list.0), how: one.how, ignore_case: one.ignore_case };
        let all = &mut self.plan.key_list_uses;
        if let Some(at) = all.iter().position(|known| *known == new) {
            return KeyUseIx(at as u32);
        }
        all.push(new);
        let ix = KeyUseIx(all.len() as u32 - 1);
        if let Some(list) = self.model.key_lists.get(one.list.0 as usize) {
            self.check_keys(list, new);
        }
        ix
    }

    fn check_keys(&mut self, list: &model::KeyList, new: KeyListUse) {
        let index = KeyIndex::new(new.how, new.ignore_case);
        let wrong = list.entries.iter().find_map(|(key, _)| index.check(key).err());
        let wrong = wrong.or_else(|| {
            let many = new.how.is_tried() && list.entries.len() > MOST_TRIED;
            many.then(|| {
                format!("its {} keys would be tried one by one; {MOST_TRIED} may be", list.entries.len())
            })
        });
        if let Some(wrong) = wrong {
            let title = format!("the list `{}` cannot be used by `{}`: {wrong}", list.name, new.how.word());
            let finding = Diagnostic::error("list::bad-key", title);
            let finding = match list.origin.or(self.here) {
                Some(span) => finding.labelled(span, "read for this"),
                None => finding,
            };
            self.report(finding);
        }
    }
}
