//! Cookies that tell clients apart (`userid`), beside Debian's nginx.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod beside;

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use beside::{agree, conf, start};
use weir_testkit::response::Response;
use weir_testkit::{Client, Io, Request, Running, both_drivers};

/// Sixteen bytes, and with them a number whose last word is not 0.
const KNOWN: &str = "AQIDBAUGBwgJCgsMDQ4PEA==";

fn places() -> String {
    let told = "add_header X-Got \"$uid_got\" always; add_header X-Set \"$uid_set\" always;";
    let place = |name: &str, words: &str| format!("location /{name} {{ {told} {words} }} ");
    let all = "userid on; userid_name id; userid_domain example.com; userid_path /p; userid_expires max; \
               userid_p3p 'policyref=\"/w3c/p3p.xml\"'; userid_flags secure httponly samesite=lax; userid_mark Z; return 200 ok;";
    [
        place("own", "userid on; return 200 ok;"),
        place("second", "userid on; userid_service 16909060; return 200 ok;"),
        place("first", "userid v1; userid_service 5; return 200 ok;"),
        place("nobody", "userid v1; return 200 ok;"),
        place("log", "userid log; return 200 ok;"),
        place("off", "userid off; return 200 ok;"),
        place("all", all),
        place("none", "userid on; userid_domain none; userid_p3p none; userid_expires off; userid_flags off; userid_mark off; return 200 ok;"),
        place("strict", "userid on; userid_flags samesite=strict; return 200 ok;"),
        place("cross", "userid on; userid_flags SameSite=None secure; return 200 ok;"),
        place("padded", "userid on; userid_mark =; return 200 ok;"),
        place("year", "userid on; userid_expires 365d; return 200 ok;"),
        place("century", "userid on; userid_expires 36500d; return 200 ok;"),
        place("reset", "userid on; set $uid_reset $arg_r; return 200 ok;"),
        place("missing", "userid on; return 404;"),
        "location = /ask { userid on; return 204; } location /asked { userid on; auth_request /ask; auth_request_set $inner $uid_set; \
           add_header X-Set $inner always; } "
            .to_owned(),
        place("moved", "userid on; error_page 404 /all; return 404;"),
    ]
    .concat()
}

fn with(path: &str, cookie: &str) -> Request {
    Request::get(path).header("Cookie", cookie)
}

fn field<'a>(said: &'a Response, name: &str) -> Vec<&'a str> {
    said.headers
        .iter()
        .filter(|(own, _)| own.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
        .collect()
}

/// A cookie that was made just now, without what is chance: what it says of its time and of its process.
#[track_caller]
fn made(line: &str, first_form: bool) -> String {
    let (name, rest) = line.split_once('=').unwrap();
    let (value, attributes) = rest.split_at(24);
    let bytes = STANDARD.decode(format!("{}==", &value[..22])).unwrap();
    let order = if first_form { u32::from_le_bytes } else { u32::from_be_bytes };
    let word = |n: usize| order(bytes[4 * n..4 * n + 4].try_into().unwrap());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as u32;
    assert!(now - word(1) < 30, "{line}");
    assert_ne!(word(2), 0);
    format!("{name} {:08x} {:08x} {}{attributes}", word(0), word(3), &value[22..])
}

/// As `$uid_set` shows the number of a cookie.
fn shown(line: &str) -> String {
    let (name, rest) = line.split_once('=').unwrap();
    let bytes = STANDARD.decode(format!("{}==", &rest[..22])).unwrap();
    let words = bytes.chunks(4).map(|word| format!("{:08X}", u32::from_ne_bytes(word.try_into().unwrap())));
    format!("{name}={}", words.collect::<String>())
}

/// What a client without a cookie that holds gets, and whether the variable says the same.
fn fresh(running: &Running, request: &Request, first_form: bool) -> String {
    let said = Client::connect(running).request(request);
    let cookies = field(&said, "Set-Cookie");
    let [line] = cookies[..] else { panic!("{cookies:?}") };
    assert_eq!(field(&said, "X-Set"), [shown(line)], "{line}");
    format!("{} {} {:?}", said.status, made(line, first_form), field(&said, "P3P"))
}

both_drivers! {
    fn new_clients_get_cookies_as_from_nginx(io: Io) {
        let text = conf("", &places());
        let (weir, nginx) = (start(io, &text, &[], false), start(io, &text, &[], true));
        let old = format!("uid={KNOWN}");
        let mut requests: Vec<(Request, bool)> = ["/own", "/second", "/second", "/all", "/none", "/strict", "/cross", "/padded", "/missing", "/asked"]
            .iter().map(|path| (Request::get(path), false)).collect();
        requests.extend([(Request::get("/first"), true), (Request::get("/first"), true), (Request::get("/nobody"), true)]);
        requests.extend(["/reset?r=1", "/reset?r=log", "/reset?r=00"].map(|path| (with(path, &old), false)));
        requests.extend(["uid=short", "uid=****************************", "other=x", "uid=AAAAAAAAAAAAAAAAAAAAAA=="].map(|cookie| (with("/own", cookie), false)));
        let mut all = Vec::new();
        for (request, first_form) in &requests {
            let (ours, theirs) = (fresh(&weir, request, *first_form), fresh(&nginx, request, *first_form));
            assert_eq!(ours, theirs, "{}", String::from_utf8_lossy(&request.bytes()));
            all.push(ours);
        }
        assert_eq!(all[0], "200 uid 7f000001 03030302 ==; path=/ []");
        assert_eq!(all[1], "200 uid 01020304 03030402 ==; path=/ []");
        assert!(all[3].starts_with("200 id 7f000001 03030602 Z=; expires=Thu, 31-Dec-37 23:55:55 GMT; domain=example.com; path=/p; secure; httponly; samesite=lax"));
        assert_eq!(all[10], "200 uid 00000005 00000001 ==; path=/ []");
        weir.wait_for_file("error.log", "client sent too short userid cookie \"short\"");
        weir.wait_for_file("error.log", "client sent invalid userid cookie");
    }

    fn known_clients_keep_what_they_have(io: Io) {
        let text = conf("", &places());
        let mut requests = Vec::new();
        for path in ["/own", "/second", "/first", "/log", "/off", "/none", "/missing", "/padded", "/reset?r=", "/reset?r=0"] {
            requests.push(with(path, &format!("a=b; UID={KNOWN}; c=d")));
        }
        for cookie in ["uid=short", "x=y", "uid=****************************", "uid=AQIDBAUGBwgJCgsMDQ4PEAandmore", "uid=AQIDBAUGBwgJCgsMDQ4PEA"] {
            requests.push(with("/log", cookie));
        }
        for value in [KNOWN, "AQIDBAUGBwgJCgsMDQ4PEAZ=", "AQIDBAUGBwgJCgsMDQ4PEAY=", "AQIDBAUGBwgJCgsMDQ4PEAZ", "AQIDBAUGBwgJCgsMDQ4PEAZ=="] {
            requests.push(with("/all", &format!("id={value}")));
            requests.push(with("/moved", &format!("id={value}; uid={KNOWN}")));
        }
        let said = agree(io, &text, &[], &requests);
        assert!(said[0].contains("x-got: uid=0403020108070605") && !said[0].contains("set-cookie"), "{}", said[0]);
        assert!(said[15].contains("set-cookie: id=AQIDBAUGBwgJCgsMDQ4PEAZ=; expires=Thu, 31-Dec-37"), "{}", said[15]);
        assert!(!said[17].contains("set-cookie"), "{}", said[17]);
    }

    fn a_cookie_ends_when_the_file_says(io: Io) {
        let text = conf("", &places());
        let (weir, nginx) = (start(io, &text, &[], false), start(io, &text, &[], true));
        let ends = |running: &Running, path: &str| {
            let said = Client::connect(running).get(path);
            field(&said, "Set-Cookie")[0][28..].to_owned()
        };
        for path in ["/year", "/century"] {
            // Not in the same second, perhaps; but once in a few attempts.
            let agrees = (0..20).any(|_| ends(&weir, path) == ends(&nginx, path));
            assert!(agrees, "{} {}", ends(&weir, path), ends(&nginx, path));
        }
    }
}

#[test]
fn mistakes_are_found() {
    for words in [
        "userid yes;",
        "userid_mark ab;",
        "userid_mark '*';",
        "userid_expires soon;",
        "userid_flags open;",
        "userid_service x;",
    ] {
        let (code, said) = weir_testkit::Proxy::nginx(&conf("", words)).check();
        assert!(code != 0, "{words}: {said}");
    }
}
