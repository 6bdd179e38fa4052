//! Access rules, users, real addresses.

use std::sync::Arc;

use weir_diag::Diagnostic;
use weir_model as model;
use weir_plan as plan;
use weir_plan::HeaderName;

use crate::context::Cx;

impl<'m> Cx<'m> {
    pub(crate) fn access(&mut self, access: &'m model::Access) -> Arc<plan::Access> {
        if let Some(known) = self.shared.access.find(access) {
            return known;
        }
        let rules = access.rules.iter().map(|rule| (who(&rule.who), rule.allow));
        let compiled = plan::Access {
            rules: plan::AccessRules::new(rules),
            basic: access.basic.as_ref().map(|basic| self.basic_auth(basic)),
            ask: access.ask.as_ref().map(|ask| self.auth_request(ask)),
            token: access.token.as_ref().map(|auth| self.token_auth(auth)),
            require: self.requirements(&access.require),
            any: access.any,
            delay: access.delay,
        };
        self.shared.access.keep(access, Arc::new(compiled))
    }

    fn auth_request(&mut self, ask: &'m model::AuthRequest) -> plan::AuthRequest {
        let set = ask.set.iter().filter_map(|(name, value)| {
            let value = self.template(value);
            Some((self.names.slot(name)?, value))
        });
        plan::AuthRequest { path: ask.path.as_str().into(), set: set.collect() }
    }

    fn token_auth(&mut self, auth: &'m model::TokenAuth) -> Arc<plan::TokenAuth> {
        if auth.keys.is_empty() && !auth.unverified {
            let title = "tokens are asked for and there are no keys by which they could hold";
            let finding = Diagnostic::error("access::token-without-keys", title);
            self.report(finding.help("name a file of keys, or a path where they are"));
        }
        let keys = auth.keys.iter().map(|keys| match keys {
            model::TokenKeys::File(path) => plan::TokenKeys::File(self.template(path)),
            model::TokenKeys::Request(path) => plan::TokenKeys::Request(self.template(path)),
        });
        let keys = keys.collect();
        Arc::new(plan::TokenAuth {
            realm: self.template(&auth.realm),
            token: auth.token.as_ref().map(|token| self.template(token)),
            unverified: auth.unverified,
            kind: auth.kind,
            keys,
            cache: auth.cache,
            leeway: auth.leeway,
            require: self.requirements(&auth.require),
        })
    }

    fn requirements(&mut self, all: &'m [model::Requirement]) -> Box<[plan::Requirement]> {
        let one = |one: &'m model::Requirement, cx: &mut Self| plan::Requirement {
            values: one.values.iter().map(|value| cx.template(value)).collect(),
            status: one.status,
        };
        all.iter().map(|required| one(required, self)).collect()
    }

    pub(crate) fn basic_auth(&mut self, auth: &model::BasicAuth) -> Arc<plan::BasicAuth> {
        self.at(auth.origin, |cx| {
            let users = match &auth.users {
                model::Users::File(path) => plan::Users::File(cx.template(path)),
                model::Users::List(users) => {
                    users.iter().for_each(|(name, word)| cx.stored_form(name, word));
                    plan::Users::List(
                        users.iter().map(|(name, word)| (name.clone(), password(word))).collect(),
                    )
                }
            };
            Arc::new(plan::BasicAuth { realm: cx.template(&auth.realm), users })
        })
    }

    /// A password that nobody can verify lets nobody in, and no request would say why.
    fn stored_form(&mut self, name: &str, word: &model::Password) {
        let model::Password::Crypt(stored) = word else { return };
        let Some(fault) = weir_password::fault(stored) else { return };
        let title = format!("no password matches what is stored for user `{name}`: {fault}");
        let finding = Diagnostic::error("access::stored-password", title);
        self.report(finding.help("store it as `$6$…` or `$2y$…`: `openssl passwd -6`, `htpasswd -B`"));
    }

    pub(crate) fn real_ip(&mut self, rules: &'m model::RealIp) -> Arc<plan::RealIp> {
        if let Some(known) = self.shared.real_ip.find(rules) {
            return known;
        }
        let from: Vec<plan::Who> = rules.from.iter().map(who).collect();
        let source = match &rules.source {
            model::RealIpSource::Header(name) => plan::RealIpSource::Header(HeaderName::new(name)),
            model::RealIpSource::ProxyProtocol => plan::RealIpSource::ProxyProtocol,
        };
        let compiled = Arc::new(plan::RealIp::new(&from, source, rules.recursive));
        self.shared.real_ip.keep(rules, compiled)
    }
}

fn who(who: &model::Who) -> plan::Who {
    match who {
        model::Who::All => plan::Who::All,
        model::Who::Net(net) => plan::Who::Net(*net),
        model::Who::Unix => plan::Who::Unix,
    }
}

fn password(password: &model::Password) -> plan::Password {
    match password {
        model::Password::Plain(text) => plan::Password::Plain(text.clone()),
        model::Password::Crypt(text) => plan::Password::Crypt(text.clone()),
    }
}
