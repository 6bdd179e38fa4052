//! What the commands of pages do.
//!
//! Owns: each command but what follows an `include`, which `pass` asks for.
//! Driven by: `pass`.

use std::rc::Rc;

use weir_plan::{PageCommands, Pattern, Slot};

use super::text::{encoded, evaluated, variable};
use super::words::{Known, Word};
use crate::exchange::page::{Branch, Encoding, Part, TooMuch};
use crate::exchange::{Exchange, Page, errors};

/// What comes of a command.
pub(super) enum Done {
    Nothing,
    /// Text.
    Text(Vec<u8>),
    /// The body of another request.
    Include(Inclusion),
}

/// The body of another request.
pub(super) struct Inclusion {
    pub(super) path: Vec<u8>,
    pub(super) query: Vec<u8>,
    /// It has to be there before the page goes on.
    pub(super) wait: bool,
    /// It becomes this value.
    pub(super) set: Option<Vec<u8>>,
    /// What stands for it where there is none.
    pub(super) stub: Option<Rc<[u8]>>,
}

/// Carries a command out.
///
/// # Errors
/// It cannot be, and why.
pub(super) fn perform(
    exchange: &mut Exchange,
    commands: &PageCommands,
    mut command: Known,
) -> Result<Done, String> {
    match command.word {
        Word::Include => return include(exchange, commands, command).map(Done::Include),
        Word::Echo => return Ok(Done::Text(echo(exchange, commands, command)?)),
        Word::Set => set(exchange, commands, command)?,
        Word::If | Word::Elif => choose(exchange, commands, command)?,
        Word::Config => {
            let page = page(exchange)?;
            if let Some(form) = command.get("timefmt") {
                page.time_format = form;
            }
            if let Some(text) = command.get("errmsg") {
                page.error_text = text;
            }
        }
        Word::Else => {
            let page = page(exchange)?;
            page.shows = !page.branch.chosen;
            page.branch.at = Some(Part::Else);
        }
        Word::Endif => {
            let page = page(exchange)?;
            page.shows = true;
            page.branch = Branch::default();
        }
        Word::Block => {
            let page = page(exchange)?;
            page.block = Some((command.get("name").unwrap_or_default(), Vec::new()));
            page.shows = false;
        }
        Word::Endblock => {
            let page = page(exchange)?;
            page.shows = true;
            if let Some((name, text)) = page.block.take() {
                page.shared.set_block(name, &text).map_err(too_much)?;
            }
        }
    }
    Ok(Done::Nothing)
}

fn page(exchange: &mut Exchange) -> Result<&mut Page, String> {
    exchange.page.as_deref_mut().ok_or_else(|| "the page is over".to_owned())
}

pub(super) fn too_much(_: TooMuch) -> String {
    "the pages of this request keep too much, or ask for too much".to_owned()
}

fn echo(exchange: &mut Exchange, commands: &PageCommands, mut command: Known) -> Result<Vec<u8>, String> {
    if let Some(encoding) = command.get("encoding") {
        match &encoding[..] {
            b"none" => page(exchange)?.encoding = Encoding::None,
            b"url" => page(exchange)?.encoding = Encoding::Url,
            b"entity" => page(exchange)?.encoding = Encoding::Entity,
            other => {
                let other = other.escape_ascii();
                errors::error(exchange, &format!("unknown encoding \"{other}\" in the \"echo\" command"));
            }
        }
    }
    let name = command.get("var").unwrap_or_default();
    let value = variable(exchange, commands, &name);
    let value = value.or_else(|| command.get("default")).unwrap_or_else(|| b"(none)".to_vec());
    Ok(encoded(page(exchange)?.encoding, value))
}

fn set(exchange: &mut Exchange, commands: &PageCommands, mut command: Known) -> Result<(), String> {
    let value = evaluated(exchange, commands, &command.get("value").unwrap_or_default())?;
    let name = command.get("var").unwrap_or_default().to_ascii_lowercase();
    page(exchange)?.shared.set(name, value).map_err(too_much)
}

/// `if` and `elif`: `text`, `text = text`, `text != text`, `text = /pattern/`, `text != /pattern/`.
fn choose(exchange: &mut Exchange, commands: &PageCommands, mut command: Known) -> Result<(), String> {
    let page_before = page(exchange)?;
    if command.word == Word::If && page_before.branch.at.is_some() {
        return Err("the \"if\" command inside the \"if\" command".to_owned());
    }
    if page_before.branch.chosen {
        page_before.shows = false;
        return Ok(());
    }
    let expression = command.get("expr").unwrap_or_default();
    let holds = holds(exchange, commands, &expression)?;
    let page = page(exchange)?;
    page.shows = holds;
    page.branch = Branch { at: Some(Part::If), chosen: holds };
    Ok(())
}

fn holds(exchange: &Exchange, commands: &PageCommands, expression: &[u8]) -> Result<bool, String> {
    let invalid = || format!("invalid expression in \"{}\"", expression.escape_ascii());
    let of_left = |byte: &u8| byte.is_ascii_alphanumeric() || b"${}_\"'".contains(byte);
    let (left, rest) = expression.split_at(expression.iter().take_while(|byte| of_left(byte)).count());
    let left = evaluated(exchange, commands, &left.to_ascii_lowercase())?;
    let rest = without_blanks(rest);
    if rest.is_empty() {
        return Ok(!left.is_empty());
    }
    let (wanted, right) = if let Some(right) = rest.strip_prefix(b"=") {
        (true, right)
    } else if let Some(right) = rest.strip_prefix(b"!=") {
        (false, right)
    } else {
        return Err(invalid());
    };
    let right = without_blanks(right);
    let found = match right {
        [b'/', pattern @ .., b'/'] => matches(exchange, &evaluated(exchange, commands, pattern)?, &left)?,
        [b'/', _, ..] => return Err(invalid()),
        [b'\\', right @ ..] if right.starts_with(b"/") => left == evaluated(exchange, commands, right)?,
        _ => left == evaluated(exchange, commands, right)?,
    };
    Ok(found == wanted)
}

fn without_blanks(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|&&byte| byte == b' ').count()..]
}

/// Whether a pattern matches; its groups become values of the page.
fn matches(exchange: &Exchange, pattern: &[u8], text: &[u8]) -> Result<bool, String> {
    let pattern = std::str::from_utf8(pattern).map_err(|_| "the pattern is no text in UTF-8".to_owned())?;
    let mut names = Vec::new();
    let mut number = |name: &str| {
        names.push(name.to_ascii_lowercase());
        u16::try_from(names.len() - 1).ok().map(Slot)
    };
    let compiled = Pattern::new(pattern, false, &mut number)
        .map_err(|why| format!("the pattern \"{pattern}\" is none: {}", why.message))?;
    let Some(groups) = compiled.matches(text).map_err(|why| why.to_string())? else { return Ok(false) };
    let Some(page) = &exchange.page else { return Ok(true) };
    page.shared
        .match_in(text, (0..groups.len()).map(|n| groups.range(n).map(|range| (range.start, range.end))));
    for &(group, slot) in compiled.named() {
        if let Some(name) = names.get(usize::from(slot.0)) {
            let value = groups.text(usize::from(group), text).to_vec();
            page.shared.set(name.clone().into_bytes(), value).map_err(too_much)?;
        }
    }
    Ok(true)
}

fn include(exchange: &Exchange, commands: &PageCommands, mut command: Known) -> Result<Inclusion, String> {
    let (of_path, of_file) = (command.get("virtual"), command.get("file"));
    let (wait, set, stub) = (command.get("wait"), command.get("set"), command.get("stub"));
    let is_file = of_file.is_some();
    let asked = match (of_path, of_file) {
        (Some(_), Some(_)) => return Err("inclusion may be either \"virtual\" or \"file\"".to_owned()),
        (None, None) => return Err("no parameter in \"include\" SSI command".to_owned()),
        (Some(asked), None) | (None, Some(asked)) => asked,
    };
    if set.is_some() && stub.is_some() {
        return Err("\"set\" and \"stub\" cannot be used together in \"include\" SSI command".to_owned());
    }
    let wait = match wait.map(|wait| wait.to_ascii_lowercase()).as_deref() {
        None => is_file,
        Some(_) if is_file => return Err("\"wait\" cannot be used with \"file\"".to_owned()),
        Some(b"no") => false,
        Some(b"yes") => true,
        Some(other) => {
            return Err(format!("invalid value \"{}\" in the \"wait\" parameter", other.escape_ascii()));
        }
    };
    let mut target = evaluated(exchange, commands, &asked)?;
    if !target.is_empty() && !target.starts_with(b"/") {
        let path = &exchange.request.path;
        let folder = path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
        target.splice(..0, path[..folder].iter().copied());
    }
    let Some((path, query)) = weir_http::uri::internal_target(&target) else {
        return Err(format!("unsafe URI \"{}\" was detected", target.escape_ascii()));
    };
    let stub = match stub {
        None => None,
        Some(name) => {
            let known = exchange.page.as_ref().and_then(|page| page.shared.block(&name));
            let missing = || format!("\"stub\"=\"{}\" for \"include\" not found", name.escape_ascii());
            Some(known.ok_or_else(missing)?)
        }
    };
    Ok(Inclusion { path, query, wait, set: set.map(|name| name.to_ascii_lowercase()), stub })
}
