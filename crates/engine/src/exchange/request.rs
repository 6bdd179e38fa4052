//! The request of an exchange, as received and as the program has changed it.
//!
//! Owns: method, target, path, query, host, fields.
//! Never: reads a socket; the connection fills it, whatever HTTP version it came in.
//! Driven by: `http::connection` (fills), the program (edits), actions (read).
//! Why: one form for all versions; buffers are used again for the next request of the worker.

use weir_http::{Authority, Method, Version};

use crate::exchange::fields::Fields;

/// One request.
#[derive(Default)]
pub(crate) struct Request {
    /// Its method's number; `method_text` spells it.
    pub(crate) method: Method,
    /// Spelling of the method as received or as set.
    pub(crate) method_text: Vec<u8>,
    /// Version it came in.
    pub(crate) version: Version,
    /// The request line as received.
    pub(crate) line: Vec<u8>,
    /// The target as received (origin form: with query).
    pub(crate) target: Vec<u8>,
    /// Path of the target, not decoded; changed by `SetPath`.
    pub(crate) raw_path: Vec<u8>,
    /// Path, decoded and normalised; changed by rewrites.
    pub(crate) path: Vec<u8>,
    /// Query without `?`.
    pub(crate) query: Vec<u8>,
    /// Host, lower case, without port; empty if none was named.
    pub(crate) host: Vec<u8>,
    /// Port named with the host.
    pub(crate) port: Option<u16>,
    /// Fields.
    pub(crate) fields: Fields,
    /// `raw_path` and `query` still say what `path` says: the upstream request can pass them unchanged.
    pub(crate) path_is_raw: bool,
    /// Declared length of the body; `None` if there is none or it is chunked.
    pub(crate) content_length: Option<u64>,
    /// The body is chunked.
    pub(crate) chunked: bool,
    /// Bytes of head received; the body is added as it comes.
    pub(crate) bytes: u64,
    /// It waited behind another request in the same read.
    pub(crate) pipelined: bool,
    /// An upgrade the engine may pass on (`websocket`, …); `h2c` never.
    pub(crate) upgrade: bool,
    /// The client asked for `100 Continue`.
    pub(crate) expects_continue: bool,
}

impl Request {
    /// Takes the host of an authority over: in lower case, without the dot of a rooted name.
    pub(crate) fn set_host(&mut self, authority: &Authority<'_>) {
        self.host.extend_from_slice(authority.host);
        self.host.make_ascii_lowercase();
        if self.host.last() == Some(&b'.') {
            self.host.pop();
        }
        self.port = authority.port;
    }

    /// Forgets the last request, keeps the memory.
    pub(crate) fn clear(&mut self) {
        let Self {
            method,
            method_text,
            version,
            line,
            target,
            raw_path,
            path,
            query,
            host,
            port,
            fields,
            path_is_raw,
            content_length,
            chunked,
            bytes,
            pipelined,
            upgrade,
            expects_continue,
        } = self;
        *method = Method::default();
        *version = Version::default();
        for text in [method_text, line, target, raw_path, path, query, host] {
            text.clear();
        }
        fields.clear();
        *port = None;
        *path_is_raw = true;
        *content_length = None;
        *chunked = false;
        *bytes = 0;
        *pipelined = false;
        *upgrade = false;
        *expects_continue = false;
    }

    /// Makes `other` a GET of a path with the same fields and no body. What the client sent as target stays, for
    /// `$request_uri`.
    pub(crate) fn copy_for(&self, path: &[u8], other: &mut Request) {
        other.method = Method::Get;
        other.method_text.extend_from_slice(b"GET");
        other.version = self.version;
        other.line.extend_from_slice(&self.line);
        other.target.extend_from_slice(&self.target);
        other.raw_path.extend_from_slice(&self.raw_path);
        other.path.extend_from_slice(path);
        other.path_is_raw = false;
        other.host.extend_from_slice(&self.host);
        other.port = self.port;
        other.fields = self.fields.clone();
        other.fields.remove(weir_http::HeaderId::ContentLength);
        other.fields.remove(weir_http::HeaderId::TransferEncoding);
    }

    /// True if the message has a body, even an empty one.
    pub(crate) fn has_body(&self) -> bool {
        self.chunked || self.content_length.is_some_and(|length| length > 0)
    }

    /// Value of a query argument, not decoded; names are compared without case, the first wins.
    pub(crate) fn arg(&self, name: &[u8]) -> Option<&[u8]> {
        self.query.split(|&b| b == b'&').find_map(|pair| {
            let at = pair.iter().position(|&b| b == b'=')?;
            pair[..at].eq_ignore_ascii_case(name).then(|| &pair[at + 1..])
        })
    }
}
