//! The commands, each once.
//!
//! Owns: their words, who may use them, what they do or why they are not there. `help`, the check of levels and the table in
//! docs/haproxy.md are made from it.
//! Never: holds an answer.

use super::context::{Cx, Level};
use super::{
    certificates, frontends, info, inside, lists, own, peers, servers, sessions, stat, state, sticks, trust,
    variables, weights,
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
    /// How what it does differs from HAProxy's; empty: it does not.
    pub differs: &'static str,
}

impl Command {
    /// With a difference.
    const fn but(mut self, differs: &'static str) -> Self {
        self.differs = differs;
        self
    }

    /// Whether it is there.
    pub fn is_built(&self) -> bool {
        matches!(self.status, Status::Built(_))
    }
}

const fn c(words: &'static str, usage: &'static str, help: &'static str, level: Level, run: Run) -> Command {
    Command { words, usage, help, level, status: Status::Built(run), differs: "" }
}

const fn absent(words: &'static str, why: &'static str) -> Command {
    Command { words, usage: words, help: "", level: Level::User, status: Status::Absent(why), differs: "" }
}

use Level::{Admin, Operator, User};

const LISTED: &str = "which names have which certificate is read with the configuration: change the file and reload, which cuts no connection";
const BACKENDS: &str =
    "backends are those of the configuration: change the file and reload, which cuts no connection";
const COOKIES: &str =
    "cookies are as configured: change `dynamic-cookie-key` and reload, which cuts no connection";
const TRACED: &str = "nothing is traced: use access logs, `show errors` and `show sess`, or perf(1)";
const EMPTY: &str = "nothing of Weir's is behind it: it is empty, in HAProxy's form";
const UNUSED: &str = "what it makes is used by nobody before the configuration names it and is read again";
const WHOLE: &str = "held over reloads and, with `--state`, over restarts";

/// All of them, by their words.
#[rustfmt::skip]
pub const COMMANDS: &[Command] = &[
    c("abort ssl ca-file", "abort ssl ca-file <cafile>", "abort a transaction for a CA file", Admin, trust::abort::<false>),
    c("abort ssl cert", "abort ssl cert <certfile>", "abort a transaction for a certificate file", Admin, certificates::abort),
    c("abort ssl crl-file", "abort ssl crl-file <crlfile>", "abort a transaction for a CRL file", Admin, trust::abort::<true>),
    absent("acme", "certificates are not fetched"),
    c("add acl", "add acl [@<ver>] <acl> <pattern>", "add an acl entry", Admin, lists::add::<false>),
    absent("add backend", BACKENDS),
    c("add map", "add map [@<ver>] <map> <key> <val>", "add a map entry (payload supported instead of key/val)", Admin, lists::add::<true>),
    c("add server", "add server <bk>/<srv>", "create a new server", Admin, servers::add).but("it takes the settings of the backend's first server; held over reloads"),
    c("add ssl ca-file", "add ssl ca-file <cafile> <payload>", "add a certificate into the CA file", Admin, trust::add::<false>),
    absent("add ssl crt-list", LISTED),
    c("clear acl", "clear acl [@<ver>] <acl>", "clear the contents of this acl", Admin, lists::clear::<false>),
    c("clear counters", "clear counters [all]", "clear max statistics counters (or all counters)", Operator, own::clear_counters).but("what checks counted stays"),
    c("clear map", "clear map [@<ver>] <map>", "clear the contents of this map", Admin, lists::clear::<true>),
    c("clear table", "clear table <table> [<filter>]*", "remove an entry from a table (filter: data/key)", Operator, sticks::clear),
    c("commit acl", "commit acl @<ver> <acl>", "commit the ACL at this version", Admin, lists::commit::<false>),
    c("commit map", "commit map @<ver> <map>", "commit the map at this version", Admin, lists::commit::<true>),
    c("commit ssl ca-file", "commit ssl ca-file <cafile>", "commit a CA file", Admin, trust::commit::<false>),
    c("commit ssl cert", "commit ssl cert <certfile>", "commit a certificate file", Admin, certificates::commit),
    c("commit ssl crl-file", "commit ssl crl-file <crlfile>", "commit a CRL file", Admin, trust::commit::<true>),
    absent("debug", "it is about the inside of another program: use perf(1), strace(1) or gdb(1)"),
    c("del acl", "del acl <acl> [<key>|#<ref>]", "delete acl entries matching <key>", Admin, lists::del::<false>),
    absent("del backend", BACKENDS),
    c("del map", "del map <map> [<key>|#<ref>]", "delete map entries matching <key>", Admin, lists::del::<true>),
    c("del server", "del server <bk>/<srv>", "remove a dynamically added server", Admin, servers::del),
    c("del ssl ca-file", "del ssl ca-file <cafile>", "delete an unused CA file", Admin, trust::del::<false>),
    c("del ssl cert", "del ssl cert <certfile>", "delete an unused certificate file", Admin, certificates::del),
    c("del ssl crl-file", "del ssl crl-file <crlfile>", "delete an unused CRL file", Admin, trust::del::<true>),
    absent("del ssl crt-list", LISTED),
    c("disable agent", "disable agent <bk>/<srv>", "disable agent checks", Admin, weights::switch::<true, false>).but("until the next reload"),
    absent("disable dynamic-cookie", COOKIES),
    c("disable frontend", "disable frontend <frontend>", "temporarily disable specific frontend", Admin, frontends::disable).but("connections wait, where HAProxy refuses them"),
    c("disable health", "disable health <bk>/<srv>", "disable health checks", Admin, weights::switch::<false, false>).but("until the next reload"),
    c("disable server", "disable server (DEPRECATED)", "disable a server for maintenance (use 'set server' instead)", Admin, weights::disable).but(WHOLE),
    absent("dump stats-file", "with `--state FILE` Weir keeps its counters over restarts by itself"),
    c("echo", "echo <text>", "print text to the output", User, own::echo),
    c("enable agent", "enable agent <bk>/<srv>", "enable agent checks", Admin, weights::switch::<true, true>),
    absent("enable dynamic-cookie", COOKIES),
    c("enable frontend", "enable frontend <frontend>", "re-enable specific frontend", Admin, frontends::enable),
    c("enable health", "enable health <bk>/<srv>", "enable health checks", Admin, weights::switch::<false, true>),
    c("enable server", "enable server  (DEPRECATED)", "enable a disabled server (use 'set server' instead)", Admin, weights::enable).but(WHOLE),
    c("experimental-mode", "experimental-mode [on|off]", "enable/disable experimental mode", Admin, own::experimental_mode),
    c("expert-mode", "expert-mode [on|off]", "enable/disable expert mode", Admin, own::expert_mode),
    c("get acl", "get acl <acl> <value>", "report the patterns matching a sample for an ACL", User, lists::get::<false>),
    c("get map", "get map <acl> <value>", "report the keys and values matching a sample for a map", User, lists::get::<true>),
    c("get var", "get var <name>", "retrieve contents of a process-wide variable", User, variables::get),
    c("get weight", "get weight <bk>/<srv>", "report a server's current weight", User, weights::get),
    c("help", "help [<command>]", "list matching or all commands", User, own::help),
    c("new ssl ca-file", "new ssl ca-file <cafile>", "create a new CA file to be used in a crt-list", Admin, trust::new::<false>).but(UNUSED),
    c("new ssl cert", "new ssl cert <certfile>", "create a new certificate file to be used in a crt-list or a directory", Admin, certificates::new).but(UNUSED),
    c("new ssl crl-file", "new ssl crl-file <crlfile>", "create a new CRL file to be used in a crt-list", Admin, trust::new::<true>).but(UNUSED),
    c("operator", "operator", "lower the level of the current CLI session to operator", User, own::operator),
    c("prepare acl", "prepare acl <acl>", "prepare a new version for atomic ACL replacement", Admin, lists::prepare::<false>),
    c("prepare map", "prepare map <acl>", "prepare a new version for atomic map replacement", Admin, lists::prepare::<true>),
    c("prompt", "prompt", "toggle interactive mode with prompt", User, own::prompt),
    absent("publish", BACKENDS),
    c("quit", "quit", "disconnect", User, own::quit),
    absent("set anon", "nothing is made anonymous: look at what you pass on"),
    absent("set dynamic-cookie-key", COOKIES),
    c("set map", "set map <map> [<key>|#<ref>] <value>", "modify a map entry", Admin, lists::set),
    c("set maxconn frontend", "set maxconn frontend <frontend> <value>", "change a frontend's maxconn setting", Admin, frontends::maxconn).but("until the next reload; without `maxconn` in the file the bound is for each address"),
    c("set maxconn global", "set maxconn global <value>", "change the per-process maxconn setting", Admin, own::maxconn_global).but("until the next reload"),
    c("set maxconn server", "set maxconn server <bk>/<srv> <value>", "change a server's maxconn setting", Admin, weights::maxconn).but("only where a server of the backend has `maxconn` in the file"),
    c("set profiling", "set profiling <what> {auto|on|off}", "enable/disable resource profiling (tasks,memory)", Admin, inside::set_profiling).but("nothing is profiled: use perf(1)"),
    c("set rate-limit", "set rate-limit <setting> <value>", "change a rate limiting value", Admin, own::rate_limit).but("until the next reload; compression is not paced"),
    c("set server", "set server <bk>/<srv> [opts]", "change a server's state, weight, address or ssl", Admin, servers::set).but("held over reloads and, with `--state`, over restarts; `ssl`, `check-addr`, `check-port`, `fqdn` and the agent's settings are read with the configuration"),
    c("set severity-output", "set severity-output [none|number|string]", "set presence of severity level in feedback information", User, own::severity),
    c("set ssl ca-file", "set ssl ca-file <cafile> <payload>", "replace a CA file", Admin, trust::set::<false>),
    c("set ssl cert", "set ssl cert <certfile> <payload>", "replace a certificate file", Admin, certificates::set),
    c("set ssl crl-file", "set ssl crl-file <crlfile> <payload>", "replace a CRL file", Admin, trust::set::<true>),
    absent("set ssl ocsp-response", "OCSP responses are read with the configuration"),
    absent("set ssl tls-key", "keys of tickets are made by Weir, are renewed by themselves, and survive reloads"),
    c("set table", "set table <table> key <k> [data.* <v>]*", "update or create a table entry's data", Operator, sticks::set).but("nothing changes where a word is wrong, and `key` is needed"),
    c("set timeout", "set timeout [cli] <delay>", "change a timeout setting", User, own::timeout),
    c("set var", "set var <name> {<expr>|expr <expr>|fmt <fmt>}", "set variable from an expression", Operator, variables::set),
    c("set weight", "set weight <bk>/<srv>  (DEPRECATED)", "change a server's weight (use 'set server' instead)", Admin, weights::set).but(WHOLE),
    c("show acl", "show acl [@<ver>] <acl>]", "report available acls or dump an acl's contents", User, lists::show::<false>),
    c("show activity", "show activity [-1|0|thread_num]", "show per-thread activity stats (for support/developers)", Operator, inside::activity).but(EMPTY),
    c("show backend", "show backend", "list backends in the current running config", User, state::backends),
    c("show cache", "show cache", "show cache status", User, state::caches),
    c("show cli level", "show cli level", "display the level of the current CLI session", User, own::show_cli_level),
    c("show cli sockets", "show cli sockets", "dump list of cli sockets", Operator, own::show_cli_sockets),
    absent("show dev", "it is about the inside of another program: use `show info`, `show version` and `haproxy -vv`"),
    c("show env", "show env [var]", "dump environment variables known to the process", Operator, own::show_env),
    c("show errors", "show errors [<px>] [request|response]", "report last request and/or response errors for each proxy", Operator, inside::errors).but(EMPTY),
    c("show events", "show events [<sink>] [-w] [-n]", "show event sink state", Operator, inside::events).but(EMPTY),
    c("show fd", "show fd [num]", "dump list of file descriptors in use or a specific one", Operator, inside::descriptors).but("what the kernel says of each, and nothing of HAProxy's inside"),
    c("show info", "show info [desc|json|typed|float]*", "report information about the running process", User, info::show).but("figures that Weir does not measure are left out"),
    absent("show libs", "Weir is one file: see /proc/PID/maps"),
    c("show map", "show map [@ver] [map]", "report available maps or dump a map's contents", User, lists::show::<true>),
    c("show peers", "show peers [dict|-] [section]", "dump some information about all the peers or this peers section", Operator, peers::show).but("dictionaries are none: servers are known by number"),
    c("show pools", "show pools", "report information about the memory pools usage", User, inside::pools).but(EMPTY),
    c("show profiling", "show profiling [<what>|<#lines>|byaddr]*", "show profiling state (all,status,tasks,memory)", Operator, inside::profiling).but(EMPTY),
    absent("show quic", "it is about the inside of another program: use `show sess` and `show info`"),
    absent("show resolvers", "names are looked up by a client without such figures: failures are in the error log, addresses in `show servers state`"),
    c("show schema json", "show schema json", "report schema used for stats", User, inside::schema),
    c("show servers conn", "show servers conn [<backend>]", "dump server connections status (all or for a single backend)", User, state::conn),
    c("show servers state", "show servers state [<backend>]", "dump volatile server information (all or for a single backend)", User, state::state),
    c("show sess", "show sess [<id>|older <age>|all]", "report the list of current sessions or dump this exact session", Operator, sessions::show).but("connections by a number of theirs, idle ones included; buffers and tasks are zero"),
    c("show ssl ca-file", "show ssl ca-file [<cafile>[:<index>]]", "display the SSL CA files used in memory, or the details of a <cafile>, or a single certificate of index <index> of a CA file <cafile>", User, trust::show::<false>),
    c("show ssl cert", "show ssl cert [<certfile>]", "display the SSL certificates used in memory, or the details of a file", User, certificates::show),
    c("show ssl crl-file", "show ssl crl-file [<crlfile[:<index>>]]", "display the SSL CRL files used in memory, or the details of a <crlfile>, or a single CRL of index <index> of CRL file <crlfile>", User, trust::show::<true>),
    c("show ssl crt-list", "show ssl crt-list [-n] [<list>]", "show the list of crt-lists or the content of a crt-list file <list>", User, certificates::lists),
    c("show ssl ocsp-response", "show ssl ocsp-response [id]", "display the IDs of the OCSP responses used in memory, or the details of a single OCSP response", User, inside::ocsp).but("responses stand in files beside certificates, and have no ids"),
    c("show ssl providers", "show ssl providers", "show loaded SSL providers", User, inside::providers),
    absent("show startup-logs", "they are on standard error and in the error log: `weir check FILE` shows them again"),
    c("show stat", "show stat [desc|json|no-maint|typed|up]*", "report counters for each proxy and server", User, stat::show),
    c("show table", "show table <table> [<filter>]*", "report table usage stats or dump this table's contents (filter: data/key)", User, sticks::show),
    c("show tasks", "show tasks", "show running tasks", Operator, inside::tasks).but(EMPTY),
    c("show threads", "show threads", "show some threads debugging information", Operator, inside::threads).but(EMPTY),
    c("show tls-keys", "show tls-keys [id|*]", "show tls keys references or dump tls ticket keys when id specified", User, inside::tls_keys).but(EMPTY),
    absent("show trace", TRACED),
    c("show version", "show version", "show version of the current process", User, info::version),
    c("shutdown frontend", "shutdown frontend <frontend>", "stop a specific frontend", Admin, frontends::shutdown).but("the address stays bound, so connections wait; the next reload takes it back"),
    c("shutdown session", "shutdown session <id>", "kill a specific session", Admin, sessions::shutdown).but("it ends the connection"),
    c("shutdown sessions server", "shutdown sessions server <bk>/<srv>", "kill sessions on a server", Admin, servers::shutdown),
    absent("trace", TRACED),
    absent("unpublish", BACKENDS),
    absent("update ssl ocsp-response", "OCSP responses are not fetched"),
    c("user", "user", "lower the level of the current CLI session to user", User, own::user),
    c("wait", "wait <delay> [srv-removable <bk>/<srv>]", "wait the specified delay (ms, or with a unit) or for a server that may be removed", User, own::wait),
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
