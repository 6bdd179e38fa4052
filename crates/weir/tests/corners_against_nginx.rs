//! Corners of many modules: the same configuration, asked the same of Weir and of Debian's nginx.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod beside;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use beside::{Named, agree, conf, start};
use weir_testkit::{Client, Io, Origin, Request, Running, both_drivers, eventually};

const FILES: &[Named<'static>] =
    &[("f.txt", b"0123456789"), ("ai/a:b", b"x"), ("ai/q'uote\".t?x(1)!*", b"y"), ("ai/sub/z", b"z")];

fn get(path: &str) -> Request {
    Request::get(path)
}

/// An application that answers each request with the records of `answer`, and closes the connection.
fn application(answer: fn(&str) -> Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for conn in listener.incoming() {
            let mut conn = conn.unwrap();
            std::thread::spawn(move || {
                let path = parameters(&mut conn).unwrap_or_default();
                // Who was asked for nothing more may have left.
                let _ = conn.write_all(&answer(path.rsplit('/').next().unwrap_or_default()));
            });
        }
    });
    address
}

/// Reads a request to its end: the value of its only parameter.
fn parameters(conn: &mut TcpStream) -> Option<String> {
    let mut value = String::new();
    loop {
        let mut head = [0; 8];
        conn.read_exact(&mut head).ok()?;
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let mut content = vec![0; length + usize::from(head[6])];
        conn.read_exact(&mut content).ok()?;
        match head[1] {
            // One byte for each length, then the name, `P`.
            4 if length > 0 => {
                let end = 3 + usize::from(content[1]);
                value = String::from_utf8_lossy(&content[3..end]).into_owned();
            }
            5 if length == 0 => return Some(value),
            _ => {}
        }
    }
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[1, kind, 0, 1, length[0], length[1], 0, 0], content].concat()
}

fn stdout(text: &str) -> Vec<u8> {
    record(6, text.as_bytes())
}

/// The lines of a log once there are so many.
fn log(running: &Running, lines: usize) -> Vec<String> {
    let path = running.dir().join("log");
    eventually("the log", || {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let all: Vec<String> =
            text.lines().map(|line| line.replace(&*running.dir().to_string_lossy(), "DIR")).collect();
        (all.len() >= lines).then_some(all)
    })
}

both_drivers! {
    /// What a method is, and which fields a request has once.
    fn heads(io: Io) {
        let two = |name: &str, one: &str, other: &str| get("/").header(name, one).header(name, other);
        let told = agree(io, &conf("", "location / { return 200 $request_method; } location /f.txt { }"), FILES, &[
            Request::new("get", "/"),
            Request::new("Get", "/"),
            Request::new("GET1", "/"),
            Request::new("M-SEARCH", "/"),
            Request::new("A_B", "/"),
            two("If-Modified-Since", "a", "b"),
            two("If-Unmodified-Since", "a", "b"),
            two("If-Match", "a", "b"),
            two("If-None-Match", "a", "b"),
            two("If-Range", "a", "b"),
            two("Expect", "a", "b"),
            two("Authorization", "a", "b"),
            two("User-Agent", "a", "b"),
            two("Referer", "a", "b"),
            two("Content-Type", "a", "b"),
            two("Accept-Encoding", "a", "b"),
            Request::new("POST", "/").header("Transfer-Encoding", "identity"),
            Request::new("POST", "/").header("Transfer-Encoding", "gzip"),
            get("/f.txt").header("Range", "bytes="),
            get("/f.txt").header("Range", "bytes=0-1").header("Range", "bytes=2-3"),
        ]);
        assert!(told[0].starts_with("400") && told[3].starts_with("200"), "{told:?}");
    }

    /// A body that nobody asked for is taken all the same, and the connection goes on.
    fn bodies_behind_an_expectation(io: Io) {
        let text = conf("", "location / { return 200 $request_method; } location /f.txt { }");
        let (weir, nginx) = (start(io, &text, FILES, false), start(io, &text, FILES, true));
        let ask = |running: &Running, path: &str| {
            let mut client = Client::connect(running);
            client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"));
            let first = client.read();
            client.send("hello").send(get("/").bytes());
            (first.status, first.interim.len(), first.header("Connection").map(str::to_owned), client.read().text())
        };
        for path in ["/", "/f.txt"] {
            let ours = ask(&weir, path);
            assert_eq!(ours, ask(&nginx, path), "{path}");
            assert_eq!(ours.3, "GET");
        }
    }

    /// The program of a location, and what blocks in it do to one another.
    fn programs_of_locations(io: Io) {
        let up = Origin::script(|c| c.keep_answering(200, &[("Cache-Control", "public"), ("Cache-Control", "x"), ("Expires", "y"),
            ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT"), ("Set-Cookie", "a=1;path=/old;Domain=a.test"),
            ("Set-Cookie", "bare; path=/old"), ("Set-Cookie", "b=2;Max-Age=3"), ("Content-Type", "text/html")], "up"));
        let server = format!("
            location /except {{ limit_except GET {{ deny all; }} return 200 x; }}
            location /exceptall {{ limit_except GET {{ allow all; }} set $v 1; if ($v) {{ return 200 x; }} proxy_pass http://{up}; }}
            location /ifs {{ add_header X-A a; if ($arg_a) {{ add_header X-B b; }} if ($arg_b) {{ return 204; }}
                if ($arg_c) {{ break; }} if ($arg_d) {{ set $v 1; }} return 200 x; }}
            location /deep {{ recursive_error_pages on; error_page 404 = @one; return 404; }}
            location /once {{ error_page 404 = @one; return 404; }}
            location @one {{ error_page 403 = @two; return 403; }}
            location @two {{ return 200 \"two $status\"; }}
            location /expires {{ expires $arg_e; proxy_pass http://{up}; }}
            location /fixed {{ expires 10; proxy_pass http://{up}; }}
            location /cookies {{ proxy_cookie_path /old /new; proxy_cookie_domain a.test b.test; proxy_pass http://{up}; }}
            location /ai/ {{ autoindex on; }}
            location /rate {{ set $limit_rate 5000; return 200 $limit_rate; }}
            location /forced {{ proxy_force_ranges on; proxy_pass http://{up}; }}
            location /rates {{ limit_rate 1m; return 200 x; }}
            location /limited {{ limit_req zone=z; try_files /none @said; }}
            location @said {{ return 200 \"[$limit_req_status]\"; }}
            location /gz/ {{ gzip on; gzip_min_length 1; gzip_types *; alias {{dir}}/; }}");
        let text = conf("limit_req_zone $arg_k zone=z:1m rate=100r/s;", &server);
        let mut requests = vec![
            get("/except"), Request::head("/except"), Request::post("/except", "x"), Request::new("DELETE", "/except"),
            get("/exceptall"), Request::post("/exceptall", "x"),
            get("/deep"), get("/once"), get("/cookies"), get("/fixed"), get("/rate"), get("/rates"),
            get("/forced"), get("/forced").header("Range", "bytes=0-0"),
            get("/limited?k=a"), get("/limited"),
        ];
        requests.extend(["", "?a=1", "?b=1", "?a=1&b=1", "?a=1&c=1", "?a=1&d=1", "?c=1&a=1"].map(|q| get(&format!("/ifs{q}"))));
        requests.extend(["off", "", "epoch", "max", "1h2m", "1y1M1w1d1h1m1s", "90", "-1h", "0", "1m1h", "5x", "m"].map(|e| get(&format!("/expires?e={e}"))));
        requests.extend(["gzip;q=2", "gzip;q=1.0001", "gzip;q=.5", "gzip;q=0.001", "gzip;q=0", "gzip;q=1"].map(|q|
            Request::head("/gz/f.txt").header("Accept-Encoding", q)));
        // A second may pass between the two: of times only the day is compared.
        let untimed = |told: String| told.split("; ").map(|field| if field.starts_with("expires: ") { &field[..field.len().min(25)] } else { field })
            .collect::<Vec<_>>().join("; ");
        let told: Vec<String> = agree(io, &text, FILES, &requests).into_iter().map(untimed).collect();
        assert!(told[2].starts_with("403") && told[0].starts_with("200"), "{told:?}");
        assert!(told[6].contains("two") && told[7].starts_with("403"), "{told:?}");
    }

    /// Links of a listing: its framing differs, and so does the place of what follows names of several bytes.
    fn links_of_listings(io: Io) {
        let text = conf("", "location /ai/ { autoindex on; }");
        let (weir, nginx) = (start(io, &text, FILES, false), start(io, &text, FILES, true));
        let links = |running: &Running| {
            let page = Client::connect(running).get("/ai/").text();
            page.lines().filter_map(|line| Some(line.split_once("<a href=")?.1.split_once("</a>")?.0.to_owned())).collect::<Vec<_>>()
        };
        assert_eq!(links(&weir), links(&nginx));
    }

    /// Log variables about lengths, and about a unix socket.
    fn what_logs_say(io: Io) {
        let up = Origin::named("up", "up");
        let http = "log_format l '$request|$status|$request_length|$sent_http_content_length|$server_addr|$server_port|$uri';";
        let server = format!("access_log {{dir}}/log l; listen unix:{{dir}}/sock; location /up {{ proxy_pass http://{up}; }} location /u/ {{ proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_pass http://unix:{{dir}}/sock:/; access_log off; }}
            location / {{ return 200 text; }} location /f.txt {{ }}");
        let text = conf(http, &server);
        let said = |running: &Running| {
            for request in [get("/a"), get("/f.txt"), get("/u/b"), Request::post("/up", "hello"), Request::post("/up", "hello").chunked(), get("/none%zz")] {
                Client::connect(running).request(&request);
            }
            let mut cut = Client::connect(running);
            cut.send("GET /cu").half_close();
            cut.expect_closed();
            let port = running.port().number().to_string();
            log(running, 7).into_iter().map(|line| line.replace(&port, "PORT")).collect::<Vec<_>>()
        };
        let (ours, theirs) = (said(&start(io, &text, FILES, false)), said(&start(io, &text, FILES, true)));
        // The length of an error page tells the program's name; nginx shows the path of a request that is none as empty.
        let same = |lines: Vec<String>| lines.into_iter().map(|line| if line.contains("|400|") { line.split('|').take(2).collect::<Vec<_>>().join("|") } else { line }).collect::<Vec<_>>();
        assert_eq!(same(ours), same(theirs));
    }

    /// What the kernel tells of a connection: the same of both, but for what it measures.
    fn figures_of_tcp(io: Io) {
        let server = "listen unix:{dir}/sock; location / { return 200 \"$tcpinfo_rtt|$tcpinfo_rttvar|$tcpinfo_snd_cwnd|$tcpinfo_rcv_space\"; }
            location /unix/ { proxy_pass http://unix:{dir}/sock:/; }";
        let text = conf("", server);
        let told = |rival: bool| {
            let running = start(io, &text, FILES, rival);
            let figures = Client::connect(&running).get("/").text();
            let figures: Vec<u32> = figures.split('|').map(|figure| figure.parse().unwrap()).collect();
            assert!(figures[0] < 1_000_000 && figures[1] < 1_000_000, "{figures:?}");
            (figures[2], figures[3], Client::connect(&running).get("/unix/").text())
        };
        let ours = told(false);
        assert_eq!(ours, told(true));
        assert!(ours.0 > 0 && ours.1 > 0 && ours.2 == "|||", "{ours:?}");
    }

    /// Applications that end in their own ways.
    fn fastcgi_ends(io: Io) {
        const HEAD: &str = "Content-Type: text/plain\r\n\r\nhello";
        let application = application(|asked| match asked {
            "whole" => [stdout(HEAD), stdout(""), record(3, &[0; 8])].concat(),
            "unended" => [stdout(HEAD), stdout("")].concat(),
            "overloaded" => [stdout(HEAD), record(3, &[0, 0, 0, 1, 2, 0, 0, 0])].concat(),
            "nothing" => record(3, &[0, 0, 0, 0, 2, 0, 0, 0]),
            "long" => [stdout("Content-Length: 3\r\n\r\nhello"), record(3, &[0; 8])].concat(),
            _ => Vec::new(),
        });
        let text = conf("", &format!("location / {{ fastcgi_pass {application}; fastcgi_param P $uri; fastcgi_pass_request_headers off; }}"));
        let requests = ["/whole", "/unended", "/overloaded", "/nothing", "/long", "/silent"].map(get);
        let (weir, nginx) = (start(io, &text, FILES, false), start(io, &text, FILES, true));
        for request in &requests {
            let asked = |running: &Running| {
                let response = Client::connect(running).request(request);
                (response.status, if response.status == 200 { response.text() } else { String::new() })
            };
            assert_eq!(asked(&weir), asked(&nginx), "{request:?}");
        }
    }
}
