//! Settings of tokens and requirements.
//!
//! Owns: the fields, and what they make together.
//! Never: reports, or reads a directive; `take::token` does.
//! Driven by: `Parts`, whose part it is.

use std::sync::Arc;
use std::time::Duration;

use weir_diag::Span;
use weir_model::settings::TokenKind;
use weir_model::{Requirement, Template, TokenAuth, TokenKeys};

use super::inherit::List;

/// What inner blocks inherit.
#[derive(Clone, Debug, Default)]
pub(crate) struct TokenParts {
    pub auth: Option<Written>,
    pub kind: TokenKind,
    pub keys: List<TokenKeys>,
    pub cache: Option<(Duration, Span)>,
    pub leeway: Duration,
    pub require: List<Requirement>,
    /// `auth_require`.
    pub always: List<Requirement>,
}

/// `auth_jwt` as written.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    /// `None`: `off`, with a token all the same.
    pub realm: Option<Template>,
    pub token: Option<Template>,
    pub span: Span,
}

impl TokenParts {
    /// What they say, if tokens are asked for or read.
    pub(crate) fn build(&self) -> Option<Arc<TokenAuth>> {
        let auth = self.auth.as_ref()?;
        Some(Arc::new(TokenAuth {
            realm: auth.realm.clone().unwrap_or_default(),
            token: auth.token.clone(),
            unverified: auth.realm.is_none(),
            kind: self.kind,
            keys: self.keys.items().to_vec(),
            cache: self.cache.map_or(Duration::ZERO, |cache| cache.0),
            leeway: self.leeway,
            require: self.require.items().to_vec(),
        }))
    }
}
