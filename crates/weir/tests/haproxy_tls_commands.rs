//! The runtime socket's commands about TLS: the same commands to Weir and to Debian's haproxy, and what they do to handshakes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;

use weir_testkit::{Authority, Certificate, Client, Origin, Proxy, Request, Running, TlsOptions, console};

const DEFAULTS: &str = "global\n nbthread 1\n crt-base {dir}\n stats socket {dir}/cli.sock level admin\n\
     defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n";

/// What a proxy says, with its folder named alike.
fn said(proxy: &Running, line: &str) -> String {
    let folder = proxy.dir().display().to_string();
    let text =
        console::ask(proxy, &line.replace("{dir}", &folder)).replace(&folder, "{dir}").replace('\0', " ");
    // A dot for each context that HAProxy makes anew.
    let text = if text.starts_with("Committing") { text.replace("..", ".") } else { text };
    // HAProxy shows the authorities that the system trusts, too, which Weir has not read.
    text.lines().filter(|line| !line.starts_with("@system-ca")).map(|line| format!("{line}\n")).collect()
}

/// A list of revocations of an authority, made by openssl.
fn revocations(authority: &Certificate) -> String {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(at("key"), authority.key_pem()).unwrap();
    std::fs::write(at("cert"), authority.chain_pem()).unwrap();
    std::fs::write(at("index"), "R\t350101000000Z\t260101000000Z\t1234\tunknown\t/CN=gone\n").unwrap();
    std::fs::write(at("number"), "01\n").unwrap();
    let settings = format!(
        "[ca]\ndefault_ca=d\n[d]\ndatabase={}\ncrlnumber={}\ndefault_md=sha256\ndefault_crl_days=30\n",
        at("index"),
        at("number")
    );
    std::fs::write(at("settings"), settings).unwrap();
    let made = Command::new("openssl")
        .args(["ca", "-config", &at("settings"), "-gencrl", "-keyfile", &at("key"), "-cert", &at("cert")])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8(made.stdout).unwrap()
}

#[test]
fn transactions_go_as_in_haproxy() {
    let [site, other, root] = ["localhost", "other.test", "root"].map(|name| Certificate::p256(&[name]));
    let list = revocations(&root);
    let text = format!(
        "{DEFAULTS}frontend f\n bind 127.0.0.1:{{port}} ssl crt-list {{dir}}/list ca-file {{dir}}/ca.pem verify optional\n \
         bind 127.0.0.1:{{port_two}} ssl crt {{dir}}/a.pem\n http-request return status 200\n"
    );
    let start = |rival: bool| {
        let proxy = Proxy::haproxy(&text)
            .certificate("a", &site)
            .file("ca.pem", root.chain_pem())
            .file("list", "a.pem [alpn h2,http/1.1] localhost !x.test\n\n# more\na.pem *.test\n");
        if rival { proxy.by_rival().start() } else { proxy.start() }
    };
    let (ours, theirs) = (start(false), start(true));
    let both = |line: &str| {
        let [one, two] = [&ours, &theirs].map(|proxy| said(proxy, line));
        assert_eq!(one, two, "{}", line.lines().next().unwrap_or_default());
        one
    };
    let with = |command: &str, pem: &str| format!("{command} <<\n{}\n\n", pem.trim_end());
    let pair = [other.chain_pem(), other.key_pem()].concat();
    for line in [
        "show ssl crt-list",
        "show ssl crt-list {dir}/list",
        "show ssl crt-list -n {dir}/list",
        "show ssl crt-list nothing",
        "show ssl cert",
        "show ssl cert {dir}/a.pem",
        "show ssl cert nothing",
        "new ssl cert",
        "new ssl cert new.pem",
        "new ssl cert new.pem",
        "show ssl cert new.pem",
        "commit ssl cert new.pem",
        "del ssl cert",
        "del ssl cert nothing",
        "del ssl cert {dir}/a.pem",
    ] {
        both(line);
    }
    both(&with("set ssl cert new.pem", &pair));
    for line in [
        "show ssl cert",
        "show ssl cert *new.pem",
        "commit ssl cert new.pem",
        "show ssl cert new.pem",
        "show ssl cert",
        "del ssl cert new.pem",
        "show ssl cert",
    ] {
        both(line);
    }
    both(&with("set ssl cert {dir}/a.pem", other.chain_pem()));
    both("commit ssl cert {dir}/a.pem");
    both("abort ssl cert {dir}/a.pem");
    for kind in ["ca-file", "crl-file"] {
        let (pem, used) =
            if kind == "ca-file" { (other.chain_pem(), "{dir}/ca.pem") } else { (list.as_str(), "made.pem") };
        for line in [
            "show ssl K",
            "show ssl K nothing",
            "new ssl K",
            "new ssl K made.pem",
            "new ssl K made.pem",
            "show ssl K",
            "show ssl K made.pem",
            "abort ssl K",
            "abort ssl K made.pem",
            "commit ssl K",
            "commit ssl K made.pem",
            "del ssl K",
            "set ssl K",
        ] {
            both(&line.replace('K', kind));
        }
        both(&with(&format!("set ssl {kind} nothing"), pem));
        both(&with(&format!("set ssl {kind} {used}"), "no PEM"));
        both(&with(&format!("set ssl {kind} made.pem"), pem));
        both(&with(&format!("set ssl {kind} made.pem"), pem));
        for line in [
            "show ssl K",
            "show ssl K *made.pem",
            "abort ssl K other",
            "commit ssl K other",
            "commit ssl K made.pem",
            "show ssl K made.pem",
            "show ssl K made.pem:1",
            "show ssl K made.pem:2",
            "del ssl K made.pem",
            "show ssl K",
        ] {
            both(&line.replace('K', kind));
        }
    }
    assert!(both("show ssl ca-file {dir}/ca.pem").contains("Status: Used"));
    both("del ssl ca-file {dir}/ca.pem");
    both(&with("set ssl ca-file {dir}/ca.pem", other.chain_pem()));
    assert!(both("commit ssl ca-file {dir}/ca.pem").contains("Success!"));
    both("show ssl ca-file {dir}/ca.pem");
}

#[test]
fn those_who_get_in_change_with_authorities_and_lists() {
    let [old, new] = ["old", "new"].map(Authority::root);
    let site = Certificate::p256(&["localhost"]);
    let members = [old.certificate(&["member"]), new.certificate(&["newcomer"])];
    let text = format!(
        "{DEFAULTS}frontend f\n bind 127.0.0.1:{{port}} ssl crt-list {{dir}}/list ca-file {{dir}}/ca.pem verify required\n http-request return status 200\n"
    );
    // Another name needs nothing to be shown: its line says so.
    let proxy = Proxy::haproxy(&text)
        .certificate("a", &site)
        .file("ca.pem", members[0].root_pem())
        .file("list", "a.pem\na.pem [verify none alpn http/1.1] open.test\n");
    let enters = |running: &Running, member: &Certificate| {
        let options = TlsOptions::trusting(&site).identity(member);
        let asked = || Client::try_tls(running, &options).ok()?.try_request(&Request::get("/")).ok();
        asked().is_some_and(|response| response.status == 200)
    };
    for (running, who) in [(proxy.clone().start(), "weir"), (proxy.by_rival().start(), "haproxy")] {
        assert!(enters(&running, &members[0]) && !enters(&running, &members[1]), "{who}");
        let folder = running.dir().display().to_string();
        let _ = console::ask(
            &running,
            &format!("set ssl ca-file {folder}/ca.pem <<\n{}\n\n", members[1].root_pem()),
        );
        assert!(enters(&running, &members[0]), "{who}: nothing is committed");
        let told = console::ask(&running, &format!("commit ssl ca-file {folder}/ca.pem"));
        assert!(told.contains("Success!"), "{who}: {told}");
        assert!(!enters(&running, &members[0]) && enters(&running, &members[1]), "{who}");
    }
}

#[test]
fn certificates_and_connections_are_told() {
    const ASKED: [&str; 22] = [
        "ssl_bc",
        "ssl_bc_protocol",
        "ssl_bc_cipher",
        "ssl_bc_use_keysize",
        "ssl_bc_alg_keysize",
        "ssl_s_s_dn",
        "ssl_s_i_dn(CN)",
        "ssl_s_sha1,hex",
        "ssl_s_serial,hex",
        "ssl_s_key_alg",
        "ssl_s_sig_alg",
        "ssl_s_notafter",
        "ssl_s_version",
        "ssl_f_s_dn",
        "ssl_f_i_dn(CN)",
        "ssl_f_sha1,hex",
        "ssl_f_serial,hex",
        "ssl_f_key_alg",
        "ssl_f_notbefore",
        "ssl_f_version",
        "ssl_f_der,sha1,hex",
        "ssl_s_der,sha1,hex",
    ];
    let [site, other, inner] = ["localhost", "other.test", "inner"].map(|name| Certificate::p256(&[name]));
    let origin = Origin::tls(&inner, |script| script.keep_answering(200, &[], "inside"));
    let sets: String = ASKED
        .iter()
        .enumerate()
        .map(|(at, fetch)| format!(" http-response set-header X-{at} \"%[{fetch}]\"\n"))
        .collect();
    let file = Proxy::haproxy(&format!(
        "{DEFAULTS}frontend f\n bind 127.0.0.1:{{port}} ssl crt {{dir}}/b.pem crt {{dir}}/a.pem\n default_backend b\nbackend b\n{sets} server s {origin} ssl verify none\n"
    ));
    let file = file.certificate("a", &site).certificate("b", &other);
    let told = [file.clone().start(), file.by_rival().start()].map(|proxy| {
        let answer = Client::tls(&proxy, &TlsOptions::trusting(&site)).get("/").expect_status(200);
        let value =
            |at: usize| format!("{}: {}", ASKED[at], answer.header(&format!("x-{at}")).unwrap_or("-"));
        (0..ASKED.len()).map(value).collect::<Vec<_>>()
    });
    assert_eq!(told[0], told[1]);
    assert!(told[0].iter().any(|line| line == "ssl_bc: 1"), "{told:?}");
}
