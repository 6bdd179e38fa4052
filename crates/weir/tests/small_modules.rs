//! nginx's small modules: secure_link, referer, empty_gif, random_index, auth_delay, beside Debian's nginx.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod beside;

use std::time::{Duration, Instant};

use beside::{Named, agree, conf, start};
use weir_testkit::{Client, Io, Origin, Request, Running, both_drivers};

fn gets(paths: &[&str]) -> Vec<Request> {
    paths.iter().map(|path| Request::get(path)).collect()
}

/// What follows the head.
fn body_of(told: &str) -> &str {
    told.split_once('\n').map_or("", |(_, body)| body)
}

both_drivers! {
    fn browsers_that_misread_answers_get_what_suits_them(io: Io) {
        let text = conf("absolute_redirect off;", r#"
            location /to { msie_refresh on; return 302 "http://x.test/a\"b'c<d>?e=f g#h%~"; }
            location /rw { msie_refresh on; rewrite ^ /new permanent; }
            location /usual { return 302 /x; }
            location /short { return 404; }
            location /plain { msie_padding off; return 404; }
            location /own { return 404 short; }
            location /page { error_page 404 /short; return 404; }
            location /kept { keepalive_disable none; return 200 x; }
            location /closed { keepalive_disable msie6 safari; return 200 x; }
        "#);
        let agents = [
            "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)", "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)",
            "Mozilla/4.0 (compatible; MSIE 5.5; Windows 98)", "Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 6.1)",
            "Mozilla/4.0 (compatible; MSIE 6.0; X11) Opera 9.0", "MSIE ", "MSIE 6.0",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36",
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) AppleWebKit/605.1 (KHTML, like Gecko) Version/17.0 Safari/605.1",
            "Mozilla/5.0 (X11; rv:120.0) Gecko/20100101 Firefox/120.0", "curl/8",
        ];
        let paths = ["/to", "/rw", "/usual", "/short", "/plain", "/own", "/page", "/kept", "/closed"];
        let requests: Vec<Request> = agents
            .iter()
            .flat_map(|agent| paths.map(|path| Request::get(path).header("User-Agent", agent)))
            .collect();
        let said = agree(io, &text, &[], &requests);
        assert!(said[0].contains("URL=http://x.test/a%22b%27c%3Cd%3E?e=f%20g#h%%7E"), "{}", said[0]);
        assert!(said[3].contains("friendly error page") && !said[4].contains("friendly"));
        // Which connections are closed.
        let closes = |rival: bool| -> Vec<Vec<bool>> {
            let running = start(io, &text, &[], rival);
            let closed = |request: &Request| {
                Client::connect(&running).request(request).header("Connection") == Some("close")
            };
            let asks = |agent: &&str| {
                let of = |path| {
                    [Request::get(path), Request::post(path, "x")].map(|request| closed(&request.header("User-Agent", agent)))
                };
                ["/usual", "/kept", "/closed"].iter().flat_map(|path| of(path)).collect()
            };
            agents.iter().map(asks).collect()
        };
        let ours = closes(false);
        assert_eq!(ours, closes(true));
        assert_eq!(ours[0], [false, true, false, false, false, true]);
    }

    fn videos_are_begun_in_their_middle(io: Io) {
        let video = weir_media::fuzzing::samples();
        // Behind what the fuzzer says of them: tables first, and tables last.
        let (plain, behind) = (&video[0][4..], &video[1][4..]);
        let text = conf("", r#"
            location /m/ { mp4; } location /f/ { flv; } location /small/ { mp4; mp4_buffer_size 100; mp4_max_buffer_size 100; }
            location /in/ { error_page 404 =200 /m/a.mp4; return 404; }
        "#);
        let files: [Named<'_>; 5] =
            [("m/a.mp4", plain), ("m/b.mp4", behind), ("m/c.mp4", b"no video"), ("small/a.mp4", plain), ("f/a.flv", b"FLV1234567890")];
        let paths = [
            "/m/a.mp4", "/m/a.mp4?x=1", "/m/a.mp4?start=0", "/m/a.mp4?start=x", "/m/b.mp4", "/m/none.mp4?start=1", "/m/a.mp4?start=9",
            "/m/c.mp4?start=1", "/m/c.mp4", "/small/a.mp4?start=1", "/f/a.flv", "/f/a.flv?start=5", "/f/a.flv?start=13", "/f/a.flv?start=0",
            "/f/a.flv?start=-1", "/f/none.flv", "/in/?start=1",
        ];
        let mut requests = gets(&paths);
        requests.push(Request::get("/f/a.flv?start=5").header("Range", "bytes=10-15"));
        requests.push(Request::head("/f/a.flv?start=5"));
        let said = agree(io, &text, &files, &requests);
        assert!(said[2].starts_with("200") && said[9].starts_with("500"), "{} {}", said[2], said[9]);
        // The tables that are sent differ from nginx's in what they leave out; where the media data begins does not.
        let (weir, nginx) = (start(io, &text, &files, false), start(io, &text, &files, true));
        for target in ["/m/a.mp4?start=1", "/m/a.mp4?start=1.5", "/m/b.mp4?start=0", "/m/b.mp4?start=2.999", "/m/b.mp4?start=1&end=1.5"] {
            let ask = |running: &Running| Client::connect(running).get(target).expect_status(200).expect_header("Accept-Ranges", "bytes");
            let (ours, theirs) = (ask(&weir), ask(&nginx));
            let media = |body: &[u8]| {
                let at = body.windows(4).position(|letters| letters == b"mdat").unwrap();
                body[at + 4..at + 12].to_vec()
            };
            assert_eq!(media(&ours.body), media(&theirs.body), "{target}");
            assert_ne!(ours.header("ETag"), Client::connect(&weir).get("/m/a.mp4").header("ETag"), "another body has another tag");
            let part = Client::connect(&weir).request(&Request::get(target).header("Range", "bytes=4-3000")).expect_status(206);
            assert_eq!(part.body, ours.body[4..ours.body.len().min(3001)], "{target}");
        }
    }

    fn bodies_are_in_files_where_that_is_asked(io: Io) {
        let origin = Origin::script(|c| c.keep_answering(200, &[], "ok"));
        let text = conf("", &format!(
            "client_body_temp_path {{dir}}/bodies; proxy_http_version 1.1; \
             location /on {{ client_body_in_file_only on; proxy_pass http://{origin}; add_header X-File $request_body_file; }} \
             location /clean {{ client_body_in_file_only clean; proxy_pass http://{origin}; add_header X-File $request_body_file; \
             add_header X-Body '[$request_body]'; }} \
             location /off {{ proxy_pass http://{origin}; add_header X-File '[$request_body_file]'; add_header X-Body '[$request_body]'; }} \
             location /head {{ client_body_in_file_only on; proxy_pass_request_body off; proxy_set_header X-Name $request_body_file; \
             proxy_set_header Content-Length ''; proxy_pass http://{origin}; }}"
        ));
        for rival in [false, true] {
            let running = start(io, &text, &[], rival);
            let names = || std::fs::read_dir(running.dir().join("bodies")).unwrap().count();
            let ask = |path: &str| Client::connect(&running).request(&Request::post(path, "small"));
            let kept = ask("/on").expect_status(200).header("X-File").unwrap_or_else(|| panic!("no file: {rival}")).to_owned();
            assert_eq!((std::fs::read_to_string(&kept).unwrap().as_str(), names()), ("small", 1), "{rival}");
            let got = ask("/clean").expect_status(200);
            let gone = got.header("X-File").unwrap();
            assert!(gone.starts_with(running.dir().join("bodies").to_str().unwrap()), "{gone}");
            assert_eq!(got.header("X-Body"), Some("[]"), "it is in no buffer");
            ask("/off").expect_header("X-File", "[]").expect_header("X-Body", "[small]");
            // Another program may read the file that it is told of.
            ask("/head").expect_status(200);
            let told = origin.requests().last().unwrap().header("X-Name").unwrap().to_owned();
            assert_eq!(std::fs::read_to_string(told).unwrap(), "small");
            let began = Instant::now();
            while names() != 2 && began.elapsed() < Duration::from_secs(10) {
                std::thread::yield_now();
            }
            assert_eq!(names(), 2, "{rival}: of `clean` nothing is left");
        }
    }

    fn signed_links_are_told_from_wrong_and_old_ones(io: Io) {
        let text = conf("", r#"
            location /s/ { secure_link $arg_md5,$arg_expires; secure_link_md5 "$secure_link_expires$uri secret";
                return 200 "[$secure_link][$secure_link_expires]"; }
            location /n/ { secure_link $arg_md5; secure_link_md5 "$uri secret"; return 200 "[$secure_link][$secure_link_expires]"; }
            location /w/ { secure_link_secret word; if ($secure_link = "") { return 403; } rewrite ^ /to/$secure_link; }
            location /to/ { internal; return 200 "$uri"; }
            location /unset/ { return 200 "[$secure_link]"; }
            location /half/ { secure_link $arg_md5; return 200 "[$secure_link]"; }
        "#);
        let word = md5_hex("x/y.gifword");
        let link = |path: &str, expires: &str| format!("{path}?md5={}&expires={expires}", md5_url(&format!("{expires}{path} secret")));
        let links = [
            link("/s/a", "2147483647"), link("/s/a", "1"), link("/s/a", "2147483647").replace("/s/a", "/s/b"),
            link("/s/a", "-5"), link("/s/a", "0"), "/s/a".to_owned(), "/s/a?md5=short&expires=2147483647".to_owned(),
            link("/s/a", "2147483647").replace("2147483647", "2147483646"),
            format!("/n/a?md5={}", md5_url("/n/a secret")), format!("/n/a?md5={}==", md5_url("/n/a secret")), "/n/a?md5=_-_-".to_owned(),
            format!("/w/{word}/x/y.gif"), format!("/w/{word}/x/z.gif"), format!("/w/{}/x/y.gif", word.to_uppercase()), "/w/x".to_owned(),
            "/w/".to_owned(), format!("/w/{word}/"), "/unset/".to_owned(), "/half/?md5=x".to_owned(),
        ];
        let requests: Vec<Request> = links.iter().map(|link| Request::get(link)).collect();
        let said = agree(io, &text, &[], &requests);
        let bodies: Vec<&str> = said.iter().map(|told| body_of(told)).collect();
        assert_eq!(bodies[0], "[1][2147483647]");
        assert_eq!(bodies[1], "[0][1]");
        assert_eq!(bodies[2], "[][2147483647]");
        assert_eq!((bodies[8], bodies[9], bodies[10]), ("[1][]", "[1][]", "[][]"));
        assert_eq!(bodies[11], "/to/x/y.gif");
        assert!(said[12].starts_with("403") && said[14].starts_with("403"));
    }

    fn pages_that_may_not_refer_are_named(io: Io) {
        let text = conf("", r#"
            server_name www.here.test *.wild.test ~^re\d+\.test$;
            location /all/ { valid_referers none blocked server_names *.example.com example.* www.example.org/galleries/ ~\.google\.; return 200 "[$invalid_referer]"; }
            location /some/ { valid_referers a.test .dotted.test; valid_referers b.test; return 200 "[$invalid_referer]"; }
            location /unset/ { return 200 "[$invalid_referer]"; }
            location /refused/ { valid_referers a.test; if ($invalid_referer) { return 403; } return 200 "welcome"; }
        "#);
        let referers = [
            "", "-", "http://", "ftp://a.test/", "http://www.here.test/x", "http://WWW.HERE.TEST", "https://a.wild.test:81/", "http://wild.test/",
            "http://re5.test/x", "http://rex.test/x", "http://a.b.example.com/", "http://example.com/", "http://example.org.br/x",
            "http://www.example.org/galleries/1", "http://www.example.org/other", "http://www.example.org:80/galleries/1", "http://www.google.com/x",
            "http://evil.test/?.google.", "HTTPS://a.test", "http://a.test.evil.test/", "http://b.test/", "http://x.dotted.test/", "http://dotted.test/",
            "http://xdotted.test/", "http://user@a.test/",
        ];
        let mut requests = Vec::new();
        for place in ["/all/", "/some/", "/unset/", "/refused/"] {
            requests.push(Request::get(place));
            requests.extend(referers.iter().map(|referer| Request::get(place).header("Referer", referer)));
        }
        let said = agree(io, &text, &[], &requests);
        assert_eq!(body_of(&said[0]), "[]");
        assert!(said.iter().any(|told| body_of(told) == "[1]") && said.last().unwrap().starts_with("403"));
    }

    fn modern_browsers_are_told_from_ancient_ones(io: Io) {
        let said = |name: &str| format!("return 200 '{name} [$modern_browser][$ancient_browser][$msie]';");
        let text = conf("", &format!(
            "location /all {{ modern_browser msie 5.5; modern_browser gecko 1.0.0; modern_browser opera 9.0; modern_browser safari 413; \
               modern_browser konqueror 3.0; modern_browser_value new; ancient_browser_value old; {} }} \
             location /rest {{ modern_browser unlisted; ancient_browser Links Lynx netscape4; {} }} \
             location /none {{ {} }}",
            said("all"), said("rest"), said("none")
        ));
        let agents = [
            "", "curl/7", "Mozilla/4.0 (compatible; MSIE 5.5; Windows)", "Mozilla/4.0 (compatible; MSIE 5.01; Windows)", "Mozilla/4.0 (compatible; MSIE 6.0)",
            "Mozilla/4.0 (compatible; MSIE 6.0; X) Opera 9.1", "Opera/8.50 (X11)", "Opera/9.50 (X11)", "Mozilla/5.0 (X11; Linux; rv:1.7) Gecko/2004",
            "Mozilla/5.0 (X11; Linux; rv:0.9.9) Gecko", "Mozilla/5.0 (Macintosh) AppleWebKit/412 Safari/412.5", "Mozilla/5.0 (Macintosh) Safari/419.3",
            "Mozilla/5.0 (compatible; Konqueror/3.5)", "Mozilla/5.0 (compatible; Konqueror/2.2.2)", "Lynx/2.8", "Links (2.1)", "Mozilla/4.08 [en] (X11)",
            "Mozilla/5.0", "MSIE", "MSIE 7", "MSIE 7.0b",
        ];
        let mut requests = Vec::new();
        for place in ["/all", "/rest", "/none"] {
            requests.push(Request::get(place));
            requests.extend(agents.iter().map(|agent| Request::get(place).header("User-Agent", agent)));
        }
        let said = agree(io, &text, &[], &requests);
        assert_eq!(body_of(&said[3]), "all [new][][1]");
        assert_eq!(body_of(&said[4]), "all [][old][1]");
    }

    fn connections_are_counted_in_variables(io: Io) {
        let text = conf("", "location / { return 200 '$connections_active $connections_reading $connections_writing $connections_waiting'; }");
        let said = agree(io, &text, &[], &[Request::get("/")]);
        assert_eq!(body_of(&said[0]), "1 0 1 0");
    }

    fn an_empty_image_is_served_from_memory(io: Io) {
        let text = conf("", "location = /_.gif { empty_gif; } location = /e.gif { empty_gif; expires epoch; add_header X-A b; }");
        let date = "Mon, 28 Sep 1970 06:00:00 GMT";
        let mut requests = gets(&["/_.gif", "/_.gif?x=1", "/e.gif"]);
        requests.push(Request::head("/_.gif"));
        requests.push(Request::get("/_.gif").header("If-Modified-Since", date));
        requests.push(Request::get("/_.gif").header("If-Modified-Since", "Mon, 28 Sep 1970 06:00:01 GMT"));
        requests.push(Request::get("/_.gif").header("If-Unmodified-Since", "Mon, 28 Sep 1970 05:00:00 GMT"));
        let said = agree(io, &text, &[], &requests);
        assert!(said[0].contains("content-type: image/gif") && said[0].contains(date));
        assert!(said[4].starts_with("304"));
    }

    fn a_folder_is_answered_with_one_of_its_files(io: Io) {
        let text = conf("", "location / { random_index on; } location /off/ { } location /empty/ { random_index on; } location /none/ { random_index on; }");
        let files: &[beside::Named<'_>] =
            &[("d/a.txt", b"one"), ("d/b.txt", b"one"), ("d/.hidden", b"no"), ("d/sub/x", b"no"), ("off/index.html", b"index"), ("empty/.h", b"no")];
        let requests = gets(&["/off/", "/empty/", "/none/"]);
        agree(io, &text, files, &requests);
        for rival in [false, true] {
            let proxy = start(io, &text, files, rival);
            let mut client = Client::connect(&proxy);
            for _ in 0..20 {
                client.get("/d/").expect_status(200).expect_header("Content-Type", "text/plain").expect_body("one");
            }
        }
    }

    fn a_rewritten_path_ends_at_a_question_mark_of_the_file_alone(io: Io) {
        let text = conf("", r#"
            port_in_redirect off; set $with "/said/v?x=1"; set $none "";
            location /said/ { return 200 "[$uri][$args]"; }
            location /raw/ { return 200 "[$request_uri]"; }
            location = /var { rewrite ^ $with; }
            location = /both { rewrite ^ $with?y=2; }
            location = /drop { rewrite ^ $with?; }
            location = /empty { rewrite ^ /said/e?$none; }
            location = /two { rewrite ^ /said/t?a=$with?b; }
            location = /early { rewrite ^ /said/?$arg_q$with; }
            location /group/ { rewrite ^/group/(.*)$ /said/$1; }
            location /args/ { rewrite ^/args/(.*)$ /said/a?g=$1; }
            location = /proxied { set $to "/raw/v?x=1"; rewrite ^ $to break; proxy_pass http://127.0.0.1:{port}; }
            location = /away { rewrite ^ $with redirect; }
            location = /away2 { rewrite ^ /said/r?z=1 redirect; }
            location = /away3 { rewrite ^ http://x.test$with; }
        "#);
        let mut paths = vec!["/group/a%3Fb", "/group/a%3Fb?c=d", "/args/a%3Fb?c=d", "/args/a%26b"];
        let places = ["/var", "/both", "/drop", "/empty", "/two", "/early", "/proxied", "/away", "/away2", "/away3"];
        let asked: Vec<String> = places.iter().flat_map(|place| [(*place).to_owned(), format!("{place}?q=1")]).collect();
        paths.extend(asked.iter().map(String::as_str));
        let said = agree(io, &text, &[], &gets(&paths));
        assert_eq!(body_of(&said[0]), "[/said/a?b][]");
        assert_eq!(body_of(&said[5]), "[/said/v?x=1][q=1]");
        assert_eq!(body_of(&said[11]), "[/said/e][&q=1]");
    }

    fn networks_are_those_of_clients_behind_believed_proxies(io: Io) {
        let nets = "default none; 127.0.0.0/8 own; 192.0.2.0/24 inner; 198.51.100.0/24 outer; 2001:db8::/32 six;";
        let http = format!(
            "geo $one {{ proxy 127.0.0.1; {nets} }} geo $all {{ proxy 127.0.0.0/8; proxy 192.0.2.0/24; proxy_recursive; {nets} }} \
             geo $other {{ proxy 203.0.113.1; {nets} }} geo $arg_ip $said {{ proxy 192.0.2.0/24; {nets} }}"
        );
        let text = conf(&http, "location / { return 200 '$one $all $other $said'; }");
        let lists = [
            "192.0.2.1", "198.51.100.7, 192.0.2.1", "2001:db8::1", "198.51.100.7, nonsense, 192.0.2.1", "nonsense", " , 198.51.100.7 ,", "203.0.113.1:80", "[2001:db8::1]:7",
        ];
        let mut requests = gets(&["/", "/?ip=192.0.2.9", "/?ip=198.51.100.1"]);
        requests.extend(lists.iter().flat_map(|list| {
            ["/", "/?ip=192.0.2.9", "/?ip=127.0.0.1"].map(|path| Request::get(path).header("X-Forwarded-For", list))
        }));
        requests.push(Request::get("/").header("X-Forwarded-For", "198.51.100.7").header("X-Forwarded-For", "192.0.2.1"));
        let said = agree(io, &text, &[], &requests);
        assert_eq!(body_of(&said[6]), "inner outer own none");
        assert_eq!(body_of(&said[7]), "inner outer own inner");
    }

    fn refusals_with_401_wait(io: Io) {
        let text = conf("", r#"
            location /slow { auth_delay 300ms; auth_basic x; auth_basic_user_file {dir}/users; }
            location /asked { auth_delay 300ms; auth_request /ask; }
            location = /ask { return 401; }
            location /not { auth_delay 300ms; deny all; }
            location /fast { auth_basic x; auth_basic_user_file {dir}/users; }
        "#);
        let files: &[beside::Named<'_>] = &[("users", b"u:{PLAIN}p\n"), ("slow", b"here")];
        for rival in [false, true] {
            let proxy = start(io, &text, files, rival);
            let mut client = Client::connect(&proxy);
            let mut waits = |request: &Request, status: u16| {
                let before = Instant::now();
                client.request(request).expect_status(status);
                before.elapsed() >= Duration::from_millis(290)
            };
            assert!(waits(&Request::get("/slow"), 401), "rival: {rival}");
            assert!(waits(&Request::get("/slow").header("Authorization", "Basic dTp3cm9uZw=="), 401));
            assert!(waits(&Request::get("/asked"), 401));
            assert!(!waits(&Request::get("/slow").header("Authorization", "Basic dTpw"), 200));
            assert!(!waits(&Request::get("/not"), 403));
            assert!(!waits(&Request::get("/fast"), 401));
        }
    }
}

fn md5(text: &str) -> Vec<u8> {
    use md5::Digest as _;
    md5::Md5::digest(text).to_vec()
}

fn md5_hex(text: &str) -> String {
    md5(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn md5_url(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(md5(text))
}

#[test]
fn mistakes_are_found() {
    let check = |words: &str| weir_testkit::Proxy::nginx(&conf("", words)).check();
    for words in [
        "valid_referers '';",
        "valid_referers *;",
        "valid_referers a.*.b;",
        "valid_referers ~(;",
        "empty_gif;",
        "auth_delay soon;",
        "modern_browser lynx 2;",
        "modern_browser msie x;",
        "modern_browser gecko;",
    ] {
        let (code, said) = check(words);
        assert!(code != 0, "{words}: {said}");
    }
}
