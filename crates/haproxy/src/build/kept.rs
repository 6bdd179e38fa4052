//! `set-var` and `set-var-fmt` of `global`: values that rules keep in the process, as they are at the start.
//!
//! Owns: the constants that stand for them.
//! Never: computes a value: there is no exchange yet that an expression could look at.
//! Driven by: `build`.

use weir_expr::{KeptIn, KeptValue};
use weir_model::Var;

use super::expression::{parse, variable};
use super::problem::Problem;
use crate::draft::Global;
use crate::findings::Findings;
use crate::read::Line;
use crate::read::env::Env;

/// The values by name; of several for one name the last.
pub(super) fn values(global: &Global, env: &Env, findings: &mut Findings) -> Vec<(String, KeptValue)> {
    let mut values: Vec<(String, KeptValue)> = Vec::new();
    for line in &global.variables {
        match value(line, env) {
            Ok((name, value)) => {
                values.retain(|(known, _)| *known != name);
                values.push((name, value));
            }
            Err(problem) => problem.report(line.span(), findings),
        }
    }
    values
}

fn value(line: &Line, env: &Env) -> Result<(String, KeptValue), Problem> {
    let Var::Kept(KeptIn::Process, name) = variable(line.text(1))? else {
        return Err(Problem::Bad(format!(
            "`{}` is none of the process: those are `proc.NAME`",
            line.text(1)
        )));
    };
    let value = match line.text(0) {
        "set-var" => constant(line.text(2), env)?,
        _ => KeptValue { text: format(line.text(2), env)?.into_bytes(), number: false },
    };
    Ok((name, value))
}

/// An expression that has one value whatever happens.
fn constant(text: &str, env: &Env) -> Result<KeptValue, Problem> {
    let sample = parse(text).map_err(Problem::Bad)?;
    let argument = sample.argument();
    let text = |text: &str| Ok(KeptValue { text: text.as_bytes().to_vec(), number: false });
    match sample.fetch.name.as_str() {
        _ if !sample.converters.is_empty() => Err(Problem::NotBuilt("a converter in `global`".into())),
        "str" | "ipv4" | "ipv6" => text(argument),
        "env" => text(env.value(argument).unwrap_or("")),
        "int" => match argument.parse::<i64>() {
            Ok(number) => Ok(KeptValue { text: number.to_string().into_bytes(), number: true }),
            Err(_) => Err(Problem::Bad(format!("`{argument}` is no number"))),
        },
        "bool" => {
            let holds = matches!(argument, "1" | "true" | "yes" | "on");
            Ok(KeptValue { text: u8::from(holds).to_string().into_bytes(), number: true })
        }
        name => Err(Problem::NotBuilt(format!("{name} in `global`"))),
    }
}

/// A format whose samples are such constants.
fn format(text: &str, env: &Env) -> Result<String, Problem> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let inner = rest.strip_prefix('[').and_then(|inner| inner.split_once(']'));
        let Some((sample, after)) = inner else {
            return Err(Problem::NotBuilt(format!("`%{rest}` in `global`")));
        };
        out.push_str(&String::from_utf8_lossy(&constant(sample, env)?.text));
        rest = after;
    }
    Ok(out + rest)
}
