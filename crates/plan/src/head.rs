//! Heads of upstream requests, prepared.
//!
//! Owns: [`HeadTemplate`], what of an upstream request's fields is known at load.
//! Never: decides on framing (Content-Length, Transfer-Encoding) or on the request line; the engine does.
//! Driven by: `engine`, once an attempt.
//! Why: literal text is joined at load, so that most heads are two or three copies and a few variables.
//!
//! ```text
//! proxy_set_header Host $host; proxy_set_header X-A "b"; proxy_set_header X-C $arg_c;
//!    → Literal("Host: ") Var(host) Literal("\r\nX-A: b\r\n") Line("X-C: ", ${arg.c})
//! ```

use std::fmt;

use serde::{Serialize, Serializer};
use weir_expr::{Filter, Piece};
use weir_http::HeaderId;

use crate::{HeaderName, HeaderSet, Template, Var};

/// Fields of an upstream request.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HeadTemplate {
    /// Whole lines in order, each ended by CRLF. Connection, Upgrade and framing fields are not in them.
    pub pieces: Box<[HeadPiece]>,
    /// Fields of the client that are not passed because one of that name is set here (perhaps to nothing).
    pub replaced: HeaderSet,
    /// Value set for `Connection`: `None` if none is set; the engine reads `upgrade` and `close` in it.
    pub connection: Option<Template>,
    /// Value set for `Upgrade`: `None` if none is set.
    pub upgrade: Option<Template>,
    /// A Host line is among the pieces.
    pub has_host: bool,
}

/// A part of a head.
#[derive(Clone)]
pub enum HeadPiece {
    /// Bytes as they are.
    Literal(Box<[u8]>),
    /// A value that may be empty and leaves a line of its own text all the same.
    Var(Var, Box<[Filter]>),
    /// A line that is left out if its value is empty: `Name: `, value, CRLF.
    Line(Box<[u8]>, Template),
    /// A line with nothing but the host that the action names, as most heads have it: `Name: `, host, CRLF. Apart, because
    /// that host is known at load unless the target is computed.
    OwnHost(Box<[u8]>),
}

impl HeadTemplate {
    /// Prepares fields in order. Framing fields are the engine's, so a value set for them only suppresses the client's.
    pub fn new<'f>(fields: impl IntoIterator<Item = (&'f HeaderName, &'f Template)> + Clone) -> Self {
        let replaced = HeaderSet::new(fields.clone().into_iter().map(|(name, _)| &*name.lower));
        let mut head = Self { replaced, ..Self::default() };
        let mut pieces = Vec::new();
        for (name, value) in fields {
            match name.id {
                HeaderId::Connection => head.connection = Some(value.clone()),
                HeaderId::Upgrade => head.upgrade = Some(value.clone()),
                HeaderId::ContentLength | HeaderId::TransferEncoding => {}
                _ if value.is_empty() => {}
                id => {
                    head.has_host |= id == HeaderId::Host;
                    push_line(&mut pieces, &name.name, value);
                }
            }
        }
        head.pieces = pieces.into();
        head
    }
}

fn push_line(pieces: &mut Vec<HeadPiece>, name: &str, value: &Template) {
    let may_be_empty = !value.pieces.iter().any(|piece| matches!(piece, Piece::Literal(_)));
    let own_host = [Piece::Var(Var::ProxyHost, Vec::new())];
    if value.pieces == own_host && !is_secret(name) {
        return pieces.push(HeadPiece::OwnHost(format!("{name}: ").into_bytes().into()));
    }
    // Credentials stay apart, so that a printed plan can leave them out.
    if may_be_empty || is_secret(name) {
        pieces.push(HeadPiece::Line(format!("{name}: ").into_bytes().into(), value.clone()));
        return;
    }
    push_literal(pieces, name.as_bytes());
    push_literal(pieces, b": ");
    for piece in &value.pieces {
        match piece {
            Piece::Literal(text) => push_literal(pieces, text.as_bytes()),
            Piece::Var(var, filters) => pieces.push(HeadPiece::Var(var.clone(), filters.as_slice().into())),
        }
    }
    push_literal(pieces, b"\r\n");
}

/// Fields whose values are not printed.
fn is_secret(name: &str) -> bool {
    matches!(HeaderId::of(name.as_bytes()), HeaderId::Authorization | HeaderId::ProxyAuthorization)
}

fn push_literal(pieces: &mut Vec<HeadPiece>, text: &[u8]) {
    if let Some(HeadPiece::Literal(last)) = pieces.last_mut() {
        *last = [last, text].concat().into();
    } else {
        pieces.push(HeadPiece::Literal(text.into()));
    }
}

impl fmt::Display for HeadPiece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(text) => write!(f, "{}", text.escape_ascii()),
            Self::Var(var, filters) => {
                let piece = Piece::Var(var.clone(), filters.to_vec());
                write!(f, "{}", Template { pieces: vec![piece] })
            }
            Self::OwnHost(name) => write!(f, "[{}{}]", name.escape_ascii(), Template::var(Var::ProxyHost)),
            Self::Line(name, value) => {
                let bare = name.strip_suffix(b": ").unwrap_or(name);
                match is_secret(&String::from_utf8_lossy(bare)) {
                    true => write!(f, "[{}<redacted>]", name.escape_ascii()),
                    false => write!(f, "[{}{value}]", name.escape_ascii()),
                }
            }
        }
    }
}

impl fmt::Debug for HeadPiece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for HeadPiece {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_join_and_lines_that_may_be_empty_stand_apart() {
        let mut b: Template = Template::literal("b-");
        b.push_var(Var::Host);
        let fields = [
            (HeaderName::new("X-A"), Template::literal("a")),
            (HeaderName::new("X-B"), b),
            (HeaderName::new("Host"), Template::var(Var::Host)),
            (HeaderName::new("Accept-Encoding"), Template::default()),
            (HeaderName::new("Connection"), Template::literal("close")),
        ];
        let head = HeadTemplate::new(fields.iter().map(|(name, value)| (name, value)));
        let shown: Vec<String> = head
            .pieces
            .iter()
            .map(|piece| match piece {
                HeadPiece::Literal(text) => text.escape_ascii().to_string(),
                HeadPiece::Var(var, _) => format!("<{var}>"),
                HeadPiece::Line(name, value) => format!("[{}{value}]", name.escape_ascii()),
                HeadPiece::OwnHost(_) => String::new(),
            })
            .collect();
        assert_eq!(shown, ["X-A: a\\r\\nX-B: b-", "<host>", "\\r\\n", "[Host: ${host}]"]);
        assert!(head.has_host);
        assert!(head.replaced.contains(HeaderId::AcceptEncoding, b""));
        assert!(head.replaced.contains(HeaderId::Unknown, b"x-a"));
        assert_eq!(head.connection, Some(Template::literal("close")));
    }
}
