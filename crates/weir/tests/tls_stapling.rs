//! OCSP responses that are asked for and shown with certificates. The responder is openssl's, which signs and is asked over
//! loopback; so is the client that looks at what is shown.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use weir_testkit::{Io, Proxy, Running, both_drivers, eventually, programs};

/// Runs openssl in a folder; it must succeed.
#[track_caller]
fn openssl(dir: &Path, words: &str) -> String {
    let mut command = Command::new("openssl");
    command.args(words.split_whitespace()).current_dir(dir);
    let (code, said) = programs::run(command);
    assert_eq!(code, 0, "openssl {words}: {said}");
    said
}

/// How the responder answers.
#[derive(Clone, Copy, PartialEq)]
enum Mood {
    /// As it should.
    Well,
    /// With what another authority signed.
    Forged,
    /// Not at all.
    Broken,
}

/// An authority with a responder, and a certificate of it that names the responder.
struct Responder {
    dir: PathBuf,
    _keep: tempfile::TempDir,
    mood: Arc<Mutex<Mood>>,
    asked: Arc<AtomicUsize>,
    url: String,
}

impl Responder {
    fn start() -> Self {
        let keep = tempfile::tempdir().unwrap();
        let dir = keep.path().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/ocsp", listener.local_addr().unwrap());
        for name in ["ca", "other"] {
            openssl(
                &dir,
                &format!(
                    "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key -out {name}.crt -subj /CN={name} -days 30"
                ),
            );
        }
        openssl(
            &dir,
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout site.key -out site.csr -subj /CN=a.test",
        );
        std::fs::write(
            dir.join("ext"),
            format!("subjectAltName=DNS:a.test\nauthorityInfoAccess=OCSP;URI:{url}\n"),
        )
        .unwrap();
        openssl(
            &dir,
            "x509 -req -in site.csr -CA ca.crt -CAkey ca.key -set_serial 0x1234 -days 20 -extfile ext -out leaf.crt",
        );
        let chain =
            [std::fs::read(dir.join("leaf.crt")).unwrap(), std::fs::read(dir.join("ca.crt")).unwrap()];
        std::fs::write(dir.join("site.crt"), chain.concat()).unwrap();
        let (mood, asked) = (Arc::new(Mutex::new(Mood::Well)), Arc::new(AtomicUsize::new(0)));
        let one = Self { dir: dir.clone(), _keep: keep, mood: mood.clone(), asked: asked.clone(), url };
        one.certificate_is("V");
        std::thread::spawn(move || {
            for (nth, stream) in listener.incoming().enumerate() {
                let Ok(mut stream) = stream else { return };
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut length = 0;
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).unwrap();
                    if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    if line.trim().is_empty() {
                        break;
                    }
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let mood = *mood.lock().unwrap();
                if mood == Mood::Broken {
                    asked.fetch_add(1, Ordering::SeqCst);
                    continue;
                }
                std::fs::write(dir.join(format!("request{nth}")), &body).unwrap();
                let signer = if mood == Mood::Forged { "other" } else { "ca" };
                openssl(
                    &dir,
                    &format!(
                        "ocsp -index index -CA ca.crt -rsigner {signer}.crt -rkey {signer}.key -reqin request{nth} -respout response{nth} -nmin 60"
                    ),
                );
                let response = std::fs::read(dir.join(format!("response{nth}"))).unwrap();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/ocsp-response\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    response.len()
                );
                stream.write_all(head.as_bytes()).unwrap();
                stream.write_all(&response).unwrap();
                asked.fetch_add(1, Ordering::SeqCst);
            }
        });
        one
    }

    /// Says in the authority's index what the certificate is: `V` or `R`.
    fn certificate_is(&self, status: &str) {
        let revoked = if status == "R" { "260101000000Z" } else { "" };
        let line = format!("{status}\t491231235959Z\t{revoked}\t1234\tunknown\t/CN=a.test\n");
        std::fs::write(self.dir.join("index"), line).unwrap();
        std::fs::write(self.dir.join("index.attr"), "unique_subject = no\n").unwrap();
    }

    fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.dir.join(name)).unwrap()
    }

    fn nginx(&self, words: &str) -> Proxy {
        let text = format!(
            "worker_processes 1; events {{}} error_log {{dir}}/error.log info; http {{ access_log off; server {{ listen 127.0.0.1:{{port}} ssl;
             ssl_certificate {{dir}}/site.crt; ssl_certificate_key {{dir}}/site.key; {words} return 200 x; }} }}"
        );
        let proxy = Proxy::nginx(&text)
            .file("site.crt", self.read("site.crt"))
            .file("site.key", self.read("site.key"));
        proxy
            .file("ca.crt", self.read("ca.crt"))
            .file("other.crt", self.read("other.crt"))
            .file("leaf.crt", self.read("leaf.crt"))
    }
}

/// What openssl sees of a response in a handshake.
fn shown(proxy: &Running) -> String {
    programs::openssl_s_client(proxy.port().number(), &["-servername", "a.test", "-status"]).1
}

#[track_caller]
fn is_shown(proxy: &Running) {
    eventually("a response is shown", || shown(proxy).contains("Cert Status: good").then_some(()));
}

both_drivers! {
    fn what_the_responder_says_is_shown(io: Io) {
        let responder = Responder::start();
        // The certificate says whom to ask.
        let mut proxy = responder.nginx("ssl_stapling on;").io(io).start();
        is_shown(&proxy);
        // It serves on while the responder is away, and over a reload.
        responder.set(Mood::Broken);
        proxy.reload_same();
        assert!(shown(&proxy).contains("Cert Status: good"));
        assert_eq!(responder.asked.load(Ordering::SeqCst), 1, "what is known is not asked again");
        // Elsewhere, the issuer among the trusted ones, and verified by them.
        responder.set(Mood::Well);
        let url = &responder.url;
        let words = format!("ssl_stapling on; ssl_stapling_responder {url}; ssl_stapling_verify on; ssl_trusted_certificate {{dir}}/ca.crt; ssl_certificate {{dir}}/leaf.crt; ssl_certificate_key {{dir}}/site.key;");
        let alone = responder.nginx(&words).io(io).start();
        is_shown(&alone);
    }

    fn what_does_not_verify_is_not_shown(io: Io) {
        let responder = Responder::start();
        let cases = [
            (Mood::Forged, "V", "", "signature does not verify"),
            (Mood::Well, "R", "", "the certificate was revoked"),
            (Mood::Well, "V", "ssl_stapling_verify on; ssl_trusted_certificate {dir}/other.crt;", "none of the trusted certificates"),
            (Mood::Broken, "V", "", "asked again in 5 s"),
        ];
        for (mood, status, words, why) in cases {
            responder.set(mood);
            responder.certificate_is(status);
            let proxy = responder.nginx(&format!("ssl_stapling on; {words}")).io(io).start();
            proxy.wait_for_file("error.log", why);
            assert!(shown(&proxy).contains("no response sent"), "{why}");
        }
    }

    fn certificates_without_issuer_or_responder_are_told_of(io: Io) {
        let responder = Responder::start();
        let words = "ssl_stapling on; ssl_certificate {dir}/leaf.crt; ssl_certificate_key {dir}/site.key;";
        let proxy = responder.nginx(words).io(io).start();
        proxy.wait_for_file("error.log", "leaf.crt: the certificate's issuer is not found");
        assert!(shown(&proxy).contains("Cert Status: good"), "the first certificate has both");
    }

    fn haproxys_lists_ask_too(io: Io) {
        let responder = Responder::start();
        let text = "global\n crt-base {dir}\ndefaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n\
            frontend f\n bind 127.0.0.1:{port} ssl crt-list {dir}/list\n http-request return status 200\n";
        let pair = [responder.read("site.crt"), responder.read("site.key")].concat();
        let proxy = Proxy::haproxy(text).file("site.pem", pair);
        let proxy = proxy.file("list", "site.pem [ocsp-update on] a.test\n").io(io).start();
        is_shown(&proxy);
    }
}
