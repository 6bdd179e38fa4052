//! Words of NGINX Plus about its state and its API (nginx.org: ngx_http_api_module, ngx_http_keyval_module).

use super::entry::Kind::Text;
use super::entry::places::{H, L, LI, S, T, TSRV};
use super::entry::{Entry, MANY};
use crate::take::plus;

pub(super) const ENTRIES: &[Entry] = &[
    Entry::new("api", L, (0, 1), "", "The REST API: figures, and changes while running.").place(plus::api),
    Entry::one("status_zone", S.and(TSRV), Text, "", "Requests or sessions are counted under a name.")
        .server(plus::server_zone),
    Entry::new("keyval_zone", H.and(T), (1, MANY), "", "A store of keys and values, set by the API.")
        .repeats()
        .shared(plus::keyval_zone),
    Entry::new("keyval", H.and(T), (3, 3), "", "A variable whose value a store has.")
        .repeats()
        .shared(plus::keyval),
    Entry::new("num_map", H.and(T), (2, 2), "", "A variable whose value depends on a number.")
        .block()
        .repeats()
        .shared(plus::num_map),
    Entry::one("status_zone", LI, Text, "", "Requests are counted under a name.").scope(plus::location_zone),
];
