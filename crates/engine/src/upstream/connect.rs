//! Opening a connection to an endpoint: TCP or unix, PROXY header, TLS.
//!
//! Owns: the steps and their common time limit.
//! Driven by: attempts of HTTP, FastCGI and TCP services.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use weir_expr::settings::ProxyProtocol;
use weir_plan::Address;
use weir_rt::{Buf, ClientTls, ConnectOptions, Keepalive, Stream, Timer};
use weir_wire::Conn;

use crate::exchange::Client;

/// A PROXY header's version, the connection it is about (`None`: it is our own), and the client's address.
pub(crate) type ProxyAbout<'a> = (ProxyProtocol, Option<&'a Client>, Option<(IpAddr, u16)>);

/// How a connection is opened.
pub(crate) struct ConnectSettings<'a> {
    /// For all steps together.
    pub(crate) timeout: Duration,
    /// Local address; port 0: any.
    pub(crate) local: Option<SocketAddr>,
    /// It may be an address of another machine.
    pub(crate) transparent: bool,
    /// Send TCP keep-alive probes.
    pub(crate) keepalive: bool,
    /// The proxy of SOCKS 4 that it goes through.
    pub(crate) socks: Option<SocketAddr>,
    /// PROXY header sent first, about this client.
    pub(crate) proxy: Option<ProxyAbout<'a>>,
    /// TLS and the name to verify.
    pub(crate) tls: Option<(&'a ClientTls, &'a str)>,
}

/// Why a connection could not be opened.
#[derive(Debug)]
pub(crate) enum ConnectFailure {
    /// Refused, unreachable, or the TLS handshake failed; the text is for the log.
    Failed(String),
    /// Not in time.
    Timeout,
    /// This process has no descriptor or port left: not the endpoint's fault.
    Resources(String),
}

/// Opens a connection.
///
/// # Errors
/// See [`ConnectFailure`].
pub(crate) async fn open(
    address: &Address,
    settings: &ConnectSettings<'_>,
    timer: &Timer,
) -> Result<Conn, ConnectFailure> {
    timer.arm(settings.timeout);
    let steps = async {
        let stream = match settings.socks {
            None => connect(address, settings).await.map_err(sort)?,
            Some(socks) => {
                let stream = connect(&Address::Tcp(socks), settings).await.map_err(sort)?;
                Box::pin(through_socks(stream, address)).await?
            }
        };
        if let Some((version, client, source)) = settings.proxy {
            send_proxy_header(&stream, version, client, source).await.map_err(sort)?;
        }
        match settings.tls {
            None => Ok(Conn::Plain(stream)),
            Some((tls, name)) => match tls.connect(stream, name).await {
                Ok(stream) => Ok(Conn::Tls(stream)),
                Err(error) => Err(ConnectFailure::Failed(format!("TLS handshake failed: {error}"))),
            },
        }
    };
    timer.run(steps).await.unwrap_or(Err(ConnectFailure::Timeout))
}

async fn connect(address: &Address, settings: &ConnectSettings<'_>) -> std::io::Result<Stream> {
    match address {
        Address::Tcp(to) => {
            let options = ConnectOptions {
                source: settings.local,
                transparent: settings.transparent,
                nodelay: true,
                keepalive: settings.keepalive.then(|| Keepalive { on: true, ..Keepalive::default() }),
                ..ConnectOptions::default()
            };
            weir_rt::connect(*to, &options).await
        }
        Address::Udp(_) => Err(std::io::ErrorKind::Unsupported.into()),
        Address::Unix(path) => weir_rt::connect_unix(Path::new(path)).await,
        Address::Inherited(_) => Err(std::io::ErrorKind::AddrNotAvailable.into()),
    }
}

/// Asks a proxy of SOCKS 4 for a connection to an endpoint.
#[cold]
async fn through_socks(stream: Stream, to: &Address) -> Result<Stream, ConnectFailure> {
    let failed = |why: &str| ConnectFailure::Failed(format!("SOCKS proxy: {why}"));
    let to = match to {
        Address::Tcp(to) => SocketAddr::new(to.ip().to_canonical(), to.port()),
        _ => return Err(failed("it leads to no socket of this machine")),
    };
    let SocketAddr::V4(to) = to else { return Err(failed("version 4 knows no IPv6")) };
    let mut request = vec![4, 1];
    request.extend_from_slice(&to.port().to_be_bytes());
    request.extend_from_slice(&to.ip().octets());
    request.extend_from_slice(b"Weir\0");
    stream.write_all(Buf::from(&request[..])).await.0.map_err(sort)?;
    let conn = Conn::Plain(stream);
    let mut reply = Buf::new();
    while reply.len() < 8 {
        let room = 8 - reply.len();
        match conn.read_up_to(&mut reply, room).await {
            Ok(0) => return Err(failed("it closed the connection")),
            Ok(_) => {}
            Err(error) => return Err(sort(error)),
        }
    }
    match (reply[1], conn) {
        (90, Conn::Plain(stream)) if reply[0] == 0 => Ok(stream),
        (code, _) => Err(failed(&format!("it refuses ({code})"))),
    }
}

fn sort(error: std::io::Error) -> ConnectFailure {
    // What the system did not say was found out on this side.
    match is_ours(&error) || error.raw_os_error().is_none() {
        true => ConnectFailure::Resources(error.to_string()),
        false => {
            ConnectFailure::Failed(format!("connect() failed ({})", crate::exchange::errors::system(&error)))
        }
    }
}

/// Whether a socket failed for want of something on this side.
pub(super) fn is_ours(error: &std::io::Error) -> bool {
    // EMFILE, ENFILE, ENOBUFS, ENOMEM, EADDRNOTAVAIL.
    matches!(error.raw_os_error(), Some(23 | 24 | 105 | 12 | 99))
}

async fn send_proxy_header(
    stream: &Stream,
    version: ProxyProtocol,
    client: Option<&Client>,
    source: Option<(IpAddr, u16)>,
) -> std::io::Result<()> {
    let destination = client.and_then(Client::destination);
    let (source, destination) = match (client, version) {
        // The first version cannot say that the connection is our own: HAProxy names its two ends.
        (None, ProxyProtocol::V1) => {
            let inet = |addr: std::io::Result<weir_rt::PeerAddr>| {
                addr.ok().and_then(|addr| addr.inet()).map(|addr| (addr.ip(), addr.port()))
            };
            (inet(stream.local_addr()), inet(stream.peer_addr()))
        }
        _ => (source, destination),
    };
    let text = proxy_header(version, source, destination, false);
    stream.write_all(Buf::from(&text[..])).await.0
}

/// A PROXY header about a client's connection, or its datagrams.
pub(super) fn proxy_header(
    version: ProxyProtocol,
    source: Option<(IpAddr, u16)>,
    destination: Option<(IpAddr, u16)>,
    datagram: bool,
) -> Vec<u8> {
    use weir_http::proxy_protocol::{Proxied, ProxyVersion, write};
    let proxied = match source.zip(destination) {
        // The first version has no word for datagrams; nginx uses that for connections.
        Some((source, destination)) => Proxied::Inet {
            source: source.into(),
            destination: destination.into(),
            datagram: datagram && version == ProxyProtocol::V2,
        },
        None => Proxied::Local,
    };
    let version = match version {
        ProxyProtocol::V1 => ProxyVersion::V1,
        ProxyProtocol::V2 => ProxyVersion::V2,
    };
    let mut text = Vec::with_capacity(128);
    write(version, &proxied, &mut text);
    text
}

/// The local address that a template came to: an address, perhaps with a port, or nothing.
pub(crate) fn local_address(text: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let bare = |text: &str| Some(SocketAddr::new(text.trim_matches(['[', ']']).parse().ok()?, 0));
    text.parse().ok().or_else(|| bare(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_descriptors_is_not_the_endpoints_fault() {
        assert!(matches!(sort(std::io::Error::from_raw_os_error(24)), ConnectFailure::Resources(_)));
        assert!(matches!(sort(std::io::Error::from_raw_os_error(111)), ConnectFailure::Failed(_)));
        assert_eq!(local_address(b"127.0.0.2"), Some("127.0.0.2:0".parse().unwrap()));
        assert_eq!(local_address(b"127.0.0.2:81"), Some("127.0.0.2:81".parse().unwrap()));
        assert_eq!(local_address(b"[::1]:81"), Some("[::1]:81".parse().unwrap()));
        assert_eq!(local_address(b"[::1]"), Some("[::1]:0".parse().unwrap()));
        assert_eq!(local_address(b"nonsense"), None);
        assert_eq!(local_address(b""), None);
    }
}
