//! Words about what is done to bodies of responses (nginx.org: sub, addition).

use super::entry::Kind::{Flag, Text};
use super::entry::places::HSL;
use super::entry::{Entry, MANY};
use crate::take::args::on;
use crate::take::filters;

pub(super) const ENTRIES: &[Entry] = &[
    Entry::new("sub_filter", HSL, (2, 2), "", "Replaces text in answers.")
        .repeats()
        .scope(filters::sub_filter),
    Entry::new("sub_filter_types", HSL, (1, MANY), "text/html", "Media types searched; text/html always is.")
        .scope(|_, s, d| s.parts().filters.sub_types = filters::types(d)),
    Entry::one("sub_filter_once", HSL, Flag, "on", "Replaces a text only where it is found first.")
        .scope(|_, s, d| s.parts().filters.sub_once = on(d)),
    Entry::one("sub_filter_last_modified", HSL, Flag, "off", "Keeps Last-Modified, and the ETag weakened.")
        .scope(|_, s, d| s.parts().filters.sub_last_modified = on(d)),
    Entry::one("add_before_body", HSL, Text, "", "Another answer's body comes first.").scope(filters::before),
    Entry::one("add_after_body", HSL, Text, "", "Another answer's body comes last.").scope(filters::after),
    Entry::new("addition_types", HSL, (1, MANY), "text/html", "Media types added to; text/html always is.")
        .scope(|_, s, d| s.parts().filters.addition_types = filters::types(d)),
];
