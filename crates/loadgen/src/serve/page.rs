//! Pages in memory.
//!
//! Owns: each page with its head, as it is sent.
//! Driven by: `connection`.

use std::fs::File;
use std::io::{self, Write};

use weir_wire::h2::Fields;

/// The pages of a server, and its answers to what is none.
pub(super) struct Pages {
    /// With the sizes that they are asked by.
    pages: Vec<(u64, Page)>,
    missing: Page,
    busy: Page,
    too_large: Page,
}

/// One page: a head for connections that go on, one for those that close, each with a short body behind it.
pub(super) struct Page {
    kept: Box<[u8]>,
    closed: Box<[u8]>,
    /// Bytes of the body behind the heads.
    joined: usize,
    /// A longer body.
    body: Box<[u8]>,
    /// The same where sendfile takes it from, where that is the cheaper way: the kernel then sends its own pages.
    file: Option<File>,
    /// The head as HTTP/2 has it.
    fields: Fields,
}

/// Bodies up to here are copied behind their heads, so that an answer is one piece.
const JOINED: usize = 64 * 1024;

impl Page {
    fn new(status: &str, size: u64) -> Self {
        let body: Vec<u8> = (b'a'..=b'z').cycle().take(size as usize).collect();
        let joined = if body.len() <= JOINED { body.len() } else { 0 };
        let head = |connection: &str| {
            let mut head = format!(
                "HTTP/1.1 {status}\r\nServer: weir-load\r\nContent-Type: application/octet-stream\r\n\
                 Content-Length: {size}\r\n{connection}\r\n"
            )
            .into_bytes();
            head.extend_from_slice(&body[..joined]);
            head.into_boxed_slice()
        };
        let (kept, closed) = (head(""), head("Connection: close\r\n"));
        let mut fields = Fields::new();
        fields.push(b":status", status.get(..3).unwrap_or_default().as_bytes());
        fields.push(b"server", b"weir-load");
        fields.push(b"content-type", b"application/octet-stream");
        fields.push(b"content-length", size.to_string().as_bytes());
        let whole = joined == body.len();
        // Where there is no such file, the bytes are copied.
        let file = if whole { None } else { in_memory(&body).ok() };
        let body = if whole { Box::default() } else { body.into_boxed_slice() };
        Self { kept, closed, joined, body, file, fields }
    }

    /// Head and body of an answer on a stream.
    pub(super) fn stream(&self) -> (&Fields, &[u8]) {
        let body =
            if self.body.is_empty() { &self.kept[self.kept.len() - self.joined..] } else { &self.body[..] };
        (&self.fields, body)
    }

    /// The two pieces of an answer; the second may be empty.
    pub(super) fn pieces(&self, close: bool, to_head: bool) -> (&[u8], &[u8]) {
        let first = if close { &self.closed } else { &self.kept };
        if to_head {
            return (&first[..first.len() - self.joined], &[]);
        }
        (first, &self.body)
    }

    /// A file with the second piece of an answer.
    pub(super) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }
}

/// A file that is in memory alone.
fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("page", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file)
}

impl Pages {
    pub(super) fn new(sizes: &[u64]) -> Self {
        Self {
            pages: sizes.iter().map(|&size| (size, Page::new("200 OK", size))).collect(),
            missing: Page::new("404 Not Found", 0),
            busy: Page::new("503 Service Unavailable", 0),
            too_large: Page::new("431 Request Header Fields Too Large", 0),
        }
    }

    /// The page that a target asks for: `/1k`, `/1024`, `/1k.bin`, `/any/1k?query`; `/` is the first.
    pub(super) fn find(&self, target: &[u8]) -> &Page {
        let path = target.split(|&b| b == b'?').next().unwrap_or_default();
        let name = path.rsplit(|&b| b == b'/').next().unwrap_or_default();
        if name.is_empty() {
            return self.pages.first().map_or(&self.missing, |(_, page)| page);
        }
        let name = name.split(|&b| b == b'.').next().unwrap_or_default();
        let size = std::str::from_utf8(name).ok().and_then(|name| crate::units::size(name).ok());
        self.pages.iter().find(|page| Some(page.0) == size).map_or(&self.missing, |(_, page)| page)
    }

    /// The answer to a head that is larger than is read.
    pub(super) fn too_large(&self) -> &Page {
        &self.too_large
    }

    /// The answer of a server that can do no more.
    pub(super) fn busy(&self) -> &Page {
        &self.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sizes() {
        let pages = Pages::new(&[0, 1024, 100 << 10]);
        let size = |target: &str| {
            let (head, body) = pages.find(target.as_bytes()).pieces(false, false);
            let text = String::from_utf8_lossy(head).into_owned();
            let split = text.find("\r\n\r\n").unwrap() + 4;
            (text[9..12].to_owned(), text.len() - split + body.len())
        };
        assert_eq!(size("/"), ("200".into(), 0));
        for target in ["/1k", "/1024", "/1k.bin", "/a/1K?x=/2k"] {
            assert_eq!(size(target), ("200".into(), 1024), "{target}");
        }
        assert_eq!(size("/100k"), ("200".into(), 100 << 10));
        assert_eq!(size("/7").0, "404");
        let (fields, body) = pages.find(b"/100k").stream();
        assert_eq!((fields.value(b":status"), body.len()), (Some(&b"200"[..]), 100 << 10));
        let (fields, body) = pages.find(b"/1k").stream();
        assert_eq!((fields.value(b"content-length"), body.len()), (Some(&b"1024"[..]), 1024));
        let (head, body) = pages.find(b"/1k").pieces(true, true);
        assert!(head.ends_with(b"Content-Length: 1024\r\nConnection: close\r\n\r\n") && body.is_empty());
    }
}
