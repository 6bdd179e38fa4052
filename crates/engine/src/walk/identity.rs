//! Who gets in where a token, or what is made of variables, says so, too.
//!
//! Owns: the order of all ways of access of such a route, under `satisfy all` and `any`; bringing the keys of tokens.
//! Never: reads a token; `eval::tokens` does.
//! Driven by: the hooks.
//! Why here: keys may be the answer to a request of our own, which is walked like any other. What the configuration requires
//! of variables (`auth_require`) holds in any case: it opens no door that another way keeps shut, as under `satisfy any`
//! one of the others would.
//!
//! Signatures are verified by the worker: each costs less than the handshake of the connection that it came over, and what
//! a token may make us try has a bound (`weir_jose`). What takes an operation with a private key of RSA is done beside.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use weir_http::HeaderId;
use weir_jose::KeySet;
use weir_plan::{Access, AuthRequest, Requirement, TokenAuth, TokenKeys};

use crate::action::Later;
use crate::admission::access::{self, Way};
use crate::eval::{text, tokens};
use crate::exchange::{Exchange, errors};
use crate::worker::Installed;
use crate::worker::token_keys::Place;

/// What comes next.
type Next = crate::exchange::Next<Later>;

/// What comes of it, later.
pub(super) type Soon<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A status, and a body that is whole.
pub(super) type Fetched = (u16, Option<Vec<u8>>);

/// Requests of our own, which the walk makes.
pub(super) struct Requests {
    /// Asks another route who gets in; the status to refuse with.
    pub(super) ask: for<'a> fn(&'a mut Exchange, &'a AuthRequest) -> Soon<'a, Option<u16>>,
    /// Asks for something of the same site: its status, and its body if that is whole and no larger than a set of keys.
    pub(super) fetch: for<'a> fn(&'a Exchange, &'a [u8]) -> Soon<'a, Fetched>,
}

/// What is answered instead, if the client may not pass.
pub(super) async fn check(
    exchange: &mut Exchange,
    installed: &Installed,
    requests: &Requests,
) -> Option<Next> {
    let access = &installed.plan.route(exchange.route).settings.access;
    let refused = if access.any {
        any(exchange, access, requests).await
    } else {
        all(exchange, access, requests).await
    };
    if let Some(status) = refused {
        return Some(Next::Status(status));
    }
    lacks(exchange, &access.require).map(|status| {
        errors::error(exchange, "access forbidden: a required value is empty or \"0\"");
        Next::Status(status)
    })
}

/// `satisfy all`: each way has to let the client pass.
async fn all(exchange: &mut Exchange, access: &Access, requests: &Requests) -> Option<u16> {
    if let Some(status) = access::check(exchange, access).await {
        return Some(status);
    }
    if let Some(ask) = &access.ask
        && let Some(status) = (requests.ask)(exchange, ask).await
    {
        return Some(status);
    }
    match asked_for(access) {
        Some(auth) => by_token(exchange, auth, requests).await.err(),
        None => None,
    }
}

/// `satisfy any`: one way suffices. A challenge is worth more to the client than a refusal.
async fn any(exchange: &mut Exchange, access: &Access, requests: &Requests) -> Option<u16> {
    let mut refused = None;
    let mut note = |status: u16| {
        refused = Some(if status == 401 || refused == Some(401) { 401 } else { status });
    };
    match access::by_address_or_password(exchange, access).await {
        Way::Passes => return None,
        Way::Fails(status) => return Some(status),
        Way::Refuses(status) => note(status),
        Way::Silent => {}
    }
    if let Some(ask) = &access.ask {
        match (requests.ask)(exchange, ask).await {
            None => return None,
            Some(status @ (401 | 403)) => note(status),
            Some(status) => return Some(status),
        }
    }
    if let Some(auth) = asked_for(access) {
        match by_token(exchange, auth, requests).await {
            Ok(()) => return None,
            Err(status @ (401 | 403)) => note(status),
            Err(status) => return Some(status),
        }
    }
    refused
}

fn asked_for(access: &Access) -> Option<&Arc<TokenAuth>> {
    access.token.as_ref().filter(|auth| !auth.unverified)
}

/// Whether the request shows a token that holds. `Err`: the status to refuse with.
async fn by_token(exchange: &mut Exchange, auth: &Arc<TokenAuth>, requests: &Requests) -> Result<(), u16> {
    let Some(token) = tokens::shown(exchange, auth, |template| text(exchange, template)) else {
        errors::client_error(exchange, "no token was provided");
        challenge(exchange, auth, "");
        return Err(401);
    };
    let keys = keys_of(exchange, auth, requests).await?;
    let kind = auth.kind;
    let (held, token) = if tokens::is_dear(kind, &token) {
        let shared = exchange.worker.shared.clone();
        let opened = shared.errands.run(move || (tokens::hold(kind, &token, &keys), token)).await;
        opened.ok_or_else(|| {
            errors::error(exchange, "too many tokens are waiting to be decrypted");
            503u16
        })?
    } else {
        (tokens::hold(kind, &token, &keys), token)
    };
    if let Err(why) = held.and_then(|held| tokens::take(exchange, auth, token, held)) {
        errors::client_error(exchange, &format!("{why}"));
        challenge(exchange, auth, ",error=\"invalid_token\"");
        return Err(401);
    }
    let Some(status) = lacks(exchange, &auth.require) else { return Ok(()) };
    errors::client_error(exchange, "the token lacks what is required of it");
    if status == 401 {
        challenge(exchange, auth, ",error=\"invalid_token\"");
    }
    Err(status)
}

/// Asks for a token (RFC 6750).
fn challenge(exchange: &mut Exchange, auth: &TokenAuth, why: &str) {
    let realm = String::from_utf8_lossy(&text(exchange, &auth.realm)).replace(['"', '\\'], "");
    exchange.response.fields.remove(HeaderId::WwwAuthenticate);
    let value = format!("Bearer realm=\"{realm}\"{why}");
    exchange.response.fields.push_id(HeaderId::WwwAuthenticate, value.as_bytes());
}

/// All sets of keys. Without one of them nobody gets in.
async fn keys_of(
    exchange: &mut Exchange,
    auth: &TokenAuth,
    requests: &Requests,
) -> Result<Vec<Arc<KeySet>>, u16> {
    let mut all = Vec::with_capacity(auth.keys.len());
    for source in &auth.keys {
        let found = match source {
            TokenKeys::File(path) => of_file(exchange, auth, text(exchange, path)),
            TokenKeys::Request(path) => of_request(exchange, auth, text(exchange, path), requests).await,
        };
        all.push(found.map_err(|why| {
            errors::server_error(exchange, &format!("cannot use the keys of tokens {why}"));
            500u16
        })?);
    }
    Ok(all)
}

fn of_file(exchange: &Exchange, auth: &TokenAuth, path: Vec<u8>) -> Result<Arc<KeySet>, String> {
    let (now, kept) = (exchange.worker.now(), &exchange.installed.token_keys);
    let place = Place::File(path);
    if let Some(known) = kept.fresh(&place, auth.cache, now) {
        return Ok(known);
    }
    let Place::File(path) = &place else { return Err(String::new()) };
    let path = Path::new(std::ffi::OsStr::from_bytes(path)).to_owned();
    kept.of_file(&path, place, now).map_err(|why| format!("in \"{}\": {why}", path.display()))
}

async fn of_request(
    exchange: &Exchange,
    auth: &TokenAuth,
    uri: Vec<u8>,
    requests: &Requests,
) -> Result<Arc<KeySet>, String> {
    let shown = String::from_utf8_lossy(&uri).into_owned();
    let place = Place::Request(exchange.site, uri.clone());
    if let Some(known) = exchange.installed.token_keys.fresh(&place, auth.cache, exchange.worker.now()) {
        return Ok(known);
    }
    let (status, body) = (requests.fetch)(exchange, &uri).await;
    let told = |why: &str| format!("of \"{shown}\": {why}");
    if !(200..300).contains(&status) {
        return Err(told(&format!("it was answered with status {status}")));
    }
    let text = body.ok_or_else(|| told("the answer is not whole, or has more than 1 MB"))?;
    let now = exchange.worker.now();
    exchange.installed.token_keys.of_body(place, text, now).map_err(|why| told(&why))
}

/// The status of the first of these that does not hold.
fn lacks(exchange: &Exchange, all: &[Requirement]) -> Option<u16> {
    let holds = |required: &Requirement| {
        required
            .values
            .iter()
            .map(|value| text(exchange, value))
            .all(|value| !value.is_empty() && value != b"0")
    };
    all.iter().find(|required| !holds(required)).map(|required| required.status)
}
