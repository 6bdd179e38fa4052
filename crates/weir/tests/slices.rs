//! nginx's slice module: responses that are asked for, and cached, in parts, beside nginx.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_testkit::{Client, Io, Origin, Proxy, Request, Response, Running, both_drivers};

/// A file of 1,000 bytes in slices of 100, cached and not, from a server of the same configuration that logs what it is
/// asked for.
fn sliced() -> Proxy {
    let body: String = (0..200).map(|n| format!("{n:04} ")).collect();
    let text = "worker_processes 1; error_log stderr; events {} http { \
        log_format ranges '$request_method $http_range'; proxy_cache_path {dir}/cache keys_zone=z:1m; proxy_http_version 1.1; \
        proxy_set_header Range $slice_range; proxy_cache_valid 200 206 1h; slice 100; access_log off; \
        server { listen 127.0.0.1:{port_origin}; root {dir}/files; access_log {dir}/asked.log ranges; location /whole/ { max_ranges 0; alias {dir}/files/; } } \
        server { listen 127.0.0.1:{port}; add_header X-Cache $upstream_cache_status; \
          location / { proxy_pass http://127.0.0.1:{port_origin}; } \
          location /cached/ { proxy_cache z; proxy_cache_key $uri$is_args$args$slice_range; proxy_pass http://127.0.0.1:{port_origin}/; } } }";
    Proxy::nginx(text).file("files/a.bin", &body).file("files/empty", "")
}

fn whole() -> String {
    (0..200).map(|n| format!("{n:04} ")).collect()
}

fn ask(proxy: &Running, path: &str, fields: &[(&str, &str)]) -> Response {
    let request =
        fields.iter().fold(Request::get(path), |request, (name, value)| request.header(name, value));
    Client::connect(proxy).request(&request)
}

/// What a response comes to.
fn shown(response: &Response) -> (u16, Option<String>, Option<String>, String) {
    let field = |name| response.header(name).map(str::to_owned);
    let body = if response.status == 416 { String::new() } else { response.text() };
    (response.status, field("Content-Range"), field("Accept-Ranges"), body)
}

both_drivers! {
    fn ranges_and_wholes_are_as_if_there_were_no_slices(io: Io) {
        let file = sliced();
        for (who, proxy) in [("weir", file.clone().io(io).start()), ("nginx", file.by_rival().start())] {
            let etag = ask(&proxy, "/a.bin", &[]).header("ETag").unwrap().to_owned();
            for path in ["/a.bin", "/cached/a.bin", "/cached/a.bin"] {
                let part = |range: &str, from: usize, to: usize| {
                    let shown = shown(&ask(&proxy, path, &[("Range", range)]));
                    let wanted = (206, Some(format!("bytes {from}-{}/1000", to - 1)), whole()[from..to].to_owned());
                    assert_eq!((shown.0, shown.1, shown.3), wanted, "{who} {path} {range}");
                };
                for (range, from, to) in [
                    ("bytes=0-9", 0, 10), ("bytes=95-104", 95, 105), ("bytes=150-349", 150, 350), ("bytes=100-199", 100, 200),
                    ("bytes=990-", 990, 1000), ("bytes=899-5000", 899, 1000), ("bytes=-10", 990, 1000), ("bytes=-250", 750, 1000), ("bytes=0-", 0, 1000),
                    ("bytes=200-200", 200, 201),
                ] {
                    part(range, from, to);
                }
                let got = shown(&ask(&proxy, path, &[]));
                assert_eq!(got, (200, None, Some("bytes".into()), whole()), "{who} {path}");
                for fields in [&[("Range", "items=1-2")][..],  &[("Range", "bytes=1-2"), ("If-Range", "\"other\"")]] {
                    assert_eq!(shown(&ask(&proxy, path, fields)), (200, None, Some("bytes".into()), whole()), "{who} {path} {fields:?}");
                }
                let got = ask(&proxy, path, &[("Range", "bytes=250-260"), ("If-Range", &etag)]);
                assert_eq!((got.status, got.text()), (206, whole()[250..261].to_owned()), "{who} {path}");
                let beyond = shown(&ask(&proxy, path, &[("Range", "bytes=1000-")]));
                assert_eq!((beyond.0, beyond.1.as_deref()), (416, Some("bytes */1000")), "{who} {path}");
                let head = Client::connect(&proxy).request(&Request::head(path));
                assert_eq!((head.status, head.header("Content-Length")), (200, Some("1000")), "{who} {path}");
                assert_eq!(ask(&proxy, path, &[("If-None-Match", &etag)]).status, 304, "{who} {path}");
                assert_eq!(ask(&proxy, "/none", &[]).status, 404, "{who}");
                assert_eq!(shown(&ask(&proxy, "/empty", &[])).3, "", "{who}");
            }
        }
    }

    fn only_slices_that_are_wanted_are_asked_for(io: Io) {
        let file = sliced();
        for (who, proxy) in [("weir", file.clone().io(io).start()), ("nginx", file.by_rival().start())] {
            ask(&proxy, "/cached/a.bin", &[("Range", "bytes=150-349")]).expect_status(206).expect_header("X-Cache", "MISS");
            ask(&proxy, "/cached/a.bin", &[("Range", "bytes=199-210")]).expect_status(206).expect_header("X-Cache", "HIT");
            ask(&proxy, "/cached/a.bin", &[("Range", "bytes=380-420")]).expect_status(206).expect_header("X-Cache", "HIT");
            let head = Client::connect(&proxy).request(&Request::head("/a.bin"));
            assert_eq!(head.status, 200, "{who}");
            let log = proxy.wait_for_file("asked.log", "HEAD bytes=0-99\n");
            let wanted = ["100-199", "200-299", "300-399", "400-499"].map(|range| format!("GET bytes={range}\n")).concat();
            assert_eq!(log, wanted + "HEAD bytes=0-99\n", "{who}");
        }
    }

    fn what_does_not_fit_together_is_cut(io: Io) {
        let slice = |etag: &'static str, range: &'static str, body: &'static str| Origin::script(|c| c.keep_answering(206, &[("ETag", etag), ("Content-Range", range)], body));
        let again = slice("\"a\"", "bytes 0-3/8", "0123");
        let short = slice("\"a\"", "bytes 0-2/8", "012");
        let unknown = slice("\"a\"", "bytes 0-3/*", "0123");
        let answer = |etag: &'static str, range: &'static str, body: &'static str| {
            move |c: weir_testkit::Script| c.read_body().respond_with(206, &[("ETag", etag), ("Content-Range", range), ("Connection", "close")], body)
        };
        let changed = Origin::sequence([answer("\"a\"", "bytes 0-3/8", "0123")(weir_testkit::Script::new()), answer("\"b\"", "bytes 4-7/8", "4567")(weir_testkit::Script::new())]);
        let text = format!(
            "worker_processes 1; error_log stderr; events {{}} http {{ access_log off; proxy_set_header Range $slice_range; slice 4; \
             server {{ listen 127.0.0.1:{{port}}; location /again {{ proxy_pass http://{again}; }} location /short {{ proxy_pass http://{short}; }} \
             location /unknown {{ proxy_pass http://{unknown}; }} location /changed {{ proxy_pass http://{changed}; }} }} }}"
        );
        let proxy = Proxy::nginx(&text).io(io).start();
        for (path, words) in [("/again", "unexpected range in slice response: 0-4"), ("/changed", "etag mismatch in slice response")] {
            let cut = Client::connect(&proxy).try_request(&Request::get(path));
            assert!(cut.is_err(), "{path}: {cut:?}");
            proxy.wait_for_log(words);
        }
        for (path, words) in [("/short", "unexpected range in slice response: 0-3"), ("/unknown", "no complete length in slice response")] {
            Client::connect(&proxy).get(path).expect_status(502);
            proxy.wait_for_log(words);
        }
    }

    fn responses_without_parts_pass_as_they_are(io: Io) {
        let origin = Origin::script(|c| c.keep_answering(200, &[], "0123456789"));
        let text = format!(
            "worker_processes 1; events {{}} http {{ access_log off; proxy_cache_path {{dir}}/cache keys_zone=z:1m; proxy_cache_valid any 1h; proxy_set_header Range $slice_range; slice 4; \
             server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://{origin}; }} \
             location /key {{ proxy_cache z; proxy_cache_key $uri$slice_range; proxy_pass http://{origin}; add_header X-Cache $upstream_cache_status; }} \
             location /none {{ proxy_cache z; proxy_cache_key $uri; proxy_pass http://127.0.0.1:{{port_parts}}; add_header X-Cache $upstream_cache_status; }} }} \
             server {{ listen 127.0.0.1:{{port_parts}}; root {{dir}}; }} }}"
        );
        let file = Proxy::nginx(&text).file("none", "0123456789");
        for (who, proxy) in [("weir", file.clone().io(io).start()), ("nginx", file.clone().by_rival().start())] {
            for path in ["/", "/key", "/key"] {
                let got = ask(&proxy, path, &[]);
                assert_eq!((got.status, got.text()), (200, "0123456789".to_owned()), "{who} {path}");
            }
        }
        // A slice whose key does not say which it is is not kept: nginx would give it for all of them.
        let proxy = file.io(io).start();
        for _ in 0..2 {
            ask(&proxy, "/none", &[]).expect_header("X-Cache", "MISS").expect_body("0123456789");
        }
    }
}
