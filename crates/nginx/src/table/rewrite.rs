//! Words of the rewrite module, whose order counts (nginx.org, ngx_http_rewrite_module).

use super::entry::Kind::Flag;
use super::entry::places::{HSLI, REWRITE, SL};
use super::entry::{Contexts, Entry, MANY};

pub(super) const ENTRIES: &[Entry] = &[
    Entry::new("rewrite", REWRITE, (2, 3), "", "Replaces the path.").repeats(),
    Entry::new("return", REWRITE, (1, 2), "", "Answers now.").repeats(),
    Entry::new("set", REWRITE, (2, 2), "", "Assigns a variable.").repeats(),
    Entry::new("break", REWRITE, (0, 0), "", "Ends the rewriting.").repeats(),
    Entry::new("if", SL, (1, MANY), "", "Rules under a condition.").block().repeats(),
    Entry::one("rewrite_log", HSLI.and(Contexts::SERVER_IF), Flag, "off", "Logs rewrites.")
        .tuning("rewrites are logged at level debug"),
    Entry::one(
        "uninitialized_variable_warn",
        HSLI.and(Contexts::SERVER_IF),
        Flag,
        "on",
        "Warns of variables never set.",
    )
    .tuning("a variable that was never set is empty, without a warning"),
];
