//! Which target has which parser.
//!
//! Owns: the table, and the search for parsers that are not in it.
//! Never: understands Rust: a file parses where a function's name or a library's says so.
//! Driven by: `cargo test`.

use std::collections::BTreeSet;

/// Files with parsers, and the targets that reach them.
const PARSERS: &[(&str, &[&str])] = &[
    ("http/src/auth.rs", &["http_values"]),
    ("http/src/body/chunked.rs", &["http_chunked"]),
    ("http/src/cookie.rs", &["http_values"]),
    ("http/src/date.rs", &["http_date"]),
    ("http/src/fastcgi/cgi.rs", &["http_cgi_head"]),
    ("http/src/fastcgi/decode.rs", &["http_fastcgi"]),
    ("http/src/forwarded.rs", &["http_values"]),
    ("http/src/framing.rs", &["http_request_head", "http_response_head"]),
    ("http/src/hello.rs", &["http_hello"]),
    ("http/src/host.rs", &["http_request_head", "http_values"]),
    ("http/src/lines.rs", &["http_request_head", "http_response_head"]),
    ("http/src/list.rs", &["http_values"]),
    ("http/src/method.rs", &["http_request_head"]),
    ("http/src/peers/entry.rs", &["http_peers"]),
    ("http/src/peers/mod.rs", &["http_peers"]),
    ("http/src/peers/number.rs", &["http_peers"]),
    ("http/src/proxy_protocol/mod.rs", &["http_proxy_protocol"]),
    ("http/src/proxy_protocol/v1.rs", &["http_proxy_protocol"]),
    ("http/src/proxy_protocol/v2.rs", &["http_proxy_protocol"]),
    ("http/src/request.rs", &["http_request_head"]),
    ("http/src/response.rs", &["http_response_head"]),
    ("http/src/semantics/etag.rs", &["http_values"]),
    ("http/src/semantics/range.rs", &["http_range"]),
    ("http/src/target.rs", &["http_request_head"]),
    ("http/src/trace_context.rs", &["http_trace_context"]),
    ("http/src/uri/normalize.rs", &["http_uri"]),
    ("http/src/uri/normalizers.rs", &["http_normalizers"]),
    ("http/src/uri/resolve.rs", &["http_uri"]),
    ("wire/src/h2/frame.rs", &["h2_server", "h2_client"]),
    ("wire/src/h2/hpack/decode.rs", &["h2_hpack"]),
    ("wire/src/h2/hpack/huffman.rs", &["h2_hpack"]),
    ("wire/src/h2/receive.rs", &["h2_server", "h2_client"]),
    ("wire/src/h3/one_way.rs", &["h3_one_way"]),
    ("wire/src/h3/qpack.rs", &["h3_request"]),
    ("wire/src/h3/request.rs", &["h3_request"]),
    ("rt/src/tls/cert.rs", &["tls_certificate", "tls_pem"]),
    ("rt/src/tls/cert_view.rs", &["tls_certificate"]),
    ("rt/src/tls/der.rs", &["tls_version1", "tls_key"]),
    ("rt/src/tls/facts.rs", &["tls_certificate", "tls_pem", "tls_revocation_list"]),
    ("rt/src/tls/hello.rs", &["tls_hello"]),
    ("rt/src/tls/key.rs", &["tls_key", "tls_pem"]),
    ("rt/src/tls/ocsp.rs", &["tls_ocsp"]),
    ("rt/src/tls/tickets.rs", &["tls_ticket"]),
    ("rt/src/tls/trust.rs", &["tls_certificate", "tls_revocation_list"]),
    ("rt/src/tls/version1.rs", &["tls_version1"]),
    ("jose/src/compact.rs", &["jose_token"]),
    ("jose/src/keys.rs", &["jose_token"]),
    ("jose/src/seal.rs", &["jose_token"]),
    ("jose/src/sign.rs", &["jose_token"]),
    ("password/src/lib.rs", &["password_form"]),
    ("media/src/mp4/boxes.rs", &["media_mp4"]),
    ("media/src/mp4/mod.rs", &["media_mp4"]),
    ("media/src/mp4/table.rs", &["media_mp4"]),
    ("media/src/mp4/track.rs", &["media_mp4"]),
    ("engine/src/eval/convert/json.rs", &["engine_converters"]),
    ("engine/src/eval/edit.rs", &["engine_words"]),
    ("engine/src/eval/program.rs", &["engine_words"]),
    ("engine/src/eval/forwarded.rs", &["engine_words"]),
    ("engine/src/eval/users.rs", &["password_file"]),
    ("engine/src/exchange/page/scan.rs", &["engine_page"]),
    ("engine/src/worker/dns.rs", &["dns_answer"]),
    ("admin/src/cli/input.rs", &["console_line"]),
    ("admin/src/stats/exposition.rs", &["stats_page"]),
    ("admin/src/stats/mod.rs", &["stats_page"]),
    ("expr/src/ciphers.rs", &["nginx_ciphers"]),
    ("nginx/src/lexer.rs", &["nginx_conf", "nginx_plan", "nginx_tables"]),
    ("haproxy/src/read/words.rs", &["haproxy_cfg", "haproxy_plan", "haproxy_tables"]),
    ("weir/src/compile/host_names.rs", &["resolver_answers"]),
    ("weir/src/compile/store.rs", &["keeper_parcel"]),
    ("weir/src/keeper/channel.rs", &["keeper_orders"]),
    ("weir/src/keeper/parcel.rs", &["keeper_parcel"]),
    ("weir/src/keeper/replies.rs", &["keeper_replies"]),
    ("loadgen/src/agent/serve.rs", &["load_agent"]),
    ("loadgen/src/agent/wire.rs", &["load_agent"]),
    ("loadgen/src/answer/head.rs", &["load_answer"]),
    ("loadgen/src/report/latency.rs", &["load_report"]),
    ("loadgen/src/report/mod.rs", &["load_report"]),
    ("loadgen/src/dial.rs", &["load_url"]),
    ("loadgen/src/target.rs", &["load_url"]),
    ("loadgen/src/targets.rs", &["load_url"]),
    ("loadgen/src/verdict.rs", &["load_url"]),
    ("lab/src/rate.rs", &["lab_scenario"]),
    ("lab/src/scenario.rs", &["lab_scenario"]),
    ("lab/src/contender.rs", &["lab_scenario"]),
];

/// Files that look like parsers, and why they have no target: none of their input is another's, or a library reads it.
const OWN: &[(&str, &str)] = &[
    ("acme/src/account.rs", "keys of the configuration, read by aws-lc-rs; rustls-pki-types reads PEM"),
    (
        "acme/src/client.rs",
        "serde_json reads it into the fields of RFC 8555; a bounded answer of the configured authority",
    ),
    ("acme/src/make.rs", "x509-parser reads what the configured authority issued, rustls-pki-types PEM"),
    ("acme/src/order.rs", "what this program wrote"),
    ("admin/src/dashboard/change.rs", "serde_json reads it into five fields"),
    ("admin/src/plus/keyvals.rs", "serde_json reads it into pairs of texts"),
    ("admin/src/plus/servers.rs", "serde_json reads it into the fields of a server"),
    ("admin/src/plus/time.rs", "a number with a unit, out of what serde_json read"),
    ("engine/src/eval/tokens.rs", "what `jose` verified or decoded, read by serde_json"),
    ("engine/src/worker/keyvals.rs", "what this program wrote"),
    ("expr/src/text.rs", "values of configurations, which have targets of their own"),
    ("lab/src/cluster.rs", "the command line, and what kubectl prints"),
    ("lab/src/prices.rs", "a table of this program's"),
    ("lab/src/report/guide.rs", "what this program wrote"),
    ("lab/src/report/published.rs", "a table of this program's"),
    ("lab/src/results.rs", "what this program wrote"),
    ("lab/src/wrk.rs", "what a script of ours prints"),
    ("weir/src/cli/haproxy.rs", "the command line"),
    ("weir/src/cli/nginx.rs", "the command line"),
    ("weir/src/cli/top/fetch.rs", "what this program serves, read by serde_json"),
    ("weir/src/compile/text.rs", "what this program wrote"),
    ("weir/src/door/api.rs", "bodies of operators with a token, read by serde_json"),
    ("weir/src/door/book.rs", "what this program wrote"),
    ("weir/src/door/findings.rs", "keys of a document that serde_json has read"),
    ("weir/src/door/live.rs", "what this program answers itself"),
    ("weir/src/state.rs", "what this program wrote"),
];

/// Crates whose files are searched.
const SEARCHED: &[&str] = &[
    "acme", "admin", "engine", "expr", "http", "jose", "lab", "loadgen", "media", "password", "plan",
    "policy", "rt", "weir", "wire",
];

/// What a parser is called, or calls.
const SIGNS: &[&str] = &[
    "fn parse",
    "fn decode",
    "fn from_bytes(",
    "fn from_json(",
    "fn from_der(",
    "fn read_certs(",
    "fn read_users(",
    "serde_json::from_",
    "serde_norway::from_",
    "pem_slice",
];

/// Library code of a source file: without what only tests use.
fn parses(text: &str) -> bool {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    SIGNS.iter().any(|sign| code.contains(sign))
}

#[test]
fn every_parser_has_a_target() {
    let crates = crate::build::root().join("crates");
    let known: BTreeSet<&str> =
        PARSERS.iter().map(|(file, _)| *file).chain(OWN.iter().map(|(file, _)| *file)).collect();
    for file in &known {
        assert!(crates.join(file).is_file(), "{file} is in the table, and is no file");
    }
    for name in SEARCHED {
        for path in crate::tidy::rust_files(&crates.join(name).join("src")) {
            let file = path.strip_prefix(&crates).expect("it is below").to_string_lossy().into_owned();
            // Drivers of fuzzing, and files of tests.
            if file.contains("fuzzing") || file.contains("tests") || known.contains(&*file) {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("it was listed");
            assert!(!parses(&text), "{file} parses: name its fuzz target in xtask/src/fuzz/parsers.rs");
        }
    }
}

#[test]
fn every_target_is_in_the_table_and_in_the_document() {
    let there: BTreeSet<&str> = super::all().map(|target| target.name).collect();
    let named: BTreeSet<&str> = PARSERS.iter().flat_map(|(_, targets)| *targets).copied().collect();
    let unknown: Vec<_> = named.difference(&there).collect();
    assert!(unknown.is_empty(), "no targets: {unknown:?}");
    let text = std::fs::read_to_string(crate::build::root().join("docs/security.md")).expect("it is there");
    let untold: Vec<_> = there.iter().filter(|name| !text.contains(&format!("`{name}`"))).collect();
    assert!(untold.is_empty(), "docs/security.md does not name {untold:?}");
}
