//! Settings that all kinds of upstreams share.

use weir_diag::Diagnostic;
use weir_model::settings::{ClientAbort, UpstreamSettings};

use super::Lowering;
use super::args::on;
use crate::tree::Directive;
use crate::value;

/// `…_buffers number size`.
pub(crate) fn buffers(lo: &mut Lowering<'_>, settings: &mut UpstreamSettings, d: &Directive) {
    let (Some(number), Some(size)) = (value::number(d.arg(0)), value::size(d.arg(1))) else {
        return lo.bad_value(d, 1, "a number and a size, such as `8 16k`");
    };
    settings.buffer_bytes = number.saturating_mul(size);
}

/// `…_ignore_client_abort on|off`.
pub(crate) fn client_abort(d: &Directive) -> ClientAbort {
    if on(d) { ClientAbort::Ignore } else { ClientAbort::Cancel }
}

/// `…_limit_rate rate`.
pub(crate) fn limit_rate(lo: &mut Lowering<'_>, settings: &mut UpstreamSettings, d: &Directive) {
    match value::size(d.arg(0)) {
        Some(rate) => settings.limit_rate = Some(rate).filter(|&rate| rate > 0),
        None if d.arg(0).contains('$') => {
            let text = format!("`{}` made of variables is not supported yet", d.name());
            lo.report(Diagnostic::error("nginx::not-built", text).at(d.span));
        }
        None => lo.bad_value(d, 0, "a size such as `100k`"),
    }
}

/// `…_next_upstream word …`.
pub(crate) fn next_upstream(lo: &mut Lowering<'_>, settings: &mut UpstreamSettings, d: &Directive) {
    let retry = &mut settings.retry;
    (retry.on_error, retry.on_timeout) = (false, false);
    for (n, word) in d.args.iter().enumerate() {
        match word.text.as_str() {
            "error" => retry.on_error = true,
            "timeout" => retry.on_timeout = true,
            "invalid_header" => retry.on_invalid_response = true,
            "non_idempotent" => retry.non_idempotent = true,
            // Caches use stale answers while they update; without a cache there is nothing to do.
            "updating" | "denied" => {}
            "invalid_response" if d.name().starts_with("memcached_") => retry.on_invalid_response = true,
            "not_found" if d.name().starts_with("memcached_") => retry.on_status.push(404),
            "off" => {
                *retry = weir_model::settings::RetrySettings {
                    on_error: false,
                    on_timeout: false,
                    ..retry.clone()
                };
                retry.on_invalid_response = false;
                retry.on_status.clear();
                return;
            }
            text => match text.strip_prefix("http_").and_then(|code| code.parse().ok()) {
                Some(code @ (403 | 404 | 429 | 500 | 502 | 503 | 504)) => retry.on_status.push(code),
                _ => {
                    return lo.bad_value(
                        d,
                        n,
                        "one of `error`, `timeout`, `invalid_header`, `http_500`, `http_502`, `http_503`, `http_504`, `http_403`, `http_404`, `http_429`, `non_idempotent`, `off`",
                    );
                }
            },
        }
    }
}
