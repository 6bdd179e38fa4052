//! The client's half of an exchange over HTTP/1.
//!
//! Owns: framing and keep-alive of answers, `100 Continue`, the writing of response heads.
//! Never: decides what is answered.
//! Driven by: actions and the responder, through [`Downstream`].

use std::fs::File;
use std::time::Duration;

use weir_expr::settings::{KeepAliveMode, OldBrowsers};
use weir_http::{BodyError, ConnectionOption, HeadWriter, HeaderId, Method, Phrases, Version};
use weir_rt::{Buf, Shared, Timer};
use weir_wire::{Conn, LeastRate, ReceiveError, SendError, SendFraming, ServerConnection};

use super::pace::BodyPace;
use crate::eval::browsers;
use crate::exchange::fields::Fields;
use crate::exchange::{BodySize, Downstream, Exchange, intake};
use crate::worker::watch::Watched;

/// Says that the client may send the body.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The client's half over HTTP/1.
pub(crate) struct H1<'a> {
    /// The connection.
    pub(crate) conn: ServerConnection,
    /// Its timer.
    pub(crate) timer: &'a Timer,
    version: Version,
    method: Method,
    client_keeps: bool,
    keeps: bool,
    continue_due: bool,
    always_continues: bool,
    cut: bool,
    pace: BodyPace,
    answers: u64,
}

impl<'a> H1<'a> {
    pub(crate) fn new(conn: ServerConnection, timer: &'a Timer) -> Self {
        Self {
            conn,
            timer,
            version: Version::Http11,
            method: Method::Get,
            client_keeps: false,
            keeps: false,
            continue_due: false,
            always_continues: false,
            cut: false,
            pace: BodyPace::default(),
            answers: 0,
        }
    }

    /// Begins the exchange whose request was just taken.
    pub(crate) fn begin_exchange(&mut self, exchange: &Exchange) {
        self.version = exchange.request.version;
        self.method = exchange.request.method;
        let request = &exchange.request;
        self.always_continues = exchange.site().conduct.always_continues;
        self.continue_due = request.expects_continue && (self.always_continues || request.has_body());
        self.pace = BodyPace::default();
        self.conn.outgoing.reset_counts();
    }

    /// Whether the request came while an answer was being made.
    pub(crate) fn was_pipelined(&self) -> bool {
        self.answers > 0 && self.conn.head_was_waiting()
    }

    /// Says whether the client keeps the connection.
    pub(crate) fn client_keeps_alive(&mut self, keeps: bool) {
        self.client_keeps = keeps;
        self.keeps = false;
    }

    /// Whether the connection can carry another request, as far as the answer is concerned.
    pub(crate) fn keeps_alive(&self) -> bool {
        self.keeps && !self.cut
    }

    /// The connection is not to be used any more.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    /// Closes without another word.
    pub(crate) fn set_cut(&mut self) {
        self.cut = true;
    }

    /// What arrived is no request: nothing of it is read as one.
    pub(crate) fn abandon_input(&mut self) {
        self.conn.incoming.begin(weir_http::Framing::None);
        self.client_keeps = false;
        self.keeps = false;
        self.conn.outgoing.reset_counts();
    }

    /// Bytes sent: all, and those of the body.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.conn.outgoing.sent(), self.conn.outgoing.payload())
    }

    fn send_timeout(exchange: &Exchange) -> Duration {
        exchange.client_timeout()
    }

    /// The framing of the answer, and whether the connection stays open after it.
    fn framing(&self, exchange: &Exchange, size: BodySize) -> (SendFraming, bool) {
        let settings = &exchange.route().settings;
        let client = &settings.client;
        let mut keeps = self.client_keeps
            && !exchange.close_after
            && exchange.site().keepalive_mode != KeepAliveMode::Close
            && client.keepalive_timeout.is_some()
            && !closes_for_browser(exchange, client.old_browsers)
            && !exchange.client.has_served_its_time(client, exchange.now())
            && !exchange.worker.is_leaving();
        let framing = match size {
            BodySize::Bodiless => SendFraming::None,
            BodySize::Known(length) => SendFraming::Length(length),
            BodySize::Unknown if self.version >= Version::Http11 && settings.chunked => SendFraming::Chunked,
            BodySize::Unknown => {
                keeps = false;
                SendFraming::UntilClose
            }
        };
        (framing, keeps)
    }

    /// Queues the head of an answer; `prepared` are its first lines, else they come from `exchange.response`.
    fn open(&mut self, exchange: &mut Exchange, size: BodySize, prepared: Option<&[u8]>) {
        let (framing, keeps) = self.framing(exchange, size);
        // An unread body that is waited for (100-continue) will not come; where the next request begins is unknown.
        // nginx keeps the connection all the same: the client is held to send what it announced (RFC 9110 §10.1.1).
        let keeps = keeps && (!self.continue_due || self.always_continues || self.conn.incoming.is_done());
        self.keeps = keeps;
        if self.continue_due && self.always_continues && exchange.response.status < 300 {
            self.continue_due = false;
            self.conn.outgoing.buffer().extend(CONTINUE);
        }
        self.answers += 1;
        exchange.response.keeps = Some(keeps);
        exchange.response.length = size.known();
        exchange.response.chunked = framing == SendFraming::Chunked;
        let mut text = exchange.worker.take_text();
        let has_date = match prepared {
            Some(lines) => {
                text.extend_from_slice(lines);
                false
            }
            None => write_fields(exchange, &mut text, framing, size),
        };
        write_rest(exchange, &mut text, self.version, keeps, self.client_keeps, has_date);
        self.conn.outgoing.buffer().extend(&text);
        exchange.worker.give_text(text);
        self.conn.outgoing.begin(framing);
        self.conn.outgoing.set_least_rate(least_rate(exchange, size));
        self.conn.outgoing.set_full_packets(exchange.route().settings.client.tcp_nopush);
        exchange.head_leaves();
    }

    async fn read_piece(&mut self, timeout: Duration, exchange: &Exchange) -> Result<(), ReceiveError> {
        let before = self.conn.incoming.pending().len();
        let patience = self.pace.wait(exchange, timeout);
        let filled = self.conn.incoming.fill(self.timer, patience, weir_rt::PIECE).await;
        let too_slow = self.pace.took(exchange, self.conn.incoming.pending().len().saturating_sub(before));
        match filled {
            Err(ReceiveError::Timeout) if patience < timeout && !too_slow => Ok(()),
            other => other,
        }
    }
}

/// How fast the client has to take an answer: none where the answer itself comes slowly. Never stricter than the time for
/// one write alone: a client that takes nothing for so long is given up in any case.
pub(super) fn least_rate(exchange: &Exchange, size: BodySize) -> Option<LeastRate> {
    let client = &exchange.route().settings.client;
    let is_stream = || {
        let kind = exchange.response.fields.first(HeaderId::ContentType);
        kind.is_some_and(|kind| kind.starts_with(b"text/event-stream"))
    };
    if client.min_send_rate == 0 || exchange.response.unbuffered || size == BodySize::Unknown && is_stream() {
        return None;
    }
    Some(LeastRate { bytes_per_second: client.min_send_rate, window: client.send_timeout })
}

/// Whether the client's browser is one whose connections are not kept.
fn closes_for_browser(exchange: &Exchange, rules: OldBrowsers) -> bool {
    let asks = rules.safari_closes || rules.msie_posts_close && exchange.request.method == Method::Post;
    asks && exchange.request.fields.first(HeaderId::UserAgent).is_some_and(|agent| {
        rules.safari_closes && browsers::is_safari_on_mac(agent)
            || rules.msie_posts_close
                && exchange.request.method == Method::Post
                && browsers::is_old_msie(agent)
    })
}

/// Appends the first lines of a response head over HTTP/1: status line, fields, framing. True if Date is among them.
fn write_fields(exchange: &Exchange, out: &mut Vec<u8>, framing: SendFraming, size: BodySize) -> bool {
    let response = &exchange.response;
    match &response.reason {
        None => drop(HeadWriter::response(out, response.status, exchange.phrases())),
        Some(reason) => drop(HeadWriter::response_with_reason(out, response.status, reason)),
    }
    // Framing is this hop's own; a bodiless answer may still say how long the body would have been.
    // RFC 9110 §8.6: never in 1xx and 204.
    let own_length = size != BodySize::Bodiless || matches!(response.status, 100..200 | 204);
    let mut has_date = false;
    // A value that a variable brought in may hold what must not stand there: the field is left out then.
    response.fields.write(out, |line, _| match line.id {
        HeaderId::TransferEncoding => false,
        HeaderId::ContentLength => !own_length,
        HeaderId::Date => {
            has_date = true;
            true
        }
        _ => true,
    });
    let mut head = HeadWriter::resume(out);
    match framing {
        SendFraming::Length(length) => head.number(HeaderId::ContentLength, length),
        SendFraming::Chunked => drop(head.known(HeaderId::TransferEncoding, b"chunked")),
        SendFraming::None | SendFraming::UntilClose => {}
    }
    has_date
}

/// Appends the rest of a response head: what is said of the connection, and the date.
fn write_rest(
    exchange: &Exchange,
    out: &mut Vec<u8>,
    version: Version,
    keeps: bool,
    client_keeps: bool,
    has_date: bool,
) {
    let mut head = HeadWriter::resume(out);
    if exchange.response.status == 101 {
        head.connection(ConnectionOption::Upgrade);
    } else if !keeps {
        head.connection(ConnectionOption::Close);
    } else if version < Version::Http11 && client_keeps || exchange.site().conduct.says_keep_alive {
        head.connection(ConnectionOption::KeepAlive);
    }
    if keeps && let Some(time) = exchange.route().settings.client.keepalive_header {
        let text = format!("timeout={}", time.as_secs());
        let _ = head.known(HeaderId::KeepAlive, text.as_bytes());
    }
    if !has_date {
        exchange.worker.date_line(out);
    }
    out.extend_from_slice(b"\r\n");
}

impl Downstream for H1<'_> {
    async fn body_piece(&mut self, exchange: &Exchange) -> Result<Option<&[u8]>, ReceiveError> {
        let timeout = exchange.route().settings.body.timeout;
        if self.continue_due && (self.always_continues || !self.conn.incoming.is_done()) {
            self.continue_due = false;
            if self.always_continues || self.conn.incoming.pending().is_empty() {
                self.conn.outgoing.buffer().extend(CONTINUE);
                let flushed = self.conn.outgoing.flush(self.timer, Self::send_timeout(exchange)).await;
                flushed.map_err(|_| ReceiveError::Closed)?;
            }
        }
        loop {
            match self.conn.incoming.step()? {
                weir_wire::Step::Piece(start, end) => return Ok(Some(self.conn.incoming.slice(start, end))),
                weir_wire::Step::End => return Ok(None),
                weir_wire::Step::Wait => {
                    // A chunk that will be too much need not arrive first.
                    let most = exchange.route().settings.body.max_size;
                    let announced = self.conn.incoming.announced();
                    if most.is_some_and(|most| announced > most) {
                        let received = self.conn.incoming.received();
                        intake::log_too_large(exchange, received, announced - received);
                        return Err(ReceiveError::Malformed(BodyError::TooLarge));
                    }
                    self.read_piece(timeout, exchange).await?;
                }
            }
        }
    }

    async fn finish_handshake(&mut self) {
        if let Some(tls) = self.conn.io().tls() {
            // Who reads next is told of a failure.
            let _ = tls.clone().finish_handshake().await;
        }
    }

    fn body_done(&self) -> bool {
        self.conn.incoming.is_done()
    }

    fn trailers(&self, into: &mut Fields) {
        if let Some(trailers) = self.conn.incoming.trailers() {
            for (id, name, value) in trailers.headers().iter() {
                into.push_known(id, name, value);
            }
        }
    }

    async fn interim(&mut self, status: u16, fields: &Fields) -> Result<(), SendError> {
        // RFC 9110 §15.2: never to HTTP/1.0.
        if self.version < Version::Http11 {
            return Ok(());
        }
        if status == 100 && !std::mem::take(&mut self.continue_due) {
            return Ok(());
        }
        let mut text = Vec::with_capacity(128);
        let mut head = HeadWriter::response(&mut text, status, Phrases::default());
        for field in fields.iter().filter(|field| !field.hop_by_hop && field.id != HeaderId::ContentLength) {
            let _ = head.field(field.name, field.value);
        }
        head.end();
        self.conn.outgoing.buffer().extend(&text);
        self.conn.outgoing.flush(self.timer, Duration::from_secs(60)).await
    }

    fn begin(&mut self, exchange: &mut Exchange, size: BodySize) {
        self.open(exchange, size, None);
    }

    fn begin_known(
        &mut self,
        exchange: &mut Exchange,
        lines: &mut Vec<u8>,
        length: u64,
        put: impl FnOnce(&mut Exchange),
    ) {
        let size = BodySize::Known(length);
        if lines.is_empty() {
            put(exchange);
            lines.reserve_exact(256);
            write_fields(exchange, lines, SendFraming::Length(length), size);
        }
        self.open(exchange, size, Some(lines));
    }

    fn queue(&mut self, data: &[u8]) -> Result<bool, SendError> {
        self.conn.outgoing.queue_small(data)
    }

    async fn send(&mut self, exchange: &Exchange, data: &[u8]) -> Result<(), SendError> {
        self.conn.outgoing.send(data, self.timer, Self::send_timeout(exchange)).await
    }

    async fn send_shared(&mut self, exchange: &Exchange, data: Shared) -> Result<(), SendError> {
        let (outgoing, timeout) = (&mut self.conn.outgoing, Self::send_timeout(exchange));
        if outgoing.shares(&data) {
            outgoing.send_shared(data, self.timer, timeout).await
        } else {
            outgoing.send(&data, self.timer, timeout).await
        }
    }

    async fn send_file(
        &mut self,
        exchange: &Exchange,
        file: &File,
        offset: u64,
        length: u64,
    ) -> Result<(), SendError> {
        let timeout = Self::send_timeout(exchange);
        self.conn.outgoing.send_file(file, offset, length, self.timer, timeout).await
    }

    async fn flush(&mut self, exchange: &Exchange) -> Result<(), SendError> {
        self.conn.outgoing.flush(self.timer, Self::send_timeout(exchange)).await
    }

    async fn finish(&mut self, exchange: &Exchange, trailers: &Fields) -> Result<(), SendError> {
        let mut lines = Vec::new();
        if !trailers.is_empty() {
            let mut writer = HeadWriter::resume(&mut lines);
            for field in trailers.iter() {
                let _ = writer.field(field.name, field.value);
            }
        }
        self.conn.outgoing.finish(&lines, self.timer, Self::send_timeout(exchange)).await
    }

    fn finish_now(&mut self) -> Result<bool, SendError> {
        self.conn.outgoing.finish_now(b"")
    }

    fn cut(&mut self) {
        self.cut = true;
        self.keeps = false;
        if self.conn.outgoing.ends_by_close() {
            // FIN, or close_notify, would say that this was all: RFC 9112 §8.
            self.conn.io().clone().abort();
        }
    }

    fn retract(&mut self, exchange: &mut Exchange) -> bool {
        if self.cut || !self.conn.outgoing.retract() {
            return false;
        }
        self.answers -= 1;
        exchange.response.head_sent = false;
        exchange.filters.clear();
        true
    }

    fn sent(&self) -> (u64, u64) {
        self.counts()
    }

    fn watched(&self) -> Watched {
        Watched::Connection(self.conn.io().clone())
    }

    fn take_tunnel(&mut self) -> Option<(Conn, Buf)> {
        self.keeps = false;
        self.cut = true;
        Some((self.conn.io().clone(), self.conn.incoming.take_pending()))
    }
}
