//! Converters of sample expressions as steps.
//!
//! Owns: their arguments, and what kind of value each gives.
//! Driven by: `sample`.

use weir_expr::{Arithmetic, Coding, Convert};
use weir_model::{Pattern, Step, Template, Var};

use super::expression::{Call, variable_name};
use super::problem::Problem;
use super::scope::Scope;
use crate::words::{Fetch, converter_kind};

/// The kind of a value after a converter.
pub(super) fn kind(name: &str, before: Fetch) -> Fetch {
    if let Some(kind) = converter_kind(name) {
        return kind;
    }
    match name {
        "length" | "add" | "sub" | "mul" | "div" | "mod" | "and" | "or" | "xor" | "neg" | "crc32"
        | "sdbm" | "djb2" | "wt6" => Fetch::Number,
        "bool" | "even" | "odd" => Fetch::Bool,
        // The negation of what is true or false has a form of its own in conditions.
        "not" => before,
        "bytes" if before == Fetch::Binary => Fetch::Binary,
        "ipmask" => Fetch::Address,
        name if name.starts_with("map") && name.ends_with("_int") => Fetch::Number,
        name if name.starts_with("map") && name.ends_with("_ip") && name != "map_ip" => Fetch::Address,
        _ => Fetch::Text,
    }
}

/// Whether a converter takes bytes as they are. Others take their text.
pub(super) fn takes_bytes(name: &str) -> bool {
    matches!(
        name,
        "hex" | "base64" | "ub64enc" | "sha1" | "bytes" | "length" | "crc32" | "sdbm" | "djb2" | "wt6"
    )
}

/// One converter.
pub(super) fn step(call: &Call, scope: &Scope<'_>) -> Result<Step, Problem> {
    if let Some(step) = super::sticks::step(call, scope)? {
        return Ok(step);
    }
    let argument = |at: usize| call.arguments.get(at).map(String::as_str);
    let needed = |at: usize| {
        argument(at).ok_or_else(|| Problem::Bad(format!("converter `{}` lacks an argument", call.name)))
    };
    let integer =
        |text: &str| text.parse::<i64>().map_err(|_| Problem::Bad(format!("`{text}` is no number")));
    let size = |text: &str| text.parse::<usize>().map_err(|_| Problem::Bad(format!("`{text}` is no length")));
    let mixed = argument(0).is_some_and(|text| text == "1");
    let pure = |convert| Ok(Step::Convert(convert));
    let coding = |coding| Ok(Step::Coding(coding));
    match call.name.as_str() {
        "lower" => pure(Convert::Lower),
        "upper" => pure(Convert::Upper),
        "url_enc" => coding(Coding::UrlEncode),
        "url_dec" => coding(Coding::UrlDecode),
        "field" | "word" => {
            let index = integer(needed(0)?)?;
            let index = i32::try_from(index).ok().filter(|index| *index != 0);
            let index = index.ok_or_else(|| Problem::Bad("fields are counted from 1, or from -1".into()))?;
            let count = argument(2).map_or(Ok(1), size)?;
            let skip_empty = call.name == "word";
            pure(Convert::Field { index, separators: needed(1)?.to_owned(), count, skip_empty })
        }
        "bytes" => {
            let length = argument(1).map(size).transpose()?;
            pure(Convert::Bytes { offset: size(needed(0)?)?, length })
        }
        "length" => pure(Convert::Length),
        "hex" => pure(Convert::Hex),
        "add" => pure(Convert::Arithmetic(Arithmetic::Add, operand(needed(0)?)?)),
        "sub" => pure(Convert::Arithmetic(Arithmetic::Sub, operand(needed(0)?)?)),
        "mul" => pure(Convert::Arithmetic(Arithmetic::Mul, operand(needed(0)?)?)),
        "div" => pure(Convert::Arithmetic(Arithmetic::Div, operand(needed(0)?)?)),
        "mod" => pure(Convert::Arithmetic(Arithmetic::Mod, operand(needed(0)?)?)),
        "and" => pure(Convert::Arithmetic(Arithmetic::And, operand(needed(0)?)?)),
        "or" => pure(Convert::Arithmetic(Arithmetic::Or, operand(needed(0)?)?)),
        "xor" => pure(Convert::Arithmetic(Arithmetic::Xor, operand(needed(0)?)?)),
        "neg" => pure(Convert::Negate),
        "bool" => pure(Convert::Bool),
        "not" => pure(Convert::Not),
        "even" => pure(Convert::Even),
        "odd" => pure(Convert::Odd),
        "ltrim" => pure(Convert::TrimStart(needed(0)?.to_owned())),
        "rtrim" => pure(Convert::TrimEnd(needed(0)?.to_owned())),
        "json" if matches!(argument(0), None | Some("ascii")) => pure(Convert::Json),
        "iif" => pure(Convert::Choose(needed(0)?.to_owned(), needed(1)?.to_owned())),
        "cut_crlf" => pure(Convert::FirstLine),
        "param" => {
            let separators = argument(1).unwrap_or("&").to_owned();
            pure(Convert::Param { name: needed(0)?.to_owned(), separators })
        }
        "ipmask" => {
            let prefix = |text: &str, most: u8| match text.parse::<u8>() {
                Ok(length) if length <= most => Ok(length),
                _ => Err(Problem::Bad(format!("`{text}` is no prefix length up to {most}"))),
            };
            let (v4, v6) = (prefix(needed(0)?, 32)?, argument(1).map_or(Ok(128), |text| prefix(text, 128))?);
            pure(Convert::IpMask(v4, v6))
        }
        "host_only" => pure(Convert::Field { index: 1, separators: ":".into(), count: 1, skip_empty: false }),
        "port_only" => pure(Convert::Field { index: 2, separators: ":".into(), count: 1, skip_empty: false }),
        "sha1" => coding(Coding::Sha1),
        "base64" => coding(Coding::Base64),
        "b64dec" => coding(Coding::FromBase64),
        "ub64enc" => coding(Coding::UrlBase64),
        "ub64dec" => coding(Coding::FromUrlBase64),
        "crc32" => coding(Coding::Crc32(mixed)),
        "sdbm" => coding(Coding::Sdbm(mixed)),
        "djb2" => coding(Coding::Djb2(mixed)),
        "wt6" => coding(Coding::Wt6(mixed)),
        "concat" => {
            let mut text = Template::literal(argument(0).unwrap_or(""));
            if let Some(name) = argument(1).filter(|name| !name.is_empty()) {
                text.push_var(Var::User(variable_name(name)?));
            }
            text.push_literal(argument(2).unwrap_or(""));
            Ok(Step::Append(text))
        }
        "regsub" => {
            let flags = argument(2).unwrap_or("");
            let pattern = Pattern {
                source: needed(0)?.to_owned(),
                ignore_case: flags.contains('i'),
                origin: Some(scope.proxy.name.span),
            };
            Ok(Step::Replace { pattern, with: groups(argument(1).unwrap_or("")), all: flags.contains('g') })
        }
        name => Err(Problem::NotBuilt(format!("converter {name}"))),
    }
}

/// A number written out; variables as operands are not built.
fn operand(text: &str) -> Result<i64, Problem> {
    match text.parse::<i64>() {
        Ok(number) => Ok(number),
        Err(_) if text.contains('.') => Err(Problem::NotBuilt("a variable as operand".into())),
        Err(_) => Err(Problem::Bad(format!("`{text}` is no number"))),
    }
}

/// A substitute: `\\1` … `\\9` are groups.
fn groups(text: &str) -> Template {
    let mut template = Template::default();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        template.push_literal(&rest[..at]);
        let after = &rest[at + 1..];
        match after.bytes().next() {
            Some(digit @ b'0'..=b'9') => {
                template.push_var(Var::Capture(digit - b'0'));
                rest = &after[1..];
            }
            Some(_) => {
                let next = after.chars().next().map_or(0, char::len_utf8);
                template.push_literal(&after[..next]);
                rest = &after[next..];
            }
            None => rest = after,
        }
    }
    template.push_literal(rest);
    template
}
