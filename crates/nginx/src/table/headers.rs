//! Words about response fields (nginx.org, ngx_http_headers_module).

use super::entry::Kind::Text;
use super::entry::places::{HSL, HSLI};
use super::entry::{Entry, MANY};
use crate::take::{headers, more};

pub(super) const ENTRIES: &[Entry] = &[
    Entry::new("add_header", HSLI, (2, 3), "", "Adds a response field.").repeats().scope(headers::add_header),
    Entry::new("expires", HSLI, (1, 2), "off", "Sends `Expires` and `Cache-Control`.")
        .scope(headers::expires),
    Entry::new("add_trailer", HSLI, (2, 3), "", "Adds a response trailer.")
        .repeats()
        .scope(headers::add_trailer),
    Entry::one("add_header_inherit", HSLI, Text, "on", "Whether response fields are inherited.")
        .not_yet("only nginx's default, inheritance as a whole, is built"),
    Entry::one("add_trailer_inherit", HSLI, Text, "on", "Whether response trailers are inherited.")
        .not_yet("response trailers of its own are not built"),
    Entry::new("more_set_headers", HSLI, (1, MANY), "", "Sets response fields (headers-more).")
        .repeats()
        .scope(more::set_headers),
    Entry::new("more_clear_headers", HSLI, (1, MANY), "", "Removes response fields (headers-more).")
        .repeats()
        .scope(more::clear_headers),
    Entry::new("more_set_input_headers", HSLI, (1, MANY), "", "Sets request fields (headers-more).")
        .repeats()
        .scope(more::set_input_headers),
    Entry::new("more_clear_input_headers", HSLI, (1, MANY), "", "Removes request fields (headers-more).")
        .repeats()
        .scope(more::clear_input_headers),
    Entry::new("early_hints", HSL, (1, MANY), "", "When 103 responses are passed on.").scope(|lo, s, d| {
        for word in &d.args {
            let condition = lo.template(word);
            s.early_hints.push(s.level, condition);
        }
    }),
];
