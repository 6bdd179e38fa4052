//! Caches in memory (`cache`, `cache-use`, `cache-store`): the same file and the same requests, to Weir and to Debian's
//! haproxy.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use regex::Regex;
use weir_testkit::{Client, Io, Proxy, Request, Response, Running, both_drivers, console};

const FRONT: &str = "frontend f\n bind 127.0.0.1:{port}\n log-format \"END %HP %s %b %ts %[res.cache_hit] %[res.cache_name]\"\n\
     http-request cache-use v if { path_beg /v/ }\n http-request cache-use c if !{ path_beg /v/ } !{ path_beg /pool/ }\n\
     http-request set-var(txn.p) path\n http-request deny if { req.hdr(x-deny) -m found }\n\
     http-response set-header X-Before b\n\
     http-response cache-store v if { var(txn.p) -m beg /v/ }\n http-response cache-store c if !{ var(txn.p) -m beg /v/ }\n\
     http-response set-header X-From \"%[res.cache_hit]%[res.cache_name]\"\n http-response add-header X-After a\n\
     use_backend pool if { path_beg /pool/ }\n default_backend b\n";

/// Answers as `X-Answer` of a request says, with a number of its own.
struct Numbering {
    port: u16,
    answered: Arc<AtomicUsize>,
}

impl Numbering {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let answered = Arc::new(AtomicUsize::new(0));
        let count = answered.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, count) = (stream.unwrap(), count.clone());
                std::thread::spawn(move || while answer(&stream, &count).is_some() {});
            }
        });
        Self { port, answered }
    }
}

fn answer(mut stream: &TcpStream, count: &AtomicUsize) -> Option<()> {
    let (mut said, mut length, mut taken, mut method) = (String::new(), 5, 0, None);
    let mut reader = BufReader::with_capacity(1, stream);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let line = line.trim_end();
        let Some((name, value)) = line.split_once(": ") else {
            match method {
                None => method = line.split(' ').next().map(str::to_owned),
                Some(_) => break,
            }
            continue;
        };
        match name.to_ascii_lowercase().as_str() {
            "x-answer" => said = value.to_owned(),
            "x-length" => length = value.parse().unwrap(),
            "content-length" => taken = value.parse().unwrap(),
            _ => {}
        }
    }
    std::io::copy(&mut reader.take(taken), &mut std::io::sink()).ok()?;
    let number = count.fetch_add(1, Ordering::SeqCst);
    let (status, fields) = said.split_once('|').unwrap_or(("200", &said));
    let mut head = format!("HTTP/1.1 {status} X\r\nN: {number}\r\n");
    fields
        .split('|')
        .filter(|field| !field.is_empty())
        .for_each(|field| head.push_str(&format!("{field}\r\n")));
    let chunked = fields.contains("chunked");
    if !chunked && !fields.contains("Content-Length") {
        head.push_str(&format!("Content-Length: {length}\r\n"));
    }
    head.push_str("\r\n");
    let mut out = head.into_bytes();
    if method? != "HEAD" {
        let body = vec![b'x'; length];
        if chunked {
            out.extend_from_slice(format!("{length:x}\r\n").as_bytes());
            out.extend_from_slice(&body);
            out.extend_from_slice(b"\r\n0\r\n\r\n");
        } else {
            out.extend_from_slice(&body);
        }
    }
    stream.write_all(&out).ok()?;
    // What is cut short ends here.
    (!fields.contains("Content-Length")).then_some(())
}

fn file(origin: &Numbering) -> String {
    let port = origin.port;
    format!(
        "global\n nbthread 1\n stats socket {{dir}}/cli.sock level admin\n log stdout format raw local0\n\
         defaults\n mode http\n log global\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
         cache c\n total-max-size 3\n max-object-size 20000\n max-age 100\n\
         cache v\n total-max-size 3\n max-age 100\n process-vary on\n max-secondary-entries 2\n\
         {FRONT}backend b\n server s 127.0.0.1:{port}\n\
         backend pool\n http-request cache-use c\n http-response cache-store c\n server s 127.0.0.1:{port}\n"
    )
}

fn each(io: Io, case: impl Fn(&Running, &str, &Numbering)) {
    let origin = Numbering::start();
    let proxy = Proxy::haproxy(&file(&origin));
    case(&proxy.clone().io(io).start(), "weir", &origin);
    case(&proxy.by_rival().start(), "haproxy", &origin);
}

/// A request for a path with these fields, `name: value` each; `METHOD` may stand first.
fn request(path: &str, said: &str, words: &str) -> Request {
    let (method, fields) = words.split_once('|').unwrap_or((words, ""));
    let method = if method.is_empty() { "GET" } else { method };
    let mut request = Request::new(method, path).header("X-Answer", said);
    for field in fields.split('|').filter(|field| !field.is_empty()) {
        let (name, value) = field.split_once(": ").unwrap();
        request = request.header(name, value);
    }
    request
}

/// The status, and `+` where it came from a cache.
fn told(response: &Response) -> String {
    let from = response.header("x-from").unwrap_or("?");
    format!("{}{}", response.status, if from.starts_with('1') { "+" } else { "" })
}

fn ask(proxy: &Running, request: &Request) -> Response {
    Client::connect(proxy).request(request)
}

/// Asks for one path after the other request, and gives what each came to.
fn course(proxy: &Running, path: &str, said: &str, requests: &[&str]) -> String {
    let each = requests.iter().map(|words| told(&ask(proxy, &request(path, said, words))));
    each.collect::<Vec<_>>().join(" ")
}

const LM: &str = "200|Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT";

/// What the origin says, what is asked, what comes of it.
const CASES: &[(&str, &[&str], &str)] = &[
    ("200|", &["", ""], "200 200"),
    ("200|Cache-Control: max-age=60", &["", "", "HEAD", "GET|Range: bytes=0-1"], "200 200+ 200+ 200+"),
    ("200|Cache-Control: max-age=60", &["HEAD", "", "HEAD"], "200 200 200+"),
    ("200|Cache-Control: max-age=60|Transfer-Encoding: chunked", &["", "", "HEAD"], "200 200+ 200+"),
    (
        "200|Cache-Control: max-age=60",
        &["", "GET|Cache-Control: no-cache", "", "GET|Cache-Control: max-age=0", ""],
        "200 200 200+ 200 200+",
    ),
    ("200|Cache-Control: max-age=60", &["", "GET|Pragma: no-cache", ""], "200 200 200+"),
    (
        "200|Cache-Control: max-age=60",
        &["", "GET|Cache-Control: only-if-cached|Pragma: no-cache"],
        "200 200+",
    ),
    ("404|Cache-Control: max-age=60", &["", ""], "404 404"),
    ("203|Cache-Control: max-age=60", &["", ""], "203 203"),
    (
        "200|Cache-Control: max-age=60",
        &["GET|Authorization: x", "", "", "GET|Authorization: x"],
        "200 200 200+ 200",
    ),
    (
        "200|Cache-Control: public, max-age=60",
        &["GET|Authorization: x", "", "GET|Authorization: x"],
        "200 200+ 200",
    ),
    ("200|Cache-Control: max-age=60", &["", "", "POST|Content-Length: 0", "", ""], "200 200+ 200 200 200+"),
    ("200|Cache-Control: max-age=60", &["", "OPTIONS", ""], "200 200 200+"),
    (
        "200|ETag: \"x\"",
        &["", "GET|If-None-Match: \"x\"", "GET|If-None-Match: W/\"x\"", "GET|If-None-Match: *"],
        "200 304+ 304+ 304+",
    ),
    (
        "200|ETag: \"x\"",
        &["", "GET|If-None-Match: \"y\", \"x\"", "GET|If-None-Match: \"y\"", "HEAD|If-None-Match: \"x\""],
        "200 304+ 200+ 304+",
    ),
    (
        LM,
        &[
            "",
            "GET|If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
            "GET|If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT",
        ],
        "200 304+ 200+",
    ),
    (LM, &["", "GET|If-Modified-Since: Sun, 06 Nov 1994 08:49:38 GMT|If-None-Match: \"q\""], "200 200+"),
    (
        "200|Cache-Control: max-age=60",
        &["", "GET|If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT", "GET|If-Match: \"q\""],
        "200 200+ 200+",
    ),
    ("200|Cache-Control: max-age=60|Age: 50", &["", ""], "200 200+"),
    ("200|Cache-Control: max-age=60|Age: 70", &["", ""], "200 200"),
    ("200|Cache-Control: max-age=60|Vary: Accept-Encoding", &["", ""], "200 200"),
    ("200|Cache-Control: s-maxage=0, max-age=60", &["", ""], "200 200"),
    ("200|Cache-Control: private, max-age=60", &["", ""], "200 200"),
    ("200|Cache-Control: no-store, max-age=60", &["", ""], "200 200"),
    ("200|Cache-Control: no-cache=\"set-cookie\", max-age=60|Set-Cookie: a=b", &["", ""], "200 200"),
    ("200|Cache-Control: public", &["", ""], "200 200"),
    ("200|Pragma: no-cache|Cache-Control: max-age=60", &["", ""], "200 200"),
    ("200|Expires: Sun, 06 Nov 1994 08:49:37 GMT", &["", ""], "200 200"),
    ("200|Expires: Sun, 06 Nov 2094 08:49:37 GMT", &["", ""], "200 200+"),
    ("200|Expires: 0|ETag: \"x\"", &["", ""], "200 200"),
    ("200|Cache-Control: max-age=60|Set-Cookie: a=b|Cache-Control: public", &["", ""], "200 200+"),
];

/// The same where responses may vary.
const VARYING: &[(&str, &[&str], &str)] = &[
    (
        "200|Cache-Control: max-age=60|Vary: Accept-Encoding|Content-Encoding: gzip",
        &[
            "GET|Accept-Encoding: gzip",
            "GET|Accept-Encoding: gzip, br",
            "",
            "GET|Accept-Encoding: *",
            "GET|Accept-Encoding: gzip;q=0",
            "GET|Accept-Encoding: br",
        ],
        "200 200+ 200+ 200+ 200 200",
    ),
    (
        "200|Cache-Control: max-age=60|Vary: Accept-Encoding",
        &[
            "GET|Accept-Encoding: gzip",
            "GET|Accept-Encoding: br",
            "",
            "GET|Accept-Encoding: identity;q=0, gzip",
            "GET|Accept-Encoding: identity",
        ],
        "200 200+ 200+ 200 200+",
    ),
    (
        "200|Cache-Control: max-age=60|Vary: accept-encoding|Content-Encoding: gzip, br",
        &[
            "GET|Accept-Encoding: gzip,br",
            "GET|Accept-Encoding: gzip",
            "GET|Accept-Encoding: gzip,br,deflate",
        ],
        "200 200 200+",
    ),
    (
        "200|Cache-Control: max-age=60|Vary: Accept-Encoding|Content-Encoding: foo",
        &["GET|Accept-Encoding: foo", "GET|Accept-Encoding: foo"],
        "200 200",
    ),
    ("200|Cache-Control: max-age=60|Vary: Accept", &["", ""], "200 200"),
    ("200|Cache-Control: max-age=60|Vary: *", &["", ""], "200 200"),
    ("200|Cache-Control: max-age=60", &["", "GET|Accept-Encoding: br"], "200 200+"),
];

both_drivers! {
    fn what_may_be_stored_and_used(io: Io) {
        each(io, |proxy, who, _| {
            for (at, (said, requests, wanted)) in CASES.iter().enumerate() {
                assert_eq!(course(proxy, &format!("/{at}"), said, requests), *wanted, "{who}: {said}: {requests:?}");
            }
            for (at, (said, requests, wanted)) in VARYING.iter().enumerate() {
                assert_eq!(course(proxy, &format!("/v/{at}"), said, requests), *wanted, "{who}: {said}: {requests:?}");
            }
        });
    }

    fn a_response_is_stored_as_rules_made_it(io: Io) {
        each(io, |proxy, who, origin| {
            let said = "200|Cache-Control: max-age=60|Age: 7|X-Own: o";
            let first = ask(proxy, &request("/rules?a=b", said, ""));
            let before = origin.answered.load(Ordering::SeqCst);
            let second = ask(proxy, &request("/rules?a=b", "", ""));
            assert_eq!(origin.answered.load(Ordering::SeqCst), before, "{who}: nobody was asked");
            assert_eq!((first.header("n"), &first.body), (second.header("n"), &second.body), "{who}");
            for (name, value) in [("x-own", "o"), ("x-before", "b"), ("x-from", "1c"), ("cache-control", "max-age=60")] {
                assert_eq!(second.header(name), Some(value), "{who}: {name}");
            }
            let age: u64 = second.header("age").unwrap().parse().unwrap();
            assert!((7..30).contains(&age), "{who}: {age}");
            assert_eq!(second.all("x-after").count(), 1, "{who}");
            assert_eq!(told(&ask(proxy, &request("/rules?a=c", said, ""))), "200", "{who}: another query");
            assert_eq!(told(&ask(proxy, &request("/rules?a=b", "", "").host("other"))), "200", "{who}: another host");
            assert_eq!(ask(proxy, &request("/rules?a=b", "", "GET|X-Deny: 1")).status, 403, "{who}: a rule behind it denies");
            proxy.wait_for_log("END /rules s b -- 0 -");
            proxy.wait_for_log("END /rules <CACHE> f LR 1 c");
        });
    }

    fn what_is_too_large_or_not_whole_is_not_stored(io: Io) {
        each(io, |proxy, who, _| {
            let said = "200|Cache-Control: max-age=60";
            for (path, length, said, wanted) in [
                ("/large", 30_000, said.to_owned(), "200 200"),
                ("/large/chunks", 30_000, format!("{said}|Transfer-Encoding: chunked"), "200 200"),
                ("/fits", 19_000, said.to_owned(), "200 200+"),
                ("/fits/chunks", 19_000, format!("{said}|Transfer-Encoding: chunked"), "200 200+"),
                ("/v/empty", 0, said.to_owned(), "200 200+"),
            ] {
                let length = format!("GET|X-Length: {length}");
                assert_eq!(course(proxy, path, &said, &[&length, &length]), wanted, "{who}: {path}");
            }
            let cut = request("/cut", &format!("{said}|Content-Length: 9"), "");
            assert!(Client::connect(proxy).try_request(&cut).is_err(), "{who}: a body that is cut short");
            let after = course(proxy, "/cut", said, &["", ""]);
            assert!(after.starts_with("200 "), "{who}: and is not stored");
            // Debian's haproxy stores nothing of that name for a while.
            assert!(who == "haproxy" || after == "200 200+", "{who}: {after}");
        });
    }

    fn rules_of_a_backend_have_caches_too(io: Io) {
        each(io, |proxy, who, _| {
            let said = "200|Cache-Control: max-age=60";
            assert_eq!(course(proxy, "/pool/a", said, &["", "", ""]), "200 200+ 200+", "{who}");
            assert_eq!(course(proxy, "/front", said, &["", ""]), "200 200+", "{who}");
            let stats = console::ask(proxy, "show stat");
            let mut lines = stats.lines().map(|line| line.split(',').collect::<Vec<_>>());
            let names = lines.next().unwrap();
            let at = |name: &str| names.iter().position(|found| *found == name).unwrap();
            let counted = |proxy: &str, kind: &str, name: &str| {
                let mut rows = stats.lines().map(|line| line.split(',').collect::<Vec<_>>());
                let row = rows.find(|row| row[0] == proxy && row[1] == kind).unwrap();
                row[at(name)].to_owned()
            };
            for (row, kind, wanted) in [("f", "FRONTEND", ["2", "1"]), ("pool", "BACKEND", ["3", "2"])] {
                let found = ["cache_lookups", "cache_hits"].map(|name| counted(row, kind, name));
                assert_eq!(found, wanted, "{who}: {row}");
            }
        });
    }

    fn an_operator_sees_what_is_stored(io: Io) {
        each(io, |proxy, who, _| {
            let said = "200|Cache-Control: max-age=60";
            let empty = console::ask(proxy, "show cache");
            course(proxy, "/shown", said, &[""]);
            course(proxy, "/v/shown", &format!("{said}|Vary: Accept-Encoding"), &[""]);
            let lines = console::ask(proxy, "show cache");
            let plain = |text: &str| {
                let text = Regex::new("0x[0-9a-f]+|hash:[0-9]+|size:[0-9]+").unwrap().replace_all(text, "").into_owned();
                Regex::new("expire:(60|59|58)").unwrap().replace_all(&text, "soon").trim_end().to_owned()
            };
            let (c, v) = (": c (shctx:, available blocks:3072)", ": v (shctx:, available blocks:3072)");
            assert_eq!(plain(&empty), format!("{c}\n{v}"), "{who}");
            // What an entry takes of the blocks differs.
            let now = Regex::new("blocks:30..").unwrap().replace_all(&plain(&lines), "blocks:3072").into_owned();
            let entry = |vary: &str| format!("  {vary}  (1 blocks), refcount:0, soon");
            assert_eq!(now, format!("{c}\n{}\n{v}\n{}", entry("vary:"), entry("vary:")), "{who}: {lines}");
            let varies = Regex::new("vary:0x([0-9a-f]{16})").unwrap();
            let all: Vec<bool> = varies.captures_iter(&lines).map(|found| found[1].trim_matches('0').is_empty()).collect();
            assert_eq!(all, [true, false], "{who}: {lines}");
        });
    }

    fn weir_is_stricter_where_a_response_is_somebodys(io: Io) {
        let origin = Numbering::start();
        let proxy = Proxy::haproxy(&file(&origin)).io(io).start();
        let age = "200|Cache-Control: max-age=60";
        assert_eq!(course(&proxy, "/cookie", &format!("{age}|Set-Cookie: a=b"), &["", ""]), "200 200");
        assert_eq!(course(&proxy, "/field", &format!("{age}, no-cache=\"x\""), &["", ""]), "200 200");
        assert_eq!(course(&proxy, "/none", age, &["GET|Cache-Control: no-store", ""]), "200 200");
        // Debian's haproxy never finds these again.
        let referer = format!("{age}|Vary: Referer");
        assert_eq!(course(&proxy, "/v/r", &referer, &["GET|Referer: a", "GET|Referer: a", "GET|Referer: b", "", "", "GET|Referer: a"]), "200 200+ 200 200 200 200+");
        let origin = format!("{age}|Vary: Origin, Accept-Encoding");
        assert_eq!(course(&proxy, "/v/o", &origin, &["GET|Origin: a", "GET|Origin: a", "GET|Origin: b|Accept-Encoding: br", "GET|Origin: b"]), "200 200+ 200 200+");
        assert_eq!(course(&proxy, "/v/o", &origin, &["GET|Origin: c", "GET|Origin: c", "GET|Origin: b"]), "200 200 200+", "two are as many as may be");
    }

    fn a_reload_keeps_what_is_stored(io: Io) {
        let origin = Numbering::start();
        let text = file(&origin);
        let mut proxy = Proxy::haproxy(&text).io(io).start();
        assert_eq!(course(&proxy, "/kept", "200|Cache-Control: max-age=60", &["", ""]), "200 200+");
        proxy.reload(&text.replace("max-age 100", "max-age 90"));
        assert_eq!(course(&proxy, "/kept", "", &[""]), "200+");
        proxy.reload(&text.replace("cache c\n", "cache d\n").replace("cache-use c", "cache-use d").replace("cache-store c", "cache-store d"));
        assert_eq!(course(&proxy, "/kept", "", &[""]), "200");
    }
}

#[test]
fn a_cache_has_a_name_and_a_size() {
    let rest =
        "frontend f\n mode http\n timeout client 1s\n bind 127.0.0.1:{port}\n http-request cache-use c\n";
    for (section, wanted) in [
        ("", "no cache is named `c`"),
        ("cache c\n max-age 5\n", "cache `c` has no size"),
        ("cache c\n total-max-size 4096\n", "4096 is out of bounds: 1 to 4095"),
        ("cache c\n total-max-size 1\n max-object-size 600000\n", "more than half of the cache"),
        ("cache c\n total-max-size 1\ncache c\n total-max-size 1\n", "there are two caches named `c`"),
        ("cache c\n total-max-size 1\n process-vary yes\n", "process-vary"),
    ] {
        let (code, told) = Proxy::haproxy(&format!("{section}{rest}")).check();
        assert!(code != 0 && told.contains(wanted), "{section}: {told}");
    }
}
