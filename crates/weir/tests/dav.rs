//! Requests that change files: nginx's DAV module, beside Debian's nginx.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod beside;

use std::os::unix::fs::{MetadataExt as _, symlink};

use beside::{Named, conf, start};
use weir_testkit::{Client, Io, Proxy, Request, Running, both_drivers};

const ALL: &str = "dav_methods PUT DELETE MKCOL COPY MOVE; client_body_temp_path {dir}/temp;";
const FILES: &[Named<'static>] = &[
    ("www/a.txt", b"A"),
    ("www/b.txt", b"B"),
    ("www/tree/one", b"1"),
    ("www/tree/deep/two", b"2"),
    ("www/other/three", b"3"),
];

/// Beside the files that are served there are others.
fn served(http: &str, server: &str) -> String {
    let text = conf(http, server).replace("root {dir};", "root {dir}/www;");
    // nginx's workers, too, have to write where the test made folders.
    if rustix::process::geteuid().is_root() { format!("user root; {text}") } else { text }
}

/// Asks both the same, one request after the other: statuses, places and contents have to be the same. What Weir told.
#[track_caller]
fn agree(io: Io, text: &str, files: &[Named<'_>], requests: &[Request]) -> Vec<String> {
    let ask = |running: &Running, request: &Request| {
        let response = Client::connect(running).request(request);
        let content = if response.status == 200 { response.text() } else { String::new() };
        format!("{} location: {}\n{content}", response.status, response.header("Location").unwrap_or("none"))
    };
    let (weir, nginx) = (start(io, text, files, false), start(io, text, files, true));
    let (mut all, mut differ) = (Vec::new(), String::new());
    for request in requests {
        let (ours, theirs) = (ask(&weir, request), ask(&nginx, request));
        if ours != theirs {
            let head = String::from_utf8_lossy(&request.bytes()).chars().take(200).collect::<String>();
            differ += &format!("=== {head}\n--- weir\n{ours}\n--- nginx\n{theirs}\n");
        }
        all.push(ours);
    }
    assert!(differ.is_empty(), "{differ}");
    all
}

fn text(more: &str) -> String {
    served(&format!("absolute_redirect off; {ALL}"), more)
}

fn put(path: &str, body: &str) -> Request {
    Request::new("PUT", path).body(body)
}

fn delete(path: &str) -> Request {
    Request::new("DELETE", path)
}

fn moved(method: &str, from: &str, to: &str) -> Request {
    Request::new(method, from).header("Destination", to)
}

fn read(running: &Running, name: &str) -> Option<String> {
    std::fs::read_to_string(running.dir().join("www").join(name)).ok()
}

both_drivers! {
    fn files_are_put(io: Io) {
        let said = agree(io, &text("location /full/ { create_full_put_path on; } location /small/ { client_max_body_size 4; } location /off/ { dav_methods off; }"), FILES, &[
            put("/new.txt", "new"), Request::get("/new.txt"), put("/new.txt", "newer"), Request::get("/new.txt"), put("/empty.txt", ""), Request::get("/empty.txt"),
            put("/a.txt", &"x".repeat(100_000)), Request::get("/a.txt"), Request::new("PUT", "/chunked.txt").body("chunks").chunked(), Request::get("/chunked.txt"),
            put("/tree/", "x"), put("/tree", "x"), put("/none/x", "x"), put("/full/x/y/z.txt", "z"), Request::get("/full/x/y/z.txt"), put("/a.txt/x", "x"),
            put("/range.txt", "x").header("Content-Range", "bytes 0-0/1"), put("/small/x", "12345"), put("/off/x", "x"), put("/a%20b%3f%25.txt", "q"), Request::get("/a%20b%3f%25.txt"),
            put("/dated.txt", "d").header("Date", "Sun, 06 Nov 1994 08:49:37 GMT"), Request::get("/dated.txt").header("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT"),
            Request::post("/a.txt", "x"), Request::new("PATCH", "/a.txt").body("x"), Request::new("PROPFIND", "/"),
        ].map(|request| request.host("localhost")));
        assert!(said[0].starts_with("201") && said[0].contains("location: /new.txt"), "{}", said[0]);
        assert!(said[2].starts_with("204"), "{}", said[2]);
    }

    fn files_and_folders_are_deleted(io: Io) {
        let said = agree(io, &text("location /deep/ { min_delete_depth 3; }"), &[FILES, &[("www/deep/x/y", b"y"), ("www/deep/z", b"z")]].concat(), &[
            delete("/a.txt"), Request::get("/a.txt"), delete("/a.txt"), delete("/b.txt/"), delete("/b.txt").header("Depth", "1"), delete("/b.txt").header("Depth", "infinity"),
            delete("/tree"), delete("/tree/").header("Depth", "0"), delete("/tree/").header("Depth", "odd"), delete("/tree/"), Request::get("/tree/one"), delete("/none/"), delete("/none"),
            delete("/other/three").body("x"), delete("/other/three").header("Depth", "0"), delete("/deep/z"), delete("/deep/x/"), delete("/deep/x/y"), delete("/deep/x"),
        ]);
        assert!(said[9].starts_with("204") && said[10].starts_with("404"), "{} {}", said[9], said[10]);
    }

    fn folders_are_made(io: Io) {
        let mkcol = |path: &str| Request::new("MKCOL", path);
        let said = agree(io, &text(""), FILES, &[
            mkcol("/new/"), mkcol("/new/"), mkcol("/new"), mkcol("/none/new/"), mkcol("/a.txt/"), mkcol("/a.txt/x/"), mkcol("/x%20y/"), mkcol("/z/").body("x"), put("/new/x", "x"), Request::get("/new/x"),
        ]);
        assert!(said[0].starts_with("201"), "{}", said[0]);
    }

    fn files_and_folders_are_copied_and_moved(io: Io) {
        let said = agree(io, &text(""), FILES, &[
            moved("COPY", "/a.txt", "/c.txt"), Request::get("/c.txt"), moved("COPY", "/a.txt", "/b.txt").header("Overwrite", "F"), moved("COPY", "/a.txt", "/b.txt").header("Overwrite", "T"),
            Request::get("/b.txt"), moved("COPY", "/a.txt", "http://localhost/d%20d.txt"), Request::get("/d%20d.txt"), moved("COPY", "/a.txt", "http://elsewhere/d.txt"), moved("COPY", "/a.txt", "https://localhost/d.txt"),
            moved("COPY", "/a.txt", "http://localhost"), moved("COPY", "/a.txt", "odd"), moved("COPY", "/a.txt", ""), Request::new("COPY", "/a.txt"), moved("COPY", "/a.txt", "/../x"), moved("COPY", "/a.txt", "/x/"), moved("COPY", "/tree/", "/x"),
            moved("COPY", "/none", "/x"), moved("COPY", "/a.txt", "/tree"), moved("COPY", "/tree", "/x"), moved("COPY", "/a.txt", "/e.txt").header("Depth", "0"), moved("COPY", "/a.txt", "/e.txt").header("Depth", "1"),
            moved("MOVE", "/e.txt", "/f.txt").header("Depth", "0"), moved("COPY", "/a.txt", "/f.txt").header("Overwrite", "X"), moved("COPY", "/a.txt", "/f.txt").body("x"), moved("MOVE", "/e.txt", "/f.txt"), Request::get("/e.txt"), Request::get("/f.txt"),
            moved("MOVE", "/f.txt", "/made/by/move.txt"), Request::get("/made/by/move.txt"), moved("COPY", "/tree/", "/copy/"), Request::get("/copy/deep/two"), Request::get("/tree/deep/two"), moved("MOVE", "/tree/", "/moved/"), Request::get("/moved/deep/two"),
            Request::get("/tree/one"), moved("MOVE", "/moved/", "/other/").header("Overwrite", "F"), moved("MOVE", "/moved/", "/other/"), Request::get("/other/deep/two"), Request::get("/other/three"), moved("COPY", "/other/", "/no/where/"), moved("COPY", "/a.txt", "/no/where.txt"),
            moved("COPY", "/other/", "/a.txt/"), Request::get("/a.txt/deep/two"),
        ]);
        assert!(said[0].starts_with("204") && said[1].ends_with("\nA"), "{} {}", said[0], said[1]);
    }

    fn what_would_destroy_its_source_is_refused(io: Io) {
        let more = "location ~ ^/one/ { alias {dir}/www/a.txt; } location /long-name/ { alias {dir}/www/other/; }";
        let proxy = start(io, &text(more), FILES, false);
        let status = |request: &Request| Client::connect(&proxy).request(request).status;
        for (from, to) in [("/tree/", "/tree/"), ("/tree/", "/tree/deep/"), ("/tree/", "/tree/new/"), ("/tree/deep/", "/tree/"), ("/a.txt", "/a.txt"), ("/one/x", "/one/y")] {
            for method in ["COPY", "MOVE"] {
                assert!([400, 403].contains(&status(&moved(method, from, to))), "{method} {from} {to}");
            }
        }
        // What an alias stands for is a part of the target, or there is none.
        for to in ["/x", "/long-nam/x", "/"] {
            let request = moved("COPY", "/long-name/three", to);
            assert!([400, 409].contains(&status(&request)), "{to}");
        }
        assert_eq!(status(&moved("COPY", "/long-name/three", "/long-name/four")), 204);
        for (name, expected) in [("tree/deep/two", "2"), ("tree/one", "1"), ("a.txt", "A"), ("other/four", "3")] {
            assert_eq!(read(&proxy, name).as_deref(), Some(expected), "{name}");
        }
        // Links are removed, not what they lead to.
        symlink(proxy.dir().join("www/tree"), proxy.dir().join("www/link")).unwrap();
        assert_eq!(status(&delete("/link")), 204);
        assert_eq!(read(&proxy, "tree/one").as_deref(), Some("1"));
    }

    fn files_appear_whole_and_with_their_rights(io: Io) {
        let proxy = start(io, &text("dav_access group:rw all:r; create_full_put_path on;"), FILES, false);
        let mut client = Client::connect(&proxy);
        client.send("PUT /made/file HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\nabc");
        let mut other = Client::connect(&proxy);
        other.get("/made/file").expect_status(404);
        client.send("def");
        client.read().expect_status(201);
        other.get("/made/file").expect_status(200).expect_body("abcdef");
        let mode = |name: &str| std::fs::metadata(proxy.dir().join("www").join(name)).unwrap().mode() & 0o777;
        assert_eq!((mode("made/file"), mode("made")), (0o664, 0o775));
        other.request(&Request::new("MKCOL", "/folder/")).expect_status(201);
        assert_eq!(mode("folder"), 0o775);
        // A body that is cut leaves nothing.
        let mut cut = Client::connect(&proxy);
        cut.send("PUT /cut HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\nabc");
        cut.half_close();
        cut.read_to_end();
        assert!(read(&proxy, "cut").is_none());
        weir_testkit::eventually("the temporary file to go", || {
            (std::fs::read_dir(proxy.dir().join("temp")).unwrap().count() == 0).then_some(())
        });
    }

    fn what_was_held_in_memory_is_forgotten(io: Io) {
        let proxy = start(io, &text(""), FILES, false);
        let mut client = Client::connect(&proxy);
        client.get("/a.txt").expect_body("A");
        client.request(&put("/a.txt", "changed")).expect_status(204);
        client.get("/a.txt").expect_body("changed");
        client.get("/b.txt").expect_body("B");
        client.request(&moved("MOVE", "/a.txt", "/b.txt")).expect_status(204);
        client.get("/b.txt").expect_body("changed");
        client.get("/a.txt").expect_status(404);
        client.get("/tree/one").expect_body("1");
        client.request(&delete("/tree/")).expect_status(204);
        client.get("/tree/one").expect_status(404);
    }

    fn places_are_absolute_where_redirects_are(io: Io) {
        let proxy = start(io, &served(ALL, ""), FILES, false);
        let port = proxy.port_of("port").number();
        let made = Client::connect(&proxy).request(&put("/new.txt", "x")).expect_status(201);
        assert_eq!(made.header("Location"), Some(&*format!("http://localhost:{port}/new.txt")));
    }
}

#[test]
fn mistakes_in_the_configuration_are_found() {
    let check = |words: &str| Proxy::nginx(&conf("", words)).check();
    for words in ["dav_methods GET;", "dav_access owner:rw;", "dav_access user:x;", "min_delete_depth deep;"]
    {
        let (code, said) = check(words);
        assert!(code != 0 && said.contains(words.split(' ').next().unwrap()), "{words}: {said}");
    }
    let (code, said) = check(
        "dav_methods off; dav_access user:rw group:r all:r; create_full_put_path on; min_delete_depth 2;",
    );
    assert_eq!(code, 0, "{said}");
}
