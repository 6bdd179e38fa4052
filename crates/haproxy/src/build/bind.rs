//! `bind` lines as listeners.
//!
//! Owns: addresses, socket options, TLS identities of a frontend's listeners.
//! Never: decides what is served there.

use std::net::IpAddr;
use std::path::PathBuf;

use weir_diag::{Diagnostic, Span};
use weir_expr::settings::{CertificateList, CertificateListEntry, ClientVerify};
use weir_model::{Address, ListenerTls, NamePattern, SocketOptions, Stapling, TlsIdentity};

use super::parameters::Parameters;
use super::stored::Shelf;
use super::tls;
use crate::Files;
use crate::draft::{Draft, Proxy};
use crate::findings::Findings;
use crate::read::{Line, Word};
use crate::values::address::parse_list;
use crate::values::{Address as Written, Family, Host, Port};
use crate::words::{BIND, CRT_LIST};

/// A listener before what it serves is known.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) name: Option<String>,
    pub(crate) text: String,
    pub(crate) span: Span,
    pub(crate) address: Address,
    pub(crate) socket: SocketOptions,
    pub(crate) proxy_protocol: bool,
    pub(crate) tls: Option<ListenerTls>,
    pub(crate) max_connections: Option<u64>,
}

impl Bound {
    /// The port, if it has one.
    pub(crate) fn port(&self) -> Option<u16> {
        match self.address {
            Address::Tcp(address) | Address::Udp(address) => Some(address.port()),
            Address::Unix(_) | Address::Inherited(_) => None,
        }
    }

    /// Whether any client may send requests before its handshake is complete.
    pub(crate) fn takes_early_data(&self) -> bool {
        let all = |tls: &ListenerTls| tls.by_name.iter().any(|(_, one)| one.early_data);
        self.tls.as_ref().is_some_and(|tls| tls.default.early_data || all(tls))
    }
}

/// Reads binds of one frontend.
pub(crate) struct Binder<'a> {
    pub(crate) draft: &'a Draft,
    /// The frontend; `None`: sockets of `global`.
    pub(crate) proxy: Option<&'a Proxy>,
    pub(crate) files: &'a dyn Files,
    pub(crate) base: Option<PathBuf>,
    pub(crate) findings: &'a mut Findings,
}

/// More ports in one range are no listeners but a mistake.
const MOST_PORTS: u32 = 2_000;

impl Binder<'_> {
    /// All listeners of the frontend.
    pub(crate) fn all(&mut self) -> Vec<Bound> {
        let lines = self.proxy.map_or(&[][..], |proxy| &proxy.binds);
        lines.iter().flat_map(|line| self.line(line)).collect()
    }

    fn line(&mut self, line: &Line) -> Vec<Bound> {
        let Some(word) = line.word(1) else { return Vec::new() };
        let mut parameters = Parameters::default();
        parameters.read(line.from(2), BIND, "bind", self.findings);
        let tls = parameters.has("ssl").then(|| self.tls(&parameters, line.span())).flatten();
        if !parameters.has("ssl")
            && let Some(word) = parameters.value("crt")
        {
            self.findings.ignored(
                word.span,
                "a certificate without `ssl` is not used: this listener speaks plain text",
            );
        }
        self.check_protocols(&parameters);
        let max_connections = parameters
            .read_value("maxconn", self.findings, |text| text.parse::<u64>().map_err(|e| e.to_string()));
        let name = parameters.value("name").map(|word| word.text.clone());
        let mut bound = Vec::new();
        for address in parse_list(word.as_str()) {
            let Some(written) = self.findings.value(word, |_| address) else { continue };
            for (address, text) in self.addresses(word, written, &parameters) {
                let socket = self.socket(&parameters, &address);
                bound.push(Bound {
                    name: name.clone(),
                    text,
                    span: word.span,
                    address,
                    socket,
                    proxy_protocol: parameters.has("accept-proxy") || parameters.has("accept-nproxy"),
                    tls: tls.clone(),
                    max_connections: max_connections.filter(|n| *n > 0),
                });
            }
        }
        bound
    }

    pub(super) fn addresses(
        &mut self,
        word: &Word,
        written: Written,
        parameters: &Parameters,
    ) -> Vec<(Address, String)> {
        let Written { mut host, port } = written;
        if host == Host::Any && parameters.has("v4v6") {
            host = Host::Ip(std::net::Ipv6Addr::UNSPECIFIED.into());
        }
        match &host {
            Host::Unix(path) => {
                let path = format!("{}{path}", self.unix_bind("prefix").unwrap_or_default());
                return vec![(Address::Unix(path.clone().into()), path)];
            }
            Host::Abstract(name) => {
                return vec![(Address::Unix(format!("@{name}").into()), word.text.clone())];
            }
            Host::Fd(number) => return vec![(Address::Inherited(*number), format!("fd@{number}"))],
            Host::Other(scheme) => {
                self.findings.not_built(word.span, &format!("bind {scheme}@"), "it decides what is served");
                return Vec::new();
            }
            Host::Any | Host::Ip(_) | Host::Name(..) => {}
        }
        let ip = match &host {
            Host::Name(name, family) => self.resolve(word, name, *family),
            host => host.ip(),
        };
        let (Some(ip), Some((from, to))) = (ip, self.ports(word, port)) else { return Vec::new() };
        (from..=to)
            .map(|port| {
                let at = std::net::SocketAddr::new(ip, port);
                (Address::Tcp(at), at.to_string())
            })
            .collect()
    }

    /// The first address that a name has now, as HAProxy takes it.
    fn resolve(&mut self, word: &Word, name: &str, family: Option<Family>) -> Option<IpAddr> {
        let fits = |ip: &IpAddr| match family {
            Some(Family::V4) => ip.is_ipv4(),
            Some(Family::V6) => ip.is_ipv6(),
            None => true,
        };
        let found = self.files.resolve(name).into_iter().find(fits);
        if found.is_none() {
            let title = format!("could not resolve address '{name}'");
            let help = "a listener is bound to an address of this machine; write it, or check the name";
            self.findings.push(Diagnostic::error("haproxy::bad-value", title).at(word.span).help(help));
        }
        found
    }

    fn ports(&mut self, word: &Word, port: Port) -> Option<(u16, u16)> {
        match port {
            Port::One(port) if port > 0 => Some((port, port)),
            Port::Range(from, to) if from > 0 && u32::from(to - from) < MOST_PORTS => Some((from, to)),
            Port::Range(..) => {
                self.findings.bad_value(
                    word,
                    format!("a range of ports starts above 0 and holds at most {MOST_PORTS}"),
                );
                None
            }
            Port::None | Port::One(_) => {
                self.findings.bad_value(word, "a port is missing: write ADDRESS:PORT");
                None
            }
            Port::Offset(_) => {
                self.findings.bad_value(word, "a port to listen on cannot be an offset");
                None
            }
        }
    }

    pub(super) fn socket(&mut self, parameters: &Parameters, address: &Address) -> SocketOptions {
        let v6 = matches!(address, Address::Tcp(address) if address.is_ipv6());
        let mode = parameters.read_value("mode", self.findings, |text| {
            u32::from_str_radix(text, 8).map_err(|_| format!("`{text}` is no octal mode"))
        });
        let backlog = parameters.read_value("backlog", self.findings, |text| {
            text.parse().map_err(|_| format!("`{text}` is no number"))
        });
        let text = |name: &str| parameters.value(name).map(|word| word.text.clone());
        let unix = matches!(address, Address::Unix(_));
        let common = |name: &str| self.unix_bind(name).filter(|_| unix);
        SocketOptions {
            backlog: backlog.or(self.proxy.and_then(|proxy| proxy.settings.backlog)),
            // HAProxy leaves it to the system, where an IPv6 wildcard takes IPv4 too; `v4v6` says the same.
            ipv6_only: v6.then(|| parameters.has("v6only")),
            reuse_port: false,
            fast_open: parameters.has("tfo").then_some(256),
            deferred: parameters.has("defer-accept"),
            free_bind: parameters.has("transparent"),
            device: text("interface"),
            mode: mode.or_else(|| common("mode").and_then(|text| u32::from_str_radix(&text, 8).ok())),
            owner: text("user").or_else(|| text("uid")).or_else(|| common("user")).or_else(|| common("uid")),
            group: text("group")
                .or_else(|| text("gid"))
                .or_else(|| common("group"))
                .or_else(|| common("gid")),
            ..SocketOptions::default()
        }
    }

    /// A word of `unix-bind`, which is about `bind` lines.
    fn unix_bind(&self, name: &str) -> Option<String> {
        self.proxy?;
        let words = &self.draft.global.unix_bind;
        let at = words.iter().position(|word| word.as_str() == name)?;
        words.get(at + 1).map(|word| word.text.clone())
    }

    /// Protocols that are not spoken.
    fn check_protocols(&mut self, parameters: &Parameters) {
        if let Some(word) =
            parameters.value("proto").filter(|word| !matches!(word.as_str(), "h1" | "h2" | "none"))
        {
            self.findings.not_built(word.span, &format!("proto {}", word.text), "it decides what is served");
        }
    }

    /// `ssl-default-bind-options` as parameters, and the words of another default.
    fn defaults(&mut self) -> Parameters {
        let mut parameters = Parameters::default();
        if let Some(line) = self.draft.global.ssl_defaults.get("ssl-default-bind-options") {
            parameters.read(line.from(1), BIND, "ssl-default-bind-options", self.findings);
        }
        parameters
    }

    fn default_word(&self, name: &str) -> Option<&Word> {
        self.draft.global.ssl_defaults.get(&format!("ssl-default-bind-{name}")).and_then(|line| line.word(1))
    }

    fn tls(&mut self, parameters: &Parameters, span: Span) -> Option<ListenerTls> {
        let defaults = self.defaults();
        let (mut certificates, mut issued) = (Vec::new(), Vec::new());
        for word in parameters.values("default-crt").chain(parameters.values("crt")) {
            let shelf = Shelf::new(self.draft, self.files, self.base.as_ref());
            match shelf.issued(word, self.findings) {
                Some(one) => issued.push(one),
                None => certificates.extend(shelf.all(word, self.findings)),
            }
        }
        let mut identity = self.identity(parameters, &defaults, span, false);
        identity.issued = issued;
        let mut by_name = Vec::new();
        let mut lists = Vec::new();
        for word in parameters.values("crt-list") {
            lists.extend(self.crt_list(word, &identity, &mut certificates, &mut by_name));
        }
        if certificates.is_empty() && by_name.is_empty() && identity.issued.is_empty() {
            if !parameters.has("crt") && !parameters.has("crt-list") {
                let found =
                    Diagnostic::error("haproxy::no-certificate", "`ssl` needs a certificate").at(span);
                self.findings.push(found.help("name one with `crt FILE`"));
            }
            return None;
        }
        identity.certificates = certificates;
        identity.select_by_certificate_names = true;
        let strict =
            parameters.has("strict-sni") || parameters.has("force-strict-sni") || defaults.has("strict-sni");
        Some(ListenerTls {
            default: identity,
            by_name,
            lists,
            strict_sni: strict,
            ticket_keys: Vec::new(),
            tickets: !parameters.has("no-tls-tickets") && !defaults.has("no-tls-tickets"),
            session_cache: 20_000,
            session_timeout: 300,
            answer_bad_certificates: false,
        })
    }

    /// All of an identity but its certificates. `trusts`: authorities are named elsewhere.
    fn identity(&mut self, own: &Parameters, defaults: &Parameters, span: Span, trusts: bool) -> TlsIdentity {
        let ciphers = own.value("ciphers").or_else(|| self.default_word("ciphers")).cloned();
        let suites13 = own.value("ciphersuites").or_else(|| self.default_word("ciphersuites")).cloned();
        let curves = own
            .value("curves")
            .or_else(|| own.value("ecdhe"))
            .or_else(|| self.default_word("curves"))
            .cloned();
        let ca = own.value("ca-file").or_else(|| own.value("ca-verify-file")).cloned();
        let base = self.draft.global.ca_base.clone().or_else(|| self.base.clone());
        let alpn = own.value("alpn").map(|word| word.text.split(',').map(str::to_owned).collect());
        TlsIdentity {
            staple: None,
            early_data: own.has("allow-0rtt"),
            issued: Vec::new(),
            stapling: self.stapling(own),
            versions: tls::versions(&[defaults, own], span, self.findings),
            suites: ciphers.map_or_else(Vec::new, |word| tls::suites(&word, self.findings)),
            suites13: suites13.map_or_else(Vec::new, |word| tls::suites13(&word, self.findings)),
            curves: curves.map_or_else(Vec::new, |word| tls::groups(&word)),
            verify: self.verify(own, trusts || ca.is_some()),
            client_ca: ca.iter().map(|word| tls::pem_file(word, base.as_ref())).collect(),
            client_depth: None,
            client_crl: own.value("crl-file").map(|word| tls::pem_file(word, base.as_ref())),
            prefer_server_order: ![own, defaults].iter().any(|words| words.has("prefer-client-ciphers")),
            alpn: alpn.unwrap_or_default(),
            ..TlsIdentity::default()
        }
    }

    /// `ocsp-update on|off`.
    fn stapling(&mut self, own: &Parameters) -> Option<Stapling> {
        let word = own.value("ocsp-update")?;
        match word.as_str() {
            "on" => Some(Stapling { least: 300, most: 3600, ..Stapling::default() }),
            "off" => None,
            _ => {
                self.findings.bad_choice(word, "ocsp-update", &["on", "off"]);
                None
            }
        }
    }

    fn verify(&mut self, own: &Parameters, trusts: bool) -> ClientVerify {
        let Some(word) = own.value("verify") else { return ClientVerify::Off };
        let verify = match word.as_str() {
            "none" => ClientVerify::Off,
            "optional" => ClientVerify::Optional,
            "required" => ClientVerify::Required,
            _ => {
                self.findings.bad_choice(word, "policy", &["none", "optional", "required"]);
                ClientVerify::Required
            }
        };
        if verify != ClientVerify::Off && !trusts {
            let found = Diagnostic::error(
                "haproxy::missing-argument",
                "verifying clients needs the CAs they come from",
            );
            self.findings.push(found.at(word.span).help("name them with `ca-file FILE`"));
        }
        verify
    }

    /// A file of lines `CERTIFICATE [options] NAME …`; names begin with `*` for wildcards and `!` for exceptions.
    fn crt_list(
        &mut self,
        word: &Word,
        identity: &TlsIdentity,
        certificates: &mut Vec<weir_model::Certificate>,
        by_name: &mut Vec<(Vec<NamePattern>, TlsIdentity)>,
    ) -> Option<CertificateList> {
        let path = tls::path(word.as_str(), self.base.as_ref());
        let text = match self.files.read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => {
                let title = format!("cannot read `{}`: {error}", path.display());
                self.findings.push(Diagnostic::error("haproxy::unreadable", title).at(word.span));
                return None;
            }
        };
        let mut list = CertificateList { name: word.text.clone(), entries: Vec::new() };
        let lines = (1u32..).zip(text.lines().map(str::trim));
        for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let (head, options, names) = match line.split_once('[') {
                Some((file, rest)) => {
                    let (options, names) = rest.split_once(']').unwrap_or((rest, ""));
                    (file.trim(), options.trim(), names.trim())
                }
                None => {
                    let (file, names) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
                    (file, "", names)
                }
            };
            let file = Word { text: head.to_owned(), span: word.span };
            let shelf = Shelf::new(self.draft, self.files, self.base.as_ref());
            list.entries.push(CertificateListEntry {
                certificate: shelf.path(&file).display().to_string(),
                line: number,
                options: options.to_owned(),
                names: names.split_whitespace().map(str::to_owned).collect(),
            });
            if shelf.issued(&file, self.findings).is_some() {
                let why = "it is shown where a `crt` of a `bind` line names it";
                self.findings.not_built(word.span, "a certificate of `acme` in a crt-list", why);
                continue;
            }
            let found = shelf.all(&file, self.findings);
            let names: Vec<NamePattern> = names.split_whitespace().filter_map(name_pattern).collect();
            if names.is_empty() {
                if !options.is_empty() {
                    self.options_without_names(word, options);
                }
                certificates.extend(found);
            } else {
                let own = self.with_options(word, options, identity);
                by_name.push((names, TlsIdentity { certificates: found.clone(), ..own }));
                if certificates.is_empty() {
                    certificates.extend(found);
                }
            }
        }
        Some(list)
    }

    /// An identity as the options of a line of a crt-list have it.
    fn with_options(&mut self, word: &Word, options: &str, identity: &TlsIdentity) -> TlsIdentity {
        let words: Vec<Word> = options
            .split_whitespace()
            .map(|option| Word { text: option.to_owned(), span: word.span })
            .collect();
        let mut own = Parameters::default();
        for option in words.iter().filter(|option| option.text.starts_with(|c: char| c.is_ascii_lowercase()))
        {
            let known = BIND.iter().any(|parameter| parameter.name == option.text);
            if known && !CRT_LIST.contains(&option.as_str()) {
                self.findings.bad_value(word, format!("`{}` may not stand in a crt-list", option.text));
                return identity.clone();
            }
        }
        own.read(&words, BIND, "crt-list", self.findings);
        let trusts = !identity.client_ca.is_empty();
        let made = self.identity(&own, &Parameters::default(), word.span, trusts);
        let mut changed = identity.clone();
        let has = |names: &[&str]| names.iter().any(|name| own.has(name));
        if has(&["allow-0rtt"]) {
            changed.early_data = true;
        }
        if has(&["ocsp-update"]) {
            changed.stapling = made.stapling;
        }
        if has(&["alpn"]) {
            changed.alpn = made.alpn;
        }
        if has(&["ciphers"]) {
            changed.suites = made.suites;
        }
        if has(&["ciphersuites"]) {
            changed.suites13 = made.suites13;
        }
        if has(&["curves", "ecdhe"]) {
            changed.curves = made.curves;
        }
        if has(&["ssl-min-ver", "ssl-max-ver"]) {
            changed.versions = made.versions;
        }
        if has(&["ca-file", "ca-verify-file"]) {
            changed.client_ca = made.client_ca;
        }
        if has(&["crl-file"]) {
            changed.client_crl = made.client_crl;
        }
        if has(&["verify"]) {
            changed.verify = made.verify;
        }
        changed
    }

    /// The names of such a certificate are known only once it is read, after which all have the line's own options.
    fn options_without_names(&mut self, word: &Word, options: &str) {
        let decides = ["verify", "ca-file", "ca-verify-file", "crl-file"];
        let what = format!("options of a crt-list without names (`{options}`)");
        if options.split_whitespace().any(|option| decides.contains(&option)) {
            self.findings.not_built(word.span, &what, "they decide who gets in; write names behind them");
        } else {
            self.findings.tuning(word.span, &what, "the `bind` line's own options hold");
        }
    }
}

fn name_pattern(text: &str) -> Option<NamePattern> {
    if text.starts_with('!') {
        return None;
    }
    let text = text.to_ascii_lowercase();
    Some(match text.strip_prefix("*.") {
        Some(suffix) => NamePattern::Suffix(suffix.to_owned()),
        None => NamePattern::Exact(text),
    })
}
