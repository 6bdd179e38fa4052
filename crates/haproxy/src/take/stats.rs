//! The statistics page. As in HAProxy, every `stats` word but `scope`'s kin switches the page on.

use crate::draft::Proxy;
use crate::findings::Findings;
use crate::values::time;
use crate::words::Call;

/// Any word about the page enables it, as in HAProxy.
fn on(proxy: &mut Proxy, call: &Call<'_>) {
    proxy.settings.stats.enabled.get_or_insert(call.line.span());
}

/// `stats enable`.
pub(crate) fn enable(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    on(proxy, call);
}

/// `stats uri`.
pub(crate) fn uri(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    on(proxy, call);
    if !call.text(0).starts_with('/') {
        findings.bad_value(&call.arguments[0], "the page's path begins with `/`");
        return;
    }
    proxy.settings.stats.uri = Some(call.text(0).to_owned());
}

/// `stats realm`.
pub(crate) fn realm(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    on(proxy, call);
    proxy.settings.stats.realm = Some(call.text(0).to_owned());
}

/// `stats auth USER:PASSWORD`.
pub(crate) fn auth(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    on(proxy, call);
    match call.text(0).split_once(':') {
        Some((user, password)) => proxy.settings.stats.users.push((user.to_owned(), password.to_owned())),
        None => findings.bad_value(&call.arguments[0], "a user and a password are parted by a colon"),
    }
}

/// `stats hide-version`.
pub(crate) fn hide_version(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    on(proxy, call);
    proxy.settings.stats.hide_version = true;
}

/// `stats show-version`.
pub(crate) fn show_version(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    on(proxy, call);
    proxy.settings.stats.hide_version = false;
}

/// `stats refresh`, in seconds unless it has a unit.
pub(crate) fn refresh(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    on(proxy, call);
    proxy.settings.stats.refresh =
        findings.value(&call.arguments[0], |text| time::parse(text, 1000)).map(|t| t.as_secs());
}

/// `stats scope`; `.` is the proxy the page is in.
pub(crate) fn scope(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    let name = if call.text(0) == "." { proxy.name.text.clone() } else { call.text(0).to_owned() };
    on(proxy, call);
    proxy.settings.stats.scope.push(name);
}

/// `stats show-desc`.
pub(crate) fn show_desc(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    on(proxy, call);
    proxy.settings.stats.description = Some(call.joined());
}

/// `stats show-legends`.
pub(crate) fn show_legends(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    on(proxy, call);
    proxy.settings.stats.show_legends = true;
}

/// `stats admin if|unless CONDITION`.
pub(crate) fn admin(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    on(proxy, call);
    proxy.settings.stats.admin = call.arguments.to_vec();
}

/// `stats show-node`.
pub(crate) fn show_node(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    on(proxy, call);
    proxy.settings.stats.node = Some(call.text(0).to_owned());
}
