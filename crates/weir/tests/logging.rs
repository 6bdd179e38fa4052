//! Access logs and error logs as nginx writes them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_testkit::process::UnixSignal;
use weir_testkit::{Client, Io, Origin, Proxy, Request, both_drivers, eventually};

both_drivers! {
    fn a_head_that_never_ends_is_logged_by_its_first_line(io: Io) {
        let proxy = Proxy::nginx(
            "events {} http { log_format l '\"$request\" $status $request_length'; client_header_timeout 200ms; \
             server { listen 127.0.0.1:{port}; access_log {dir}/a.log l; return 200 ok; } }",
        ).io(io).start();
        let mut client = Client::connect(&proxy);
        client.send("GET /slow HTTP/1.1\r\nHost: a\r\nX-");
        client.expect_closed();
        proxy.wait_for_file("a.log", "\"GET /slow HTTP/1.1\" 408 31\n");
    }

    fn combined_and_custom_formats(io: Io) {
        let origin = Origin::named("a", "four");
        let proxy = Proxy::nginx(&format!(
            "worker_processes 1; events {{}} http {{
             log_format short '$request_method|$uri|$args|$status|$body_bytes_sent|$http_x_tag|$upstream_addr|$upstream_status|$scheme|$host';
             log_format j escape=json '{{\"tag\":\"$http_x_tag\",\"status\":$status}}';
             server {{ listen 127.0.0.1:{{port}}; access_log {{dir}}/combined.log; access_log {{dir}}/short.log short; access_log {{dir}}/j.log j;
             location / {{ proxy_pass http://{origin}; }} location = /no {{ return 404; }} }} }}"
        )).io(io).start();
        let mut client = Client::connect(&proxy);
        client.request(&Request::get("/a?b=c").host("h.test").header("X-Tag", "q\"t").header("User-Agent", "kit").header("Referer", "http://r/"));
        client.get("/no").expect_status(404);
        let short = proxy.wait_for_file("short.log", "/no|");
        let first = short.lines().next().unwrap();
        assert_eq!(first, format!("GET|/a|b=c|200|4|q\\x22t|{origin}|200|http|h.test"));
        let combined = proxy.wait_for_file("combined.log", "\"GET /no HTTP/1.1\" 404");
        let first = combined.lines().next().unwrap();
        assert!(first.starts_with("127.0.0.1 - - ["), "{first}");
        assert!(first.ends_with("] \"GET /a?b=c HTTP/1.1\" 200 4 \"http://r/\" \"kit\""), "{first}");
        let json = proxy.wait_for_file("j.log", "404");
        assert_eq!(json.lines().next().unwrap(), "{\"tag\":\"q\\\"t\",\"status\":200}");
    }

    fn logs_are_reopened_for_rotation(io: Io) {
        let mut proxy = Proxy::nginx(
            "worker_processes 1; events {} http { access_log {dir}/a.log; server { listen 127.0.0.1:{port}; location / { return 200 ok; } } }",
        ).io(io).start();
        let mut client = Client::connect(&proxy);
        client.get("/before").expect_body("ok");
        proxy.wait_for_file("a.log", "/before");
        std::fs::rename(proxy.dir().join("a.log"), proxy.dir().join("a.log.1")).unwrap();
        proxy.process().signal(UnixSignal::USR1);
        eventually("the new file", || proxy.dir().join("a.log").exists().then_some(()));
        eventually("requests in the new file", || {
            client.get("/after").expect_body("ok");
            std::fs::read_to_string(proxy.dir().join("a.log")).ok().filter(|l| l.contains("/after"))
        });
        let old = std::fs::read_to_string(proxy.dir().join("a.log.1")).unwrap();
        assert!(old.contains("/before"));
    }

    fn failures_upstream_are_told(io: Io) {
        let dead = weir_testkit::Port::lease();
        let proxy = Proxy::nginx(&format!(
            "worker_processes 1; error_log {{dir}}/error.log warn; events {{}} http {{ access_log off;
             server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://127.0.0.1:{dead}; }} }} }}"
        )).io(io).start();
        Client::connect(&proxy).get("/").expect_status(502);
        let log = proxy.wait_for_file("error.log", &dead.to_string());
        assert!(log.contains("[error]"), "{log}");
    }
}
