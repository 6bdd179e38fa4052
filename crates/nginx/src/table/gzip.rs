//! Words about compression (nginx.org: gzip, gunzip).

use std::sync::Arc;

use super::entry::Kind::{Flag, Number, OneOf, Size};
use super::entry::places::{HSL, HSLI};
use super::entry::{Entry, MANY};
use crate::take::args::{bytes, on};
use crate::take::gzip;

const OWN: &str = "Weir's compressor sizes its memory by level";

pub(super) const ENTRIES: &[Entry] = &[
    Entry::one("gzip", HSLI, Flag, "off", "Compresses answers.").scope(|_, s, d| s.gzip_on = on(d)),
    Entry::one("gzip_comp_level", HSL, Number, "1", "1 is fast, 9 is small.").scope(gzip::level),
    Entry::one("gzip_min_length", HSL, Size, "20", "Shortest answer compressed.")
        .scope(|_, s, d| Arc::make_mut(&mut s.gzip).min_length = bytes(d)),
    Entry::new("gzip_types", HSL, (1, MANY), "text/html", "Media types compressed; text/html always is.")
        .scope(gzip::types),
    Entry::one("gzip_vary", HSL, Flag, "off", "Sends `Vary: Accept-Encoding`.")
        .scope(|_, s, d| Arc::make_mut(&mut s.gzip).vary = on(d)),
    Entry::one("gzip_http_version", HSL, OneOf(&["1.0", "1.1"]), "1.1", "Least version compressed for.")
        .scope(|_, s, d| Arc::make_mut(&mut s.gzip).http_1_0 = d.arg(0) == "1.0"),
    Entry::new(
        "gzip_proxied",
        HSL,
        (1, MANY),
        "off",
        "Whether requests through proxies get compressed answers.",
    )
    .scope(gzip::proxied),
    Entry::new("gzip_disable", HSL, (1, MANY), "", "Browsers that get plain answers.").scope(gzip::disable),
    Entry::new("gzip_buffers", HSL, (2, 2), "16 8k", "Memory of the compressor.").tuning(OWN),
    Entry::one("gzip_window", HSL, Size, "", "Memory of the compressor.").tuning(OWN),
    Entry::one("gzip_hash", HSL, Size, "", "Memory of the compressor.").tuning(OWN),
    Entry::one("postpone_gzipping", HSL, Size, "0", "Bytes gathered first.").tuning(OWN),
    Entry::one("gzip_no_buffer", HSL, Flag, "off", "Flushes at once.").tuning(OWN),
    Entry::one("gunzip", HSL, Flag, "off", "Unpacks answers in gzip for clients without gzip.")
        .scope(|_, s, d| s.gunzip = on(d)),
    Entry::new("gunzip_buffers", HSL, (2, 2), "32 4k", "Memory of it.")
        .tuning("Weir sizes that memory by itself"),
];
