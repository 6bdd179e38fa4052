//! TLS settings do what they say, and `check` finds what would not run: certificates, keys, orders, lifetimes, records.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use weir_testkit::{
    Authority, Certificate, Client, Io, Proxy, Request, Running, TlsOptions, both_drivers,
    deadline::patience, programs,
};

/// Runs openssl in a folder; it must succeed.
#[track_caller]
fn openssl(dir: &Path, words: &str) -> String {
    let mut command = Command::new("openssl");
    command.args(words.split_whitespace()).current_dir(dir);
    let (code, said) = programs::run(command);
    assert_eq!(code, 0, "openssl {words}: {said}");
    said
}

fn read(dir: &Path, name: &str) -> Vec<u8> {
    std::fs::read(dir.join(name)).unwrap()
}

fn nginx(servers: &str) -> String {
    format!(
        "worker_processes 1; events {{}} http {{ access_log off; ssl_protocols TLSv1.2 TLSv1.3;\n{servers}\n}}"
    )
}

/// A server with `{dir}/site.crt` and its key.
fn server(port: &str, words: &str) -> String {
    format!(
        "server {{ listen 127.0.0.1:{{{port}}} ssl; ssl_certificate {{dir}}/site.crt; ssl_certificate_key {{dir}}/site.key; {words} }}\n"
    )
}

#[test]
fn check_finds_what_would_not_run_and_says_where() {
    let (site, other) = (Certificate::p256(&["a.test"]), Certificate::p256(&["b.test"]));
    let garbage = "-----BEGIN CERTIFICATE-----\nMAAA\n-----END CERTIFICATE-----\n";
    let list = Authority::root("root").revocations(&[], true);
    let with = |words: &str| {
        Proxy::nginx(&nginx(&server("port", &format!("\n{words}\n return 200 x;"))))
            .certificate("site", &site)
            .certificate("other", &other)
            .file("third.key", site.key_pem())
            .file("garbage", garbage)
            .file("list", &list)
            .file("ca", site.root_pem())
            .file("nothing", "nothing")
    };
    assert_eq!(with("").check().0, 0, "{:?}", with("").check());
    let (code, said) = with("ssl_session_ticket_key {dir}/nothing;").check();
    assert!(code == 1 && said.contains("has 7 bytes, where 48 or 80 are due"), "{said}");
    let sound = "ssl_verify_client on; ssl_client_certificate {dir}/ca; ssl_crl {dir}/list;";
    assert_eq!(with(sound).check().0, 0, "{:?}", with(sound).check());
    let upstream = |words: &str| format!("location /u/ {{ proxy_pass https://127.0.0.1:1; {words} }}");
    for (words, code, place) in [
        (
            "ssl_certificate {dir}/other.crt;\nssl_certificate_key {dir}/third.key;".to_owned(),
            "tls::bad-key",
            ":4:1",
        ),
        (
            "ssl_certificate {dir}/garbage; ssl_certificate_key {dir}/site.key;".into(),
            "tls::bad-certificate",
            ":3:1",
        ),
        ("ssl_verify_client on; ssl_client_certificate {dir}/garbage;".into(), "tls::bad-authority", ":3:23"),
        (
            "ssl_verify_client on;\nssl_client_certificate {dir}/ca; ssl_crl {dir}/nothing;".into(),
            "tls::bad-list",
            ":4:",
        ),
        (
            upstream("proxy_ssl_certificate {dir}/site.crt; proxy_ssl_certificate_key {dir}/other.key;"),
            "tls::bad-key",
            ":3:",
        ),
        (
            upstream("proxy_ssl_verify on; proxy_ssl_trusted_certificate {dir}/garbage;"),
            "tls::bad-authority",
            ":3:",
        ),
    ] {
        let (exit, said) = with(&words).check();
        let placed = said.contains(&format!("nginx.conf{place}"));
        assert!(exit != 0 && said.contains(code) && placed, "{words}: {exit} {said}");
        // Both nginxes refuse it, in their test and in their start.
        let tested = |proxy: Proxy| proxy.argument("-t").try_start().err().unwrap();
        for said in [tested(with(&words).foreign_flags()), tested(with(&words).by_rival())] {
            assert!(said.contains("[emerg]") && said.contains("test failed"), "{words}: {said}");
        }
    }
    let mismatch = with("ssl_certificate {dir}/other.crt; ssl_certificate_key {dir}/site.key;");
    for proxy in [mismatch.clone().foreign_flags(), mismatch.by_rival()] {
        let said = proxy.argument("-t").try_start().err().unwrap();
        assert!(said.contains("key values mismatch"), "{said}");
    }
}

#[test]
fn check_finds_it_in_haproxys_files_too() {
    let (site, other) = (Certificate::p256(&["a.test"]), Certificate::p256(&["b.test"]));
    let with = |bind: &str, server: &str| {
        Proxy::haproxy(&format!(
            "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n\
             frontend f\n bind 127.0.0.1:{{port}} ssl {bind}\n default_backend b\n\
             backend b\n server s 127.0.0.1:1 {server}\n"
        ))
        .certificate("site", &site)
        .file("mixed", format!("{}{}", site.chain_pem(), other.key_pem()))
        .file("garbage", "-----BEGIN CERTIFICATE-----\nMAAA\n-----END CERTIFICATE-----\n")
    };
    assert_eq!(with("crt {dir}/site.pem", "").check().0, 0);
    for (bind, server, code, line) in [
        ("crt {dir}/mixed", "", "tls::bad-key", 7),
        ("crt {dir}/site.pem verify required ca-file {dir}/garbage", "", "tls::bad-authority", 7),
        ("crt {dir}/site.pem", "ssl verify required ca-file {dir}/garbage", "tls::bad-authority", 10),
        ("crt {dir}/site.pem", "ssl verify none crt {dir}/mixed", "tls::bad-key", 10),
    ] {
        let (exit, said) = with(bind, server).check();
        let placed = said.contains(&format!("haproxy.cfg:{line}:"));
        assert!(exit != 0 && said.contains(code) && placed, "{bind} {server}: {exit} {said}");
        let tested = |proxy: Proxy| proxy.argument("-c").try_start().err().unwrap();
        for said in [tested(with(bind, server).foreign_flags()), tested(with(bind, server).by_rival())] {
            assert!(said.contains("[ALERT]"), "{bind} {server}: {said}");
        }
    }
}

/// A chain of what `openssl s_client` was shown, and all that it said.
fn shown(proxy: &Running, words: &[&str]) -> String {
    let words = [&["-servername", "a.test"], words].concat();
    programs::openssl_s_client(proxy.port().number(), &words).1
}

both_drivers! {
    fn a_broken_certificate_leaves_the_old_configuration(io: Io) {
        let (site, other) = (Certificate::p256(&["a.test"]), Certificate::p256(&["b.test"]));
        let text = nginx(&server("port", "return 200 first;"));
        let mut proxy = Proxy::nginx(&text).io(io).certificate("site", &site).start();
        proxy.write("site.key", other.key_pem());
        proxy.reload_same();
        proxy.wait_for_log("key values mismatch");
        proxy.wait_for_log("nginx.conf:2:");
        let mut client = Client::tls(&proxy, &TlsOptions::trusting(&site).name("a.test"));
        client.request(&Request::get("/").host("a.test")).expect_body("first");
    }

    fn own_certificates_are_sent_and_not_judged(io: Io) {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        openssl(dir, "req -new -newkey rsa:2048 -nodes -keyout old.key -subj /CN=old.test -out old.csr");
        openssl(dir, "x509 -req -in old.csr -signkey old.key -days 30 -out old.crt");
        assert!(openssl(dir, "x509 -in old.crt -noout -text").contains("Version: 1 (0x0)"));
        openssl(dir, "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout odd.key -subj /CN=odd.test \
            -days 30 -out odd.crt -addext 1.2.3.4=critical,DER:0500");
        for name in ["old", "odd"] {
            let (chain, key) = (read(dir, &format!("{name}.crt")), read(dir, &format!("{name}.key")));
            let bundle = [&chain[..], &key[..]].concat();
            let http = Proxy::nginx(&nginx(&server("port", "return 200 x;"))).file("site.crt", &chain).file("site.key", &key);
            let tcp = Proxy::haproxy(
                "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n\
                 frontend f\n bind 127.0.0.1:{port} ssl crt {dir}/bundle\n http-request return status 200\n",
            ).file("bundle", bundle);
            for proxy in [http.clone(), tcp] {
                let said = shown(&proxy.io(io).start(), &[]);
                assert!(said.contains(&format!("subject=CN = {name}.test")), "{said}");
            }
            // The key is compared all the same.
            let foreign = Certificate::p256(&["x.test"]);
            let (exit, said) = http.file("site.key", foreign.key_pem()).check();
            assert!(exit != 0 && said.contains("key values mismatch"), "{said}");
        }
    }

    fn encrypted_keys_open_with_their_pass_phrases(io: Io) {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        openssl(dir, "req -x509 -newkey rsa:2048 -nodes -keyout rsa.key -subj /CN=a.test -days 30 -out rsa.crt");
        openssl(dir, "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ec.key -subj /CN=a.test -days 30 -out ec.crt");
        let forms = [
            ("rsa", "pkey -in rsa.key -aes256 -passout pass:secret"),
            ("rsa", "pkcs8 -topk8 -in rsa.key -v2 aes-128-cbc -v2prf hmacWithSHA512 -passout pass:secret"),
            ("rsa", "pkcs8 -topk8 -in rsa.key -v2 des3 -v2prf hmacWithSHA1 -passout pass:secret"),
            ("ec", "pkcs8 -topk8 -in ec.key -v2 aes-192-cbc -passout pass:secret"),
            ("rsa", "rsa -in rsa.key -aes128 -traditional -passout pass:secret"),
            ("rsa", "rsa -in rsa.key -des3 -traditional -passout pass:secret"),
            ("ec", "ec -in ec.key -aes256 -passout pass:secret"),
        ];
        let words = "ssl_password_file {dir}/phrases; return 200 opened;";
        for (at, (kind, form)) in forms.iter().enumerate() {
            openssl(dir, &format!("{form} -out locked.key"));
            let locked = read(dir, "locked.key");
            assert!(String::from_utf8_lossy(&locked).contains("ENCRYPTED"), "{form}");
            let proxy = Proxy::nginx(&nginx(&server("port", words))).io(io)
                .file("site.crt", read(dir, &format!("{kind}.crt"))).file("site.key", &locked);
            let (exit, said) = proxy.clone().file("phrases", "wrong\nsecret\n").check();
            assert_eq!(exit, 0, "{form}: {said}");
            let (exit, said) = proxy.clone().file("phrases", "wrong\nanother\n").check();
            assert!(exit != 0 && said.contains("tls::bad-key"), "{form}: {said}");
            if at == 0 {
                let said = shown(&proxy.file("phrases", "wrong\nsecret\n").start(), &[]);
                assert!(said.contains("subject=CN = a.test"), "{said}");
            }
        }
    }

    fn certificates_of_version_1_are_leaves_under_an_authority(io: Io) {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let authority = |name: &str| {
            openssl(dir, &format!("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key \
                -subj /CN={name} -days 30 -out {name}.crt"));
        };
        let signed = |name: &str, by: &str, serial: u8| {
            openssl(dir, &format!("req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key -subj /CN={name} -out {name}.csr"));
            openssl(dir, &format!("x509 -req -in {name}.csr -CA {by}.crt -CAkey {by}.key -set_serial {serial} -days 30 -out {name}.crt"));
            assert!(openssl(dir, &format!("x509 -in {name}.crt -noout -text")).contains("Version: 1 (0x0)"));
        };
        authority("ca");
        authority("other");
        signed("member", "ca", 7);
        signed("revoked", "ca", 8);
        signed("stranger", "other", 9);
        // What a certificate of version 1 signs, it signs for nobody.
        signed("below", "member", 10);
        let chain = [read(dir, "below.crt"), read(dir, "member.crt")].concat();
        std::fs::write(dir.join("below.crt"), chain).unwrap();
        // The name of the authority, another key.
        openssl(dir, "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout forger.key -subj /CN=ca -days 30 -out forger.crt");
        signed("forged", "forger", 7);
        std::fs::write(dir.join("index.txt"), "R\t400101000000Z\t250101000000Z\t08\tunknown\t/CN=revoked\n").unwrap();
        std::fs::write(
            dir.join("ca.cnf"),
            "[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\ncertificate=ca.crt\nprivate_key=ca.key\ndefault_md=sha256\ndefault_crl_days=30\n\
             crlnumber=number\ncrl_extensions=e\n[e]\nauthorityKeyIdentifier=keyid\n",
        ).unwrap();
        std::fs::write(dir.join("number"), "01\n").unwrap();
        openssl(dir, "ca -config ca.cnf -gencrl -out list");
        let site = Certificate::p256(&["a.test"]);
        let asking = |port: &str, words: &str| server(port, &format!(
            "ssl_client_certificate {{dir}}/ca; {words} location / {{ return 200 $ssl_client_verify; }}"
        ));
        let text = nginx(&[
            asking("port", "ssl_verify_client on;"),
            asking("port2", "ssl_verify_client on; ssl_crl {dir}/list;"),
            asking("port3", "ssl_verify_client optional_no_ca;"),
            server("port4", "ssl_verify_client optional_no_ca; location / { return 200 $ssl_client_verify; }"),
        ].concat());
        let start = |proxy: Proxy| proxy.certificate("site", &site).file("ca", read(dir, "ca.crt")).file("list", read(dir, "list")).start();
        let (ours, theirs) = (start(Proxy::nginx(&text).io(io)), start(Proxy::nginx(&text).by_rival()));
        let told = |proxy: &Running, port: &str, who: &str, versions: &str| {
            let (cert, key) = (dir.join(format!("{who}.crt")), dir.join(format!("{who}.key")));
            let url = format!("https://127.0.0.1:{}/", proxy.port_of(port));
            let mut words = vec!["-k", versions];
            words.extend((versions == "--tls-max").then_some("1.2"));
            if who != "nobody" {
                words.extend(["--cert", cert.to_str().unwrap(), "--key", key.to_str().unwrap()]);
            }
            words.push(&url);
            let (code, told) = programs::curl(&words);
            assert_eq!(code, 0, "{who} at {port}: {told}");
            // Of what is refused the page says what nginx's does, and then names the program.
            if told.starts_with('<') { "refused".to_owned() } else { told }
        };
        for versions in ["--tlsv1.3", "--tls-max"] {
            for (port, who) in [
                ("port", "member"), ("port", "stranger"), ("port", "below"), ("port", "forged"), ("port", "nobody"),
                ("port2", "member"), ("port2", "revoked"), ("port2", "stranger"),
                ("port3", "member"), ("port3", "stranger"), ("port3", "nobody"),
                ("port4", "member"), ("port4", "nobody"),
            ] {
                assert_eq!(told(&ours, port, who, versions), told(&theirs, port, who, versions), "{who} at {port}");
            }
        }
        assert_eq!(told(&ours, "port", "member", "--tlsv1.3"), "SUCCESS");
        assert_eq!(told(&ours, "port", "below", "--tlsv1.3"), "refused");
        assert_eq!(told(&ours, "port2", "revoked", "--tlsv1.3"), "refused");
    }

    fn whoever_shows_a_certificate_holds_its_key(io: Io) {
        let (site, member) = (Certificate::p256(&["a.test"]), Certificate::p256(&["member"]));
        let text = nginx(&server("port", "ssl_verify_client optional_no_ca; return 200 $ssl_client_verify;"));
        let proxy = Proxy::nginx(&text).io(io).certificate("site", &site).start();
        let options = TlsOptions::trusting(&site).name("a.test");
        let told = |options: &TlsOptions| {
            let mut client = Client::try_tls(&proxy, options).ok()?;
            client.try_request(&Request::get("/").host("a.test")).ok().map(|told| told.text())
        };
        let honest = options.clone().identity(&member);
        assert_eq!(told(&honest).as_deref(), Some("FAILED:self-signed certificate"));
        // The same certificate, signed for by another key.
        let thief = options.identity(&member.with_key_of(&site));
        for thief in [thief.clone(), thief.only_tls12()] {
            assert_eq!(told(&thief), None);
        }
    }

    fn the_order_of_suites_is_whose_it_is_said_to_be(io: Io) {
        let site = Certificate::rsa2048(&["a.test"]);
        let (first, second) = ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256");
        let order = format!("ssl_protocols TLSv1.2; ssl_ciphers {first}:{second}; return 200 x;");
        let http = |words: &str| Proxy::nginx(&nginx(&server("port", &format!("{words} {order}")))).certificate("site", &site);
        let tcp = |words: &str| Proxy::haproxy(&format!(
            "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n\
             frontend f\n bind 127.0.0.1:{{port}} ssl crt {{dir}}/site.pem ssl-max-ver TLSv1.2 ciphers {first}:{second} {words}\n\
             http-request return status 200\n"
        )).certificate("site", &site);
        for (at, (proxy, chosen)) in [
            (http("ssl_prefer_server_ciphers on;"), first),
            (http("ssl_prefer_server_ciphers off;"), second),
            (http(""), second),
            (tcp(""), first),
            (tcp("prefer-client-ciphers"), second),
        ]
        .into_iter()
        .enumerate()
        {
            let wanted = format!("{second}:{first}");
            for (whose, proxy) in [("ours", proxy.clone().io(io)), ("theirs", proxy.by_rival())] {
                let said = shown(&proxy.start(), &["-cipher", &wanted, "-tls1_2", "-brief"]);
                assert!(said.contains(&format!("Ciphersuite: {chosen}")), "{whose} {at}: {said}");
            }
        }
    }

    fn tickets_of_one_machine_hold_on_another_with_the_same_keys(io: Io) {
        let site = Certificate::p256(&["localhost"]);
        let with = |words: &str| {
            let text = nginx(&server("port", &format!("{words} return 200 $ssl_session_reused;")));
            let file = Proxy::nginx(&text).certificate("site", &site).io(io);
            file.file("one", [1; 80]).file("two", [2; 48]).start()
        };
        let (first, both, other) = (
            with("ssl_session_ticket_key {dir}/one;"),
            with("ssl_session_ticket_key {dir}/two; ssl_session_ticket_key {dir}/one;"),
            with(""),
        );
        let options = TlsOptions::trusting(&site).resuming();
        let ask = |proxy: &Running| Client::tls(proxy, &options).get("/").text();
        assert_eq!(ask(&first), ".");
        assert_eq!(ask(&first), "r");
        assert_eq!(ask(&both), "r", "an older key still opens tickets");
        assert_eq!(ask(&both), "r");
        assert_eq!(ask(&first), ".", "the first of its keys made this one");
        assert_eq!(ask(&other), ".", "without files the keys are the process's own");
    }

    fn responses_of_a_responder_are_shown_and_dates_of_certificates_told(io: Io) {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=localhost -keyout site.key -out site.crt";
        openssl(dir, made);
        let serial = openssl(dir, "x509 -in site.crt -noout -serial");
        let serial = serial.trim().rsplit('=').next().unwrap().to_owned();
        std::fs::write(dir.join("index"), format!("V\t401231235959Z\t\t{serial}\tunknown\t/CN=localhost\n")).unwrap();
        openssl(dir, "ocsp -index index -CA site.crt -rsigner site.crt -rkey site.key -issuer site.crt -cert site.crt -respout staple -noverify -ndays 7");
        let shown = "return 200 '$ssl_client_v_start|$ssl_client_v_end|$ssl_client_v_remain';";
        let asks = "ssl_verify_client optional_no_ca;";
        let text = nginx(&[
            server("port", "ssl_stapling on; ssl_stapling_file {dir}/staple; return 200 x;"),
            server("port_off", "ssl_stapling_file {dir}/staple; return 200 x;"),
            server("port_dates", &format!("{asks} {shown}")),
            "server { listen 127.0.0.1:{port_plain}; location / { proxy_pass https://127.0.0.1:{port_dates}; proxy_ssl_certificate {dir}/site.crt; \
                proxy_ssl_certificate_key {dir}/site.key; } }".to_owned(),
        ].concat());
        let file = ["site.crt", "site.key", "staple"].iter().fold(Proxy::nginx(&text), |file, name| file.file(name, read(dir, name)));
        let mut told = Vec::new();
        for (proxy, who) in [(file.clone().io(io).start(), "weir"), (file.by_rival().start(), "nginx")] {
            let status = |port: &str| programs::openssl_s_client(proxy.port_of(port).number(), &["-servername", "localhost", "-status"]).1;
            assert!(status("port").contains("OCSP Response Status: successful"), "{who}: {}", status("port"));
            assert!(status("port_off").contains("OCSP response: no response sent"), "{who}: {}", status("port_off"));
            told.push(Client::connect(proxy.port_of("port_plain")).get("/").expect_status(200).text());
        }
        let [(dates, left), (same_dates, _)] = [0, 1].map(|one: usize| told[one].rsplit_once('|').unwrap());
        assert_eq!(dates, same_dates);
        // Thirty in the second in which the certificate was made.
        assert!(dates.contains(" GMT|") && ["29", "30"].contains(&left), "{}", told[0]);
        assert!(["29", "30"].iter().any(|left| told[1].ends_with(left)), "{}", told[1]);
    }

    fn settings_by_names_of_openssl_hold(io: Io) {
        let (site, other) = (Certificate::p256(&["a.test"]), Certificate::p256(&["b.test"]));
        let answer = "return 200 '$ssl_protocol $ssl_cipher $ssl_client_s_dn';";
        let asking = format!("ssl_verify_client optional_no_ca; {answer}");
        let to = |path: &str, words: &str| format!("location {path} {{ proxy_pass https://127.0.0.1:{{port_asking}}; {words} }}");
        let text = nginx(&[
            server("port_asking", &asking),
            server("port_newest", &format!("ssl_conf_command MinProtocol TLSv1.3; ssl_conf_command Ciphersuites TLS_CHACHA20_POLY1305_SHA256; {answer}")),
            server("port_older", &format!("ssl_conf_command MaxProtocol TLSv1.2; ssl_conf_command CipherString ECDHE-ECDSA-CHACHA20-POLY1305; {answer}")),
            server("port_shown", &format!("ssl_conf_command Certificate other.crt; ssl_conf_command PrivateKey other.key; ssl_conf_command Options -SessionTicket; {answer}")),
            format!(
                "server {{ listen 127.0.0.1:{{port}}; {} {} {} }}",
                to("/suite", "proxy_ssl_conf_command Ciphersuites TLS_CHACHA20_POLY1305_SHA256; proxy_ssl_protocols TLSv1.3;"),
                to("/old", "proxy_ssl_conf_command MaxProtocol TLSv1.2; proxy_ssl_conf_command CipherString ECDHE-ECDSA-AES128-GCM-SHA256;"),
                to("/shows", "proxy_ssl_conf_command Certificate other.crt; proxy_ssl_conf_command PrivateKey other.key; proxy_ssl_session_reuse off; proxy_ssl_protocols TLSv1.2; proxy_ssl_ciphers ECDHE-ECDSA-AES128-GCM-SHA256;"),
            ),
        ].concat());
        let file = Proxy::nginx(&text).certificate("site", &site).certificate("other", &other);
        for (proxy, who) in [(file.clone().io(io).start(), "weir"), (file.by_rival().start(), "nginx")] {
            let at = |port: &str| programs::openssl_s_client(proxy.port_of(&format!("port_{port}")).number(), &["-servername", "a.test", "-brief"]).1;
            assert!(at("newest").contains("Ciphersuite: TLS_CHACHA20_POLY1305_SHA256"), "{who}: {}", at("newest"));
            assert!(at("older").contains("Ciphersuite: ECDHE-ECDSA-CHACHA20-POLY1305"), "{who}: {}", at("older"));
            assert!(at("shown").contains("CN = b.test"), "{who}: {}", at("shown"));
            let mut client = Client::connect(&proxy);
            client.get("/suite").expect_body("TLSv1.3 TLS_CHACHA20_POLY1305_SHA256 ");
            client.get("/old").expect_body("TLSv1.2 ECDHE-ECDSA-AES128-GCM-SHA256 ");
            client.get("/shows").expect_body("TLSv1.2 ECDHE-ECDSA-AES128-GCM-SHA256 CN=b.test");
        }
        for (word, fault) in [
            ("MinProtocol TLSv9", "a version that Weir speaks"),
            ("MaxProtocol TLSv1.1", "a version that Weir speaks"),
            ("Ciphersuites NONE", "TLS 1.3 suites that Weir has"),
            ("SignatureAlgorithms RSA+SHA1", "Weir uses no OpenSSL"),
        ] {
            let text = nginx(&server("port", &format!("ssl_conf_command {word};")));
            let (code, said) = Proxy::nginx(&text).certificate("site", &site).check();
            assert!(code != 0 && said.contains(fault), "{word}: {said}");
        }
    }

    fn servers_of_haproxys_files_are_offered_what_is_said(io: Io) {
        let site = Certificate::p256(&["a.test"]);
        let origin = Proxy::nginx(&nginx(&server("port", "return 200 '$ssl_cipher $ssl_curve';"))).certificate("site", &site).by_rival().start();
        let port = origin.port().number();
        let text = |global: &str, words: &str| format!(
            "global\n {global}\ndefaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n\
             frontend f\n bind 127.0.0.1:{{port}}\n default_backend b\n\
             backend b\n server s 127.0.0.1:{port} ssl verify none {words}\n"
        );
        let suite = "TLS_CHACHA20_POLY1305_SHA256";
        for file in [
            Proxy::haproxy(&text(&format!("ssl-default-server-ciphersuites {suite}"), "")),
            Proxy::haproxy(&text("", &format!("ciphersuites {suite}"))),
        ] {
            for proxy in [file.clone().io(io).start(), file.by_rival().start()] {
                assert!(Client::connect(&proxy).get("/").text().starts_with(suite));
            }
        }
        let proxy = Proxy::haproxy(&text("", "curves secp384r1")).io(io).start();
        Client::connect(&proxy).get("/").expect_body("TLS_AES_256_GCM_SHA384 secp384r1");
    }

    fn whoever_falls_back_without_need_is_told(io: Io) {
        let site = Certificate::p256(&["a.test"]);
        let text = |versions: &str| nginx(&server("port", &format!("ssl_protocols {versions}; return 200 x;")));
        for (versions, refused) in [("TLSv1.2 TLSv1.3", true), ("TLSv1.2", false)] {
            let proxy = Proxy::nginx(&text(versions)).certificate("site", &site);
            for proxy in [proxy.clone().io(io), proxy.by_rival()] {
                let proxy = proxy.start();
                let said = shown(&proxy, &["-tls1_2", "-fallback_scsv"]);
                assert_eq!(said.contains("alert inappropriate fallback"), refused, "{versions}: {said}");
                assert!(!shown(&proxy, &["-tls1_2"]).contains("alert"), "without the signal");
            }
        }
    }

    fn a_share_of_zeros_is_refused(io: Io) {
        let site = Certificate::p256(&["a.test"]);
        let proxy = Proxy::nginx(&nginx(&server("port", "return 200 x;"))).io(io).certificate("site", &site).start();
        // The control: a share that is a point is answered by a ServerHello.
        for (share, answered) in [([9; 32], 22), ([0; 32], 21)] {
            let mut client = Client::connect(&proxy);
            client.send(hello(&share));
            assert_eq!(client.read_exactly(1), [answered], "{share:?}");
        }
    }

    fn sessions_last_as_long_as_they_are_said_to(io: Io) {
        let site = Certificate::p256(&["a.test"]);
        for (words, seconds) in [("", 300), ("ssl_session_timeout 20m;", 1200)] {
            let proxy = Proxy::nginx(&nginx(&server("port", &format!("{words} return 200 x;")))).certificate("site", &site);
            for proxy in [proxy.clone().io(io), proxy.by_rival()] {
                let said = shown(&proxy.start(), &["-tls1_2"]);
                assert!(said.contains(&format!("ticket lifetime hint: {seconds} (seconds)")), "{said}");
            }
        }
    }

    fn records_are_as_large_as_allowed(io: Io) {
        let site = Certificate::p256(&["a.test"]);
        let file = vec![b'x'; 300_000];
        for (words, most, least) in [("ssl_buffer_size 4k;", 4096 + 40, 3000), ("", 16_384 + 40, 12_000)] {
            let proxy = Proxy::nginx(&nginx(&server("port", &format!("{words} root {{dir}}/html;")))).io(io)
                .certificate("site", &site).file("html/file", &file).start();
            for options in [TlsOptions::trusting(&site).only_tls13(), TlsOptions::trusting(&site).only_tls12()] {
                let spy = Spy::before(proxy.port().number());
                let mut client = Client::tls(spy.address, &options.name("a.test"));
                assert_eq!(client.request(&Request::get("/file").host("a.test")).body.len(), file.len());
                drop(client);
                let largest = spy.largest_record();
                assert!((least..=most).contains(&largest), "{words}: {largest}");
            }
        }
    }
}

/// A ClientHello of TLS 1.3 with one share for X25519.
fn hello(share: &[u8; 32]) -> Vec<u8> {
    let extensions = [
        &[0, 43, 0, 3, 2, 3, 4][..],
        &[0, 10, 0, 4, 0, 2, 0, 29],
        &[0, 13, 0, 6, 0, 4, 4, 3, 8, 4],
        &[0, 51, 0, 38, 0, 36, 0, 29, 0, 32],
        share,
    ]
    .concat();
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 1, 1, 0, 0, u8::try_from(extensions.len()).unwrap()]);
    body.extend(extensions);
    let len = u8::try_from(body.len()).unwrap();
    [&[22, 3, 1, 0, len + 4, 1, 0, 0, len][..], &body].concat()
}

/// Somebody between client and server who looks at the sizes of records.
struct Spy {
    address: std::net::SocketAddr,
    seen: Arc<Mutex<Vec<u8>>>,
    thread: std::thread::JoinHandle<()>,
}

impl Spy {
    fn before(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<u8>>> = Arc::default();
        let kept = seen.clone();
        let thread = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            for socket in [&client, &server] {
                socket.set_read_timeout(Some(patience())).unwrap();
            }
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Write);
            });
            let mut piece = [0; 16 * 1024];
            while let Ok(read @ 1..) = server.read(&mut piece) {
                kept.lock().unwrap().extend_from_slice(&piece[..read]);
                if client.write_all(&piece[..read]).is_err() {
                    break;
                }
            }
        });
        Self { address, seen, thread }
    }

    /// Of application data; once the connection has ended.
    fn largest_record(self) -> usize {
        self.thread.join().unwrap();
        let seen = self.seen.lock().unwrap();
        let (mut rest, mut largest) = (&seen[..], 0);
        while let Some(&[kind, _, _, high, low]) = rest.first_chunk::<5>() {
            let len = usize::from(high) << 8 | usize::from(low);
            largest = largest.max(if kind == 23 { len } else { 0 });
            rest = rest.get(5 + len..).unwrap_or_default();
        }
        largest
    }
}
