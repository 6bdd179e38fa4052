//! What `haproxy -v`, `-vv` and `-h` print. Scripts read the third word of the first line.

/// First lines.
pub(super) const VERSION: &str = concat!(
    "HAProxy version 3.4.0-weir",
    env!("CARGO_PKG_VERSION"),
    " - Weir in HAProxy's manner\nStatus: this is Weir ",
    env!("CARGO_PKG_VERSION"),
    ", which reads haproxy.cfg."
);

/// What `-vv` adds. The features are those that `feature()` finds.
pub(super) fn build() -> String {
    let features: Vec<String> = weir_haproxy::FEATURES.iter().map(|name| format!("+{name}")).collect();
    format!(
        "Feature list : {} -LUA -QUIC -WURFL -51DEGREES -DEVICEATLAS\n\
         Built with multi-threading support.\n\
         Built with rustls on aws-lc-rs: TLSv1.2 TLSv1.3, SNI.\n\
         Available multiplexer protocols :\n         \
         h2 : mode=HTTP side=FE|BE\n         \
         h1 : mode=HTTP side=FE|BE\n  \
         <default> : mode=TCP  side=FE|BE\n\n\
         Available services : prometheus-exporter\n\n\
         Available filters :\n\t[COMP] compression",
        features.join(" ")
    )
}

/// Flags.
pub(super) const USAGE: &str = "\
Usage : haproxy [-f <cfgfile|cfgdir>]* [ -vdVD ] [ -n <maxconn> ] [ -N <maxpconn> ]
        [ -p <pidfile> ] [ -m <max megs> ] [ -C <dir> ] [-- <cfgfile>*]
        -v displays version ; -vv shows what is built in.
        -f reads this file, or all *.cfg files of this folder in order; may be repeated.
        -c only checks the configuration and exits.
        -V says what it does ; -q says nothing.
        -D goes to the background ; -db never does.
        -W master-worker mode: HUP reloads as USR2 does.
        -Ws the same in the foreground, with systemd's notifications.
        -C changes to <dir> before loading files.
        -n sets the maximum total number of connections.
        -m limits the memory for connections (in MB).
        -p writes the process id to this file.
        -L sets the local peer name, which the file sees as $HAPROXY_LOCALPEER.
        -cc evaluates a condition of `.if`: 0 if it holds, 1 if not, 2 if it cannot be read.
        -sf/-st [pid ]* finishes/terminates old processes once our ports are bound.
        -x <sock> takes listening sockets from the process whose `stats socket` this is.
        -S, -N, -dM, -de, -dp, -dS, -dG, -dR, -dL, -dr, -dV, -dW, -dD, -dK are taken
        for compatibility; of these only -dW (fail if any warning is emitted) does anything.
";
