//! Health checks of a backend, as scripts.
//!
//! Owns: which kind of check is made, the connections of a script as each server has them.
//! Driven by: the pool of a backend, and then each of its servers.

mod computed;
mod connect;
mod databases;
mod expect;
mod http;
mod rule;
mod tcp;

use std::net::IpAddr;
use std::time::Duration;

use weir_expr::check::{CheckConnect, CheckStep};
use weir_expr::settings::ProxyProtocol;
use weir_model::Pattern;

use self::computed::Computed;
use self::rule::{ConnectRule, Rule};
use super::scope::Scope;
use crate::draft::Check;
use crate::findings::Findings;

/// What all servers of a backend are asked.
pub(crate) struct Checks {
    rules: Vec<Rule>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) drains_on_404: bool,
}

/// What a server says of the connections of its checks.
pub(crate) struct Ways {
    pub(crate) address: Option<IpAddr>,
    pub(crate) port: Option<u16>,
    /// Connections that do not say otherwise have TLS.
    pub(crate) tls: bool,
    pub(crate) name: Option<String>,
    /// Those that do not say otherwise have a PROXY header.
    pub(crate) send_proxy: bool,
    pub(crate) proxy_version: ProxyProtocol,
}

impl Checks {
    /// The script for one server.
    pub(crate) fn steps(&self, ways: &Ways) -> Vec<CheckStep<Pattern>> {
        let resolve = |rule: &ConnectRule| {
            let sends = rule.send_proxy || rule.default && ways.send_proxy;
            CheckStep::Connect(CheckConnect {
                address: rule.address.or(ways.address),
                port: rule.port.or(ways.port),
                tls: rule.tls || rule.default && ways.tls,
                name: rule.name.clone().or_else(|| ways.name.clone().filter(|_| rule.default)),
                send_proxy: sends.then_some(ways.proxy_version),
                datagrams: false,
            })
        };
        let begins = matches!(self.rules.first(), Some(Rule::Connect(_)));
        let first = (!begins).then(|| resolve(&ConnectRule::of_the_server()));
        let rules = self.rules.iter().map(|rule| match rule {
            Rule::Connect(connect) => resolve(connect),
            Rule::Step(step) => step.clone(),
        });
        first.into_iter().chain(rules).collect()
    }

    /// Whether some connection asks for TLS, whatever the server says.
    pub(crate) fn has_tls(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule, Rule::Connect(connect) if connect.tls))
    }

    /// Whether some connection names the server.
    pub(crate) fn has_name(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule, Rule::Connect(connect) if connect.name.is_some()))
    }
}

/// The checks of a backend.
pub(crate) fn checks(scope: &Scope<'_>, findings: &mut Findings) -> Checks {
    let settings = &scope.proxy.settings;
    let computed = &mut Computed::new(scope);
    let says = |name| settings.http_check.iter().any(|line| line.text(1) == name);
    let rules = match &settings.check {
        // Without `option httpchk` nothing is asked, but mistakes are mistakes.
        None => {
            let _ = http::rules(&[], &settings.http_check, says("send-state"), computed, findings);
            Vec::new()
        }
        Some(Check::Http(words)) => {
            http::rules(words, &settings.http_check, says("send-state"), computed, findings)
        }
        Some(Check::Tcp) => tcp::rules(&settings.tcp_check, computed, findings),
        Some(Check::Known(name, words)) => databases::rules(name, words, findings),
    };
    Checks { rules, timeout: settings.timeout("check"), drains_on_404: says("disable-on-404") }
}
