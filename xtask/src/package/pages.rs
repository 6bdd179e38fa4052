//! Manual pages and completions, from the definition of the command line.
//!
//! Owns: one page for each command, named as `git` names its own (`weir-run`), and a file for each shell.
//! Never: says what `--help` does not say: there is one source of both.
//! Driven by: `package`.

use super::file::{Entry, entry, gzip};
use clap::Command;
use clap_complete::{Shell, generate};

/// All of them, where Debian puts them.
pub(super) fn all() -> Vec<Entry> {
    let mut command = weir::command_line().disable_help_subcommand(true);
    command.build();
    let mut files = manuals(&command);
    for (shell, path) in [
        (Shell::Bash, "usr/share/bash-completion/completions/weir"),
        (Shell::Zsh, "usr/share/zsh/vendor-completions/_weir"),
        (Shell::Fish, "usr/share/fish/vendor_completions.d/weir.fish"),
    ] {
        let mut text = Vec::new();
        generate(shell, &mut weir::command_line(), "weir", &mut text);
        files.push(entry(path, text));
    }
    files
}

fn manuals(command: &Command) -> Vec<Entry> {
    let mut pages = vec![manual("weir", command.clone())];
    for below in command.get_subcommands() {
        let name = format!("weir-{}", below.get_name());
        pages.push(manual(&name, below.clone()));
        // `weir lab run`: pages of the second floor.
        for deeper in below.get_subcommands() {
            pages.push(manual(&format!("{name}-{}", deeper.get_name()), deeper.clone()));
        }
    }
    pages
}

fn manual(name: &str, command: Command) -> Entry {
    // Pages are called with hyphens and commands with spaces; a date would make a page of each day.
    let command = command.display_name(name.to_owned()).version(env!("CARGO_PKG_VERSION"));
    let page = clap_mangen::Man::new(command).source(format!("weir {}", env!("CARGO_PKG_VERSION"))).date("");
    let mut text = Vec::new();
    let written = page.render(&mut text);
    debug_assert!(written.is_ok(), "memory takes all that is written");
    entry(format!("usr/share/man/man1/{name}.1.gz"), gzip(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page_and_is_completed() {
        let files = all();
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        for command in weir::command_line().get_subcommands() {
            let name = command.get_name();
            assert!(
                paths.contains(&format!("usr/share/man/man1/weir-{name}.1.gz").as_str()),
                "{name}: {paths:?}"
            );
            for file in files.iter().filter(|file| file.path.contains("completions")) {
                let super::super::file::Content::Bytes(text) = &file.content else { panic!("a file") };
                assert!(String::from_utf8_lossy(text).contains(name), "{name} in {}", file.path);
            }
        }
    }
}
