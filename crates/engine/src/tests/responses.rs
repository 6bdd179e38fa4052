//! Responses of endpoints on their way to a client's half: one that was cut never looks whole.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use weir_expr::settings::KeepAliveMode;
use weir_http::{HeadRules, Method};
use weir_plan::settings::{ClientSettings, Conduct, Symlinks};
use weir_plan::{
    Action, IfModifiedSince, MimeTable, PathIndex, Plan, Route, RouteFeatures, RouteIx, RouteSettings, Site,
    SiteId, StaticFiles, Template,
};

use super::half::Told;
use super::origin::{Then, origin};
use super::{exchange, on_a_worker, sockets};
use crate::action::Later;
use crate::exchange::clientless::Clientless;
use crate::exchange::{Ending, Phase};
use crate::walk;

/// A plan whose one route goes to the endpoints of [`super::plan`].
pub(super) fn plan(sockets: &[&Path]) -> Plan {
    let files = StaticFiles {
        root: Template { pieces: Vec::new() },
        alias: false,
        index: Box::new([]),
        listing: None,
        types: Arc::new(MimeTable::new([], "", None, Arc::default())),
        etag: false,
        if_modified_since: IfModifiedSince::Exact,
        max_ranges: None,
        precompressed: Box::default(),
        sendfile: false,
        symlinks: Symlinks::default(),
        random_index: false,
        video: None,
        dav: None,
    };
    let mut route = Route {
        name: "/".into(),
        counts_for: None,
        features: RouteFeatures::empty(),
        internal: false,
        prefix: Arc::from(&b"/"[..]),
        children: None,
        program: None,
        try_files: None,
        files: Arc::new(files),
        response_program: None,
        action: Action::Proxy(Arc::new(super::http1::proxy())),
        settings: Arc::new(RouteSettings { chunked: true, ..RouteSettings::default() }),
    };
    route.features = RouteFeatures::of(&route);
    let site = Site {
        id: SiteId::from_name("site"),
        name: "site".into(),
        client: Arc::new(ClientSettings::default()),
        heads: HeadRules::default(),
        program: None,
        paths: PathIndex::default(),
        named: Box::new([]),
        fallback: RouteIx(0),
        keepalive_mode: KeepAliveMode::Keep,
        conduct: Conduct::default(),
        server_header: None,
        max_connections: None,
        session_rate: None,
        server_name_in_redirect: false,
        port_in_redirect: true,
        absolute_redirect: true,
        log_empty_connections: false,
        answer_silence: false,
        zone: None,
    };
    Plan { sites: vec![site], routes: vec![route], ..super::plan(sockets) }
}

/// What the client's half was told of this answer.
fn told_of(answer: &'static [u8], check: impl Fn(&Told, Ending, u16)) {
    let (_folder, [a], [listener]) = sockets::<1>();
    // Once for each driver.
    origin(&listener, 2, move |_, stream| {
        stream.write_all(answer).unwrap();
        Then::Close
    });
    on_a_worker(plan(&[&a]), async |worker| {
        let mut exchange = exchange(&worker, Method::Get);
        for text in [&mut exchange.request.path, &mut exchange.request.raw_path] {
            text.extend_from_slice(b"/");
        }
        let mut half = Clientless(Told::default());
        if let Some(Later::Rest(rest)) = walk::run(&mut exchange, &mut half).await {
            rest.carry(&mut exchange, &mut half).await;
        }
        check(&half.0, exchange.ending, exchange.response.status);
    });
}

#[test]
fn a_whole_body_is_whole_however_it_is_framed() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
    ] {
        told_of(answer, |told, ending, status| {
            assert_eq!((&told.body[..], told.whole, told.cut), (&b"hello"[..], true, false));
            assert_eq!((ending, status), (Ending::Normal, 200));
        });
    }
}

#[test]
fn a_body_that_is_cut_is_cut_for_the_client() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nnonsense\r\n",
    ] {
        told_of(answer, |told, ending, _| {
            assert!(!told.whole && told.cut, "{}", String::from_utf8_lossy(answer));
            assert!(
                matches!(ending, Ending::ServerAborted(Phase::Data) | Ending::Proxy(Phase::Data)),
                "{ending:?}"
            );
        });
    }
}
