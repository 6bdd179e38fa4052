//! Conditional requests: RFC 9110 §13.
//!
//! Owns: the order in which preconditions are asked, and whether a Range applies.
//! Never: looks anything up; the caller brings the validators of what it would serve.

use super::etag::{self, ETag};
use super::source::FieldSource;
use crate::date::HttpDate;
use crate::method::Method;
use crate::name::HeaderId;

/// How If-Modified-Since compares: nginx's `if_modified_since`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfModifiedSince {
    /// Never matches.
    Off,
    /// Only the same second matches: nginx's default.
    Exact,
    /// Any later time matches: RFC 9110 §13.1.3.
    #[default]
    Before,
}

/// What the selected representation is known by.
#[derive(Clone, Copy, Debug, Default)]
pub struct Validators<'a> {
    /// Its tag.
    pub etag: Option<ETag<'a>>,
    /// When it last changed.
    pub modified: Option<HttpDate>,
}

/// What the preconditions ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Do what the method says.
    Proceed,
    /// 304.
    NotModified,
    /// 412.
    Failed,
}

/// The preconditions of one request, with what is needed to judge them.
#[derive(Clone, Copy, Debug)]
pub struct Conditions<F> {
    /// The request's fields.
    pub headers: F,
    /// The request's method.
    pub method: Method,
    /// Places the years of old dates.
    pub now: HttpDate,
    /// How If-Modified-Since compares.
    pub since: IfModifiedSince,
}

const ANY: u128 = HeaderId::IfMatch.bit()
    | HeaderId::IfNoneMatch.bit()
    | HeaderId::IfModifiedSince.bit()
    | HeaderId::IfUnmodifiedSince.bit();

impl<F: FieldSource> Conditions<F> {
    /// Judges If-Match, If-Unmodified-Since, If-None-Match and If-Modified-Since in the order of RFC 9110 §13.2.2, for
    /// a representation that exists. Fields that do not parse count as absent; RFC 9110 §13.1.
    #[must_use]
    pub fn judge(&self, current: Validators<'_>) -> Outcome {
        if !self.headers.has_any(ANY) {
            return Outcome::Proceed;
        }
        if !self.unchanged_as_wanted(current) {
            return Outcome::Failed;
        }
        let reading = matches!(self.method, Method::Get | Method::Head);
        if self.headers.has(HeaderId::IfNoneMatch) {
            return match (self.any_tag(HeaderId::IfNoneMatch, current, |a, b| a.weak_eq(b)), reading) {
                (false, _) => Outcome::Proceed,
                (true, true) => Outcome::NotModified,
                (true, false) => Outcome::Failed,
            };
        }
        if reading && self.is_unmodified(current) { Outcome::NotModified } else { Outcome::Proceed }
    }

    /// Whether the Range field is to be heeded: there is no If-Range, or it holds. RFC 9110 §13.1.5.
    #[must_use]
    pub fn range_applies(&self, current: Validators<'_>) -> bool {
        if self.headers.repeats(HeaderId::IfRange) {
            return false;
        }
        let Some(value) = self.headers.value(HeaderId::IfRange) else { return true };
        if let Some(tag) = ETag::parse(value) {
            return current.etag.is_some_and(|etag| etag.strong_eq(tag));
        }
        HttpDate::parse(value, self.now).is_some_and(|date| current.modified == Some(date))
    }

    fn unchanged_as_wanted(&self, current: Validators<'_>) -> bool {
        if self.headers.has(HeaderId::IfMatch) {
            return self.any_tag(HeaderId::IfMatch, current, |a, b| a.strong_eq(b));
        }
        match (self.date(HeaderId::IfUnmodifiedSince), current.modified) {
            (Some(since), Some(modified)) => modified <= since,
            _ => true,
        }
    }

    fn is_unmodified(&self, current: Validators<'_>) -> bool {
        let (Some(since), Some(modified)) = (self.date(HeaderId::IfModifiedSince), current.modified) else {
            return false;
        };
        match self.since {
            IfModifiedSince::Off => false,
            IfModifiedSince::Exact => modified == since,
            IfModifiedSince::Before => modified <= since,
        }
    }

    fn any_tag(&self, id: HeaderId, current: Validators<'_>, eq: fn(ETag<'_>, ETag<'_>) -> bool) -> bool {
        self.headers.values(id).any(|value| {
            value == b"*" || current.etag.is_some_and(|etag| etag::tags(value).any(|tag| eq(tag, etag)))
        })
    }

    /// A date field that stands there once and is one.
    fn date(&self, id: HeaderId) -> Option<HttpDate> {
        if self.headers.repeats(id) {
            return None;
        }
        HttpDate::parse(self.headers.value(id)?, self.now)
    }
}
