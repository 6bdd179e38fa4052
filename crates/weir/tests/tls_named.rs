//! Certificates that variables name, with clients and with upstreams, beside nginx.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_testkit::{Certificate, Client, Io, Proxy, Request, Running, TlsOptions, both_drivers, programs};

fn conf(servers: &str) -> String {
    format!(
        "worker_processes 1; error_log stderr info; events {{}} http {{ access_log off; ssl_protocols TLSv1.2 TLSv1.3; {servers} }}"
    )
}

/// The subject that is shown to a client that asks for a name; the exit code and what was said else.
fn subject(proxy: &Running, port: &str, name: &str) -> Result<String, (i32, String)> {
    let words: &[&str] = if name.is_empty() { &["-noservername"] } else { &["-servername", name] };
    let (code, said) = programs::openssl_s_client(proxy.port_of(port).number(), words);
    match said.lines().find_map(|line| line.trim().strip_prefix("subject=CN = ")) {
        Some(subject) => Ok(subject.to_owned()),
        None => Err((code, said)),
    }
}

/// Weir, and nginx.
fn both(io: Io, file: &Proxy) -> [(&'static str, Running); 2] {
    [("weir", file.clone().io(io).start()), ("nginx", file.clone().by_rival().start())]
}

both_drivers! {
    fn clients_see_the_certificate_of_the_name_they_ask_for(io: Io) {
        let (a, b) = (Certificate::p256(&["a.test"]), Certificate::rsa2048(&["b.test"]));
        let text = conf(
            "map $ssl_server_name $who { default b.test; a.test a.test; } \
             server { listen 127.0.0.1:{port} ssl; ssl_certificate {dir}/$ssl_server_name.crt; ssl_certificate_key {dir}/$ssl_server_name.key; \
               return 200 '$ssl_server_name'; } \
             server { listen 127.0.0.1:{port_map} ssl; ssl_certificate $who.crt; ssl_certificate_key $who.key; return 200 x; } \
             server { listen 127.0.0.1:{port_half} ssl; ssl_certificate a.test.crt; ssl_certificate_key {dir}/$who.key; return 200 x; }",
        );
        let file = Proxy::nginx(&text).certificate("a.test", &a).certificate("b.test", &b);
        for (who, proxy) in both(io, &file) {
            for _ in 0..2 {
                assert_eq!(subject(&proxy, "port", "a.test").as_deref(), Ok("a.test"), "{who}");
                assert_eq!(subject(&proxy, "port", "b.test").as_deref(), Ok("b.test"), "{who}");
            }
            assert!(subject(&proxy, "port", "c.test").is_err() && subject(&proxy, "port", "").is_err(), "{who}");
            proxy.wait_for_log("c.test.crt");
            for (name, wanted) in [("a.test", "a.test"), ("c.test", "b.test"), ("", "b.test")] {
                assert_eq!(subject(&proxy, "port_map", name).as_deref(), Ok(wanted), "{who} {name}");
            }
            // A key that is not the certificate's is no reason to show either.
            assert_eq!(subject(&proxy, "port_half", "a.test").as_deref(), Ok("a.test"), "{who}");
            assert!(subject(&proxy, "port_half", "b.test").is_err(), "{who}");
            // What failed leaves the others as they were.
            Client::tls(&proxy, &TlsOptions::trusting(&a).name("a.test")).request(&Request::get("/").host("a.test")).expect_body("a.test");
        }
    }

    fn a_renewed_file_is_shown_at_once(io: Io) {
        let (old, new) = (Certificate::p256(&["a.test"]), Certificate::p256(&["new.test"]));
        let text = conf("server { listen 127.0.0.1:{port} ssl; ssl_certificate {dir}/$ssl_server_name.crt; ssl_certificate_key {dir}/$ssl_server_name.key; return 200 x; }");
        let file = Proxy::nginx(&text).certificate("a.test", &old);
        for (who, proxy) in both(io, &file) {
            assert_eq!(subject(&proxy, "port", "a.test").as_deref(), Ok("a.test"), "{who}");
            proxy.write("a.test.crt", new.chain_pem());
            proxy.write("a.test.key", new.key_pem());
            assert_eq!(subject(&proxy, "port", "a.test").as_deref(), Ok("new.test"), "{who}");
        }
    }

    fn names_that_are_none_of_hosts_reach_no_file(io: Io) {
        let certificate = Certificate::p256(&["a.test"]);
        let text = conf("server { listen 127.0.0.1:{port} ssl; ssl_certificate {dir}/in/$ssl_server_name.crt; ssl_certificate_key {dir}/in/$ssl_server_name.key; return 200 x; }");
        let proxy = Proxy::nginx(&text).certificate("in/a.test", &certificate).certificate("a.test", &certificate).io(io).start();
        assert!(subject(&proxy, "port", "a.test").is_ok());
        for name in ["../a.test", "../in/a.test", "./a.test", "/a.test", "x/../a.test", "a..test"] {
            assert!(subject(&proxy, "port", name).is_err(), "{name}");
        }
    }

    fn certificates_may_be_texts_of_variables(io: Io) {
        let certificate = Certificate::p256(&["a.test"]);
        let text = conf(&format!(
            "map $ssl_server_name $chain {{ a.test \"{}\"; }} map $ssl_server_name $key {{ a.test \"{}\"; }} \
             server {{ listen 127.0.0.1:{{port}} ssl; ssl_certificate data:$chain; ssl_certificate_key data:$key; return 200 x; }}",
            certificate.chain_pem(), certificate.key_pem(),
        ));
        for (who, proxy) in both(io, &Proxy::nginx(&text)) {
            assert_eq!(subject(&proxy, "port", "a.test").as_deref(), Ok("a.test"), "{who}");
            assert!(subject(&proxy, "port", "b.test").is_err(), "{who}");
        }
    }

    fn rules_about_clients_hold_with_them(io: Io) {
        let (site, visitor) = (Certificate::p256(&["a.test"]), Certificate::p256(&["visitor"]));
        let text = conf(
            "server { listen 127.0.0.1:{port} ssl; server_name a.test; ssl_certificate {dir}/$ssl_server_name.crt; ssl_certificate_key {dir}/$ssl_server_name.key; \
               ssl_verify_client on; ssl_client_certificate {dir}/ca; return 200 '$ssl_client_verify $ssl_client_s_dn'; }",
        );
        let file = Proxy::nginx(&text).certificate("a.test", &site).file("ca", visitor.root_pem());
        let trusting = || TlsOptions::trusting(&site).name("a.test");
        for (who, proxy) in both(io, &file) {
            let get = |options: &TlsOptions| Client::tls(&proxy, options).request(&Request::get("/").host("a.test"));
            assert_eq!(get(&trusting()).status, 400, "{who}");
            get(&trusting().identity(&visitor)).expect_body("SUCCESS CN=visitor");
        }
    }

    fn streams_have_them_too(io: Io) {
        let (a, b) = (Certificate::p256(&["a.test"]), Certificate::p256(&["b.test"]));
        let text = "load_module /usr/lib/nginx/modules/ngx_stream_module.so; worker_processes 1; error_log stderr; events {} stream { server { listen 127.0.0.1:{port} ssl; \
                    ssl_certificate {dir}/$ssl_server_name.crt; ssl_certificate_key {dir}/$ssl_server_name.key; return x; } }";
        for (who, proxy) in both(io, &Proxy::nginx(text).certificate("a.test", &a).certificate("b.test", &b)) {
            for name in ["a.test", "b.test"] {
                assert_eq!(subject(&proxy, "port", name).as_deref(), Ok(name), "{who}");
            }
            assert!(subject(&proxy, "port", "c.test").is_err(), "{who}");
        }
    }

    fn upstreams_are_shown_the_one_that_a_request_names(io: Io) {
        let (site, a, b) = (Certificate::p256(&["site.test"]), Certificate::p256(&["a.test"]), Certificate::p256(&["b.test"]));
        let text = conf(
            "upstream u { server 127.0.0.1:{port_tls}; keepalive 8; } \
             server { listen 127.0.0.1:{port_tls} ssl; ssl_certificate {dir}/site.crt; ssl_certificate_key {dir}/site.key; \
               ssl_verify_client optional_no_ca; return 200 '$ssl_client_s_dn'; } \
             server { listen 127.0.0.1:{port}; location / { proxy_pass https://u; proxy_http_version 1.1; proxy_set_header Connection ''; \
               proxy_ssl_session_reuse off; proxy_ssl_certificate {dir}/$arg_who.crt; proxy_ssl_certificate_key {dir}/$arg_who.key; } }",
        );
        let file = Proxy::nginx(&text).certificate("site", &site).certificate("a.test", &a).certificate("b.test", &b);
        let proxy = file.io(io).start();
        let mut client = Client::connect(&proxy);
        // Connections that are kept are those of the same certificate.
        for who in ["a.test", "b.test", "a.test", "b.test"] {
            client.get(&format!("/?who={who}")).expect_body(format!("CN={who}"));
        }
        client.get("/?who=c.test").expect_status(500);
        proxy.wait_for_log("c.test.crt");
        // As nginx, Weir closes a connection after 500.
        client.expect_closed();
        Client::connect(&proxy).get("/?who=a.test").expect_body("CN=a.test");
    }
}

#[test]
fn what_cannot_be_is_said() {
    let certificate = Certificate::p256(&["a.test"]);
    for (words, fault) in [
        (
            "listen 127.0.0.1:{port} ssl; ssl_certificate $ssl_server_name.crt;",
            "has no `ssl_certificate_key`",
        ),
        ("listen 127.0.0.1:{port} ssl; ssl_certificate $none.crt; ssl_certificate_key $none.key;", "none"),
        (
            "listen 127.0.0.1:{port} ssl; listen 127.0.0.1:{port} quic; ssl_certificate $ssl_server_name.crt; ssl_certificate_key k;",
            "with QUIC",
        ),
        (
            "listen 127.0.0.1:{port} ssl; ssl_certificate a.test.crt; ssl_certificate_key engine:x:y;",
            "keys in engines",
        ),
    ] {
        let (code, said) =
            Proxy::nginx(&conf(&format!("server {{ {words} }}"))).certificate("a.test", &certificate).check();
        assert!(code != 0 && said.contains(fault), "{words}: {said}");
    }
}
