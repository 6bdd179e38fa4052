//! What must hold for any bytes that this crate reads by itself: password files, answers of name servers, words that variables
//! come to, values that converters read, pages with commands.
//!
//! Owns: the list. Never: makes inputs; `cargo xtask fuzz` does.

use hickory_resolver::proto::op::Message;
use weir_plan::Expires;

use crate::eval::{convert, edit, forwarded, program, users};
use crate::exchange::page;

/// A target: a function that panics where a property does not hold.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("password_file", users::fuzz),
    ("engine_words", words),
    ("engine_converters", convert::fuzz),
    ("engine_page", page::fuzz),
    ("dns_answer", dns_answer),
];

/// Words that a variable may come to: none of them is beyond its type.
fn words(data: &[u8]) {
    if let Some(Expires::After(seconds)) = edit::parse_word(data) {
        assert!(seconds.checked_neg().is_some());
    }
    let _ = (forwarded::parse_address(data), program::parse_size(data));
}

/// An answer of a name server, as the resolver's library reads it.
fn dns_answer(data: &[u8]) {
    let Ok(message) = Message::from_vec(data) else { return };
    // Names are compressed: an answer must not come to far more than was sent.
    let text = format!("{message:?}");
    assert!(text.len() < 4096 * (data.len() + 1), "{} bytes came to {}", data.len(), text.len());
}
