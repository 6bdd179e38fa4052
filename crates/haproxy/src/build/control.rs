//! `stats socket` lines as sockets for commands.
//!
//! Owns: their levels and names.
//! Never: knows a command.

use weir_expr::settings::{ControlLevel, ControlPurpose, ControlSocket};
use weir_model::{Address, ControlListener};

use super::bind::Binder;
use super::parameters::Parameters;
use crate::read::Line;
use crate::values::address;
use crate::words::BIND;

impl Binder<'_> {
    /// All sockets of `global`.
    pub(crate) fn control(&mut self) -> Vec<ControlListener> {
        let global = &self.draft.global;
        let mut all: Vec<ControlListener> = Vec::new();
        for line in &global.stats_sockets {
            for listener in self.control_line(line) {
                if all.iter().any(|one| one.address == listener.address) {
                    let title =
                        format!("`stats socket {}` stands twice: the first counts", listener.control.name);
                    self.findings.ignored(line.span(), title);
                } else {
                    all.push(listener);
                }
            }
        }
        all
    }

    fn control_line(&mut self, line: &Line) -> Vec<ControlListener> {
        // `stats`, `socket`, the address.
        let Some(word) = line.word(2) else { return Vec::new() };
        let mut parameters = Parameters::default();
        parameters.read(line.from(3), BIND, "stats socket", self.findings);
        if let Some(span) = parameters.span("ssl") {
            self.findings.not_built(span, "stats socket … ssl", "it decides who gets in");
        }
        let level = match parameters.value("level") {
            None => ControlLevel::default(),
            Some(word) => match word.as_str() {
                "user" => ControlLevel::User,
                "operator" => ControlLevel::Operator,
                "admin" => ControlLevel::Admin,
                _ => {
                    self.findings.bad_choice(word, "level", &["user", "operator", "admin"]);
                    ControlLevel::User
                }
            },
        };
        let exposes = match parameters.value("expose-fd") {
            None => false,
            Some(word) => {
                if word.as_str() != "listeners" {
                    self.findings.bad_choice(word, "expose-fd", &["listeners"]);
                }
                word.as_str() == "listeners"
            }
        };
        let Some(written) = self.findings.value(word, address::parse) else { return Vec::new() };
        let one = |binder: &mut Self, address: Address| ControlListener {
            origin: Some(word.span),
            socket: binder.socket(&parameters, &address),
            control: ControlSocket {
                name: shown(&address),
                level,
                purpose: ControlPurpose::Commands,
                exposes,
            },
            address,
        };
        let found = self.addresses(word, written, &parameters);
        found.into_iter().map(|(address, _)| one(self, address)).collect()
    }
}

/// As `show cli sockets` writes it.
fn shown(address: &Address) -> String {
    match address {
        Address::Tcp(at) if at.is_ipv4() => format!("ipv4@{at}"),
        Address::Tcp(at) => format!("ipv6@{at}"),
        Address::Unix(path) => match path.to_string_lossy().trim_end_matches('\0').strip_prefix('@') {
            Some(name) => format!("abns@{name}"),
            None => format!("unix@{}", path.display()),
        },
        Address::Udp(_) | Address::Inherited(_) => address.to_string(),
    }
}
