//! Who may pass: addresses, users, and whom to believe about addresses.
//!
//! Owns: the order of rules, what a refusal is called in the error log.
//! Never: answers; it gives a status. Never: asks another route; the walk does, and says what came of it. Reads no password
//! (`eval::users`), verifies none (`worker::passwords`).
//! Driven by: the walk, before the action; rules of programs.

use std::borrow::Cow;
use std::net::IpAddr;
use std::path::Path;

use weir_expr::settings::ClientVerify;
use weir_http::HeaderId;
use weir_plan::{Access, BasicAuth, Client, HeaderName, ListenerIx, ListenerTls, RealIp, RealIpSource};
use weir_rt::ServerTls;

use crate::eval::users::{self, Look};
use crate::eval::{forwarded, text};
use crate::exchange::fields::FieldName;
use crate::exchange::{Exchange, Traffic, Verified, errors};
use crate::worker::passwords;

/// The client as rules see it.
fn client(exchange: &Exchange) -> Client {
    exchange.client_source().map_or(Client::Unix, |(ip, _)| Client::Ip(ip))
}

/// Takes the client's address from a trusted proxy.
pub(crate) fn real_ip(traffic: &mut impl Traffic, rules: &RealIp) {
    // With a PROXY header the peer that must be trusted is the one that sent it.
    let sender = traffic.client.peer.inet().map_or(Client::Unix, |addr| Client::Ip(addr.ip().to_canonical()));
    match &rules.source {
        RealIpSource::ProxyProtocol => {
            if let Some(source) = traffic.client.proxied.as_ref().map(|told| told.source)
                && rules.trusts(sender)
            {
                traffic.real_client = Some((source.ip().to_canonical(), source.port()));
            }
        }
        RealIpSource::Header(name) => {
            let peer = traffic.client.source();
            if !rules.trusts(peer.map_or(Client::Unix, |(ip, _)| Client::Ip(ip))) {
                return;
            }
            let Some(exchange) = traffic.exchange() else { return };
            let found = told_by(exchange, name, peer, rules);
            if found.map(|(ip, _)| ip) != peer.map(|(ip, _)| ip) {
                traffic.real_client = found;
            }
        }
    }
}

/// The last address of a field, or of those that it names the last that is not trusted.
fn told_by(
    exchange: &Exchange,
    name: &HeaderName,
    peer: Option<(IpAddr, u16)>,
    rules: &RealIp,
) -> Option<(IpAddr, u16)> {
    let trusts = |ip| rules.trusts(Client::Ip(ip));
    forwarded::address(exchange, FieldName::new(name.lower.as_bytes()), rules.recursive, trusts).or(peer)
}

/// The status to refuse with, if the client may not pass by its address alone.
pub(crate) fn by_address(exchange: &Exchange, access: &Access) -> Option<u16> {
    (access.rules.verdict(client(exchange)) == Some(false)).then(|| forbidden(exchange))
}

/// Says that a rule keeps the client out, in nginx's words.
fn forbidden(exchange: &Exchange) -> u16 {
    errors::error(exchange, "access forbidden by rule");
    403
}

/// The status to refuse with, if the client may not pass, where it may have to say who it is.
pub(crate) async fn check(exchange: &mut Exchange, access: &Access) -> Option<u16> {
    let by_address = access.rules.verdict(client(exchange));
    let Some(auth) = &access.basic else { return self::by_address(exchange, access) };
    // With `any`, a rule that allows suffices; no rule at all leaves it to the password.
    if access.any && by_address == Some(true) {
        return None;
    }
    if access.any && !is_asked(exchange, auth) {
        return self::by_address(exchange, access);
    }
    if !access.any && by_address == Some(false) {
        return Some(forbidden(exchange));
    }
    match by_user(exchange, auth).await {
        Err(403) if access.any => Some(forbidden(exchange)),
        other => other.err(),
    }
}

/// The status to refuse with, if the site that the request is for asks for a client certificate and none that counts
/// there was shown: 495 (a bad one), 496 (none), or 421 where the handshake went by other rules than those of the site
/// now. So naming another site in Host than in the handshake opens no door, and a certificate that authorities of
/// yesterday verified is nothing to those of today.
pub(crate) fn certificate(exchange: &Exchange, ix: ListenerIx, tls: &ListenerTls) -> Option<u16> {
    let facts = exchange.client.tls.as_ref()?;
    let (plan, made) = (&exchange.installed.plan, exchange.installed.tls());
    // Where a pattern gives up the rules are not known, and no handshake meets them.
    let identity = |name: &[u8]| tls.by_name.lookup(name).ok().map(|found| found.value);
    let met = || identity(facts.server_name.as_deref().unwrap_or_default().as_bytes());
    let holds = |identity| {
        let rules = made.server(ix, identity).and_then(ServerTls::client_auth);
        facts.verified_by.is_some() && facts.verified_by.as_ref() == rules
    };
    // Whatever reads of the certificate (variables, rules) reads it as verified by the site that asked for it.
    let Some(met) = met() else { return Some(421) };
    if !matches!(facts.verified, Verified::None) && !holds(met) {
        return Some(421);
    }
    let Some(wanted) = identity(&exchange.request.host) else { return Some(421) };
    let verify = plan.tls_identity(wanted).verify;
    if verify == ClientVerify::Off {
        return None;
    }
    if !holds(wanted) {
        // Nothing was shown to the very site, and nothing need be: no authority makes a difference to that.
        let nothing = matches!(facts.verified, Verified::None) && verify != ClientVerify::Required;
        return (!nothing || facts.verified_by.is_none() || met != wanted).then_some(421);
    }
    match (facts.verified, verify) {
        (Verified::Success, _) | (Verified::None, ClientVerify::Optional | ClientVerify::OptionalNoCa) => {
            None
        }
        (Verified::Failed(failure), ClientVerify::OptionalNoCa) if failure.is_of_authority() => None,
        (Verified::None, _) => Some(496),
        (Verified::Failed(_), _) => Some(495),
    }
}

/// What one way of access says, or several of which one suffices.
pub(crate) enum Way {
    /// The client may pass.
    Passes,
    /// It may not, by this way.
    Refuses(u16),
    /// It cannot be told, and the request ends with this status.
    Fails(u16),
    /// Nothing.
    Silent,
}

/// Whether the address or a password suffices.
pub(crate) async fn by_address_or_password(exchange: &mut Exchange, access: &Access) -> Way {
    let by_address = access.rules.verdict(client(exchange));
    if by_address == Some(true) {
        return Way::Passes;
    }
    let asked = access.basic.as_ref().filter(|auth| is_asked(exchange, auth));
    match asked {
        Some(auth) => match by_user(exchange, auth).await {
            Ok(()) => Way::Passes,
            Err(status @ (401 | 403)) => Way::Refuses(status),
            Err(status) => Way::Fails(status),
        },
        None if by_address == Some(false) => Way::Refuses(forbidden(exchange)),
        None => Way::Silent,
    }
}

/// What is known before another route is asked as well.
pub(crate) enum Known {
    /// The client may pass, whatever that route says.
    Passes,
    /// It may not, with this status.
    Refused(u16),
    /// That route decides.
    Ask,
}

/// As [`check`], where another route is asked as well.
pub(crate) async fn before_asking(exchange: &mut Exchange, access: &Access) -> Known {
    if !access.any {
        return check(exchange, access).await.map_or(Known::Ask, Known::Refused);
    }
    if access.rules.verdict(client(exchange)) == Some(true) {
        return Known::Passes;
    }
    let asked = access.basic.as_ref().filter(|auth| is_asked(exchange, auth));
    let Some(auth) = asked else { return Known::Ask };
    match by_user(exchange, auth).await {
        Ok(()) => Known::Passes,
        Err(401 | 403) => Known::Ask,
        Err(status) => Known::Refused(status),
    }
}

/// The status to refuse with, once the other route refused with this one.
pub(crate) fn after_asking(exchange: &mut Exchange, access: &Access, refused: Option<u16>) -> Option<u16> {
    match refused {
        // A challenge is worth more to the client than a refusal.
        Some(403) if access.any && access.basic.as_ref().is_some_and(|auth| is_asked(exchange, auth)) => {
            access.basic.iter().for_each(|auth| challenge(exchange, auth));
            Some(401)
        }
        Some(403) if access.any => Some(forbidden(exchange)),
        other => other,
    }
}

/// Asks for credentials.
pub(crate) fn challenge(exchange: &mut Exchange, auth: &BasicAuth) {
    let realm = String::from_utf8_lossy(&text(exchange, &auth.realm)).replace(['"', '\\'], "");
    exchange.response.fields.remove(HeaderId::WwwAuthenticate);
    let value = format!("Basic realm=\"{realm}\"");
    exchange.response.fields.push_id(HeaderId::WwwAuthenticate, value.as_bytes());
}

/// Whether a password is asked for at all: a realm that comes to `off` lets nobody in whom another rule keeps out.
fn is_asked(exchange: &Exchange, auth: &BasicAuth) -> bool {
    text(exchange, &auth.realm) != b"off"
}

/// Whether the request's credentials are those of a user, with nginx's line in the error log if they are not. A realm that
/// comes to `off` lets everyone pass. `Err`: the status to refuse with.
async fn by_user(exchange: &mut Exchange, auth: &BasicAuth) -> Result<(), u16> {
    // Looked at again once what has to be verified was.
    for _ in 0..2 {
        match users::look(exchange, auth) {
            Look::Open | Look::Match => return Ok(()),
            Look::Ask(question) => {
                let worker = exchange.worker.clone();
                if passwords::verify(&worker.shared.passwords, &worker.passwords, *question).await.is_none() {
                    break;
                }
                continue;
            }
            Look::Missing => {
                errors::client_error(exchange, "no user/password was provided for basic authentication");
            }
            Look::Mismatch => {
                errors::error(exchange, &format!("user \"{}\": password mismatch", user(exchange)))
            }
            Look::Unknown(file) => {
                let file = file.as_deref().unwrap_or(Path::new("")).display();
                errors::error(exchange, &format!("user \"{}\" was not found in \"{file}\"", user(exchange)));
            }
            Look::Unreadable(file, error) => {
                let told = format!("open() \"{}\" failed ({})", file.display(), errors::system(&error));
                // As in nginx: a file that is not there has nobody in it.
                if error.kind() == std::io::ErrorKind::NotFound {
                    errors::error(exchange, &told);
                    return Err(403);
                }
                errors::server_error(exchange, &told);
                return Err(500);
            }
        }
        challenge(exchange, auth);
        return Err(401);
    }
    Err(overloaded(exchange))
}

/// Says that too many passwords wait to be verified, and gives the status that tells the client to come back.
pub(crate) fn overloaded(exchange: &Exchange) -> u16 {
    errors::error(exchange, "too many passwords are waiting to be verified");
    503
}

/// The user that was named.
fn user(exchange: &Exchange) -> Cow<'_, str> {
    String::from_utf8_lossy(exchange.user.as_deref().unwrap_or_default())
}
