//! Values in commands: text with variables.
//!
//! Owns: their syntax, what names stand for, how values are written into a page.
//! Why: names are known only once a page is read. Values of the page come before those of the configuration.

use weir_plan::PageCommands;

use crate::eval::vars;
use crate::exchange::Exchange;
use crate::exchange::page::{Encoding, MOST_KEPT};

/// The value of a variable; `None`: there is none.
pub(super) fn variable(exchange: &Exchange, commands: &PageCommands, name: &[u8]) -> Option<Vec<u8>> {
    let name = name.to_ascii_lowercase();
    if let Some(value) = exchange.page.as_ref().and_then(|page| page.shared.value(&name)) {
        return Some(value);
    }
    let var = commands.names.find(std::str::from_utf8(&name).ok()?)?;
    let mut value = Vec::new();
    vars::append(exchange, &var, &mut value).then_some(value)
}

/// What a text comes to.
///
/// # Errors
/// It is wrong, and why.
pub(super) fn evaluated(
    exchange: &Exchange,
    commands: &PageCommands,
    text: &[u8],
) -> Result<Vec<u8>, String> {
    let shown = || text.escape_ascii();
    let (mut out, mut rest) = (Vec::new(), text);
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            b'$' => {
                let braced = rest.first() == Some(&b'{');
                let name = if braced { &rest[1..] } else { rest };
                let length = name.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
                let (name, behind) = name.split_at(length);
                rest = behind;
                if braced {
                    let Some((b'}', behind)) = rest.split_first() else {
                        return Err(format!("the closing bracket in \"{}\" variable is missing", shown()));
                    };
                    rest = behind;
                }
                if name.is_empty() {
                    return Err(format!("invalid variable name in \"{}\"", shown()));
                }
                out.extend_from_slice(&variable(exchange, commands, name).unwrap_or_default());
            }
            b'\\' => {
                let Some((&quoted, behind)) = rest.split_first() else { break };
                rest = behind;
                if !matches!(quoted, b'\\' | b'\'' | b'"' | b'$') {
                    out.push(b'\\');
                }
                out.push(quoted);
            }
            _ => out.push(byte),
        }
        if out.len() > MOST_KEPT {
            return Err(format!("\"{}\" comes to too much", shown()));
        }
    }
    Ok(out)
}

/// Writes a value as a page wants it.
pub(super) fn encoded(encoding: Encoding, value: Vec<u8>) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    match encoding {
        Encoding::None => return value,
        Encoding::Url => {
            for &byte in &value {
                if !(0x21..0x7f).contains(&byte) || b"\"#%'<>\\^`{|}".contains(&byte) {
                    out.extend_from_slice(format!("%{byte:02X}").as_bytes());
                } else {
                    out.push(byte);
                }
            }
        }
        Encoding::Entity => {
            for &byte in &value {
                match byte {
                    b'<' => out.extend_from_slice(b"&lt;"),
                    b'>' => out.extend_from_slice(b"&gt;"),
                    b'&' => out.extend_from_slice(b"&amp;"),
                    b'"' => out.extend_from_slice(b"&quot;"),
                    _ => out.push(byte),
                }
            }
        }
    }
    out
}
