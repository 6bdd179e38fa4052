//! The time zone of a data plane in a changed root folder.
//!
//! Owns: the rule of /etc/localtime as text, which needs no file where logs are written.
//! Driven by: `keeper::child`.

/// What `TZ` is called.
pub(super) const VARIABLE: &str = "TZ";

/// A value for `TZ`, unless one is set already or the machine has none.
pub(super) fn rule_for_environment() -> Option<String> {
    match std::env::var_os(VARIABLE) {
        Some(_) => None,
        None => rule_of(&std::fs::read("/etc/localtime").ok()?),
    }
}

/// The last line of a zone file is its rule for today and later, in the form that `TZ` takes (RFC 8536 section 3.3).
fn rule_of(file: &[u8]) -> Option<String> {
    let body = file.strip_prefix(b"TZif")?.strip_suffix(b"\n")?;
    let line = body.rsplit(|byte| *byte == b'\n').next()?;
    String::from_utf8(line.to_vec()).ok().filter(|rule| !rule.is_empty() && rule.is_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_footer_is_the_rule() {
        let file = b"TZif2\0\x01\n\0\nCET-1CEST,M3.5.0,M10.5.0/3\n";
        assert_eq!(rule_of(file).as_deref(), Some("CET-1CEST,M3.5.0,M10.5.0/3"));
        assert_eq!(rule_of(b"TZif2\n\n"), None);
        assert_eq!(rule_of(b"rubbish"), None);
    }
}
