//! Listings of folders: HTML, JSON, JSONP and XML.
//!
//! Owns: reading a folder, and the four formats, which scripts read as nginx's `autoindex` writes them.
//! Never: shows names that begin with a dot.
//! Driven by: `files::serve`, where a folder has no index file.
//! Why: a folder is read in the worker's thread; folders of many thousand names should not be listed.

use std::fs::Metadata;
use std::io::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use rustix::io::Errno;
use weir_http::uri::{Escape, escape, unescape};
use weir_http::{HeaderId, HttpDate, Method};
use weir_plan::{Listing, ListingFormat, Symlinks};
use weir_telemetry::LogClock;

use super::names::refused;
use super::send::FileRest;
use crate::answer::respond;
use crate::exchange::{Downstream, Ending, Exchange, Next};
use crate::files::open;

/// Characters of a name that are shown in HTML; longer names are cut.
const SHOWN: usize = 50;

/// One line.
struct Item {
    name: Vec<u8>,
    is_folder: bool,
    is_file: bool,
    size: u64,
    /// Seconds since 1970.
    modified: u64,
}

/// Answers with a listing of the folder that the path names.
pub(super) async fn serve<D: Downstream>(exchange: &mut Exchange, down: &mut D) -> Next<Box<FileRest>> {
    let Some(listing) = exchange.route().files.listing else { return Next::Status(403) };
    if exchange.request.method == Method::Post {
        return Next::Status(403);
    }
    let mut name = Vec::new();
    exchange.append_filename(&mut name);
    let items = match read(&name, exchange.route().files.symlinks) {
        Ok(items) => items,
        Err(error) => return refused(exchange, "opendir()", &name, error),
    };
    let mut page = Vec::with_capacity(256 + items.len() * 128);
    let media_type = match listing.format {
        ListingFormat::Html => {
            html(&exchange.request.path, &items, listing, &mut page);
            "text/html"
        }
        ListingFormat::Json => {
            json(&items, &mut page);
            "application/json"
        }
        ListingFormat::Jsonp => {
            let Ok(callback) = callback(exchange) else { return Next::Status(400) };
            jsonp(callback.as_deref(), &items, &mut page);
            if callback.is_some() { "application/javascript" } else { "application/json" }
        }
        ListingFormat::Xml => {
            xml(&items, listing, &mut page);
            "text/xml; charset=utf-8"
        }
    };
    if exchange.ending == Ending::Normal && exchange.attempts.is_empty() {
        exchange.ending = Ending::Local;
    }
    let content_type = with_charset(exchange, media_type);
    exchange.response.status = 200;
    exchange.response.fields.clear();
    exchange.response.fields.push_id(HeaderId::ContentType, content_type.as_bytes());
    respond::whole(exchange, down, &page).await;
    Next::Done
}

fn with_charset(exchange: &Exchange, media_type: &str) -> String {
    let types = &exchange.route().files.types;
    let takes =
        types.charset_types.iter().any(|taker| taker == "*" || taker.eq_ignore_ascii_case(media_type));
    match &types.charset {
        Some(charset) if takes => format!("{media_type}; charset={charset}"),
        _ => media_type.to_owned(),
    }
}

/// The function that JSONP is to call: `?callback=`. `Err` if it is not a plain name.
fn callback(exchange: &Exchange) -> Result<Option<Vec<u8>>, ()> {
    let Some(value) = exchange.request.arg(b"callback").filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let mut name = Vec::new();
    unescape(value, &mut name);
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.');
    if name.iter().all(is_plain) { Ok(Some(name)) } else { Err(()) }
}

/// Folders first, each by name.
fn read(folder: &[u8], rule: Symlinks) -> Result<Vec<Item>, Errno> {
    // The rule about links is asked for the folder; its entries are shown, not followed.
    if rule != Symlinks::Follow {
        open::stat(folder, rule)?;
    }
    let error = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let mut items = Vec::new();
    for entry in std::fs::read_dir(std::ffi::OsStr::from_bytes(folder)).map_err(error)? {
        let entry = entry.map_err(error)?;
        let name = entry.file_name().into_vec();
        if name.starts_with(b".") {
            continue;
        }
        // A link that leads nowhere is shown as itself; what is gone again is not shown.
        let Ok(about) = std::fs::metadata(entry.path()).or_else(|_| entry.metadata()) else { continue };
        items.push(item(name, &about));
    }
    items.sort_unstable_by(|a, b| b.is_folder.cmp(&a.is_folder).then_with(|| a.name.cmp(&b.name)));
    Ok(items)
}

/// The names of a folder's files.
pub(super) fn file_names(folder: &[u8], rule: Symlinks) -> Result<Vec<Vec<u8>>, Errno> {
    Ok(read(folder, rule)?.into_iter().filter(|item| item.is_file).map(|item| item.name).collect())
}

fn item(name: Vec<u8>, about: &Metadata) -> Item {
    let modified = about.modified().map_or(0, |time| HttpDate::from_system(time).unix());
    Item { name, is_folder: about.is_dir(), is_file: about.is_file(), size: about.len(), modified }
}

fn html(path: &[u8], items: &[Item], listing: Listing, out: &mut Vec<u8>) {
    let mut clock = if listing.local_time { LogClock::local() } else { LogClock::utc() };
    let mut title = Vec::new();
    escape_html(path, &mut title);
    for part in
        [&b"<html>\r\n<head><title>Index of "[..], &title, b"</title></head>\r\n<body>\r\n<h1>Index of "]
    {
        out.extend_from_slice(part);
    }
    out.extend_from_slice(&title);
    out.extend_from_slice(b"</h1><hr><pre><a href=\"../\">../</a>\r\n");
    for item in items {
        html_line(item, listing, &mut clock, out);
    }
    out.extend_from_slice(b"</pre><hr></body>\r\n</html>\r\n");
}

fn html_line(item: &Item, listing: Listing, clock: &mut LogClock, out: &mut Vec<u8>) {
    let slash: &[u8] = if item.is_folder { b"/" } else { b"" };
    out.extend_from_slice(b"<a href=\"");
    let mut link = Vec::with_capacity(item.name.len() + 8);
    escape(Escape::Component, &item.name, &mut link);
    escape_html(&link, out);
    out.extend_from_slice(slash);
    out.extend_from_slice(b"\">");
    let name = String::from_utf8_lossy(&item.name);
    let length = name.chars().count() + slash.len();
    let shown = if length > SHOWN {
        let kept: String = name.chars().take(SHOWN - 3).collect();
        escape_html(kept.as_bytes(), out);
        out.extend_from_slice(b"..&gt;</a>");
        SHOWN
    } else {
        escape_html(&item.name, out);
        out.extend_from_slice(slash);
        out.extend_from_slice(b"</a>");
        length
    };
    out.resize(out.len() + SHOWN + 1 - shown, b' ');
    // `21/Nov/2026:02:45:31 +0000` → `21-Nov-2026 02:45`
    let time = &clock.at(item.modified.saturating_mul(1000)).local;
    let (date, rest) = time.split_once(':').unwrap_or((time, ""));
    // Writing to a vector does not fail.
    let _ = write!(out, "{} {} ", date.replace('/', "-"), rest.get(..5).unwrap_or_default());
    let _ = match (listing.exact_size, item.is_folder) {
        (true, true) => write!(out, "{:>19}", "-"),
        (true, false) => write!(out, "{:>19}", item.size),
        (false, true) => write!(out, "{:>7}", "-"),
        (false, false) => write!(out, "{:>7}", rounded(item.size)),
    };
    out.extend_from_slice(b"\r\n");
}

/// `9999`, `10K`, `3M`, `2G`.
fn rounded(size: u64) -> String {
    let (unit, letter) = match size {
        0..=9999 => return size.to_string(),
        10_000..=0xf_ffff => (1 << 10, 'K'),
        0x10_0000..=0x3fff_ffff => (1 << 20, 'M'),
        _ => (1 << 30, 'G'),
    };
    format!("{}{letter}", size / unit + u64::from(size % unit >= unit / 2))
}

/// Times are of the machine's zone only in HTML and XML; these are HTTP dates.
fn json(items: &[Item], out: &mut Vec<u8>) {
    out.extend_from_slice(b"[");
    for (at, item) in items.iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"\r\n" } else { b",\r\n" });
        out.extend_from_slice(b"{ \"name\":\"");
        escape_json(&item.name, out);
        let _ = write!(
            out,
            "\", \"type\":\"{}\", \"mtime\":\"{}\"",
            kind(item),
            HttpDate::from_unix(item.modified)
        );
        if item.is_file {
            let _ = write!(out, ", \"size\":{}", item.size);
        }
        out.extend_from_slice(b" }");
    }
    out.extend_from_slice(b"\r\n]");
}

fn jsonp(callback: Option<&[u8]>, items: &[Item], out: &mut Vec<u8>) {
    let Some(callback) = callback else { return json(items, out) };
    // A comment first keeps what follows from being taken for another kind of file.
    out.extend_from_slice(b"/* callback */\r\n");
    out.extend_from_slice(callback);
    out.extend_from_slice(b"(");
    json(items, out);
    out.extend_from_slice(b");");
}

fn xml(items: &[Item], listing: Listing, out: &mut Vec<u8>) {
    let mut clock = if listing.local_time { LogClock::local() } else { LogClock::utc() };
    out.extend_from_slice(b"<?xml version=\"1.0\"?>\r\n<list>\r\n");
    for item in items {
        let time = clock.at(item.modified.saturating_mul(1000)).iso8601.clone();
        let kind = kind(item);
        let _ = write!(out, "<{kind} mtime=\"{}Z\"", time.get(..19).unwrap_or_default());
        if item.is_file {
            let _ = write!(out, " size=\"{}\"", item.size);
        }
        out.push(b'>');
        escape_html(&item.name, out);
        let _ = write!(out, "</{kind}>\r\n");
    }
    out.extend_from_slice(b"</list>\r\n");
}

fn kind(item: &Item) -> &'static str {
    match item {
        Item { is_folder: true, .. } => "directory",
        Item { is_file: true, .. } => "file",
        _ => "other",
    }
}

fn escape_html(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            byte => out.push(byte),
        }
    }
}

fn escape_json(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..=0x1f => drop(write!(out, "\\u{byte:04x}")),
            byte => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(exact_size: bool) -> Listing {
        Listing { format: ListingFormat::Html, exact_size, local_time: false }
    }

    fn items() -> Vec<Item> {
        let item = |name: &str, is_folder: bool, size| Item {
            name: name.into(),
            is_folder,
            is_file: !is_folder,
            size,
            modified: 784_111_777,
        };
        vec![item("d", true, 4096), item("a<b>\"&\n.txt", false, 12), item("x:y z", false, 10_240)]
    }

    #[test]
    fn html_escapes_and_aligns() {
        let mut out = Vec::new();
        html(b"/<p>/", &items(), listing(true), &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("<html>\r\n<head><title>Index of /&lt;p&gt;/</title></head>\r\n<body>\r\n<h1>Index of /&lt;p&gt;/</h1><hr><pre><a href=\"../\">../</a>\r\n<a href=\"d/\">d/</a>"));
        let folder = text.lines().find(|line| line.contains("d/")).unwrap();
        let folder = folder.trim_start_matches("<a href=\"d/\">d/</a>");
        assert_eq!(folder.trim_start(), "06-Nov-1994 08:49                   -");
        assert_eq!(folder.len() - folder.trim_start().len(), 49);
        assert!(text.contains("<a href=\"a%3Cb%3E%22%26%0A.txt\">a&lt;b&gt;&quot;&amp;"));
        assert!(text.contains("<a href=\"x%3Ay%20z\">"));
        let mut out = Vec::new();
        html(b"/", &items(), listing(false), &mut out);
        assert!(String::from_utf8(out).unwrap().contains("06-Nov-1994 08:49     10K\r\n"));
    }

    #[test]
    fn sizes_are_rounded_as_nginx_rounds() {
        for (size, expected) in [
            (0, "0"),
            (9999, "9999"),
            (10_000, "10K"),
            (10_751, "10K"),
            (10_752, "11K"),
            (1 << 20, "1M"),
            (5 << 30, "5G"),
        ] {
            assert_eq!(rounded(size), expected, "{size}");
        }
    }

    #[test]
    fn json_and_xml() {
        let mut out = Vec::new();
        json(&items(), &mut out);
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(value[0]["type"], "directory");
        assert_eq!(value[0].get("size"), None);
        assert_eq!(value[1]["name"], "a<b>\"&\n.txt");
        assert_eq!(value[1]["mtime"], "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(value[2]["size"], 10_240);
        let mut out = Vec::new();
        jsonp(Some(b"f"), &[], &mut out);
        assert!(out.ends_with(b"f([\r\n]);"));
        let mut out = Vec::new();
        xml(&items(), listing(true), &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("<directory mtime=\"1994-11-06T08:49:37Z\">d</directory>\r\n"));
        assert!(text.contains("<file mtime=\"1994-11-06T08:49:37Z\" size=\"12\">a&lt;b&gt;"));
    }

    #[test]
    fn a_folder_is_read_in_order_without_hidden_names() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b", "a", ".hidden"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        std::fs::create_dir(folder.path().join("z")).unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join("c")).unwrap();
        let items = read(folder.path().as_os_str().as_bytes(), Symlinks::Follow).unwrap();
        let names: Vec<&[u8]> = items.iter().map(|item| item.name.as_slice()).collect();
        assert_eq!(names, [&b"z"[..], b"a", b"b", b"c"]);
        assert_eq!(kind(&items[3]), "other");
        assert_eq!(read(b"/no/such/folder", Symlinks::Follow).err(), Some(Errno::NOENT));
    }
}
