//! The state of one reading: what was understood so far, and what is to be said about it.
//!
//! Owns: the model in the making, findings, names, what was made before and is shared.
//! Never: knows a directive.
//! Driven by: `build`, and every function that a directive's entry names.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use ipnet::IpNet;
use weir_diag::{Diagnostic, Origin, Sources, Span};
use weir_expr::check::CheckStep;
use weir_model::settings::LogEscape;
use weir_model::{
    Address, CharsetMap, ErrorPage, Listener, Model, NamePattern, Pattern, Route, RouteId, Template,
};

use super::scope::{ErrorPageSpec, Level};
use crate::files::Files;
use crate::options::Options;
use crate::tree::Directive;
use crate::variables::Dialect;

/// Finished error pages by the address of the list they were made of, which is kept alive beside.
pub(crate) type PageMemo = HashMap<usize, (Arc<Vec<ErrorPageSpec>>, Arc<Vec<ErrorPage>>)>;

/// Finished request fields by the address of the list they were made of (kept alive beside) and the version.
pub(crate) type FieldMemo =
    HashMap<(usize, bool), (Arc<Vec<(String, Template)>>, Arc<Vec<(String, Template)>>)>;

/// Finished lists of hidden fields by the lists they were made of, which are kept alive beside; the first lists are the
/// protocols' defaults.
pub(crate) type HideMemo =
    HashMap<(&'static [&'static str], usize, usize), (Arc<Vec<String>>, Arc<Vec<String>>, Arc<Vec<String>>)>;

/// A named format of access logs.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    pub line: Arc<Template>,
    pub escape: LogEscape,
}

/// Who is believed about the clients of databases (`geoip2_proxy`).
#[derive(Default)]
pub(crate) struct Believed {
    pub proxies: Vec<IpNet>,
    pub recursive: bool,
}

/// The state of one reading.
pub(crate) struct Lowering<'a> {
    pub files: &'a dyn Files,
    pub options: &'a Options,
    pub sources: &'a Sources,
    /// Folder of the main file.
    pub folder: PathBuf,
    pub model: Model,
    pub diagnostics: Vec<Diagnostic>,
    pub dialect: Dialect,
    /// Variables that the file defines.
    pub declared: BTreeSet<String>,
    /// Variables that a table of this dialect defines, and one of the other as well: their names in the model.
    pub renamed: BTreeMap<(Dialect, String), String>,
    /// `$http_a_b` may also mean a field `A_B`.
    pub underscores: bool,
    pub formats: HashMap<String, Format>,
    /// Pools by the name a block or an action has for them, with their names in the model.
    pub pools: BTreeMap<(Dialect, String), String>,
    /// Named locations of the server at hand.
    pub named: HashMap<String, RouteId>,
    /// `match` blocks of both dialects, by name.
    pub matches: BTreeMap<(Dialect, String), Vec<CheckStep<Pattern>>>,
    /// Who is believed about the clients of databases.
    pub geoip2: Believed,
    /// `charset_map`.
    pub charset_maps: Arc<Vec<CharsetMap>>,
    /// Names of the server at hand.
    pub server_names: Vec<NamePattern>,
    /// Error pages of the server at hand, by the list they were made of.
    pub pages: PageMemo,
    /// Request fields of proxy actions, by the list they were made of and the version.
    pub fields: FieldMemo,
    /// Hidden response fields of actions.
    pub hide: HideMemo,
    /// Names used of limit zones, checked at the end.
    pub zones_used: Vec<(&'static str, String, Span)>,
    /// Where each address of the model's listeners is listened on.
    listened: HashMap<Address, Origin>,
    level: u32,
    /// Unknown words so far.
    pub strangers: u32,
    /// Where a tuning word was first warned of, and how often it stands.
    pub tuned: HashMap<&'static str, (usize, usize)>,
    /// Whether a word is the name of a directive: the table's answer, which stands above.
    is_directive: fn(&str) -> bool,
}

impl<'a> Lowering<'a> {
    pub(crate) fn new(
        files: &'a dyn Files,
        options: &'a Options,
        sources: &'a Sources,
        folder: PathBuf,
        is_directive: fn(&str) -> bool,
    ) -> Self {
        Self {
            files,
            options,
            sources,
            folder,
            model: Model::default(),
            listened: HashMap::new(),
            diagnostics: Vec::new(),
            dialect: Dialect::Http,
            declared: BTreeSet::new(),
            renamed: BTreeMap::new(),
            underscores: false,
            formats: HashMap::new(),
            pools: BTreeMap::new(),
            named: HashMap::new(),
            matches: BTreeMap::new(),
            geoip2: Believed::default(),
            charset_maps: Arc::default(),
            server_names: Vec::new(),
            pages: HashMap::new(),
            fields: HashMap::new(),
            hide: HashMap::new(),
            zones_used: Vec::new(),
            level: 0,
            strangers: 0,
            tuned: HashMap::new(),
            is_directive,
        }
    }

    /// A name for a block that was just entered.
    pub(crate) fn next_level(&mut self) -> Level {
        self.level += 1;
        Level(self.level)
    }

    /// Where an address is listened on, if it is. A range of ports makes tens of thousands of listeners: none is looked
    /// for one by one.
    pub(crate) fn listened_at(&self, address: &Address) -> Option<Origin> {
        self.listened.get(address).copied()
    }

    /// Adds a listener.
    pub(crate) fn listen(&mut self, listener: Listener) {
        self.listened.insert(listener.address.clone(), listener.origin);
        self.model.listeners.push(listener);
    }

    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Adds a route, in its reserved place if it has one.
    pub(crate) fn add_route(&mut self, route: Route, reserved: Option<RouteId>) -> RouteId {
        match reserved.and_then(|id| self.model.routes.get_mut(id.0 as usize).map(|place| (id, place))) {
            Some((id, place)) => {
                *place = route;
                id
            }
            None => self.model.add_route(route),
        }
    }

    /// "This value is wrong", at an argument.
    pub(crate) fn bad_value(&mut self, directive: &Directive, n: usize, expected: &str) {
        let text = format!("`{}` of `{}` is not {expected}", directive.arg(n), directive.name());
        let mut found = Diagnostic::error("nginx::bad-value", text).at(directive.arg_span(n));
        if let Some(at) = self.forgotten_end(directive) {
            found = next_directive(found, directive, at);
        }
        self.report(found);
    }

    /// A path of data: relative ones belong to the prefix.
    pub(crate) fn path(&self, text: &str) -> PathBuf {
        self.options.prefix.join(text)
    }

    /// A path of configuration (certificates, password files): relative ones belong to the main file's folder.
    pub(crate) fn conf_path(&self, text: &str) -> PathBuf {
        self.folder.join(text)
    }

    /// The argument that begins a line and is a directive's name: the `;` before it is most likely missing.
    pub(crate) fn forgotten_end(&self, directive: &Directive) -> Option<usize> {
        let line = |span: Span| self.sources.position(span.source, span.start).line;
        let words: Vec<_> = std::iter::once(&directive.name).chain(&directive.args).collect();
        (1..words.len())
            .find(|&n| {
                let bare = words[n].quote.is_none() && (self.is_directive)(&words[n].text);
                bare && line(words[n].span) > line(words[n - 1].span)
            })
            .map(|n| n - 1)
    }
}

/// Adds to a finding that a `;` may be missing before an argument.
pub(crate) fn next_directive(found: Diagnostic, directive: &Directive, at: usize) -> Diagnostic {
    let before = if at == 0 { directive.name.span } else { directive.args[at - 1].span };
    found
        .also(directive.args[at].span, "this looks like the next directive")
        .help("a `;` may be missing before it")
        .fix(Span { start: before.end, ..before }, ";")
}
