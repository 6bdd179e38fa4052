//! Rules as programs: `http-request`, `http-response`, `redirect`, `use_backend` and their kin.
//!
//! Owns: what each action becomes, and how `allow` ends a list.
//! Never: compiles conditions; `condition` does.
//! Driven by: `proxies`, list by list in the order HAProxy runs them.
//! Why: `allow` ends its own list only, while later lists still run; so what follows it stands in its `otherwise`.

use weir_diag::{Diagnostic, Span};
use weir_expr::Normalizer;
use weir_expr::settings::{Cause, Dashboard, Exposition};
use weir_model::{
    Action, Condition, EditKind, HeaderEdit, MemoryCacheId, Op, Pattern, Respond, RespondBody, Subject,
    TargetPart, Template, Test, Var, Words,
};

use super::condition::{Acls, clause};
use super::expression::parse;
use super::format::Formatter;
use super::problem::Problem;
use super::sample::{self, is_tcp};
use super::scope::Scope;
use super::sticks::count_error;
use crate::draft::{Rule, RuleList};
use crate::findings::Findings;
use crate::read::{Line, Word};

/// What a rule does once its condition holds.
pub(crate) enum Deed {
    /// These instructions.
    Ops(Vec<Op>),
    /// Ends the list.
    Allow,
    /// Another route.
    Service(Service),
}

/// What `use-service` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// `prometheus-exporter`.
    Metrics,
    /// `weir-dashboard`, and `weir-dashboard-admin`, which may change endpoints: Weir's own.
    Dashboard(Dashboard),
}

impl Service {
    fn of(name: &str) -> Option<Self> {
        match name {
            "prometheus-exporter" => Some(Self::Metrics),
            "weir-dashboard" => Some(Self::Dashboard(Dashboard { write: false })),
            "weir-dashboard-admin" => Some(Self::Dashboard(Dashboard { write: true })),
            _ => None,
        }
    }

    /// What answers, and how people call it.
    pub(crate) fn action(self) -> (Action, &'static str) {
        match self {
            Self::Metrics => (Action::Metrics(Exposition::Haproxy), "metrics"),
            Self::Dashboard(dashboard) => (Action::Dashboard(dashboard), "dashboard"),
        }
    }
}

/// A rule read: its condition, its deed.
pub(crate) struct Read {
    pub(crate) condition: Option<Condition>,
    pub(crate) deed: Deed,
}

/// Lists longer in `allow` than this nest too deeply to be programs.
const MOST_ALLOWS: usize = 128;

/// Reads rules in a scope.
pub(crate) struct Reader<'a, 'f> {
    pub(crate) scope: Scope<'a>,
    pub(crate) acls: &'a Acls,
    /// Milliseconds a tarpit holds.
    pub(crate) tarpit: u64,
    /// Slots of captures given so far.
    pub(crate) captures: &'f mut u16,
    pub(crate) findings: &'f mut Findings,
}

/// The target of the request is exactly this text.
pub(crate) fn target_is(text: &str) -> Condition {
    let words = Words { any_of: vec![Template::literal(text)], ignore_case: false };
    Condition::Test { subject: Subject::Value(Template::var(Var::Target)), test: Test::Equals(words) }
}

/// The target of the request begins with this text.
pub(crate) fn target_begins(text: &str) -> Condition {
    let words = Words { any_of: vec![Template::literal(text)], ignore_case: false };
    Condition::Test { subject: Subject::Value(Template::var(Var::Target)), test: Test::Begins(words) }
}

/// Rules into instructions. `enter` leads to the route of a service, made when first asked for.
pub(crate) fn program(
    rules: Vec<Read>,
    enter: &mut dyn FnMut(Service) -> Op,
    findings: &mut Findings,
    span: Span,
) -> Vec<Op> {
    let allows = rules.iter().filter(|rule| matches!(rule.deed, Deed::Allow)).count();
    if allows > MOST_ALLOWS {
        findings.not_built(span, &format!("{allows} rules that allow"), "at most 128 may stand in one list");
        return Vec::new();
    }
    let mut after: Vec<Op> = Vec::new();
    for rule in rules.into_iter().rev() {
        let then = match rule.deed {
            Deed::Allow => {
                let otherwise = std::mem::take(&mut after);
                after = match rule.condition {
                    None => Vec::new(),
                    Some(condition) => vec![Op::When { condition, then: Vec::new(), otherwise }],
                };
                continue;
            }
            Deed::Ops(ops) => ops,
            Deed::Service(service) => vec![enter(service)],
        };
        if rule.condition.is_none() && joined(&then, &mut after) {
            continue;
        }
        let mut ops = match rule.condition {
            None => then,
            Some(condition) => vec![Op::When { condition, then, otherwise: Vec::new() }],
        };
        ops.append(&mut after);
        after = ops;
    }
    after
}

/// Joins hints to those that follow at once: they are one response. False: they are none.
fn joined(ops: &[Op], after: &mut [Op]) -> bool {
    let ([Op::EarlyHints(hints)], Some(Op::EarlyHints(next))) = (ops, after.first_mut()) else {
        return false;
    };
    next.splice(0..0, hints.iter().cloned());
    true
}

/// A rule's words before `if` or `unless`, from the `least`-th on, and from there on.
pub(super) fn split(words: &[Word], least: usize) -> (&[Word], &[Word]) {
    let at = words.iter().skip(least).position(|word| matches!(word.as_str(), "if" | "unless"));
    words.split_at(at.map_or(words.len(), |at| at + least))
}

impl<'a> Reader<'a, '_> {
    /// Reads the rules of one list; those that fail are reported and left out.
    pub(crate) fn list(&mut self, list: RuleList, response: bool) -> Vec<Read> {
        self.scope.response = response;
        let rules = &self.scope.proxy.settings.rules;
        rules.iter().filter(|rule| rule.list == list).filter_map(|rule| self.rule(rule)).collect()
    }

    /// One rule; `None` if it failed (reported).
    pub(crate) fn rule(&mut self, rule: &Rule) -> Option<Read> {
        let words = rule.line.from(rule.from);
        let span = rule.line.span();
        match rule.list {
            RuleList::Redirect => self.redirect(words, span),
            RuleList::Block | RuleList::MonitorFail => {
                let condition = self.condition(words)?;
                Some(Read { condition, deed: Deed::Ops(vec![deny(403)]) })
            }
            list => self.action(list, words, span),
        }
    }

    /// The condition in words that are empty or begin with `if` or `unless`. `None` where it failed.
    pub(crate) fn condition(&mut self, words: &[Word]) -> Option<Option<Condition>> {
        match words.first() {
            None => Some(None),
            Some(first) if matches!(first.as_str(), "if" | "unless") => {
                clause(words, self.acls, &self.scope, self.findings).map(Some)
            }
            Some(first) => {
                self.findings
                    .bad_value(first, format!("`if` or `unless` is expected here, not `{}`", first.text));
                None
            }
        }
    }

    pub(super) fn template(&mut self, word: &Word, groups: bool) -> Option<Template> {
        let scope = self.scope;
        Formatter { scope, log: None, groups, span: word.span, findings: self.findings }
            .template(word.as_str())
    }

    /// `ACTION ARGUMENTS … [if …]`.
    fn action(&mut self, list: RuleList, words: &[Word], span: Span) -> Option<Read> {
        let (first, rest) = words.split_first()?;
        let name = first.text.split_once('(').map_or(first.as_str(), |(name, _)| name);
        let fixed = match name {
            "set-header" | "add-header" | "replace-path" | "replace-pathq" | "replace-uri" | "set-map"
            | "early-hint" | "set-timeout" => 2,
            "replace-header" | "replace-value" => 3,
            "del-header"
            | "set-path"
            | "set-pathq"
            | "set-query"
            | "set-uri"
            | "set-method"
            | "normalize-uri"
            | "use-service"
            | "set-var"
            | "set-var-fmt"
            | "capture"
            | "set-status"
            | "set-log-level"
            | "del-map"
            | "add-acl"
            | "del-acl"
            | "cache-use"
            | "cache-store"
            | "set-src"
            | "set-src-port"
            | "set-dst"
            | "set-dst-port"
            | "pause"
            | "do-resolve"
            | "set-bandwidth-limit"
            | "set-retries"
            | "set-priority-class"
            | "set-priority-offset"
            | "expect-proxy" => 1,
            _ => 0,
        };
        let (arguments, tail) = match name {
            "deny" | "tarpit" | "return" => self.answer_words(rest),
            name if name.starts_with("track-sc") => split(rest, 1),
            name if name.starts_with("sc-add-") || name.starts_with("sc-set-") => split(rest, 1),
            "redirect" => return self.redirect(rest, span),
            _ => split(rest, fixed),
        };
        if arguments.len() < fixed {
            let title =
                format!("`{name}` needs {fixed} {}", if fixed == 1 { "argument" } else { "arguments" });
            self.findings.push(Diagnostic::error("haproxy::missing-argument", title).at(span));
            return None;
        }
        let deed = match name {
            name if name.starts_with("track-sc") => {
                self.track(list, first, arguments).map(|op| Deed::Ops(vec![op]))
            }
            "set-src" | "set-src-port" | "set-dst" | "set-dst-port" => {
                self.set_address(list, name, &arguments[0]).map(|op| Deed::Ops(vec![op]))
            }
            name => self.deed(name, first, arguments, span),
        };
        let condition = self.condition(tail);
        Some(Read { condition: condition?, deed: deed? })
    }

    fn deed(&mut self, name: &str, first: &Word, arguments: &[Word], span: Span) -> Option<Deed> {
        let ops = match name {
            "allow" | "accept" => return self.no_more(arguments).then_some(Deed::Allow),
            "deny" => {
                // HAProxy takes a refused response for a broken one.
                let status = if self.scope.response { 502 } else { 403 };
                vec![Op::Respond(Respond { cause: Cause::Refusal, ..self.answer(arguments, status)? })]
            }
            "tarpit" => {
                let respond = Respond { cause: Cause::Refusal, ..self.answer(arguments, 500)? };
                vec![Op::Tarpit { millis: self.tarpit, respond }]
            }
            "set-status" => vec![self.set_status(arguments)?],
            "set-log-level" => return self.log_level(&arguments[0]).map(Deed::Ops),
            "return" => vec![Op::Respond(self.content(arguments)?)],
            "auth" => {
                let challenge = Op::Respond(self.challenge(arguments)?);
                count_error(&self.scope).into_iter().chain([challenge]).collect()
            }
            // Only the server's connection ends: what it said is passed on. Over HTTP its answer is one message.
            "close" if is_tcp(&self.scope) => vec![Op::Close(Some(200))],
            "close" => Vec::new(),
            "reject" | "silent-drop" => vec![Op::Close(None)],
            "set-header" | "add-header" | "del-header" | "replace-header" | "replace-value" => {
                vec![self.edit(name, arguments)?]
            }
            "set-path" => vec![Op::SetPath(self.template(&arguments[0], false)?)],
            "set-query" => vec![Op::SetQuery(self.template(&arguments[0], false)?)],
            "set-uri" | "set-pathq" => vec![Op::SetTarget(self.template(&arguments[0], false)?)],
            "set-method" => vec![Op::SetMethod(self.template(&arguments[0], false)?)],
            "normalize-uri" => vec![Op::Normalize(self.normalizer(arguments)?)],
            "replace-path" => vec![self.replace(TargetPart::Path, arguments)?],
            "replace-pathq" => vec![self.replace(TargetPart::PathAndQuery, arguments)?],
            "replace-uri" => vec![self.replace(TargetPart::Target, arguments)?],
            "set-var" | "set-var-fmt" | "unset-var" => vec![self.set(name, first, arguments)?],
            "expect-proxy" if arguments[0].as_str() != "layer4" => {
                self.findings.bad_choice(&arguments[0], "expect-proxy", &["layer4"]);
                return None;
            }
            "expect-proxy" => vec![Op::ExpectProxy],
            "set-retries" => vec![Op::SetRetries(self.retries(&arguments[0])?)],
            "set-priority-class" => vec![Op::SetQueueClass(self.expression(&arguments[0])?)],
            "set-priority-offset" => vec![Op::SetQueueOffset(self.expression(&arguments[0])?)],
            "disable-l7-retry" => vec![Op::RetryConnectOnly],
            "set-bandwidth-limit" => self.bandwidth(arguments)?,
            "do-resolve" => self.resolve(first, &arguments[0])?,
            "set-map" | "del-map" | "add-acl" | "del-acl" => vec![self.edit_list(name, first, arguments)?],
            "sc-inc-gpc" | "sc-inc-gpc0" | "sc-inc-gpc1" | "sc-add-gpc" | "sc-set-gpt" | "sc-set-gpt0" => {
                vec![self.stick_change(name, first, arguments)?]
            }
            "early-hint" | "wait-for-body" | "pause" | "set-timeout" => {
                vec![self.course(name, arguments, span)?]
            }
            "wait-for-handshake" => vec![Op::WaitForHandshake],
            "cache-use" => vec![Op::UseMemory(self.cache(&arguments[0])?)],
            "cache-store" => vec![Op::StoreInMemory(self.cache(&arguments[0])?)],
            "capture" => return self.capture(arguments).map(Deed::Ops),
            "use-service" => {
                if let Some(service) = Service::of(arguments[0].as_str()) {
                    return Some(Deed::Service(service));
                }
                self.findings.not_built(
                    span,
                    &format!("use-service {}", arguments[0].text),
                    "it decides what is answered",
                );
                return None;
            }
            _ => {
                self.findings.not_built(span, name, "it decides what happens to the exchange");
                return None;
            }
        };
        Some(Deed::Ops(ops))
    }

    fn no_more(&mut self, arguments: &[Word]) -> bool {
        if let Some(extra) = arguments.first() {
            self.findings
                .bad_value(extra, format!("`if` or `unless` is expected here, not `{}`", extra.text));
        }
        arguments.is_empty()
    }

    fn edit(&mut self, name: &str, arguments: &[Word]) -> Option<Op> {
        let field = &arguments[0];
        if !is_token(field.as_str()) {
            self.findings.bad_value(field, format!("`{}` is no name of a header field", field.text));
            return None;
        }
        let (kind, value) = match name {
            "del-header" => {
                let method = arguments.get(2).filter(|_| arguments[1].as_str() == "-m");
                if let Some(method) = method.filter(|method| method.as_str() != "str") {
                    self.findings.not_built(method.span, "del-header -m", "only whole names can be deleted");
                    return None;
                }
                (EditKind::Remove, Template::default())
            }
            "set-header" => (EditKind::Set, self.template(&arguments[1], false)?),
            "add-header" => (EditKind::Add, self.template(&arguments[1], false)?),
            _ => {
                let pattern = whole(&arguments[1]);
                (
                    EditKind::Replace { pattern, each: name == "replace-value" },
                    self.template(&arguments[2], true)?,
                )
            }
        };
        let edit = HeaderEdit {
            kind,
            name: field.text.clone(),
            value,
            skip_empty: false,
            statuses: Vec::new(),
            condition: None,
        };
        Some(if self.scope.response { Op::EditAnswer(edit) } else { Op::EditRequest(edit) })
    }

    /// `set-status N [reason TEXT]`.
    fn set_status(&mut self, arguments: &[Word]) -> Option<Op> {
        let status = self.findings.value(&arguments[0], |text| match text.parse::<u16>() {
            Ok(status @ 100..=999) => Ok(status),
            _ => Err(format!("`{text}` is no status; those are 100 to 999")),
        })?;
        let reason = match &arguments[1..] {
            [] => None,
            [key, reason] if key.as_str() == "reason" => Some(reason.text.clone()),
            [extra, ..] => {
                self.findings.bad_value(extra, "`reason` and its text are expected here");
                return None;
            }
        };
        Some(Op::SetStatus { status, reason })
    }

    /// `set-log-level LEVEL`: whether there is a line is built, its severity is not.
    fn log_level(&mut self, level: &Word) -> Option<Vec<Op>> {
        let levels = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];
        match level.as_str() {
            "silent" => Some(vec![Op::SkipLog]),
            known if levels.contains(&known) => {
                self.findings.tuning(level.span, "set-log-level", "lines keep their severity");
                Some(Vec::new())
            }
            _ => {
                self.findings.bad_choice(level, "level", &levels);
                None
            }
        }
    }

    /// The cache of a name.
    fn cache(&mut self, name: &Word) -> Option<MemoryCacheId> {
        let caches = &self.scope.draft.caches;
        let found = (0..).zip(caches).find(|(_, cache)| cache.name == name.text);
        if found.is_none() {
            let title = format!("no cache is named `{}`", name.text);
            let unknown = Diagnostic::error("haproxy::unknown-name", title).at(name.span);
            let names = caches.iter().map(|cache| cache.name.as_str());
            self.findings.push(unknown.suggest(&name.text, name.span, names));
        }
        found.map(|(at, _)| MemoryCacheId(at))
    }

    /// `normalize-uri NORMALIZER [full|strict]`.
    fn normalizer(&mut self, arguments: &[Word]) -> Option<Normalizer> {
        const ALL: [&str; 8] = [
            "fragment-encode",
            "fragment-strip",
            "path-merge-slashes",
            "path-strip-dot",
            "path-strip-dotdot",
            "percent-decode-unreserved",
            "percent-to-uppercase",
            "query-sort-by-name",
        ];
        let (name, rest) = arguments.split_first()?;
        let option = match name.as_str() {
            "path-strip-dotdot" => Some("full"),
            "percent-decode-unreserved" | "percent-to-uppercase" => Some("strict"),
            _ => None,
        };
        let set = match rest {
            [] => false,
            [word] if Some(word.as_str()) == option => true,
            [extra, ..] => {
                let expected = option.map_or("nothing more is expected here".into(), |word| {
                    format!("only `{word}` is expected here")
                });
                self.findings.bad_value(extra, &expected);
                return None;
            }
        };
        Some(match name.as_str() {
            "fragment-encode" => Normalizer::EncodeFragment,
            "fragment-strip" => Normalizer::StripFragment,
            "path-merge-slashes" => Normalizer::MergeSlashes,
            "path-strip-dot" => Normalizer::StripDot,
            "path-strip-dotdot" => Normalizer::StripDotDot { full: set },
            "percent-decode-unreserved" => Normalizer::DecodeUnreserved { strict: set },
            "percent-to-uppercase" => Normalizer::UppercaseEscapes { strict: set },
            "query-sort-by-name" => Normalizer::SortQuery,
            _ => {
                self.findings.bad_choice(name, "normalizer", &ALL);
                return None;
            }
        })
    }

    fn replace(&mut self, part: TargetPart, arguments: &[Word]) -> Option<Op> {
        Some(Op::ReplaceTarget {
            part,
            pattern: whole(&arguments[0]),
            with: self.template(&arguments[1], true)?,
        })
    }

    /// `capture SAMPLE len N`, or `capture SAMPLE id N` into a place that `declare capture` made.
    fn capture(&mut self, arguments: &[Word]) -> Option<Vec<Op>> {
        let response = self.scope.response;
        let sample = parse(arguments[0].as_str()).map_err(Problem::Bad);
        let value = match sample.and_then(|sample| sample::template(&sample, &self.scope)) {
            Ok(value) => value,
            Err(problem) => {
                problem.report(arguments[0].span, self.findings);
                return None;
            }
        };
        let (slot, length) = match &arguments[1..] {
            [key, length] if key.as_str() == "len" && !response => {
                let length = self.findings.value(length, |text| {
                    text.parse::<usize>().map_err(|_| format!("`{text}` is no length"))
                })?;
                let slot = *self.captures;
                *self.captures += 1;
                (slot, length)
            }
            [key, id] if key.as_str() == "id" => {
                let kind = if response { "response" } else { "request" };
                let declared: Vec<&Line> =
                    self.scope.proxy.captures.iter().filter(|line| capture_kind(line) == kind).collect();
                let slot = self.findings.value(id, |text| {
                    let slot =
                        text.parse::<u16>().map_err(|_| format!("`{text}` is no number of a capture"))?;
                    let known = usize::from(slot) < declared.len();
                    known.then_some(slot).ok_or_else(|| format!("no {kind} capture has the number {slot}"))
                })?;
                (slot, declared.get(usize::from(slot)).map_or(0, |line| capture_length(line)))
            }
            _ => {
                let form =
                    if response { "`id` and a number" } else { "`len` and a length, or `id` and a number," };
                self.findings.bad_value(&arguments[0], format!("{form} must follow the sample"));
                return None;
            }
        };
        Some(vec![Op::CaptureValue { value, length, slot, response }])
    }
}

/// `request` or `response`, of `capture KIND header NAME len N` and `declare capture KIND len N`.
pub(crate) fn capture_kind(line: &Line) -> &str {
    if line.text(0) == "declare" { line.text(2) } else { line.text(1) }
}

/// Most bytes of a capture.
pub(crate) fn capture_length(line: &Line) -> usize {
    line.words.last().and_then(|word| word.text.parse().ok()).unwrap_or(0)
}

/// The standard page of a status.
pub(crate) fn standard(status: u16) -> Respond {
    Respond {
        status,
        body: RespondBody::Standard,
        content_type: None,
        headers: Vec::new(),
        error_pages: true,
        cause: Cause::Content,
    }
}

/// Refuses.
pub(crate) fn deny(status: u16) -> Op {
    Op::Respond(Respond { cause: Cause::Refusal, ..standard(status) })
}

/// HAProxy replaces the whole text by the substitute wherever the pattern matches; the model replaces what matched.
fn whole(word: &Word) -> Pattern {
    let source = word.as_str();
    let covers = (source.starts_with('^') && source.ends_with('$') && !source.contains('|'))
        || matches!(source, "(.*)" | ".*" | "^(.*)" | "(.*)$");
    let source = if covers { source.to_owned() } else { format!("^.*?(?:{source}).*$") };
    Pattern { source, ignore_case: false, origin: Some(word.span) }
}

/// RFC 9110 section 5.6.2.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}
