//! Request targets: the four forms of RFC 9112 §3.2.
//!
//! Owns: telling the forms apart, and where path, query and authority stand.
//! Never: decodes or normalises (`uri` does).
//! Why: the authority of an absolute-form target replaces the Host field (RFC 9112 §3.2.2), so that one request has
//! one host whoever reads it. The path of a forwarded request is always written in origin-form.

use std::ops::Range;

use crate::host::Authority;
use crate::method::Method;
use crate::scan;

/// The form a target was written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query`.
    #[default]
    Origin,
    /// `http://host/path?query`.
    Absolute,
    /// `*`, for OPTIONS only.
    Asterisk,
    /// `host:port`, for CONNECT only.
    Authority,
}

/// Where the parts of a target stand in the buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) form: TargetForm,
    pub(crate) https: bool,
    pub(crate) whole: Range<usize>,
    /// Empty where an absolute-form target has none; it then means `/`.
    pub(crate) path: Range<usize>,
    /// Without its `?`. `None`: no `?` at all.
    pub(crate) query: Option<Range<usize>>,
    /// Absolute-form and authority-form.
    pub(crate) authority: Range<usize>,
}

/// Parses `buf[whole]`, whose bytes are known to be allowed. `None` where it has none of the forms, or one that the
/// method may not have.
#[inline]
pub(crate) fn parse(buf: &[u8], whole: Range<usize>, method: Method) -> Option<Target> {
    let text = &buf[whole.clone()];
    if method == Method::Connect {
        return parse_authority_form(text, whole.clone()).or_else(|| parse_other_form(buf, whole, method));
    }
    parse_other_form(buf, whole, method)
}

#[inline]
fn parse_other_form(buf: &[u8], whole: Range<usize>, method: Method) -> Option<Target> {
    let text = &buf[whole.clone()];
    if text.first() == Some(&b'/') {
        return Some(split_query(buf, whole.clone(), Target { whole, ..Target::default() }));
    }
    if text == b"*" {
        let target = Target { form: TargetForm::Asterisk, path: whole.clone(), whole, ..Target::default() };
        return (method == Method::Options).then_some(target);
    }
    parse_absolute_form(buf, whole)
}

fn parse_authority_form(text: &[u8], whole: Range<usize>) -> Option<Target> {
    // RFC 9112 §3.2.3: the port is not optional here.
    Authority::parse(text)?.port?;
    let authority = whole.clone();
    Some(Target { form: TargetForm::Authority, whole, authority, ..Target::default() })
}

fn parse_absolute_form(buf: &[u8], whole: Range<usize>) -> Option<Target> {
    let text = &buf[whole.clone()];
    let https = has_prefix(text, b"https://");
    if !https && !has_prefix(text, b"http://") {
        return None;
    }
    let start = whole.start + if https { 8 } else { 7 };
    let rest = &buf[start..whole.end];
    let end = start + memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
    // User information has no place in a request (RFC 9110 §4.2.4); `@` is no host byte.
    Authority::parse(&buf[start..end])?;
    let target = Target {
        form: TargetForm::Absolute,
        https,
        authority: start..end,
        whole: whole.clone(),
        ..Target::default()
    };
    Some(split_query(buf, end..whole.end, target))
}

fn has_prefix(text: &[u8], prefix: &[u8]) -> bool {
    text.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

#[inline]
fn split_query(buf: &[u8], rest: Range<usize>, mut target: Target) -> Target {
    let path_end = scan::byte(&buf[..rest.end], rest.start, b'?');
    if path_end < rest.end {
        target.query = Some(path_end + 1..rest.end);
    }
    target.path = rest.start..path_end;
    target
}
