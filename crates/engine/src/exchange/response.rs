//! What is known of the answer and of the attempts behind it.
//!
//! Owns: status, fields to send, counts of bytes, records of attempts.
//! Never: writes to a socket.
//! Driven by: actions (fill), the responder (sends), logs and variables (read).

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use weir_http::HeaderId;

use super::tls_facts::TlsFacts;
use crate::exchange::fields::Fields;

/// The answer.
#[derive(Default)]
pub(crate) struct Response {
    /// Status sent or to be sent; 0 before there is one.
    pub(crate) status: u16,
    /// Phrase of the status, if other than the standard one.
    pub(crate) reason: Option<Box<[u8]>>,
    /// Fields as sent.
    pub(crate) fields: Fields,
    /// All bytes sent to the client.
    pub(crate) bytes_sent: u64,
    /// Bytes of body sent to the client.
    pub(crate) body_bytes_sent: u64,
    /// Bytes that a tunnel carried to the client after the head.
    pub(crate) tunnelled: u64,
    /// The head is on its way: nothing else can be answered any more.
    pub(crate) head_sent: bool,
    /// Whether the connection stays open after it, once that is decided over HTTP/1.
    pub(crate) keeps: Option<bool>,
    /// Its body goes out chunked.
    pub(crate) chunked: bool,
    /// The length that its head announces.
    pub(crate) length: Option<u64>,
    /// The whole answer was sent.
    pub(crate) complete: bool,
    /// Its making failed: a head alone goes out.
    pub(crate) failed: bool,
    /// Bytes before compression, where the body was compressed.
    pub(crate) uncompressed: Option<u64>,
    /// Fields of the last upstream answer, as received.
    pub(crate) upstream_fields: Fields,
    /// Trailers of the last upstream answer.
    pub(crate) upstream_trailers: Fields,
    /// It is passed on as it comes, because the configuration or the endpoint says so: its pace is the endpoint's.
    pub(crate) unbuffered: bool,
    /// The target of the last request to an endpoint, as sent.
    pub(crate) upstream_target: Vec<u8>,
}

impl Response {
    /// The head that a cache stores: the status, and of some fields those that are not about the message but about what is
    /// in it.
    pub(crate) fn stored_head(&self, fields: &Fields, phrases: weir_http::Phrases) -> Vec<u8> {
        let reason = match &self.reason {
            Some(reason) => reason,
            None => phrases.reason(self.status).as_bytes(),
        };
        let mut out = format!("HTTP/1.1 {} ", self.status).into_bytes();
        out.extend_from_slice(reason);
        out.extend_from_slice(b"\r\n");
        fields.write(&mut out, |line, _| {
            !line.is_hop_by_hop()
                && !matches!(
                    line.id,
                    HeaderId::Connection
                        | HeaderId::ContentLength
                        | HeaderId::TransferEncoding
                        | HeaderId::Age
                )
        });
        out.extend_from_slice(b"\r\n");
        out
    }
}

/// One attempt at an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// Address as text (`127.0.0.1:80`, `unix:/run/a.sock`), or the pool's name where no endpoint could be chosen.
    pub(crate) address: Rc<str>,
    /// Name of the endpoint.
    pub(crate) endpoint: Rc<str>,
    /// Status of its answer; 0 if there was none (502, 504 are written by the engine).
    pub(crate) status: u16,
    /// Time to connect; `None` if it did not.
    pub(crate) connect: Option<Duration>,
    /// Time to the answer's head.
    pub(crate) header: Option<Duration>,
    /// Time to its end.
    pub(crate) response: Option<Duration>,
    /// Bytes of body.
    pub(crate) length: u64,
    /// Bytes sent to it.
    pub(crate) sent: u64,
    /// Bytes received from it.
    pub(crate) received: u64,
    /// The version of HTTP that its answer came by.
    pub(crate) protocol: Option<&'static str>,
    /// Its connection carried a request before.
    pub(crate) reused: bool,
    /// What TLS of its connection is like, where somebody asks for that.
    pub(crate) tls: Option<Rc<TlsFacts>>,
    /// Our own end of its connection, where somebody asks for it.
    pub(crate) local: Option<SocketAddr>,
    /// Begins a new group: an internal redirect lies between this attempt and the one before (`:` in logs).
    pub(crate) new_group: bool,
}

impl Attempt {
    /// An attempt that has not begun.
    pub(crate) fn new(address: Rc<str>, endpoint: Rc<str>) -> Self {
        Self {
            address,
            endpoint,
            status: 0,
            connect: None,
            header: None,
            response: None,
            length: 0,
            sent: 0,
            received: 0,
            protocol: None,
            reused: false,
            tls: None,
            local: None,
            new_group: false,
        }
    }
}

impl Response {
    /// Forgets the last answer, keeps the memory.
    pub(crate) fn clear(&mut self) {
        let Self {
            status,
            reason,
            fields,
            bytes_sent,
            body_bytes_sent,
            tunnelled,
            head_sent,
            keeps,
            chunked,
            length,
            complete,
            failed,
            uncompressed,
            upstream_fields,
            upstream_trailers,
            unbuffered,
            upstream_target,
        } = self;
        *status = 0;
        *reason = None;
        fields.clear();
        (*bytes_sent, *body_bytes_sent, *tunnelled) = (0, 0, 0);
        (*head_sent, *complete, *failed) = (false, false, false);
        (*keeps, *chunked, *length) = (None, false, None);
        *uncompressed = None;
        upstream_fields.clear();
        upstream_trailers.clear();
        *unbuffered = false;
        upstream_target.clear();
    }
}
