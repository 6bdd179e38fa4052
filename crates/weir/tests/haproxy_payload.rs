//! Rules about the first bytes of sessions and of servers: the same file and the same bytes, to Weir and to Debian's haproxy.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use weir_testkit::{
    Address as _, Certificate, Client, Io, Origin, Proxy, Running, TlsOptions, both_drivers, tcp,
};

const DEFAULTS: &str = "global\n nbthread 1\n log stdout format raw local0\n\
     defaults\n mode tcp\n log global\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n";

/// Fetches of the first bytes, each with a name.
const FETCHES: &[(&str, &str)] = &[
    ("p", "req.payload(0,4),hex"),
    ("all", "req.len"),
    ("lv", "req.payload_lv(0,2),hex"),
    ("lv3", "req.payload_lv(0,2,+1),hex"),
    ("rdp", "req.rdp_cookie"),
    ("rdpn", "req.rdp_cookie(mstshash)"),
    ("rdpc", "req.rdp_cookie_cnt"),
    ("fix", "req.payload(0,0),fix_is_valid"),
    ("type", "req.payload(0,0),fix_tag_value(MsgType)"),
    ("to", "req.payload(0,0),fix_tag_value(56)"),
    ("mqtt", "req.payload(0,0),mqtt_is_valid"),
    ("user", "req.payload(0,0),mqtt_field_value(connect,username)"),
    ("keep", "req.payload(0,0),mqtt_field_value(1,keepalive)"),
    ("http", "req.proto_http"),
    ("bin", "bin(4a4b)"),
];

fn fix() -> Vec<u8> {
    let body = "35=A|49=one|56=two|34=1|52=20260101-00:00:00|98=0|108=30|".replace('|', "\x01");
    let head = format!("8=FIX.4.4\x019={}\x01{body}", body.len());
    let sum = head.bytes().map(usize::from).sum::<usize>() % 256;
    format!("{head}10={sum:03}\x01").into_bytes()
}

/// What a proxy logged of its `at`-th session.
fn logged(proxy: &Running, at: usize) -> String {
    proxy.wait_for_log(&format!("END {at} "));
    let logs = proxy.logs();
    logs.lines().find_map(|line| line.split_once(&format!("END {at} "))).unwrap().1.to_owned()
}

both_drivers! {
    fn first_bytes_are_read(io: Io) {
        let sets: String = FETCHES.iter().map(|(name, fetch)| format!(" tcp-request content set-var(sess.{name}) {fetch}\n")).collect();
        let shown: Vec<String> = FETCHES.iter().map(|(name, _)| format!("{name}=%[var(sess.{name})]")).collect();
        let echo = tcp::echo();
        let file = Proxy::haproxy(&format!(
            "{DEFAULTS}frontend f\n bind 127.0.0.1:{{port}}\n tcp-request inspect-delay 2s\n tcp-request content reject unless {{ req.len gt 0 }}\n{sets} tcp-request content set-var(proc.n) int(1) if !{{ var(proc.n) -m found }}\n \
             tcp-request content set-var(proc.n) var(proc.n),add(1)\n tcp-request content set-var(sess.n) var(proc.n)\n \
             log-format \"END %[var(sess.n)] {} %ts\"\n default_backend b\nbackend b\n server s {echo}\n",
            shown.join(" ")
        ));
        let messages: [&[u8]; 6] = [
            b"\x00\x05hello world and more bytes",
            b"\x03\x00\x00\x2a\x25\xe0\x00\x00\x00\x00\x00Cookie: mstshash=user\r\n",
            &fix(),
            b"\x10\x13\x00\x04MQTT\x04\xc2\x00\x3c\x00\x01c\x00\x01u\x00\x01p",
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"\xc0\x00 neither of them",
        ];
        let told = [file.clone().io(io).start(), file.by_rival().start()].map(|proxy| {
            let each = |(at, message): (usize, &&[u8])| {
                let mut client = Client::connect(&proxy);
                client.send(message);
                assert_eq!(client.read_exactly(message.len()), *message);
                client.half_close();
                client.read_to_end();
                logged(&proxy, at + 2)
            };
            messages.iter().enumerate().map(each).collect::<Vec<_>>()
        });
        // What there is no value for is false.
        let plain = |lines: &[String]| lines.iter().map(|line| line.replace("=- ", "=0 ")).collect::<Vec<_>>();
        assert_eq!(plain(&told[0]), plain(&told[1]));
        assert!(told[0][0].contains("p=0005") && told[0][0].contains("lv=68656C6C6F lv3=656C6C6F20"), "{}", told[0][0]);
        assert!(told[0][1].contains("rdp=user rdpn=user rdpc=1"), "{}", told[0][1]);
        assert!(told[0][2].contains("fix=1 type=A to=two"), "{}", told[0][2]);
        assert!(told[0][3].contains("mqtt=1 user=u keep=60"), "{}", told[0][3]);
        assert!(told[0][4].contains("http=1"), "{}", told[0][4]);
    }

    fn hellos_are_read(io: Io) {
        let certificate = Certificate::p256(&["localhost"]);
        let origin = Origin::tls(&certificate, |script| script.keep_answering(200, &[], "tls"));
        let file = Proxy::haproxy(&format!(
            "{DEFAULTS}frontend f\n bind 127.0.0.1:{{port}}\n tcp-request inspect-delay 2s\n tcp-request content reject unless {{ req.ssl_hello_type 1 }}\n \
             tcp-request content set-var(sess.v) req.ssl_ver\n tcp-request content set-var(sess.ec) req.ssl_ec_ext\n tcp-request content set-var(sess.st) req.ssl_st_ext\n \
             tcp-request content set-var(sess.new) str(new) if {{ req.ssl_ver 3.1:3.9 }}\n tcp-request content set-var(sess.old) str(old) if {{ req.ssl_ver 3.0 }}\n \
             log-format \"END 1 v=%[var(sess.v)] ec=%[var(sess.ec)] st=%[var(sess.st)] %[var(sess.new)]%[var(sess.old)]\"\n default_backend b\nbackend b\n \
             tcp-response inspect-delay 2s\n tcp-response content set-var(res.h) rep_ssl_hello_type\n tcp-response content reject unless {{ res.ssl_hello_type 2 }}\n server s {origin}\n"
        ));
        let told = [file.clone().io(io).start(), file.by_rival().start()].map(|proxy| {
            let mut client = Client::tls(&proxy, &TlsOptions::trusting(&certificate));
            assert_eq!(client.get("/").expect_status(200).text(), "tls");
            drop(client);
            logged(&proxy, 1)
        });
        assert_eq!(told[0], told[1]);
        assert!(told[0].contains("v=196611") && told[0].contains(" new"), "{}", told[0]);
    }

    fn servers_are_judged_by_what_they_say(io: Io) {
        let echo = tcp::echo();
        let file = Proxy::haproxy(&format!(
            "{DEFAULTS}frontend f\n bind 127.0.0.1:{{port}}\n log-format \"END 1 %ts\"\n default_backend b\nbackend b\n tcp-response inspect-delay 2s\n \
             tcp-response content accept if {{ res.payload(0,4) -m str good }}\n tcp-response content reject if {{ res.payload(0,3) -m str bad }}\n \
             tcp-response content close if {{ res.len gt 20 }}\n server s {echo}\n"
        ));
        for (proxy, who) in [(file.clone().io(io).start(), "weir"), (file.by_rival().start(), "haproxy")] {
            let heard = |said: &[&str]| {
                let mut client = TcpStream::connect(proxy.address()).unwrap();
                client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                let heard = |part: &&str| {
                    client.write_all(part.as_bytes()).is_ok() && client.read(&mut [0; 100]).is_ok_and(|read| read > 0)
                };
                said.iter().all(heard)
            };
            assert!(heard(&["good and long, longer than twenty", "bad"]), "{who}");
            assert!(heard(&["other", "bad", "good"]), "{who}");
            assert!(!heard(&["bad"]), "{who}");
            // What was said is passed on; the server is not heard again.
            assert!(heard(&["longer than twenty bytes"]), "{who}");
            assert!(!heard(&["longer than twenty bytes", "bad"]), "{who}");
            proxy.wait_for_log("PD");
        }
    }
}
