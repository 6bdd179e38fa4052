//! What of the words HAProxy removed can still be taken in.

use crate::draft::{Proxy, Rule, RuleList};
use crate::findings::Findings;
use crate::read::{Line, Word};
use crate::words::Call;

/// A word whose meaning is had without it.
pub(crate) fn nothing(_: &mut Proxy, _: &Call<'_>, _: &mut Findings) {}

/// The old `redispatch`.
pub(crate) fn redispatch(proxy: &mut Proxy, _: &Call<'_>, _: &mut Findings) {
    proxy.settings.redispatch = Some(-1);
}

/// `reqadd "Name: value" [cond]` is `http-request add-header Name value [cond]`.
pub(crate) fn reqadd(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    add(proxy, call, RuleList::HttpRequest, findings);
}

/// `rspadd`.
pub(crate) fn rspadd(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    add(proxy, call, RuleList::HttpResponse, findings);
}

/// `reqdel ^Name:` is `http-request del-header Name`.
pub(crate) fn reqdel(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    delete(proxy, call, RuleList::HttpRequest, findings);
}

/// `rspdel`.
pub(crate) fn rspdel(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    delete(proxy, call, RuleList::HttpResponse, findings);
}

fn add(proxy: &mut Proxy, call: &Call<'_>, list: RuleList, findings: &mut Findings) {
    let word = &call.arguments[0];
    let Some((name, value)) = word.text.split_once(':') else {
        findings.bad_value(word, "a field's name and value are parted by a colon");
        return;
    };
    // The old words took the text as it was; a rule's value is a format.
    let value = value.trim_start().replace('%', "%%");
    push(proxy, call, list, ["add-header".into(), name.trim().to_owned(), value]);
}

fn delete(proxy: &mut Proxy, call: &Call<'_>, list: RuleList, findings: &mut Findings) {
    let word = &call.arguments[0];
    let name = word.text.trim_start_matches('^');
    let name = name.trim_end_matches(".*").trim_end_matches("\\ ").trim_end_matches([' ', ':']);
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
        findings.not_built(
            word.span,
            call.keyword.name,
            "only patterns that name one field (`^Name:`) can be taken in",
        );
        return;
    }
    push(proxy, call, list, ["del-header".into(), name.to_owned()]);
}

fn push<const N: usize>(proxy: &mut Proxy, call: &Call<'_>, list: RuleList, texts: [String; N]) {
    let span = call.arguments[0].span;
    let mut words = vec![call.line.keyword().clone()];
    words.extend(texts.into_iter().map(|text| Word { text, span }));
    words.extend(call.arguments[1..].iter().cloned());
    let line = Line { words, ..call.line.clone() };
    proxy.settings.rules.push(Rule { list, line, from: 1 });
}
