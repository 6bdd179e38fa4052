//! Clients of HTTP/1.0 and HTTP/1.1, each on a connection of its own, from its first byte to its close.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use weir_control::ListenerId;
use weir_http::HeadRules;
use weir_plan::settings::{BodySettings, CompressionSettings, ContentCoding};
use weir_plan::{
    Address, Compression, HostIndex, Listener, Plan, RouteFeatures, RouteSettings, Service, SiteIx,
};
use weir_rt::{Buf, PeerAddr, Stream, Timer};
use weir_wire::Conn;

use super::origin::{Then, bytes, head, origin};
use super::{on_a_worker, responses, sockets};
use crate::exchange::Client;
use crate::http::connection;
use crate::worker::connection_counts::CountedConnection;

/// A plan whose one listener, site and route lead to this socket.
fn plan(socket: &std::path::Path, settings: RouteSettings) -> Plan {
    let mut plan = responses::plan(&[socket]);
    let route = &mut plan.routes[0];
    route.settings = Arc::new(RouteSettings { chunked: true, ..settings });
    route.features = RouteFeatures::of(route);
    plan.listeners = vec![Listener {
        id: ListenerId::from_name("front"),
        name: "front".into(),
        address: Address::Unix("front".into()),
        http2: false,
        quic: None,
        proxy_protocol: false,
        proxy_header_names_client: false,
        tls: None,
        max_connections: None,
        gate: None,
        services: None,
        service: Service::Http(Arc::new(HostIndex::new(SiteIx(0)))),
        heads: HeadRules::default(),
        heads_differ: false,
    }];
    plan
}

/// Serves one connection of `client`, with each driver, until it closes; the endpoint answers by `script`.
fn talk(
    settings: RouteSettings,
    script: impl Fn(&str, &mut UnixStream) -> Then + Send + 'static,
    client: impl Fn(&mut UnixStream) + Send + Sync + 'static,
) {
    let (_folder, [a], [listener]) = sockets::<1>();
    // The kept connection of a worker ends with it, so the other driver's is another.
    origin(&listener, 2, script);
    let client = Arc::new(client);
    on_a_worker(plan(&a, settings), async |worker| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let spoken = client.clone();
        let (ends, mut ended) = weir_rt::mailbox::<()>();
        let speaker = std::thread::spawn(move || {
            let _ends = ends;
            theirs.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            spoken(&mut theirs);
        });
        let conn = Conn::Plain(Stream::from_fd(ours.into()).unwrap());
        let installed = worker.installed();
        let listener = &installed.plan.listeners[0];
        let counted = CountedConnection::new(&worker, worker.connection_counts(&installed, listener));
        let address = PeerAddr::Unix(None);
        let client = Client::new(&worker, address.clone(), Rc::new(address), listener.id);
        drop(installed);
        connection::serve(worker.clone(), counted, conn, Rc::new(client), Timer::new(), Buf::new()).await;
        // What the worker closes leaves with its loop, which must not stand still.
        assert_eq!(ended.recv().await, None);
        speaker.join().unwrap();
    });
}

/// All that comes until the connection closes.
fn rest(stream: &mut UnixStream) -> String {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    String::from_utf8(all).unwrap()
}

fn has_line(head: &str, line: &str) -> bool {
    head.lines().any(|one| one.eq_ignore_ascii_case(line))
}

const CHUNKED: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n\
    HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";

fn chunked(_: &str, stream: &mut UnixStream) -> Then {
    stream.write_all(CHUNKED).unwrap();
    Then::Keep
}

#[test]
fn a_client_of_http_1_0_gets_neither_chunks_nor_interim_answers() {
    talk(RouteSettings::default(), chunked, |stream| {
        stream.write_all(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").unwrap();
        let answer = rest(stream);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        assert!(has_line(head, "Connection: close"), "its end is the connection's: {head}");
        assert!(!head.to_ascii_lowercase().contains("transfer-encoding"), "{head}");
        assert_eq!(body, "hello");
    });
}

#[test]
fn a_client_of_http_1_0_keeps_its_connection_where_it_asks_and_the_length_is_known() {
    let script = |_: &str, stream: &mut UnixStream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").unwrap();
        Then::Keep
    };
    talk(RouteSettings::default(), script, |stream| {
        stream.write_all(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").unwrap();
        let first = head(stream).unwrap();
        assert!(has_line(&first, "Connection: keep-alive"), "{first}");
        assert_eq!(bytes(stream, 5), b"hello");
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let second = rest(stream);
        assert!(has_line(&second, "Connection: close"), "{second}");
        assert!(second.ends_with("\r\n\r\nhello"), "{second}");
    });
}

#[test]
fn requests_of_http_1_1_that_come_together_are_answered_in_their_order() {
    let script = |head: &str, stream: &mut UnixStream| {
        match head.starts_with("GET /first ") {
            true => stream.write_all(CHUNKED).unwrap(),
            false => stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno").unwrap(),
        }
        Then::Keep
    };
    talk(RouteSettings::default(), script, |stream| {
        let both = b"GET /first HTTP/1.1\r\nHost: a\r\n\r\nGET /then HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        stream.write_all(both).unwrap();
        let interim = head(stream).unwrap();
        assert!(
            interim.starts_with("HTTP/1.1 103 ") && has_line(&interim, "Link: </style.css>"),
            "{interim}"
        );
        let first = head(stream).unwrap();
        assert!(
            first.starts_with("HTTP/1.1 200 ") && has_line(&first, "Transfer-Encoding: chunked"),
            "{first}"
        );
        let second = rest(stream);
        let (body, second) = second.split_once("HTTP/1.1 ").unwrap();
        assert!(body.ends_with("\r\n0\r\n\r\n") && body.contains("he"), "{body}");
        assert!(second.starts_with("404 ") && second.ends_with("\r\n\r\nno"), "{second}");
        assert!(has_line(second, "Connection: close"), "{second}");
    });
}

#[test]
fn a_body_is_asked_for_once_it_is_wanted_and_never_where_it_is_refused() {
    let small = || {
        let body = BodySettings { max_size: Some(5), ..BodySettings::default() };
        RouteSettings { body: Arc::new(body), ..RouteSettings::default() }
    };
    let script = |head: &str, stream: &mut UnixStream| {
        assert!(!head.to_ascii_lowercase().contains("expect"), "{head}");
        let body = bytes(stream, 5);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").unwrap();
        stream.write_all(&body).unwrap();
        Then::Keep
    };
    talk(small(), script, |stream| {
        let asks = b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
        stream.write_all(asks).unwrap();
        assert_eq!(head(stream).unwrap(), "HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(b"hello").unwrap();
        assert!(head(stream).unwrap().starts_with("HTTP/1.1 200 "));
        assert_eq!(bytes(stream, 5), b"hello");
        let asks = b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 6\r\n\r\n";
        stream.write_all(asks).unwrap();
        let refused = rest(stream);
        assert!(refused.starts_with("HTTP/1.1 413 "), "{refused}");
        assert!(
            has_line(&refused, "Connection: close"),
            "where the next request begins is unknown: {refused}"
        );
    });
}

#[test]
fn an_upgraded_connection_carries_bytes_both_ways_and_ends_with_both_sides() {
    let script = |head: &str, stream: &mut UnixStream| {
        assert!(has_line(head, "Upgrade: websocket") && has_line(head, "Connection: upgrade"), "{head}");
        let switches =
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nhi";
        stream.write_all(switches).unwrap();
        let asked = bytes(stream, 9);
        stream.write_all(&asked).unwrap();
        // The client's end arrives as an end.
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        stream.write_all(b"bye").unwrap();
        Then::Close
    };
    talk(RouteSettings::default(), script, |stream| {
        // What stands behind the request is the tunnel's.
        let asks = b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nahead";
        stream.write_all(asks).unwrap();
        let answer = head(stream).unwrap();
        assert!(answer.starts_with("HTTP/1.1 101 ") && has_line(&answer, "Upgrade: websocket"), "{answer}");
        assert_eq!(bytes(stream, 2), b"hi");
        stream.write_all(b"ping").unwrap();
        assert_eq!(bytes(stream, 9), b"aheadping");
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(rest(stream), "bye");
    });
}

#[test]
fn an_upgrade_that_the_endpoint_declines_is_an_answer_like_any_other() {
    let script = |_: &str, stream: &mut UnixStream| {
        stream.write_all(b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n").unwrap();
        Then::Close
    };
    talk(RouteSettings::default(), script, |stream| {
        let asks = b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: close, upgrade\r\n\r\n";
        stream.write_all(asks).unwrap();
        let answer = rest(stream);
        assert!(answer.starts_with("HTTP/1.1 426 ") && has_line(&answer, "Connection: close"), "{answer}");
    });
}

#[test]
fn a_body_passes_through_its_filters_where_the_client_wants_them_and_untouched_where_not() {
    const BODY: &str = "all work and no play makes Jack a dull boy\n";
    let gzip = CompressionSettings {
        coding: ContentCoding::Gzip,
        level: 5,
        window: 0,
        min_length: 20,
        types: vec!["text/plain".into()],
        vary: true,
        http_1_0: false,
        proxied: Vec::new(),
        disable: Vec::new(),
    };
    let compression = [Arc::new(Compression::new(Arc::new(gzip), Vec::new()))].into();
    let script = |_: &str, stream: &mut UnixStream| {
        let body = BODY.repeat(100);
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nETag: \"one\"\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        Then::Keep
    };
    talk(RouteSettings { compression, ..RouteSettings::default() }, script, |stream| {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let plain = head(stream).unwrap();
        let length = format!("Content-Length: {}", BODY.len() * 100);
        assert!(has_line(&plain, &length) && has_line(&plain, "ETag: \"one\""), "{plain}");
        assert!(has_line(&plain, "Vary: Accept-Encoding"), "{plain}");
        assert_eq!(bytes(stream, BODY.len() * 100), BODY.repeat(100).as_bytes());

        let asks = b"GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n";
        stream.write_all(asks).unwrap();
        let packed = head(stream).unwrap();
        assert!(
            has_line(&packed, "Content-Encoding: gzip") && has_line(&packed, "ETag: W/\"one\""),
            "{packed}"
        );
        assert!(!packed.contains("Content-Length"), "{packed}");
        let mut chunks = Vec::new();
        stream.read_to_end(&mut chunks).unwrap();
        let mut body = String::new();
        flate2::read::GzDecoder::new(&unchunked(&chunks)[..]).read_to_string(&mut body).unwrap();
        assert_eq!(body, BODY.repeat(100));
    });
}

/// A body out of its chunks, which have to be whole.
fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").unwrap();
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        body.extend_from_slice(&rest[end + 2..end + 2 + length]);
        assert_eq!(&rest[end + 2 + length..end + 4 + length], b"\r\n");
        rest = &rest[end + 4 + length..];
        if length == 0 {
            assert!(rest.is_empty(), "nothing stands behind the last chunk");
            return body;
        }
    }
}
