//! What traffic does to the health of servers (`observe`): the same file and the same requests, to Weir and to Debian's haproxy.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::{Duration, Instant};

use weir_testkit::{Client, Io, Origin, Proxy, Running, both_drivers, console};

/// Checks succeed whatever happens, and after the first one there is none by itself.
fn file(server: &str) -> Proxy {
    // Without an address of its own the server is within.
    let place = if server.starts_with("127.") { "" } else { "unix@{dir}/inside.sock " };
    Proxy::haproxy(&format!(
        "global\n nbthread 1\n stats socket {{dir}}/cli.sock level admin\n\
         defaults\n mode http\n retries 0\n timeout connect 5s\n timeout client 5s\n timeout server 1s\n\
         frontend f\n bind 127.0.0.1:{{port}}\n default_backend b\n\
         frontend inside\n bind unix@{{dir}}/inside.sock\n http-request return status 200 if {{ path /fine }}\n \
         http-request return status 404 if {{ path /none }}\n http-request deny deny_status 500\n\
         backend b\n default-server inter 1h\n server s {place}{server}\n"
    ))
}

fn each(io: Io, server: &str, case: impl Fn(&Running, &str)) {
    case(&file(server).io(io).start(), "weir");
    case(&file(server).by_rival().start(), "haproxy");
}

fn table(proxy: &Running) -> String {
    console::ask(proxy, "show stat")
}

/// Status, HAProxy's word for the last check, and how often errors had a say.
fn state(proxy: &Running) -> [String; 3] {
    let table = table(proxy);
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().unwrap().trim_start_matches("# ").split(',').collect();
    let line: Vec<&str> = lines.find(|line| line.starts_with("b,s,")).unwrap().split(',').collect();
    ["status", "check_status", "hanafail"].map(|name| {
        let at = head.iter().position(|known| *known == name).unwrap();
        line[at].trim_start_matches("* ").to_owned()
    })
}

fn until(what: &str, proxy: &Running, expected: [&str; 3]) {
    let began = Instant::now();
    loop {
        let seen = state(proxy);
        if seen == expected {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{what}: {seen:?} is not {expected:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn ask(proxy: &Running, path: &str, times: usize) -> Vec<u16> {
    (0..times).map(|_| Client::connect(proxy).get(path).status).collect()
}

both_drivers! {
    fn errors_in_a_row_take_a_server_down(io: Io) {
        each(io, "check observe layer7 error-limit 3 on-error mark-down", |proxy, who| {
            until(who, proxy, ["UP", "L4OK", "0"]);
            // What the client did wrong is no error, and what goes well ends the row.
            assert_eq!(ask(proxy, "/bad", 2), [500, 500]);
            assert_eq!(ask(proxy, "/fine", 1), [200]);
            assert_eq!(ask(proxy, "/none", 5), [404; 5]);
            assert_eq!(ask(proxy, "/bad", 2), [500, 500]);
            until(who, proxy, ["UP", "L4OK", "0"]);
            assert_eq!(ask(proxy, "/bad", 1), [500]);
            until(who, proxy, ["DOWN", "HANA", "1"]);
            assert_eq!(ask(proxy, "/fine", 1), [503], "{who}");
        });
    }

    fn errors_count_as_failed_checks(io: Io) {
        // `fail-check` is what they do by themselves.
        each(io, "check observe layer7 error-limit 2 fall 3", |proxy, who| {
            until(who, proxy, ["UP", "L4OK", "0"]);
            for expected in [["UP 2/3", "HANA", "1"], ["UP 1/3", "HANA", "2"], ["DOWN", "HANA", "3"]] {
                assert_eq!(ask(proxy, "/bad", 2), [500, 500]);
                until(who, proxy, expected);
            }
        });
    }

    fn the_next_failure_is_the_last_before_a_sudden_death(io: Io) {
        each(io, "check observe layer7 error-limit 1 fall 9 on-error sudden-death", |proxy, who| {
            until(who, proxy, ["UP", "L4OK", "0"]);
            for expected in [["UP 1/9", "HANA", "1"], ["DOWN", "HANA", "2"]] {
                assert_eq!(ask(proxy, "/bad", 1), [500]);
                until(who, proxy, expected);
            }
        });
    }

    fn errors_bring_the_next_check_forward(io: Io) {
        each(io, "check observe layer7 error-limit 1 on-error mark-down fastinter 100ms rise 1", |proxy, who| {
            until(who, proxy, ["UP", "L4OK", "0"]);
            assert_eq!(ask(proxy, "/bad", 1), [500]);
            // It comes up again long before an hour has passed.
            until(who, proxy, ["UP", "L4OK", "1"]);
        });
        let origin = Origin::script(|c| c.keep_answering(500, &[], ""));
        let server = format!(
            "{origin} check observe layer7 error-limit 1 on-error fastinter fastinter 50ms\n \
             option httpchk\n http-check expect rstatus 500"
        );
        each(io, &server, |proxy, who| {
            origin.wait_for_requests(1);
            let checks = || origin.requests().iter().filter(|request| request.line().starts_with("OPTIONS")).count();
            let (began, first) = (Instant::now(), checks());
            // The first check comes by itself, the next does not.
            while checks() < first.max(1) + 1 {
                assert_eq!(ask(proxy, "/bad", 1), [500], "{who}");
                assert!(began.elapsed() < Duration::from_secs(20), "{who}");
            }
        });
    }

    fn connections_are_watched_alone(io: Io) {
        each(io, "check observe layer4 error-limit 1 on-error mark-down", |proxy, who| {
            until(who, proxy, ["UP", "L4OK", "0"]);
            assert_eq!(ask(proxy, "/bad", 5), [500; 5]);
            assert_eq!(state(proxy), ["UP", "L4OK", "0"], "{who}");
        });
        // Checks go where somebody is, traffic where nobody is.
        let origin = Origin::silent();
        for layer in ["layer4", "layer7"] {
            let server = format!(
                "127.0.0.9:{0} check addr 127.0.0.1 port {0} observe {layer} error-limit 2 on-error mark-down",
                origin.port()
            );
            each(io, &server, |proxy, who| {
                until(who, proxy, ["UP", "L4OK", "0"]);
                assert_eq!(ask(proxy, "/", 2), [503; 2]);
                until(who, proxy, ["DOWN", "HANA", "1"]);
            });
        }
    }

    fn traffic_says_nothing_of_what_is_not_checked(io: Io) {
        each(io, "observe layer7 error-limit 1 on-error mark-down", |proxy, who| {
            assert_eq!(ask(proxy, "/bad", 3), [500; 3]);
            assert_eq!(state(proxy)[0], "no check", "{who}");
        });
    }
}

#[test]
fn mistakes_are_found() {
    for (words, expected) in [
        ("check observe layer9", "layer9"),
        ("check observe layer4 on-error nothing", "nothing"),
        ("check observe layer4 error-limit 0", "error-limit"),
        ("\n mode tcp\n server t 127.0.0.1:1 check observe layer7", "`mode http` only"),
    ] {
        let (code, printed) = file(words).check();
        assert!(code == 1 && printed.contains(expected), "{words}: {code} {printed}");
    }
}
