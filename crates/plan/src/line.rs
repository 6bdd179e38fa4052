//! The lines of access logs, compiled.
//!
//! Owns: a format's steps: short texts as one store of the processor, fields by number, and the values
//! of the Common Log Format by themselves.
//! Never: computes a value; the engine does, also for templates.
//! Driven by: the lowering (makes them), the engine's log (follows them).
//! Why: a line is made for each request. As a template it took 2,600 instructions, most of them to find out anew what each
//! piece is.

use serde::{Serialize, Serializer};
use weir_expr::{Filter, Piece, Var};
use weir_http::HeaderId;

use crate::Template;
use weir_expr::Slot;

/// A format of lines.
#[derive(Clone, Debug)]
pub struct LogFormat {
    template: Template,
    steps: Box<[LogStep]>,
}

/// One step of making a line.
#[derive(Clone, Debug)]
pub enum LogStep {
    /// So many bytes of these.
    Short([u8; 16], u8),
    /// A longer text.
    Text(Box<[u8]>),
    /// All values of a request's field, joined by commas.
    Field(HeaderId),
    /// A value of the Common Log Format.
    Common(CommonValue),
    /// Another variable, through filters.
    Var(Box<(Var<Slot>, Vec<Filter>)>),
}

/// The values of the Common Log Format; each is the variable of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the variable of its name")]
pub enum CommonValue {
    ClientAddr,
    RemoteUser,
    TimeLocal,
    RequestLine,
    Status,
    BodyBytesSent,
}

impl LogFormat {
    /// Compiles a template.
    #[must_use]
    pub fn new(template: Template) -> Self {
        let steps = template.pieces.iter().map(LogStep::of).collect();
        Self { template, steps }
    }

    /// What it was made of.
    #[must_use]
    pub fn template(&self) -> &Template {
        &self.template
    }

    /// The steps in order.
    #[must_use]
    #[inline]
    pub fn steps(&self) -> &[LogStep] {
        &self.steps
    }
}

impl Serialize for LogFormat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.template.serialize(serializer)
    }
}

impl LogStep {
    fn of(piece: &Piece<Slot>) -> Self {
        match piece {
            Piece::Literal(text) => Self::text(text.as_bytes()),
            Piece::Var(var, filters) if filters.is_empty() => match CommonValue::of(var) {
                Some(value) => Self::Common(value),
                None => Self::field(var).unwrap_or_else(|| Self::Var(Box::new((var.clone(), Vec::new())))),
            },
            Piece::Var(var, filters) => Self::Var(Box::new((var.clone(), filters.clone()))),
        }
    }

    fn text(text: &[u8]) -> Self {
        let mut block = [0; 16];
        match (block.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(part), Ok(length)) => {
                part.copy_from_slice(text);
                Self::Short(block, length)
            }
            _ => Self::Text(text.into()),
        }
    }

    fn field(var: &Var<Slot>) -> Option<Self> {
        let Var::Header(name) = var else { return None };
        // Cookies are joined in their own way.
        let id = HeaderId::of(name.as_bytes());
        (!matches!(id, HeaderId::Unknown | HeaderId::Cookie)).then_some(Self::Field(id))
    }
}

impl CommonValue {
    fn of(var: &Var<Slot>) -> Option<Self> {
        Some(match var {
            Var::ClientAddr => Self::ClientAddr,
            Var::RemoteUser => Self::RemoteUser,
            Var::TimeLocal => Self::TimeLocal,
            Var::RequestLine => Self::RequestLine,
            Var::Status => Self::Status,
            Var::BodyBytesSent => Self::BodyBytesSent,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_keeps_each_of_its_bytes() {
        for length in 0..40 {
            let text: String = ('a'..='z').cycle().take(length).collect();
            let format = LogFormat::new(Template::literal(&text));
            let mut made = Vec::new();
            for step in format.steps() {
                match step {
                    LogStep::Short(block, length) => made.extend(&block[..usize::from(*length)]),
                    LogStep::Text(text) => made.extend(text),
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(String::from_utf8(made).unwrap(), text);
        }
    }

    #[test]
    fn only_fields_that_are_joined_by_commas_are_taken_by_number() {
        let step = |name: &str| {
            let mut template = Template::default();
            template.push_var(Var::Header(name.to_owned()));
            LogFormat::new(template).steps()[0].clone()
        };
        assert!(matches!(step("referer"), LogStep::Field(HeaderId::Referer)));
        assert!(matches!(step("cookie"), LogStep::Var(_)));
        assert!(matches!(step("x-of-nobody"), LogStep::Var(_)));
    }
}
