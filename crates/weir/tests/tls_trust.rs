//! What a TLS handshake verified, and how long that counts: across reloads, kept connections and resumed sessions.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_testkit::{
    Authority, Certificate, Client, Io, Origin, Proxy, Request, Running, TlsOptions, both_drivers, eventually,
};

/// A location that proxies to one pool, and TLS settings of its own.
fn location(path: &str, settings: &str) -> String {
    format!(
        "location {path} {{ proxy_pass https://pool/; proxy_http_version 1.1; proxy_set_header Connection ''; {settings} }}"
    )
}

fn proxy_to(origin: u16, locations: &[String]) -> String {
    format!(
        "worker_processes 1; events {{}} http {{ access_log off; upstream pool {{ server 127.0.0.1:{origin}; keepalive 8; }} \
         server {{ listen 127.0.0.1:{{port}}; {} }} }}",
        locations.concat()
    )
}

/// Debian's nginx, which says whose certificate it was shown and what name it was asked for.
fn telling(site: &Certificate, ca: &str) -> Running {
    Proxy::nginx(
        "events {} http { log_format names '[$ssl_server_name]'; access_log {dir}/names.log names;
         server { listen 127.0.0.1:{port} ssl; ssl_certificate {dir}/site.crt; ssl_certificate_key {dir}/site.key;
             ssl_verify_client optional; ssl_client_certificate {dir}/ca;
             location / { return 200 \"$ssl_client_s_dn [$ssl_server_name] $ssl_session_reused\"; } } }",
    )
    .by_rival()
    .certificate("site", site)
    .file("ca", ca)
    .start()
}

/// A server that lets in who shows a certificate of `{dir}/ca`.
fn members_only(settings: &str) -> String {
    format!(
        "worker_processes 1; events {{}} http {{ access_log off; ssl_certificate {{dir}}/a.crt; ssl_certificate_key {{dir}}/a.key;
         server {{ listen 127.0.0.1:{{port}} ssl; server_name a.test; ssl_verify_client on; {settings}
             location / {{ return 200 \"secret $ssl_client_verify\"; }} }}
         server {{ listen 127.0.0.1:{{port}} ssl; server_name o.test; ssl_verify_client optional; {settings}
             location / {{ return 200 $ssl_client_verify; }} }} }}"
    )
}

const OLD: &str = "ssl_client_certificate {dir}/old;";
const NEW: &str = "ssl_client_certificate {dir}/new;";

fn get(client: &mut Client, host: &str) -> weir_testkit::Response {
    client.request(&Request::get("/").host(host))
}

/// The next request on a kept connection is sent away, and the connection ends.
#[track_caller]
fn expect_sent_away(mut kept: Client, host: &str) {
    get(&mut kept, host).expect_status(421);
    kept.expect_closed();
}

/// So many handshakes failed, which the origin hears of a moment after the client.
#[track_caller]
fn expect_failures(origin: &Origin, count: usize) {
    let mut heard = 0;
    eventually("the origin to hear of it", || {
        heard += origin.take_failures().len();
        (heard == count).then_some(())
    });
}

both_drivers! {
    fn kept_upstream_connections_serve_nobody_with_other_settings(io: Io) {
        let (site, other) = (Certificate::p256(&["origin.test"]), Certificate::p256(&["other.test"]));
        let origin = Origin::tls(&site, |c| c.keep_answering(200, &[], "answered"));
        let checked = location("/checked/", "proxy_ssl_verify on; proxy_ssl_trusted_certificate {dir}/other; proxy_ssl_name origin.test;");
        let open = location("/open/", "proxy_ssl_name origin.test;");
        let both = [open.clone(), checked.clone()];
        let mut proxy = Proxy::nginx(&proxy_to(origin.port(), &both)).io(io).file("other", other.root_pem()).start();
        let mut client = Client::connect(&proxy);
        client.get("/open/").expect_body("answered");
        client.get("/checked/").expect_status(502);
        // The settings change places in the plan; then the only ones that are left are strict.
        for locations in [vec![checked.clone(), open.clone()], both.to_vec(), vec![checked.clone()]] {
            proxy.reload(&proxy_to(origin.port(), &locations));
            client.get("/checked/").expect_status(502);
            if locations.len() > 1 {
                client.get("/open/").expect_body("answered");
            }
        }
        // Verification is turned on, where connections were opened without and wait.
        proxy.reload(&proxy_to(origin.port(), &[open]));
        client.get("/open/").expect_body("answered");
        let strict = location("/open/", "proxy_ssl_verify on; proxy_ssl_trusted_certificate {dir}/other; proxy_ssl_name origin.test;");
        proxy.reload(&proxy_to(origin.port(), &[strict]));
        client.get("/open/").expect_status(502);
        expect_failures(&origin, 5);
    }

    fn kept_upstream_connections_end_with_the_authority_that_verified_them(io: Io) {
        let good = Certificate::signed_by_authority(&["origin.test"], true);
        let other = Certificate::p256(&["other.test"]);
        let origin = Origin::tls(&good, |c| c.keep_answering(200, &[], "answered"));
        let text = proxy_to(origin.port(), &[location(
            "/", "proxy_ssl_verify on; proxy_ssl_trusted_certificate {dir}/ca; proxy_ssl_name origin.test;",
        )]);
        let mut proxy = Proxy::nginx(&text).io(io).file("ca", good.root_pem()).start();
        let mut client = Client::connect(&proxy);
        client.get("/").expect_body("answered");
        // What did not change is kept: the same content, read again.
        proxy.reload_same();
        client.get("/").expect_body("answered");
        assert_eq!(origin.connections(), 1);
        // The same path, another authority: the waiting connection is closed at once.
        proxy.write("ca", other.root_pem());
        proxy.reload_same();
        origin.wait_for_completed(1);
        client.get("/").expect_status(502);
        expect_failures(&origin, 1);
    }

    fn client_certificates_towards_upstreams_do_not_mix(io: Io) {
        let root = Authority::root("members");
        let (one, two) = (root.certificate(&["one"]), root.certificate(&["two"]));
        let origin = telling(&Certificate::p256(&["origin.test"]), root.root_pem());
        let showing = |name: &str| location(
            &format!("/{name}/"),
            &format!("proxy_ssl_certificate {{dir}}/{name}.crt; proxy_ssl_certificate_key {{dir}}/{name}.key;"),
        );
        let text = |names: [&str; 2]| proxy_to(origin.port().number(), &names.map(showing));
        let mut proxy = Proxy::nginx(&text(["one", "two"])).io(io).certificate("one", &one).certificate("two", &two).start();
        let mut client = Client::connect(&proxy);
        for order in [["one", "two"], ["two", "one"], ["one", "two"]] {
            proxy.reload(&text(order));
            for name in ["one", "two", "one"] {
                let told = client.get(&format!("/{name}/")).expect_status(200).text();
                assert!(told.starts_with(&format!("CN={name} ")), "{told} for {name}");
            }
        }
    }

    fn haproxys_servers_keep_no_unverified_connection(io: Io) {
        let (site, other) = (Certificate::p256(&["origin.test"]), Certificate::p256(&["other.test"]));
        let origin = Origin::tls(&site, |c| c.keep_answering(200, &[], "answered"));
        let text = |verify: &str| format!(
            "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n retries 0\n\
             frontend f\n bind 127.0.0.1:{{port}}\n default_backend b\n\
             backend b\n http-reuse always\n server s {origin} ssl {verify}\n"
        );
        let mut proxy = Proxy::haproxy(&text("verify none")).io(io).file("other", other.root_pem()).start();
        let mut client = Client::connect(&proxy);
        client.get("/").expect_body("answered");
        proxy.reload(&text("verify required ca-file {dir}/other"));
        client.get("/").expect_status(503);
        expect_failures(&origin, 1);
    }

    fn a_new_authority_reaches_live_connections(io: Io) {
        let site = Certificate::p256(&["a.test"]);
        let (old, new) = (Authority::root("old"), Authority::root("new"));
        let (member, newcomer) = (old.certificate(&["member"]), new.certificate(&["newcomer"]));
        let mut proxy = Proxy::nginx(&members_only(OLD)).io(io).certificate("a", &site)
            .file("old", old.root_pem()).file("new", new.root_pem()).start();
        let options = TlsOptions::trusting(&site).name("a.test");
        let as_member = options.clone().identity(&member);
        let connect = |proxy: &Running, options: &TlsOptions| Client::tls(proxy, options);
        let (mut kept, mut same) = (connect(&proxy, &as_member), connect(&proxy, &as_member));
        let (mut at_optional, mut nobody) = (connect(&proxy, &as_member), connect(&proxy, &options));
        let mut early = connect(&proxy, &options.clone().identity(&newcomer));
        for client in [&mut kept, &mut same] {
            get(client, "a.test").expect_body("secret SUCCESS");
        }
        get(&mut at_optional, "o.test").expect_body("SUCCESS");
        get(&mut nobody, "o.test").expect_body("NONE");
        // A reload that changes nothing about it disturbs nobody.
        proxy.reload_same();
        get(&mut same, "a.test").expect_body("secret SUCCESS");
        proxy.reload(&members_only(NEW));
        expect_sent_away(kept, "a.test");
        expect_sent_away(same, "a.test");
        expect_sent_away(at_optional, "o.test");
        // It was refused by the old authority; the new one has not been asked yet.
        early.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        early.read().expect_status(421);
        assert_eq!(get(&mut connect(&proxy, &as_member), "a.test").status, 400);
        get(&mut connect(&proxy, &options.clone().identity(&newcomer)), "a.test").expect_body("secret SUCCESS");
        // Who showed nothing where nothing need be shown goes on: `a.test` was named in its handshake, `o.test` is asked for.
        assert_eq!(get(&mut connect(&proxy, &options), "o.test").text(), "NONE");
    }

    fn who_shows_nothing_where_nothing_is_due_goes_on(io: Io) {
        let site = Certificate::p256(&["o.test"]);
        let (old, new) = (Authority::root("old"), Authority::root("new"));
        let mut proxy = Proxy::nginx(&members_only(OLD)).io(io).certificate("a", &site)
            .file("old", old.root_pem()).file("new", new.root_pem()).start();
        let mut nobody = Client::tls(&proxy, &TlsOptions::trusting(&site).name("o.test"));
        get(&mut nobody, "o.test").expect_body("NONE");
        proxy.reload(&members_only(NEW));
        get(&mut nobody, "o.test").expect_body("NONE");
        get(&mut nobody, "a.test").expect_status(421);
    }

    fn a_new_list_reaches_live_connections(io: Io) {
        let site = Certificate::p256(&["a.test"]);
        let root = Authority::root("root");
        let (member, thief) = (root.certificate(&["member"]), root.certificate(&["thief"]));
        let with_list = format!("{OLD} ssl_crl {{dir}}/list;");
        let mut proxy = Proxy::nginx(&members_only(&with_list)).io(io).certificate("a", &site)
            .file("old", root.root_pem()).file("list", root.revocations(&[], true)).start();
        let options = TlsOptions::trusting(&site).name("a.test");
        let connect = |proxy: &Running, who: &Certificate| Client::tls(proxy, &options.clone().identity(who));
        let (mut thiefs, mut members) = (connect(&proxy, &thief), connect(&proxy, &member));
        get(&mut thiefs, "a.test").expect_body("secret SUCCESS");
        get(&mut members, "a.test").expect_body("secret SUCCESS");
        proxy.write("list", root.revocations(&[thief.serial()], true));
        proxy.reload_same();
        expect_sent_away(thiefs, "a.test");
        expect_sent_away(members, "a.test");
        assert_eq!(get(&mut connect(&proxy, &thief), "a.test").status, 400);
        get(&mut connect(&proxy, &member), "a.test").expect_body("secret SUCCESS");
    }

    fn sites_that_come_to_share_an_authority_share_no_handshake(io: Io) {
        let site = Certificate::p256(&["a.test", "b.test"]);
        let (own, common) = (Authority::root("own"), Authority::root("common"));
        let text = |of_a: &str| format!(
            "worker_processes 1; events {{}} http {{ access_log off; ssl_certificate {{dir}}/a.crt; ssl_certificate_key {{dir}}/a.key;
             server {{ listen 127.0.0.1:{{port}} ssl; server_name a.test; ssl_verify_client on;
                 ssl_client_certificate {{dir}}/{of_a}; return 200 a; }}
             server {{ listen 127.0.0.1:{{port}} ssl; server_name b.test; ssl_verify_client on;
                 ssl_client_certificate {{dir}}/common; return 200 b; }} }}"
        );
        let mut proxy = Proxy::nginx(&text("own")).io(io).certificate("a", &site)
            .file("own", own.root_pem()).file("common", common.root_pem()).start();
        let member = own.certificate(&["member"]);
        let mut client = Client::tls(&proxy, &TlsOptions::trusting(&site).name("a.test").identity(&member));
        get(&mut client, "a.test").expect_body("a");
        proxy.reload(&text("common"));
        // Today's plan says that whoever verifies at `a` does at `b`; this one verified at neither.
        expect_sent_away(client, "b.test");
        let known = common.certificate(&["known"]);
        let mut both = Client::tls(&proxy, &TlsOptions::trusting(&site).name("a.test").identity(&known));
        get(&mut both, "a.test").expect_body("a");
        get(&mut both, "b.test").expect_body("b");
    }

    fn sessions_do_not_outlive_the_authority_that_verified_them(io: Io) {
        let site = Certificate::p256(&["a.test"]);
        let (old, new) = (Authority::root("old"), Authority::root("new"));
        let member = old.certificate(&["member"]);
        let stored = |settings: &str| members_only(&format!("{settings} ssl_session_cache shared:s:1m;"));
        let mut proxy = Proxy::nginx(&stored(OLD)).io(io).certificate("a", &site)
            .file("old", old.root_pem()).file("new", new.root_pem()).start();
        let as_member = |options: TlsOptions| options.name("a.test").identity(&member).resuming();
        let clients = [
            as_member(TlsOptions::trusting(&site).only_tls13()),
            as_member(TlsOptions::trusting(&site).only_tls12()),
        ];
        let shake = |proxy: &Running, options: &TlsOptions| {
            let mut client = Client::tls(proxy, options);
            let status = get(&mut client, "a.test").status;
            (status, format!("{:?}", client.session().kind.unwrap()))
        };
        for options in &clients {
            assert_eq!(shake(&proxy, options), (200, "Full".into()));
            // Tickets live through a reload that changes nothing about them.
            proxy.reload_same();
            assert_eq!(shake(&proxy, options), (200, "Resumed".into()));
        }
        proxy.reload(&stored(NEW));
        for options in &clients {
            assert_eq!(shake(&proxy, options), (400, "Full".into()));
        }
    }

    fn a_request_that_began_before_a_reload_is_judged_by_what_holds_after_it(io: Io) {
        let site = Certificate::p256(&["a.test"]);
        let (old, new) = (Authority::root("old"), Authority::root("new"));
        let member = old.certificate(&["member"]);
        let mut proxy = Proxy::nginx(&members_only("ssl_client_certificate {dir}/ca;"))
            .io(io).certificate("a", &site).file("ca", old.root_pem()).start();
        let options = TlsOptions::trusting(&site).name("a.test").identity(&member);
        let mut kept = Client::tls(&proxy, &options);
        get(&mut kept, "a.test").expect_body("secret SUCCESS");
        kept.send("GET / HTTP/1.1\r\nHo");
        proxy.write("ca", new.root_pem());
        proxy.reload_same();
        kept.send("st: a.test\r\n\r\n");
        kept.read().expect_status(421);
        kept.expect_closed();
    }

    fn haproxys_binds_judge_by_the_authority_of_today(io: Io) {
        let site = Certificate::p256(&["a.test"]);
        let (old, new) = (Authority::root("old"), Authority::root("new"));
        let member = old.certificate(&["member"]);
        let text = "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n\
             frontend f\n bind 127.0.0.1:{port} ssl crt {dir}/site.pem verify required ca-file {dir}/ca\n\
             http-request return status 200 content-type text/plain string secret\n";
        let mut proxy = Proxy::haproxy(text).io(io).certificate("site", &site).file("ca", old.root_pem()).start();
        let options = TlsOptions::trusting(&site).name("a.test").identity(&member).resuming();
        let mut kept = Client::tls(&proxy, &options);
        get(&mut kept, "a.test").expect_body("secret");
        proxy.write("ca", new.root_pem());
        proxy.reload_same();
        expect_sent_away(kept, "a.test");
        // The session is of the old authority, too: a new handshake has to be made, and fails.
        let answer = Client::try_tls(&proxy, &options).ok().and_then(|mut c| c.try_request(&Request::get("/").host("a.test")).ok());
        assert!(answer.is_none(), "{answer:?}");
    }

    fn names_are_sent_where_it_says_so(io: Io) {
        let origin = telling(&Certificate::p256(&["origin.test"]), Authority::root("nobody").root_pem());
        let text = proxy_to(origin.port().number(), &[
            location("/silent/", ""),
            location("/named/", "proxy_ssl_server_name on;"),
            location("/other/", "proxy_ssl_server_name on; proxy_ssl_name other.test;"),
            location("/computed/", "proxy_ssl_server_name on; proxy_ssl_name $arg_name;"),
        ]);
        // nginx gives a kept connection to whoever wants its address, whatever name it was opened for.
        let text = text.replace("keepalive 8;", "").replace("Connection ''", "Connection close");
        // nginx resumes sessions for any name, too, and its server then tells the session's.
        let text = text.replace("proxy_pass", "proxy_ssl_session_reuse off; proxy_pass");
        let (ours, theirs) = (Proxy::nginx(&text).io(io).start(), Proxy::nginx(&text).by_rival().start());
        let told = |proxy: &Running, path: &str| Client::connect(proxy).get(path).expect_status(200).text();
        for (path, name) in [
            ("/silent/", ""), ("/named/", "pool"), ("/other/", "other.test"), ("/computed/?name=x.test", "x.test"),
            ("/computed/?name=y.test", "y.test"), ("/silent/", ""),
        ] {
            let told = [told(&ours, path), told(&theirs, path)];
            assert!(told.iter().all(|told| told.contains(&format!("[{name}]"))), "{told:?} for {path}");
        }
    }

    fn haproxys_checks_and_requests_send_their_own_names(io: Io) {
        let origin = telling(&Certificate::p256(&["origin.test"]), Authority::root("nobody").root_pem());
        let text = |words: &str| format!(
            "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n timeout check 5s\n\
             frontend f\n bind 127.0.0.1:{{port}}\n default_backend b\n\
             backend b\n option httpchk GET /\n server s 127.0.0.1:{} ssl verify none check inter 50ms {words}\n",
            origin.port()
        );
        for (words, checked, asked) in [
            ("", "", ""),
            ("sni req.hdr(host)", "", "a.test"),
            ("sni str(b.test) check-sni c.test", "c.test", "b.test"),
        ] {
            for proxy in [Proxy::haproxy(&text(words)).io(io), Proxy::haproxy(&text(words)).by_rival()] {
                let proxy = proxy.start();
                origin.write("names.log", "");
                let logged = if checked.is_empty() { "-" } else { checked };
                let lines = origin.wait_for_file("names.log", &format!("[{logged}]\n"));
                assert!(asked == checked || !lines.contains(asked), "{lines} for {words}");
                let told = Client::connect(&proxy).request(&Request::get("/").host("a.test")).text();
                assert!(told.contains(&format!("[{asked}]")), "{told} for {words}");
            }
        }
    }
}
