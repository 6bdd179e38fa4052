//! Checks of application servers: FastCGI, uwsgi, SCGI and memcached.
//!
//! Owns: one request without a body, and the answer until the server closes or ends it.
//! Never: knows how records, lengths and lines are spelt (`weir_http`).
//! Driven by: `script`, which bounds the time.

use weir_expr::check::ApplicationCheck;
use weir_expr::settings::Spoken;
use weir_http::fastcgi::{self, CgiHead, Decoder, FastCgiEvent};
use weir_http::gateway::{self, Found};
use weir_http::{HeadRules, Parsed};
use weir_rt::{Buf, MEDIUM};
use weir_wire::Conn;

use super::judge::Response;
use super::result::Failed;

/// Most bytes of an answer that are looked at.
const MOST: usize = 128 << 10;

/// Asks, and receives the answer.
pub(super) async fn ask(conn: &Conn, asked: &ApplicationCheck) -> Result<Response, Failed> {
    let io = |error: std::io::Error| Failed::new("L4CON", error.to_string());
    conn.write_slice(&request(asked)?).await.map_err(io)?;
    let mut reading = Reading::of(asked);
    let mut input = Buf::new();
    loop {
        if input.len() + reading.text.len() > MOST {
            return Err("its answer is too long".into());
        }
        let ended = conn.read_up_to(&mut input, MEDIUM).await.map_err(io)? == 0;
        if let Some(response) = reading.take_in(&mut input, ended)? {
            return Ok(response);
        }
        if ended {
            return Err("it closed before its answer was whole".into());
        }
    }
}

fn request(asked: &ApplicationCheck) -> Result<Vec<u8>, Failed> {
    let (mut out, mut pairs) = (Vec::new(), Vec::new());
    let params = asked.params.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    match asked.spoken {
        Spoken::FastCgi => {
            fastcgi::begin_request(&mut out, false);
            params.for_each(|(name, value)| fastcgi::param(&mut pairs, name, value));
            fastcgi::params(&mut out, &pairs);
            // There is no body.
            fastcgi::end_stream(&mut out);
        }
        Spoken::Uwsgi(one, two) => {
            for (name, value) in params {
                gateway::uwsgi_param(&mut pairs, name, value).map_err(|_| "its parameters are too long")?;
            }
            let head =
                gateway::uwsgi_head((one, two), pairs.len()).map_err(|_| "its parameters are too long")?;
            out.extend_from_slice(&head);
            out.extend_from_slice(&pairs);
        }
        Spoken::Scgi => {
            for (name, value) in params.filter(|(name, _)| *name != b"CONTENT_LENGTH") {
                gateway::scgi_param(&mut pairs, name, value);
            }
            gateway::scgi_head(&mut out, 0, &pairs);
        }
        Spoken::Memcached { .. } => out = [b"get ", &key(asked)?[..], b"\r\n"].concat(),
    }
    Ok(out)
}

/// The key as memcached spells it.
fn key(asked: &ApplicationCheck) -> Result<Vec<u8>, Failed> {
    gateway::memcached_key(asked.key.as_bytes()).ok_or_else(|| "its key is too long".into())
}

/// An answer while it comes.
struct Reading<'a> {
    asked: &'a ApplicationCheck,
    decoder: Decoder,
    head: CgiHead,
    /// Head and body, out of their records.
    text: Vec<u8>,
}

impl<'a> Reading<'a> {
    fn of(asked: &'a ApplicationCheck) -> Self {
        let head = match asked.spoken {
            Spoken::FastCgi => CgiHead::new(),
            _ => CgiHead::with_status_line(),
        };
        Self { asked, decoder: Decoder::new(), head, text: Vec::new() }
    }

    /// Takes what was read; the response once it is whole. `ended`: no more comes.
    fn take_in(&mut self, input: &mut Buf, ended: bool) -> Result<Option<Response>, Failed> {
        let whole = match self.asked.spoken {
            Spoken::Memcached { .. } => return self.value(input),
            Spoken::FastCgi => self.records(input)?,
            Spoken::Uwsgi(..) | Spoken::Scgi => {
                self.text.extend_from_slice(input);
                input.clear();
                ended
            }
        };
        if !whole {
            return Ok(None);
        }
        match self.head.parse(&self.text, &HeadRules::default()) {
            Ok(Parsed::Whole(length)) => {
                let headers = self.head.headers(&self.text);
                let headers =
                    headers.iter().map(|(_, name, value)| (name.to_vec(), value.to_vec())).collect();
                let body = self.text[length..].to_vec();
                Ok(Some(Response { status: self.head.status(), headers, body }))
            }
            Ok(Parsed::NeedMore) => Err("it closed before its head was whole".into()),
            Err(error) => Err(Failed::new("L7RSP", format!("its head is invalid: {}", error.as_str()))),
        }
    }

    /// Whether the last record was among those that came.
    fn records(&mut self, input: &mut Buf) -> Result<bool, Failed> {
        loop {
            let event = self.decoder.next(input).map_err(|error| Failed::new("L7RSP", error.as_str()))?;
            match event {
                FastCgiEvent::Stdout(range) => {
                    self.text.extend_from_slice(&input[range.clone()]);
                    input.consume(range.end);
                }
                FastCgiEvent::Stderr(range) => input.consume(range.end),
                FastCgiEvent::NeedMore(consumed) => {
                    input.consume(consumed);
                    return Ok(false);
                }
                FastCgiEvent::End { consumed, .. } => {
                    input.consume(consumed);
                    return Ok(true);
                }
            }
        }
    }

    /// A key of memcached is there, which is as good as 200, or it is not: 404.
    fn value(&self, input: &Buf) -> Result<Option<Response>, Failed> {
        let found = gateway::memcached_answer(input, &key(self.asked)?);
        let response = |status, body| Response { status, headers: Vec::new(), body };
        Ok(match found.map_err(|_| "its answer is none of memcached's")? {
            Found::NeedMore => None,
            Found::Value { line, length, .. } => {
                let end = line.saturating_add(usize::try_from(length).unwrap_or(MOST));
                if end > MOST {
                    return Err("its answer is too long".into());
                }
                input.get(line..end).map(|body| response(200, body.to_vec()))
            }
            Found::Nothing(_) => Some(response(404, Vec::new())),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    fn asked(spoken: Spoken) -> ApplicationCheck {
        ApplicationCheck { spoken, params: vec![("A".into(), "b".into())], key: "k".into() }
    }

    fn read(spoken: Spoken, pieces: &[&[u8]]) -> Result<Option<(u16, Vec<u8>)>, String> {
        let asked = asked(spoken);
        let mut reading = Reading::of(&asked);
        let mut input = Buf::new();
        for (at, piece) in pieces.iter().enumerate() {
            input.extend(piece);
            let found = reading.take_in(&mut input, at + 1 == pieces.len()).map_err(|failed| failed.why)?;
            if let Some(found) = found {
                return Ok(Some((found.status, found.body)));
            }
        }
        Ok(None)
    }

    #[test]
    fn answers_are_read_in_pieces() {
        let scgi: &[&[u8]] = &[b"Status: 503 No\r\nX: y\r", b"\n\r\nbody", b""];
        assert_eq!(read(Spoken::Scgi, scgi).unwrap(), Some((503, b"body".to_vec())));
        let uwsgi: &[&[u8]] = &[b"HTTP/1.1 204 No\r\n\r\n", b""];
        assert_eq!(read(Spoken::Uwsgi(0, 0), uwsgi).unwrap(), Some((204, Vec::new())));
        let memcached = Spoken::Memcached { gzip_flag: 0 };
        assert_eq!(
            read(memcached, &[b"VALUE k 0 2\r\nh", b"i\r\nEND\r\n"]).unwrap(),
            Some((200, b"hi".to_vec()))
        );
        assert_eq!(read(memcached, &[b"END\r\n"]).unwrap(), Some((404, Vec::new())));
        assert!(read(memcached, &[b"ERROR\r\n"]).is_err());
        assert!(read(Spoken::Scgi, &[b"Status: 200", b""]).is_err());
    }

    #[test]
    fn requests_hold_their_parameters() {
        assert_eq!(request(&asked(Spoken::Scgi)).unwrap(), b"21:CONTENT_LENGTH\x000\0A\0b\0,");
        assert_eq!(request(&asked(Spoken::Uwsgi(0, 0))).unwrap(), b"\0\x06\0\0\x01\0A\x01\0b");
        assert_eq!(request(&asked(Spoken::Memcached { gzip_flag: 0 })).unwrap(), b"get k\r\n");
    }
}
