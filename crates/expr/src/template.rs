//! Text with variables in it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Var;

/// Literal text and variables, concatenated when asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Template<S> {
    /// The parts in order. Empty means the empty string; adjacent literals are merged by [`Template::push_literal`].
    pub pieces: Vec<Piece<S>>,
}

/// One part of a template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Piece<S> {
    /// Text as it is.
    Literal(String),
    /// A variable's value, through the filters in order.
    Var(Var<S>, Vec<Filter>),
}

/// A pure change of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// ASCII letters to lower case.
    Lower,
    /// ASCII letters to upper case.
    Upper,
    /// Percent-encode what is not unreserved (RFC 3986 §2.3).
    UrlEncode,
    /// Decode percent-encoding once.
    UrlDecode,
    /// Quote the value with `"`, as HAProxy's `+Q` does.
    Quote,
    /// Write `-` where the value is empty, as log formats do.
    DashIfEmpty,
    /// A number in so many upper-case hexadecimal digits at least, an address as its bytes, as HAProxy's `+X` does.
    /// Other values stay as they are.
    Hexadecimal(u8),
}

impl<S> Default for Template<S> {
    fn default() -> Self {
        Self { pieces: Vec::new() }
    }
}

impl<S> Template<S> {
    /// A template of literal text only.
    pub fn literal(text: impl Into<String>) -> Self {
        let text = text.into();
        if text.is_empty() { Self::default() } else { Self { pieces: vec![Piece::Literal(text)] } }
    }

    /// A template of one variable only.
    pub fn var(var: Var<S>) -> Self {
        Self { pieces: vec![Piece::Var(var, Vec::new())] }
    }

    /// Appends text, merging it with a literal that stands before.
    pub fn push_literal(&mut self, text: &str) {
        match self.pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(Piece::Literal(last)) => last.push_str(text),
            _ => self.pieces.push(Piece::Literal(text.to_owned())),
        }
    }

    /// Appends a variable.
    pub fn push_var(&mut self, var: Var<S>) {
        self.pieces.push(Piece::Var(var, Vec::new()));
    }

    /// The text, if there is no variable in it.
    pub fn as_literal(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [Piece::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// True if it is always the empty string.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// All variables in it, in order.
    pub fn vars(&self) -> impl Iterator<Item = &Var<S>> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Var(var, _) => Some(var),
            Piece::Literal(_) => None,
        })
    }

    /// The same template with user variables referred to otherwise; the first error ends it.
    pub fn try_map<T, E>(&self, resolve: &mut impl FnMut(&S) -> Result<T, E>) -> Result<Template<T>, E> {
        let mut pieces = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            pieces.push(match piece {
                Piece::Literal(text) => Piece::Literal(text.clone()),
                Piece::Var(var, filters) => Piece::Var(var.try_map(resolve)?, filters.clone()),
            });
        }
        Ok(Template { pieces })
    }
}

impl<S: fmt::Display> fmt::Display for Template<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => f.write_str(text)?,
                Piece::Var(var, filters) => {
                    write!(f, "${{{var}")?;
                    for filter in filters {
                        write!(f, "|{filter:?}")?;
                    }
                    f.write_str("}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_merge_and_print() {
        let mut template: Template<String> = Template::literal("http://");
        template.push_literal("");
        template.push_var(Var::Host);
        template.push_literal("/a");
        template.push_literal("b");
        assert_eq!(template.pieces.len(), 3);
        assert_eq!(template.to_string(), "http://${host}/ab");
        assert_eq!(Template::<String>::literal("x").as_literal(), Some("x"));
    }
}
