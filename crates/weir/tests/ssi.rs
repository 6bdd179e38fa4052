//! Pages with commands: nginx's SSI module, beside Debian's nginx.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod beside;

use std::io::Read as _;

use beside::{Named, agree, conf, start};
use weir_testkit::{Client, Gate, Io, Origin, Proxy, Request, both_drivers};

/// One page a test: what it says, by its number.
fn pages(texts: &[&str]) -> Vec<(String, Vec<u8>)> {
    (0..).zip(texts).map(|(n, text): (u32, _)| (format!("dir/{n}.html"), text.as_bytes().to_vec())).collect()
}

/// Asks for each page in turn; what was told, both alike.
#[track_caller]
fn agree_on(io: Io, text: &str, parts: &[Named<'_>], texts: &[&str]) -> Vec<String> {
    let pages = pages(texts);
    let mut files: Vec<Named<'_>> = pages.iter().map(|(name, text)| (&name[..], &text[..])).collect();
    files.extend_from_slice(parts);
    let requests: Vec<Request> = pages
        .iter()
        .map(|(name, _)| {
            Request::get(&format!("/{name}?a=%41&b=<x>")).header("X-A", "va").header("Cookie", "c=vc")
        })
        .collect();
    agree(io, text, &files, &requests)
}

both_drivers! {
    fn values_are_echoed_as_pages_ask(io: Io) {
        let text = conf("ssi on; map $arg_a $mapped { default 'm<$arg_a>'; }", "set $own 'o\"&\\'#%{}|^~é';");
        let said = agree_on(io, &text, &[], &[
            "plain",
            "a<!--# echo var=\"uri\" -->b",
            "<!--#echo var='QUERY_STRING' --> <!--# echo var=\"args\" encoding=\"none\" --> <!--# echo var=\"args\" -->",
            "<!--# echo var=\"args\" encoding=\"url\" --> <!--# echo var=\"args\" encoding=\"entity\" -->",
            "<!--# echo var=\"own\" --> <!--# echo var=\"own\" encoding=\"url\" --> <!--# echo var=\"own\" encoding=\"odd\" -->",
            "<!--# echo var=\"mapped\" --> <!--# echo var=\"arg_b\" --> <!--# echo var=\"http_x_a\" --> <!--# echo var=\"cookie_c\" -->",
            "<!--# echo var=\"none\" --> <!--# echo var=\"none\" default=\"d<>\" --> <!--# echo var=\"none\" default=\"\" -->",
            "<!--# echo var=\"arg_none\" default=\"d\" --> <!--# echo var=\"http_none\" -->",
            "<!--# set var=\"x\" value=\"v$uri-${arg_a}\\$uri \\\\ \\q \\\" \" --><!--# echo var=\"x\" --> <!--# echo var=\"X\" -->",
            "<!--# set var=\"uri\" value=\"mine\" --><!--# echo var=\"uri\" -->",
            "<!--# set var=\"X\" value=\"1\" --><!--# set var=\"x\" value=\"${x}2\" --><!--# echo var=\"x\" -->",
            "<!--# set var=\"x\" value=\"$\" -->|<!--# set var=\"x\" value=\"${uri\" -->|<!--# set var=\"x\" value=\"$-\" -->|<!--# echo var=\"x\" -->",
            "<!--# config timefmt=\"%s\" --><!--# echo var=\"none\" --><!--# config timefmt=\"%Y %Z\" --> <!--# echo var=\"date_gmt\" -->",
        ]);
        assert!(said[1].ends_with("\na/dir/1.htmlb"), "{}", said[1]);
    }

    fn conditions_choose_what_is_shown(io: Io) {
        let if_ = |expression: &str| {
            format!("[<!--# if expr=\"{expression}\" -->yes $1<!--# echo var=\"1\" --><!--# else -->no<!--# endif -->]")
        };
        let texts: Vec<String> = [
            "$uri", "$none", "", "a", "$arg_a = %41", "$arg_a=%42", "$arg_a != %42", "$arg_a != %41", "$ARG_A = '%41'", "${arg_a} = ${arg_a}",
            "$uri = /dir/", "$uri = /^\\/d(.+)\\/(?<n>\\d+)/", "$uri != /zz/", "$uri = /(/", "$uri = \\/dir", "$uri ~ x", "$uri = ", "a = a", "A = a",
            "$uri = /x", "$uri=/(?<low>dir)/",
        ].iter().map(|expression| if_(expression)).collect();
        let mut texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        texts.extend([
            "<!--# if expr=\"$none\" -->1<!--# elif expr=\"$arg_a\" -->2<!--# elif expr=\"$arg_a\" -->3<!--# else -->4<!--# endif -->5",
            "<!--# if expr=\"$arg_a\" -->1<!--# elif expr=\"$arg_a\" -->2<!--# else -->4<!--# endif -->5",
            "<!--# if expr=\"$none\" -->1<!--# elif expr=\"$none\" -->2<!--# else -->4<!--# endif -->5",
            "<!--# if expr=\"$arg_a\" -->1<!--# if expr=\"$arg_a\" -->2<!--# endif -->3<!--# endif -->4",
            "<!--# if expr=\"$none\" -->1<!--# if expr=\"$arg_a\" -->2<!--# endif -->3<!--# endif -->4",
            "<!--# else -->1<!--# endif -->2<!--# elif expr=\"$uri\" -->3",
            "<!--# if expr=\"$uri\" -->1<!--# else -->2<!--# else -->3<!--# elif expr=\"$uri\" -->4<!--# endif -->5",
            "<!--# if expr=\"$uri = /(?<page>[0-9]+)/\" --><!--# echo var=\"page\" --> <!--# echo var=\"0\" --> <!--# echo var=\"9\" --><!--# endif -->",
            "<!--# if expr=\"$none\" --><!--# set var=\"x\" value=\"1\" --><!--# odd --><!--# echo --><!--# endif --><!--# echo var=\"x\" -->",
            "<!--# if expr=\"$none\" --><!--# echo var=x -->1<!--# else odd=\"1\" -->2<!--# endif -->3", "<!--# if expr=\"$none\" -->1<!--# elif odd=\"1\" -->2<!--# endif -->3",
            "<!--# block name=\"b\" --><!--# odd -->1<!--# echo var=x -->2<!--# endblock --><!--# include virtual=\"/nowhere\" stub=\"b\" -->",
        ]);
        agree_on(io, &conf("ssi on;", ""), &[], &texts);
    }

    fn mistakes_leave_a_text_or_nothing(io: Io) {
        let texts = [
            "a<!--# odd -->b", "a<!--# echo -->b", "a<!--# echo var=x -->b", "a<!--# echo var=\"x\"z --> -->b", "a<!--# echo var -->b", "a<!--#echo var-->b",
            "a<!--# echo var=\"uri\" var=\"uri\" -->b", "a<!--# echo odd=\"1\" -->b", "a<!--# endif -->b", "a<!--# echo var=\"uri\" - -->b", "a<!--# -->b",
            "a<!--# config errmsg=\"[oh $uri \\n]\" --><!--# odd -->b", "a<!-- b --><!---->c<!--#", "a<!--# echo var=\"uri\" --", "a<!-",
            "a<!--#endblock-->b<!--# block -->c", "<!--# include -->", "<!--# include virtual=\"/x\" file=\"x\" -->", "<!--# include virtual=\"/x\" wait=\"maybe\" -->",
            "<!--# include file=\"x\" wait=\"yes\" -->", "<!--# include virtual=\"/x\" set=\"a\" stub=\"b\" -->", "<!--# include virtual=\"/x\" stub=\"none\" -->",
            "<!--# include virtual=\"/../x\" -->", "<!--# include virtual=\"/a/%2e%2e/x\" -->", "<!--# include virtual=\"$none\" -->",
            "a<!--# set var=\"x\" value=\"0123456789abcdef\" -->b<!--# set var=\"x\" value=\"0123456789abcde\" --><!--# echo var=\"x\" -->",
        ];
        for words in ["ssi on; ssi_value_length 32;", "ssi on; ssi_silent_errors on; ssi_value_length 15;"] {
            agree_on(io, &conf(words, ""), &[], &texts);
        }
    }

    fn bodies_of_other_paths_are_included(io: Io) {
        let part = Origin::script(|c| c.keep_answering(200, &[("Content-Type", "text/html"), ("Connection", "close")], "<p><!--# echo var=\"v\" -->"));
        let text = conf("ssi on; ssi_types text/plain;", &format!(
            "location /part/ {{ proxy_pass http://{part}; }} location /closed/ {{ deny all; }} location /inner/ {{ internal; return 200 '[$uri $args $request_uri $request_method]'; }} \
             location /off/ {{ ssi off; }} location /moved {{ return 302 /a.txt; }} location /long {{ subrequest_output_buffer_size 64k; alias {{dir}}/long; }}"
        ));
        let long = vec![b'x'; 5000];
        let parts: &[Named<'_>] = &[
            ("a.txt", b"A"), ("dir/b.txt", b"B<!--# echo var=\"uri\" -->"), ("dir/deep/c.html", b"C<!--# include file=\"d.html\" -->"), ("dir/deep/d.html", b"D<!--# set var=\"v\" value=\"d\" -->"),
            ("off/a.html", b"<!--# echo var=\"uri\" -->"), ("empty.html", b""), ("bin.bin", b"<!--# echo var=\"uri\" -->"), ("long", &long), ("x y.txt", b"X"),
        ];
        let texts = [
            "[<!--# include virtual=\"/a.txt\" -->]", "[<!--# include virtual=\"b.txt\" --><!--# include file=\"b.txt\" --><!--# include file=\"../a.txt\" -->]",
            "[<!--# include virtual=\"/inner/x?$args&y=1\" -->]", "[<!--# include file=\"deep/c.html\" --><!--# echo var=\"v\" -->]",
            "[<!--# include virtual=\"deep/c.html\" wait=\"yes\" --><!--# echo var=\"v\" -->]", "[<!--# include virtual=\"/off/a.html\" --><!--# include virtual=\"/bin.bin\" -->]",
            "[<!--# include virtual=\"/nowhere\" --><!--# include virtual=\"/moved\" -->]", "[<!--# include virtual=\"/closed/x\" -->]",
            "[<!--# set var=\"v\" value=\"1\" --><!--# include virtual=\"/part/x\" wait=\"yes\" --><!--# include virtual=\"/part/x\" -->]",
            "[<!--# include virtual=\"/a.txt\" set=\"x\" --><!--# echo var=\"x\" -->]", "[<!--# include virtual=\"/nowhere\" set=\"x\" --><!--# echo var=\"x\" default=\"none\" -->]",
            "[<!--# include virtual=\"/a.txt\" set=\"x\" --><!--# include virtual=\"/nowhere\" set=\"x\" --><!--# echo var=\"x\" -->]",
            "[<!--# include virtual=\"/part/x\" set=\"x\" --><!--# echo var=\"x\" encoding=\"none\" -->]",
            "[<!--# include virtual=\"/long\" set=\"x\" --><!--# echo var=\"x\" -->]", "[<!--# include virtual=\"/x%20y.txt\" -->]",
            "a<!--# block name=\"one\" -->stub <!--# echo var='uri' --><!--# if expr=\"a\" --><!--# endif --><!--# endblock -->b[<!--# include virtual=\"/nowhere\" stub=\"one\" -->]",
            "<!--# block name=\"one\" -->stub<!--# endblock -->[<!--# include virtual=\"/a.txt\" stub=\"one\" --><!--# include virtual=\"/empty.html\" stub=\"one\" --><!--# include virtual=\"/moved\" stub=\"one\" -->]",
            "<!--# block name=\"one\" -->1<!--# endblock --><!--# block name=\"one\" -->2<!--# endblock -->[<!--# include virtual=\"/closed/\" stub=\"one\" -->]",
        ];
        let said = agree_on(io, &text, parts, &texts);
        assert!(said[0].ends_with("\n[A]") && said[4].contains("[CDd]"), "{} {}", said[0], said[4]);
        assert!(said[13].contains(&"x".repeat(5000)));
    }

    fn heads_say_that_the_body_is_another(io: Io) {
        let main = Origin::script(|c| c.keep_answering(200, &[("Content-Type", "text/html"), ("ETag", "\"a\""), ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")],
            "<!--# echo var=\"uri\" -->"));
        let text = conf("ssi on;", &format!(
            "location /kept/ {{ ssi_last_modified on; }} location /off/ {{ ssi off; }} location /if/ {{ ssi off; if ($arg_ssi) {{ ssi on; }} }} location /css/ {{ ssi_types text/css; }} \
             location /proxied {{ proxy_pass http://{main}; }} error_page 404 /missing.html; location /text {{ default_type text/html; return 201 '<!--# echo var=\"status\" -->'; }}"
        ));
        let page: &[u8] = b"a<!--# echo var=\"arg_x\" -->b";
        let files: &[Named<'_>] = &[
            ("a.html", page), ("a.css", page), ("kept/a.html", page), ("off/a.html", page), ("if/a.html", page), ("css/a.css", page), ("css/a.html", page), ("empty.html", b""),
            ("missing.html", b"missing <!--# echo var=\"uri\" -->"), ("plain.html", b"nothing here"),
        ];
        let paths = ["/a.html?x=1", "/a.css", "/kept/a.html", "/off/a.html", "/if/a.html", "/if/a.html?ssi=1", "/css/a.css", "/css/a.html", "/empty.html", "/nowhere", "/plain.html", "/proxied", "/text"];
        let mut requests: Vec<Request> = paths.iter().map(|path| Request::get(path)).collect();
        requests.push(Request::head("/a.html"));
        requests.push(Request::get("/a.html").header("Range", "bytes=0-1"));
        requests.push(Request::get("/a.html").header("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT"));
        let said = agree(io, &text, files, &requests);
        assert!(said[0].ends_with("\na1b") && !said[0].contains("etag"), "{}", said[0]);
        assert!(said[2].contains("etag: W/"), "{}", said[2]);
    }

    fn pages_are_compressed_after_their_commands_and_searched_before_what_is_added(io: Io) {
        let text = conf("gzip on; gzip_min_length 1; ssi on; sub_filter LATE '<!--# echo var=\"uri\" -->'; add_after_body /after.html;", "");
        let files: &[Named<'_>] = &[("a.html", b"text LATE <!--# include virtual=\"/part.html\" -->."), ("part.html", b"part"), ("after.html", b" after <!--# echo var=\"uri\" -->")];
        for rival in [false, true] {
            let proxy = start(io, &text, files, rival);
            let request = Request::get("/a.html").header("Accept-Encoding", "gzip");
            let got = Client::connect(&proxy).request(&request).expect_header("Content-Encoding", "gzip");
            let mut plain = String::new();
            flate2::read::MultiGzDecoder::new(&got.body[..]).read_to_string(&mut plain).unwrap();
            assert_eq!(plain, "text /a.html part. after /after.html", "rival: {rival}");
        }
    }

    fn parts_are_asked_for_at_once_and_sent_in_order(io: Io) {
        let gate = Gate::new();
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n";
        let slow = Origin::script(|c| c.expect("GET /slow").send(head).wait_for(&gate).send("slow ").close());
        let fast = Origin::script(|c| c.expect("GET /fast").send(head).send("fast ").close());
        let text = conf("ssi on;", &format!("location /slow {{ proxy_pass http://{slow}; }} location /fast {{ proxy_pass http://{fast}; }}"));
        let proxy = start(io, &text, &[("a.html", b"<!--# include virtual=\"/slow\" -->between <!--# include virtual=\"/fast\" -->end")], false);
        let mut client = Client::connect(&proxy);
        client.send(Request::get("/a.html").bytes());
        // The second one is asked for before the first has come.
        fast.wait_for_requests(1);
        gate.open();
        assert_eq!(client.read().text(), "slow between fast end");
    }

    fn commands_may_lie_across_pieces_of_any_size(io: Io) {
        let page = "<p>a</p><!--# set var=\"x\" value=\"1\" --><<!--# if expr=\"$x = 1\" -->yes<!--# else -->no<!--# endif --><!--# include virtual=\"/part.html\" -->z";
        let origin = Origin::script(|mut c| {
            c = c.expect("GET /a").send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n");
            for byte in page.as_bytes() {
                c = c.send(format!("1\r\n{}\r\n", *byte as char));
            }
            c.send("0\r\n\r\n").close()
        });
        let text = conf("ssi on;", &format!("location /a {{ proxy_buffering off; proxy_pass http://{origin}; }}"));
        let proxy = start(io, &text, &[("part.html", b"part")], false);
        assert_eq!(Client::connect(&proxy).get("/a").text(), "<p>a</p><yespartz");
    }

    fn circles_and_floods_end(io: Io) {
        let many = "<!--# include virtual=\"/part.html\" -->".repeat(1200);
        let double = "<!--# set var=\"x\" value=\"$x$x$x$x\" -->".repeat(40);
        let double = format!("<!--# set var=\"x\" value=\"xxxxxxxx\" -->{double}<!--# if expr=\"$x\" -->kept<!--# endif -->");
        let block = format!("<!--# block name=\"b\" -->{}<!--# endblock -->end", "x".repeat(3 << 20));
        let files: &[Named<'_>] = &[
            ("self.html", b"(<!--# include virtual=\"/self.html\" -->)"), ("twice.html", b"<!--# include virtual=\"/twice.html\" --><!--# include virtual=\"/twice.html\" -->."),
            ("many.html", many.as_bytes()), ("part.html", b"p"), ("double.html", double.as_bytes()), ("block.html", block.as_bytes()),
        ];
        let proxy = start(io, &conf("ssi on; ssi_silent_errors on; log_not_found off;", ""), files, false);
        let body = |path: &str| Client::connect(&proxy).get(path).text();
        assert_eq!(body("/self.html"), format!("{}{}", "(".repeat(17), ")".repeat(17)));
        assert!(body("/twice.html").len() <= 1001);
        assert_eq!(body("/many.html"), "p".repeat(1000));
        assert_eq!(body("/double.html"), "kept");
        assert_eq!(body("/block.html"), "end");
        proxy.wait_for_file("error.log", "subrequests cycle while processing \"/self.html\"");
        proxy.wait_for_file("error.log", "keep too much, or ask for too much");
    }

    fn a_part_that_is_cut_or_too_large_leaves_no_whole_response(io: Io) {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut";
        let part = Origin::script(|c| c.expect("GET /part").send(head).close());
        let long = vec![b'x'; 5000];
        let text = conf("ssi on;", &format!("location /part {{ proxy_pass http://{part}; }}"));
        let files: &[Named<'_>] = &[("a.html", b"text <!--# include virtual=\"/part\" -->"), ("long", &long), ("b.html", b"text <!--# include virtual=\"/long\" set=\"x\" -->.")];
        let proxy = start(io, &text, files, false);
        assert!(Client::connect(&proxy).try_request(&Request::get("/a.html")).is_err());
        proxy.wait_for_file("error.log", "the response of \"/part\" was cut");
        for rival in [false, true] {
            let proxy = start(io, &text, files, rival);
            assert!(Client::connect(&proxy).try_request(&Request::get("/b.html")).is_err());
            proxy.wait_for_file("error.log", "too big subrequest response");
        }
    }

    fn large_parts_pass_as_they_come(io: Io) {
        let big = vec![b'x'; 3_000_000];
        let proxy = start(io, &conf("ssi on;", ""), &[("big.txt", &big), ("a.html", b"a<!--# include virtual=\"/big.txt\" -->b<!--# include virtual=\"/big.txt\" -->c")], false);
        let got = Client::connect(&proxy).get("/a.html");
        assert_eq!(got.body.len(), 6_000_003);
        assert_eq!((got.body[0], got.body[3_000_001], got.body[6_000_002]), (b'a', b'b', b'c'));
    }
}

#[test]
fn mistakes_in_the_configuration_are_found() {
    let check = |words: &str| Proxy::nginx(&conf("", words)).check();
    let (code, said) = check("ssi maybe;");
    assert!(code != 0 && said.contains("ssi"), "{said}");
    let (code, said) = check(
        "ssi on; ssi_types text/css *; ssi_value_length 1k; ssi_silent_errors on; ssi_min_file_chunk 2k; subrequest_output_buffer_size 8k;",
    );
    assert_eq!(code, 0, "{said}");
}
