//! Pages in memory.
//!
//! Owns: each page with its head, as it is sent.
//! Driven by: `connection`.

use weir_wire::h2::Fields;

/// The pages of a server, and its answers to what is none.
pub(super) struct Pages {
    pages: Vec<Page>,
    missing: Page,
    busy: Page,
    too_large: Page,
}

/// One page: a head for connections that go on, one for those that close, and the body behind either.
pub(super) struct Page {
    size: u64,
    kept: Box<[u8]>,
    closed: Box<[u8]>,
    body: Box<[u8]>,
    /// The head as HTTP/2 has it.
    fields: Fields,
}

/// Bodies up to here are copied behind their heads, so that an answer is one piece.
const JOINED: usize = 64 * 1024;

impl Page {
    fn new(status: &str, size: u64) -> Self {
        let body: Vec<u8> = (b'a'..=b'z').cycle().take(size as usize).collect();
        let head = |connection: &str| {
            let mut head = format!(
                "HTTP/1.1 {status}\r\nServer: weir-load\r\nContent-Type: application/octet-stream\r\n\
                 Content-Length: {size}\r\n{connection}\r\n"
            )
            .into_bytes();
            if body.len() <= JOINED {
                head.extend_from_slice(&body);
            }
            head.into_boxed_slice()
        };
        let (kept, closed) = (head(""), head("Connection: close\r\n"));
        let body = if body.len() <= JOINED { Box::default() } else { body.into_boxed_slice() };
        let mut fields = Fields::new();
        fields.push(b":status", status.get(..3).unwrap_or_default().as_bytes());
        fields.push(b"server", b"weir-load");
        fields.push(b"content-type", b"application/octet-stream");
        fields.push(b"content-length", size.to_string().as_bytes());
        Self { size, kept, closed, body, fields }
    }

    /// Head and body of an answer on a stream.
    pub(super) fn stream(&self) -> (&Fields, &[u8]) {
        let body = if self.body.is_empty() {
            let start = self.kept.len() - self.size as usize;
            &self.kept[start..]
        } else {
            &self.body[..]
        };
        (&self.fields, body)
    }

    /// The two pieces of an answer; the second may be empty.
    pub(super) fn pieces(&self, close: bool, to_head: bool) -> (&[u8], &[u8]) {
        let first = if close { &self.closed } else { &self.kept };
        if !to_head {
            return (first, &self.body);
        }
        let joined = if self.body.is_empty() { self.size as usize } else { 0 };
        (&first[..first.len() - joined], &[])
    }
}

impl Pages {
    pub(super) fn new(sizes: &[u64]) -> Self {
        Self {
            pages: sizes.iter().map(|&size| Page::new("200 OK", size)).collect(),
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
            return self.pages.first().unwrap_or(&self.missing);
        }
        let name = name.split(|&b| b == b'.').next().unwrap_or_default();
        let size = std::str::from_utf8(name).ok().and_then(|name| crate::units::size(name).ok());
        self.pages.iter().find(|page| Some(page.size) == size).unwrap_or(&self.missing)
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
