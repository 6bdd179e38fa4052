//! A list of fields in one run of bytes.
//!
//! Owns: names, values, and where they stand.
//! Never: checks them. Driven by: HPACK, `head`, and whoever sends a head.
//!
//! ```text
//!   bytes  :method GET :path /1k host a      (without the gaps)
//!   marks         ^   ^     ^   ^    ^ ^     end of name, end of value
//! ```

/// A list of fields, in order. Cleared and filled again it allocates nothing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Fields {
    bytes: Vec<u8>,
    marks: Vec<Mark>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    name_end: u32,
    value_end: u32,
    sensitive: bool,
}

/// One field of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldRef<'a> {
    /// The name, in lower case on the wire.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Whether no table may keep it (RFC 7541 §7.1.3).
    pub sensitive: bool,
}

impl Fields {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), marks: Vec::new() }
    }

    /// Forgets all, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.marks.clear();
    }

    /// Adds a field.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.append(name);
        let name_end = self.bytes.len();
        self.append(value);
        self.mark(name_end, false);
    }

    /// Adds a field that no table on the way may keep: credentials.
    pub fn push_sensitive(&mut self, name: &[u8], value: &[u8]) {
        self.append(name);
        let name_end = self.bytes.len();
        self.append(value);
        self.mark(name_end, true);
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// The field at `at`.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<FieldRef<'_>> {
        let mark = self.marks.get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.marks[before].value_end as usize);
        Some(FieldRef {
            name: &self.bytes[start..mark.name_end as usize],
            value: &self.bytes[mark.name_end as usize..mark.value_end as usize],
            sensitive: mark.sensitive,
        })
    }

    /// All in order.
    pub fn iter(&self) -> impl Iterator<Item = FieldRef<'_>> + '_ {
        (0..self.marks.len()).filter_map(|at| self.get(at))
    }

    /// The first value of `name`.
    #[must_use]
    pub fn value(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter().find(|field| field.name == name).map(|field| field.value)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Adds bytes of a field that is not marked yet.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Drops bytes of a field that was not marked.
    pub(crate) fn truncate_bytes(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    /// Ends a field whose name ends at `name_end`.
    pub(crate) fn mark(&mut self, name_end: usize, sensitive: bool) {
        // Lists are bounded far below 4 GB by what they come from.
        let (name_end, value_end) = (name_end as u32, self.bytes.len() as u32);
        self.marks.push(Mark { name_end, value_end, sensitive });
    }
}

impl Clone for Fields {
    fn clone(&self) -> Self {
        Self { bytes: self.bytes.clone(), marks: self.marks.clone() }
    }

    fn clone_from(&mut self, other: &Self) {
        self.bytes.clone_from(&other.bytes);
        self.marks.clone_from(&other.marks);
    }
}
