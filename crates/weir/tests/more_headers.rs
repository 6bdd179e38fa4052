//! The headers-more module: fields of responses and requests set and cleared, beside Debian's nginx with that module.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod beside;

use beside::{agree, conf, start, told};
use weir_testkit::{Client, Io, Origin, Proxy, Request, both_drivers};

fn gets(paths: &[&str]) -> Vec<Request> {
    paths.iter().map(|path| Request::get(path)).collect()
}

/// Debian's nginx has the module as a file.
const MODULE: &str = "load_module /usr/lib/nginx/modules/ngx_http_headers_more_filter_module.so; ";

both_drivers! {
    fn fields_of_responses_are_set_and_cleared(io: Io) {
        // nginx keeps the old charset where a new Content-Type names none; Weir sends what is written.
        let fields = [("X-Old", "1"), ("X-Old", "2"), ("X-Hide-A", "a"), ("X-Hide-B", "b"), ("Content-Type", "text/html"), ("Server", "origin")];
        let origin = Origin::script(|c| c.keep_answering(200, &fields, "body"));
        let text = conf("more_set_headers 'X-Outer: $uri' 'Server: mine';", &format!(
            "location /inherits {{ return 200 a; }} \
             location /own {{ more_set_headers 'X-Own: 1' 'X-Outer: inner'; add_header X-Own 2; return 200 a; }} \
             location /status {{ more_set_headers -s '404 410' 'X-Gone: yes'; more_set_headers -s 200 'X-Ok: yes'; }} \
             location /status/gone {{ more_set_headers -s '404 410' 'X-Gone: yes'; return 410; }} \
             location /type/ {{ more_set_headers -t 'text/css text/plain' 'X-Type: yes'; }} \
             location /both/ {{ more_set_headers -s 200 -t text/plain -s 201 'X-Both: yes'; }} \
             location /proxied {{ proxy_pass http://{origin}; proxy_pass_header Server; more_set_headers 'X-Old: 3' 'Content-Type: text/css'; \
               more_clear_headers 'X-Hide-*' X-None; }} \
             location /cleared {{ proxy_pass http://{origin}; more_set_headers 'X-Old:' X-Hide-A 'X-Hide-B: $arg_b'; more_clear_headers Server; }} \
             location /some {{ proxy_pass http://{origin}; more_clear_headers -s 404 X-Old; more_clear_headers -t text/css X-Hide-A; }} \
             location /if {{ if ($arg_a) {{ more_set_headers 'X-If: $arg_a'; }} proxy_pass http://{origin}; }} \
             location /moved {{ more_set_headers 'Location: http://there.test/'; return 302 http://x.test/; }}"
        ));
        let text = format!("{MODULE}{text}");
        let files: &[beside::Named<'_>] = &[
            ("status.txt", b"x"), ("type/a.css", b"x"), ("type/a.html", b"x"), ("type/a.txt", b"x"), ("both/a.txt", b"x"), ("both/a.css", b"x"),
        ];
        let mut requests = gets(&[
            "/inherits", "/own", "/status.txt", "/status", "/status/gone", "/type/a.css", "/type/a.html", "/type/a.txt", "/type/none", "/both/a.txt",
            "/both/a.css", "/proxied", "/cleared", "/cleared?b=new", "/some", "/if", "/if?a=1", "/none", "/moved",
        ]);
        requests.push(Request::head("/proxied"));
        let said = agree(io, &text, files, &requests);
        assert!(said[0].contains("x-outer: /inherits") && said[1].contains("x-outer: inner") && said[1].contains("x-own: 1; x-own: 2"));
        assert!(said[11].contains("x-old: 3") && !said[11].contains("x-hide"), "{}", said[11]);
        for rival in [false, true] {
            let proxy = start(io, &text, files, rival);
            Client::connect(&proxy).get("/inherits").expect_header("Server", "mine");
            Client::connect(&proxy).get("/cleared").expect_no_header("Server");
        }
    }

    fn fields_of_requests_are_set_and_cleared(io: Io) {
        let text = conf("", "
            location /set { more_set_input_headers 'X-A: new $arg_a' 'Host: other.test'; return 200 '[$http_x_a][$host]'; }
            location /late { set $x late; more_set_input_headers 'X-A: $x'; proxy_pass http://127.0.0.1:{port}/echo; proxy_set_header X-B $http_x_a; }
            location /replace { more_set_input_headers -r 'X-A: new'; proxy_pass http://127.0.0.1:{port}/echo; }
            location /clear { more_clear_input_headers X-A 'X-B*' Range; proxy_pass http://127.0.0.1:{port}/echo; }
            location /type { more_set_input_headers -t 'text/plain' 'X-A: new'; proxy_pass http://127.0.0.1:{port}/echo; }
            location /broken { set $y 1; break; more_set_input_headers 'X-A: new'; proxy_pass http://127.0.0.1:{port}/echo; }
            location /file { more_clear_input_headers Range; }
            location /echo { return 200 '[$http_x_a][$http_x_b][$http_x_bc]'; }
        ");
        let text = format!("{MODULE}{text}");
        let with = |path: &str| Request::get(path).header("X-A", "old").header("X-B", "b").header("X-Bc", "bc");
        let requests = [
            with("/late"), with("/replace"), Request::get("/replace"), with("/clear"), with("/type"),
            with("/type").header("Content-Type", "text/plain"), with("/type").header("Content-Type", "text/css"), with("/broken"),
            Request::get("/file.txt").header("Range", "bytes=0-1"), Request::get("/late"),
        ];
        let said = agree(io, &text, &[("file.txt", b"whole")], &requests);
        let body = |n: usize| said[n].lines().last().unwrap_or_default().to_owned();
        assert_eq!((body(1), body(2), body(3)), ("[new][b][bc]".into(), "[][][]".into(), "[][][]".into()));
        assert_eq!((body(5), body(6), body(7)), ("[new][b][bc]".into(), "[old][b][bc]".into(), "[new][b][bc]".into()));
        assert!(said[8].starts_with("200"));
    }

    fn inheritance_is_as_it_is_said_to_be(io: Io) {
        let text = conf("add_header X-A http; add_trailer X-T http; add_header_inherit merge;", "\
            add_header X-A server; \
            location /merged { add_header X-A own; return 200 a; } \
            location /same { return 200 a; } \
            location /usual { add_header_inherit on; add_header X-A own; return 200 a; location /usual/in { return 200 a; } } \
            location /off { add_header_inherit off; return 200 a; location /off/in { add_header X-A in; return 200 a; } } \
            location /none { add_header_inherit off; add_header X-A own; return 200 a; \
              location /none/merged { add_header X-A in; add_header_inherit merge; return 200 a; } } \
            location /if { if ($arg_a) { add_header X-A if; return 200 a; } return 200 a; } \
            location /trailers { add_trailer_inherit merge; add_trailer X-T own; } \
            location /trailers/off { add_trailer_inherit off; }");
        let proxy = start(io, &text, &[("trailers/a.txt", b"a"), ("trailers/off/a.txt", b"a")], false);
        let mut client = Client::connect(&proxy);
        for (path, wanted) in [
            ("/merged", &["own", "server", "http"][..]), ("/same", &["server", "http"]), ("/usual", &["own"]), ("/usual/in", &["own"]),
            ("/off", &[]), ("/off/in", &["in"]), ("/none", &["own"]), ("/none/merged", &["in", "own"]),
            ("/if", &["server", "http"]), ("/if?a=1", &["if", "server", "http"]),
        ] {
            assert_eq!(client.get(path).all("X-A").collect::<Vec<_>>(), wanted, "{path}");
        }
        for (path, wanted) in [("/trailers/a.txt", &["own", "http"][..]), ("/trailers/off/a.txt", &[])] {
            let response = client.request(&Request::get(path).header("TE", "trailers"));
            let said: Vec<_> = response.trailers.iter().map(|(_, value)| value.clone()).collect();
            assert_eq!(said, wanted, "{path}");
        }
    }

    fn no_value_makes_two_fields(io: Io) {
        let proxy = start(io, &conf("", "location / { set $a $arg_a; more_set_headers 'X-A: $a'; return 200 ok; }"), &[], false);
        let said = told(&Client::connect(&proxy).get("/?a=1%0d%0aX-B:%202"));
        assert!(!said.contains("x-b"), "{said}");
    }
}

#[test]
fn mistakes_are_found() {
    let check = |words: &str| Proxy::nginx(&conf("", words)).check();
    for words in [
        "more_set_headers 'a b: c';",
        "more_set_headers -x 'a: c';",
        "more_set_headers -s many 'a: c';",
        "more_set_headers -s 404;",
        "more_set_headers 'Content-Length: 5';",
        "more_clear_headers Transfer-Encoding;",
        "more_set_input_headers -s 200 'a: b';",
        "more_clear_headers *;",
        "more_set_headers -t;",
    ] {
        let (code, said) = check(words);
        assert!(code != 0, "{words}: {said}");
    }
}
