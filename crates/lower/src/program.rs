//! Rule programs.

use std::sync::Arc;

use weir_model as model;
use weir_plan as plan;
use weir_plan::{HeaderName, KeyListIx, MemoryCacheIx, NetMap, Program, TextTest, Words};

use crate::context::Cx;

impl<'m> Cx<'m> {
    /// A program; `None` if there is nothing in it.
    pub(crate) fn program(&mut self, ops: &'m [model::Op]) -> Option<Arc<Program>> {
        (!ops.is_empty()).then(|| Arc::new(self.ops(ops)))
    }

    fn ops(&mut self, ops: &'m [model::Op]) -> Program {
        ops.iter().map(|op| self.op(op)).collect()
    }

    fn op(&mut self, op: &'m model::Op) -> plan::Op {
        match op {
            model::Op::When { condition, then, otherwise } => plan::Op::When {
                condition: self.condition(condition),
                then: self.ops(then),
                otherwise: self.ops(otherwise),
            },
            model::Op::Set { variable, value } => self.set(variable, value),
            model::Op::SetLimitRate(rate) => plan::Op::SetLimitRate(self.template(rate)),
            model::Op::Unset(variable) => match self.set(variable, &model::Template::default()) {
                plan::Op::Set { slot, .. } => plan::Op::Unset(slot),
                other => other,
            },
            model::Op::SetFound { variable, value } => match self.set(variable, value) {
                plan::Op::Set { slot, value } => plan::Op::SetFound { slot, value },
                other => other,
            },
            model::Op::Rewrite { pattern, replacement, keep_query, flag } => plan::Op::Rewrite {
                pattern: self.pattern(pattern),
                replacement: self.template(replacement),
                keep_query: *keep_query,
                flag: *flag,
            },
            model::Op::SetPath(value) => plan::Op::SetPath(self.template(value)),
            model::Op::SetQuery(value) => plan::Op::SetQuery(self.template(value)),
            model::Op::SetTarget(value) => plan::Op::SetTarget(self.template(value)),
            model::Op::Normalize(normalizer) => plan::Op::Normalize(*normalizer),
            model::Op::SetMethod(value) => plan::Op::SetMethod(self.template(value)),
            model::Op::ReplaceTarget { part, pattern, with } => plan::Op::ReplaceTarget {
                part: *part,
                pattern: self.pattern(pattern),
                with: self.template(with),
            },
            model::Op::EditRequest(edit) => plan::Op::EditRequest(Box::new(self.header_edit(edit))),
            model::Op::AfterResponse(ops) => plan::Op::AfterResponse(Arc::new(self.ops(ops))),
            model::Op::Respond(respond) => plan::Op::Respond(self.respond(respond)),
            model::Op::Close(status) => plan::Op::Close(*status),
            model::Op::Tarpit { millis, respond } => {
                plan::Op::Tarpit { millis: *millis, respond: self.respond(respond) }
            }
            model::Op::RequireUser(auth) => plan::Op::RequireUser(self.basic_auth(auth)),
            model::Op::Adopt(route) => plan::Op::Adopt(self.route_ix(*route)),
            model::Op::Enter(route) => plan::Op::Enter(self.route_ix(*route)),
            model::Op::Stop => plan::Op::Stop,
            model::Op::CaptureRequestHeader { name, length, slot } => {
                plan::Op::CaptureRequestHeader { name: HeaderName::new(name), length: *length, slot: *slot }
            }
            model::Op::EditAnswer(edit) => plan::Op::EditAnswer(Arc::new(self.header_edit(edit))),
            model::Op::SetStatus { status, reason } => {
                plan::Op::SetStatus { status: *status, reason: reason.as_deref().map(Into::into) }
            }
            model::Op::CaptureValue { value, length, slot, response } => plan::Op::CaptureValue {
                value: self.template(value),
                length: *length,
                slot: *slot,
                response: *response,
            },
            model::Op::SkipLog => plan::Op::SkipLog,
            model::Op::EditList { list, edit, key, value } => plan::Op::EditList {
                list: KeyListIx(list.0),
                edit: *edit,
                key: self.template(key),
                value: self.template(value),
            },
            model::Op::UseMemory(cache) => plan::Op::UseMemory(MemoryCacheIx(cache.0)),
            model::Op::StoreInMemory(cache) => plan::Op::StoreInMemory(MemoryCacheIx(cache.0)),
            model::Op::Keep { of, name, value, number } => plan::Op::Keep {
                of: *of,
                name: name.as_str().into(),
                value: self.optional_template(value.as_ref()),
                number: *number,
            },
            model::Op::EarlyHints(fields) => {
                let fields = fields.iter();
                let one = fields.map(|(name, value)| (HeaderName::new(name), self.template(value)));
                plan::Op::EarlyHints(one.collect())
            }
            model::Op::WaitForBody { millis, least } => {
                plan::Op::WaitForBody { millis: *millis, least: *least }
            }
            model::Op::WaitForHandshake => plan::Op::WaitForHandshake,
            model::Op::Pause(millis) => plan::Op::Pause(self.template(millis)),
            model::Op::SetRetries(most) => plan::Op::SetRetries(self.template(most)),
            model::Op::SetQueueClass(class) => plan::Op::SetQueueClass(self.template(class)),
            model::Op::SetQueueOffset(millis) => plan::Op::SetQueueOffset(self.template(millis)),
            model::Op::RetryConnectOnly => plan::Op::RetryConnectOnly,
            model::Op::ExpectProxy => plan::Op::ExpectProxy,
            model::Op::SetTimeout(which, millis) => plan::Op::SetTimeout(*which, self.template(millis)),
            model::Op::Resolve { name, resolver, ipv4_first } => {
                let resolver = self.resolver(resolver);
                plan::Op::Resolve { name: self.template(name), resolver, ipv4_first: *ipv4_first }
            }
            model::Op::SetAddress { end, part, value, connection } => {
                let value = self.template(value);
                plan::Op::SetAddress { end: *end, part: *part, value, connection: *connection }
            }
            model::Op::Stick(op) => plan::Op::Stick(Box::new(op.map(|template| self.template(template)))),
            model::Op::CaptureResponseHeader { name, length, slot } => {
                plan::Op::CaptureResponseHeader { name: HeaderName::new(name), length: *length, slot: *slot }
            }
        }
    }

    fn set(&mut self, variable: &str, value: &model::Template) -> plan::Op {
        let value = self.template(value);
        if let Some(slot) = self.names.slot(variable) {
            self.assigned.insert(slot);
            return plan::Op::Set { slot, value };
        }
        if variable == "limit_rate" {
            return plan::Op::SetLimitRate(value);
        }
        self.unknown_variable(variable);
        plan::Op::Stop
    }

    pub(crate) fn respond(&mut self, respond: &'m model::Respond) -> Arc<plan::Respond> {
        if let Some(known) = self.shared.responds.find(respond) {
            return known;
        }
        let body = match &respond.body {
            model::RespondBody::Whole(path) => return self.whole(respond, path),
            model::RespondBody::Standard => plan::RespondBody::Standard,
            model::RespondBody::Text(text) => plan::RespondBody::Text(self.template(text)),
            model::RespondBody::Redirect(to) => plan::RespondBody::Redirect(self.template(to)),
            model::RespondBody::File(path) => {
                let content = self.file("respond::unreadable-file", "the response file", path);
                plan::RespondBody::Bytes(content.unwrap_or_default())
            }
        };
        let headers = respond.headers.iter();
        let compiled = plan::Respond {
            status: respond.status,
            body,
            content_type: self.optional_template(respond.content_type.as_ref()),
            headers: headers.map(|(name, value)| (HeaderName::new(name), self.template(value))).collect(),
            error_pages: respond.error_pages,
            reason: None,
            cause: respond.cause,
        };
        self.shared.responds.keep(respond, Arc::new(compiled))
    }

    /// An answer that is all in a file; fields of the rule come after its own.
    fn whole(&mut self, respond: &'m model::Respond, path: &'m std::path::Path) -> Arc<plan::Respond> {
        let content = self.file("respond::unreadable-file", "the response file", path);
        let mut whole = plan::whole_response(respond.status, &content.unwrap_or_default());
        for (name, value) in &respond.headers {
            whole.headers.push((HeaderName::new(name), self.template(value)));
        }
        self.shared.responds.keep(respond, Arc::new(whole))
    }

    pub(crate) fn condition(&mut self, condition: &'m model::Condition) -> plan::Condition {
        match condition {
            model::Condition::Always(value) => plan::Condition::Always(*value),
            model::Condition::Truthy(value) => plan::Condition::Truthy(self.template(value)),
            model::Condition::Test { subject, test } => {
                plan::Condition::Test { subject: self.subject(subject), test: self.test(test) }
            }
            model::Condition::File { kind, path } => {
                plan::Condition::File { kind: *kind, path: self.template(path) }
            }
            model::Condition::User(auth) => plan::Condition::User(self.basic_auth(auth)),
            model::Condition::Not(inner) => plan::Condition::Not(Box::new(self.condition(inner))),
            model::Condition::All(inner) => {
                plan::Condition::All(inner.iter().map(|condition| self.condition(condition)).collect())
            }
            model::Condition::Any(inner) => {
                plan::Condition::Any(inner.iter().map(|condition| self.condition(condition)).collect())
            }
        }
    }

    fn subject(&mut self, subject: &model::Subject) -> plan::Subject {
        match subject {
            model::Subject::Value(value) => plan::Subject::Value(self.template(value)),
            model::Subject::RequestHeader { name, split } => {
                plan::Subject::RequestHeader { name: HeaderName::new(name), split: *split }
            }
            model::Subject::ResponseHeader { name, split } => {
                plan::Subject::ResponseHeader { name: HeaderName::new(name), split: *split }
            }
        }
    }

    fn test(&mut self, test: &'m model::Test) -> plan::Test {
        match test {
            model::Test::Present => plan::Test::Present,
            model::Test::Equals(words) => self.words(TextTest::Equals, words),
            model::Test::Begins(words) => self.words(TextTest::Begins, words),
            model::Test::Ends(words) => self.words(TextTest::Ends, words),
            model::Test::Contains(words) => self.words(TextTest::Contains, words),
            model::Test::Segment(words) => self.words(TextTest::Segment, words),
            model::Test::Label(words) => self.words(TextTest::Label, words),
            model::Test::Matches(patterns) => plan::Test::Matches(self.patterns(patterns)),
            model::Test::In(nets) => plan::Test::In(NetMap::new(nets.iter().map(|net| (*net, ())), true)),
            model::Test::Number(ranges) => plan::Test::Number(ranges.as_slice().into()),
            model::Test::Length(ranges) => plan::Test::Length(ranges.as_slice().into()),
            model::Test::Listed(list) => plan::Test::Listed(self.key_use(*list)),
        }
    }

    fn words(&mut self, how: TextTest, words: &model::Words) -> plan::Test {
        let any_of: Vec<plan::Template> = words.any_of.iter().map(|word| self.template(word)).collect();
        plan::Test::Text(Words::new(how, any_of, words.ignore_case))
    }

    pub(crate) fn header_edit(&mut self, edit: &'m model::HeaderEdit) -> plan::HeaderEdit {
        let kind = match &edit.kind {
            model::EditKind::Add => plan::EditKind::Add,
            model::EditKind::Set => plan::EditKind::Set,
            model::EditKind::Assign => plan::EditKind::Assign,
            model::EditKind::Remove => plan::EditKind::Remove,
            model::EditKind::RemovePrefix => plan::EditKind::RemovePrefix,
            model::EditKind::Replace { pattern, each } => {
                plan::EditKind::Replace { pattern: self.pattern(pattern), each: *each }
            }
        };
        let mut statuses = edit.statuses.clone();
        statuses.sort_unstable();
        plan::HeaderEdit {
            kind,
            name: HeaderName::new(&edit.name),
            value: self.template(&edit.value),
            skip_empty: edit.skip_empty,
            statuses: statuses.into(),
            condition: edit.condition.as_ref().map(|condition| self.condition(condition)),
        }
    }
}
