//! Answers of rules that are in files: the same file and the same requests, to Weir and to Debian's haproxy.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_testkit::{Client, Io, Proxy, Request, Running, both_drivers};

const DEFAULTS: &str = "global\n nbthread 1\n\
     defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n";

const RULES: &str = "http-errors own\n errorfile 404 {dir}/none.http\n\
     frontend f\n bind 127.0.0.1:{port}\n\
     http-request return errorfile {dir}/busy.http if { path /busy }\n\
     http-request return status 404 errorfile {dir}/busy.http if { path /busy/404 }\n\
     http-request return status 200 content-type text/plain lf-file {dir}/text.lf if { path_beg /text }\n\
     http-request return status 404 errorfiles own if { path /own }\n\
     http-request return status 503 errorfiles own if { path /own/503 }\n\
     http-request deny deny_status 429 errorfile {dir}/busy.http if { path /deny }\n\
     http-request deny deny_status 404 errorfiles own if { path /deny/own }\n\
     http-request deny deny_status 503 errorfiles own if { path /deny/own/503 }\n\
     http-request deny deny_status 403 content-type text/plain lf-file {dir}/text.lf if { path /deny/text }\n";

fn each(io: Io, case: impl Fn(&Running, &str)) {
    let proxy = Proxy::haproxy(&format!("{DEFAULTS}{RULES}"))
        .file("busy.http", "HTTP/1.0 503 Busy\r\nCache-Control: no-cache\r\nContent-Type: text/plain\r\nX-Page: busy\r\n\r\nbusy\n")
        .file("none.http", "HTTP/1.1 404 Nothing\r\nContent-Type: text/html\r\nContent-Length: 8\r\n\r\nnothing\n")
        .file("text.lf", "%[path] from %ci says %[req.hdr(x-a)]\n100%% done\n");
    case(&proxy.clone().io(io).start(), "weir");
    case(&proxy.by_rival().start(), "haproxy");
}

both_drivers! {
    fn answers_come_from_files(io: Io) {
        each(io, |proxy, name| {
            let ask = |target: &str| {
                let answer = Client::connect(proxy).request(&Request::get(target).header("X-A", "hello"));
                let field = |name: &str| answer.header(name).unwrap_or("-").to_owned();
                let (kind, page) = (field("content-type"), field("x-page"));
                (answer.status, kind, page, answer.text())
            };
            let (text, html) = ("text/plain", "text/html");
            for (target, status, kind, page, body) in [
                ("/busy", 503, text, "busy", "busy\n"),
                ("/busy/404", 503, text, "busy", "busy\n"),
                ("/text/1", 200, text, "-", "/text/1 from 127.0.0.1 says hello\n100% done\n"),
                ("/own", 404, html, "-", "nothing\n"),
                ("/deny", 503, text, "busy", "busy\n"),
                ("/deny/own", 404, html, "-", "nothing\n"),
                ("/deny/text", 403, text, "-", "/deny/text from 127.0.0.1 says hello\n100% done\n"),
            ] {
                assert_eq!(ask(target), (status, kind.into(), page.into(), body.into()), "{name}: {target}");
            }
            // A section that has no page for the status.
            for target in ["/own/503", "/deny/own/503"] {
                assert_eq!(ask(target), (503, "-".into(), "-".into(), String::new()), "{name}: {target}");
            }
        });
    }
}

#[test]
fn files_that_cannot_be_read_are_named() {
    for (rule, wanted) in [
        ("lf-file /nowhere/x", "`/nowhere/x` cannot be read"),
        ("errorfile /nowhere/x", "/nowhere/x"),
        ("errorfiles nobody", "there is no section `http-errors nobody`"),
    ] {
        let file = format!(
            "{DEFAULTS}frontend f\n bind 127.0.0.1:{{port}}\n http-request return status 404 {rule}\n"
        );
        let (code, told) = Proxy::haproxy(&file).check();
        assert!(code != 0 && told.contains(wanted), "{rule}: {told}");
    }
}
