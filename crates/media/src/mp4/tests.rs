use super::boxes::{array, find, number};
use super::example::{Shape, byte, file, usual};
use super::*;

fn asked(start: u64, length: Option<u64>) -> Asked {
    Asked { start, length, from_key_frame: false }
}

/// Looks through a file, and what is sent of it.
fn cut_of(file: &[u8], asked: Asked) -> Result<Vec<u8>, Fault> {
    let mut seek = Seek::new(file.len() as u64, 1 << 20, asked);
    while let Some((at, length)) = seek.poll_read() {
        seek.handle_read(&file[at as usize..][..length])?;
    }
    let cut = seek.cut()?;
    Ok([&cut.head[..], &file[cut.from as usize..cut.to as usize]].concat())
}

fn boxes_of<'b>(within: &'b [u8], kind: &[u8; 4]) -> Vec<&'b [u8]> {
    let all = boxes::Boxes(within).map(Result::unwrap);
    all.filter(|(found, _)| found.0 == *kind).map(|(_, body)| body).collect()
}

fn path<'b>(within: &'b [u8], kinds: &[&[u8; 4]]) -> &'b [u8] {
    kinds.iter().fold(within, |within, kind| find(within, kind).unwrap().unwrap())
}

/// The bytes of a track's samples, as a player reads them: entry by entry, sample by sample.
fn samples(file: &[u8], track: &[u8]) -> Vec<Vec<u8>> {
    let tables = path(track, &[b"mdia", b"minf", b"stbl"]);
    let table = |kind: &[u8; 4]| find(tables, kind).unwrap();
    let sizes = table(b"stsz").unwrap();
    let (one, count) = (number(sizes, 4).unwrap(), number(sizes, 8).unwrap());
    let size = |sample: usize| if one > 0 { one } else { number(sizes, 12 + 4 * sample).unwrap() };
    let offsets: Vec<u64> = match (table(b"stco"), table(b"co64")) {
        (Some(body), _) => (0..number(body, 4).unwrap() as usize)
            .map(|at| number(body, 8 + 4 * at).unwrap().into())
            .collect(),
        (_, Some(body)) => (0..number(body, 4).unwrap() as usize)
            .map(|at| u64::from_be_bytes(array(body, 8 + 8 * at).unwrap()))
            .collect(),
        _ => panic!("no chunks"),
    };
    let runs = table(b"stsc").unwrap();
    let run = |at: usize, word: usize| number(runs, 8 + 12 * at + 4 * word).unwrap();
    let mut out = Vec::new();
    for (chunk, offset) in (1u32..).zip(offsets) {
        let at = (0..number(runs, 4).unwrap() as usize).rev().find(|&at| run(at, 0) <= chunk).unwrap();
        let mut offset = offset as usize;
        for _ in 0..run(at, 1) {
            let size = size(out.len()) as usize;
            out.push(file[offset..offset + size].to_vec());
            offset += size;
        }
    }
    assert_eq!(out.len(), count as usize);
    let times = table(b"stts").unwrap();
    let counted: u32 =
        (0..number(times, 4).unwrap() as usize).map(|at| number(times, 8 + 8 * at).unwrap()).sum();
    assert_eq!(counted, count, "each has a time");
    out
}

/// The samples `first..end` of a track.
fn expected(shapes: &[Shape], track: usize, first: usize, end: usize) -> Vec<Vec<u8>> {
    let sample = |sample: usize| (0..shapes[track].sizes[sample]).map(|at| byte(track, sample, at)).collect();
    (first..end).map(sample).collect()
}

#[test]
fn what_is_sent_plays_from_the_first_sample_on() {
    for tables_first in [true, false] {
        let (shapes, plain) = (usual(), file(&usual(), tables_first));
        for (start, length, pictures, sounds) in [
            (39, None, 0..75, 1..150),
            (40, None, 1..75, 2..150),
            (1500, None, 37..75, 75..150),
            (2999, None, 74..75, 149..150),
            (1000, Some(500), 25..37, 50..75),
            (1000, Some(1), 25..26, 50..51),
            (2900, Some(60_000), 72..75, 145..150),
        ] {
            let sent = cut_of(&plain, asked(start, length)).unwrap();
            assert_eq!(&sent[4..8], b"ftyp");
            let movie = find(&sent, b"moov").unwrap().unwrap();
            let tracks = boxes_of(movie, b"trak");
            assert_eq!(
                samples(&sent, tracks[0]),
                expected(&shapes, 0, pictures.start, pictures.end),
                "{start}"
            );
            assert_eq!(samples(&sent, tracks[1]), expected(&shapes, 1, sounds.start, sounds.end), "{start}");
            assert_eq!(path(movie, &[b"udta"]), b"kept");
            let left = (1800 - start * 600 / 1000).min(length.map_or(u64::MAX, |length| length * 600 / 1000));
            assert_eq!(u64::from(number(path(movie, &[b"mvhd"]), 16).unwrap()), left);
            assert!(find(tracks[0], b"edts").unwrap().is_none(), "an old edit list is of other times");
        }
    }
}

#[test]
fn a_whole_file_is_sent_as_it_is_unless_its_tables_are_behind() {
    let plain = file(&usual(), true);
    assert_eq!(cut_of(&plain, asked(0, None)).unwrap(), plain);
    let sent = cut_of(&file(&usual(), false), asked(0, None)).unwrap();
    let order: Vec<_> = boxes::Boxes(&sent).map(|one| one.unwrap().0.0).collect();
    assert_eq!(order, [*b"ftyp", *b"moov", *b"mdat"]);
    let track = boxes_of(find(&sent, b"moov").unwrap().unwrap(), b"trak")[1];
    assert_eq!(samples(&sent, track), expected(&usual(), 1, 0, 150));
}

#[test]
fn key_frames_are_counted_anew() {
    let plain = file(&usual(), true);
    let keys = |sent: &[u8]| {
        let track = boxes_of(find(sent, b"moov").unwrap().unwrap(), b"trak")[0];
        let body = path(track, &[b"mdia", b"minf", b"stbl", b"stss"]);
        let keys = (0..number(body, 4).unwrap() as usize).map(|at| number(body, 8 + 4 * at).unwrap());
        (keys.collect::<Vec<_>>(), find(track, b"edts").unwrap().map(<[u8]>::to_vec))
    };
    // Sample 25 is the first; 36, 48, 60 and 72 are key frames.
    let (found, edits) = keys(&cut_of(&plain, asked(1000, None)).unwrap());
    assert_eq!((found, edits), (vec![12, 24, 36, 48], None));
    let sent = cut_of(&plain, Asked { from_key_frame: true, ..asked(1000, None) }).unwrap();
    let (found, edits) = keys(&sent);
    assert_eq!(found, [1, 13, 25, 37, 49], "it begins with sample 24");
    let edits = edits.unwrap();
    let list = find(&edits, b"elst").unwrap().unwrap();
    // Two seconds are shown, 40 ms are hidden.
    assert_eq!(array(list, 8).map(u64::from_be_bytes), Some(1200));
    assert_eq!(array(list, 16).map(u64::from_be_bytes), Some(40));
    // A key frame needs nothing before it.
    let (_, edits) = keys(&cut_of(&plain, Asked { from_key_frame: true, ..asked(960, None) }).unwrap());
    assert_eq!(edits, None);
}

#[test]
fn many_shapes_of_chunks_are_cut_anywhere() {
    let mut state = 1u64;
    let mut random = |most: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    for _ in 0..300 {
        let count = 1 + random(40) as usize;
        let shape = Shape {
            scale: 100,
            each: 1 + random(5) as u32,
            sizes: (0..count).map(|_| 1 + random(6) as u32).collect(),
            chunks: (0..1 + random(3)).map(|_| 1 + random(6) as u32).collect(),
            keys: random(4) as u32,
            wide: random(2) == 0,
        };
        let (each, total) = (u64::from(shape.each), shape.duration());
        let shapes = [shape];
        let plain = file(&shapes, random(2) == 0);
        let start = random(total);
        let length = (random(2) == 0).then(|| 1 + random(total));
        let sent = cut_of(&plain, asked(start * 10, length.map(|length| length * 10))).unwrap();
        let first = (start / each) as usize;
        let end = length.map_or(count, |length| (((start + length) / each) as usize).clamp(first + 1, count));
        let track = boxes_of(find(&sent, b"moov").unwrap().unwrap(), b"trak")[0];
        assert_eq!(samples(&sent, track), expected(&shapes, 0, first, end));
    }
}

#[test]
fn what_cannot_be_cut_is_told() {
    let plain = file(&usual(), true);
    assert_eq!(cut_of(&plain, asked(3000, None)), Err(Fault::Beyond));
    assert_eq!(cut_of(&plain, asked(u64::MAX, Some(u64::MAX))), Err(Fault::Beyond));
    assert_eq!(cut_of(b"", asked(0, None)), Err(Fault::Missing));
    assert_eq!(cut_of(b"nothing of the kind", asked(0, None)), Err(Fault::Broken));
    assert_eq!(cut_of(&plain[..plain.len() - 1], asked(0, None)), Err(Fault::Broken));
    let mut seek = Seek::new(plain.len() as u64, 100, asked(0, None));
    let mut result = Ok(());
    while let (Ok(()), Some((at, length))) = (result, seek.poll_read()) {
        result = seek.handle_read(&plain[at as usize..][..length]);
    }
    assert_eq!(result, Err(Fault::TooLarge));
}

#[test]
fn arguments_are_seconds() {
    let by = |start: Option<&str>, end: Option<&str>| {
        let asked = Asked::by(start.map(str::as_bytes), end.map(str::as_bytes), false);
        asked.map(|asked| (asked.start, asked.length))
    };
    assert_eq!(by(None, None), None);
    assert_eq!(by(Some("1.5"), None), Some((1500, None)));
    assert_eq!(by(Some(".25"), Some("1")), Some((250, Some(750))));
    assert_eq!(by(None, Some("2")), Some((0, Some(2000))));
    assert_eq!(by(Some("3"), Some("2")), Some((3000, None)), "an end before the start is none");
    for wrong in ["", ".", "-1", "x", "1.2345", "1,5", "99999999999999999999"] {
        assert_eq!(by(Some(wrong), None), None, "{wrong}");
    }
}
