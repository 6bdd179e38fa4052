//! Words about gRPC that no other gateway has (nginx.org, ngx_http_grpc_module).

use std::sync::Arc;

use super::entry::Entry;
use super::entry::Kind::Text;
use super::entry::places::{HSL, LI};
use crate::take::scope::{ProxyScope, UpstreamTlsScope};
use crate::take::{Scope, grpc, proxy};

pub(super) const ENTRIES: &[Entry] = &[
    Entry::one("grpc_pass", LI, Text, "", "Sends requests to a gRPC server.").place(grpc::pass),
    Entry::new("grpc_set_header", HSL, (2, 2), "Content-Length $content_length", "Sets a field of requests.")
        .repeats()
        .scope(|lo, s, d| proxy::set_header(lo, s.level, s.grpc_mut(), d)),
    Entry::new("grpc_bind", HSL, (1, 2), "", "Local address towards upstreams.").scope(|lo, s, d| {
        if let Some(bind) = proxy::parse_bind(lo, d) {
            let scope = s.grpc_mut();
            (scope.bind, scope.transparent) = bind;
        }
    }),
];

impl Scope {
    pub(crate) fn grpc_mut(&mut self) -> &mut ProxyScope {
        Arc::make_mut(&mut self.grpc)
    }

    pub(crate) fn grpc_tls(&mut self) -> &mut UpstreamTlsScope {
        Arc::make_mut(&mut self.grpc_mut().tls)
    }
}
