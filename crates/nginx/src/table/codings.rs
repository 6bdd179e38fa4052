//! Words about Brotli and Zstandard (the modules `ngx_brotli` and `zstd-nginx-module`).

use std::sync::Arc;

use weir_model::settings::ContentCoding;

use super::entry::Kind::{Flag, Number, OneOf, Size};
use super::entry::places::{HSL, HSLI};
use super::entry::{Entry, MANY};
use crate::take::args::{bytes, on};
use crate::take::{files, filters, gzip};

const OWN: &str = "the compressor sizes its memory by level";
const STATIC: &[&str] = &["off", "on", "always"];

pub(super) const ENTRIES: &[Entry] = &[
    Entry::one("brotli", HSLI, Flag, "off", "Compresses answers by Brotli.")
        .scope(|_, s, d| s.brotli_on = on(d)),
    Entry::one("brotli_comp_level", HSLI, Number, "6", "0 is fast, 11 is small.").scope(gzip::brotli_level),
    Entry::one("brotli_window", HSLI, Size, "512k", "How far it looks back: a power of two.")
        .scope(gzip::brotli_window),
    Entry::one("brotli_min_length", HSLI, Size, "20", "Shortest answer compressed.")
        .scope(|_, s, d| Arc::make_mut(&mut s.brotli).min_length = bytes(d)),
    Entry::new("brotli_types", HSLI, (1, MANY), "text/html", "Media types compressed; text/html always is.")
        .scope(|_, s, d| Arc::make_mut(&mut s.brotli).types = filters::types(d)),
    Entry::one("brotli_static", HSLI, OneOf(STATIC), "off", "Serves `file.br` where there is one.")
        .scope(|_, s, d| files::precompressed(s, d, ContentCoding::Brotli)),
    Entry::new("brotli_buffers", HSLI, (2, 2), "", "Memory of the compressor.").tuning(OWN),
    Entry::one("zstd", HSLI, Flag, "off", "Compresses answers by Zstandard.")
        .scope(|_, s, d| s.zstd_on = on(d)),
    Entry::one("zstd_comp_level", HSLI, Number, "1", "1 is fast, 22 is small.").scope(gzip::zstd_level),
    Entry::one("zstd_min_length", HSLI, Size, "20", "Shortest answer compressed.")
        .scope(|_, s, d| Arc::make_mut(&mut s.zstd).min_length = bytes(d)),
    Entry::new("zstd_types", HSLI, (1, MANY), "text/html", "Media types compressed; text/html always is.")
        .scope(|_, s, d| Arc::make_mut(&mut s.zstd).types = filters::types(d)),
    Entry::one("zstd_static", HSL, OneOf(STATIC), "off", "Serves `file.zst` where there is one.")
        .scope(|_, s, d| files::precompressed(s, d, ContentCoding::Zstandard)),
    Entry::new("zstd_buffers", HSL, (2, 2), "", "Memory of the compressor.").tuning(OWN),
];
