//! The same files, asked for in the same ways, of Weir and of Debian's nginx: status, fields and bodies must agree.
//!
//! Where they may differ, a comment at the comparison says why.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use weir_testkit::response::Response;
use weir_testkit::{Client, Io, Proxy, Request, Running, both_drivers};

const CONF: &str = r#"worker_processes 1; events {} http { access_log off; error_log /dev/null;
    types { text/html html; text/css css; application/json json; } default_type application/octet-stream;
    server { listen 127.0.0.1:{port}; server_name example.test; root {root}; index first.html index.html;
        location /alias/ { alias {root}/d/; }
        location /img { alias {root}/d/; }
        location ~ ^/re/(.+)$ { alias {root}/d/$1; }
        location /list/ { autoindex on; }
        location /short/ { alias {root}/list/; autoindex on; autoindex_exact_size off; }
        location /json/ { alias {root}/list/; autoindex on; autoindex_format json; }
        location /jsonp/ { alias {root}/list/; autoindex on; autoindex_format jsonp; }
        location /xml/ { alias {root}/list/; autoindex on; autoindex_format xml; }
        location /try/ { try_files $uri $uri/ /a.css; }
        location /tryalias/ { alias {root}/d/; try_files $uri x.css =404; }
        location /tryre/ { try_files $uri @other; }
        location @other { return 200 "other $uri"; }
        location /gz/ { gzip_static on; gzip_vary on; }
        location /gzalways/ { alias {root}/gz/; gzip_static always; gzip_vary on; }
        location /nolinks/ { alias {root}/links/; disable_symlinks on from={root}; }
        location /links/ { }
        location /noetag/ { alias {root}/d/; etag off; }
        location /noranges/ { alias {root}/d/; max_ranges 0; }
        location /oneset/ { alias {root}/d/; max_ranges 1; }
        location /before/ { alias {root}/d/; if_modified_since before; }
        location /off/ { alias {root}/d/; if_modified_since off; }
        location /page/ { error_page 404 /sorry.html; }
        location /pageok/ { error_page 404 =200 /sorry.html; }
        location /page405/ { error_page 405 =200 $uri; }
        location /away/ { index no.html /a.css; }
        location /notype/ { alias {root}/d/; types { } default_type ""; }
        location = /dir2/index.html { return 200 "took over"; }
        location /gzip/ { alias {root}/; gzip on; gzip_types *; gzip_min_length 1; gzip_vary on; }
    } }"#;

/// 1994-11-06 08:49:37 UTC.
const MODIFIED: u64 = 784_111_777;
const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

fn write(root: &Path, name: &str, content: impl AsRef<[u8]>) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED)).unwrap();
}

fn fill(root: &Path) {
    fs::set_permissions(root, fs::Permissions::from_mode(0o755)).unwrap();
    let big: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    for (name, content) in [
        ("index.html", "<p>index</p>"),
        ("a.css", "a{}"),
        ("sorry.html", "sorry"),
        ("d/x.css", "0123456789"),
        ("d/UPPER.HTML", "upper"),
        ("d/noext", "none"),
        ("d/sub/first.html", "first"),
        ("d/sp ace?.html", "odd name"),
        ("dir2/index.html", "not this"),
        ("bare/x", "x"),
        ("list/b.txt", "bb"),
        ("list/a & <b>.html", "odd"),
        ("list/a_name_that_is_so_long_that_the_listing_has_no_room_for_all_of_it.txt", "long"),
        ("list/.hidden", "hidden"),
        ("list/sub/x", "x"),
        ("try/file.css", "tried"),
        ("try/folder/index.html", "folder"),
        ("gz/a.css", "plain"),
        ("gz/a.css.gz", "not really gzip"),
        ("gz/b.css", "plain only"),
        ("links/real/x.css", "real"),
        ("page405/x.css", "posted"),
        ("away/other", "x"),
    ] {
        write(root, name, content);
    }
    write(root, "big", big);
    write(root, "empty.html", "");
    write(root, "list/large.bin", vec![b'x'; 123_456]);
    symlink("real", root.join("links/link")).unwrap();
    symlink("nowhere", root.join("links/dead")).unwrap();
    for folder in ["list/sub", "list"] {
        File::open(root.join(folder))
            .unwrap()
            .set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED))
            .unwrap();
    }
}

fn requests() -> Vec<Request> {
    let get = Request::get;
    let ranged = |value: &str| get("/d/x.css").header("Range", value);
    let tag = format!("\"{MODIFIED:x}-a\"");
    let mut all: Vec<Request> = [
        "/",
        "/index.html",
        "/a.css",
        "/a.css?x=1",
        "/big",
        "/empty.html",
        "/none",
        "/d",
        "/d?x=1",
        "/d/",
        "/d/sub",
        "/d/sub/",
        "/d/UPPER.HTML",
        "/d/noext",
        "/d/sp%20ace%3f.html",
        "/dir2",
        "/dir2/",
        "/bare/",
        "/nothere/",
        "/a.css/",
        "/a.css/x",
        "/alias/x.css",
        "/alias/sub",
        "/alias/sub/",
        "/alias/",
        "/alias/none",
        "/imgx.css",
        "/re/x.css",
        "/re/none",
        "/list",
        "/list/",
        "/short/",
        "/json/",
        "/jsonp/",
        "/jsonp/?callback=a.b_1",
        "/jsonp/?callback=a%3Cb",
        "/xml/",
        "/list/none",
        "/try/file.css",
        "/try/folder",
        "/try/folder/",
        "/try/none",
        "/tryalias/x.css",
        "/tryalias/none",
        "/tryre/x?y",
        "/gz/a.css",
        "/gz/b.css",
        "/gzalways/a.css",
        "/links/link/x.css",
        "/nolinks/real/x.css",
        "/links/dead",
        "/noetag/x.css",
        "/noranges/x.css",
        "/page/none",
        "/pageok/none",
        "/away/",
        "/notype/x.css",
        "/d//x.css",
        "/d/../a.css",
        "/d/./x.css",
        "/%61.css",
        "/a.css%20",
        "/gzip/d/x.css",
    ]
    .into_iter()
    .map(get)
    .collect();
    all.extend(
        [
            "bytes=0-0",
            "bytes=2-4",
            "bytes=7-",
            "bytes=-2",
            "bytes=-100",
            "bytes=5-100",
            "bytes=10-",
            "bytes=-0",
            "bytes=0-1,3-4",
            "bytes=0-1, 8-",
            "bytes=0-1,20-",
            "bytes=20-,30-",
            "bytes=0-,0-",
            "items=0-1",
            "bytes=0-9",
            "bytes=,",
            "bytes=5-4",
            "bytes=5-4,0-1",
            "bytes=a-b",
            "bytes=0-0,a",
            "bytes=0-0, ,2-2",
            "bytes= 0 - 1 , 3-4",
        ]
        .map(ranged),
    );
    all.push(get("/empty.html").header("Range", "bytes=0-1"));
    all.push(get("/empty.html").header("Range", "bytes=-1"));
    all.extend([
        Request::head("/"),
        Request::head("/d/x.css"),
        Request::head("/none"),
        Request::head("/list/"),
        Request::head("/d"),
        Request::post("/a.css", "x"),
        Request::post("/none", "x"),
        Request::post("/", "x"),
        Request::post("/page405/x.css", "x"),
        Request::new("DELETE", "/a.css"),
        Request::new("PUT", "/"),
        get("/gz/a.css").header("Accept-Encoding", "gzip"),
        get("/gz/b.css").header("Accept-Encoding", "gzip"),
        get("/gz/a.css").header("Accept-Encoding", "gzip;q=0"),
        get("/gz/a.css").header("Accept-Encoding", "gzip").header("Range", "bytes=0-2"),
        get("/d/x.css").header("If-None-Match", &tag),
        get("/d/x.css").header("If-None-Match", &format!("\"a\", W/{tag}")),
        get("/d/x.css").header("If-None-Match", "*"),
        get("/d/x.css").header("If-None-Match", "\"other\""),
        get("/noetag/x.css").header("If-None-Match", &tag),
        get("/d/x.css").header("If-Modified-Since", DATE),
        get("/d/x.css").header("If-Modified-Since", "Sun, 06 Nov 1994 08:49:38 GMT"),
        get("/before/x.css").header("If-Modified-Since", "Sun, 06 Nov 1994 08:49:38 GMT"),
        get("/off/x.css").header("If-Modified-Since", DATE),
        get("/d/x.css").header("If-Modified-Since", "nonsense"),
        get("/d/x.css").header("If-Match", &tag),
        get("/d/x.css").header("If-Match", "\"other\""),
        get("/d/x.css").header("If-Unmodified-Since", DATE),
        get("/d/x.css").header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:01 GMT"),
        get("/none").header("If-None-Match", "*"),
        get("/page/none").header("If-None-Match", "*"),
        get("/page/none").header("Range", "bytes=0-1"),
        get("/pageok/none").header("Range", "bytes=0-1"),
        ranged("bytes=0-1").header("If-Range", &tag),
        ranged("bytes=0-1").header("If-Range", "\"other\""),
        ranged("bytes=0-1").header("If-Range", DATE),
        ranged("bytes=0-1").header("If-Range", "Sun, 06 Nov 1994 08:49:38 GMT"),
        get("/noranges/x.css").header("Range", "bytes=0-1"),
        get("/oneset/x.css").header("Range", "bytes=0-1"),
        get("/oneset/x.css").header("Range", "bytes=0-1,3-4"),
        get("/big").header("Range", "bytes=100000-299999"),
        get("/big").header("Range", "bytes=0-9,200000-200009"),
        get("/gzip/big").header("Accept-Encoding", "gzip"),
        get("/gzip/d/x.css").header("Accept-Encoding", "gzip"),
    ]);
    all
}

/// What is compared: the status, fields by name, and the body where it is not a page about an error.
fn told(response: &Response, port: &str) -> (u16, BTreeMap<String, Vec<String>>, Vec<u8>) {
    let boundary = response
        .header("Content-Type")
        .and_then(|value| value.strip_prefix("multipart/byteranges; boundary="));
    let boundary = boundary.unwrap_or("\n").to_owned();
    let is_page = response.status >= 300 && response.header("ETag").is_none();
    let mut fields: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in &response.headers {
        let name = name.to_ascii_lowercase();
        // The moment and the program differ. Pages about errors differ in length, for they name the program.
        if matches!(&*name, "date" | "server") || (name == "content-length" && is_page) {
            continue;
        }
        // HTTP/1.1 keeps connections without saying so; nginx says so.
        if name == "connection" && value == "keep-alive" {
            continue;
        }
        fields.entry(name).or_default().push(value.replace(port, "PORT").replace(&boundary, "BOUNDARY"));
    }
    let coded =
        response.header("Content-Encoding").is_some() && response.header("Transfer-Encoding").is_some();
    let body = if is_page || coded {
        Vec::new()
    } else if response.text().contains(&boundary) && boundary != "\n" {
        response.text().replace(&boundary, "BOUNDARY").into_bytes()
    } else {
        response.body.clone()
    };
    (response.status, fields, body)
}

fn ask(proxy: &Running, request: &Request) -> (u16, BTreeMap<String, Vec<String>>, Vec<u8>) {
    let response = Client::connect(proxy).request(&request.clone().host("example.test"));
    told(&response, &proxy.port().to_string())
}

fn ours_alone(ours: &Running) {
    Client::connect(ours).get("/nolinks/link/x.css").expect_status(403);
    // RFC 9110 §14.2: a range of a HEAD is not looked at.
    let head = Request::head("/d/x.css").header("Range", "bytes=0-1");
    Client::connect(ours).request(&head).expect_status(200).expect_header("Content-Length", "10");
    // An alias cut short must not lead out of its folder.
    Client::connect(ours).get("/img../a.css").expect_status(404);
}

both_drivers! {
    fn same_as_nginx(io: Io) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fill(&root);
        let text = CONF.replace("{root}", root.to_str().unwrap());
        let (ours, theirs) = (Proxy::nginx(&text).io(io).start(), Proxy::nginx(&text).by_rival().start());
        let mut differences = String::new();
        for request in requests() {
            let (mut us, mut them) = (ask(&ours, &request), ask(&theirs, &request));
            // RFC 9110 §15.5.6: a 405 says what is allowed; nginx does not.
            if us.0 == 405 {
                us.1.remove("allow");
            }
            // A listing's length is known to Weir.
            if !them.1.contains_key("content-length") {
                us.1.remove("content-length");
                us.1.remove("transfer-encoding");
                them.1.remove("transfer-encoding");
            }
            if us != them {
                let shown = String::from_utf8_lossy(&request.bytes()).lines().next().unwrap_or_default().to_owned();
                let cut = |body: &[u8]| String::from_utf8_lossy(&body[..body.len().min(400)]).into_owned();
                differences += &format!(
                    "{shown}\n  ours:   {} {:?} {:?}\n  theirs: {} {:?} {:?}\n\n",
                    us.0, us.1, cut(&us.2), them.0, them.1, cut(&them.2)
                );
            }
        }
        // nginx gives 404 where a folder on the way is a link, by what its kernel call says.
        ours_alone(&ours);
        assert!(differences.is_empty(), "{differences}");
    }
}
