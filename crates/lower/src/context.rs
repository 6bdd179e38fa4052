//! What all passes share.
//!
//! Owns: the tables of names, the findings, the place being looked at, what was compiled before and can be shared.
//! Why: 100,000 routes share a few hundred settings; each is compiled once, found again by its place in memory
//! (groups that inheritance shared) or by its value.

use ahash::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_diag::{Diagnostic, Origin};
use weir_expr::{Slot, Source};
use weir_model::{Model, Pem, RouteId};
use weir_plan::{Log, LogIx, Plan, RouteIx, Template, TlsIdentity, TlsIx, UpstreamTls, UpstreamTlsIx};

use crate::names::Names;
use crate::pattern::Patterns;
use crate::resources::{Options, Resources};
use crate::share::Shared;

pub(crate) struct Cx<'m> {
    pub(crate) model: &'m Model,
    pub(crate) resources: &'m dyn Resources,
    pub(crate) options: Options,
    pub(crate) names: Names<'m>,
    pub(crate) findings: Vec<Diagnostic>,
    /// Where the node being looked at was written; nodes without an origin of their own leave it alone.
    pub(crate) here: Origin,
    /// What the node being looked at came from, if that was no text.
    from: Option<Source>,
    pub(crate) plan: Plan,
    pub(crate) patterns: Patterns<'m>,
    pub(crate) shared: Shared<'m>,
    /// Names of proxies that send on.
    pub(crate) backs: HashSet<&'m str>,
    /// Variables that some instruction or pattern assigns.
    pub(crate) assigned: HashSet<Slot>,
    /// Findings about one thing that many nodes refer to are told once.
    told: HashSet<(&'static str, String)>,
    files: HashMap<PathBuf, Option<Arc<[u8]>>>,
    logs: HashMap<weir_plan::LogTarget, LogIx>,
    identities: HashMap<TlsIdentity, TlsIx>,
    upstreams: HashMap<UpstreamTls, UpstreamTlsIx>,
}

impl<'m> Cx<'m> {
    pub(crate) fn new(model: &'m Model, resources: &'m dyn Resources, options: Options) -> Self {
        let mut findings = Vec::new();
        Self {
            names: Names::collect(model, &mut findings),
            model,
            resources,
            options,
            findings,
            here: None,
            from: None,
            plan: Plan::default(),
            patterns: Patterns::default(),
            shared: Shared::default(),
            backs: model.roster.iter().filter(|one| one.back.is_some()).map(|one| &*one.name).collect(),
            assigned: HashSet::default(),
            told: HashSet::default(),
            files: HashMap::default(),
            logs: HashMap::default(),
            identities: HashMap::default(),
            upstreams: HashMap::default(),
        }
    }

    pub(crate) fn finish(self) -> (Plan, Vec<Diagnostic>) {
        (self.plan, self.findings)
    }

    /// Does something with `here` at a node, if the node knows where it was written.
    pub(crate) fn at<T>(&mut self, origin: Origin, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.here;
        self.here = origin.or(before);
        let done = work(self);
        self.here = before;
        done
    }

    /// Does something at what a certificate, a key or a list came from.
    pub(crate) fn of<T>(&mut self, pem: &Pem, work: impl FnOnce(&mut Self) -> T) -> T {
        let field = matches!(pem.source, Source::Field { .. }).then(|| pem.source.clone());
        let before = std::mem::replace(&mut self.from, field);
        let done = self.at(pem.origin, work);
        self.from = before;
        done
    }

    /// Reports a finding here.
    pub(crate) fn report(&mut self, finding: Diagnostic) {
        if let Some(Source::Field { object, field }) = &self.from {
            self.findings.push(finding.of_field(&**object, &**field));
            return;
        }
        let placed = match (self.here, &finding.primary) {
            (Some(span), None) => finding.at(span),
            _ => finding,
        };
        self.findings.push(placed);
    }

    /// Reports a finding here unless one about `subject` was reported before.
    pub(crate) fn report_once(&mut self, subject: &str, finding: Diagnostic) {
        if self.told.insert((finding.code, subject.to_owned())) {
            self.report(finding);
        }
    }

    /// Reports a file once a place, whatever it was to be: a combined file is chain and key.
    fn report_file_once(&mut self, subject: String, finding: Diagnostic) {
        if self.told.insert(("file", subject)) {
            self.report(finding);
        }
    }

    /// A template with its variables resolved.
    pub(crate) fn template(&mut self, template: &weir_model::Template) -> Template {
        let mut unknown = Vec::new();
        let names = &self.names;
        let resolved = template.try_map(&mut |name: &String| {
            Ok::<_, std::convert::Infallible>(names.slot(name).unwrap_or_else(|| {
                unknown.push(name.clone());
                Slot(u16::MAX)
            }))
        });
        for name in unknown {
            self.unknown_variable(&name);
        }
        let is_local = |var: &weir_model::Var| {
            matches!(var, weir_model::Var::EndpointLocalAddr | weir_model::Var::EndpointLocalPort)
        };
        self.plan.notes_local_ends |= template.vars().any(is_local);
        let is_offer = |var: &weir_model::Var| {
            matches!(var, weir_model::Var::TlsOfferedCiphers | weir_model::Var::TlsOfferedGroups)
        };
        self.plan.notes_offers |= template.vars().any(is_offer);
        self.plan.notes_endpoint_tls |=
            template.vars().any(|var| matches!(var, weir_model::Var::EndpointTls(_)));
        match resolved {
            Ok(template) => template,
            Err(never) => match never {},
        }
    }

    pub(crate) fn optional_template(&mut self, template: Option<&weir_model::Template>) -> Option<Template> {
        template.map(|template| self.template(template))
    }

    pub(crate) fn unknown_variable(&mut self, name: &str) {
        let near =
            weir_diag::nearest(name, self.model.variables.iter().map(|variable| variable.name.as_str()));
        let mut finding = Diagnostic::error("variable::unknown", format!("there is no variable `{name}`"));
        if let Some(near) = near {
            finding = finding.help(format!("did you mean `{near}`?"));
        }
        self.report_once(&format!("{name} {:?}", self.here), finding);
    }

    /// The index of a route. Ids are made by front ends; one that names nothing is their mistake, and said as such.
    pub(crate) fn route_ix(&mut self, id: RouteId) -> RouteIx {
        if id.0 as usize >= self.model.routes.len() {
            let finding = Diagnostic::error(
                "route::unknown",
                format!("a rule refers to route {}, which does not exist", id.0),
            );
            self.report(
                finding.help("this is a mistake in the front end that read the file, not in the file"),
            );
            return RouteIx(0);
        }
        RouteIx(id.0)
    }

    /// The content of a certificate, a key or a list.
    pub(crate) fn bytes_of(&mut self, code: &'static str, what: &str, pem: &Pem) -> Option<Arc<[u8]>> {
        match (&pem.bytes, &pem.source) {
            (Some(bytes), _) => Some(bytes.clone()),
            (None, Source::File(path)) => self.file(code, what, path),
            (None, Source::Field { .. }) => {
                self.report(Diagnostic::error(code, format!("{what} `{}` has no value", pem.source)));
                None
            }
        }
    }

    /// The content of a file; one that cannot be read is reported wherever it is named.
    pub(crate) fn file(&mut self, code: &'static str, what: &str, path: &Path) -> Option<Arc<[u8]>> {
        if let Some(Some(known)) = self.files.get(path) {
            return Some(known.clone());
        }
        match self.resources.read(path) {
            Ok(content) => {
                let content: Arc<[u8]> = content.into();
                self.files.insert(path.to_owned(), Some(content.clone()));
                Some(content)
            }
            Err(error) => {
                let title = format!("cannot read {what} `{}`: {error}", path.display());
                let finding = if self.options.tolerate_unreadable_files {
                    Diagnostic::warning(code, title)
                } else {
                    Diagnostic::error(code, title)
                };
                let subject = format!("{} {:?}", path.display(), self.here);
                self.report_file_once(subject, with_advice(finding, &error));
                None
            }
        }
    }

    /// The index of a log target. Equal targets are one; the first writer's batching holds.
    pub(crate) fn log_ix(&mut self, log: Log) -> LogIx {
        if let Some(&ix) = self.logs.get(&log.target) {
            self.settle_batching(ix, log);
            return ix;
        }
        let ix = LogIx(self.plan.logs.len() as u32);
        self.logs.insert(log.target.clone(), ix);
        self.plan.logs.push(log);
        ix
    }

    fn settle_batching(&mut self, ix: LogIx, log: Log) {
        let plain = |log: &Log| log.buffer.is_none() && log.flush.is_none() && log.gzip.is_none();
        let known = &mut self.plan.logs[ix.at()];
        if *known == log || plain(&log) {
            return;
        }
        if plain(known) {
            *known = log;
            return;
        }
        if let weir_plan::LogTarget::File(path) = &log.target {
            let title = format!("`{}` is written with different buffering elsewhere", path.display());
            let subject = path.display().to_string();
            let finding = Diagnostic::warning("log::buffering-differs", title);
            self.report_once(&subject, finding.help("the buffering written first is used for all"));
        }
    }

    /// The index of an identity, and whether it is a new one.
    pub(crate) fn tls_ix(&mut self, identity: TlsIdentity) -> (TlsIx, bool) {
        if let Some(&ix) = self.identities.get(&identity) {
            return (ix, false);
        }
        let ix = TlsIx(self.plan.tls.len() as u32);
        self.identities.insert(identity.clone(), ix);
        self.plan.tls.push(identity);
        (ix, true)
    }

    /// As [`Cx::tls_ix`].
    pub(crate) fn upstream_tls_ix(&mut self, config: UpstreamTls) -> (UpstreamTlsIx, bool) {
        if let Some(&ix) = self.upstreams.get(&config) {
            return (ix, false);
        }
        let ix = UpstreamTlsIx(self.plan.upstream_tls.len() as u32);
        self.upstreams.insert(config.clone(), ix);
        self.plan.upstream_tls.push(config);
        (ix, true)
    }
}

fn with_advice(finding: Diagnostic, error: &io::Error) -> Diagnostic {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            finding.help("run as the user who may read it, or as root: privileges are dropped later")
        }
        _ => finding,
    }
}
