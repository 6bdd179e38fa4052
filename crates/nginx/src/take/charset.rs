//! Words about charsets of responses.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_diag::Diagnostic;
use weir_model::CharsetMap;

use super::{Lowering, Scope};
use crate::tree::Directive;

/// `charset name | $variable | off`.
pub(crate) fn charset(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let text = d.arg(0);
    let computed = text.contains('$');
    if !computed && !is_name(text) {
        return lo.bad_value(d, 0, "a charset such as `utf-8`, a variable or `off`");
    }
    let on = text != "off";
    // Files are given a name that is known at load with their media type.
    Arc::make_mut(&mut s.files).charset = (on && !computed).then(|| text.to_owned());
    s.parts().filters.charset = on.then(|| lo.template(&d.args[0]));
}

/// `source_charset name | $variable | off`.
pub(crate) fn source(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    s.parts().filters.source_charset = (d.arg(0) != "off").then(|| lo.template(&d.args[0]));
}

/// `charset_types type …`.
pub(crate) fn types(_: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let types = Arc::new(super::filters::types(d));
    Arc::make_mut(&mut s.files).charset_types = types.clone();
    s.parts().filters.charset_types = types;
}

/// `charset_map from to { 80 E282AC; … }`.
pub(crate) fn map(lo: &mut Lowering<'_>, d: &Directive) {
    let (from, to) = (d.arg(0), d.arg(1));
    if from.eq_ignore_ascii_case(to) {
        return lo.bad_value(d, 1, "another charset than the first");
    }
    let utf8 = to.eq_ignore_ascii_case("utf-8");
    let mut pairs = BTreeMap::new();
    for line in d.children() {
        let byte = Some(hexadecimal(line.name())).flatten().filter(|bytes| bytes.len() == 1);
        let other = hexadecimal(line.arg(0)).filter(|bytes| match utf8 {
            true => std::str::from_utf8(bytes).is_ok_and(|text| text.chars().count() == 1),
            false => bytes.len() == 1,
        });
        match (byte, other, line.args.len()) {
            (Some(byte), Some(other), 1) => drop(pairs.insert(byte[0], other)),
            _ => {
                let text = format!("`{}` is no line of a `charset_map`", line.name());
                lo.report(
                    Diagnostic::error("nginx::bad-value", text).at(line.span).help(
                        "write a byte and what stands for it, both in hexadecimal digits: `80 E282AC;`",
                    ),
                );
            }
        }
    }
    let map = CharsetMap { from: from.to_owned(), to: to.to_owned(), pairs };
    Arc::make_mut(&mut lo.charset_maps).push(map);
}

/// Whether a text may be the name of a charset: it stands in a field.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:+".contains(&byte))
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let odd = if text.len() % 2 == 1 { "0" } else { "" };
    let text = format!("{odd}{text}");
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    digits
        .filter(|digits| !digits.is_empty())
        .map(|digits| digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
