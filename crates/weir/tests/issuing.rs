//! Certificates that authorities issue (ACME), with pebble as the authority.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use weir_testkit::{
    Certificate, Client, Deadline, Io, Port, Process, Proxy, Request, Running, both_drivers, eventually,
    programs,
};

/// An authority that asks at ports of ours, and a name server for which all names are 127.0.0.1.
struct Authority {
    certificate: Certificate,
    port: Port,
    management: Port,
    http: Port,
    tls: Port,
    _dns: Process,
    resolver: Port,
    settings: Settings,
    dir: tempfile::TempDir,
    process: Option<Process>,
}

/// What differs between tests.
#[derive(Clone)]
struct Settings {
    /// Seconds that a certificate is good for.
    validity: u32,
    external: bool,
    /// Seconds before it looks at a name.
    sleep: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { validity: 7_776_000, external: false, sleep: 0 }
    }
}

const EXTERNAL: (&str, &str) = ("kid-1", "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W");

impl Authority {
    /// One that does not serve yet.
    fn new(settings: Settings) -> Self {
        let [port, management, http, tls, resolver, dns_management] = std::array::from_fn(|_| Port::lease());
        let at = |port: &Port| format!("127.0.0.1:{}", port.number());
        let mut command = Command::new(programs::peer("pebble-challtestsrv"));
        command.args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-defaultIPv6", ""]);
        command.args(["-dnsserver", &at(&resolver), "-management", &at(&dns_management)]);
        let dns = programs::server(command);
        Self {
            certificate: Certificate::p256(&["localhost"]),
            port,
            management,
            http,
            tls,
            _dns: dns,
            resolver,
            settings,
            dir: tempfile::tempdir().unwrap(),
            process: None,
        }
    }

    fn serving(settings: Settings) -> Self {
        let mut authority = Self::new(settings);
        authority.start();
        authority
    }

    fn start(&mut self) {
        let files = self.certificate.write(self.dir.path(), "authority");
        let Settings { validity, external, sleep } = self.settings;
        let config = serde_json::json!({ "pebble": {
            "listenAddress": format!("127.0.0.1:{}", self.port.number()),
            "managementListenAddress": format!("127.0.0.1:{}", self.management.number()),
            "certificate": files.chain, "privateKey": files.key,
            "httpPort": self.http.number(), "tlsPort": self.tls.number(),
            "ocspResponderURL": "", "externalAccountBindingRequired": external,
            "externalAccountMACKeys": { EXTERNAL.0: EXTERNAL.1 },
            "retryAfter": { "authz": 1, "order": 1 },
            "keyAlgorithm": "ecdsa",
            "profiles": {
                "default": { "description": "usual", "validityPeriod": validity },
            },
        }});
        let path = self.dir.path().join("pebble.json");
        std::fs::write(&path, config.to_string()).unwrap();
        let mut command = Command::new(programs::peer("pebble"));
        command.args(["-strict", "-dnsserver", &format!("127.0.0.1:{}", self.resolver.number())]);
        command.arg("-config").arg(&path);
        if sleep == 0 {
            command.env("PEBBLE_VA_NOSLEEP", "1");
        } else {
            command.env("PEBBLE_VA_SLEEPTIME", sleep.to_string());
        }
        command.env("PEBBLE_WFE_NONCEREJECT", "20").env("PEBBLE_ALTERNATE_ROOTS", "2");
        let process = programs::server(command);
        process.wait_for_output("ACME directory available");
        self.process = Some(process);
    }

    fn stop(&mut self) {
        self.process = None;
    }

    fn directory(&self) -> String {
        format!("https://localhost:{}/dir", self.port.number())
    }

    /// A file whose ports it asks at.
    fn proxy(&self, text: &str) -> Proxy {
        self.given(Proxy::nginx(&text.replace("{directory}", &self.directory())))
    }

    fn given(&self, proxy: Proxy) -> Proxy {
        proxy
            .port("port_http", &self.http)
            .port("port_tls", &self.tls)
            .file("authority.pem", self.certificate.root_pem())
            .file("key.b64", EXTERNAL.1)
    }
}

fn conf(rest: &str) -> String {
    format!("error_log stderr info; events {{}} http {{ access_log off; {rest} }}")
}

/// All that a server needs, and a site on port 80 that sends everybody to the other.
const AUTO: &str = "auto_certificate me@example.com directory={directory} trusted={dir}/authority.pem state={dir}/state retry=1s; \
    server { listen 127.0.0.1:{port_http}; server_name www.example.com; return 301 https://$host$request_uri; } \
    server { listen 127.0.0.1:{port_tls} ssl; server_name www.example.com example.com; return 200 'ok'; } \
    server { listen 127.0.0.1:{port_figures}; location / { weir_metrics; } }";

/// The example of docs/nginx.md, at ports of the test's and with its authority.
fn documented() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/nginx.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("\n## Certificates\n").unwrap();
    let text = section.split("```").nth(1).unwrap().strip_prefix("nginx\n").unwrap();
    let own = "me@example.com directory={directory} trusted={dir}/authority.pem state={dir}/state retry=1s;";
    let replaced = [
        ("me@example.com;", own),
        ("listen 80;", "listen 127.0.0.1:{port_http};"),
        ("listen 443 ssl;", "listen 127.0.0.1:{port_tls} ssl;"),
        ("http {", "http { access_log off;"),
        ("events {}", "error_log stderr info; events {}"),
    ];
    replaced.into_iter().fold(text.to_owned(), |text, (one, other)| {
        assert!(text.contains(one), "{one}");
        text.replace(one, other)
    })
}

/// Who issued what is shown for a name, and its serial number.
fn shown(proxy: &Running, name: &str) -> (String, String) {
    let port = proxy.port_of("port_tls").number();
    let address = format!("127.0.0.1:{port}");
    let script = format!(
        "openssl s_client -connect {address} -servername {name} </dev/null 2>/dev/null | openssl x509 -noout -issuer -serial"
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    let (_, said) = programs::run(command);
    let line = |start: &str| {
        said.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_default().trim().to_owned()
    };
    (line("issuer="), line("serial="))
}

fn is_issued(proxy: &Running, name: &str) -> bool {
    shown(proxy, name).0.contains("Pebble Intermediate")
}

fn expect_issued(proxy: &Running, name: &str) {
    until(proxy, "an issued certificate", || is_issued(proxy, name));
}

/// Waits for what takes several exchanges with an authority, each of which may begin anew.
fn until(proxy: &Running, what: &str, holds: impl Fn() -> bool) {
    let deadline = Deadline::after(Duration::from_secs(90));
    while !holds() {
        assert!(deadline.look_again(), "waited in vain: {what}\n{}", proxy.logs());
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode()
        & 0o777
}

both_drivers! {
    fn a_server_gets_its_certificate_by_http(io: Io) {
        let authority = Authority::serving(Settings::default());
        let proxy = authority.proxy(&documented()).io(io).start();
        expect_issued(&proxy, "www.example.com");
        expect_issued(&proxy, "example.com");
        let state = proxy.dir().join("state");
        assert_eq!((mode(&state), mode(&state.join("account.key"))), (0o700, 0o600));
        let kept: Vec<_> = std::fs::read_dir(&state).unwrap().map(|one| one.unwrap().file_name()).collect();
        let pem = kept.iter().find(|name| name.to_string_lossy().ends_with(".pem")).unwrap();
        assert_eq!(mode(&state.join(pem)), 0o600);
        assert!(!kept.iter().any(|name| name.to_string_lossy().ends_with(".order")), "{kept:?}");
        // What nobody waits for goes its usual way.
        let mut client = Client::connect(&authority.http);
        let other = Request::get("/.well-known/acme-challenge/other").host("www.example.com");
        client.request(&other).expect_status(301);
        proxy.wait_for_log("was issued and is shown");
    }

    fn a_server_gets_its_certificate_by_tls(io: Io) {
        let authority = Authority::serving(Settings { external: true, ..Settings::default() });
        let text = "acme_issuer test { uri {directory}; contact me@example.com; challenge tls-alpn; \
              ssl_trusted_certificate {dir}/authority.pem; state_path {dir}/state; accept_terms_of_service; account_key ecdsa:384; \
              external_account_key kid-1 {dir}/key.b64; preferred_chain none; profile none; } \
            acme_shared_zone zone=ngx_acme_shared:1M; \
            server { listen 127.0.0.1:{port_tls} ssl; http2 on; server_name .example.com; acme_certificate test key=rsa:2048; \
              ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; ssl_certificate_cache max=2; return 200 'ok'; }";
        let proxy = authority.proxy(&conf(text)).io(io).start();
        expect_issued(&proxy, "example.com");
        // Nobody but the authority gets anything by that protocol.
        let (_, said) = programs::openssl_s_client(authority.tls.number(), &["-servername", "example.com", "-alpn", "acme-tls/1"]);
        assert!(said.contains("alert"), "{said}");
    }
}

both_drivers! {
    fn haproxys_certificates_are_issued_too(io: Io) {
        let authority = Authority::serving(Settings::default());
        let text = "global\n expose-experimental-directives\n httpclient.ssl.ca-file {dir}/authority.pem\n\
            defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n\
            acme LE\n directory {directory}\n contact me@example.com\n challenge HTTP-01\n keytype ECDSA\n curves P-256\n map virt@acme\n state-path {dir}/state\n\
            crt-store\n load crt {dir}/foo.pem acme LE domains foo.example.com,bar.example.com\n\
            frontend in\n bind 127.0.0.1:{port_http}\n bind 127.0.0.1:{port_tls} ssl crt {dir}/foo.pem\n http-request redirect scheme https unless { ssl_fc }\n http-request return status 200\n";
        let text = text.replace("{directory}", &authority.directory());
        let proxy = authority.given(Proxy::haproxy(&text)).io(io).start();
        expect_issued(&proxy, "foo.example.com");
        expect_issued(&proxy, "bar.example.com");
    }
}

#[test]
fn the_user_of_the_data_plane_has_what_is_kept() {
    let authority = Authority::serving(Settings::default());
    let text = format!("user nobody nogroup; {}", conf(AUTO));
    let proxy = authority.proxy(&text).start();
    expect_issued(&proxy, "www.example.com");
    let owner = |name: &str| std::fs::metadata(proxy.dir().join(name)).unwrap().uid();
    let us = rustix::process::geteuid().as_raw();
    let wanted = if us == 0 { 65_534 } else { us };
    assert_eq!((owner("state"), owner("state/account.key")), (wanted, wanted));
}

#[test]
fn a_placeholder_is_shown_until_there_is_an_authority() {
    let mut authority = Authority::new(Settings::default());
    let proxy = authority.proxy(&conf(AUTO)).start();
    assert!(shown(&proxy, "www.example.com").0.contains("Weir, until there is a certificate"));
    proxy.wait_for_log("a placeholder is shown; the next attempt is in");
    authority.start();
    expect_issued(&proxy, "www.example.com");
    let metrics = Client::connect(proxy.port_of("port_figures")).get("/").text();
    let labels = r#"certificate="acme auto_certificate, www.example.com example.com""#;
    for line in [
        format!("weir_issued_certificate_placeholder{{{labels}}} 0"),
        format!("weir_certificate_orders_total{{{labels},outcome=\"issued\"}} 1"),
    ] {
        assert!(metrics.contains(&line), "{line}\n{metrics}");
    }
    assert!(!metrics.contains("outcome=\"failed\"} 0"), "{metrics}");
}

#[test]
fn what_was_issued_outlives_the_process() {
    let mut authority = Authority::serving(Settings::default());
    let state = tempfile::tempdir().unwrap();
    let text = conf(AUTO).replace("{dir}/state", &state.path().join("state").display().to_string());
    let file = authority.proxy(&text);
    let proxy = file.start();
    expect_issued(&proxy, "www.example.com");
    let before = shown(&proxy, "www.example.com");
    proxy.stop();
    authority.stop();
    let proxy = file.start();
    assert_eq!(shown(&proxy, "www.example.com"), before);
}

#[test]
fn a_certificate_is_renewed_under_traffic() {
    let authority = Authority::serving(Settings { validity: 40, ..Settings::default() });
    let mut proxy = authority.proxy(&conf(AUTO)).start();
    expect_issued(&proxy, "www.example.com");
    let (_, first) = shown(&proxy, "www.example.com");
    // A reload orders nothing again.
    proxy.reload_same();
    until(&proxy, "another certificate", || {
        let (issuer, serial) = shown(&proxy, "www.example.com");
        assert!(issuer.contains("Pebble Intermediate"), "{issuer}");
        serial != first
    });
}

#[test]
fn a_process_that_was_killed_is_no_loss() {
    let authority = Authority::serving(Settings { sleep: 3, ..Settings::default() });
    let state = tempfile::tempdir().unwrap();
    let folder = state.path().join("state");
    let text = conf(AUTO).replace("{dir}/state", &folder.display().to_string());
    let mut proxy = authority.proxy(&text).start();
    let has_order = || {
        let all = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        all.map(|one| one.file_name()).any(|name| name.to_string_lossy().ends_with(".order"))
    };
    eventually("an order", || has_order().then_some(()));
    proxy.process().signal(Signal::KILL);
    drop(proxy);
    let key = std::fs::read(folder.join("account.key")).unwrap();
    let proxy = authority.proxy(&text).start();
    expect_issued(&proxy, "www.example.com");
    assert_eq!(std::fs::read(folder.join("account.key")).unwrap(), key);
    assert!(!has_order());
}
