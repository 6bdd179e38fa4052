//! `fcgi-app` sections: what applications behind FastCGI are told, the same file and the same requests to Weir and to Debian's haproxy.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use weir_testkit::{Client, Io, Proxy, Request, Running, both_drivers, programs};

/// An application that answers with the parameters it was told, one a line, in order of names; and whether it was asked to keep the
/// connection. What the request's body says comes last.
fn application() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for conn in listener.incoming() {
            std::thread::spawn(move || while answer(conn.as_ref().unwrap()).is_some() {});
        }
    });
    address
}

fn answer(mut conn: &TcpStream) -> Option<()> {
    let (mut params, mut body, mut keep, mut id) = (Vec::new(), Vec::new(), false, [0, 1]);
    loop {
        let mut head = [0; 8];
        conn.read_exact(&mut head).ok()?;
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let mut content = vec![0; length + usize::from(head[6])];
        conn.read_exact(&mut content).ok()?;
        content.truncate(length);
        match head[1] {
            1 => (keep, id) = (content[2] & 1 == 1, [head[2], head[3]]),
            4 => params.extend(content),
            5 if length == 0 => break,
            5 => body.extend(content),
            // The values that a gateway asks for: none.
            9 => conn.write_all(&[1, 10, 0, 0, 0, 0, 0, 0]).ok()?,
            _ => {}
        }
    }
    let mut lines = Vec::new();
    let mut rest = &params[..];
    while !rest.is_empty() {
        let mut length = || {
            let (&first, after) = rest.split_first().unwrap();
            if first < 128 {
                rest = after;
                return usize::from(first);
            }
            let number = u32::from_be_bytes(rest[..4].try_into().unwrap()) & 0x7fff_ffff;
            rest = &rest[4..];
            number as usize
        };
        let (name, value) = (length(), length());
        let (pair, after) = rest.split_at(name + value);
        let (name, value) = pair.split_at(name);
        lines.push(format!("{}={}\n", String::from_utf8_lossy(name), String::from_utf8_lossy(value)));
        rest = after;
    }
    lines.sort();
    let text = format!(
        "X-Accel-Redirect: /other\r\nContent-Type: text/plain\r\n\r\n{}keep={keep}\nbody={}",
        lines.concat(),
        String::from_utf8_lossy(&body)
    );
    let record = |kind: u8, content: &[u8]| {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[1, kind, id[0], id[1], length[0], length[1], 0, 0], content].concat()
    };
    conn.write_all(&[record(7, b"a complaint"), record(6, text.as_bytes()), record(3, &[0; 8])].concat())
        .ok()?;
    if keep { Some(()) } else { None }
}

/// What differs by design: who the software is, ports.
fn told(text: &str) -> String {
    let own = |line: &&str| {
        !["SERVER_SOFTWARE=", "SERVER_PORT=", "REMOTE_PORT="].iter().any(|name| line.starts_with(name))
    };
    text.lines().filter(own).map(|line| format!("{line}\n")).collect()
}

fn text(section: &str, server: &str) -> String {
    format!(
        "global\n nbthread 1\n log stdout format raw local0\n\
         defaults\n mode http\n log global\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
         frontend f\n bind 127.0.0.1:{{port}}\n http-request set-path /set%[path] if {{ path_beg /moved }}\n default_backend b\n\
         backend b\n use-fcgi-app app\n server s {server} proto fcgi\n\
         fcgi-app app\n{section}"
    )
}

fn both(io: Io, section: &str) -> [Running; 2] {
    let file = Proxy::haproxy(&text(section, &application().to_string()));
    [file.clone().io(io).start(), file.by_rival().start()]
}

both_drivers! {
    fn applications_are_told_the_same(io: Io) {
        let section = " docroot /srv/www\n log-stderr global\n index index.php\n path-info ^(/.+\\.php)(/.*)?$\n option get-values\n option max-reqs 1\n option mpxs-conns\n\
            acl secret path_beg /secret\n\
            set-param ONE %[path,upper]\n set-param two \"%[req.hdr(x-two)] and %[src]\"\n set-param SCRIPT_NAME /other.php if { path /other }\n\
            set-param REQUEST_URI /nothing unless { path_beg / }\n set-param FOUR four if secret\n set-param FOUR five unless secret\n set-param EMPTY %[req.hdr(none)]\n\
            set-param ROOT %[fcgi.docroot]/%[fcgi.index]\n\
            pass-header Authorization if secret\n pass-header X-Two\n";
        let proxies = both(io, section);
        for request in [
            Request::get("/"),
            Request::get("/a/?x=1&y=%20z"),
            Request::get("/a%20b/c.php/info/%2fmore?q"),
            Request::get("/script.php"),
            Request::get("/moved/x.php/y?z=1"),
            Request::get("/other").header("X-Two", "2").header("x_three", "3").header("Accept-Language", "de"),
            Request::get("/secret").header("Authorization", "Basic dXNlcjpwYXNz").header("Cookie", "a=b"),
            Request::get("/open").header("Authorization", "Basic dXNlcjpwYXNz").header("X-Multi", "1"),
            Request::post("/post.php", "some body").header("Content-Type", "text/x"),
            Request::get("/token").header("Authorization", "Bearer abc"),
        ] {
            let [ours, theirs] = [0, 1].map(|at: usize| {
                let response = Client::connect(&proxies[at]).request(&request).expect_status(200);
                response.expect_header("X-Accel-Redirect", "/other").expect_header("Content-Type", "text/plain").text()
            });
            assert_eq!(told(&ours), told(&theirs), "{request:?}");
        }
        // What the decoded path would climb by is told to nobody.
        Client::connect(&proxies[0]).get("/a/..%2f..%2fb.php").expect_status(404);
        proxies[0].wait_for_log("a complaint");
    }

    fn connections_are_kept_unless_the_section_says_otherwise(io: Io) {
        for (section, kept) in [(" docroot /w\n", true), (" docroot /w\n no option keep-conn\n", false)] {
            for proxy in both(io, section) {
                let mut client = Client::connect(&proxy);
                for _ in 0..3 {
                    let said = client.get("/").expect_status(200).text();
                    assert!(said.contains(&format!("\nkeep={kept}\n")), "{said}");
                }
                assert!(!proxy.logs().contains("a complaint"), "{}", proxy.logs());
            }
        }
    }

    fn php_answers(io: Io) {
        let dir = tempfile::tempdir().unwrap();
        let php = dir.path().join("php.sock");
        let script = "<?php echo $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['PATH_INFO'] ?? '', ' ', $_SERVER['QUERY_STRING'] ?? '', ' ', file_get_contents('php://input');";
        std::fs::write(dir.path().join("index.php"), script).unwrap();
        let _php = programs::php_fpm(dir.path());
        let section = format!(" docroot {}\n index index.php\n path-info ^(/.+\\.php)(/.*)?$\n", dir.path().display());
        let file = Proxy::haproxy(&text(&section, &format!("unix@{}", php.display())));
        for (proxy, who) in [(file.clone().io(io).start(), "weir"), (file.by_rival().start(), "haproxy")] {
            let mut client = Client::connect(&proxy);
            assert_eq!(client.get("/").expect_status(200).text(), "/index.php   ", "{who}");
            assert_eq!(client.get("/index.php/more?a=b").text(), "/index.php /more a=b ", "{who}");
            assert_eq!(client.request(&Request::post("/index.php", "body")).text(), "/index.php   body", "{who}");
            client.get("/none.php").expect_status(404);
        }
    }
}

#[test]
fn what_cannot_be_is_said() {
    for (section, expected) in [
        (" index x\n", "has no docroot"),
        (" docroot /\n set-param A %[nothing]\n", "nothing"),
        (" docroot /\n set-param A b if none\n", "no ACL is named `none`"),
        (" docroot /\n option speed\n", "speed"),
        (" docroot /\n set-parm A b\n", "set-param"),
        (
            " docroot /\nbackend c\n server s 127.0.0.1:9 proto fcgi\nfrontend g\n bind 127.0.0.1:{port_g}\n default_backend c\n",
            "no application is named",
        ),
        (
            " docroot /\nbackend c\n use-fcgi-app ap\n server s 127.0.0.1:9 proto fcgi\nfrontend g\n bind 127.0.0.1:{port_g}\n default_backend c\n",
            "no fcgi-app is named `ap`",
        ),
    ] {
        let (status, said) = Proxy::haproxy(&text(section, "127.0.0.1:9")).check();
        assert!(status != 0 && said.contains(expected), "{section}: {said}");
    }
}
