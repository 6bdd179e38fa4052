//! Settings of cookies that tell clients apart.
//!
//! Owns: the fields, and what they make together.
//! Never: reports, or reads a directive; `take::user_id` does.
//! Driven by: `FactParts`, whose part it is.

use std::sync::Arc;

use weir_expr::settings::{UserIdExpires, UserIdMode};
use weir_model::{Template, UserIds, settings};

/// What inner blocks inherit. An empty text stands for `none`.
#[derive(Clone, Debug)]
pub(crate) struct UserIdParts {
    /// `None`: off.
    pub mode: Option<UserIdMode>,
    pub service: Option<u32>,
    pub name: String,
    pub domain: String,
    pub path: String,
    pub expires: UserIdExpires,
    pub flags: UserIdFlags,
    pub p3p: String,
    pub mark: Option<u8>,
    /// `$uid_reset`.
    pub reset: Template,
}

/// `userid_flags`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UserIdFlags {
    pub secure: bool,
    pub http_only: bool,
    pub strict: bool,
    pub lax: bool,
    pub none: bool,
}

impl Default for UserIdParts {
    fn default() -> Self {
        Self {
            mode: None,
            service: None,
            name: "uid".into(),
            domain: String::new(),
            path: "/".into(),
            expires: UserIdExpires::Session,
            flags: UserIdFlags::default(),
            p3p: String::new(),
            mark: None,
            reset: Template::default(),
        }
    }
}

impl UserIdParts {
    pub(crate) fn build(&self) -> Option<UserIds> {
        let rules = settings::UserIds {
            mode: self.mode?,
            service: self.service,
            name: self.name.clone(),
            expires: self.expires,
            attributes: self.attributes(),
            p3p: self.p3p.clone(),
            mark: self.mark,
        };
        Some(UserIds { rules: Arc::new(rules), reset: self.reset.clone() })
    }

    fn attributes(&self) -> String {
        let mut out = String::new();
        if !self.domain.is_empty() {
            out = format!("; domain={}", self.domain);
        }
        out += "; path=";
        out += &self.path;
        let flags = self.flags;
        for (on, text) in [(flags.secure, "; secure"), (flags.http_only, "; httponly")] {
            out += if on { text } else { "" };
        }
        out += match flags {
            UserIdFlags { strict: true, .. } => "; samesite=strict",
            UserIdFlags { lax: true, .. } => "; samesite=lax",
            UserIdFlags { none: true, .. } => "; samesite=none",
            _ => "",
        };
        out
    }
}
