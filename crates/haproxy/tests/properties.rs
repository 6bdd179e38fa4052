//! Properties: nothing written in a configuration can make reading it panic, or run away.

use proptest::prelude::*;
use weir_haproxy::fuzzing;

/// Words that are likely to meet each other in a file.
const WORDS: &[&str] = &[
    "global",
    "defaults",
    "frontend",
    "backend",
    "listen",
    "userlist",
    "resolvers",
    "peers",
    "http-errors",
    "a",
    "b",
    "c",
    "from",
    "bind",
    ":80",
    "*:81-83",
    "[::]:443",
    "/run/x",
    "abns@x",
    "ssl",
    "crt",
    "/x.pem",
    "alpn",
    "h2,http/1.1",
    "server",
    "10.0.0.1:80",
    "web:+1",
    "check",
    "inter",
    "2s",
    "weight",
    "10",
    "backup",
    "maxconn",
    "mode",
    "http",
    "tcp",
    "timeout",
    "connect",
    "client",
    "5s",
    "option",
    "httplog",
    "tcplog",
    "httpchk",
    "GET",
    "/",
    "forwardfor",
    "except",
    "127.0.0.0/8",
    "acl",
    "path_beg",
    "path",
    "-i",
    "-m",
    "reg",
    "beg",
    "-f",
    "hdr(host)",
    "src",
    "{",
    "}",
    "!",
    "!a",
    "or",
    "||",
    "if",
    "unless",
    "TRUE",
    "http-request",
    "deny",
    "allow",
    "redirect",
    "location",
    "prefix",
    "scheme",
    "https",
    "code",
    "301",
    "set-header",
    "X",
    "%[src]",
    "%[",
    "%{+Q}r",
    "%ci",
    "%%",
    "return",
    "status",
    "200",
    "string",
    "use_backend",
    "default_backend",
    "%[hdr(host),lower]",
    "log",
    "127.0.0.1",
    "local0",
    "stdout",
    "format",
    "raw",
    "log-format",
    "stats",
    "enable",
    "uri",
    "auth",
    "u:p",
    "cookie",
    "SRV",
    "insert",
    "balance",
    "uri",
    "hdr(x)",
    "no",
    "default",
    "tcp-request",
    "content",
    "accept",
    "connection",
    "reject",
    "inspect-delay",
    "http-check",
    "expect",
    "send",
    "tcp-check",
    "errorfile",
    "503",
    "monitor-uri",
    "monitor",
    "fail",
    "capture",
    "request",
    "header",
    "len",
    "set-var(txn.a)",
    "var(txn.a)",
    "str(1)",
    ".if",
    ".else",
    ".endif",
    "defined(X)",
    "\"$X\"",
    "\"${Y[*]}\"",
    "'",
    "\"",
    "\\",
    "#",
    "replace-path",
    "(.*)",
    "\\1",
    "del-header",
    "auth",
    "realm",
    "http_auth(u)",
    "user",
    "password",
    "insecure-password",
    "nameserver",
    "source",
    "retries",
    "3",
    "retry-on",
    "gt",
    "0",
    "dst_port",
    "80:90",
    "int(5)",
    "hdr_cnt(x)",
    "ssl_fc",
    "-1",
    "999999999999999999999",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arbitrary_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        fuzzing::config(&bytes);
    }

    #[test]
    fn words_in_any_order_are_read(lines in proptest::collection::vec(proptest::collection::vec(0..WORDS.len(), 1..9), 1..30)) {
        let text: Vec<String> = lines.iter().map(|line| line.iter().map(|at| WORDS[*at]).collect::<Vec<_>>().join(" ")).collect();
        fuzzing::config(text.join("\n").as_bytes());
    }

    #[test]
    fn sections_with_words_are_read(kind in 0..9usize, lines in proptest::collection::vec(proptest::collection::vec(0..WORDS.len(), 1..9), 1..20)) {
        let text: Vec<String> = lines.iter().map(|line| line.iter().map(|at| WORDS[*at]).collect::<Vec<_>>().join(" ")).collect();
        let text = format!("{} a\n {}\n", WORDS[kind], text.join("\n "));
        fuzzing::config(text.as_bytes());
    }
}

#[test]
fn long_nested_texts_end() {
    let deep = format!("frontend a\n bind :80\n http-request deny if {}\n", "! ".repeat(50_000));
    fuzzing::config(deep.as_bytes());
    let many = format!("frontend a\n bind :80\n{}", " http-request allow if TRUE\n".repeat(5_000));
    fuzzing::config(many.as_bytes());
    let formats = format!("frontend a\n bind :80\n log-format {}\n", "%{".repeat(20_000));
    fuzzing::config(formats.as_bytes());
    let sections = "backend a\n".repeat(2_000);
    fuzzing::config(sections.as_bytes());
}
