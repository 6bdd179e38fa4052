//! What `server` lines say of health: checks, agents, servers that are tracked.

use std::net::IpAddr;
use std::time::Duration;

use weir_diag::{Diagnostic, Span};
use weir_expr::check::{AgentCheck, Cuts, FirstState, Observe, Observed, OnErrors};
use weir_expr::settings::ProxyProtocol;
use weir_model::{HealthCheck, Template, UpstreamTls};

use super::check::Ways;
use super::context::mode;
use super::parameters::Parameters;
use super::server::Servers;
use crate::draft::Mode;
use crate::values::time;

impl Servers<'_> {
    /// The checks of a server; `None`: it is not checked.
    pub(super) fn check(
        &mut self,
        parameters: &Parameters,
        tls: Option<&UpstreamTls>,
    ) -> Option<HealthCheck> {
        for name in ["inter", "fastinter", "downinter"] {
            if let Some(word) =
                parameters.value(name).filter(|word| time::millis(word.as_str()) == Ok(Duration::ZERO))
            {
                self.findings.bad_value(word, "the time between checks is above 0");
            }
        }
        let observe = self.observe(parameters);
        if !parameters.is_on("check", &["no-check"]) {
            return None;
        }
        let interval = self.time(parameters, "inter").unwrap_or(Duration::from_secs(2));
        let own_tls = parameters.is_on("check-ssl", &["no-check-ssl"]);
        // As in HAProxy: checks speak TLS where the server does, unless they are sent elsewhere.
        let elsewhere = parameters.has("port") || parameters.has("addr");
        let by_default = own_tls || tls.is_some() && !elsewhere;
        let wanted = by_default || self.checks.has_tls();
        let plain = || UpstreamTls { session_reuse: true, ..UpstreamTls::default() };
        let tls = wanted.then(|| tls.cloned().unwrap_or_else(plain));
        let named = parameters.value("check-sni").map(|word| Template::literal(word.text.clone()));
        // As there: a check belongs to no request, so the server's own `sni` is not sent, nor looked for in its certificate.
        let tls = tls.map(|tls| {
            let verify_host = parameters.value("verifyhost").map(|word| Template::literal(word.text.clone()));
            let any_name = named.is_none() && verify_host.is_none();
            let send_name = named.is_some() || self.checks.has_name();
            UpstreamTls { send_name, any_name, name: named.or(verify_host), ..tls }
        });
        let ways = Ways {
            address: self.ip(parameters, "addr"),
            port: self.number(parameters, "port", 1..=65_535).and_then(|n| u16::try_from(n).ok()),
            tls: by_default,
            name: parameters.value("check-sni").map(|word| word.text.clone()),
            send_proxy: parameters.is_on("check-send-proxy", &["no-check-send-proxy"])
                || (!elsewhere && self.send_proxy(parameters).is_some()),
            proxy_version: self.send_proxy(parameters).unwrap_or(ProxyProtocol::V1),
        };
        Some(HealthCheck {
            steps: self.checks.steps(&ways),
            interval: interval.max(Duration::from_millis(1)),
            jitter: Duration::ZERO,
            fast_interval: self.time(parameters, "fastinter"),
            down_interval: self.time(parameters, "downinter"),
            timeout: self.checks.timeout,
            rise: self.number(parameters, "rise", 1..=i32::MAX as u64).unwrap_or(2),
            fall: self.number(parameters, "fall", 1..=i32::MAX as u64).unwrap_or(3),
            tls,
            first: self.first_state(parameters),
            drains_on_404: self.checks.drains_on_404,
            observe,
        })
    }

    /// `observe` with `error-limit` and `on-error`.
    fn observe(&mut self, parameters: &Parameters) -> Option<Observe> {
        let what = parameters.value("observe").and_then(|word| match word.as_str() {
            "layer4" => Some(Observed::Connections),
            "layer7" if mode(self.scope.proxy) != Mode::Http => {
                self.findings
                    .bad_value(word, "`layer7` looks at responses, which there are in `mode http` only");
                None
            }
            "layer7" => Some(Observed::Responses),
            "none" => None,
            _ => {
                self.findings.bad_choice(word, "layer", &["none", "layer4", "layer7"]);
                None
            }
        });
        let then = match parameters.value("on-error") {
            None => OnErrors::FailCheck,
            Some(word) => match word.as_str() {
                "fastinter" => OnErrors::CheckSooner,
                "fail-check" => OnErrors::FailCheck,
                "sudden-death" => OnErrors::SuddenDeath,
                "mark-down" => OnErrors::MarkDown,
                _ => {
                    let known = ["fastinter", "fail-check", "sudden-death", "mark-down"];
                    self.findings.bad_choice(word, "action", &known);
                    OnErrors::FailCheck
                }
            },
        };
        let limit = self.number(parameters, "error-limit", 1..=i32::MAX as u64).unwrap_or(10);
        Some(Observe { what: what?, limit, then })
    }

    /// `on-marked-down` and `on-marked-up`.
    pub(super) fn cuts(&mut self, parameters: &Parameters) -> Cuts {
        let mut is = |name, only: &'static str| {
            parameters.value(name).is_some_and(|word| {
                let fits = word.as_str() == only;
                if !fits {
                    self.findings.bad_choice(word, "action", &[only]);
                }
                fits
            })
        };
        Cuts {
            when_down: is("on-marked-down", "shutdown-sessions"),
            backups_when_up: is("on-marked-up", "shutdown-backup-sessions"),
        }
    }

    fn ip(&mut self, parameters: &Parameters, name: &str) -> Option<IpAddr> {
        let address = |text: &str| text.parse().map_err(|_| format!("`{text}` is no address"));
        parameters.read_value(name, self.findings, address)
    }

    /// `init-state`.
    fn first_state(&mut self, parameters: &Parameters) -> FirstState {
        let Some(word) = parameters.value("init-state") else { return FirstState::Up };
        match word.as_str() {
            "up" => FirstState::Up,
            "fully-up" => FirstState::FullyUp,
            "down" => FirstState::Down,
            "fully-down" => FirstState::FullyDown,
            _ => {
                self.findings.bad_choice(word, "state", &["up", "fully-up", "down", "fully-down"]);
                FirstState::Up
            }
        }
    }

    /// `agent-check` with its kin.
    pub(super) fn agent(&mut self, parameters: &Parameters, span: Span) -> Option<AgentCheck> {
        let port = self.number(parameters, "agent-port", 1..=65_535).and_then(|n| u16::try_from(n).ok());
        let (address, interval) = (self.ip(parameters, "agent-addr"), self.time(parameters, "agent-inter"));
        if !parameters.is_on("agent-check", &["no-agent-check"]) {
            return None;
        }
        let Some(port) = port else {
            let text = "`agent-check` needs `agent-port`";
            self.findings.push(Diagnostic::error("haproxy::agent-port", text).at(span));
            return None;
        };
        let send = parameters.value("agent-send").map(|word| word.text.clone().into_bytes());
        let interval = interval.unwrap_or(Duration::from_secs(2)).max(Duration::from_millis(1));
        Some(AgentCheck { address, port, interval, send: send.unwrap_or_default() })
    }

    /// `track [BACKEND/]SERVER`.
    pub(super) fn tracked(&mut self, parameters: &Parameters) -> Option<(String, String)> {
        let word = parameters.value("track")?;
        let own = self.scope.proxy.name.as_str();
        let (backend, server) = word.text.split_once('/').unwrap_or((own, word.as_str()));
        let draft = self.scope.draft;
        let found = draft
            .proxies
            .iter()
            .find(|proxy| proxy.name.as_str() == backend)
            .and_then(|proxy| proxy.servers.iter().find(|one| one.line.text(1) == server));
        if found.is_none() {
            self.findings.bad_value(word, format!("there is no server `{server}` in `{backend}`"));
            return None;
        }
        if parameters.is_on("check", &["no-check"]) {
            self.findings.bad_value(word, "a server that is checked itself tracks no other");
            return None;
        }
        Some((backend.to_owned(), server.to_owned()))
    }
}
