//! Parameters of `bind`, `server` and their kin.
//!
//! Owns: what is known of one.
//! Never: builds what they ask for.

/// A parameter of `bind`, `server` or `default-server`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameter {
    /// The word.
    pub(crate) name: &'static str,
    /// How many words follow that belong to it.
    pub(crate) arguments: u8,
    /// What it means, in a line.
    pub(crate) doc: &'static str,
    /// What becomes of it.
    pub(crate) status: ParameterStatus,
}

/// What becomes of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterStatus {
    /// Built.
    Built,
    /// Nothing is to be done, and nothing is lost.
    Accepted,
    /// A warning that says what holds instead.
    Tuning(&'static str),
    /// An error that says what it would do.
    NotYet(&'static str),
}

pub(super) const fn parameter(
    name: &'static str,
    arguments: u8,
    doc: &'static str,
    status: ParameterStatus,
) -> Parameter {
    Parameter { name, arguments, doc, status }
}

#[cfg(test)]
mod tests {
    use super::super::{BIND, SERVER};

    #[test]
    fn every_parameter_stands_once() {
        for table in [BIND, SERVER] {
            for (at, parameter) in table.iter().enumerate() {
                assert!(
                    table[..at].iter().all(|p| p.name != parameter.name),
                    "{} stands twice",
                    parameter.name
                );
                assert!(parameter.doc.ends_with('.'), "{} has no doc line", parameter.name);
            }
        }
    }
}
