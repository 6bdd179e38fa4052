//! HTTP/1 towards an endpoint: the request, with its body, and the answer's head.
//!
//! Owns: what one attempt says and hears, interim answers included.
//! Never: frames (`wire`), judges what a failure means (`attempt`), or carries the answer's body (the action does).
//! Driven by: [`Attempts`](super::Attempts).

use weir_plan::Proxy;
use weir_policy::retry::Failure;
use weir_rt::{LARGE, Timer};
use weir_wire::{ClientConnection, Heard, ResponseFailure, SendError, SendFraming};

use super::attempt::{Failed, Opened, Protocol, Stop};
use super::request::{self, Asked, UpstreamBody};
use crate::exchange::fields::Fields;
use crate::exchange::{BodyPiece, Downstream, Exchange, errors, intake};
use crate::worker::race::{Either, race};
use crate::worker::watch::Watch;

/// Most interim heads before an answer.
const MAX_INTERIMS: u32 = 16;

/// One request to endpoints that speak HTTP/1.
pub(crate) struct Http1<'a, D> {
    /// The client's half.
    pub(crate) down: &'a mut D,
    /// The action.
    pub(crate) proxy: &'a Proxy,
    /// How the body goes.
    pub(crate) body: UpstreamBody,
    /// What is asked of the connection.
    pub(crate) asked: Asked,
    /// The body comes from the client while it is sent.
    pub(crate) streaming: bool,
    /// Over the endpoint.
    pub(crate) timer: &'a Timer,
    /// Over the client.
    pub(crate) watch: &'a Watch,
    /// The connection carried a request before.
    pub(crate) reused: bool,
    /// Interim heads of this attempt.
    pub(crate) interims: u32,
}

impl<D: Downstream> Protocol for Http1<'_, D> {
    type Traffic = Exchange;
    type Link = Box<ClientConnection>;

    fn take_up(&mut self, opened: Opened) -> Box<ClientConnection> {
        self.interims = 0;
        self.reused = matches!(opened, Opened::Kept(_));
        match opened {
            Opened::Kept(conn) => conn,
            Opened::New(conn) => Box::new(ClientConnection::new(conn)),
        }
    }

    /// Sends the head, and the body.
    async fn send(&mut self, exchange: &mut Exchange, conn: &mut Box<ClientConnection>) -> Result<(), Stop> {
        self.watch.reading(self.streaming);
        let mut head = exchange.worker.take_text();
        let written = request::write(exchange, self.proxy, self.body, self.asked, &mut head);
        conn.outgoing.reset_counts();
        conn.outgoing.buffer().extend(&head);
        exchange.worker.give_text(head);
        written.map_err(|why| Stop::Own(why.into_owned()))?;
        conn.outgoing.begin(match self.body {
            UpstreamBody::None => SendFraming::None,
            UpstreamBody::Length(length) => SendFraming::Length(length),
            UpstreamBody::Chunked => SendFraming::Chunked,
        });
        if self.streaming {
            // Boxed, as what else is rare: the future of a usual request is moved and touched as a whole.
            return Box::pin(self.stream_body(exchange, conn)).await;
        }
        if self.body != UpstreamBody::None {
            return Box::pin(self.send_body(exchange, conn)).await;
        }
        match conn.outgoing.finish_now(b"") {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => return Err(self.not_sent(&error)),
        }
        let flushed =
            Box::pin(conn.outgoing.flush(self.timer, exchange.write_timeout(&self.proxy.settings))).await;
        flushed.map_err(|error| self.not_sent(&error))
    }

    /// Waits for the final head. Interim ones are forwarded.
    async fn head(
        &mut self,
        exchange: &mut Exchange,
        conn: &mut Box<ClientConnection>,
    ) -> Result<Option<u16>, Stop> {
        self.watch.reading(false);
        let rules = &self.proxy.heads;
        let timeout = exchange.read_timeout(&self.proxy.settings);
        loop {
            if let Err(failure) = conn.receive_head(rules, self.timer, timeout).await {
                return Err(head_failed(failure, self.reused && self.interims == 0).into());
            }
            let response = conn.response();
            let status = response.status();
            if status == 101 {
                let to = response.upgrade().filter(|_| response.is_tunnel(exchange.request.method));
                if self.asked.upgrade && to.is_some_and(|to| request::was_offered(exchange, self.proxy, to)) {
                    return Ok(Some(status));
                }
                return Err(Failed::malformed("upstream changed protocols unasked").into());
            }
            if !response.is_interim() {
                return Ok(Some(status));
            }
            Box::pin(self.forward_interim(exchange, conn)).await?;
        }
    }

    fn sent(&self, conn: &Box<ClientConnection>) -> u64 {
        conn.outgoing.sent()
    }
}

/// What was taken in of a body cannot be had.
fn unreadable(error: std::io::Error) -> Stop {
    Stop::Own(format!("cannot read a request body back: {error}"))
}

/// Whether early hints are for this client.
pub(super) fn takes_hints(exchange: &Exchange) -> bool {
    let holds = |condition| !matches!(&*crate::eval::text(exchange, condition), b"" | b"0");
    exchange.route_if_any().is_none_or(|route| {
        let conditions = &route.settings.early_hints;
        conditions.is_empty() || conditions.iter().any(holds)
    })
}

impl<D: Downstream> Http1<'_, D> {
    /// Sends a body that is here whole. An answer that comes early ends it.
    async fn send_body(&self, exchange: &mut Exchange, conn: &mut ClientConnection) -> Result<(), Stop> {
        let (timer, timeout) = (self.timer, exchange.write_timeout(&self.proxy.settings));
        let rules = &self.proxy.heads;
        let mut offset = 0;
        loop {
            match exchange.body.piece(offset) {
                Ok(BodyPiece::End) => break,
                Ok(BodyPiece::Data(piece)) => {
                    offset += piece.len() as u64;
                    match conn.send_unless_refused(&piece, rules, timer, timeout).await {
                        Ok(true) => {}
                        Ok(false) => return Ok(()),
                        // An endpoint that refuses a body early answers and closes: its answer counts.
                        Err(_) if conn.incoming.fill_ready(LARGE).unwrap_or(false) => return Ok(()),
                        Err(error) => return Err(self.not_sent(&error)),
                    }
                }
                Err(error) => return Err(unreadable(error)),
            }
        }
        let trailers = trailer_lines(&exchange.request_trailers);
        conn.outgoing.finish(&trailers, timer, timeout).await.map_err(|error| self.not_sent(&error))
    }

    /// Passes the body on as it arrives. An answer that comes early ends it; interim ones do not (RFC 9110 §15.2).
    async fn stream_body(
        &mut self,
        exchange: &mut Exchange,
        conn: &mut ClientConnection,
    ) -> Result<(), Stop> {
        let (timer, timeout) = (self.timer, exchange.write_timeout(&self.proxy.settings));
        let most = exchange.route().settings.body.max_size;
        let rules = &self.proxy.heads;
        self.send_taken(exchange, conn).await?;
        conn.outgoing.flush(timer, timeout).await.map_err(|error| self.not_sent(&error))?;
        loop {
            let io = conn.io().clone();
            let piece = match race(self.down.body_piece(exchange), io.readable()).await {
                Either::Left(piece) => piece,
                Either::Right(()) => {
                    let mut heard = conn.hear(rules);
                    while heard == Heard::Interim {
                        // Whole already: this does not wait.
                        let received = conn.receive_head(rules, timer, timeout).await;
                        received.map_err(|failure| head_failed(failure, false))?;
                        self.forward_interim(exchange, conn).await?;
                        heard = conn.hear(rules);
                    }
                    if heard == Heard::Nothing {
                        continue;
                    }
                    exchange.close_after = true;
                    return Ok(());
                }
            };
            match piece {
                Ok(Some(piece)) => {
                    let length = piece.len();
                    let sent = conn.outgoing.send(piece, timer, timeout).await;
                    sent.map_err(|error| self.not_sent(&error))?;
                    exchange.body.count_streamed(length);
                    if most.is_some_and(|most| exchange.body.received() > most) {
                        let next = length as u64;
                        intake::log_too_large(exchange, exchange.body.received().saturating_sub(next), next);
                        return Err(Stop::Client(413));
                    }
                    conn.outgoing.flush(timer, timeout).await.map_err(|error| self.not_sent(&error))?;
                }
                Ok(None) => break,
                Err(error) => {
                    let status = intake::failed(exchange, &error);
                    return Err(Stop::Client(status));
                }
            }
        }
        let mut trailers = std::mem::take(&mut exchange.request_trailers);
        self.down.trailers(&mut trailers);
        let lines = trailer_lines(&trailers);
        exchange.request_trailers = trailers;
        conn.outgoing.finish(&lines, timer, timeout).await.map_err(|error| self.not_sent(&error))
    }

    /// Sends what rules have waited for of a body that is not all here.
    async fn send_taken(&self, exchange: &Exchange, conn: &mut ClientConnection) -> Result<(), Stop> {
        let (timer, timeout) = (self.timer, exchange.write_timeout(&self.proxy.settings));
        let mut offset = 0;
        while let BodyPiece::Data(piece) = exchange.body.piece(offset).map_err(unreadable)? {
            offset += piece.len() as u64;
            conn.outgoing.send(&piece, timer, timeout).await.map_err(|error| self.not_sent(&error))?;
        }
        Ok(())
    }

    /// Passes an interim head on that was received, and leaves it behind.
    async fn forward_interim(
        &mut self,
        exchange: &mut Exchange,
        conn: &mut ClientConnection,
    ) -> Result<(), Stop> {
        self.interims += 1;
        if self.interims > MAX_INTERIMS {
            return Err(Failed::malformed("upstream sent too many interim responses").into());
        }
        let response = conn.response();
        let status = response.status();
        if status == 103 && !takes_hints(exchange) {
            conn.skip_head();
            return Ok(());
        }
        let mut fields = Fields::default();
        for (id, name, value) in response.headers().end_to_end() {
            fields.push_known(id, name, value);
        }
        conn.skip_head();
        if let Err(error) = self.down.interim(status, &fields).await {
            self.down.fail(exchange, &error);
            return Err(Stop::Gone);
        }
        Ok(())
    }

    /// The endpoint did not take the request.
    fn not_sent(&self, error: &SendError) -> Stop {
        let failure = match error {
            SendError::Timeout => Failure::Timeout,
            _ if self.reused => Failure::StaleConnection,
            _ => Failure::Io,
        };
        let why = match error {
            SendError::Timeout => {
                "upstream timed out (110: Connection timed out) while sending request to upstream".to_owned()
            }
            SendError::Io(error) => {
                format!("send() failed ({}) while sending request to upstream", errors::system(error))
            }
            error => format!("{error} while sending request to upstream"),
        };
        Stop::Endpoint(Failed { failure, sent: true, why })
    }
}

fn trailer_lines(trailers: &Fields) -> Vec<u8> {
    let mut lines = Vec::new();
    if !trailers.is_empty() {
        let mut head = weir_http::HeadWriter::resume(&mut lines);
        for field in trailers.iter() {
            let _ = head.field(field.name, field.value);
        }
    }
    lines
}

fn head_failed(failure: ResponseFailure, reused: bool) -> Failed {
    let (failure, why) = match failure {
        ResponseFailure::ClosedUnanswered if reused => {
            (Failure::StaleConnection, "upstream closed a kept connection".to_owned())
        }
        ResponseFailure::ClosedUnanswered | ResponseFailure::Closed => (
            Failure::Io,
            "upstream prematurely closed connection while reading response header from upstream".to_owned(),
        ),
        ResponseFailure::Timeout => {
            let why =
                "upstream timed out (110: Connection timed out) while reading response header from upstream";
            (Failure::Timeout, why.to_owned())
        }
        ResponseFailure::Malformed(error) if error.is_size() => {
            (Failure::InvalidHeader, errors::TOO_BIG_HEADER.to_owned())
        }
        ResponseFailure::Malformed(error) => (
            Failure::InvalidHeader,
            format!("upstream sent invalid header ({error}) while reading response header from upstream"),
        ),
        ResponseFailure::Io(error) => {
            let why = errors::system(&error);
            (Failure::Io, format!("recv() failed ({why}) while reading response header from upstream"))
        }
    };
    Failed { failure, sent: true, why }
}
