//! `help`, and what an unknown command is answered.
//!
//! Owns: the lists of commands as clients see them.
//! Driven by: [`super::Session`], and the command `help`.

use super::context::Level;
use super::table::{COMMANDS, Command};

/// Most commands that are offered in place of an unknown one.
const OFFERED: usize = 20;

/// Those that end every list.
const ALWAYS: [&str; 3] = ["help", "prompt", "quit"];

/// All that a level may, or those that begin with these words.
pub(super) fn list(words: &[&str], level: Level) -> String {
    let mut text = String::from("The following commands are valid at this level:\n");
    for command in matching(words, level) {
        line(&mut text, command);
    }
    finish(text)
}

/// The answer to what is no command.
pub(super) fn better(words: &[String], level: Level) -> String {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let near: Vec<&Command> = match words.as_slice() {
        [] => Vec::new(),
        [first, ..] => {
            let close = matching(&words, level);
            let close = if close.is_empty() { matching(&[*first], level) } else { close };
            close.into_iter().take(OFFERED).collect()
        }
    };
    if near.is_empty() {
        let rest = list(&[], level);
        let (_, rest) = rest.split_once('\n').unwrap_or_default();
        return format!("Unknown command. Please enter one of the following commands only:\n{rest}");
    }
    let mut text = String::from("Unknown command, but maybe one of the following ones is a better match:\n");
    for command in near {
        line(&mut text, command);
    }
    finish(text)
}

fn matching(words: &[&str], level: Level) -> Vec<&'static Command> {
    let starts = |command: &Command| {
        let mut own = command.words.split(' ');
        words.iter().all(|word| own.next().is_some_and(|own| own.starts_with(word)))
    };
    let shown = |command: &&Command| {
        command.is_built() && command.level <= level && !ALWAYS.contains(&command.words) && starts(command)
    };
    COMMANDS.iter().filter(shown).collect()
}

fn finish(mut text: String) -> String {
    for command in COMMANDS.iter().filter(|command| ALWAYS.contains(&command.words)) {
        line(&mut text, command);
    }
    text
}

fn line(text: &mut String, command: &Command) {
    text.push_str(&format!("  {:<40}: {}\n", command.usage, command.help));
}
