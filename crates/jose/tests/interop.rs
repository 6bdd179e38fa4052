//! Tokens that another implementation made (`jwcrypto`, of PyPI), each held by its public half where it has one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use serde_json::Value;
use weir_jose::{KeySet, open, verify};

#[test]
fn tokens_of_another_implementation_hold() {
    let all: Value = serde_json::from_str(include_str!("jwcrypto.json")).unwrap();
    let set =
        |name: &str| KeySet::parse(serde_json::json!({ "keys": all[name] }).to_string().as_bytes()).unwrap();
    let (public, private) = (set("keys"), set("private"));
    let mut kinds = [0, 0, 0];
    for one in all["tokens"].as_array().unwrap() {
        let (name, token) = (&one["name"], one["token"].as_str().unwrap().as_bytes());
        let hold = |token: &[u8]| match one["kind"].as_str().unwrap() {
            "signed" => (0, verify(token, [&public])),
            "encrypted" => (1, open(token, [&private])),
            _ => (2, open(token, [&private]).and_then(|signed| verify(&signed, [&public]))),
        };
        let (kind, payload) = hold(token);
        kinds[kind] += 1;
        let claims: Value =
            serde_json::from_slice(&payload.unwrap_or_else(|why| panic!("{name}: {why}"))).unwrap();
        assert_eq!(claims["info"]["e-mail"], "a@b.test", "{name}");
        // A character in the middle of its last part but one: of the payload, or of the content.
        let mut broken = token.to_vec();
        let last = broken.iter().rposition(|byte| *byte == b'.').unwrap();
        broken[last - 5] = if broken[last - 5] == b'Q' { b'w' } else { b'Q' };
        assert!(hold(&broken).1.is_err(), "{name}");
    }
    assert_eq!(kinds, [13, 17, 3]);
}
