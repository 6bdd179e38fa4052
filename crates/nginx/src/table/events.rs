//! Words of `events` (nginx.org, ngx_core_module).

use super::entry::Entry;
use super::entry::Kind::{Flag, Number, Text, Time};
use super::entry::places::E;
use crate::take::args::count;

pub(super) const ENTRIES: &[Entry] = &[
    Entry::one("worker_connections", E, Number, "512", "Connections of one worker, upstreams included.")
        .process(|lo, d| {
            lo.model.process.connections_per_worker = Some(count(d));
        }),
    Entry::one("use", E, Text, "", "Method of waiting for events.")
        .tuning("Weir uses io_uring where it may, else epoll; `--io` chooses"),
    Entry::one("multi_accept", E, Flag, "off", "Accepts all waiting connections at once.")
        .tuning("Weir's accepts stay armed in the kernel"),
    Entry::one("accept_mutex", E, Flag, "off", "Workers accept in turn.")
        .tuning("each worker of Weir has its own listening socket"),
    Entry::one("accept_mutex_delay", E, Time, "500ms", "Pause of a worker without the mutex.")
        .tuning("each worker of Weir has its own listening socket"),
    Entry::one("debug_connection", E, Text, "", "Debug log for some clients only.")
        .repeats()
        .tuning("debug logging cannot be limited to clients yet"),
    Entry::one("epoll_events", E, Number, "512", "Events fetched at once.")
        .tuning("Weir sizes its queues by itself"),
    Entry::one("worker_aio_requests", E, Number, "32", "Outstanding file reads.")
        .tuning("Weir sizes its queues by itself"),
];
