//! Fetches of the first bytes of a session, and of an endpoint's answer: `req.payload`, `req.ssl_sni`, `res.len` and their kin.
//!
//! Owns: which of them a proxy's mode has, and what each takes.
//! Driven by: `sample`.

use weir_expr::{HelloPart, Peeked, Routine};
use weir_model::{Step, Template, Var};

use super::expression::Sample;
use super::problem::Problem;
use super::sample::{is_tcp, through};
use super::scope::Scope;

/// Whether a fetch is one of them.
pub(super) fn is_of_payload(name: &str) -> bool {
    let plain = name.strip_prefix("req.").or_else(|| name.strip_prefix("res.")).unwrap_or(name);
    matches!(plain, "payload" | "payload_lv" | "rdp_cookie" | "rdp_cookie_cnt")
        || ["req.ssl_", "req_ssl_", "res.ssl_hello_type", "rep_ssl_hello_type"]
            .iter()
            .any(|family| name.starts_with(family))
        || matches!(name, "req.len" | "req_len" | "res.len")
}

/// The value of one.
pub(super) fn template(sample: &Sample, scope: &Scope<'_>) -> Result<Template, Problem> {
    let name = sample.fetch.name.as_str();
    let argument = |at: usize| sample.fetch.arguments.get(at).map_or("", String::as_str);
    let answer = scope.response || name.starts_with("res.") || name.starts_with("rep_");
    let peeked = |what: Peeked| Ok(Template::var(Var::Peeked(what)));
    let http = !is_tcp(scope);
    // Requests and responses have none of these: there is no value in mode http, as in HAProxy.
    let bytes = || match answer {
        true => Template::var(Var::Peeked(Peeked::AnswerBytes)),
        false => Template::var(Var::Peeked(Peeked::Bytes)),
    };
    let call = |routine: Routine, arguments: Vec<Template>| {
        Ok(through(bytes(), vec![Step::Call { routine, arguments }], scope))
    };
    let hello = |part: HelloPart| call(Routine::Hello(part), Vec::new());
    match name {
        "payload" | "req.payload" | "res.payload" => {
            let [offset, length] = [argument(0), argument(1)].map(str::parse::<u32>);
            let (Ok(offset), Ok(length)) = (offset, length) else {
                return Err(Problem::Bad(format!("`{name}` takes an offset and a length")));
            };
            let numbers = [offset, length].map(|number| Template::literal(number.to_string()));
            call(Routine::Whole, numbers.into())
        }
        "payload_lv" | "req.payload_lv" | "res.payload_lv" => {
            let plain = |text: &str| text.parse::<u32>().is_ok();
            let (offset, size, start) = (argument(0), argument(1), argument(2));
            if !plain(offset)
                || !matches!(size.parse::<u32>(), Ok(1..=8))
                || start.parse::<i32>().is_err() && !start.is_empty()
            {
                return Err(Problem::Bad(format!(
                    "`{name}` takes an offset, a size of 1 to 8 bytes, and an offset"
                )));
            }
            call(Routine::Sized, [offset, size, start].map(Template::literal).into())
        }
        "rdp_cookie" | "req.rdp_cookie" => call(Routine::RdpCookie, vec![Template::literal(argument(0))]),
        "rdp_cookie_cnt" | "req.rdp_cookie_cnt" => {
            call(Routine::RdpCookieCount, vec![Template::literal(argument(0))])
        }
        "req.len" | "req_len" if http => {
            Ok(Template::var(Var::RequestPart(weir_expr::MessagePart::BodyLength)))
        }
        "req.len" | "req_len" => peeked(Peeked::Length),
        "res.len" => peeked(Peeked::AnswerLength),
        "req.ssl_sni" | "req_ssl_sni" => peeked(Peeked::ServerName),
        "req.ssl_alpn" => peeked(Peeked::Alpn),
        "req.ssl_hello_type" | "req_ssl_hello_type" => peeked(Peeked::HelloType),
        "req.ssl_ver" | "req_ssl_ver" => hello(HelloPart::Version),
        "req.ssl_ec_ext" => hello(HelloPart::EllipticCurves),
        "req.ssl_st_ext" => hello(HelloPart::Tickets),
        "req.ssl_cipherlist" => hello(HelloPart::Ciphers),
        "req.ssl_supported_groups" => hello(HelloPart::Groups),
        "req.ssl_sigalgs" => hello(HelloPart::SignatureAlgorithms),
        "req.ssl_keyshare_groups" => hello(HelloPart::KeyShares),
        "res.ssl_hello_type" | "rep_ssl_hello_type" => hello(HelloPart::Type),
        name => Err(Problem::NotBuilt(name.to_owned())),
    }
}
