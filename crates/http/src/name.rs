//! The header fields that Weir knows by number.
//!
//! Owns: the list of known field names, and the lookup from spelling to [`HeaderId`].
//! Never: looks at field values.
//! Driven by: the head parsers, once a field; `engine` and `plan`, which name fields by id.
//! Why: a request has some ten fields and the engine asks for twenty; comparing one byte per question beats comparing
//! names. The lookup is one multiplication into a table without collisions (checked while compiling) and one
//! case-insensitive comparison.

/// A known field name, or [`HeaderId::Unknown`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "each variant is the field name it spells")]
pub enum HeaderId {
    Host,
    Connection,
    ContentLength,
    TransferEncoding,
    ContentType,
    UserAgent,
    Accept,
    AcceptEncoding,
    AcceptLanguage,
    AcceptCharset,
    AcceptRanges,
    Cookie,
    SetCookie,
    Referer,
    Authorization,
    CacheControl,
    Pragma,
    IfMatch,
    IfNoneMatch,
    IfModifiedSince,
    IfUnmodifiedSince,
    IfRange,
    Range,
    Expect,
    Upgrade,
    Te,
    Trailer,
    KeepAlive,
    ProxyConnection,
    ProxyAuthorization,
    ProxyAuthenticate,
    ProxyAuthenticationInfo,
    Origin,
    Forwarded,
    XForwardedFor,
    XForwardedHost,
    XForwardedPort,
    XForwardedProto,
    XForwardedServer,
    XRealIp,
    XRequestId,
    XRequestedWith,
    Via,
    Date,
    Server,
    Location,
    ContentEncoding,
    ContentLanguage,
    ContentLocation,
    ContentRange,
    ContentDisposition,
    ContentSecurityPolicy,
    ETag,
    LastModified,
    Expires,
    Age,
    Vary,
    WwwAuthenticate,
    RetryAfter,
    StrictTransportSecurity,
    Allow,
    Link,
    Refresh,
    Status,
    Http2Settings,
    SecWebSocketKey,
    SecWebSocketVersion,
    SecWebSocketAccept,
    SecWebSocketProtocol,
    SecWebSocketExtensions,
    XAccelRedirect,
    XAccelBuffering,
    XAccelCharset,
    XAccelExpires,
    XAccelLimitRate,
    XPoweredBy,
    UpgradeInsecureRequests,
    SecFetchSite,
    SecFetchMode,
    SecFetchUser,
    SecFetchDest,
    SecChUa,
    SecChUaMobile,
    SecChUaPlatform,
    AccessControlAllowOrigin,
    AccessControlAllowCredentials,
    AccessControlAllowHeaders,
    AccessControlAllowMethods,
    AccessControlExposeHeaders,
    AccessControlMaxAge,
    AccessControlRequestMethod,
    AccessControlRequestHeaders,
    Dnt,
    AltSvc,
    EarlyData,
    MaxForwards,
    Warning,
    XFrameOptions,
    XContentTypeOptions,
    XXssProtection,
    Priority,
    Traceparent,
    Tracestate,
    XCache,
    ContentMd5,
    MimeVersion,
    AltUsed,
    /// Any other name; its spelling is in the head.
    Unknown,
}

/// How many names are known; also the number of [`HeaderId::Unknown`].
pub const KNOWN: usize = HeaderId::Unknown as usize;

/// Ids in the order of their numbers, with the spelling that Weir writes.
const TABLE: [(HeaderId, &str); KNOWN] = {
    use HeaderId as H;
    [
        (H::Host, "Host"),
        (H::Connection, "Connection"),
        (H::ContentLength, "Content-Length"),
        (H::TransferEncoding, "Transfer-Encoding"),
        (H::ContentType, "Content-Type"),
        (H::UserAgent, "User-Agent"),
        (H::Accept, "Accept"),
        (H::AcceptEncoding, "Accept-Encoding"),
        (H::AcceptLanguage, "Accept-Language"),
        (H::AcceptCharset, "Accept-Charset"),
        (H::AcceptRanges, "Accept-Ranges"),
        (H::Cookie, "Cookie"),
        (H::SetCookie, "Set-Cookie"),
        (H::Referer, "Referer"),
        (H::Authorization, "Authorization"),
        (H::CacheControl, "Cache-Control"),
        (H::Pragma, "Pragma"),
        (H::IfMatch, "If-Match"),
        (H::IfNoneMatch, "If-None-Match"),
        (H::IfModifiedSince, "If-Modified-Since"),
        (H::IfUnmodifiedSince, "If-Unmodified-Since"),
        (H::IfRange, "If-Range"),
        (H::Range, "Range"),
        (H::Expect, "Expect"),
        (H::Upgrade, "Upgrade"),
        (H::Te, "TE"),
        (H::Trailer, "Trailer"),
        (H::KeepAlive, "Keep-Alive"),
        (H::ProxyConnection, "Proxy-Connection"),
        (H::ProxyAuthorization, "Proxy-Authorization"),
        (H::ProxyAuthenticate, "Proxy-Authenticate"),
        (H::ProxyAuthenticationInfo, "Proxy-Authentication-Info"),
        (H::Origin, "Origin"),
        (H::Forwarded, "Forwarded"),
        (H::XForwardedFor, "X-Forwarded-For"),
        (H::XForwardedHost, "X-Forwarded-Host"),
        (H::XForwardedPort, "X-Forwarded-Port"),
        (H::XForwardedProto, "X-Forwarded-Proto"),
        (H::XForwardedServer, "X-Forwarded-Server"),
        (H::XRealIp, "X-Real-IP"),
        (H::XRequestId, "X-Request-ID"),
        (H::XRequestedWith, "X-Requested-With"),
        (H::Via, "Via"),
        (H::Date, "Date"),
        (H::Server, "Server"),
        (H::Location, "Location"),
        (H::ContentEncoding, "Content-Encoding"),
        (H::ContentLanguage, "Content-Language"),
        (H::ContentLocation, "Content-Location"),
        (H::ContentRange, "Content-Range"),
        (H::ContentDisposition, "Content-Disposition"),
        (H::ContentSecurityPolicy, "Content-Security-Policy"),
        (H::ETag, "ETag"),
        (H::LastModified, "Last-Modified"),
        (H::Expires, "Expires"),
        (H::Age, "Age"),
        (H::Vary, "Vary"),
        (H::WwwAuthenticate, "WWW-Authenticate"),
        (H::RetryAfter, "Retry-After"),
        (H::StrictTransportSecurity, "Strict-Transport-Security"),
        (H::Allow, "Allow"),
        (H::Link, "Link"),
        (H::Refresh, "Refresh"),
        (H::Status, "Status"),
        (H::Http2Settings, "HTTP2-Settings"),
        (H::SecWebSocketKey, "Sec-WebSocket-Key"),
        (H::SecWebSocketVersion, "Sec-WebSocket-Version"),
        (H::SecWebSocketAccept, "Sec-WebSocket-Accept"),
        (H::SecWebSocketProtocol, "Sec-WebSocket-Protocol"),
        (H::SecWebSocketExtensions, "Sec-WebSocket-Extensions"),
        (H::XAccelRedirect, "X-Accel-Redirect"),
        (H::XAccelBuffering, "X-Accel-Buffering"),
        (H::XAccelCharset, "X-Accel-Charset"),
        (H::XAccelExpires, "X-Accel-Expires"),
        (H::XAccelLimitRate, "X-Accel-Limit-Rate"),
        (H::XPoweredBy, "X-Powered-By"),
        (H::UpgradeInsecureRequests, "Upgrade-Insecure-Requests"),
        (H::SecFetchSite, "Sec-Fetch-Site"),
        (H::SecFetchMode, "Sec-Fetch-Mode"),
        (H::SecFetchUser, "Sec-Fetch-User"),
        (H::SecFetchDest, "Sec-Fetch-Dest"),
        (H::SecChUa, "Sec-CH-UA"),
        (H::SecChUaMobile, "Sec-CH-UA-Mobile"),
        (H::SecChUaPlatform, "Sec-CH-UA-Platform"),
        (H::AccessControlAllowOrigin, "Access-Control-Allow-Origin"),
        (H::AccessControlAllowCredentials, "Access-Control-Allow-Credentials"),
        (H::AccessControlAllowHeaders, "Access-Control-Allow-Headers"),
        (H::AccessControlAllowMethods, "Access-Control-Allow-Methods"),
        (H::AccessControlExposeHeaders, "Access-Control-Expose-Headers"),
        (H::AccessControlMaxAge, "Access-Control-Max-Age"),
        (H::AccessControlRequestMethod, "Access-Control-Request-Method"),
        (H::AccessControlRequestHeaders, "Access-Control-Request-Headers"),
        (H::Dnt, "DNT"),
        (H::AltSvc, "Alt-Svc"),
        (H::EarlyData, "Early-Data"),
        (H::MaxForwards, "Max-Forwards"),
        (H::Warning, "Warning"),
        (H::XFrameOptions, "X-Frame-Options"),
        (H::XContentTypeOptions, "X-Content-Type-Options"),
        (H::XXssProtection, "X-XSS-Protection"),
        (H::Priority, "Priority"),
        (H::Traceparent, "Traceparent"),
        (H::Tracestate, "Tracestate"),
        (H::XCache, "X-Cache"),
        (H::ContentMd5, "Content-MD5"),
        (H::MimeVersion, "Mime-Version"),
        (H::AltUsed, "Alt-Used"),
    ]
};

impl HeaderId {
    /// Finds a name, in any case.
    #[must_use]
    #[inline]
    pub fn of(name: &[u8]) -> Self {
        if name.is_empty() {
            return Self::Unknown;
        }
        let (id, spelling) = TABLE[usize::from(SLOTS[slot(name)]) % KNOWN];
        if is_same(name, spelling.as_bytes()) { id } else { Self::Unknown }
    }

    /// The spelling that Weir writes; empty for [`HeaderId::Unknown`].
    #[must_use]
    pub fn name(self) -> &'static str {
        TABLE.get(self as usize).map_or("", |entry| entry.1)
    }

    /// This id as one bit of a set; [`HeaderId::Unknown`] has no bit.
    #[must_use]
    #[inline]
    pub const fn bit(self) -> u128 {
        // In halves: a shift of 128 bits by a variable is a dozen instructions, and this is asked for every field.
        let number = self as u32;
        let half = ((number < KNOWN as u32) as u64) << (number & 63);
        if number < 64 { half as u128 } else { (half as u128) << 64 }
    }

    /// All known ids.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|entry| entry.0)
    }
}

/// Whether `name` is `spelling`, which has only letters, digits and hyphens, in any case. Eight bytes a step; some are
/// looked at twice.
#[inline]
fn is_same(name: &[u8], spelling: &[u8]) -> bool {
    if name.len() != spelling.len() {
        return false;
    }
    match name.len() {
        0..4 => spelling.eq_ignore_ascii_case(name),
        // Two looks cover it, overlapping where it is shorter.
        4..8 => ends_same::<4>(name, spelling),
        8..=16 => ends_same::<8>(name, spelling),
        _ => {
            let words = name.chunks_exact(8).zip(spelling.chunks_exact(8));
            ends_same::<8>(name, spelling)
                && words.into_iter().all(|(a, b)| match (a.first_chunk(), b.first_chunk()) {
                    (Some(a), Some(b)) => is_same_word::<8>(*a, *b),
                    _ => false,
                })
        }
    }
}

/// Compares the first and the last `N` bytes, of which there are that many.
#[inline]
fn ends_same<const N: usize>(name: &[u8], spelling: &[u8]) -> bool {
    let first = name.first_chunk().zip(spelling.first_chunk());
    let last = name.last_chunk().zip(spelling.last_chunk());
    first.is_some_and(|(a, b)| is_same_word::<N>(*a, *b))
        && last.is_some_and(|(a, b)| is_same_word::<N>(*a, *b))
}

/// Without the bit of the case, and without the controls that this bit makes look like digits and hyphens: the bytes
/// of a name have bit 5 or bit 6.
#[inline]
fn is_same_word<const N: usize>(name: [u8; N], spelling: [u8; N]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    let word = |bytes: [u8; N]| bytes.iter().rev().fold(0u64, |word, &byte| word << 8 | u64::from(byte));
    let (name, spelling) = (word(name), word(spelling));
    let used = u64::MAX >> (64 - 8 * N);
    (name ^ spelling) & !(ONES * 0x20) == 0 && !(name | name << 1) & (ONES * 0x40) & used == 0
}

/// log2 of the table's size.
const SLOT_BITS: u32 = 9;
/// Found by trial so that no two names share a slot; add a name, and compilation says whether it still holds.
const MULTIPLIER: u64 = 0xdb49_5a73_fce1_7be5;

const SLOTS: [u8; 1 << SLOT_BITS] = {
    assert!(KNOWN < 128, "ids must fit the bits of a u128");
    let mut slots = [u8::MAX; 1 << SLOT_BITS];
    let mut i = 0;
    while i < KNOWN {
        assert!(TABLE[i].0 as usize == i, "the table is in the order of the ids");
        let at = slot(TABLE[i].1.as_bytes());
        assert!(slots[at] == u8::MAX, "two names share a slot: look for another MULTIPLIER");
        slots[at] = i as u8;
        i += 1;
    }
    slots
};

/// Where a name is kept: five of its letters and its length, multiplied. `name` is not empty.
const fn slot(name: &[u8]) -> usize {
    let len = name.len();
    let key = letter(name, 0)
        | letter(name, len / 2) << 8
        | letter(name, len - 1) << 16
        | (len as u64 & 0xff) << 24
        | letter(name, len.saturating_sub(4)) << 32
        | letter(name, len.saturating_sub(3)) << 40;
    (key.wrapping_mul(MULTIPLIER) >> (64 - SLOT_BITS)) as usize
}

const fn letter(name: &[u8], at: usize) -> u64 {
    (name[at] | 0x20) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_in_every_case() {
        for id in HeaderId::all() {
            let name = id.name();
            assert_eq!(HeaderId::of(name.as_bytes()), id);
            assert_eq!(HeaderId::of(name.to_ascii_lowercase().as_bytes()), id);
            assert_eq!(HeaderId::of(name.to_ascii_uppercase().as_bytes()), id);
        }
    }

    #[test]
    fn other_names_are_unknown() {
        for name in [
            "",
            "a",
            "hosts",
            "hos",
            "content_length",
            "x-foo",
            "Content-Lengtg",
            "\u{0}",
            "Content\rLength",
            "HTTP\u{12}-Settings",
        ] {
            assert_eq!(HeaderId::of(name.as_bytes()), HeaderId::Unknown, "{name}");
        }
        assert_eq!(HeaderId::Unknown.name(), "");
        assert_eq!(HeaderId::Unknown.bit(), 0);
    }
}
