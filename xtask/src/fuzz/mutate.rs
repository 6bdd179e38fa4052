//! Turning good input into bad.
//!
//! Owns: a seeded generator and the ways to spoil bytes.
//! Never: uses a clock or a random device: a seed names the whole run.
//! Driven by: `fuzz`.
//! Why: no coverage feedback exists on stable; a corpus that is right, spoiled a little, reaches deeper than noise.

/// splitmix64: small, seeded, even.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() >> 11) as usize % n.max(1)
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

/// Bytes that parsers give a meaning to, in every language here.
const TOKENS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b";",
    b"{",
    b"}",
    b"\"",
    b"'",
    b"\\",
    b"#",
    b"$",
    b"${",
    b"%",
    b"%00",
    b"%2f",
    b"..",
    b"/../",
    b"//",
    b"*",
    b"~",
    b"^~",
    b"(",
    b"(?<n>",
    b"[",
    b",",
    b"=",
    b"-1",
    b"0",
    b"00",
    b"0x10",
    b"18446744073709551616",
    b"4294967296",
    b"99999999999999999999",
    b"\xff",
    b"\xc3\x28",
    b"\xe2\x80\xa8",
    b"chunked",
    b"0\r\n\r\n",
];

/// No input grows beyond this: parsers have bounds of their own, and time is short.
const LONGEST: usize = 64 << 10;

/// One to eight changes to an entry of the corpus.
pub(super) fn mutate(corpus: &[&[u8]], random: &mut Random) -> Vec<u8> {
    let mut input = random.pick(corpus).to_vec();
    for _ in 0..=random.below(8) {
        change(&mut input, corpus, random);
        input.truncate(LONGEST);
    }
    input
}

fn change(input: &mut Vec<u8>, corpus: &[&[u8]], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let end = (at + random.below(32)).min(input.len());
    match random.below(8) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = random.next() as u8;
            }
        }
        2 => drop(input.drain(at..end)),
        3 => drop(input.splice(at..at, random.pick(TOKENS).iter().copied())),
        4 => {
            // The same piece many times over: depth and repetition.
            let piece = input[at..end].to_vec();
            let times = 1 + random.below(64);
            drop(input.splice(at..at, piece.repeat(times)));
        }
        5 => input.truncate(at),
        6 => {
            let other = random.pick(corpus);
            let from = random.below(other.len() + 1);
            drop(input.splice(at..end, other[from..].iter().copied()));
        }
        _ => drop(input.splice(at..end, random.pick(TOKENS).repeat(1 + random.below(4)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_names_the_run() {
        let corpus: &[&[u8]] = &[b"GET / HTTP/1.1\r\n\r\n", b"x"];
        let run = |seed| {
            let mut random = Random::seeded(seed);
            (0..100).map(|_| mutate(corpus, &mut random)).collect::<Vec<_>>()
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }
}
