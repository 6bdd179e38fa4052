//! The form of the page: what whoever may ("stats admin") asks of servers.
//!
//! Owns: the words of the form, those of its outcome, and the way back to the page.
//! Never: decides who may; whoever serves the page does.
//! Driven by: requests with POST.
//! Why the words are HAProxy's (its source has them, and so do the tools that post them): what a script sends to it works here.

use weir_control::snapshot::{Endpoint, Pool, Snapshot};
use weir_control::{AdminState, Change};

use super::view::Options;
use crate::{Page, Request};

/// Makes changes.
pub trait Operator {
    /// Makes a change, or says why it cannot be made.
    ///
    /// # Errors
    /// One line.
    fn change(&self, change: Change) -> Result<(), String>;
    /// Takes the health of an endpoint for this, until a check says otherwise.
    ///
    /// # Errors
    /// One line.
    fn judge(&self, pool: &str, endpoint: &str, healthy: bool) -> Result<(), String>;
    /// Ends what is under way at an endpoint.
    ///
    /// # Errors
    /// One line.
    fn cut(&self, pool: &str, endpoint: &str) -> Result<(), String>;
}

/// What can be asked for, as the form shows it.
pub(super) const ACTIONS: &[(&str, &str, Deed)] = &[
    ("ready", "Set state to READY", Deed::State(AdminState::Ready)),
    ("drain", "Set state to DRAIN", Deed::State(AdminState::Drain)),
    ("maint", "Set state to MAINT", Deed::State(AdminState::Maintenance)),
    ("hrunn", "Health: force UP", Deed::Health(true)),
    ("hdown", "Health: force DOWN", Deed::Health(false)),
    ("shutdown", "Kill Sessions", Deed::Cut),
];

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deed {
    State(AdminState),
    Health(bool),
    Cut,
}

/// What came of it: HAProxy's words, and a sentence for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Part,
    None,
    Error,
    Denied,
    Unknown,
}

impl Outcome {
    const ALL: [Self; 6] = [Self::Done, Self::Part, Self::None, Self::Error, Self::Denied, Self::Unknown];

    fn word(self) -> &'static str {
        match self {
            Self::Done => "DONE",
            Self::Part => "PART",
            Self::None => "NONE",
            Self::Error => "ERRP",
            Self::Denied => "DENY",
            Self::Unknown => "UNKN",
        }
    }

    /// The one of a word.
    pub(super) fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.word() == word)
    }

    /// For whoever asked.
    pub(super) fn sentence(self) -> &'static str {
        match self {
            Self::Done => "Action processed successfully.",
            Self::Part => "Action partially processed.",
            Self::None => "Nothing has changed.",
            Self::Error => "Action not processed because of invalid parameters.",
            Self::Denied => "Action denied.",
            Self::Unknown => "Unexpected result.",
        }
    }

    pub(super) fn is_good(self) -> bool {
        self == Self::Done
    }
}

/// Does what a form asks for, and sends its client back to the page.
pub(super) fn answer(
    options: &Options,
    request: &Request<'_>,
    body: &[u8],
    snapshot: &Snapshot,
    operator: &dyn Operator,
) -> Page {
    let outcome = match options.admin {
        true => {
            let fields: Vec<_> = form_urlencoded::parse(body.trim_ascii()).into_owned().collect();
            act(&fields, snapshot, operator)
        }
        false => Outcome::Denied,
    };
    back(options, request, outcome)
}

/// To the page, with the words that were behind its path.
fn back(options: &Options, request: &Request<'_>, outcome: Outcome) -> Page {
    let target = String::from_utf8_lossy(request.target);
    let rest = target.strip_prefix(options.uri.as_str()).unwrap_or_default();
    let words: String = rest
        .split(';')
        .skip(1)
        .filter(|word| matches!(*word, "up" | "norefresh"))
        .map(|word| format!(";{word}"))
        .collect();
    let mut page = Page::new("text/plain", String::new());
    page.status = 303;
    page.headers.push(("Location", format!("{}{words};st={}", options.uri, outcome.word())));
    page
}

/// Every server that is named stands on its own: what one refuses leaves the others.
fn act(fields: &[(String, String)], snapshot: &Snapshot, operator: &dyn Operator) -> Outcome {
    let value = |name: &str| fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let deed = value("action").and_then(|word| ACTIONS.iter().find(|(known, ..)| *known == word));
    let (Some((_, _, deed)), Some(backend)) = (deed, value("b")) else { return Outcome::Error };
    let Some(pool) = pool(snapshot, backend) else { return Outcome::Error };
    let (mut asked, mut done) = (0, 0);
    for (_, name) in fields.iter().filter(|(name, _)| name == "s") {
        asked += 1;
        let endpoint = pool.endpoints.iter().find(|endpoint| endpoint.name == *name);
        done += usize::from(endpoint.is_some_and(|endpoint| one(*deed, pool, endpoint, operator).is_ok()));
    }
    match (asked, done) {
        (0, _) => Outcome::None,
        (_, 0) => Outcome::Error,
        _ if done < asked => Outcome::Part,
        _ => Outcome::Done,
    }
}

/// A backend by its number (`#3`) or its name.
fn pool<'s>(snapshot: &'s Snapshot, named: &str) -> Option<&'s Pool> {
    let number = named.strip_prefix('#').and_then(|digits| digits.parse::<u32>().ok());
    snapshot.pools.iter().find(|pool| match number {
        Some(number) => pool.number == number,
        None => pool.name == named,
    })
}

fn one(deed: Deed, pool: &Pool, endpoint: &Endpoint, operator: &dyn Operator) -> Result<(), String> {
    let (of, name) = (pool.name.clone(), endpoint.name.clone());
    match deed {
        Deed::State(state) => operator.change(Change::State { pool: of, endpoint: name, state }),
        Deed::Health(_) if endpoint.health.is_none() => Err("it is not checked".into()),
        Deed::Health(healthy) => operator.judge(&of, &name, healthy),
        Deed::Cut => operator.cut(&of, &name),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::cell::RefCell;

    use super::super::fixtures;
    use super::*;

    #[derive(Default)]
    struct Notes(RefCell<Vec<String>>);

    impl Operator for Notes {
        fn change(&self, change: Change) -> Result<(), String> {
            self.0.borrow_mut().push(format!("{change:?}"));
            Ok(())
        }

        fn judge(&self, pool: &str, endpoint: &str, healthy: bool) -> Result<(), String> {
            self.0.borrow_mut().push(format!("{pool}/{endpoint} {healthy}"));
            Ok(())
        }

        fn cut(&self, pool: &str, endpoint: &str) -> Result<(), String> {
            self.0.borrow_mut().push(format!("cut {pool}/{endpoint}"));
            Err("no".into())
        }
    }

    fn posted(admin: bool, body: &str) -> (String, Vec<String>) {
        let endpoints = vec![fixtures::endpoint("a"), fixtures::endpoint("b c")];
        let snapshot = Snapshot { pools: vec![fixtures::pool("app", 3, endpoints)], ..Snapshot::default() };
        let options = Options { uri: "/st".into(), admin, ..Options::default() };
        let request = Request { target: b"/st;norefresh;csv", authorization: None };
        let notes = Notes::default();
        let page = answer(&options, &request, body.as_bytes(), &snapshot, &notes);
        assert_eq!(page.status, 303);
        let location = page.headers.iter().find(|(name, _)| *name == "Location").unwrap().1.clone();
        (location.strip_prefix("/st;norefresh;st=").unwrap().to_owned(), notes.0.into_inner())
    }

    #[test]
    fn what_is_asked_for_is_done_to_each() {
        let (word, notes) = posted(true, "s=a&s=b+c&action=drain&b=%233");
        assert_eq!((word.as_str(), notes.len()), ("DONE", 2));
        assert!(notes[1].contains("\"b c\"") && notes[1].contains("Drain"), "{notes:?}");
        assert_eq!(posted(true, "action=ready&s=a&b=app").1.len(), 1);
        for (body, wanted) in [
            ("s=a&s=none&action=maint&b=app", "PART"),
            ("action=maint&b=app", "NONE"),
            ("s=a&action=explode&b=app", "ERRP"),
            ("s=a&action=maint&b=other", "ERRP"),
            ("s=none&action=maint&b=app", "ERRP"),
            ("s=a&action=shutdown&b=app", "ERRP"),
            ("%zz&=&&s", "ERRP"),
        ] {
            assert_eq!(posted(true, body).0, wanted, "{body}");
        }
    }

    #[test]
    fn who_may_not_changes_nothing() {
        assert_eq!(posted(false, "s=a&action=maint&b=app"), ("DENY".to_owned(), Vec::new()));
    }
}
