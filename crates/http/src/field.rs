//! Where the fields of a head stand in the buffer they arrived in.
//!
//! Owns: [`Field`] (offsets and a known id), the reusable table of them, and [`Headers`], the borrowed view.
//! Never: copies a name or a value.
//! Driven by: the head parsers, which fill the table; everybody else reads through [`Headers`].
//! Why: offsets survive a move of the buffer, and a table that is cleared rather than dropped allocates nothing in
//! steady state. One bit per known id answers "is it there" without a search. A line that is spelt as Weir writes lines is
//! marked, so that it is sent on as it stands, together with its neighbours.

use crate::name::{HeaderId, KNOWN};

/// One field line: offsets from the start of the buffer. Sixteen bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    name_start: u32,
    value_start: u32,
    value_len: u32,
    name_len: u16,
    /// What the name is, if it is known.
    pub id: HeaderId,
    marks: u8,
}

/// It ends at this hop.
const HOP: u8 = 1;
/// The line is `Name: value` and CRLF.
const CANONICAL: u8 = 2;
/// It did not come out of a parser: whether it may stand in a head is not known.
const UNCHECKED: u8 = 4;

impl Field {
    /// `name` and `value` are ranges of the buffer; the value carries no space around it. The parsers bound both.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "`HeadRules` bounds names to 64 KB and heads to `MAX_HEAD`"
    )]
    pub(crate) fn new(name: std::ops::Range<usize>, value: std::ops::Range<usize>, id: HeaderId) -> Self {
        Self {
            name_start: name.start as u32,
            name_len: name.len() as u16,
            value_start: value.start as u32,
            value_len: value.len() as u32,
            id,
            marks: 0,
        }
    }

    /// A field of no parsed head. `None` where the name is longer than any head may have it.
    #[must_use]
    pub fn unchecked(
        name: std::ops::Range<usize>,
        value: std::ops::Range<usize>,
        id: HeaderId,
    ) -> Option<Self> {
        let fits = name.len() <= usize::from(u16::MAX) && value.end <= u32::MAX as usize;
        fits.then(|| Self { marks: UNCHECKED, ..Self::new(name, value, id) })
    }

    /// Says that the line is spelt as `Name: value` and CRLF, one space and no other.
    #[inline]
    pub(crate) fn mark_canonical(&mut self) {
        self.marks |= CANONICAL;
    }

    /// Gives it another value, which nobody has checked.
    #[expect(clippy::cast_possible_truncation, reason = "heads and what is added to them are far below 4 GB")]
    pub fn set_value(&mut self, value: std::ops::Range<usize>) {
        self.value_start = value.start as u32;
        self.value_len = value.len() as u32;
        self.marks = self.marks & !CANONICAL | UNCHECKED;
    }

    /// Whether it came out of a parser as it is: it may stand in a head.
    #[inline]
    #[must_use]
    pub fn is_checked(&self) -> bool {
        self.marks & UNCHECKED == 0
    }

    /// The whole line with its CRLF in the buffer, if those bytes are what [`crate::HeadWriter`] would write.
    #[inline]
    #[must_use]
    pub fn canonical_line(&self) -> Option<std::ops::Range<usize>> {
        let end = self.value_start as usize + self.value_len as usize + 2;
        (self.marks & CANONICAL != 0).then_some(self.name_start as usize..end)
    }

    /// The name as it was spelt.
    #[must_use]
    #[inline]
    pub fn name<'a>(&self, buf: &'a [u8]) -> &'a [u8] {
        &buf[self.name_start as usize..][..usize::from(self.name_len)]
    }

    /// The value, without the space around it.
    #[must_use]
    #[inline]
    pub fn value<'a>(&self, buf: &'a [u8]) -> &'a [u8] {
        &buf[self.value_start as usize..][..self.value_len as usize]
    }

    /// Whether this field ends at this hop (RFC 9110 §7.6.1) and must not be forwarded.
    #[inline]
    #[must_use]
    pub fn is_hop_by_hop(&self) -> bool {
        self.marks & HOP != 0
    }
}

/// Fields that never go further. `Trailer` is not among them: RFC 9110 §6.6.2 has it announce what follows to anybody,
/// and trailers are forwarded.
pub(crate) const HOP_BY_HOP: u128 = HeaderId::Connection.bit()
    | HeaderId::KeepAlive.bit()
    | HeaderId::ProxyConnection.bit()
    | HeaderId::Te.bit()
    | HeaderId::TransferEncoding.bit()
    | HeaderId::Upgrade.bit()
    | HeaderId::Http2Settings.bit();

/// The fields of one head, or of one trailer section.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldTable {
    fields: Vec<Field>,
    /// Bits of the known names there are, and of those there are several lines of; in halves, because a shift of 128 bits
    /// by a variable is a dozen instructions.
    present: [u64; 2],
    repeated: [u64; 2],
}

/// What each known name is marked with.
static MARKS: [u8; KNOWN] = {
    let mut marks = [0; KNOWN];
    let mut at = 0;
    while at < KNOWN {
        if HOP_BY_HOP >> at & 1 == 1 {
            marks[at] = HOP;
        }
        at += 1;
    }
    marks
};

fn whole(halves: [u64; 2]) -> u128 {
    u128::from(halves[1]) << 64 | u128::from(halves[0])
}

impl FieldTable {
    pub(crate) fn clear(&mut self) {
        self.fields.clear();
        self.present = [0; 2];
        self.repeated = [0; 2];
    }

    #[inline]
    pub(crate) fn push(&mut self, mut field: Field) {
        let number = field.id as usize;
        if let Some(marks) = MARKS.get(number) {
            let (half, bit) = (number / 64 % 2, 1 << (number % 64));
            field.marks |= marks;
            self.repeated[half] |= self.present[half] & bit;
            self.present[half] |= bit;
        }
        self.fields.push(field);
    }

    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }

    /// Frees what the table keeps for reuse.
    pub(crate) fn release(&mut self) {
        *self = Self::default();
    }

    #[inline]
    pub(crate) fn view<'a>(&'a self, buf: &'a [u8]) -> Headers<'a> {
        Headers { buf, fields: &self.fields, present: whole(self.present), repeated: whole(self.repeated) }
    }

    /// As [`Headers::values`], but the values borrow only the buffer.
    pub(crate) fn values<'b>(&self, buf: &'b [u8], id: HeaderId) -> impl Iterator<Item = &'b [u8]> {
        self.fields.iter().filter(move |field| field.id == id).map(move |field| field.value(buf))
    }

    /// Marks the fields for which `test` holds as ending at this hop.
    pub(crate) fn mark_hop_by_hop(&mut self, buf: &[u8], mut test: impl FnMut(HeaderId, &[u8]) -> bool) {
        for field in &mut self.fields {
            if !field.is_hop_by_hop() && test(field.id, field.name(buf)) {
                field.marks |= HOP;
            }
        }
    }
}

/// The fields of a parsed head, together with the buffer they stand in. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'a> {
    buf: &'a [u8],
    fields: &'a [Field],
    present: u128,
    repeated: u128,
}

impl<'a> Headers<'a> {
    /// The bits ([`HeaderId::bit`]) of all known names there are.
    #[must_use]
    #[inline]
    pub fn present(&self) -> u128 {
        self.present
    }

    /// How many field lines there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there is no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Whether a known field is there. One bit test; false for [`HeaderId::Unknown`].
    #[must_use]
    #[inline]
    pub fn has(&self, id: HeaderId) -> bool {
        self.present & id.bit() != 0
    }

    /// Whether any field of a set of [`HeaderId::bit`]s is there.
    #[must_use]
    pub fn has_any(&self, ids: u128) -> bool {
        self.present & ids != 0
    }

    /// Whether a known field is there on more than one line.
    #[must_use]
    #[inline]
    pub fn repeats(&self, id: HeaderId) -> bool {
        self.repeated & id.bit() != 0
    }

    /// The known fields that are there on more than one line, as a set of [`HeaderId::bit`]s.
    #[must_use]
    pub fn repeated(&self) -> u128 {
        self.repeated
    }

    /// The value of the first line of a known field.
    #[must_use]
    pub fn value(&self, id: HeaderId) -> Option<&'a [u8]> {
        self.values(id).next()
    }

    /// The values of all lines of a known field, in order.
    pub fn values(&self, id: HeaderId) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let Headers { buf, fields, .. } = *self;
        let fields = if self.has(id) { fields } else { &[] };
        fields.iter().filter(move |field| field.id == id).map(|field| field.value(buf))
    }

    /// The value of the first line with this name, in any case. Works for known and unknown names.
    #[must_use]
    pub fn by_name(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.all_by_name(name).next()
    }

    /// The values of all lines with this name, in any case and in order.
    pub fn all_by_name<'n>(&self, name: &'n [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        let Headers { buf, fields, .. } = *self;
        let id = HeaderId::of(name);
        let fields = if id == HeaderId::Unknown || self.has(id) { fields } else { &[] };
        fields
            .iter()
            .filter(move |field| {
                field.id == id && (id != HeaderId::Unknown || field.name(buf).eq_ignore_ascii_case(name))
            })
            .map(|field| field.value(buf))
    }

    /// All lines: id, name as spelt, value.
    pub fn iter(&self) -> impl Iterator<Item = (HeaderId, &'a [u8], &'a [u8])> + use<'a> {
        let Headers { buf, fields, .. } = *self;
        fields.iter().map(move |field| (field.id, field.name(buf), field.value(buf)))
    }

    /// The lines that may be forwarded: all but those that end at this hop. `Content-Length` is among them; a writer
    /// that frames the body anew leaves it out.
    pub fn end_to_end(&self) -> impl Iterator<Item = (HeaderId, &'a [u8], &'a [u8])> + use<'a> {
        let Headers { buf, fields, .. } = *self;
        fields
            .iter()
            .filter(|field| !field.is_hop_by_hop())
            .map(move |field| (field.id, field.name(buf), field.value(buf)))
    }

    /// The value of one of [`Headers::fields`].
    #[must_use]
    pub fn value_of(&self, field: &Field) -> &'a [u8] {
        field.value(self.buf)
    }

    /// The field lines themselves.
    #[must_use]
    #[inline]
    pub fn fields(&self) -> &'a [Field] {
        self.fields
    }
}
