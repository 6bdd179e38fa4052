//! The cache in front of upstreams, beside Debian's nginx where that has the same.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weir_testkit::{
    Client, Gate, Io, Origin, Proxy, Request, Response, Running, Script, both_drivers, folder_in_memory,
};

/// A server with a zone `z`, whose answers say what became of looking.
fn conf(http: &str, locations: &str) -> String {
    format!(
        "worker_processes WORKERS; error_log {{dir}}/error.log; events {{}} http {{ \
         log_format s '$request_method $uri $upstream_cache_status $status;'; access_log {{dir}}/access.log s; \
         proxy_cache_path {{dir}}/cache levels=1:2 keys_zone=z:1m; \
         proxy_http_version 1.1; proxy_set_header Connection close; proxy_cache z; \
         {http} server {{ listen 127.0.0.1:{{port}}; add_header X-Cache $upstream_cache_status always; {locations} }} }}"
    )
}

/// The same, of which everything goes to one origin.
fn all_to(origin: &Origin, words: &str) -> String {
    conf("", &format!("location / {{ proxy_pass http://{origin}; {words} }}"))
}

fn weir(text: &str, io: Io) -> Running {
    Proxy::nginx(&text.replace("WORKERS", "2")).in_memory().io(io).start()
}

/// Each by itself. nginx tells its client that all is there before it is stored: with a second worker, who asks again at
/// once may come too early.
fn by(who: &str, text: &str, io: Io) -> Running {
    match who {
        "weir" => weir(text, io),
        _ => Proxy::nginx(&text.replace("WORKERS", "1")).in_memory().io(io).by_rival().start(),
    }
}

/// By Weir, then by nginx.
fn each(text: String, io: Io, case: impl Fn(Running, &str)) {
    for who in ["weir", "nginx"] {
        case(by(who, &text, io), who);
    }
}

fn get(proxy: &Running, path: &str) -> Response {
    Client::connect(proxy).get(path)
}

fn ask(proxy: &Running, request: Request) -> Response {
    Client::connect(proxy).request(&request)
}

fn status_of(response: &Response) -> String {
    response.header("X-Cache").unwrap_or("-").to_owned()
}

/// An origin that answers everything alike.
fn alike(fields: &[(&str, &str)], body: impl AsRef<[u8]>) -> Origin {
    Origin::script(|c| c.keep_answering(200, fields, body))
}

fn answer(status: u16, fields: &[(&str, &str)], body: &str) -> Script {
    Script::new().expect("*").respond_with(status, fields, body)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
        match entry.path() {
            path if path.is_dir() => out.extend(files(&path)),
            path => out.push(path),
        }
    }
    out
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(20), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

both_drivers! {
    fn what_was_fetched_once_is_answered_from_the_cache(io: Io) {
        let large: Vec<u8> = (0..700_000_u32).map(|n| (n % 251) as u8).collect();
        for body in [&b"hello"[..], b"", &large] {
            let fields = [("X-Mine", "yes"), ("ETag", "\"a\""), ("Server", "theirs")];
            let origin = alike(&fields, body);
            each(all_to(&origin, "proxy_cache_valid 1m;"), io, |proxy, who| {
                let before = origin.requests().len();
                for expected in ["MISS", "HIT", "HIT"] {
                    let got = get(&proxy, "/a?b").expect_status(200).expect_header("X-Mine", "yes").expect_header("X-Cache", expected);
                    assert_eq!(got.body, body, "{who}");
                    assert_ne!(got.header("Server"), Some("theirs"));
                }
                get(&proxy, "/a?c").expect_header("X-Cache", "MISS");
                assert_eq!(origin.requests().len() - before, 2, "{who}");
                proxy.wait_for_file("access.log", "GET /a HIT 200;");
            });
        }
    }

    fn answers_without_a_length_are_stored_whole(io: Io) {
        let origin = Origin::script(|c| {
            c.expect("GET /").send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")
        });
        each(all_to(&origin, "proxy_cache_valid 1m;"), io, |proxy, who| {
            get(&proxy, "/").expect_body("hello world").expect_header("X-Cache", "MISS");
            let got = get(&proxy, "/").expect_body("hello world").expect_header("X-Cache", "HIT");
            assert!(who == "nginx" || got.header("Content-Length") == Some("11"));
        });
    }

    fn files_have_the_names_that_scripts_expect(io: Io) {
        let origin = alike(&[], "hello");
        let file = all_to(&origin, "proxy_cache_valid 1m; proxy_cache_key name$uri;");
        each(file, io, |proxy, who| {
            get(&proxy, "/x");
            let path = proxy.dir().join("cache/6/28/a4d8d0d4ffa7f5e3ba77d5d47bf35286");
            let found = files(&proxy.dir().join("cache"));
            until(&format!("{who}: {found:?}"), || path.exists());
            std::fs::remove_file(&path).unwrap();
            // Weir looks at files once a second.
            until("it is fetched again", || status_of(&get(&proxy, "/x")) == "MISS");
            get(&proxy, "/x").expect_header("X-Cache", "HIT");
        });
    }

    fn what_says_so_is_not_stored(io: Io) {
        type Case = (&'static [(&'static str, &'static str)], &'static str);
        let cases: [Case; 13] = [
            (&[("Cache-Control", "no-store")], "MISS"),
            (&[("Cache-Control", "private, max-age=60")], "MISS"),
            (&[("Cache-Control", "no-cache")], "MISS"),
            (&[("Cache-Control", "max-age=0")], "MISS"),
            (&[("Expires", "Thu, 01 Jan 1970 00:00:00 GMT")], "MISS"),
            (&[("Set-Cookie", "a=b"), ("Cache-Control", "max-age=60")], "MISS"),
            (&[("Vary", "*"), ("Cache-Control", "max-age=60")], "MISS"),
            (&[("X-Accel-Expires", "0"), ("Cache-Control", "max-age=60")], "MISS"),
            (&[], "MISS"),
            (&[("Cache-Control", "max-age=60")], "HIT"),
            (&[("Cache-Control", "s-maxage=60, max-age=10")], "HIT"),
            (&[("Expires", "Thu, 31 Dec 2037 23:55:55 GMT")], "HIT"),
            (&[("X-Accel-Expires", "60")], "HIT"),
        ];
        for (fields, second) in cases {
            let origin = alike(fields, "hello");
            each(all_to(&origin, ""), io, |proxy, who| {
                get(&proxy, "/").expect_header("X-Cache", "MISS").expect_no_header("X-Accel-Expires");
                assert_eq!(status_of(&get(&proxy, "/").expect_body("hello")), second, "{who}: {fields:?}");
            });
        }
        // Unless it is told not to heed that.
        let all = [("Cache-Control", "no-store"), ("Set-Cookie", "a=b"), ("Expires", "0"), ("X-Accel-Expires", "0"), ("Vary", "*")];
        let origin = alike(&all, "hello");
        let words = "proxy_cache_valid any 1m; proxy_ignore_headers Cache-Control Set-Cookie Expires X-Accel-Expires Vary;";
        each(all_to(&origin, words), io, |proxy, who| {
            get(&proxy, "/").expect_header("X-Cache", "MISS");
            assert_eq!(status_of(&get(&proxy, "/")), "HIT", "{who}");
        });
    }

    fn times_hold_by_status(io: Io) {
        let origin = Origin::script(|c| c.keep_answering(404, &[], "none"));
        for (words, second) in [("proxy_cache_valid 1m;", "MISS"), ("proxy_cache_valid 404 1m;", "HIT"), ("proxy_cache_valid any 1m;", "HIT"), ("proxy_cache_valid 404 0; proxy_cache_valid any 1m;", "MISS")] {
            each(all_to(&origin, words), io, |proxy, who| {
                get(&proxy, "/").expect_status(404).expect_header("X-Cache", "MISS");
                assert_eq!(status_of(&get(&proxy, "/").expect_status(404).expect_body("none")), second, "{who}: {words}");
            });
        }
    }

    fn requests_may_pass_it_by(io: Io) {
        let origin = alike(&[], "hello");
        let words = "proxy_cache_valid 1m; proxy_cache_bypass $arg_by $http_x_by; proxy_no_cache $arg_no;";
        each(conf("", &format!("location / {{ proxy_cache_key $uri; proxy_pass http://{origin}; {words} }}")), io, |proxy, who| {
            let status = |path: &str| status_of(&get(&proxy, path));
            assert_eq!([status("/?no=1"), status("/?no=0"), status("/")], ["MISS", "MISS", "HIT"], "{who}");
            assert_eq!([status("/?by=1"), status("/?by=0"), status("/?by=")], ["BYPASS", "HIT", "HIT"], "{who}");
            // What was fetched past it is stored all the same.
            assert_eq!([status("/new?by=1"), status("/new")], ["BYPASS", "HIT"], "{who}");
        });
    }

    fn an_answer_is_stored_after_so_many_uses(io: Io) {
        let origin = alike(&[], "hello");
        each(all_to(&origin, "proxy_cache_valid 1m; proxy_cache_min_uses 3;"), io, |proxy, who| {
            let found: Vec<String> = (0..5).map(|_| status_of(&get(&proxy, "/"))).collect();
            assert_eq!(found, ["MISS", "MISS", "MISS", "HIT", "HIT"], "{who}");
        });
    }

    fn methods_and_head(io: Io) {
        let origin = alike(&[], "hello");
        each(all_to(&origin, "proxy_cache_valid 1m;"), io, |proxy, who| {
            let before = origin.requests().len();
            ask(&proxy, Request::head("/")).expect_status(200).expect_header("Content-Length", "5").expect_header("X-Cache", "MISS");
            // It was asked for with GET.
            assert!(origin.requests()[before].line().starts_with("GET /"), "{who}");
            get(&proxy, "/").expect_body("hello").expect_header("X-Cache", "HIT");
            ask(&proxy, Request::head("/")).expect_header("Content-Length", "5").expect_header("X-Cache", "HIT");
            assert_eq!(status_of(&ask(&proxy, Request::post("/post", "x"))), "-", "{who}");
            assert_eq!(status_of(&ask(&proxy, Request::post("/post", "x"))), "-", "{who}");
        });
        each(all_to(&origin, "proxy_cache_valid 1m; proxy_cache_methods POST; proxy_cache_key $uri$request_body;"), io, |proxy, who| {
            let post = |body: &str| status_of(&ask(&proxy, Request::post("/", body)).expect_body("hello"));
            assert_eq!([post("a"), post("a"), post("b")], ["MISS", "HIT", "MISS"], "{who}");
        });
    }

    fn conditions_and_ranges_are_answered_here(io: Io) {
        let body: String = (0..1000).map(|n| char::from(b'a' + (n % 26) as u8)).collect();
        let modified = "Sun, 09 Sep 2001 01:46:40 GMT";
        let origin = alike(&[("ETag", "\"x\""), ("Last-Modified", modified), ("Content-Type", "text/plain"), ("Accept-Ranges", "bytes")], &body);
        each(all_to(&origin, "proxy_cache_valid 1m;"), io, |proxy, who| {
            for expected in ["MISS", "HIT"] {
                let path = format!("/{expected}");
                if expected == "HIT" {
                    get(&proxy, &path);
                }
                let got = ask(&proxy, Request::get(&path).header("Range", "bytes=10-19")).expect_header("X-Cache", expected);
                assert_eq!((got.status, got.header("Content-Range")), (206, Some("bytes 10-19/1000")), "{who} {expected}");
                assert_eq!(got.text(), &body[10..20]);
                // The upstream was asked for the whole.
                assert!(origin.requests().iter().all(|got| got.header("Range").is_none() && got.header("If-None-Match").is_none()));
                get(&proxy, &path).expect_header("X-Cache", "HIT").expect_body(&body).expect_header("Accept-Ranges", "bytes");
                ask(&proxy, Request::get(&path).header("If-None-Match", "\"x\"")).expect_status(304).expect_body("").expect_header("ETag", "\"x\"");
                ask(&proxy, Request::get(&path).header("If-Modified-Since", modified)).expect_status(304);
                ask(&proxy, Request::get(&path).header("If-None-Match", "\"y\"")).expect_status(200).expect_body(&body);
                ask(&proxy, Request::get(&path).header("Range", "bytes=10-19").header("If-Range", "\"y\"")).expect_status(200);
                ask(&proxy, Request::get(&path).header("If-Match", "\"y\"")).expect_status(412);
                ask(&proxy, Request::get(&path).header("Range", "bytes=2000-")).expect_status(416).expect_header("Content-Range", "bytes */1000");
                let many = ask(&proxy, Request::get(&path).header("Range", "bytes=0-1,-2")).expect_status(206);
                assert!(many.header("Content-Type").unwrap().starts_with("multipart/byteranges"), "{who}");
            }
            // A condition that holds while the object is fetched: the client gets none of it, the cache all.
            ask(&proxy, Request::get("/new").header("If-None-Match", "\"x\"")).expect_status(304).expect_header("X-Cache", "MISS");
            get(&proxy, "/new").expect_header("X-Cache", "HIT").expect_body(&body);
        });
    }

    fn variants_are_kept_apart(io: Io) {
        let with = |proxy: &Running, name: &str, value: &str| status_of(&ask(proxy, Request::get("/").header(name, value)));
        let origin = alike(&[("Vary", "X-A, Accept-Encoding")], "hello");
        each(all_to(&origin, "proxy_cache_valid 1m;"), io, |proxy, who| {
            let a = |value| with(&proxy, "X-A", value);
            assert_eq!([a("1"), a("2"), a("1"), a("2")], ["MISS", "MISS", "HIT", "HIT"], "{who}");
            assert_eq!([with(&proxy, "X-Other", "1"), with(&proxy, "X-Other", "2")], ["MISS", "HIT"], "{who}");
            let coded = |value| with(&proxy, "Accept-Encoding", value);
            assert_eq!([coded("gzip, br"), coded("gzip,br"), coded("br")], ["MISS", "HIT", "MISS"], "{who}");
        });
        // nginx heeds one of two fields only.
        let origin = alike(&[("Vary", "X-A"), ("Vary", "X-B")], "hello");
        let proxy = weir(&all_to(&origin, "proxy_cache_valid 1m;"), io);
        for name in ["X-A", "X-B"] {
            let found = ["1", "2", "1"].map(|value| with(&proxy, name, value));
            assert_eq!(found, ["MISS", "MISS", "HIT"]);
        }
    }

    fn what_is_old_takes_the_place_of_errors(io: Io) {
        let words = "proxy_cache_valid 200 1s; proxy_cache_use_stale error timeout http_500; proxy_read_timeout 300ms;";
        let second = Duration::from_millis(2100);
        for who in ["weir", "nginx"] {
            let origin = Origin::sequence([
                answer(200, &[], "good"),
                answer(500, &[], "bad"),
                Script::new().expect("*").close(),
                Script::new().expect("*").until_closed(),
                answer(503, &[], "not listed"),
                answer(200, &[], "new"),
            ]);
            let proxy = by(who, &all_to(&origin, words), io);
            get(&proxy, "/").expect_header("X-Cache", "MISS").expect_body("good");
            std::thread::sleep(second);
            for trouble in ["http_500", "error", "timeout"] {
                let got = get(&proxy, "/");
                assert_eq!((got.status, status_of(&got), got.text()), (200, "STALE".into(), "good".into()), "{who}: {trouble}");
            }
            get(&proxy, "/").expect_status(503).expect_header("X-Cache", "EXPIRED").expect_body("not listed");
            get(&proxy, "/").expect_status(200).expect_header("X-Cache", "EXPIRED").expect_body("new");
            get(&proxy, "/").expect_header("X-Cache", "HIT").expect_body("new");
        }
    }

    fn what_is_old_is_asked_about(io: Io) {
        for who in ["weir", "nginx"] {
            let origin = Origin::sequence([
                answer(200, &[("ETag", "\"x\""), ("Last-Modified", "Sun, 09 Sep 2001 01:46:40 GMT"), ("X-N", "1")], "good"),
                Script::new().expect("*").send("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n"),
                answer(200, &[("ETag", "\"y\"")], "new"),
            ]);
            let proxy = by(who, &all_to(&origin, "proxy_cache_valid 200 2s; proxy_cache_revalidate on;"), io);
            get(&proxy, "/").expect_header("X-Cache", "MISS");
            until("it is old", || status_of(&get(&proxy, "/")) != "HIT");
            let asked = origin.requests()[1].clone();
            assert_eq!((asked.header("If-None-Match"), asked.header("If-Modified-Since")), (Some("\"x\""), Some("Sun, 09 Sep 2001 01:46:40 GMT")), "{who}");
            proxy.wait_for_file("access.log", "GET / REVALIDATED 200;");
            get(&proxy, "/").expect_header("X-Cache", "HIT").expect_body("good").expect_header("X-N", "1");
            until("it is old again", || status_of(&get(&proxy, "/")) == "EXPIRED");
            get(&proxy, "/").expect_header("X-Cache", "HIT").expect_body("new");
        }
    }

    fn one_request_updates_and_the_others_get_what_is_old(io: Io) {
        for (words, first) in [("", "EXPIRED"), ("proxy_cache_background_update on;", "STALE")] {
            for who in ["weir", "nginx"] {
                let gate = Gate::new();
                let origin = Origin::sequence([
                    answer(200, &[], "old"),
                    Script::new().expect("*").wait_for(&gate).respond(200, "new"),
                ]);
                let proxy = by(who, &all_to(&origin, &format!("proxy_cache_valid 200 1s; proxy_cache_use_stale updating; {words}")), io);
                get(&proxy, "/").expect_header("X-Cache", "MISS");
                std::thread::sleep(Duration::from_millis(2100));
                let mut updater = Client::connect(&proxy);
                updater.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
                origin.wait_for_requests(2);
                for _ in 0..3 {
                    get(&proxy, "/").expect_header("X-Cache", "UPDATING").expect_body("old");
                }
                gate.open();
                let expected = if first == "STALE" { "old" } else { "new" };
                updater.read().expect_header("X-Cache", first).expect_body(expected);
                until("the new one is there", || status_of(&get(&proxy, "/")) == "HIT");
                get(&proxy, "/").expect_body("new");
            }
        }
    }

    fn answers_may_allow_old_ones_themselves(io: Io) {
        for who in ["weir", "nginx"] {
            let gate = Gate::new();
            let origin = Origin::sequence([
                answer(200, &[("Cache-Control", "max-age=1, stale-if-error=60")], "good"),
                // nginx counts no answer as an error here.
                if who == "weir" { answer(500, &[], "bad") } else { Script::new().expect("*").close() },
                answer(200, &[("Cache-Control", "max-age=1, stale-while-revalidate=60")], "old"),
                Script::new().expect("*").wait_for(&gate).respond_with(200, &[("Cache-Control", "max-age=60")], "new"),
            ]);
            let proxy = by(who, &all_to(&origin, "proxy_cache_background_update on;"), io);
            get(&proxy, "/").expect_header("X-Cache", "MISS");
            std::thread::sleep(Duration::from_millis(2100));
            get(&proxy, "/").expect_status(200).expect_header("X-Cache", "STALE").expect_body("good");
            get(&proxy, "/").expect_header("X-Cache", "EXPIRED").expect_body("old");
            std::thread::sleep(Duration::from_millis(2100));
            get(&proxy, "/").expect_header("X-Cache", "STALE").expect_body("old");
            get(&proxy, "/").expect_header("X-Cache", "UPDATING").expect_body("old");
            gate.open();
            until("the new one is there", || status_of(&get(&proxy, "/")) == "HIT");
        }
    }

    fn one_request_fetches_and_the_others_wait(io: Io) {
        for who in ["weir", "nginx"] {
            let gate = Gate::new();
            let origin = Origin::script(|c| c.expect("GET /").wait_for(&gate).respond(200, "hello"));
            let proxy = by(who, &all_to(&origin, "proxy_cache_valid 1m; proxy_cache_lock on; proxy_cache_lock_timeout 20s; proxy_cache_lock_age 20s;"), io);
            let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(&proxy)).collect();
            for client in &mut clients {
                client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
            }
            origin.wait_for_requests(1);
            gate.open();
            let mut found: Vec<String> = clients.iter_mut().map(|client| status_of(&client.read().expect_body("hello"))).collect();
            found.sort();
            assert_eq!(found.iter().filter(|status| *status == "MISS").count(), 1, "{who}: {found:?}");
            assert_eq!(origin.requests().len(), 1, "{who}");
        }
        // Whoever waited long enough asks on its own.
        let gate = Gate::new();
        let origin = Origin::script(|c| c.expect("GET /").wait_for(&gate).respond(200, "hello"));
        let proxy = weir(&all_to(&origin, "proxy_cache_valid 1m; proxy_cache_lock on; proxy_cache_lock_timeout 100ms;"), io);
        let mut clients = [Client::connect(&proxy), Client::connect(&proxy)];
        for client in &mut clients {
            client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        }
        origin.wait_for_requests(2);
        gate.open();
        clients.iter_mut().for_each(|client| drop(client.read().expect_header("X-Cache", "MISS").expect_body("hello")));
    }

    fn what_is_cut_is_not_stored(io: Io) {
        let cut = [
            "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        ];
        for text in cut {
            let origin = Origin::script(|c| c.expect("GET /").send(text));
            each(all_to(&origin, "proxy_cache_valid 1m;"), io, |proxy, who| {
                for _ in 0..2 {
                    let before = origin.requests().len();
                    let mut client = Client::connect(&proxy);
                    client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
                    let (told, _) = client.read_to_end();
                    assert!(!String::from_utf8_lossy(&told).contains("HIT"), "{who}");
                    assert_eq!(origin.requests().len(), before + 1, "{who}");
                }
                until("nothing is left of it", || files(&proxy.dir().join("cache")).is_empty());
            });
        }
    }

    fn a_client_that_leaves_does_not_waste_what_is_fetched(io: Io) {
        let gate = Gate::new();
        let half = "x".repeat(300_000);
        let origin = Origin::script(|c| {
            c.expect("GET /").send(format!("HTTP/1.1 200 OK\r\nContent-Length: 600000\r\n\r\n{half}")).wait_for(&gate).send(&half)
        });
        each(all_to(&origin, "proxy_cache_valid 1m;"), io, |proxy, who| {
            let before = origin.requests().len();
            let mut client = Client::connect(&proxy);
            client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").read_exactly(100_000);
            drop(client);
            gate.open();
            until("it is stored", || {
                files(&proxy.dir().join("cache")).iter().any(|file| file.metadata().is_ok_and(|file| file.len() > 600_000))
            });
            until("it is answered from there", || {
                let got = get(&proxy, "/");
                got.body.len() == 600_000 && status_of(&got) == "HIT"
            });
            assert_eq!(origin.requests().len(), before + 1, "{who}");
        });
    }

    fn compression_comes_behind_it(io: Io) {
        let body = "text ".repeat(2000);
        let origin = alike(&[("Content-Type", "text/html")], &body);
        let file = conf("gzip on; gzip_min_length 1; gzip_proxied any;", &format!("location / {{ proxy_pass http://{origin}; proxy_cache_valid 1m; }}"));
        each(file, io, |proxy, who| {
            let zipped = || ask(&proxy, Request::get("/").header("Accept-Encoding", "gzip"));
            let first = zipped().expect_header("X-Cache", "MISS").expect_header("Content-Encoding", "gzip");
            get(&proxy, "/").expect_header("X-Cache", "HIT").expect_no_header("Content-Encoding").expect_body(&body);
            let second = zipped().expect_header("X-Cache", "HIT").expect_header("Content-Encoding", "gzip");
            assert_eq!(first.body, second.body, "{who}");
            assert!(first.body.len() < body.len() / 10);
        });
    }

    fn what_answers_in_the_place_of_an_upstream_is_not_stored(io: Io) {
        let spare = alike(&[("Cache-Control", "max-age=60")], "spare");
        let inside = Origin::script(|c| c.expect("*").respond_with(200, &[("X-Accel-Redirect", "/spare")], ""));
        let dead = Origin::script(|c| c.expect("*").close());
        for origin in [&dead, &inside] {
            let locations = format!(
                "location / {{ proxy_pass http://{origin}; error_page 502 = /spare; proxy_cache_valid any 1m; }} \
                 location = /spare {{ proxy_cache off; proxy_pass http://{spare}; }}"
            );
            each(conf("", &locations), io, |proxy, who| {
                let (ours, theirs) = (spare.requests().len(), origin.requests().len());
                for _ in 0..3 {
                    get(&proxy, "/").expect_status(200).expect_body("spare");
                }
                assert_eq!(spare.requests().len() - ours, 3, "{who}");
                // nginx stores the redirect inside, and follows it again.
                assert!(who == "nginx" || origin.requests().len() - theirs == 3);
            });
        }
    }

    fn error_pages_stand_before_it(io: Io) {
        let origin = Origin::script(|c| c.keep_answering(404, &[], "theirs"));
        let file = all_to(&origin, "proxy_cache_valid any 1m; proxy_intercept_errors on; error_page 404 /none.html; } location = /none.html { return 200 ours;");
        each(file, io, |proxy, who| {
            let before = origin.requests().len();
            for _ in 0..3 {
                get(&proxy, "/").expect_status(404).expect_body("ours");
            }
            assert_eq!(origin.requests().len() - before, 1, "{who}");
        });
    }
}

// What RFC 9111 asks for and nginx does not do.
both_drivers! {
    fn age_is_told_and_heeded(io: Io) {
        let origin = alike(&[("Cache-Control", "max-age=100"), ("Age", "40")], "hello");
        let proxy = weir(&all_to(&origin, ""), io);
        get(&proxy, "/").expect_header("X-Cache", "MISS").expect_header("Age", "40");
        let got = get(&proxy, "/").expect_header("X-Cache", "HIT");
        let age: Vec<u64> = got.all("Age").map(|age| age.parse().unwrap()).collect();
        assert!(age.len() == 1 && (40..50).contains(&age[0]), "{age:?}");
        let old = alike(&[("Cache-Control", "max-age=100"), ("Age", "100")], "hello");
        let proxy = weir(&all_to(&old, ""), io);
        assert_eq!([status_of(&get(&proxy, "/")), status_of(&get(&proxy, "/"))], ["MISS", "MISS"]);
    }

    fn credentials_keep_answers_out_unless_they_are_for_all(io: Io) {
        let cases: [(&str, &str, &str); 6] = [
            ("max-age=60", "", "MISS"),
            ("max-age=60, public", "", "HIT"),
            ("s-maxage=60", "", "HIT"),
            ("max-age=60, must-revalidate", "", "HIT"),
            ("max-age=60", "proxy_cache_key $uri$http_authorization;", "HIT"),
            ("max-age=60", "proxy_set_header Authorization '';", "HIT"),
        ];
        for (control, words, second) in cases {
            let origin = alike(&[("Cache-Control", control)], "hello");
            let proxy = weir(&all_to(&origin, words), io);
            let with = || status_of(&ask(&proxy, Request::get("/").header("Authorization", "Basic YTpi")));
            assert_eq!([with(), with()], ["MISS", second], "{control} {words}");
        }
    }

    fn must_revalidate_is_never_used_old(io: Io) {
        let origin = Origin::sequence([
            answer(200, &[("Cache-Control", "max-age=1, must-revalidate, stale-if-error=60")], "good"),
            answer(500, &[], "bad"),
            Script::new().expect("*").close(),
        ]);
        let proxy = weir(&all_to(&origin, "proxy_cache_use_stale error http_500 updating; proxy_cache_background_update on;"), io);
        get(&proxy, "/").expect_header("X-Cache", "MISS");
        std::thread::sleep(Duration::from_millis(2100));
        get(&proxy, "/").expect_status(500).expect_body("bad");
        get(&proxy, "/").expect_status(502);
    }

    fn a_change_makes_what_is_stored_invalid(io: Io) {
        let origin = alike(&[("Cache-Control", "max-age=60"), ("Vary", "X-A")], "hello");
        let proxy = weir(&all_to(&origin, ""), io);
        let with = |value: &str| status_of(&ask(&proxy, Request::get("/a").header("X-A", value)));
        assert_eq!([with("1"), with("2"), with("1"), with("2")], ["MISS", "MISS", "HIT", "HIT"]);
        for method in ["POST", "PUT", "DELETE", "PATCH"] {
            get(&proxy, "/b");
            ask(&proxy, Request::new(method, "/a").body("x")).expect_status(200);
            assert_eq!([with("1"), with("2"), with("1"), with("2")], ["MISS", "MISS", "HIT", "HIT"], "{method}: all variants are gone");
            get(&proxy, "/b").expect_header("X-Cache", "HIT");
        }
        // Methods that change nothing change nothing, and a change that was refused neither.
        ask(&proxy, Request::new("OPTIONS", "/a"));
        assert_eq!(with("1"), "HIT");
        let origin = Origin::sequence([answer(200, &[("Cache-Control", "max-age=60")], "hello"), answer(403, &[], "no")]);
        let proxy = weir(&all_to(&origin, ""), io);
        get(&proxy, "/");
        ask(&proxy, Request::post("/", "x")).expect_status(403);
        get(&proxy, "/").expect_header("X-Cache", "HIT");
    }

    fn parts_that_were_not_asked_for_are_not_stored(io: Io) {
        let origin = Origin::script(|c| c.keep_answering(206, &[("Content-Range", "bytes 0-4/10"), ("Cache-Control", "max-age=60")], "hello"));
        let proxy = weir(&all_to(&origin, "proxy_cache_valid any 1m;"), io);
        assert_eq!([status_of(&get(&proxy, "/")), status_of(&get(&proxy, "/"))], ["MISS", "MISS"]);
    }
}

// Other protocols towards upstreams.
both_drivers! {
    fn answers_of_http2_are_stored(io: Io) {
        let text = conf(
            "proxy_cache_valid any 1m;",
            "location / { proxy_http_version 2; proxy_pass http://unix:{dir}/behind.sock:; } } \
             server { listen unix:{dir}/behind.sock; http2 on; location / { add_header X-Version $server_protocol; return 200 hello; } \
             location /none { return 404; }",
        );
        let proxy = weir(&text.replace("proxy_set_header Connection close;", ""), io);
        for path in ["/", "/none"] {
            let first = get(&proxy, path).expect_header("X-Cache", "MISS");
            let second = get(&proxy, path).expect_header("X-Cache", "HIT");
            assert_eq!((first.status, &first.body), (second.status, &second.body));
        }
        get(&proxy, "/").expect_header("X-Version", "HTTP/2.0").expect_body("hello");
        ask(&proxy, Request::head("/head")).expect_header("X-Cache", "MISS");
        get(&proxy, "/head").expect_header("X-Cache", "HIT").expect_body("hello");
    }
}

// What is on disk.
both_drivers! {
    fn objects_outlive_a_kill_and_broken_files_are_not_served(io: Io) {
        let large = "y".repeat(400_000);
        let folder = folder_in_memory();
        let path = folder.path().join("store");
        let start = |origin: &Origin| {
            Proxy::nginx(&format!(
                "worker_processes 2; error_log {{dir}}/error.log; events {{}} http {{ access_log off; \
                 proxy_cache_path {} levels=2:2 keys_zone=z:1m; \
                 server {{ listen 127.0.0.1:{{port}}; add_header X-Cache $upstream_cache_status always; \
                 location / {{ proxy_cache z; proxy_cache_key $uri; proxy_cache_valid 1m; proxy_pass http://{origin}; }} }} }}",
                path.display()
            ))
            .io(io)
            .start()
        };
        let first = alike(&[("X-N", "1")], "small");
        let slow = Origin::script(|c| {
            c.expect("*").send(format!("HTTP/1.1 200 OK\r\nContent-Length: 800000\r\n\r\n{large}")).until_closed()
        });
        let whole = alike(&[], &large);
        {
            let proxy = start(&first);
            get(&proxy, "/small").expect_header("X-Cache", "MISS");
            get(&proxy, "/small").expect_header("X-Cache", "HIT");
            get(&proxy, "/broken").expect_header("X-Cache", "MISS");
            get(&proxy, "/broken").expect_header("X-Cache", "HIT");
            proxy.stop();
        }
        {
            let proxy = start(&whole);
            get(&proxy, "/small").expect_header("X-Cache", "HIT");
            get(&proxy, "/large").expect_header("X-Cache", "MISS");
            get(&proxy, "/large").expect_header("X-Cache", "HIT");
            proxy.stop();
        }
        {
            let proxy = start(&slow);
            let mut client = Client::connect(&proxy);
            client.send("GET /half HTTP/1.1\r\nHost: localhost\r\n\r\n").read_exactly(350_000);
            until("half of it is on disk", || {
                files(&path).iter().any(|file| file.components().any(|part| part.as_os_str().as_encoded_bytes().starts_with(b".weir-")))
            });
            // With SIGKILL.
            drop(proxy);
        }
        let broken = files(&path).into_iter().find(|file| {
            std::fs::read(file).is_ok_and(|bytes| bytes.windows(7).any(|window| window == b"/broken"))
        });
        let broken = broken.unwrap();
        let mut bytes = std::fs::read(&broken).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&broken, bytes).unwrap();
        let other = alike(&[], "other");
        let proxy = start(&other);
        get(&proxy, "/small").expect_header("X-Cache", "HIT").expect_body("small").expect_header("X-N", "1");
        get(&proxy, "/large").expect_header("X-Cache", "HIT").expect_body(&large);
        get(&proxy, "/half").expect_header("X-Cache", "MISS").expect_body("other");
        get(&proxy, "/broken").expect_header("X-Cache", "MISS").expect_body("other");
        until("what was half written is gone", || files(&path).len() == 4);
    }

    fn a_reload_keeps_what_is_stored(io: Io) {
        let origin = alike(&[], "hello");
        let text = |size: &str| {
            format!(
                "worker_processes 2; error_log {{dir}}/error.log; events {{}} http {{ access_log off; \
                 proxy_cache_path {{dir}}/cache keys_zone=z:1m {size}; \
                 server {{ listen 127.0.0.1:{{port}}; add_header X-Cache $upstream_cache_status always; \
                 location / {{ proxy_cache z; proxy_cache_valid 1m; proxy_pass http://{origin}; }} }} }}"
            )
        };
        let mut proxy = Proxy::nginx(&text("")).in_memory().io(io).start();
        get(&proxy, "/").expect_header("X-Cache", "MISS");
        proxy.reload(&text("inactive=1h"));
        get(&proxy, "/").expect_header("X-Cache", "HIT");
        // Bounds hold at once.
        proxy.reload(&text("max_size=0"));
        until("there is no room", || files(&proxy.dir().join("cache")).is_empty());
        get(&proxy, "/").expect_header("X-Cache", "MISS");
    }

    fn requests_remove_what_is_stored(io: Io) {
        let origin = Origin::script(|c| c.keep_answering(200, &[("Vary", "X-V"), ("Cache-Control", "max-age=60")], "text"));
        let proxy = weir(&conf(
            "map $request_method $purges { PURGE 1; default 0; }",
            &format!("location / {{ proxy_pass http://{origin}; proxy_cache_key $uri; proxy_cache_purge $purges $arg_purge; }}"),
        ), io);
        let of = |variant: &str| status_of(&ask(&proxy, Request::get("/a").header("X-V", variant)));
        assert_eq!(["1", "2", "1", "2"].map(of), ["MISS", "MISS", "HIT", "HIT"]);
        let before = origin.requests().len();
        ask(&proxy, Request::new("PURGE", "/a")).expect_status(204).expect_body("");
        ask(&proxy, Request::new("PURGE", "/a")).expect_status(404);
        assert_eq!(["1", "2"].map(of), ["MISS", "MISS"], "all variants are gone");
        get(&proxy, "/a?purge=0").expect_status(200);
        get(&proxy, "/a?purge=yes").expect_status(204);
        assert_eq!(origin.requests().len() - before, 3, "no upstream hears of a purge");
    }

    fn all_keys_that_begin_alike_are_removed_at_once(io: Io) {
        let gate = Gate::new();
        let origin = alike(&[("Cache-Control", "max-age=60")], "text");
        let slow = Origin::script(|c| c.expect("*").wait_for(&gate).respond_with(200, &[("Cache-Control", "max-age=60")], "late"));
        let text = conf(
            "map $request_method $purges { PURGE 1; default 0; } proxy_cache_key $uri; proxy_cache_purge $purges;",
            &format!("location / {{ proxy_pass http://{origin}; }} location /img/slow {{ proxy_pass http://{slow}; }}"),
        ).replace("keys_zone=z:1m", "keys_zone=z:1m purger=on purger_files=1 purger_sleep=1s");
        let proxy = weir(&text, io);
        for path in ["/img/a", "/img/b", "/img/c", "/other"] {
            get(&proxy, path).expect_header("X-Cache", "MISS");
            get(&proxy, path).expect_header("X-Cache", "HIT");
        }
        let mut late = Client::connect(&proxy);
        late.send(Request::get("/img/slow").bytes());
        slow.wait_for_requests(1);
        ask(&proxy, Request::new("PURGE", "/img/*")).expect_status(204);
        // One file a second goes, and yet none of them is served.
        assert_eq!(["/img/a", "/img/b", "/img/c", "/other"].map(|path| status_of(&get(&proxy, path))), ["MISS", "MISS", "MISS", "HIT"]);
        assert_eq!(["/img/a", "/img/b", "/img/c"].map(|path| status_of(&get(&proxy, path))), ["HIT", "HIT", "HIT"], "what is newer stays");
        gate.open();
        late.read().expect_status(200);
        get(&proxy, "/img/slow").expect_header("X-Cache", "MISS");
    }

    fn files_of_purged_objects_are_removed(io: Io) {
        let origin = alike(&[("Cache-Control", "max-age=60")], "text");
        let proxy = weir(&conf(
            "map $request_method $purges { PURGE 1; default 0; }",
            &format!("location / {{ proxy_pass http://{origin}; proxy_cache_key $uri; proxy_cache_purge $purges; }}"),
        ), io);
        for path in ["/x/a", "/x/b", "/y"] {
            get(&proxy, path);
            get(&proxy, path).expect_header("X-Cache", "HIT");
        }
        let cache = proxy.dir().join("cache");
        until("all are stored", || files(&cache).len() == 3);
        ask(&proxy, Request::new("PURGE", "/x*")).expect_status(204);
        until("their files are gone", || files(&cache).len() == 1);
        get(&proxy, "/y").expect_header("X-Cache", "HIT");
    }

    fn a_variable_names_the_zone(io: Io) {
        let origin = alike(&[("Cache-Control", "max-age=60")], "text");
        let text = conf(
            "proxy_cache_path {dir}/other keys_zone=other:1m;",
            &format!("location / {{ proxy_pass http://{origin}; proxy_cache $arg_z; proxy_cache_key $uri; }}"),
        );
        each(text, io, |proxy, who| {
            let asked = ["/a?z=z", "/a?z=z", "/a?z=other", "/a?z=other", "/a", "/a?z=off", "/a?z=z"];
            let got = asked.map(|path| status_of(&get(&proxy, path)));
            assert_eq!(got, ["MISS", "HIT", "MISS", "HIT", "-", "-", "HIT"], "{who}");
            get(&proxy, "/a?z=none").expect_status(500);
            proxy.wait_for_file("error.log", "cache \"none\" not found");
        });
    }
}
