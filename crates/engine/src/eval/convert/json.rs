//! Parts of JSON texts: `json_query`.
//!
//! Owns: the paths that are understood: `$.name`, `$.list[2]`, `\\.` for a dot in a name.

use serde_json::Value;

/// The part at a path: a string without its quotes, a number, `1` or `0`, or the text of a list or an object. `kind`:
/// `int` makes it a number.
pub(super) fn query(text: &[u8], path: &[u8], kind: &[u8]) -> Option<Vec<u8>> {
    let whole: Value = serde_json::from_slice(text).ok()?;
    let mut part = &whole;
    for step in steps(std::str::from_utf8(path).ok()?)? {
        part = match step {
            Step::Name(name) => part.get(name)?,
            Step::Index(index) => part.get(index)?,
        };
    }
    let wants_number = kind == b"int";
    Some(match part {
        Value::Null => return None,
        Value::Bool(true) => b"1".to_vec(),
        Value::Bool(false) => b"0".to_vec(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.to_string().into_bytes(),
            None if wants_number => (number.as_f64()? as i64).to_string().into_bytes(),
            None => number.to_string().into_bytes(),
        },
        Value::String(text) if wants_number => text.trim().parse::<i64>().ok()?.to_string().into_bytes(),
        Value::String(text) => text.clone().into_bytes(),
        list => serde_json::to_vec(list).ok()?,
    })
}

enum Step {
    Name(String),
    Index(usize),
}

fn steps(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let (index, tail) = after.split_once(']')?;
            let quoted = index.strip_prefix('\'').and_then(|name| name.strip_suffix('\''));
            steps.push(match quoted {
                Some(name) => Step::Name(name.to_owned()),
                None => Step::Index(index.parse().ok()?),
            });
            rest = tail;
            continue;
        }
        let (mut name, mut end) = (String::new(), rest.len());
        let mut chars = rest.strip_prefix('.')?.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => name.extend(chars.next().map(|(_, next)| next)),
                '.' | '[' => {
                    end = at + 1;
                    break;
                }
                c => name.push(c),
            }
        }
        steps.push(Step::Name(name));
        rest = &rest[end..];
    }
    Some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, kind: &str) -> Option<String> {
        let text = br#"{"a":{"b":[1,"x",{"c":true}]},"my.key":"v\"w","f":1.5,"n":null,"s":"12"}"#;
        query(text, path.as_bytes(), kind.as_bytes())
            .map(|value| String::from_utf8_lossy(&value).into_owned())
    }

    #[test]
    fn paths_lead_to_parts() {
        assert_eq!(check("$.a.b[0]", "").unwrap(), "1");
        assert_eq!(check("$.a.b[1]", "").unwrap(), "x");
        assert_eq!(check("$.a.b[2].c", "").unwrap(), "1");
        assert_eq!(check("$.a.b[2]", "").unwrap(), r#"{"c":true}"#);
        assert_eq!(check(r"$.my\.key", "").unwrap(), "v\"w");
        assert_eq!(check("$['my.key']", "").unwrap(), "v\"w");
        assert_eq!(check("$.f", "").unwrap(), "1.5");
        assert_eq!(check("$.f", "int").unwrap(), "1");
        assert_eq!(check("$.s", "int").unwrap(), "12");
        for none in ["$.n", "$.nope", "$.a.b[7]", "a", "$.a[", "$.a.b[x]"] {
            assert_eq!(check(none, ""), None, "{none}");
        }
    }
}
