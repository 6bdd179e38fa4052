//! The commands, each once.
//!
//! Owns: their words, who may use them, what they do or why they are not there. `help`, the check of levels and the table in
//! docs/haproxy.md are made from it.
//! Never: holds an answer.

use super::context::{Cx, Level};
use super::{
    certificates, frontends, info, lists, own, peers, servers, sessions, stat, state, sticks, variables,
    weights,
};

type Run = fn(&mut Cx<'_>) -> String;

/// Whether a command is there.
#[derive(Clone, Copy)]
pub enum Status {
    /// It does what HAProxy's does.
    Built(#[doc(hidden)] fn(&mut Cx<'_>) -> String),
    /// It is not, for this reason.
    Absent(&'static str),
}

/// One command.
#[derive(Clone, Copy)]
pub struct Command {
    /// The words it is known by.
    pub words: &'static str,
    /// With its arguments, as `help` shows it.
    pub usage: &'static str,
    /// What it does.
    pub help: &'static str,
    /// Who may.
    pub level: Level,
    /// Whether it is there.
    pub status: Status,
}

impl Command {
    /// Whether it is there.
    pub fn is_built(&self) -> bool {
        matches!(self.status, Status::Built(_))
    }
}

const fn c(words: &'static str, usage: &'static str, help: &'static str, level: Level, run: Run) -> Command {
    Command { words, usage, help, level, status: Status::Built(run) }
}

const fn absent(words: &'static str, why: &'static str) -> Command {
    Command { words, usage: words, help: "", level: Level::User, status: Status::Absent(why) }
}

use Level::{Admin, Operator, User};

const TLS: &str = "only certificates of `bind` and `server` lines are replaced while running";
const INSIDE: &str = "it shows the inside of another program";
const OWN: &str = "Weir does not keep these";

/// All of them, by their words.
#[rustfmt::skip]
pub const COMMANDS: &[Command] = &[
    absent("abort ssl ca-file", TLS),
    c("abort ssl cert", "abort ssl cert <certfile>", "abort a transaction for a certificate file", Admin, certificates::abort),
    absent("abort ssl crl-file", TLS),
    absent("acme", "certificates are not fetched"),
    c("add acl", "add acl [@<ver>] <acl> <pattern>", "add an acl entry", Admin, lists::add::<false>),
    absent("add backend", "backends are those of the configuration"),
    c("add map", "add map [@<ver>] <map> <key> <val>", "add a map entry (payload supported instead of key/val)", Admin, lists::add::<true>),
    c("add server", "add server <bk>/<srv>", "create a new server", Admin, servers::add),
    absent("add ssl", TLS),
    c("clear acl", "clear acl [@<ver>] <acl>", "clear the contents of this acl", Admin, lists::clear::<false>),
    c("clear counters", "clear counters [all]", "clear max statistics counters (or all counters)", Operator, own::clear_counters),
    c("clear map", "clear map [@<ver>] <map>", "clear the contents of this map", Admin, lists::clear::<true>),
    c("clear table", "clear table <table> [<filter>]*", "remove an entry from a table (filter: data/key)", Operator, sticks::clear),
    c("commit acl", "commit acl @<ver> <acl>", "commit the ACL at this version", Admin, lists::commit::<false>),
    c("commit map", "commit map @<ver> <map>", "commit the map at this version", Admin, lists::commit::<true>),
    absent("commit ssl ca-file", TLS),
    c("commit ssl cert", "commit ssl cert <certfile>", "commit a certificate file", Admin, certificates::commit),
    absent("commit ssl crl-file", TLS),
    absent("debug", INSIDE),
    c("del acl", "del acl <acl> [<key>|#<ref>]", "delete acl entries matching <key>", Admin, lists::del::<false>),
    absent("del backend", "backends are those of the configuration"),
    c("del map", "del map <map> [<key>|#<ref>]", "delete map entries matching <key>", Admin, lists::del::<true>),
    c("del server", "del server <bk>/<srv>", "remove a dynamically added server", Admin, servers::del),
    absent("del ssl", TLS),
    c("disable agent", "disable agent <bk>/<srv>", "disable agent checks", Admin, weights::switch::<true, false>),
    absent("disable dynamic-cookie", "cookies are as configured"),
    c("disable frontend", "disable frontend <frontend>", "temporarily disable specific frontend", Admin, frontends::disable),
    c("disable health", "disable health <bk>/<srv>", "disable health checks", Admin, weights::switch::<false, false>),
    c("disable server", "disable server (DEPRECATED)", "disable a server for maintenance (use 'set server' instead)", Admin, weights::disable),
    absent("dump stats-file", "counters are in memory"),
    c("echo", "echo <text>", "print text to the output", User, own::echo),
    c("enable agent", "enable agent <bk>/<srv>", "enable agent checks", Admin, weights::switch::<true, true>),
    absent("enable dynamic-cookie", "cookies are as configured"),
    c("enable frontend", "enable frontend <frontend>", "re-enable specific frontend", Admin, frontends::enable),
    c("enable health", "enable health <bk>/<srv>", "enable health checks", Admin, weights::switch::<false, true>),
    c("enable server", "enable server  (DEPRECATED)", "enable a disabled server (use 'set server' instead)", Admin, weights::enable),
    c("experimental-mode", "experimental-mode [on|off]", "enable/disable experimental mode", Admin, own::experimental_mode),
    c("expert-mode", "expert-mode [on|off]", "enable/disable expert mode", Admin, own::expert_mode),
    c("get acl", "get acl <acl> <value>", "report the patterns matching a sample for an ACL", User, lists::get::<false>),
    c("get map", "get map <acl> <value>", "report the keys and values matching a sample for a map", User, lists::get::<true>),
    c("get var", "get var <name>", "retrieve contents of a process-wide variable", User, variables::get),
    c("get weight", "get weight <bk>/<srv>", "report a server's current weight", User, weights::get),
    c("help", "help [<command>]", "list matching or all commands", User, own::help),
    absent("new ssl", TLS),
    c("operator", "operator", "lower the level of the current CLI session to operator", User, own::operator),
    c("prepare acl", "prepare acl <acl>", "prepare a new version for atomic ACL replacement", Admin, lists::prepare::<false>),
    c("prepare map", "prepare map <acl>", "prepare a new version for atomic map replacement", Admin, lists::prepare::<true>),
    c("prompt", "prompt", "toggle interactive mode with prompt", User, own::prompt),
    absent("publish", "backends are those of the configuration"),
    c("quit", "quit", "disconnect", User, own::quit),
    absent("set anon", "nothing is made anonymous"),
    absent("set dynamic-cookie-key", "cookies are as configured"),
    c("set map", "set map <map> [<key>|#<ref>] <value>", "modify a map entry", Admin, lists::set),
    c("set maxconn frontend", "set maxconn frontend <frontend> <value>", "change a frontend's maxconn setting", Admin, frontends::maxconn),
    c("set maxconn global", "set maxconn global <value>", "change the per-process maxconn setting", Admin, own::maxconn_global),
    c("set maxconn server", "set maxconn server <bk>/<srv> <value>", "change a server's maxconn setting", Admin, weights::maxconn),
    absent("set profiling", INSIDE),
    c("set rate-limit", "set rate-limit <setting> <value>", "change a rate limiting value", Admin, own::rate_limit),
    c("set server", "set server <bk>/<srv> [opts]", "change a server's state, weight, address or ssl", Admin, servers::set),
    c("set severity-output", "set severity-output [none|number|string]", "set presence of severity level in feedback information", User, own::severity),
    c("set ssl cert", "set ssl cert <certfile> <payload>", "replace a certificate file", Admin, certificates::set),
    absent("set ssl", TLS),
    c("set table", "set table <table> key <k> [data.* <v>]*", "update or create a table entry's data", Operator, sticks::set),
    c("set timeout", "set timeout [cli] <delay>", "change a timeout setting", User, own::timeout),
    c("set var", "set var <name> {<expr>|expr <expr>|fmt <fmt>}", "set variable from an expression", Operator, variables::set),
    c("set weight", "set weight <bk>/<srv>  (DEPRECATED)", "change a server's weight (use 'set server' instead)", Admin, weights::set),
    c("show acl", "show acl [@<ver>] <acl>]", "report available acls or dump an acl's contents", User, lists::show::<false>),
    absent("show activity", INSIDE),
    c("show backend", "show backend", "list backends in the current running config", User, state::backends),
    c("show cache", "show cache", "show cache status", User, state::caches),
    c("show cli level", "show cli level", "display the level of the current CLI session", User, own::show_cli_level),
    c("show cli sockets", "show cli sockets", "dump list of cli sockets", Operator, own::show_cli_sockets),
    absent("show dev", INSIDE),
    c("show env", "show env [var]", "dump environment variables known to the process", Operator, own::show_env),
    absent("show errors", OWN),
    absent("show events", OWN),
    absent("show fd", INSIDE),
    c("show info", "show info [json|typed|float]*", "report information about the running process", User, info::show),
    absent("show libs", INSIDE),
    c("show map", "show map [@ver] [map]", "report available maps or dump a map's contents", User, lists::show::<true>),
    c("show peers", "show peers [dict|-] [section]", "dump some information about all the peers or this peers section", Operator, peers::show),
    absent("show pools", INSIDE),
    absent("show profiling", INSIDE),
    absent("show quic", "QUIC is not spoken"),
    absent("show resolvers", OWN),
    absent("show schema", OWN),
    c("show servers conn", "show servers conn [<backend>]", "dump server connections status (all or for a single backend)", User, state::conn),
    c("show servers state", "show servers state [<backend>]", "dump volatile server information (all or for a single backend)", User, state::state),
    c("show sess", "show sess [<id>|older <age>|all]", "report the list of current sessions or dump this exact session", Operator, sessions::show),
    c("show ssl cert", "show ssl cert [<certfile>]", "display the SSL certificates used in memory, or the details of a file", User, certificates::show),
    absent("show ssl", TLS),
    absent("show startup-logs", "they are in the error log"),
    c("show stat", "show stat [json|no-maint|typed|up]*", "report counters for each proxy and server", User, stat::show),
    c("show table", "show table <table> [<filter>]*", "report table usage stats or dump this table's contents (filter: data/key)", User, sticks::show),
    absent("show tasks", INSIDE),
    absent("show threads", INSIDE),
    absent("show tls-keys", "keys of tickets are not shown"),
    absent("show trace", INSIDE),
    c("show version", "show version", "show version of the current process", User, info::version),
    absent("shutdown frontend", "a frontend is disabled, or leaves the configuration"),
    c("shutdown session", "shutdown session <id>", "kill a specific session", Admin, sessions::shutdown),
    c("shutdown sessions server", "shutdown sessions server <bk>/<srv>", "kill sessions on a server", Admin, servers::shutdown),
    absent("trace", INSIDE),
    absent("unpublish", "backends are those of the configuration"),
    absent("update ssl", TLS),
    c("user", "user", "lower the level of the current CLI session to user", User, own::user),
    c("wait", "wait <delay>", "wait the specified delay (ms, or with a unit)", User, own::wait),
];

/// The command that these words begin with, the longest that fits, and the words after it.
pub(super) fn find(words: &[String]) -> Option<(&'static Command, &[String])> {
    let fits = |command: &&Command| {
        let mut given = words.iter();
        command.words.split(' ').all(|own| given.next().is_some_and(|word| word == own))
    };
    let longest = COMMANDS.iter().filter(fits).max_by_key(|command| command.words.len())?;
    Some((longest, &words[longest.words.split(' ').count()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_stand_in_order_and_are_found_by_their_longest_words() {
        for pair in COMMANDS.windows(2) {
            let ordered = pair[0].words < pair[1].words || pair[0].words.starts_with(pair[1].words);
            assert!(ordered, "{} stands before {}", pair[0].words, pair[1].words);
        }
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let found = words("set ssl cert a.pem");
        let (command, rest) = find(&found).unwrap();
        assert_eq!((command.words, rest.len()), ("set ssl cert", 1));
        assert!(find(&words("set")).is_none());
    }
}
