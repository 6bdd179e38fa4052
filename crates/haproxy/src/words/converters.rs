//! Converters (configuration manual, section 7.3.1): which are built, and what kind of value each gives.
//!
//! Never: knows what one does; `build::convert` does.

use super::fetches::Fetch;

/// The kind of a value behind a converter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gives {
    Number,
    Bool,
    Text,
    Address,
    /// What went in.
    Same,
}

use Gives::{Address, Bool, Number, Same, Text};

/// A converter that is built.
struct Built {
    name: &'static str,
    gives: Gives,
    /// It takes bytes as they are; others take their text.
    takes_bytes: bool,
}

const fn converter(name: &'static str, gives: Gives, takes_bytes: bool) -> Built {
    Built { name, gives, takes_bytes }
}

const BUILT: &[Built] = &[
    converter("add", Number, false),
    converter("add_item", Text, false),
    converter("aes_cbc_dec", Text, true),
    converter("aes_cbc_enc", Text, true),
    converter("aes_gcm_dec", Text, true),
    converter("aes_gcm_enc", Text, true),
    converter("and", Number, false),
    converter("b64dec", Text, false),
    converter("base2", Text, true),
    converter("base64", Text, true),
    converter("be2dec", Text, true),
    converter("be2hex", Text, true),
    converter("bool", Bool, false),
    converter("bytes", Same, true),
    converter("concat", Text, false),
    converter("cpl", Number, false),
    converter("crc32", Number, true),
    converter("crc32c", Number, true),
    converter("cut_crlf", Text, false),
    converter("debug", Same, true),
    converter("digest", Text, true),
    converter("div", Number, false),
    converter("djb2", Number, true),
    converter("eth.data", Text, true),
    converter("eth.dst", Text, true),
    converter("eth.hdr", Text, true),
    converter("eth.proto", Number, true),
    converter("eth.src", Text, true),
    converter("eth.vlan", Number, true),
    converter("even", Bool, false),
    converter("field", Text, false),
    converter("fix_is_valid", Bool, true),
    converter("fix_tag_value", Text, true),
    converter("hex", Text, true),
    converter("hex2i", Number, false),
    converter("hmac", Text, true),
    converter("host_only", Text, false),
    converter("htonl", Text, true),
    converter("http_date", Text, false),
    converter("iif", Text, false),
    converter("ip.data", Text, true),
    converter("ip.df", Number, true),
    converter("ip.dst", Address, true),
    converter("ip.hdr", Text, true),
    converter("ip.proto", Number, true),
    converter("ip.src", Address, true),
    converter("ip.tos", Number, true),
    converter("ip.ttl", Number, true),
    converter("ip.ver", Number, true),
    converter("ipmask", Address, false),
    converter("json", Text, false),
    converter("json_query", Text, true),
    converter("jwt_header_query", Text, true),
    converter("jwt_payload_query", Text, true),
    converter("jwt_verify", Number, false),
    converter("jwt_verify_cert", Number, false),
    converter("language", Text, false),
    converter("le2dec", Text, true),
    converter("length", Number, true),
    converter("lower", Text, false),
    converter("ltime", Text, false),
    converter("ltrim", Text, false),
    converter("mod", Number, false),
    converter("mqtt_field_value", Text, true),
    converter("mqtt_is_valid", Bool, true),
    converter("ms_ltime", Text, false),
    converter("ms_utime", Text, false),
    converter("mul", Number, false),
    converter("nbsrv", Number, false),
    converter("neg", Number, false),
    converter("not", Same, false),
    converter("odd", Bool, false),
    converter("or", Number, false),
    converter("param", Text, false),
    converter("port_only", Text, false),
    converter("protobuf", Text, true),
    converter("regsub", Text, false),
    converter("reverse", Text, true),
    converter("reverse_dom", Text, false),
    converter("rfc7239_field", Text, false),
    converter("rfc7239_is_valid", Bool, false),
    converter("rfc7239_n2nn", Text, false),
    converter("rfc7239_n2np", Text, false),
    converter("rtrim", Text, false),
    converter("sdbm", Number, true),
    converter("secure_memcmp", Bool, true),
    converter("set-var", Same, true),
    converter("sha1", Text, true),
    converter("sha2", Text, true),
    converter("srv_is_up", Bool, false),
    converter("srv_queue", Number, false),
    converter("str", Text, false),
    converter("strcmp", Number, false),
    converter("sub", Number, false),
    converter("tcp.dst", Number, true),
    converter("tcp.flags", Number, true),
    converter("tcp.options.mss", Number, true),
    converter("tcp.options.sack", Number, true),
    converter("tcp.options.tsopt", Number, true),
    converter("tcp.options.wscale", Number, true),
    converter("tcp.options_list", Text, true),
    converter("tcp.seq", Number, true),
    converter("tcp.src", Number, true),
    converter("tcp.win", Number, true),
    converter("ub64dec", Text, false),
    converter("ub64enc", Text, true),
    converter("ungrpc", Text, true),
    converter("unset-var", Same, true),
    converter("upper", Text, false),
    converter("url_dec", Text, false),
    converter("url_enc", Text, false),
    converter("us_ltime", Text, false),
    converter("us_utime", Text, false),
    converter("utime", Text, false),
    converter("when", Same, true),
    converter("word", Text, false),
    converter("wt6", Number, true),
    converter("x509_v_err_str", Text, false),
    converter("xor", Number, false),
    converter("xxh3", Number, true),
    converter("xxh32", Number, true),
    converter("xxh64", Number, true),
];

const NOT_BUILT: &[&str] = &[
    "capture-req",
    "capture-res",
    "in_table",
    "ip.fp",
    "jwt_decrypt_cert",
    "jwt_decrypt_jwk",
    "jwt_decrypt_secret",
];

/// What becomes of a converter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Converter {
    /// Built.
    Built,
    /// Known, not built.
    NotYet,
}

/// What becomes of a converter, if the name is known.
pub(crate) fn known_converter(name: &str) -> Option<Converter> {
    const MAPS: &[&str] = &["", "_str", "_beg", "_end", "_sub", "_dir", "_dom", "_reg", "_ip", "_int"];
    if let Some(way) = name.strip_prefix("map") {
        let way = way.strip_suffix("_str").or_else(|| way.strip_suffix("_int")).unwrap_or(way);
        return Some(if MAPS.contains(&way) { Converter::Built } else { Converter::NotYet });
    }
    if super::sticks::converter_kind(name).is_some() {
        return Some(Converter::Built);
    }
    let family = ["table_", "lua.", "51d.", "da-csv", "sc_"].iter().any(|family| name.starts_with(family));
    if BUILT.iter().any(|one| one.name == name) {
        Some(Converter::Built)
    } else {
        (family || NOT_BUILT.contains(&name)).then_some(Converter::NotYet)
    }
}

/// All names, those that are built and those that are not; of the family `map` its first.
pub(crate) fn converter_names() -> impl Iterator<Item = &'static str> {
    let built = BUILT.iter().map(|one| one.name);
    let missing = NOT_BUILT.iter().copied().filter(|name| BUILT.iter().all(|one| one.name != *name));
    built.chain(missing).chain(["map"])
}

/// The kind of a value behind a converter.
pub(crate) fn kind_behind(name: &str, before: Fetch) -> Fetch {
    if let Some(way) = name.strip_prefix("map_") {
        return match way {
            "int" => Fetch::Number,
            _ if way.ends_with("_int") => Fetch::Number,
            _ if way.ends_with("_ip") => Fetch::Address,
            _ => Fetch::Text,
        };
    }
    if let Some(kind) = super::sticks::converter_kind(name) {
        return kind;
    }
    match BUILT.iter().find(|one| one.name == name).map_or(Text, |one| one.gives) {
        Number => Fetch::Number,
        Bool => Fetch::Bool,
        Text => Fetch::Text,
        Address => Fetch::Address,
        Same => before,
    }
}

/// Whether a converter takes bytes as they are. Others take their text.
pub(crate) fn takes_bytes(name: &str) -> bool {
    BUILT.iter().any(|one| one.name == name && one.takes_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converters_are_known_with_what_they_give() {
        assert_eq!(known_converter("map_reg"), Some(Converter::Built));
        assert_eq!(known_converter("map_reg_ip"), Some(Converter::NotYet));
        assert_eq!(known_converter("sha2"), Some(Converter::Built));
        assert_eq!(known_converter("table_conn_cnt"), Some(Converter::Built));
        assert_eq!(known_converter("sha3"), None);
        assert_eq!(kind_behind("length", Fetch::Text), Fetch::Number);
        assert_eq!(kind_behind("bytes", Fetch::Binary), Fetch::Binary);
        assert_eq!(kind_behind("map_ip", Fetch::Address), Fetch::Text);
        assert_eq!(kind_behind("map_str_int", Fetch::Text), Fetch::Number);
        assert!(takes_bytes("hex") && !takes_bytes("lower"));
    }
}
