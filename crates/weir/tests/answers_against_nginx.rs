//! What is answered without a file: the same configuration, asked the same of Weir and of Debian's nginx.
//!
//! Compared are status, fields and the bodies that the configuration made; where the two may differ a comment says why.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use weir_testkit::response::Response;
use weir_testkit::{Client, Io, Origin, Proxy, Request, Running, both_drivers};

const CONF: &str = r#"worker_processes 1; events {} http { access_log off; error_log /dev/null; default_type text/plain;
    upstream up { server {origin}; }
    upstream dead { server 127.0.0.1:1; }
    upstream dated { server {dated}; }
    server { listen 127.0.0.1:{port}; server_name first;
        location = /204 { return 204; }
        location = /204text { return 204 text; }
        location = /200 { return 200; }
        location = /200text { return 200 "text $uri $server_name"; }
        location = /301 { return 301 /to?a=$arg_a; }
        location = /302 { return 302 http://other.test/x; }
        location = /303 { return 303 /x; }
        location = /307 { return 307 $scheme://other.test$request_uri; }
        location = /308 { return 308 /x; }
        location = /url { return https://other.test/; }
        location = /404 { return 404; }
        location = /404text { return 404 none; }
        location = /418 { return 418; }
        location = /599 { return 599; }
        location = /599text { return 599 text; }
        location = /503json { default_type application/json; return 503 '{"a":1}'; }
        location = /notype { default_type ""; return 200 x; }
        location = /fields { add_header X-A b; add_header X-B c always; return 404; }
        location = /204fields { add_header X-A b; return 204; }
        location = /exact/ { proxy_pass http://up/; }
        location = /both/ { proxy_pass http://up/; }
        location = /both { return 200 both; }
        location /prefix/ { proxy_pass http://up/; }
        location = /static/ { return 200 static; }
        location /gzip { gzip on; gzip_types text/plain; gzip_vary on; gzip_min_length 4; return 200 "a long enough text"; }
        location /page { error_page 404 =418 /200text; return 404; }
        location /page403 { error_page 403 = @named; return 403; }
        location /page302 { error_page 404 http://other.test/; return 404; }
        location @named { return 200 named; }
        location /broken/ { rewrite ^/broken/(.*)$ /new/$1 break; proxy_pass http://up/ignored/; }
        location = /inner { internal; return 200 "inner $uri"; }
        location /toinner { rewrite ^ /inner last; }
        location /dead { proxy_pass http://dead; error_page 502 = @named; }
        location /heads { return 200 "$uri $http_x_a $http_x_b $http_x_c"; }
        location = /first { error_page 302 /200text; return 302 /first; }
        location = /second { error_page 302 /302; return 302 /first; }
        location = /third { error_page 301 =200 @named; rewrite ^ /x permanent; }
        location = /fourth { error_page 302 = /none; rewrite ^ /x redirect; }
        location = /lost { error_page 404 =200 /none; return 404; }
        location = /lostagain { error_page 404 =201 /418; return 404; }
        location = /moved { error_page 404 =301 http://other.test/x; return 404; }
        location = /computed { error_page 404 = $arg_to; return 404; }
        location = /494 { return 494; }
        location = /495 { return 495; }
        location = /497 { error_page 497 /200text; return 497; }
        location = /444text { return 444 text; }
        location = /silent408 { error_page 408 =200 /200; return 408; }
        location = /silent444 { error_page 444 =200 /200; return 444; }
        location = /silent499 { return 499; }
        location = /cookie { return 200 "$cookie_a $cookie_b"; }
        location = /basic { error_page 401 /200text; auth_basic realm; auth_basic_user_file /dev/null; proxy_pass http://up; }
        location = /bare { auth_basic realm; auth_basic_user_file /dev/null; proxy_pass http://up; }
        location = /modified { add_header Last-Modified "Sun, 06 Nov 1994 08:49:37 GMT"; add_header ETag '"x"'; return 200 x; }
        location = /unmodified { add_header Last-Modified $arg_none; proxy_pass http://dated/; }
        location /sent { add_header X-Sent "$sent_http_connection $sent_http_transfer_encoding"; proxy_pass http://up; }
        location /redirected/ { proxy_pass http://dated/; }
        location /captured/ { rewrite ^/captured/(.*)$ /new/$1 redirect; }
        location /500 { return 500; }
        location /413 { return 413; }
        location /503 { return 503; }
        location /504 { return 504; }
    }
    server { listen 127.0.0.1:{port}; server_name wide; merge_slashes off; underscores_in_headers on; ignore_invalid_headers off;
        large_client_header_buffers 4 16k; return 200 "wide $uri $http_x_a $http_x_b"; }
    server { listen 127.0.0.1:{port}; server_name again; rewrite ^/old/(.*)$ /new/$1; if ($http_x_a) { return 403; }
        error_page 403 404 /old/error; location /new/ { return 200 "new $uri $status"; } location /none { return 404; } }
    server { listen 127.0.0.1:{port_auth}; add_header X-User "joe $http_x_uri $http_x_method $request_method $args" always;
        add_header WWW-Authenticate 'Bearer realm="x"' always; if ($http_x_token = good) { return 200 yes; }
        if ($http_x_token = known) { return 403; } if ($http_x_token = odd) { return 302 /x; } return 401 no; }
    server { listen 127.0.0.1:{port}; server_name asks; auth_request /asked; auth_request_set $who $upstream_http_x_user; auth_request_set $code $upstream_status;
        error_page 401 = @login; error_page 403 /sorry; add_header X-Who "$who $code" always;
        location = /asked { internal; proxy_pass http://127.0.0.1:{port_auth}/?x=y; proxy_pass_request_body off; proxy_set_header Content-Length "";
            proxy_set_header X-Uri $request_uri; proxy_set_header X-Method $request_method; }
        location @login { auth_request off; add_header X-Login "$who $code"; return 302 /login; }
        location = /sorry { auth_request off; try_files /none @sorry; }
        location @sorry { auth_request off; return 403 sorry; }
        location / { proxy_pass http://up; proxy_set_header X-User $who; }
        location /open { auth_request off; proxy_pass http://up; }
        location /raw { error_page 401 /none; proxy_pass http://up; }
        location /any { satisfy any; allow 127.0.0.1; deny all; proxy_pass http://up; }
        location /denied { satisfy any; deny all; proxy_pass http://up; }
        location /realm { satisfy any; deny all; auth_request off; auth_basic $arg_realm; auth_basic_user_file /none; proxy_pass http://up; }
        location /realms { satisfy any; deny all; auth_request /fixed-no; auth_basic $arg_realm; auth_basic_user_file /none; proxy_pass http://up; }
        location /both { allow 127.0.0.1; deny all; proxy_pass http://up; }
        location /never { deny all; proxy_pass http://up; }
        location /fixed { auth_request /fixed-no; proxy_pass http://up; }
        location = /fixed-no { internal; return 403; }
        location /missing { auth_request /nowhere-at-all; error_page 500 = @sorry; proxy_pass http://up; }
        location = /nowhere-at-all { return 404; } }
    server { listen 127.0.0.1:{port_pp} proxy_protocol; location / { return 200 "$remote_addr $realip_remote_addr $proxy_protocol_addr"; }
        location /open { allow 127.0.0.1; deny all; return 200 x; }
        location /closed { deny 127.0.0.1; allow all; try_files /none @in; }
        location @in { return 200 in; }
        location /real { set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol; return 200 "$remote_addr $realip_remote_addr"; } }
    server { listen 127.0.0.1:{port_real}; set_real_ip_from 127.0.0.0/8; real_ip_header X-Forwarded-For; real_ip_recursive on;
        return 200 "$remote_addr '$remote_port'"; }
    server { listen *:{port_any}; server_name any; return 200 "any $server_addr"; }
    server { listen *:{port_any}; server_name named; return 200 "any named"; }
    server { listen 127.0.0.2:{port_any}; server_name one; return 200 "one"; }
    server { listen 127.0.0.2:{port_any}; server_name named; return 200 "one named"; }
    }"#;

fn requests() -> Vec<Request> {
    let get = Request::get;
    let mut all: Vec<Request> = [
        "/204",
        "/204text",
        "/200",
        "/200text",
        "/301?a=b",
        "/302",
        "/303",
        "/307?x",
        "/308",
        "/url",
        "/404",
        "/404text",
        "/418",
        "/599",
        "/599text",
        "/503json",
        "/notype",
        "/fields",
        "/204fields",
        "/exact",
        "/exact?x=1",
        "/exact/",
        "/exact/x",
        "/both",
        "/both/",
        "/prefix",
        "/prefix/",
        "/static",
        "/static/",
        "/gzip",
        "/page",
        "/page403",
        "/page302",
        "/broken/x?y",
        "/toinner",
        "/inner",
        "/dead",
        "/heads//x",
    ]
    .into_iter()
    .map(get)
    .collect();
    let encoded = ["/204", "/200text", "/404", "/301", "/gzip", "/exact", "/418"];
    all.extend(encoded.map(Request::head));
    all.push(get("/gzip").header("Accept-Encoding", "gzip"));
    all.push(Request::head("/gzip").header("Accept-Encoding", "gzip"));
    all.push(get("/old/a").host("again"));
    all.push(get("/none").host("again"));
    all.push(get("/old/a").host("again").header("X-A", "1"));
    for path in
        ["/", "/p?q=1", "/open", "/raw", "/any", "/denied", "/both", "/never", "/fixed", "/missing", "/asked"]
    {
        for token in ["good", "known", "odd", "none"] {
            all.push(get(path).host("asks").header("X-Token", token));
        }
    }
    for path in ["/realm?realm=off", "/realm?realm=x", "/realms?realm=off", "/realms?realm=x"] {
        all.push(get(path).host("asks"));
    }
    all.push(Request::post("/p", "body").host("asks").header("X-Token", "good"));
    all.push(Request::post("/p", "body").host("asks").header("X-Token", "none"));
    for path in [
        "/first",
        "/second",
        "/third",
        "/fourth",
        "/lost",
        "/lostagain",
        "/moved",
        "/computed?to=/200",
        "/computed?to=@named",
        "/computed?to=@none",
        "/computed?to=http://x.test/",
        "/494",
        "/495",
        "/497",
        "/444text",
        "/basic",
        "/bare",
        "/modified",
        "/unmodified",
        "/captured/a%20b?c",
        "/500",
        "/413",
        "/503",
        "/504",
        "/heads#x",
        "/heads?x#y?z",
    ] {
        all.push(get(path));
    }
    all.push(get("/cookie").header("Cookie", "a = 1;b=2; a=3"));
    all.push(get("/bare").header("Authorization", "Basic Og=="));
    all.push(get("/heads").header("X(A", "1").header("X-B", "2").header("X@C", "3"));
    all.push(Request::new("CONNECT", "/heads"));
    all.push(Request::post("/heads", "abc").header("Expect", "nothing"));
    let long = "x".repeat(12_000);
    for host in ["first", "wide"] {
        all.push(get("//heads").host(host).header("X_A", "1").header("X.B", "2").header("X-C", "3"));
        all.push(get("/heads").host(host).header("X-A", &long));
        all.push(get(&format!("/heads{long}")).host(host));
    }
    all
}

type Told = (u16, BTreeMap<String, Vec<String>>, String);

fn told(response: &Response, port: &str) -> Told {
    let is_page = response.text().starts_with("<html>");
    let coded = response.header("Content-Encoding").is_some();
    let mut fields: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in &response.headers {
        let name = name.to_ascii_lowercase();
        // nginx closes after 500 and its kin, and after what came of them.
        // RFC 9110 §15.5.6: Weir says with 405 what is allowed.
        let same = matches!(&*name, "date" | "server" | "connection" | "allow")
            // Pages name the program, so that their lengths differ.
            || (name == "content-length" && (is_page || response.status >= 300));
        if !same {
            let value = value.replace(port, "PORT");
            let values = fields.entry(name).or_default();
            // nginx says a challenge twice where an error page of 401 fails in its turn.
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }
    let body = if is_page || coded { String::new() } else { response.text() };
    (response.status, fields, body)
}

fn ask(proxy: &Running, request: &Request) -> Told {
    told(&Client::connect(proxy).request(request), &proxy.port().to_string())
}

/// The text that a listener answers bytes with.
fn text(proxy: &Running, port: &str, bytes: &[u8]) -> String {
    let mut client = Client::connect(proxy.port_of(port));
    client.send(bytes);
    let response = client.read();
    if response.status == 200 { response.text() } else { response.status.to_string() }
}

fn compare(ours: &Running, theirs: &Running) -> String {
    let mut differences = String::new();
    for request in requests() {
        let (us, them) = (ask(ours, &request), ask(theirs, &request));
        if us != them {
            let shown = String::from_utf8_lossy(&request.bytes()).chars().take(120).collect::<String>();
            differences += &format!("{shown}\n  ours:   {us:?}\n  theirs: {them:?}\n\n");
        }
    }
    let mut raw = Vec::new();
    for path in ["/", "/open", "/closed", "/real"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        raw.push(("port_pp", format!("PROXY TCP4 9.8.7.6 10.1.1.1 1000 80\r\n{request}")));
    }
    for value in [
        "1.2.3.4",
        "9.9.9.9, 1.2.3.4, 127.0.0.5",
        "1.2.3.4:99",
        "127.0.0.9",
        "2001:db8::1",
        "[2001:db8::1]:7",
    ] {
        let head =
            format!("GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: {value}\r\nConnection: close\r\n\r\n");
        raw.push(("port_real", head));
    }
    for (port, bytes) in raw {
        let (us, them) = (text(ours, port, bytes.as_bytes()), text(theirs, port, bytes.as_bytes()));
        if us != them {
            differences += &format!("{bytes}\n  ours:   {us}\n  theirs: {them}\n\n");
        }
    }
    differences
}

both_drivers! {
    fn same_as_nginx(io: Io) {
        let origin = Origin::named("up", "up");
        let dated = Origin::script(|c| c.keep_answering(200, &[("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")], "dated"));
        let text = CONF.replace("{origin}", &origin.to_string()).replace("{dated}", &dated.to_string());
        let (ours, theirs) = (Proxy::nginx(&text).io(io).start(), Proxy::nginx(&text).by_rival().start());
        let differences = compare(&ours, &theirs);
        assert!(differences.is_empty(), "{differences}");
        for host in ["any", "one", "named", "zz"] {
            for address in ["127.0.0.1", "127.0.0.2", "127.0.0.3"] {
                let ask = |proxy: &Running| {
                    let to: std::net::SocketAddr = format!("{address}:{}", proxy.port_of("port_any").number()).parse().unwrap();
                    Client::connect(to).request(&Request::get("/").host(host)).text()
                };
                assert_eq!(ask(&ours), ask(&theirs), "host {host} at {address}");
            }
        }
    }

    /// Status lines, what is said of the connection, and whether that is true.
    fn heads_read_as_nginx_writes_them(io: Io) {
        let origin = Origin::named("up", "up");
        let text = CONF.replace("{origin}", &origin.to_string()).replace("{dated}", &origin.to_string());
        let (ours, theirs) = (Proxy::nginx(&text).io(io).start(), Proxy::nginx(&text).by_rival().start());
        let expecting = |request: Request| request.header("Expect", "100-continue");
        for request in [
            Request::get("/200text"),
            Request::get("/302"),
            Request::get("/404"),
            Request::get("/413"),
            Request::get("/495"),
            Request::get("/500"),
            Request::get("/503"),
            Request::get("/504"),
            Request::get("/200text").header("Connection", "close"),
            Request::new("TRACE", "/heads"),
            expecting(Request::post("/200text", "")),
            expecting(Request::post("/exact/", "abc")),
        ] {
            let asked = |proxy: &Running| {
                let mut client = Client::connect(proxy);
                let response = client.request(&request);
                let connection = response.header("Connection").unwrap_or_default().to_owned();
                if connection == "close" {
                    client.expect_closed();
                }
                (response.status, response.reason, connection, response.interim.len())
            };
            assert_eq!(asked(&ours), asked(&theirs), "{request:?}");
        }
        // These close the connection without a word.
        for status in [408, 444, 499] {
            for proxy in [&ours, &theirs] {
                let mut client = Client::connect(proxy);
                client.send(Request::get(&format!("/silent{status}")).bytes());
                assert_eq!(client.read_to_end().0, b"", "{status}");
            }
        }
    }
}
