//! A check's request in HTTP/2.
//!
//! Owns: a connection with one stream, from the preface to the end of the answer.
//! Never: decides what an answer means.
//! Driven by: `script`, `grpc`.

use weir_expr::check::CheckRequest;
use weir_rt::{Buf, Instant, MEDIUM};
use weir_wire::Conn;
use weir_wire::h2::{Config, Connection, Event, Fields, Head, HeadKind, Role};

use super::judge::Response;
use super::result::Failed;

/// Most bytes of an answer that are looked at.
const MAX_BODY: usize = 64 << 10;

/// An answer, and what came behind its body.
pub(super) struct Answer {
    pub(super) response: Response,
    pub(super) trailers: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Answer {
    /// A field of the trailers, or of the head where these stand for them.
    pub(super) fn last_field(&self, name: &[u8]) -> Option<&[u8]> {
        let mut all = self.trailers.iter().chain(&self.response.headers);
        all.find(|(found, _)| found == name).map(|(_, value)| value.as_slice())
    }
}

/// Sends the request of a check.
pub(super) async fn ask(
    conn: &Conn,
    request: &CheckRequest,
    tls: bool,
    due: Instant,
) -> Result<Response, Failed> {
    let mut list = Fields::new();
    list.push(b":method", request.method.as_bytes());
    list.push(b":scheme", if tls { b"https" } else { b"http" });
    list.push(b":path", request.target.as_bytes());
    let mut fields = Vec::new();
    for (name, value) in &request.headers {
        match name.to_ascii_lowercase().as_str() {
            "host" => list.push(b":authority", value.as_bytes()),
            // It is of HTTP/1 (RFC 9113 §8.2.2).
            "connection" => {}
            name => fields.push((name.to_owned(), value)),
        }
    }
    fields.iter().for_each(|(name, value)| list.push(name.as_bytes(), value.as_bytes()));
    Ok(exchange(conn, &list, request.body.as_bytes(), due).await?.response)
}

/// Sends a request on a fresh connection and receives the answer. Whoever calls bounds its time; `due` is when that ends.
pub(super) async fn exchange(
    conn: &Conn,
    list: &Fields,
    body: &[u8],
    due: Instant,
) -> Result<Answer, Failed> {
    let mut wire = Connection::new(Role::Client, Config { max_streams: 1, ..Config::default() });
    let stream = wire.open(list, body.is_empty(), false).map_err(|_| "no stream can be opened")?;
    let mut left = body;
    let mut done = body.is_empty();
    let mut input = Buf::new();
    let response = Response { status: 0, headers: Vec::new(), body: Vec::new() };
    let mut answer = Answer { response, trailers: Vec::new() };
    while weir_rt::now() < due {
        if !done {
            // What it does not want it tells by its answer.
            let sent = wire.send_data(stream, left, true).unwrap_or(left.len());
            left = &left[sent..];
            done = left.is_empty();
        }
        while wire.has_output() {
            let output = wire.output().take();
            conn.write_slice(&output).await.map_err(|error| Failed::new("L4CON", error.to_string()))?;
            while wire.next_writable().is_some() {}
        }
        match conn.read_up_to(&mut input, MEDIUM).await {
            Ok(0) => return Err(Failed::new("L7RSP", "it closed before its answer was whole")),
            Ok(_) => {}
            Err(error) => return Err(Failed::new("L4CON", error.to_string())),
        }
        loop {
            let received = wire.receive(&input, weir_rt::now());
            let received =
                received.map_err(|fault| Failed::new("L7RSP", format!("invalid HTTP/2: {fault}")))?;
            let Some(event) = received.event else {
                input.consume(received.used);
                break;
            };
            let ended = match event {
                Event::Head { kind: HeadKind::Interim, .. } => false,
                Event::Head { end, .. } => {
                    answer.response.status = wire.head().status();
                    answer.response.headers = fields_of(wire.head());
                    end
                }
                Event::Data { stream, range, end } => {
                    let n = range.len();
                    answer.response.body.extend_from_slice(&input[range]);
                    wire.release(stream, n);
                    end || answer.response.body.len() > MAX_BODY
                }
                Event::Trailers { .. } => {
                    answer.trailers = fields_of(wire.head());
                    true
                }
                Event::Reset { reason, .. } => {
                    return Err(Failed::new("L7RSP", format!("it reset the request: {reason}")));
                }
                Event::GoAway { reason } => {
                    return Err(Failed::new("L7RSP", format!("it takes no request: {reason}")));
                }
                Event::TooLarge { .. } => return Err(Failed::new("L7RSP", "its head is too large")),
                // Only told of requests.
                Event::Malformed { .. } => {
                    return Err(Failed::new("L7RSP", "invalid HTTP/2: a malformed head"));
                }
                Event::Settings | Event::Pong(_) => false,
            };
            input.consume(received.used);
            if ended {
                return Ok(answer);
            }
        }
    }
    Err(Failed::new("L7TOUT", "no answer in time"))
}

fn fields_of(head: &Head) -> Vec<(Vec<u8>, Vec<u8>)> {
    head.fields().map(|field| (field.name.to_vec(), field.value.to_vec())).collect()
}
