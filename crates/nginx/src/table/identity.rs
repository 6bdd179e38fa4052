//! Words of NGINX Plus about who sends a request (nginx.org: ngx_http_auth_jwt_module, ngx_http_auth_require_module).

use super::entry::Kind::{OneOf, Text};
use super::entry::places::{H, HSL, HSLX};
use super::entry::{Entry, MANY};
use crate::take::token;

pub(super) const ENTRIES: &[Entry] = &[
    Entry::new("auth_jwt", HSLX, (1, 2), "off", "Asks for a JSON Web Token.").scope(token::auth_jwt),
    Entry::one(
        "auth_jwt_type",
        HSLX,
        OneOf(&["signed", "encrypted", "nested"]),
        "signed",
        "What kind of token is expected.",
    )
    .scope(token::kind),
    Entry::one("auth_jwt_key_file", HSLX, Text, "", "Keys by which tokens hold.")
        .repeats()
        .scope(token::key_file),
    Entry::one("auth_jwt_key_request", HSLX, Text, "", "A location that answers with such keys.")
        .repeats()
        .scope(token::key_request),
    Entry::one("auth_jwt_key_cache", HSL, Text, "0", "How long keys are kept.").scope(token::key_cache),
    Entry::one("auth_jwt_leeway", HSL, Text, "0s", "By how much clocks may differ.").scope(token::leeway),
    Entry::new("auth_jwt_require", HSLX, (1, MANY), "", "What has to hold beside a valid token.")
        .repeats()
        .scope(token::jwt_require),
    Entry::new("auth_jwt_claim_set", H, (2, MANY), "", "A variable from a claim, by its path.")
        .repeats()
        .shared(token::claim_set),
    Entry::new("auth_jwt_header_set", H, (2, MANY), "", "A variable from the header of a token.")
        .repeats()
        .shared(token::header_set),
    Entry::new("auth_require", HSLX, (1, MANY), "", "Variables that must be neither empty nor 0.")
        .repeats()
        .scope(token::require),
];
