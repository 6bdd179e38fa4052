//! The configuration: reading it, changing it, going back.
//!
//! Owns: `/v1/config` and `/v1/versions`: which document a request asks for, conditions, dry runs, what is answered.
//! Never: applies one; the master does.
//! Driven by: `api`.
//!
//! | path | methods |
//! |---|---|
//! | `/v1/config` | GET, PUT, PATCH, DELETE |
//! | `/v1/config/SECTION` | GET; `process` and `resolver` as an object |
//! | `/v1/config/SECTION/KEY`, and a path inside of it | GET, PUT, PATCH, DELETE, POST at lists |
//! | `/v1/versions`, `/v1/versions/N`, `…/N/config`, `…/N/diff` | GET |
//! | `/v1/versions/N/rollback` | POST |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};
use weir_diag::has_errors;
use weir_native::{Plain, SECTIONS, differences};

use super::access::Role;
use super::api::{Call, missing, wrong_method};
use super::desk::{Current, Outcome, Proposal};
use super::findings;
use super::reply::Reply;
use crate::compile::document::{SINGLE, complete, find, inside, key_of, merge, set_inside};
use crate::compile::layer::Layer;
use crate::compile::text::Text;

/// How long a change may take until it is in force.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a change that is made whatever came before is tried again.
const TRIES: u32 = 32;

/// Methods of what can be changed.
const METHODS: &str = "GET, HEAD, PUT, PATCH, DELETE";
/// The same inside of an object.
const INSIDE: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";

/// What a request is about.
#[derive(Clone, Copy)]
struct Place<'p> {
    section: &'p str,
    key: &'p str,
    inside: &'p [&'p str],
}

/// What is to be in force, and the status of the answer once it is.
struct Wanted {
    layer: Layer,
    text: Text,
    status: u16,
}

impl Call<'_> {
    pub(super) fn config(&self, path: &[&str]) -> Result<Reply, Reply> {
        let place = match path {
            [] => return self.whole(),
            [section] if !SECTIONS.contains(section) => return Err(missing()),
            [section, inside @ ..] if SINGLE.contains(section) => Place { section, key: "", inside },
            [section] => {
                return self.get(|| {
                    let current = self.current()?;
                    let none = Plain::List(Vec::new());
                    self.shown(&current, current.shown.get(section).unwrap_or(&none))
                });
            }
            [section, key, inside @ ..] if SECTIONS.contains(section) && !key.is_empty() => {
                Place { section, key, inside }
            }
            _ => return Err(missing()),
        };
        if self.asked.reads() {
            let current = self.current()?;
            let object = find(&current.shown, place.section, place.key).ok_or_else(missing)?;
            return self.shown(&current, inside(object, place.inside).ok_or_else(missing)?);
        }
        match self.asked.method.as_str() {
            "PUT" | "PATCH" | "DELETE" => {}
            "POST" if !place.inside.is_empty() => {}
            _ if place.inside.is_empty() => return Err(wrong_method(METHODS)),
            _ => return Err(wrong_method(INSIDE)),
        }
        self.need(Role::Configure)?;
        self.change_config(|current| self.object(current, place))
    }

    fn whole(&self) -> Result<Reply, Reply> {
        if self.asked.reads() {
            let current = self.current()?;
            return self.shown(&current, &current.shown);
        }
        if !matches!(self.asked.method.as_str(), "PUT" | "PATCH" | "DELETE") {
            return Err(wrong_method(METHODS));
        }
        self.need(Role::Configure)?;
        self.change_config(|current| {
            let before = current.text.document();
            let document = match self.asked.method.as_str() {
                "DELETE" => {
                    return Ok(Wanted {
                        layer: Layer::default(),
                        text: Text::clone(&current.base),
                        status: 200,
                    });
                }
                "PUT" => self.completed(&before)?,
                _ => merge(&before, &self.asked.data()?),
            };
            if !matches!(document, Plain::Map(_)) {
                return Err(Reply::problem(422, "unprocessable", "a configuration is a map of sections"));
            }
            let text = Text::new(&document, &current.base);
            Ok(Wanted { layer: Layer { whole: Some(document), ..Layer::default() }, text, status: 200 })
        })
    }

    /// The body with the secrets that were not shown to whoever wrote it.
    fn completed(&self, known: &Plain) -> Result<Plain, Reply> {
        let mut sent = self.asked.data()?;
        complete(&mut sent, known);
        Ok(sent)
    }

    /// The configuration with one object as it is asked for.
    fn object(&self, current: &Current, place: Place<'_>) -> Result<Wanted, Reply> {
        let (base, now) = (current.base.document(), current.text.document());
        let Place { section, key, inside: path } = place;
        let there = find(&now, section, key);
        let at_place = there.and_then(|object| inside(object, path));
        let creates = at_place.is_none();
        if self.asked.if_none_match.as_deref() == Some("*") && !creates {
            return Err(Reply::problem(412, "precondition failed", "it is there already"));
        }
        let (mut path, nothing) = (path.to_vec(), Plain::Null);
        let value = match self.asked.method.as_str() {
            "DELETE" if creates => return Err(missing()),
            "DELETE" => None,
            "PATCH" => {
                let before = long_form(section, &path, at_place.ok_or_else(missing)?);
                Some(merge(&before, &self.asked.data()?))
            }
            "POST" => {
                if !matches!(at_place.ok_or_else(missing)?, Plain::List(_)) {
                    let detail = "items are added to lists, and this is none";
                    return Err(Reply::problem(422, "unprocessable", detail));
                }
                path.push("-");
                Some(self.asked.data()?)
            }
            _ => Some(self.completed(at_place.unwrap_or(&nothing))?),
        };
        let object = if path.is_empty() {
            value.map(|value| named(section, key, value)).transpose()?
        } else {
            let mut object = there.cloned().ok_or_else(missing)?;
            if !set_inside(&mut object, &path, value) {
                return Err(missing());
            }
            match key_of(&object) {
                Some(own) if own != key && !SINGLE.contains(&section) => return Err(other_name(own, key)),
                _ => Some(object),
            }
        };
        let layer = current.layer.with(section, key, object, &base);
        let text = Text::new(&layer.over(&base), &current.base);
        let created = matches!(self.asked.method.as_str(), "PUT" if creates) || self.asked.method == "POST";
        Ok(Wanted { layer, text, status: if created { 201 } else { 200 } })
    }

    pub(super) fn versions(&self, path: &[&str]) -> Result<Reply, Reply> {
        let number = || path.first().and_then(|text| text.parse().ok()).ok_or_else(missing);
        let version = || number().and_then(|number| self.desk.version(number).ok_or_else(missing));
        match path {
            [] => self.get(|| Ok(Reply::json(200, &json!(self.desk.versions())))),
            [_] => self.get(|| Ok(Reply::json(200, &version()?.shown()))),
            [_, "config"] => self.get(|| Ok(Reply::document(200, &version()?.plain(), &self.asked.accept))),
            [_, "diff"] => self.get(|| {
                let (one, other) = (version()?, self.other_version()?);
                let changes = differences(&one.plain(), &other.plain());
                let value = json!({ "from": one.version, "to": other.version, "changes": changes });
                Ok(Reply::json(200, &value))
            }),
            [_, "rollback"] => {
                if self.asked.method != "POST" {
                    return Err(wrong_method("POST"));
                }
                self.need(Role::Configure)?;
                let layer = version()?.layer;
                self.change_config(|current| {
                    let text = Text::new(&layer.over(&current.base.document()), &current.base);
                    Ok(Wanted { layer: Layer::clone(&layer), text, status: 200 })
                })
            }
            _ => Err(missing()),
        }
    }

    /// The version that `to` names; the one in force by itself.
    fn other_version(&self) -> Result<super::book::Version, Reply> {
        let number = match self.asked.parameter("to") {
            Some(text) => text
                .parse()
                .map_err(|_| Reply::problem(400, "bad request", "`to` is the number of a version"))?,
            None => self.current()?.version,
        };
        self.desk.version(number).ok_or_else(missing)
    }

    fn current(&self) -> Result<Current, Reply> {
        match self.desk.current() {
            Some(Ok(current)) => Ok(current),
            Some(Err(why)) => {
                let detail = format!("this configuration cannot be shown or changed here: {why}");
                Err(Reply::problem(409, "no document", &detail))
            }
            None => Err(Reply::problem(503, "not yet", "no configuration is in force")),
        }
    }

    fn shown(&self, current: &Current, document: &Plain) -> Result<Reply, Reply> {
        let tag = tag(current.version);
        let known = self.asked.if_none_match.as_deref().is_some_and(|all| names(all, &tag));
        let reply = match known {
            true => Reply::unchanged(),
            false => Reply::document(200, document, &self.asked.accept),
        };
        Ok(reply.with("ETag", tag).with("Vary", "Accept".into()))
    }

    /// The conditions of a change hold.
    fn matches(&self, current: &Current) -> Result<(), Reply> {
        let tag = tag(current.version);
        match &self.asked.if_match {
            Some(condition) if names(condition, &tag) => Ok(()),
            Some(_) => Err(late(current.version)),
            None if self.is_dry_run()? || self.asked.if_none_match.as_deref() == Some("*") => Ok(()),
            None => {
                let detail =
                    format!("send If-Match with the ETag that the change is made for (now {tag}), or with *");
                Err(Reply::problem(428, "precondition required", &detail).with("ETag", tag))
            }
        }
    }

    fn is_dry_run(&self) -> Result<bool, Reply> {
        match self.asked.parameter("dry_run").as_deref() {
            Some("true" | "1") => Ok(true),
            None | Some("false" | "0") => Ok(false),
            Some(_) => Err(Reply::problem(400, "bad request", "`dry_run` is true or false")),
        }
    }

    /// Makes a change of what is in force, and makes it again where another one came between, unless that is for whoever
    /// asks to decide.
    fn change_config(&self, wanted: impl Fn(&Current) -> Result<Wanted, Reply>) -> Result<Reply, Reply> {
        let mut tries = TRIES;
        loop {
            let current = self.current()?;
            self.matches(&current)?;
            self.is_dry_run()?;
            tries -= 1;
            let proposed = wanted(&current).and_then(|wanted| self.propose(wanted, &current));
            // What it was compiled from and by is gone.
            weir_rt::trim_heap();
            match proposed? {
                Some(reply) => return Ok(reply),
                None if self.asked.if_match.as_deref() == Some("*") && tries > 0 => {}
                None => return Err(late(self.current()?.version)),
            }
        }
    }

    /// Checks a configuration, and puts it in force unless the request only asks. `None`: another one came first.
    fn propose(&self, wanted: Wanted, current: &Current) -> Result<Option<Reply>, Reply> {
        let Wanted { mut layer, text, status } = wanted;
        let Some((compiled, answers)) = self.desk.compile(text.clone()) else {
            return Err(Reply::problem(503, "not yet", "no configuration is in force"));
        };
        let found = findings::told(&compiled.diagnostics, text.json());
        if has_errors(&compiled.diagnostics) {
            let errors = found.iter().filter(|one| one["severity"] == "error").count();
            self.note(&format!("refused: the configuration has {errors} errors"));
            return Err(Reply::problem_with(
                422,
                "invalid configuration",
                "nothing was changed",
                json!(found),
            ));
        }
        let meant = compiled.text.clone().unwrap_or(text);
        if layer.whole.is_some() {
            // In the form in which it is shown, so that objects in it can be named; or the files' own, if it is that.
            let same = meant == *current.base;
            layer.whole = (!same).then(|| meant.document());
        }
        let changes =
            compiled.shown.as_ref().map(|after| differences(&current.shown, after)).unwrap_or_default();
        if self.is_dry_run()? {
            let value = json!({ "dry_run": true, "version": current.version, "changes": changes, "diagnostics": found });
            return Ok(Some(Reply::json(200, &value).with("ETag", tag(current.version))));
        }
        if meant == *current.text && layer == *current.layer {
            return Ok(Some(done(status, current.version, &changes, &found, None)));
        }
        let (sender, outcome) = channel();
        let taken = Arc::new(AtomicBool::new(false));
        let proposal = Proposal {
            compiled: Some(compiled),
            answers: Some(answers),
            layer: Arc::new(layer),
            who: self.visitor.name.clone(),
            what: self.what(),
            base: current.version,
            taken: Arc::clone(&taken),
            answer: sender,
        };
        if !self.desk.propose(proposal) {
            return Err(Reply::problem(503, "busy", "too many changes wait").with("Retry-After", "1".into()));
        }
        let mut came = outcome.recv_timeout(PATIENCE);
        if matches!(came, Err(RecvTimeoutError::Timeout)) {
            if !taken.swap(true, Ordering::Relaxed) {
                self.note("not taken up in time");
                return Err(Reply::problem(
                    503,
                    "busy",
                    "the server was busy for too long; nothing was changed",
                ));
            }
            came = outcome.recv_timeout(PATIENCE);
        }
        match came {
            Ok(Outcome::InForce(version, lost)) => {
                self.note(&format!("version {version} is in force"));
                Ok(Some(done(status, version, &changes, &found, lost)))
            }
            Ok(Outcome::Late) => Ok(None),
            Ok(Outcome::Refused(reason)) => {
                self.note(&format!("refused: {reason}"));
                Err(Reply::problem(409, "refused", &reason))
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                self.note("it is not known whether it came into force");
                let detail = "it is not known whether the change came into force; look at /v1/versions";
                Err(Reply::problem(503, "no answer", detail))
            }
        }
    }
}

fn done(status: u16, version: u64, changes: &[String], found: &[Value], lost: Option<String>) -> Reply {
    let mut value = json!({ "version": version, "changes": changes, "diagnostics": found });
    if let Some(why) = lost {
        value["not_kept"] = json!(why);
    }
    Reply::json(status, &value).with("ETag", tag(version))
}

fn late(version: u64) -> Reply {
    let tag = tag(version);
    let detail = format!("the version in force is {tag}: read it, and make the change for it");
    Reply::problem(412, "precondition failed", &detail).with("ETag", tag)
}

fn tag(version: u64) -> String {
    format!("\"{version}\"")
}

/// Whether a condition names a version.
fn names(condition: &str, tag: &str) -> bool {
    condition
        .split(',')
        .map(str::trim)
        .any(|one| one == "*" || one == tag || one.strip_prefix("W/") == Some(tag))
}

/// What has a short form is patched in its long one.
fn long_form(section: &str, path: &[&str], object: &Plain) -> Plain {
    let is_address = (section == "listeners" && path.is_empty()) || matches!(path, [.., "endpoints", _]);
    match object {
        Plain::Text(text) if is_address => Plain::Map(vec![("address".into(), Plain::Text(text.clone()))]),
        other => other.clone(),
    }
}

/// The object with the key of its path.
fn named(section: &str, key: &str, object: Plain) -> Result<Plain, Reply> {
    if SINGLE.contains(&section) {
        return Ok(object);
    }
    let Plain::Map(mut fields) = object else {
        return match object.as_text() {
            Some(own) if own == key => Ok(object),
            Some(own) => Err(other_name(own, key)),
            None => Err(Reply::problem(422, "unprocessable", "an object is a map")),
        };
    };
    let own = key_of(&Plain::Map(fields.clone())).map(str::to_owned);
    let is_called = fields.iter().any(|(field, _)| field == "key" || field == "name");
    match own {
        Some(own) if own == key => {}
        // An address alone is no name.
        Some(own) if is_called => return Err(other_name(&own, key)),
        _ => fields.insert(0, ("name".to_owned(), Plain::Text(key.to_owned()))),
    }
    Ok(Plain::Map(fields))
}

fn other_name(own: &str, key: &str) -> Reply {
    Reply::problem(422, "unprocessable", &format!("the object calls itself `{own}`, and the path `{key}`"))
}
