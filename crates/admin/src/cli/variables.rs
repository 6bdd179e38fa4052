//! `get var` and `set var`: values that rules keep in the process.
//!
//! Owns: the constant expressions that `set var` takes.
//! Never: evaluates anything else: there is no exchange that an expression could look at.

use super::context::Cx;

/// `get var NAME`.
pub(super) fn get(cx: &mut Cx<'_>) -> String {
    let name = cx.argument(0);
    if name.is_empty() {
        return "Missing process-wide variable identifier.\n".to_owned();
    }
    let found = name.strip_prefix("proc.").and_then(|_| cx.runtime.kept(name));
    let Some((text, number)) = found else { return "Variable not found.\n".to_owned() };
    let text = String::from_utf8_lossy(&text);
    format!("{name}: type={} value=<{text}>\n", if number { "sint" } else { "str" })
}

/// `set var NAME {EXPRESSION|expr EXPRESSION|fmt TEXT}`.
pub(super) fn set(cx: &mut Cx<'_>) -> String {
    let name = cx.argument(0).to_owned();
    if !cx.state.experimental {
        return "This command is restricted to experimental mode only.\n".to_owned();
    }
    if !name.starts_with("proc.") {
        return format!("'set var': cannot set variable '{name}', only scope 'proc' is permitted here.\n");
    }
    let (format, expression) = match (cx.argument(1), cx.argument(2)) {
        ("fmt", text) if !text.is_empty() => (true, text),
        ("expr", text) if !text.is_empty() => (false, text),
        ("" | "fmt" | "expr", _) => {
            return "Missing either 'expr', 'fmt' or expression.\n".to_owned();
        }
        (text, _) => (false, text),
    };
    let value = if format { of_format(expression) } else { constant(expression) };
    match value {
        Ok((text, number)) => {
            cx.runtime.keep(&name, text.as_bytes(), number);
            String::new()
        }
        Err(why) => format!("{why}\n"),
    }
}

/// A format without samples.
fn of_format(text: &str) -> Result<(String, bool), String> {
    match text.replace("%%", "").contains('%') {
        false => Ok((text.replace("%%", "%"), false)),
        true => Err("a format is taken here without samples".to_owned()),
    }
}

/// `str(TEXT)`, `int(NUMBER)`, `bool(WORD)`.
fn constant(expression: &str) -> Result<(String, bool), String> {
    let (fetch, rest) = expression.split_once('(').unwrap_or((expression, ""));
    let argument = rest.strip_suffix(')');
    match (fetch, argument) {
        ("str", Some(text)) => Ok((text.to_owned(), false)),
        ("int", Some(text)) => match text.parse::<i64>() {
            Ok(number) => Ok((number.to_string(), true)),
            Err(_) => Err(format!("'{text}' is not a number")),
        },
        ("bool", Some(text)) => Ok((u8::from(matches!(text, "1" | "true" | "yes" | "on")).to_string(), true)),
        ("str" | "int" | "bool", None) => {
            Err(format!("missing closing ')' after arguments to fetch method '{fetch}'"))
        }
        _ => Err(format!("unknown fetch method '{fetch}'")),
    }
}
