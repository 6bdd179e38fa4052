//! Asking for the dashboard's document.
//!
//! Owns: one request on one connection, over TCP or a unix socket, with a bound on time and size.
//! Never: follows a redirect to another server; keeps a connection: a server that is being watched has no idle one for it.
//! Driven by: `top`.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::document::{Document, FORMAT};

/// For all of it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest document that is read.
const MOST: u64 = 256 << 20;

/// Where a dashboard is.
pub(super) struct Place {
    at: At,
    /// What the Host field says.
    host: String,
    /// Ends with a slash.
    path: String,
    headers: Vec<(String, String)>,
}

enum At {
    Tcp(String, u16),
    Unix(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            At::Tcp(..) => write!(f, "http://{}{}", self.host, self.path),
            At::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Place {
    /// Reads an address.
    ///
    /// # Errors
    /// One line that says what is wrong with it.
    pub(super) fn of(text: &str, path: &str, headers: &[String]) -> Result<Self, String> {
        let headers =
            headers.iter().map(|line| weir_loadgen::shot::header(line)).collect::<Result<_, _>>()?;
        if let Some(socket) = text.strip_prefix("unix:") {
            let path = below(path)?;
            return Ok(Self { at: At::Unix(socket.into()), host: "localhost".into(), path, headers });
        }
        if text.starts_with("https://") {
            return Err(
                "https is not spoken here: use the server's own address, a unix socket, or `ssh -L`".into()
            );
        }
        let rest = text.strip_prefix("http://").unwrap_or(text);
        let (authority, path) = rest.find('/').map_or((rest, path), |at| rest.split_at(at));
        if authority.contains('@') {
            return Err("a password does not belong into an address: use -H 'Authorization: …'".into());
        }
        let (name, port) = match authority.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => {
                let port = port.parse::<u16>().ok().filter(|port| *port > 0);
                (name, port.ok_or_else(|| format!("`{authority}` names no port"))?)
            }
            _ => (authority, 80),
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        if name.is_empty() {
            return Err(format!("`{text}` is no address such as http://127.0.0.1:8080/dashboard/"));
        }
        Ok(Self { at: At::Tcp(name.into(), port), host: authority.into(), path: below(path)?, headers })
    }

    fn request(&self) -> String {
        let named = |wanted: &str| self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let mut text = format!("GET {}status.json HTTP/1.0\r\n", self.path);
        if !named("host") {
            text.push_str(&format!("Host: {}\r\n", self.host));
        }
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text + "Accept: application/json\r\nConnection: close\r\n\r\n"
    }
}

/// A path as the request has it: what is in front of `status.json`.
fn below(path: &str) -> Result<String, String> {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    if !path.starts_with('/') || path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(format!("`{path}` is no path such as /dashboard/"));
    }
    let path = path.strip_suffix("status.json").unwrap_or(path);
    Ok(format!("{}/", path.trim_end_matches('/')))
}

/// The document of this moment.
///
/// # Errors
/// One line.
pub(super) fn document(place: &Place) -> Result<Box<Document>, String> {
    let answer = exchange(place).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!("{place}: no answer within 10 s"),
        _ => format!("{place}: {error}"),
    })?;
    let (head, body) = split(&answer).ok_or_else(|| format!("{place}: what answers does not speak HTTP"))?;
    let mut words = head.split(' ');
    let status = words.nth(1).unwrap_or_default();
    match status {
        "200" => {}
        "401" | "403" => return Err(format!("{place}: it may not be seen from here (status {status})")),
        "404" => return Err(format!("{place}: there is no dashboard (status 404)")),
        _ => return Err(format!("{place}: status {status}")),
    }
    let read = |error: serde_json::Error| format!("{place}: this is no status.json of Weir's ({error})");
    let document: Box<Document> = serde_json::from_slice(body).map_err(read)?;
    if document.format != FORMAT {
        return Err(format!("{place}: the format of its status.json is {}, not {FORMAT}", document.format));
    }
    Ok(document)
}

/// The first line of an answer, and its body.
fn split(answer: &[u8]) -> Option<(&str, &[u8])> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    Some((head.lines().next().filter(|line| line.starts_with("HTTP/1."))?, &answer[end + 4..]))
}

fn exchange(place: &Place) -> io::Result<Vec<u8>> {
    let end = Instant::now() + PATIENCE;
    match &place.at {
        At::Unix(path) => {
            let mut stream = UnixStream::connect(path)?;
            stream.set_write_timeout(Some(PATIENCE))?;
            stream.write_all(place.request().as_bytes())?;
            read(&mut stream, end, |stream, time| stream.set_read_timeout(Some(time)))
        }
        At::Tcp(name, port) => {
            let mut last = io::Error::other("the name has no address");
            for address in (name.as_str(), *port).to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, PATIENCE / 2) {
                    Ok(mut stream) => {
                        stream.set_write_timeout(Some(PATIENCE))?;
                        stream.write_all(place.request().as_bytes())?;
                        return read(&mut stream, end, |stream, time| stream.set_read_timeout(Some(time)));
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
    }
}

/// All that comes until the other side closes, within a time for all of it.
fn read<S: Read>(
    stream: &mut S,
    end: Instant,
    patience: impl Fn(&S, Duration) -> io::Result<()>,
) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut piece = [0; 16 << 10];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        patience(stream, left)?;
        match stream.read(&mut piece) {
            Ok(0) => return Ok(all),
            Ok(length) => all.extend_from_slice(&piece[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if all.len() as u64 > MOST {
            return Err(io::Error::other("the answer is too large"));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn addresses_are_read() {
        let line = |text: &str| {
            let place = Place::of(text, "/d", &["X: y".into()]).unwrap();
            let request = place.request();
            (place.to_string(), request.split("\r\nAccept").next().unwrap().replace("\r\n", "|"))
        };
        for (text, shown, request) in [
            ("http://a:81/x/status.json?y", "http://a:81/x/", "GET /x/status.json HTTP/1.0|Host: a:81|X: y"),
            ("a", "http://a/d/", "GET /d/status.json HTTP/1.0|Host: a|X: y"),
            ("http://[::1]:8/", "http://[::1]:8/", "GET /status.json HTTP/1.0|Host: [::1]:8|X: y"),
            ("unix:/run/w", "unix:/run/w", "GET /d/status.json HTTP/1.0|Host: localhost|X: y"),
        ] {
            assert_eq!(line(text), (shown.to_owned(), request.to_owned()), "{text}");
        }
        for (text, why) in [
            ("https://a/", "https"),
            ("http://u:p@a/", "password"),
            ("http://a:x/", "port"),
            ("http:///d", "no address"),
            ("http://a/\r\nX: y", "no path"),
        ] {
            assert!(Place::of(text, "/", &[]).err().unwrap().contains(why), "{text}");
        }
        assert!(Place::of("a", "/", &["nonsense".into()]).is_err());
        assert!(Place::of("unix:/x", "d", &[]).is_err());
    }

    #[test]
    fn answers_are_taken_apart() {
        assert_eq!(split(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n{}"), Some(("HTTP/1.1 200 OK", &b"{}"[..])));
        assert_eq!(split(b"SSH-2.0\r\n\r\n"), None);
        assert_eq!(split(b"HTTP/1.1 200 OK\r\n"), None);
    }
}
