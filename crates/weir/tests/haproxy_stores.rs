//! `crt-store` sections, and OCSP responses that lie beside certificates: which certificate, with which response, a handshake is shown.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::Command;

use weir_testkit::{Certificate, Client, Io, Proxy, Running, TlsOptions, both_drivers, programs};

const DEFAULTS: &str = "defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n";

fn openssl(folder: &Path, arguments: &str) -> String {
    let made = Command::new("openssl").current_dir(folder).args(arguments.split(' ')).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8(made.stdout).unwrap()
}

/// A response (DER) that a self-signed certificate is good.
fn response(site: &Certificate) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("crt"), site.chain_pem()).unwrap();
    std::fs::write(at.join("key"), site.key_pem()).unwrap();
    let serial = openssl(at, "x509 -in crt -noout -serial");
    let serial = serial.trim().rsplit('=').next().unwrap().to_owned();
    std::fs::write(at.join("index"), format!("V\t401231235959Z\t\t{serial}\tunknown\t/CN=a\n")).unwrap();
    openssl(
        at,
        "ocsp -index index -CA crt -rsigner crt -rkey key -issuer crt -cert crt -respout made -noverify -ndays 7",
    );
    std::fs::read(at.join("made")).unwrap()
}

/// Whether a client that asks for a response is shown one.
fn stapled(proxy: &Running, port: &str, name: &str) -> bool {
    let said = programs::openssl_s_client(proxy.port_of(port).number(), &["-servername", name, "-status"]).1;
    let shown = said.contains("OCSP Response Status: successful");
    assert!(shown || said.contains("OCSP response: no response sent"), "{said}");
    shown
}

fn get(proxy: &Running, port: &str, site: &Certificate, name: &str) -> String {
    Client::tls(proxy.port_of(port), &TlsOptions::trusting(site).name(name)).get("/").text()
}

both_drivers! {
    fn certificates_are_found_by_the_names_that_stores_give_them(io: Io) {
        let names = ["one.test", "two.test", "three.test", "four.test", "five.test"];
        let sites = names.map(|name| Certificate::p256(&[name]));
        let binds = [
            "bind 127.0.0.1:{port} ssl crt @/one crt @web/two.crt crt @web/third crt four.crt strict-sni",
            "bind 127.0.0.1:{port_list} ssl crt-list {dir}/list strict-sni",
        ];
        let text = format!(
            "global\n crt-base {{dir}}\n key-base {{dir}}/keys\n{DEFAULTS}\
             crt-store\n load crt one.crt key one.pem ocsp one.der alias one\n load crt four.crt key four.pem\n\
             crt-store web\n crt-base {{dir}}/web/\n key-base {{dir}}/keys/\n load crt two.crt key two.pem\n load crt {{dir}}/three.crt key {{dir}}/keys/three.pem alias third\n\
             frontend f\n {}\n {}\n http-request return status 200 content-type text/plain lf-string %[ssl_f_s_dn(cn)]\n\
             frontend plain\n bind 127.0.0.1:{{port_plain}}\n default_backend b\n\
             frontend asks\n bind 127.0.0.1:{{port_asks}} ssl crt @/one ca-file {{dir}}/five.crt verify required\n http-request return status 200 content-type text/plain lf-string %[ssl_c_s_dn(cn)]\n\
             backend b\n server s 127.0.0.1:{{port_asks}} ssl verify none crt @web/five\n\
             crt-store web\n load crt {{dir}}/five.crt key {{dir}}/keys/five.pem alias five\n",
            binds[0], binds[1]
        );
        let mut file = Proxy::haproxy(&text)
            .file("one.der", response(&sites[0]))
            .file("list", "@/one\n@web/third [alpn http/1.1] three.test other.test\n");
        for (site, name) in sites.iter().zip(names) {
            let name = name.split('.').next().unwrap();
            let folder = if name == "two" { "web/" } else { "" };
            file = file.file(&format!("{folder}{name}.crt"), site.chain_pem()).file(&format!("keys/{name}.pem"), site.key_pem());
        }
        let proxy = file.io(io).start();
        for (site, name) in sites.iter().zip(names).take(4) {
            assert_eq!(get(&proxy, "port", site, name), name);
            assert_eq!(stapled(&proxy, "port", name), name == "one.test", "{name}");
        }
        assert_eq!(get(&proxy, "port_list", &sites[2], "three.test"), "three.test");
        assert!(stapled(&proxy, "port_list", "one.test"));
        Client::connect(proxy.port_of("port_plain")).get("/").expect_body("five.test");
    }

    fn responses_beside_certificates_are_shown(io: Io) {
        let sites = ["a.test", "b.test"].map(|name| Certificate::p256(&[name]));
        let text = format!(
            "{DEFAULTS}frontend f\n bind 127.0.0.1:{{port}} ssl crt {{dir}}/a.pem crt {{dir}}/b.pem\n http-request return status 200\n"
        );
        // That server names who issued a certificate by a file beside it.
        let file = Proxy::haproxy(&text)
            .certificate("a", &sites[0])
            .certificate("b", &sites[1])
            .file("a.pem.ocsp", response(&sites[0]))
            .file("a.pem.issuer", sites[0].chain_pem());
        for (proxy, who) in [(file.clone().io(io).start(), "weir"), (file.by_rival().start(), "haproxy")] {
            assert!(stapled(&proxy, "port", "a.test"), "{who}");
            assert!(!stapled(&proxy, "port", "b.test"), "{who}");
        }
    }
}
