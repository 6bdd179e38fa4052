//! `server` lines as endpoints.
//!
//! Owns: addresses, weights, limits and TLS of endpoints (`health` has their checks).
//! Never: resolves a name.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use weir_diag::{Diagnostic, Span};
use weir_expr::check::CheckStep;
use weir_expr::settings::{AddressChoice, ProxyProtocol};
use weir_expr::{Follows, Socks};
use weir_model::{Endpoint, EndpointAddress, Initially, Template, UpstreamTls, Var};

use super::check::Checks;
use super::expression::parse;
use super::parameters::Parameters;
use super::problem::Problem;
use super::scope::Scope;
use super::stored::Shelf;
use super::{sample, tls};
use crate::draft::ServerLine;
use crate::findings::Findings;
use crate::read::Word;
use crate::values::{Host, Port, address, time};
use crate::words::SERVER;

/// Reads the servers of one backend.
pub(crate) struct Servers<'a> {
    pub(crate) scope: Scope<'a>,
    pub(crate) base: Option<PathBuf>,
    /// Ports that clients come to, for servers without a port of their own.
    pub(crate) client_ports: &'a [u16],
    pub(crate) checks: &'a Checks,
    pub(crate) findings: &'a mut Findings,
}

/// An endpoint, and what of its parameters the pool must know.
pub(crate) struct Built {
    pub(crate) endpoint: Endpoint,
    pub(crate) idle: Option<u32>,
    pub(crate) reuse: Option<u64>,
    pub(crate) purge: Option<Duration>,
    pub(crate) resolvers: Option<Word>,
    /// Which of several addresses it takes.
    pub(crate) choice: AddressChoice,
    /// `stick` rules never learn it.
    pub(crate) non_stick: bool,
}

impl Servers<'_> {
    /// One line; `None` if its address cannot be had (reported).
    pub(crate) fn line(&mut self, server: &ServerLine) -> Option<Built> {
        let line = &server.line;
        let (name, place) = (line.word(1)?, line.word(2)?);
        let mut parameters = Parameters::default();
        for defaults in &server.defaults {
            parameters.read(defaults.from(1), SERVER, "default-server", self.findings);
        }
        parameters.read(line.from(3), SERVER, "server", self.findings);
        let template = server.template.is_some() && !parameters.has("resolvers");
        let (address, follows) = self.address(place, template)?;
        let choice = self.address_choice(&parameters);
        let tls = self.tls(&parameters, &address, line.span());
        let endpoint = Endpoint {
            name: name.text.clone(),
            origin: Some(line.span()),
            weight: self.number(&parameters, "weight", 0..=256).unwrap_or(1),
            max_connections: self.number(&parameters, "maxconn", 0..=u32::MAX.into()).filter(|n| *n > 0),
            max_queue: self.number(&parameters, "maxqueue", 0..=u32::MAX.into()).filter(|n| *n > 0),
            max_fails: 0,
            fail_timeout: Duration::from_secs(10),
            backup: parameters.is_on("backup", &["no-backup"]),
            down: parameters.is_on("disabled", &["enabled"]),
            drain: false,
            slow_start: self.time(&parameters, "slowstart"),
            send_proxy: self.send_proxy(&parameters),
            check: self.check(&parameters, tls.as_ref()),
            more_checks: Vec::new(),
            agent: self.agent(&parameters, line.span()),
            tracks: self.tracked(&parameters),
            cuts: self.cuts(&parameters),
            cookie: parameters.value("cookie").map(|word| word.text.clone()),
            resolve: None,
            initially: self.initially(&parameters),
            begins: None,
            id: self.number(&parameters, "id", 1..=u32::MAX.into()),
            zone: None,
            address,
            follows,
            socks: self.socks(&parameters),
            tls,
        };
        self.knows_check_port(&endpoint, name, line.span());
        self.said(&parameters);
        Some(Built {
            endpoint,
            idle: self.number(&parameters, "pool-max-conn", 0..=u32::MAX.into()),
            reuse: self.number(&parameters, "max-reuse", 0..=u32::MAX.into()).map(u64::from),
            purge: self.time(&parameters, "pool-purge-delay"),
            resolvers: parameters.value("resolvers").cloned(),
            choice,
            non_stick: parameters.is_on("non-stick", &["stick"]),
        })
    }

    /// `resolve-prefer` and `resolve-opts`.
    fn address_choice(&mut self, parameters: &Parameters) -> AddressChoice {
        let mut choice = AddressChoice::default();
        if let Some(word) = parameters.value("resolve-prefer") {
            match word.as_str() {
                "ipv4" => choice.ipv4_first = true,
                "ipv6" => {}
                _ => self.findings.bad_choice(word, "family", &["ipv4", "ipv6"]),
            }
        }
        if let Some(word) = parameters.value("resolve-opts") {
            for option in word.text.split(',') {
                match option {
                    "allow-dup-ip" => choice.share = true,
                    "prevent-dup-ip" => choice.share = false,
                    "ignore-weight" => choice.own_weight = true,
                    _ => self.findings.bad_choice(
                        word,
                        "option",
                        &["allow-dup-ip", "prevent-dup-ip", "ignore-weight"],
                    ),
                }
            }
        }
        choice
    }

    /// `socks4 ADDRESS:PORT`, and `check-via-socks4`.
    fn socks(&mut self, parameters: &Parameters) -> Option<Socks> {
        let word = parameters.value("socks4")?;
        let checks = parameters.has("check-via-socks4");
        let written = self.findings.value(word, address::parse)?;
        let ip = match &written.host {
            Host::Name(name, _) => self.scope.files.resolve(name).into_iter().find(std::net::IpAddr::is_ipv4),
            host => host.ip(),
        };
        match (ip, written.port) {
            (Some(ip), Port::One(port)) if port > 0 => Some(Socks { address: (ip, port).into(), checks }),
            _ => {
                self.findings.bad_value(word, "a SOCKS proxy is at an address with a port");
                None
            }
        }
    }

    /// `init-addr`: the first method that gives an address counts. `last` is what every server begins with that was looked up
    /// before.
    fn initially(&mut self, parameters: &Parameters) -> Initially {
        let Some(word) = parameters.value("init-addr") else { return Initially::default() };
        let mut first = Initially { look_up: false, otherwise: None, may_lack: false };
        for method in word.text.split(',') {
            match (method, method.parse()) {
                ("last", _) => {}
                ("libc", _) => first.look_up = true,
                ("none", _) => {
                    first.may_lack = true;
                    break;
                }
                (_, Ok(address)) => {
                    first.otherwise = Some(address);
                    break;
                }
                (_, Err(_)) => {
                    self.findings.bad_value(
                        word,
                        format!("`{method}` is neither `last`, `libc`, `none` nor an address"),
                    );
                }
            }
        }
        first
    }

    pub(super) fn number(
        &mut self,
        parameters: &Parameters,
        name: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Option<u32> {
        // `pool-max-conn -1` and `max-reuse -1` mean no limit, which is what is said by nothing.
        if parameters.value(name).is_some_and(|word| word.as_str() == "-1") {
            return None;
        }
        let number =
            parameters.read_value(name, self.findings, |text| crate::values::size::count(text, range));
        number.and_then(|n| u32::try_from(n).ok())
    }

    pub(super) fn time(&mut self, parameters: &Parameters, name: &str) -> Option<Duration> {
        parameters.read_value(name, self.findings, time::millis)
    }

    /// Parameters whose use depends on others, said once.
    fn said(&mut self, parameters: &Parameters) {
        let known = |word: &&Word| match word.as_str() {
            "h1" | "none" => true,
            "fcgi" => true,
            "h2" => super::route::speaks_http2(self.scope.proxy),
            _ => false,
        };
        if let Some(word) = parameters.value("proto").filter(|word| !known(word)) {
            self.findings.push(
                Diagnostic::warning(
                    "haproxy::http2",
                    format!("`proto {}` has no effect: servers are spoken HTTP/1.1 to", word.text),
                )
                .at(word.span)
                .help("HTTP/2 is spoken where all servers of a backend have `proto h2`"),
            );
        }
    }

    /// Checks belong to no client: they need a port of their own where the server has none.
    fn knows_check_port(&mut self, endpoint: &Endpoint, name: &Word, span: Span) {
        let port = match &endpoint.address {
            EndpointAddress::Ip(address) => address.port(),
            // The port is the records'.
            EndpointAddress::Name { .. } if is_service(&endpoint.address) => return,
            EndpointAddress::Name { port, .. } => *port,
            EndpointAddress::Unix(_) => return,
        };
        let lacks = |step: &CheckStep<_>| matches!(step, CheckStep::Connect(to) if to.port.is_none());
        if port == 0 && endpoint.check.as_ref().is_some_and(|check| check.steps.iter().any(lacks)) {
            let text = format!(
                "server '{}' has neither service port nor check port nor tcp_check rule 'connect' with port information",
                name.text
            );
            self.findings
                .push(Diagnostic::error("haproxy::check-port", text).at(span).help("add `port` to it"));
        }
    }

    /// Where a server is, and what of it the client says. A name that begins with `_` is one of service records.
    fn address(&mut self, place: &Word, template: bool) -> Option<(EndpointAddress, Option<Follows>)> {
        let written = self.findings.value(place, address::parse)?;
        let added = match written.port {
            Port::None | Port::One(0) => Some(0),
            Port::Offset(offset) => Some(offset),
            Port::One(_) | Port::Range(..) => None,
        };
        let any = match &written.host {
            Host::Unix(path) => return Some((EndpointAddress::Unix(path.into()), None)),
            Host::Abstract(name) => return Some((EndpointAddress::Unix(format!("@{name}").into()), None)),
            Host::Fd(_) | Host::Other(_) => {
                self.findings.not_built(place.span, &place.text, "it decides which server answers");
                return None;
            }
            Host::Any => true,
            Host::Ip(ip) => ip.is_unspecified(),
            Host::Name(..) => false,
        };
        let is_service = matches!(&written.host, Host::Name(host, _) if host.starts_with('_'));
        let follows = Follows { address: any, port: added };
        let follows = (any || added.is_some() && !is_service).then_some(follows);
        let port = self.port(place, written.port)?;
        let address = match written.host {
            Host::Ip(ip) => EndpointAddress::Ip((ip, port).into()),
            Host::Name(host, _) => EndpointAddress::Name { host, port, all_addresses: template },
            _ => EndpointAddress::Ip((Ipv4Addr::UNSPECIFIED, port).into()),
        };
        Some((address, follows))
    }

    /// The port to connect to; without one, that which clients come to, where there is only one such. Checks go to it.
    fn port(&mut self, place: &Word, port: Port) -> Option<u16> {
        let offset = match port {
            Port::None | Port::One(0) => 0,
            Port::One(port) => return Some(port),
            Port::Offset(offset) => offset,
            Port::Range(..) => {
                self.findings.bad_value(place, "a server has one port");
                return None;
            }
        };
        let [port] = self.client_ports else { return Some(0) };
        match u16::try_from(i32::from(*port) + offset) {
            Ok(port) => Some(port),
            Err(_) => {
                self.findings.bad_value(place, "this offset leads to no port");
                None
            }
        }
    }

    pub(super) fn send_proxy(&mut self, parameters: &Parameters) -> Option<ProxyProtocol> {
        let v2 = ["send-proxy-v2", "send-proxy-v2-ssl", "send-proxy-v2-ssl-cn"];
        let off = ["no-send-proxy", "no-send-proxy-v2", "no-send-proxy-v2-ssl", "no-send-proxy-v2-ssl-cn"];
        if v2.iter().any(|name| parameters.is_on(name, &off)) {
            return Some(ProxyProtocol::V2);
        }
        parameters.is_on("send-proxy", &off).then_some(ProxyProtocol::V1)
    }

    fn tls(&mut self, parameters: &Parameters, address: &EndpointAddress, span: Span) -> Option<UpstreamTls> {
        parameters.is_on("ssl", &["no-ssl"]).then(|| self.any_tls(parameters, address, span))
    }

    fn any_tls(&mut self, parameters: &Parameters, address: &EndpointAddress, span: Span) -> UpstreamTls {
        let global = &self.scope.draft.global;
        let mut defaults = Parameters::default();
        if let Some(line) = global.ssl_defaults.get("ssl-default-server-options") {
            defaults.read(line.from(1), SERVER, "ssl-default-server-options", self.findings);
        }
        let base = global.ca_base.clone().or_else(|| self.base.clone());
        let verify = match parameters.value("verify") {
            None => !global.no_server_verify,
            Some(word) => match word.as_str() {
                "none" => false,
                "required" => true,
                _ => {
                    self.findings.bad_choice(word, "policy", &["none", "required"]);
                    true
                }
            },
        };
        let word = |own: &str, default: &str| {
            let default = || global.ssl_defaults.get(default).and_then(|line| line.word(1));
            parameters.value(own).or_else(default).cloned()
        };
        let ciphers = word("ciphers", "ssl-default-server-ciphers");
        let suites13 = word("ciphersuites", "ssl-default-server-ciphersuites");
        let curves = word("curves", "ssl-default-server-curves");
        let sni = self.sni(parameters);
        let host = match address {
            EndpointAddress::Name { host, .. } => Some(Template::literal(host.clone())),
            EndpointAddress::Ip(address) => Some(Template::literal(address.ip().to_string())),
            EndpointAddress::Unix(_) => None,
        };
        let verify_host = parameters.value("verifyhost").map(|word| Template::literal(word.text.clone()));
        let shelf = Shelf::new(self.scope.draft, self.scope.files, self.base.as_ref());
        let certificate = parameters.value("crt").and_then(|word| shelf.one(word, self.findings));
        let ca = parameters.value("ca-file").filter(|word| word.as_str() != "@system-ca");
        UpstreamTls {
            verify,
            // As there: the name is looked at where one is sent or asked for.
            any_name: sni.is_none() && verify_host.is_none(),
            ca: ca.map(|word| tls::pem_file(word, base.as_ref())),
            depth: None,
            crl: parameters.value("crl-file").map(|word| tls::pem_file(word, base.as_ref())),
            send_name: sni.is_some(),
            name: verify_host.filter(|_| sni.is_none()).or(sni).or(host),
            certificate,
            named: None,
            versions: tls::versions(&[&defaults, parameters], span, self.findings),
            suites: ciphers.map_or_else(Vec::new, |word| tls::suites(&word, self.findings)),
            suites13: suites13.map_or_else(Vec::new, |word| tls::suites13(&word, self.findings)),
            groups: curves.map_or_else(Vec::new, |word| tls::groups(&word)),
            session_reuse: parameters.has("ssl-reuse") || !parameters.has("no-ssl-reuse"),
            alpn: parameters.value("alpn").map_or_else(Vec::new, |word| {
                word.text.split(',').filter(|p| *p != "h2").map(str::to_owned).collect()
            }),
        }
    }

    fn sni(&mut self, parameters: &Parameters) -> Option<Template> {
        if parameters.has("sni-auto") {
            return Some(Template::var(Var::Host));
        }
        let word = parameters.value("sni")?;
        let parsed = parse(word.as_str()).map_err(Problem::Bad);
        let value = parsed.and_then(|sample| match (sample.fetch.name.as_str(), sample.argument()) {
            // The Host field as a name: without its port, which no SNI carries.
            ("hdr" | "req.hdr", host) if host.eq_ignore_ascii_case("host") => Ok(Template::var(Var::Host)),
            _ => sample::template(&sample, &self.scope),
        });
        value.map_err(|problem| problem.report(word.span, self.findings)).ok()
    }
}

/// Whether a name is one of service records, which say ports and weights (`_http._tcp.app.test`).
pub(super) fn is_service(address: &EndpointAddress) -> bool {
    matches!(address, EndpointAddress::Name { host, .. } if host.starts_with('_'))
}
