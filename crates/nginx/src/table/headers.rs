//! Words about response fields (nginx.org, ngx_http_headers_module).

use super::entry::Kind::{Number, OneOf, Text};
use super::entry::places::{HSL, HSLI};
use super::entry::{Entry, Kind, MANY};
use crate::take::user_id::unless_none;
use crate::take::{headers, more, user_id};

const INHERITANCE: Kind = OneOf(&["on", "off", "merge"]);

pub(super) const ENTRIES: &[Entry] = &[
    Entry::new("add_header", HSLI, (2, 3), "", "Adds a response field.").repeats().scope(headers::add_header),
    Entry::new("expires", HSLI, (1, 2), "off", "Sends `Expires` and `Cache-Control`.")
        .scope(headers::expires),
    Entry::new("add_trailer", HSLI, (2, 3), "", "Adds a response trailer.")
        .repeats()
        .scope(headers::add_trailer),
    Entry::one("add_header_inherit", HSLI, INHERITANCE, "on", "How response fields are inherited.")
        .scope(|_, s, d| s.add_headers.rule = headers::inheritance(d)),
    Entry::one("add_trailer_inherit", HSLI, INHERITANCE, "on", "How response trailers are inherited.")
        .scope(|_, s, d| s.parts().filters.trailers.rule = headers::inheritance(d)),
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
    Entry::one("userid", HSL, OneOf(&["off", "log", "v1", "on"]), "off", "Cookies that tell clients apart.")
        .scope(user_id::userid),
    Entry::one("userid_service", HSL, Number, "", "Who made the number in such a cookie.")
        .scope(user_id::service),
    Entry::one("userid_name", HSL, Text, "uid", "The cookie's name.")
        .scope(|_, s, d| s.parts().facts.user_ids.name = d.arg(0).to_owned()),
    Entry::one("userid_domain", HSL, Text, "none", "The cookie's domain.")
        .scope(|_, s, d| s.parts().facts.user_ids.domain = unless_none(d)),
    Entry::one("userid_path", HSL, Text, "/", "The cookie's path.")
        .scope(|_, s, d| s.parts().facts.user_ids.path = d.arg(0).to_owned()),
    Entry::one("userid_expires", HSL, Text, "off", "When the cookie ends.").scope(user_id::expires),
    Entry::new("userid_flags", HSL, (1, MANY), "off", "Flags of the cookie.").scope(user_id::flags),
    Entry::one("userid_p3p", HSL, Text, "none", "The field P3P beside the cookie.")
        .scope(|_, s, d| s.parts().facts.user_ids.p3p = unless_none(d)),
    Entry::one("userid_mark", HSL, Text, "off", "A character by which older cookies are known.")
        .scope(user_id::mark),
    Entry::new("early_hints", HSL, (1, MANY), "", "When 103 responses are passed on.").scope(|lo, s, d| {
        for word in &d.args {
            let condition = lo.template(word);
            s.early_hints.push(s.level, condition);
        }
    }),
];
