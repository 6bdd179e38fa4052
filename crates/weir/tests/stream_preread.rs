//! TCP services that read the ClientHello of connections they carry. With `WEIR_TEST_RIVAL=1` Debian's nginx answers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use weir_testkit::{Certificate, Client, Io, Origin, Proxy, Running, TlsOptions, both_drivers, tcp};

fn start(io: Io, text: &str) -> Running {
    let module = "/usr/lib/nginx/modules/ngx_stream_module.so";
    let text = format!(
        "load_module {module}; worker_processes 1; events {{}} stream {{ \
         log_format told '$status $ssl_preread_server_name|$ssl_preread_protocol|$ssl_preread_alpn_protocols $server_port $upstream_bytes_sent'; \
         access_log {{dir}}/told told; {text} }}"
    );
    Proxy::nginx(&text).io(io).start()
}

/// The hello of a client, as it goes over the wire.
fn hello(name: &str, alpn: &[&str]) -> Vec<u8> {
    TlsOptions::trusting(&Certificate::p256(&["one.test"])).name(name).alpn(alpn).hello()
}

/// The same handshake message in records of `size` bytes.
fn in_records(hello: &[u8], size: usize) -> Vec<u8> {
    let message = &hello[5..];
    let record =
        |part: &[u8]| [&[22, 3, 1][..], &u16::try_from(part.len()).unwrap().to_be_bytes(), part].concat();
    message.chunks(size).flat_map(record).collect()
}

const ROUTES: &str = "map $ssl_preread_server_name $name { one.test one; two.test two; default none; }";

both_drivers! {
    fn names_choose_the_endpoint_and_tls_passes_through(io: Io) {
        let certificate = |name| Certificate::p256(&[name]);
        let (one, two) = (certificate("one.test"), certificate("two.test"));
        let origin = |certificate: &Certificate, name: &str| {
            Origin::tls(certificate, |c| c.send(name).echo())
        };
        let (first, second) = (origin(&one, "one!"), origin(&two, "two!"));
        let proxy = start(io, &format!(
            "{ROUTES} upstream one {{ server {first}; }} upstream two {{ server {second}; }}
             server {{ listen 127.0.0.1:{{port}}; ssl_preread on; proxy_pass $name; }}"
        ));
        for (certificate, name, says) in [(&one, "one.test", b"one!"), (&two, "two.test", b"two!")] {
            let options = TlsOptions::trusting(certificate).name(name).alpn(&["h2", "http/1.1"]);
            // The origin offers no protocol, which is for it and the client to settle.
            let mut client = Client::tls(&proxy, &options);
            assert_eq!(&client.read_exactly(4), says);
            client.send("ping");
            assert_eq!(client.read_exactly(4), b"ping");
            drop(client);
            proxy.wait_for_file("told", &format!("200 {name}|TLSv1.3|h2,http/1.1 "));
        }
    }

    fn hellos_in_pieces_and_in_many_records_are_read(io: Io) {
        let (one, none) = (tcp::named_echo("one"), tcp::named_echo("none"));
        let proxy = start(io, &format!(
            "{ROUTES} upstream one {{ server {one}; }} upstream none {{ server {none}; }}
             server {{ listen 127.0.0.1:{{port}}; ssl_preread on; proxy_pass $name; }}"
        ));
        let whole = hello("one.test", &["h2"]);
        for sent in [whole.clone(), in_records(&whole, 90), in_records(&whole, 7)] {
            for piece in [1, 50, sent.len()] {
                let mut client = Client::connect(&proxy);
                client.socket().set_nodelay(true).unwrap();
                client.send_slowly(&sent, piece, Duration::ZERO).unwrap();
                assert_eq!(client.read_exactly(4), b"one\n");
                // What was read ahead reaches the endpoint as it was sent.
                assert_eq!(client.read_exactly(sent.len()), sent);
            }
        }
    }

    fn what_is_no_tls_goes_on_without_a_name(io: Io) {
        let none = tcp::named_echo("none");
        let proxy = start(io, &format!(
            "{ROUTES} upstream none {{ server {none}; }} server {{ listen 127.0.0.1:{{port}}; ssl_preread on; proxy_pass $name; }}"
        ));
        for text in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x16\x03\x01\x00\x04\x02\x00\x00\x00", b"SSH-2.0-x\r\n"] {
            let mut client = Client::connect(&proxy);
            client.send(text);
            assert_eq!(client.read_exactly(5), b"none\n");
            assert_eq!(client.read_exactly(text.len()), text);
            drop(client);
            proxy.wait_for_file("told", &format!("200 -|-|- {} {}\n", proxy.port(), text.len()));
        }
    }

    fn a_preread_has_bounds(io: Io) {
        let echo = tcp::named_echo("echo");
        let proxy = start(io, &format!(
            "error_log {{dir}}/error.log info; ssl_preread on; preread_buffer_size 64; server {{ listen 127.0.0.1:{{port}}; proxy_pass {echo}; }}
             preread_timeout 200ms; server {{ listen 127.0.0.1:{{port2}}; preread_buffer_size 16k; proxy_pass {echo}; }}
             server {{ listen 127.0.0.1:{{port3}}; preread_buffer_size 16k; preread_timeout 1h; proxy_pass {echo}; }}"
        ));
        let whole = hello("one.test", &[]);
        assert!(whole.len() > 64);
        // Longer than the buffer: 400, and nobody is asked.
        let mut full = Client::connect(&proxy);
        full.send(&whole);
        assert_eq!(full.read_to_end().0, b"");
        proxy.wait_for_file("told", "400 || ");
        proxy.wait_for_file("error.log", "preread buffer full");
        // Not in time, or not at all: the session ends, and is none of the endpoint's business.
        let (late, left) = (proxy.port_of("port2"), proxy.port_of("port3"));
        let mut slow = Client::connect(&late);
        slow.send(&whole[..40]);
        assert_eq!(slow.read_to_end().0, b"");
        let mut gone = Client::connect(&left);
        gone.send(&whole[..40]);
        gone.half_close();
        assert_eq!(gone.read_to_end().0, b"");
        for port in [late, left] {
            proxy.wait_for_file("told", &format!("200 || {port} -\n"));
        }
    }

    fn rules_of_access_come_first(io: Io) {
        let echo = tcp::echo();
        let proxy = start(io, &format!("server {{ listen 127.0.0.1:{{port}}; ssl_preread on; deny all; proxy_pass {echo}; }}"));
        // It need not say a word to be refused.
        Client::connect(&proxy).expect_closed();
        proxy.wait_for_file("told", "403 -|-|- ");
    }
}

/// Debian's nginx is too old for these.
mod names {
    use super::*;

    both_drivers! {
        fn servers_of_one_address_are_told_apart_by_the_hello(io: Io) {
            let peers = ["one", "two", "many", "other"].map(tcp::named_echo);
            let [one, two, many, other] = &peers;
            let proxy = start(io, &format!(
                "server {{ listen 127.0.0.1:{{port}}; server_name one.test; proxy_pass {one}; }}
                 server {{ listen 127.0.0.1:{{port}} default_server; ssl_preread on; proxy_pass {other}; }}
                 server {{ listen 127.0.0.1:{{port}}; server_name Two.test *.two.test; proxy_pass {two}; }}
                 server {{ listen 127.0.0.1:{{port}}; server_name ~^(?<part>.+)[.]many[.]test$; return $part; }}
                 server {{ listen 127.0.0.1:{{port2}}; proxy_pass {many}; }}"
            ));
            let asked = |name: &str, says: &str| {
                let mut client = Client::connect(&proxy);
                client.send(hello(name, &[]));
                assert_eq!(client.read_exactly(says.len()), says.as_bytes(), "{name}");
            };
            asked("one.test", "one\n");
            asked("ONE.test", "one\n");
            asked("two.test", "two\n");
            asked("a.two.test", "two\n");
            asked("x.many.test", "x");
            asked("no.test", "other\n");
            let mut plain = Client::connect(&proxy);
            plain.send("no hello");
            assert_eq!(plain.read_exactly(6), b"other\n");
        }

        fn servers_of_one_address_have_certificates_of_their_own(io: Io) {
            let (one, two) = (Certificate::p256(&["one.test"]), Certificate::p256(&["two.test"]));
            let (first, second) = (tcp::named_echo("one"), tcp::named_echo("two"));
            let module = "/usr/lib/nginx/modules/ngx_stream_module.so";
            let text = format!(
                "load_module {module}; worker_processes 1; events {{}} stream {{
                 server {{ listen 127.0.0.1:{{port}} ssl; server_name one.test; ssl_certificate {{dir}}/one.crt; ssl_certificate_key {{dir}}/one.key; proxy_pass {first}; }}
                 server {{ listen 127.0.0.1:{{port}} ssl; server_name two.test; ssl_certificate {{dir}}/two.crt; ssl_certificate_key {{dir}}/two.key; proxy_pass {second}; }} }}"
            );
            let proxy = Proxy::nginx(&text).io(io).certificate("one", &one).certificate("two", &two).start();
            for (certificate, name, says) in [(&one, "one.test", b"one\n"), (&two, "two.test", b"two\n")] {
                let mut client = Client::tls(&proxy, &TlsOptions::trusting(certificate).name(name));
                assert_eq!(&client.read_exactly(4), says);
            }
        }
    }

    #[test]
    fn what_nothing_can_tell_apart_is_said() {
        let check = |text: &str| {
            let text = format!("events {{}} stream {{ {text} }}");
            Proxy::nginx(&text).check()
        };
        let two = |more: &str| {
            format!(
                "server {{ listen 127.0.0.1:{{port}}; return a; }} server {{ listen 127.0.0.1:{{port}}; {more} return b; }}"
            )
        };
        let (code, said) = check(&two(""));
        assert!(
            code != 0 && said.contains("only servers with a `server_name` may share an address"),
            "{said}"
        );
        let (code, said) = check(&two("server_name b.test;"));
        assert!(code == 0 && said.contains("add `ssl` to the address, or `ssl_preread on`"), "{said}");
    }
}
