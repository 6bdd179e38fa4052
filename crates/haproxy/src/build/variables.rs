//! Definitions of the user variables that a model mentions.

use std::collections::BTreeSet;

use weir_model::{
    Condition, Definition, HeaderEdit, Model, Op, Respond, RespondBody, Subject, TcpAction, Template, Test,
    Var, Variable,
};

use super::logs;
use super::map::Maps;

/// Defines every variable that is read or set anywhere and not defined yet.
pub(crate) fn define_all(model: &mut Model, maps: &Maps) {
    let mut names = Names::default();
    for site in &model.sites {
        names.ops(&site.program);
    }
    for route in &model.routes {
        names.ops(&route.program);
        names.ops(&route.response_program);
        if let weir_model::Action::FastCgi(application) = &route.action {
            application.params.iter().for_each(|param| names.template(&param.value));
        }
        route.response_edits.iter().for_each(|edit| names.edit(edit));
        for log in route.access_logs.iter() {
            names.template(&log.format);
            log.only.iter().for_each(|only| names.condition(only));
        }
    }
    for listener in &model.listeners {
        names.ops(&listener.gate);
    }
    for pool in &model.pools {
        if let weir_model::Balance::KeyHash { key, .. } = &pool.balance {
            names.template(key);
        }
        for rule in &pool.persistence {
            rule.condition.iter().for_each(|condition| names.condition(condition));
        }
        for rule in &pool.assigned {
            names.template(&rule.endpoint);
            rule.condition.iter().for_each(|condition| names.condition(condition));
        }
        for rule in pool.stickiness.iter().flat_map(|one| &one.rules) {
            names.template(&rule.key);
            rule.condition.iter().for_each(|condition| names.condition(condition));
        }
    }
    for service in &model.tcp {
        names.ops(&service.program);
        names.action(&service.action);
        service.access_logs.iter().for_each(|log| names.template(&log.format));
    }
    maps.sources().iter().for_each(|source| names.template(source));
    for name in names.all {
        if let Some(variable) = maps.definition(&name) {
            model.variables.push(variable);
        } else if !logs::define(&name, model) {
            model.variables.push(Variable { name, origin: None, definition: Definition::Assigned });
        }
    }
}

#[derive(Default)]
struct Names {
    all: BTreeSet<String>,
}

impl Names {
    fn template(&mut self, template: &Template) {
        for var in template.vars() {
            if let Var::User(name) = var {
                self.all.insert(name.clone());
            }
        }
    }

    fn ops(&mut self, ops: &[Op]) {
        for op in ops {
            match op {
                Op::When { condition, then, otherwise } => {
                    self.condition(condition);
                    self.ops(then);
                    self.ops(otherwise);
                }
                Op::Set { variable, value } | Op::SetFound { variable, value } => {
                    self.all.insert(variable.clone());
                    self.template(value);
                }
                Op::Unset(variable) => _ = self.all.insert(variable.clone()),
                Op::SetPath(value) | Op::SetQuery(value) | Op::SetTarget(value) | Op::SetMethod(value) => {
                    self.template(value)
                }
                Op::Rewrite { replacement: value, .. } | Op::ReplaceTarget { with: value, .. } => {
                    self.template(value)
                }
                Op::AfterResponse(ops) => self.ops(ops),
                Op::EarlyHints(fields) => fields.iter().for_each(|(_, value)| self.template(value)),
                Op::Keep { value: Some(value), .. } => self.template(value),
                Op::Resolve { name: value, .. }
                | Op::SetLimitRate(value)
                | Op::SetRetries(value)
                | Op::SetQueueClass(value)
                | Op::SetQueueOffset(value)
                | Op::Pause(value)
                | Op::SetTimeout(_, value)
                | Op::SetAddress { value, .. } => self.template(value),
                Op::EditRequest(edit) | Op::EditAnswer(edit) => self.edit(edit),
                Op::CaptureValue { value, .. } => self.template(value),
                Op::EditList { key, value, .. } => {
                    self.template(key);
                    self.template(value);
                }
                Op::Stick(op) => op.template().into_iter().for_each(|value| self.template(value)),
                Op::Respond(respond) | Op::Tarpit { respond, .. } => self.respond(respond),
                _ => {}
            }
        }
    }

    fn action(&mut self, action: &TcpAction) {
        if let TcpAction::Proxy(proxy) = action {
            proxy.answers.iter().for_each(|answers| self.ops(&answers.program));
        }
        let TcpAction::Choose(cases) = action else { return };
        for case in cases {
            case.condition.iter().for_each(|condition| self.condition(condition));
            self.ops(&case.program);
            self.action(&case.action);
        }
    }

    fn edit(&mut self, edit: &HeaderEdit) {
        self.template(&edit.value);
        edit.condition.iter().for_each(|condition| self.condition(condition));
    }

    fn respond(&mut self, respond: &Respond) {
        respond.headers.iter().for_each(|(_, value)| self.template(value));
        if let RespondBody::Text(text) | RespondBody::Redirect(text) = &respond.body {
            self.template(text);
        }
    }

    fn condition(&mut self, condition: &Condition) {
        match condition {
            Condition::Test { subject, test } => {
                if let Subject::Value(value) = subject {
                    self.template(value);
                }
                if let Test::Equals(words) | Test::Begins(words) | Test::Ends(words) | Test::Contains(words) =
                    test
                {
                    words.any_of.iter().for_each(|word| self.template(word));
                }
            }
            Condition::Not(inner) => self.condition(inner),
            Condition::All(all) | Condition::Any(all) => all.iter().for_each(|one| self.condition(one)),
            Condition::Truthy(value) => self.template(value),
            _ => {}
        }
    }
}
