//! What a route asks for, in one word.

use crate::{Action, Route, RouteSettings};

bitflags::bitflags! {
    /// Each bit names a step that is needed; a step without its bit may be skipped without looking.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct RouteFeatures: u32 {
        /// [`crate::Route::program`] is there.
        const PROGRAM = 1;
        /// Another route is asked who gets in.
        const ASK = 1 << 18;
        /// A token, or what is made of variables, says who gets in.
        const IDENTITY = 1 << 26;
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
        /// Requests are traced.
        const TRACING = 1 << 27;
        /// Copies of requests go elsewhere.
        const MIRRORS = 1 << 20;
        /// Something is requested once a request has ended.
        const AFTERWARDS = 1 << 25;
        /// Edits of responses.
        const RESPONSE_EDITS = 1 << 7;
        /// Edits of requests.
        const REQUEST_EDITS = 1 << 23;
        /// Clients get cookies that tell them apart.
        const USER_IDS = 1 << 24;
        /// `expires`.
        const EXPIRES = 1 << 8;
        /// Compression may apply.
        const COMPRESSION = 1 << 9;
        /// Other filters of bodies may apply.
        const FILTERS = 1 << 21;
        /// Responses say a charset.
        const CHARSET = 1 << 22;
        /// An access log may ask for fields of the answer.
        const LOGS_ANSWER = 1 << 19;
        /// Only for internal redirects.
        const INTERNAL = 1 << 12;
        /// A rate limit to the client that is known at load.
        const LIMIT_RATE = 1 << 13;
        /// The action is [`crate::Action::Static`] with a root of literal text; no alias, listing, rule about symbolic
        /// links or look for precompressed files.
        const PLAIN_STATIC = 1 << 16;
    }
}

impl RouteFeatures {
    /// Steps between finding a route and its action.
    pub const BEFORE_ACTION: Self = Self::PROGRAM
        .union(Self::ACCESS_RULES)
        .union(Self::BASIC_AUTH)
        .union(Self::ASK)
        .union(Self::IDENTITY)
        .union(Self::LIMIT_REQ)
        .union(Self::LIMIT_CONN)
        .union(Self::REAL_IP)
        .union(Self::TRY_FILES)
        .union(Self::MIRRORS)
        .union(Self::TRACING)
        .union(Self::REQUEST_EDITS)
        .union(Self::INTERNAL);

    /// What a route asks for. Every field of a route and of its settings stands here: one that is new does not compile
    /// until it was decided whether there is anything to do for it.
    pub fn of(route: &Route) -> Self {
        let Route {
            name: _,
            counts_for: _,
            features: _,
            internal,
            prefix: _,
            children: _,
            program,
            try_files,
            files,
            response_program: _,
            action,
            settings,
        } = route;
        let wanted = [
            (Self::PROGRAM, program.is_some()),
            (Self::TRY_FILES, try_files.is_some()),
            (Self::INTERNAL, *internal),
            (Self::PLAIN_STATIC, matches!(action, Action::Static) && files.is_plain()),
        ];
        Self::of_settings(settings).union(gathered(wanted))
    }

    fn of_settings(settings: &RouteSettings) -> Self {
        let RouteSettings {
            limit_req,
            limit_conn,
            access,
            real_ip,
            mirrors,
            afterwards,
            error_pages: _,
            recursive_error_pages: _,
            response_edits,
            request_edits,
            expires,
            compression,
            filters,
            facts,
            access_logs,
            error_logs: _,
            log_not_found: _,
            body: _,
            client: _,
            limit_rate,
            limit_rate_after: _,
            slice: _,
            chunked: _,
            early_hints: _,
            tracing,
            resolver: _,
            zone: _,
        } = settings;
        gathered([
            (Self::LIMIT_REQ, !limit_req.is_empty()),
            (Self::LIMIT_CONN, !limit_conn.is_empty()),
            (Self::ACCESS_RULES, !access.rules.is_empty()),
            (Self::BASIC_AUTH, access.basic.is_some()),
            (Self::ASK, access.ask.is_some()),
            (Self::IDENTITY, access.asks_who()),
            (Self::REAL_IP, real_ip.is_some()),
            (Self::MIRRORS, mirrors.is_some()),
            (Self::TRACING, tracing.is_some()),
            (Self::AFTERWARDS, afterwards.is_some()),
            (Self::RESPONSE_EDITS, !response_edits.is_empty()),
            (Self::REQUEST_EDITS, !request_edits.is_empty()),
            (Self::EXPIRES, expires.is_some()),
            (Self::USER_IDS, facts.as_ref().is_some_and(|facts| facts.user_ids.is_some())),
            (Self::COMPRESSION, !compression.is_empty()),
            (Self::FILTERS, filters.as_ref().is_some_and(|filters| filters.act())),
            (Self::CHARSET, filters.as_ref().is_some_and(|filters| filters.charset.is_some())),
            (Self::LOGS_ANSWER, access_logs.iter().any(|log| log.asks_for_answer)),
            (Self::LIMIT_RATE, limit_rate.is_some()),
        ])
    }
}

fn gathered<const N: usize>(wanted: [(RouteFeatures, bool); N]) -> RouteFeatures {
    wanted.into_iter().filter(|feature| feature.1).map(|feature| feature.0).collect()
}
