//! Who a request is from.
//!
//! Owns: the order of what is looked at: the system's word, the page that sent it, the token.
//! Never: says why a token is none, or writes one down.
//! Driven by: `door`, once a head is read.

use std::time::Instant;

use weir_http::Request;

use super::access::{Failures, Role, TokenFile, Visitor};
use super::desk::Desk;
use super::reply::Reply;
use super::socket::Caller;

/// See the module.
pub(super) struct Gate {
    pub(super) tokens: Option<TokenFile>,
    pub(super) failures: Failures,
    pub(super) only_root: bool,
}

impl Gate {
    /// Whether a byte of it is read.
    pub(super) fn may_speak(&self, caller: &Caller) -> bool {
        !self.only_root || caller.peer().is_some_and(|peer| peer.user == 0)
    }

    /// Who it is, or why they are not let in.
    pub(super) fn admit(
        &self,
        caller: &Caller,
        request: &Request<'_>,
        desk: &Desk,
    ) -> Result<Visitor, Reply> {
        let headers = request.headers();
        // A page of another site cannot set these, and its browser tells where it is from.
        let host = headers.by_name(b"host").unwrap_or_default();
        let reads = matches!(request.method_text(), b"GET" | b"HEAD");
        let from_elsewhere = headers.by_name(b"origin").is_some_and(|origin| !is_same_site(origin, host))
            || headers
                .by_name(b"sec-fetch-site")
                .is_some_and(|word| !reads && !matches!(word, b"same-origin" | b"none"));
        if from_elsewhere {
            return Err(Reply::problem(403, "forbidden", "requests of pages of other sites are not taken"));
        }
        let authorization = headers.by_name(b"authorization");
        // Without a token it is the way here that is trusted, and a browser behind a forwarded port takes it for any page whose
        // name leads here.
        if (caller.is_tcp() || authorization.is_none()) && !names_this_machine(host) {
            return Err(Reply::problem(421, "misdirected", "the Host field names another machine than this"));
        }
        let source = caller.source();
        let Some(authorization) = authorization else {
            return trusted(caller).ok_or_else(|| unauthorized("a token is needed"));
        };
        if self.failures.is_deaf(source, Instant::now()) {
            let refusal = Reply::problem(429, "too many failures", "nobody from there is heard for a minute");
            return Err(refusal.with("Retry-After", "60".into()));
        }
        let token =
            authorization.split_at_checked(7).filter(|(word, _)| word.eq_ignore_ascii_case(b"bearer "));
        let found = match (&self.tokens, token) {
            (Some(file), Some((_, token))) => match file.tokens() {
                Ok(tokens) => tokens.find(token.trim_ascii()),
                Err(why) => {
                    desk.note("nobody", "the file of tokens", &why);
                    return Err(Reply::problem(
                        503,
                        "no tokens",
                        "the file of tokens cannot be read; the log says why",
                    ));
                }
            },
            _ => None,
        };
        found.ok_or_else(|| {
            let who = format!("somebody ({source})");
            if self.failures.note(source, Instant::now()) {
                desk.note(
                    &who,
                    "authentication",
                    "failed so often that nobody from there is heard for a minute",
                );
            } else {
                desk.note(&who, "authentication", "failed");
            }
            unauthorized("this token is not known")
        })
    }
}

/// Root, and the user that we run as, need no token on a unix socket, unless a site of ours carries what somebody else says.
fn trusted(caller: &Caller) -> Option<Visitor> {
    let peer = caller.peer().filter(|peer| !peer.is_us)?;
    let known = peer.user == 0 || peer.user == rustix::process::geteuid().as_raw();
    known.then(|| Visitor { name: format!("uid:{}", peer.user), role: Role::Configure })
}

fn unauthorized(why: &str) -> Reply {
    Reply::problem(401, "unauthorized", why).with("WWW-Authenticate", "Bearer realm=\"weir\"".into())
}

/// Whether an origin is the host that was asked, by whatever scheme: TLS may have ended in front of us.
fn is_same_site(origin: &[u8], host: &[u8]) -> bool {
    let origin = String::from_utf8_lossy(origin);
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    !host.is_empty() && authority.is_some_and(|authority| authority.as_bytes().eq_ignore_ascii_case(host))
}

/// Whether a Host field is an address, or `localhost`: a name that a stranger owns can lead here, too.
fn names_this_machine(host: &[u8]) -> bool {
    let text = String::from_utf8_lossy(host);
    let name = match text.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => text.rsplit_once(':').map_or(text.as_ref(), |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_names_are_told_from_ours() {
        for ours in ["127.0.0.1:80", "[::1]:80", "localhost", "LOCALHOST:1"] {
            assert!(names_this_machine(ours.as_bytes()), "{ours}");
        }
        for other in ["evil.example:80", "localhost.evil.example", ""] {
            assert!(!names_this_machine(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn origins_are_compared_with_what_was_asked() {
        assert!(is_same_site(b"https://admin.example", b"admin.example"));
        assert!(is_same_site(b"http://127.0.0.1:81", b"127.0.0.1:81"));
        for other in ["null", "http://127.0.0.1:82", "https://evil.example", "", "http://"] {
            assert!(!is_same_site(other.as_bytes(), b"127.0.0.1:81"), "{other}");
        }
        assert!(!is_same_site(b"http://", b""));
    }
}
