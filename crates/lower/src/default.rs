//! Pass "default": what the model leaves open, made explicit.
//!
//! Owns: the values. Front ends already filled in those of their languages; these are Weir's own.

use std::sync::Arc;

use weir_expr::settings::LogLevel;
use weir_plan::{ErrorLog, Log, LogTarget};

use crate::context::Cx;

/// Protocols offered on an HTTP listener that names none.
pub(crate) const HTTP_ALPN: &str = "http/1.1";

/// Where errors go if the configuration names no log at all.
pub(crate) fn error_logs(cx: &mut Cx<'_>) -> Arc<[ErrorLog]> {
    let log =
        cx.log_ix(Log { target: LogTarget::Stderr, buffer: None, flush: None, gzip: None, sample: None });
    Arc::new([ErrorLog { log, level: LogLevel::Error }])
}

/// Protocols of an identity.
pub(crate) fn alpn(written: &[String], http: bool) -> Vec<String> {
    if written.is_empty() && http { vec![HTTP_ALPN.to_owned()] } else { written.to_vec() }
}
