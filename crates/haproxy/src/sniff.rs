//! Telling haproxy.cfg from other configurations by its text.

use crate::read::SectionKind;
use crate::read::env::Env;
use crate::read::words::split;

/// True if the first line that says anything opens a section of haproxy.cfg, or is one of its conditional blocks.
///
/// nginx's first words (`http {`, `events {`, `worker_processes 2;`) never do: its lines end in `;`, `{` or `}`.
pub fn looks_like(text: &str) -> bool {
    for line in text.lines() {
        let mut found = Vec::new();
        let words = split(line, weir_diag::SourceId(0), 0, &Env::default(), &mut found).words;
        let Some(first) = words.first() else { continue };
        let ends_otherwise = words.last().is_some_and(|word| word.text.ends_with([';', '{', '}']));
        let dotted = matches!(first.as_str(), ".if" | ".diag" | ".notice" | ".warning" | ".alert");
        return !ends_otherwise && (dotted || SectionKind::named(first.as_str()).is_some());
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_tells() {
        assert!(looks_like("# comment\n\nglobal\n daemon\n"));
        assert!(looks_like("  defaults\r\n mode http\r\n"));
        assert!(looks_like("listen stats :81\n"));
        assert!(looks_like(".if defined(X)\n"));
        assert!(!looks_like("worker_processes 1;\n"));
        assert!(!looks_like("http {\n"));
        assert!(!looks_like("listen 80;\n"));
        assert!(!looks_like(""));
    }
}
