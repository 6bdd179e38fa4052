//! The grammar of sample expressions: `req.hdr(host),lower`.
//!
//! Owns: how a fetch, its converters and their arguments are written, which names variables may have.
//! Never: knows a fetch or a converter.
//! Driven by: `sample`, `condition`, and whoever takes an expression.

use weir_expr::KeptIn;
use weir_model::Var;

use super::problem::Problem;

/// A name with arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) arguments: Vec<String>,
}

/// A fetch and what its value goes through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) fetch: Call,
    pub(crate) converters: Vec<Call>,
}

impl Sample {
    /// The first argument of the fetch; empty where there is none.
    pub(crate) fn argument(&self) -> &str {
        self.fetch.arguments.first().map_or("", String::as_str)
    }
}

/// Reads an expression.
pub(crate) fn parse(text: &str) -> Result<Sample, String> {
    let mut rest = text;
    let fetch = parse_call(&mut rest)?;
    let mut converters = Vec::new();
    while !rest.is_empty() {
        rest = rest.strip_prefix(',').ok_or_else(|| format!("unexpected `{rest}` in `{text}`"))?;
        converters.push(parse_call(&mut rest)?);
    }
    Ok(Sample { fetch, converters })
}

fn parse_call(rest: &mut &str) -> Result<Call, String> {
    let end = rest.find(['(', ',', ')']).unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    if name.trim().is_empty() {
        return Err("a name is missing in this expression".into());
    }
    *rest = after;
    let mut arguments = Vec::new();
    if let Some(inner) = after.strip_prefix('(') {
        let used =
            parse_arguments(inner, &mut arguments).ok_or_else(|| format!("`{name}(` is never closed"))?;
        *rest = &inner[used..];
    }
    Ok(Call { name: name.trim().to_owned(), arguments })
}

/// Reads arguments up to the closing parenthesis; gives the bytes used. Quotes hold commas and parentheses.
fn parse_arguments(text: &str, arguments: &mut Vec<String>) -> Option<usize> {
    let mut current = String::new();
    let mut quote = None;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('\\', q) if q != Some('\'') => match chars.next() {
                Some((_, next @ (',' | ')' | '(' | '\\' | '"' | '\'' | ' '))) => current.push(next),
                Some((_, next)) => current.extend(['\\', next]),
                None => return None,
            },
            (',', None) => arguments.push(std::mem::take(&mut current)),
            (')', None) => {
                if !(current.is_empty() && arguments.is_empty()) {
                    arguments.push(current);
                }
                return Some(at + 1);
            }
            (c, _) => current.push(c),
        }
    }
    None
}

/// A variable by its name and scope.
pub(crate) fn variable(name: &str) -> Result<Var, Problem> {
    match name.split_once('.') {
        Some(("txn" | "req" | "res", rest)) if is_variable(rest) => Ok(Var::User(name.to_owned())),
        Some(("sess", rest)) if is_variable(rest) => Ok(Var::Kept(KeptIn::Connection, name.to_owned())),
        Some(("proc", rest)) if is_variable(rest) => Ok(Var::Kept(KeptIn::Process, name.to_owned())),
        Some((scope @ ("check" | "psess" | "pcheck"), rest)) if is_variable(rest) => {
            Err(Problem::NotBuilt(format!("variables of the scope {scope}")))
        }
        _ => Err(Problem::Bad(format!(
            "`{name}` is no variable; those are `proc.NAME`, `sess.NAME`, `txn.NAME`, `req.NAME` and `res.NAME`"
        ))),
    }
}

/// The name of a variable of one exchange.
pub(crate) fn variable_name(name: &str) -> Result<String, Problem> {
    match variable(name)? {
        Var::User(name) => Ok(name),
        _ => Err(Problem::NotBuilt(format!("`{name}` as a variable that a converter sets"))),
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> String {
        match parse(text) {
            Err(cause) => format!("! {cause}"),
            Ok(sample) => {
                let show = |call: &Call| format!("{}{:?}", call.name, call.arguments);
                let converters: Vec<_> = sample.converters.iter().map(show).collect();
                format!("{} {}", show(&sample.fetch), converters.join(" "))
            }
        }
    }

    #[test]
    fn expressions_are_read() {
        assert_eq!(check("src"), "src[] ");
        assert_eq!(check("req.hdr(host),lower"), "req.hdr[\"host\"] lower[]");
        assert_eq!(check("hdr(host),field(1,:),lower"), "hdr[\"host\"] field[\"1\", \":\"] lower[]");
        assert_eq!(check("path,regsub('(a,b)',c)"), "path[] regsub[\"(a,b)\", \"c\"]");
        assert_eq!(check(r"path,regsub(a\,b,c)"), "path[] regsub[\"a,b\", \"c\"]");
        assert_eq!(check("str()"), "str[] ");
        for bad in ["", "hdr(host", "hdr(host)x", ",lower", "path,", "(a)"] {
            assert!(check(bad).starts_with('!'), "{bad}");
        }
    }
}
