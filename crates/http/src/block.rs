//! Sixteen bytes at once.
//!
//! Owns: comparing each byte of a block with a constant, and the place of the first that passes.
//! Never: knows what the bytes mean; `scan` does.
//! Driven by: `scan`.
//! Why: field values are most of a head. Written as loops over arrays these tests depend on what the compiler inlines:
//! one build took 40 instructions a block, another 180. `wide` names the processor's instructions, without unsafe code here.

use wide::u8x16;

/// Bytes of a block.
pub(crate) const BLOCK: usize = 16;

/// Sixteen bytes.
#[derive(Clone, Copy)]
pub(crate) struct Block(u8x16);

/// Which bytes of a block pass a test, each as all ones or zeros.
#[derive(Clone, Copy)]
pub(crate) struct Passes(u8x16);

/// Which bytes of a block pass a test, each as a bit; the first byte's is the lowest.
#[derive(Clone, Copy)]
pub(crate) struct Marks(u32);

impl Block {
    #[inline]
    pub(crate) fn of(bytes: &[u8; BLOCK]) -> Self {
        Self(u8x16::new(*bytes))
    }

    /// The bytes that are this one.
    #[inline]
    pub(crate) fn is(self, byte: u8) -> Passes {
        Passes(self.0.simd_eq(u8x16::splat(byte)))
    }

    /// Letters as small ones; other bytes are changed, too.
    #[inline]
    pub(crate) fn lower(self) -> Self {
        Self(self.0 | u8x16::splat(0x20))
    }

    /// The bytes from the first of these to the last.
    #[inline]
    pub(crate) fn is_between(self, first: u8, last: u8) -> Passes {
        let ordered = self.0.max(u8x16::splat(first)).min(u8x16::splat(last));
        Passes(self.0.simd_eq(ordered))
    }

    /// The bytes that are this one or a lower one.
    #[inline]
    pub(crate) fn is_at_most(self, byte: u8) -> Passes {
        Passes(self.0.simd_eq(self.0.min(u8x16::splat(byte))))
    }
}

impl Passes {
    /// The bytes that pass either test.
    #[inline]
    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The bytes that pass this test and not the other.
    #[inline]
    pub(crate) fn but_not(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The bytes that do not pass.
    #[inline]
    pub(crate) fn inverted(self) -> Self {
        Self(!self.0)
    }

    /// The same, as bits.
    #[inline]
    pub(crate) fn marks(self) -> Marks {
        Marks(self.0.to_bitmask())
    }
}

impl Marks {
    /// The place of the first byte that passes.
    #[inline]
    pub(crate) fn first(self) -> Option<usize> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as usize)
    }

    /// Without the first `count` bytes: what passes there does not count.
    #[inline]
    pub(crate) fn behind(self, count: usize) -> Self {
        Self(if count < BLOCK { self.0 >> count << count } else { 0 })
    }

    /// Only the first `count` bytes: what passes behind them does not count.
    #[inline]
    pub(crate) fn before(self, count: usize) -> Self {
        Self(if count < BLOCK { self.0 & ((1 << count) - 1) } else { self.0 })
    }

    /// Whether two bytes pass that stand together. `before`: whether the one before the block passed.
    #[inline]
    pub(crate) fn have_neighbours(self, before: bool) -> bool {
        self.0 & (self.0 << 1 | u32::from(before)) != 0
    }

    /// Whether no byte passes.
    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }
}
