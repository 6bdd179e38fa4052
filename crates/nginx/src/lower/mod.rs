//! From words to the model.
//!
//! Owns: the walk over blocks, the checks every word gets, paths, templates.
//! Never: reads a file that the tree does not hold, but certificates' and tables' names are only carried.
//! Driven by: [`crate::load`].
//! Why: a block is read twice. First every setting, because nginx lets one stand after the blocks it governs; then
//! inner blocks and rewrites in order, with the finished settings.

pub(crate) mod access;
mod admit;
pub(crate) mod args;
pub(crate) mod balance;
pub(crate) mod client;
mod condition;
mod declare;
pub(crate) mod fastcgi;
pub(crate) mod files;
pub(crate) mod gzip;
pub(crate) mod headers;
mod http;
pub(crate) mod listen;
mod listeners;
pub(crate) mod location;
pub(crate) mod log;
pub(crate) mod maps;
pub(crate) mod pool;
pub(crate) mod process;
mod program;
pub(crate) mod proxy;
pub(crate) mod scope;
pub(crate) mod server;
pub(crate) mod sticky;
pub(crate) mod stream;
pub(crate) mod stream_proxy;
pub(crate) mod stream_tls;
mod target;
mod template;
pub(crate) mod tls;
pub(crate) mod upstream_settings;
pub(crate) mod upstream_tls;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use weir_diag::{Diagnostic, Origin, Sources, Span};
use weir_model::settings::LogEscape;
use weir_model::{Address, Listener, Model, Route, RouteId, Template};

pub(crate) use location::Place;
pub(crate) use pool::PoolParts;
pub(crate) use scope::Scope;
pub(crate) use server::ServerParts;
pub(crate) use stream::StreamScope;

use crate::Options;
use crate::files::Files;
use crate::table::{Contexts, Lower};
use crate::tree::Directive;
use crate::variables::Dialect;
use admit::Admitted;
use scope::Level;

/// A named format of access logs.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    pub line: Arc<Template>,
    pub escape: LogEscape,
}

/// The state of one lowering.
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
    /// `$http_a_b` may also mean a field `A_B`.
    pub underscores: bool,
    pub formats: HashMap<String, Format>,
    /// Pools by the name a block or an action has for them, with their names in the model.
    pub pools: BTreeMap<(Dialect, String), String>,
    /// Named locations of the server at hand.
    pub named: HashMap<String, RouteId>,
    /// Error pages of the server at hand, by the list they were made of.
    pub pages: location::PageMemo,
    /// Request fields of proxy actions, by the list they were made of and the version.
    pub fields: proxy::FieldMemo,
    /// Hidden response fields of actions.
    pub hide: proxy::HideMemo,
    /// Names used of limit zones, checked at the end.
    pub zones_used: Vec<(&'static str, String, Span)>,
    /// Where each address of the model's listeners is listened on.
    listened: HashMap<Address, Origin>,
    level: u32,
    /// Unknown words so far.
    strangers: u32,
    /// Where a tuning word was first warned of, and how often it stands.
    tuned: HashMap<&'static str, (usize, usize)>,
}

impl<'a> Lowering<'a> {
    pub(crate) fn new(
        files: &'a dyn Files,
        options: &'a Options,
        sources: &'a Sources,
        folder: PathBuf,
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
            underscores: false,
            formats: HashMap::new(),
            pools: BTreeMap::new(),
            named: HashMap::new(),
            pages: HashMap::new(),
            fields: HashMap::new(),
            hide: HashMap::new(),
            zones_used: Vec::new(),
            level: 0,
            strangers: 0,
            tuned: HashMap::new(),
        }
    }

    /// Lowers a whole configuration.
    pub(crate) fn run(mut self, tree: &[Directive]) -> (Model, Vec<Diagnostic>) {
        process::defaults(&mut self);
        let main = self.admit(tree, Contexts::MAIN);
        for word in &main {
            if let Lower::Process(f) = word.entry.lower {
                f(&mut self, word.directive);
            }
        }
        for word in &main {
            match word.entry.name {
                "events" => self.events(word.directive),
                "http" => http::lower(&mut self, word.directive),
                _ => {}
            }
        }
        // After `http`, wherever it stands: of names that both have it is `stream` that gets another (`register_pool`).
        for word in main.iter().filter(|word| word.entry.name == "stream") {
            stream::lower(&mut self, word.directive);
        }
        process::finish(&mut self, &main);
        access::check_zones(&mut self);
        self.tell_repetitions();
        (self.model, self.diagnostics)
    }

    fn events(&mut self, block: &Directive) {
        for word in self.admit(block.children(), Contexts::EVENTS) {
            if let Lower::Process(f) = word.entry.lower {
                f(self, word.directive);
            }
        }
    }

    /// A name for a block that was just entered.
    pub(crate) fn next_level(&mut self) -> Level {
        self.level += 1;
        Level(self.level)
    }

    /// Applies the words that set something, then computes what depends on several of them.
    pub(crate) fn apply(&mut self, words: &[Admitted<'_>], scope: &mut Scope) {
        for word in words {
            if let Lower::Scope(f) = word.entry.lower {
                f(self, scope, word.directive);
            }
        }
        scope.finish();
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
            found = admit::next_directive(found, directive, at);
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

    fn tell_repetitions(&mut self) {
        for (at, count) in self.tuned.values() {
            if *count > 1 {
                self.diagnostics[*at].help.push(format!("the word stands here {count} times"));
            }
        }
    }
}
