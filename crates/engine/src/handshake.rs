//! What comes before the protocol: the PROXY header, the TLS handshake.
//!
//! Owns: both, with their time limit.
//! Never: speaks HTTP, but for the one answer to a client that speaks it where TLS is due.
//! Driven by: `accept`.
//! Why: a future of its own, boxed and gone before the first request, so that idle connections stay small.

use std::rc::Rc;
use std::time::Duration;

use weir_http::proxy_protocol::{self, Proxied};
use weir_plan::{ListenerIx, Manner, Service};
use weir_rt::{AcceptError, Buf, MEDIUM, SMALL, Stream, Timer, TlsStream};
use weir_wire::Conn;

use crate::exchange::{Client, TlsFacts, ToldAddresses, Verified};
use crate::worker::{Installed, Worker};

/// Settles what comes first. `None`: the connection is done with. `ahead` holds what was read beyond it.
pub(crate) async fn settle(
    worker: &Rc<Worker>,
    installed: &Rc<Installed>,
    ix: ListenerIx,
    stream: Stream,
    timer: &Timer,
    client: &mut Client,
    ahead: &mut Buf,
) -> Option<Conn> {
    let listener = installed.plan.listener(ix);
    let (time, manner) = match &listener.service {
        Service::Http(hosts) => {
            let site = installed.plan.site(hosts.default_value());
            (site.client.header_timeout, site.manner)
        }
        Service::Tcp(tcp) => {
            let service = installed.plan.tcp_service(*tcp);
            (service.handshake_timeout, service.manner)
        }
    };
    timer.arm(time);
    if listener.proxy_protocol {
        timer.run(proxy_header(&stream, client, manner, ahead)).await.ok()??;
    }
    let Some(tls) = &listener.tls else { return Some(Conn::Plain(stream)) };
    let configs = &installed.prepared.server_tls[ix.at()];
    let select = |hello: &weir_rt::ClientHello| {
        let found = tls.by_name.lookup(hello.server_name.as_deref().unwrap_or_default().as_bytes());
        if found.is_default
            && tls.strict_sni
            && !installed.plan.tls_identity(found.value).select_by_certificate_names
        {
            return None;
        }
        configs.get(found.value.at())?.clone()
    };
    let accepted = timer.run(weir_rt::ServerTls::accept_after(stream, ahead.take(), select)).await;
    match accepted {
        Ok(Ok(stream)) => {
            client.end_handshakes();
            client.tls = Some(Box::new(facts(&stream)));
            worker.counters.handshake(client.listener, stream.resumed());
            Some(Conn::Tls(stream))
        }
        Ok(Err(error)) => {
            worker.counters.handshake_failed(client.listener);
            failed(worker, installed, ix, client, timer, error).await;
            None
        }
        Err(_) => {
            worker.counters.handshake_failed(client.listener);
            None
        }
    }
}

/// Reads a PROXY header; `None` if there is none, or a broken one.
async fn proxy_header(stream: &Stream, client: &mut Client, manner: Manner, ahead: &mut Buf) -> Option<()> {
    loop {
        match proxy_protocol::parse(ahead) {
            Ok(Some(header)) => {
                ahead.consume(header.len);
                if let Proxied::Inet { source, destination, .. } = header.proxied {
                    let believed = manner == Manner::Haproxy;
                    client.proxied = Some(Box::new(ToldAddresses { source, destination, believed }));
                }
                return Some(());
            }
            Ok(None) => {}
            Err(_) => return None,
        }
        match stream.read_up_to(ahead, SMALL).await {
            Ok(read) if read > 0 => {}
            _ => return None,
        }
    }
}

fn facts(stream: &TlsStream) -> TlsFacts {
    let (verified, certificate) = match stream.client_cert() {
        None => (Verified::None, None),
        Some(cert) => (cert.failure.map_or(Verified::Success, Verified::Failed), Some(cert.der.into())),
    };
    TlsFacts {
        protocol: stream.version().name(),
        cipher: stream.cipher(),
        curve: stream.group().map(Into::into).unwrap_or_default(),
        server_name: stream.server_name().map(Into::into),
        alpn: stream.alpn().map(Into::into),
        resumed: stream.resumed(),
        verified,
        certificate,
    }
}

/// Logs a handshake that failed; tells a client that speaks plain HTTP so.
async fn failed(
    worker: &Rc<Worker>,
    installed: &Rc<Installed>,
    ix: ListenerIx,
    client: &Client,
    timer: &Timer,
    error: AcceptError,
) {
    let Service::Http(hosts) = &installed.plan.listener(ix).service else { return };
    let text = error.to_string();
    if let AcceptError::PlainHttp(stream, _) = error {
        let name = installed.plan.site(hosts.default_value()).server_header.as_deref().unwrap_or("weir");
        let body = format!(
            "<html>\r\n<head><title>400 The plain HTTP request was sent to HTTPS port</title></head>\r\n<body>\r\n\
             <center><h1>400 Bad Request</h1></center>\r\n<center>The plain HTTP request was sent to HTTPS port\
             </center>\r\n<hr><center>{name}</center>\r\n</body>\r\n</html>\r\n"
        );
        let head = format!(
            "HTTP/1.1 400 Bad Request\r\nServer: {name}\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\
             Connection: close\r\n",
            body.len()
        );
        let mut text = head.into_bytes();
        worker.date_line(&mut text);
        text.extend_from_slice(b"\r\n");
        text.extend_from_slice(body.as_bytes());
        let mut answer = Buf::new();
        answer.extend(&text);
        timer.arm(Duration::from_secs(5));
        let _ = timer.run(stream.write_all(answer)).await;
        let _ = stream.shutdown_write().await;
        // What it still sends is read and dropped, so that no reset takes the answer away (RFC 9112 §9.6).
        timer.arm(Duration::from_secs(1));
        let mut rest = Buf::new();
        let dropped = async {
            while stream.read_up_to(&mut rest, MEDIUM).await.is_ok_and(|read| read > 0) {
                rest.clear();
            }
        };
        let _ = timer.run(dropped).await;
    }
    worker.shared.logs.connection(weir_telemetry::Level::Info, client.serial, &text);
}
