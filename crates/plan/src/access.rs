//! Who may pass.
//!
//! Owns: compiled network rules, user lists, real-IP rules.
//! Never: reads password files or hashes passwords.
//! Driven by: `engine`, before the action.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use weir_expr::Slot;

use crate::{HeaderName, NetMap, Template};

/// A client's address as access rules see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// By IP.
    Ip(IpAddr),
    /// On a unix socket.
    Unix,
}

/// Network rules in order, then user and password.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Access {
    /// Network rules.
    pub rules: AccessRules,
    /// Basic authentication.
    pub basic: Option<Arc<BasicAuth>>,
    /// Another route of the site is asked, after the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<AuthRequest>,
    /// A token has to be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Arc<TokenAuth>>,
    /// What has to hold in any case, once the others let pass.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub require: Box<[Requirement]>,
    /// One of `rules`, `basic`, `ask` and `token` suffices (`satisfy any`).
    pub any: bool,
    /// How long a refusal with 401 waits before it is told (`auth_delay`).
    #[serde(skip_serializing_if = "std::time::Duration::is_zero")]
    pub delay: std::time::Duration,
}

/// A request of Weir's own to another path of the site, whose status decides: 2xx lets pass, 401 and 403 refuse.
#[derive(Clone, Debug, Serialize)]
pub struct AuthRequest {
    /// Path.
    pub path: Box<str>,
    /// User variables that are assigned from that answer.
    pub set: Box<[(Slot, Template)]>,
}

/// A token that a request has to show.
#[derive(Clone, Debug, Serialize)]
pub struct TokenAuth {
    /// Realm.
    pub realm: Template,
    /// Where the token is; `None`: in the field Authorization.
    pub token: Option<Template>,
    /// It is read for variables alone.
    pub unverified: bool,
    /// What kind of token is expected.
    pub kind: weir_expr::settings::TokenKind,
    /// By which keys it holds.
    pub keys: Box<[TokenKeys]>,
    /// How long keys are kept; zero: they are looked at for each request.
    pub cache: std::time::Duration,
    /// By how much clocks may differ.
    pub leeway: std::time::Duration,
    /// What has to hold beside.
    pub require: Box<[Requirement]>,
}

/// Where keys of tokens are.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenKeys {
    /// In a file.
    File(Template),
    /// In the answer to a request to this path of the same site.
    Request(Template),
}

/// Texts of which none may be empty or `0`.
#[derive(Clone, Debug, Serialize)]
pub struct Requirement {
    /// The texts.
    pub values: Box<[Template]>,
    /// The status to refuse with.
    pub status: u16,
}

impl Access {
    /// True if everyone passes.
    pub fn is_open(&self) -> bool {
        self.rules.is_empty() && self.basic.is_none() && self.ask.is_none() && !self.asks_who()
    }

    /// Whether it depends on more than addresses, passwords and another route.
    pub fn asks_who(&self) -> bool {
        self.token.as_ref().is_some_and(|token| !token.unverified) || !self.require.is_empty()
    }
}

/// Network rules: the first that matches decides.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AccessRules {
    /// Rank of the first rule of each network, with what it says. Ranks are those of the list as written.
    nets: NetMap<(u32, bool)>,
    /// The first rule for all.
    all: Option<(u32, bool)>,
    /// The first rule for unix sockets.
    unix: Option<(u32, bool)>,
}

impl AccessRules {
    /// Compiles rules: `(who, allow)` in order.
    pub fn new(rules: impl IntoIterator<Item = (Who, bool)>) -> Self {
        let (mut nets, mut all, mut unix) = (Vec::new(), None, None);
        for (rank, (who, allow)) in (0u32..).zip(rules) {
            match who {
                Who::All => all = all.or(Some((rank, allow))),
                Who::Unix => unix = unix.or(Some((rank, allow))),
                Who::Net(net) => nets.push((net, (rank, allow))),
            }
        }
        Self { nets: NetMap::new(nets, true), all, unix }
    }

    /// What the first rule that matches says: true to allow, false to deny; `None`: no rule matches.
    pub fn verdict(&self, client: Client) -> Option<bool> {
        let own = match client {
            Client::Ip(address) => self.nets.all(address).min_by_key(|rule| rule.0),
            Client::Unix => self.unix,
        };
        own.into_iter().chain(self.all).min_by_key(|rule| rule.0).map(|rule| rule.1)
    }

    /// True if there is no rule.
    pub fn is_empty(&self) -> bool {
        self.nets.is_empty() && self.all.is_none() && self.unix.is_none()
    }
}

/// Clients that a rule speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// Everyone.
    All,
    /// Those of a network.
    Net(ipnet::IpNet),
    /// Those of unix sockets.
    Unix,
}

/// Basic authentication (RFC 7617).
#[derive(Clone, Debug, Serialize)]
pub struct BasicAuth {
    /// Realm; turned off if it evaluates to `off`.
    pub realm: Template,
    /// Who may pass.
    pub users: Users,
}

/// A set of users.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Users {
    /// htpasswd file; read again when it changes.
    File(Template),
    /// Users in the configuration.
    List(#[serde(serialize_with = "crate::show::names")] Vec<(String, Password)>),
}

/// A password in the configuration.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Password {
    /// As it is.
    Plain(String),
    /// crypt(3) text.
    Crypt(String),
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

impl Serialize for Password {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("<redacted>")
    }
}

/// Client addresses from a trusted proxy.
#[derive(Clone, Debug, Serialize)]
pub struct RealIp {
    /// Peers that are believed.
    #[serde(serialize_with = "crate::net::show_set")]
    from: NetMap<()>,
    all: bool,
    unix: bool,
    /// Where the address is read.
    pub source: RealIpSource,
    /// Walk the list from the right over all trusted addresses.
    pub recursive: bool,
}

impl RealIp {
    /// Compiles the list of peers.
    pub fn new(from: &[Who], source: RealIpSource, recursive: bool) -> Self {
        let nets =
            from.iter().filter_map(|who| if let Who::Net(net) = who { Some((*net, ())) } else { None });
        let (all, unix) = (from.contains(&Who::All), from.contains(&Who::Unix));
        Self { from: NetMap::new(nets, true), all, unix, source, recursive }
    }

    /// True if a peer is believed.
    pub fn trusts(&self, client: Client) -> bool {
        self.all
            || match client {
                Client::Ip(address) => self.from.contains(address),
                Client::Unix => self.unix,
            }
    }
}

/// Source of a real client address.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RealIpSource {
    /// A request field.
    Header(HeaderName),
    /// The PROXY header.
    ProxyProtocol,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_decides_whatever_its_prefix() {
        let net = |text: &str| Who::Net(text.parse().unwrap());
        let rules = AccessRules::new([
            (net("10.0.0.1/32"), false),
            (net("10.0.0.0/8"), true),
            (net("10.0.0.2/32"), false),
            (Who::Unix, true),
            (Who::All, false),
        ]);
        let at = |text: &str| rules.verdict(Client::Ip(text.parse().unwrap()));
        assert_eq!(at("10.0.0.1"), Some(false));
        assert_eq!(at("10.0.0.2"), Some(true), "the wider rule comes first");
        assert_eq!(at("192.0.2.1"), Some(false));
        assert_eq!(rules.verdict(Client::Unix), Some(true));
        assert_eq!(AccessRules::default().verdict(Client::Unix), None);
    }
}
