//! Sessions of TCP services: what is asked of them that only requests have.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use weir_control::{ListenerId, SiteId};
use weir_expr::Peeked as What;
use weir_http::Method;
use weir_plan::settings::LogLevel;
use weir_plan::{Access, Op, Plan, TcpAction, TcpIx, TcpService, Var};
use weir_rt::PeerAddr;

use super::{exchange, on_a_worker};
use crate::eval::program::{self, Verdict};
use crate::eval::vars;
use crate::exchange::{Client, Peeked, Session};
use crate::worker::Worker;

/// A plan with one service, and nothing of HTTP.
fn plan() -> Plan {
    let service = TcpService {
        id: SiteId::from_name("service"),
        name: "service".into(),
        action: TcpAction::Nobody,
        inspect: None,
        program: None,
        access: Arc::new(Access::default()),
        limit_conn: Arc::new([]),
        real_ip: None,
        resolver: None,
        access_logs: Arc::new([]),
        error_logs: Arc::new([]),
        error_lines: LogLevel::Debug,
        handshake_timeout: Duration::from_secs(60),
        tcp_nodelay: true,
        max_connections: None,
        session_rate: None,
        socket_keepalive: false,
        log_empty_connections: true,
        zone: None,
    };
    Plan { tcp: vec![service], ..Plan::default() }
}

fn session(worker: &Rc<Worker>) -> Session {
    let address = PeerAddr::Unix(None);
    let client = Client::new(worker, address.clone(), Rc::new(address), ListenerId::from_name("none"));
    Session::new(worker.clone(), worker.installed(), Rc::new(client), TcpIx(0))
}

#[test]
fn a_session_has_its_own_values_and_none_of_a_request() {
    on_a_worker(plan(), async |worker| {
        let mut session = session(&worker);
        (session.received, session.sent, session.status) = (3, 5, 200);
        session.peeked = Some(Peeked { bytes: (*b"abc").into(), hello: None });
        let value = |var: &Var| {
            let mut out = Vec::new();
            vars::append(&session, var, &mut out).then(|| String::from_utf8(out).unwrap())
        };
        assert_eq!(value(&Var::SiteLabel).as_deref(), Some("service"));
        assert_eq!(value(&Var::BytesReceived).as_deref(), Some("3"));
        assert_eq!(value(&Var::BytesSent).as_deref(), Some("5"));
        assert_eq!(value(&Var::SessionStatus).as_deref(), Some("200"));
        assert_eq!(value(&Var::Peeked(What::Length)).as_deref(), Some("3"));
        assert_eq!(value(&Var::ClientAddr).as_deref(), Some("unix:"));
        let of_requests = [
            Var::Path,
            Var::Header("host".into()),
            Var::Host,
            Var::Status,
            Var::Filename,
            Var::FastcgiScriptName,
            Var::ProxyHost,
            Var::ServerName,
            Var::UpstreamHeader("server".into()),
            Var::CapturedRequestHeader(0),
        ];
        for var in of_requests {
            assert_eq!(value(&var), None, "{var:?}");
        }
        let request = exchange(&worker, Method::Get);
        assert!(!vars::append(&*request, &Var::Peeked(What::Length), &mut Vec::new()));
    });
}

#[test]
fn a_session_is_not_carried_where_a_rule_wants_what_only_requests_have() {
    on_a_worker(plan(), async |worker| {
        let mut session = session(&worker);
        let run = |session: &mut Session, op: Op| program::run(session, &[op]);
        assert!(matches!(run(&mut session, Op::Stop), Verdict::Go));
        assert!(matches!(run(&mut session, Op::Close(None)), Verdict::Close(None)));
        assert!(matches!(run(&mut session, Op::RetryConnectOnly), Verdict::Close(None)));
        assert!(matches!(run(&mut session, Op::SkipLog), Verdict::Go));
    });
}
