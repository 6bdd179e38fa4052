//! TLS in both roles, the same on both drivers, with our own client and with OpenSSL's.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::Write;
use std::process::{Command, Stdio};

use common::{both, deadline, pattern};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use weir_rt::*;

/// An authority that signs certificates for tests.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "test authority");
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    fn sign(&self, key: KeyPair, names: &[&str], common: &str) -> CertKey {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names.clone()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Weir, Inc");
        params.distinguished_name.push(DnType::CommonName, common);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        CertKey {
            staple: None,
            chain_pem: cert.pem().into_bytes(),
            key_pem: key.serialize_pem().into_bytes(),
            passwords: vec![],
            names,
            default: false,
        }
    }

    fn pair(&self, names: &[&str]) -> CertKey {
        self.sign(KeyPair::generate().unwrap(), names, "server")
    }

    fn verify(&self) -> ServerVerify {
        ServerVerify::Ca {
            trust: Trust { ca_pem: self.pem.clone().into_bytes(), ..Trust::default() },
            check_name: true,
        }
    }
}

fn server(certificates: Vec<CertKey>) -> ServerTlsConfig {
    ServerTlsConfig { certificates, ..Default::default() }
}

/// Accepts one connection with `tls`; the result is what the handshake came to.
fn accept_one(tls: ServerTls) -> (std::net::SocketAddr, Receiver<Result<TlsStream, AcceptError>>)
where
    TlsStream: 'static,
{
    let (sender, receiver) = mailbox();
    let addr = common::serve_once(move |stream| async move {
        let _ = sender.send(tls.accept(stream).await);
        Ok(())
    });
    (addr, receiver)
}

async fn dial(addr: std::net::SocketAddr, client: &ClientTls, name: &str) -> std::io::Result<TlsStream> {
    client.connect(connect(addr, &ConnectOptions::default()).await?, name).await
}

async fn handshake(server: &ServerTls, client: &ClientTls, name: &str) -> (TlsStream, TlsStream) {
    let (addr, mut accepted) = accept_one(server.clone());
    let client = dial(addr, client, name).await.unwrap();
    let server = accepted.recv().await.unwrap().unwrap();
    (client, server)
}

#[test]
fn big_transfers_in_both_versions() {
    let authority = Authority::new();
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let tls = ServerTls::new(ServerTlsConfig {
            min_version: version,
            max_version: version,
            ..server(vec![authority.pair(&["localhost"])])
        })
        .unwrap();
        let client =
            ClientTls::new(ClientTlsConfig { verify: authority.verify(), ..Default::default() }).unwrap();
        both(|runtime, _| {
            runtime.block_on(deadline(async {
                const LEN: usize = 3 << 20;
                let (client, server) = handshake(&tls, &client, "localhost").await;
                assert_eq!(client.version(), version);
                assert_eq!(server.cipher(), client.cipher());
                spawn(async move {
                    let mut buf = Buf::new();
                    while server.read_up_to(&mut buf, LARGE).await.unwrap() > 0 {
                        server.write_all(buf.take()).await.0.unwrap();
                    }
                    server.shutdown_write().await.unwrap();
                });
                let writer = client.clone();
                spawn(async move {
                    let data = pattern(LEN);
                    writer.write_slice(&data[..LEN / 2]).await.unwrap();
                    for chunk in data[LEN / 2..].chunks(5000) {
                        writer.write_all(Buf::from(chunk)).await.0.unwrap();
                    }
                    writer.shutdown_write().await.unwrap();
                });
                let mut got = Vec::new();
                let mut buf = Buf::new();
                while client.read(&mut buf).await.unwrap() > 0 {
                    got.extend_from_slice(&buf);
                    buf.clear();
                }
                assert!(got == pattern(LEN));
            }));
        });
    }
}

#[test]
fn dropped_reads_lose_nothing_and_files_pass() {
    let authority = Authority::new();
    let tls = ServerTls::new(server(vec![authority.pair(&["localhost"])])).unwrap();
    let client = ClientTls::new(ClientTlsConfig::default()).unwrap();
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            const LEN: usize = 300_000;
            let (client, server) = handshake(&tls, &client, "localhost").await;
            spawn(async move {
                let mut file = tempfile::tempfile().unwrap();
                file.write_all(&pattern(LEN)).unwrap();
                for i in 0..100u64 {
                    assert_eq!(server.send_file(&file, i * 3000, 3000).await.unwrap(), 3000);
                    yield_now().await;
                }
                // Dropped without `shutdown_write`: close_notify is sent all the same.
            });
            let mut buf = Buf::new();
            loop {
                let soon = now() + std::time::Duration::from_millis(1);
                match timeout(soon, client.read(&mut buf)).await {
                    Err(Elapsed) => {}
                    Ok(read) if read.as_ref().is_ok_and(|&n| n == 0) => break,
                    Ok(read) => drop(read.unwrap()),
                }
            }
            assert!(buf[..] == pattern(LEN));
        }));
    });
}

#[test]
fn a_peer_that_does_not_read_holds_the_writer_back() {
    let authority = Authority::new();
    let tls = ServerTls::new(server(vec![authority.pair(&["localhost"])])).unwrap();
    let client = ClientTls::new(ClientTlsConfig::default()).unwrap();
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            const LEN: usize = 16 << 20;
            let (client, server) = handshake(&tls, &client, "localhost").await;
            let mut data = Buf::from(&pattern(LEN)[..]);
            let mut left = usize::MAX;
            // Polled again and again while the socket is full, it must not go on encrypting.
            while data.len() < left {
                left = data.len();
                for _ in 0..50 {
                    let blocked = std::future::poll_fn(|cx| {
                        std::task::Poll::Ready(server.poll_write_all(cx, &mut data).is_pending())
                    });
                    assert!(blocked.await);
                    yield_now().await;
                }
            }
            assert!(left > LEN / 4, "{left}");
            spawn(async move {
                server.write_all(data).await.0.unwrap();
                server.shutdown_write().await.unwrap();
            });
            let mut got = Vec::new();
            let mut buf = Buf::new();
            while client.read_up_to(&mut buf, LARGE).await.unwrap() > 0 {
                got.extend_from_slice(&buf);
                buf.clear();
            }
            assert!(got == pattern(LEN));
        }));
    });
}

#[test]
fn certificates_are_chosen_by_name() {
    let authority = Authority::new();
    let mut pairs: Vec<CertKey> = ["a.example", "*.b.example", "default.example"]
        .into_iter()
        .map(|name| authority.sign(KeyPair::generate().unwrap(), &[name], name))
        .collect();
    pairs[2].default = true;
    let tls = ServerTls::new(server(pairs.clone())).unwrap();
    let strict = ServerTls::new(ServerTlsConfig { strict_names: true, ..server(pairs) }).unwrap();
    let client = ClientTls::new(ClientTlsConfig::default()).unwrap();
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            let cases = [
                ("a.example", "a.example"),
                ("A.Example", "a.example"),
                ("x.b.example", "*.b.example"),
                ("b.example", "default.example"),
                ("other.example", "default.example"),
                ("127.0.0.1", "default.example"),
            ];
            for (asked, expected) in cases {
                let (client, server) = handshake(&tls, &client, asked).await;
                let info = client.client_cert().unwrap().info().unwrap();
                assert_eq!(info.subject, format!("CN={expected},O=Weir\\, Inc"));
                let lower = asked.to_ascii_lowercase();
                let asked = (asked != "127.0.0.1").then_some(lower.as_str());
                assert_eq!(server.server_name(), asked);
            }
            let (addr, mut accepted) = accept_one(strict.clone());
            assert!(dial(addr, &client, "other.example").await.is_err());
            assert!(matches!(accepted.recv().await, Some(Err(AcceptError::Handshake(_)))));
        }));
    });
}

#[test]
fn ecdsa_is_preferred_where_both_kinds_are() {
    let authority = Authority::new();
    let rsa = std::process::Command::new("openssl")
        .args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"])
        .output()
        .unwrap();
    let rsa = KeyPair::from_pem(&String::from_utf8(rsa.stdout).unwrap()).unwrap();
    let pairs = vec![authority.sign(rsa, &["localhost"], "rsa"), authority.pair(&["localhost"])];
    let tls = ServerTls::new(server(pairs)).unwrap();
    let any = ClientTls::new(ClientTlsConfig {
        verify: authority.verify(),
        max_version: TlsVersion::Tls12,
        ..Default::default()
    })
    .unwrap();
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            let (client, _server) = handshake(&tls, &any, "localhost").await;
            assert!(client.cipher().contains("ECDSA"), "{}", client.cipher());
        }));
    });
}

#[test]
fn a_client_names_its_groups_and_says_goodbye_without_fin() {
    let authority = Authority::new();
    let tls = ServerTls::new(server(vec![authority.pair(&["localhost"])])).unwrap();
    let groups = Some(vec!["prime256v1".to_owned()]);
    let client = ClientTls::new(ClientTlsConfig { groups, ..Default::default() }).unwrap();
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            let (client, server) = handshake(&tls, &client, "localhost").await;
            assert_eq!(client.group().as_deref(), Some("secp256r1"));
            client.close_notify().await.unwrap();
            let mut buf = Buf::new();
            assert_eq!(server.read(&mut buf).await.unwrap(), 0, "close_notify was read");
            // The socket's other direction, and this one, are still open.
            assert!(server.stream().try_read(&mut buf).unwrap().is_none());
        }));
    });
}

#[test]
fn sessions_resume_across_configurations_but_not_policies() {
    let authority = Authority::new();
    let tickets = Tickets::new().unwrap();
    let build = |mode| {
        let client_auth = ClientAuth {
            mode,
            trust: Trust { ca_pem: authority.pem.clone().into_bytes(), ..Trust::default() },
        };
        ServerTls::new(ServerTlsConfig {
            tickets: Some(tickets.clone()),
            client_auth,
            ..server(vec![authority.pair(&["localhost"])])
        })
        .unwrap()
    };
    for max_version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        both(|runtime, _| {
            runtime.block_on(deadline(async {
                let client = ClientTls::new(ClientTlsConfig { max_version, ..Default::default() }).unwrap();
                let mut resumed = Vec::new();
                // Each handshake meets a configuration made afresh, as after a reload.
                for mode in [ClientAuthMode::Off, ClientAuthMode::Off, ClientAuthMode::Report] {
                    let (client, server) = handshake(&build(mode), &client, "localhost").await;
                    server.write_slice(b"hello").await.unwrap();
                    let mut buf = Buf::new();
                    client.read(&mut buf).await.unwrap();
                    assert_eq!(client.resumed(), server.resumed());
                    resumed.push(server.resumed());
                }
                assert_eq!(resumed, [false, true, false]);
            }));
        });
    }
}

#[test]
fn client_certificates() {
    let authority = Authority::new();
    let other = Authority::new();
    let build = |mode| {
        let client_auth = ClientAuth {
            mode,
            trust: Trust { ca_pem: authority.pem.clone().into_bytes(), ..Trust::default() },
        };
        ServerTls::new(ServerTlsConfig { client_auth, ..server(vec![authority.pair(&["localhost"])]) })
            .unwrap()
    };
    let client = |certificate| ClientTls::new(ClientTlsConfig { certificate, ..Default::default() }).unwrap();
    let good = client(Some(authority.sign(KeyPair::generate().unwrap(), &[], "good client")));
    let bad = client(Some(other.sign(KeyPair::generate().unwrap(), &[], "bad client")));
    let none = client(None);
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            use ClientAuthMode::*;
            for mode in [Report, Optional, Required] {
                let tls = build(mode);
                let (_client, server) = handshake(&tls, &good, "localhost").await;
                let cert = server.client_cert().unwrap();
                assert_eq!(cert.failure, None);
                assert_eq!(cert.info().unwrap().subject, "CN=good client,O=Weir\\, Inc");
                for (client, shows) in [(&bad, true), (&none, false)] {
                    let (addr, mut accepted) = accept_one(tls.clone());
                    let _client = dial(addr, client, "localhost").await;
                    let result = accepted.recv().await.unwrap();
                    match mode {
                        Report => {
                            let failure = result.unwrap().client_cert().map(|cert| cert.failure);
                            assert_eq!(failure.is_some(), shows);
                            assert!(failure.is_none_or(|failure| failure.is_some()));
                        }
                        Optional if !shows => assert!(result.unwrap().client_cert().is_none()),
                        _ => assert!(matches!(result, Err(AcceptError::Handshake(_)))),
                    }
                }
            }
        }));
    });
}

#[test]
fn a_self_signed_client_certificate_can_be_trusted_itself() {
    let authority = Authority::new();
    // As `openssl req -x509` makes them: they may sign others.
    let own = || {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["me".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let chain_pem = params.self_signed(&key).unwrap().pem().into_bytes();
        let key_pem = key.serialize_pem().into_bytes();
        CertKey { chain_pem, key_pem, staple: None, passwords: vec![], names: vec![], default: false }
    };
    let (mine, foreign) = (own(), own());
    let auth = ClientAuth {
        mode: ClientAuthMode::Report,
        trust: Trust { ca_pem: mine.chain_pem.clone(), ..Trust::default() },
    };
    let tls =
        ServerTls::new(ServerTlsConfig { client_auth: auth, ..server(vec![authority.pair(&["localhost"])]) })
            .unwrap();
    let client =
        |own| ClientTls::new(ClientTlsConfig { certificate: Some(own), ..Default::default() }).unwrap();
    let (mine, foreign) = (client(mine), client(foreign));
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            let (_client, server) = handshake(&tls, &mine, "localhost").await;
            assert_eq!(server.client_cert().unwrap().failure, None);
            let (_client, server) = handshake(&tls, &foreign, "localhost").await;
            assert!(server.client_cert().unwrap().failure.is_some());
        }));
    });
}

#[test]
fn servers_are_verified() {
    let authority = Authority::new();
    let other = Authority::new();
    let pair = authority.pair(&["right.example"]);
    let tls = ServerTls::new(server(vec![pair.clone()])).unwrap();
    let trusting = |verify| ClientTls::new(ClientTlsConfig { verify, ..Default::default() }).unwrap();
    let itself = |check_name| {
        trusting(ServerVerify::Ca {
            trust: Trust { ca_pem: pair.chain_pem.clone(), ..Trust::default() },
            check_name,
        })
    };
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            let cases = [
                (trusting(authority.verify()), "right.example", true),
                (trusting(authority.verify()), "wrong.example", false),
                (trusting(other.verify()), "right.example", false),
                (trusting(ServerVerify::Off), "my_pool", true),
                (itself(true), "right.example", true),
                (itself(true), "wrong.example", false),
                (itself(false), "wrong.example", true),
            ];
            for (client, name, good) in cases {
                let (addr, _accepted) = accept_one(tls.clone());
                assert_eq!(dial(addr, &client, name).await.is_ok(), good, "{name}");
            }
        }));
    });
}

#[test]
fn other_protocols_and_cut_connections_are_told_apart() {
    let authority = Authority::new();
    let tls = ServerTls::new(server(vec![authority.pair(&["localhost"])])).unwrap();
    let client = ClientTls::new(ClientTlsConfig::default()).unwrap();
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            let (addr, mut accepted) = accept_one(tls.clone());
            let plain = connect(addr, &ConnectOptions::default()).await.unwrap();
            plain.write_slice(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
            let Some(Err(AcceptError::PlainHttp(stream, received))) = accepted.recv().await else {
                panic!("not told apart")
            };
            assert_eq!(&received[..], b"GET / HTTP/1.1\r\n\r\n");
            stream.write_slice(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();

            let (addr, mut accepted) = accept_one(tls.clone());
            let plain = connect(addr, &ConnectOptions::default()).await.unwrap();
            plain.write_slice(b"\x00\x01\x02").await.unwrap();
            assert!(matches!(accepted.recv().await, Some(Err(AcceptError::NotTls))));

            let (addr, mut accepted) = accept_one(tls.clone());
            let silent = connect(addr, &ConnectOptions::default()).await.unwrap();
            drop(silent);
            let result = accepted.recv().await.unwrap();
            assert!(matches!(result, Err(AcceptError::Closed { received: false })), "{result:?}");

            // FIN without close_notify is a cut, with it a clean end.
            let (client_end, server_end) = handshake(&tls, &client, "localhost").await;
            client_end.stream().shutdown_write().await.unwrap();
            let error = server_end.read(&mut Buf::new()).await.unwrap_err();
            assert!(is_truncated(&error), "{error}");
            let (client_end, server_end) = handshake(&tls, &client, "localhost").await;
            client_end.write_slice(b"last words").await.unwrap();
            client_end.stream().flushed().await.unwrap();
            drop(client_end);
            let how = server_end.stream().peer_closed().await;
            assert!(matches!(how, PeerClosed::Finished), "{how:?}");
            let mut buf = Buf::new();
            assert_eq!(server_end.read(&mut buf).await.unwrap(), 10);
            assert_eq!(server_end.read(&mut buf).await.unwrap(), 0);
        }));
    });
}

#[test]
fn a_corrupt_record_costs_its_connection_only() {
    let authority = Authority::new();
    let tls = ServerTls::new(server(vec![authority.pair(&["localhost"])])).unwrap();
    let client =
        ClientTls::new(ClientTlsConfig { verify: authority.verify(), ..Default::default() }).unwrap();
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            for reader_is_server in [true, false] {
                let (client, server) = handshake(&tls, &client, "localhost").await;
                let (reader, writer) = if reader_is_server { (server, client) } else { (client, server) };
                let mut record = vec![0x17, 3, 3, 0, 32];
                record.extend([b'x'; 32]);
                writer.stream().try_write(&record).unwrap();
                let mut buf = Buf::new();
                let failed = loop {
                    match reader.read(&mut buf).await {
                        Ok(read) => assert!(read > 0, "an end is not what came"),
                        Err(error) => break error,
                    }
                };
                assert!(!is_truncated(&failed), "{failed}");
                // Whoever goes on nevertheless is told so, each time.
                buf.extend(b"an answer");
                assert!(reader.write_all(buf).await.0.is_err());
                let _ = reader.shutdown_write().await;
                assert!(reader.read(&mut Buf::new()).await.is_err());
                // The peer gets one alert, and not a whole series of them.
                drop(reader);
                let told = writer.read(&mut Buf::new()).await.unwrap_err().to_string();
                assert!(told.contains("BadRecordMac"), "{told}");
            }
        }));
    });
}

#[test]
fn clients_of_old_versions_are_told_which_it_is() {
    let authority = Authority::new();
    let tls = ServerTls::new(server(vec![authority.pair(&["localhost"])])).unwrap();
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            let (addr, mut accepted) = accept_one(tls.clone());
            let stream = connect(addr, &ConnectOptions::default()).await.unwrap();
            // A ClientHello of TLS 1.1 with one suite and no extensions.
            let mut hello = vec![0x16, 3, 1, 0, 45, 1, 0, 0, 41, 3, 2];
            hello.extend([7; 32]);
            hello.extend([0, 0, 2, 0, 0x2f, 1, 0]);
            stream.write_slice(&hello).await.unwrap();
            let mut answer = Buf::new();
            while stream.read(&mut answer).await.is_ok_and(|read| read > 0) {}
            assert_eq!(&answer[..], [21, 3, 1, 0, 2, 2, 70]);
            assert!(matches!(accepted.recv().await.unwrap(), Err(AcceptError::Handshake(_))));
        }));
    });
}

#[test]
fn alpn_suites_and_rejection() {
    let authority = Authority::new();
    let tls = ServerTls::new(ServerTlsConfig {
        alpn: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        suites12: Some(vec!["ECDHE-ECDSA-CHACHA20-POLY1305".to_owned()]),
        max_version: TlsVersion::Tls12,
        ..server(vec![authority.pair(&["localhost"])])
    })
    .unwrap();
    let reject = ServerTls::new(ServerTlsConfig { reject_handshake: true, ..Default::default() }).unwrap();
    let client = ClientTls::new(ClientTlsConfig {
        alpn: vec![b"http/1.1".to_vec(), b"h2".to_vec()],
        ..Default::default()
    })
    .unwrap();
    both(|runtime, _| {
        runtime.block_on(deadline(async {
            let (client_end, server_end) = handshake(&tls, &client, "localhost").await;
            assert!(client_end.alpn_is(b"h2"));
            assert_eq!(server_end.alpn().as_deref(), Some(&b"h2"[..]));
            assert_eq!(server_end.cipher(), "ECDHE-ECDSA-CHACHA20-POLY1305");
            let (addr, mut accepted) = accept_one(reject.clone());
            assert!(dial(addr, &client, "localhost").await.is_err());
            assert!(accepted.recv().await.unwrap().is_err());
        }));
    });
}

#[test]
fn mistakes_in_configurations_are_named() {
    let authority = Authority::new();
    let pair = authority.pair(&["a.example", "b.example"]);
    let other = authority.pair(&["c.example"]);
    let build = |pair: CertKey| ServerTls::new(server(vec![pair])).unwrap_err();
    assert_eq!(cert_names(&pair.chain_pem).unwrap(), ["a.example", "b.example"]);
    assert_eq!(ServerTls::new(server(Vec::new())).unwrap_err(), TlsConfigError::NoCertificates);
    assert_eq!(
        build(CertKey { key_pem: other.key_pem.clone(), ..pair.clone() }),
        TlsConfigError::KeyMismatch
    );
    assert_eq!(build(CertKey { key_pem: b"none".to_vec(), ..pair.clone() }), TlsConfigError::NoKey);
    assert_eq!(
        build(CertKey { chain_pem: other.key_pem.clone(), ..pair.clone() }),
        TlsConfigError::NoCertificate
    );
    let torn = String::from_utf8(pair.chain_pem.clone()).unwrap().replace("-----END", "--");
    assert!(matches!(
        build(CertKey { chain_pem: torn.into_bytes(), ..pair.clone() }),
        TlsConfigError::BadPem(_) | TlsConfigError::NoCertificate
    ));
    let only13 =
        ServerTlsConfig { suites13: Some(Vec::new()), min_version: TlsVersion::Tls13, ..server(vec![pair]) };
    assert_eq!(ServerTls::new(only13).unwrap_err(), TlsConfigError::NoUsableVersion);
}

/// Runs `openssl s_client` against a server that answers what it reads, and returns what it printed.
fn s_client(io: IoChoice, tls: &ServerTls, args: &[&str]) -> String {
    let socket = listen_tcp("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
    let addr = listen_addr(&socket).unwrap().inet().unwrap();
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &addr.to_string(), "-servername", "localhost", "-quiet"]);
    command.args(["-no_ign_eof"]).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"ping\n").unwrap();
    let reader = std::thread::spawn(move || child.wait_with_output().unwrap());
    let runtime = Runtime::new(RuntimeConfig { io, ..Default::default() }).unwrap();
    runtime.block_on(deadline(async {
        let listener = Listener::from_fd(socket).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let tls = tls.accept(stream).await.unwrap();
        let mut buf = Buf::new();
        tls.read(&mut buf).await.unwrap();
        let answer =
            format!("{} {} {}", String::from_utf8_lossy(&buf).trim(), tls.version().name(), tls.cipher());
        tls.write_slice(answer.as_bytes()).await.unwrap();
        tls.shutdown_write().await.unwrap();
        let _ = tls.read(&mut buf).await;
    }));
    drop(stdin);
    String::from_utf8_lossy(&reader.join().unwrap().stdout).into_owned()
}

#[test]
fn openssl_is_served() {
    let authority = Authority::new();
    let tls = ServerTls::new(ServerTlsConfig {
        tickets: Some(Tickets::new().unwrap()),
        ..server(vec![authority.pair(&["localhost"])])
    })
    .unwrap();
    for io in common::DRIVERS {
        assert_eq!(s_client(io, &tls, &["-tls1_3"]), "ping TLSv1.3 TLS_AES_128_GCM_SHA256");
        let chacha = ["-tls1_3", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256"];
        assert_eq!(s_client(io, &tls, &chacha), "ping TLSv1.3 TLS_CHACHA20_POLY1305_SHA256");
        assert_eq!(
            s_client(io, &tls, &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"]),
            "ping TLSv1.2 ECDHE-ECDSA-AES128-GCM-SHA256"
        );
        let session = tempfile::NamedTempFile::new().unwrap();
        let path = session.path().to_str().unwrap();
        s_client(io, &tls, &["-sess_out", path]);
        assert!(session.as_file().metadata().unwrap().len() > 0, "no session was handed out");
        s_client(io, &tls, &["-sess_in", path]);
    }
}
