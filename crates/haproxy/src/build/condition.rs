//! ACLs and conditions: words after `if` and `unless`, named and anonymous.
//!
//! Owns: their grammar, flags and ways to compare; each becomes a [`Condition`].
//! Never: decides what a rule does.
//! Driven by: `rules` and everything else that ends in `if …`.
//! Why: an ACL is one test of one sample against patterns; lines of one name are alternatives; a condition is
//! alternatives (`or`, `||`) of terms that must all hold.

use std::collections::BTreeMap;

use ipnet::IpNet;
use weir_diag::Span;
use weir_model::{BasicAuth, Condition, Password, Pattern, Subject, Template, Test, Users, Var, Words};

use super::expression::{Sample, parse};
use super::lists;
use super::problem::Problem;
use super::sample::{self, header_name};
use super::scope::Scope;
use crate::findings::Findings;
use crate::read::{Line, Word};
use crate::values::network::network;
use crate::words::{Fetch, Matching, acl_word, is_raw, predefined};

/// The named ACLs of one proxy, built once: as they are in rules about requests, and in those about responses.
pub(crate) struct Acls {
    all: [BTreeMap<String, Result<Condition, Problem>>; 2],
}

impl Acls {
    /// Builds those of the scope's proxy. Those that are malformed either way are reported here, used or not; unbuilt ones
    /// where used, and so are those of which only the other side has something to test.
    pub(crate) fn build(scope: &Scope<'_>, findings: &mut Findings) -> Self {
        let mut all: [BTreeMap<String, Result<Condition, Problem>>; 2] = Default::default();
        for line in &scope.proxy.settings.acls {
            let mut both = [false, true].map(|response| acl_line(line, &Scope { response, ..*scope }));
            let is_bad = |built: &Result<Condition, Problem>| {
                matches!(built, Err(Problem::Bad(_) | Problem::Unknown(..)))
            };
            if both.iter().all(is_bad) {
                if let [Err(problem), _] = &both {
                    problem.clone().report(line.span(), findings);
                }
                both = [Err(Problem::Reported), Err(Problem::Reported)];
            }
            for (all, built) in all.iter_mut().zip(both) {
                add(all, line.text(1), built);
            }
        }
        Self { all }
    }

    fn named(&self, word: &Word, scope: &Scope<'_>) -> Result<Condition, Problem> {
        let all = &self.all[usize::from(scope.response)];
        if let Some(found) = all.get(&word.text) {
            return found.clone();
        }
        if let Some(words) = predefined(word.as_str()) {
            let words: Vec<Word> =
                words.iter().map(|text| Word { text: (*text).into(), span: word.span }).collect();
            return test(&words, scope);
        }
        let near = weir_diag::nearest(&word.text, all.keys().map(String::as_str));
        let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        Err(Problem::Bad(format!("no ACL is named `{}`{near}", word.text)))
    }
}

/// Lines of one name are alternatives.
fn add(
    all: &mut BTreeMap<String, Result<Condition, Problem>>,
    name: &str,
    built: Result<Condition, Problem>,
) {
    let joined = match (all.remove(name), built) {
        (Some(Err(problem)), _) | (_, Err(problem)) => Err(problem),
        (None, Ok(condition)) => Ok(condition),
        (Some(Ok(Condition::Any(mut any))), Ok(condition)) => {
            any.push(condition);
            Ok(Condition::Any(any))
        }
        (Some(Ok(first)), Ok(condition)) => Ok(Condition::Any(vec![first, condition])),
    };
    all.insert(name.to_owned(), joined);
}

fn acl_line(line: &Line, scope: &Scope<'_>) -> Result<Condition, Problem> {
    test(line.from(2), scope)
}

/// Builds what follows `if` or `unless`; `words` begins with that word. `None` where it cannot be built (reported).
pub(crate) fn clause(
    words: &[Word],
    acls: &Acls,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<Condition> {
    let (first, rest) = words.split_first()?;
    let span = rest.last().map_or(first.span, |last| first.span.to(last.span));
    if rest.is_empty() {
        Problem::Bad(format!("a condition is missing after `{}`", first.text)).report(span, findings);
        return None;
    }
    match alternatives(rest, acls, scope) {
        Ok(condition) if first.as_str() == "unless" => Some(Condition::Not(Box::new(condition))),
        Ok(condition) => Some(condition),
        Err((problem, at)) => {
            problem.report(at, findings);
            None
        }
    }
}

fn alternatives(words: &[Word], acls: &Acls, scope: &Scope<'_>) -> Result<Condition, (Problem, Span)> {
    let mut any = Vec::new();
    let mut all = Vec::new();
    let mut negated = false;
    let mut at = 0;
    let bad = |text: &str, word: &Word| (Problem::Bad(text.into()), word.span);
    while let Some(word) = words.get(at) {
        at += 1;
        if matches!(word.as_str(), "or" | "||") {
            if all.is_empty() || negated {
                return Err(bad("a condition is missing before this", word));
            }
            any.push(joined(std::mem::take(&mut all), Condition::All));
            continue;
        }
        let (text, bangs) = strip_bangs(word.as_str());
        negated ^= bangs % 2 == 1;
        if text.is_empty() {
            continue;
        }
        let condition = if text == "{" {
            let length = words[at..].iter().position(|word| word.as_str() == "}");
            let Some(length) = length else { return Err(bad("this `{` is never closed", word)) };
            let inner = &words[at..at + length];
            at += length + 1;
            let span = inner.last().map_or(word.span, |last| word.span.to(last.span));
            test(inner, scope).map_err(|problem| (problem, span))?
        } else {
            let word = Word { text: text.to_owned(), span: word.span };
            acls.named(&word, scope).map_err(|problem| (problem, word.span))?
        };
        all.push(if negated { Condition::Not(Box::new(condition)) } else { condition });
        negated = false;
    }
    if let Some(last) = words.last().filter(|_| all.is_empty() || negated) {
        return Err(bad("a condition is missing after this", last));
    }
    any.push(joined(all, Condition::All));
    Ok(joined(any, Condition::Any))
}

fn strip_bangs(text: &str) -> (&str, usize) {
    let rest = text.trim_start_matches('!');
    (rest, text.len() - rest.len())
}

pub(super) fn joined(mut conditions: Vec<Condition>, join: fn(Vec<Condition>) -> Condition) -> Condition {
    match conditions.len() {
        1 => conditions.remove(0),
        _ => join(conditions),
    }
}

/// Flags and patterns of one ACL.
#[derive(Default)]
pub(super) struct Flags {
    pub(super) ignore_case: bool,
    matching: Option<Matching>,
    pub(super) patterns: Vec<Word>,
    /// Files of patterns.
    pub(super) files: Vec<Word>,
    /// Those have values, too (`-M`).
    pub(super) values: bool,
}

/// One ACL without its name: an expression, flags, patterns.
fn test(words: &[Word], scope: &Scope<'_>) -> Result<Condition, Problem> {
    let Some((first, rest)) = words.split_first() else {
        return Err(Problem::Bad("this ACL tests nothing".into()));
    };
    let mut sample = parse(first.as_str()).map_err(Problem::Bad)?;
    let mut matching = None;
    if let Some(word) = acl_word(&sample.fetch.name) {
        sample.fetch.name = word.fetch.into();
        matching = Some(word.matching);
    }
    let flags = flags(rest)?;
    if sample.fetch.name == "acl" && sample.converters.is_empty() {
        return all_of(&sample.fetch.arguments, &flags, scope);
    }
    let kind = sample::kind(&sample)?;
    let matching = flags.matching.or(matching).unwrap_or(match kind {
        Fetch::Bool => Matching::Bool,
        Fetch::Number => Matching::Number,
        Fetch::Address => Matching::Address,
        Fetch::Text if sample.converters.is_empty() && is_raw(&sample.fetch.name) => Matching::Binary,
        Fetch::Text | Fetch::Method | Fetch::NotYet => Matching::Equals,
        Fetch::Binary => Matching::Binary,
    });
    if sample.fetch.name == "var" && flags.matching.is_none() && sample.converters.is_empty() {
        return Err(Problem::Bad("a test of `var` says how it compares: `-m str` or another method".into()));
    }
    lists::condition(&sample, kind, matching, flags, first.span, scope)
}

/// ACLs that name one another more deeply go round in circles.
const MOST_DEPTH: u8 = 16;

/// `acl(NAME,!NAME…)`: all of them hold.
fn all_of(names: &[String], flags: &Flags, scope: &Scope<'_>) -> Result<Condition, Problem> {
    if scope.depth >= MOST_DEPTH {
        return Err(Problem::Bad("these ACLs name one another in a circle".into()));
    }
    let scope = &Scope { depth: scope.depth + 1, ..*scope };
    let mut all = Vec::new();
    for written in names {
        let (name, bangs) = strip_bangs(written.trim());
        let lines = scope.proxy.settings.acls.iter().filter(|line| line.text(1) == name);
        let any = lines.map(|line| acl_line(line, scope)).collect::<Result<Vec<_>, _>>()?;
        if any.is_empty() {
            return Err(Problem::Bad(format!("no ACL is named `{name}`")));
        }
        let one = joined(any, Condition::Any);
        all.push(if bangs % 2 == 1 { Condition::Not(Box::new(one)) } else { one });
    }
    let held = match all.is_empty() {
        true => return Err(Problem::Bad("`acl` lacks the name of an ACL".into())),
        false => joined(all, Condition::All),
    };
    let no = |word: &Word| matches!(word.as_str(), "0" | "false" | "no" | "off");
    Ok(match flags.patterns.first().is_some_and(no) {
        true => Condition::Not(Box::new(held)),
        false => held,
    })
}

fn flags(words: &[Word]) -> Result<Flags, Problem> {
    let mut flags = Flags::default();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let value = words.get(at + 1);
        match (word.as_str(), value) {
            ("-i", _) => flags.ignore_case = true,
            ("-n", _) => {}
            ("-m", Some(value)) => {
                let matching = Matching::named(value.as_str());
                let names: Vec<&str> = Matching::names().collect();
                let unknown = || {
                    Problem::Bad(format!(
                        "`{}` is no way to compare; those are {}",
                        value.text,
                        names.join(", ")
                    ))
                };
                flags.matching = Some(matching.ok_or_else(unknown)?);
                at += 1;
            }
            ("-f", Some(value)) => {
                flags.files.push(value.clone());
                at += 1;
            }
            ("-u" | "-m" | "-f", None) => {
                return Err(Problem::Bad(format!("`{}` lacks its value", word.text)));
            }
            ("-u", Some(_)) => at += 1,
            ("-M", _) => flags.values = true,
            ("--", _) => {
                at += 1;
                break;
            }
            (text, _)
                if text.starts_with('-')
                    && text.len() > 1
                    && !text[1..].starts_with(|c: char| c.is_ascii_digit()) =>
            {
                return Err(Problem::Bad(format!(
                    "`{text}` is no flag of an ACL; write `--` before such a pattern"
                )));
            }
            _ => break,
        }
        at += 1;
    }
    flags.patterns.extend(words.get(at..).unwrap_or_default().iter().cloned());
    Ok(flags)
}

pub(super) fn pattern_file(path: &Word, scope: &Scope<'_>, patterns: &mut Vec<Word>) -> Result<(), Problem> {
    let bytes = scope.files.read(std::path::Path::new(path.as_str()));
    let bytes = bytes.map_err(|error| Problem::Bad(format!("cannot read `{}`: {error}", path.text)))?;
    for line in String::from_utf8_lossy(&bytes).lines() {
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            patterns.push(Word { text: line.to_owned(), span: path.span });
        }
    }
    Ok(())
}

/// One sample against patterns.
pub(super) fn compare(
    sample: &Sample,
    kind: Fetch,
    matching: Matching,
    flags: &Flags,
    span: Span,
    scope: &Scope<'_>,
) -> Result<Condition, Problem> {
    let plain = sample.converters.iter().all(|call| call.name == "not");
    if kind == Fetch::Bool && matching == Matching::Bool && plain {
        return boolean(sample, flags, span, scope);
    }
    if sample.fetch.name == "http_auth_group" {
        let users = users(sample.argument(), Some(&flags.patterns), scope)?;
        return Ok(Condition::User(BasicAuth { realm: Template::literal(""), users, origin: Some(span) }));
    }
    if let Some(special) = special(sample, matching, flags)? {
        return Ok(special);
    }
    if flags.patterns.is_empty() && matching != Matching::Found && matching != Matching::Bool {
        // As in HAProxy: nothing equals no pattern.
        return Ok(Condition::Always(false));
    }
    let subject = subject(sample, scope)?;
    let words = |flags: &Flags| Words {
        any_of: flags.patterns.iter().map(|word| Template::literal(word.text.clone())).collect(),
        ignore_case: flags.ignore_case,
    };
    if kind == Fetch::Binary
        && !matches!(matching, Matching::Found | Matching::Binary | Matching::Equals | Matching::Pattern)
    {
        return Err(Problem::NotBuilt(format!("this way of matching the bytes of {}", sample.fetch.name)));
    }
    let test = match matching {
        Matching::Found => Test::Present,
        Matching::Equals => Test::Equals(words(flags)),
        Matching::Begins => Test::Begins(words(flags)),
        Matching::Ends => Test::Ends(words(flags)),
        Matching::Contains => Test::Contains(words(flags)),
        Matching::Segment => Test::Segment(words(flags)),
        Matching::Label => Test::Label(words(flags)),
        Matching::Pattern => {
            Test::Matches(flags.patterns.iter().map(|word| pattern(word, flags.ignore_case)).collect())
        }
        Matching::Address => Test::In(networks(&flags.patterns)?),
        Matching::Number if matches!(sample.fetch.name.as_str(), "req.ssl_ver" | "req_ssl_ver") => {
            Test::Number(ranges(&dotted(&flags.patterns))?)
        }
        Matching::Number => Test::Number(ranges(&flags.patterns)?),
        Matching::Length => Test::Length(ranges(&flags.patterns)?),
        Matching::Bool => {
            let wanted = wanted(sample, flags)?;
            let found = Condition::Test { subject, test: Test::Number(vec![(i64::MIN, -1), (1, i64::MAX)]) };
            return Ok(if wanted { found } else { Condition::Not(Box::new(found)) });
        }
        // Bytes are compared in hexadecimal, as patterns write them.
        Matching::Binary if kind == Fetch::Binary => {
            Test::Equals(Words { ignore_case: true, ..words(flags) })
        }
        Matching::Binary => {
            let mut coded = sample.clone();
            coded.converters.push(super::expression::Call { name: "hex".into(), arguments: Vec::new() });
            let subject = Subject::Value(sample::template(&coded, scope)?);
            return Ok(Condition::Test {
                subject,
                test: Test::Equals(Words { ignore_case: true, ..words(flags) }),
            });
        }
    };
    Ok(Condition::Test { subject, test })
}

/// A pattern of an ACL or a rule.
pub(crate) fn pattern(word: &Word, ignore_case: bool) -> Pattern {
    Pattern { source: word.text.clone(), ignore_case, origin: Some(word.span) }
}

pub(super) fn subject(sample: &Sample, scope: &Scope<'_>) -> Result<Subject, Problem> {
    let name = sample.fetch.name.as_str();
    let all = sample.converters.is_empty() && sample.fetch.arguments.len() == 1;
    let field = |split| header_name(sample.argument()).map(|name| (name, split));
    match name {
        "hdr" | "req.hdr" | "req.hdr_ip" | "hdr_ip" | "hdr_val" | "req.hdr_val" | "req.fhdr"
            if all && !scope.response =>
        {
            let (name, split) = field(name != "req.fhdr")?;
            Ok(Subject::RequestHeader { name, split })
        }
        "res.hdr" | "shdr" | "res.fhdr" | "res.hdr_ip" | "shdr_ip" | "res.hdr_val" | "shdr_val" | "hdr"
        | "hdr_ip" | "hdr_val"
            if all && scope.response =>
        {
            let (name, split) = field(name != "res.fhdr")?;
            Ok(Subject::ResponseHeader { name, split })
        }
        name if !scope.response
            && (name == "status" || name.starts_with("res.") || name.starts_with("shdr")) =>
        {
            Err(Problem::Bad(format!("`{name}` looks at a response, and there is none yet in this rule")))
        }
        _ => Ok(Subject::Value(sample::template(sample, scope)?)),
    }
}

/// Whether patterns ask for what is true, which they do where there is none.
fn wanted(sample: &Sample, flags: &Flags) -> Result<bool, Problem> {
    match flags.patterns.iter().map(Word::as_str).collect::<Vec<_>>().as_slice() {
        [] | ["1" | "true" | "yes" | "on"] => Ok(true),
        ["0" | "false" | "no" | "off"] => Ok(false),
        _ => Err(Problem::Bad(format!("`{}` is true or false and takes no such pattern", sample.fetch.name))),
    }
}

/// Fetches that are true or false.
fn boolean(sample: &Sample, flags: &Flags, span: Span, scope: &Scope<'_>) -> Result<Condition, Problem> {
    let wanted = wanted(sample, flags)?;
    let negated = sample.converters.iter().filter(|call| call.name == "not").count() % 2 == 1;
    let condition = truth(sample, span, scope)?;
    Ok(if wanted != negated { condition } else { Condition::Not(Box::new(condition)) })
}

fn truth(sample: &Sample, span: Span, scope: &Scope<'_>) -> Result<Condition, Problem> {
    let equals = |var: Var, text: &str| Condition::Test {
        subject: Subject::Value(Template::var(var)),
        test: Test::Equals(Words { any_of: vec![Template::literal(text)], ignore_case: false }),
    };
    let present = |var: Var| Condition::Not(Box::new(equals(var, "")));
    if let Some(condition) = super::sticks::truth(sample, scope)? {
        return Ok(condition);
    }
    Ok(match sample.fetch.name.as_str() {
        "req.proto_http" | "req_proto_http" if sample::is_tcp(scope) => {
            Condition::Truthy(sample::template(sample, scope)?)
        }
        "always_true" | "req.proto_http" | "req_proto_http" | "wait_end" => Condition::Always(true),
        "always_false" => Condition::Always(false),
        "bool" => Condition::Always(matches!(sample.argument(), "1" | "true" | "yes" | "on")),
        "ssl_fc" => equals(Var::HttpsOn, "on"),
        "ssl_fc_has_early" => present(Var::TlsEarlyData),
        "ssl_fc_has_sni" => present(Var::TlsServerName),
        "ssl_fc_is_resumed" => equals(Var::TlsResumed, "r"),
        "ssl_c_used" | "ssl_fc_has_crt" => present(Var::TlsClientCert),
        "fc_rcvd_proxy" => present(Var::ProxyProtocolAddr),
        "http_first_req" => equals(Var::ConnectionRequests, "1"),
        "http_auth" => Condition::User(BasicAuth {
            realm: Template::literal(""),
            users: users(sample.argument(), None, scope)?,
            origin: Some(span),
        }),
        _ => {
            let fetch = Sample { fetch: sample.fetch.clone(), converters: Vec::new() };
            Condition::Truthy(sample::template(&fetch, scope)?)
        }
    })
}

/// The users of a userlist, or of some of its groups.
fn users(list: &str, groups: Option<&[Word]>, scope: &Scope<'_>) -> Result<Users, Problem> {
    let Some(found) = scope.draft.userlists.get(list) else {
        return Err(Problem::Bad(format!("no userlist is named `{list}`")));
    };
    let belongs = |name: &str, of: &[String]| {
        groups.is_none_or(|groups| {
            groups.iter().any(|group| {
                of.contains(&group.text)
                    || found
                        .groups
                        .iter()
                        .any(|(g, users)| *g == group.text && users.iter().any(|u| u == name))
            })
        })
    };
    let users = found.users.iter().filter(|(name, _, _, of)| belongs(name, of));
    let users = users.map(|(name, password, hashed, _)| {
        let password = password.clone();
        (name.clone(), if *hashed { Password::Crypt(password) } else { Password::Plain(password) })
    });
    Ok(Users::List(users.collect()))
}

/// Fetches whose test has a form of its own.
fn special(sample: &Sample, matching: Matching, flags: &Flags) -> Result<Option<Condition>, Problem> {
    let value = |var: Var, test: Test| Condition::Test { subject: Subject::Value(Template::var(var)), test };
    match sample.fetch.name.as_str() {
        "req.ver" | "req_ver" if matching == Matching::Equals => {
            let any_of =
                flags.patterns.iter().map(|word| Template::literal(format!("HTTP/{}", word.text))).collect();
            Ok(Some(value(Var::Protocol, Test::Equals(Words { any_of, ignore_case: false }))))
        }
        "method" | "meth" if matching == Matching::Equals => {
            let any_of = flags.patterns.iter().map(|word| Template::literal(word.text.clone())).collect();
            Ok(Some(value(Var::Method, Test::Equals(Words { any_of, ignore_case: flags.ignore_case }))))
        }
        _ => Ok(None),
    }
}

/// Networks: addresses with or without a prefix length or mask.
fn networks(patterns: &[Word]) -> Result<Vec<IpNet>, Problem> {
    patterns.iter().map(|word| network(word.as_str()).map_err(Problem::Bad)).collect()
}

/// Versions, `3.1` or `3.1:3.3`, as the numbers that fetches of them give: major times 65536 and minor.
fn dotted(patterns: &[Word]) -> Vec<Word> {
    let number = |text: &str| match text.split_once('.') {
        Some((major, minor)) => match (major.parse::<u32>(), minor.parse::<u32>()) {
            (Ok(major), Ok(minor)) => (major << 16 | minor).to_string(),
            _ => text.to_owned(),
        },
        None => text.parse::<u32>().map_or_else(|_| text.to_owned(), |major| (major << 16).to_string()),
    };
    let shown = |word: &Word| word.text.split(':').map(number).collect::<Vec<_>>().join(":");
    patterns.iter().map(|word| Word { text: shown(word), span: word.span }).collect()
}

/// Numbers: `80`, `80:90`, `gt 5` and its kin; ranges are inclusive.
fn ranges(patterns: &[Word]) -> Result<Vec<(i64, i64)>, Problem> {
    let number = |text: &str| text.parse::<i64>().map_err(|_| Problem::Bad(format!("`{text}` is no number")));
    let mut all = Vec::new();
    let mut operator = "eq";
    for word in patterns {
        if matches!(word.as_str(), "eq" | "ge" | "gt" | "le" | "lt") {
            operator = word.as_str();
            continue;
        }
        if let Some((from, to)) = word.text.split_once(':') {
            let from = if from.is_empty() { i64::MIN } else { number(from)? };
            let to = if to.is_empty() { i64::MAX } else { number(to)? };
            all.push((from, to));
            continue;
        }
        let n = number(word.as_str())?;
        all.push(match operator {
            "ge" => (n, i64::MAX),
            "gt" => (n.saturating_add(1), i64::MAX),
            "le" => (i64::MIN, n),
            "lt" => (i64::MIN, n.saturating_sub(1)),
            _ => (n, n),
        });
    }
    Ok(all)
}
