//! Built-in pages: what they are told of a request, and what they refuse.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod in_process;

use in_process::{Running, haproxy_plan};
use weir_testkit::{Client, Io, Proxy, Request, both_drivers};

const STATS: &str = "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n\
    frontend f\n bind 127.0.0.1:{port}\n stats enable\n stats uri /stats\n";

both_drivers! {
    fn a_page_is_told_the_method_and_the_body(io: Io) {
        let (_running, port) = Running::with(io, STATS, haproxy_plan);
        let mut client = Client::connect(&port);
        client.request(&Request::post("/stats?a", "s=web1&action=drain")).expect_body("POST /stats?a s=web1&action=drain");
        client.request(&Request::post("/stats", "in pieces").chunked()).expect_body("POST /stats in pieces");
        client.request(&Request::new("DELETE", "/stats")).expect_body("DELETE /stats ");
        // The body of a GET means nothing: nobody waits for it.
        let mut early = Client::connect(&port);
        early.send("GET /stats HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
        early.read().expect_body("GET /stats ");
        early.send("12345");
        early.get("/stats").expect_body("GET /stats ");
        // A page is no store.
        let body = |bytes: usize| "x".repeat(bytes);
        client.request(&Request::post("/stats", body(64 << 10))).expect_body(format!("POST /stats {}", body(64 << 10)));
        Client::connect(&port).request(&Request::post("/stats", body((64 << 10) + 1))).expect_status(413);
        Client::connect(&port).request(&Request::post("/stats", body((64 << 10) + 1)).chunked()).expect_status(413);
    }

    fn methods_that_pages_do_not_have_are_refused_as_before(io: Io) {
        let text = "worker_processes 1; events {} http { access_log off; server { listen 127.0.0.1:{port}; location /stub { stub_status; } } }";
        let ours = Proxy::nginx(text).io(io);
        for proxy in [ours.start(), ours.by_rival().start()] {
            let mut client = Client::connect(&proxy);
            assert!(client.get("/stub").expect_status(200).text().starts_with("Active connections: "));
            client.request(&Request::post("/stub", "x")).expect_status(405);
            Client::connect(&proxy).request(&Request::new("DELETE", "/stub")).expect_status(405);
        }
        // The page of statistics takes a POST, and without `stats admin` nothing comes of it.
        let stats = Proxy::haproxy(STATS).io(io).start();
        let asked = Request::post("/stats", "s=web1&action=drain&b=web");
        Client::connect(&stats).request(&asked).expect_status(303).expect_header("Location", "/stats;st=DENY");
    }
}
