//! What was found in a document, for programs.
//!
//! Owns: the form of findings in answers; the place of a byte in a document, as a pointer (RFC 6901).
//! Never: shows a text of the document, which holds secrets.
//! Driven by: `config`.

use serde_json::{Value, json};
use weir_diag::{Diagnostic, Label};

/// The findings. Those that have a place are about `text`, a document as JSON.
pub(super) fn told(found: &[Diagnostic], text: &str) -> Vec<Value> {
    let place = |label: &Label| pointer(text, label.span.start as usize);
    let one = |found: &Diagnostic| {
        let mut value = json!({ "code": found.code, "severity": found.severity, "message": found.title });
        if let Some(label) = &found.primary {
            value["pointer"] = json!(place(label));
            if !label.text.is_empty() {
                value["about"] = json!(label.text);
            }
        }
        if !found.secondary.is_empty() {
            let other = |label: &Label| json!({ "pointer": place(label), "about": label.text });
            value["related"] = found.secondary.iter().map(other).collect();
        }
        if !found.help.is_empty() {
            value["help"] = json!(found.help);
        }
        value
    };
    found.iter().map(one).collect()
}

/// A collection that is open.
enum Open {
    /// With its last key, and whether that still waits for its value.
    Map(Option<String>),
    List(usize),
}

/// What stands at a byte of a text of JSON. Of a key: its value.
fn pointer(text: &str, at: usize) -> String {
    let bytes = text.as_bytes();
    let (mut open, mut here, mut is_key): (Vec<Open>, usize, bool) = (Vec::new(), 0, false);
    while let Some(&byte) = bytes.get(here) {
        let end = if byte == b'"' { end_of_text(bytes, here) } else { here + 1 };
        if byte == b'"' && is_key {
            let key = text.get(here..end).and_then(|key| serde_json::from_str(key).ok());
            if let Some(Open::Map(last)) = open.last_mut() {
                *last = key;
            }
            is_key = false;
        }
        if end > at {
            break;
        }
        match byte {
            b'{' => {
                open.push(Open::Map(None));
                is_key = true;
            }
            b'[' => open.push(Open::List(0)),
            b'}' | b']' => {
                open.pop();
                is_key = false;
            }
            b',' => match open.last_mut() {
                Some(Open::List(number)) => *number += 1,
                Some(Open::Map(_)) => is_key = true,
                None => {}
            },
            _ => {}
        }
        here = end;
    }
    let step = |open: &Open| match open {
        Open::Map(Some(key)) => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
        Open::Map(None) => String::new(),
        Open::List(number) => format!("/{number}"),
    };
    open.iter().map(step).collect()
}

/// Behind a text that begins here.
fn end_of_text(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::pointer;

    #[test]
    fn bytes_have_places() {
        let text =
            r#"{"pools": [{"name": "a"}, {"name": "b,\"]}", "endpoints": [1, {"a/b": 2}]}], "sites": {}}"#;
        for (mark, wanted) in [
            ("\"name\": \"a", "/pools/0/name"),
            ("\"b,", "/pools/1/name"),
            ("1,", "/pools/1/endpoints/0"),
            ("{\"a/b", "/pools/1/endpoints/1"),
            ("2}", "/pools/1/endpoints/1/a~1b"),
            ("\"sites", "/sites"),
            ("{\"pools", ""),
        ] {
            assert_eq!(pointer(text, text.find(mark).unwrap()), wanted, "{mark}");
        }
        assert_eq!(pointer("{\"a\": \"", 99), "/a");
    }
}
