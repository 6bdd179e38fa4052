//! Templates and variables as text that can be read again.
//!
//! ```text
//! https://${host}${target}          variables stand in braces
//! ${header.user-agent|lower}        with a name, and through filters
//! ${header_nth ["x-forwarded-for",1]}   with arguments, in JSON, where there are several or odd ones
//! $5 costs $${x}                    `$$` is a dollar where a brace or another dollar follows
//! ```
//!
//! Owns: this form, both ways.
//! Never: knows what a variable means. Names are those of [`Var`]'s table.
//! Driven by: serde, for [`Template`].

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::OnceLock;

use serde::de::{DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::form::{Form, form};
use crate::var::PRINTED;
use crate::{Filter, Piece, Template, Var};

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TemplateError {
    /// The byte at which it begins.
    pub at: usize,
    /// What it is, and the near word where there is one.
    pub message: String,
}

/// The template as text that [`read`] reads.
pub fn write<S: Serialize>(template: &Template<S>) -> String {
    let mut out = String::new();
    let mut pieces = template.pieces.iter().peekable();
    while let Some(piece) = pieces.next() {
        match piece {
            Piece::Literal(text) => {
                let before_variable = matches!(pieces.peek(), Some(Piece::Var(..)));
                write_literal(text, before_variable, &mut out);
            }
            Piece::Var(var, filters) => {
                let _ = write!(out, "${{{}", write_var(var));
                for filter in filters {
                    let _ = write!(out, "|{}", write_word(filter, |tag| tag.to_owned()));
                }
                out.push('}');
            }
        }
    }
    out
}

fn write_literal(text: &str, before_variable: bool, out: &mut String) {
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        out.push(letter);
        let next = rest.peek().copied().or(before_variable.then_some('$'));
        if letter == '$' && matches!(next, Some('$' | '{')) {
            out.push('$');
        }
    }
}

/// A variable without its braces.
fn write_var<S: Serialize>(var: &Var<S>) -> String {
    let short = write_word(var, |tag| names().shown.get(tag).cloned().unwrap_or_else(|| tag.to_owned()));
    let same = |text: &str| {
        let read = read_var(text).ok().and_then(|read| serde_json::to_value(read).ok());
        read.is_some() && read == serde_json::to_value(var).ok()
    };
    // A name that would be taken for another one is written with its quotes.
    if same(&short) { short } else { write_long(var, str::to_owned) }
}

/// A value of an enumeration: its tag, and what it holds.
fn write_word<T: Serialize>(value: &T, shown: impl Fn(&str) -> String) -> String {
    match parts(value) {
        (tag, None) => shown(&tag),
        (tag, Some(Value::String(word))) if is_plain(&word) => format!("{}.{word}", shown(&tag)),
        (tag, Some(Value::Number(number))) if number.is_u64() => format!("{}.{number}", shown(&tag)),
        _ => write_long(value, shown),
    }
}

fn write_long<T: Serialize>(value: &T, shown: impl Fn(&str) -> String) -> String {
    match parts(value) {
        (tag, None) => shown(&tag),
        (tag, Some(held)) => format!("{tag} {held}"),
    }
}

fn parts<T: Serialize>(value: &T) -> (String, Option<Value>) {
    match serde_json::to_value(value) {
        Ok(Value::String(tag)) => (tag, None),
        Ok(Value::Object(map)) => {
            map.into_iter().next().map_or_else(Default::default, |(tag, held)| (tag, Some(held)))
        }
        _ => Default::default(),
    }
}

fn is_plain(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.@:/".contains(&byte))
}

/// The template of a text.
///
/// # Errors
/// A brace that is not closed, a variable or a filter that does not exist, arguments that it does not take.
pub fn read(text: &str) -> Result<Template<String>, TemplateError> {
    let mut out = Template::default();
    let mut at = 0;
    while let Some(dollar) = text[at..].find('$').map(|found| at + found) {
        out.push_literal(&text[at..dollar]);
        let rest = &text[dollar + 1..];
        at = dollar + 1;
        if rest.starts_with('$') {
            out.push_literal("$");
            at += 1;
        } else if let Some(inside) = rest.strip_prefix('{') {
            let (piece, used) =
                read_braces(inside).map_err(|message| TemplateError { at: dollar, message })?;
            out.pieces.push(piece);
            at += 1 + used;
        } else {
            out.push_literal("$");
        }
    }
    out.push_literal(&text[at..]);
    Ok(out)
}

/// What stands behind `${`, and how many bytes of it, the closing brace with them.
fn read_braces(text: &str) -> Result<(Piece<String>, usize), String> {
    let (mut words, mut at) = (Vec::new(), 0);
    loop {
        let end =
            word_end(&text[at..]).ok_or("`${` without `}`; a dollar before a brace is written `$$`")? + at;
        words.push(&text[at..end]);
        at = end + 1;
        if text.as_bytes()[end] == b'}' {
            break;
        }
    }
    let (var, filters) = words.split_first().ok_or("`${}` names no variable")?;
    let filters = filters.iter().map(|word| read_filter(word)).collect::<Result<_, _>>()?;
    Ok((Piece::Var(read_var(var)?, filters), at))
}

/// Where a word ends: at `|` or `}` outside of quotes, brackets and braces.
fn word_end(text: &str) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' => depth += 1,
            b'|' | b'}' if depth == 0 => return Some(at),
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// A variable, as it stands between braces.
///
/// # Errors
/// There is none of that name, or its arguments are of another kind.
pub fn read_var(text: &str) -> Result<Var<String>, String> {
    let names = names();
    if let Some((name, held)) = text.split_once(' ') {
        let tag = names.stems.get(name).map_or(name, String::as_str);
        let held = serde_json::from_str(held.trim())
            .map_err(|error| format!("the arguments of `{name}` are not JSON: {error}"))?;
        return of_parts(tag, held).map_err(|error| unknown_or(name, &error));
    }
    if let Some(tag) = names.tags.get(text)
        && let Ok(var) = serde_json::from_value(Value::String(tag.clone()))
    {
        return Ok(var);
    }
    for (dot, _) in text.rmatch_indices('.') {
        let (name, word) = (&text[..dot], &text[dot + 1..]);
        let Some(tag) = names.stems.get(name) else { continue };
        let number = word.parse::<u64>().ok().map(Value::from);
        let found =
            [Some(Value::from(word)), number].into_iter().flatten().find_map(|held| of_parts(tag, held).ok());
        if let Some(var) = found {
            return Ok(var);
        }
    }
    Err(unknown_or(text, "it takes other arguments"))
}

fn unknown_or(name: &str, otherwise: &str) -> String {
    let names = names();
    let stem = name.split(' ').next().unwrap_or(name);
    if names.tags.contains_key(stem) || names.stems.contains_key(stem) {
        return format!("the variable `{stem}`: {otherwise}");
    }
    let near = names
        .tags
        .keys()
        .chain(names.stems.keys())
        .map(String::as_str)
        .filter(|known| (known.len()).abs_diff(stem.len()) < 3);
    let near = near.map(|known| (strsim::damerau_levenshtein(known, stem), known)).min();
    let near = near.filter(|(distance, _)| *distance <= (stem.len() / 3).max(1));
    let near = near.map_or_else(String::new, |(_, known)| format!("; did you mean `{known}`?"));
    format!("there is no variable `{stem}`{near} Variables of the configuration are written `${{user.NAME}}`")
        .replace("` Variables", "`. Variables")
}

fn read_filter(text: &str) -> Result<Filter, String> {
    let text = text.trim();
    let held = |name: &str, word: &str| of_parts(name, serde_json::from_str(word).ok()?).ok();
    let found = match text.split_once(['.', ' ']) {
        Some((name, word)) => held(name, word),
        None => serde_json::from_value(Value::String(text.into())).ok(),
    };
    found.ok_or_else(|| {
        format!(
            "there is no filter `{text}`: it is one of lower, upper, url_encode, url_decode, quote, dash_if_empty, \
             hexadecimal.DIGITS"
        )
    })
}

fn of_parts<T: DeserializeOwned>(tag: &str, held: Value) -> Result<T, String> {
    let map: Map<String, Value> = [(tag.to_owned(), held)].into_iter().collect();
    serde_json::from_value(Value::Object(map)).map_err(|error| error.to_string())
}

/// Names of variables.
struct Names {
    /// By tag, what is shown.
    shown: HashMap<String, String>,
    /// By what is shown, and by tag, the tag.
    tags: HashMap<String, String>,
    /// The same of those that take arguments.
    stems: HashMap<String, String>,
}

/// All names of variables as they are written, in order; those that take a name or arguments end with `.…`.
pub fn variable_names() -> Vec<String> {
    let mut all: Vec<String> = PRINTED
        .iter()
        .map(|(variant, printed)| {
            let tag = snake(variant);
            let shown = names().shown.get(&tag).cloned().unwrap_or_else(|| tag.clone());
            if printed.contains('{') { format!("{shown}.…") } else { shown }
        })
        .collect();
    all.sort();
    all
}

fn names() -> &'static Names {
    static NAMES: OnceLock<Names> = OnceLock::new();
    NAMES.get_or_init(|| {
        let tags: Vec<String> = PRINTED.iter().map(|(variant, _)| snake(variant)).collect();
        let mut names = Names { shown: HashMap::new(), tags: HashMap::new(), stems: HashMap::new() };
        for ((_, printed), tag) in PRINTED.iter().zip(&tags) {
            let shown = printed.split(".{").next().unwrap_or(printed);
            let takes_one = printed.matches('{').count() == 1 && printed.ends_with('}');
            let known = match printed.contains('{') {
                false => &mut names.tags,
                true if takes_one => &mut names.stems,
                true => continue,
            };
            if !known.contains_key(shown) {
                known.insert(shown.to_owned(), tag.clone());
                names.shown.insert(tag.clone(), shown.to_owned());
            }
        }
        for tag in tags {
            names.tags.entry(tag.clone()).or_insert_with(|| tag.clone());
            names.stems.entry(tag.clone()).or_insert(tag);
        }
        names
    })
}

/// As serde's `snake_case` has it.
fn snake(variant: &str) -> String {
    let mut out = String::new();
    for (at, letter) in variant.char_indices() {
        if at > 0 && letter.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

impl<S: fmt::Display + Serialize> Serialize for Template<S> {
    /// For people as it is shown; in documents so that it can be read again ([`write()`]).
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        match form() {
            Form::Shown => serializer.collect_str(self),
            Form::Document { .. } => serializer.serialize_str(&write(self)),
        }
    }
}

impl<'de> Deserialize<'de> for Template<String> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Template<String>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, perhaps with variables")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
                read(text).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CertPart, Counted, DnPart, StickAsk, StickData, StickWhat, StickWhom, Timer};

    #[track_caller]
    fn both_ways(template: &Template<String>, text: &str) {
        assert_eq!(write(template), text);
        assert_eq!(read(text).unwrap(), *template, "{text}");
    }

    fn of(var: Var<String>) -> Template<String> {
        Template::var(var)
    }

    #[test]
    fn what_is_written_can_be_read() {
        both_ways(&of(Var::Host), "${host}");
        both_ways(&of(Var::Header("user-agent".into())), "${header.user-agent}");
        both_ways(&of(Var::Arg("a b}|".into())), "${arg \"a b}|\"}");
        both_ways(&of(Var::User("a.b".into())), "${user.a.b}");
        both_ways(&of(Var::RemoteUser), "${user}");
        both_ways(&of(Var::Capture(1)), "${capture.1}");
        both_ways(&of(Var::Cookie("1".into())), "${cookie.1}");
        both_ways(&of(Var::Timer(Timer::Connect)), "${timer.connect}");
        both_ways(&of(Var::HeaderNth("x".into(), -1)), "${header_nth [\"x\",-1]}");
        both_ways(&of(Var::HeaderCount("x".into(), Counted::Lines)), "${header_count [\"x\",\"lines\"]}");
        let subject = CertPart::Subject(DnPart::Attribute("CN".into(), 1));
        both_ways(
            &of(Var::TlsClientPart(subject)),
            "${tls_client_part {\"subject\":{\"attribute\":[\"CN\",1]}}}",
        );
        let ask = StickAsk {
            whom: StickWhom::Counter(0, Some("t".into())),
            what: StickWhat::Value(StickData::HttpReqRate),
        };
        let template = of(Var::Stick(Box::new(ask)));
        assert_eq!(read(&write(&template)).unwrap(), template);
        let mut mixed = Template::literal("a$$b${ $x $");
        mixed.pieces.push(Piece::Var(Var::Status, vec![Filter::Upper, Filter::Hexadecimal(4)]));
        mixed.push_literal("$");
        both_ways(&mixed, "a$$$b$${ $x $$${status|upper|hexadecimal.4}$");
    }

    #[test]
    fn dollars_are_literal_where_no_brace_follows() {
        assert_eq!(read("$5 a$").unwrap(), Template::literal("$5 a$"));
        assert_eq!(read("$${x}").unwrap(), Template::literal("${x}"));
    }

    #[test]
    fn mistakes_are_told() {
        let told = |text: &str| read(text).unwrap_err();
        assert_eq!(told("a ${host").at, 2);
        assert!(told("${hots}").message.contains("did you mean `host`"), "{}", told("${hots}"));
        assert!(told("${host|upcase}").message.contains("url_encode"));
        assert!(told("${capture.x}").message.contains("`capture.x`"), "{}", told("${capture.x}"));
    }

    #[test]
    fn no_two_variables_have_one_name() {
        let mut all = variable_names();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
