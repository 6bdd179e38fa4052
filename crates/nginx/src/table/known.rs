//! Words known by name only: modules of which nothing is built.
//!
//! Owns: their names, contexts, and whether one decides something (an error) or merely helps (a warning).
//! Why: a word that nginx or a well-known module has must never be called unknown, and one that decides who gets in,
//! or what is answered, must never pass in silence.

use std::sync::LazyLock;

use super::entry::places::{E, H, HS, HSL, HSLI, L, LI, M, S, SL, T, TS, TSRV, TU, U};
use super::entry::{Contexts, Entry, MANY, Status};
use super::gateway::IDLE;

/// Words of one module that share a fate.
struct Family {
    module: &'static str,
    contexts: Contexts,
    status: Status,
    why: &'static str,
    /// Names, separated by blanks.
    names: &'static str,
    block: bool,
}

const fn deciding(
    module: &'static str,
    contexts: Contexts,
    why: &'static str,
    names: &'static str,
) -> Family {
    Family { module, contexts, status: Status::NotYet, why, names, block: false }
}

const fn helping(module: &'static str, contexts: Contexts, why: &'static str, names: &'static str) -> Family {
    Family { module, contexts, status: Status::TuningOnly, why, names, block: false }
}

impl Family {
    const fn blocks(mut self) -> Self {
        self.block = true;
        self
    }
}

const LUA: &str = "Lua is not built";
const MAIL: Contexts = Contexts::MAIL.and(Contexts::MAIL_SERVER);

const FAMILIES: &[Family] = &[
    deciding("tunnel", LI, "CONNECT tunnels are not built", "tunnel_pass"),
    helping("tunnel", HSL, IDLE, "tunnel_connect_timeout tunnel_read_timeout tunnel_send_timeout tunnel_buffer_size tunnel_allow_upstream tunnel_bind tunnel_next_upstream tunnel_next_upstream_timeout tunnel_next_upstream_tries tunnel_socket_keepalive tunnel_send_lowat"),
    helping("ssi", HSL, "pages with commands are read in pieces of a size of Weir's own", "ssi_ignore_recycled_buffers ssi_min_file_chunk"),
    deciding("dav_ext", HSL, "these DAV methods are not built", "dav_ext_methods"),
    helping("referer", SL, "Weir sizes its tables by itself", "referer_hash_max_size referer_hash_bucket_size"),
    helping("mp4", HSL, "videos are sent as fast as `limit_rate` allows; NGINX Plus can go by their own rate", "mp4_limit_rate mp4_limit_rate_after"),
    deciding("internal_redirect", HSL, "this kind of redirect is not built; `try_files` or `rewrite` is near", "internal_redirect"),
    deciding("hls, f4f", L, "streaming of videos is not built", "hls f4f"),
    helping("hls, f4f", HSL, "streaming of videos is not built", "hls_buffers hls_forward_args hls_fragment hls_mp4_buffer_size hls_mp4_max_buffer_size f4f_buffer_size"),
    deciding("geoip", H, "databases in the old format of GeoIP are not built; those of `geoip2` are", "geoip_country geoip_city geoip_org"),
    helping("geoip", H, "GeoIP is not built", "geoip_proxy geoip_proxy_recursive"),
    deciding("image_filter", L, "image filters are not built", "image_filter"),
    helping("image_filter", HSL, "image filters are not built", "image_filter_buffer image_filter_interlace image_filter_jpeg_quality image_filter_sharpen image_filter_transparency image_filter_webp_quality"),
    deciding("xslt", L, "XSLT is not built", "xslt_stylesheet xml_entities"),
    helping("xslt", HSL, "XSLT is not built", "xslt_last_modified xslt_param xslt_string_param xslt_types"),
    deciding("perl", H.and(LI), "Perl is not built", "perl perl_set"),
    helping("perl", H, "Perl is not built", "perl_modules perl_require"),
    deciding("auth_oidc", HSL, "OpenID Connect is not built", "auth_oidc"),
    deciding("auth_oidc", H, "OpenID Connect is not built", "oidc_provider").blocks(),
    deciding("status", L, "the API of old is not built; `api` is", "status status_format upstream_conf"),
    deciding("session_log", HSL, "session logs are not built", "session_log session_log_zone session_log_format"),
    helping("zone_sync", TS, "clusters are not built", "zone_sync zone_sync_server zone_sync_buffers zone_sync_connect_retry_interval zone_sync_connect_timeout zone_sync_interval zone_sync_recv_buffer_size zone_sync_ssl zone_sync_ssl_certificate zone_sync_ssl_certificate_key zone_sync_ssl_ciphers zone_sync_ssl_conf_command zone_sync_ssl_crl zone_sync_ssl_name zone_sync_ssl_password_file zone_sync_ssl_protocols zone_sync_ssl_server_name zone_sync_ssl_trusted_certificate zone_sync_ssl_verify zone_sync_ssl_verify_depth zone_sync_timeout"),
    helping("mgmt", M, "Weir needs no licence", "mgmt").blocks(),
    deciding("mqtt", TS, "MQTT is not built", "mqtt mqtt_preread mqtt_set_connect"),
    helping("mqtt", TS, "MQTT is not built", "mqtt_buffers mqtt_rewrite_buffer_size"),
    deciding("proxy_protocol_vendor", TS, "vendors' PROXY fields are not built", "proxy_protocol_tlv"),
    deciding("google_perftools", M, "profiles by this module are not built", "google_perftools_profiles"),
    // njs.
    deciding("njs", HSL, "njs is not built", "js_content js_body_filter js_header_filter js_access js_periodic"),
    deciding("njs", HSL.and(TS), "njs is not built", "js_set js_import js_var js_preload_object"),
    deciding("njs", TS, "njs is not built", "js_access js_filter js_preread"),
    helping("njs", HSL.and(TS), "njs is not built", "js_include js_path js_engine js_context_reuse js_context_reuse_max_size js_fetch_buffer_size js_fetch_ciphers js_fetch_keepalive js_fetch_keepalive_requests js_fetch_keepalive_time js_fetch_keepalive_timeout js_fetch_max_response_buffer_size js_fetch_protocols js_fetch_timeout js_fetch_trusted_certificate js_fetch_verify js_fetch_verify_depth js_fetch_proxy js_shared_dict_zone"),
    // Lua.
    deciding("lua", HSLI, LUA, "rewrite_by_lua rewrite_by_lua_file access_by_lua access_by_lua_file content_by_lua content_by_lua_file header_filter_by_lua header_filter_by_lua_file body_filter_by_lua body_filter_by_lua_file log_by_lua log_by_lua_file set_by_lua set_by_lua_file precontent_by_lua_file"),
    deciding("lua", HSLI, LUA, "rewrite_by_lua_block access_by_lua_block content_by_lua_block header_filter_by_lua_block body_filter_by_lua_block log_by_lua_block set_by_lua_block precontent_by_lua_block").blocks(),
    deciding("lua", HS, LUA, "server_rewrite_by_lua_file ssl_client_hello_by_lua_file ssl_certificate_by_lua_file"),
    deciding("lua", HS.and(TS), LUA, "server_rewrite_by_lua_block ssl_client_hello_by_lua_block ssl_certificate_by_lua_block").blocks(),
    deciding("lua", H.and(T), LUA, "init_by_lua init_by_lua_file init_worker_by_lua init_worker_by_lua_file exit_worker_by_lua_file ssl_session_store_by_lua_file ssl_session_fetch_by_lua_file"),
    deciding("lua", H.and(T), LUA, "init_by_lua_block init_worker_by_lua_block exit_worker_by_lua_block ssl_session_store_by_lua_block ssl_session_fetch_by_lua_block").blocks(),
    deciding("lua", U.and(TU), LUA, "balancer_by_lua_file"),
    deciding("lua", U.and(TU), LUA, "balancer_by_lua_block").blocks(),
    deciding("lua", TSRV, LUA, "content_by_lua_block preread_by_lua_block log_by_lua_block").blocks(),
    helping("lua", H.and(T), LUA, "lua_package_path lua_package_cpath lua_shared_dict lua_load_resty_core lua_thread_cache_max_entries lua_max_running_timers lua_max_pending_timers lua_capture_error_log lua_sa_restart lua_regex_cache_max_entries lua_regex_match_limit rewrite_by_lua_no_postpone access_by_lua_no_postpone lua_malloc_trim lua_worker_thread_vm_pool_size"),
    helping("lua", HSLI.and(TS), LUA, "lua_code_cache lua_need_request_body lua_transform_underscores_in_response_headers lua_socket_log_errors lua_socket_keepalive_timeout lua_socket_connect_timeout lua_socket_send_timeout lua_socket_send_lowat lua_socket_buffer_size lua_socket_pool_size lua_socket_read_timeout lua_http10_buffering lua_check_client_abort lua_use_default_type lua_ssl_protocols lua_ssl_ciphers lua_ssl_verify_depth lua_ssl_trusted_certificate lua_ssl_crl lua_ssl_conf_command"),
    // Other well-known modules.
    deciding("zstd", HSL, "dictionaries are not built", "zstd_dict_file"),
    deciding("echo", HSLI, "the echo module is not built; `return` is near", "echo echo_duplicate echo_flush echo_sleep echo_location echo_exec echo_before_body echo_after_body echo_read_request_body"),
    deciding("fancyindex", HSLI, "fancyindex is not built; `autoindex` is", "fancyindex"),
    helping("fancyindex", HSLI, "fancyindex is not built; `autoindex` is", "fancyindex_exact_size fancyindex_name_length fancyindex_localtime fancyindex_header fancyindex_footer fancyindex_css_href fancyindex_default_sort fancyindex_ignore fancyindex_time_format"),
    deciding("modsecurity", HSLI, "ModSecurity is not built", "modsecurity modsecurity_rules modsecurity_rules_file modsecurity_rules_remote modsecurity_transaction_id"),
    deciding("naxsi", HSLI, "naxsi is not built", "SecRulesEnabled SecRulesDisabled LearningMode DeniedUrl CheckRule MainRule BasicRule"),
    deciding("auth_pam", HSLI, "PAM authentication is not built", "auth_pam auth_pam_service_name"),
    deciding("auth_ldap", HSLI, "LDAP authentication is not built", "auth_ldap auth_ldap_servers"),
    deciding("upload", HSLI, "the upload module is not built", "upload_pass upload_store"),
    helping("upload_progress", HSLI, "upload progress is not built", "upload_progress track_uploads report_uploads"),
    helping("vts", HSL, "the vts module is not built; `/metrics` has its figures", "vhost_traffic_status vhost_traffic_status_zone vhost_traffic_status_filter_by_host vhost_traffic_status_filter_by_set_key"),
    deciding("vts", L, "the vts module is not built; `/metrics` has its figures", "vhost_traffic_status_display vhost_traffic_status_display_format"),
    deciding("rtmp", M, "RTMP is not built", "rtmp").blocks(),
    deciding("set_misc", HSLI, "the set-misc module is not built", "set_escape_uri set_unescape_uri set_md5 set_sha1 set_random set_if_empty set_encode_base64 set_decode_base64 set_hmac_sha1 set_quote_sql_str encrypted_session_key"),
    deciding("subs", HSLI, "the substitutions module is not built; `sub_filter` is near", "subs_filter"),
    helping("subs", HSLI, "the substitutions module is not built; `sub_filter` is near", "subs_filter_types subs_filter_bypass"),
    deciding("passenger", HSLI, "Passenger is not built; proxy to it with `proxy_pass`", "passenger_enabled passenger_base_uri passenger_app_root"),
    helping("passenger", HSLI, "Passenger is not built", "passenger_root passenger_ruby passenger_min_instances passenger_max_pool_size rails_env passenger_app_env passenger_user"),
    helping("pagespeed", HSLI, "PageSpeed is not built", "pagespeed"),
    deciding("spnego", HSLI, "Kerberos authentication is not built", "auth_gss auth_gss_realm auth_gss_keytab auth_gss_service_name"),
    helping("opentracing", HSL, "tracing is not built", "opentracing opentracing_tag opentracing_load_tracer opentracing_propagate_context opentracing_operation_name opentracing_trace_locations"),
    helping("spdy", HS, "nginx dropped SPDY in 1.9.5", "spdy_chunk_size spdy_headers_comp"),
    helping("devpoll", E, "it is no method of Linux", "devpoll_events devpoll_changes kqueue_events kqueue_changes eventport_events rtsig_signo rtsig_overflow_events rtsig_overflow_test rtsig_overflow_threshold"),
    helping("other", HSL, "Weir treats it by itself", "optimize_server_names satisfy_any open_file_cache_retest"),
    helping("other", S, "Weir treats it by itself", "restrict_host_names"),
    // mail: the block itself is an error; its words are only known.
    deciding("mail", MAIL, "mail proxying is not built", "listen server_name protocol timeout error_log resolver resolver_timeout max_errors max_commands ssl starttls pop3_capabilities pop3_auth imap_client_buffer imap_capabilities imap_auth smtp_client_buffer smtp_greeting_delay smtp_capabilities smtp_auth auth_http auth_http_timeout auth_http_header auth_http_pass_client_cert proxy proxy_buffer proxy_timeout proxy_pass_error_message xclient proxy_smtp_auth proxy_protocol set_real_ip_from"),
    deciding(
        "mail",
        MAIL,
        "mail proxying is not built",
        "ssl_certificate ssl_certificate_key ssl_password_file ssl_dhparam ssl_ecdh_curve ssl_protocols ssl_ciphers ssl_prefer_server_ciphers ssl_session_cache ssl_session_tickets ssl_session_ticket_key ssl_session_timeout ssl_verify_client ssl_verify_depth ssl_client_certificate ssl_trusted_certificate ssl_crl ssl_conf_command",
    ),
    deciding("mail", Contexts::MAIL, "mail proxying is not built", "server").blocks(),
];

static ENTRIES: LazyLock<Vec<(&'static str, Entry)>> = LazyLock::new(|| {
    let mut out = Vec::new();
    for family in FAMILIES {
        for name in family.names.split(' ') {
            out.push((family.module, entry(family, name)));
        }
    }
    out
});

fn entry(family: &Family, name: &'static str) -> Entry {
    Entry {
        status: family.status,
        why: family.why,
        block: family.block,
        repeats: true,
        ..Entry::new(name, family.contexts, (0, MANY), default_of(name), "")
    }
}

/// Words whose value `off` asks for nothing.
fn default_of(name: &str) -> &'static str {
    match name {
        "ssi" | "dav_methods" | "brotli" | "zstd" | "auth_oidc" | "modsecurity" | "fancyindex"
        | "auth_pam" | "auth_gss" | "pagespeed" | "passenger_enabled" | "image_filter" | "opentracing" => {
            "off"
        }
        _ => "",
    }
}

/// All of them with their modules.
pub(super) fn entries() -> &'static [(&'static str, Entry)] {
    &ENTRIES
}
