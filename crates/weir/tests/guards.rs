//! Rules that decide who gets in, and what tries to lead past them.

use weir_testkit::{Client, Io, Origin, Proxy, Request, Running, Script, both_drivers};

/// Makes `^(a+)+(?!b)c$` try every way to divide its letters: PCRE gives up at its limit.
fn endless() -> String {
    format!("{}xc", "a".repeat(40))
}

const PATTERNS: &str = r#"worker_processes 1; error_log {dir}/error.log; events {} http { access_log off;
    map $arg_x $blocked { default 0; "~^(a+)+(?!b)c$" 1; }
    server { listen 127.0.0.1:{port}; server_name plain;
        location ~ "^/location/(a+)+(?!b)c$" { return 403; }
        location /if { if ($arg_x ~ "^(a+)+(?!b)c$") { return 403; } return 200 passed; }
        location /unless { if ($arg_x !~ "^(a+)+(?!b)c$") { return 403; } return 200 passed; }
        location /rewrite { rewrite "^/rewrite/(a+)+(?!b)c$" /blocked last; return 200 passed; }
        location /map { if ($blocked) { return 403; } return 200 passed; }
        location /value { return 200 "passed $blocked"; }
        location /field { add_header X-Blocked $blocked; return 200 passed; }
        location /file { add_header X-Blocked $blocked; root {dir}/html; }
        location /proxied { proxy_set_header X-Blocked $blocked; proxy_pass http://{origin}; }
        location /redirected { proxy_redirect "~^(a+)+(?!b)c$" /; proxy_pass http://{origin}; }
        location /split { fastcgi_split_path_info "^(/split/(?:a+)+(?!b)c)(.*)$"; fastcgi_pass {origin};
            fastcgi_param PATH_INFO $fastcgi_path_info; }
        location /blocked { return 403; }
        location / { return 200 passed; }
    }
    server { listen 127.0.0.1:{port}; server_name "~^(a+)+(?!b)c$"; return 200 named; } }"#;

/// nginx in front of an origin.
fn nginx(io: Io, origin: &Origin, text: &str) -> Proxy {
    let address = origin.to_string();
    Proxy::nginx(&text.replace("{origin}", &address)).io(io).file("html/file", "content")
}

fn status(proxy: &Running, target: &str) -> u16 {
    Client::connect(proxy).request(&Request::get(target).host("plain")).status
}

both_drivers! {
    fn a_pattern_that_gives_up_is_an_error_and_lets_nobody_pass(io: Io) {
        let location = endless();
        let moved = [("Location", &*location)];
        let origin = Origin::script(|c| c.keep_answering(302, &moved, "reached"));
        let description = nginx(io, &origin, PATTERNS);
        let (ours, theirs) = (description.start(), nginx(io, &origin, PATTERNS).by_rival().start());
        for (target, denied) in [("/location/aac", 403), ("/if?x=aac", 403), ("/rewrite/aac", 403), ("/map?x=aac", 403),
            ("/location/b", 200), ("/if?x=b", 200), ("/unless?x=aac", 200), ("/unless?x=b", 403), ("/rewrite/b", 200),
            ("/map?x=b", 200), ("/file?x=b", 200)] {
            assert_eq!(status(&ours, target), denied, "{target}");
        }
        let hostile = endless();
        for target in ["/location/", "/if?x=", "/unless?x=", "/rewrite/"] {
            let target = format!("{target}{hostile}");
            assert_eq!((status(&ours, &target), status(&theirs, &target)), (500, 500), "{target}");
        }
        // nginx takes a map's default then, which lets pass here.
        for target in ["/map?x=", "/value?x=", "/field?x=", "/file?x=", "/proxied?x=", "/redirected?x=", "/split/"] {
            let answer = Client::connect(&ours).request(&Request::get(&format!("{target}{hostile}")).host("plain"));
            assert_eq!(answer.status, 500, "{target}");
            assert!(!answer.text().contains("passed") && !answer.text().contains("content"), "{target}: {answer}");
        }
        let named = |host: &str| Client::connect(&ours).request(&Request::get("/").host(host)).status;
        assert_eq!((named("aac"), named(&hostile), named("other")), (200, 500, 200));
        ours.wait_for_file("error.log", "gave up: match limit exceeded");
        let reached: Vec<String> = origin.requests().into_iter().map(|request| request.line().to_owned()).collect();
        assert!(reached.iter().all(|line| line.starts_with("GET /redirected")), "{reached:?}");
        let _ = origin.take_failures();
    }

    fn haproxys_rules_refuse_where_a_pattern_gives_up(io: Io) {
        let field = endless();
        let fields = [("X-B", &*field)];
        let origin = Origin::script(|c| c.keep_answering(200, &fields, "reached"));
        let proxy = Proxy::haproxy(&format!(
            "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n\
             frontend f\n bind 127.0.0.1:{{port}}\n acl match hdr(x-a) -m reg ^(a+)+(?!b)c$\n\
             http-request deny if {{ path /deny }} match\n\
             http-request deny if {{ path /unless }} !match\n\
             http-request deny if {{ path /or }} {{ hdr(x-a) -m reg ^(a+)+(?!b)c$ ^b }}\n\
             http-request allow if {{ path /allow }} !match\n\
             http-request set-header X-C \"%[hdr(x-a),regsub('^(a+)+(?!b)c',x)]\" if {{ path /regsub }}\n\
             http-request replace-header X-A ^(a+)+(?!b)c$ x if {{ path /replace }}\n\
             http-response deny if {{ res.hdr(x-b) -m reg ^(a+)+(?!b)c$ }}\n\
             use_backend b if {{ path /use }} match\n\
             default_backend b\nbackend b\n server s {origin}\n"
        ))
        .io(io)
        .start();
        let ask = |path: &str, value: &str| {
            Client::connect(&proxy).request(&Request::get(path).header("X-A", value)).status
        };
        for path in ["/deny", "/unless", "/or", "/allow", "/regsub", "/replace", "/use"] {
            assert_eq!(ask(path, &field), 500, "{path}");
        }
        assert!(origin.requests().is_empty(), "{:?}", origin.requests());
        assert_eq!((ask("/deny", "aac"), ask("/unless", "b"), ask("/or", "b")), (403, 403, 403));
        // The answer itself is what the last rule gives up on.
        assert_eq!(ask("/deny", "b"), 500);
        assert_eq!(origin.requests().len(), 1);
        let _ = origin.take_failures();
    }

    fn haproxys_rules_see_one_spelling_and_servers_get_the_clients(io: Io) {
        let origin = Origin::script(|c| c.keep_answering(200, &[], "reached"));
        let start = |option: &str| {
            Proxy::haproxy(&format!(
                "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n\
                 frontend f\n bind 127.0.0.1:{{port}}\n {option}\n http-request deny if {{ path_beg /admin }}\n\
                 http-request deny if {{ url_beg /hidden }} or {{ base_sub /inner/ }}\n\
                 http-request replace-path ^/old/(.*) /new/\\1\n\
                 default_backend b\nbackend b\n server s {origin}\n"
            ))
            .io(io)
            .start()
        };
        let proxy = start("");
        for target in ["/admin", "/pub/../admin", "/%61dmin", "/pub/%2e%2e/admin", "/pub/.%2E/%61%64min", "/./admin",
            "/../../admin", "/pub/./../admin?x", "/%68idden", "/x/../hidden?y", "/a/inner/b", "/a/%69nner/b"] {
            assert_eq!(status(&proxy, target), 403, "{target}");
        }
        assert!(origin.requests().is_empty(), "{:?}", origin.requests());
        let mut client = Client::connect(&proxy);
        let forwarded = [
            // What is signed stays as it was signed.
            ("/a%2fb/%7euser/x%20y/%C3%a4?sig=%2F%61/../b", "/a%2fb/%7euser/x%20y/%C3%a4?sig=%2F%61/../b"),
            ("/a/../b%2fc/./%64?x", "/b%2fc/%64?x"),
            ("/100%/a%zz%", "/100%/a%zz%"),
            ("//a//b", "//a//b"),
            ("/pub/..%2fadmin", "/pub/..%2fadmin"),
            ("/%6fld/a%2fb", "/new/a%2fb"),
        ];
        for (target, expected) in forwarded {
            client.get(target).expect_status(200);
            let line = origin.requests().last().map(|request| request.line().to_owned()).unwrap_or_default();
            assert_eq!(line, format!("GET {expected}"), "{target}");
        }
        for option in ["option accept-invalid-http-request", "option accept-unsafe-violations-in-http-request"] {
            let raw = start(option);
            assert_eq!((status(&raw, "/admin"), status(&raw, "/pub/../admin")), (403, 200), "{option}");
            let line = origin.requests().last().map(|request| request.line().to_owned()).unwrap_or_default();
            assert_eq!(line, "GET /pub/../admin");
        }
    }

    fn haproxys_servers_are_not_shown_what_nobody_asked_for(io: Io) {
        let origin = Origin::script(|c| c.keep_answering(200, &[], "reached"));
        let start = |option: &str| {
            Proxy::haproxy(&format!(
                "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n\
                 frontend f\n bind 127.0.0.1:{{port}}\n {option}\n\
                 default_backend b\nbackend b\n server s {origin}\n"
            ))
            .io(io)
            .start()
        };
        let hostile = "Host: a\r\nX_Forwarded_For: 1.2.3.4\r\nContent_Length: 5\r\nx_real-ip: 1\r\nTransfer_Encoding: \
                       chunked\r\nX_SSL_Client_Verify: SUCCESS\r\napi_key: k\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n";
        let seen = |proxy: &Running, method: &str| {
            let mut client = Client::connect(proxy);
            client.send(format!("{method} / HTTP/1.1\r\n{hostile}"));
            let status = client.read().status;
            (status, origin.requests().last().map(|request| request.head.to_ascii_lowercase()).unwrap_or_default())
        };
        let (status, head) = seen(&start(""), "GET");
        assert_eq!(status, 200);
        assert!(head.contains("api_key: k"), "{head}");
        for name in ["forwarded", "content", "real", "transfer", "ssl", "upgrade"] {
            assert!(!head.contains(name), "{name}: {head}");
        }
        let before = origin.requests().len();
        assert_eq!(seen(&start(""), "TRACE").0, 405);
        assert_eq!(origin.requests().len(), before);
        // Who needs them says so.
        let (_, head) = seen(&start("option http-restrict-req-hdr-names preserve"), "GET");
        assert!(head.contains("x_forwarded_for: 1.2.3.4") && !head.contains("upgrade"), "{head}");
        let (status, head) = seen(&start("option accept-invalid-http-request"), "TRACE");
        assert_eq!(status, 200);
        assert!(head.contains("content_length: 5") && head.contains("upgrade: other"), "{head}");
        let _ = origin.take_failures();
    }

    fn bytes_that_are_no_utf_8_lead_past_no_pattern(io: Io) {
        let proxy = Proxy::nginx(
            r#"worker_processes 1; events {} http { access_log off; server { listen 127.0.0.1:{port};
                location /if { if ($uri ~ "(*UTF8)^/if.*secret") { return 403; } return 200 passed; }
                location /plain { if ($uri ~ "^/plain.+(?<!x)secret") { return 403; } return 200 passed; }
                location ~ "(*UTF8)^/location/.+$" { return 403; }
                location / { return 200 passed; } } }"#,
        )
        .io(io)
        .start();
        for (target, expected) in [
            ("/if/%ff/secret", 403),
            ("/if/%c3%a4/secret", 403),
            ("/if/%ff", 200),
            ("/plain/%ff/secret", 403),
            ("/location/%ff", 403),
            ("/location/%c3%a4%c3", 403),
            ("/other/%ff", 200),
        ] {
            assert_eq!(status(&proxy, target), expected, "{target}");
        }
    }

    fn a_line_feed_at_the_end_leads_past_no_pattern(io: Io) {
        let text = r#"worker_processes 1; events {} http { access_log off; server { listen 127.0.0.1:{port};
            location ~* \.(bak|sql)$ { deny all; }
            location ~ "(?<!x)\.php$" { return 200 script; }
            location /if { if ($uri ~ "\.key$") { return 403; } return 200 passed; }
            location / { return 200 passed; } } }"#;
        let (ours, theirs) = (Proxy::nginx(text).io(io).start(), Proxy::nginx(text).by_rival().start());
        for target in ["/a.sql", "/a.sql%0a", "/a.BAK%0A", "/if.key%0a"] {
            assert_eq!((status(&ours, target), status(&theirs, target)), (403, 403), "{target}");
        }
        // A second one leads past nginx; a script whose name ends in one is run there.
        for target in ["/a.sql%0a%0a", "/a.php%0a"] {
            assert_eq!((status(&ours, target), status(&theirs, target)), (403, 200), "{target}");
        }
        for target in ["/a.sqlite", "/a%0ab", "/a.sql%0a/b", "/?a.sql%0a"] {
            assert_eq!((status(&ours, target), status(&theirs, target)), (200, 200), "{target}");
        }
    }

    fn applications_redirect_within_their_site_and_to_safe_paths_only(io: Io) {
        let targets = [
            ("@own", 200_u16, "own"),
            ("@secret", 500, ""),
            ("/in/a.php?q=/../x", 200, "ran"),
            ("/in/./a.php", 200, "ran"),
            ("/in/../a.php", 404, ""),
            ("/in/%2e%2e/a.php", 404, ""),
            ("/in%2f..%2fa.php", 404, ""),
            ("/in/..", 404, ""),
            ("/in/a%00.php", 404, ""),
        ];
        let record = |kind: u8, data: &[u8]| [&[1, kind, 0, 1, 0, data.len() as u8, 0, 0], data].concat();
        let ran = [record(6, b"Content-Type: text/plain\r\n\r\nran"), record(6, b""), record(3, &[0; 8])].concat();
        let text = "worker_processes 1; error_log {dir}/error.log; events {} http { access_log off;
            server { listen 127.0.0.1:{port}; server_name plain;
                location /in/ { internal; fastcgi_pass {application}; fastcgi_param SCRIPT_FILENAME /srv$fastcgi_script_name; }
                location @own { return 200 own; }
                location /rewritten { rewrite ^ /in/$arg_f last; }
                location /tried { try_files /none /in/$arg_f; }
                location /failed { error_page 404 /in/$arg_f; return 404; }
                location / { proxy_pass http://{origin}; } }
            server { listen 127.0.0.1:{port}; server_name other; location @secret { return 200 secret; } } }";
        let run = |rival: bool| {
            let script = |target: &&str| {
                Script::new().expect("*").respond_with(200, &[("X-Accel-Redirect", target)], "").close()
            };
            // nginx waits for the script's connection to close, which these do not.
            let targets = targets.iter().filter(|(.., body)| !rival || *body != "ran");
            let origin = Origin::sequence(targets.clone().map(|(target, ..)| script(target)));
            let application = Origin::sequence((0..8).map(|_| Script::new().send(&ran).until_closed()));
            let text = text.replace("{application}", &application.to_string());
            let proxy = nginx(io, &origin, &text);
            let proxy = if rival { proxy.by_rival() } else { proxy };
            let proxy = proxy.start();
            for (target, expected, body) in targets {
                let expected = *expected;
                let answer = Client::connect(&proxy).request(&Request::get("/ask").host("plain"));
                assert_eq!(answer.status, expected, "{target}: {answer}");
                assert!(answer.text().contains(*body), "{target}: {answer}");
            }
            let _ = origin.take_failures();
            (proxy, application)
        };
        let (ours, application) = run(false);
        let reached = application.connections();
        assert_eq!(reached, 2);
        for target in ["/rewritten?f=../../etc/passwd", "/tried?f=../a.php", "/failed?f=../a.php"] {
            assert_eq!(status(&ours, target), 404, "{target}");
        }
        assert_eq!(application.connections(), reached, "nothing unsafe became the name of a script");
        ours.wait_for_file("error.log", "unsafe URI \"/in/../a.php\" was detected");
        ours.wait_for_file("error.log", "could not find named location \"@secret\"");
        let _ = application.take_failures();
        let (_theirs, application) = run(true);
        let _ = application.take_failures();
    }
}
