//! Log lines through rings and to log backends, in samples and with heads on standard output: beside Debian's haproxy where it has that.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_testkit::{Client, Io, Proxy, Running, both_drivers, console, eventually};

/// Takes connections and keeps what each sent.
struct Sink {
    port: u16,
    got: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Sink {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, got) = (listener.local_addr().unwrap().port(), Arc::<Mutex<Vec<Vec<u8>>>>::default());
        let kept = got.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let kept = kept.clone();
                let at = {
                    let mut all = kept.lock().unwrap();
                    all.push(Vec::new());
                    all.len() - 1
                };
                std::thread::spawn(move || {
                    let mut stream = stream;
                    let mut bytes = [0; 4096];
                    while let Ok(count @ 1..) = stream.read(&mut bytes) {
                        kept.lock().unwrap()[at].extend_from_slice(&bytes[..count]);
                    }
                });
            }
        });
        Self { port, got }
    }

    /// All that came, once it holds this.
    fn until(&self, text: &str) -> String {
        eventually("what a log server gets", || {
            let all = self.got.lock().unwrap().concat();
            let all = String::from_utf8_lossy(&all).into_owned();
            all.contains(text).then_some(all)
        })
    }
}

/// Ports, times, process ids and sizes of answers are not the same twice.
fn plain(text: &str) -> String {
    let without = |text: &str, pattern: &str, by: &str| {
        regex::Regex::new(pattern).unwrap().replace_all(text, by).into_owned()
    };
    let text = without(text, r"127\.0\.0\.1:\d+ \[[^\]]*\]", "CLIENT");
    let text = without(&text, r"\d{4}-\d\d-\d\dT[0-9:.]+[+-]\d\d:\d\d", "TIME");
    let text = without(&text, r"\w{3} [ \d]\d \d\d:\d\d:\d\d ", "DATE ");
    let text = without(&text, r"haproxy\[\d+\]", "haproxy[PID]");
    let text = without(&text, r"haproxy \d+ - ", "haproxy PID - ");
    without(&text, r"\d+/-1/-1/-1/\d+ 200 \d+ ", "0/-1/-1/-1/0 200 0 ")
}

const REST: &str = "defaults\n mode http\n log global\n option httplog\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
                    frontend f\n bind 127.0.0.1:{port}\n http-request return status 200\n";

fn asked(proxy: &Running, paths: &[&str]) {
    for path in paths {
        Client::connect(proxy).get(path).expect_status(200);
    }
}

/// The lines that a ring shows, once there are so many.
fn shown(proxy: &Running, ring: &str, lines: usize) -> Vec<String> {
    eventually("the lines of a ring", || {
        let text = console::ask(proxy, &format!("show events {ring}"));
        let all: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(plain).collect();
        (all.len() >= lines).then_some(all)
    })
}

both_drivers! {
    fn rings_hold_lines_as_haproxy_s_do(io: Io) {
        let file = |counted: &Sink, lines: &Sink| format!(
            "global\n nbthread 1\n stats socket {{dir}}/cli.sock level admin\n log ring@a format rfc5424 local0 info\n \
             log ring@b len 100 local1 info\n log ring@c sample 2:3 daemon info\n log ring@d local3 notice\n\
             ring a\n description \"My ring\"\n format iso\n maxlen 1200\n size 32764\n timeout connect 5s\n timeout server 10s\n \
             server s1 127.0.0.1:{} log-proto octet-count\n\
             ring b\n format rfc3164\n server s1 127.0.0.1:{}\n\
             ring c\n size 16384\nring d\n format rfc5424\n{REST}", counted.port, lines.port
        );
        let seen = [true, false].map(|ours| {
            let (counted, lines) = (Sink::new(), Sink::new());
            let file = Proxy::haproxy(&file(&counted, &lines));
            let proxy = if ours { file.io(io).start() } else { file.by_rival().start() };
            asked(&proxy, &["/1", "/2", "/3", "/4", "/5", "/6"]);
            let cut = eventually("lines that are cut", || {
                let text = console::ask(&proxy, "show events b");
                let lines: Vec<(String, usize)> = text
                    .lines()
                    .filter_map(|line| line.split_once("]: "))
                    .map(|(head, text)| (plain(&format!("{head}]")), text.len()))
                    .collect();
                (lines.len() == 6).then_some(lines)
            });
            let rings = [shown(&proxy, "a", 6), shown(&proxy, "c", 2)];
            let list = console::ask(&proxy, "show events");
            let unknown = console::ask(&proxy, "show events x");
            let bad = console::ask(&proxy, "show events a -x");
            let counted = counted.until("GET /6").matches(' ').count() > 6;
            let lines = eventually("six lines", || {
                let all = plain(&lines.until("<142>"));
                (all.matches("<142>").count() == 6 && all.ends_with('\n')).then(|| all.lines().count())
            });
            (cut, rings, list, unknown, bad, counted, lines)
        });
        let [ours, theirs] = seen;
        assert_eq!(ours, theirs);
    }

    fn lines_are_counted_in_octets(io: Io) {
        let sink = Sink::new();
        let file = format!(
            "global\n log ring@a local0 info\nring a\n format priority\n server s1 127.0.0.1:{} log-proto octet-count\n{REST}", sink.port
        );
        let proxy = Proxy::haproxy(&file).io(io).start();
        asked(&proxy, &["/1", "/2"]);
        let all = sink.until("GET /2");
        let mut rest = all.as_str();
        while !rest.is_empty() {
            let (length, after) = rest.split_once(' ').unwrap();
            let (message, next) = after.split_at(length.parse().unwrap());
            assert!(message.starts_with("<134>127.0.0.1:") && message.ends_with("HTTP/1.1\""), "{message:?}");
            rest = next;
        }
        // What is written while the process ends is still sent.
        asked(&proxy, &["/last"]);
        proxy.stop();
        sink.until("GET /last");
    }

    fn new_lines_are_shown_as_they_come(io: Io) {
        let file = format!("global\n stats socket {{dir}}/cli.sock level admin\n log ring@a local0 info\nring a\n{REST}");
        for proxy in [Proxy::haproxy(&file).io(io).start(), Proxy::haproxy(&file).by_rival().start()] {
            asked(&proxy, &["/old"]);
            shown(&proxy, "a", 1);
            let mut follower = UnixStream::connect(proxy.dir().join("cli.sock")).unwrap();
            follower.write_all(b"show events a -w -n\n").unwrap();
            // Whether the command was taken cannot be seen: so something new happens until it shows.
            follower.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            let line = eventually("a new line", || {
                asked(&proxy, &["/new"]);
                let mut bytes = [0; 4096];
                let count = follower.read(&mut bytes).ok()?;
                Some(String::from_utf8_lossy(&bytes[..count]).trim().to_owned()).filter(|text| !text.is_empty())
            });
            assert!(!line.contains("GET /old"), "{line:?}");
            assert!(line.contains("GET /new"), "{line:?}");
            follower.write_all(b"\n").unwrap();
            let mut rest = String::new();
            follower.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            // HAProxy leaves what it did not read, and that resets the connection.
            let _ = follower.read_to_string(&mut rest);
            assert!(!rest.contains("GET /old"), "{rest:?}");
        }
    }

    fn standard_output_gets_heads_where_asked(io: Io) {
        let seen = [true, false].map(|ours| {
            let file = Proxy::haproxy(&format!(
                "global\n log stdout format short daemon\n log stderr format rfc5424 local2\n{REST}"
            ));
            let proxy = if ours { file.io(io).start() } else { file.by_rival().start() };
            asked(&proxy, &["/one"]);
            eventually("lines on both", || {
                let logs = proxy.logs();
                let mut lines: Vec<String> = logs.lines().filter(|line| line.contains("GET /one")).map(plain).collect();
                lines.sort_unstable();
                (lines.len() == 2).then_some(lines)
            })
        });
        assert_eq!(seen[0], seen[1]);
    }

    fn log_backends_share_lines(io: Io) {
        let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let ports = sockets.each_ref().map(|socket| socket.local_addr().unwrap().port());
        let stream = Sink::new();
        let file = format!(
            "global\n log backend@turns local0 info\n log backend@parts format raw local0 info\n log backend@one local0 info\n{REST}\
             backend turns\n mode log\n balance roundrobin\n server a udp@127.0.0.1:{0}\n server b 127.0.0.1:{2} log-proto octet-count\n\
             backend parts\n mode log\n balance log-hash word(-2,' ')\n server a udp@127.0.0.1:{1}\n\
             backend one\n mode log\n balance sticky\n server a 127.0.0.1:1\n server b 127.0.0.1:{2} backup\n",
            ports[0], ports[1], stream.port
        );
        let proxy = Proxy::haproxy(&file).io(io).start();
        asked(&proxy, &["/1", "/2", "/3", "/4"]);
        let mut bytes = [0; 2048];
        let mut next = |socket: &UdpSocket| {
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let count = socket.recv(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes[..count]).into_owned()
        };
        // Lines of two workers come in no order.
        assert!(next(&sockets[0]).starts_with("<134>"));
        assert!(next(&sockets[0]).starts_with("<134>"));
        for _ in 0..4 {
            assert!(next(&sockets[1]).starts_with("127.0.0.1:"));
        }
        eventually("two lines by TCP", || (stream.until("<134>").matches("<134>").count() >= 2).then_some(()));
        // The only server of `one` cannot be had: once that is known, the backup gets the lines.
        let mut number = 10;
        eventually("a line at the backup", || {
            asked(&proxy, &[&format!("/{number}")]);
            number += 1;
            (stream.until("<134>").lines().count() > 1).then_some(())
        });
    }
}

#[test]
fn mistakes_are_told() {
    for (text, told) in [
        ("global\n log ring@b local0\nring a\n", "there is no ring named `b`"),
        ("global\n log backend@b local0\n", "there is no backend in `mode log` named `b`"),
        ("ring a\nring a\n", "two rings named `a`"),
        ("ring a\n format odd\n", "`odd` is no log format"),
        ("ring a\n server s udp@127.0.0.1:1\n", "by datagrams"),
        ("ring a\n server s 127.0.0.1:1 ssl\n", "ssl towards log servers"),
        ("global\n log 127.0.0.1 sample 3:2 local0\n", "no range of places from 1 to 2"),
        ("backend b\n mode log\n balance leastconn\n", "`leastconn` is no balance of a log backend"),
        ("backend b\n mode log\n balance log-hash sha1\n", "keys of log lines are made by"),
        ("frontend f\n bind 127.0.0.1:{port}\n mode log\n", "`log-forward` sections take messages in"),
    ] {
        let (code, said) = Proxy::haproxy(text).check();
        assert!(code != 0 && said.contains(told), "{text}: {code} {said}");
    }
}
