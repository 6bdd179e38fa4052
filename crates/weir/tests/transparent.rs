//! Connections to endpoints from addresses of other machines (`proxy_bind … transparent`), in a network where the answers
//! come back.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;

use weir_testkit::netns::{Back, isolated};
use weir_testkit::{Client, Io, Proxy, both_drivers, programs};

const FAR: &str = "172.20.110.23:8080";

/// Packets to 192.0.2.0/24 and 2001:db8::/64 that come from the far side are taken here, though no device has such an address.
fn take_in(back: &Back) {
    let here = |words: &str| {
        let mut command = Command::new("ip");
        command.args(words.split(' '));
        assert_eq!(programs::run(command), (0, String::new()), "{words}");
    };
    here("rule add iif weir0 lookup 100");
    here("route add local 192.0.2.0/24 dev lo table 100");
    let there = back.command("ip", &["route", "add", "192.0.2.0/24", "via", "172.20.110.1"]);
    assert_eq!(programs::run(there), (0, String::new()));
}

fn inside(test: &str, body: impl FnOnce(&Back)) {
    isolated(test, &["172.20.110.1/24"], &["172.20.110.23/24"], |back| {
        take_in(back);
        body(back);
    });
}

/// Root gives up all but the one right, unless there is nobody else to be.
fn user() -> &'static str {
    let alone = std::fs::read_to_string("/proc/self/uid_map").unwrap().split_whitespace().nth(2) == Some("1");
    if alone { "user root root;" } else { "user nobody nogroup;" }
}

fn text(location: &str) -> String {
    format!(
        "{} worker_processes 1; error_log {{dir}}/error.log warn; events {{}} http {{ access_log off; \
         server {{ listen 127.0.0.1:{{port}}; location / {{ {location} proxy_pass http://{FAR}; }} }} }}
         stream {{ server {{ listen 127.0.0.1:{{port2}}; proxy_bind 192.0.2.9 transparent; proxy_pass {FAR}; }} }}",
        user()
    )
}

/// The far side tells whom it sees.
fn sees_the_client(io: Io, test: &str) {
    inside(test, |back| {
        let _far = back.web_server(FAR.parse().unwrap(), "$remote_addr");
        let text = text("proxy_bind $arg_from transparent;");
        let weir = Proxy::nginx(&text).io(io).start();
        for from in ["192.0.2.7", "192.0.2.8"] {
            let told = Client::connect(&weir).get(&format!("/?from={from}"));
            assert_eq!((told.status, told.text()), (200, from.to_owned()), "{}", weir.logs());
        }
        assert_eq!(Client::connect(weir.port_of("port2")).get("/").text(), "192.0.2.9");
    });
}

/// What a process that gave up root cannot do any more is told, by the reload and by each request.
fn says_what_right_is_missing(io: Io, test: &str) {
    inside(test, |back| {
        if user().contains("root") {
            return;
        }
        let _far = back.web_server(FAR.parse().unwrap(), "$remote_addr");
        let with = text("proxy_bind 192.0.2.7 transparent;");
        let without = with.replace("transparent", "");
        let without = without.replace("proxy_bind 192.0.2.7 ;", "").replace("proxy_bind 192.0.2.9 ;", "");
        let mut weir = Proxy::nginx(&without).io(io).start();
        assert_eq!(Client::connect(&weir).get("/").text(), "172.20.110.1");
        weir.reload(&with);
        weir.wait_for_file("error.log", "a change of `transparent` takes effect at the next restart");
        assert_eq!(Client::connect(&weir).get("/").status, 500);
        weir.wait_for_file("error.log", "setsockopt(IP_TRANSPARENT) failed (1: Operation not permitted); sending from addresses of others needs CAP_NET_RAW");
    });
}

both_drivers! {
    fn the_far_side_sees_the_client(io: Io) {
        sees_the_client(io, &format!("the_far_side_sees_the_client::{}", io.word()));
    }

    fn a_missing_right_is_named(io: Io) {
        says_what_right_is_missing(io, &format!("a_missing_right_is_named::{}", io.word()));
    }
}
