//! The context of a trace that a request carries: `traceparent` and `tracestate` (W3C Trace Context).
//!
//! Owns: reading and writing of both.
//! Never: decides whether a request is traced.

/// Most bytes of `tracestate` that are passed on; the recommendation asks for at least so many.
const MOST_STATE: usize = 512;

/// Where a request comes from, as `traceparent` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace. Never zero.
    pub trace_id: u128,
    /// The span that asked. Never zero.
    pub span_id: u64,
    /// It is recorded there.
    pub sampled: bool,
}

impl TraceParent {
    /// Reads `version-trace-span-flags`. Versions to come may append to it.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = text.trim_ascii();
        let (version, rest) = (text.get(..2)?, text.get(2..)?);
        if version == b"ff" || !version.iter().all(|byte| is_hex(*byte)) {
            return None;
        }
        let known = version == b"00";
        if rest.len() < 53 || (known && rest.len() > 53) || rest.get(53).is_some_and(|byte| *byte != b'-') {
            return None;
        }
        if [rest[0], rest[33], rest[50]] != *b"---" {
            return None;
        }
        let trace_id = hex(&rest[1..33])?;
        let span_id = u64::try_from(hex(&rest[34..50])?).ok()?;
        let flags = hex(&rest[51..53])?;
        (trace_id != 0 && span_id != 0).then_some(Self { trace_id, span_id, sampled: flags & 1 == 1 })
    }

    /// As it goes on.
    pub fn text(&self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, u8::from(self.sampled))
    }
}

/// The lines of `tracestate`, joined; `None`: there are none, or more than is passed on.
pub fn trace_state<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<String> {
    let mut joined = String::new();
    for line in lines {
        let line = std::str::from_utf8(line).ok().filter(|line| line.is_ascii())?.trim();
        if line.is_empty() {
            continue;
        }
        if !joined.is_empty() {
            joined.push(',');
        }
        joined.push_str(line);
        if joined.len() > MOST_STATE {
            return None;
        }
    }
    (!joined.is_empty()).then_some(joined)
}

fn is_hex(byte: u8) -> bool {
    // Lower case only: the recommendation has no other.
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0u128, |sum, &byte| {
        is_hex(byte).then(|| sum << 4 | u128::from(if byte > b'9' { byte - b'a' + 10 } else { byte - b'0' }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_is_read_is_written() {
        let parent = TraceParent::parse(GOOD.as_bytes()).unwrap();
        assert_eq!((parent.span_id, parent.sampled), (0xb7ad_6b71_6920_3331, true));
        assert_eq!(parent.text(), GOOD);
        let more = format!("cc{}-what-comes", &GOOD[2..]);
        assert_eq!(TraceParent::parse(more.as_bytes()), Some(parent));
    }

    #[test]
    fn what_is_not_one_is_none() {
        for bad in [
            "",
            "00",
            &GOOD[..54],
            &format!("{GOOD}-x"),
            &GOOD.replace("0af7", "0AF7"),
            &GOOD.replacen("00", "ff", 1),
            &GOOD.replace("0af7651916cd43dd8448eb211c80319c", "00000000000000000000000000000000"),
            &GOOD.replace("b7ad6b7169203331", "0000000000000000"),
            &GOOD.replace('-', "_"),
            &format!("cc{}x", &GOOD[2..]),
        ] {
            assert_eq!(TraceParent::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn states_are_joined_and_bounded() {
        let lines = [&b"a=1, b=2"[..], b"", b"c=3"];
        assert_eq!(trace_state(lines.into_iter()).as_deref(), Some("a=1, b=2,c=3"));
        assert_eq!(trace_state(std::iter::empty()), None);
        assert_eq!(trace_state([&[b'a'; 513][..]].into_iter()), None);
    }
}
