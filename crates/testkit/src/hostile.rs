//! Misbehaving peers, by name.
//!
//! Owns: answers that no origin should send, and requests that no client should, each with its verdict from the RFCs.
//! Never: holds what is merely unusual: everything here must be refused.
//! Driven by: end-to-end tests that walk the lists.
//! Why: a list with names grows by one line when a new trick is found, and every proxy path meets it at once.

use crate::origin::Origin;

/// An answer that a proxy must not pass on.
#[derive(Clone, Copy, Debug)]
pub struct HostileAnswer {
    /// What to call it.
    pub name: &'static str,
    /// What the origin sends before it closes.
    pub bytes: &'static [u8],
}

/// Answers for which RFC 9112 leaves a proxy only 502 and a closed upstream connection.
pub const MALFORMED_ANSWERS: &[HostileAnswer] = &[
    HostileAnswer { name: "http/0.9", bytes: b"<html>no head at all</html>" },
    HostileAnswer { name: "nothing", bytes: b"" },
    HostileAnswer { name: "half a status line", bytes: b"HTTP/1.1 20" },
    HostileAnswer { name: "half a head", bytes: b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" },
    HostileAnswer { name: "version 2 in text", bytes: b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok" },
    HostileAnswer { name: "status of two digits", bytes: b"HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nok" },
    HostileAnswer { name: "status of letters", bytes: b"HTTP/1.1 abc OK\r\nContent-Length: 2\r\n\r\nok" },
    HostileAnswer {
        name: "two lengths",
        bytes: b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
    },
    HostileAnswer { name: "list of lengths", bytes: b"HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nok!" },
    HostileAnswer { name: "signed length", bytes: b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok" },
    HostileAnswer { name: "negative length", bytes: b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok" },
    HostileAnswer { name: "hex length", bytes: b"HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nok" },
    HostileAnswer {
        name: "overflowing length",
        bytes: b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nok",
    },
    HostileAnswer {
        name: "length and chunked",
        bytes:
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    },
    HostileAnswer {
        name: "unknown coding",
        bytes: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    },
    HostileAnswer {
        name: "space before the colon",
        bytes: b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
    },
    HostileAnswer {
        name: "NUL in a value",
        bytes: b"HTTP/1.1 200 OK\r\nX-A: a\0b\r\nContent-Length: 2\r\n\r\nok",
    },
    HostileAnswer {
        name: "bare CR in a value",
        bytes: b"HTTP/1.1 200 OK\r\nX-A: a\rb\r\nContent-Length: 2\r\n\r\nok",
    },
    HostileAnswer {
        name: "field without a colon",
        bytes: b"HTTP/1.1 200 OK\r\nnonsense\r\nContent-Length: 2\r\n\r\nok",
    },
    HostileAnswer {
        name: "field without a name",
        bytes: b"HTTP/1.1 200 OK\r\n: x\r\nContent-Length: 2\r\n\r\nok",
    },
    HostileAnswer {
        name: "LF after the status line only",
        bytes: b"HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\nok",
    },
    HostileAnswer {
        name: "LF among fields that end in CRLF",
        bytes: b"HTTP/1.1 200 OK\r\nX-A: a\nContent-Length: 2\r\n\r\nok",
    },
    HostileAnswer {
        name: "CRLF among fields that end in LF",
        bytes: b"HTTP/1.1 200 OK\nX-A: a\r\nContent-Length: 2\n\nok",
    },
    HostileAnswer {
        name: "CRLF as the end of a head of LF",
        bytes: b"HTTP/1.1 200 OK\nContent-Length: 2\n\r\nok",
    },
    HostileAnswer {
        name: "LF as the end of a head of CRLF",
        bytes: b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\nok",
    },
    HostileAnswer { name: "LF CR", bytes: b"HTTP/1.1 200 OK\n\rContent-Length: 2\n\r\n\rok" },
    HostileAnswer { name: "CR alone", bytes: b"HTTP/1.1 200 OK\rContent-Length: 2\r\rok" },
    HostileAnswer {
        name: "folded field in a head of LF",
        bytes: b"HTTP/1.1 200 OK\nX-A: a\n b\nContent-Length: 2\n\nok",
    },
    HostileAnswer {
        name: "switch that nobody asked for",
        bytes: b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    },
];

/// Answers whose head is sound and whose body is cut or broken: the client may see the head, never a body that looks whole.
pub const CUT_BODIES: &[HostileAnswer] = &[
    HostileAnswer {
        name: "short of its length",
        bytes: b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this",
    },
    HostileAnswer {
        name: "chunks without an end",
        bytes: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nonly\r\n",
    },
    HostileAnswer {
        name: "cut within a chunk",
        bytes: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nonly this",
    },
    HostileAnswer {
        name: "chunk size of nonsense",
        bytes: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nonly\r\nzz\r\nmore\r\n0\r\n\r\n",
    },
    HostileAnswer {
        name: "chunk longer than its size",
        bytes: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nonly\r\n0\r\n\r\n",
    },
];

impl HostileAnswer {
    /// An origin that reads a request, answers so and closes. Failing to read on is no fault: the proxy may have hung up.
    #[must_use]
    pub fn origin(self) -> Origin {
        Origin::script(|c| c.expect("*").send(self.bytes).close())
    }
}

/// A request that must be refused, and never reach an origin.
#[derive(Clone, Copy, Debug)]
pub struct HostileRequest {
    /// What to call it.
    pub name: &'static str,
    /// What the client sends.
    pub bytes: &'static [u8],
    /// The status of the refusal.
    pub status: u16,
}

const fn bad(name: &'static str, bytes: &'static [u8]) -> HostileRequest {
    HostileRequest { name, bytes, status: 400 }
}

/// Requests that RFC 9112 wants refused, most of them ways to make two servers read two different messages.
pub const BAD_REQUESTS: &[HostileRequest] = &[
    bad(
        "both lengths",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    bad("two lengths", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"),
    bad("list of lengths", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 6\r\n\r\nhello!"),
    bad("signed length", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello"),
    bad("negative length", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\nhello"),
    bad("hex length", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\nhello"),
    bad("empty length", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\nhello"),
    bad(
        "overflowing length",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\nhello",
    ),
    bad(
        "chunked not last",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    ),
    bad(
        "chunked twice",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    ),
    bad("chunked in HTTP/1.0", b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    bad("space before the colon", b"GET / HTTP/1.1\r\nHost : a\r\n\r\n"),
    bad("folded field", b"GET / HTTP/1.1\r\nHost: a\r\nX-A: b\r\n c\r\n\r\n"),
    bad("space before the first field", b"GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
    bad("bare CR in a value", b"GET / HTTP/1.1\r\nHost: a\r\nX-A: b\rc\r\n\r\n"),
    bad("NUL in a value", b"GET / HTTP/1.1\r\nHost: a\r\nX-A: b\0c\r\n\r\n"),
    bad("field without a name", b"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n"),
    bad("field without a colon", b"GET / HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n"),
    bad("no Host", b"GET / HTTP/1.1\r\n\r\n"),
    bad("two Hosts", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    bad("Host that is none", b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    bad("Host of dots", b"GET / HTTP/1.1\r\nHost: ...\r\n\r\n"),
    bad("Host with a user", b"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"),
    bad("no version", b"GET /\r\nHost: a\r\n\r\n"),
    bad("space in the target", b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"),
    bad("method that is none", b"G{T / HTTP/1.1\r\nHost: a\r\n\r\n"),
    bad("target that is none", b"GET a HTTP/1.1\r\nHost: a\r\n\r\n"),
    bad("LF after the request line only", b"GET / HTTP/1.1\nHost: a\r\n\r\n"),
    bad("LF among fields that end in CRLF", b"GET / HTTP/1.1\r\nHost: a\nX-A: b\r\n\r\n"),
    bad("LF as the end of a head of CRLF", b"GET / HTTP/1.1\r\nHost: a\r\n\n"),
    bad("CRLF as the end of a head of LF", b"GET / HTTP/1.1\nHost: a\n\r\n"),
    bad("CRLF among fields that end in LF", b"GET / HTTP/1.1\nHost: a\r\nX-A: b\n\n"),
    bad("CRLF after the request line only", b"GET / HTTP/1.1\r\nHost: a\n\n"),
    bad("empty LF line before a head of CRLF", b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    bad("empty CRLF line before a head of LF", b"\r\nGET / HTTP/1.1\nHost: a\n\n"),
    bad("LF CR", b"GET / HTTP/1.1\n\rHost: a\n\r\n\r"),
    bad("CR alone", b"GET / HTTP/1.1\rHost: a\r\r"),
    bad("CR alone in a head of LF", b"GET / HTTP/1.1\nHost: a\rX-A: b\n\n"),
    bad("folded field in a head of LF", b"GET / HTTP/1.1\nHost: a\nX-A: b\n c\n\n"),
    bad(
        "both lengths in a head of LF",
        b"POST / HTTP/1.1\nHost: a\nContent-Length: 5\nTransfer-Encoding: chunked\n\n0\r\n\r\n",
    ),
    bad(
        "request behind an empty LF line",
        b"GET / HTTP/1.1\r\nHost: a\r\nX-A: b\n\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    bad("method of 33 characters", b"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1\r\nHost: a\r\n\r\n"),
];

/// Bodies whose chunks are broken: the head may reach an origin, a whole body may not.
pub const BAD_CHUNKS: &[HostileRequest] = &[
    bad("size of nonsense", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n"),
    bad("signed size", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n"),
    bad("hex prefix", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n"),
    bad("overflowing size", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
    bad("no CRLF after the data", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n"),
    bad("bare LF after the size", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n"),
    bad("bare LF after the data", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n"),
    bad("bare LF behind the last chunk", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\n\r\n"),
    bad("bare LF as the end", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\n"),
    bad("bare LF in the trailers", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-A: b\n\r\n"),
    bad("chunks of LF behind a head of LF", b"POST / HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n5\nhello\n0\n\n"),
];
