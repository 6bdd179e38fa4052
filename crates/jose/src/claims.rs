//! What a token claims.
//!
//! Owns: its times (`exp`, `nbf`), and the text of a value at a path.

use serde_json::{Map, Value};

use crate::Refused;

/// Whether a token with these claims holds at a time, seconds since 1970, of which clocks may differ by so many seconds.
///
/// # Errors
/// Its time is over, or has not come; what says so is no number.
pub fn check_times(claims: &Map<String, Value>, now: u64, leeway: u64) -> Result<(), Refused> {
    let at = |name: &str| match claims.get(name) {
        None => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or(Refused::Malformed),
    };
    // Whole seconds of this age are exact.
    let (now, leeway) = (now as f64, leeway as f64);
    if at("exp")?.is_some_and(|end| now >= end + leeway) {
        return Err(Refused::Expired);
    }
    if at("nbf")?.is_some_and(|begin| now + leeway < begin) {
        return Err(Refused::NotYet);
    }
    Ok(())
}

/// The text of what stands at a path of names: a string without its quotes, elements of a list with commas between them,
/// an object as JSON. `None`: there is nothing there.
pub fn value_at<'p>(claims: &Map<String, Value>, path: impl IntoIterator<Item = &'p str>) -> Option<Vec<u8>> {
    let mut path = path.into_iter();
    let mut part = claims.get(path.next()?)?;
    for name in path {
        part = part.get(name)?;
    }
    let mut out = Vec::new();
    match part {
        Value::Array(list) => {
            for (at, one) in list.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                append(one, &mut out);
            }
        }
        one => append(one, &mut out),
    }
    Some(out)
}

fn append(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::String(text) => out.extend_from_slice(text.as_bytes()),
        other => out.extend_from_slice(other.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn times_hold_within_the_leeway() {
        let check = |claims: &str, leeway| check_times(&object(claims), 1000, leeway);
        assert_eq!(check("{}", 0), Ok(()));
        assert_eq!(check(r#"{"exp":1001,"nbf":1000}"#, 0), Ok(()));
        assert_eq!(check(r#"{"exp":1000}"#, 0), Err(Refused::Expired));
        assert_eq!(check(r#"{"exp":999.5}"#, 1), Ok(()));
        assert_eq!(check(r#"{"nbf":1010}"#, 9), Err(Refused::NotYet));
        assert_eq!(check(r#"{"nbf":1010}"#, 10), Ok(()));
        for wrong in [r#"{"exp":"2000"}"#, r#"{"exp":null}"#, r#"{"nbf":[]}"#] {
            assert_eq!(check(wrong, 0), Err(Refused::Malformed), "{wrong}");
        }
    }

    #[test]
    fn values_are_found_by_their_path() {
        let claims =
            object(r#"{"sub":"me","info":{"e-mail":"a@b","n":7,"ok":true},"list":["a",1,{"x":[]}]}"#);
        let at = |path: &[&str]| {
            value_at(&claims, path.iter().copied()).map(|value| String::from_utf8(value).unwrap())
        };
        assert_eq!(at(&["sub"]).unwrap(), "me");
        assert_eq!(at(&["info", "e-mail"]).unwrap(), "a@b");
        assert_eq!(at(&["info", "n"]).unwrap(), "7");
        assert_eq!(at(&["info", "ok"]).unwrap(), "true");
        assert_eq!(at(&["list"]).unwrap(), r#"a,1,{"x":[]}"#);
        assert_eq!(at(&["sub", "x"]), None);
        assert_eq!(at(&["none"]), None);
        assert_eq!(at(&[]), None);
    }
}
