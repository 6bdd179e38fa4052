//! What a client does with servers that answer, say too much, say nothing, or are not who they should be.

use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use weir_fetch::{Bytes, Client, Error, Lookup, Names, Options, Trust, Version};

type Test = Result<(), Box<dyn std::error::Error>>;

/// A server that answers each connection's first request with `answer`, then holds the connection.
async fn says(answer: &'static str) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = vec![0; 4096];
                let _ = stream.read(&mut head).await;
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.read(&mut head).await;
            });
        }
    });
    Ok(address)
}

fn get(url: &str) -> Result<Request<Bytes>, http::Error> {
    Request::get(url).body(Bytes::new())
}

#[tokio::test]
async fn a_status_is_an_answer_and_nothing_is_followed() -> Test {
    let there =
        says("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 5\r\n\r\nhello").await?;
    let answer = Client::new(&Options::default())?.send(get(&format!("http://{there}/a?b"))?).await?;
    assert_eq!(answer.head.status, StatusCode::FOUND);
    assert_eq!(answer.body, "hello");
    Ok(())
}

#[tokio::test]
async fn what_is_too_large_or_too_late_is_refused() -> Test {
    let large = says("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world").await?;
    let client = Client::new(&Options { largest: 10, ..Options::default() })?;
    let error = client.send(get(&format!("http://{large}/"))?).await.map(|_| ()).unwrap_err();
    assert_eq!(error, Error::TooLarge { server: large.to_string(), largest: 10 });

    let silent = says("").await?;
    let after = Duration::from_millis(100);
    let client = Client::new(&Options { timeout: after, ..Options::default() })?;
    let error = client.send(get(&format!("http://someone:secret@{silent}/"))?).await.map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), format!("{silent} did not answer within 100 ms"));
    Ok(())
}

#[tokio::test]
async fn who_is_not_there_and_what_is_no_url_are_named() -> Test {
    let gone = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?.local_addr()?;
    let client = Client::new(&Options::default())?;
    let error = client.send(get(&format!("http://{gone}/"))?).await.map(|_| ()).unwrap_err();
    assert!(
        matches!(&error, Error::Connect { server, why } if *server == gone.to_string() && why.contains("refused")),
        "{error}"
    );
    for odd in ["ftp://127.0.0.1/", "/only/a/path"] {
        let error = client.send(get(odd)?).await.map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Url(_)), "{error}");
    }
    let noise = says("SSH-2.0-nothing\r\n").await?;
    let error = client.send(get(&format!("http://{noise}/"))?).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Exchange { .. }), "{error}");
    Ok(())
}

/// Finds one address for every name.
struct Everywhere(IpAddr);

impl Lookup for Everywhere {
    fn lookup(&self, host: &str) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> {
        assert_eq!(host, "keys.example");
        let found = vec![self.0];
        Box::pin(async move { Ok(found) })
    }
}

#[tokio::test]
async fn names_are_asked_of_whom_the_options_say() -> Test {
    let there = says("HTTP/1.1 204 No Content\r\n\r\n").await?;
    let names = Names::Asked(Arc::new(Everywhere(there.ip())));
    let client = Client::new(&Options { names, ..Options::default() })?;
    let answer = client.send(get(&format!("http://keys.example:{}/", there.port()))?).await?;
    assert_eq!(answer.head.status, StatusCode::NO_CONTENT);
    Ok(())
}

/// A server of HTTP/2 in clear that sends what it was asked for back, with a trailer.
async fn echoes_with_a_trailer() -> io::Result<SocketAddr> {
    async fn echo(
        request: Request<Incoming>,
    ) -> Result<Response<impl hyper::body::Body<Data = Bytes, Error = Infallible>>, hyper::Error> {
        let body = request.into_body().collect().await?.to_bytes();
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
        let frames = [Ok(Frame::data(body)), Ok(Frame::trailers(trailers))];
        Ok(Response::new(StreamBody::new(Frames(frames.into()))))
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(server.serve_connection(TokioIo::new(stream), service_fn(echo)));
        }
    });
    Ok(address)
}

/// Frames of a body that are all there.
struct Frames(std::collections::VecDeque<Result<Frame<Bytes>, Infallible>>);

impl futures_core::Stream for Frames {
    type Item = Result<Frame<Bytes>, Infallible>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(self.0.pop_front())
    }
}

#[tokio::test]
async fn http_2_in_clear_brings_trailers() -> Test {
    let there = echoes_with_a_trailer().await?;
    let client = Client::new(&Options { version: Version::Http2, ..Options::default() })?;
    let request = Request::post(format!("http://{there}/Export")).body(Bytes::from_static(b"spans"))?;
    let answer = client.send(request).await?;
    assert_eq!((answer.head.version, &answer.body[..]), (http::Version::HTTP_2, &b"spans"[..]));
    assert_eq!(answer.trailers["grpc-status"], "0");
    Ok(())
}

/// A server of HTTPS for `localhost` that answers 204, and the certificate that vouches for it.
async fn over_tls() -> Result<(SocketAddr, String), Box<dyn std::error::Error>> {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let pem = own.cert.pem();
    let key = rustls_pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der())?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)?;
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service =
                    service_fn(|_| async { Response::builder().status(204).body(Full::new(Bytes::new())) });
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    Ok((address, pem))
}

#[tokio::test]
async fn a_server_is_believed_as_the_options_say() -> Test {
    let (there, pem) = over_tls().await?;
    let url = format!("https://localhost:{}/", there.port());
    let asks = async |trust: Trust, url: &str| -> Result<u16, Box<dyn std::error::Error>> {
        let client = Client::new(&Options { trust, ..Options::default() })?;
        Ok(client.send(get(url)?).await?.head.status.as_u16())
    };
    let own = || Trust::Authorities { pem: pem.clone().into_bytes(), identity: None };
    assert_eq!(asks(own(), &url).await?, 204);
    let error = asks(Trust::System, &url).await.unwrap_err().to_string();
    assert!(error.contains("cannot connect to localhost") && error.contains("certificate"), "{error}");
    // The name counts, too.
    let error = asks(own(), &format!("https://{there}/")).await.unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
    assert_eq!(asks(Trust::Anybody, &format!("https://{there}/")).await?, 204);
    let error =
        asks(Trust::Authorities { pem: b"nothing".to_vec(), identity: None }, &url).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no certificate in PEM");
    Ok(())
}
