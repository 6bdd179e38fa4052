//! Words about files (nginx.org: core, index, autoindex, try_files, gzip_static, charset, dav).

use std::sync::Arc;

use weir_model::settings::ContentCoding;

use super::entry::Kind::{Flag, Number, OneOf, Size, Text, Time};
use super::entry::places::{H, HSL, HSLI, L, SL};
use super::entry::{Entry, MANY};
use crate::take::args::{bytes, count, on};
use crate::take::{charset, dav, files, location};

pub(super) const ENTRIES: &[Entry] = &[
    Entry::one("root", HSLI, Text, "html", "Folder of files.").scope(files::root),
    Entry::one("alias", L, Text, "", "Folder that stands for the location's path.").place(files::alias),
    Entry::new("index", HSL, (1, MANY), "index.html", "Files tried for paths that end with `/`.")
        .repeats()
        .scope(files::index),
    Entry::new("try_files", SL, (2, MANY), "", "Files tried before the action.").place(location::try_files),
    Entry::new(
        "types",
        HSL,
        (0, 0),
        "text/html html; image/gif gif; image/jpeg jpg",
        "Media types by extension.",
    )
    .block()
    .repeats()
    .scope(files::types),
    Entry::one("default_type", HSL, Text, "text/plain", "Media type of other extensions.")
        .scope(|_, s, d| Arc::make_mut(&mut s.files).default_type = d.arg(0).to_owned()),
    Entry::one("autoindex", HSL, Flag, "off", "Lists folders.")
        .scope(|_, s, d| files::listing(s, |l| l.on = on(d))),
    Entry::one(
        "autoindex_format",
        HSL,
        OneOf(&["html", "json", "jsonp", "xml"]),
        "html",
        "Format of listings.",
    )
    .scope(files::listing_format),
    Entry::one("autoindex_exact_size", HSL, Flag, "on", "Exact sizes in listings.")
        .scope(|_, s, d| files::listing(s, |l| l.exact_size = on(d))),
    Entry::one("autoindex_localtime", HSL, Flag, "off", "Local time in listings.")
        .scope(|_, s, d| files::listing(s, |l| l.local_time = on(d))),
    Entry::one("etag", HSL, Flag, "on", "Sends `ETag`.")
        .scope(|_, s, d| Arc::make_mut(&mut s.files).etag = on(d)),
    Entry::one(
        "if_modified_since",
        HSL,
        OneOf(&["off", "exact", "before"]),
        "exact",
        "How If-Modified-Since is compared.",
    )
    .scope(files::if_modified_since),
    Entry::one("max_ranges", HSL, Number, "", "Most ranges of one answer.").scope(|_, s, d| {
        Arc::make_mut(&mut s.files).max_ranges = Some(count(d).min(u64::from(u32::MAX)) as u32)
    }),
    Entry::one(
        "gzip_static",
        HSL,
        OneOf(&["off", "on", "always"]),
        "off",
        "Serves `file.gz` where there is one.",
    )
    .scope(|_, s, d| files::precompressed(s, d, ContentCoding::Gzip)),
    Entry::one("sendfile", HSLI, Flag, "off", "Sends files from the kernel's cache.")
        .scope(|_, s, d| Arc::make_mut(&mut s.files).sendfile = on(d)),
    Entry::new("disable_symlinks", HSL, (1, 2), "off", "Refuses symbolic links.").scope(files::symlinks),
    Entry::one("charset", HSLI, Text, "off", "Charset appended to text types.").scope(charset::charset),
    Entry::new(
        "charset_types",
        HSL,
        (1, MANY),
        "text/html text/xml text/plain text/vnd.wap.wml application/javascript application/rss+xml",
        "Types that get the charset.",
    )
    .scope(charset::types),
    Entry::one("override_charset", HSLI, Flag, "off", "Converts upstreams' charsets.")
        .scope(|_, s, d| s.parts().filters.override_charset = on(d)),
    Entry::one("source_charset", HSLI, Text, "", "Charset of files.").scope(charset::source),
    Entry::new("charset_map", H, (2, 2), "", "Conversion between charsets.")
        .block()
        .repeats()
        .shared(charset::map),
    Entry::one("log_not_found", HSL, Flag, "on", "Logs missing files.")
        .scope(|_, s, d| s.log_not_found = on(d)),
    Entry::one("random_index", L, Flag, "off", "A random file as index.")
        .scope(|_, s, d| Arc::make_mut(&mut s.files).random_index = on(d)),
    Entry::new("empty_gif", L, (0, 0), "", "A transparent image of one pixel.").place(location::empty_gif),
    Entry::new("mp4", L, (0, 0), "", "MP4 files from a time on (`start`, `end`).").place(location::mp4),
    Entry::one("mp4_buffer_size", HSL, Size, "512k", "First buffer of the tables of such files.")
        .tuning("Weir reads the tables of a file into a buffer of their size"),
    Entry::one("mp4_max_buffer_size", HSL, Size, "10m", "Most bytes of the tables.")
        .scope(|_, s, d| s.parts().mp4_most = bytes(d)),
    Entry::one("mp4_start_key_frame", HSL, Flag, "off", "Pictures begin with a key frame.")
        .scope(|_, s, d| s.parts().mp4_from_key_frame = on(d)),
    Entry::new("flv", L, (0, 0), "", "FLV files from a byte on (`start`).").place(location::flv),
    Entry::new("open_file_cache", HSL, (1, 2), "off", "Keeps files open.").tuning(CACHE),
    Entry::one("open_file_cache_valid", HSL, Time, "60s", "Age of entries.").tuning(CACHE),
    Entry::one("open_file_cache_min_uses", HSL, Number, "1", "Uses of entries.").tuning(CACHE),
    Entry::one("open_file_cache_errors", HSL, Flag, "off", "Caches errors.").tuning(CACHE),
    Entry::one("open_file_cache_events", HSL, Flag, "off", "Watches files.").tuning(CACHE),
    Entry::one("sendfile_max_chunk", HSL, Size, "2m", "Bytes of one send.").tuning(SENDS),
    Entry::one("aio", HSL, Text, "off", "Asynchronous reads.").tuning(SENDS),
    Entry::one("aio_write", HSL, Flag, "off", "Asynchronous writes.").tuning(SENDS),
    Entry::one("directio", HSL, Text, "off", "Reads past the cache.").tuning(SENDS),
    Entry::one("directio_alignment", HSL, Size, "512", "Alignment of those.").tuning(SENDS),
    Entry::one("read_ahead", HSL, Size, "0", "Bytes read ahead.").tuning(SENDS),
    Entry::new("dav_methods", HSL, (1, MANY), "off", "Methods by which files are changed.")
        .scope(dav::methods),
    Entry::new("dav_access", HSL, (1, 3), "user:rw", "Rights of files and folders that are made.")
        .scope(dav::access),
    Entry::one("create_full_put_path", HSL, Flag, "off", "PUT makes the folders of its path.")
        .scope(|_, s, d| Arc::make_mut(&mut s.files).dav.create_full_path = on(d)),
    Entry::one("min_delete_depth", HSL, Number, "0", "DELETE takes only paths of so many parts.")
        .scope(|_, s, d| Arc::make_mut(&mut s.files).dav.min_delete_depth = count(d)),
];

const CACHE: &str = "Weir caches small hot files by itself and checks that they are current";
const SENDS: &str = "Weir chooses how files are read and sent by their size";
