//! The bytes of a request, made once and sent many times.
//!
//! Owns: heads of requests in canonical form, with their bodies.
//! Never: sends; lets a header smuggle a line.
//! Driven by: `plan` before the run; scripts through `wrk.format`.

use weir_wire::h2::Fields;

/// What is sent at once: one request, or several that a script joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shot {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Answers that are to come.
    pub answers: u32,
    /// Whether the requests are HEAD, whose answers have no body.
    pub head: bool,
}

impl Shot {
    /// What a script gave: one request, or several joined.
    ///
    /// # Errors
    /// What is wrong with it, in a few words.
    pub fn joined(bytes: Vec<u8>) -> Result<Self, String> {
        let (mut at, mut answers, mut heads) = (0, 0, 0);
        while at < bytes.len() {
            let (head, length) = one_request(&bytes[at..])?;
            answers += 1;
            heads += u32::from(head);
            at += length;
        }
        if answers == 0 {
            return Err("an empty request".into());
        }
        if heads > 0 && heads < answers {
            return Err("HEAD requests and others in one batch".into());
        }
        Ok(Self { bytes, answers, head: heads > 0 })
    }
}

/// Whether the request that `bytes` begins with is HEAD, and how long it is.
fn one_request(bytes: &[u8]) -> Result<(bool, usize), String> {
    let end = memchr::memmem::find(bytes, b"\r\n\r\n").ok_or("an incomplete request")? + 4;
    let mut length = 0;
    for line in bytes[..end].split(|&b| b == b'\n').skip(1) {
        let Some((name, value)) = line.iter().position(|&b| b == b':').map(|at| line.split_at(at)) else {
            continue;
        };
        let value = value[1..].trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            let text = std::str::from_utf8(value).unwrap_or_default();
            length = text.parse().map_err(|_| "a Content-Length that is no number")?;
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            // Where such a body ends is the script's business: it is the last of its batch.
            length = bytes.len() - end;
        }
    }
    if bytes.len() - end < length {
        return Err("an incomplete request".into());
    }
    Ok((bytes.starts_with(b"HEAD "), end + length))
}

/// What a request is made of.
#[derive(Debug, Clone, Default)]
pub struct Request<'a> {
    /// The method.
    pub method: &'a str,
    /// Path and query.
    pub path: &'a str,
    /// The Host field, unless `headers` has one.
    pub authority: &'a str,
    /// Fields in order.
    pub headers: &'a [(String, String)],
    /// The body; `None` for none, which is not the same as an empty one.
    pub body: Option<&'a [u8]>,
    /// Ask the server to close the connection.
    pub close: bool,
}

/// Reads a header as `-H` has it: `Name: value`.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn header(text: &str) -> Result<(String, String), String> {
    let expected = || format!("`{text}` is no header such as `Name: value`");
    let (name, value) = text.split_once(':').ok_or_else(expected)?;
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(token) {
        return Err(expected());
    }
    if value.contains(['\r', '\n', '\0']) {
        return Err(format!("`{name}`: a value has no line breaks"));
    }
    Ok((name.to_owned(), value.trim().to_owned()))
}

impl Request<'_> {
    /// The request's bytes.
    #[must_use]
    pub fn build(&self) -> Shot {
        let has = |wanted: &str| self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let mut bytes = Vec::with_capacity(256 + self.body.map_or(0, <[u8]>::len));
        let mut line = |parts: &[&str]| {
            for part in parts {
                bytes.extend_from_slice(part.as_bytes());
            }
            bytes.extend_from_slice(b"\r\n");
        };
        line(&[self.method, " ", self.path, " HTTP/1.1"]);
        if !has("host") {
            line(&["Host: ", self.authority]);
        }
        for (name, value) in self.headers {
            line(&[name, ": ", value]);
        }
        if let Some(body) = self.body
            && !has("content-length")
            && !has("transfer-encoding")
        {
            line(&["Content-Length: ", &body.len().to_string()]);
        }
        if self.close && !has("connection") {
            line(&["Connection: close"]);
        }
        line(&[]);
        bytes.extend_from_slice(self.body.unwrap_or_default());
        Shot { bytes, answers: 1, head: self.method.eq_ignore_ascii_case("HEAD") }
    }
}

/// A request on an HTTP/2 stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamShot {
    /// Its head.
    pub fields: Fields,
    /// Its body.
    pub body: Vec<u8>,
    /// Whether it is HEAD.
    pub head: bool,
}

impl Request<'_> {
    /// The request as HTTP/2 has it. Fields of a connection of HTTP/1 are left out (RFC 9113 §8.2.2), `Host` becomes
    /// `:authority`.
    #[must_use]
    pub fn stream(&self, scheme: &str) -> StreamShot {
        let host = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let authority = host.map_or(self.authority, |(_, value)| value);
        let mut fields = Fields::new();
        fields.push(b":method", self.method.as_bytes());
        fields.push(b":scheme", scheme.as_bytes());
        fields.push(b":authority", authority.as_bytes());
        fields.push(b":path", self.path.as_bytes());
        let mut has_length = false;
        for (name, value) in self.headers {
            let name = name.to_ascii_lowercase();
            has_length |= name == "content-length";
            match name.as_str() {
                "host" | "connection" | "proxy-connection" | "keep-alive" | "transfer-encoding"
                | "upgrade" => {}
                "authorization" | "proxy-authorization" | "cookie" => {
                    fields.push_sensitive(name.as_bytes(), value.as_bytes());
                }
                _ => fields.push(name.as_bytes(), value.as_bytes()),
            }
        }
        let body = self.body.unwrap_or_default().to_vec();
        if self.body.is_some() && !has_length {
            fields.push(b"content-length", body.len().to_string().as_bytes());
        }
        StreamShot { fields, body, head: self.method.eq_ignore_ascii_case("HEAD") }
    }
}

/// Makes `headers` and `body` those of a gRPC call: the body is one message, encoded, and gets its prefix (gRPC over
/// HTTP/2, "Length-Prefixed-Message").
///
/// # Errors
/// The path is not `/package.Service/Method`, or the message is too long.
pub fn grpc(
    path: &str,
    headers: &mut Vec<(String, String)>,
    body: &mut Option<Vec<u8>>,
) -> Result<(), String> {
    let named = path.strip_prefix('/').and_then(|rest| rest.split_once('/'));
    if named.is_none_or(|(service, method)| service.is_empty() || method.is_empty()) {
        return Err(format!("`{path}` calls nothing: /package.Service/Method is wanted with --grpc"));
    }
    let message = body.take().unwrap_or_default();
    let length =
        u32::try_from(message.len()).map_err(|_| "a gRPC message is shorter than 4 GB".to_owned())?;
    let mut framed = Vec::with_capacity(message.len() + 5);
    // Not compressed.
    framed.push(0);
    framed.extend_from_slice(&length.to_be_bytes());
    framed.extend_from_slice(&message);
    *body = Some(framed);
    for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")] {
        if !headers.iter().any(|(its, _)| its.eq_ignore_ascii_case(name)) {
            headers.push((name.to_owned(), value.to_owned()));
        }
    }
    Ok(())
}

/// A cycle over `weights` in which each place comes as often as its weight, spread evenly.
#[must_use]
pub fn cycle(weights: &[u32]) -> Vec<usize> {
    if weights.iter().all(|weight| Some(weight) == weights.first()) {
        return (0..weights.len()).collect();
    }
    let gcd = |mut a: u32, mut b: u32| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let unit = weights.iter().fold(0, |all, &weight| gcd(all, weight)).max(1);
    let weights: Vec<i64> = weights.iter().map(|&weight| i64::from(weight / unit)).collect();
    let sum: i64 = weights.iter().sum();
    let mut credit = vec![0_i64; weights.len()];
    (0..sum)
        .map(|_| {
            let mut best = 0;
            for (at, weight) in weights.iter().enumerate() {
                credit[at] += weight;
                if credit[at] > credit[best] {
                    best = at;
                }
            }
            credit[best] -= sum;
            best
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_canonical() {
        let headers = [("X-A".to_owned(), "1".to_owned())];
        let get =
            Request { method: "GET", path: "/a", authority: "h:1", headers: &headers, ..Request::default() };
        assert_eq!(get.build().bytes, b"GET /a HTTP/1.1\r\nHost: h:1\r\nX-A: 1\r\n\r\n");
        let post = Request { method: "POST", body: Some(b"xy"), close: true, ..get.clone() };
        let text = String::from_utf8(post.build().bytes).unwrap();
        assert!(text.ends_with("Content-Length: 2\r\nConnection: close\r\n\r\nxy"), "{text}");
        let host = [("host".to_owned(), "other".to_owned())];
        let other = Request { headers: &host, method: "HEAD", ..get };
        assert_eq!(other.build().bytes, b"HEAD /a HTTP/1.1\r\nhost: other\r\n\r\n");
        assert!(other.build().head);
    }

    #[test]
    fn streams_leave_out_what_is_of_a_connection() {
        let headers = [("X-A", "1"), ("Connection", "close"), ("Host", "other"), ("Cookie", "c")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let post = Request {
            method: "POST",
            path: "/a",
            authority: "h:1",
            headers: &headers,
            body: Some(b"xy"),
            close: true,
        };
        let text: Vec<String> = post
            .stream("https")
            .fields
            .iter()
            .map(|field| [field.name, field.value].map(String::from_utf8_lossy).join("="))
            .collect();
        let expected = [
            ":method=POST",
            ":scheme=https",
            ":authority=other",
            ":path=/a",
            "x-a=1",
            "cookie=c",
            "content-length=2",
        ];
        assert_eq!(text, expected);
    }

    #[test]
    fn a_grpc_call_has_a_prefix_and_its_fields() {
        let (mut headers, mut body) = (vec![("TE".to_owned(), "trailers".to_owned())], Some(b"abc".to_vec()));
        grpc("/pkg.Svc/Do", &mut headers, &mut body).unwrap();
        assert_eq!(body.as_deref(), Some(&b"\0\0\0\0\x03abc"[..]));
        assert_eq!(headers[1], ("content-type".into(), "application/grpc".into()));
        assert_eq!(headers.len(), 2);
        for bad in ["/", "/a", "/a/", "//b"] {
            assert!(grpc(bad, &mut Vec::new(), &mut None).is_err(), "{bad}");
        }
    }

    #[test]
    fn joined_requests_are_counted() {
        let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let post = "POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc";
        let count = |text: String| Shot::joined(text.into_bytes()).map(|shot| (shot.answers, shot.head));
        assert_eq!(count(format!("{get}{post}{get}")), Ok((3, false)));
        assert_eq!(count("HEAD / HTTP/1.1\r\n\r\n".into()), Ok((1, true)));
        for bad in [String::new(), get[..20].into(), post[..post.len() - 1].into()] {
            assert!(count(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn headers_cannot_smuggle() {
        assert_eq!(header("A:  b "), Ok(("A".into(), "b".into())));
        for bad in ["novalue", ": x", "a b: c", "A: b\r\nC: d"] {
            assert!(header(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn weights_are_spread() {
        assert_eq!(cycle(&[1]), [0]);
        assert_eq!(cycle(&[3, 1]), [0, 0, 1, 0]);
        let six = cycle(&[20, 10, 30]);
        assert_eq!((six.len(), six.iter().filter(|&&x| x == 2).count()), (6, 3));
    }
}
