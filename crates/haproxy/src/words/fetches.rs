//! Sample fetches, ACL words and the predefined ACLs (configuration manual, chapter 7).

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
    ("accept_date", Fetch::Number),
    ("acl", Fetch::Bool),
    ("act_conn", Fetch::Number),
    ("always_false", Fetch::Bool),
    ("always_true", Fetch::Bool),
    ("avg_queue", Fetch::Number),
    ("base", Fetch::Text),
    ("base32", Fetch::Number),
    ("base32+src", Fetch::Binary),
    ("baseq", Fetch::Text),
    ("baseq32", Fetch::Number),
    ("bc.timer.connect", Fetch::Number),
    ("bc_be_queue", Fetch::Number),
    ("bc_dst", Fetch::Address),
    ("bc_dst_port", Fetch::Number),
    ("bc_err", Fetch::Number),
    ("bc_err_name", Fetch::Text),
    ("bc_err_str", Fetch::Text),
    ("bc_glitches", Fetch::Number),
    ("bc_http_major", Fetch::Number),
    ("bc_reused", Fetch::Bool),
    ("bc_src", Fetch::Address),
    ("bc_src_port", Fetch::Number),
    ("bc_srv_queue", Fetch::Number),
    ("be_conn", Fetch::Number),
    ("be_conn_free", Fetch::Number),
    ("be_connect_timeout", Fetch::Number),
    ("be_id", Fetch::Number),
    ("be_name", Fetch::Text),
    ("be_queue_timeout", Fetch::Number),
    ("be_server_timeout", Fetch::Number),
    ("be_sess_rate", Fetch::Number),
    ("be_tarpit_timeout", Fetch::Number),
    ("be_tunnel_timeout", Fetch::Number),
    ("bin", Fetch::Text),
    ("bool", Fetch::Bool),
    ("bytes_in", Fetch::Number),
    ("bytes_out", Fetch::Number),
    ("capture.req.hdr", Fetch::Text),
    ("capture.req.method", Fetch::Text),
    ("capture.req.uri", Fetch::Text),
    ("capture.req.ver", Fetch::Text),
    ("capture.res.hdr", Fetch::Text),
    ("capture.res.ver", Fetch::Text),
    ("conn_retries", Fetch::Number),
    ("connslots", Fetch::Number),
    ("cook", Fetch::Text),
    ("cook_cnt", Fetch::Number),
    ("cook_val", Fetch::Number),
    ("cookie", Fetch::Text),
    ("cpu_calls", Fetch::Number),
    ("cpu_ns_avg", Fetch::Number),
    ("cpu_ns_tot", Fetch::Number),
    ("cur_client_timeout", Fetch::Number),
    ("cur_connect_timeout", Fetch::Number),
    ("cur_queue_timeout", Fetch::Number),
    ("cur_server_timeout", Fetch::Number),
    ("cur_tarpit_timeout", Fetch::Number),
    ("cur_tunnel_timeout", Fetch::Number),
    ("date", Fetch::Number),
    ("date_ms", Fetch::Number),
    ("date_us", Fetch::Number),
    ("distcc_body", Fetch::Text),
    ("distcc_param", Fetch::Number),
    ("dst", Fetch::Address),
    ("dst_conn", Fetch::Number),
    ("dst_is_local", Fetch::Bool),
    ("dst_port", Fetch::Number),
    ("env", Fetch::Text),
    ("fc.timer.handshake", Fetch::Number),
    ("fc.timer.total", Fetch::Number),
    ("fc_dst", Fetch::Address),
    ("fc_dst_is_local", Fetch::Bool),
    ("fc_dst_port", Fetch::Number),
    ("fc_err", Fetch::Number),
    ("fc_err_name", Fetch::Text),
    ("fc_err_str", Fetch::Text),
    ("fc_glitches", Fetch::Number),
    ("fc_http_major", Fetch::Number),
    ("fc_pp_authority", Fetch::Text),
    ("fc_pp_tlv", Fetch::Text),
    ("fc_pp_unique_id", Fetch::Text),
    ("fc_rcvd_proxy", Fetch::Bool),
    ("fc_src", Fetch::Address),
    ("fc_src_is_local", Fetch::Bool),
    ("fc_src_port", Fetch::Number),
    ("fcgi.docroot", Fetch::Text),
    ("fcgi.index", Fetch::Text),
    ("fe_client_timeout", Fetch::Number),
    ("fe_conn", Fetch::Number),
    ("fe_defbe", Fetch::Text),
    ("fe_id", Fetch::Number),
    ("fe_name", Fetch::Text),
    ("fe_req_rate", Fetch::Number),
    ("fe_sess_rate", Fetch::Number),
    ("fe_tarpit_timeout", Fetch::Number),
    ("hdr", Fetch::Text),
    ("hdr_cnt", Fetch::Number),
    ("hdr_ip", Fetch::Address),
    ("hdr_val", Fetch::Number),
    ("hostname", Fetch::Text),
    ("http_auth", Fetch::Bool),
    ("http_auth_bearer", Fetch::Text),
    ("http_auth_group", Fetch::Text),
    ("http_auth_pass", Fetch::Text),
    ("http_auth_type", Fetch::Text),
    ("http_auth_user", Fetch::Text),
    ("http_first_req", Fetch::Bool),
    ("int", Fetch::Number),
    ("ipv4", Fetch::Address),
    ("ipv6", Fetch::Address),
    ("lat_ns_avg", Fetch::Number),
    ("lat_ns_tot", Fetch::Number),
    ("meth", Fetch::Method),
    ("method", Fetch::Method),
    ("nbproc", Fetch::Number),
    ("nbsrv", Fetch::Number),
    ("nbthread", Fetch::Number),
    ("path", Fetch::Text),
    ("pathq", Fetch::Text),
    ("payload", Fetch::Text),
    ("payload_lv", Fetch::Text),
    ("pid", Fetch::Number),
    ("prio_class", Fetch::Number),
    ("prio_offset", Fetch::Number),
    ("proc", Fetch::Number),
    ("query", Fetch::Text),
    ("queue", Fetch::Number),
    ("quic_enabled", Fetch::Bool),
    ("rand", Fetch::Number),
    ("rdp_cookie", Fetch::Text),
    ("rdp_cookie_cnt", Fetch::Number),
    ("rep_ssl_hello_type", Fetch::Number),
    ("req.body", Fetch::Text),
    ("req.body_len", Fetch::Number),
    ("req.body_param", Fetch::Text),
    ("req.body_size", Fetch::Number),
    ("req.bytes_in", Fetch::Number),
    ("req.bytes_out", Fetch::Number),
    ("req.cook", Fetch::Text),
    ("req.cook_cnt", Fetch::Number),
    ("req.cook_names", Fetch::Text),
    ("req.cook_val", Fetch::Number),
    ("req.fhdr", Fetch::Text),
    ("req.fhdr_cnt", Fetch::Number),
    ("req.hdr", Fetch::Text),
    ("req.hdr_cnt", Fetch::Number),
    ("req.hdr_ip", Fetch::Address),
    ("req.hdr_names", Fetch::Text),
    ("req.hdr_val", Fetch::Number),
    ("req.hdrs", Fetch::Text),
    ("req.hdrs_bin", Fetch::Binary),
    ("req.len", Fetch::Number),
    ("req.payload", Fetch::Text),
    ("req.payload_lv", Fetch::Text),
    ("req.proto_http", Fetch::Bool),
    ("req.rdp_cookie", Fetch::Text),
    ("req.rdp_cookie_cnt", Fetch::Number),
    ("req.ssl_alpn", Fetch::Text),
    ("req.ssl_cipherlist", Fetch::Text),
    ("req.ssl_ec_ext", Fetch::Bool),
    ("req.ssl_hello_type", Fetch::Number),
    ("req.ssl_keyshare_groups", Fetch::Text),
    ("req.ssl_sigalgs", Fetch::Text),
    ("req.ssl_sni", Fetch::Text),
    ("req.ssl_st_ext", Fetch::Number),
    ("req.ssl_supported_groups", Fetch::Text),
    ("req.ssl_ver", Fetch::Number),
    ("req.timer.hdr", Fetch::Number),
    ("req.timer.idle", Fetch::Number),
    ("req.timer.queue", Fetch::Number),
    ("req.timer.tq", Fetch::Number),
    ("req.ver", Fetch::Text),
    ("req_len", Fetch::Number),
    ("req_proto_http", Fetch::Bool),
    ("req_ssl_hello_type", Fetch::Number),
    ("req_ssl_sni", Fetch::Text),
    ("req_ssl_ver", Fetch::Number),
    ("req_ver", Fetch::Text),
    ("request_date", Fetch::Number),
    ("res.body_size", Fetch::Number),
    ("res.bytes_out", Fetch::Number),
    ("res.cache_hit", Fetch::Bool),
    ("res.cache_name", Fetch::Text),
    ("res.comp", Fetch::Bool),
    ("res.comp_algo", Fetch::Text),
    ("res.cook", Fetch::Text),
    ("res.cook_cnt", Fetch::Number),
    ("res.cook_names", Fetch::Text),
    ("res.cook_val", Fetch::Number),
    ("res.fhdr", Fetch::Text),
    ("res.fhdr_cnt", Fetch::Number),
    ("res.hdr", Fetch::Text),
    ("res.hdr_cnt", Fetch::Number),
    ("res.hdr_ip", Fetch::Address),
    ("res.hdr_names", Fetch::Text),
    ("res.hdr_val", Fetch::Number),
    ("res.hdrs", Fetch::Text),
    ("res.hdrs_bin", Fetch::Binary),
    ("res.len", Fetch::Number),
    ("res.payload", Fetch::Text),
    ("res.payload_lv", Fetch::Text),
    ("res.ssl_hello_type", Fetch::Number),
    ("res.timer.data", Fetch::Number),
    ("res.timer.hdr", Fetch::Number),
    ("res.ver", Fetch::Text),
    ("resp_ver", Fetch::Text),
    ("scook", Fetch::Text),
    ("scook_cnt", Fetch::Number),
    ("scook_val", Fetch::Number),
    ("server_status", Fetch::Number),
    ("set-cookie", Fetch::Text),
    ("shdr", Fetch::Text),
    ("shdr_cnt", Fetch::Number),
    ("shdr_ip", Fetch::Address),
    ("shdr_val", Fetch::Number),
    ("so_id", Fetch::Number),
    ("so_name", Fetch::Text),
    ("src", Fetch::Address),
    ("src_is_local", Fetch::Bool),
    ("src_port", Fetch::Number),
    ("srv_conn", Fetch::Number),
    ("srv_conn_free", Fetch::Number),
    ("srv_id", Fetch::Number),
    ("srv_is_up", Fetch::Bool),
    ("srv_iweight", Fetch::Number),
    ("srv_name", Fetch::Text),
    ("srv_queue", Fetch::Number),
    ("srv_sess_rate", Fetch::Number),
    ("srv_uweight", Fetch::Number),
    ("srv_weight", Fetch::Number),
    ("ssl_bc", Fetch::Bool),
    ("ssl_bc_alg_keysize", Fetch::Number),
    ("ssl_bc_alpn", Fetch::Text),
    ("ssl_bc_cipher", Fetch::Text),
    ("ssl_bc_err", Fetch::Number),
    ("ssl_bc_err_str", Fetch::Text),
    ("ssl_bc_is_resumed", Fetch::Bool),
    ("ssl_bc_npn", Fetch::Text),
    ("ssl_bc_protocol", Fetch::Text),
    ("ssl_bc_session_id", Fetch::Text),
    ("ssl_bc_use_keysize", Fetch::Number),
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
    ("ssl_f_der", Fetch::Binary),
    ("ssl_f_i_dn", Fetch::Text),
    ("ssl_f_key_alg", Fetch::Text),
    ("ssl_f_notafter", Fetch::Text),
    ("ssl_f_notbefore", Fetch::Text),
    ("ssl_f_s_dn", Fetch::Text),
    ("ssl_f_serial", Fetch::Binary),
    ("ssl_f_sha1", Fetch::Binary),
    ("ssl_f_sig_alg", Fetch::Text),
    ("ssl_f_version", Fetch::Number),
    ("ssl_fc", Fetch::Bool),
    ("ssl_fc_alg_keysize", Fetch::Number),
    ("ssl_fc_alpn", Fetch::Text),
    ("ssl_fc_cipher", Fetch::Text),
    ("ssl_fc_curve", Fetch::Text),
    ("ssl_fc_err", Fetch::Number),
    ("ssl_fc_err_str", Fetch::Text),
    ("ssl_fc_has_crt", Fetch::Bool),
    ("ssl_fc_has_early", Fetch::Bool),
    ("ssl_fc_has_sni", Fetch::Bool),
    ("ssl_fc_is_resumed", Fetch::Bool),
    ("ssl_fc_npn", Fetch::Text),
    ("ssl_fc_protocol", Fetch::Text),
    ("ssl_fc_session_id", Fetch::Text),
    ("ssl_fc_sni", Fetch::Text),
    ("ssl_fc_use_keysize", Fetch::Number),
    ("ssl_s_der", Fetch::Binary),
    ("ssl_s_i_dn", Fetch::Text),
    ("ssl_s_key_alg", Fetch::Text),
    ("ssl_s_notafter", Fetch::Text),
    ("ssl_s_notbefore", Fetch::Text),
    ("ssl_s_s_dn", Fetch::Text),
    ("ssl_s_serial", Fetch::Binary),
    ("ssl_s_sha1", Fetch::Binary),
    ("ssl_s_sig_alg", Fetch::Text),
    ("ssl_s_version", Fetch::Number),
    ("status", Fetch::Number),
    ("stopping", Fetch::Bool),
    ("str", Fetch::Text),
    ("tgid", Fetch::Number),
    ("thread", Fetch::Number),
    ("txn.conn_retries", Fetch::Number),
    ("txn.id32", Fetch::Number),
    ("txn.redispatched", Fetch::Bool),
    ("txn.sess_term_state", Fetch::Text),
    ("txn.status", Fetch::Number),
    ("txn.timer.total", Fetch::Number),
    ("txn.timer.user", Fetch::Number),
    ("unique-id", Fetch::Text),
    ("url", Fetch::Text),
    ("url32", Fetch::Number),
    ("url32+src", Fetch::Binary),
    ("url_ip", Fetch::Address),
    ("url_param", Fetch::Text),
    ("url_port", Fetch::Number),
    ("urlp", Fetch::Text),
    ("urlp_val", Fetch::Number),
    ("uuid", Fetch::Text),
    ("var", Fetch::Text),
    ("wait_end", Fetch::Bool),
];

/// Known by name, and not built.
const KNOWN: &[&str] = &[
    "bc_nb_streams",
    "bc_rtt",
    "bc_rttvar",
    "bc_settings_streams_limit",
    "bs.aborted",
    "bs.debug_str",
    "bs.id",
    "bs.rst_code",
    "fc_fackets",
    "fc_lost",
    "fc_nb_streams",
    "fc_reordering",
    "fc_retrans",
    "fc_rtt",
    "fc_rttvar",
    "fc_sacked",
    "fc_saved_syn",
    "fc_settings_streams_limit",
    "fc_unacked",
    "fs.aborted",
    "fs.debug_str",
    "fs.id",
    "fs.rst_code",
    "internal.htx.data",
    "last_entity",
    "last_rule_file",
    "last_rule_line",
    "lua.",
    "nb_inflight",
    "req.aborted",
    "res.body",
    "res.body_len",
    "sc_tracked",
    "ssl_c_ca_commonname",
    "ssl_c_chain_der",
    "ssl_c_r_dn",
    "ssl_c_san",
    "ssl_fc_client_random",
    "ssl_fc_server_random",
    "ssl_fc_session_key",
    "ssl_fc_unique_id",
    "ssl_s_chain_der",
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

/// Fetches whose text is bytes that a peer sent, or that the configuration names: patterns write those in hexadecimal unless `-m`
/// says otherwise.
const RAW: &[&str] = &[
    "bin",
    "payload",
    "payload_lv",
    "req.payload",
    "req.payload_lv",
    "res.payload",
    "res.payload_lv",
    "req.ssl_cipherlist",
    "req.ssl_keyshare_groups",
    "req.ssl_sigalgs",
    "req.ssl_supported_groups",
];

/// Whether patterns for a fetch are bytes in hexadecimal.
pub(crate) fn is_raw(name: &str) -> bool {
    RAW.contains(&name)
}

/// All names, those that are built and those that are not.
pub(crate) fn fetch_names() -> impl Iterator<Item = &'static str> {
    let known = KNOWN.iter().copied().filter(|known| BUILT.iter().all(|(built, _)| built != known));
    BUILT.iter().map(|&(name, _)| name).chain(known)
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
    }
}
