//! Errors of the API: status, text and code as NGINX Plus documents them.

use std::borrow::Cow;

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Status of the response.
    pub status: u16,
    /// For programs.
    pub code: &'static str,
    /// For people.
    pub text: Cow<'static, str>,
}

impl Fault {
    /// One of a request that cannot be carried out as it is.
    pub fn bad(code: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        Self { status: 400, code, text: text.into() }
    }

    /// Nothing is there.
    pub fn missing(code: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        Self { status: 404, code, text: text.into() }
    }

    /// No endpoint has this path.
    pub fn path() -> Self {
        Self::missing("PathNotFound", "path not found")
    }

    /// The endpoint does not take the method, or nobody may write.
    pub fn method() -> Self {
        Self { status: 405, code: "MethodDisabled", text: "method disabled".into() }
    }

    /// The body is no JSON.
    pub fn json() -> Self {
        Self { status: 415, code: "JsonError", text: "json error".into() }
    }

    /// What is to be added is there.
    pub fn exists(code: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        Self { status: 409, code, text: text.into() }
    }

    /// Settings of a server that are none.
    pub fn format(text: impl Into<Cow<'static, str>>) -> Self {
        Self::bad("UpstreamConfFormatError", text)
    }
}
