//! What must hold for any bytes: a set of keys and a token come to an end, and nothing holds that nobody signed.
//!
//! Owns: the property. Never: makes inputs; `cargo xtask fuzz` does.

use crate::{KeySet, open, read, verify};

/// The secret of the set that every token is held against.
const KEYS: &[u8] = br#"{"keys":[{"kty":"oct","k":"c2VjcmV0IG9mIDE2IGJ5dA"},
{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x0fK5cAQIe-FrzCxk3zBMUbT8hA8pm1WgKLvMrBqkvE"},
{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

/// A set of keys, and a token behind its first line feed.
pub fn token(data: &[u8]) {
    let at = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (own, token) = (&data[..at], data.get(at + 1..).unwrap_or_default());
    let own = KeySet::parse(own).ok();
    let known = KeySet::parse(KEYS).ok();
    let parts = read(token);
    for set in own.iter().chain(&known) {
        if let Ok(payload) = verify(token, [set]) {
            let read = parts.as_ref().ok().and_then(|parts| parts.payload.clone());
            assert_eq!(read.as_deref(), Some(&payload[..]), "another payload was verified than is read");
        }
        if open(token, [set]).is_ok() {
            assert!(crate::is_encrypted(token));
        }
    }
    if let Ok(parts) = &parts {
        let _ = crate::value_at(&parts.header, ["alg"]);
        if let Some(Ok(claims)) = parts.payload.as_ref().map(|payload| serde_json::from_slice(payload)) {
            let _ = crate::check_times(&claims, 1 << 30, 0);
        }
    }
}
