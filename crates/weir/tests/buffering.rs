//! Answers to clients that do not read: what is read ahead for them, and what is not.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;
use weir_testkit::{
    Client, Deadline, Gate, Io, Origin, Proxy, ReadError, Request, Running, both_drivers, eventually,
};

/// More than the kernel holds of what is sent to a client that does not read.
const LONG: usize = 1 << 20;

/// A proxy to `origin`, which takes one connection at a time, with `directives`; it sends from a small buffer.
fn proxy(io: Io, origin: &Origin, directives: &str) -> Running {
    Proxy::nginx(&format!(
        "worker_processes 1; events {{}} http {{ access_log off;
         upstream u {{ server {origin} max_conns=1 max_fails=0; keepalive 1; }}
         server {{ listen 127.0.0.1:{{port}} sndbuf=16k; location / {{
             proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection ''; {directives} }} }} }}"
    ))
    .io(io)
    .start()
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// A body in chunks of all sizes, with a trailer.
fn chunked(body: &[u8]) -> Vec<u8> {
    let mut out = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n".to_vec();
    let (mut rest, mut size) = (body, 1);
    while !rest.is_empty() {
        let (chunk, behind) = rest.split_at(size.min(rest.len()));
        out.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
        out.extend(chunk);
        out.extend(b"\r\n");
        rest = behind;
        size = (size * 3 + 1) % 90_001;
    }
    out.extend(b"0\r\nX-T: v\r\n\r\n");
    out
}

/// Asks for `path`, and reads nothing of the answer.
fn ask(proxy: &Running, path: &str) -> Client {
    let mut client = Client::connect(proxy);
    client.send(Request::get(path).bytes());
    client
}

/// Time for the proxy to read what it may of an answer that nobody takes: that it stops has no signal to wait for.
fn let_it_fill() {
    let _ = Gate::new().pass(Deadline::after(Duration::from_millis(300)));
}

/// The endpoint serves another client although `slow` has read nothing.
fn is_free(proxy: &Running) {
    eventually("the endpoint to be free", || {
        (Client::connect(proxy).get("/next").status == 200).then_some(())
    });
}

both_drivers! {
    fn an_endpoint_is_free_before_its_client_has_read(io: Io) {
        let body = pattern(LONG);
        let origin = Origin::script(|c| c.expect("GET /").respond(200, &body).expect("GET /next").respond(200, "next").until_closed());
        let proxy = proxy(io, &origin, "proxy_buffers 32 64k;");
        let mut slow = ask(&proxy, "/");
        origin.wait_for_requests(1);
        is_free(&proxy);
        slow.read().expect_status(200).expect_body(&body);
        assert_eq!(origin.connections(), 1);
    }

    fn chunks_that_are_read_ahead_stay_in_order(io: Io) {
        let body = pattern(LONG);
        let origin = Origin::script(|c| c.expect("GET /").send(chunked(&body)).expect("GET /next").respond(200, "next").until_closed());
        let proxy = proxy(io, &origin, "proxy_buffers 32 64k;");
        let mut slow = ask(&proxy, "/");
        origin.wait_for_requests(1);
        is_free(&proxy);
        let answer = slow.read();
        assert_eq!(answer.expect_body(&body).trailers, [("X-T".to_owned(), "v".to_owned())]);
    }

    fn an_endpoint_waits_beyond_the_bound(io: Io) {
        let body = pattern(LONG);
        let origin = Origin::named("one", &body);
        let proxy = proxy(io, &origin, "proxy_max_temp_file_size 0;");
        let mut slow = ask(&proxy, "/");
        origin.wait_for_requests(1);
        let_it_fill();
        Client::connect(&proxy).get("/").expect_status(502);
        slow.read().expect_status(200).expect_body(&body);
        Client::connect(&proxy).get("/").expect_status(200).expect_body(&body);
    }

    fn what_is_not_to_be_buffered_is_not(io: Io) {
        let body = pattern(LONG);
        for (field, directives) in [("X-Other", "proxy_buffering off;"), ("X-Accel-Buffering", "")] {
            let origin = Origin::script(|c| c.keep_answering(200, &[(field, "no")], &body));
            let proxy = proxy(io, &origin, &format!("proxy_buffers 32 64k; {directives}"));
            let mut slow = ask(&proxy, "/");
            origin.wait_for_requests(1);
            let_it_fill();
            Client::connect(&proxy).get("/").expect_status(502);
            slow.read().expect_status(200).expect_body(&body);
        }
    }

    fn a_cut_answer_that_was_read_ahead_looks_cut(io: Io) {
        let body = pattern(LONG);
        let plain = [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 2 * LONG).as_bytes(), &body].concat();
        let coded = chunked(&body);
        for cut in [&plain[..], &coded[..coded.len() - 20]] {
            let origin = Origin::script(|c| c.expect("GET /").send(cut).close());
            let proxy = proxy(io, &origin, "proxy_buffers 32 64k;");
            let mut slow = ask(&proxy, "/");
            origin.wait_for_completed(1);
            let_it_fill();
            let got = slow.try_read("GET");
            assert!(matches!(got, Err(ReadError::Truncated(_))), "looks whole or wrong");
        }
    }

    fn a_file_is_used_where_it_is_asked_for(io: Io) {
        let body = pattern(4 * LONG);
        let origin = Origin::script(|c| c.expect("GET /").respond(200, &body).expect("GET /next").respond(200, "next").until_closed());
        let folder = tempfile::tempdir().unwrap();
        let directives = format!("proxy_max_temp_file_size 8m; proxy_temp_path {};", folder.path().display());
        let proxy = proxy(io, &origin, &directives);
        let mut slow = ask(&proxy, "/");
        origin.wait_for_requests(1);
        is_free(&proxy);
        slow.read().expect_status(200).expect_body(&body);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");
    }

    fn a_file_has_a_bound(io: Io) {
        let body = pattern(4 * LONG);
        let origin = Origin::named("one", &body);
        let folder = tempfile::tempdir().unwrap();
        let directives = format!("proxy_max_temp_file_size 1m; proxy_temp_path {};", folder.path().display());
        let proxy = proxy(io, &origin, &directives);
        let mut slow = ask(&proxy, "/");
        origin.wait_for_requests(1);
        let_it_fill();
        Client::connect(&proxy).get("/").expect_status(502);
        slow.read().expect_status(200).expect_body(&body);
    }
}
