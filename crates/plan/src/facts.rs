//! What variables tell about requests, by settings of a route.

use std::sync::Arc;

use serde::Serialize;
use weir_expr::settings::{self, Browsers};

use crate::{MatchFailed, Pattern, Template};

/// Settings of variables that judge a request.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Facts {
    /// Links with a hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secure_link: Option<SecureLink>,
    /// Rules about browsers (`$modern_browser`, `$ancient_browser`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub browsers: Option<Arc<Browsers>>,
    /// Cookies that tell clients apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_ids: Option<UserIds>,
    /// Pages that may refer here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub referers: Option<Referers>,
}

/// Cookies that tell clients apart.
#[derive(Clone, Debug, Serialize)]
pub struct UserIds {
    /// The settings.
    pub rules: Arc<settings::UserIds>,
    /// If this is neither empty nor `0`, the number that a client came with does not hold any more.
    pub reset: Template,
}

/// How a link shows that it was made by somebody who may.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SecureLink {
    /// A hash, and perhaps a time, that the request shows, and the text whose MD5 that hash is.
    Signed {
        /// `hash` or `hash,seconds since 1970`; the hash in base64url.
        shown: Template,
        /// The text.
        #[serde(skip)]
        signed: Template,
    },
    /// The second part of the path is the MD5, in hexadecimal digits, of the rest and this word.
    Word(#[serde(skip)] Box<str>),
}

/// Pages that may refer here.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Referers {
    /// Requests without a Referer may.
    pub none: bool,
    /// A Referer that is no `http://` or `https://` URL may.
    pub blocked: bool,
    /// `(name, start of the path)`.
    pub exact: Box<[(Box<str>, Box<str>)]>,
    /// As `exact`, of what a host ends in behind a dot; longest first.
    pub suffixes: Box<[(Box<str>, Box<str>)]>,
    /// As `exact`, of what a host begins with before a dot; longest first.
    pub prefixes: Box<[(Box<str>, Box<str>)]>,
    /// Patterns of hosts.
    pub host_patterns: Box<[Arc<Pattern>]>,
    /// Patterns of what follows `http://` or `https://`.
    pub patterns: Box<[Arc<Pattern>]>,
}

/// The longest host that is looked for.
const LONGEST: usize = 256;

impl Referers {
    /// Whether a request with this Referer is welcome.
    ///
    /// # Errors
    /// A pattern gave up.
    pub fn take(&self, referer: Option<&[u8]>) -> Result<bool, MatchFailed> {
        let lists = [&self.exact, &self.suffixes, &self.prefixes];
        if lists.iter().all(|list| list.is_empty())
            && self.host_patterns.is_empty()
            && self.patterns.is_empty()
        {
            return Ok(true);
        }
        let Some(referer) = referer else { return Ok(self.none) };
        let Some(page) = without_scheme(referer) else { return Ok(self.blocked) };
        let length = page.iter().position(|byte| matches!(byte, b'/' | b':')).unwrap_or(page.len());
        let host = page[..length].to_ascii_lowercase();
        if host.len() > LONGEST {
            return Ok(false);
        }
        if let Some(start) = self.path_of(&host) {
            let path = page.iter().position(|&byte| byte == b'/').map_or(&b""[..], |at| &page[at..]);
            return Ok(path.starts_with(start.as_bytes()));
        }
        for pattern in &self.host_patterns {
            if pattern.is_match(&host)? {
                return Ok(true);
            }
        }
        for pattern in &self.patterns {
            if pattern.is_match(page)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What the path of a page of this host has to begin with, if the host may refer here.
    fn path_of(&self, host: &[u8]) -> Option<&str> {
        let is_exact = |name: &[u8]| name == host;
        let ends =
            |name: &[u8]| host.strip_suffix(name).is_some_and(|rest| rest.len() > 1 && rest.ends_with(b"."));
        let begins = |name: &[u8]| {
            host.strip_prefix(name).is_some_and(|rest| rest.len() > 1 && rest.starts_with(b"."))
        };
        let exact = self.exact.iter().find(|(name, _)| is_exact(name.as_bytes()));
        let found = exact
            .or_else(|| self.suffixes.iter().find(|(name, _)| ends(name.as_bytes())))
            .or_else(|| self.prefixes.iter().find(|(name, _)| begins(name.as_bytes())))?;
        Some(&found.1)
    }
}

/// What follows the scheme of a page; `None`: it has none that counts, or nothing follows.
fn without_scheme(referer: &[u8]) -> Option<&[u8]> {
    ["http://", "https://"].into_iter().find_map(|scheme| {
        let (start, rest) = referer.split_at_checked(scheme.len())?;
        (start.eq_ignore_ascii_case(scheme.as_bytes()) && !rest.is_empty()).then_some(rest)
    })
}
