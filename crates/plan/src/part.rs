//! A small plan cut out of a large one: what a tunnel needs to be counted and logged when it ends.
//!
//! Owns: [`Part`], and the choice of what goes into it.
//! Never: serves a request; it has no paths, no programs and no TLS.
//! Driven by: `engine::exchange::detach`, once for the tunnels of a route.
//! Why: tunnels live for days. One that held on to its plan would keep thousands of sites in memory after a reload,
//! and each reload another thousands.

use std::sync::Arc;

use weir_expr::{Piece, Slot};

use crate::{
    Access, AccessLog, Action, BasicAuth, BodyFilters, Condition, Definition, ErrorLog, ErrorPages, Facts,
    HeadTemplate, Listener, ListenerIx, LogIx, LogTarget, NameIndex, PathIndex, Plan, Pool, PoolIx, Process,
    Proxy, ProxyTarget, Route, RouteFeatures, RouteIx, RouteSettings, SecureLink, Service, Site, SiteIx,
    StaticFiles, Subject, TcpAction, TcpIx, TcpService, Template, Variable,
};

/// What is kept. In the part each of them has index 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PartOf {
    /// Where the connection arrived.
    pub listener: ListenerIx,
    /// Site and route of an exchange.
    pub http: Option<(SiteIx, RouteIx)>,
    /// Service of a session.
    pub tcp: Option<TcpIx>,
    /// The pool in use.
    pub pool: Option<PoolIx>,
}

/// A small plan, and where its logs were in the large one.
#[derive(Debug)]
pub struct Part {
    /// The small plan.
    pub plan: Plan,
    /// The log that `LogIx(n)` of the small plan is in the large one.
    pub logs: Vec<LogIx>,
}

impl Plan {
    /// Cuts a part out. Nothing in it refers to the whole.
    pub fn part(&self, of: PartOf) -> Part {
        let mut cut = Cut { whole: self, logs: Vec::new(), variables: Vec::new() };
        let process = Process { error_logs: cut.error_logs(&self.process.error_logs), ..Process::default() };
        let sites = of.http.map(|(site, _)| slim_site(self.site(site)));
        let routes = of.http.map(|(_, route)| cut.route(self.route(route)));
        let tcp = of.tcp.map(|tcp| cut.service(self.tcp_service(tcp)));
        let pool = of.pool.or_else(|| pool_of(self.route(of.http?.1)));
        let listener = slim_listener(self.listener(of.listener), of.tcp.is_some());
        let plan = Plan {
            process,
            listeners: vec![listener],
            sites: sites.into_iter().collect(),
            routes: routes.into_iter().collect(),
            tcp: tcp.into_iter().collect(),
            pools: pool.map(|pool| Pool::clone(self.pool(pool))).into_iter().collect(),
            logs: cut.logs.iter().map(|&log| self.log(log).clone()).collect(),
            variables: cut.variables,
            counts_details: self.counts_details,
            ..Plan::default()
        };
        Part { plan, logs: cut.logs }
    }
}

/// What is being cut out.
struct Cut<'w> {
    whole: &'w Plan,
    logs: Vec<LogIx>,
    variables: Vec<Variable>,
}

impl Cut<'_> {
    fn route(&mut self, route: &Route) -> Route {
        self.template(&route.files.root);
        let action = match &route.action {
            Action::Proxy(proxy) | Action::Http2(proxy) => {
                if let ProxyTarget::Computed(target) = &proxy.target {
                    self.template(target);
                }
                let slim = Arc::new(slim_proxy(proxy));
                match &route.action {
                    Action::Http2(_) => Action::Http2(slim),
                    _ => Action::Proxy(slim),
                }
            }
            other => other.clone(),
        };
        let settings = &route.settings;
        Route {
            name: route.name.clone(),
            counts_for: route.counts_for,
            features: RouteFeatures::empty(),
            internal: route.internal,
            prefix: route.prefix.clone(),
            children: None,
            program: None,
            response_program: None,
            try_files: None,
            files: Arc::new(slim_files(&route.files)),
            action,
            settings: Arc::new(RouteSettings {
                limit_req: Arc::default(),
                limit_conn: Arc::default(),
                access: Arc::default(),
                real_ip: None,
                mirrors: None,
                afterwards: None,
                error_pages: Arc::new(ErrorPages::default()),
                response_edits: Arc::default(),
                request_edits: Arc::default(),
                expires: None,
                compression: Box::default(),
                filters: self.trailers(settings),
                facts: self.facts(settings),
                access_logs: self.access_logs(&settings.access_logs),
                error_logs: self.error_logs(&settings.error_logs),
                body: settings.body.clone(),
                client: settings.client.clone(),
                resolver: None,
                ..RouteSettings::clone(settings)
            }),
        }
    }

    /// Of the filters, what is asked for once a body has ended.
    fn trailers(&mut self, settings: &RouteSettings) -> Option<Arc<BodyFilters>> {
        let filters = settings.filters.as_ref().filter(|filters| !filters.trailers.is_empty())?;
        filters.trailers.iter().for_each(|trailer| self.template(&trailer.value));
        Some(Arc::new(BodyFilters { trailers: filters.trailers.clone(), ..BodyFilters::default() }))
    }

    /// A line of a log may show them.
    fn facts(&mut self, settings: &RouteSettings) -> Option<Arc<Facts>> {
        let facts = settings.facts.clone()?;
        if let Some(SecureLink::Signed { shown, signed }) = &facts.secure_link {
            [shown, signed].into_iter().for_each(|template| self.template(template));
        }
        facts.user_ids.iter().for_each(|ids| self.template(&ids.reset));
        Some(facts)
    }

    fn service(&mut self, service: &TcpService) -> TcpService {
        TcpService {
            id: service.id,
            name: service.name.clone(),
            action: TcpAction::Respond(Template::default()),
            inspect: None,
            program: None,
            access: Arc::new(Access::default()),
            limit_conn: Arc::default(),
            real_ip: None,
            resolver: None,
            access_logs: self.access_logs(&service.access_logs),
            error_logs: self.error_logs(&service.error_logs),
            ..service.clone()
        }
    }

    fn access_logs(&mut self, logs: &[AccessLog]) -> Arc<[AccessLog]> {
        logs.iter()
            .map(|log| {
                self.template(log.format.template());
                log.condition.iter().for_each(|template| self.template(template));
                log.only.iter().for_each(|condition| self.condition(condition));
                AccessLog { log: self.log(log.log), ..log.clone() }
            })
            .collect()
    }

    fn error_logs(&mut self, logs: &[ErrorLog]) -> Arc<[ErrorLog]> {
        logs.iter().map(|log| ErrorLog { log: self.log(log.log), level: log.level }).collect()
    }

    fn log(&mut self, log: LogIx) -> LogIx {
        let at = self.logs.iter().position(|known| *known == log).unwrap_or_else(|| {
            self.logs.push(log);
            self.logs.len() - 1
        });
        let whole = self.whole;
        if let LogTarget::FileTemplate(path) = &whole.log(log).target {
            self.template(path);
        }
        LogIx(at as u32)
    }

    /// Keeps the variables that a template shows, and those that they are made of.
    fn template(&mut self, template: &Template) {
        for piece in &template.pieces {
            if let Piece::Var(weir_expr::Var::User(slot), _) = piece {
                self.variable(*slot);
            }
        }
    }

    fn variable(&mut self, slot: Slot) {
        let at = usize::from(slot.0);
        let Some(variable) = self.whole.variables.get(at) else { return };
        while self.variables.len() <= at {
            self.variables.push(Variable { name: "".into(), definition: Definition::Assigned });
        }
        if !self.variables[at].name.is_empty() {
            return;
        }
        self.variables[at] = variable.clone();
        match &variable.definition {
            Definition::Assigned => {}
            Definition::Map(table) => table.templates().for_each(|template| self.template(template)),
            Definition::Geo { source, values, default, .. } => {
                source.iter().chain(values.iter()).chain([default]).for_each(|t| self.template(t));
            }
            Definition::Listed { source, default, .. } => {
                [source, default].into_iter().for_each(|template| self.template(template));
            }
            Definition::Keyval { key, .. } => self.template(key),
            Definition::Numbers(table) => table.templates().for_each(|template| self.template(template)),
            Definition::Converted { source, steps } => {
                self.template(source);
                for step in steps {
                    step.templates().iter().for_each(|template| self.template(template));
                    step.written().into_iter().for_each(|slot| self.variable(slot));
                }
            }
            Definition::Database(using) => using.source.iter().for_each(|source| self.template(source)),
            Definition::Split { key, shares } => {
                shares.iter().map(|share| &share.1).chain([key]).for_each(|t| self.template(t));
            }
        }
    }

    fn condition(&mut self, condition: &Condition) {
        match condition {
            Condition::Always(_) => {}
            Condition::Truthy(template) | Condition::File { path: template, .. } => self.template(template),
            Condition::Test { subject: Subject::Value(template), .. } => self.template(template),
            Condition::Test { .. } => {}
            Condition::User(auth) => self.auth(auth),
            Condition::Not(inner) => self.condition(inner),
            Condition::All(all) | Condition::Any(all) => all.iter().for_each(|inner| self.condition(inner)),
        }
    }

    fn auth(&mut self, auth: &BasicAuth) {
        if let crate::Users::File(path) = &auth.users {
            self.template(path);
        }
    }
}

/// The pool that a route names.
fn pool_of(route: &Route) -> Option<PoolIx> {
    match route.action.proxy()?.target {
        ProxyTarget::Pool(pool) => Some(pool),
        ProxyTarget::Computed(_) => None,
    }
}

fn slim_site(site: &Site) -> Site {
    Site { paths: PathIndex::default(), program: None, fallback: RouteIx(0), ..site.clone() }
}

fn slim_listener(listener: &Listener, tcp: bool) -> Listener {
    let service =
        if tcp { Service::Tcp(TcpIx(0)) } else { Service::Http(Arc::new(NameIndex::new(SiteIx(0)))) };
    Listener { tls: None, service, services: None, ..listener.clone() }
}

/// Files without indexes and media types: `$document_root` is all that is asked of them.
fn slim_files(files: &StaticFiles) -> StaticFiles {
    let types = crate::MimeTable::new([], "", None, Arc::default());
    StaticFiles { index: Box::default(), types: Arc::new(types), ..files.clone() }
}

/// What `$proxy_host` and the words of an error say.
fn slim_proxy(proxy: &Proxy) -> Proxy {
    let target = match &proxy.target {
        ProxyTarget::Pool(_) => ProxyTarget::Pool(PoolIx(0)),
        computed => computed.clone(),
    };
    Proxy {
        target,
        head: Arc::new(HeadTemplate::default()),
        body: None,
        cache: None,
        redirects: Arc::default(),
        cookie_rewrites: Arc::default(),
        ..proxy.clone()
    }
}
