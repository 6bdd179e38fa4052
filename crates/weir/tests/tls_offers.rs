//! What clients offer as they begin TLS: shown as nginx shows it, and made use of. The same file to Weir and to Debian's nginx.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::Read as _;

use weir_testkit::{Certificate, Client, Io, Proxy, TlsOptions, both_drivers};

const SERVER: &str =
    "listen 127.0.0.1:{port} ssl; ssl_certificate {dir}/site.crt; ssl_certificate_key {dir}/site.key;";

fn brotli(packed: &[u8], out: &mut [u8]) -> bool {
    brotli::Decompressor::new(packed, 4096).read_exact(out).is_ok()
}

fn zlib(packed: &[u8], out: &mut [u8]) -> bool {
    flate2::read::ZlibDecoder::new(packed).read_exact(out).is_ok()
}

both_drivers! {
    fn suites_and_groups_have_openssls_names(io: Io) {
        let site = Certificate::p256(&["localhost"]);
        let text = format!("events {{}} http {{ access_log off; server {{ {SERVER} return 200 '$ssl_ciphers $ssl_curves'; }} }}");
        let proxy = Proxy::nginx(&text).certificate("site", &site);
        let told = |proxy: &weir_testkit::Running, options: TlsOptions| Client::tls(proxy, &options).get("/").text();
        let (weir, nginx) = (proxy.clone().io(io).start(), proxy.by_rival().start());
        for options in [TlsOptions::trusting(&site), TlsOptions::trusting(&site).only_tls12()] {
            let ours = told(&weir, options.clone());
            assert!(ours.contains("ECDHE-RSA-AES256-GCM-SHA384") && ours.contains("prime256v1"), "{ours}");
            // Debian's OpenSSL has no name for the newest group.
            assert_eq!(ours.replace("X25519MLKEM768", "0x11ec"), told(&nginx, options));
        }
    }

    fn certificates_are_compressed_for_who_can_unpack_them(io: Io) {
        let site = Certificate::p256(&["localhost"]);
        for (words, packed) in [("ssl_certificate_compression on;", true), ("", false)] {
            let text = format!("events {{}} http {{ access_log off; server {{ {SERVER} {words} return 200 x; }} }}");
            let proxy = Proxy::nginx(&text).certificate("site", &site).io(io).start();
            for (algorithm, unpack) in [("brotli", brotli as _), ("zlib", zlib as _)] {
                let (options, unpacked) = TlsOptions::trusting(&site).only_tls13().unpacking(algorithm, unpack);
                assert_eq!(Client::tls(&proxy, &options).get("/").text(), "x");
                assert_eq!(unpacked.load(std::sync::atomic::Ordering::SeqCst) > 0, packed, "{algorithm}");
            }
            assert_eq!(Client::tls(&proxy, &TlsOptions::trusting(&site)).get("/").text(), "x");
        }
    }
}
