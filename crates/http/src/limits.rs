//! Bounds and choices of the head parsers.
//!
//! Owns: [`HeadRules`].
//! Why: one value per listener (and per pool, for answers), built when the plan is compiled.

/// What a head may measure, and which unusual names are kept.
///
/// Memory cost: a connection that is sending its head may hold `head` bytes, so this times the connections that a
/// client may open is what slow senders can pin down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadRules {
    /// Longest request or status line in bytes, without its CRLF. nginx: one of `large_client_header_buffers`.
    pub first_line: usize,
    /// Longest field line in bytes, without its CRLF. nginx: one of `large_client_header_buffers`.
    pub field_line: usize,
    /// Longest whole head in bytes, first line and final empty line included. At most [`HeadRules::MAX_HEAD`].
    pub head: usize,
    /// Most field lines. Lines dropped for their names count too.
    pub fields: usize,
    /// What happens to names that are tokens, but not only letters, digits and hyphens.
    pub unusual_names: UnusualNames,
}

/// The fate of field names with characters other than letters, digits and hyphens. Names that are no tokens at all
/// are refused whatever stands here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnusualNames {
    /// Kept and forwarded. HAProxy's way; nginx with `ignore_invalid_headers off`.
    ///
    /// Danger: CGI-like gateways read `X_User` and `X-User` as the same variable.
    Keep,
    /// Left out as if it had not been sent. nginx's default.
    #[default]
    Drop,
    /// As [`UnusualNames::Drop`], but underscores are taken for letters. nginx with `underscores_in_headers on`.
    DropExceptUnderscores,
}

impl HeadRules {
    /// Upper bound of [`HeadRules::head`], whatever is configured: one megabyte.
    pub const MAX_HEAD: usize = 1 << 20;

    /// The bound on the head that is really used.
    pub(crate) fn head_limit(&self) -> usize {
        self.head.min(Self::MAX_HEAD)
    }

    /// The bound on a field line that is really used: a name's length must fit 16 bits.
    pub(crate) fn field_limit(&self) -> usize {
        self.field_line.min(usize::from(u16::MAX))
    }

    /// Whether a field of this name, which is a token, is kept.
    pub(crate) fn keeps(&self, name: &[u8]) -> bool {
        match self.unusual_names {
            UnusualNames::Keep => true,
            UnusualNames::Drop => crate::scan::is_plain_name(name),
            UnusualNames::DropExceptUnderscores => name.split(|&b| b == b'_').all(crate::scan::is_plain_name),
        }
    }
}

impl Default for HeadRules {
    /// nginx's `large_client_header_buffers 4 8k`, and at most 128 fields.
    fn default() -> Self {
        Self {
            first_line: 8 << 10,
            field_line: 8 << 10,
            head: 32 << 10,
            fields: 128,
            unusual_names: UnusualNames::default(),
        }
    }
}
