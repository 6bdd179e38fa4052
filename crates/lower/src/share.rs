//! Compiled groups, found again.
//!
//! Owns: one memory for each kind of group.
//! Why: a group that inheritance shared has one place in memory, so most look-ups compare an address; groups that
//! were written alike in many sites are equal by value, and one compiled form serves them all.

use ahash::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use weir_expr::settings::{BodySettings, ClientSettings, CompressionSettings, UpstreamSettings};
use weir_model as model;
use weir_plan as plan;

/// A memory of compiled values by the model's groups.
pub(crate) struct Memo<'m, K: ?Sized, V> {
    by_place: HashMap<usize, V>,
    by_value: HashMap<&'m K, V>,
}

impl<K: ?Sized, V> Default for Memo<'_, K, V> {
    fn default() -> Self {
        Self { by_place: HashMap::default(), by_value: HashMap::default() }
    }
}

impl<'m, K: Eq + Hash + ?Sized, V: Clone> Memo<'m, K, V> {
    pub(crate) fn find(&mut self, key: &'m K) -> Option<V> {
        // The model outlives this memory and does not move, so a place names one group.
        let place = std::ptr::from_ref(key).cast::<()>() as usize;
        if let Some(found) = self.by_place.get(&place) {
            return Some(found.clone());
        }
        let found = self.by_value.get(key)?.clone();
        self.by_place.insert(place, found.clone());
        Some(found)
    }

    pub(crate) fn keep(&mut self, key: &'m K, value: V) -> V {
        let place = std::ptr::from_ref(key).cast::<()>() as usize;
        self.by_place.insert(place, value.clone());
        self.by_value.insert(key, value.clone());
        value
    }
}

/// Compiled values by place only, for groups that cannot be hashed.
pub(crate) struct PlaceMemo<V>(HashMap<usize, V>);

impl<V> Default for PlaceMemo<V> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<V: Clone> PlaceMemo<V> {
    pub(crate) fn find<K>(&self, key: &Arc<K>) -> Option<V> {
        self.0.get(&(Arc::as_ptr(key).cast::<()>() as usize)).cloned()
    }

    pub(crate) fn keep<K>(&mut self, key: &Arc<K>, value: V) -> V {
        self.0.insert(Arc::as_ptr(key).cast::<()>() as usize, value.clone());
        value
    }
}

/// One memory for each kind of group.
#[derive(Default)]
pub(crate) struct Shared<'m> {
    pub(crate) limit_req: Memo<'m, Vec<model::LimitReq>, Arc<[plan::LimitReq]>>,
    pub(crate) limit_conn: Memo<'m, Vec<model::LimitConn>, Arc<[plan::LimitConn]>>,
    pub(crate) access: Memo<'m, model::Access, Arc<plan::Access>>,
    pub(crate) real_ip: Memo<'m, model::RealIp, Arc<plan::RealIp>>,
    pub(crate) error_pages: Memo<'m, Vec<model::ErrorPage>, Arc<plan::ErrorPages>>,
    pub(crate) response_edits: Memo<'m, Vec<model::HeaderEdit>, Arc<[plan::HeaderEdit]>>,
    pub(crate) expires: Memo<'m, model::Expires, Arc<plan::Expires>>,
    pub(crate) compressions: Memo<'m, CompressionSettings, Arc<plan::Compression>>,
    pub(crate) filters: Memo<'m, model::BodyFilters, Arc<plan::BodyFilters>>,
    pub(crate) vocabularies: Memo<'m, model::Vocabulary, Arc<plan::Vocabulary>>,
    pub(crate) facts: Memo<'m, model::Facts, Arc<plan::Facts>>,
    pub(crate) access_logs: Memo<'m, Vec<model::AccessLog>, Arc<[plan::AccessLog]>>,
    pub(crate) error_logs: Memo<'m, Vec<model::ErrorLog>, Arc<[plan::ErrorLog]>>,
    pub(crate) formats: Memo<'m, model::Template, Arc<plan::LogFormat>>,
    pub(crate) body: Memo<'m, BodySettings, Arc<BodySettings>>,
    pub(crate) client: Memo<'m, ClientSettings, Arc<ClientSettings>>,
    pub(crate) upstream: Memo<'m, UpstreamSettings, Arc<UpstreamSettings>>,
    pub(crate) resolver: Memo<'m, model::Resolver, Arc<plan::Resolver>>,
    pub(crate) files: Memo<'m, model::StaticFiles, Arc<plan::StaticFiles>>,
    pub(crate) try_files: Memo<'m, model::TryFiles, Arc<plan::TryFiles>>,
    pub(crate) mime: HashMap<MimeKey<'m>, Arc<plan::MimeTable>>,
    pub(crate) heads: Memo<'m, Vec<(String, model::Template)>, Arc<plan::HeadTemplate>>,
    pub(crate) header_sets: Memo<'m, Vec<String>, Arc<plan::HeaderSet>>,
    pub(crate) responds: Memo<'m, model::Respond, Arc<plan::Respond>>,
    pub(crate) redirects: Memo<'m, Vec<model::RedirectRewrite>, Arc<[plan::RedirectRewrite]>>,
    pub(crate) cookies: Memo<'m, Vec<model::CookieRewrite>, Arc<[plan::CookieRewrite]>>,
    pub(crate) proxies: PlaceMemo<Arc<plan::Proxy>>,
    pub(crate) fastcgi: PlaceMemo<Arc<plan::FastCgi>>,
    pub(crate) databases: HashMap<&'m std::path::Path, Option<Arc<plan::Database>>>,
    pub(crate) texts: HashMap<&'m str, Arc<str>>,
    pub(crate) prefixes: HashMap<&'m str, Arc<[u8]>>,
    settings: HashSet<Arc<plan::RouteSettings>>,
}

/// Places of types and charset types, default type, charset.
pub(crate) type MimeKey<'m> = (usize, usize, &'m str, Option<&'m str>);

impl<'m> Shared<'m> {
    pub(crate) fn text(&mut self, text: &'m str) -> Arc<str> {
        self.texts.entry(text).or_insert_with(|| text.into()).clone()
    }

    /// The settings, or those of an earlier route that are the same.
    pub(crate) fn settings(&mut self, settings: plan::RouteSettings) -> Arc<plan::RouteSettings> {
        if let Some(known) = self.settings.get(&settings) {
            return known.clone();
        }
        let settings = Arc::new(settings);
        self.settings.insert(settings.clone());
        settings
    }

    pub(crate) fn prefix(&mut self, text: &'m str) -> Arc<[u8]> {
        self.prefixes.entry(text).or_insert_with(|| text.as_bytes().into()).clone()
    }
}
