//! Steps of health checks, kept as lines until the checks are built.

use crate::draft::{Check, Proxy};
use crate::findings::Findings;
use crate::words::Call;

/// `http-check …`.
pub(crate) fn http_check(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    proxy.settings.http_check.push(call.line.clone());
}

/// `tcp-check …`; without `option tcp-check` HAProxy keeps the rules and does not use them.
pub(crate) fn tcp_check(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    if proxy.settings.check != Some(Check::Tcp) {
        findings.ignored(call.line.span(), "`tcp-check` rules are only used after `option tcp-check`");
    }
    proxy.settings.tcp_check.push(call.line.clone());
}
