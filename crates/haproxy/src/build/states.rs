//! Files of servers' states: what `show servers state` of an earlier process said, at the start of this one.
//!
//! Owns: their form, which of their lines are about a server, and what of a line counts.
//! Never: writes one; whoever stops a process does.
//! Driven by: `pool`, once the servers of a backend are built.
//! Source: management guide, `show servers state`.

use std::path::PathBuf;

use weir_diag::{Diagnostic, Span};
use weir_expr::check::FirstState;
use weir_expr::settings::Begins;
use weir_model::{Endpoint, EndpointAddress};

use super::scope::Scope;
use crate::draft::StatesFrom;
use crate::findings::Findings;

/// What one line says of a server.
struct Line<'t> {
    backend: &'t str,
    number: u32,
    name: &'t str,
    address: &'t str,
    operation: u8,
    administration: u8,
    weight: u32,
    written_weight: u32,
    port: u16,
}

/// Bits of administrative states: those that were asked for while running.
const FORCED_MAINTENANCE: u8 = 0x01;
const FORCED_DRAIN: u8 = 0x08;
/// And the one that a configuration has.
const CONFIGURED_MAINTENANCE: u8 = 0x04;

impl<'t> Line<'t> {
    fn read(text: &'t str) -> Option<Self> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let number = |at: usize| words.get(at)?.parse::<u32>().ok();
        let small = |at: usize| number(at).and_then(|number| u8::try_from(number).ok());
        Some(Self {
            backend: words.get(1)?,
            number: number(2)?,
            name: words.get(3)?,
            address: words.get(4)?,
            operation: small(5)?,
            administration: small(6)?,
            weight: number(7)?,
            written_weight: number(8)?,
            port: number(18).and_then(|port| u16::try_from(port).ok()).unwrap_or(0),
        })
    }
}

/// Gives the servers of a backend the states that its file has for them.
pub(super) fn restore<'e>(
    scope: &Scope<'_>,
    endpoints: impl Iterator<Item = &'e mut Endpoint>,
    findings: &mut Findings,
) {
    let (global, settings) = (&scope.draft.global, &scope.proxy.settings);
    let path = match settings.states {
        None | Some((StatesFrom::None, _)) => return,
        Some((StatesFrom::Global, span)) => match &global.state_file {
            Some(file) => (under(global.state_base.as_ref(), file), span),
            None => return,
        },
        Some((StatesFrom::Local, span)) => {
            let own = settings.state_file.as_deref().filter(|name| !name.is_empty());
            (under(global.state_base.as_ref(), own.unwrap_or(scope.proxy.name.as_str())), span)
        }
    };
    let Some(text) = read(scope, &path, findings) else { return };
    let lines: Vec<Line<'_>> =
        text.lines().skip(1).filter(|line| !line.starts_with('#')).filter_map(Line::read).collect();
    for endpoint in endpoints {
        let own = |line: &&Line<'_>| line.backend == scope.proxy.name.text;
        let same = |line: &&Line<'_>| line.name == endpoint.name || Some(line.number) == endpoint.id;
        let named = lines.iter().filter(own).find(|line| line.name == endpoint.name);
        if let Some(line) = named.or_else(|| lines.iter().filter(own).find(same)) {
            apply(line, endpoint);
        }
    }
}

/// A file, after the folder that relative ones start in.
fn under(base: Option<&String>, file: &str) -> PathBuf {
    match base {
        Some(base) if !file.starts_with('/') => PathBuf::from(base).join(file),
        _ => PathBuf::from(file),
    }
}

/// The text of a file in the one version that there is. Where there is none, servers begin as the configuration says.
fn read(scope: &Scope<'_>, (path, span): &(PathBuf, Span), findings: &mut Findings) -> Option<String> {
    let told = |title: String| Diagnostic::warning("haproxy::server-states", title).at(*span);
    let bytes = match scope.files.read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            findings
                .push(told(format!("cannot read the states of servers in `{}`: {error}", path.display())));
            return None;
        }
    };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let version = text.lines().next().map(str::trim);
    if version.is_some_and(|version| version == "1") {
        return Some(text);
    }
    findings.push(told(format!("`{}` is no file of states of version 1", path.display())));
    None
}

fn apply(line: &Line<'_>, endpoint: &mut Endpoint) {
    // A server that the earlier configuration had in maintenance by itself is as this one has it.
    let configured = line.administration & CONFIGURED_MAINTENANCE != 0;
    let begins = Begins {
        maintenance: line.administration & FORCED_MAINTENANCE != 0 && !configured,
        drain: line.administration & FORCED_DRAIN != 0,
        // A weight that the configuration changed meanwhile is what counts.
        weight: (line.written_weight == endpoint.weight && line.weight != endpoint.weight)
            .then_some(line.weight),
    };
    endpoint.begins = (begins != Begins::default()).then_some(begins);
    match &mut endpoint.address {
        EndpointAddress::Name { port, .. } => {
            if line.port > 0 {
                *port = line.port;
            }
            if let Ok(ip) = line.address.parse() {
                endpoint.initially.otherwise.get_or_insert(ip);
            }
        }
        EndpointAddress::Ip(address) => {
            if line.port > 0 {
                address.set_port(line.port);
            }
        }
        EndpointAddress::Unix(_) => {}
    }
    if let Some(check) = &mut endpoint.check {
        check.first = match line.operation {
            0 => FirstState::FullyDown,
            _ => FirstState::FullyUp,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_management_guide() {
        let text = "3 static 2 s2 127.0.0.1 0 5 7 1 583 1 0 3 0 0 0 0 - 80 - 0 0 - - 0";
        let line = Line::read(text).unwrap();
        assert_eq!((line.backend, line.number, line.name), ("static", 2, "s2"));
        assert_eq!((line.operation, line.administration, line.weight, line.written_weight), (0, 5, 7, 1));
        assert_eq!(line.port, 80);
        assert!(Line::read("3 static").is_none());
    }
}
