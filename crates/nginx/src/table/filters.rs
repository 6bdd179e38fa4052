//! Words about what is done to bodies of responses (nginx.org: sub, addition, ssi).

use super::entry::Kind::{Flag, Size, Text};
use super::entry::places::{HSL, HSLI};
use super::entry::{Entry, MANY};
use crate::take::args::{bytes, on};
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
    Entry::one("ssi", HSLI, Flag, "off", "Carries out the commands of pages (server-side includes).")
        .scope(|_, s, d| s.parts().filters.ssi = on(d)),
    Entry::new(
        "ssi_types",
        HSL,
        (1, MANY),
        "text/html",
        "Media types searched for commands; text/html always is.",
    )
    .scope(|_, s, d| s.parts().filters.ssi_types = filters::types(d)),
    Entry::one("ssi_last_modified", HSL, Flag, "off", "Keeps Last-Modified, and the ETag weakened.")
        .scope(|_, s, d| s.parts().filters.ssi_last_modified = on(d)),
    Entry::one("ssi_silent_errors", HSL, Flag, "off", "A command that fails leaves no text.")
        .scope(|_, s, d| s.parts().filters.ssi_silent_errors = on(d)),
    Entry::one("ssi_value_length", HSL, Size, "256", "Most bytes of a parameter's value.")
        .scope(|_, s, d| s.parts().filters.ssi_value_length = bytes(d)),
    Entry::one(
        "subrequest_output_buffer_size",
        HSL,
        Size,
        "4k",
        "Most bytes of a body that `include set=` keeps.",
    )
    .scope(|_, s, d| s.parts().filters.most_kept = Some(bytes(d))),
];
