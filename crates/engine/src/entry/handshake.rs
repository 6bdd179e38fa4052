//! What comes before the protocol: the PROXY header, the TLS handshake.
//!
//! Owns: both, with their time limit.
//! Never: speaks HTTP. A client that speaks it where TLS is due goes on, and is told so (`walk`).
//! Driven by: `accept`.
//! Why: a future of its own, boxed and gone before the first request, so that idle connections stay small.

use std::rc::Rc;

use weir_http::proxy_protocol::{self, Proxied};
use weir_plan::{ListenerIx, NamedCertificate, Service, TlsIx};
use weir_rt::{AcceptError, Buf, ClientHello, SMALL, ServerTls, Stream, Timer, TlsStream};
use weir_wire::Conn;

use crate::exchange::{Client, Exchange, Session, TlsFacts, ToldAddresses, Traffic, Verified};
use crate::worker::named_tls::Named;
use crate::worker::tls::PROOF;
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
    let time = match &listener.service {
        Service::Http(hosts) => installed.plan.site(hosts.default_value()).client.header_timeout,
        Service::Tcp(tcp) => installed.plan.tcp_service(*tcp).handshake_timeout,
    };
    timer.arm(time);
    let expected = client.expects_proxy.get();
    if listener.proxy_protocol || expected {
        let believed = listener.proxy_header_names_client || expected;
        timer.run(proxy_header(&stream, client, believed, ahead)).await.ok()??;
    }
    let Some(tls) = &listener.tls else { return Some(Conn::Plain(stream)) };
    let offered = std::cell::OnceCell::new();
    let select = async |hello: &ClientHello| {
        if installed.plan.notes_offers {
            let _ = offered.set(Box::new((hello.suites.clone(), hello.groups.clone())));
        }
        if installed.plan.acme.is_used() && hello.alpn.len() == 1 && hello.alpn[0] == PROOF {
            return Box::pin(proof(worker, client, hello)).await;
        }
        // A pattern that gives up says nothing about whose certificate this client is to have: it gets none.
        let name = hello.server_name.as_deref().unwrap_or_default();
        let found = tls.by_name.lookup(name.as_bytes()).ok()?;
        if found.is_default
            && tls.strict_sni
            && !installed.plan.tls_identity(found.value).select_by_certificate_names
        {
            return None;
        }
        if installed.plan.tls_identity(found.value).named.is_empty() {
            return installed.tls().server(ix, found.value).cloned();
        }
        Box::pin(named(worker, installed, (ix, found.value), client, hello)).await
    };
    let accepted = timer.run(ServerTls::accept_after(stream, ahead.take(), select)).await;
    match accepted {
        Ok(Ok(stream)) => {
            let cert = stream.client_cert().and_then(|cert| cert.failure);
            if matches!(listener.service, Service::Tcp(_))
                && cert.is_some_and(|failure| !failure.is_of_authority())
            {
                // HTTP would say so; here the connection is all there is to refuse.
                worker.counters.handshake_failed(client.listener);
                return None;
            }
            if installed.plan.acme.is_used() && stream.alpn_is(PROOF) {
                // The authority has seen what it came for: nothing more is said (RFC 8737, 3).
                worker.counters.handshake(client.listener, false);
                return None;
            }
            client.end_handshakes();
            client.tls = Some(Box::new(TlsFacts { offered: offered.into_inner(), ..facts(&stream) }));
            worker.counters.handshake(client.listener, stream.resumed());
            in_zone(worker, installed, &listener.service, stream.server_name(), Some(stream.resumed()));
            Some(Conn::Tls(stream))
        }
        Ok(Err(error)) => {
            worker.counters.handshake_failed(client.listener);
            in_zone(worker, installed, &listener.service, None, None);
            let Service::Http(_) = &listener.service else { return None };
            worker.shared.logs.connection(weir_telemetry::Level::Info, client.serial, &error.to_string());
            let AcceptError::PlainHttp(stream, input) = error else { return None };
            client.speaks_plain = true;
            *ahead = input;
            Some(Conn::Plain(stream))
        }
        Err(_) => {
            worker.counters.handshake_failed(client.listener);
            in_zone(worker, installed, &listener.service, None, None);
            None
        }
    }
}

/// Counts a handshake in the zone of the site or service that it is for, if that has one. `resumed`: `None` if it failed.
fn in_zone(
    worker: &Worker,
    installed: &Installed,
    service: &Service,
    name: Option<&str>,
    resumed: Option<bool>,
) {
    if installed.plan.zones.is_empty() {
        return;
    }
    let zone = match service {
        Service::Http(hosts) => {
            let found = name.and_then(|name| hosts.lookup(name.as_bytes()).ok().map(|found| found.value));
            installed.plan.site(found.unwrap_or_else(|| hosts.default_value())).zone
        }
        Service::Tcp(tcp) => installed.plan.tcp_service(*tcp).zone,
    };
    if let Some(zone) = zone {
        worker.counters.handshake_in_zone(zone, resumed);
    }
}

/// TLS with an authority that looks at a name. Files may have to be read for that: not here.
#[cold]
async fn proof(worker: &Rc<Worker>, client: &Client, hello: &ClientHello) -> Option<ServerTls> {
    let (issued, host) = (worker.shared.issued.clone()?, hello.server_name.clone()?);
    let made = move || issued.proof(&host).map(|pair| crate::worker::tls::proof(&pair));
    match worker.shared.errands.run(made).await?? {
        Ok(tls) => Some(tls),
        Err(why) => {
            worker.shared.logs.connection(weir_telemetry::Level::Error, client.serial, &why);
            None
        }
    }
}

/// TLS with certificates that variables name. A name that is none of a host is no part of a path.
#[cold]
async fn named(
    worker: &Rc<Worker>,
    installed: &Rc<Installed>,
    (ix, identity): (ListenerIx, TlsIx),
    client: &Client,
    hello: &ClientHello,
) -> Option<ServerTls> {
    if hello.server_name.as_deref().is_some_and(|name| !is_host_name(name)) {
        return None;
    }
    let mut asking = Client::new(worker, client.peer.clone(), client.local.clone(), client.listener);
    asking.tls = Some(Box::new(TlsFacts::asking(hello.server_name.as_deref())));
    let asking = Rc::new(asking);
    let certificates = &installed.plan.tls_identity(identity).named;
    let names = match &installed.plan.listener(ix).service {
        Service::Http(hosts) => {
            let mut exchange = Exchange::new(worker.clone(), installed.clone(), asking);
            let host = hello.server_name.as_deref().unwrap_or_default();
            exchange.site = hosts.lookup(host.as_bytes()).ok()?.value;
            exchange.route = installed.plan.site(exchange.site).fallback;
            names(&exchange, certificates)
        }
        Service::Tcp(tcp) => {
            names(&Session::new(worker.clone(), installed.clone(), asking, *tcp), certificates)
        }
    };
    let prepared = &installed.prepared;
    let of = (&prepared.plan, prepared.tls.now());
    match prepared.named.server(&worker.shared, of, (ix, identity), names).await {
        Ok(tls) => Some(tls),
        Err(why) => {
            worker.shared.logs.connection(weir_telemetry::Level::Error, client.serial, &why);
            None
        }
    }
}

fn names(traffic: &impl Traffic, certificates: &[NamedCertificate]) -> Vec<Named> {
    certificates.iter().map(|certificate| crate::eval::certificates::named(traffic, certificate)).collect()
}

/// RFC 952 and 1123, with the underscores that people use.
fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        (1..=63).contains(&bytes.len())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte))
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// Reads a PROXY header; `None` if there is none, or a broken one.
async fn proxy_header(stream: &Stream, client: &mut Client, believed: bool, ahead: &mut Buf) -> Option<()> {
    loop {
        match proxy_protocol::parse(ahead) {
            Ok(Some(header)) => {
                if let Proxied::Inet { source, destination, .. } = header.proxied {
                    let tlvs = header.tlv_bytes(ahead).into();
                    client.proxied = Some(Box::new(ToldAddresses { source, destination, tlvs, believed }));
                }
                ahead.consume(header.len);
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
        offered: None,
        server_name: stream.server_name().map(Into::into),
        alpn: stream.alpn().map(Into::into),
        resumed: stream.resumed(),
        verified,
        verified_by: stream.basis().copied(),
        certificate,
        early: stream.early(),
    }
}
