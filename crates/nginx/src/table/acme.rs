//! Words about certificates that authorities issue (nginx.org, ngx_http_acme_module), and one of Weir's own.

use super::entry::Kind::Text;
use super::entry::places::{H, HS, S};
use super::entry::{Entry, MANY};
use crate::take::acme;

pub(super) const ENTRIES: &[Entry] = &[
    Entry::new("acme_issuer", H, (1, 1), "", "Who issues certificates, and how that is asked.")
        .block()
        .repeats()
        .shared(acme::issuer),
    Entry::new("acme_certificate", S, (1, MANY), "", "A certificate that an issuer makes for the server.")
        .server(acme::certificate),
    Entry::one("acme_shared_zone", H, Text, "zone=ngx_acme_shared:256k", "Memory for certificates.")
        .tuning("Weir keeps what there is in memory of its own"),
    Entry::new(
        "auto_certificate",
        HS,
        (1, MANY),
        "off",
        "Weir's own: gets and renews certificates for the names of servers.",
    )
    .scope(acme::auto),
];
