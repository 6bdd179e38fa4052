//! Header fields of one message, owned.
//!
//! Owns: the bytes of names and values, and the list of lines.
//! Never: parses or writes HTTP; the parser fills it, the writer reads it.
//! Driven by: the exchange, for requests (as received, then edited) and responses (to be sent).
//! Why: a head is some hundred bytes; one copy into an arena that is used again frees the receive buffer at once and
//! makes edits safe, for about 20 ns. Lines that stand as they are to be sent, side by side, are sent on in one piece.

use weir_http::HeaderId;
use weir_plan::HeaderSet;

/// An ordered multiset of field lines.
#[derive(Default, Clone)]
pub struct Fields {
    bytes: Vec<u8>,
    lines: Vec<weir_http::Field>,
    /// A bit for each known name that there may be a line of: most look-ups are for what is not there.
    present: u128,
    /// A bit for each known name that there may be several lines of.
    repeated: u128,
}

/// One field line.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// Its number, if the name is known.
    pub id: HeaderId,
    /// Name as received or as to be written.
    pub name: &'a [u8],
    /// Value without surrounding white space.
    pub value: &'a [u8],
    /// It ends at this hop (RFC 9110 §7.6.1).
    pub hop_by_hop: bool,
    /// It comes from a parsed head as it is: it may stand in a head.
    pub parsed: bool,
}

/// A field name to look for: by number if known, else by spelling.
#[derive(Clone, Copy, Debug)]
pub struct FieldName<'a> {
    id: HeaderId,
    name: &'a [u8],
}

impl<'a> FieldName<'a> {
    /// Looks the number up.
    pub fn new(name: &'a [u8]) -> Self {
        Self { id: HeaderId::of(name), name }
    }
}

impl From<HeaderId> for FieldName<'static> {
    fn from(id: HeaderId) -> Self {
        Self { id, name: id.name().as_bytes() }
    }
}

impl FieldName<'_> {
    /// It is the Cookie field, whose lines are joined by `; `.
    pub fn is_cookie(&self) -> bool {
        self.id == HeaderId::Cookie
    }

    /// Whether a list with these known names may have a line of this one.
    fn may_be_in(&self, present: u128) -> bool {
        self.id == HeaderId::Unknown || present & self.id.bit() != 0
    }

    fn is(&self, id: HeaderId, name: &[u8]) -> bool {
        self.id == id && (id != HeaderId::Unknown || name.eq_ignore_ascii_case(self.name))
    }
}

impl Fields {
    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.lines.clear();
        (self.present, self.repeated) = (0, 0);
    }

    /// True if there is no line.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Bytes of memory held, for deciding whether to keep it.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.lines.capacity() * size_of::<weir_http::Field>()
    }

    /// Takes all lines of a parsed head over, with one copy of its bytes.
    pub fn load(&mut self, head: &[u8], headers: weir_http::Headers<'_>) {
        self.clear();
        self.bytes.extend_from_slice(head);
        (self.present, self.repeated) = (headers.present(), headers.repeated());
        // They count from the start of `head`.
        self.lines.extend_from_slice(headers.fields());
    }

    /// Takes over the lines of another list that go further than this hop and are not `hidden`, with one copy of its
    /// bytes; of several with a name in `single`, the first.
    pub(crate) fn pass_on(&mut self, other: &Self, hidden: &HeaderSet, single: u128) {
        self.clear();
        self.bytes.extend_from_slice(&other.bytes);
        self.lines.extend_from_slice(&other.lines);
        self.lines.retain(|line| {
            let ends = line.is_hop_by_hop() || line.id == HeaderId::Connection;
            !ends && !hidden.contains_line(line, &other.bytes)
        });
        (self.present, self.repeated) = (other.present & !hidden.known, other.repeated & !hidden.known);
        if self.repeated & single != 0 {
            self.keep_first(self.repeated & single);
        }
    }

    /// Drops all lines but the first of each of these names.
    #[cold]
    fn keep_first(&mut self, names: u128) {
        let mut seen = 0;
        self.lines.retain(|line| {
            let bit = line.id.bit() & names;
            let first = seen & bit == 0;
            seen |= bit;
            first
        });
        self.repeated &= !names;
    }

    /// The value of a request's cookie; the first of its name.
    pub(crate) fn cookie(&self, name: &[u8]) -> Option<&[u8]> {
        self.all(HeaderId::Cookie).flat_map(|line| line.split(|&b| b == b';')).find_map(|pair| {
            let pair = pair.trim_ascii();
            let at = pair.iter().position(|&b| b == b'=')?;
            pair[..at].trim_ascii_end().eq_ignore_ascii_case(name).then(|| pair[at + 1..].trim_ascii_start())
        })
    }

    /// Appends a line whose name's number is known already.
    pub fn push_known(&mut self, id: HeaderId, name: &[u8], value: &[u8]) {
        let name = self.store(name);
        let value = self.store(value);
        // A name beyond all bounds is in no message, and in no configuration that was read.
        let Some(line) = weir_http::Field::unchecked(name, value, id) else { return };
        self.repeated |= self.present & id.bit();
        self.present |= id.bit();
        self.lines.push(line);
    }

    /// Appends a line.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.push_known(HeaderId::of(name), name, value);
    }

    /// Appends a line in the spelling of its number.
    pub fn push_id(&mut self, id: HeaderId, value: &[u8]) {
        self.push_known(id, id.name().as_bytes(), value);
    }

    /// Replaces all lines of a name by one.
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        self.remove(FieldName::new(name));
        self.push(name, value);
    }

    /// Removes all lines of a name; true if there was one.
    pub fn remove<'n>(&mut self, name: impl Into<FieldName<'n>>) -> bool {
        let name = name.into();
        if !name.may_be_in(self.present) {
            return false;
        }
        let bytes = &self.bytes;
        let before = self.lines.len();
        self.lines.retain(|line| !name.is(line.id, line.name(bytes)));
        self.lines.len() != before
    }

    /// Keeps the lines that pass.
    pub fn retain(&mut self, mut keep: impl FnMut(Field<'_>) -> bool) {
        let bytes = &self.bytes;
        self.lines.retain(|line| keep(field(bytes, line)));
    }

    /// All lines in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Field<'_>> + Clone {
        self.lines.iter().map(|line| field(&self.bytes, line))
    }

    /// Values of a name in order.
    pub fn all<'n>(&self, name: impl Into<FieldName<'n>>) -> impl Iterator<Item = &[u8]> + Clone {
        let name = name.into();
        let id = name.id;
        // The spelling is compared only for names without a number; collecting it here would allocate.
        let spelled = if id == HeaderId::Unknown { name.name.to_vec() } else { Vec::new() };
        self.lines
            .iter()
            .filter(move |line| {
                line.id == id
                    && (id != HeaderId::Unknown || line.name(&self.bytes).eq_ignore_ascii_case(&spelled))
            })
            .map(|line| line.value(&self.bytes))
    }

    /// First value of a name.
    pub fn first<'n>(&self, name: impl Into<FieldName<'n>>) -> Option<&[u8]> {
        let name = name.into();
        if !name.may_be_in(self.present) {
            return None;
        }
        let line = self.lines.iter().find(|line| name.is(line.id, line.name(&self.bytes)))?;
        Some(line.value(&self.bytes))
    }

    /// True if a name is present.
    pub fn has<'n>(&self, name: impl Into<FieldName<'n>>) -> bool {
        self.first(name).is_some()
    }

    /// Appends all values of a name to `out`, joined; false if there is none.
    pub fn join<'n>(&self, name: impl Into<FieldName<'n>>, separator: &[u8], out: &mut Vec<u8>) -> bool {
        let name = name.into();
        if !name.may_be_in(self.present) {
            return false;
        }
        let mut found = false;
        for line in self.lines.iter().filter(|line| name.is(line.id, line.name(&self.bytes))) {
            if found {
                out.extend_from_slice(separator);
            }
            out.extend_from_slice(line.value(&self.bytes));
            found = true;
        }
        found
    }

    /// Rewrites each value of a name; `None` leaves it.
    pub fn rewrite<'n>(
        &mut self,
        name: impl Into<FieldName<'n>>,
        mut change: impl FnMut(&[u8]) -> Option<Vec<u8>>,
    ) {
        let name = name.into();
        if !name.may_be_in(self.present) {
            return;
        }
        for at in 0..self.lines.len() {
            let line = self.lines[at];
            if !name.is(line.id, line.name(&self.bytes)) {
                continue;
            }
            if let Some(value) = change(line.value(&self.bytes)) {
                let value = self.store(&value);
                self.lines[at].set_value(value);
            }
        }
    }

    /// Writes the lines that pass, in canonical form. Those that have it already, and stand side by side, are copied
    /// together; one that may not stand in a head is left out. `keep` is shown each line and the bytes it stands in: most
    /// are judged by their number alone.
    pub(crate) fn write(&self, out: &mut Vec<u8>, mut keep: impl FnMut(&weir_http::Field, &[u8]) -> bool) {
        let mut run = 0..0;
        for line in &self.lines {
            if !keep(line, &self.bytes) {
                continue;
            }
            match line.canonical_line() {
                Some(place) if place.start == run.end => run.end = place.end,
                Some(place) => {
                    out.extend_from_slice(&self.bytes[run]);
                    run = place;
                }
                None => {
                    out.extend_from_slice(&self.bytes[std::mem::take(&mut run)]);
                    write(&mut weir_http::HeadWriter::resume(out), field(&self.bytes, line));
                }
            }
        }
        out.extend_from_slice(&self.bytes[run]);
    }

    fn store(&mut self, text: &[u8]) -> std::ops::Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text);
        start..self.bytes.len()
    }
}

impl weir_http::semantics::FieldSource for &Fields {
    fn has_any(&self, ids: u128) -> bool {
        self.present & ids != 0 && self.lines.iter().any(|line| line.id.bit() & ids != 0)
    }

    fn values(&self, id: HeaderId) -> impl Iterator<Item = &[u8]> {
        self.lines.iter().filter(move |line| line.id == id).map(|line| line.value(&self.bytes))
    }
}

#[inline]
fn field<'a>(bytes: &'a [u8], line: &weir_http::Field) -> Field<'a> {
    Field {
        id: line.id,
        name: line.name(bytes),
        value: line.value(bytes),
        hop_by_hop: line.is_hop_by_hop(),
        parsed: line.is_checked(),
    }
}

/// Writes a line; one that came from a parsed head is not checked again, one that may not stand in a head is left out.
fn write(head: &mut weir_http::HeadWriter<'_>, field: Field<'_>) {
    if field.parsed {
        head.forward(field.name, field.value);
    } else {
        let _ = head.numbered(field.id, field.name, field.value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_order_and_edits_hold() {
        let mut fields = Fields::default();
        fields.push(b"X-A", b"1");
        fields.push(b"Host", b"a");
        fields.push(b"x-a", b"2");
        let mut joined = Vec::new();
        assert!(fields.join(FieldName::new(b"X-a"), b", ", &mut joined));
        assert_eq!(joined, b"1, 2");
        assert_eq!(fields.first(HeaderId::Host), Some(&b"a"[..]));
        fields.set(b"X-A", b"3");
        assert_eq!(fields.all(FieldName::new(b"x-a")).collect::<Vec<_>>(), [b"3"]);
        assert!(fields.remove(HeaderId::Host));
        assert!(!fields.has(HeaderId::Host));
        fields.rewrite(FieldName::new(b"x-a"), |old| Some([old, b"!"].concat()));
        assert_eq!(fields.first(FieldName::new(b"X-A")), Some(&b"3!"[..]));
    }

    #[test]
    fn what_is_written_has_one_form_whatever_was_received_or_changed() {
        let head = b"HTTP/1.1 200 OK\r\nServer: a\r\nX-One: 1\r\nx-two:2\r\nX-Three:  3 \r\nX-Four: 4\r\nX-None: \r\nX-Drop: 5\r\nETag: \"6\"\r\n\r\n";
        let mut parsed = weir_http::ResponseHead::new();
        assert!(parsed.parse(head, &weir_http::HeadRules::default()).is_ok());
        let (mut received, mut fields) = (Fields::default(), Fields::default());
        received.load(head, parsed.view(head).headers());
        fields.pass_on(&received, &HeaderSet::new(["server"]), 0);
        assert!(!fields.has(HeaderId::Server) && fields.has(HeaderId::ETag));
        fields.rewrite(FieldName::new(b"x-four"), |_| Some(b"four".to_vec()));
        fields.push(b"X-Own", b"7");
        fields.push(b"X-Bad", b"8\r\nX-Split: 9");
        let mut out = Vec::new();
        fields.write(&mut out, |line, bytes| line.name(bytes) != b"X-Drop");
        assert_eq!(
            String::from_utf8_lossy(&out),
            "X-One: 1\r\nx-two: 2\r\nX-Three: 3\r\nX-Four: four\r\nX-None: \r\nETag: \"6\"\r\nX-Own: 7\r\n"
        );
    }
}
