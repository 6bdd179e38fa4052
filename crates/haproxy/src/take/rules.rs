//! Rules and ACLs, kept as lines until all names are known.

use crate::draft::{Proxy, Rule, RuleList};
use crate::findings::Findings;
use crate::values::time;
use crate::words::{Action, Call, RuleSet, action, action_names};

fn push(proxy: &mut Proxy, call: &Call<'_>, list: RuleList) {
    proxy.settings.rules.push(Rule { list, line: call.line.clone(), from: call.first() });
}

/// Looks the action up; keeps the rule only if it can be built.
fn push_action(proxy: &mut Proxy, call: &Call<'_>, list: RuleList, set: RuleSet, findings: &mut Findings) {
    let word = &call.arguments[0];
    let name = call.keyword.name;
    match action(set, word.as_str()) {
        Some((_, Action::Built)) => push(proxy, call, list),
        Some((action, Action::Tuning(instead))) => {
            findings.tuning(word.span, &format!("{name} {action}"), instead)
        }
        Some((action, Action::NotYet(why))) => {
            findings.not_built(word.span, &format!("{name} {action}"), why)
        }
        None => findings.unknown(word, &format!("`{name}` action"), action_names(set)),
    }
}

/// `acl`.
pub(crate) fn acl(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    let name = &call.arguments[0];
    if name.text == "or" {
        findings.bad_value(name, "a condition reads `or` as its own word; this ACL could never be used");
        return;
    }
    if let Some(bad) = name.text.chars().find(|c| !(c.is_ascii_alphanumeric() || "-_.:".contains(*c))) {
        findings.bad_value(
            name,
            format!("`{bad}` may not stand in an ACL's name; letters, digits and - _ . : may"),
        );
        return;
    }
    proxy.settings.acls.push(call.line.clone());
}

/// `http-request`.
pub(crate) fn http_request(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    push_action(proxy, call, RuleList::HttpRequest, RuleSet::Request, findings);
}

/// `http-response`.
pub(crate) fn http_response(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    push_action(proxy, call, RuleList::HttpResponse, RuleSet::Response, findings);
}

/// `http-after-response`.
pub(crate) fn http_after_response(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    push_action(proxy, call, RuleList::HttpAfterResponse, RuleSet::AfterResponse, findings);
}

/// `tcp-request connection` and `tcp-request session`.
pub(crate) fn tcp_connection(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    push_action(proxy, call, RuleList::TcpConnection, RuleSet::Connection, findings);
}

/// `tcp-request content`.
pub(crate) fn tcp_content(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    push_action(proxy, call, RuleList::TcpContent, RuleSet::Content, findings);
}

/// `tcp-response content`.
pub(crate) fn tcp_answer(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    push_action(proxy, call, RuleList::TcpAnswer, RuleSet::Answer, findings);
}

/// `tcp-response inspect-delay`.
pub(crate) fn inspect_answer_delay(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    if let Some(delay) = findings.value(&call.arguments[0], time::millis) {
        proxy.settings.inspect_answer = Some(delay);
    }
}

/// `tcp-request inspect-delay`.
pub(crate) fn inspect_delay(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    if let Some(delay) = findings.value(&call.arguments[0], time::millis) {
        proxy.settings.inspect = Some(delay);
    }
}

/// `stats http-request`.
pub(crate) fn stats_http_request(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    proxy.settings.stats.enabled.get_or_insert(call.line.span());
    match call.text(0) {
        "allow" | "deny" | "auth" => push(proxy, call, RuleList::StatsRequest),
        _ => findings.unknown(&call.arguments[0], "`stats http-request` action", ["allow", "deny", "auth"]),
    }
}

/// `redirect`.
pub(crate) fn redirect(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    push(proxy, call, RuleList::Redirect);
}

/// `block`.
pub(crate) fn block(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    push(proxy, call, RuleList::Block);
}

/// `use_backend`.
pub(crate) fn use_backend(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    push(proxy, call, RuleList::UseBackend);
}

/// `monitor fail`.
pub(crate) fn monitor_fail(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    push(proxy, call, RuleList::MonitorFail);
}

/// `capture request header` and `capture response header`: `NAME len N`.
pub(crate) fn capture(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    if call.text(1) != "len" || call.text(2).parse::<u16>().is_err() {
        findings.bad_value(&call.arguments[1], "a capture is written `NAME len LENGTH`");
        return;
    }
    proxy.captures.push(call.line.clone());
}
