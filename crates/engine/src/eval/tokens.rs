//! Tokens of requests: where they are, what they say, whether they hold (nginx's auth_jwt module).
//!
//! Owns: reading them for variables, verifying them by keys that somebody brought.
//! Never: waits, or fetches keys; `walk::identity` does.
//! Driven by: `eval::vars`, `walk::identity`, which make the texts of templates.
//! Why values before anything was verified: NGINX Plus has them, for `map`, zones of limits and logs of what was refused.
//! What gets in is decided by the hook alone. Of encrypted tokens there are none before it.

use std::rc::Rc;
use std::sync::Arc;

use serde_json::{Map, Value};
use weir_expr::IdentityVar;
use weir_expr::settings::TokenKind;
use weir_http::HeaderId;
use weir_jose::{KeySet, Refused};
use weir_plan::{Template, TokenAuth};

use crate::exchange::{Exchange, Token};

/// The value of a variable; `None`: it has none.
pub(super) fn value(
    exchange: &Exchange,
    var: IdentityVar<'_>,
    text: impl Fn(&Template) -> Vec<u8>,
) -> Option<Vec<u8>> {
    let auth = exchange.route_if_any()?.settings.access.token.as_deref()?;
    let token = read(exchange, shown(exchange, auth, text)?)?;
    match var {
        IdentityVar::TokenHeader(path) => weir_jose::value_at(&token.header, path.iter().map(String::as_str)),
        IdentityVar::TokenClaim(path) => {
            weir_jose::value_at(token.claims.as_ref()?, path.iter().map(String::as_str))
        }
        IdentityVar::TokenPayload => (!token.payload.is_empty()).then(|| token.payload.clone()),
    }
}

/// The token that a request shows.
pub(crate) fn shown(
    exchange: &Exchange,
    auth: &TokenAuth,
    text: impl Fn(&Template) -> Vec<u8>,
) -> Option<Vec<u8>> {
    let found = match &auth.token {
        Some(place) => text(place),
        None => {
            let field = exchange.request.fields.first(HeaderId::Authorization)?;
            let (scheme, rest) = field.split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then(|| rest.trim_ascii().to_vec())?
        }
    };
    (!found.is_empty()).then_some(found)
}

/// The token that a request shows, read.
fn read(exchange: &Exchange, text: Vec<u8>) -> Option<Rc<Token>> {
    let known = &exchange.identity().token;
    if let Some(token) = known.borrow().as_ref().filter(|token| token.text == text) {
        return Some(token.clone());
    }
    let parts = weir_jose::read(&text).ok()?;
    let payload = parts.payload.unwrap_or_default();
    let token = Rc::new(Token { text, header: parts.header, claims: claims(&payload), payload });
    known.replace(Some(token.clone()));
    Some(token)
}

fn claims(payload: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice(payload).ok()
}

/// Whether opening it takes longer than a worker has.
pub(crate) fn is_dear(kind: TokenKind, token: &[u8]) -> bool {
    kind != TokenKind::Signed && weir_jose::wants_private_key(token)
}

/// A token that holds: what it claims, and how that came.
pub(crate) struct Held {
    claims: Map<String, Value>,
    payload: Vec<u8>,
}

/// Whether a token holds by these keys, whenever.
///
/// # Errors
/// It does not.
pub(crate) fn hold(kind: TokenKind, token: &[u8], keys: &[Arc<KeySet>]) -> Result<Held, Refused> {
    let sets = || keys.iter().map(|set| &**set);
    let (payload, signed) = match kind {
        TokenKind::Signed => (weir_jose::verify(token, sets())?, None),
        TokenKind::Encrypted => (weir_jose::open(token, sets())?, None),
        TokenKind::Nested => {
            let signed = weir_jose::open(token, sets())?;
            (weir_jose::verify(&signed, sets())?, Some(signed))
        }
    };
    let claims = claims(&payload).ok_or(Refused::Malformed)?;
    Ok(Held { claims, payload: signed.unwrap_or(payload) })
}

/// Takes a token that holds for the request's, if it holds now.
///
/// # Errors
/// Its time is over, or has not come.
pub(crate) fn take(exchange: &Exchange, auth: &TokenAuth, text: Vec<u8>, held: Held) -> Result<(), Refused> {
    weir_jose::check_times(&held.claims, weir_rt::unix_now().as_secs(), auth.leeway.as_secs())?;
    let header = weir_jose::read(&text)?.header;
    let token = Token { text, header, claims: Some(held.claims), payload: held.payload };
    exchange.identity().token.replace(Some(Rc::new(token)));
    Ok(())
}
