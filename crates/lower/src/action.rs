//! Actions.

use std::sync::Arc;

use weir_http::{HeadRules, UnusualNames};
use weir_model as model;
use weir_plan as plan;
use weir_plan::{HeadTemplate, HeaderName, HeaderSet, Secret};

use crate::context::Cx;

/// Most field lines of a response: many more than anybody sends.
const RESPONSE_FIELDS: usize = 1000;

impl<'m> Cx<'m> {
    pub(crate) fn action(&mut self, action: &'m model::Action) -> plan::Action {
        match action {
            model::Action::Static => plan::Action::Static,
            model::Action::Proxy(proxy) if proxy.http2 => plan::Action::Http2(self.proxy(proxy)),
            model::Action::Proxy(proxy) => plan::Action::Proxy(self.proxy(proxy)),
            model::Action::FastCgi(fastcgi) => plan::Action::FastCgi(self.fastcgi(fastcgi)),
            model::Action::Respond(respond) => plan::Action::Respond(self.respond(respond)),
            model::Action::StubStatus => plan::Action::StubStatus,
            model::Action::EmptyGif => plan::Action::EmptyGif,
            model::Action::Stats(page) => plan::Action::Stats(Arc::new(self.stats_page(page))),
            model::Action::Metrics(form) => plan::Action::Metrics(*form),
            model::Action::Dashboard(dashboard) => plan::Action::Dashboard(*dashboard),
            model::Action::Api(writes) => plan::Action::Api(*writes),
        }
    }

    fn stats_page(&mut self, page: &'m model::StatsPage) -> plan::StatsPage {
        plan::StatsPage {
            uri: page.uri.as_str().into(),
            hide_version: page.hide_version,
            realm: page.realm.as_str().into(),
            users: page.users.iter().map(|(name, word)| (name.clone(), Secret::new(word))).collect(),
            refresh: page.refresh,
            show_legends: page.show_legends,
            description: page.description.as_deref().map(Box::from),
            node: page.node.as_deref().map(Box::from),
            scope: page.scope.as_slice().into(),
            admin: page.admin.as_ref().map(|condition| self.condition(condition)),
        }
    }

    fn proxy(&mut self, proxy: &'m Arc<model::Proxy>) -> Arc<plan::Proxy> {
        if let Some(known) = self.shared.proxies.find(proxy) {
            return known;
        }
        let uri = match &proxy.uri {
            model::UpstreamUri::Pass => plan::UpstreamUri::Pass,
            model::UpstreamUri::Replace(path) => plan::UpstreamUri::Replace(path.as_str().into()),
            model::UpstreamUri::Template(path) => plan::UpstreamUri::Template(self.template(path)),
        };
        let compiled = plan::Proxy {
            target: self.proxy_target(&proxy.target),
            tls: proxy.tls.as_ref().map(|tls| Box::new(self.upstream_tls(tls))),
            host: proxy.host.as_str().into(),
            uri,
            method: self.optional_template(proxy.method.as_ref()),
            http_1_1: proxy.http_1_1,
            grpc: proxy.grpc,
            announce_close: proxy.announce_close,
            head: self.head(&proxy.request_headers),
            pass_request_headers: proxy.pass_request_headers,
            pass_request_body: proxy.pass_request_body,
            body: self.optional_template(proxy.body.as_ref()),
            retry: self.retry_policy(&proxy.settings.retry),
            heads: response_heads(&proxy.settings),
            settings: self.upstream_settings(&proxy.settings),
            hide_headers: self.header_set(&proxy.hide_headers),
            redirects: self.redirects(&proxy.redirects),
            cookie_rewrites: self.cookie_rewrites(&proxy.cookie_rewrites),
            ignore_headers: self.header_set(&proxy.ignore_headers),
            accel: proxy.accel,
            bind: self.optional_template(proxy.bind.as_ref()),
            transparent: proxy.transparent,
            cache: proxy.cache.as_deref().map(|cache| {
                let set = |(name, _): &(String, model::Template)| name.eq_ignore_ascii_case("authorization");
                let hidden = !proxy.pass_request_headers || proxy.request_headers.iter().any(set);
                self.caching(cache, hidden)
            }),
            store: proxy.store.as_deref().map(|store| self.store(store)),
        };
        self.shared.proxies.keep(proxy, Arc::new(compiled))
    }

    fn fastcgi(&mut self, fastcgi: &'m Arc<model::FastCgi>) -> Arc<plan::FastCgi> {
        if let Some(known) = self.shared.fastcgi.find(fastcgi) {
            return known;
        }
        let params = fastcgi.params.iter().map(|param| plan::FastCgiParam {
            name: param.name.as_str().into(),
            value: self.template(&param.value),
            if_not_empty: param.if_not_empty,
        });
        let params = params.collect();
        let compiled = plan::FastCgi {
            spoken: fastcgi.spoken,
            target: self.proxy_target(&fastcgi.target),
            tls: fastcgi.tls.as_ref().map(|tls| Box::new(self.upstream_tls(tls))),
            bind: self.optional_template(fastcgi.bind.as_ref()),
            transparent: fastcgi.transparent,
            key: self.optional_template(fastcgi.key.as_ref()),
            params,
            index: fastcgi.index.as_deref().map(Box::from),
            split_path_info: fastcgi.split_path_info.as_ref().map(|pattern| self.pattern(pattern)),
            pass_request_headers: fastcgi.pass_request_headers,
            usual_names: fastcgi.usual_names,
            silent: fastcgi.silent,
            pass_request_body: fastcgi.pass_request_body,
            keep_connection: fastcgi.keep_connection,
            retry: self.retry_policy(&fastcgi.settings.retry),
            settings: self.upstream_settings(&fastcgi.settings),
            hide_headers: self.header_set(&fastcgi.hide_headers),
            ignore_headers: self.header_set(&fastcgi.ignore_headers),
            cache: fastcgi.cache.as_deref().map(|cache| self.caching(cache, false)),
            store: fastcgi.store.as_deref().map(|store| self.store(store)),
        };
        self.shared.fastcgi.keep(fastcgi, Arc::new(compiled))
    }

    fn store(&mut self, store: &model::StoreFiles) -> Arc<plan::StoreFiles> {
        Arc::new(plan::StoreFiles { path: self.optional_template(store.path.as_ref()), access: store.access })
    }

    fn caching(&mut self, cache: &'m model::Caching, hides_credentials: bool) -> Arc<plan::Caching> {
        use weir_expr::{Piece, Var};
        let credentials = |piece: &Piece<String>| match piece {
            Piece::Var(Var::Header(name) | Var::HeaderUnderscored(name), _) => name == "authorization",
            Piece::Var(Var::RemoteUser, _) => true,
            _ => false,
        };
        Arc::new(plan::Caching {
            // Zones that variables name are counted together, for none of them.
            counts_as: plan::CountedKind::Cache.id(match &cache.zone {
                model::CacheZoneUse::Named(name) => name,
                model::CacheZoneUse::Computed(_) => "",
            }),
            zone: match &cache.zone {
                model::CacheZoneUse::Named(name) => plan::CacheZoneUse::Known(self.cache_zone_ix(name)),
                model::CacheZoneUse::Computed(name) => plan::CacheZoneUse::Computed(self.template(name)),
            },
            key: self.optional_template(cache.key.as_ref()),
            key_has_credentials: cache.key.iter().any(|key| key.pieces.iter().any(credentials)),
            hides_credentials,
            bypass: cache.bypass.iter().map(|template| self.template(template)).collect(),
            no_store: cache.no_store.iter().map(|template| self.template(template)).collect(),
            purge: cache.purge.iter().map(|template| self.template(template)).collect(),
            settings: cache.settings.clone(),
        })
    }

    pub(crate) fn proxy_target(&mut self, target: &model::ProxyTarget) -> plan::ProxyTarget {
        match target {
            model::ProxyTarget::Pool(name) => plan::ProxyTarget::Pool(self.pool_ix(name)),
            model::ProxyTarget::Computed(template) => plan::ProxyTarget::Computed(self.template(template)),
        }
    }

    fn head(&mut self, fields: &'m Vec<(String, model::Template)>) -> Arc<HeadTemplate> {
        if let Some(known) = self.shared.heads.find(fields) {
            return known;
        }
        let resolved: Vec<(HeaderName, plan::Template)> =
            fields.iter().map(|(name, value)| (HeaderName::new(name), self.template(value))).collect();
        let head = HeadTemplate::new(resolved.iter().map(|(name, value)| (name, value)));
        self.shared.heads.keep(fields, Arc::new(head))
    }

    fn header_set(&mut self, names: &'m Vec<String>) -> Arc<HeaderSet> {
        if let Some(known) = self.shared.header_sets.find(names) {
            return known;
        }
        let set = HeaderSet::new(names.iter().map(String::as_str));
        self.shared.header_sets.keep(names, Arc::new(set))
    }

    fn upstream_settings(
        &mut self,
        settings: &'m Arc<weir_expr::settings::UpstreamSettings>,
    ) -> Arc<weir_expr::settings::UpstreamSettings> {
        match self.shared.upstream.find(settings) {
            Some(known) => known,
            None => self.shared.upstream.keep(settings, settings.clone()),
        }
    }

    fn redirects(&mut self, rewrites: &'m Vec<model::RedirectRewrite>) -> Arc<[plan::RedirectRewrite]> {
        if let Some(known) = self.shared.redirects.find(rewrites) {
            return known;
        }
        let compiled = rewrites
            .iter()
            .map(|rewrite| plan::RedirectRewrite {
                from: self.text_match(&rewrite.from),
                to: self.template(&rewrite.to),
            })
            .collect();
        self.shared.redirects.keep(rewrites, compiled)
    }

    fn cookie_rewrites(&mut self, rewrites: &'m Vec<model::CookieRewrite>) -> Arc<[plan::CookieRewrite]> {
        if let Some(known) = self.shared.cookies.find(rewrites) {
            return known;
        }
        let compiled = rewrites.iter().map(|rewrite| plan::CookieRewrite {
            attribute: rewrite.attribute,
            from: self.text_match(&rewrite.from),
            to: self.template(&rewrite.to),
        });
        let compiled = compiled.collect();
        self.shared.cookies.keep(rewrites, compiled)
    }

    fn text_match(&mut self, text: &'m model::TextMatch) -> plan::TextMatch {
        match text {
            model::TextMatch::Prefix(prefix) => plan::TextMatch::Prefix(self.template(prefix)),
            model::TextMatch::Regex(pattern) => plan::TextMatch::Regex(self.pattern(pattern)),
        }
    }
}

/// What the head of an endpoint's response may measure.
fn response_heads(settings: &weir_expr::settings::UpstreamSettings) -> HeadRules {
    let most = usize::try_from(settings.max_response_head).unwrap_or(usize::MAX);
    HeadRules {
        first_line: most,
        field_line: most,
        head: most,
        fields: RESPONSE_FIELDS,
        unusual_names: UnusualNames::Keep,
        mends: false,
    }
}
