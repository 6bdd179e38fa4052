//! What must hold for any input: one function a parser.
//!
//! Owns: the properties. Never: makes inputs; `cargo xtask fuzz`, a libFuzzer harness and the property tests do.
//! Why: plain functions over bytes run on stable Rust, and under any driver. The first byte of an input says in what
//! pieces the rest arrives: a parser must come to the same end whatever they are.

mod bodies;
mod heads;
#[cfg(test)]
mod tests;
mod values;

/// A target: a function that panics where a property does not hold.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("http_request_head", heads::request),
    ("http_response_head", heads::response),
    ("http_cgi_head", heads::cgi),
    ("http_head_writer", heads::writer),
    ("http_chunked", bodies::chunked),
    ("http_fastcgi", bodies::fastcgi),
    ("http_memcached", bodies::memcached),
    ("http_proxy_protocol", bodies::proxy_protocol),
    ("http_peers", bodies::peers),
    ("http_hello", bodies::hello),
    ("http_uri", values::uri),
    ("http_normalizers", values::normalizers),
    ("http_date", values::date),
    ("http_range", values::range),
    ("http_trace_context", values::trace_context),
    ("http_values", values::values),
];

#[cfg(test)]
pub(crate) use bodies::peers;

/// Splits an input into the size of its pieces and the bytes.
fn pieces(data: &[u8]) -> (usize, &[u8]) {
    data.split_first().map_or((1, data), |(first, rest)| (usize::from(first % 32) + 1, rest))
}

/// Ends of ever longer prefixes of `len` bytes, the whole included.
fn ends(len: usize, step: usize) -> impl Iterator<Item = usize> {
    (0..len).step_by(step).chain([len])
}
