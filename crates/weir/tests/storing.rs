//! `proxy_store`: responses of upstreams that are kept as files, beside nginx.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use weir_testkit::{Client, Io, Origin, Proxy, Request, Running, both_drivers, eventually};

fn conf(locations: &str) -> Proxy {
    // Temporary files lie where the others do, as nginx recommends.
    Proxy::nginx(&format!(
        "user root; worker_processes 1; error_log stderr; events {{}} http {{ access_log off; proxy_temp_path {{dir}}/temp; server {{ listen 127.0.0.1:{{port}}; root {{dir}}/files; {locations} }} }}"
    ))
    .file("files/here", "here")
}

fn both(io: Io, file: &Proxy) -> [(&'static str, Running); 2] {
    [("weir", file.clone().io(io).start()), ("nginx", file.clone().by_rival().start())]
}

fn kept(proxy: &Running, name: &str) -> Option<String> {
    std::fs::read_to_string(proxy.dir().join(name)).ok()
}

/// The file that there has to be: at once, as soon as the client has all; nginx gives it its name a little later.
#[track_caller]
fn must_be_kept(proxy: &Running, who: &str, name: &str, wanted: &str) {
    if who == "nginx" {
        eventually("nginx keeps it", || kept(proxy, name));
    }
    assert_eq!(kept(proxy, name).as_deref(), Some(wanted), "{who}: {name}");
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o777
}

both_drivers! {
    fn what_is_fetched_once_is_a_file_then(io: Io) {
        let modified = "Wed, 21 Oct 2015 07:28:00 GMT";
        let origin = Origin::script(|c| c.keep_answering(200, &[("Last-Modified", modified)], "fetched"));
        let file = conf(&format!(
            "location / {{ error_page 404 = @fetch; log_not_found off; }} \
             location @fetch {{ internal; proxy_pass http://{origin}; proxy_store on; proxy_store_access user:rw group:rw all:r; }} \
             location /named/ {{ proxy_pass http://{origin}; proxy_store {{dir}}/elsewhere$uri.kept; }} \
             location /alias/ {{ alias {{dir}}/files/other/; proxy_pass http://{origin}/; proxy_store on; }} \
             location /off/ {{ proxy_pass http://{origin}; proxy_store off; }}"
        ));
        for (who, proxy) in both(io, &file) {
            let before = origin.requests().len();
            for _ in 0..2 {
                Client::connect(&proxy).get("/a/b/c.txt").expect_status(200).expect_body("fetched").expect_header("Last-Modified", modified);
                must_be_kept(&proxy, who, "files/a/b/c.txt", "fetched");
            }
            assert_eq!(origin.requests().len(), before + 1, "{who}: once");
            let path = proxy.dir().join("files/a/b/c.txt");
            assert_eq!(mode(&path), 0o664, "{who}");
            // New folders have the rights that follow, whatever the umask; nginx takes that off.
            assert_eq!(mode(path.parent().unwrap()) & 0o755, 0o755, "{who}");
            Client::connect(&proxy).get("/named/x?y=1").expect_body("fetched");
            must_be_kept(&proxy, who, "elsewhere/named/x.kept", "fetched");
            assert_eq!(mode(&proxy.dir().join("elsewhere/named/x.kept")), 0o600, "{who}");
            Client::connect(&proxy).get("/alias/z").expect_body("fetched");
            must_be_kept(&proxy, who, "files/other/z", "fetched");
            Client::connect(&proxy).get("/off/z").expect_body("fetched");
            Client::connect(&proxy).request(&Request::head("/alias/head"));
            assert_eq!((kept(&proxy, "files/off/z"), kept(&proxy, "files/other/head")), (None, None), "{who}");
        }
    }

    fn only_whole_responses_are_kept(io: Io) {
        let missing = Origin::script(|c| c.keep_answering(404, &[], "none"));
        let short = Origin::script(|c| c.read_body().send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort").close());
        let cut = Origin::script(|c| c.read_body().send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n").close());
        let chunked = Origin::script(|c| c.read_body().send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nwhole\r\n0\r\n\r\n").close());
        let closed = Origin::script(|c| c.read_body().send("HTTP/1.0 200 OK\r\n\r\nto its end").half_close().until_closed());
        let file = conf(&format!(
            "proxy_store on; proxy_http_version 1.1; location /missing {{ proxy_pass http://{missing}; }} location /short {{ proxy_pass http://{short}; }} \
             location /cut {{ proxy_pass http://{cut}; }} location /chunked {{ proxy_pass http://{chunked}; }} location /closed {{ proxy_pass http://{closed}; }}"
        ));
        for (who, proxy) in both(io, &file) {
            for path in ["/missing", "/short", "/cut", "/chunked", "/closed"] {
                let _ = Client::connect(&proxy).try_request(&Request::get(path));
            }
            must_be_kept(&proxy, who, "files/closed", "to its end");
            let found = ["missing", "short", "cut", "chunked", "closed"].map(|name| kept(&proxy, &format!("files/{name}")));
            assert_eq!(found, [None, None, None, Some("whole".into()), Some("to its end".into())], "{who}");
            let left: Vec<_> = walk(&proxy.dir().join("temp"));
            assert!(left.is_empty(), "{who}: {left:?}");
        }
    }

    fn no_name_leads_out(io: Io) {
        let origin = Origin::script(|c| c.keep_answering(200, &[], "fetched"));
        let file = conf(&format!("location / {{ proxy_pass http://{origin}; proxy_store {{dir}}/files/$arg_name; }} location /here/ {{ proxy_pass http://{origin}; proxy_store on; }}"));
        let proxy = file.io(io).start();
        for path in ["/?name=../out", "/?name=a/../../out", "/?name=", "/here/", "/here/below"] {
            Client::connect(&proxy).get(path).expect_body("fetched");
        }
        proxy.wait_for_log("cannot store");
        assert_eq!((kept(&proxy, "out"), kept(&proxy, "files/here").as_deref()), (None, Some("here")));
        Client::connect(&proxy).get("/?name=fine").expect_body("fetched");
        assert_eq!(kept(&proxy, "files/fine").as_deref(), Some("fetched"));
    }
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn a_cache_beside_it_is_a_mistake() {
    let text = "events {} http { proxy_cache_path {dir}/c keys_zone=z:1m; server { listen 127.0.0.1:{port}; location / { proxy_pass http://127.0.0.1:1; proxy_cache z; proxy_store on; } } }";
    let (code, said) = Proxy::nginx(text).check();
    assert!(code != 0 && said.contains("nginx::store-and-cache"), "{said}");
    let text = "events {} http { server { listen 127.0.0.1:{port}; location / { proxy_pass http://127.0.0.1:1; proxy_store_access nobody:rw; } } }";
    assert_ne!(Proxy::nginx(text).check().0, 0);
}
