//! `peers` sections as groups, and the sockets that others call.
//!
//! Owns: which member is this process; which tables are shared.

use std::path::PathBuf;

use weir_diag::Diagnostic;
use weir_expr::settings::{ControlLevel, ControlPurpose, ControlSocket, Peer, PeerGroup, PeerTable};
use weir_model::{Address, ControlListener, Process};

use super::bind::Binder;
use super::parameters::Parameters;
use crate::Files;
use crate::draft::{Draft, Peers};
use crate::findings::Findings;
use crate::read::Word;
use crate::read::env::Env;
use crate::values::address;

/// All groups into the process; the sockets on which they are called.
pub(super) fn groups(
    draft: &Draft,
    env: &Env,
    files: &dyn Files,
    base: Option<&PathBuf>,
    process: &mut Process,
    findings: &mut Findings,
) -> Vec<ControlListener> {
    unknown_sections(draft, findings);
    let written = draft.global.local_peer.clone().filter(|_| !env.names_peer);
    let own = written.or_else(|| env.value("HAPROXY_LOCALPEER").map(str::to_owned)).unwrap_or_default();
    let mut sockets = Vec::new();
    for peers in draft.peers.iter().filter(|peers| !peers.disabled) {
        let tables = shared(draft, peers);
        let mut binder = Binder { draft, proxy: None, files, base: base.cloned(), findings };
        let Some((_, local)) = peers.members.iter().find(|(name, _)| name.text == own) else {
            // As there: who is not among them shares nothing.
            if !tables.is_empty() {
                let title = format!(
                    "no peer of `{}` is called `{own}`, as this process is: its tables are not shared",
                    peers.name.text
                );
                let help = "name it by `localpeer` in `global`, or by `-L`";
                binder
                    .findings
                    .push(Diagnostic::warning("haproxy::local-peer", title).at(peers.name.span).help(help));
            }
            continue;
        };
        let mut others = Vec::new();
        for (name, place) in peers.members.iter().filter(|(name, _)| name.text != own) {
            let Some(place) = place else {
                binder.findings.bad_value(name, format!("`{}` has no address", name.text));
                continue;
            };
            match binder.places(place).first() {
                Some(Address::Tcp(address)) => {
                    others.push(Peer { name: name.text.clone(), address: *address });
                }
                Some(_) => binder.findings.not_built(
                    place.span,
                    "peers at unix sockets",
                    "other machines are peers, by their addresses",
                ),
                None => {}
            }
        }
        if tables.is_empty() {
            continue;
        }
        if let Some(word) = peers.bind.as_ref().or(local.as_ref()) {
            for address in binder.places(word) {
                sockets.push(ControlListener {
                    origin: Some(word.span),
                    socket: binder.socket(&Parameters::default(), &address),
                    control: ControlSocket {
                        name: address.to_string(),
                        level: ControlLevel::User,
                        purpose: ControlPurpose::Peers(peers.name.text.clone()),
                        exposes: false,
                    },
                    address,
                });
            }
        }
        process.peers.push(PeerGroup { name: peers.name.text.clone(), own: own.clone(), others, tables });
    }
    sockets
}

impl Binder<'_> {
    /// The addresses of a word.
    fn places(&mut self, word: &Word) -> Vec<Address> {
        let Some(written) = self.findings.value(word, address::parse) else { return Vec::new() };
        let found = self.addresses(word, written, &Parameters::default());
        found.into_iter().map(|(address, _)| address).collect()
    }
}

/// What a section shares: its own tables, and those of proxies that name it.
fn shared(draft: &Draft, peers: &Peers) -> Vec<PeerTable> {
    let own = peers.tables.iter().map(|(name, _, form)| PeerTable {
        table: format!("{}/{}", peers.name.text, name.text),
        shared_as: format!("/{}", name.text),
        form: *form,
        receive_only: false,
        also_in: None,
    });
    let of_proxies = draft.proxies.iter().filter_map(|proxy| {
        let shared = proxy.stick_peers.as_ref()?;
        (shared.section.text == peers.name.text).then(|| PeerTable {
            table: proxy.name.text.clone(),
            shared_as: proxy.name.text.clone(),
            form: shared.form,
            receive_only: shared.receive_only,
            also_in: shared.also_in.as_ref().map(|word| word.text.clone()),
        })
    });
    own.chain(of_proxies).collect()
}

/// Sections and tables that lines name, and nobody has.
fn unknown_sections(draft: &Draft, findings: &mut Findings) {
    for (proxy, shared) in draft.proxies.iter().filter_map(|proxy| Some((proxy, proxy.stick_peers.as_ref()?)))
    {
        let word = &shared.section;
        if draft.peers.iter().all(|peers| peers.name.text != word.text) {
            let title = format!("no peers section is named `{}`", word.text);
            let names = draft.peers.iter().map(|peers| peers.name.as_str());
            let found = Diagnostic::error("haproxy::unknown-name", title).at(word.span);
            findings.push(found.suggest(&word.text, word.span, names));
        }
        let Some(word) = &shared.also_in else { continue };
        let config = |name: &str| {
            let of_proxy = draft.proxies.iter().find(|one| one.name.text == name);
            let of_peers = || {
                let (section, table) = name.split_once('/')?;
                let peers = draft.peers.iter().find(|peers| peers.name.text == section)?;
                peers.tables.iter().find(|(own, ..)| own.text == table).map(|(_, config, _)| config.clone())
            };
            of_proxy.and_then(|one| one.stick_table.clone()).or_else(of_peers)
        };
        let own = proxy.stick_table.as_ref().map(|table| table.key);
        match config(word.as_str()) {
            None => {
                let title = format!("no stick table is named `{}`", word.text);
                findings.push(Diagnostic::error("haproxy::unknown-name", title).at(word.span));
            }
            Some(_) if word.text == proxy.name.text => {
                findings.bad_value(word, "a table is not written to itself");
            }
            Some(other) if Some(other.key) != own => {
                findings.bad_value(word, "a table that is written to has keys of the same type and length");
            }
            Some(_) => {}
        }
    }
}
