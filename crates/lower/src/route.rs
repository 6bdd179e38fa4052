//! Routes.

use std::sync::Arc;

use weir_expr::settings::CompressionSettings;
use weir_model as model;
use weir_plan as plan;
use weir_plan::{PathIndex, Prefix, RouteFeatures, RouteIx};
use weir_policy::limit::{RateDelay, RateRule};

use crate::context::Cx;
use crate::resolve::fixed_text;

impl<'m> Cx<'m> {
    pub(crate) fn route(&mut self, route: &'m model::Route) -> plan::Route {
        let mut compiled = plan::Route {
            name: self.shared.text(&route.name),
            counts_for: self.backend(route),
            features: RouteFeatures::empty(),
            internal: route.internal,
            prefix: self.shared.prefix(fixed_text(&route.matching).unwrap_or("/")),
            children: (!route.children.is_empty()).then(|| Box::new(self.path_index(&route.children))),
            program: self.program(&route.program),
            response_program: self.program(&route.response_program),
            try_files: route.try_files.as_ref().map(|try_files| self.try_files(try_files)),
            files: self.static_files(&route.files),
            action: self.action(&route.action),
            settings: self.settings(route),
        };
        compiled.features = RouteFeatures::of(&compiled);
        compiled
    }

    /// The backend that a route stands for.
    fn backend(&self, route: &model::Route) -> Option<plan::PoolId> {
        let stands =
            matches!(route.matching, model::RouteMatch::Referred) && self.backs.contains(&*route.name);
        stands.then(|| plan::PoolId::from_name(&route.name))
    }

    /// The index of one level: a site's routes or the children of a route.
    pub(crate) fn path_index(&mut self, routes: &'m [model::RouteId]) -> PathIndex {
        let (mut exact, mut prefixes, mut patterns) = (Vec::new(), Vec::new(), Vec::new());
        for &id in routes {
            let ix = self.route_ix(id);
            let Some(route) = self.model.routes.get(ix.at()) else { continue };
            match &route.matching {
                model::RouteMatch::Exact(path) => {
                    // nginx redirects `/dir` to what is handed on at `= /dir/`, as it does for prefixes.
                    let handed_on =
                        matches!(route.action, model::Action::Proxy(_) | model::Action::FastCgi(_));
                    exact.push((path.as_bytes().into(), ix, handed_on));
                }
                model::RouteMatch::Prefix { path, stop, auto_redirect } => prefixes.push(Prefix {
                    path: path.as_bytes().into(),
                    route: ix,
                    stop: *stop,
                    auto_redirect: *auto_redirect,
                }),
                model::RouteMatch::Regex(pattern) => {
                    let compiled = self.at(route.origin, |cx| cx.pattern(pattern));
                    patterns.push((compiled, ix));
                }
                model::RouteMatch::Named(_) | model::RouteMatch::Referred => {}
            }
        }
        PathIndex::new(exact, prefixes, patterns)
    }

    /// The routes of a site that are entered by name.
    pub(crate) fn named_routes(&mut self, routes: &'m [model::RouteId]) -> Box<[(Box<str>, RouteIx)]> {
        let mut named = Vec::new();
        for &id in routes {
            let ix = self.route_ix(id);
            if let Some(model::Route { matching: model::RouteMatch::Named(name), .. }) =
                self.model.routes.get(ix.at())
            {
                named.push((name.as_str().into(), ix));
            }
        }
        named.into()
    }

    fn settings(&mut self, route: &'m model::Route) -> Arc<plan::RouteSettings> {
        let settings = plan::RouteSettings {
            limit_req: self.limit_req(&route.limit_req),
            limit_conn: self.limit_conn(&route.limit_conn),
            access: self.access(&route.access),
            real_ip: route.real_ip.as_ref().map(|rules| self.real_ip(rules)),
            mirrors: route.mirrors.clone(),
            afterwards: route.afterwards.as_ref().map(|after| match after {
                model::Afterwards::Path(path) => plan::Afterwards::Path(path.as_str().into()),
                model::Afterwards::Named(route) => plan::Afterwards::Named(self.route_ix(*route)),
            }),
            error_pages: self.error_pages(&route.error_pages),
            recursive_error_pages: route.recursive_error_pages,
            response_edits: self.response_edits(&route.response_edits),
            request_edits: self.response_edits(&route.request_edits),
            expires: route.expires.as_ref().map(|expires| self.expires(expires)),
            compression: route.compression.iter().map(|one| self.compression(one)).collect(),
            filters: route
                .filters
                .as_deref()
                .map(|filters| self.at(route.origin, |cx| cx.body_filters(filters))),
            facts: route.facts.as_deref().map(|facts| self.facts(facts)),
            access_logs: self.access_logs(&route.access_logs),
            error_logs: match &route.error_logs {
                Some(logs) => self.error_logs(logs),
                None => self.plan.process.error_logs.clone(),
            },
            log_not_found: route.log_not_found,
            body: match self.shared.body.find(&route.body) {
                Some(known) => known,
                None => self.shared.body.keep(&route.body, route.body.clone()),
            },
            client: self.client_settings(&route.client),
            limit_rate: slowest(route.limit_rate, upstream_rate(&route.action)),
            // What an upstream may send at once is nobody's business but its own.
            limit_rate_after: match upstream_rate(&route.action) {
                Some(_) if route.limit_rate.is_none() => 0,
                _ => route.limit_rate_after,
            },
            slice: route.slice,
            chunked: route.chunked,
            early_hints: route.early_hints.iter().map(|condition| self.template(condition)).collect(),
            tracing: route.tracing.as_ref().map(|tracing| Box::new(self.tracing(tracing))),
            resolver: match &route.resolver {
                Some(resolver) => Some(self.resolver(resolver)),
                None => self.plan.resolver.clone(),
            },
            zone: route.zone.as_deref().map(|name| self.counted(name, plan::CountedKind::Routes)),
        };
        self.shared.settings(settings)
    }

    fn tracing(&mut self, tracing: &'m model::Tracing) -> plan::Tracing {
        let attributes = tracing.attributes.iter();
        plan::Tracing {
            when: tracing.when.as_ref().map(|when| self.template(when)),
            context: tracing.context,
            name: tracing.name.as_ref().map(|name| self.template(name)),
            attributes: attributes
                .map(|(name, value)| (name.as_str().into(), self.template(value)))
                .collect(),
        }
    }

    pub(crate) fn client_settings(
        &mut self,
        settings: &'m Arc<weir_expr::settings::ClientSettings>,
    ) -> Arc<weir_expr::settings::ClientSettings> {
        match self.shared.client.find(settings) {
            Some(known) => known,
            None => self.shared.client.keep(settings, settings.clone()),
        }
    }

    fn limit_req(&mut self, limits: &'m Vec<model::LimitReq>) -> Arc<[plan::LimitReq]> {
        if let Some(known) = self.shared.limit_req.find(limits) {
            return known;
        }
        let compiled = limits.iter().map(|limit| plan::LimitReq {
            zone: self.req_zone_ix(&limit.zone),
            rule: RateRule { burst: limit.burst, delay: rate_delay(limit.delay) },
            status: limit.status,
            log_level: limit.log_level,
            dry_run: limit.dry_run,
        });
        let compiled = compiled.collect();
        self.shared.limit_req.keep(limits, compiled)
    }

    pub(crate) fn limit_conn(&mut self, limits: &'m Vec<model::LimitConn>) -> Arc<[plan::LimitConn]> {
        if let Some(known) = self.shared.limit_conn.find(limits) {
            return known;
        }
        let compiled = limits.iter().map(|limit| plan::LimitConn {
            zone: self.conn_zone_ix(&limit.zone),
            limit: limit.limit,
            status: limit.status,
            log_level: limit.log_level,
            dry_run: limit.dry_run,
        });
        let compiled = compiled.collect();
        self.shared.limit_conn.keep(limits, compiled)
    }

    fn error_pages(&mut self, pages: &'m Vec<model::ErrorPage>) -> Arc<plan::ErrorPages> {
        if let Some(known) = self.shared.error_pages.find(pages) {
            return known;
        }
        let compiled = pages.iter().map(|page| {
            let target = match &page.target {
                model::ErrorTarget::Uri(uri) => plan::ErrorTarget::Uri(self.template(uri)),
                model::ErrorTarget::Named(route) => plan::ErrorTarget::Named(self.route_ix(*route)),
                model::ErrorTarget::Redirect(to) => plan::ErrorTarget::Redirect(self.template(to)),
                model::ErrorTarget::RawFile(path) => {
                    let content = self.file("error-page::unreadable-file", "the error page", path);
                    let status = page.statuses.first().copied().unwrap_or_default();
                    plan::ErrorTarget::Whole(Arc::new(plan::whole_response(
                        status,
                        &content.unwrap_or_default(),
                    )))
                }
            };
            (page.statuses.clone(), plan::ErrorPage { answer: page.answer, target })
        });
        let compiled = Arc::new(plan::ErrorPages::new(compiled.collect()));
        self.shared.error_pages.keep(pages, compiled)
    }

    fn response_edits(&mut self, edits: &'m Vec<model::HeaderEdit>) -> Arc<[plan::HeaderEdit]> {
        if let Some(known) = self.shared.response_edits.find(edits) {
            return known;
        }
        let compiled = edits.iter().map(|edit| self.header_edit(edit)).collect();
        self.shared.response_edits.keep(edits, compiled)
    }

    fn expires(&mut self, expires: &'m model::Expires) -> Arc<plan::Expires> {
        if let Some(known) = self.shared.expires.find(expires) {
            return known;
        }
        let compiled = match expires {
            model::Expires::After(seconds) => plan::Expires::After(*seconds),
            model::Expires::AfterModified(seconds) => plan::Expires::AfterModified(*seconds),
            model::Expires::Daily(second) => plan::Expires::Daily(*second),
            model::Expires::Epoch => plan::Expires::Epoch,
            model::Expires::Max => plan::Expires::Max,
            model::Expires::Template(template) => plan::Expires::Template(self.template(template)),
        };
        self.shared.expires.keep(expires, Arc::new(compiled))
    }

    pub(crate) fn compression(&mut self, settings: &'m Arc<CompressionSettings>) -> Arc<plan::Compression> {
        if let Some(known) = self.shared.compressions.find(settings) {
            return known;
        }
        let disable = settings.disable.iter().map(|source| self.text_pattern(source)).collect();
        self.shared.compressions.keep(settings, Arc::new(plan::Compression::new(settings.clone(), disable)))
    }
}

/// Requests of a burst that pass without delay, as those that wait.
fn rate_delay(passing: Option<u32>) -> RateDelay {
    match passing {
        None => RateDelay::None,
        Some(0) => RateDelay::All,
        Some(beyond) => RateDelay::Beyond(beyond),
    }
}

/// The routes below these, themselves included.
pub(crate) fn descend(model: &model::Model, roots: &[model::RouteId], visit: &mut impl FnMut(RouteIx)) {
    for id in roots {
        let Some(route) = model.routes.get(id.0 as usize) else { continue };
        visit(RouteIx(id.0));
        descend(model, &route.children, visit);
    }
}

/// How fast the answer of an upstream may come.
fn upstream_rate(action: &model::Action) -> Option<u64> {
    match action {
        model::Action::Proxy(proxy) => proxy.settings.limit_rate,
        model::Action::FastCgi(gateway) => gateway.settings.limit_rate,
        _ => None,
    }
}

fn slowest(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one.filter(|&rate| rate > 0), other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (None, Some(other)) => Some(other),
        (_, None) => one,
    }
}
