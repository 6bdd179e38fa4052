//! The form of HAProxy's statistics page (`stats admin`): the same posts, to Weir and to Debian's haproxy.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_testkit::{Client, Io, Origin, Proxy, Request, Running, both_drivers, eventually};

fn origin(body: &'static str) -> Origin {
    Origin::script(|c| c.keep_answering(200, &[], body))
}

fn file(origins: [&Origin; 2], words: &str) -> Proxy {
    let [one, two] = origins;
    Proxy::haproxy(&format!(
        "defaults\n mode http\n timeout connect 5s\n timeout client 10s\n timeout server 10s\n\
         frontend f\n bind 127.0.0.1:{{port}}\n default_backend b\nbackend b\n server one {one} check inter 100ms\n server two {two} check inter 100ms\n\
         listen s\n bind 127.0.0.1:{{port_stats}}\n stats enable\n stats uri /st\n {words}\n"
    ))
}

fn form(body: &str) -> Request {
    Request::post("/st", body).header("Content-Type", "application/x-www-form-urlencoded")
}

/// Sends a form; where its client is sent.
fn post(proxy: &Running, request: &Request) -> String {
    let response = Client::connect(proxy.port_of("port_stats")).request(request);
    assert_eq!(response.status, 303, "{response}");
    response.header("Location").unwrap().to_owned()
}

/// What the page says of a server.
fn status(proxy: &Running, server: &str) -> String {
    let csv = Client::connect(proxy.port_of("port_stats")).get("/st;csv").text();
    let line = csv.lines().find(|line| line.starts_with(&format!("b,{server},"))).unwrap();
    line.split(',').nth(17).unwrap().to_owned()
}

fn becomes(proxy: &Running, server: &str, wanted: &str) {
    eventually(&format!("{server} is {wanted}"), || status(proxy, server).starts_with(wanted).then_some(()));
}

both_drivers! {
    fn servers_are_taken_out_and_brought_back(io: Io) {
        let (one, two) = (origin("one"), origin("two"));
        let file = file([&one, &two], "stats admin if { src 127.0.0.1 }");
        for (proxy, who) in [(file.clone().io(io).start(), "weir"), (file.by_rival().start(), "haproxy")] {
            for (action, wanted) in [("maint", "MAINT"), ("ready", "UP"), ("drain", "DRAIN"), ("ready", "UP")] {
                assert_eq!(post(&proxy, &form(&format!("s=one&action={action}&b=b"))), "/st;st=DONE", "{who} {action}");
                becomes(&proxy, "one", wanted);
                let seen: Vec<String> = (0..4).map(|_| Client::connect(&proxy).get("/").text()).collect();
                assert_eq!(seen.iter().any(|body| body == "one"), wanted == "UP", "{who} {action}: {seen:?}");
            }
            assert_eq!(post(&proxy, &form("s=one&s=two&action=maint&b=b")), "/st;st=DONE", "{who}");
            Client::connect(&proxy).get("/").expect_status(503);
            assert_eq!(post(&proxy, &form("s=one&s=two&action=ready&b=b")), "/st;st=DONE", "{who}");
            for (body, wanted) in [("action=maint&b=b", "NONE"), ("s=one&action=maint&b=none", "ERRP"), ("s=one&s=none&action=drain&b=b", "PART")] {
                assert_eq!(post(&proxy, &form(body)), format!("/st;st={wanted}"), "{who} {body}");
            }
            let page = Client::connect(proxy.port_of("port_stats")).get("/st;st=PART").text();
            assert!(page.contains("Action partially processed"), "{who}");
            assert!(page.contains("name=\"s\" value=\"one\"") && page.contains("Apply"), "{who}: {page}");
        }
    }

    fn only_who_may_changes_something(io: Io) {
        let (one, two) = (origin("one"), origin("two"));
        for words in ["", "stats admin if { src 192.0.2.1 }", "stats admin unless { path_beg /st }"] {
            let file = file([&one, &two], words);
            for (proxy, who) in [(file.clone().io(io).start(), "weir"), (file.by_rival().start(), "haproxy")] {
                assert_eq!(post(&proxy, &form("s=one&action=maint&b=b")), "/st;st=DENY", "{who} {words}");
                assert!(!status(&proxy, "one").starts_with("MAINT"), "{who} {words}");
                assert!(!Client::connect(proxy.port_of("port_stats")).get("/st").text().contains("Apply"), "{who} {words}");
            }
        }
        let file = file([&one, &two], "stats auth joe:secret\n stats admin if TRUE");
        for proxy in [file.clone().io(io).start(), file.by_rival().start()] {
            let asked = form("s=one&action=maint&b=b");
            assert_eq!(Client::connect(proxy.port_of("port_stats")).request(&asked).status, 401);
            let known = asked.header("Authorization", "Basic am9lOnNlY3JldA==");
            assert_eq!(post(&proxy, &known), "/st;st=DONE");
        }
    }

    fn a_page_of_another_site_changes_nothing(io: Io) {
        let (one, two) = (origin("one"), origin("two"));
        let proxy = file([&one, &two], "stats admin if TRUE").io(io).start();
        let asked = || form("s=one&action=maint&b=b").host("stats.test:8404");
        assert_eq!(post(&proxy, &asked().header("Origin", "http://evil.test")), "/st;st=DENY");
        assert_eq!(post(&proxy, &asked().header("Origin", "null")), "/st;st=DENY");
        becomes(&proxy, "one", "UP");
        assert_eq!(post(&proxy, &asked().header("Origin", "http://stats.test:8404")), "/st;st=DONE");
        becomes(&proxy, "one", "MAINT");
    }

    fn health_is_forced_and_sessions_are_ended(io: Io) {
        let (one, two) = (origin("one"), origin("two"));
        let proxy = file([&one, &two], "stats admin if TRUE").io(io).start();
        assert_eq!(post(&proxy, &form("s=one&s=two&action=hrunn&b=b")), "/st;st=DONE");
        assert_eq!(post(&proxy, &form("s=one&action=shutdown&b=b")), "/st;st=DONE");
        assert_eq!(post(&proxy, &form("s=one&action=hdown&b=b")), "/st;st=DONE");
    }
}
