//! Converters of sample expressions as steps.
//!
//! Owns: their arguments. Those that are computed, or whose work is the engine's, are in `routine`.
//! Driven by: `sample`.

use weir_expr::{Arithmetic, Chunks, Coding, Convert, Digits, Routine};
use weir_model::{Pattern, Step, Template, Var};

use super::expression::Call;
use super::problem::Problem;
use super::routine;
use super::scope::Scope;

/// One converter, mostly one step.
pub(super) fn steps(call: &Call, scope: &Scope<'_>) -> Result<Vec<Step>, Problem> {
    if call.name == "aes_gcm_enc" {
        return routine::encrypted(call, scope);
    }
    Ok(vec![step(call, scope)?])
}

/// One step.
fn step(call: &Call, scope: &Scope<'_>) -> Result<Step, Problem> {
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
        "url_dec" => {
            let form = argument(0).is_some_and(|text| integer(text).is_ok_and(|number| number != 0));
            pure(Convert::UrlDecode { form })
        }
        "field" | "word" => {
            let index = integer(needed(0)?)?;
            let index = i32::try_from(index).ok().filter(|index| *index != 0);
            let index = index.ok_or_else(|| Problem::Bad("fields are counted from 1, or from -1".into()))?;
            let count = argument(2).map_or(Ok(1), size)?;
            let skip_empty = call.name == "word";
            pure(Convert::Field { index, separators: needed(1)?.to_owned(), count, skip_empty })
        }
        "bytes" if call.arguments.iter().all(|text| text.parse::<usize>().is_ok()) => {
            let length = argument(1).map(size).transpose()?;
            pure(Convert::Bytes { offset: size(needed(0)?)?, length })
        }
        "be2hex" | "be2dec" | "le2dec" => {
            let hex = call.name == "be2hex";
            let size = match argument(1).filter(|text| !text.is_empty()) {
                None if hex => 0,
                None => return Err(Problem::Bad(format!("`{}` lacks the size of a chunk", call.name))),
                Some(text) => size(text)?,
            };
            if !hex && !(1..=8).contains(&size) {
                return Err(Problem::Bad(format!("a chunk of `{}` has 1 to 8 bytes", call.name)));
            }
            let digits = match call.name.as_str() {
                "be2hex" => Digits::Hex,
                "be2dec" => Digits::BigEndian,
                _ => Digits::LittleEndian,
            };
            let whole = argument(2).is_some_and(|text| text == "1");
            let separator = argument(0).unwrap_or("").to_owned();
            pure(Convert::Chunks(Chunks { separator, size, whole, digits }))
        }
        "base2" => pure(Convert::Binary),
        "cpl" => pure(Convert::Complement),
        "hex2i" => pure(Convert::FromHex),
        "htonl" => pure(Convert::NetworkOrder),
        "reverse" => pure(Convert::Reverse),
        "length" => pure(Convert::Length),
        "hex" => pure(Convert::Hex),
        "add" => operation(Arithmetic::Add, needed(0)?, scope),
        "sub" => operation(Arithmetic::Sub, needed(0)?, scope),
        "mul" => operation(Arithmetic::Mul, needed(0)?, scope),
        "div" => operation(Arithmetic::Div, needed(0)?, scope),
        "mod" => operation(Arithmetic::Mod, needed(0)?, scope),
        "and" => operation(Arithmetic::And, needed(0)?, scope),
        "or" => operation(Arithmetic::Or, needed(0)?, scope),
        "xor" => operation(Arithmetic::Xor, needed(0)?, scope),
        "neg" => pure(Convert::Negate),
        "bool" => pure(Convert::Bool),
        "not" => pure(Convert::Not),
        "even" => pure(Convert::Even),
        "odd" => pure(Convert::Odd),
        "ltrim" => pure(Convert::TrimStart(needed(0)?.to_owned())),
        "rtrim" => pure(Convert::TrimEnd(needed(0)?.to_owned())),
        "json" => pure(match argument(0) {
            None | Some("" | "ascii") => Convert::Json,
            Some("utf8") => Convert::JsonUtf8 { lenient: false, overlong: false },
            Some("utf8s") => Convert::JsonUtf8 { lenient: true, overlong: false },
            Some("utf8p") => Convert::JsonUtf8 { lenient: false, overlong: true },
            Some("utf8ps") => Convert::JsonUtf8 { lenient: true, overlong: true },
            Some(code) => {
                return Err(Problem::Bad(format!(
                    "`{code}` is no input code of `json`; those are ascii, utf8, utf8s, utf8p and utf8ps"
                )));
            }
        }),
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
        "reverse_dom" => Ok(Step::Call { routine: Routine::ReverseDomain, arguments: Vec::new() }),
        "ub64enc" => coding(Coding::UrlBase64),
        "ub64dec" => coding(Coding::FromUrlBase64),
        "crc32" => coding(Coding::Crc32(mixed)),
        "sdbm" => coding(Coding::Sdbm(mixed)),
        "djb2" => coding(Coding::Djb2(mixed)),
        "wt6" => coding(Coding::Wt6(mixed)),
        "concat" => {
            let mut text = Template::literal(argument(0).unwrap_or(""));
            if let Some(name) = argument(1).filter(|name| !name.is_empty()) {
                text.pieces.extend(routine::variable(name, scope)?.pieces);
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
        _ => routine::step(call, scope),
    }
}

/// An operation with a number, or with the number that a variable holds.
fn operation(operation: Arithmetic, operand: &str, scope: &Scope<'_>) -> Result<Step, Problem> {
    if let Ok(number) = operand.parse::<i64>() {
        return Ok(Step::Convert(Convert::Arithmetic(operation, number)));
    }
    let arguments = vec![routine::variable(operand, scope)?];
    Ok(Step::Call { routine: Routine::Arithmetic(operation), arguments })
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
