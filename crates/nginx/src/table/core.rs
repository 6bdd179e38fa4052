//! Words outside of all blocks (nginx.org, ngx_core_module).

use super::entry::Kind::{self, Flag, Number, OneOf, Size, Text, Time};
use super::entry::places::M;
use super::entry::{Contexts, Entry, MANY};
use crate::take::args::{count, on};
use crate::take::{log, process};

pub(super) const ENTRIES: &[Entry] = &[
    Entry::one("daemon", M, Flag, "on", "Detaches from the terminal.").process(|lo, d| {
        lo.model.process.daemon = on(d);
    }),
    Entry::one("master_process", M, Flag, "on", "Runs worker processes.")
        .tuning("Weir has one data-plane process either way"),
    Entry::one("pid", M, Text, "/run/nginx.pid", "File that holds the process id.").process(process::pid),
    Entry::one("worker_processes", M, Text, "1", "Worker threads: a number, or `auto` for one a CPU.").process(process::workers),
    Entry::new("user", M, (1, 2), "nobody", "User and group of the data plane when started as root.").process(process::user),
    Entry::one("worker_rlimit_nofile", M, Number, "", "Limit of open files.").process(|lo, d| {
        lo.model.process.open_files = Some(count(d));
        lo.model.process.open_files_origin = Some(d.span);
    }),
    // Weir's own: nginx has no such bound.
    Entry::one("weir_memory_budget", M, Size, "half of the machine's", "Memory in use above which nothing new is served.").process(|lo, d| {
        lo.model.process.memory_budget = Some(crate::take::args::bytes(d));
    }),
    Entry::one("worker_shutdown_timeout", M, Time, "", "Draining ends after this.").process(|lo, d| {
        lo.model.process.shutdown_timeout = Some(crate::take::args::time(d));
    }),
    Entry::one("working_directory", M, Text, "", "Working directory.").process(|lo, d| {
        lo.model.process.working_directory = Some(d.arg(0).into());
    }),
    Entry::new(
        "error_log",
        M,
        (1, 2),
        "stderr error",
        "Where errors are logged, and from which severity on.",
    )
    .repeats()
    .process(log::process_error_log),
    Entry::one("load_module", M, Text, "", "Loads a module; what Weir has it has built in.").repeats().process(process::load_module),
    Entry::new("env", M, (1, 1), "TZ", "Keeps or sets an environment variable for workers.")
        .repeats()
        .tuning("Weir keeps its whole environment; its workers are threads, so no variable can be set for them here"),
    Entry::new("include", all(), (1, 1), "", "Puts the words of other files here.").repeats(),
    Entry::new("events", M, (0, 0), "", "Words about connection handling.").block(),
    Entry::new("http", M, (0, 0), "", "Everything about HTTP.").block(),
    Entry::new("stream", M, (0, 0), "", "Everything about TCP.").block(),
    Entry::new("mail", M, (0, 0), "", "Mail proxying.").block().not_yet("mail proxying is not built"),
    Entry::one("timer_resolution", M, Time, "", "Rarer clock reads.")
        .tuning("Weir reads the clock once a wake-up"),
    Entry::one("lock_file", M, Text, "logs/nginx.lock", "File of the accept mutex.")
        .tuning("Weir has no accept mutex"),
    Entry::one("debug_points", M, OneOf(&["stop", "abort"]), "", "Debugging aid of nginx.")
        .tuning("Weir has no such points"),
    Entry::one("worker_priority", M, Text, "0", "Nice value of workers.")
        .tuning("set it where Weir is started, e.g. `Nice=` in its systemd unit"),
    Entry::new("worker_cpu_affinity", M, (1, MANY), "", "Binds workers to CPUs.")
        .tuning("Weir places its workers by itself, one a core"),
    Entry::one("worker_rlimit_core", M, Kind::Offset, "", "Limit of core files.")
        .tuning("set it where Weir is started, e.g. `LimitCORE=` in its systemd unit"),
    Entry::new("thread_pool", M, (2, 3), "default threads=32 max_queue=65536", "Threads for file reads.")
        .repeats()
        .tuning("Weir reads files through io_uring, or its own threads"),
    Entry::one("ssl_engine", M, Text, "", "OpenSSL engine.").not_yet("Weir uses no OpenSSL engines"),
    Entry::one("ssl_object_cache_inheritable", M, Flag, "on", "Keeps parsed certificates over reloads.")
        .tuning("Weir reads certificates anew at each reload"),
    Entry::one("pcre_jit", M, Flag, "off", "Compiles patterns to machine code.")
        .tuning("Weir always compiles its patterns"),
];

/// `include` may stand everywhere.
const fn all() -> Contexts {
    Contexts::MAIN
        .and(Contexts::EVENTS)
        .and(Contexts::HTTP)
        .and(Contexts::SERVER)
        .and(Contexts::LOCATION)
        .and(Contexts::UPSTREAM)
        .and(Contexts::SERVER_IF)
        .and(Contexts::LOCATION_IF)
        .and(Contexts::LIMIT_EXCEPT)
        .and(Contexts::STREAM)
        .and(Contexts::STREAM_SERVER)
        .and(Contexts::STREAM_UPSTREAM)
        .and(Contexts::MAIL)
        .and(Contexts::MAIL_SERVER)
}
