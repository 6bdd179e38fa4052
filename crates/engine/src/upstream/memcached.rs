//! Memcached: a key is asked for, and its value is the body of the answer.
//!
//! Owns: what one attempt says and hears; the head that a value gets.
//! Never: reads lines (`weir_http::gateway`), or carries the value (the action does, as every application's answer).
//! Driven by: [`Attempts`](super::Attempts).
//! Why the head is written as a script's: the action then knows one form of answers.

use weir_http::gateway::{self, Found};
use weir_http::{HeadRules, Method, Parsed};
use weir_plan::FastCgi;
use weir_plan::settings::Spoken;
use weir_policy::retry::Failure;
use weir_rt::{Buf, Timer};

use super::attempt::{Failed, Opened, Protocol, Stop};
use super::fastcgi::{Answer, Framing};
use crate::exchange::{Exchange, errors};

/// One request to memcached.
pub(crate) struct Memcached<'a> {
    gateway: &'a FastCgi,
    key: Vec<u8>,
    timer: &'a Timer,
}

impl<'a> Memcached<'a> {
    /// A request for the key that the exchange comes to. `None`: there is none, which is logged.
    pub(crate) fn new(exchange: &Exchange, gateway: &'a FastCgi, timer: &'a Timer) -> Option<Self> {
        let text = gateway.key.as_ref().map(|key| crate::eval::text(exchange, key)).unwrap_or_default();
        let key = gateway::memcached_key(&text);
        if key.is_none() {
            errors::server_error(exchange, "the \"$memcached_key\" variable is not set, or is too long");
        }
        key.map(|key| Self { gateway, key, timer })
    }
}

impl Protocol for Memcached<'_> {
    type Traffic = Exchange;
    type Link = Answer;

    fn take_up(&mut self, opened: Opened) -> Answer {
        Answer::new(opened, Framing::Value(0))
    }

    async fn send(&mut self, _: &mut Exchange, answer: &mut Answer) -> Result<(), Stop> {
        let request = [b"get ", &self.key[..], b"\r\n"].concat();
        answer.write(&request, self.timer, self.gateway.settings.send_timeout).await
    }

    async fn head(&mut self, exchange: &mut Exchange, answer: &mut Answer) -> Result<Option<u16>, Stop> {
        self.timer.arm(self.gateway.settings.read_timeout);
        let found = loop {
            match gateway::memcached_answer(&answer.input, &self.key) {
                Ok(Found::NeedMore) => {
                    answer.read(self.timer).await.map_err(|failed| answer.explained(failed))?;
                }
                Ok(found) => break found,
                Err(gateway::NoAnswer) => {
                    let shown = Buf::from(&answer.input[..answer.input.len().min(100)]);
                    let shown = shown.escape_ascii().to_string();
                    let why = format!("memcached sent invalid response: \"{shown}\"");
                    return Err(Failed { failure: Failure::InvalidHeader, sent: true, why }.into());
                }
            }
        };
        let head = match found {
            Found::Value { line, flags, length } => {
                answer.input.consume(line);
                answer.framing = Framing::Value(length);
                let Spoken::Memcached { gzip_flag } = self.gateway.spoken else {
                    return Err(Stop::Own("this is no memcached".into()));
                };
                let coding = if flags & gzip_flag == 0 { "" } else { "Content-Encoding: gzip\r\n" };
                let media = exchange.route().files.types.of(&exchange.request.path);
                let media =
                    if media.is_empty() { String::new() } else { format!("Content-Type: {media}\r\n") };
                format!("Content-Length: {length}\r\n{media}{coding}\r\n")
            }
            found => {
                if let Found::Nothing(line) = found {
                    answer.input.consume(line);
                }
                answer.ended = true;
                let key = self.key.escape_ascii();
                errors::client_error(exchange, &format!("key: \"{key}\" was not found by memcached"));
                "Status: 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned()
            }
        };
        answer.text.extend_from_slice(head.as_bytes());
        match answer.head.parse(&answer.text, &HeadRules::default()) {
            Ok(Parsed::Whole(length)) => answer.head_len = length,
            _ => return Err(Stop::Own("the type of a value cannot stand in a head".into())),
        }
        if exchange.request.method == Method::Head {
            // The value is still to be read, should the connection be kept; it is not worth that.
            answer.ended = true;
        }
        Ok(Some(answer.head.status()))
    }

    fn sent(&self, answer: &Answer) -> u64 {
        answer.sent
    }
}
