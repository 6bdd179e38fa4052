//! The rules of a script, before it is known which server is checked.

use std::net::IpAddr;

use weir_expr::check::CheckStep;
use weir_model::Pattern;

/// A rule.
pub(super) enum Rule {
    Connect(ConnectRule),
    Step(CheckStep<Pattern>),
}

/// A connection, as its rule has it.
#[derive(Default)]
pub(super) struct ConnectRule {
    /// What it does not say is as the server's line has it.
    pub(super) default: bool,
    pub(super) port: Option<u16>,
    pub(super) address: Option<IpAddr>,
    pub(super) tls: bool,
    pub(super) name: Option<String>,
    pub(super) send_proxy: bool,
}

impl ConnectRule {
    /// Where no rule connects first.
    pub(super) fn of_the_server() -> Self {
        Self { default: true, ..Self::default() }
    }
}
