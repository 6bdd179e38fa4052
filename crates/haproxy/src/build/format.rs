//! Log-format texts: `%ci`, `%{+Q}r`, `%[expr]`, `%%` (configuration manual 8.2.6), as templates.
//!
//! Owns: their grammar, and which variable each tag is.
//! Never: knows where lines go; `logs` does.
//! Driven by: `logs` for log lines, `rules` for values of fields, paths, redirects.

use weir_diag::Span;
use weir_expr::{Count, Filter, Piece, Timer};
use weir_model::{Template, Var};

use super::expression::parse;
use super::problem::Problem;
use super::sample;
use super::scope::Scope;
use crate::findings::Findings;

/// What a log line knows besides the exchange.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogScope {
    /// `%f`: the frontend's name.
    pub(crate) frontend: String,
    /// What follows the name in `%ft` for TLS: a literal, or a variable where listeners differ.
    pub(crate) tls_mark: Template,
    /// `%b`, where the exchange does not say.
    pub(crate) backend: Option<String>,
    /// `%s`, where the exchange does not say (`<STATS>`).
    pub(crate) server: Option<String>,
    /// Cookies are captured, in the place after all others.
    pub(crate) cookies: bool,
    /// Captured request fields.
    pub(crate) request_captures: u16,
    /// Captured response fields.
    pub(crate) response_captures: u16,
}

/// User variables that log lines read; see [`super::logs::define`].
pub(crate) const BACKEND_OR_FRONTEND: &str = "haproxy.backend";
/// The server's name, or `<NOSRV>`.
pub(crate) const SERVER_OR_NONE: &str = "haproxy.server";
/// `<CACHE>` where a cache answered, or `<NOSRV>`.
pub(crate) const CACHE_OR_NONE: &str = "haproxy.cache";
/// `~` over TLS.
pub(crate) const TLS_MARK: &str = "haproxy.tls_mark";

/// Reads a text. With `log`, empty values become `-` and repeated spaces one, as in HAProxy's lines.
pub(crate) struct Formatter<'a, 'f> {
    pub(crate) scope: Scope<'a>,
    pub(crate) log: Option<&'a LogScope>,
    /// `\1` … `\9` stand for the groups of the rule's pattern.
    pub(crate) groups: bool,
    pub(crate) span: Span,
    pub(crate) findings: &'f mut Findings,
}

#[derive(Clone, Copy, Default)]
struct TagFlags {
    quote: bool,
    hexadecimal: bool,
}

impl Formatter<'_, '_> {
    /// The template of a text; `None` if it cannot be had (reported).
    pub(crate) fn template(&mut self, text: &str) -> Option<Template> {
        let mut template = Template::default();
        let mut failed = false;
        // Flags of `%{+Q}o` hold for all that follows.
        let mut global = TagFlags::default();
        let mut rest = text;
        while let Some(at) = rest.find(['%', '\\']) {
            self.literal(&mut template, &rest[..at]);
            let (mark, after) = rest[at..].split_at(1);
            if mark == "\\" {
                rest = self.backslash(&mut template, after);
                continue;
            }
            match self.tag(after, &mut global) {
                Ok((pieces, after)) => {
                    self.append(&mut template, pieces);
                    rest = after;
                }
                // A line is written all the same; nothing else depends on it.
                Err(Problem::NotBuilt(what)) if self.log.is_some() => {
                    self.findings.tuning(self.span, &what, "it is logged as `-`");
                    template.push_literal("-");
                    rest = skip_tag(after);
                }
                Err(problem) => {
                    problem.report(self.span, self.findings);
                    failed = true;
                    rest = after;
                }
            }
        }
        self.literal(&mut template, rest);
        (!failed).then_some(template)
    }

    fn append(&self, template: &mut Template, pieces: Vec<Piece<String>>) {
        for piece in pieces {
            match piece {
                Piece::Literal(text) => template.push_literal(&text),
                var => template.pieces.push(var),
            }
        }
    }

    /// Text as it is; in log lines a space after a space is left out.
    fn literal(&self, template: &mut Template, text: &str) {
        let spaced = match template.pieces.last() {
            None => true,
            Some(Piece::Literal(last)) => last.ends_with(' '),
            Some(_) => false,
        };
        let text = if self.log.is_some() && spaced { text.trim_start_matches(' ') } else { text };
        template.push_literal(text);
    }

    fn backslash<'t>(&self, template: &mut Template, after: &'t str) -> &'t str {
        let group = after.bytes().next().filter(|b| self.groups && b.is_ascii_digit());
        match group {
            Some(digit) => {
                template.push_var(Var::Capture(digit - b'0'));
                &after[1..]
            }
            None => {
                template.push_literal("\\");
                after
            }
        }
    }

    /// One tag after its `%`; gives the rest of the text too.
    fn tag<'t>(
        &self,
        after: &'t str,
        global: &mut TagFlags,
    ) -> Result<(Vec<Piece<String>>, &'t str), Problem> {
        if let Some(rest) = after.strip_prefix('%') {
            return Ok((vec![Piece::Literal("%".to_owned())], rest));
        }
        let mut rest = after;
        let mut flags = *global;
        if let Some(inner) = rest.strip_prefix('{') {
            let Some((words, tail)) = inner.split_once('}') else {
                return Err(Problem::Bad("a `%{` is never closed".into()));
            };
            for word in words.split(',') {
                match word.trim() {
                    "+Q" => flags.quote = true,
                    "-Q" => flags.quote = false,
                    "+X" => flags.hexadecimal = true,
                    "-X" => flags.hexadecimal = false,
                    _ => {}
                }
            }
            rest = tail;
        }
        // `%(name)…` names an item for structured encodings, which are not used.
        if let Some(inner) = rest.strip_prefix('(')
            && let Some((_, tail)) = inner.split_once(')')
        {
            rest = tail;
        }
        if let Some(inner) = rest.strip_prefix('[') {
            let end = closing(inner).ok_or_else(|| Problem::Bad("a `%[` is never closed".into()))?;
            let value = self.expression(inner[..end].trim())?;
            return Ok((self.finish(value.pieces, flags), &inner[end + 1..]));
        }
        let length = tag_length(rest);
        let (name, rest) = rest.split_at(length);
        if name == "o" {
            *global = flags;
            return Ok((Vec::new(), rest));
        }
        match self.named(name)? {
            Some(pieces) if flags.hexadecimal && hexadecimal(name).is_some() => {
                Ok((in_hexadecimal(pieces, hexadecimal(name).unwrap_or_default()), rest))
            }
            Some(pieces) => Ok((self.finish(pieces, flags), rest)),
            None => Err(Problem::Bad(format!(
                "`%{name}` is no tag of a log format; write `%%` for the character itself"
            ))),
        }
    }

    fn expression(&self, text: &str) -> Result<Template, Problem> {
        let parsed = parse(text).map_err(Problem::Bad)?;
        let scope = Scope { response: self.scope.response || self.log.is_some(), ..self.scope };
        // A log line is written at the end and can look at both sides.
        let scope = if self.log.is_some() && !parsed.fetch.name.starts_with("res.") {
            Scope { response: false, ..scope }
        } else {
            scope
        };
        sample::template(&parsed, &scope)
    }

    /// Quotes and dashes. Numbers, dates and states are never quoted, as in HAProxy.
    fn finish(&self, pieces: Vec<Piece<String>>, flags: TagFlags) -> Vec<Piece<String>> {
        let quote = flags.quote && pieces.iter().all(is_text);
        match pieces.as_slice() {
            [Piece::Var(var, filters)] => {
                let mut filters = filters.clone();
                if quote {
                    filters.push(Filter::Quote);
                } else if self.log.is_some() && may_be_empty(var) {
                    filters.push(Filter::DashIfEmpty);
                }
                vec![Piece::Var(var.clone(), filters)]
            }
            [] => pieces,
            _ if quote => {
                let mark = || std::iter::once(Piece::Literal("\"".to_owned()));
                mark().chain(pieces).chain(mark()).collect()
            }
            _ => pieces,
        }
    }

    /// The pieces of a named tag; `None` if there is no such tag.
    fn named(&self, name: &str) -> Result<Option<Vec<Piece<String>>>, Problem> {
        let empty = LogScope::default();
        let log = self.log.unwrap_or(&empty);
        let literal = |text: &str| Ok(Some(Template::literal(text).pieces));
        let captured = |count: u16, var: fn(u16) -> Var| {
            let mut template = Template::default();
            for slot in 0..count {
                template.push_literal(if slot == 0 { "{" } else { "|" });
                template.push_var(var(slot));
            }
            template.push_literal(if count > 0 { "}" } else { "" });
            Ok(Some(template.pieces))
        };
        let listed = |count: u16, var: fn(u16) -> Var| {
            let mut template = Template::default();
            for slot in 0..count {
                template.push_literal(if slot == 0 { "" } else { " " });
                template.pieces.push(Piece::Var(var(slot), vec![Filter::Quote]));
            }
            Ok(Some(template.pieces))
        };
        let var = match name {
            "ci" => Var::ClientAddr,
            "cp" => Var::ClientPort,
            "fi" => Var::ServerAddr,
            "fp" => Var::ServerPort,
            "f" if self.log.is_some() => return literal(&log.frontend),
            "ft" if self.log.is_some() => {
                let mut pieces = Template::literal(log.frontend.clone()).pieces;
                pieces.extend(log.tls_mark.pieces.iter().cloned());
                return Ok(Some(pieces));
            }
            "f" | "ft" => Var::SiteLabel,
            "b" => match &log.backend {
                Some(name) => return literal(name),
                None => Var::User(BACKEND_OR_FRONTEND.into()),
            },
            "s" => match &log.server {
                Some(name) => return literal(name),
                None => Var::User(SERVER_OR_NONE.into()),
            },
            "t" => Var::AcceptDate,
            "tr" | "trl" | "trg" => Var::RequestDate,
            "T" | "Tl" => Var::TimeLocal,
            "Ts" => Var::RequestSeconds,
            "ms" => Var::RequestMillis,
            "Th" => Var::Timer(Timer::Handshake),
            "Ti" => Var::Timer(Timer::Idle),
            "TR" => Var::Timer(Timer::Request),
            "Tq" => Var::Timer(Timer::Query),
            "Tw" => Var::Timer(Timer::Queue),
            "Tc" => Var::Timer(Timer::Connect),
            "Tr" => Var::Timer(Timer::Response),
            "Td" => Var::Timer(Timer::Data),
            "Ta" => Var::Timer(Timer::Active),
            "Tt" => Var::Timer(Timer::Total),
            "Tu" => Var::Timer(Timer::User),
            "ST" => Var::StatusCode,
            "B" => Var::BytesSent,
            "U" => Var::RequestLength,
            "ts" => Var::TerminationState,
            "tsc" => {
                let state = |var| Piece::Var(var, Vec::new());
                return Ok(Some(vec![state(Var::TerminationState), state(Var::PersistenceState)]));
            }
            "ac" => Var::Count(Count::Process),
            "fc" => Var::Count(Count::Site),
            "bc" => Var::Count(Count::Pool),
            "sc" => Var::Count(Count::Endpoint),
            "rc" => Var::Count(Count::Retries),
            "bq" => Var::Count(Count::PoolQueue),
            "sq" => Var::Count(Count::EndpointQueue),
            "r" => Var::RequestLine,
            "HM" => Var::Method,
            "HP" => Var::RawPath,
            "HPO" => Var::RawPath,
            "HU" => Var::Target,
            "HQ" => {
                return Ok(Some(vec![
                    Piece::Var(Var::IsArgs, Vec::new()),
                    Piece::Var(Var::Query, Vec::new()),
                ]));
            }
            "HV" => Var::Protocol,
            "H" => Var::Hostname,
            "pid" => Var::Pid,
            "ID" => self.scope.identifier(),
            "rt" => Var::RequestSerial,
            "sslc" => Var::TlsCipher,
            "sslv" => Var::TlsProtocol,
            "hr" => return captured(log.request_captures, Var::CapturedRequestHeader),
            "hs" => return captured(log.response_captures, Var::CapturedResponseHeader),
            "CC" if log.cookies => Var::CapturedRequestHeader(log.request_captures),
            "CS" if log.cookies => Var::CapturedResponseHeader(log.response_captures),
            "hrl" => return listed(log.request_captures, Var::CapturedRequestHeader),
            "hsl" => return listed(log.response_captures, Var::CapturedResponseHeader),
            "CC" | "CS" => return literal("-"),
            "si" => Var::EndpointAddr,
            "sp" => Var::EndpointPort,
            "bi" => Var::EndpointLocalAddr,
            "bp" => Var::EndpointLocalPort,
            "lc" | "OG" => return literal("-"),
            _ => return Ok(None),
        };
        Ok(Some(vec![Piece::Var(var, Vec::new())]))
    }
}

/// How many digits `+X` gives the value of a tag at least; `None`: it leaves it alone.
fn hexadecimal(tag: &str) -> Option<u8> {
    match tag {
        "ci" | "cp" | "fi" | "fp" | "bi" | "bp" | "si" | "sp" | "Ts" | "rt" | "pid" => Some(4),
        "ms" => Some(2),
        _ => None,
    }
}

fn in_hexadecimal(mut pieces: Vec<Piece<String>>, digits: u8) -> Vec<Piece<String>> {
    for piece in &mut pieces {
        if let Piece::Var(_, filters) = piece {
            filters.push(Filter::Hexadecimal(digits));
        }
    }
    pieces
}

/// Whether a piece is text, which `+Q` quotes.
fn is_text(piece: &Piece<String>) -> bool {
    match piece {
        Piece::Literal(text) => text != "-" && text != "%",
        Piece::Var(
            Var::Timer(_) | Var::Count(_) | Var::StatusCode | Var::BytesSent | Var::RequestLength,
            _,
        ) => false,
        Piece::Var(
            Var::AcceptDate | Var::RequestDate | Var::TimeLocal | Var::RequestSeconds | Var::RequestMillis,
            _,
        ) => false,
        Piece::Var(
            Var::TerminationState | Var::PersistenceState | Var::ClientPort | Var::ServerPort | Var::Pid,
            _,
        ) => false,
        Piece::Var(..) => true,
    }
}

/// Whether a value can be empty in a log line; those always there need no look.
fn may_be_empty(var: &Var) -> bool {
    match var {
        Var::Timer(_)
        | Var::Count(_)
        | Var::StatusCode
        | Var::BytesSent
        | Var::RequestLength
        | Var::TerminationState
        | Var::PersistenceState => false,
        Var::ClientAddr | Var::ClientPort | Var::ServerAddr | Var::ServerPort | Var::SiteLabel | Var::Pid => {
            false
        }
        Var::AcceptDate
        | Var::RequestDate
        | Var::TimeLocal
        | Var::RequestSeconds
        | Var::RequestMillis
        | Var::Hostname => false,
        Var::User(name) => !matches!(name.as_str(), BACKEND_OR_FRONTEND | SERVER_OR_NONE | TLS_MARK),
        _ => true,
    }
}

/// What follows a `%[…]` that cannot be had.
fn skip_tag(after: &str) -> &str {
    let inner = after.find('[').map_or("", |at| &after[at + 1..]);
    closing(inner).map_or("", |end| &inner[end + 1..])
}

/// Where the bracket of `%[` closes; quotes and parentheses may hold brackets.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('(', None) => depth += 1,
            (')', None) => depth = depth.saturating_sub(1),
            (']', None) if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

/// A tag's name is the run of letters after the mark.
fn tag_length(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_alphabetic).count()
}
