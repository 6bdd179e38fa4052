//! `stats …` of proxies. Those of `global` are in `global`.

use crate::take::{rules, stats as take};
use crate::words::Status::{NotYet, Proxy, Tuning};
use crate::words::{DFB, FB, Keyword, MANY, word};

pub(super) const WORDS: &[Keyword] = &[
    word("stats enable", DFB, (0, 0), "off", "Serves the statistics page.", Proxy(take::enable)),
    word("stats uri", DFB, (1, 1), "/haproxy?stats", "Path prefix of the statistics page.", Proxy(take::uri)),
    word(
        "stats realm",
        DFB,
        (1, 1),
        "HAProxy Statistics",
        "Realm of the page's authentication.",
        Proxy(take::realm),
    ),
    word("stats auth", DFB, (1, 1), "", "A user and password who may see the page.", Proxy(take::auth)),
    word(
        "stats hide-version",
        DFB,
        (0, 0),
        "off",
        "Leaves product and version off the page.",
        Proxy(take::hide_version),
    ),
    word(
        "stats show-version",
        DFB,
        (0, 0),
        "on",
        "Puts product and version on the page.",
        Proxy(take::show_version),
    ),
    word(
        "stats refresh",
        DFB,
        (1, 1),
        "off",
        "Time after which the page loads itself again.",
        Proxy(take::refresh),
    ),
    word("stats scope", DFB, (1, 1), "all", "Limits the page to named proxies.", Proxy(take::scope)),
    word("stats show-desc", DFB, (0, MANY), "off", "Puts a description on the page.", Proxy(take::show_desc)),
    word(
        "stats show-legends",
        DFB,
        (0, 0),
        "off",
        "Puts more details on the page.",
        Proxy(take::show_legends),
    ),
    word("stats show-node", DFB, (0, 1), "off", "Puts the node's name on the page.", Proxy(take::show_node)),
    word(
        "stats show-modules",
        DFB,
        (0, 0),
        "off",
        "Puts counters of modules on the page.",
        Tuning("there are no further modules to show"),
    ),
    word("stats admin", FB, (2, MANY), "", "Lets the page change servers' states.", Proxy(take::admin)),
    word(
        "stats http-request",
        FB,
        (1, MANY),
        "",
        "Rules for requests to the page.",
        Proxy(rules::stats_http_request),
    ),
    word(
        "stats bind-process",
        DFB,
        (1, 1),
        "",
        "Process that serves the page.",
        Tuning("there is one process"),
    ),
    word(
        "stats",
        DFB,
        (1, MANY),
        "",
        "Family of words about the statistics page.",
        NotYet("it is none of the `stats` words"),
    ),
];
