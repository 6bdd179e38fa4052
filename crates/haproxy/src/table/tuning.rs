//! Keywords of `global` that tune what is tuned otherwise here, or not at all.
//!
//! Why: words that tune one thing share their sentence, so they stand together.

use crate::words::Status::{Accepted, Tuning};
use crate::words::{Keyword, MANY, Sections, word};

const G: Sections = Sections::GLOBAL;

/// `DOC, INSTEAD: NAME NAME …;` for words without effect, `DOC: NAME;` for those with nothing to do.
macro_rules! words {
    ($($doc:literal, $instead:literal: $($name:literal)+;)* accepted $($plain:literal: $word:literal;)*) => {
        &[
            $($(word($name, G, (0, MANY), "", $doc, Tuning($instead)),)+)*
            $(word($word, G, (0, MANY), "", $plain, Accepted),)*
        ]
    };
}

pub(super) const WORDS: &[Keyword] = words! {
    "Size of exchange buffers in bytes.", "buffers are sized by what is carried":
        "tune.bufsize";
    "Size of smaller and larger buffers.", "buffers are sized by what is carried":
        "tune.bufsize.small" "tune.bufsize.large";
    "Bounds of memory pools.", "memory has one budget for the process":
        "tune.buffers.limit" "tune.buffers.reserve" "tune.memory.hot-size" "tune.memory.fail-alloc"
        "tune.memory.pool-allocator" "tune.fail-alloc" "tune.pool-high-fd-ratio" "tune.pool-low-fd-ratio"
        "tune.pool.high-fd-ratio" "tune.pool.low-fd-ratio" "no-memory-trimming";
    "Room for rewritten heads in a buffer.", "heads are bounded by themselves":
        "tune.maxrewrite";
    "How work is scheduled.", "workers schedule by themselves":
        "tune.maxaccept" "tune.maxpollevents" "tune.runqueue-depth" "tune.sched.low-latency"
        "tune.events.max-events-at-once" "tune.max-checks-per-thread" "tune.max-rules-at-once"
        "tune.fd.edge-triggered" "tune.epoll.mask-events" "tune.listener.default-shards"
        "tune.listener.multi-queue" "tune.renice.runtime" "tune.renice.startup" "tune.ring.queues"
        "tune.streams-elasticity" "tune.defaults.purge";
    "How bytes are forwarded.", "the engine chooses how bytes are moved":
        "tune.idletimer" "tune.recv_enough" "tune.pipesize" "maxpipes" "tune.disable-fast-forward"
        "tune.disable-zero-copy-forwarding" "tune.applet.zero-copy-forwarding"
        "tune.pt.zero-copy-forwarding" "tune.h1.zero-copy-fwd-recv" "tune.h1.zero-copy-fwd-send"
        "tune.h2.zero-copy-fwd-send" "tune.quic.zero-copy-fwd-send";
    "Sizes of kernel buffers.", "the system sizes them by itself":
        "tune.rcvbuf.client" "tune.rcvbuf.server" "tune.rcvbuf.backend" "tune.rcvbuf.frontend"
        "tune.sndbuf.client" "tune.sndbuf.server" "tune.sndbuf.backend" "tune.sndbuf.frontend"
        "tune.notsent-lowat.client" "tune.notsent-lowat.server";
    "Bounds of tables and texts.", "Weir's own bounds hold":
        "tune.http.cookielen" "tune.http.logurilen" "tune.http.maxhdr" "tune.cli.max-payload-size"
        "tune.stick-counters" "tune.pattern.cache-size" "tune.peers.max-updates-at-once"
        "tune.takeover-other-tg-connections" "tune.idle-pool.shared";
    "Memory of variables.", "variables are bounded by the request":
        "tune.vars.check-max-size" "tune.vars.global-max-size" "tune.vars.proc-max-size"
        "tune.vars.reqres-max-size" "tune.vars.sess-max-size" "tune.vars.txn-max-size";
    "Limits of HTTP connections.", "Weir's own limits hold":
        "tune.h1.be.glitches-threshold" "tune.h1.fe.glitches-threshold" "tune.h2.be.glitches-threshold"
        "tune.h2.be.initial-window-size" "tune.h2.be.max-concurrent-streams" "tune.h2.be.max-frames-at-once"
        "tune.h2.be.rxbuf" "tune.h2.fe.glitches-threshold" "tune.h2.fe.initial-window-size"
        "tune.h2.fe.max-concurrent-streams" "tune.h2.fe.max-frames-at-once" "tune.h2.fe.max-rst-at-once"
        "tune.h2.fe.max-total-streams" "tune.h2.fe.rxbuf" "tune.h2.header-table-size"
        "tune.h2.initial-window-size" "tune.h2.log-errors" "tune.h2.max-concurrent-streams"
        "tune.h2.max-frame-size" "tune.glitches.kill.cpu-usage" "h2-workaround-bogus-websocket-clients";
    "A number of QUIC.", "QUIC is not built":
        "tune.quic.be.cc.cubic-min-losses" "tune.quic.be.cc.hystart" "tune.quic.be.cc.max-frame-loss"
        "tune.quic.be.cc.max-win-size" "tune.quic.be.cc.reorder-ratio" "tune.quic.be.max-idle-timeout"
        "tune.quic.be.sec.glitches-threshold" "tune.quic.be.stream.data-ratio"
        "tune.quic.be.stream.max-concurrent" "tune.quic.be.stream.rxbuf" "tune.quic.be.tx.pacing"
        "tune.quic.be.tx.udp-gso" "tune.quic.cc-hystart" "tune.quic.cc.cubic.min-losses"
        "tune.quic.conn-buf-limit" "tune.quic.disable-tx-pacing" "tune.quic.disable-udp-gso"
        "tune.quic.fe.cc.cubic-min-losses" "tune.quic.fe.cc.hystart" "tune.quic.fe.cc.max-frame-loss"
        "tune.quic.fe.cc.max-win-size" "tune.quic.fe.cc.reorder-ratio" "tune.quic.fe.max-idle-timeout"
        "tune.quic.fe.sec.glitches-threshold" "tune.quic.fe.sec.retry-threshold"
        "tune.quic.fe.sock-per-conn" "tune.quic.fe.stream.data-ratio" "tune.quic.fe.stream.max-concurrent"
        "tune.quic.fe.stream.max-total" "tune.quic.fe.stream.rxbuf" "tune.quic.fe.tx.pacing"
        "tune.quic.fe.tx.udp-gso" "tune.quic.frontend.conn-tx-buffers.limit"
        "tune.quic.frontend.default-max-window-size" "tune.quic.frontend.glitches-threshold"
        "tune.quic.frontend.max-data-size" "tune.quic.frontend.max-idle-timeout"
        "tune.quic.frontend.max-streams-bidi" "tune.quic.frontend.max-tx-mem"
        "tune.quic.frontend.stream-data-ratio" "tune.quic.listen" "tune.quic.max-frame-loss"
        "tune.quic.mem.tx-max" "tune.quic.reorder-ratio" "tune.quic.retry-threshold"
        "tune.quic.socket.owner" "limited-quic" "no-quic" "cluster-secret";
    "Buffers and caches of TLS.", "Weir's own sizes hold":
        "tune.ssl.bufsize" "tune.ssl.cachesize" "tune.ssl.capture-buffer-size"
        "tune.ssl.capture-cipherlist-size" "tune.ssl.force-private-cache" "tune.ssl.hard-maxrecord"
        "tune.ssl.keylog" "tune.ssl.lifetime" "tune.ssl.maxrecord" "tune.ssl.ssl-ctx-cache-size" "noktls"
        "ktls";
    "Size of finite-field key exchange.", "finite-field key exchange is not spoken":
        "tune.ssl.default-dh-param";
    "When OCSP answers are fetched.", "OCSP answers are not fetched":
        "tune.ssl.ocsp-update.maxdelay" "tune.ssl.ocsp-update.maxhour" "tune.ssl.ocsp-update.mindelay"
        "tune.ssl.ocsp-update.minthour" "ocsp-update.disable" "ocsp-update.maxdelay" "ocsp-update.mindelay"
        "ocsp-update.httpproxy" "ocsp-update.mode";
    "A bound of Lua.", "Lua is not built":
        "tune.lua.bool-sample-conversion" "tune.lua.burst-timeout" "tune.lua.forced-yield"
        "tune.lua.log.loggers" "tune.lua.log.stderr" "tune.lua.maxmem" "tune.lua.openlibs"
        "tune.lua.service-timeout" "tune.lua.session-timeout" "tune.lua.task-timeout";
    "Bounds of compression.", "Weir's own bounds hold":
        "tune.comp.maxlevel" "tune.zlib.memlevel" "tune.zlib.windowsize" "maxcomprate" "maxcompcpuusage"
        "maxzlibmem";
    "Which threads run on which CPUs.", "workers use the CPUs the process may use":
        "cpu-map" "cpu-policy" "cpu-set" "cpu-affinity" "numa-cpu-mapping" "thread-group" "thread-groups"
        "thread-hard-limit" "max-threads-per-group";
    "How the process waits for work, and what it measures.", "workers wait by io_uring or epoll":
        "busy-polling" "noepoll" "nokqueue" "noevports" "nopoll" "nosplice" "nogetaddrinfo" "noreuseport"
        "prealloc-fd" "force-cfg-parser-pause" "profiling.memory" "profiling.memory.on" "profiling.tasks"
        "profiling.tasks.on" "profiling.tasks.automatic" "debug.counters" "warn-blocked-traffic-after";
    "The internal HTTP client and look-ups.", "there is no internal HTTP client":
        "httpclient.resolvers.disabled" "httpclient.resolvers.prefer" "httpclient.retries"
        "httpclient.timeout.connect" "dns-accept-family";
    "Device detection.", "device detection is not built":
        "51degrees-allow-unmatched" "51degrees-cache-size" "51degrees-data-file" "51degrees-difference"
        "51degrees-drift" "51degrees-property-name-list" "51degrees-property-separator"
        "51degrees-use-performance-graph" "51degrees-use-predictive-graph" "deviceatlas-json-file"
        "deviceatlas-log-level" "deviceatlas-properties-cookie" "deviceatlas-separator" "wurfl-cache-size"
        "wurfl-data-file" "wurfl-engine-mode" "wurfl-information-list" "wurfl-information-list-separator"
        "wurfl-patch-file" "wurfl-useragent-priority";
    accepted
    "No messages at start.": "quiet";
    "Treats warnings as errors.": "zero-warning";
    "Runs in the foreground with traces.": "debug";
    "Key for anonymised dumps.": "anonkey";
    "Allows core dumps.": "set-dumpable";
    "Allows deprecated words.": "expose-deprecated-directives";
    "Allows experimental words.": "expose-experimental-directives";
};
