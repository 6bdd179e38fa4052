//! TLS listeners: versions, names, ALPN, resumption, and TLS towards origins.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_testkit::{
    Authority, Certificate, Client, Io, Origin, Proxy, Request, Running, TlsOptions, both_drivers,
    eventually, programs,
};

const CONF: &str = "worker_processes 1; events {} http { access_log off;
    ssl_protocols TLSv1.2 TLSv1.3; ssl_session_timeout 1h;
    server { listen 127.0.0.1:{port} ssl; server_name a.test; ssl_certificate {dir}/a.crt; ssl_certificate_key {dir}/a.key;
        location / { return 200 \"a $scheme $ssl_protocol\"; } location /file { root {dir}/html; } }
    server { listen 127.0.0.1:{port} ssl; server_name *.b.test; ssl_certificate {dir}/b.crt; ssl_certificate_key {dir}/b.key;
        return 200 b; }
    server { listen 127.0.0.1:{port_old} ssl; ssl_certificate {dir}/a.crt; ssl_certificate_key {dir}/a.key;
        ssl_protocols TLSv1.2; ssl_ciphers ECDHE-ECDSA-AES256-GCM-SHA384; return 200 old; }
    }";

fn start(io: Io, a: &Certificate, b: &Certificate) -> Running {
    let file: Vec<u8> = (0..500_000_u32).map(|n| (n % 253) as u8).collect();
    Proxy::nginx(CONF).io(io).certificate("a", a).certificate("b", b).file("html/file", file).start()
}

both_drivers! {
    fn versions_names_and_suites(io: Io) {
        let (a, b) = (Certificate::p256(&["a.test"]), Certificate::rsa2048(&["x.b.test"]));
        let proxy = start(io, &a, &b);
        let to_a = TlsOptions::trusting(&a).name("a.test");
        let mut new = Client::tls(&proxy, &to_a.clone().only_tls13());
        new.request(&Request::get("/").host("a.test")).expect_body("a https TLSv1.3");
        let mut old = Client::tls(&proxy, &to_a.clone().only_tls12());
        old.request(&Request::get("/").host("a.test")).expect_body("a https TLSv1.2");
        let mut other = Client::tls(&proxy, &TlsOptions::trusting(&b).name("x.b.test"));
        other.request(&Request::get("/").host("x.b.test")).expect_body("b");
        assert!(Client::try_tls(&proxy, &TlsOptions::trusting(&a).name("x.b.test")).is_err(), "the wrong certificate");
        let pinned = Client::tls(proxy.port_of("port_old"), &to_a);
        assert_eq!(pinned.session().suite, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384");
    }

    fn large_files_arrive_whole(io: Io) {
        let (a, b) = (Certificate::p256(&["a.test"]), Certificate::p256(&["b.test"]));
        let proxy = start(io, &a, &b);
        let mut client = Client::tls(&proxy, &TlsOptions::trusting(&a).name("a.test"));
        for _ in 0..3 {
            let file = client.request(&Request::get("/file").host("a.test")).expect_status(200);
            assert!(file.body.len() == 500_000 && file.body.iter().enumerate().all(|(n, &b)| usize::from(b) == n % 253));
        }
    }

    fn whoever_reads_late_gets_all_of_it(io: Io) {
        let (a, b) = (Certificate::p256(&["a.test"]), Certificate::p256(&["b.test"]));
        let proxy = start(io, &a, &b);
        let mut client = Client::tls(&proxy, &TlsOptions::trusting(&a).name("a.test"));
        // More than sockets hold, asked for before the first byte is read: the end of an answer meets a full socket, and
        // has to leave although nothing is written behind it.
        for _ in 0..24 {
            client.send("GET /file HTTP/1.1\r\nHost: a.test\r\n\r\n");
        }
        for answer in 0..24 {
            assert_eq!(client.read().body.len(), 500_000, "answer {answer}");
        }
    }

    fn sessions_resume(io: Io) {
        let (a, b) = (Certificate::p256(&["a.test"]), Certificate::p256(&["b.test"]));
        let proxy = start(io, &a, &b);
        for options in [TlsOptions::trusting(&a).only_tls13(), TlsOptions::trusting(&a).only_tls12()] {
            let options = options.name("a.test").resuming();
            let kinds: Vec<String> = (0..2).map(|_| {
                let mut client = Client::tls(&proxy, &options);
                client.request(&Request::get("/").host("a.test")).expect_status(200);
                format!("{:?}", client.session().kind.unwrap())
            }).collect();
            assert_eq!(kinds, ["Full", "Resumed"]);
        }
    }

    fn http_1_is_agreed_on(io: Io) {
        let (a, b) = (Certificate::p256(&["a.test"]), Certificate::p256(&["b.test"]));
        let proxy = start(io, &a, &b);
        let client = Client::tls(&proxy, &TlsOptions::trusting(&a).name("a.test").alpn(&["h2", "http/1.1"]));
        assert_eq!(client.session().alpn.as_deref(), Some("http/1.1"));
    }

    fn plain_text_and_garbage_do_no_harm(io: Io) {
        let (a, b) = (Certificate::p256(&["a.test"]), Certificate::p256(&["b.test"]));
        let proxy = start(io, &a, &b);
        let mut plain = Client::connect(&proxy);
        plain.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let (answer, _) = plain.read_to_end();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
        // The answer arrives though much more was sent than was read of it.
        let mut long = Client::connect(&proxy);
        let _ = long.try_send([&b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n"[..], &[b'x'; 300_000]].concat());
        let told = long.read().expect_status(400);
        assert!(told.header("date").is_some(), "{told}");
        let mut garbage = Client::connect(&proxy);
        garbage.send([0x16, 3, 1, 0xff, 0xff, 1, 2, 3]);
        garbage.half_close();
        let _ = garbage.read_to_end();
        let mut sound = Client::tls(&proxy, &TlsOptions::trusting(&a).name("a.test"));
        sound.request(&Request::get("/").host("a.test")).expect_status(200);
    }

    fn plain_requests_where_tls_is_due_have_their_page(io: Io) {
        let site = Certificate::p256(&["a.test"]);
        let server = |port: &str, words: &str| {
            format!(
                "server {{ listen 127.0.0.1:{{{port}}} ssl; server_name a.test; ssl_certificate {{dir}}/a.crt;
                 ssl_certificate_key {{dir}}/a.key; location /why {{ return 200 \"$scheme $request_uri\"; }} {words} }}"
            )
        };
        let text = format!(
            "events {{}} error_log {{dir}}/error.log info; http {{ log_format one '$status $request'; access_log {{dir}}/access.log one;
             {} {} {} }}",
            server("port", "location / { return 200 in; }"),
            server("port2", "error_page 497 https://$host:8443$request_uri; location / { return 200 in; }"),
            server("port3", "error_page 497 =200 /why; location / { return 200 in; }")
        );
        let start = |proxy: Proxy| proxy.certificate("a", &site).start();
        let (ours, theirs) = (start(Proxy::nginx(&text).io(io)), start(Proxy::nginx(&text).by_rival()));
        let told = |proxy: &Running, port: &str| {
            let mut client = Client::connect(proxy.port_of(port));
            client.send("POST /deep?q HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nbody");
            let answer = client.read();
            client.expect_closed();
            // The last line of a page names the program.
            let page = answer.text().lines().filter(|line| !line.starts_with("<hr>")).map(str::to_owned).collect::<Vec<_>>();
            (answer.status, answer.header("location").map(str::to_owned), page)
        };
        for port in ["port", "port2", "port3"] {
            assert_eq!(told(&ours, port), told(&theirs, port), "{port}");
        }
        assert!(told(&ours, "port").2.concat().contains("The plain HTTP request was sent to HTTPS port"));
        assert_eq!(told(&ours, "port2").1.as_deref(), Some("https://a.test:8443/deep?q"));
        for proxy in [&ours, &theirs] {
            proxy.wait_for_file("access.log", "400 POST /deep?q HTTP/1.1\n302 POST");
            proxy.wait_for_file("error.log", "client sent plain HTTP request to HTTPS port while reading client request headers");
        }
    }

    fn openssl_and_curl_agree(io: Io) {
        let (a, b) = (Certificate::signed_by_authority(&["a.test"], true), Certificate::p256(&["b.test"]));
        let proxy = start(io, &a, &b);
        proxy.write("root.pem", a.root_pem());
        let root = proxy.dir().join("root.pem").display().to_string();
        let port = proxy.port().number();
        let (_, said) = programs::openssl_s_client(port, &["-CAfile", &root, "-servername", "a.test", "-verify_return_error", "-brief"]);
        assert!(said.contains("Verification: OK") && said.contains("TLSv1.3"), "{said}");
        let resolve = format!("a.test:{port}:127.0.0.1");
        let (code, text) = programs::curl(&["--cacert", &root, "--resolve", &resolve, &format!("https://a.test:{port}/")]);
        assert_eq!((code, text.as_str()), (0, "a https TLSv1.3"));
    }

    fn origins_are_reached_over_tls_and_verified(io: Io) {
        let good = Certificate::signed_by_authority(&["origin.test"], true);
        let origin = Origin::tls(&good, |c| c.keep_answering(200, &[], "secret"));
        let conf = |trusted: &str| format!(
            "worker_processes 1; events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{{port}}; location / {{
             proxy_pass https://{origin}; proxy_ssl_verify on; proxy_ssl_name origin.test; proxy_ssl_server_name on;
             proxy_ssl_trusted_certificate {{dir}}/{trusted}.pem; }} }} }}"
        );
        let other = Certificate::p256(&["other.test"]);
        let base = |trusted| Proxy::nginx(&conf(trusted)).io(io).file("good.pem", good.root_pem()).file("bad.pem", other.root_pem()).start();
        let (trusting, doubting) = (base("good"), base("bad"));
        Client::connect(&trusting).get("/").expect_status(200).expect_body("secret");
        Client::connect(&doubting).get("/").expect_status(502);
        // The refusal reaches the origin as a failed handshake, a moment after the client's answer.
        eventually("the origin to hear of it", || (!origin.take_failures().is_empty()).then_some(()));
    }

    fn client_certificates_decide_who_gets_in(io: Io) {
        let (a, b) = (Certificate::p256(&["a.test"]), Certificate::p256(&["b.test"]));
        let (member, stranger) =
            (Certificate::signed_by_authority(&["member"], true), Certificate::signed_by_authority(&["stranger"], true));
        let proxy = Proxy::nginx(
            "worker_processes 1; events {} http { access_log off;
             server { listen 127.0.0.1:{port} ssl; server_name a.test; ssl_certificate {dir}/a.crt;
                 ssl_certificate_key {dir}/a.key; return 200 open; }
             server { listen 127.0.0.1:{port} ssl; server_name b.test; ssl_certificate {dir}/b.crt;
                 ssl_certificate_key {dir}/b.key; ssl_verify_client on; ssl_client_certificate {dir}/ca.pem;
                 location / { return 200 secret; } }
             server { listen 127.0.0.1:{port} ssl; server_name o.test; ssl_certificate {dir}/b.crt;
                 ssl_certificate_key {dir}/b.key; ssl_verify_client optional; ssl_client_certificate {dir}/ca.pem;
                 location / { return 200 $ssl_client_verify; } }
             server { listen 127.0.0.1:{port} ssl; server_name bare.test; ssl_verify_client on;
                 ssl_client_certificate {dir}/ca.pem; location / { return 200 bare; } } }",
        )
        .io(io).certificate("a", &a).certificate("b", &b).file("ca.pem", member.root_pem()).start();
        let ask = |options: &TlsOptions, host: &str| {
            Client::tls(&proxy, options).request(&Request::get("/").host(host))
        };
        for options in [TlsOptions::trusting(&b).name("b.test"), TlsOptions::trusting(&b).name("b.test").only_tls12()] {
            ask(&options.clone().identity(&member), "b.test").expect_body("secret");
            assert_eq!(ask(&options, "b.test").status, 400);
            assert_eq!(ask(&options.clone().identity(&stranger), "b.test").status, 400);
            // A session that is resumed carries its certificate, or the want of one.
            let (known, unknown) = (options.clone().identity(&member).resuming(), options.resuming());
            for _ in 0..2 {
                ask(&known, "b.test").expect_body("secret");
                assert_eq!(ask(&unknown, "b.test").status, 400);
            }
        }
        // A handshake for the open site does not open the other, whoever shakes hands.
        let open = TlsOptions::trusting(&a).name("a.test");
        ask(&open, "a.test").expect_body("open");
        assert_eq!(ask(&open, "b.test").status, 421);
        assert_eq!(ask(&open.clone().identity(&member), "b.test").status, 421);
        // A server that lends its certificate from the default still asks.
        assert_eq!(ask(&open, "bare.test").status, 421);
        // testkit's options check names; the certificate of `o.test` is that of `b.test`.
        let optional = TlsOptions::trusting(&b).name("b.test");
        ask(&optional, "o.test").expect_body("NONE");
        ask(&optional.clone().identity(&member), "o.test").expect_body("SUCCESS");
        assert_eq!(ask(&optional.identity(&stranger), "o.test").status, 400);
    }

    fn chains_are_judged_as_nginx_judges_them(io: Io) {
        let site = Certificate::p256(&["a.test"]);
        let root = Authority::root("root");
        let near = root.intermediate("near");
        let far = near.intermediate("far");
        let (top, middle, deep) = (root.certificate(&["top"]), near.certificate(&["middle"]), far.certificate(&["deep"]));
        let other = Authority::root("other").certificate(&["stranger"]);
        let selfmade = Certificate::p256(&["selfmade"]);
        let lists = |revoked: &[u64], from_near: &[u64]| {
            format!("{}{}", root.revocations(revoked, true), near.revocations(from_near, true))
        };
        // What a server trusts, how deep, and what it has revoked.
        let mut servers: Vec<(&str, &str, Option<&str>)> = vec![("root", "", None), ("other", "ssl_trusted_certificate {dir}/root;", None)];
        for depth in ["ssl_verify_depth 0;", "ssl_verify_depth 1;", "ssl_verify_depth 2;"] {
            servers.extend([("root", depth, None), ("both", depth, None)]);
        }
        for revoked in ["nobody", "leaf", "near", "old", "part"] {
            servers.push(("root", "ssl_verify_depth 2;", Some(revoked)));
        }
        let port = |at: usize| if at == 0 { "port".to_owned() } else { format!("port{}", at + 1) };
        let text: String = servers
            .iter()
            .enumerate()
            .map(|(at, (ca, depth, revoked))| {
                let crl = revoked.map(|name| format!("ssl_crl {{dir}}/{name};")).unwrap_or_default();
                format!(
                    "server {{ listen 127.0.0.1:{{{}}} ssl; ssl_certificate {{dir}}/a.crt; ssl_certificate_key {{dir}}/a.key;
                     ssl_verify_client on; ssl_client_certificate {{dir}}/{ca}; {depth} {crl} error_page 495 =200 /why;
                     location /why {{ return 200 $ssl_client_verify; }} location / {{ return 200 $ssl_client_verify; }} }}",
                    port(at)
                )
            })
            .collect();
        let start = |proxy: Proxy| {
            proxy
                .certificate("a", &site)
                .file("root", root.root_pem())
                .file("both", format!("{}{}", root.root_pem(), near.chain_pem()))
                .file("other", other.root_pem())
                .file("nobody", lists(&[], &[]))
                .file("leaf", lists(&[top.serial()], &[middle.serial()]))
                .file("near", lists(&[near.serial()], &[]))
                .file("old", root.revocations(&[], false))
                .file("part", root.revocations(&[], true))
                .start()
        };
        let text = format!("events {{}} error_log {{dir}}/error.log info; http {{ access_log off; {text} }}");
        let (ours, theirs) = (start(Proxy::nginx(&text).io(io)), start(Proxy::nginx(&text).by_rival()));
        let options = TlsOptions::trusting(&site).name("a.test");
        for (at, server) in servers.iter().enumerate() {
            for shown in [&top, &middle, &deep, &other, &selfmade] {
                // nginx's words for chains that are wrong in two ways depend on the order of its checks.
                let twice_wrong = server.2.is_some() && [&other, &selfmade, &deep].iter().any(|one| std::ptr::eq(*one, shown));
                let told = |proxy: &Running| {
                    let mut client = Client::tls(proxy.port_of(&port(at)), &options.clone().identity(shown));
                    let told = client.request(&Request::get("/").host("a.test")).text();
                    if twice_wrong { told.split(':').next().unwrap().to_owned() } else { told }
                };
                assert_eq!(told(&ours), told(&theirs), "{server:?} of {}", shown.serial() - top.serial());
            }
        }
        let line = "client SSL certificate verify error: (20:unable to get local issuer certificate) while";
        ours.wait_for_file("error.log", line);
        theirs.wait_for_file("error.log", line);
    }

    fn chains_of_origins_are_as_long_as_allowed(io: Io) {
        let root = Authority::root("root");
        let identity = root.intermediate("near").intermediate("far").certificate(&["origin.test"]);
        let origin = Origin::tls(&identity, |c| c.keep_answering(200, &[], "deep"));
        let location = |path: &str, words: &str| {
            format!(
                "location {path} {{ proxy_pass https://{origin}/; proxy_ssl_verify on; proxy_ssl_name origin.test; \
                 proxy_ssl_trusted_certificate {{dir}}/root; {words} }}"
            )
        };
        let text = format!(
            "events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{{port}}; {} {} }} }}",
            location("/one/", ""),
            location("/two/", "proxy_ssl_verify_depth 2;")
        );
        let proxy = Proxy::nginx(&text).io(io).file("root", root.root_pem()).start();
        Client::connect(&proxy).get("/one/").expect_status(502);
        eventually("the origin to hear of it", || (!origin.take_failures().is_empty()).then_some(()));
        Client::connect(&proxy).get("/two/").expect_body("deep");
    }

    fn haproxy_breaks_off_without_a_certificate(io: Io) {
        let site = Certificate::p256(&["a.test"]);
        let (member, stranger) =
            (Certificate::signed_by_authority(&["member"], true), Certificate::signed_by_authority(&["stranger"], true));
        let proxy = Proxy::haproxy(
            "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n\
             frontend f\n bind 127.0.0.1:{port} ssl crt {dir}/site.pem verify required ca-file {dir}/ca.pem\n\
             http-request return status 200 content-type text/plain string secret\n",
        )
        .io(io).certificate("site", &site).file("ca.pem", member.root_pem()).start();
        let options = TlsOptions::trusting(&site).name("a.test");
        Client::tls(&proxy, &options.clone().identity(&member)).request(&Request::get("/").host("a.test")).expect_body("secret");
        for refused in [options.clone(), options.identity(&stranger)] {
            // In TLS 1.3 the client learns of it after its own end of the handshake.
            let answer = Client::try_tls(&proxy, &refused).ok().and_then(|mut client| client.try_request(&Request::get("/").host("a.test")).ok());
            assert!(answer.is_none(), "{answer:?}");
        }
    }
}
