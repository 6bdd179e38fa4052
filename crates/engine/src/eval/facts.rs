//! Variables that judge a request by settings of its route.
//!
//! Owns: signed links (nginx's `secure_link`) and referring pages (`valid_referers`).
//! Driven by: `eval::vars`, which makes the texts of templates.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use md5::{Digest as _, Md5};
use weir_expr::JudgedVar;
use weir_http::HeaderId;
use weir_plan::{SecureLink, Template};

use super::{browsers, user_id};
use crate::exchange::Exchange;

/// The longest hash that a link shows: 16 bytes in base64, padded.
const LONGEST_HASH: usize = 24;

/// The value of such a variable; `None`: it has none.
pub(super) fn value(
    exchange: &Exchange,
    var: JudgedVar,
    text: impl Fn(&Template) -> Vec<u8>,
) -> Option<Vec<u8>> {
    match var {
        JudgedVar::SecureLink => secure_link(exchange, text),
        JudgedVar::SecureLinkExpires => secure_link_expires(exchange, text),
        JudgedVar::ModernBrowser => browser(exchange, true),
        JudgedVar::AncientBrowser => browser(exchange, false),
        JudgedVar::Msie => {
            let agent = exchange.request.fields.first(HeaderId::UserAgent);
            agent.is_some_and(browsers::is_msie).then(|| b"1".to_vec())
        }
        JudgedVar::UserIdGot => user_id::got(exchange),
        JudgedVar::UserIdSet => user_id::set(exchange, text),
        JudgedVar::InvalidReferer => Some(invalid_referer(exchange).to_vec()),
    }
}

/// What the link of the request is worth; `None`: it shows no hash that is right.
fn secure_link(exchange: &Exchange, text: impl Fn(&Template) -> Vec<u8>) -> Option<Vec<u8>> {
    match link(exchange)? {
        SecureLink::Signed { shown, signed } => {
            let shown = text(shown);
            let (hash, expires) = shown_parts(&shown)?;
            let hash = base64url(hash).filter(|hash| hash.len() == 16)?;
            let right = Md5::digest(text(signed));
            if !is_same(&hash, &right) {
                return None;
            }
            let now = weir_rt::unix_now().as_secs();
            let over = expires.is_some_and(|(_, at)| at < now);
            Some(if over { b"0".to_vec() } else { b"1".to_vec() })
        }
        SecureLink::Word(word) => {
            // /prefix/hash/link, as received.
            let target = exchange.request.target.strip_prefix(b"/")?;
            let mut parts = target.splitn(3, |&byte| byte == b'/').skip(1);
            let (hash, link) = (parts.next()?, parts.next()?);
            let right = Md5::new().chain_update(link).chain_update(word.as_bytes()).finalize();
            let hash = hexadecimal(hash)?;
            (!link.is_empty() && is_same(&hash, &right)).then(|| link.to_vec())
        }
    }
}

/// The time that the link shows.
fn secure_link_expires(exchange: &Exchange, text: impl Fn(&Template) -> Vec<u8>) -> Option<Vec<u8>> {
    let SecureLink::Signed { shown, .. } = link(exchange)? else { return None };
    let shown = text(shown);
    let (_, expires) = shown_parts(&shown)?;
    expires.map(|(text, _)| text.to_vec())
}

/// The value of `$modern_browser` or `$ancient_browser`, if the browser is that.
fn browser(exchange: &Exchange, modern: bool) -> Option<Vec<u8>> {
    let facts = exchange.route_if_any().and_then(|route| route.settings.facts.as_deref());
    let rules = facts.and_then(|facts| facts.browsers.clone()).unwrap_or_default();
    let is_modern = browsers::is_modern(&rules, exchange.request.fields.first(HeaderId::UserAgent));
    let value = if modern { &rules.modern_value } else { &rules.ancient_value };
    (is_modern == modern).then(|| value.clone().into_bytes())
}

/// `1` if the page that the request comes from may not refer here.
fn invalid_referer(exchange: &Exchange) -> &'static [u8] {
    let facts = exchange.route_if_any().and_then(|route| route.settings.facts.as_deref());
    let Some(referers) = facts.and_then(|facts| facts.referers.as_ref()) else { return b"" };
    match referers.take(exchange.request.fields.first(HeaderId::Referer)) {
        Ok(true) => b"",
        Ok(false) => b"1",
        Err(why) => {
            exchange.slots.doubt(why);
            b"1"
        }
    }
}

fn link(exchange: &Exchange) -> Option<&SecureLink> {
    exchange.route_if_any()?.settings.facts.as_deref()?.secure_link.as_ref()
}

/// A hash, and a time as text and in seconds since 1970; `None`: no link shows this.
type Shown<'a> = (&'a [u8], Option<(&'a [u8], u64)>);

fn shown_parts(shown: &[u8]) -> Option<Shown<'_>> {
    let (hash, expires) = match shown.iter().position(|&byte| byte == b',') {
        None => (shown, None),
        Some(at) => {
            let digits = &shown[at + 1..];
            let seconds = std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_digit));
            (&shown[..at], Some((digits, seconds?.parse().ok().filter(|&at: &u64| at > 0)?)))
        }
    };
    (hash.len() <= LONGEST_HASH).then_some((hash, expires))
}

/// Compares in a time that does not tell how much is the same.
fn is_same(shown: &[u8], right: &[u8]) -> bool {
    shown.len() == right.len() && shown.iter().zip(right).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// base64 with `-` and `_`, without padding.
const URL: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// Bytes of base64 with `-` and `_`, padded or not; `None`: it is none.
fn base64url(text: &[u8]) -> Option<Vec<u8>> {
    URL.decode(text.split(|&byte| byte == b'=').next()?).ok()
}

fn hexadecimal(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    (text.len() == 32)
        .then(|| text.chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_read_in_both_spellings() {
        assert_eq!(base64url(b"_9jxlw-Y").as_deref(), Some(&[0xff, 0xd8, 0xf1, 0x97, 0x0f, 0x98][..]));
        assert_eq!(base64url(b"YQ==").as_deref(), Some(&b"a"[..]));
        assert_eq!(base64url(b"YQ").as_deref(), Some(&b"a"[..]));
        assert_eq!((base64url(b"Y"), base64url(b"Y+/=")), (None, None));
        assert_eq!(hexadecimal(b"00ff").map(|_| ()), None);
        assert_eq!(hexadecimal(b"5d41402abc4b2a76b9719d911017c592"), Some(Md5::digest(b"hello").to_vec()));
    }

    #[test]
    fn a_time_is_digits_alone() {
        assert_eq!(shown_parts(b"abc"), Some((&b"abc"[..], None)));
        assert_eq!(shown_parts(b"abc,12"), Some((&b"abc"[..], Some((&b"12"[..], 12)))));
        for wrong in ["abc,", "abc,-1", "abc,0", "abc,1x", "0123456789012345678901234"] {
            assert_eq!(shown_parts(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
