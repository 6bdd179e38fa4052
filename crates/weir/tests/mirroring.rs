//! Copies of requests: nginx's `mirror`, beside Debian's nginx.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_testkit::{Client, Gate, Io, Origin, Proxy, Request, both_drivers};

/// A server whose locations are these; `/m/NAME` sends to the mirror with the client's target.
fn conf(mirror: &Origin, http: &str, locations: &str) -> Proxy {
    Proxy::nginx(&format!(
        "worker_processes 1; error_log {{dir}}/error.log; events {{}} http {{ access_log off; client_body_temp_path {{dir}}; {http} \
         server {{ listen 127.0.0.1:{{port}}; \
         location /m/ {{ internal; proxy_http_version 1.1; proxy_set_header X-Mirror $uri; proxy_set_header Connection ''; \
         proxy_pass http://{mirror}$request_uri; }} \
         {locations} }} }}"
    ))
}

fn origins() -> (Origin, Origin) {
    (Origin::named("main", "main"), Origin::named("mirror", "nobody reads this"))
}

/// What an origin got: `METHOD target BODY`, and which mirror it was, in order of the names.
fn seen(origin: &Origin, count: usize) -> Vec<String> {
    let mut seen: Vec<String> = origin
        .wait_for_requests(count)
        .iter()
        .map(|got| {
            let length = got.header("Content-Length").unwrap_or("-");
            let name = got.header("X-Mirror").unwrap_or("-");
            format!("{name} {} {length} {}", got.line(), String::from_utf8_lossy(&got.body))
        })
        .collect();
    seen.sort();
    seen
}

both_drivers! {
    fn a_mirror_gets_method_target_and_body_and_its_response_is_dropped(io: Io) {
        for rival in [false, true] {
            let (main, mirror) = origins();
            let file = conf(&mirror, "", &format!("location / {{ mirror /m/a; proxy_pass http://{main}; }}")).io(io);
            let proxy = if rival { file.by_rival().start() } else { file.start() };
            let mut client = Client::connect(&proxy);
            client.get("/x?q=1").expect_status(200).expect_body("main");
            seen(&mirror, 1);
            client.request(&Request::post("/y?z", "some text")).expect_body("main");
            seen(&mirror, 2);
            client.request(&Request::new("PUT", "/w").body("in pieces").chunked()).expect_body("main");
            assert_eq!(
                seen(&mirror, 3),
                ["/m/a GET /x?q=1 - ", "/m/a POST /y?z 9 some text", "/m/a PUT /w 9 in pieces"],
                "rival: {rival}"
            );
            assert_eq!(seen(&main, 3).len(), 3);
            assert_eq!(main.requests()[1].body, b"some text");
        }
    }

    fn large_bodies_come_whole_and_too_large_ones_not_at_all(io: Io) {
        for rival in [false, true] {
            let (main, mirror) = origins();
            // The limit of the mirror's own location counts for the mirror.
            let locations = format!(
                "location / {{ mirror /m/a; mirror /small; proxy_request_buffering off; proxy_pass http://{main}; }} \
                 location /small {{ internal; client_max_body_size 1k; proxy_pass http://{mirror}$request_uri; }}"
            );
            let file = conf(&mirror, "client_body_buffer_size 8k; client_max_body_size 200k;", &locations).io(io);
            let proxy = if rival { file.by_rival().start() } else { file.start() };
            let body: Vec<u8> = (0..150_000_u32).map(|n| b'a' + (n % 23) as u8).collect();
            Client::connect(&proxy).request(&Request::post("/", &body)).expect_body("main");
            assert_eq!(mirror.wait_for_requests(1)[0].body, body);
            assert_eq!(main.requests()[0].body, body);
            Client::connect(&proxy).request(&Request::post("/", vec![b'x'; 300_000])).expect_status(413);
            Client::connect(&proxy).get("/last").expect_status(200);
            assert_eq!(seen(&mirror, 3), ["- GET /last - ", "/m/a GET /last - ", &*format!("/m/a POST / 150000 {}", String::from_utf8_lossy(&body))]);
            for length in [150_000, 300_000] {
                proxy.wait_for_file("error.log", &format!("client intended to send too large body: {length} bytes"));
            }
        }
    }

    fn mirrors_are_inherited_as_a_list_and_bodies_as_the_location_says(io: Io) {
        let locations = |main: &Origin| format!(
            "location /both {{ proxy_pass http://{main}; }} \
             location /one {{ mirror /m/c; proxy_pass http://{main}; }} \
             location /none {{ mirror off; proxy_pass http://{main}; }} \
             location /bodiless {{ mirror /m/d; mirror_request_body off; proxy_pass http://{main}; }} \
             location = /m/d {{ internal; proxy_http_version 1.1; proxy_set_header X-Mirror $uri; proxy_set_header Connection ''; \
               proxy_pass_request_body off; proxy_set_header Content-Length ''; proxy_pass http://{{mirror}}$request_uri; }} "
        );
        for rival in [false, true] {
            let (main, mirror) = origins();
            let text = locations(&main).replace("{mirror}", &mirror.to_string());
            let file = conf(&mirror, "mirror /m/a; mirror /m/b;", &text).io(io);
            let proxy = if rival { file.by_rival().start() } else { file.start() };
            let mut client = Client::connect(&proxy);
            for (path, so_far) in [("/none", 0), ("/both", 2), ("/one", 3), ("/bodiless", 4)] {
                client.request(&Request::post(path, "text")).expect_body("main");
                seen(&mirror, so_far);
            }
            assert_eq!(
                seen(&mirror, 4),
                ["/m/a POST /both 4 text", "/m/b POST /both 4 text", "/m/c POST /one 4 text", "/m/d POST /bodiless - "],
                "rival: {rival}"
            );
            assert!(main.wait_for_requests(4).iter().all(|got| got.body == b"text"));
        }
    }

    fn a_mirror_that_fails_or_is_slow_is_nothing_to_the_client(io: Io) {
        for rival in [false, true] {
            let gate = Gate::new();
            let main = Origin::named("main", "main");
            let mirror = Origin::script(|c| c.expect("GET /slow").wait_for(&gate).respond(500, "late"));
            let locations = format!(
                "location / {{ mirror /m/a; proxy_pass http://{main}; }} \
                 location /dead {{ mirror /gone; proxy_pass http://{main}; }} location /gone {{ internal; proxy_pass http://127.0.0.1:1; }}"
            );
            let file = conf(&mirror, "", &locations).io(io);
            let proxy = if rival { file.by_rival().start() } else { file.start() };
            let mut client = Client::connect(&proxy);
            client.get("/dead").expect_body("main");
            client.get("/slow").expect_body("main");
            mirror.wait_for_requests(1);
            if !rival {
                // nginx serves the next request of the connection once the mirror has answered; here nobody waits.
                client.get("/dead").expect_body("main");
            }
            gate.open();
            client.get("/dead").expect_body("main");
        }
    }

    fn a_graceful_end_waits_for_mirrors(io: Io) {
        let gate = Gate::new();
        let main = Origin::named("main", "main");
        let mirror = Origin::script(|c| c.expect("GET /slow").wait_for(&gate).respond(200, "late"));
        let mut proxy = conf(&mirror, "", &format!("location / {{ mirror /m/a; proxy_pass http://{main}; }}")).io(io).start();
        Client::connect(&proxy).get("/slow").expect_body("main");
        mirror.wait_for_requests(1);
        proxy.process().signal(weir_testkit::process::UnixSignal::QUIT);
        // Its port closes at once, and the copy still waits.
        weir_testkit::eventually("the port to close", || Client::try_connect(proxy.port()).is_err().then_some(()));
        gate.open();
        mirror.wait_for_completed(1);
        assert_eq!(mirror.take_failures(), [""; 0]);
    }

    fn copies_that_nobody_answers_have_a_bound(io: Io) {
        let (main, mirror) = (Origin::named("main", "main"), Origin::silent());
        let proxy = conf(&mirror, "keepalive_requests 10000;", &format!("location / {{ mirror /m/a; proxy_pass http://{main}; }}")).io(io).start();
        let mut client = Client::connect(&proxy);
        for _ in 0..520 {
            client.get("/").expect_body("main");
        }
        proxy.wait_for_file("error.log", "too many copies of requests wait for their responses: none is sent to \"/m/a\"");
        mirror.wait_for_connections(512);
        assert_eq!(mirror.connections(), 512);
    }

    fn a_request_follows_when_another_has_ended(io: Io) {
        let (main, after) = origins();
        let locations = format!(
            "post_action @done; \
             location / {{ proxy_pass http://{main}; }} \
             location /here {{ return 403 no; }} \
             location /path {{ post_action /follow; return 200 text; }} \
             location /off {{ post_action off; return 200 x; }} \
             location /aside {{ error_page 404 = @aside; return 404; }} \
             location @aside {{ post_action /follow; return 200 aside; }} \
             location = /follow {{ internal; proxy_pass http://{after}/follow?$status-$body_bytes_sent-$uri-$args; }} \
             location @done {{ proxy_pass http://{after}/done?$status-$body_bytes_sent-$uri-$args; }}"
        );
        let proxy = conf(&after, "", &locations).io(io).start();
        let client = || Client::connect(&proxy);
        client().get("/x?q=1").expect_status(200).expect_body("main");
        seen(&after, 1);
        client().request(&Request::post("/y", "some text")).expect_body("main");
        seen(&after, 2);
        client().get("/here").expect_status(403);
        client().get("/path?a").expect_body("text");
        client().get("/off").expect_body("x");
        client().get("/aside").expect_body("aside");
        let mut got = seen(&after, 5);
        got.iter_mut().for_each(|line| *line = line.trim_start_matches("- ").to_owned());
        assert_eq!(
            got,
            [
                "GET /done?200-4-/x-q=1 - ",
                "GET /done?403-2-/here- - ",
                "GET /follow?200-4-/follow- - ",
                "GET /follow?200-5-/follow- - ",
                "POST /done?200-4-/y- 9 some text",
            ]
        );
    }
}

#[test]
fn what_is_no_path_is_refused() {
    let check = |words: &str| {
        Proxy::nginx(&format!(
            "events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{{port}}; {words} }} }}"
        ))
        .check()
    };
    let (code, said) = check("mirror nowhere;");
    assert!(code != 0 && said.contains("a path that begins with `/`, or `off`"), "{said}");
    let (code, said) = check("mirror /a; mirror /b; mirror_request_body off; location /c { mirror off; }");
    assert_eq!(code, 0, "{said}");
}
