//! One answer after the other, out of the bytes of a connection.
//!
//! Owns: how far the present answer has come.
//! Never: copies a body, unless a script wants it.
//! Driven by: `worker::exchange`.
//!
//! Calling order: [`Reader::begin`], then [`Reader::feed`] with what arrives until it says `Answer`, as often as answers
//! are awaited; [`Reader::end_of_stream`] when the peer closed.

use weir_http::body::chunked::ChunkedDecoder;
use weir_http::{BodyEvent, ChunkLimits};

use super::Malformed;
use super::head::{Framing, Head, HeadCache, MAX_HEAD};

/// The most of a body that is kept for a script.
const MAX_COLLECTED: usize = 64 << 20;

/// What came of some bytes. All of them were taken in, up to the count given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fed {
    /// All were taken, and more are needed.
    More,
    /// The answer is whole; this many bytes were taken.
    Answer { taken: usize, status: u16, keep: bool },
}

/// An answer kept for a script.
#[derive(Debug, Default, Clone)]
pub(crate) struct Collected {
    /// The head, status line and empty line included.
    pub(crate) head: Vec<u8>,
    /// The body, decoded.
    pub(crate) body: Vec<u8>,
}

enum State {
    Head,
    Length(u64),
    Chunked(ChunkedDecoder),
    UntilClose,
}

/// Reads the answers of one connection.
pub(crate) struct Reader {
    state: State,
    to_head: bool,
    status: u16,
    keep: bool,
    /// The beginning of a head that was not whole.
    carry: Vec<u8>,
    kept: Option<Collected>,
    began: bool,
}

impl Reader {
    /// A reader; `collect` keeps answers for a script.
    pub(crate) fn new(collect: bool) -> Self {
        Self {
            state: State::Head,
            to_head: false,
            status: 0,
            keep: false,
            carry: Vec::new(),
            kept: collect.then(Collected::default),
            began: false,
        }
    }

    /// Gets ready for the answers to a new request.
    pub(crate) fn begin(&mut self, to_head: bool) {
        self.state = State::Head;
        self.to_head = to_head;
        self.carry.clear();
        self.began = false;
    }

    /// Whether any byte of the awaited answers has come.
    pub(crate) fn began(&self) -> bool {
        self.began
    }

    /// The status of the answer whose body is being read.
    pub(crate) fn status(&self) -> Option<u16> {
        (!matches!(self.state, State::Head)).then_some(self.status)
    }

    /// How many bytes may be dropped unseen.
    pub(crate) fn discardable(&self) -> u64 {
        match self.state {
            State::Length(left) if self.kept.is_none() => left,
            _ => 0,
        }
    }

    /// Counts bytes that were dropped unseen; at most [`Reader::discardable`].
    pub(crate) fn discarded(&mut self, n: u64) -> Fed {
        match &mut self.state {
            State::Length(left) => {
                *left = left.saturating_sub(n);
                if *left == 0 { self.whole(0) } else { Fed::More }
            }
            _ => Fed::More,
        }
    }

    /// The answer just read, if answers are kept.
    pub(crate) fn collected(&self) -> Option<&Collected> {
        self.kept.as_ref()
    }

    /// Takes in what has arrived.
    pub(crate) fn feed(&mut self, cache: &mut HeadCache, bytes: &[u8]) -> Result<Fed, Malformed> {
        self.began |= !bytes.is_empty();
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            match &mut self.state {
                State::Head => match self.head(cache, rest)? {
                    None => return Ok(Fed::More),
                    Some((taken, head)) => {
                        at += taken;
                        if let Some(done) = self.begin_body(head) {
                            return Ok(with_taken(done, at));
                        }
                    }
                },
                State::Length(left) => {
                    let taken = usize::try_from(*left).map_or(rest.len(), |left| left.min(rest.len()));
                    *left -= taken as u64;
                    let done = *left == 0;
                    self.keep_body(&rest[..taken])?;
                    at += taken;
                    return Ok(if done { self.whole(at) } else { Fed::More });
                }
                State::Chunked(decoder) => match decoder.next(rest).map_err(|_| Malformed)? {
                    BodyEvent::Data(range) => {
                        at += range.end;
                        self.keep_body(&rest[range])?;
                    }
                    BodyEvent::NeedMore(_) => return Ok(Fed::More),
                    BodyEvent::End(taken) => return Ok(self.whole(at + taken)),
                },
                State::UntilClose => {
                    self.keep_body(rest)?;
                    return Ok(Fed::More);
                }
            }
        }
    }

    /// The peer has closed: the answer is whole if that is what ends it, cut or missing otherwise.
    pub(crate) fn end_of_stream(&mut self) -> Option<Fed> {
        matches!(self.state, State::UntilClose).then(|| self.whole(0))
    }

    /// The next head, and how many of `bytes` it took.
    fn head(&mut self, cache: &mut HeadCache, bytes: &[u8]) -> Result<Option<(usize, Head)>, Malformed> {
        if self.carry.is_empty() {
            let Some(head) = cache.scan(bytes, self.to_head)? else {
                self.carry.extend_from_slice(bytes);
                return Ok(None);
            };
            self.keep_head(&bytes[..head.len]);
            return Ok(Some((head.len, head)));
        }
        let before = self.carry.len();
        self.carry.extend_from_slice(&bytes[..bytes.len().min(MAX_HEAD + 1)]);
        let Some(head) = cache.scan(&self.carry, self.to_head)? else {
            return Ok(None);
        };
        let carried = std::mem::take(&mut self.carry);
        self.keep_head(&carried[..head.len]);
        Ok(Some((head.len.saturating_sub(before), head)))
    }

    /// Goes on to the body; the answer, if it has none.
    fn begin_body(&mut self, head: Head) -> Option<Fed> {
        // An interim answer: the one that counts follows.
        if (100..200).contains(&head.status) && head.status != 101 {
            return None;
        }
        (self.status, self.keep) = (head.status, head.keep);
        self.state = match head.framing {
            Framing::Length(0) => return Some(self.whole(0)),
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Chunked(ChunkedDecoder::new(ChunkLimits::default())),
            Framing::UntilClose => State::UntilClose,
        };
        None
    }

    fn whole(&mut self, taken: usize) -> Fed {
        self.state = State::Head;
        Fed::Answer { taken, status: self.status, keep: self.keep }
    }

    fn keep_head(&mut self, head: &[u8]) {
        if let Some(kept) = &mut self.kept {
            kept.head.clear();
            kept.head.extend_from_slice(head);
            kept.body.clear();
        }
    }

    fn keep_body(&mut self, piece: &[u8]) -> Result<(), Malformed> {
        if let Some(kept) = &mut self.kept {
            if kept.body.len() + piece.len() > MAX_COLLECTED {
                return Err(Malformed);
            }
            kept.body.extend_from_slice(piece);
        }
        Ok(())
    }
}

fn with_taken(fed: Fed, taken: usize) -> Fed {
    match fed {
        Fed::Answer { status, keep, .. } => Fed::Answer { taken, status, keep },
        Fed::More => Fed::More,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `stream` in pieces of `size`; the statuses of whole answers and whether the last connection goes on.
    fn read(stream: &[u8], size: usize, collect: bool) -> (Vec<u16>, bool, Vec<u8>) {
        let (mut reader, mut cache) = (Reader::new(collect), HeadCache::default());
        let (mut statuses, mut keeps, mut bodies) = (Vec::new(), true, Vec::new());
        reader.begin(false);
        let mut note = |fed: Fed, reader: &Reader| match fed {
            Fed::More => None,
            Fed::Answer { taken, status, keep } => {
                statuses.push(status);
                keeps = keep;
                bodies.extend_from_slice(reader.collected().map_or(&[][..], |kept| &kept.body));
                Some(taken)
            }
        };
        for piece in stream.chunks(size) {
            let mut rest = piece;
            while !rest.is_empty() {
                let fed = reader.feed(&mut cache, rest).unwrap();
                match note(fed, &reader) {
                    None => break,
                    Some(taken) => rest = &rest[taken..],
                }
            }
        }
        if let Some(fed) = reader.end_of_stream() {
            note(fed, &reader);
        }
        (statuses, keeps, bodies)
    }

    const STREAM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\
        HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: 1\r\n\r\n\
        HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 503 Busy\r\nConnection: close\r\n\r\nto the end";

    #[test]
    fn every_framing_in_pieces_of_any_size() {
        for size in 1..STREAM.len() {
            let (statuses, keep, _) = read(STREAM, size, false);
            assert_eq!((statuses, keep), (vec![200, 404, 204, 503], false), "pieces of {size}");
            assert_eq!(read(STREAM, size, true).2, b"helloabcdeto the end", "pieces of {size}");
        }
    }

    #[test]
    fn long_bodies_may_be_dropped_unseen() {
        let (mut reader, mut cache) = (Reader::new(false), HeadCache::default());
        reader.begin(false);
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789";
        assert_eq!(reader.feed(&mut cache, head), Ok(Fed::More));
        assert_eq!(reader.discardable(), 90);
        assert_eq!(reader.discarded(40), Fed::More);
        assert_eq!(reader.discarded(50), Fed::Answer { taken: 0, status: 200, keep: true });
        assert!(Reader::new(true).discardable() == 0);
    }

    #[test]
    fn a_cut_answer_is_not_whole() {
        let (mut reader, mut cache) = (Reader::new(false), HeadCache::default());
        reader.begin(false);
        assert!(!reader.began());
        assert_eq!(
            reader.feed(&mut cache, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n012"),
            Ok(Fed::More)
        );
        assert!(reader.began());
        assert_eq!(reader.end_of_stream(), None);
    }
}
