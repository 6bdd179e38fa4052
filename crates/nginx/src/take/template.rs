//! Texts with variables.

use weir_diag::Diagnostic;
use weir_model::{Pattern, Template, Var};

use super::Lowering;
use crate::lexer::Word;
use crate::variables::{Builtin, Part, builtin, names, parts};

/// How a variable that is not built is met.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// An error: it may decide something.
    Error,
    /// A warning: it is only logged, as nothing.
    Warn,
}

impl Lowering<'_> {
    /// A word with variables.
    pub(crate) fn template(&mut self, word: &Word) -> Template {
        self.template_of(&word.text, word)
    }

    /// The path of a file of configuration, relative to the main file's folder; what begins with a variable is taken as it is.
    pub(crate) fn conf_file(&mut self, word: &Word) -> Template {
        if word.text.starts_with('$') {
            return self.template(word);
        }
        let text = self.conf_path(&word.text).to_string_lossy().into_owned();
        self.template_of(&text, word)
    }

    /// A part of a word with variables.
    pub(crate) fn template_of(&mut self, text: &str, word: &Word) -> Template {
        self.compile(text, word, Missing::Error)
    }

    /// A format of log lines; what is not built is logged as nothing.
    pub(crate) fn log_template(&mut self, text: &str, word: &Word) -> Template {
        self.compile(text, word, Missing::Warn)
    }

    fn compile(&mut self, text: &str, word: &Word, missing: Missing) -> Template {
        let mut out = Template::default();
        for part in parts(text) {
            match part {
                Part::Text(text) => out.push_literal(text),
                Part::Capture(n) => out.push_var(Var::Capture(n)),
                Part::Name(name) => self.push_variable(name, word, missing, &mut out),
                Part::Bad => {
                    let text = format!("a `$` in `{}` begins no variable", word.text);
                    let found = Diagnostic::error("nginx::bad-variable", text).at(word.span);
                    self.report(
                        found.help("nginx has no escape for `$`; a `geo` or `map` variable can hold one"),
                    );
                }
            }
        }
        out
    }

    fn push_variable(&mut self, name: &str, word: &Word, missing: Missing, out: &mut Template) {
        if self.declared.contains(name) {
            return out.push_var(Var::User(self.named_in_model(name)));
        }
        match builtin(self.dialect, name, self.underscores) {
            Some(Builtin::Var(var)) => out.push_var(var),
            Some(Builtin::Text(text)) => out.push_literal(text),
            Some(Builtin::NotYet) if missing == Missing::Warn => {
                let text = format!("`${name}` is not supported yet; it is logged as nothing");
                self.report(Diagnostic::warning("nginx::variable-not-built", text).at(word.span));
            }
            Some(Builtin::NotYet) => {
                let text = format!("`${name}` is not supported yet");
                self.report(Diagnostic::error("nginx::variable-not-built", text).at(word.span));
            }
            None => self.unknown_variable(name, word),
        }
    }

    fn unknown_variable(&mut self, name: &str, word: &Word) {
        let known: Vec<String> =
            names(self.dialect).map(String::from).chain(self.declared.iter().cloned()).collect();
        let mut found =
            Diagnostic::error("nginx::unknown-variable", format!("unknown variable `${name}`")).at(word.span);
        if let Some(near) = weir_diag::nearest(name, known.iter().map(String::as_str)) {
            found = found.help(format!("did you mean `${near}`?"));
        }
        self.report(found);
    }

    /// A pattern whose named groups were declared before.
    pub(crate) fn pattern(&mut self, source: &str, ignore_case: bool, word: &Word) -> Pattern {
        if let Err(problem) = plausible(source) {
            let text = format!("`{source}` is no regular expression: {problem}");
            self.report(Diagnostic::error("nginx::bad-pattern", text).at(word.span));
        }
        Pattern { source: source.to_owned(), ignore_case, origin: Some(word.span) }
    }
}

/// Finds the mistakes that need no compiler: brackets that do not pair, nothing to repeat. `lower` compiles patterns
/// and reports the rest.
fn plausible(source: &str) -> Result<(), &'static str> {
    let mut depth = 0usize;
    let mut chars = source.chars().peekable();
    let mut class = false;
    let mut class_start = false;
    while let Some(c) = chars.next() {
        let at_start = std::mem::take(&mut class_start);
        match c {
            '\\' => {
                // `\Q…\E` quotes brackets, so nothing can be said of them without a compiler.
                match chars.next() {
                    None => return Err("a `\\` at the end"),
                    Some('Q') => return Ok(()),
                    Some(_) => {}
                }
            }
            '[' if !class => {
                class = true;
                class_start = true;
            }
            '^' if class && at_start => class_start = true,
            ']' if class && !at_start => class = false,
            _ if class => {}
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or("a `)` closes nothing")?,
            _ => {}
        }
    }
    match (class, depth) {
        (true, _) => Err("a `[` is not closed"),
        (_, 0) => Ok(()),
        _ => Err("a `(` is not closed"),
    }
}

#[cfg(test)]
mod tests {
    use super::plausible;

    #[test]
    fn plain_mistakes_in_patterns_are_found() {
        for fine in [r"\.php$", "[]a]", "[^]]", "(a|b)*", r"\(", "[(]", r"^/(?<x>\d{2,3})", "[[:alpha:]]"] {
            assert_eq!(plausible(fine), Ok(()), "{fine}");
        }
        for broken in ["(", ")", "[a", "a\\"] {
            assert!(plausible(broken).is_err(), "{broken}");
        }
    }
}
