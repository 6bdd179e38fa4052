//! Sample fetches, converters, ACL words and the predefined ACLs (configuration manual, chapter 7).

/// What kind of value a fetch gives; it decides how patterns compare unless `-m` says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetch {
    /// True or false.
    Bool,
    /// A number.
    Number,
    /// An address.
    Address,
    /// Text.
    Text,
    /// Bytes, shown in hexadecimal.
    Binary,
    /// A request method.
    Method,
    /// Known, not built.
    NotYet,
}

/// How a value and patterns compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matching {
    /// `-m bool`.
    Bool,
    /// `-m int`.
    Number,
    /// `-m ip`.
    Address,
    /// `-m str`.
    Equals,
    /// `-m beg`.
    Begins,
    /// `-m end`.
    Ends,
    /// `-m sub`.
    Contains,
    /// `-m dir`.
    Segment,
    /// `-m dom`.
    Label,
    /// `-m reg`.
    Pattern,
    /// `-m len`.
    Length,
    /// `-m found`.
    Found,
    /// `-m bin`.
    Binary,
}

impl Matching {
    /// The method after `-m`.
    pub(crate) fn named(word: &str) -> Option<Matching> {
        METHODS.iter().find(|(name, _)| *name == word).map(|&(_, matching)| matching)
    }

    /// All methods.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        METHODS.iter().map(|&(name, _)| name)
    }
}

const METHODS: &[(&str, Matching)] = &[
    ("bool", Matching::Bool),
    ("int", Matching::Number),
    ("ip", Matching::Address),
    ("str", Matching::Equals),
    ("beg", Matching::Begins),
    ("end", Matching::Ends),
    ("sub", Matching::Contains),
    ("dir", Matching::Segment),
    ("dom", Matching::Label),
    ("reg", Matching::Pattern),
    ("len", Matching::Length),
    ("found", Matching::Found),
    ("bin", Matching::Binary),
];

const BUILT: &[(&str, Fetch)] = &[
    ("always_true", Fetch::Bool),
    ("always_false", Fetch::Bool),
    ("base", Fetch::Text),
    ("baseq", Fetch::Text),
    ("be_conn", Fetch::Number),
    ("be_name", Fetch::Text),
    ("bool", Fetch::Bool),
    ("capture.req.hdr", Fetch::Text),
    ("capture.req.method", Fetch::Text),
    ("capture.req.uri", Fetch::Text),
    ("capture.req.ver", Fetch::Text),
    ("capture.res.hdr", Fetch::Text),
    ("cook", Fetch::Text),
    ("cookie", Fetch::Text),
    ("dst", Fetch::Address),
    ("dst_port", Fetch::Number),
    ("env", Fetch::Text),
    ("fc_dst", Fetch::Address),
    ("fc_dst_port", Fetch::Number),
    ("fc_rcvd_proxy", Fetch::Bool),
    ("fc_src", Fetch::Address),
    ("fc_src_port", Fetch::Number),
    ("fe_conn", Fetch::Number),
    ("fe_name", Fetch::Text),
    ("hdr", Fetch::Text),
    ("hdr_cnt", Fetch::Number),
    ("hdr_ip", Fetch::Address),
    ("hdr_val", Fetch::Number),
    ("hostname", Fetch::Text),
    ("http_auth", Fetch::Bool),
    ("http_auth_group", Fetch::Text),
    ("http_auth_user", Fetch::Text),
    ("http_first_req", Fetch::Bool),
    ("int", Fetch::Number),
    ("ipv4", Fetch::Address),
    ("ipv6", Fetch::Address),
    ("method", Fetch::Method),
    ("nbsrv", Fetch::Number),
    ("path", Fetch::Text),
    ("pathq", Fetch::Text),
    ("query", Fetch::Text),
    ("req.body", Fetch::Text),
    ("req.cook", Fetch::Text),
    ("req.fhdr", Fetch::Text),
    ("req.fhdr_cnt", Fetch::Number),
    ("req.hdr", Fetch::Text),
    ("req.hdr_cnt", Fetch::Number),
    ("req.hdr_ip", Fetch::Address),
    ("req.hdr_val", Fetch::Number),
    ("req.len", Fetch::Number),
    ("req.proto_http", Fetch::Bool),
    ("req.ssl_alpn", Fetch::Text),
    ("req.ssl_hello_type", Fetch::Number),
    ("req.ssl_sni", Fetch::Text),
    ("req.ver", Fetch::Text),
    ("req_proto_http", Fetch::Bool),
    ("req_len", Fetch::Number),
    ("req_ssl_hello_type", Fetch::Number),
    ("req_ssl_sni", Fetch::Text),
    ("req_ver", Fetch::Text),
    ("res.fhdr", Fetch::Text),
    ("res.hdr", Fetch::Text),
    ("res.hdr_cnt", Fetch::Number),
    ("shdr", Fetch::Text),
    ("so_name", Fetch::Text),
    ("src", Fetch::Address),
    ("src_port", Fetch::Number),
    ("srv_name", Fetch::Text),
    ("ssl_c_ca_err", Fetch::Number),
    ("ssl_c_ca_err_depth", Fetch::Number),
    ("ssl_c_der", Fetch::Binary),
    ("ssl_c_err", Fetch::Number),
    ("ssl_c_i_dn", Fetch::Text),
    ("ssl_c_key_alg", Fetch::Text),
    ("ssl_c_notafter", Fetch::Text),
    ("ssl_c_notbefore", Fetch::Text),
    ("ssl_c_s_dn", Fetch::Text),
    ("ssl_c_serial", Fetch::Binary),
    ("ssl_c_sha1", Fetch::Binary),
    ("ssl_c_sig_alg", Fetch::Text),
    ("ssl_c_used", Fetch::Bool),
    ("ssl_c_verify", Fetch::Number),
    ("ssl_c_version", Fetch::Number),
    ("ssl_fc", Fetch::Bool),
    ("ssl_fc_alg_keysize", Fetch::Number),
    ("ssl_fc_alpn", Fetch::Text),
    ("ssl_fc_cipher", Fetch::Text),
    ("ssl_fc_has_crt", Fetch::Bool),
    ("ssl_fc_has_early", Fetch::Bool),
    ("ssl_fc_has_sni", Fetch::Bool),
    ("ssl_fc_is_resumed", Fetch::Bool),
    ("ssl_fc_protocol", Fetch::Text),
    ("ssl_fc_sni", Fetch::Text),
    ("ssl_fc_use_keysize", Fetch::Number),
    ("status", Fetch::Number),
    ("str", Fetch::Text),
    ("unique-id", Fetch::Text),
    ("url", Fetch::Text),
    ("url_param", Fetch::Text),
    ("urlp", Fetch::Text),
    ("urlp_val", Fetch::Number),
    ("var", Fetch::Text),
    ("wait_end", Fetch::Bool),
];

const KNOWN: &[&str] = &[
    "acl",
    "avg_queue",
    "base32",
    "base32+src",
    "baseq32",
    "bc_be_queue",
    "bc_dst",
    "bc_dst_port",
    "bc_err",
    "bc_err_name",
    "bc_err_str",
    "bc_glitches",
    "bc_http_major",
    "bc_nb_streams",
    "bc_reused",
    "bc_rtt",
    "bc_rttvar",
    "bc_settings_streams_limit",
    "bc_src",
    "bc_src_port",
    "bc_srv_queue",
    "be_conn_free",
    "be_connect_timeout",
    "be_queue_timeout",
    "be_id",
    "be_server_timeout",
    "be_sess_rate",
    "be_tarpit_timeout",
    "be_tunnel_timeout",
    "bin",
    "bytes_in",
    "bytes_out",
    "capture.res.ver",
    "connslots",
    "cook_cnt",
    "cook_val",
    "cpu_calls",
    "cpu_ns_avg",
    "cpu_ns_tot",
    "cur_client_timeout",
    "cur_connect_timeout",
    "cur_queue_timeout",
    "cur_server_timeout",
    "cur_tarpit_timeout",
    "cur_tunnel_timeout",
    "date",
    "date_us",
    "distcc_body",
    "distcc_param",
    "dst_conn",
    "dst_is_local",
    "fc.timer.handshake",
    "fc.timer.total",
    "fc_dst_is_local",
    "fc_err",
    "fc_err_name",
    "fc_err_str",
    "fc_fackets",
    "fc_glitches",
    "fc_http_major",
    "fc_lost",
    "fc_nb_streams",
    "fc_pp_authority",
    "fc_pp_unique_id",
    "fc_pp_tlv",
    "fc_reordering",
    "fc_retrans",
    "fc_rtt",
    "fc_rttvar",
    "fc_sacked",
    "fc_settings_streams_limit",
    "fc_src_is_local",
    "fc_unacked",
    "fcgi.docroot",
    "fcgi.index",
    "fe_client_timeout",
    "fe_defbe",
    "fe_id",
    "fe_req_rate",
    "fe_sess_rate",
    "fe_tarpit_timeout",
    "fs.aborted",
    "fs.debug_str",
    "fs.id",
    "fs.rst_code",
    "bs.aborted",
    "bs.debug_str",
    "bs.id",
    "bs.rst_code",
    "http_auth_bearer",
    "http_auth_pass",
    "http_auth_type",
    "internal.htx.data",
    "last_entity",
    "last_rule_file",
    "last_rule_line",
    "lat_ns_avg",
    "lat_ns_tot",
    "meth",
    "nb_inflight",
    "nbproc",
    "payload",
    "payload_lv",
    "prio_class",
    "prio_offset",
    "proc",
    "queue",
    "quic_enabled",
    "rand",
    "rdp_cookie",
    "rdp_cookie_cnt",
    "rep_ssl_hello_type",
    "req.aborted",
    "req.bytes_in",
    "req.bytes_out",
    "req.body_len",
    "req.body_param",
    "req.body_size",
    "req.cook_cnt",
    "req.cook_names",
    "req.cook_val",
    "req.fhdr_cnt",
    "req.hdr_names",
    "req.hdrs",
    "req.hdrs_bin",
    "req.payload",
    "req.payload_lv",
    "req.rdp_cookie",
    "req.rdp_cookie_cnt",
    "req.ssl_cipherlist",
    "req.ssl_ec_ext",
    "req.ssl_keyshare_groups",
    "req.ssl_sigalgs",
    "req.ssl_st_ext",
    "req.ssl_supported_groups",
    "req.ssl_ver",
    "req.timer.hdr",
    "req.timer.idle",
    "req.timer.queue",
    "req.timer.tq",
    "req_ssl_ver",
    "request_date",
    "res.body",
    "res.body_len",
    "res.body_size",
    "res.cache_hit",
    "res.cache_name",
    "res.comp",
    "res.comp_algo",
    "res.cook",
    "res.cook_cnt",
    "res.cook_names",
    "res.cook_val",
    "res.fhdr_cnt",
    "res.hdr_ip",
    "res.hdr_names",
    "res.hdr_val",
    "res.hdrs",
    "res.hdrs_bin",
    "res.len",
    "res.payload",
    "res.payload_lv",
    "res.ssl_hello_type",
    "res.timer.data",
    "res.timer.hdr",
    "res.ver",
    "resp_ver",
    "scook",
    "scook_cnt",
    "scook_val",
    "server_status",
    "set-cookie",
    "shdr_cnt",
    "shdr_ip",
    "shdr_val",
    "so_id",
    "src_is_local",
    "srv_conn",
    "srv_conn_free",
    "srv_id",
    "srv_is_up",
    "srv_iweight",
    "srv_queue",
    "srv_sess_rate",
    "srv_uweight",
    "srv_weight",
    "ssl_bc",
    "ssl_c_ca_commonname",
    "ssl_c_san",
    "ssl_s_der",
    "ssl_f_der",
    "stopping",
    "thread",
    "txn.conn_retries",
    "txn.id32",
    "txn.redispatched",
    "txn.sess_term_state",
    "txn.status",
    "txn.timer.total",
    "txn.timer.user",
    "url32",
    "url32+src",
    "url_ip",
    "url_port",
    "uuid",
    "conn_retries",
    "accept_date",
    "pid",
    "date_ms",
    "lua.",
];

/// Families told by how they begin: counters of stick tables, TLS details, Lua.
const FAMILIES: &[&str] = &[
    "sc_",
    "sc0_",
    "sc1_",
    "sc2_",
    "src_",
    "table_",
    "ssl_",
    "lua.",
    "internal.",
    "51d.",
    "da-",
    "wurfl-",
    "fc_",
    "bc_",
];

/// The kind of a fetch, if the name is known.
pub(crate) fn fetch(name: &str) -> Option<Fetch> {
    if let Some(&(_, kind)) = BUILT.iter().find(|(built, _)| *built == name) {
        return Some(kind);
    }
    if let Some(kind) = super::sticks::fetch_kind(name) {
        return Some(kind);
    }
    let known = KNOWN.contains(&name)
        || FAMILIES.iter().any(|family| name.starts_with(family) && name.len() > family.len());
    known.then_some(Fetch::NotYet)
}

/// The known fetch or ACL word nearest to a name.
pub(crate) fn nearest_fetch(name: &str) -> Option<String> {
    let words = |(base, _): &(&str, &str)| SUFFIXES.map(|(suffix, _)| format!("{base}{suffix}"));
    let derived: Vec<String> = ACL_BASES.iter().flat_map(words).collect();
    let plain = BUILT.iter().map(|&(name, _)| name).chain(KNOWN.iter().copied());
    weir_diag::nearest(name, plain.chain(derived.iter().map(String::as_str))).map(str::to_owned)
}

/// An ACL word that stands for a fetch with a way to compare (`path_beg` is `path -m beg`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AclWord {
    /// The fetch.
    pub(crate) fetch: &'static str,
    /// How it compares.
    pub(crate) matching: Matching,
}

const ACL_BASES: &[(&str, &str)] = &[
    ("base", "base"),
    ("cook", "req.cook"),
    ("hdr", "req.hdr"),
    ("path", "path"),
    ("scook", "res.cook"),
    ("shdr", "res.hdr"),
    ("url", "url"),
    ("urlp", "urlp"),
    ("url_param", "urlp"),
    ("req.hdr", "req.hdr"),
    ("res.hdr", "res.hdr"),
    ("req.cook", "req.cook"),
    ("ssl_fc_sni", "ssl_fc_sni"),
    ("query", "query"),
    ("hdr_dom", "req.hdr"),
];

const SUFFIXES: [(&str, Matching); 7] = [
    ("_beg", Matching::Begins),
    ("_end", Matching::Ends),
    ("_sub", Matching::Contains),
    ("_dir", Matching::Segment),
    ("_dom", Matching::Label),
    ("_reg", Matching::Pattern),
    ("_len", Matching::Length),
];

/// What an ACL word stands for.
pub(crate) fn acl_word(name: &str) -> Option<AclWord> {
    SUFFIXES.into_iter().find_map(|(suffix, matching)| {
        let base = name.strip_suffix(suffix)?;
        let fetch = ACL_BASES.iter().find(|(known, _)| *known == base)?.1;
        Some(AclWord { fetch, matching })
    })
}

/// What becomes of a converter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Converter {
    /// Built.
    Built,
    /// Known, not built.
    NotYet,
}

const CONVERTERS: &[&str] = &[
    "lower",
    "upper",
    "url_dec",
    "url_enc",
    "host_only",
    "port_only",
    "field",
    "str",
    "bool",
    "not",
    "word",
    "bytes",
    "length",
    "hex",
    "add",
    "sub",
    "mul",
    "div",
    "mod",
    "and",
    "or",
    "xor",
    "neg",
    "even",
    "odd",
    "ltrim",
    "rtrim",
    "json",
    "iif",
    "cut_crlf",
    "param",
    "ipmask",
    "sha1",
    "base64",
    "b64dec",
    "ub64enc",
    "ub64dec",
    "crc32",
    "sdbm",
    "djb2",
    "wt6",
    "concat",
    "regsub",
];

const OTHER_CONVERTERS: &[&str] = &[
    "add_item",
    "aes_cbc_dec",
    "aes_cbc_enc",
    "aes_gcm_dec",
    "aes_gcm_enc",
    "base2",
    "base64url",
    "be2dec",
    "be2hex",
    "capture-req",
    "capture-res",
    "cpl",
    "crc32c",
    "date",
    "debug",
    "digest",
    "eth.data",
    "eth.dst",
    "eth.hdr",
    "eth.proto",
    "eth.src",
    "eth.vlan",
    "fix_is_valid",
    "fix_tag_value",
    "hex2i",
    "hmac",
    "htonl",
    "http_date",
    "in_table",
    "ip.data",
    "ip.df",
    "ip.dst",
    "ip.fp",
    "ip.hdr",
    "ip.proto",
    "ip.src",
    "ip.tos",
    "ip.ttl",
    "ip.ver",
    "json_query",
    "jwt_decrypt",
    "jwt_decrypt_cert",
    "jwt_decrypt_jwk",
    "jwt_decrypt_secret",
    "jwt_header_query",
    "jwt_payload_query",
    "jwt_verify",
    "jwt_verify_cert",
    "language",
    "le2dec",
    "limit",
    "ltime",
    "ms_ltime",
    "ms_utime",
    "mqtt_field_value",
    "mqtt_is_valid",
    "nbsrv",
    "protobuf",
    "reverse",
    "reverse_dom",
    "rfc7239_field",
    "rfc7239_is_valid",
    "rfc7239_n2nn",
    "rfc7239_n2np",
    "rfc7239_nn",
    "rfc7239_np",
    "secure_memcmp",
    "set-var",
    "sha2",
    "srv_is_up",
    "srv_queue",
    "strcmp",
    "ungrpc",
    "unset-var",
    "us_ltime",
    "us_utime",
    "utime",
    "uuid",
    "when",
    "x509_v_err_str",
    "xxh3",
    "xxh32",
    "xxh64",
    "tcp.dst",
    "tcp.flags",
    "tcp.options",
    "tcp.options.mss",
    "tcp.seq",
    "tcp.src",
    "tcp.win",
];

/// What becomes of a converter, if the name is known.
pub(crate) fn converter(name: &str) -> Option<Converter> {
    const MAPS: &[&str] = &["", "_str", "_beg", "_end", "_sub", "_dir", "_dom", "_reg", "_ip", "_int"];
    if let Some(way) = name.strip_prefix("map") {
        let way = way.strip_suffix("_str").or_else(|| way.strip_suffix("_int")).unwrap_or(way);
        return Some(if MAPS.contains(&way) { Converter::Built } else { Converter::NotYet });
    }
    if super::sticks::converter_kind(name).is_some() {
        return Some(Converter::Built);
    }
    let family = ["table_", "lua.", "51d.", "da-csv", "sc_"].iter().any(|family| name.starts_with(family));
    if CONVERTERS.contains(&name) {
        Some(Converter::Built)
    } else {
        (family || OTHER_CONVERTERS.contains(&name)).then_some(Converter::NotYet)
    }
}

/// The condition a predefined ACL stands for, as an `acl` line would write it.
pub(crate) fn predefined(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "TRUE" => &["always_true"],
        "FALSE" => &["always_false"],
        "HTTP" => &["req.proto_http"],
        "HTTP_1.0" => &["req.ver", "1.0"],
        "HTTP_1.1" => &["req.ver", "1.1"],
        "HTTP_2.0" => &["req.ver", "2.0"],
        "HTTP_3.0" => &["req.ver", "3.0"],
        "HTTP_CONTENT" => &["req.hdr_val(content-length)", "gt", "0"],
        "HTTP_URL_ABS" => &["url_reg", "^[^/:]*://"],
        "HTTP_URL_SLASH" => &["url_beg", "/"],
        "HTTP_URL_STAR" => &["url", "*"],
        "LOCALHOST" => &["src", "127.0.0.1/8", "::1"],
        "METH_CONNECT" => &["method", "CONNECT"],
        "METH_DELETE" => &["method", "DELETE"],
        "METH_GET" => &["method", "GET", "HEAD"],
        "METH_HEAD" => &["method", "HEAD"],
        "METH_OPTIONS" => &["method", "OPTIONS"],
        "METH_POST" => &["method", "POST"],
        "METH_PUT" => &["method", "PUT"],
        "METH_TRACE" => &["method", "TRACE"],
        "RDP_COOKIE" => &["req.rdp_cookie_cnt", "gt", "0"],
        "REQ_CONTENT" => &["req.len", "gt", "0"],
        "WAIT_END" => &["wait_end"],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_for_fetches() {
        assert_eq!(acl_word("path_beg"), Some(AclWord { fetch: "path", matching: Matching::Begins }));
        assert_eq!(acl_word("hdr_dom"), Some(AclWord { fetch: "req.hdr", matching: Matching::Label }));
        assert_eq!(acl_word("path"), None);
        assert_eq!(fetch("src_conn_rate"), Some(Fetch::Number));
        assert_eq!(fetch("sc0_http_req_rate"), Some(Fetch::Number));
        assert_eq!(fetch("sc_nothing"), Some(Fetch::NotYet));
        assert_eq!(fetch("pth"), None);
        assert_eq!(converter("map_reg"), Some(Converter::Built));
        assert_eq!(converter("map_reg_ip"), Some(Converter::NotYet));
        assert_eq!(converter("regsub"), Some(Converter::Built));
        assert_eq!(converter("sha2"), Some(Converter::NotYet));
    }
}
