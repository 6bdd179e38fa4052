//! Listening sockets that change hands: `-x` and `expose-fd listeners`, from Debian's haproxy to Weir, back, and between Weirs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use weir_testkit::process::{Process, UnixSignal};
use weir_testkit::{Client, Deadline, Io, Proxy, Running, both_drivers, console, eventually};

/// Who answers says its name.
fn text(who: &str) -> String {
    format!(
        "global\n nbthread 1\n stats socket {{dir}}/cli.sock level admin expose-fd listeners\n\
         defaults\n mode http\n timeout connect 5s\n timeout client 20s\n timeout server 5s\n\
         frontend f\n bind 127.0.0.1:{{port}}\n http-request return status 200 content-type text/plain string {who}\n"
    )
}

/// The process that takes the place of one that runs, on the same addresses.
fn successor(old: &mut Running, by_weir: Option<Io>, who: &str) -> Process {
    let file = old.dir().join("next.cfg");
    let socket = old.dir().join("cli.sock");
    let filled = text(who)
        .replace("{dir}", &old.dir().display().to_string())
        .replace("{port}", &old.port().number().to_string());
    std::fs::write(&file, filled).unwrap();
    let mut command = match by_weir {
        Some(io) => {
            let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
            command.arg("haproxy").env("WEIR_IO", io.word());
            command
        }
        None => Command::new("/usr/sbin/haproxy"),
    };
    command.arg("-db").arg("-f").arg(&file).arg("-x").arg(&socket).arg("-sf").arg(old.pid().to_string());
    Process::spawn(command).unwrap()
}

/// The sockets that listen on a port, by the numbers that the kernel has for them.
fn listening(port: u16) -> BTreeSet<String> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let own = format!(":{port:04X}");
    let listens = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(1).is_some_and(|local| local.ends_with(&own)) && words.get(3) == Some(&"0A")
    };
    table
        .lines()
        .filter(listens)
        .filter_map(|line| line.split_whitespace().nth(9).map(str::to_owned))
        .collect()
}

fn hand_over(mut old: Running, by_weir: Option<Io>) {
    let port = old.port().number();
    let before = listening(port);
    assert_eq!(before.len(), 1, "one worker has one socket");
    Client::connect(&old).get("/").expect_body("old");
    let mut new = successor(&mut old, by_weir, "new");
    let left = old.process().wait(Deadline::standard());
    assert!(left.is_some_and(|status| status.success()), "{left:?} {}", new.printed());
    assert_eq!(listening(port), before, "the socket is the same one: {}", new.printed());
    Client::connect(old.port()).get("/").expect_body("new");
    new.expect_clean_exit(UnixSignal::USR1);
}

both_drivers! {
    fn weir_takes_the_sockets_of_haproxy(io: Io) {
        hand_over(Proxy::haproxy(&text("old")).by_rival().start(), Some(io));
    }

    fn haproxy_takes_the_sockets_of_weir(io: Io) {
        hand_over(Proxy::haproxy(&text("old")).foreign_flags().io(io).start(), None);
    }

    fn weir_takes_the_sockets_of_weir_and_whoever_waits_there(io: Io) {
        let mut old = Proxy::haproxy(&text("old")).foreign_flags().io(io).start();
        let before = listening(old.port().number());
        assert_eq!(console::ask(&old, "disable frontend f\n"), "\n");
        // One may have been accepted already as it was disabled, and waits there; the others are in the queue.
        let mut waiting: Vec<Client> = (0..4).map(|_| Client::connect(&old)).collect();
        for client in &mut waiting {
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        let mut new = successor(&mut old, Some(io), "new");
        let answers: Vec<String> = waiting.iter_mut().map(|client| client.read().text()).collect();
        assert!(answers.iter().filter(|answer| *answer == "new").count() >= 3, "{answers:?}");
        drop(waiting);
        assert!(old.process().wait(Deadline::standard()).is_some_and(|status| status.success()));
        assert_eq!(listening(old.port().number()), before);
        new.expect_clean_exit(UnixSignal::USR1);
    }
}

/// Without `expose-fd listeners`, or without the level, nothing is given; and whoever asks in vain says so and binds.
#[test]
fn sockets_are_given_only_where_the_file_says_so() {
    let plain = text("old").replace(" expose-fd listeners", "");
    let mut old = Proxy::haproxy(&plain).foreign_flags().start();
    assert_eq!(console::ask(&old, "_getsocks\n"), "");
    let mut new = successor(&mut old, Some(Io::Epoll), "new");
    new.wait_for_output("expose-fd listeners");
    assert!(old.process().wait(Deadline::standard()).is_some_and(|status| status.success()));
    Client::connect(old.port()).get("/").expect_body("new");
    new.expect_clean_exit(UnixSignal::USR1);
    let (code, printed) = Proxy::haproxy(&text("x").replace("expose-fd listeners", "expose-fd all")).check();
    assert!(code == 1 && printed.contains("listeners"), "{printed}");
}

/// Somebody who asks and then does nothing, or asks as an operator, harms nobody.
#[test]
fn whoever_asks_and_leaves_harms_nobody() {
    let proxy = Proxy::haproxy(&text("old")).foreign_flags().start();
    assert_eq!(console::ask(&proxy, "operator; _getsocks\n"), "\n");
    for _ in 0..20 {
        let mut stream = UnixStream::connect(proxy.dir().join("cli.sock")).unwrap();
        std::io::Write::write_all(&mut stream, b"_getsocks\n").unwrap();
        drop(stream);
    }
    Client::connect(&proxy).get("/").expect_body("old");
    eventually("commands are answered", || {
        let mut stream = UnixStream::connect(proxy.dir().join("cli.sock")).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        std::io::Write::write_all(&mut stream, b"show version\n").ok()?;
        let mut text = String::new();
        std::io::Read::read_to_string(&mut stream, &mut text).ok()?;
        text.contains("weir").then_some(())
    });
}

/// The admin API's address changes hands, too, and with nobody else.
#[test]
fn the_admin_address_is_shared_with_the_process_before() {
    let port = weir_testkit::Port::lease();
    let address = format!("127.0.0.1:{}", port.number());
    let tokens = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(tokens.path(), "read test 0123456789abcdef0123\n").unwrap();
    let with_api = |command: &mut Command| {
        command.env("WEIR_ADMIN", &address).env("WEIR_ADMIN_TOKENS", tokens.path());
    };
    let mut old = Proxy::haproxy(&text("old"))
        .foreign_flags()
        .environment("WEIR_ADMIN", &address)
        .environment("WEIR_ADMIN_TOKENS", &tokens.path().display().to_string())
        .start();
    let next = |old: &Running, arguments: &[&str]| {
        let file = old.dir().join("next.cfg");
        let filled = text("new")
            .replace("{dir}", &old.dir().display().to_string())
            .replace("{port}", &old.port().number().to_string());
        std::fs::write(&file, filled).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["haproxy", "-db", "-f"]).arg(&file).args(arguments);
        with_api(&mut command);
        Process::spawn(command).unwrap()
    };
    let socket = old.dir().join("cli.sock").display().to_string();
    let mut stranger = next(&old, &["-x", &socket]);
    assert!(stranger.wait(Deadline::standard()).is_some_and(|status| !status.success()));
    let pid = old.pid().to_string();
    let mut new = next(&old, &["-x", &socket, "-sf", &pid]);
    assert!(
        old.process().wait(Deadline::standard()).is_some_and(|status| status.success()),
        "{}",
        new.printed()
    );
    let mut client = Client::connect(&port);
    let version = weir_testkit::Request::get("/v1/status")
        .host(&address)
        .header("Authorization", "Bearer 0123456789abcdef0123");
    client.request(&version).expect_status(200);
    new.expect_clean_exit(UnixSignal::USR1);
}
