//! Parses two usual request heads many times: what callgrind counts instructions of.
//!
//! `cargo build --release -p weir-http --example parse_heads`, then
//! `valgrind --tool=callgrind target/release/examples/parse_heads {weir|httparse} {wrk|browser|answer} 10000`.
//! `weir` does more than `httparse`: it checks Host, lengths and codings, numbers the known fields and marks those that
//! end at this hop.

use std::hint::black_box;

use weir_http::{HeadRules, RequestHead, ResponseHead};

const WRK: &[u8] = b"GET /index.html HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

const BROWSER: &[u8] = b"GET /search?q=weir&lang=en HTTP/1.1\r\n\
Host: www.example.com\r\n\
Connection: keep-alive\r\n\
sec-ch-ua: \"Chromium\";v=\"130\", \"Not?A_Brand\";v=\"99\"\r\n\
sec-ch-ua-mobile: ?0\r\n\
sec-ch-ua-platform: \"Linux\"\r\n\
Upgrade-Insecure-Requests: 1\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
Sec-Fetch-Site: none\r\n\
Sec-Fetch-Mode: navigate\r\n\
Sec-Fetch-User: ?1\r\n\
Sec-Fetch-Dest: document\r\n\
Accept-Encoding: gzip, deflate, br, zstd\r\n\
Accept-Language: en-GB,en;q=0.9,de;q=0.8\r\n\
Cookie: session=5f3c2a9e8b7d6f1a0c4e; theme=dark; consent=all; _ga=GA1.2.1234567890.1700000000\r\n\r\n";

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\n\
Server: nginx/1.22.1\r\n\
Date: Sat, 21 Nov 2026 03:00:00 GMT\r\n\
Content-Type: application/octet-stream\r\n\
Content-Length: 1024\r\n\
Last-Modified: Fri, 20 Nov 2026 12:00:00 GMT\r\n\
Connection: keep-alive\r\n\
ETag: \"673dcf40-400\"\r\n\
Accept-Ranges: bytes\r\n\r\n";

fn main() {
    let mut args = std::env::args().skip(1);
    let parser = args.next().unwrap_or_else(|| "weir".into());
    let head = args.next().unwrap_or_else(|| "browser".into());
    let rounds: u64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(1000);
    match (parser.as_str(), head.as_str()) {
        ("weir", "answer") => weir_response(ANSWER, rounds),
        ("weir", head) => weir_request(input(head), rounds),
        ("httparse", "answer") => httparse_response(ANSWER, rounds),
        ("httparse", head) => httparse_request(input(head), rounds),
        _ => eprintln!("usage: parse_heads {{weir|httparse}} {{wrk|browser|answer}} ROUNDS"),
    }
}

fn input(name: &str) -> &'static [u8] {
    if name == "wrk" { WRK } else { BROWSER }
}

fn weir_request(input: &[u8], rounds: u64) {
    let rules = HeadRules::default();
    let mut head = RequestHead::new();
    for _ in 0..rounds {
        head.reset();
        black_box(head.parse(black_box(input), &rules)).ok();
    }
}

fn weir_response(input: &[u8], rounds: u64) {
    let rules = HeadRules::default();
    let mut head = ResponseHead::new();
    for _ in 0..rounds {
        head.reset();
        black_box(head.parse(black_box(input), &rules)).ok();
    }
}

fn httparse_request(input: &[u8], rounds: u64) {
    for _ in 0..rounds {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut request = httparse::Request::new(&mut headers);
        black_box(request.parse(black_box(input))).ok();
        black_box(&request);
    }
}

fn httparse_response(input: &[u8], rounds: u64) {
    for _ in 0..rounds {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut headers);
        black_box(response.parse(black_box(input))).ok();
        black_box(&response);
    }
}
