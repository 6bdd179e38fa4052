//! A route of finished settings.
//!
//! Owns: which setting becomes which field of a route.
//! Driven by: `location`, `program`, `server`.

use std::sync::Arc;

use weir_diag::{Diagnostic, Span};
use weir_expr::settings::{CompressionSettings, Exposition, Video};
use weir_model::{
    Action, Afterwards, BodyFilters, Charset, ErrorPage, ErrorTarget, HeaderEdit, Route, RouteMatch,
    StaticFiles,
};

use super::admit::Admitted;
use crate::lexer::Word;
use crate::table::Taker;
use crate::take::location::named;
use crate::take::parts::{ActionSpec, VideoKind};
use crate::take::{Lowering, Place, Scope, access, fastcgi, grpc, proxy, token};

/// Applies the words of a place.
pub(crate) fn apply_place(lo: &mut Lowering<'_>, words: &[Admitted<'_>], place: &mut Place) {
    for word in words {
        if let Taker::Place(f) = word.entry.taker {
            f(lo, place, word.directive);
        }
    }
}

/// A route without program and children.
pub(crate) fn route(
    lo: &mut Lowering<'_>,
    s: &Scope,
    place: &Place,
    name: String,
    span: Span,
    matching: RouteMatch,
) -> Route {
    access::check_realm(lo, s);
    token::check(lo, s);
    let passes =
        matches!(place.action, Some(ActionSpec::Proxy(_) | ActionSpec::Grpc(_) | ActionSpec::FastCgi(..)));
    if let Some(health) = place.health.as_ref().filter(|_| !passes) {
        let title =
            "`health_check` stands beside `proxy_pass`, `grpc_pass`, `fastcgi_pass` or another of those";
        lo.report(Diagnostic::error("nginx::health-check", title).at(health.span));
    }
    let action = match &place.action {
        None | Some(ActionSpec::Video(_)) => Action::Static,
        Some(ActionSpec::StubStatus) => Action::StubStatus,
        Some(ActionSpec::EmptyGif) => Action::EmptyGif,
        Some(ActionSpec::Metrics) => Action::Metrics(Exposition::Own),
        Some(ActionSpec::Dashboard(dashboard)) => Action::Dashboard(*dashboard),
        Some(ActionSpec::Api(writes)) => Action::Api(*writes),
        Some(ActionSpec::Proxy(spec)) => proxy::action(lo, &s.proxy, place, spec),
        Some(ActionSpec::Grpc(spec)) => grpc::action(lo, &s.grpc, place, spec),
        Some(ActionSpec::FastCgi(spoken, target)) => fastcgi::action(lo, s, place, (*spoken, target), span),
    };
    Route {
        name,
        origin: Some(span),
        matching,
        children: Vec::new(),
        internal: place.internal,
        program: Vec::new(),
        limit_req: s.built.limit_req.clone(),
        limit_conn: s.built.limit_conn.clone(),
        access: s.built.access.clone(),
        real_ip: s.built.real_ip.clone(),
        mirrors: s.built.mirrors.clone(),
        afterwards: afterwards(lo, s),
        try_files: place.try_files.clone(),
        files: files(s, place),
        action,
        error_pages: error_pages(lo, s),
        recursive_error_pages: s.recursive_error_pages,
        response_edits: response_edits(s),
        request_edits: s.more_input_headers.clone(),
        response_program: Vec::new(),
        expires: s.expires.clone(),
        compression: compression(s),
        filters: filters(lo, s),
        facts: s.parts.facts.build(&lo.server_names),
        access_logs: s.access_logs.items().clone(),
        error_logs: s.built.error_logs.clone(),
        log_not_found: s.log_not_found,
        body: s.body.clone(),
        client: s.client.clone(),
        limit_rate: s.limit_rate,
        limit_rate_after: s.limit_rate_after,
        slice: std::num::NonZeroU64::new(s.slice),
        chunked: s.chunked,
        early_hints: s.early_hints.items().clone(),
        tracing: super::super::take::otel::built(s),
        resolver: s.built.resolver.clone(),
        zone: s.zone.clone(),
    }
}

/// What is requested once a request has ended. A name that no location has asks for nothing.
fn afterwards(lo: &mut Lowering<'_>, s: &Scope) -> Option<Afterwards> {
    let (target, span) = s.parts.post_action.clone()?;
    match target.starts_with('@') {
        true => named(lo, &target, span).map(Afterwards::Named),
        false => Some(Afterwards::Path(target)),
    }
}

/// The codings that are on, the ones that pack tighter first. `gzip_vary` counts for all.
fn compression(s: &Scope) -> Vec<Arc<CompressionSettings>> {
    let mut all = Vec::new();
    for (on, settings) in [(s.brotli_on, &s.brotli), (s.zstd_on, &s.zstd), (s.gzip_on, &s.gzip)] {
        if on {
            let mut settings = settings.clone();
            if settings.vary != s.gzip.vary {
                Arc::make_mut(&mut settings).vary = s.gzip.vary;
            }
            all.push(settings);
        }
    }
    all
}

/// Filters of bodies. What goes by words about compression, or by tables of the whole file, is added here.
fn filters(lo: &Lowering<'_>, s: &Scope) -> Option<Arc<BodyFilters>> {
    let built = s.built.filters.as_ref();
    let tables = built.and_then(|filters| filters.charset.as_ref()).is_some_and(converts);
    if !s.gunzip && !tables {
        return built.cloned();
    }
    let mut all = built.map(|filters| BodyFilters::clone(filters)).unwrap_or_default();
    all.unpack = s.gunzip.then(|| s.gzip.clone());
    if let Some(charset) = all.charset.as_mut().filter(|_| tables) {
        charset.maps = lo.charset_maps.clone();
    }
    Some(Arc::new(all))
}

fn converts(charset: &Charset) -> bool {
    charset.source.is_some() || charset.overrides
}

/// Edits of responses: headers-more comes before `add_header`.
fn response_edits(s: &Scope) -> Arc<Vec<HeaderEdit>> {
    let added = s.add_headers.items();
    if s.more_headers.is_empty() {
        return added.clone();
    }
    Arc::new(s.more_headers.iter().chain(added.iter()).cloned().collect())
}

/// Files as they are served; what is converted gets its charset with the conversion.
fn files(s: &Scope, place: &Place) -> Arc<StaticFiles> {
    let files = files_of_scope(s);
    let video = match place.action {
        Some(ActionSpec::Video(VideoKind::Flv)) => Video::Flv,
        Some(ActionSpec::Video(VideoKind::Mp4)) => {
            Video::Mp4 { most: s.parts.mp4_most, from_key_frame: s.parts.mp4_from_key_frame }
        }
        _ => return files,
    };
    Arc::new(StaticFiles { video: Some(video), ..StaticFiles::clone(&files) })
}

fn files_of_scope(s: &Scope) -> Arc<StaticFiles> {
    let charset = s.built.filters.as_ref().and_then(|filters| filters.charset.as_ref());
    if s.files.charset.is_some() && charset.is_some_and(|charset| charset.source.is_some()) {
        return Arc::new(StaticFiles { charset: None, ..StaticFiles::clone(&s.files) });
    }
    s.files.clone()
}

/// Error pages with their names resolved in the server at hand.
fn error_pages(lo: &mut Lowering<'_>, s: &Scope) -> Arc<Vec<ErrorPage>> {
    let specs = s.error_pages.items();
    let key = Arc::as_ptr(specs) as usize;
    if let Some((_, pages)) = lo.pages.get(&key) {
        return pages.clone();
    }
    let mut pages = Vec::with_capacity(specs.len());
    for spec in specs.iter() {
        let target = if spec.target.starts_with('@') {
            match named(lo, &spec.target, spec.span) {
                Some(id) => ErrorTarget::Named(id),
                None => continue,
            }
        } else {
            let word = Word { text: spec.target.clone(), span: spec.span, quote: None };
            // Its mistakes were told where it was read.
            let told = lo.diagnostics.len();
            let template = lo.template(&word);
            lo.diagnostics.truncate(told);
            let internal = spec.target.starts_with('/')
                || spec.target.starts_with('$') && !spec.target.starts_with("$scheme");
            if internal { ErrorTarget::Uri(template) } else { ErrorTarget::Redirect(template) }
        };
        pages.push(ErrorPage { statuses: spec.statuses.clone(), answer: spec.answer, target });
    }
    let pages = Arc::new(pages);
    lo.pages.insert(key, (specs.clone(), pages.clone()));
    pages
}
