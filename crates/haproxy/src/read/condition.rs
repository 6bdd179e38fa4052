//! The expressions of `.if` and `.elif`.
//!
//! Owns: their grammar and their value.
//! Never: reads lines; `read` keeps the stack of open blocks.
//! Driven by: `read`, with the words after `.if` joined by spaces.
//! Why: version questions answer as the HAProxy whose language this front end speaks (`VERSION`), so that files
//! which serve several versions take their newest branch.

use super::env::Env;

/// The version of the language: what `version_atleast` compares with.
pub const VERSION: [u32; 3] = [3, 4, 0];

/// What an expression may ask about, besides the environment.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    /// The environment as it stands.
    pub(crate) env: &'a Env,
    /// Options this build has, as `feature()` names them.
    pub(crate) features: &'a [&'a str],
}

/// Features that `feature(NAME)` finds; HAProxy's own names from `haproxy -vv`.
pub const FEATURES: &[&str] = &[
    "ACCEPT4",
    "EPOLL",
    "GETADDRINFO",
    "LIBCRYPT",
    "NETFILTER",
    "OPENSSL",
    "OPENSSL_AWSLC",
    "PCRE2",
    "PCRE2_JIT",
    "PRCTL",
    "PROMEX",
    "SYSTEMD",
    "TFO",
    "THREAD",
];

/// The value of an expression, or what is wrong with it.
pub(crate) fn evaluate(text: &str, facts: Facts<'_>) -> Result<bool, String> {
    let mut parser = Parser { rest: text.trim(), facts, depth: 0 };
    if parser.rest.is_empty() {
        return Ok(false);
    }
    let value = parser.any()?;
    match parser.rest.trim() {
        "" => Ok(value),
        rest => Err(format!("unexpected `{rest}`")),
    }
}

struct Parser<'a> {
    rest: &'a str,
    facts: Facts<'a>,
    depth: usize,
}

/// Deeper nesting is refused: it is no configuration, and recursion must end.
const DEEPEST: usize = 64;

impl<'a> Parser<'a> {
    fn any(&mut self) -> Result<bool, String> {
        let mut value = self.all()?;
        while self.take("||") {
            let right = self.all()?;
            value = value || right;
        }
        Ok(value)
    }

    fn all(&mut self) -> Result<bool, String> {
        let mut value = self.term()?;
        while self.take("&&") {
            let right = self.term()?;
            value = value && right;
        }
        Ok(value)
    }

    fn take(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn term(&mut self) -> Result<bool, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("this expression is nested too deeply".into());
        }
        let value = if self.take("!") {
            !self.term()?
        } else if self.take("(") {
            let value = self.any()?;
            if !self.take(")") {
                return Err("a `(` is never closed".into());
            }
            value
        } else {
            self.predicate()?
        };
        self.depth -= 1;
        Ok(value)
    }

    fn predicate(&mut self) -> Result<bool, String> {
        let end =
            self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        if let Some(inner) = rest.strip_prefix('(') {
            let Some(close) = inner.find(')') else { return Err(format!("`{name}(` is never closed")) };
            let arguments: Vec<&str> =
                inner[..close].split(',').map(|a| a.trim().trim_matches('"')).collect();
            self.rest = &inner[close + 1..];
            return self.call(name, &arguments);
        }
        match name {
            "true" => Ok(true),
            "false" | "" => Ok(false),
            number => number
                .parse::<i64>()
                .map(|n| n != 0)
                .map_err(|_| format!("`{number}` is neither a number, `true`, `false` nor a predicate")),
        }
    }

    fn call(&self, name: &str, arguments: &[&'a str]) -> Result<bool, String> {
        match (name, arguments) {
            ("defined", [variable]) => Ok(self.facts.env.value(variable).is_some()),
            ("feature", [feature]) => Ok(self.facts.features.contains(feature)),
            ("streq", [a, b]) => Ok(a == b),
            ("strneq", [a, b]) => Ok(a != b),
            ("strstr", [text, part]) => Ok(text.contains(part)),
            ("version_atleast", [version]) => Ok(VERSION >= parse_version(version)),
            ("version_before", [version]) => Ok(VERSION < parse_version(version)),
            ("enabled", [option]) => Ok(matches!(*option, "POLL" | "EPOLL" | "GETADDRINFO" | "REUSEPORT")),
            // This is no OpenSSL, and no AWS-LC in OpenSSL's clothes either.
            (
                "openssl_version_atleast"
                | "openssl_version_before"
                | "ssllib_name_startswith"
                | "awslc_api_atleast"
                | "awslc_api_before",
                [_],
            ) => Ok(false),
            _ => Err(format!("`{name}` with {} arguments is no predicate", arguments.len())),
        }
    }
}

fn parse_version(text: &str) -> [u32; 3] {
    let mut parts = [0; 3];
    // "2.4-dev3" counts as 2.4: nothing before a release is told apart.
    for (slot, part) in parts.iter_mut().zip(text.split(['.', '-'])) {
        *slot = part.parse().unwrap_or(0);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_have_their_value() {
        let env = Env::new([("A".to_owned(), "1".to_owned())]);
        let facts = Facts { env: &env, features: FEATURES };
        for (text, value) in [
            ("", Ok(false)),
            ("1", Ok(true)),
            ("0", Ok(false)),
            ("true && !false", Ok(true)),
            ("defined(A)", Ok(true)),
            ("defined(B) || streq(x,x)", Ok(true)),
            ("strneq(a,a)", Ok(false)),
            ("!(defined(A) && 1)", Ok(false)),
            ("version_atleast(2.4)", Ok(true)),
            ("version_before(2.4-dev1)", Ok(false)),
            ("version_atleast(99.1)", Ok(false)),
            ("feature(OPENSSL)", Ok(true)),
            ("feature(LUA)", Ok(false)),
        ] {
            assert_eq!(evaluate(text, facts), value, "{text}");
        }
        assert!(evaluate("nope", facts).is_err());
        assert!(evaluate("(1", facts).is_err());
        assert!(evaluate("1 1", facts).is_err());
        assert!(evaluate(&"(".repeat(100_000), facts).is_err());
        assert!(evaluate(&"!".repeat(100_000), facts).is_err());
    }
}
