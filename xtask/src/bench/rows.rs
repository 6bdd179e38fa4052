//! The rows of the benchmark, with the targets they are held to.
//!
//! Owns: which work is measured, against whom, and what ratio counts as met.
//! Never: measures.
//! Driven by: `bench::run`.
//! Why: targets are ratios to the best rival in the same run; absolute figures drift by a factor of two between machines and hours.

/// A body's size. Files carry these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Zero,
    K1,
    K10,
    K100,
    M1,
}

impl Size {
    pub(super) const ALL: [Self; 5] = [Self::Zero, Self::K1, Self::K10, Self::K100, Self::M1];

    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Zero => 0,
            Self::K1 => 1 << 10,
            Self::K10 => 10 << 10,
            Self::K100 => 100 << 10,
            Self::M1 => 1 << 20,
        }
    }

    /// The file's name, and the last part of the URL.
    pub(super) fn file(self) -> &'static str {
        match self {
            Self::Zero => "0",
            Self::K1 => "1k",
            Self::K10 => "10k",
            Self::K100 => "100k",
            Self::M1 => "1m",
        }
    }
}

/// What kind of key signs the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    P256,
    Rsa2048,
}

/// One kind of work, done by every contender in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// A file over kept-alive HTTP.
    Static(Size),
    /// A body from the origin, kept alive on both sides.
    Proxy(Size),
    /// A proxied request on a connection of its own.
    Connection,
    /// A file over kept-alive HTTPS.
    Https(Size),
    /// A full TLS handshake, and one small request.
    Handshake(Key),
    /// Kept-alive HTTP carried as plain TCP.
    Tcp(Size),
    /// Connections that were used once and wait.
    Idle { tls: bool },
    /// One request against 10,000 sites of 10 locations.
    Sites,
}

/// One line of the table.
pub(super) struct Row {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) work: Work,
    /// Rows of the epoll driver are their own; the others use what `--io` says.
    pub(super) epoll: bool,
    pub(super) target: f64,
    pub(super) stretch: Option<f64>,
}

const fn row(id: &'static str, title: &'static str, work: Work, target: f64, stretch: f64) -> Row {
    Row { id, title, work, epoll: false, target, stretch: Some(stretch) }
}

const fn epoll(id: &'static str, title: &'static str, work: Work, target: f64) -> Row {
    Row { id, title, work, epoll: true, target, stretch: None }
}

pub(super) const ROWS: &[Row] = &[
    row("static-0", "static 0 KB", Work::Static(Size::Zero), 0.80, 0.72),
    row("static-1k", "static 1 KB", Work::Static(Size::K1), 0.65, 0.55),
    row("static-10k", "static 10 KB", Work::Static(Size::K10), 0.75, 0.68),
    row("static-100k", "static 100 KB", Work::Static(Size::K100), 0.50, 0.42),
    row("static-1m", "static 1 MB", Work::Static(Size::M1), 0.60, 0.50),
    row("proxy-1k", "proxy 1 KB", Work::Proxy(Size::K1), 0.70, 0.60),
    row("proxy-10k", "proxy 10 KB", Work::Proxy(Size::K10), 0.80, 0.70),
    row("proxy-100k", "proxy 100 KB", Work::Proxy(Size::K100), 0.90, 0.80),
    row("connection", "one connection a request", Work::Connection, 0.90, 0.80),
    row("https-1k", "HTTPS 1 KB", Work::Https(Size::K1), 0.60, 0.50),
    row("https-10k", "HTTPS 10 KB", Work::Https(Size::K10), 0.60, 0.50),
    row("https-100k", "HTTPS 100 KB", Work::Https(Size::K100), 0.50, 0.42),
    row("handshake-p256", "full handshake P-256", Work::Handshake(Key::P256), 0.60, 0.50),
    row("handshake-rsa", "full handshake RSA-2048", Work::Handshake(Key::Rsa2048), 0.75, 0.63),
    row("tcp-1k", "TCP 1 KB", Work::Tcp(Size::K1), 1.00, 0.85),
    row("tcp-100k", "TCP 100 KB", Work::Tcp(Size::K100), 1.00, 0.90),
    epoll("static-1k-epoll", "static 1 KB, epoll", Work::Static(Size::K1), 0.80),
    epoll("proxy-1k-epoll", "proxy 1 KB, epoll", Work::Proxy(Size::K1), 1.05),
    epoll("proxy-10k-epoll", "proxy 10 KB, epoll", Work::Proxy(Size::K10), 1.05),
    epoll("proxy-100k-epoll", "proxy 100 KB, epoll", Work::Proxy(Size::K100), 1.05),
    epoll("connection-epoll", "one connection a request, epoll", Work::Connection, 1.20),
    row("idle-plain", "idle connection, plain", Work::Idle { tls: false }, 1.5, 1.0),
    row("idle-tls", "idle connection, TLS", Work::Idle { tls: true }, 0.45, 0.34),
    Row {
        id: "sites",
        title: "10,000 sites against one",
        work: Work::Sites,
        epoll: false,
        target: 1.10,
        stretch: None,
    },
];

/// Rows whose ratio is one of CPU and of the default driver: the geometric mean is over these.
pub(super) fn counts_for_mean(row: &Row) -> bool {
    !row.epoll && !matches!(row.work, Work::Idle { .. } | Work::Sites)
}

/// What the geometric mean is held to, and what none of its rows may exceed.
pub(super) const MEAN_TARGET: f64 = 0.72;
pub(super) const MEAN_STRETCH: f64 = 0.62;
pub(super) const CPU_CEILING: f64 = 1.00;
