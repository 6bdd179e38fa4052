//! Whatever the bytes, loading ends without a panic.

use proptest::prelude::*;

/// Texts made of the pieces that the grammar is made of.
fn plausible() -> impl Strategy<Value = String> {
    let pieces = [
        "http",
        "server",
        "location",
        "{",
        "}",
        ";",
        " ",
        "\n",
        "'",
        "\"",
        "\\",
        "$",
        "${",
        "#",
        "~",
        "=",
        "@x",
        "/",
        "listen",
        "80",
        "server_name",
        "proxy_pass",
        "http://a/b",
        "if",
        "(",
        ")",
        "($a = b)",
        "set",
        "$a",
        "include",
        "/etc/nginx/other.conf",
        "*",
        "rewrite",
        "^/(.*)$",
        "return",
        "301",
        "upstream",
        "map",
        "default",
        "types",
        "stream",
        "ssl_ciphers",
        "HIGH:!x+",
        "events",
        "error_page",
        "try_files",
        "=404",
        "é",
        "\u{feff}",
        "alias",
        "proxy_redirect",
        "log_format",
        "access_log",
        "limit_req",
        "zone=a:1m",
        "rate=1r/s",
        "content_by_lua_block",
        "[[",
        "]]",
        "--",
        "unix:",
        "[::1]:80",
        "1-2",
        "geo",
        "10.0.0.0/8",
        "split_clients",
        "50%",
        "limit_except",
        "GET",
        "add_header",
        "expires",
        "-1",
        "@1h",
        "root",
        "index",
        "fastcgi_pass",
        "fastcgi_split_path_info",
    ];
    proptest::collection::vec((0..pieces.len(), any::<bool>()), 0..80).prop_map(move |picks| {
        let mut out = String::from("http { server { ");
        for (at, blank) in picks {
            out.push_str(pieces[at]);
            out.push_str(if blank { " " } else { "" });
        }
        out
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        weir_nginx::fuzzing::config(&bytes);
    }

    #[test]
    fn plausible_texts_never_panic(text in plausible()) {
        weir_nginx::fuzzing::config(text.as_bytes());
    }

    #[test]
    fn cipher_strings_never_panic(text in ".{0,60}") {
        weir_nginx::fuzzing::cipher_string(&text);
    }
}
