//! Words about logs and counters (nginx.org: log, stub_status).

use super::entry::Kind::Flag;
use super::entry::places::{H, HSL, HSLIX, SL};
use super::entry::{Entry, MANY};
use crate::take::{location, log};

pub(super) const ENTRIES: &[Entry] = &[
    Entry::new("log_format", H, (2, MANY), "combined \"…\"", "A format of access logs.")
        .repeats()
        .shared(log::log_format),
    Entry::new("access_log", HSLIX, (1, MANY), "logs/access.log combined", "Where requests are logged.")
        .repeats()
        .scope(log::access_log),
    Entry::new(
        "error_log",
        HSL,
        (1, 2),
        "stderr error",
        "Where errors are logged, and from which severity on.",
    )
    .repeats()
    .scope(log::error_log),
    Entry::new("open_log_file_cache", HSL, (1, 4), "off", "Keeps log files open.")
        .tuning("log files stay open until they are reopened"),
    Entry::one("log_subrequest", HSL, Flag, "off", "Logs subrequests.")
        .tuning("subrequests have no lines of their own"),
    Entry::new("stub_status", SL, (0, 1), "", "Counters in text.").place(location::stub_status),
    // Weir's own: nginx has no such page.
    Entry::new("weir_metrics", SL, (0, 0), "", "Weir's figures in Prometheus' format.")
        .place(location::metrics),
    Entry::new("weir_dashboard", SL, (0, 1), "", "Weir's dashboard; `write=on` lets it change endpoints.")
        .place(location::dashboard),
];
