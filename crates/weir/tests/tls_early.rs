//! Early data: who takes it, what rules know of it, and that a copy of it is worth nothing. The same file and the same bytes
//! to Weir and to Debian's nginx and haproxy.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::Read as _;
use std::process::Command;
use std::time::Duration;

use weir_testkit::{
    Certificate, Client, EarlyClient, Io, Origin, Proxy, Request, Running, TlsOptions, both_drivers, programs,
};

const GET: &str = "GET /early HTTP/1.1\r\nHost: a.test\r\n\r\n";

fn site() -> Certificate {
    Certificate::p256(&["a.test"])
}

/// A server that says what it knows of early data, and passes some of it on.
fn nginx(site: &Certificate, words: &str, origin: &Origin) -> Proxy {
    let text = format!(
        "worker_processes 2; events {{}} http {{ log_format early '[$ssl_early_data] $request'; access_log {{dir}}/log early;
         server {{ listen 127.0.0.1:{{port}} ssl; server_name a.test; ssl_certificate {{dir}}/site.crt; ssl_certificate_key {{dir}}/site.key;
         ssl_protocols TLSv1.2 TLSv1.3; {words}
         location / {{ return 200 'early [$ssl_early_data] $ssl_session_reused $ssl_protocol end'; }}
         location /pass {{ proxy_set_header Early-Data $ssl_early_data; proxy_pass http://{origin}; }}
         location /late {{ if ($ssl_early_data) {{ return 425; }} return 200 'late end'; }} }} }}"
    );
    Proxy::nginx(&text).certificate("site", site)
}

fn haproxy(site: &Certificate, bind: &str, rules: &str) -> Proxy {
    let text = format!(
        "global\n nbthread 1\ndefaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n\
         frontend f\n bind 127.0.0.1:{{port}} ssl crt {{dir}}/site.pem {bind}\n{rules}"
    );
    Proxy::haproxy(&text).file("site.pem", format!("{}{}", site.chain_pem(), site.key_pem()))
}

/// Options of a client that has been given a session.
fn known(proxy: &Running, options: TlsOptions) -> TlsOptions {
    let mut client = Client::tls(proxy, &options);
    client.request(&Request::get("/first").host("a.test"));
    options
}

fn options(site: &Certificate) -> TlsOptions {
    TlsOptions::trusting(site).name("a.test").early()
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n")
}

/// HTTP/2 from its first byte to a request of `/`.
fn h2_get() -> Vec<u8> {
    let head = b"\x82\x87\x84\x41\x06a.test";
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let frame = [0, 0, u8::try_from(head.len()).unwrap(), 1, 5, 0, 0, 0, 1];
    [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings, &frame, head].concat()
}

both_drivers! {
    fn requests_are_answered_before_the_handshake_is_complete(io: Io) {
        let (site, origin) = (site(), Origin::script(|c| c.keep_answering(200, &[], "passed end")));
        let proxy = nginx(&site, "ssl_early_data on;", &origin);
        for (proxy, who) in [(proxy.clone().io(io).start(), "weir"), (proxy.by_rival().start(), "nginx")] {
            let options = known(&proxy, options(&site));
            let mut early = EarlyClient::begin(&proxy, &options, get("/"));
            let said = early.read_until("end");
            assert!(said.ends_with("early [1] r TLSv1.3 end"), "{who}: {said}");
            assert!(early.is_accepted(), "{who}");
            // Once it is complete, nothing is early any more.
            let mut client = early.finish();
            let said = client.request(&Request::get("/").host("a.test")).text();
            assert_eq!(said, "early [] r TLSv1.3 end", "{who}");
            drop(client);
            proxy.wait_for_file("log", "[1] GET / HTTP/1.1\n[-] GET / HTTP/1.1\n");
        }
    }

    fn what_came_early_is_passed_on_as_such(io: Io) {
        let site = site();
        let origin = Origin::script(|c| c.keep_answering(200, &[], "passed end"));
        let proxy = nginx(&site, "ssl_early_data on;", &origin);
        for (proxy, who) in [(proxy.clone().io(io).start(), "weir"), (proxy.by_rival().start(), "nginx")] {
            let before = origin.requests().len();
            let options = known(&proxy, options(&site));
            let mut early = EarlyClient::begin(&proxy, &options, get("/pass"));
            early.read_until("passed end");
            let mut client = early.finish();
            client.request(&Request::get("/pass").host("a.test")).expect_status(200);
            let told = origin.wait_for_requests(before + 2);
            let told: Vec<_> = told[before..].iter().map(|one| one.header("early-data")).collect();
            assert_eq!(told, [Some("1"), None], "{who}");
        }
    }

    fn a_site_may_ask_for_it_again(io: Io) {
        let (site, origin) = (site(), Origin::named("origin", "x"));
        let proxy = nginx(&site, "ssl_early_data on;", &origin);
        for (proxy, who) in [(proxy.clone().io(io).start(), "weir"), (proxy.by_rival().start(), "nginx")] {
            let options = known(&proxy, options(&site));
            let mut early = EarlyClient::begin(&proxy, &options, get("/late"));
            let said = early.read_until("\r\n\r\n");
            assert!(said.starts_with("HTTP/1.1 425"), "{who}: {said}");
        }
    }

    fn a_copy_is_refused(io: Io) {
        let (site, origin) = (site(), Origin::named("origin", "x"));
        let proxy = nginx(&site, "ssl_early_data on;", &origin).io(io).start();
        let options = known(&proxy, options(&site));
        let mut early = EarlyClient::begin(&proxy, &options, get("/"));
        early.read_until("end");
        let copies: Vec<_> = (0..8).map(|_| EarlyClient::send(&proxy, early.flight())).collect();
        for mut copy in copies {
            // The server begins a full handshake, whose end a copy cannot come to: nothing of its data is read.
            let mut record = [0; 5];
            copy.read_exact(&mut record).unwrap();
            assert_eq!(record[0], 0x16);
            copy.shutdown(std::net::Shutdown::Write).unwrap();
            let _ = copy.read_to_end(&mut Vec::new());
        }
        early.finish().request(&Request::get("/after").host("a.test")).expect_status(200);
        let log = proxy.wait_for_file("log", "/after");
        assert_eq!(log.matches("GET / HTTP").count(), 1, "{log}");
        // Sessions of before a reload are gone with it: their clients are asked to send again.
        assert_eq!(log.matches("[1]").count(), 1, "{log}");
    }

    fn a_handshake_that_fails_ends_the_connection(io: Io) {
        let (site, origin) = (site(), Origin::named("origin", "x"));
        let proxy = nginx(&site, "ssl_early_data on;", &origin).io(io).start();
        let options = known(&proxy, options(&site));
        let mut early = EarlyClient::begin(&proxy, &options, get("/"));
        early.read_until("end");
        let flight = early.flight().to_vec();
        drop(early);
        // Another message in the place of the client's last ones.
        let options = known(&proxy, options);
        let early = EarlyClient::begin(&proxy, &options, get("/"));
        let mut tcp = early.into_socket();
        std::io::Write::write_all(&mut tcp, &flight).unwrap();
        let mut all = Vec::new();
        let _ = tcp.read_to_end(&mut all);
        Client::tls(&proxy, &options).request(&Request::get("/").host("a.test")).expect_status(200);
    }

    fn where_it_is_off_clients_send_again(io: Io) {
        let (site, origin) = (site(), Origin::named("origin", "x"));
        let proxy = nginx(&site, "ssl_session_cache shared:a:1m; ssl_session_tickets off;", &origin).io(io).start();
        let on = nginx(&site, "ssl_early_data on; ssl_session_cache shared:a:1m;", &origin).io(io).start();
        // A session of a server that takes early data, to one that does not.
        let options = known(&on, options(&site));
        let early = EarlyClient::begin(&proxy, &options, GET);
        let mut client = early.finish();
        assert_eq!(client.request(&Request::get("/").host("a.test")).text(), "early [] . TLSv1.3 end");
    }

    fn openssl_sends_it(io: Io) {
        let (site, origin) = (site(), Origin::named("origin", "x"));
        let proxy = nginx(&site, "ssl_early_data on;", &origin).file("request", "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").io(io).start();
        let run = |words: &str| {
            let mut command = Command::new("sh");
            let address = format!("127.0.0.1:{}", proxy.port().number());
            command.current_dir(proxy.dir()).args(["-c", &format!(
                "openssl s_client -connect {address} -servername a.test -tls1_3 -ign_eof {words} < request 2>&1"
            )]);
            programs::run(command).1
        };
        let first = run("-sess_out session");
        assert!(first.contains("early [] . TLSv1.3"), "{first}");
        let second = run("-sess_in session -early_data request");
        assert!(second.contains("Early data was accepted") && second.contains("early [1] r TLSv1.3"), "{second}");
        // The session was used.
        let third = run("-sess_in session -early_data request");
        assert!(third.contains("Early data was rejected") && !third.contains("early [1]"), "{third}");
    }

    fn streams_of_http2_come_early(io: Io) {
        let (site, origin) = (site(), Origin::named("origin", "x"));
        let proxy = nginx(&site, "ssl_early_data on; http2 on;", &origin).io(io).start();
        let options = options(&site).alpn(&["h2"]);
        let mut first = Client::tls(&proxy, &options);
        first.send(h2_get());
        let mut said = Vec::new();
        while !said.ends_with(b"early [] . TLSv1.3 end") {
            said.extend(first.read_exactly(1));
        }
        let mut early = EarlyClient::begin(&proxy, &options, h2_get());
        let said = early.read_until("end");
        assert!(said.contains("early [1] r TLSv1.3 end"), "{said}");
    }

    fn haproxys_rules_know_and_wait(io: Io) {
        let site = site();
        let origin = Origin::script(|c| c.keep_answering(200, &[], "passed end"));
        let rules = format!(
            " http-request wait-for-handshake if {{ path /wait }}\n\
             http-request return status 200 content-type text/plain lf-string \"early [%[ssl_fc_has_early]] end\" if {{ path_beg /wait /told }}\n\
             default_backend b\nbackend b\n server s {origin}\n"
        );
        // Debian's haproxy ends a connection whose client does not complete the handshake before it reads the answer.
        let proxy = haproxy(&site, "allow-0rtt", &rules);
        let proxy = proxy.io(io).start();
        let before = origin.requests().len();
        let options = known(&proxy, options(&site));
        let mut early = EarlyClient::begin(&proxy, &options, get("/told"));
        assert!(early.read_until("end").ends_with("early [1] end"));
        drop(early);
        let options = known(&proxy, options);
        let mut waits = EarlyClient::begin(&proxy, &options, get("/wait")).finish();
        assert_eq!(waits.read().text(), "early [0] end");
        drop(waits);
        let options = known(&proxy, options);
        let mut early = EarlyClient::begin(&proxy, &options, get("/passed"));
        early.read_until("passed end");
        let mut client = early.finish();
        client.request(&Request::get("/passed").host("a.test")).expect_status(200);
        let told = origin.wait_for_requests(before + 5);
        let told: Vec<_> = told[before + 3..].iter().map(|one| one.header("early-data")).collect();
        assert_eq!(told, [Some("1"), None]);
    }

    fn rules_wait_no_longer_than_a_client_may_be_silent(io: Io) {
        let site = site();
        let rules = " timeout client 300ms\n http-request wait-for-handshake\n http-request return status 200 if TRUE\n";
        let proxy = haproxy(&site, "allow-0rtt", rules).io(io).start();
        let options = known(&proxy, options(&site));
        let mut tcp = EarlyClient::begin(&proxy, &options, get("/")).into_socket();
        tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut all = Vec::new();
        // It ends, which is all that there is to it.
        let _ = tcp.read_to_end(&mut all).map_err(|error| assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock));
    }
}
