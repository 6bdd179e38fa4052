//! Brotli, beside Debian's nginx with its modules, and Zstandard: compressing, and files that were compressed before.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod beside;

use std::io::Read as _;

use beside::{conf, start, told};
use weir_testkit::response::Response;
use weir_testkit::{Client, Io, Origin, Request, both_drivers};

/// Debian's nginx has the modules as files.
const MODULES: &str = "load_module /usr/lib/nginx/modules/ngx_http_brotli_filter_module.so; \
                       load_module /usr/lib/nginx/modules/ngx_http_brotli_static_module.so; ";

fn page() -> Vec<u8> {
    (0..2_000).flat_map(|n| format!("<p>line {n} of a page</p>\n").into_bytes()).collect()
}

/// The body as it was before the coding that its head names.
fn plain(response: &Response) -> Vec<u8> {
    let mut out = Vec::new();
    let body = &response.body[..];
    match response.header("Content-Encoding") {
        Some("br") => drop(brotli::Decompressor::new(body, 4096).read_to_end(&mut out).unwrap()),
        Some("zstd") => out = zstd::decode_all(body).unwrap(),
        Some("gzip") => drop(flate2::read::GzDecoder::new(body).read_to_end(&mut out).unwrap()),
        Some(other) => panic!("{other}"),
        None => out.extend_from_slice(body),
    }
    out
}

/// Without the body: another encoder of the same coding makes other bytes.
fn head_told(response: &Response) -> String {
    told(response).lines().next().unwrap_or_default().to_owned()
}

both_drivers! {
    fn brotli_is_chosen_as_its_module_chooses(io: Io) {
        let text = conf("gzip on; gzip_min_length 1; gzip_proxied off; gzip_http_version 1.1; brotli on; brotli_min_length 10;", "
            location /vary/ { gzip_vary on; }
            location /level/ { brotli_comp_level 11; brotli_window 1k; brotli_types text/css; }
            location /off/ { brotli off; }
            location /if/ { brotli off; if ($arg_b) { brotli on; } }
            location /alone/ { gzip off; }
            location /status/404 { return 404; }
            location /status/403 { return 403; }
            location /status/500 { return 500; }
            location /short { default_type text/html; return 200 123456789; }
            location /enough { default_type text/html; return 200 1234567890; }
        ");
        let page = page();
        let names = ["a.html", "vary/a.html", "vary/a.txt", "level/a.css", "level/a.html", "off/a.html", "if/a.html", "alone/a.html"];
        let files: Vec<beside::Named<'_>> = names.iter().map(|name| (*name, &page[..])).collect();
        let accepts = ["", "br", "gzip, br", "br;q=0", "br;q=0.0, gzip", "br;q=0.5, gzip;q=1", "BR", "*", "brr, xbr", "gzip;q=0, br", "identity"];
        let paths = ["/a.html", "/vary/a.html", "/vary/a.txt", "/level/a.css", "/level/a.html", "/off/a.html", "/if/a.html", "/if/a.html?b=1", "/alone/a.html"];
        let mut requests = Vec::new();
        for path in paths {
            requests.extend(accepts.iter().map(|accept| match *accept {
                "" => Request::get(path),
                accept => Request::get(path).header("Accept-Encoding", accept),
            }));
        }
        for path in ["/status/404", "/status/403", "/status/500", "/short", "/enough"] {
            requests.push(Request::get(path).header("Accept-Encoding", "gzip, br"));
        }
        requests.push(Request::get("/a.html").header("Accept-Encoding", "gzip, br").header("Via", "1.1 a"));
        requests.push(Request::head("/a.html").header("Accept-Encoding", "gzip, br"));
        let text = format!("{MODULES}{text}");
        let (weir, nginx) = (start(io, &text, &files, false), start(io, &text, &files, true));
        let mut codings = [0; 3];
        for request in &requests {
            let (ours, theirs) = (Client::connect(&weir).request(request), Client::connect(&nginx).request(request));
            let line = String::from_utf8_lossy(&request.bytes()).into_owned();
            if matches!(ours.status, 403 | 404 | 500) {
                // The pages are the programs' own.
                assert_eq!(ours.header("Content-Encoding"), theirs.header("Content-Encoding"), "{line}");
                continue;
            }
            assert_eq!(head_told(&ours), head_told(&theirs), "{line}");
            if !line.starts_with("HEAD") {
                assert_eq!(plain(&ours), plain(&theirs), "{line}");
            }
            match ours.header("Content-Encoding") {
                Some("br") => codings[0] += 1,
                Some("gzip") => codings[1] += 1,
                _ => codings[2] += 1,
            }
        }
        assert!(codings.iter().all(|count| *count > 5), "{codings:?}");
    }

    fn files_that_were_compressed_before_are_sent_where_they_are_wanted(io: Io) {
        let text = format!("{MODULES}{}", conf("gzip_static on; brotli_static on; gzip_vary on;", "
            location /always/ { brotli_static always; } location /off/ { brotli_static off; gzip_static off; }
        "));
        let files: &[beside::Named<'_>] = &[
            ("a.txt", b"plain"), ("a.txt.br", b"in br"), ("a.txt.gz", b"in gz"), ("b.txt", b"plain"), ("b.txt.gz", b"in gz"),
            ("c.txt", b"plain"), ("c.txt.br", b"in br"), ("d.txt.br", b"in br"), ("always/a.txt.br", b"in br"), ("off/a.txt", b"plain"), ("off/a.txt.br", b"in br"),
        ];
        let mut requests = Vec::new();
        for path in ["/a.txt", "/b.txt", "/d.txt", "/always/a.txt", "/off/a.txt"] {
            requests.push(Request::get(path));
            requests.extend(["br", "gzip", "gzip, br", "br;q=0", "identity"].map(|accept| Request::get(path).header("Accept-Encoding", accept)));
            requests.push(Request::head(path).header("Accept-Encoding", "br"));
            requests.push(Request::get(path).header("Accept-Encoding", "br").header("Range", "bytes=1-2"));
        }
        requests.push(Request::get("/c.txt").header("Accept-Encoding", "br"));
        let said = beside::agree(io, &text, files, &requests);
        assert!(said[1].contains("content-encoding: br") && said[1].ends_with("in br"), "{}", said[1]);
        assert!(said[2].contains("content-encoding: gzip") && said[0].ends_with("plain"));
        // Its module says so only to who takes Brotli: a cache between would give the plain file to everybody.
        let proxy = start(io, &text, files, false);
        Client::connect(&proxy).get("/c.txt").expect_header("Vary", "Accept-Encoding");
    }

    fn zstandard_packs_what_passes_and_the_log_says_how_far(io: Io) {
        let page_of = page;
        let page = page();
        let origin = Origin::script(move |c| c.keep_answering(200, &[("Content-Type", "text/css"), ("ETag", "\"one\"")], &page));
        let words = "log_format ratio '$request_uri z=$zstd_ratio b=$brotli_ratio g=$gzip_ratio';\
            zstd on; zstd_types text/css; brotli_types text/css; gzip_types text/css; gzip on; access_log {dir}/ratio.log ratio; zstd_static on;";
        let text = conf(words, &format!("
            location / {{ proxy_pass http://{origin}; }} location /both/ {{ brotli on; proxy_pass http://{origin}/; }}
            location /tight/ {{ zstd_comp_level 22; proxy_pass http://{origin}/; }} location /file {{ }}
        "));
        let proxy = start(io, &text, &[("file.txt", b"plain"), ("file.txt.zst", b"in zst")], false);
        let mut client = Client::connect(&proxy);
        let mut ask = |path: &str, accept: &str| client.request(&Request::get(path).header("Accept-Encoding", accept));
        let of = |got: &Response| got.header("Content-Encoding").map(str::to_owned);
        let got = ask("/a", "gzip, deflate, br, zstd");
        assert_eq!((of(&got).as_deref(), got.header("ETag")), (Some("zstd"), Some("W/\"one\"")));
        assert_eq!(plain(&got), page_of());
        assert_eq!(of(&ask("/both/a", "gzip, deflate, br, zstd")).as_deref(), Some("br"));
        assert_eq!(of(&ask("/both/a", "gzip, zstd")).as_deref(), Some("zstd"));
        assert_eq!(of(&ask("/a", "gzip, br")).as_deref(), Some("gzip"));
        let tight = ask("/tight/a", "zstd");
        assert!(plain(&tight) == page_of() && tight.body.len() < got.body.len());
        assert_eq!(of(&ask("/a", "zstd;q=0")), None);
        let file = ask("/file.txt", "zstd");
        assert_eq!((of(&file).as_deref(), &file.body[..]), (Some("zstd"), &b"in zst"[..]));
        let log = proxy.wait_for_file("ratio.log", "/file.txt");
        let lines: Vec<&str> = log.lines().collect();
        assert!(lines[0].starts_with("/a z=") && lines[0].ends_with(" b=- g=-") && !lines[0].contains("z=-"), "{log}");
        assert!(lines[1].starts_with("/both/a z=- b=") && !lines[1].contains("b=-"), "{log}");
        assert!(lines[3].starts_with("/a z=- b=- g=") && !lines[3].contains("g=-"), "{log}");
    }
}

#[test]
fn levels_and_windows_beyond_what_there_is_are_refused() {
    for (line, says) in [
        ("brotli_comp_level 12;", "a number from 0 to 11"),
        ("brotli_window 3k;", "a power of two from 1k to 16m"),
        ("zstd_comp_level 0;", "a number from 1 to 22"),
    ] {
        let (code, said) = weir_testkit::Proxy::nginx(&conf(line, "")).check();
        assert!(code != 0 && said.contains(says), "{line}: {said}");
    }
}
