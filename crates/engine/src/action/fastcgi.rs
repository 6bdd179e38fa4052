//! The action of FastCGI and its kin (uwsgi, SCGI, memcached): an application server's answer to the client.
//!
//! Owns: what is asked, and relaying of stdout.
//! Never: tries (`upstream::attempt`), speaks (`upstream::fastcgi`, `upstream::memcached`), or parses records (`weir_http::fastcgi`).
//! Driven by: the walk.

use std::borrow::Cow;
use std::time::Duration;

use weir_expr::settings::{Spoken, UpstreamSettings};
use weir_plan::FastCgi;
use weir_policy::retry::Failure;
use weir_rt::Timer;
use weir_wire::SendError;

use super::cached::keep;
use super::carried::{self, Came, Carried, Relay, Relayed, Rest, Waits, of_client};
use super::{lasting, rewrite, rules, settle};
use crate::answer::respond;
use crate::eval::cgi;
use crate::exchange::fields::Fields;
use crate::exchange::{BodySize, Downstream, Exchange, Next, errors, intake};
use crate::upstream::fastcgi::{Answer, Application, Keeping};
use crate::upstream::memcached::Memcached;
use crate::upstream::{Answered, Attempts, Reach, resolve, stick, sticky};
use crate::worker::Installed;
use crate::worker::count::Attempting;
use crate::worker::watch::{Ends, Watch};

/// Sets kept connections apart from those of HTTP.
const OF_FASTCGI: u64 = 2;
const OF_MEMCACHED: u64 = 4;

/// Serves a request from an application server.
pub(crate) async fn serve<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
    fastcgi: &FastCgi,
) -> Next<Box<Rest<Answer>>> {
    if intake::declared_too_large(exchange) {
        return Next::Status(413);
    }
    // What a rewrite made of the path goes into the name of a script.
    if cgi::may_be_unsafe(exchange) && weir_http::uri::is_unsafe(&cgi::path(exchange)) {
        errors::unsafe_uri(exchange, &exchange.request.path);
        return Next::Status(404);
    }
    let resolved = match resolve(exchange, installed, &fastcgi.target).await {
        Ok(resolved) => resolved,
        Err((status, why)) => {
            errors::upstream_error(exchange, &why);
            return Next::Status(status);
        }
    };
    // CGI wants CONTENT_LENGTH beforehand, and a retry wants the body again: it is always taken in first.
    if exchange.request.has_body()
        && (fastcgi.pass_request_body || intake::is_for_file(exchange))
        && let Err(status) = intake::buffer(exchange, down).await
    {
        return Next::Status(status);
    }
    let settings = &*fastcgi.settings;
    let memcached = matches!(fastcgi.spoken, Spoken::Memcached { .. });
    let timer = Timer::new();
    let watch =
        Watch::new(down.watched(), Ends::unanswered(keep::client_abort(exchange, settings.client_abort)));
    let attempts = Attempts {
        installed,
        retry: fastcgi.retry,
        reach: Reach {
            timeout: settings.connect_timeout,
            keepalive: settings.socket_keepalive,
            bind: fastcgi.bind.as_ref(),
            transparent: fastcgi.transparent,
            tls: fastcgi.tls.as_deref(),
            secure: resolved.secure,
            host: resolved.host.as_deref(),
            send_proxy: None,
            reuse: fastcgi.keep_connection,
            spoken: if memcached { OF_MEMCACHED } else { OF_FASTCGI },
        },
        timer: &timer,
        watch: &watch,
    };
    let answered = if memcached {
        let Some(store) = Memcached::new(exchange, fastcgi, &timer) else { return Next::Status(500) };
        Box::pin(attempts.run(exchange, &mut { store }, resolved.destination)).await
    } else {
        let mut application = Application { fastcgi, timer: &timer, reused: false };
        attempts.run(exchange, &mut application, resolved.destination).await
    };
    match answered {
        Ok(answered) => {
            watch.change(Ends::answering(keep::client_abort(exchange, settings.client_abort)));
            forward(exchange, down, &attempts, fastcgi, answered).await
        }
        Err(unanswered) => unanswered.end(down),
    }
}

/// Forwards an answer whose head is whole.
async fn forward<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    attempts: &Attempts<'_>,
    fastcgi: &FastCgi,
    answered: Answered<Answer>,
) -> Next<Box<Rest<Answer>>> {
    let Answered { link: mut answer, lease, counted, key, history, picked, destination } = answered;
    if fastcgi.keep_connection {
        let bounds = Cow::Owned(destination.keepalive(attempts.installed).into_owned());
        answer.keeping = Some(Box::new(Keeping { pool: picked.pool, bounds, key, history }));
    }
    let status = answer.head.status();
    exchange.response.status = status;
    crate::exchange::sticks::answered(exchange, status);
    if let Some(attempt) = exchange.attempts.last_mut() {
        attempt.protocol = Some("HTTP/1.1");
    }
    exchange.response.upstream_fields.clear();
    for (id, name, value) in answer.head.headers(&answer.text).end_to_end() {
        exchange.response.upstream_fields.push_known(id, name, value);
    }
    if exchange.caching.is_some() && keep::seen(exchange, &fastcgi.ignore_headers) {
        carried::drop_body(exchange, answer, counted, status);
        return Next::Done;
    }
    rewrite::pass_fields(exchange, &fastcgi.hide_headers);
    if let Some(instead) = rules::run(exchange, down, attempts.installed).await {
        settle::forget_fields(exchange);
        carried::drop_body(exchange, answer, counted, status);
        return instead;
    }
    sticky::set(exchange, attempts.installed, &picked);
    stick::learn(exchange, attempts.installed, &picked);
    if let Some(reason) = answer.head.reason(&answer.text)
        && reason != exchange.phrases().reason(status).as_bytes()
    {
        exchange.response.reason = Some(reason.into());
    }
    let length = answer.head.content_length();
    answer.text.drain(..answer.head_len);
    let redirected = rewrite::obey(exchange, attempts.installed, &fastcgi.ignore_headers);
    let settings = &fastcgi.settings;
    // What memcached does not have is no answer of its own.
    let missing = status == 404 && matches!(fastcgi.spoken, Spoken::Memcached { .. });
    let intercepted = missing || settle::intercepts(exchange, settings, status);
    if let Some(instead) = settle::instead(exchange, redirected, intercepted, &fastcgi.ignore_headers) {
        settle::forget_fields(exchange);
        carried::drop_body(exchange, answer, counted, status);
        return instead;
    }
    // A CGI redirect without a scheme is asked for from us (RFC 3875 §6.2.2) only where it is a path of its own status.
    let size = match length {
        _ if respond::is_bodiless(exchange) => BodySize::Bodiless,
        Some(length) => BodySize::Known(length),
        None if answer.ended => BodySize::Known(answer.text.len() as u64),
        None => BodySize::Unknown,
    };
    // What an application sends beyond the length that it announced is dropped.
    answer.room = size.known();
    exchange.response.unbuffered = !settings.buffering;
    settle::start(
        exchange,
        down,
        size,
        (&fastcgi.ignore_headers, &fastcgi.settings, fastcgi.store.as_deref()),
    );
    let rest = Rest { link: answer, counted, lease, settings: settings.clone(), status };
    rest.begin(exchange, down, attempts).await
}

impl Carried for Answer {
    async fn relay<D: Downstream>(
        &mut self,
        exchange: &mut Exchange,
        down: &mut D,
        settings: &UpstreamSettings,
        waits: Waits<'_>,
    ) -> Result<Relayed, Relay> {
        relay(exchange, down, self, settings.read_timeout, waits).await
    }

    fn park(&mut self, exchange: &Exchange, counted: &Attempting) {
        Self::park(self, exchange, counted);
    }

    fn came(&self) -> Came {
        Came { passed: self.passed, received: self.received, over: self.ended }
    }
}

async fn relay<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    answer: &mut Answer,
    patience: Duration,
    (timer, watch, due): Waits<'_>,
) -> Result<Relayed, Relay> {
    loop {
        if !answer.text.is_empty() {
            let mut text = std::mem::take(&mut answer.text);
            if let Some(room) = &mut answer.room {
                text.truncate(usize::try_from(*room).unwrap_or(usize::MAX));
                *room -= text.len() as u64;
            }
            answer.passed += text.len() as u64;
            respond::data(exchange, down, &text).await.map_err(of_client)?;
            answer.text = text;
            answer.text.clear();
        }
        if answer.ended {
            let ended = respond::end(exchange, down, &Fields::default()).await;
            return ended.map(|()| Relayed::Whole).map_err(of_client);
        }
        if lasting::is_due(due) {
            return Ok(Relayed::Lasting);
        }
        if answer.input.is_empty() {
            respond::flush(exchange, down).await.map_err(Relay::Client)?;
        }
        let (patience, wait) = lasting::wait(patience, &mut answer.silent, due);
        let gone = |_| Relay::Client(SendError::Io(std::io::ErrorKind::ConnectionReset.into()));
        match watch.over(answer.next(exchange, timer, Some(wait))).await.map_err(gone)? {
            Err(failed) if failed.failure == Failure::Timeout && wait < patience => answer.silent = wait,
            read => read.map_err(Relay::Endpoint)?,
        }
    }
}
