//! Files of keys that change while running, as ACLs and rules name them.
//!
//! Owns: which ACLs look things up in a list, and the rules that change one.
//! Never: reads a file; `map` does, each once.
//! Driven by: `condition`, for `-f` and `-M`; `rules`.

use weir_diag::Span;
use weir_model::{Condition, KeyMatch, KeyUse, ListEdit, Op, Template, Test};

use super::condition::{Flags, compare, joined, pattern_file, subject};
use super::expression::Sample;
use super::problem::Problem;
use super::rules::Reader;
use super::scope::Scope;
use crate::read::Word;
use crate::words::{Fetch, Matching};

/// Fetches whose tests have forms of their own: the content of a file stands for it.
const FIXED: [&str; 8] = [
    "http_auth_group",
    "method",
    "req.ver",
    "req_ver",
    "hdr_cnt",
    "req.hdr_cnt",
    "req.fhdr_cnt",
    "res.hdr_cnt",
];

/// One sample against patterns and files of patterns.
pub(super) fn condition(
    sample: &Sample,
    kind: Fetch,
    matching: Matching,
    mut flags: Flags,
    span: Span,
    scope: &Scope<'_>,
) -> Result<Condition, Problem> {
    let files = std::mem::take(&mut flags.files);
    let how = way(kind, matching).filter(|_| !FIXED.contains(&sample.fetch.name.as_str()));
    let (Some(how), false) = (how, files.is_empty()) else {
        for file in &files {
            pattern_file(file, scope, &mut flags.patterns)?;
        }
        return compare(sample, kind, matching, &flags, span, scope);
    };
    let subject = subject(sample, scope)?;
    let ignore_case = flags.ignore_case || matching == Matching::Binary;
    let mut any = Vec::new();
    for file in &files {
        let list = scope.maps.list(file.as_str(), flags.values, scope.files, Some(file.span))?;
        let test = Test::Listed(KeyUse { list, how, ignore_case });
        any.push(Condition::Test { subject: subject.clone(), test });
    }
    if !flags.patterns.is_empty() {
        any.push(compare(sample, kind, matching, &flags, span, scope)?);
    }
    Ok(joined(any, Condition::Any))
}

/// The way in which a value is looked up in a list.
fn way(kind: Fetch, matching: Matching) -> Option<KeyMatch> {
    Some(match matching {
        Matching::Equals => KeyMatch::Equals,
        Matching::Binary if kind == Fetch::Binary => KeyMatch::Equals,
        Matching::Pattern => KeyMatch::Pattern,
        _ if kind == Fetch::Binary => return None,
        Matching::Begins => KeyMatch::Begins,
        Matching::Ends => KeyMatch::Ends,
        Matching::Contains => KeyMatch::Contains,
        Matching::Segment => KeyMatch::Segment,
        Matching::Label => KeyMatch::Label,
        Matching::Address => KeyMatch::Network,
        Matching::Number => KeyMatch::Number,
        Matching::Length => KeyMatch::Length,
        Matching::Found | Matching::Bool | Matching::Binary => return None,
    })
}

impl Reader<'_, '_> {
    /// `set-map(FILE) KEY VALUE`, `del-map(FILE) KEY`, `add-acl(FILE) KEY`, `del-acl(FILE) KEY`.
    pub(super) fn edit_list(&mut self, name: &str, first: &Word, arguments: &[Word]) -> Option<Op> {
        let file = first.text.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or("");
        let (edit, values) = match name {
            "set-map" => (ListEdit::Set, true),
            "del-map" => (ListEdit::Remove, true),
            "add-acl" => (ListEdit::Add, false),
            _ => (ListEdit::Remove, false),
        };
        let list = match self.scope.maps.list(file, values, self.scope.files, Some(first.span)) {
            Ok(list) => list,
            Err(problem) => {
                problem.report(first.span, self.findings);
                return None;
            }
        };
        let key = self.template(&arguments[0], false)?;
        let value = match edit {
            ListEdit::Set => self.template(&arguments[1], false)?,
            _ => Template::default(),
        };
        Some(Op::EditList { list, edit, key, value })
    }
}
