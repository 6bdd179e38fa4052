//! Edits of header fields: of the request that goes on, of the response that goes back.
//!
//! Owns: adding, setting, removing and replacing fields; `Expires`.
//! Driven by: the program (requests), `respond::start` (responses).

use std::time::Duration;

use weir_http::{HeaderId, HttpDate, Method};
use weir_plan::{EditKind, Expires, HeaderEdit, MatchFailed, Pattern};

use crate::eval::{condition, text};
use crate::exchange::Exchange;
use crate::exchange::fields::{FieldName, Fields};

/// Edits the request.
///
/// # Errors
/// Whether to edit is not known.
pub(crate) fn request(exchange: &mut Exchange, edit: &HeaderEdit) -> Result<(), MatchFailed> {
    if let Some(condition) = &edit.condition
        && !condition::holds(exchange, condition)?
    {
        return Ok(());
    }
    let value = text(exchange, &edit.value);
    let mut fields = std::mem::take(&mut exchange.request.fields);
    apply(exchange, &mut fields, edit, value);
    exchange.request.fields = fields;
    if edit.name.id == HeaderId::Host
        && let Some(host) = exchange.request.fields.first(HeaderId::Host).map(<[u8]>::to_vec)
        && let Some(authority) = weir_http::Authority::parse(&host)
    {
        exchange.request.host = authority.host.to_ascii_lowercase();
        exchange.request.port = authority.port;
    }
    Ok(())
}

/// Edits the request as its route says.
pub(crate) fn of_route(exchange: &mut Exchange) {
    let installed = exchange.installed.clone();
    for edit in installed.plan.route(exchange.route).settings.request_edits.iter() {
        if let Err(why) = request(exchange, edit) {
            return exchange.slots.doubt(why);
        }
    }
}

/// Edits the response: `Expires`, then the route's edits.
pub(crate) fn response(exchange: &mut Exchange) {
    let installed = exchange.installed.clone();
    let settings = &installed.plan.route(exchange.route).settings;
    if let Some(rule) = &settings.expires {
        expires(exchange, rule);
    }
    for edit in settings.response_edits.iter() {
        one_response_edit(exchange, edit);
    }
}

/// Edits the response that has come, at once.
pub(crate) fn answer(exchange: &mut Exchange, edit: &HeaderEdit) {
    one_response_edit(exchange, edit);
}

fn one_response_edit(exchange: &mut Exchange, edit: &HeaderEdit) {
    if !edit.holds_for(exchange.response.status) {
        return;
    }
    if let Some(condition) = &edit.condition {
        match condition::holds(exchange, condition) {
            Ok(true) => {}
            Ok(false) => return,
            Err(why) => return exchange.slots.doubt(why),
        }
    }
    let value = text(exchange, &edit.value);
    if edit.skip_empty && value.is_empty() {
        return;
    }
    let mut fields = std::mem::take(&mut exchange.response.fields);
    apply(exchange, &mut fields, edit, value);
    exchange.response.fields = fields;
}

fn apply(exchange: &Exchange, fields: &mut Fields, edit: &HeaderEdit, value: Vec<u8>) {
    let name = edit.name.name.as_bytes();
    match &edit.kind {
        EditKind::Add => fields.push_known(edit.name.id, name, &value),
        EditKind::Set => fields.set(name, &value),
        EditKind::Assign if value.is_empty() => drop(fields.remove(FieldName::new(name))),
        EditKind::Assign => fields.set(name, &value),
        EditKind::Remove => drop(fields.remove(FieldName::new(name))),
        EditKind::RemovePrefix => fields.retain(|field| {
            let start = field.name.get(..name.len());
            !start.is_some_and(|start| start.eq_ignore_ascii_case(name))
        }),
        EditKind::Replace { pattern, each } => {
            fields.rewrite(FieldName::new(name), |line| {
                replace_line(exchange, pattern, &edit.value, line, *each)
            });
        }
    }
}

fn replace_line(
    exchange: &Exchange,
    pattern: &Pattern,
    with: &weir_plan::Template,
    line: &[u8],
    each: bool,
) -> Option<Vec<u8>> {
    if !each {
        return replace(exchange, pattern, with, line);
    }
    let mut changed = false;
    let parts: Vec<Vec<u8>> = line
        .split(|&b| b == b',')
        .map(|part| match replace(exchange, pattern, with, part.trim_ascii()) {
            Some(new) => {
                changed = true;
                new
            }
            None => part.trim_ascii().to_vec(),
        })
        .collect();
    changed.then(|| parts.join(&b", "[..]))
}

/// What the pattern matches as a whole, replaced.
fn replace(
    exchange: &Exchange,
    pattern: &Pattern,
    with: &weir_plan::Template,
    subject: &[u8],
) -> Option<Vec<u8>> {
    let captures = pattern.matches(subject).unwrap_or_else(|why| {
        exchange.slots.doubt(why);
        None
    })?;
    let whole = captures.range(0)?;
    let mut out = subject[..whole.start].to_vec();
    crate::eval::render_with_groups(exchange, with, &captures, subject, &mut out);
    out.extend_from_slice(&subject[whole.end..]);
    Some(out)
}

/// Keeps the response fields that capture rules asked for.
pub(crate) fn capture_response(exchange: &mut Exchange) {
    for (name, length, slot) in std::mem::take(&mut exchange.captured.wanted) {
        let value = exchange.response.fields.first(FieldName::new(&name));
        let value = value.map(|value| value[..value.len().min(length)].into());
        let list = &mut exchange.captured.response;
        if list.len() <= usize::from(slot) {
            list.resize(usize::from(slot) + 1, None);
        }
        list[usize::from(slot)] = value;
    }
}

/// Makes the request a GET without a body, as error pages are asked for.
pub(crate) fn as_get(exchange: &mut Exchange) {
    if exchange.request.method != Method::Head {
        exchange.request.method = Method::Get;
        exchange.request.method_text = b"GET".to_vec();
    }
}

/// The furthest `Expires`: what nginx documents for `max`.
const FAR: u64 = 2_145_916_555;

fn expires(exchange: &mut Exchange, rule: &Expires) {
    if !matches!(exchange.response.status, 200 | 201 | 204 | 206 | 301 | 302 | 303 | 304 | 307 | 308) {
        return;
    }
    let now = weir_rt::unix_now().as_secs();
    let modified = || {
        let value = exchange.response.fields.first(HeaderId::LastModified)?;
        HttpDate::parse(value, HttpDate::from_unix(now)).map(HttpDate::unix)
    };
    let at = match rule {
        Expires::After(seconds) => Some(now.saturating_add_signed(*seconds)),
        Expires::AfterModified(seconds) => {
            modified().map(|modified| modified.saturating_add_signed(*seconds))
        }
        Expires::Daily(second) => Some(next_daily(now, u64::from(*second))),
        Expires::Epoch => Some(1),
        Expires::Max => Some(FAR),
        Expires::Template(template) => match parse_word(&text(exchange, template)) {
            Some(word) => return expires(exchange, &word),
            None => return,
        },
    };
    let Some(at) = at else { return };
    let max_age = match rule {
        Expires::Max => Some(315_360_000),
        Expires::Epoch => None,
        // A time that has passed, or "now" by a negative offset, forbids caching; zero is a real zero.
        Expires::After(seconds) if *seconds < 0 => None,
        _ => at.checked_sub(now),
    };
    let fields = &mut exchange.response.fields;
    fields.remove(HeaderId::Expires);
    fields.push_id(HeaderId::Expires, &HttpDate::from_unix(at).imf());
    let control = match max_age {
        Some(age) => format!("max-age={age}"),
        None => "no-cache".into(),
    };
    fields.remove(HeaderId::CacheControl);
    fields.push_id(HeaderId::CacheControl, control.as_bytes());
}

/// The next time that it is so many seconds after midnight UTC.
fn next_daily(now: u64, second: u64) -> u64 {
    let day = 86_400;
    let today = now - now % day + second;
    if today > now { today } else { today + day }
}

/// The words that a computed `expires` may come to.
pub(crate) fn parse_word(value: &[u8]) -> Option<Expires> {
    let word = std::str::from_utf8(value).ok()?.trim();
    match word {
        "" | "off" => None,
        "epoch" => Some(Expires::Epoch),
        "max" => Some(Expires::Max),
        _ => {
            let (negative, digits) = match word.strip_prefix('-') {
                Some(rest) => (true, rest),
                None => (false, word),
            };
            let seconds = i64::try_from(parse_time(digits)?.as_secs()).ok()?;
            Some(Expires::After(if negative { -seconds } else { seconds }))
        }
    }
}

/// `1h30m`: units from large to small, each once; a number alone, or at the end, is seconds.
fn parse_time(text: &str) -> Option<Duration> {
    const UNITS: [(char, u64); 7] = [
        ('y', 31_536_000),
        ('M', 2_592_000),
        ('w', 604_800),
        ('d', 86_400),
        ('h', 3600),
        ('m', 60),
        ('s', 1),
    ];
    let (mut rest, mut units, mut total) = (text, &UNITS[..], 0_u64);
    loop {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number = rest[..end].parse::<u64>().ok()?;
        let mut behind = rest[end..].chars();
        let unit = behind.next().unwrap_or('s');
        let at = units.iter().position(|(letter, _)| *letter == unit)?;
        total = total.checked_add(number.checked_mul(units[at].1)?)?;
        (rest, units) = (behind.as_str(), &units[at + 1..]);
        if rest.is_empty() {
            return Some(Duration::from_secs(total));
        }
    }
}
