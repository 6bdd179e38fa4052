//! Requests from a file: `--targets`.
//!
//! Owns: its form, and its bounds.
//! Never: sends; reads a URL (`target` does).
//! Driven by: the command line.
//!
//! ```text
//! # a comment
//! http://host/a                      a URL, with a weight or not
//! 3@POST http://host/b               a method before it
//! Content-Type: application/json     fields of this request
//! @body.json                         its body, from a file beside this one
//! ```
//!
//! The form is a superset of vegeta's `http` format.

use std::fs;
use std::path::Path;

use crate::shot;

/// The most requests of a file: all are built before the run, and kept.
const MOST: usize = 100_000;
/// The most bytes of a file, and of all bodies that it names.
const LONGEST: u64 = 256 << 20;

/// One request that is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// `[WEIGHT@]scheme://…`.
    pub url: String,
    /// Its method; `None`: that of all.
    pub method: Option<String>,
    /// Its fields; those of all come first, but for those of the same name.
    pub headers: Vec<(String, String)>,
    /// Its body; `None`: that of all.
    pub body: Option<Vec<u8>>,
}

/// Reads a file of requests.
///
/// # Errors
/// A sentence that names the file and the line.
pub fn read(path: &Path) -> Result<Vec<Asked>, String> {
    let name = path.display();
    let text = read_bounded(path, LONGEST)?;
    let text = String::from_utf8(text).map_err(|_| format!("{name} is no text"))?;
    let mut left = LONGEST;
    let mut body = |file: &str| {
        let beside = path.parent().unwrap_or(Path::new("")).join(file);
        let bytes = read_bounded(&beside, left)?;
        left -= bytes.len() as u64;
        Ok(bytes)
    };
    let asked = parse(&text, &mut body).map_err(|(line, why)| format!("{name}:{line}: {why}"))?;
    if asked.is_empty() { Err(format!("{name} names no URL")) } else { Ok(asked) }
}

fn read_bounded(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let name = path.display();
    let failed = |error: std::io::Error| format!("cannot read {name}: {error}");
    let length = fs::metadata(path).map_err(failed)?.len();
    if length > most {
        return Err(format!("{name} is too large: {length} bytes"));
    }
    fs::read(path).map_err(failed)
}

/// Reads the text; `body` reads the files that it names.
pub(crate) fn parse(
    text: &str,
    body: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
) -> Result<Vec<Asked>, (usize, String)> {
    let mut all: Vec<Asked> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let told = |why: String| (at + 1, why);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(asked) = request(line) {
            if all.len() >= MOST {
                return Err(told(format!("{MOST} requests are the most")));
            }
            all.push(asked);
            continue;
        }
        let Some(last) = all.last_mut() else {
            return Err(told(format!("`{line}` is no `[WEIGHT@][METHOD ]URL`, and stands before the first")));
        };
        match line.strip_prefix('@') {
            Some(_) if last.body.is_some() => return Err(told("a second body for one request".into())),
            Some(file) => last.body = Some(body(file.trim()).map_err(told)?),
            None => last.headers.push(shot::header(line).map_err(told)?),
        }
    }
    Ok(all)
}

/// A line that begins a request: a URL, or a method and a URL; a weight may stand before either.
fn request(line: &str) -> Option<Asked> {
    let (weight, rest) = match line.split_once('@') {
        Some((weight, rest)) if !weight.is_empty() && weight.bytes().all(|b| b.is_ascii_digit()) => {
            (format!("{weight}@"), rest)
        }
        _ => (String::new(), line),
    };
    let (first, second) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let is_url = |word: &str| {
        word.split_once("://").is_some_and(|(scheme, _)| scheme.bytes().all(|b| b.is_ascii_alphabetic()))
    };
    if is_url(first) {
        // What does not belong in a URL is told of by who reads it.
        return Some(Asked { url: weight + rest, ..Asked::default() });
    }
    let second = second.trim_start();
    let is_method = first.bytes().all(|b| b.is_ascii_uppercase() || b == b'-');
    (is_method && is_url(second)).then(|| Asked {
        url: weight + second,
        method: Some(first.to_owned()),
        ..Asked::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<Asked>, (usize, String)> {
        parse(text, &mut |file| {
            if file == "gone" { Err("cannot read gone".into()) } else { Ok(file.as_bytes().to_vec()) }
        })
    }

    #[test]
    fn requests_have_their_fields_and_bodies() {
        let all = of(
            "# two\nhttp://a/1\n\n3@POST https://b:8443/2?x=y\nAccept: */*\nX-Url: http://c/\n@body.json\n",
        )
        .unwrap();
        assert_eq!(all[0], Asked { url: "http://a/1".into(), ..Asked::default() });
        assert_eq!(all[1].url, "3@https://b:8443/2?x=y");
        assert_eq!(all[1].method.as_deref(), Some("POST"));
        assert_eq!(all[1].headers[1], ("X-Url".into(), "http://c/".into()));
        assert_eq!(all[1].body.as_deref(), Some(&b"body.json"[..]));
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn mistakes_have_their_line() {
        let (line, why) = of("http://a/\nnonsense\n").unwrap_err();
        assert!(line == 2 && why.contains("`nonsense` is no header"), "{line}: {why}");
        assert_eq!(of("\nAccept: a\n").unwrap_err().0, 2);
        assert_eq!(of("http://a/\n@gone").unwrap_err(), (2, "cannot read gone".into()));
        assert!(of("http://a/\n@a\n@b").unwrap_err().1.contains("second body"));
    }
}
