//! What a route asks for, in one word.

bitflags::bitflags! {
    /// Each bit names a step that is needed; a step without its bit may be skipped without looking.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct RouteFeatures: u32 {
        /// [`crate::Route::program`] is there.
        const PROGRAM = 1;
        /// Another route is asked who gets in.
        const ASK = 1 << 18;
        /// Network rules.
        const ACCESS_RULES = 1 << 1;
        /// User and password.
        const BASIC_AUTH = 1 << 2;
        /// Request-rate limits.
        const LIMIT_REQ = 1 << 3;
        /// Concurrency limits.
        const LIMIT_CONN = 1 << 4;
        /// Real-IP rules.
        const REAL_IP = 1 << 5;
        /// `try_files`.
        const TRY_FILES = 1 << 6;
        /// Edits of responses.
        const RESPONSE_EDITS = 1 << 7;
        /// `expires`.
        const EXPIRES = 1 << 8;
        /// Compression may apply.
        const GZIP = 1 << 9;
        /// An access log is written.
        const ACCESS_LOG = 1 << 10;
        /// Error pages.
        const ERROR_PAGES = 1 << 11;
        /// Only for internal redirects.
        const INTERNAL = 1 << 12;
        /// A rate limit to the client that is known at load.
        const LIMIT_RATE = 1 << 13;
        /// Nested routes.
        const CHILDREN = 1 << 14;
        /// The action is [`crate::Action::Static`] with a root of literal text; no alias, listing, rule about symbolic
        /// links or look for precompressed files.
        const PLAIN_STATIC = 1 << 16;
        /// The action is [`crate::Action::Proxy`] to a pool: path, method, fields and body are passed as received, but
        /// for the fields of [`crate::Proxy::head`]. Answers may still be hidden from or rewritten.
        const PLAIN_PROXY = 1 << 17;
    }
}

impl RouteFeatures {
    /// Steps between finding a route and its action.
    pub const BEFORE_ACTION: Self = Self::PROGRAM
        .union(Self::ACCESS_RULES)
        .union(Self::BASIC_AUTH)
        .union(Self::ASK)
        .union(Self::LIMIT_REQ)
        .union(Self::LIMIT_CONN)
        .union(Self::REAL_IP)
        .union(Self::TRY_FILES)
        .union(Self::INTERNAL);
}
