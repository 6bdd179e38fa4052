//! Words about TLS in `stream`, both ways.

use super::tls;
use super::{Lowering, StreamScope, conf_command, upstream_tls};
use crate::tree::Directive;

pub(crate) fn certificate(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    let level = s.level;
    tls::add_certificate(lo, s.tls_mut(), level, d);
}

pub(crate) fn certificate_key(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    let level = s.level;
    tls::add_key(lo, s.tls_mut(), level, d);
}

pub(crate) fn protocols(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    tls::set_protocols(lo, s.tls_mut(), d);
}

pub(crate) fn ciphers(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    tls::set_ciphers(lo, s.tls_mut(), d);
}

pub(crate) fn curves(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    tls::set_curves(lo, s.tls_mut(), d);
}

pub(crate) fn verify_client(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    tls::set_verify(lo, s.tls_mut(), d);
}

pub(crate) fn session_cache(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    tls::set_session_cache(lo, s.tls_mut(), d);
}

pub(crate) fn session_timeout(_: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    s.tls_mut().session_timeout = crate::value::seconds(d.arg(0)).unwrap_or_default();
}

pub(crate) fn conf_command(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    conf_command::with_clients(lo, s.tls_mut(), d);
}

pub(crate) fn upstream_protocols(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    upstream_tls::set_protocols(lo, s.upstream_tls(), d);
}

pub(crate) fn upstream_conf_command(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    conf_command::with_upstreams(lo, s.upstream_tls(), d);
}

pub(crate) fn upstream_ciphers(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    upstream_tls::set_ciphers(lo, s.upstream_tls(), d);
}
