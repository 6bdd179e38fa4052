//! HTTP/2 towards an endpoint: the request, with its body, and the answer's head. gRPC is this, too.
//!
//! Owns: what one attempt says, and how a head of HTTP/1 is spelt in HTTP/2.
//! Never: frames (`weir_wire::h2`), judges what a failure means (`attempt`), or carries the answer's body (the action does).
//! Driven by: [`Attempts`](super::Attempts).
//! Why the head is written as HTTP/1 has it first: which fields go, and that none of them smuggles anything, is decided in one
//! place (`request`).

mod link;

use weir_http::scan::{is_field_value, is_token};
use weir_plan::{HeadPiece, Proxy};
use weir_policy::retry::Failure;
use weir_rt::Timer;
use weir_wire::ClientConnection;
use weir_wire::h2::{self, OpenError};

pub(crate) use link::{Link, Turn};

use super::attempt::{Failed, Opened, Protocol, Stop};
use super::http1::takes_hints;
use super::request::{self, Asked, UpstreamBody};
use crate::exchange::{Downstream, Exchange};
use crate::worker::watch::Watch;

/// Most interim heads before an answer.
const MAX_INTERIMS: u32 = 16;

/// One request to endpoints that speak HTTP/2.
pub(crate) struct Http2<'a, D> {
    /// The client's half.
    pub(crate) down: &'a mut D,
    /// The action.
    pub(crate) proxy: &'a Proxy,
    /// The scheme that is told.
    pub(crate) secure: bool,
    /// How the body goes.
    pub(crate) body: UpstreamBody,
    /// The body comes from the client while it is sent.
    pub(crate) streaming: bool,
    /// Over the endpoint.
    pub(crate) timer: &'a Timer,
    /// Over the client.
    pub(crate) watch: &'a Watch,
}

impl<D: Downstream> Protocol for Http2<'_, D> {
    type Traffic = Exchange;
    type Link = Link;

    fn take_up(&mut self, opened: Opened) -> Link {
        Link::new(opened, self.proxy.settings.max_response_head)
    }

    fn is_usable(kept: &mut ClientConnection, look: bool) -> bool {
        link::is_usable(kept, look)
    }

    /// Sends the head. The body follows while the answer is waited for: it may come at any time.
    async fn send(&mut self, exchange: &mut Exchange, link: &mut Link) -> Result<(), Stop> {
        let list = self.head_list(exchange)?;
        let has_body = self.body != UpstreamBody::None;
        let to_head = exchange.upstream_method() == weir_http::Method::Head;
        match link.wire.open(&list, !has_body, to_head) {
            Ok(key) => link.key = Some(key),
            Err(error) => {
                let failure = if link.reused { Failure::StaleConnection } else { Failure::Io };
                let why = match error {
                    OpenError::Full => "upstream allows no request on a connection",
                    OpenError::Ending => "upstream takes no more requests on a connection",
                };
                return Err(Failed { failure, sent: false, why: why.to_owned() }.into());
            }
        }
        link.upload.done = !has_body;
        link.upload.streams = self.streaming;
        link.upload.most = self.streaming.then(|| exchange.route().settings.body.max_size).flatten();
        Ok(())
    }

    /// Waits for the final head, and sends the body meanwhile. Interim heads are forwarded.
    async fn head(&mut self, exchange: &mut Exchange, link: &mut Link) -> Result<Option<u16>, Stop> {
        loop {
            self.watch.reading(self.streaming && !link.is_sent());
            for (status, fields) in std::mem::take(&mut link.interims) {
                if status == 103 && !takes_hints(exchange) {
                    continue;
                }
                if let Err(error) = self.down.interim(status, &fields).await {
                    self.down.fail(exchange, &error);
                    return Err(Stop::Gone);
                }
            }
            if let Some(status) = link.status {
                link.taken = true;
                return Ok(Some(status));
            }
            let settings = &self.proxy.settings;
            let (wait, doing) = if link.is_sent() {
                (settings.read_timeout, "reading response header from upstream")
            } else {
                (settings.read_timeout.max(settings.send_timeout), "sending request to upstream")
            };
            if let Turn::Silence = link.turn(exchange, self.down, self.timer, wait).await? {
                let why = format!("upstream timed out (110: Connection timed out) while {doing}");
                return Err(Failed { failure: Failure::Timeout, sent: true, why }.into());
            }
        }
    }

    fn sent(&self, link: &Link) -> u64 {
        link.sent
    }
}

impl<D> Http2<'_, D> {
    /// The head as a list.
    fn head_list(&self, exchange: &Exchange) -> Result<h2::Fields, Stop> {
        let mut text = exchange.worker.take_text();
        let written = request::write(exchange, self.proxy, self.body, Asked::default(), &mut text);
        let list = written.map_err(|why| Stop::Own(why.into_owned())).map(|()| self.spell(&text));
        exchange.worker.give_text(text);
        list
    }

    /// From a head of ours in HTTP/1 to HTTP/2.
    fn spell(&self, head: &[u8]) -> h2::Fields {
        let mut list = h2::Fields::new();
        let mut lines =
            head.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let mut words = lines.next().unwrap_or_default().split(|&byte| byte == b' ');
        list.push(b":method", words.next().unwrap_or_default());
        list.push(b":scheme", if self.secure { b"https" } else { b"http" });
        list.push(b":path", words.next().unwrap_or_default());
        let fields: Vec<(&[u8], &[u8])> = lines
            .filter_map(|line| {
                let colon = memchr::memchr(b':', line)?;
                Some((&line[..colon], line[colon + 1..].trim_ascii()))
            })
            .collect();
        // As nginx: what `grpc_set_header Host` says is a field of that name.
        let own = !self.proxy.grpc
            || self.proxy.head.pieces.iter().any(|piece| matches!(piece, HeadPiece::OwnHost(_)));
        for (_, value) in fields.iter().filter(|(name, _)| own && name.eq_ignore_ascii_case(b"host")) {
            list.push(b":authority", value);
        }
        for (name, value) in fields {
            if !(own && name.eq_ignore_ascii_case(b"host")) {
                put(&mut list, name, value);
            }
        }
        if self.proxy.grpc {
            list.push(b"te", b"trailers");
        }
        list
    }
}

/// Appends a field in lower case, unless it is about the connection, which HTTP/2 has no words for (RFC 9113 §8.2.2).
fn put(list: &mut h2::Fields, name: &[u8], value: &[u8]) {
    let name = name.to_ascii_lowercase();
    let of_connection = matches!(
        &name[..],
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" | b"te"
    );
    if of_connection || !is_token(&name) || !is_field_value(value) {
        return;
    }
    if matches!(&name[..], b"authorization" | b"proxy-authorization") {
        list.push_sensitive(&name, value);
    } else {
        list.push(&name, value);
    }
}
