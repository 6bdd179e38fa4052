//! Where an entry of a stick table keeps each kind of data.
//!
//! Owns: the kinds that `store` names, their widths, the order of their words.
//! Never: holds an entry.
//! Driven by: `StickTable`, once when it is made and at each look into an entry.
//! Why: entries of one table have one shape, so data are words at offsets known at load: no map, no tag, no padding.

use weir_expr::{StickData, Stored};

use super::rate::Frequency;
use crate::time::millis;

/// Words that one kind takes.
fn width(data: StickData) -> usize {
    match data {
        data if data.is_rate() => Frequency::WORDS,
        StickData::BytesInCnt | StickData::BytesOutCnt => 2,
        _ => 1,
    }
}

/// Data of a table and where each begins.
#[derive(Debug)]
pub(super) struct Layout {
    fields: Box<[Field]>,
    words: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    data: StickData,
    at: usize,
    period: u32,
}

impl Layout {
    /// Words begin at `first`; what is named twice is stored once.
    pub(super) fn new(stored: &[Stored], first: usize) -> Self {
        let mut fields: Vec<Field> = Vec::with_capacity(stored.len());
        let mut at = first;
        for stored in stored {
            if fields.iter().any(|field| field.data == stored.data) {
                continue;
            }
            let period = u32::try_from(millis(stored.period)).unwrap_or(u32::MAX).max(1);
            fields.push(Field { data: stored.data, at, period });
            at += width(stored.data);
        }
        Self { fields: fields.into(), words: at }
    }

    /// Words of one entry.
    pub(super) fn words(&self) -> usize {
        self.words
    }

    pub(super) fn field(&self, data: StickData) -> Option<Field> {
        self.fields.iter().find(|field| field.data == data).copied()
    }

    /// Every kind, in the order of the manual.
    pub(super) fn fields(&self) -> impl Iterator<Item = Field> {
        self.fields.iter().copied()
    }
}

impl Field {
    pub(super) fn data(self) -> StickData {
        self.data
    }

    pub(super) fn of(self, words: &[u32]) -> &[u32] {
        words.get(self.at..self.at + width(self.data)).unwrap_or_default()
    }

    pub(super) fn put(self, words: &mut [u32], value: &[u32]) {
        if let Some(own) = words.get_mut(self.at..self.at + value.len()) {
            own.copy_from_slice(value);
        }
    }

    pub(super) fn read(self, words: &[u32], now: u32) -> u64 {
        match self.of(words) {
            [one] => u64::from(*one),
            [low, high] => u64::from(*low) | u64::from(*high) << 32,
            rate => u64::from(Frequency::of(rate).read(now, self.period)),
        }
    }

    /// Sets a count, or restarts a rate as if `value` events came now.
    pub(super) fn set(self, words: &mut [u32], now: u32, value: u64) {
        if self.data.is_rate() {
            self.put(words, &Frequency::default().words());
            return self.add(words, now, value);
        }
        #[expect(clippy::cast_possible_truncation, reason = "the halves of a number")]
        match width(self.data) {
            2 => self.put(words, &[value as u32, (value >> 32) as u32]),
            _ => self.put(words, &[u32::try_from(value).unwrap_or(u32::MAX)]),
        }
    }

    /// Counts up; stops at the most that fits.
    pub(super) fn add(self, words: &mut [u32], now: u32, by: u64) {
        if self.data.is_rate() {
            let mut rate = Frequency::of(self.of(words));
            rate.add(now, self.period, u32::try_from(by).unwrap_or(u32::MAX));
            return self.put(words, &rate.words());
        }
        self.set(words, now, self.read(words, now).saturating_add(by));
    }
}
