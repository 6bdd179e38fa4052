//! Words about uwsgi, SCGI and memcached that no other gateway has (nginx.org, ngx_http_uwsgi_module and its kin).

use std::sync::Arc;

use super::entry::Entry;
use super::entry::Kind::{Number, Text};
use super::entry::places::{HSL, LI};
use crate::take::Scope;
use crate::take::args::count;
use crate::take::scope::{FastCgiScope, UpstreamTlsScope};
use crate::take::{fastcgi, proxy};

pub(super) const UWSGI: &[Entry] = &[
    Entry::one("uwsgi_pass", LI, Text, "", "Sends requests to a uwsgi server.").place(fastcgi::uwsgi_pass),
    Entry::new("uwsgi_param", HSL, (2, 3), "", "A parameter.").repeats().scope(|lo, s, d| {
        let level = s.level;
        if let Some(param) = fastcgi::parse_param(lo, d) {
            s.uwsgi_mut().params.push(level, param);
        }
    }),
    Entry::one("uwsgi_modifier1", HSL, Number, "0", "The first modifier.").scope(|lo, s, d| {
        if let Some(number) = fastcgi::modifier(lo, d) {
            s.uwsgi_mut().modifiers.0 = number;
        }
    }),
    Entry::one("uwsgi_modifier2", HSL, Number, "0", "The second modifier.").scope(|lo, s, d| {
        if let Some(number) = fastcgi::modifier(lo, d) {
            s.uwsgi_mut().modifiers.1 = number;
        }
    }),
    Entry::new("uwsgi_bind", HSL, (1, 2), "", "Local address towards upstreams.").scope(|lo, s, d| {
        if let Some(bind) = proxy::parse_bind(lo, d) {
            let scope = s.uwsgi_mut();
            (scope.bind, scope.transparent) = bind;
        }
    }),
    Entry::one("uwsgi_string", HSL, Text, "", "A text behind the parameters.")
        .not_yet("texts behind the parameters are not built"),
];

pub(super) const SCGI: &[Entry] = &[
    Entry::one("scgi_pass", LI, Text, "", "Sends requests to an SCGI server.").place(fastcgi::scgi_pass),
    Entry::new("scgi_param", HSL, (2, 3), "", "A parameter.").repeats().scope(|lo, s, d| {
        let level = s.level;
        if let Some(param) = fastcgi::parse_param(lo, d) {
            s.scgi_mut().params.push(level, param);
        }
    }),
    Entry::new("scgi_bind", HSL, (1, 2), "", "Local address towards upstreams.").scope(|lo, s, d| {
        if let Some(bind) = proxy::parse_bind(lo, d) {
            let scope = s.scgi_mut();
            (scope.bind, scope.transparent) = bind;
        }
    }),
];

pub(super) const MEMCACHED: &[Entry] = &[
    Entry::one("memcached_pass", LI, Text, "", "Answers with a value of memcached.")
        .place(fastcgi::memcached_pass),
    Entry::one("memcached_gzip_flag", HSL, Number, "", "The flag of values that are compressed.")
        .scope(|_, s, d| s.memcached_mut().gzip_flag = u32::try_from(count(d)).unwrap_or(0)),
    Entry::new("memcached_bind", HSL, (1, 2), "", "Local address towards upstreams.").scope(|lo, s, d| {
        if let Some(bind) = proxy::parse_bind(lo, d) {
            let scope = s.memcached_mut();
            (scope.bind, scope.transparent) = bind;
        }
    }),
];

impl Scope {
    pub(crate) fn uwsgi_mut(&mut self) -> &mut FastCgiScope {
        Arc::make_mut(&mut self.uwsgi)
    }

    pub(crate) fn scgi_mut(&mut self) -> &mut FastCgiScope {
        Arc::make_mut(&mut self.scgi)
    }

    pub(crate) fn memcached_mut(&mut self) -> &mut FastCgiScope {
        Arc::make_mut(&mut self.memcached)
    }

    pub(crate) fn uwsgi_tls(&mut self) -> &mut UpstreamTlsScope {
        Arc::make_mut(&mut self.uwsgi_mut().tls)
    }
}
