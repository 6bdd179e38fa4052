//! All tables of a file, written anew for what is sent of it.
//!
//! Owns: which boxes stay, durations, edit lists.
//! Driven by: `mp4`.

use super::asked::{Asked, Fault};
use super::boxes::{Boxes, array, find, number, put};
use super::track::{Span, Track, move_offsets};

/// Tables, and what of the file they speak of.
pub(super) struct Tables {
    /// The box `moov`.
    pub(super) tables: Vec<u8>,
    /// The first byte of the media data.
    pub(super) from: u64,
    /// The byte behind the last.
    pub(super) to: u64,
    /// Where offsets of chunks stand in the tables, and whether they have 64 bits.
    offsets: Vec<(usize, usize, bool)>,
}

impl Tables {
    /// Moves the offsets in the tables, wherever those stand now.
    pub(super) fn move_chunks(
        &self,
        tables: &mut [u8],
        to: impl Fn(u64) -> Option<u64>,
    ) -> Result<(), Fault> {
        for &(begins, ends, wide) in &self.offsets {
            let bytes = tables.get_mut(begins..ends).ok_or(Fault::Broken)?;
            move_offsets(bytes, wide, |old| (old >= self.from).then_some(old).and_then(&to))?;
        }
        Ok(())
    }
}

/// Cuts what is in a `moov`.
pub(super) fn cut(body: &[u8], asked: Asked, media_end: u64) -> Result<Tables, Fault> {
    let header = find(body, b"mvhd")?.ok_or(Fault::Missing)?;
    let movie = Clock::read(header)?;
    if movie.units(asked.start)? >= movie.duration {
        return Err(Fault::Beyond);
    }
    let mut found =
        Tables { tables: Vec::with_capacity(body.len()), from: u64::MAX, to: 0, offsets: Vec::new() };
    let Tables { tables, from, to, offsets } = &mut found;
    put(b"moov", tables, |out| {
        for one in Boxes(body) {
            let (kind, body) = one?;
            match &kind.0 {
                b"mvhd" => put(&kind.0, out, |out| movie.write(body, movie.clip(asked)?, out))?,
                b"trak" => {
                    let Some(track) = Track::read(body)? else { continue };
                    let span = track.span(asked.start, asked.length, asked.from_key_frame)?;
                    let Some(span) = span else { continue };
                    *from = (*from).min(span.from);
                    *to = (*to).max(span.to.unwrap_or(media_end));
                    put(&kind.0, out, |out| write_track(&track, &span, body, (&movie, asked), out, offsets))?;
                }
                // What speaks of the whole movie, and of no sample.
                b"udta" | b"meta" | b"iods" => put(&kind.0, out, |out| {
                    out.extend_from_slice(body);
                    Ok(())
                })?,
                _ => {}
            }
        }
        Ok(())
    })?;
    if *from == u64::MAX { Err(Fault::Beyond) } else { Ok(found) }
}

fn write_track(
    track: &Track<'_>,
    span: &Span,
    body: &[u8],
    (movie, asked): (&Clock, Asked),
    out: &mut Vec<u8>,
    offsets: &mut Vec<(usize, usize, bool)>,
) -> Result<(), Fault> {
    for one in Boxes(body) {
        let (kind, inner) = one?;
        match &kind.0 {
            b"tkhd" => {
                let at = track_duration_at(inner);
                // As long as what is shown: what is hidden does not count.
                let shown = movie.of(duration(inner, at)?).clip(asked)?;
                put(&kind.0, out, |out| put_duration(inner, at, shown, out))?;
                if span.hidden > 0 {
                    put(b"edts", out, |out| put(b"elst", out, |out| edit_list(shown, span.hidden, out)))?;
                }
            }
            b"mdia" => put(&kind.0, out, |out| write_media(track, span, inner, asked, out, offsets))?,
            b"tref" | b"udta" | b"meta" => put(&kind.0, out, |out| {
                out.extend_from_slice(inner);
                Ok(())
            })?,
            _ => {}
        }
    }
    Ok(())
}

fn write_media(
    track: &Track<'_>,
    span: &Span,
    body: &[u8],
    asked: Asked,
    out: &mut Vec<u8>,
    offsets: &mut Vec<(usize, usize, bool)>,
) -> Result<(), Fault> {
    for one in Boxes(body) {
        let (kind, inner) = one?;
        match &kind.0 {
            b"mdhd" => {
                let clock = Clock::read(inner)?;
                let all = clock.clip(asked)?.saturating_add(span.hidden);
                put(&kind.0, out, |out| clock.write(inner, all, out))?;
            }
            b"minf" => put(&kind.0, out, |out| {
                for one in Boxes(inner) {
                    let (kind, inner) = one?;
                    put(&kind.0, out, |out| {
                        if &kind.0 == b"stbl" {
                            return track.write(span, inner, out, offsets);
                        }
                        out.extend_from_slice(inner);
                        Ok(())
                    })?;
                }
                Ok(())
            })?,
            _ => put(&kind.0, out, |out| {
                out.extend_from_slice(inner);
                Ok(())
            })?,
        }
    }
    Ok(())
}

/// Hides what comes before the start: one edit, at the usual rate.
fn edit_list(shown: u64, hidden: u64, out: &mut Vec<u8>) -> Result<(), Fault> {
    out.extend_from_slice(&[1, 0, 0, 0]);
    out.extend_from_slice(&1u32.to_be_bytes());
    out.extend_from_slice(&shown.to_be_bytes());
    out.extend_from_slice(&hidden.to_be_bytes());
    out.extend_from_slice(&0x0001_0000u32.to_be_bytes());
    Ok(())
}

/// `mvhd` and `mdhd`: units of a second, and how long all is.
struct Clock {
    scale: u64,
    duration: u64,
}

impl Clock {
    fn read(body: &[u8]) -> Result<Self, Fault> {
        let wide = body.first() == Some(&1);
        let scale = number(body, if wide { 20 } else { 12 });
        let Some(scale @ 1..) = scale else { return Err(Fault::Broken) };
        Ok(Self { scale: u64::from(scale), duration: duration(body, if wide { 24 } else { 16 })? })
    }

    /// The same units, for something of another length.
    fn of(&self, duration: u64) -> Self {
        Self { scale: self.scale, duration }
    }

    fn units(&self, millis: u64) -> Result<u64, Fault> {
        u64::try_from(u128::from(millis) * u128::from(self.scale) / 1000).map_err(|_| Fault::Beyond)
    }

    /// How long what is asked for is.
    fn clip(&self, asked: Asked) -> Result<u64, Fault> {
        let left = self.duration.saturating_sub(self.units(asked.start)?);
        Ok(match asked.length {
            Some(length) => left.min(self.units(length)?),
            None => left,
        })
    }

    fn write(&self, body: &[u8], duration: u64, out: &mut Vec<u8>) -> Result<(), Fault> {
        put_duration(body, if body.first() == Some(&1) { 24 } else { 16 }, duration, out)
    }
}

/// A duration; the version of its box says how wide it is.
fn duration(body: &[u8], at: usize) -> Result<u64, Fault> {
    let found = match body.first() {
        Some(&1) => array(body, at).map(u64::from_be_bytes),
        _ => number(body, at).map(u64::from),
    };
    found.ok_or(Fault::Broken)
}

/// Where the duration of a `tkhd` stands.
fn track_duration_at(body: &[u8]) -> usize {
    if body.first() == Some(&1) { 28 } else { 20 }
}

/// A box with another duration; its version says how wide that is.
fn put_duration(body: &[u8], at: usize, duration: u64, out: &mut Vec<u8>) -> Result<(), Fault> {
    let begins = out.len();
    out.extend_from_slice(body);
    let wide = body.first() == Some(&1);
    let bytes = duration.to_be_bytes();
    let short = u32::try_from(duration).unwrap_or(u32::MAX).to_be_bytes();
    let bytes = if wide { &bytes[..] } else { &short[..] };
    let place = out.get_mut(begins + at..begins + at + bytes.len()).ok_or(Fault::Broken)?;
    place.copy_from_slice(bytes);
    Ok(())
}
