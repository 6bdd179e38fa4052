//! Good input for each parser, to be spoiled.
//!
//! Owns: which words go to which parser.
//! Never: states properties: those stand beside the parsers, in `weir_http::fuzzing` and its kin.
//! Driven by: `fuzz`.

use weir_testkit::cert::der_of;
use weir_testkit::hostile;

/// The corpus of a target.
pub(super) fn of(name: &str) -> Vec<Vec<u8>> {
    match name {
        "nginx_conf" | "nginx_plan" => texts(NGINX, ".conf"),
        "nginx_ciphers" => texts(CIPHERS, ".none"),
        "nginx_tables" | "haproxy_tables" => texts(TABLES, ".none"),
        "haproxy_cfg" | "haproxy_plan" => texts(HAPROXY, ".cfg"),
        "stats_page" => texts(STATS, ".none"),
        "console_line" => texts(CONSOLE, ".none"),
        "tls_hello" => http("http_hello"),
        "tls_certificate" | "tls_version1" | "tls_ticket" | "tls_ocsp" => certificates(),
        "tls_revocation_list" => vec![revocations()],
        "tls_key" => texts(KEYS, ".none"),
        "tls_pem" => vec![certificate_pem(), KEYS.concat().into_bytes()],
        "load_agent" => AGENT.iter().map(|text| framed(text)).collect(),
        "load_answer" => http("http_response_head"),
        "load_url" => {
            texts(&["http://a.example:8080/b?c", "https://[::1]/", "h2c://a", "unix:/run/a.sock"], ".none")
        }
        "load_report" => texts(REPORTS, ".none"),
        "media_mp4" => weir_media::fuzzing::samples(),
        "jose_token" => tokens(),
        "password_form" => texts(PASSWORDS, ".none"),
        "password_file" => texts(&[PASSWORD_FILE], ".none"),
        "engine_words" => {
            texts(&["epoch", "max", "-30d", "off", "12", "10k", "1m", "192.0.2.1", "::1"], ".none")
        }
        "engine_converters" => texts(
            &[
                "\u{0}$.a.b[0].c\u{0}int\u{0}{\"a\":{\"b\":[{\"c\":\"12\"},1.5,null,true]}}",
                "\u{1}3.1\u{0}sint32\u{0}\u{8}\u{1}\u{12}\u{2}hi\u{1a}\u{2}\u{8}\u{3}",
                "\u{2}1\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{2}\u{8}\u{1}",
                "\u{3}$.alg\u{0}\u{0}eyJhbGciOiJIUzI1NiJ9.eyJuIjo3fQ.c2ln",
                "\u{4}HS256\u{0}\u{0}eyJhbGciOiJIUzI1NiJ9.eyJuIjo3fQ.c2ln",
                "\u{5}for\u{0}\u{0}for=192.0.2.1;proto=http, for=\"[2001:db8::1]:80\";by=_x",
                "\u{6}\u{0}\u{0}[2001:db8::1]:8080",
                "\u{7}es;fr;en-gb;en\u{0}\u{0}de, fr;q=0.5, es;q=0.8",
            ],
            ".none",
        ),
        "engine_page" => texts(
            &[
                "\u{7f}a<!--#echo var=\"uri\" default='-' encoding=\"url\" --><<!-- b -->",
                "\u{72}<!--# if expr=\"$a = /b\\\"/\" -->1<!--#else-->2<!--# endif --><!--#set var=x-->",
            ],
            ".none",
        ),
        "dns_answer" => DNS.iter().map(|message| message.to_vec()).collect(),
        "lab_scenario" => scenarios(),
        "keeper_replies" | "keeper_orders" | "keeper_parcel" | "resolver_answers" => {
            weir::fuzzing::corpus(name)
        }
        name if name.starts_with("h3_") => weir_wire::h3::fuzzing::corpus(name),
        name if name.starts_with("h2_") => weir_wire::h2::fuzzing::corpus(name),
        name => http(name),
    }
}

/// A certificate with its key.
fn certificate_pem() -> Vec<u8> {
    let made = weir_testkit::Certificate::p256(&["a.example"]);
    [made.chain_pem(), made.key_pem()].concat().into_bytes()
}

/// A set of keys before each token that was made with one of them.
fn tokens() -> Vec<Vec<u8>> {
    let text = include_str!("../../../crates/jose/tests/jwcrypto.json");
    let all: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let keys = serde_json::json!({ "keys": all["private"] }).to_string();
    let tokens = all["tokens"].as_array().into_iter().flatten().filter_map(|one| one["token"].as_str());
    tokens.map(|token| format!("{keys}\n{token}").into_bytes()).collect()
}

/// Certificates, DER: one of version 1, an authority, and one of that authority.
fn certificates() -> Vec<Vec<u8>> {
    let root = weir_testkit::Authority::root("a root");
    let one = root.certificate(&["a.example"]);
    [VERSION1, one.root_pem(), one.chain_pem()].iter().filter_map(|pem| der_of(pem)).collect()
}

fn revocations() -> Vec<u8> {
    let authority = weir_testkit::Authority::root("a root");
    der_of(&authority.revocations(&[5, 1000], true)).unwrap_or_default()
}

/// A message as agents send it: its length before it.
fn framed(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], text.as_bytes()].concat()
}

/// The lab's own.
fn scenarios() -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(crate::build::root().join("crates/lab/scenarios"));
    let mut paths: Vec<_> = entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
}

/// The words given, and this repository's own examples whose names end so.
fn texts(words: &[&str], ending: &str) -> Vec<Vec<u8>> {
    let mut texts: Vec<Vec<u8>> = words.iter().map(|w| w.as_bytes().to_vec()).collect();
    for folder in ["elb", "demo"] {
        let entries = std::fs::read_dir(crate::build::root().join("examples").join(folder));
        let paths = entries.into_iter().flatten().flatten().map(|e| e.path());
        let mut paths: Vec<_> = paths.filter(|p| p.to_string_lossy().ends_with(ending)).collect();
        // Directories come in any order, and a seed must name the run.
        paths.sort();
        texts.extend(paths.iter().filter_map(|p| std::fs::read(p).ok()));
    }
    texts
}

const NGINX: &[&str] = &[
    "user www-data;\nworker_processes auto;\nevents { worker_connections 1024; multi_accept on; }\nhttp { include other.conf; include /etc/nginx/*.d/*; }\n",
    "http { server { listen 80 default_server deferred; listen [::]:443 ssl http2 reuseport backlog=511; server_name a.example *.b ~^(?<sub>.+)\\.c$; ssl_certificate x.pem; ssl_protocols TLSv1.2 TLSv1.3; ssl_ciphers HIGH:!aNULL:!MD5; } }",
    "http { upstream u { least_conn; server a:80 weight=5 max_fails=3 fail_timeout=30s; server unix:/run/b.sock backup; keepalive 16; zone z 64k; } server { location / { proxy_pass http://u/b; proxy_set_header Host $host; proxy_next_upstream error timeout http_502; proxy_buffers 8 16k; } } }",
    "http { map $http_upgrade $c { default upgrade; '' close; ~^a(.)$ $1; include other.conf; } log_format m escape=json '{\"a\":\"$remote_addr\"}'; access_log /l m buffer=32k flush=5s if=$c; }",
    "http { server { location ~* \\.(png|jpe?g)$ { expires 30d; add_header A \"b c\" always; } location ^~ /x/ { alias /y/; } location = /z { return 301 https://$host$request_uri; } location @f { internal; } if ($request_method = POST) { rewrite ^/(.*)$ /p/$1?a=b last; break; } try_files $uri $uri/ @f; error_page 404 =200 /e.html; } }",
    "http { types { text/html html htm; } limit_req_zone $binary_remote_addr zone=r:10m rate=5r/s; server { limit_req zone=r burst=10 nodelay; auth_basic 'x'; allow 10.0.0.0/8; deny all; satisfy any; gzip on; gzip_types *; set $a \"${b}c\"; resolver 127.0.0.1 valid=30s; fastcgi_pass unix:/p.sock; fastcgi_param A $b if_not_empty; } }",
    "stream { map $ssl_preread_server_name $n { a b; } upstream s { hash $remote_addr consistent; server 1.2.3.4:5; } server { listen 53 udp; proxy_pass $n; proxy_timeout 3s; } server { listen 1 proxy_protocol; proxy_pass s; proxy_protocol on; } }",
];

/// Of version 1, as `openssl x509 -req` makes it.
const VERSION1: &str = "-----BEGIN CERTIFICATE-----\nMIIBEzCBuQIUQKqsBd6z2wbTAlHtWoLITaROV+gwCgYIKoZIzj0EAwIwDDEKMAgG\nA1UEAwwBYTAeFw0yNjExMjIxNTE1NDBaFw0zNjExMTkxNTE1NDBaMAwxCjAIBgNV\nBAMMAWEwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATFaiScfrAxxLwh6VKYdlE8\ny1JOT8C6slsjD2JBYCIyCT8/+5BMk7GtNDq7l6Vsbce5HwVireRH8Zli3hDk5ox4\nMAoGCCqGSM49BAMCA0kAMEYCIQCJvQqRtGMGJ2jd7r/m1fQy2RJqs5K7Z25BHv6G\nDn/czwIhALOMCW2rIoJhflfcIUeU+2ZxIyTyaNNx4mPEK7VitTWv\n-----END CERTIFICATE-----\n";

/// Forms of encrypted keys. Nothing is in them.
const KEYS: &[&str] = &[
    "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMGowVgYJKoZIhvcNAQUNMEkwKAYJKoZIhvcNAQUMMBsECAAAAAAAAAAAAgEBMAwGCCqGSIb3DQIJBQAwHQYJYIZIAWUDBAEqBBAAAAAAAAAAAAAAAAAAAAAABBAAAAAAAAAAAAAAAAAAAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00112233445566778899AABBCCDDEEFF\n\nAAAAAAAAAAAAAAAAAAAAAA==\n-----END RSA PRIVATE KEY-----\n",
    "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: DES-EDE3-CBC,0011223344556677\n\nAAAAAAAAAAAAAAAAAAAAAA==\n-----END EC PRIVATE KEY-----\n",
];

const CIPHERS: &[&str] = &[
    "HIGH:!aNULL:!MD5",
    "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES128-GCM-SHA256:AES256-SHA",
    "ALL:-RC4:+3DES:@STRENGTH:@SECLEVEL=1",
    "EECDH+AESGCM:EDH+AESGCM:!eNULL:kRSA",
];

const HAPROXY: &[&str] = &[
    "global\n  maxconn 1000\n  log 127.0.0.1:514 local0 info\ndefaults\n  mode http\n  timeout client 10s\n  timeout connect 5000\n",
    "frontend f\n  bind :80,:443 ssl crt /etc/x.pem alpn h2,http/1.1\n  acl api path_beg -i /api /v1\n  http-request deny deny_status 429 if api !{ src 10.0.0.0/8 }\n  http-request set-header X-A %[src,ipmask(24)]\\ b\n  use_backend %[req.hdr(host),lower] if { path -m reg ^/(a|b)+$ }\n  default_backend b\n",
    "backend b\n  balance uri whole depth 3\n  option httpchk GET /health HTTP/1.1\\r\\nHost:\\ a\n  cookie S insert indirect nocache\n  server s1 192.0.2.1:8080 check inter 2s weight 10 cookie a\n  server s2 \"${HOST}\":80 backup ssl verify none\n  server-template w 1-3 web.local:80 check\n",
    "listen stats *:1936\n stats enable\n stats uri /\n stats auth u:p\n",
    ".if defined(X)\nglobal\n daemon\n.else\ndefaults\n retries 3\n.endif\n",
    "userlist u\n user a password $5$x\npeers p\n peer a 127.0.0.1:1024\nresolvers r\n nameserver d 127.0.0.1:53\n",
    "frontend f\n bind 0.0.0.0:80\n redirect prefix https://x if { hdr(a) b }\n log-format \"%ci:%cp [%tr] %{+Q}r %ST %[capture.req.hdr(0)]\"\n",
];

fn http(name: &str) -> Vec<Vec<u8>> {
    let words: Vec<&[u8]> = match name {
        "http_request_head" => requests(),
        "http_response_head" | "http_cgi_head" => answers(),
        "http_chunked" => CHUNKS.iter().map(|c| c.as_bytes()).collect(),
        "http_fastcgi" => FASTCGI.to_vec(),
        "http_memcached" => {
            vec![b"VALUE key 2 10\r\n0123456789\r\nEND\r\n", b"END\r\n", b"VALUE key 0 0\r\n\r\nEND\r\n"]
        }
        "http_proxy_protocol" => PROXY_HEADERS.to_vec(),
        "http_peers" => PEERS.to_vec(),
        "http_hello" => HELLOS.to_vec(),
        "http_uri" | "http_normalizers" => URIS.iter().map(|u| u.as_bytes()).collect(),
        "http_date" => DATES.iter().map(|d| d.as_bytes()).collect(),
        "http_range" => RANGES.iter().map(|r| r.as_bytes()).collect(),
        // A parser that is new here meets a little of everything.
        _ => VALUES
            .iter()
            .chain(URIS)
            .chain(RANGES)
            .chain(DATES)
            .map(|v| v.as_bytes())
            .chain(requests())
            .collect(),
    };
    // Most targets read how to cut the input from its first bytes: all at once, and piecemeal.
    let cuts: [&[u8]; 4] = [b"", b"\x00", b"\x1f", b"\x05\x40"];
    cuts.iter().flat_map(|cut| words.iter().map(move |word| [*cut, word].concat())).collect()
}

fn requests() -> Vec<&'static [u8]> {
    let bad = [hostile::BAD_REQUESTS, hostile::BAD_CHUNKS].concat();
    REQUESTS.iter().map(|r| r.as_bytes()).chain(bad.iter().map(|r| r.bytes)).collect()
}

fn answers() -> Vec<&'static [u8]> {
    let bad = [hostile::MALFORMED_ANSWERS, hostile::CUT_BODIES].concat();
    ANSWERS.iter().map(|a| a.as_bytes()).chain(bad.iter().map(|a| a.bytes)).collect()
}

const REQUESTS: &[&str] = &[
    "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "GET /a/b?c=d&e HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "GET http://a.example:8080/x HTTP/1.1\r\nHost: a.example:8080\r\nAccept: */*\r\nCookie: a=b; c=d\r\n\r\n",
    "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\nTE: trailers\r\n\r\n5;a=\"b\"\r\nhello\r\n0\r\nx: y\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
    "GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade, close\r\nSec-WebSocket-Key: AAAA\r\n\r\n",
];

const ANSWERS: &[&str] = &[
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.0 302 \r\nLocation: /x\r\nSet-Cookie: a=b; Path=/\r\nSet-Cookie: c=d\r\n\r\n",
    "HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-1/10\r\nETag: W/\"a\"\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "Status: 404 Not Found\r\nContent-Type: text/html\r\n\r\nno",
    "Content-Type: text/plain\nLocation: /x\n\nok",
];

const CHUNKS: &[&str] = &[
    "5\r\nhello\r\n0\r\n\r\n",
    "1;a=b\r\nx\r\nA;\"q\\\"\"\r\n0123456789\r\n0;last\r\nX-T: v\r\nY: z\r\n\r\n",
    "00000000000000010\r\n0123456789abcdef\r\n000\r\n\r\nGET / HTTP/1.1\r\n",
    "ffffffffffffffff\r\n",
];

const FASTCGI: &[&[u8]] = &[
    b"\x01\x06\x00\x01\x00\x14\x04\x00Status: 200 OK\r\n\r\nok\0\0\0\0\x01\x03\x00\x01\x00\x08\x00\x00\0\0\0\0\0\0\0\0",
    b"\x01\x07\x00\x01\x00\x05\x03\x00oops\n\0\0\0\x01\x06\x00\x01\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\0\0\0\x01\0\0\0\0",
    b"\x0e\x01CONTENT_LENGTH0\x0f\x80\x00\x00\x05SCRIPT_FILENAMEhello",
];

const PEERS: &[&[u8]] = &[
    b"HAProxyS 2.1\nhere\nthere 7 1\n",
    b"200\n",
    b"\0\0\0\x04\x0a\x82\x0c\x02\x03/t1\x06\x20\x04\xf0\xd9\xdc\x0c\x0a\x85\x0f\0\0\0\x06\0\x36\xed\x9b\x05hello\x03\0\x02",
    b"\x0a\x82\x12\x03\x02st\x04\x04\xf5\xd5\x8f\x01\xf0\xd9\xdc\x0c\x0a\xf0\xe2\x03\x0a\x85\x16\0\0\0\x0c\0\x36\xed\x9b\x7f\0\0\x01\0\0\0\x03\xf6\x05\x03\0\x93\0",
    b"\x0a\x83\x01\x03\x0a\x84\x05\x03\0\0\0\x0c\x01\0",
];

const PROXY_HEADERS: &[&[u8]] = &[
    b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\nGET / HTTP/1.1\r\n",
    b"PROXY TCP6 2001:db8::1 2001:db8::2 56324 443\r\n",
    b"PROXY UNKNOWN\r\n",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x01\xc6\x33\x64\x01\xdc\x04\x01\xbb",
    b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x13\xc0\x00\x02\x01\xc6\x33\x64\x01\xdc\x04\x01\xbb\x04\x00\x04abcd",
];

/// TLS hellos: one with a name, TLS 1.3 and the signal of a fallback, one with a name, protocols and versions, the same in two records, and one without extensions.
const HELLOS: &[&[u8]] = &[
    b"\x16\x03\x01\x00\x47\x01\x00\x00\x43\x03\x03\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x00\x00\x04\x13\x01\x56\x00\x01\x00\x00\x16\x00\x00\x00\x0b\x00\x09\x00\x00\x06\x61\x2e\x74\x65\x73\x74\x00\x2b\x00\x03\x02\x03\x04",
    b"\x16\x03\x01\x00^\x01\x00\x00Z\x03\x0377777777777777777777777777777777\x00\x00\x02\x13\x01\x01\x00\x00/\x00\x00\x00\x0e\x00\x0c\x00\x00\x09a.example\x00\x10\x00\x0e\x00\x0c\x02h2\x08http/1.1\x00+\x00\x07\x06::\x03\x04\x03\x03",
    b"\x16\x03\x01\x002\x01\x00\x00Z\x03\x0377777777777777777777777777777777\x00\x00\x02\x13\x01\x01\x00\x00/\x00\x00\x00\x16\x03\x01\x00,\x0e\x00\x0c\x00\x00\x09a.example\x00\x10\x00\x0e\x00\x0c\x02h2\x08http/1.1\x00+\x00\x07\x06::\x03\x04\x03\x03",
    b"\x16\x03\x01\x00-\x01\x00\x00)\x03\x0377777777777777777777777777777777\x00\x00\x02\x13\x01\x01\x00",
];

const URIS: &[&str] = &[
    "/a/b/../c/./d//e?f=g#h",
    "/%41%2f%2e%2e/%7euser/%e2%82%ac",
    "/../../etc/passwd",
    "/a;b=c/d?x=%00&y",
    "*",
    "http://user@host:80/p",
];

const DATES: &[&str] = &[
    "Sun, 06 Nov 1994 08:49:37 GMT",
    "Sunday, 06-Nov-94 08:49:37 GMT",
    "Sun Nov  6 08:49:37 1994",
    "Thu, 29 Feb 2024 23:59:60 GMT",
];

const RANGES: &[&str] = &[
    "bytes=0-499",
    "bytes=-500",
    "bytes=9500-",
    "bytes=0-0,-1",
    "bytes=500-600,601-999",
    "\x10\x00bytes=0-1, 2-3 ,4-",
    "items=0-1",
];

const VALUES: &[&str] = &[
    "text/html;level=1;q=0.5, */*;q=0.1, gzip, br;q=0",
    "a=b; c=\"d\"; __Host-x=y",
    "W/\"abc\", \"def\", *",
    "Basic dXNlcjpwYXNzd29yZA==",
    "for=192.0.2.60;proto=http;by=\"[2001:db8::1]:80\", for=unknown",
    "192.0.2.1, 2001:db8::1, unknown",
    "close, keep-alive, upgrade",
    "a.example:8080",
    "[::1]:443",
];

const TABLES: &[&str] = &[
    "# comment\nkey value\n\"a b\" 'c d';\n",
    "default x; hostnames; volatile; *.a.example 1; ~^b(.)$ $1; include t;",
    "10.0.0.0/8 a; 2001:db8::/32 b; 127.0.0.1-127.0.0.9 c; proxy 10.0.0.1; delete 1.2.3.4; ranges;",
    "text/html html htm; image/png png;",
    "0.5% a; 33.3% b; * c;",
    "/a b\n/c/ d e f\n192.0.2.0/24 net\n^/x(.*)$ re\n",
    "a.pem [alpn h2 verify required ca-file ca.pem] *.a.example !b.a.example\n",
    "HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/html\r\n\r\n%[src] %ci <html>",
];

const CONSOLE: &[&str] = &[
    "show info;show stat -1 4 -1\n",
    "set ssl cert a.pem <<EOF\n-----BEGIN CERTIFICATE-----\n\nEOF\nprompt\n",
    "add map m <<\na b\\;c\n\nset server b/s\\ 1 weight 5%\n",
];

const STATS: &[&str] = &[
    "\x06/stats;csv;norefresh?scope=a&b",
    "\x10/stats;json;up\nBasic YTpi",
    "\x00/stats?scope=%3Cscript%3E",
];

/// The least of a report, and more of its fields than it needs.
const REPORTS: &[&str] = &["{\"schema\":\"weir-load/1\"}"];

const PASSWORDS: &[&str] = &[
    "{PLAIN}secret\nsecret",
    "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\nsecret",
    "{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0\nsecret",
    "$apr1$s4lt.S4l$\nsecret",
    "$1$a$\nsecret",
    "$5$rounds=1234$a$\nsecret",
    "$6$rounds=1000$0123456789abcdef$\nsecret",
    "$sha1$25$wnUR8T1U$\nsecret",
    "$2y$04$abcdefghijklmnopqrstuu\nsecret",
    "$y$j75$saltsalt$\nsecret",
    "_/...abcd\nsecret",
    "ab\nsecret",
];

const PASSWORD_FILE: &str = "# comment\nann:{PLAIN}a:note\r\nbob:$6$a$b\neve:$y$j9T$abcd$x\nann:later\nbroken\n:empty\nmallory:$argon2id$v=19$x\n";

/// Answers: two addresses, a CNAME with an IPv6 address behind it, and a name that points at itself.
const DNS: &[&[u8]] = &[
    b"\x12\x34\x81\x80\0\x01\0\x02\0\0\0\0\x01a\x04test\0\0\x01\0\x01\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x02",
    b"\x12\x34\x81\x80\0\x01\0\x02\0\0\0\x01\x01a\x04test\0\0\x1c\0\x01\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x04\x01b\xc0\x0e\xc0\x24\0\x1c\0\x01\0\0\0\x3c\0\x10\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\0",
    b"\x12\x34\x81\x83\0\x01\0\0\0\0\0\0\xc0\x0c\0\x01\0\x01",
];

const AGENT: &[&str] = &[
    "{\"weir_load_agent\":1,\"nonce\":\"abc\"}",
    "{\"job\":\"{}\",\"proof\":\"AAAA\"}",
    "{\"tick\":{\"at_s\":1.0,\"run_s\":1.0,\"requests\":5,\"errors\":0}}",
    "\"ready\"",
    "\"go\"",
    "{\"failed\":\"why\"}",
];
