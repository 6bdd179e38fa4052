//! Times of proxies.

use crate::draft::{At, Proxy};
use crate::findings::Findings;
use crate::values::time;
use crate::words::Call;

fn set(proxy: &mut Proxy, name: &'static str, call: &Call<'_>, findings: &mut Findings) {
    let Some(word) = call.arguments.first() else { return };
    if let Some(value) = findings.value(word, time::millis) {
        proxy.settings.timeouts.insert(name, At::new(value, call.line.span()));
    }
}

macro_rules! takers {
    ($($function:ident = $name:literal),* $(,)?) => {
        $(
            #[doc = concat!("`timeout ", $name, "`.")]
            pub(crate) fn $function(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
                set(proxy, $name, call, findings);
            }
        )*
    };
}

takers! {
    connect = "connect",
    client = "client",
    server = "server",
    check = "check",
    http_request = "http-request",
    http_keep_alive = "http-keep-alive",
    queue = "queue",
    tunnel = "tunnel",
    client_fin = "client-fin",
    server_fin = "server-fin",
    tarpit = "tarpit",
}
