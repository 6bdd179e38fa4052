//! Answers of the admin door.
//!
//! Owns: [`Reply`], and its form on the wire. Errors are problem details (RFC 9457).
//! Driven by: `door`, `api`.

use std::io::{self, Write};

use serde_json::{Value, json};
use weir_native::Plain;

use crate::plane::DashboardPage;

/// An answer.
#[derive(Debug)]
pub(super) struct Reply {
    status: u16,
    /// Empty where `headers` say all of it.
    content_type: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Reply {
    /// Data, as JSON.
    pub(super) fn json(status: u16, value: &Value) -> Self {
        let mut body = serde_json::to_vec_pretty(value).unwrap_or_default();
        body.push(b'\n');
        Self { status, content_type: "application/json", headers: Vec::new(), body }
    }

    /// A part of a configuration, as YAML for whoever accepts that and no JSON.
    pub(super) fn document(status: u16, document: &Plain, accept: &str) -> Self {
        match accept.contains("yaml") && !accept.contains("json") {
            true => Self {
                status,
                content_type: "application/yaml",
                headers: Vec::new(),
                body: weir_native::to_yaml(document).into_bytes(),
            },
            false => Self::json(status, &serde_json::to_value(document).unwrap_or_default()),
        }
    }

    /// A page of the dashboard, with its own fields.
    pub(super) fn of_page(page: DashboardPage) -> Self {
        let DashboardPage { status, headers, body } = page;
        Self { status, content_type: "", headers, body }
    }

    /// What is asked for is what whoever asks has already.
    pub(super) fn unchanged() -> Self {
        Self { status: 304, content_type: "application/json", headers: Vec::new(), body: Vec::new() }
    }

    /// An error.
    pub(super) fn problem(status: u16, title: &str, detail: &str) -> Self {
        Self::problem_with(status, title, detail, Value::Null)
    }

    /// An error about a configuration, with what was found.
    pub(super) fn problem_with(status: u16, title: &str, detail: &str, diagnostics: Value) -> Self {
        let mut value = json!({ "type": "about:blank", "title": title, "status": status, "detail": detail });
        if !diagnostics.is_null() {
            value["diagnostics"] = diagnostics;
        }
        Self { content_type: "application/problem+json", ..Self::json(status, &value) }
    }

    /// With one more field.
    pub(super) fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Writes it; the connection ends with it.
    pub(super) fn write(&self, out: &mut impl Write, without_body: bool) -> io::Result<()> {
        let mut head = format!("HTTP/1.1 {} {}\r\nConnection: close\r\n", self.status, phrase(self.status));
        if self.status != 304 {
            head += &format!("Content-Length: {}\r\n", self.body.len());
        }
        if !self.content_type.is_empty() {
            let kind = self.content_type;
            head += &format!(
                "Content-Type: {kind}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
            );
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {}\r\n", value.replace(|c: char| c.is_control(), " "));
        }
        head += "\r\n";
        out.write_all(head.as_bytes())?;
        match without_body {
            true => Ok(()),
            false => out.write_all(&self.body),
        }
    }
}

fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        304 => "Not Modified",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "Error",
    }
}
