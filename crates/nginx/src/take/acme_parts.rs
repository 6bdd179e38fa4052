//! What a server says of certificates that issuers make, while it is read.

use weir_diag::Span;
use weir_expr::settings::KeyKind;

/// `auto_certificate` as it holds for a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Auto {
    pub issuer: String,
    pub key: KeyKind,
    pub span: Span,
}

/// `acme_certificate` as it is written.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub issuer: String,
    pub identifiers: Vec<String>,
    pub key: KeyKind,
    pub span: Span,
}
