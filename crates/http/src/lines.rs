//! Field lines: the part of the grammar that requests, answers and trailers share (RFC 9112 §5).
//!
//! Owns: one field line's grammar, and the progress through a head that arrives in pieces.
//! Never: gives meaning to a field.
//! Driven by: `request`, `response` and `body::trailers`.
//! Why: each line is parsed in one pass when it is whole. A line that is cut is looked at once more when its LF has
//! come, and the LF is searched only in bytes not searched yet, so that a head fed byte by byte costs linear time.
//!
//! Lines end in CRLF, or all of a head in LF alone (RFC 9112 §2.2), as its first line says: the choice is made once a
//! head, and either parser knows one end only. A head that mixes them is refused, since two readings of one message are
//! what smuggling lives on.
//!
//! ```text
//!   |GET / HTTP/1.1\r\n|Host: a\r\n|Accept: te|xt/h
//!   ^ 0                             ^ line     ^ seen: no LF between line and here
//! ```

use crate::field::{Field, FieldTable};
use crate::limits::HeadRules;
use crate::name::HeaderId;
use crate::scan;

/// What is wrong with a line, in either kind of head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LineError {
    /// A CR that no LF follows.
    BareCr,
    /// An LF without its CR, in a head whose other lines end in CRLF.
    BareLf,
    /// A CRLF in a head whose other lines end in LF alone.
    MixedEnds,
    /// NUL, DEL or another control character.
    Control,
    /// An empty field name, or a character in it that no token has.
    FieldName,
    /// Space between a field name and its colon.
    SpaceBeforeColon,
    /// A line that begins with space: obsolete folding.
    Folding,
    /// A line longer than [`HeadRules::field_line`].
    FieldTooLong,
    /// More lines than [`HeadRules::fields`].
    TooManyFields,
    /// A head longer than [`HeadRules::head`].
    HeadTooLong,
}

impl LineError {
    /// Whether a bound was exceeded, as opposed to the grammar broken.
    #[must_use]
    pub fn is_size(self) -> bool {
        matches!(self, Self::FieldTooLong | Self::TooManyFields | Self::HeadTooLong)
    }

    /// A few words for the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BareCr => "CR without LF",
            Self::BareLf => "LF without CR",
            Self::MixedEnds => "CRLF among lines that end in LF",
            Self::Control => "control character in a field",
            Self::FieldName => "invalid field name",
            Self::SpaceBeforeColon => "space before the colon of a field",
            Self::Folding => "folded field line",
            Self::FieldTooLong => "field line too long",
            Self::TooManyFields => "too many fields",
            Self::HeadTooLong => "head too long",
        }
    }
}

/// How the lines of a head end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LineEnd {
    /// CRLF.
    #[default]
    CrLf,
    /// LF alone.
    Lf,
}

impl LineEnd {
    /// How the line ends whose terminator begins with `byte`.
    #[inline]
    pub(crate) fn of(byte: u8) -> Self {
        if byte == b'\n' { Self::Lf } else { Self::CrLf }
    }

    /// Checks for this end at `at`, and gives the position behind it; `None` where the buffer ends before.
    #[inline]
    pub(crate) fn behind(self, buf: &[u8], at: usize) -> Result<Option<usize>, LineError> {
        match self {
            Self::CrLf => behind_end::<false>(buf, at),
            Self::Lf => behind_end::<true>(buf, at),
        }
    }
}

/// What one line turned out to be.
pub(crate) enum Line {
    /// A field; the next line starts at `next`.
    Field { field: Field, next: usize },
    /// The empty line that ends the section, which ends before `next`.
    End { next: usize },
    /// A line in the form of a field whose name is no token; the next line starts at `next`.
    Odd { next: usize },
    /// The buffer ends before the line does.
    Cut,
}

/// How far a head is parsed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Start of the line that is not parsed yet.
    pub(crate) line: usize,
    /// No LF stands between `line` and here. Equal to `line` if the line was not looked at yet.
    seen: usize,
}

impl Progress {
    /// Whether to parse the line at `line` now: it is new, or its LF has arrived.
    #[inline]
    pub(crate) fn wants(&mut self, buf: &[u8]) -> bool {
        if self.seen <= self.line || memchr::memchr(b'\n', &buf[self.seen.min(buf.len())..]).is_some() {
            return true;
        }
        self.seen = buf.len();
        false
    }

    /// The line is cut at the end of `buf`.
    #[inline]
    pub(crate) fn wait(&mut self, buf: &[u8]) {
        self.seen = buf.len();
    }

    /// The line is done; the next one starts at `next`.
    #[inline]
    pub(crate) fn advance(&mut self, next: usize) {
        self.line = next;
        self.seen = next;
    }
}

/// Parses field lines into `table` until the empty line. `Ok(true)` when the section is whole; then
/// `progress.line` is the first byte behind it.
#[inline]
pub(crate) fn parse_fields(
    ends: LineEnd,
    progress: &mut Progress,
    table: &mut FieldTable,
    dropped: &mut usize,
    buf: &[u8],
    rules: &HeadRules,
) -> Result<bool, LineError> {
    if ends == LineEnd::Lf {
        return parse_lf_lines(progress, table, dropped, buf, rules);
    }
    parse_lines::<false>(progress, table, dropped, buf, rules)
}

#[cold]
#[inline(never)]
fn parse_lf_lines(
    progress: &mut Progress,
    table: &mut FieldTable,
    dropped: &mut usize,
    buf: &[u8],
    rules: &HeadRules,
) -> Result<bool, LineError> {
    parse_lines::<true>(progress, table, dropped, buf, rules)
}

#[inline(never)]
fn parse_lines<const LF: bool>(
    progress: &mut Progress,
    table: &mut FieldTable,
    dropped: &mut usize,
    buf: &[u8],
    rules: &HeadRules,
) -> Result<bool, LineError> {
    while progress.wants(buf) {
        if !LF {
            take_canonical_lines(progress, table, *dropped, buf, rules)?;
        }
        let start = progress.line;
        let line = match any_line::<LF>(buf, start) {
            Err(LineError::FieldName) if rules.mends => odd_line::<LF>(buf, start)?,
            line => line?,
        };
        match line {
            Line::Odd { next } => {
                check_line(start, next, table.len() + *dropped, rules)?;
                *dropped += 1;
                progress.advance(next);
            }
            Line::Field { field, next } => {
                check_line(start, next, table.len() + *dropped, rules)?;
                if field.id != HeaderId::Unknown || rules.keeps(field.name(buf)) {
                    table.push(field);
                } else {
                    *dropped += 1;
                }
                progress.advance(next);
            }
            Line::End { next } => {
                if next > rules.head_limit() {
                    return Err(LineError::HeadTooLong);
                }
                progress.advance(next);
                return Ok(true);
            }
            Line::Cut => {
                progress.wait(buf);
                break;
            }
        }
    }
    check_cut_line(progress.line, buf.len(), rules)?;
    Ok(false)
}

/// Takes in the lines that are whole and spelt as nearly all are, up to the first that is not.
#[inline]
fn take_canonical_lines(
    progress: &mut Progress,
    table: &mut FieldTable,
    dropped: usize,
    buf: &[u8],
    rules: &HeadRules,
) -> Result<(), LineError> {
    let mut start = progress.line;
    while let Some((field, next)) = canonical_line(buf, start) {
        check_line(start, next, table.len() + dropped, rules)?;
        table.push(field);
        start = next;
    }
    progress.advance(start);
    Ok(())
}

/// A field line from `start` to `next`, behind so many others, is within its bounds.
#[inline]
fn check_line(start: usize, next: usize, others: usize, rules: &HeadRules) -> Result<(), LineError> {
    if next - start > rules.field_limit() + 2 {
        return Err(LineError::FieldTooLong);
    }
    if next > rules.head_limit() {
        return Err(LineError::HeadTooLong);
    }
    if others >= rules.fields {
        return Err(LineError::TooManyFields);
    }
    Ok(())
}

/// A line that never ends meets its bound, too.
fn check_cut_line(start: usize, end: usize, rules: &HeadRules) -> Result<(), LineError> {
    if end.saturating_sub(start) > rules.field_limit() + 2 {
        return Err(LineError::FieldTooLong);
    }
    if end > rules.head_limit() {
        return Err(LineError::HeadTooLong);
    }
    Ok(())
}

/// A line that is whole and spelt as nearly all are: a known name, a colon, one space, a value without space around it,
/// CRLF; and where the next begins. `None`: it is another, or none.
#[inline]
fn canonical_line(buf: &[u8], start: usize) -> Option<(Field, usize)> {
    let rest = buf.get(start..)?;
    let colon = scan::colon_in_block(rest.first_chunk()?)?;
    let (name, [b':', b' ', first, ..]) = rest.split_at_checked(colon)? else { return None };
    // A known name is a token.
    let id = HeaderId::look_up(name);
    if id == HeaderId::Unknown || scan::is_ows(*first) {
        return None;
    }
    let value = start + colon + 2;
    let end = scan::value_end(buf, value);
    let (head, [b'\r', b'\n', ..]) = buf.split_at_checked(end)? else { return None };
    if end > value && head.last().copied().is_some_and(scan::is_ows) {
        return None;
    }
    let mut field = Field::new(start..start + colon, value..end, id);
    field.mark_canonical();
    Some((field, end + 2))
}

/// Any line, or what is wrong with it.
/// Names longer than 16 bits are refused by the caller's line bound before anybody reads the field.
fn any_line<const LF: bool>(buf: &[u8], start: usize) -> Result<Line, LineError> {
    if !LF && buf.get(start..start + 2) == Some(&b"\r\n"[..]) {
        return Ok(Line::End { next: start + 2 });
    }
    // What is up to the colon is most often a known name, and then it is a token.
    let near = scan::near_colon(buf, start).map(|colon| (colon, HeaderId::of(&buf[start..colon])));
    let (colon, id) = match near {
        Some((colon, id)) if id != HeaderId::Unknown => (colon, id),
        _ => {
            let colon = scan::token_end(buf, start);
            if colon == buf.len() {
                return Ok(Line::Cut);
            }
            if buf[colon] != b':' || colon == start {
                return other_line::<LF>(buf, start, colon);
            }
            // A known name is longer than the near look, or there is no room behind it to look in words.
            (colon, if near.is_some() { HeaderId::Unknown } else { HeaderId::of(&buf[start..colon]) })
        }
    };
    let mut value = colon + 1;
    while buf.get(value).copied().is_some_and(scan::is_ows) {
        value += 1;
    }
    let end = scan::value_end(buf, value);
    let Some(next) = behind_end::<LF>(buf, end)? else { return Ok(Line::Cut) };
    let mut value_end = end;
    while value_end > value && scan::is_ows(buf[value_end - 1]) {
        value_end -= 1;
    }
    let mut field = Field::new(start..colon, value..value_end, id);
    if !LF && value == colon + 2 && buf[colon + 1] == b' ' && value_end == end {
        field.mark_canonical();
    }
    Ok(Line::Field { field, next })
}

/// See [`LineEnd::behind`].
#[inline]
fn behind_end<const LF: bool>(buf: &[u8], at: usize) -> Result<Option<usize>, LineError> {
    match buf.get(at..).unwrap_or_default() {
        [b'\n', ..] if LF => Ok(Some(at + 1)),
        [b'\r', b'\n', ..] if LF => Err(LineError::MixedEnds),
        [b'\r', b'\n', ..] => Ok(Some(at + 2)),
        [] | [b'\r'] => Ok(None),
        [b'\r', ..] => Err(LineError::BareCr),
        [b'\n', ..] => Err(LineError::BareLf),
        [_, ..] => Err(LineError::Control),
    }
}

/// A line that is no field: the empty one, or an error. `stop` is its first byte outside a token.
#[cold]
fn bad_name(byte: u8) -> LineError {
    match byte {
        b' ' | b'\t' => LineError::SpaceBeforeColon,
        b'\r' | b'\n' => LineError::FieldName,
        0..0x20 | 0x7f => LineError::Control,
        _ => LineError::FieldName,
    }
}

/// A line whose name has visible characters that no token has.
#[cold]
fn odd_line<const LF: bool>(buf: &[u8], start: usize) -> Result<Line, LineError> {
    let stop = buf[start..].iter().position(|&byte| byte == b':' || byte <= b' ' || byte == 0x7f);
    let Some(colon) = stop.map(|stop| start + stop) else { return Ok(Line::Cut) };
    if buf[colon] != b':' || colon == start {
        return Err(bad_name(buf[colon]));
    }
    let end = scan::value_end(buf, colon + 1);
    Ok(behind_end::<LF>(buf, end)?.map_or(Line::Cut, |next| Line::Odd { next }))
}

#[inline]
fn other_line<const LF: bool>(buf: &[u8], start: usize, stop: usize) -> Result<Line, LineError> {
    if stop != start {
        return Err(bad_name(buf[stop]));
    }
    match buf[start] {
        b'\r' | b'\n' => Ok(behind_end::<LF>(buf, start)?.map_or(Line::Cut, |next| Line::End { next })),
        b' ' | b'\t' => Err(LineError::Folding),
        byte => Err(bad_name(byte)),
    }
}
