//! A small file with a picture track and a sound track.
//!
//! Owns: making it, of any shape.
//! Never: is part of what is served.
//! Driven by: tests, and the fuzzer, whose good input it is.

use super::boxes::put;

/// A table of numbers behind version and flags.
fn full(kind: &[u8; 4], numbers: &[u32], out: &mut Vec<u8>) {
    let _ = put(kind, out, |out| {
        out.extend_from_slice(&[0; 4]);
        numbers.iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
        Ok(())
    });
}

fn within(kind: &[u8; 4], out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let _ = put(kind, out, |out| {
        fill(out);
        Ok(())
    });
}

/// A track of an example.
pub(super) struct Shape {
    pub(super) scale: u32,
    /// Time of each sample.
    pub(super) each: u32,
    pub(super) sizes: Vec<u32>,
    /// Samples of the chunks, over and over.
    pub(super) chunks: Vec<u32>,
    /// Every so many is a key frame; 0: all are.
    pub(super) keys: u32,
    pub(super) wide: bool,
}

impl Shape {
    pub(super) fn duration(&self) -> u64 {
        self.sizes.len() as u64 * u64::from(self.each)
    }

    /// Samples of each chunk.
    pub(super) fn runs(&self) -> Vec<u32> {
        let (mut left, mut runs) = (self.sizes.len() as u32, Vec::new());
        while left > 0 {
            let wanted = self.chunks[runs.len() % self.chunks.len()].clamp(1, left);
            runs.push(wanted);
            left -= wanted;
        }
        runs
    }
}

/// A file of these tracks, whose chunks lie one of each track after another. The bytes of a sample tell its track and number.
pub(super) fn file(shapes: &[Shape], tables_first: bool) -> Vec<u8> {
    let head = |out: &mut Vec<u8>| within(b"ftyp", out, |out| out.extend_from_slice(b"isom\0\0\0\0isom"));
    let (mut media, mut places) = (Vec::new(), vec![Vec::new(); shapes.len()]);
    let runs: Vec<Vec<u32>> = shapes.iter().map(Shape::runs).collect();
    let mut next = vec![0usize; shapes.len()];
    for turn in 0..runs.iter().map(Vec::len).max().unwrap_or(0) {
        for (track, shape) in shapes.iter().enumerate() {
            let Some(&count) = runs[track].get(turn) else { continue };
            places[track].push(media.len() as u64);
            for _ in 0..count {
                let sample = next[track];
                media.extend((0..shape.sizes[sample]).map(|at| byte(track, sample, at)));
                next[track] += 1;
            }
        }
    }
    // Once to learn how long the tables are, and once more.
    let mut base = 0;
    loop {
        let mut out = Vec::new();
        head(&mut out);
        if tables_first {
            tables(shapes, &places, base, &mut out);
        }
        let media_at = out.len() as u64 + 8;
        within(b"mdat", &mut out, |out| out.extend_from_slice(&media));
        if !tables_first {
            tables(shapes, &places, base, &mut out);
        }
        if base == media_at {
            return out;
        }
        base = media_at;
    }
}

/// A byte of a sample.
pub(super) fn byte(track: usize, sample: usize, at: u32) -> u8 {
    (track * 101 + sample * 7 + at as usize) as u8
}

fn tables(shapes: &[Shape], places: &[Vec<u64>], base: u64, out: &mut Vec<u8>) {
    within(b"moov", out, |out| {
        let longest = shapes.iter().map(|shape| shape.duration() * 600 / u64::from(shape.scale)).max();
        let mut header = vec![0, 0, 600, longest.unwrap_or(0) as u32];
        header.resize(24, 0);
        full(b"mvhd", &header, out);
        for (shape, places) in shapes.iter().zip(places) {
            within(b"trak", out, |out| {
                let mut header = vec![0, 0, 1, 0, (shape.duration() * 600 / u64::from(shape.scale)) as u32];
                header.resize(20, 0);
                full(b"tkhd", &header, out);
                within(b"edts", out, |out| full(b"elst", &[0], out));
                within(b"mdia", out, |out| {
                    full(b"mdhd", &[0, 0, shape.scale, shape.duration() as u32, 0], out);
                    full(b"hdlr", &[0, 0, 0, 0, 0], out);
                    within(b"minf", out, |out| {
                        within(b"stbl", out, |out| sample_tables(shape, places, base, out));
                    });
                });
            });
        }
        within(b"udta", out, |out| out.extend_from_slice(b"kept"));
    });
}

fn sample_tables(shape: &Shape, places: &[u64], base: u64, out: &mut Vec<u8>) {
    let count = shape.sizes.len() as u32;
    // One description, of a kind that nobody decodes.
    full(b"stsd", &[1, 16, u32::from_be_bytes(*b"none"), 0, 1], out);
    full(b"stts", &[2, count / 2, shape.each, count - count / 2, shape.each], out);
    if shape.keys > 0 {
        let keys: Vec<u32> = (0..count).step_by(shape.keys as usize).map(|sample| sample + 1).collect();
        full(b"stss", &[&[keys.len() as u32], &keys[..]].concat(), out);
        full(b"ctts", &[1, count, 2 * shape.each], out);
    }
    let mut runs: Vec<u32> = Vec::new();
    for (chunk, samples) in (1u32..).zip(shape.runs()) {
        if runs.len() < 3 || runs[runs.len() - 2] != samples {
            runs.extend([chunk, samples, 1]);
        }
    }
    full(b"stsc", &[&[runs.len() as u32 / 3], &runs[..]].concat(), out);
    full(b"sdtp", &[0], out);
    match shape.sizes.iter().all(|size| *size == shape.sizes[0]) {
        true => full(b"stsz", &[shape.sizes[0], count], out),
        false => full(b"stsz", &[&[0, count], &shape.sizes[..]].concat(), out),
    }
    let offsets: Vec<u64> = places.iter().map(|place| base + place).collect();
    let words: Vec<u32> = match shape.wide {
        true => offsets.iter().flat_map(|at| [(at >> 32) as u32, *at as u32]).collect(),
        false => offsets.iter().map(|at| *at as u32).collect(),
    };
    full(if shape.wide { b"co64" } else { b"stco" }, &[&[offsets.len() as u32], &words[..]].concat(), out);
}

/// Three seconds of pictures and of sound.
pub(super) fn usual() -> Vec<Shape> {
    vec![
        Shape {
            scale: 1000,
            each: 40,
            sizes: (0..75).map(|n| 5 + n % 9).collect(),
            chunks: vec![4, 4, 7],
            keys: 12,
            wide: false,
        },
        Shape { scale: 8000, each: 160, sizes: vec![6; 150], chunks: vec![10], keys: 0, wide: true },
    ]
}
