//! The tables of one track: which samples are sent, and the tables of these.
//!
//! Owns: times, key frames, chunks, sizes and offsets of samples (ISO/IEC 14496-12 §8.6 and §8.7).
//! Never: copies a table that names samples by their number without counting anew; one that it does not know is left out.
//! Driven by: `table`.
//! Why: everything is counted along the entries of the tables, whose number the size of the tables bounds. Numbers in them
//! may be anything: they are added with 64 bits, and checked.

use super::asked::Fault;
use super::boxes::{Boxes, array, find, number, put};

/// Bytes of version and flags before what a table holds.
const FULL: usize = 4;

/// A table of entries of so many bytes, whose number stands before them.
fn entries(body: &[u8], each: usize) -> Result<&[u8], Fault> {
    let count = number(body, FULL).ok_or(Fault::Broken)? as usize;
    let bytes = count.checked_mul(each).ok_or(Fault::Broken)?;
    body.get(FULL + 4..).and_then(|rest| rest.get(..bytes)).ok_or(Fault::Broken)
}

fn numbers(entry: &[u8], at: usize) -> u32 {
    number(entry, at).unwrap_or(0)
}

/// Entries that each count samples of a kind: times of decoding, offsets of composition.
#[derive(Clone, Copy)]
struct Counted<'b>(&'b [u8]);

impl<'b> Counted<'b> {
    fn each(self) -> impl Iterator<Item = (u64, [u8; 4])> + use<'b> {
        self.0
            .chunks_exact(8)
            .map(|entry| (u64::from(numbers(entry, 0)), array(entry, 4).unwrap_or_default()))
    }

    fn samples(self) -> u64 {
        self.each().map(|(count, _)| count).sum()
    }

    /// The entries of these samples.
    fn write(
        self,
        kind: &[u8; 4],
        version: &[u8],
        from: u64,
        to: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        put(kind, out, |out| {
            out.extend_from_slice(version);
            let at = out.len();
            out.extend_from_slice(&[0; 4]);
            let (mut begins, mut count) = (0u64, 0u32);
            for (samples, value) in self.each() {
                let ends = begins + samples;
                let taken = ends.min(to).saturating_sub(begins.max(from));
                if taken > 0 {
                    // What is taken of an entry is no more than it holds.
                    out.extend_from_slice(&u32::try_from(taken).unwrap_or(u32::MAX).to_be_bytes());
                    out.extend_from_slice(&value);
                    count += 1;
                }
                begins = ends;
            }
            out[at..at + 4].copy_from_slice(&count.to_be_bytes());
            Ok(())
        })
    }
}

/// Sizes of samples.
enum Sizes<'b> {
    /// All have this one; there are so many.
    One(u32, u64),
    Each(&'b [u8]),
}

impl Sizes<'_> {
    fn count(&self) -> u64 {
        match self {
            Self::One(_, count) => *count,
            Self::Each(bytes) => bytes.len() as u64 / 4,
        }
    }

    /// Bytes of the samples from one to another.
    fn sum(&self, from: u64, to: u64) -> Result<u64, Fault> {
        match self {
            Self::One(size, count) if to <= *count => {
                to.saturating_sub(from).checked_mul(u64::from(*size)).ok_or(Fault::Mismatch)
            }
            Self::One(..) => Err(Fault::Mismatch),
            Self::Each(bytes) => {
                Ok(slice(bytes, 4, from, to)?.chunks_exact(4).map(|size| u64::from(numbers(size, 0))).sum())
            }
        }
    }
}

/// The entries from one to another, of so many bytes each.
fn slice(bytes: &[u8], each: usize, from: u64, to: u64) -> Result<&[u8], Fault> {
    let at = |entry: u64| usize::try_from(entry).ok().and_then(|entry| entry.checked_mul(each));
    let (Some(from), Some(to)) = (at(from), at(to)) else { return Err(Fault::Mismatch) };
    bytes.get(from..to).ok_or(Fault::Mismatch)
}

/// Where the chunks are.
struct Chunks<'b> {
    bytes: &'b [u8],
    wide: bool,
}

impl Chunks<'_> {
    fn each(&self) -> usize {
        if self.wide { 8 } else { 4 }
    }

    fn count(&self) -> u64 {
        (self.bytes.len() / self.each()) as u64
    }

    fn offset(&self, chunk: u64) -> Result<u64, Fault> {
        let entry = slice(self.bytes, self.each(), chunk, chunk.saturating_add(1))?;
        Ok(offset(entry))
    }
}

/// An offset, of either width.
fn offset(entry: &[u8]) -> u64 {
    array(entry, 0).map_or_else(|| u64::from(numbers(entry, 0)), u64::from_be_bytes)
}

/// The tables of a track.
pub(super) struct Track<'b> {
    /// Units of its times in a second.
    scale: u64,
    times: Counted<'b>,
    keys: Option<&'b [u8]>,
    composition: Option<(&'b [u8], Counted<'b>)>,
    runs: &'b [u8],
    sizes: Sizes<'b>,
    chunks: Chunks<'b>,
}

/// The samples of a track that are sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// The first sample, counted from zero.
    first: u64,
    /// The one behind the last.
    end: u64,
    /// Time of those before the start that are sent as well, in the units of the track.
    pub(super) hidden: u64,
    first_chunk: Place,
    last_chunk: Place,
    /// The first byte of them in the file.
    pub(super) from: u64,
    /// The byte behind the last; `None`: they go to the end of the file.
    pub(super) to: Option<u64>,
}

/// A sample by its chunk.
#[derive(Clone, Copy, Debug)]
struct Place {
    chunk: u64,
    /// Its place in the chunk.
    within: u64,
}

impl<'b> Track<'b> {
    /// Reads what is in a `trak`; `None`: it has no samples.
    pub(super) fn read(body: &'b [u8]) -> Result<Option<Self>, Fault> {
        let Some(media) = find(body, b"mdia")? else { return Ok(None) };
        let header = find(media, b"mdhd")?.ok_or(Fault::Broken)?;
        let scale = number(header, if header.first() == Some(&1) { 20 } else { 12 }).ok_or(Fault::Broken)?;
        let Some(information) = find(media, b"minf")? else { return Ok(None) };
        let Some(tables) = find(information, b"stbl")? else { return Ok(None) };
        let (Some(times), Some(runs), Some(sizes)) =
            (find(tables, b"stts")?, find(tables, b"stsc")?, find(tables, b"stsz")?)
        else {
            return Ok(None);
        };
        let chunks = match (find(tables, b"co64")?, find(tables, b"stco")?) {
            (Some(body), _) => Chunks { bytes: entries(body, 8)?, wide: true },
            (None, Some(body)) => Chunks { bytes: entries(body, 4)?, wide: false },
            (None, None) => return Ok(None),
        };
        let sizes = match number(sizes, FULL).ok_or(Fault::Broken)? {
            0 => Sizes::Each(entries(sizes.get(4..).ok_or(Fault::Broken)?, 4)?),
            size => Sizes::One(size, u64::from(number(sizes, FULL + 4).ok_or(Fault::Broken)?)),
        };
        let composition = match find(tables, b"ctts")? {
            Some(body) => Some((body.get(..FULL).unwrap_or_default(), Counted(entries(body, 8)?))),
            None => None,
        };
        let track = Self {
            scale: u64::from(scale),
            times: Counted(entries(times, 8)?),
            keys: find(tables, b"stss")?.map(|body| entries(body, 4)).transpose()?,
            composition,
            runs: entries(runs, 12)?,
            sizes,
            chunks,
        };
        if track.scale == 0 {
            return Err(Fault::Broken);
        }
        Ok((track.times.samples() > 0).then_some(track))
    }

    /// The samples from one time to another; `None`: it has none of them.
    pub(super) fn span(
        &self,
        start: u64,
        length: Option<u64>,
        from_key_frame: bool,
    ) -> Result<Option<Span>, Fault> {
        let units = |millis: u64| u64::try_from(u128::from(millis) * u128::from(self.scale) / 1000);
        let begins = units(start).map_err(|_| Fault::Beyond)?;
        let Some(asked) = self.sample_at(begins) else { return Ok(None) };
        let count = self.times.samples();
        let end = match length {
            None => count,
            Some(length) => {
                let ends = begins.checked_add(units(length).map_err(|_| Fault::Beyond)?);
                // At least one is sent.
                ends.and_then(|ends| self.sample_at(ends)).unwrap_or(count).max(asked + 1)
            }
        };
        let first = match self.keys.filter(|_| from_key_frame) {
            Some(keys) => {
                let keys = keys.chunks_exact(4).map(|key| u64::from(numbers(key, 0)));
                keys.filter(|&key| key >= 1 && key <= asked + 1).max().map_or(asked, |key| key - 1)
            }
            None => asked,
        };
        let hidden = self.time_of(asked) - self.time_of(first);
        if self.sizes.count() < end {
            return Err(Fault::Mismatch);
        }
        let first_chunk = self.place(first)?;
        let last_chunk = self.place(end - 1)?;
        let from = self.byte_of(first, first_chunk)?;
        let to = match length {
            None => None,
            Some(_) => {
                let last = self.byte_of(end - 1, last_chunk)?;
                Some(last.checked_add(self.sizes.sum(end - 1, end)?).ok_or(Fault::Mismatch)?)
            }
        };
        Ok(Some(Span { first, end, hidden, first_chunk, last_chunk, from, to }))
    }

    /// The sample that is shown at a time; `None`: it is over by then.
    fn sample_at(&self, mut time: u64) -> Option<u64> {
        let mut sample = 0;
        for (count, each) in self.times.each() {
            let each = u64::from(u32::from_be_bytes(each));
            let whole = count * each;
            if time < whole {
                return Some(sample + time / each);
            }
            time -= whole;
            sample += count;
        }
        None
    }

    /// When a sample begins.
    fn time_of(&self, sample: u64) -> u64 {
        let (mut left, mut time) = (sample, 0u64);
        for (count, each) in self.times.each() {
            let taken = left.min(count);
            time = time.saturating_add(taken * u64::from(u32::from_be_bytes(each)));
            left -= taken;
            if left == 0 {
                break;
            }
        }
        time
    }

    /// Runs of chunks with equally many samples: the first chunk, the one behind the last, samples, description.
    fn runs(&self) -> impl Iterator<Item = Result<(u64, u64, u64, u32), Fault>> + '_ {
        let all = self.runs.chunks_exact(12);
        let next = all.clone().skip(1).map(|entry| u64::from(numbers(entry, 0)));
        let end = self.chunks.count() + 1;
        let ends = next.map(Some).chain(std::iter::once(None));
        all.zip(ends).map(move |(entry, ends)| {
            let (begins, ends) = (u64::from(numbers(entry, 0)), ends.unwrap_or(end));
            if begins == 0 || ends < begins || ends > end {
                return Err(Fault::Mismatch);
            }
            Ok((begins - 1, ends - 1, u64::from(numbers(entry, 4)), numbers(entry, 8)))
        })
    }

    /// The chunk of a sample.
    fn place(&self, sample: u64) -> Result<Place, Fault> {
        let mut left = sample;
        for run in self.runs() {
            let (begins, ends, each, _) = run?;
            let whole = (ends - begins).checked_mul(each).ok_or(Fault::Mismatch)?;
            if left < whole {
                return Ok(Place { chunk: begins + left / each, within: left % each });
            }
            left -= whole;
        }
        Err(Fault::Mismatch)
    }

    /// Where a sample begins in the file.
    fn byte_of(&self, sample: u64, place: Place) -> Result<u64, Fault> {
        let before = self.sizes.sum(sample - place.within, sample)?;
        self.chunks.offset(place.chunk)?.checked_add(before).ok_or(Fault::Mismatch)
    }

    /// Writes the tables of a span in the place of those in `body`, an `stbl`. Where the offsets of chunks stand, and whether
    /// they are wide, is noted.
    pub(super) fn write(
        &self,
        span: &Span,
        body: &[u8],
        out: &mut Vec<u8>,
        offsets: &mut Vec<(usize, usize, bool)>,
    ) -> Result<(), Fault> {
        let Span { first, end, .. } = *span;
        let zeros = [0; FULL];
        for one in Boxes(body) {
            let (kind, body) = one?;
            match &kind.0 {
                b"stsd" => put(&kind.0, out, |out| {
                    out.extend_from_slice(body);
                    Ok(())
                })?,
                b"stts" => self.times.write(&kind.0, &zeros, first, end, out)?,
                b"ctts" => {
                    if let Some((version, composition)) = self.composition {
                        composition.write(&kind.0, version, first, end, out)?;
                    }
                }
                b"stss" => self.write_keys(span, out)?,
                b"stsc" => self.write_runs(span, out)?,
                b"stsz" => self.write_sizes(span, out)?,
                b"co64" | b"stco" if (&kind.0 == b"co64") == self.chunks.wide => {
                    offsets.push(self.write_chunks(span, &kind.0, out)?);
                }
                // What else there may be counts samples in its own way.
                _ => {}
            }
        }
        Ok(())
    }

    fn write_keys(&self, span: &Span, out: &mut Vec<u8>) -> Result<(), Fault> {
        let keys = self.keys.unwrap_or_default().chunks_exact(4).map(|key| u64::from(numbers(key, 0)));
        let kept = keys.filter(|key| (span.first + 1..=span.end).contains(key));
        put(b"stss", out, |out| {
            out.extend_from_slice(&[0; FULL]);
            let at = out.len();
            out.extend_from_slice(&[0; 4]);
            let mut count = 0u32;
            for key in kept {
                out.extend_from_slice(&u32::try_from(key - span.first).unwrap_or(u32::MAX).to_be_bytes());
                count += 1;
            }
            out[at..at + 4].copy_from_slice(&count.to_be_bytes());
            Ok(())
        })
    }

    fn write_runs(&self, span: &Span, out: &mut Vec<u8>) -> Result<(), Fault> {
        let (first, last) = (span.first_chunk, span.last_chunk);
        put(b"stsc", out, |out| {
            out.extend_from_slice(&[0; FULL]);
            let at = out.len();
            out.extend_from_slice(&[0; 4]);
            let mut count = 0u32;
            let mut entry = |chunk: u64, samples: u64, description: u32, out: &mut Vec<u8>| {
                let chunk = u32::try_from(chunk - first.chunk + 1).map_err(|_| Fault::Mismatch)?;
                let samples = u32::try_from(samples).map_err(|_| Fault::Mismatch)?;
                for number in [chunk, samples, description] {
                    out.extend_from_slice(&number.to_be_bytes());
                }
                count += 1;
                Ok::<(), Fault>(())
            };
            for run in self.runs() {
                let (begins, ends, each, description) = run?;
                let (mut begins, ends) = (begins.max(first.chunk), ends.min(last.chunk + 1));
                if begins >= ends {
                    continue;
                }
                // Of the last chunk as many as are sent, if those are not all of it.
                let in_last = if ends == last.chunk + 1 { last.within + 1 } else { each };
                if begins == first.chunk && first.within > 0 {
                    let ends_here = if begins == last.chunk { in_last } else { each };
                    entry(begins, ends_here - first.within, description, out)?;
                    begins += 1;
                }
                if begins >= ends {
                    continue;
                }
                if in_last == each || ends - begins > 1 {
                    entry(begins, each, description, out)?;
                }
                if in_last < each {
                    entry(ends - 1, in_last, description, out)?;
                }
            }
            out[at..at + 4].copy_from_slice(&count.to_be_bytes());
            Ok(())
        })
    }

    fn write_sizes(&self, span: &Span, out: &mut Vec<u8>) -> Result<(), Fault> {
        let count = u32::try_from(span.end - span.first).map_err(|_| Fault::Mismatch)?;
        put(b"stsz", out, |out| {
            out.extend_from_slice(&[0; FULL]);
            let (size, each) = match self.sizes {
                Sizes::One(size, _) => (size, &[][..]),
                Sizes::Each(bytes) => (0, slice(bytes, 4, span.first, span.end)?),
            };
            out.extend_from_slice(&size.to_be_bytes());
            out.extend_from_slice(&count.to_be_bytes());
            out.extend_from_slice(each);
            Ok(())
        })
    }

    /// As they are in the file; they move once it is known where what is sent begins.
    fn write_chunks(
        &self,
        span: &Span,
        kind: &[u8; 4],
        out: &mut Vec<u8>,
    ) -> Result<(usize, usize, bool), Fault> {
        let (first, last) = (span.first_chunk.chunk, span.last_chunk.chunk);
        let mut noted = (0, 0, self.chunks.wide);
        put(kind, out, |out| {
            out.extend_from_slice(&[0; FULL]);
            let count = u32::try_from(last - first + 1).map_err(|_| Fault::Mismatch)?;
            out.extend_from_slice(&count.to_be_bytes());
            let at = out.len();
            out.extend_from_slice(slice(self.chunks.bytes, self.chunks.each(), first, last + 1)?);
            noted = (at, out.len(), self.chunks.wide);
            // Of the first chunk, what is before the first sample is not sent.
            match self.chunks.wide {
                true => out[at..at + 8].copy_from_slice(&span.from.to_be_bytes()),
                false => {
                    let from = u32::try_from(span.from).map_err(|_| Fault::Mismatch)?;
                    out[at..at + 4].copy_from_slice(&from.to_be_bytes());
                }
            }
            Ok(())
        })?;
        Ok(noted)
    }
}

/// Moves the offsets that stand in these bytes.
pub(super) fn move_offsets(
    bytes: &mut [u8],
    wide: bool,
    to: impl Fn(u64) -> Option<u64>,
) -> Result<(), Fault> {
    for entry in bytes.chunks_exact_mut(if wide { 8 } else { 4 }) {
        let moved = to(offset(entry)).ok_or(Fault::Mismatch)?;
        match wide {
            true => entry.copy_from_slice(&moved.to_be_bytes()),
            false => {
                let moved = u32::try_from(moved).map_err(|_| Fault::TooLarge)?;
                entry.copy_from_slice(&moved.to_be_bytes());
            }
        }
    }
    Ok(())
}
