//! WebSocket frames (RFC 6455 §5): a server's, read; a client's, written.
//!
//! Owns: how far the present frame and message have come.
//! Never: copies a message; takes an extension for agreed on.
//! Driven by: `worker::messages`.

use std::ops::Range;

use super::Malformed;

/// The longest payload of a control frame (§5.5).
const MAX_CONTROL: usize = 125;

/// Kinds of frames (§5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text = 1,
    Binary = 2,
    Pong = 10,
}

/// What some bytes hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A piece of a message, at this place in the bytes; whether it is the last one.
    Data { range: Range<usize>, end: bool },
    /// A ping; its payload is to be sent back.
    Ping(Vec<u8>),
    /// The server closes.
    Close,
}

/// Where it stands.
enum State {
    /// In the head of a frame, of which so much was read.
    Head,
    /// So many bytes of a data frame are left; whether it ends its message.
    Data { left: u64, end: bool },
    /// In the payload of a control frame.
    Control { opcode: u8, left: usize },
}

/// Reads a server's frames.
pub(crate) struct Frames {
    state: State,
    /// The beginning of a head, or the payload of a control frame.
    carry: Vec<u8>,
    /// Whether a message has begun and goes on in the next data frame.
    within: bool,
}

impl Frames {
    /// At the beginning of a frame.
    pub(crate) fn new() -> Self {
        Self { state: State::Head, carry: Vec::new(), within: false }
    }

    /// Takes in some of `bytes`: how many, and what they held, if that is anything. To be called until nothing is left.
    pub(crate) fn next(&mut self, bytes: &[u8]) -> Result<(usize, Option<Frame>), Malformed> {
        match &mut self.state {
            State::Head => self.head(bytes),
            State::Data { left, end } => {
                let taken = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= taken as u64;
                let (whole, end) = (*left == 0, *end);
                if whole {
                    self.state = State::Head;
                    self.within = !end;
                }
                Ok((taken, Some(Frame::Data { range: 0..taken, end: whole && end })))
            }
            State::Control { opcode, left } => {
                let taken = (*left).min(bytes.len());
                self.carry.extend_from_slice(&bytes[..taken]);
                *left -= taken;
                let (opcode, whole) = (*opcode, *left == 0);
                Ok((taken, if whole { self.control(opcode) } else { None }))
            }
        }
    }

    fn head(&mut self, bytes: &[u8]) -> Result<(usize, Option<Frame>), Malformed> {
        let before = self.carry.len();
        // A head has ten bytes at most; a server masks nothing (§5.1).
        let more = bytes.len().min(10 - before);
        self.carry.extend_from_slice(&bytes[..more]);
        let head = &self.carry[..];
        let Some((&[first, second], rest)) = head.split_first_chunk::<2>() else { return Ok((more, None)) };
        let (end, opcode) = (first & 0x80 != 0, first & 0x0f);
        if first & 0x70 != 0 || second & 0x80 != 0 {
            return Err(Malformed);
        }
        let (size, length) = match (second & 0x7f, rest) {
            (126, [a, b, ..]) => (4, u64::from(u16::from_be_bytes([*a, *b]))),
            (127, [a, b, c, d, e, f, g, h, ..]) => (10, u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h])),
            (126 | 127, _) => return Ok((more, None)),
            (length, _) => (2, u64::from(length)),
        };
        self.carry.clear();
        let taken = size - before;
        match opcode {
            // Continuations go on with what has begun, and nothing else may come between (§5.4).
            0..=2 if (opcode == 0) == self.within => {
                if length == 0 {
                    self.within = !end;
                    return Ok((taken, end.then_some(Frame::Data { range: 0..0, end })));
                }
                self.within = true;
                self.state = State::Data { left: length, end };
                Ok((taken, None))
            }
            8..=10 if end && length <= MAX_CONTROL as u64 => {
                self.state = State::Control { opcode, left: length as usize };
                Ok((taken, if length == 0 { self.control(opcode) } else { None }))
            }
            _ => Err(Malformed),
        }
    }

    fn control(&mut self, opcode: u8) -> Option<Frame> {
        self.state = State::Head;
        let payload = std::mem::take(&mut self.carry);
        match opcode {
            8 => Some(Frame::Close),
            9 => Some(Frame::Ping(payload)),
            _ => None,
        }
    }
}

/// Writes a client's frame: whole, and masked by `key` (§5.3).
pub(crate) fn write(out: &mut Vec<u8>, kind: Kind, payload: &[u8], key: [u8; 4]) {
    out.push(0x80 | kind as u8);
    match payload.len() {
        length @ 0..126 => out.push(0x80 | length as u8),
        length @ 126..0x1_0000 => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&key);
    let start = out.len();
    out.extend_from_slice(payload);
    let mut words = out[start..].chunks_exact_mut(4);
    for word in &mut words {
        for (byte, mask) in word.iter_mut().zip(key) {
            *byte ^= mask;
        }
    }
    for (byte, mask) in words.into_remainder().iter_mut().zip(key) {
        *byte ^= mask;
    }
}

/// Any bytes: every step takes what it says, and none goes on for ever.
pub(crate) fn fuzz(data: &[u8]) {
    let (mut frames, mut rest) = (Frames::new(), data);
    while !rest.is_empty() {
        let Ok((taken, frame)) = frames.next(rest) else { return };
        assert!(taken <= rest.len() && (taken > 0 || frame.is_some()), "it goes on");
        if let Some(Frame::Data { range, .. }) = frame {
            assert!(range.end <= taken);
        }
        rest = &rest[taken..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages and pings in `bytes`, fed in pieces of `size`.
    fn read(bytes: &[u8], size: usize) -> Result<Vec<String>, Malformed> {
        let (mut frames, mut seen, mut message) = (Frames::new(), Vec::new(), Vec::new());
        for piece in bytes.chunks(size) {
            let mut rest = piece;
            while !rest.is_empty() {
                let (taken, frame) = frames.next(rest)?;
                match frame {
                    Some(Frame::Data { range, end }) => {
                        message.extend_from_slice(&rest[range]);
                        if end {
                            seen.push(String::from_utf8(std::mem::take(&mut message)).unwrap());
                        }
                    }
                    Some(Frame::Ping(payload)) => seen.push(format!("ping {}", payload.len())),
                    Some(Frame::Close) => seen.push("close".into()),
                    None => {}
                }
                rest = &rest[taken..];
            }
        }
        Ok(seen)
    }

    #[test]
    fn messages_pings_and_closes_in_pieces_of_any_size() {
        let mut stream = vec![0x81, 5];
        stream.extend_from_slice(b"hello");
        // In two pieces, with a ping between them (§5.4).
        stream.extend_from_slice(&[0x01, 2, b'w', b'o', 0x89, 1, b'p', 0x80, 3, b'r', b'l', b'd']);
        stream.extend_from_slice(&[0x8a, 0, 0x82, 126, 1, 0]);
        stream.extend_from_slice(&[b'x'; 256]);
        stream.extend_from_slice(&[0x81, 0, 0x88, 2, 3, 0xe8]);
        let long = "x".repeat(256);
        let wanted = ["hello", "ping 1", "world", &long, "", "close"];
        for size in 1..stream.len() {
            assert_eq!(read(&stream, size).unwrap(), wanted, "pieces of {size}");
        }
    }

    #[test]
    fn what_no_server_may_send_is_refused() {
        // Masked, an extension, a continuation of nothing, a message within another, a cut or long control frame.
        for bad in [
            &[0x81, 0x85, 0, 0, 0, 0][..],
            &[0xc1, 0],
            &[0x80, 0],
            &[0x01, 0, 0x81, 0],
            &[0x09, 0],
            &[0x89, 126, 0, 126],
            &[0x83, 0],
        ] {
            assert!(read(bad, 64).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_client_s_frames_are_masked() {
        // The example of §5.7.
        let mut out = Vec::new();
        write(&mut out, Kind::Text, b"Hello", [0x37, 0xfa, 0x21, 0x3d]);
        assert_eq!(out, [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58]);
        out.clear();
        write(&mut out, Kind::Binary, &[0; 70_000], [0; 4]);
        assert_eq!((&out[..10], out.len()), (&[0x82, 0xff, 0, 0, 0, 0, 0, 1, 0x11, 0x70][..], 70_014));
    }
}
