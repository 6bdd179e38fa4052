//! Sections by name.

/// A kind of section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SectionKind {
    /// Process-wide settings.
    Global,
    /// Settings that later proxies start from.
    Defaults,
    /// Takes connections in.
    Frontend,
    /// Sends them on.
    Backend,
    /// Both in one.
    Listen,
    /// Users and groups.
    Userlist,
    /// Name servers.
    Resolvers,
    /// Error pages under a name.
    HttpErrors,
    /// Responses kept in memory.
    Cache,
    /// Processes that share stick tables.
    Peers,
    /// Certificates by names of their own.
    CrtStore,
    /// What an application behind FastCGI is told.
    FcgiApp,
    /// Log lines kept in memory.
    Ring,
    /// A section that is known and does nothing here.
    Idle(&'static str),
    /// `acme`.
    Acme,
    /// A section that is known, decides what is served, and is not built.
    Missing(&'static str),
}

const ALL: &[(&str, SectionKind)] = &[
    ("global", SectionKind::Global),
    ("defaults", SectionKind::Defaults),
    ("frontend", SectionKind::Frontend),
    ("backend", SectionKind::Backend),
    ("listen", SectionKind::Listen),
    ("userlist", SectionKind::Userlist),
    ("resolvers", SectionKind::Resolvers),
    ("http-errors", SectionKind::HttpErrors),
    ("peers", SectionKind::Peers),
    ("ring", SectionKind::Ring),
    ("program", SectionKind::Idle("program")),
    ("cache", SectionKind::Cache),
    ("mailers", SectionKind::Idle("mailers")),
    ("traces", SectionKind::Idle("traces")),
    ("log-profile", SectionKind::Idle("log-profile")),
    ("crt-store", SectionKind::CrtStore),
    ("log-forward", SectionKind::Missing("log-forward")),
    ("fcgi-app", SectionKind::FcgiApp),
    ("acme", SectionKind::Acme),
];

impl SectionKind {
    /// The kind a word opens.
    pub(crate) fn named(word: &str) -> Option<SectionKind> {
        ALL.iter().find(|(name, _)| *name == word).map(|&(_, kind)| kind)
    }

    /// The word that opens it.
    pub(crate) fn name(self) -> &'static str {
        ALL.iter().find(|(_, kind)| *kind == self).map_or("", |&(name, _)| name)
    }

    /// All words that open sections.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|&(name, _)| name)
    }
}
