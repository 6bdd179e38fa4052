//! HTTP/1 towards endpoints that misbehave, with a client's half that notes what it is told.

use std::io::Write as _;
use std::sync::Arc;

use weir_expr::settings::UpstreamSettings;
use weir_http::HeadRules;
use weir_plan::{PoolIx, Proxy, ProxyTarget, UpstreamUri};
use weir_policy::retry::RetryPolicy;
use weir_rt::Timer;

use super::half::Told;
use super::origin::{Then, origin};
use super::{exchange, on_a_worker, reach, responses, sockets};
use crate::exchange::clientless::Clientless;
use crate::exchange::{Ending, Phase};
use crate::upstream::http1::Http1;
use crate::upstream::request::{Asked, UpstreamBody};
use crate::upstream::target::Destination;
use crate::upstream::{Attempts, Unanswered};
use crate::worker::watch::{Ends, Watch, Watched};

pub(super) fn proxy() -> Proxy {
    Proxy {
        target: ProxyTarget::Pool(PoolIx(0)),
        tls: None,
        host: "a".into(),
        uri: UpstreamUri::Pass,
        method: None,
        http_1_1: true,
        grpc: false,
        announce_close: false,
        head: Arc::default(),
        pass_request_headers: true,
        pass_request_body: true,
        body: None,
        settings: Arc::new(UpstreamSettings::default()),
        retry: RetryPolicy::default(),
        heads: HeadRules::default(),
        hide_headers: Arc::default(),
        redirects: Arc::new([]),
        cookie_rewrites: Arc::new([]),
        ignore_headers: Arc::default(),
        accel: false,
        bind: None,
        transparent: false,
        cache: None,
        store: None,
    }
}

/// What one GET through the proxy comes to: the status if there is a head, what the client's half was told.
fn get(answer: &'static [u8], check: impl Fn(Result<u16, Unanswered>, &Told, Ending)) {
    let (_folder, [a], [listener]) = sockets::<1>();
    // Once for each driver.
    origin(&listener, 2, move |_, stream| {
        let _ = stream.write_all(answer);
        Then::Close
    });
    on_a_worker(responses::plan(&[&a]), async |worker| {
        let mut exchange = exchange(&worker, weir_http::Method::Get);
        exchange.response.upstream_target.push(b'/');
        let installed = exchange.installed.clone();
        let (proxy, mut half) = (proxy(), Clientless(Told::default()));
        let (timer, watch) = (Timer::new(), Watch::new(Watched::Nobody, Ends::Closed));
        let retry = RetryPolicy::default();
        let attempts =
            Attempts { installed: &installed, retry, reach: reach(), timer: &timer, watch: &watch };
        let mut http1 = Http1 {
            down: &mut half,
            proxy: &proxy,
            body: UpstreamBody::None,
            asked: Asked::default(),
            streaming: false,
            timer: &timer,
            watch: &watch,
            reused: false,
            interims: 0,
        };
        let came = attempts.run(&mut *exchange, &mut http1, Destination::Pool(PoolIx(0))).await;
        check(came.map(|answered| answered.link.response().status()), &half.0, exchange.ending);
    });
}

#[test]
fn interim_answers_are_passed_on_up_to_a_bound() {
    get(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", |came, told, _| {
        assert_eq!(came, Ok(204));
        assert_eq!(told.interims, [103]);
    });
    const FLOOD: &[u8] = b"HTTP/1.1 103 Early Hints\r\n\r\n";
    let flood: &'static [u8] = FLOOD.repeat(100).leak();
    get(flood, |came, told, ending| {
        assert_eq!(came, Err(Unanswered::Status(502)));
        assert_eq!(ending, Ending::Proxy(Phase::Headers));
        assert_eq!(told.interims.len(), 16);
    });
}

#[test]
fn a_head_that_is_cut_or_changes_protocols_unasked_is_no_answer() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\nContent-Le"[..],
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        b"",
    ] {
        get(answer, |came, told, _| {
            assert_eq!(came, Err(Unanswered::Status(502)));
            assert!(told.interims.is_empty());
        });
    }
}
