//! Configuration changes under live traffic: no connection is cut, no request fails, nothing grows.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_testkit::process::UnixSignal;
use weir_testkit::{
    Certificate, Client, Gate, Io, Load, Origin, Proxy, Request, Running, Script, TlsOptions, both_drivers,
    eventually, port,
};

/// A process that is no child of ours.
struct Orphan(i32);

impl Orphan {
    /// Tells it to go once it has served what it has.
    fn leave(self) {
        self.signal(UnixSignal::QUIT);
        std::mem::forget(self);
    }

    fn signal(&self, signal: UnixSignal) {
        let _ = rustix::process::kill_process(rustix::process::Pid::from_raw(self.0).unwrap(), signal);
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        self.signal(UnixSignal::TERM);
    }
}

fn conf(workers: usize, servers: &str) -> String {
    format!(
        "worker_processes {workers}; events {{}} http {{ access_log off; keepalive_requests 100000000; {servers} }}"
    )
}

fn answering(word: &str) -> String {
    conf(2, &format!("server {{ listen 127.0.0.1:{{port}}; location / {{ return 200 {word}; }} }}"))
}

both_drivers! {
    fn kept_connections_take_the_new_configuration(io: Io) {
        let mut proxy = Proxy::nginx(&answering("one")).io(io).start();
        let mut client = Client::connect(&proxy);
        client.get("/").expect_body("one");
        proxy.reload(&answering("two"));
        client.get("/").expect_body("two");
        Client::connect(&proxy).get("/").expect_body("two");
    }

    fn a_broken_or_empty_file_changes_nothing_and_says_why(io: Io) {
        let mut proxy = Proxy::nginx(&answering("one")).io(io).start();
        let mut client = Client::connect(&proxy);
        client.get("/").expect_body("one");
        for broken in ["events {} http { server { listen 127.0.0.1:{port}; nonsense on; } }", "", "http {"] {
            proxy.reload(broken);
            client.get("/").expect_body("one");
            Client::connect(&proxy).get("/").expect_body("one");
        }
        proxy.wait_for_log("nonsense");
        proxy.reload(&answering("two"));
        client.get("/").expect_body("two");
    }

    fn no_request_fails_while_everything_changes(io: Io) {
        let origins = [Origin::named("a", "x"), Origin::named("b", "x")];
        let text = |workers, origin: &Origin| conf(workers, &format!(
            "upstream u {{ server {origin}; keepalive 8; }} server {{ listen 127.0.0.1:{{port}}; location / {{ \
             proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection ''; }} }}"
        ));
        let mut proxy = Proxy::nginx(&text(2, &origins[0])).io(io).start();
        let kept = Load::to(&proxy).connections(4).start();
        let fresh = Load::to(&proxy).connections(2).one_request_a_connection().start();
        for round in 0..12 {
            kept.wait_for_more(50);
            proxy.reload(&text([1, 2, 2, 1][round % 4], &origins[round % 2]));
        }
        kept.wait_for_more(50);
        let (kept, fresh) = (kept.finish(), fresh.finish());
        kept.expect_no_failure();
        fresh.expect_no_failure();
        assert_eq!(kept.shares.len(), 2, "both origins were used: {:?}", kept.shares);
    }

    fn another_program_takes_the_place_of_this_one(io: Io) {
        let socket = "server { listen unix:{dir}/socket; return 200 unix; }";
        let text = format!("pid {{dir}}/pid; error_log {{dir}}/error.log notice; {} ", answering("here")).replace("server {", &format!("{socket} server {{"));
        let mut proxy = Proxy::nginx(&text).foreign_flags().io(io).start();
        let old = proxy.pid().to_string();
        let (pid, other_name) = (proxy.dir().join("pid"), proxy.dir().join("pid.oldbin"));
        let read = |path: &std::path::Path| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        eventually("it has written its pid file", || (read(&pid) == old).then_some(()));
        let replace = |proxy: &mut Running| {
            proxy.process().signal(UnixSignal::USR2);
            let new = eventually("the new process has written its pid file", || {
                let new = read(&pid);
                (!new.is_empty() && new != old && read(&other_name) == old).then_some(new)
            });
            Orphan(new.parse().unwrap())
        };
        let of_old = |proxy: &Running, line: &str, times: usize| {
            let log = || std::fs::read_to_string(proxy.dir().join("error.log")).unwrap_or_default();
            eventually(line, || (log().matches(line).count() == times).then_some(()));
        };
        let new = replace(&mut proxy);
        // A second order is for nobody while both run.
        proxy.process().signal(UnixSignal::USR2);
        proxy.wait_for_file("error.log", "the changing binary signal is ignored");
        // The workers of the old one leave, and come back when the new one ends, however it does.
        proxy.process().signal(UnixSignal::WINCH);
        of_old(&proxy, "the workers are gone", 1);
        drop(new);
        eventually("the old one has its name again", || (read(&pid) == old && !other_name.exists()).then_some(()));
        of_old(&proxy, "is in force", 1);
        // They come back at HUP, too, so that nothing is cut on the way back.
        let load = Load::to(&proxy).connections(2).one_request_a_connection().start();
        load.wait_for_more(50);
        let new = replace(&mut proxy);
        load.wait_for_more(50);
        proxy.process().signal(UnixSignal::WINCH);
        of_old(&proxy, "the workers are gone", 2);
        load.wait_for_more(50);
        proxy.process().signal(UnixSignal::HUP);
        of_old(&proxy, "is in force", 2);
        load.wait_for_more(50);
        new.leave();
        eventually("the old one has its name again", || (read(&pid) == old && !other_name.exists()).then_some(()));
        load.wait_for_more(50);
        // Now the new one stays.
        let new = replace(&mut proxy);
        let mut kept = Client::connect(&proxy);
        kept.get("/").expect_body("here");
        proxy.process().expect_clean_exit(UnixSignal::QUIT);
        eventually("the old name is gone", || (!other_name.exists()).then_some(()));
        load.wait_for_more(50);
        assert_eq!(read(&pid), new.0.to_string());
        let mut unix = std::os::unix::net::UnixStream::connect(proxy.dir().join("socket")).unwrap();
        std::io::Write::write_all(&mut unix, b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut unix, &mut text).unwrap();
        assert!(text.ends_with("unix"), "its socket's file is still there: {text}");
        load.finish().expect_no_failure();
        drop(new);
        eventually("the last one takes its file along", || (!pid.exists()).then_some(()));
    }

    fn listeners_come_and_go(io: Io) {
        let both = conf(2, "server { listen 127.0.0.1:{port}; return 200 one; } server { listen 127.0.0.1:{port_b}; return 200 two; }");
        let one = conf(2, "server { listen 127.0.0.1:{port}; return 200 one; }");
        let mut proxy = Proxy::nginx(&both).io(io).start();
        let second = proxy.port_of("port_b");
        let load = Load::to(&proxy).connections(2).start();
        let mut held = Client::connect(&second);
        held.get("/").expect_body("two");
        for _ in 0..5 {
            proxy.reload(&one);
            eventually("the port to close", || (!port::is_listening(second.number())).then_some(()));
            proxy.reload(&both);
            Client::connect(&second).get("/").expect_body("two");
        }
        load.finish().expect_no_failure();
    }

    fn a_port_in_use_is_an_error_and_changes_nothing(io: Io) {
        let taken = Origin::named("other", "other program");
        let mut proxy = Proxy::nginx(&answering("one")).io(io).start();
        proxy.reload(&conf(2, &format!("server {{ listen 127.0.0.1:{{port}}; listen {taken}; return 200 two; }}")));
        Client::connect(&proxy).get("/").expect_body("one");
        Client::connect(&taken).get("/").expect_body("other program");
    }

    fn tunnels_live_through_reloads(io: Io) {
        let switch = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n";
        let origin = Origin::script(|c| c.expect("GET /").send(switch).echo());
        let text = conf(2, &format!(
            "server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://{origin}; proxy_http_version 1.1; \
             proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }} }}"
        ));
        let mut proxy = Proxy::nginx(&text).io(io).start();
        let mut tunnel = Client::connect(&proxy);
        tunnel.send("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n");
        assert_eq!(tunnel.read_head().status, 101);
        for _ in 0..5 {
            proxy.reload_same();
            tunnel.send("ping");
            assert_eq!(tunnel.read_exactly(4), b"ping");
        }
    }

    fn tunnels_and_sessions_pin_no_configuration(io: Io) {
        let switch = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n";
        let web = Origin::script(|c| c.expect("GET /?a=x").send(switch).echo());
        let tcp = Origin::script(Script::echo);
        let text = |round: usize, extra: &str| format!(
            "worker_processes 2; events {{}} \
             http {{ map $arg_a $mapped {{ default other; x {round}; }} log_format l '$server_name $mapped $status $body_bytes_sent $upstream_addr'; \
               server {{ listen 127.0.0.1:{{port}}; server_name s{round}; access_log {{dir}}/web.log l; \
                 location / {{ proxy_pass http://{web}; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }} \
                 location /metrics {{ weir_metrics; access_log off; }} }} \
               {extra} }} \
             stream {{ log_format t '$bytes_received $bytes_sent $status'; \
               server {{ listen 127.0.0.1:{{port_tcp}}; access_log {{dir}}/tcp{round}.log t; proxy_pass {tcp}; }} }}"
        );
        // The last tunnel is on a listener that goes away.
        let mut proxy = Proxy::nginx(&text(0, &format!(
            "server {{ listen 127.0.0.1:{{port_gone}}; access_log off; location / {{ proxy_pass http://{web}; proxy_http_version 1.1; \
             proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }} }}"
        ))).io(io).start();
        let upgrade = "GET /?a=x HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n";
        let open = |port: &port::Port| {
            let mut tunnel = Client::connect(port);
            tunnel.send(upgrade);
            assert_eq!(tunnel.read_head().status, 101);
            tunnel
        };
        let mut tunnels = vec![open(&proxy.port_of("port_gone"))];
        let mut sessions = Vec::new();
        for round in 1..=8 {
            tunnels.push(open(&proxy.port()));
            let mut session = Client::connect(proxy.port_of("port_tcp"));
            session.send("hello");
            assert_eq!(session.read_exactly(5), b"hello");
            sessions.push(session);
            proxy.reload(&text(round, ""));
        }
        let metrics = proxy.port();
        eventually("older configurations to be let go of", || {
            let body = Client::connect(&metrics).get("/metrics").text();
            body.lines().any(|line| line == "weir_plans 1").then_some(())
        });
        for tunnel in &mut tunnels {
            tunnel.send("ping");
            assert_eq!(tunnel.read_exactly(4), b"ping");
        }
        drop(tunnels);
        drop(sessions);
        // Each line is that of the configuration that the tunnel began under, with what passed until its end.
        for round in 0..8 {
            proxy.wait_for_file("web.log", &format!("s{round} {round} 101 4 {web}\n"));
            proxy.wait_for_file(&format!("tcp{round}.log"), "5 5 200\n");
        }
    }

    fn answers_that_last_pin_no_configuration(io: Io) {
        let gate = Gate::new();
        let begin = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n";
        let origin = Origin::script(|c| {
            c.expect("GET /events?a=x").send(begin).wait_for(&gate).send("4\r\nlast\r\n0\r\n\r\n").until_closed()
        });
        let text = |round: usize| format!(
            "worker_processes 2; events {{}} \
             http {{ map $arg_a $mapped {{ default other; x {round}; }} log_format l '$server_name $mapped $uri $status $body_bytes_sent'; \
               server {{ listen 127.0.0.1:{{port}}; server_name s{round}; access_log {{dir}}/web.log l; root {{dir}}; \
                 location /events {{ proxy_pass http://{origin}; proxy_read_timeout 1h; }} \
                 location /file {{ limit_rate 25k; }} \
                 location /metrics {{ weir_metrics; access_log off; }} }} }}"
        );
        let file = vec![b'f'; 200_000];
        let mut proxy = Proxy::nginx(&text(0)).io(io).file("file", &file).start();
        let mut events = Vec::new();
        let mut downloads = Vec::new();
        for round in 1..=8 {
            let mut client = Client::connect(&proxy);
            client.send("GET /events?a=x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            client.read_head().expect_status(200);
            events.push(client);
            let mut client = Client::connect(&proxy);
            client.send("GET /file?a=x HTTP/1.1\r\nHost: a\r\n\r\n");
            client.read_head().expect_status(200);
            downloads.push(client);
            proxy.reload(&text(round));
        }
        let metrics = proxy.port();
        eventually("older configurations to be let go of", || {
            let body = Client::connect(&metrics).get("/metrics").text();
            body.lines().any(|line| line == "weir_plans 1").then_some(())
        });
        gate.open();
        for client in &mut events {
            let (body, in_order) = client.read_to_end();
            let body = String::from_utf8_lossy(&body).into_owned();
            assert!(in_order && body.contains("first") && body.ends_with("4\r\nlast\r\n0\r\n\r\n"), "{body:?}");
        }
        for client in &mut downloads {
            assert_eq!(client.read_exactly(file.len()), file);
            // The connection goes on, under the newest configuration.
            client.get("/metrics").expect_status(200);
        }
        // Each line is that of the configuration that the answer began under.
        for round in 0..8 {
            proxy.wait_for_file("web.log", &format!("s{round} {round} /events 200 9\n"));
            proxy.wait_for_file("web.log", &format!("s{round} {round} /file 200 200000\n"));
        }
    }

    fn certificates_are_renewed(io: Io) {
        let (old, new) = (Certificate::p256(&["localhost"]), Certificate::p256(&["localhost"]));
        let text = conf(2, "server { listen 127.0.0.1:{port} ssl; ssl_certificate {dir}/c.crt; ssl_certificate_key {dir}/c.key; return 200 ok; }");
        let mut proxy = Proxy::nginx(&text).io(io).certificate("c", &old).start();
        let mut kept = Client::tls_trusting(&proxy, &old);
        kept.get("/").expect_body("ok");
        proxy.write("c.crt", new.chain_pem());
        proxy.write("c.key", new.key_pem());
        proxy.reload_same();
        kept.get("/").expect_body("ok");
        assert!(Client::try_tls(&proxy, &TlsOptions::trusting(&old)).is_err(), "the old certificate is gone");
        Client::tls_trusting(&proxy, &new).get("/").expect_body("ok");
    }

    fn two_hundred_reloads_leave_memory_where_it_was(io: Io) {
        let sites: String = (0..200).map(|n| format!("server {{ listen 127.0.0.1:{{port}}; server_name s{n}.test; return 200 {n}; }}\n")).collect();
        let mut proxy = Proxy::nginx(&conf(2, &sites)).io(io).start();
        let mut client = Client::connect(&proxy);
        for _ in 0..20 {
            proxy.reload_same();
        }
        let before = resident(proxy.pid());
        for _ in 0..200 {
            proxy.reload_same();
        }
        client.request(&Request::get("/").host("s7.test")).expect_body("7");
        let after = resident(proxy.pid());
        assert!(after < before + (4 << 20), "{before} bytes before, {after} after");
        let threads = std::fs::read_dir(format!("/proc/{}/task", proxy.pid())).unwrap().count();
        assert!(threads < 16, "{threads} threads");
    }

    fn what_a_configuration_was_compiled_from_is_not_held(io: Io) {
        let locations: String = ('a'..='j').map(|name| format!("location /{name}/ {{ }} ")).collect();
        let site = |n| format!("server {{ listen 127.0.0.1:{{port}}; server_name s{n}.test; {locations} }}\n");
        let sites = |count| conf(1, &(0..count).map(site).collect::<String>());
        let mut proxy = Proxy::nginx(&sites(1)).io(io).start();
        let all = |proxy: &weir_testkit::Running| own_memory(proxy.pid()).into_iter().sum::<u64>();
        let before = all(&proxy);
        proxy.reload(&sites(3000));
        let (after, each) = (all(&proxy), own_memory(proxy.pid()));
        // The plan of a site is about 3 KB here, in one process; its model was ten.
        assert!(after - before < (3000 * 6) << 10, "{before} bytes before, {after} after: {each:?}");
    }

    fn quitting_lets_requests_end(io: Io) {
        let gate = Gate::new();
        let origin = Origin::script(|c| c.expect("GET /").wait_for(&gate).respond(200, "at last").until_closed());
        let text = conf(2, &format!("server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://{origin}; }} }}"));
        let mut proxy = Proxy::nginx(&text).io(io).start();
        let mut client = Client::connect(&proxy);
        client.send(Request::get("/").bytes());
        origin.wait_for_requests(1);
        proxy.process().signal(UnixSignal::QUIT);
        let number = proxy.port().number();
        eventually("the port to close", || (!port::is_listening(number)).then_some(()));
        gate.open();
        client.read().expect_status(200).expect_body("at last");
        client.expect_closed();
        let status = proxy.process().wait(weir_testkit::Deadline::standard()).expect("it ends");
        assert!(status.success(), "{status}\n{}", proxy.logs());
    }
}

/// Bytes of a process and of each of its children that no other process shares.
fn own_memory(pid: u32) -> Vec<u64> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let children = children.split_whitespace().map(|child| child.parse().unwrap());
    std::iter::once(pid).chain(children).map(|pid| of_status(pid, "RssAnon:")).collect()
}

/// Resident bytes of a process.
fn resident(pid: u32) -> u64 {
    of_status(pid, "VmRSS:")
}

fn of_status(pid: u32, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
