//! TCP: balanced, half-closed, terminated, and with PROXY headers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use weir_testkit::dns::{NameAnswer, NameServer};
use weir_testkit::{
    Certificate, Client, Io, Origin, Port, Proxy, Request, Running, TlsOptions, both_drivers, tcp,
};

fn stream(io: Io, text: &str) -> Proxy {
    let module = "/usr/lib/nginx/modules/ngx_stream_module.so";
    Proxy::nginx(&format!("load_module {module}; worker_processes 1; events {{}} stream {{ {text} }}")).io(io)
}

fn start(io: Io, text: &str) -> Running {
    stream(io, text).start()
}

both_drivers! {
    fn connections_take_turns(io: Io) {
        let (one, two) = (tcp::named_echo("one"), tcp::named_echo("two"));
        let proxy = start(io, &format!("upstream u {{ server {one}; server {two}; }} server {{ listen 127.0.0.1:{{port}}; proxy_pass u; }}"));
        let mut names: Vec<Vec<u8>> = (0..4).map(|_| {
            let mut client = Client::connect(&proxy);
            let name = client.read_exactly(4);
            client.send("ping");
            assert_eq!(client.read_exactly(4), b"ping");
            client.half_close();
            client.expect_closed();
            name
        }).collect();
        names.sort();
        assert_eq!(names, [b"one\n", b"one\n", b"two\n", b"two\n"]);
    }

    /// As nginx shows it, before the session has ended, too.
    fn what_is_returned_may_name_the_status(io: Io) {
        let proxy = stream(io, "server { listen 127.0.0.1:{port}; return '$status $bytes_sent $protocol'; }");
        for running in [proxy.clone().start(), proxy.by_rival().start()] {
            assert_eq!(Client::connect(&running).read_to_end().0, b"000 0 TCP");
        }
    }

    fn large_bodies_survive_in_both_directions(io: Io) {
        let echo = tcp::echo();
        let proxy = start(io, &format!("server {{ listen 127.0.0.1:{{port}}; proxy_pass {echo}; }}"));
        let mut client = Client::connect(&proxy);
        let piece: Vec<u8> = (0..200_000_u32).map(|n| (n % 241) as u8).collect();
        for _ in 0..20 {
            client.send(&piece);
            assert!(client.read_exactly(piece.len()) == piece);
        }
    }

    fn a_dead_endpoint_is_passed_over(io: Io) {
        let (dead, alive) = (Port::lease(), tcp::named_echo("alive"));
        let proxy = start(io, &format!("upstream u {{ server 127.0.0.1:{dead}; server {alive}; }} server {{ listen 127.0.0.1:{{port}}; proxy_pass u; }}"));
        for _ in 0..4 {
            assert_eq!(Client::connect(&proxy).read_exactly(6), b"alive\n");
        }
    }

    fn nobody_there_closes(io: Io) {
        let dead = Port::lease();
        let proxy = start(io, &format!("server {{ listen 127.0.0.1:{{port}}; proxy_pass 127.0.0.1:{dead}; }}"));
        Client::connect(&proxy).expect_closed();
    }

    fn tls_ends_here(io: Io) {
        let cert = Certificate::p256(&["localhost"]);
        let echo = tcp::named_echo("inside");
        let text = format!(
            "server {{ listen 127.0.0.1:{{port}} ssl; ssl_certificate {{dir}}/c.crt; ssl_certificate_key {{dir}}/c.key; proxy_pass {echo}; }}"
        );
        let proxy = stream(io, &text).certificate("c", &cert).start();
        let mut client = Client::tls(&proxy, &TlsOptions::trusting(&cert));
        assert_eq!(client.read_exactly(7), b"inside\n");
        client.send("ping");
        assert_eq!(client.read_exactly(4), b"ping");
    }

    fn proxy_headers_are_taken_and_given(io: Io) {
        let port = Port::lease();
        let line = format!("PROXY TCP4 192.0.2.7 127.0.0.1 4711 {port}\r\n");
        let origin = Origin::script(|c| c.expect_bytes(line).send("seen").echo());
        let text = format!("server {{ listen 127.0.0.1:{{port}} proxy_protocol; proxy_pass {origin}; proxy_protocol on; set_real_ip_from 127.0.0.1; }}");
        let proxy = stream(io, &text).port("port", &port).start();
        for header in [&b"PROXY TCP4 192.0.2.7 198.51.100.2 4711 443\r\n"[..],
                       &b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x07\xc6\x33\x64\x02\x12\x67\x01\xbb"[..]] {
            let mut client = Client::connect(&proxy);
            client.send(header);
            assert_eq!(client.read_exactly(4), b"seen");
        }
        let mut none = Client::connect(&proxy);
        none.send("GET / HTTP/1.1\r\n\r\n");
        none.expect_closed();
    }

    fn a_half_that_ends_ends_the_session_unless_told_otherwise(io: Io) {
        // One that never says or takes anything, and one that answers once it was told all.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let late = TcpListener::bind("127.0.0.1:0").unwrap();
        let late_at = late.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = late.accept().unwrap();
            stream.read_to_end(&mut Vec::new()).unwrap();
            stream.write_all(b"late answer").unwrap();
        });
        let proxy = start(io, &format!(
            "server {{ listen 127.0.0.1:{{port}}; proxy_pass {}; }}
             server {{ listen 127.0.0.1:{{port2}}; proxy_half_close on; proxy_pass {late_at}; }}", silent.local_addr().unwrap()
        ));
        let mut client = Client::connect(&proxy);
        client.send("ask").half_close();
        assert_eq!(client.read_to_end().0, b"");
        let mut client = Client::connect(proxy.port_of("port2"));
        client.send("ask").half_close();
        assert_eq!(client.read_to_end().0, b"late answer");
    }

    fn connections_are_handed_to_other_listeners(io: Io) {
        let certificate = Certificate::p256(&["localhost"]);
        let module = "/usr/lib/nginx/modules/ngx_stream_module.so";
        let proxy = Proxy::nginx(&format!(
            "load_module {module}; worker_processes 2; error_log {{dir}}/error.log; events {{}} \
             http {{ access_log off; server {{ listen 127.0.0.1:{{port_http}}; return 200 \"http $scheme $ssl_server_name $remote_port\"; }} \
             server {{ listen 127.0.0.1:{{port_https}} ssl; ssl_certificate {{dir}}/c.crt; ssl_certificate_key {{dir}}/c.key; return 200 \"https $scheme\"; }} }} \
             stream {{ log_format s '$status;'; access_log {{dir}}/stream.log s; map $ssl_preread_protocol $to {{ '' 127.0.0.1:{{port_http}}; default 127.0.0.1:{{port_https}}; }} \
             server {{ listen 127.0.0.1:{{port}}; pass 127.0.0.1:{{port_http}}; }} \
             server {{ listen 127.0.0.1:{{port_both}}; ssl_preread on; pass $to; }} \
             server {{ listen 127.0.0.1:{{port_tls}} ssl; ssl_certificate {{dir}}/c.crt; ssl_certificate_key {{dir}}/c.key; pass 127.0.0.1:{{port_http}}; }} \
             server {{ listen 127.0.0.1:{{port_twice}} ssl; ssl_certificate {{dir}}/c.crt; ssl_certificate_key {{dir}}/c.key; pass 127.0.0.1:{{port_https}}; }} \
             server {{ listen 127.0.0.1:{{port_echo}}; access_log {{dir}}/echo.log s; return \"text\n\"; }} \
             server {{ listen 127.0.0.1:{{port_stream}}; pass 127.0.0.1:{{port_echo}}; }} \
             server {{ listen 127.0.0.1:{{port_circle}}; pass 127.0.0.1:{{port_circle}}; }} \
             server {{ listen 127.0.0.1:{{port_none}}; pass 127.0.0.1:1; }} }}"
        )).certificate("c", &certificate).io(io).start();
        let mut client = Client::connect(&proxy);
        let port = client.local().port();
        for _ in 0..3 {
            client.get("/").expect_body(format!("http http  {port}"));
        }
        Client::connect(proxy.port_of("port_both")).get("/").expect_status(200);
        let options = TlsOptions::trusting(&certificate);
        assert_eq!(Client::tls(proxy.port_of("port_both"), &options).get("/").text(), "https https");
        let got = Client::tls(proxy.port_of("port_tls"), &options).get("/").text();
        assert!(got.starts_with("http https localhost "), "{got}");
        Client::tls(proxy.port_of("port_twice"), &options).expect_closed();
        let (text, _) = Client::connect(proxy.port_of("port_stream")).read_to_end();
        assert_eq!(text, b"text\n");
        Client::connect(proxy.port_of("port_circle")).expect_closed();
        Client::connect(proxy.port_of("port_none")).expect_closed();
        proxy.wait_for_file("error.log", "too many services pass this connection on");
        proxy.wait_for_file("error.log", "no listener has the address \"127.0.0.1:1\"");
        proxy.wait_for_file("error.log", "cannot be passed to a listener with TLS");
        proxy.wait_for_file("echo.log", "200;");
        let log = proxy.wait_for_file("stream.log", "500;");
        assert!(!log.contains("200;"), "what was passed on has no line: {log}");
    }

    fn variables_are_assigned(io: Io) {
        let (one, two) = (tcp::named_echo("one"), tcp::named_echo("two"));
        let proxy = start(io, &format!(
            "map $to $name {{ default one; b two; }} upstream one {{ server {one}; }} upstream two {{ server {two}; }}
             server {{ listen 127.0.0.1:{{port}}; set $to a; set $both \"$to-$name\"; return $both; }}
             server {{ listen 127.0.0.1:{{port2}}; set $to b; proxy_pass $name; }}"
        ));
        assert_eq!(Client::connect(&proxy).read_to_end().0, b"a-one");
        assert_eq!(Client::connect(proxy.port_of("port2")).read_exactly(4), b"two\n");
    }

    fn fields_of_proxy_headers_are_variables(io: Io) {
        let names = ["alpn", "authority", "0x02", "unique_id", "ssl_verify", "ssl_cn", "ssl_version", "ssl_0x22", "0xe0"];
        let variables = names.map(|name| format!("$proxy_protocol_tlv_{name}")).join("|");
        let proxy = start(io, &format!("server {{ listen 127.0.0.1:{{port}} proxy_protocol; return \"{variables}\"; }}"));
        let field = |kind: u8, value: &[u8]| [&[kind, 0, value.len() as u8][..], value].concat();
        let tls = [&[7, 0, 0, 0, 3][..], &field(0x21, b"TLSv1.3"), &field(0x22, b"client.test")].concat();
        let fields = [field(1, b"h2"), field(2, b"a.test"), field(0x20, &tls), field(0xe0, b"own")].concat();
        let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00".to_vec();
        header.push(12 + fields.len() as u8);
        header.extend(b"\xc0\x00\x02\x07\xc6\x33\x64\x02\x12\x67\x01\xbb");
        header.extend(fields);
        let mut client = Client::connect(&proxy);
        client.send(&header);
        let told = String::from_utf8(client.read_to_end().0).unwrap();
        assert_eq!(told, "h2|a.test|a.test||3|client.test|TLSv1.3|client.test|own");
        let mut plain = Client::connect(&proxy);
        plain.send("PROXY TCP4 192.0.2.7 198.51.100.2 4711 443\r\n");
        assert_eq!(plain.read_to_end().0, b"||||||||");
    }

    fn proxy_headers_name_the_client_in_http(io: Io) {
        let proxy = Proxy::nginx(
            "worker_processes 1; events {} http { access_log off; server { listen 127.0.0.1:{port} proxy_protocol;
             set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol; return 200 \"$remote_addr $proxy_protocol_addr\"; } }",
        ).io(io).start();
        let mut client = Client::connect(&proxy);
        client.send("PROXY TCP4 192.0.2.7 198.51.100.2 4711 80\r\n").send(Request::get("/").bytes());
        client.read().expect_body("192.0.2.7 192.0.2.7");
    }
}

#[test]
fn stream_and_http_may_name_the_same_server_in_any_order() {
    let origin = Origin::named("one", "one");
    let text = format!(
        "events {{}} stream {{ upstream u {{ server {origin}; }} server {{ listen 127.0.0.1:{{port_a}}; proxy_pass {origin}; }} \
         server {{ listen 127.0.0.1:{{port_b}}; proxy_pass u; }} }} \
         http {{ access_log off; upstream u {{ server {origin}; }} server {{ listen 127.0.0.1:{{port}}; \
         location /a {{ proxy_pass http://{origin}; }} location /b {{ proxy_pass http://u; }} }} }}"
    );
    let proxy = Proxy::nginx(&text).start();
    for path in ["/a", "/b"] {
        Client::connect(&proxy).get(path).expect_body("one");
    }
    for port in ["port_a", "port_b"] {
        Client::connect(proxy.port_of(port)).get("/").expect_body("one");
    }
}

/// Every variable of `stream`, as the log of a file that has no `http` at all.
const STREAM_VARIABLES: &str = "$binary_remote_addr|$bytes_received|$bytes_sent|$connection|$hostname|$msec|$nginx_version|$pid|\
    $protocol|$remote_addr|$remote_port|$server_addr|$server_port|$session_time|$status|$time_iso8601|$time_local|$upstream_addr|\
    $upstream_bytes_received|$upstream_bytes_sent|$upstream_connect_time|$upstream_first_byte_time|$upstream_session_time|\
    $proxy_protocol_addr|$proxy_protocol_port|$proxy_protocol_server_addr|$proxy_protocol_server_port|$realip_remote_addr|\
    $realip_remote_port|$limit_conn_status|$ssl_alpn_protocol|$ssl_cipher|$ssl_client_cert|$ssl_client_fingerprint|\
    $ssl_client_i_dn|$ssl_client_raw_cert|$ssl_client_s_dn|$ssl_client_serial|$ssl_client_verify|$ssl_curve|$ssl_protocol|\
    $ssl_server_name|$ssl_session_id|$ssl_session_reused|$target";

both_drivers! {
    fn a_file_of_services_alone_needs_nothing_of_http(io: Io) {
        let echo = tcp::named_echo("echo");
        let names = NameServer::start();
        names.tell("echo.test", NameAnswer::Addresses(vec![Ipv4Addr::LOCALHOST], 60));
        let text = format!(
            "log_format all '{STREAM_VARIABLES}'; log_format short '$status $protocol $bytes_sent $bytes_received $target $upstream_addr';
             map $server_port $target {{ {{port2}} nowhere.test; default echo.test; }} access_log {{dir}}/all all;
             access_log {{dir}}/short short; error_log {{dir}}/error.log info; resolver {} ipv6=off; resolver_timeout 2s; limit_conn_zone $remote_addr zone=z:1m;
             server {{ listen 127.0.0.1:{{port}}; limit_conn z 10; proxy_pass $target:{}; }}
             server {{ listen 127.0.0.1:{{port2}}; proxy_pass $target:1; }}
             server {{ listen 127.0.0.1:{{port3}}; deny all; proxy_pass $target:1; }}
             server {{ listen 127.0.0.1:{{port4}}; return $remote_addr; }}",
            names.address(), echo.port(),
        );
        let proxy = start(io, &text);
        let mut client = Client::connect(&proxy);
        assert_eq!(client.read_exactly(5), b"echo\n");
        client.send("ping");
        assert_eq!(client.read_exactly(4), b"ping");
        client.half_close();
        client.expect_closed();
        for word in ["port2", "port3"] {
            Client::connect(proxy.port_of(word)).expect_closed();
        }
        assert_eq!(Client::connect(proxy.port_of("port4")).read_to_end().0, b"127.0.0.1");
        let end = "|echo.test\n";
        let all = proxy.wait_for_file("all", end);
        let line = all.lines().find(|line| line.ends_with("|echo.test") && line.contains("|200|")).expect("a line of the test page");
        assert_eq!(line.matches('|').count(), STREAM_VARIABLES.matches('|').count(), "{line}");
        let short = proxy.wait_for_file("short", "200 TCP 9 4 echo.test");
        let of = format!("200 TCP 9 4 echo.test 127.0.0.1:{}", echo.port());
        assert!(short.contains(&of), "{short}");
        for refused in ["500 TCP 0 0 nowhere.test", "403 TCP 0 0 echo.test", "200 TCP 9 0 echo.test"] {
            proxy.wait_for_file("short", refused);
        }
        proxy.wait_for_file("error.log", "access forbidden by rule while initializing session, client: 127.0.0.1, server: 127.0.0.1:");
        proxy.wait_for_file("error.log", "nowhere.test could not be resolved (3: Host not found)");
    }
}
