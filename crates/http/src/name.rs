//! The header fields that Weir knows by number.
//!
//! Owns: the list of known field names, and the lookup from spelling to [`HeaderId`].
//! Never: looks at field values.
//! Driven by: the head parsers, once a field; `engine` and `plan`, which name fields by id.
//! Why: a request has some ten fields and the engine asks for twenty; comparing one byte per question beats comparing
//! names. The lookup is one multiplication of a name's two ends into a table without collisions (checked while compiling)
//! and one comparison of the same two words, with the bit of the case left out.

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
        Self::look_up(name)
    }

    /// [`HeaderId::of`] in place, for the loop over the lines of a head.
    #[inline(always)]
    pub(crate) fn look_up(name: &[u8]) -> Self {
        let ends = Ends::of(name);
        let at = usize::from(SLOTS[ends.slot()]);
        let Some(known) = KNOWN_ENDS.get(at).filter(|known| known.fits(ends)) else { return Self::Unknown };
        let (id, spelling) = TABLE[at];
        // What the two ends leave out. The lengths are the same.
        let middle = 8..known.middle;
        let differs =
            name.len() > 16 && !name[middle.clone()].eq_ignore_ascii_case(&spelling.as_bytes()[middle]);
        if differs { Self::Unknown } else { id }
    }

    /// The spelling that Weir writes; empty for [`HeaderId::Unknown`].
    #[must_use]
    #[inline]
    pub fn name(self) -> &'static str {
        TABLE.get(self as usize).map_or("", |entry| entry.1)
    }

    /// This id as one bit of a set; [`HeaderId::Unknown`] has no bit.
    #[must_use]
    #[inline]
    pub const fn bit(self) -> u128 {
        // In halves: a shift of 128 bits by a variable is a dozen instructions, and this is asked for every field.
        let number = self as u32;
        #[expect(clippy::cast_possible_truncation, reason = "`KNOWN` is below 128: see `SLOTS`")]
        let half = ((number < KNOWN as u32) as u64) << (number & 63);
        if number < 64 { half as u128 } else { (half as u128) << 64 }
    }

    /// All known ids.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|entry| entry.0)
    }
}

/// The first and the last bytes of a name as numbers, overlapping where it is shorter; and its length.
#[derive(Clone, Copy)]
struct Ends {
    first: u64,
    last: u64,
    len: usize,
}

/// The bit of the case, in each byte.
const CASE: u64 = u64::MAX / 255 * 0x20;
/// log2 of the table's size.
const SLOT_BITS: u32 = 9;
/// Found by trial so that no two names share a slot; add a name, and compilation says whether it still holds.
const MULTIPLIER: u64 = 0xc147_add2_39d6_bd79;

impl Ends {
    #[inline]
    const fn of(name: &[u8]) -> Self {
        let len = name.len();
        let (first, last) = if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
            (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
        } else if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
            (u32::from_le_bytes(*first) as u64, u32::from_le_bytes(*last) as u64)
        } else if len > 0 {
            (name[0] as u64 | (name[len / 2] as u64) << 8 | (name[len - 1] as u64) << 16, 0)
        } else {
            (0, 0)
        };
        Self { first, last, len }
    }

    #[inline]
    const fn slot(self) -> usize {
        let key = (self.first | CASE) ^ (self.last | CASE).rotate_left(23);
        (key.wrapping_add(self.len as u64).wrapping_mul(MULTIPLIER) >> (64 - SLOT_BITS)) as usize
    }
}

/// The ends of a known name, and which of their bits must be the same: all, but for the case of letters.
#[derive(Clone, Copy)]
struct KnownEnds {
    ends: Ends,
    first: u64,
    last: u64,
    /// Where the last eight bytes begin.
    middle: usize,
}

impl KnownEnds {
    const fn of(name: &[u8]) -> Self {
        let ends = Ends::of(name);
        let middle = name.len().saturating_sub(8);
        Self { ends, first: !case_of_letters(ends.first), last: !case_of_letters(ends.last), middle }
    }

    #[inline]
    const fn fits(&self, other: Ends) -> bool {
        let first = (self.ends.first ^ other.first) & self.first;
        let last = (self.ends.last ^ other.last) & self.last;
        first | last == 0 && self.ends.len == other.len
    }
}

/// The bit of the case of each byte that is a letter.
const fn case_of_letters(word: u64) -> u64 {
    let bytes = word.to_le_bytes();
    let mut mask = [0; 8];
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at].is_ascii_alphabetic() {
            mask[at] = 0x20;
        }
        at += 1;
    }
    u64::from_le_bytes(mask)
}

static KNOWN_ENDS: [KnownEnds; KNOWN] = {
    let mut all = [KnownEnds::of(b"-"); KNOWN];
    let mut i = 0;
    while i < KNOWN {
        all[i] = KnownEnds::of(TABLE[i].1.as_bytes());
        i += 1;
    }
    all
};

static SLOTS: [u8; 1 << SLOT_BITS] = {
    assert!(KNOWN < 128, "ids must fit the bits of a u128");
    let mut slots = [u8::MAX; 1 << SLOT_BITS];
    let mut i = 0;
    while i < KNOWN {
        assert!(TABLE[i].0 as usize == i, "the table is in the order of the ids");
        let at = Ends::of(TABLE[i].1.as_bytes()).slot();
        assert!(slots[at] == u8::MAX, "two names share a slot: look for another MULTIPLIER");
        #[expect(clippy::cast_possible_truncation, reason = "`KNOWN` is below 128")]
        {
            slots[at] = i as u8;
        }
        i += 1;
    }
    slots
};

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
    fn a_name_with_one_byte_changed_is_another() {
        for id in HeaderId::all() {
            for at in 0..id.name().len() {
                for byte in 0..=255 {
                    let mut name = id.name().as_bytes().to_vec();
                    name[at] = byte;
                    let expected =
                        HeaderId::all().find(|id| id.name().as_bytes().eq_ignore_ascii_case(&name));
                    assert_eq!(HeaderId::of(&name), expected.unwrap_or(HeaderId::Unknown), "{name:?}");
                }
            }
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
            "Access-Control-Allow_Origin",
            "Access-Control-Bllow-Origin",
            "Transfer_Encoding",
            "Transfer-\u{c5}ncoding",
            "\u{8}ost",
            "\u{0}\u{0}\u{0}\u{0}",
            "T@",
        ] {
            assert_eq!(HeaderId::of(name.as_bytes()), HeaderId::Unknown, "{name}");
        }
        assert_eq!(HeaderId::Unknown.name(), "");
        assert_eq!(HeaderId::Unknown.bit(), 0);
    }
}
