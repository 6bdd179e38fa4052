//! Whatever the bytes, loading ends without a panic.

use std::path::Path;

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
        let text = text.replace(|c: char| !c.is_alphanumeric() && !":!+-@=".contains(c), "");
        weir_nginx::fuzzing::config(format!("http {{ server {{ ssl_ciphers \"{text}\"; }} }}").as_bytes());
    }
}

/// A small deterministic generator (xorshift64*): what fails once fails again.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound.max(1)
    }
}

/// Cuts, doubles or overwrites a piece of a text.
fn mutate(dice: &mut Dice, bytes: &mut Vec<u8>) {
    let from = dice.below(bytes.len());
    let to = (from + dice.below(24)).min(bytes.len());
    match dice.below(4) {
        0 => drop(bytes.drain(from..to)),
        1 => {
            let piece = bytes[from..to].to_vec();
            let at = dice.below(bytes.len());
            bytes.splice(at..at, piece);
        }
        2 => bytes.insert(from, b" {};'\"\\$#=~()@*:/-.0"[dice.below(20)]),
        _ => bytes[from..to].reverse(),
    }
}

#[test]
fn mutated_goldens_never_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens");
    let mut dice = Dice(0x5EED);
    for entry in std::fs::read_dir(folder).expect("the folder is part of the crate") {
        let text = std::fs::read_to_string(entry.expect("readable").path()).expect("readable");
        let text = text
            .split("=== ")
            .nth(1)
            .and_then(|section| section.split_once('\n'))
            .map_or("", |(_, text)| text);
        for _ in 0..120 {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..=dice.below(6) {
                mutate(&mut dice, &mut bytes);
            }
            weir_nginx::fuzzing::config(&bytes);
        }
    }
}

#[test]
fn includes_do_not_deepen_blocks_without_bound() {
    let mut files = weir_nginx::Memory::default();
    for n in 0..40 {
        let text = format!("{}include /{}.conf;{}", "location /x {".repeat(40), n + 1, "}".repeat(40));
        files.files.insert(format!("/{n}.conf").into(), text.into_bytes());
    }
    files.files.insert("/main.conf".into(), b"events {} http { server { include /0.conf; } }".to_vec());
    let loaded = weir_nginx::load(&files, Path::new("/main.conf"), &weir_nginx::Options::default());
    assert!(loaded.diagnostics.iter().any(|found| found.code == "nginx::too-deep"));
}
