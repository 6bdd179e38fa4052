//! Bodies and records: the same in pieces, and never whole when cut.

use super::{ends, pieces};
use crate::body::encode;
use crate::fastcgi::{Decoder, FastCgiEvent};
use crate::gateway::{self, Found};
use crate::hello::{self, Peek};
use crate::{BodyEvent, BodyReader, ChunkLimits, Framing, proxy_protocol};

#[derive(Debug, PartialEq)]
struct Read {
    payload: Vec<u8>,
    consumed: usize,
    trailers: usize,
    whole: bool,
}

/// Reads a chunked body in pieces of `step`; `None` for an error.
fn read(text: &[u8], step: usize) -> Option<Read> {
    let mut reader = BodyReader::new(Framing::Chunked, ChunkLimits::default());
    let mut found = Read { payload: Vec::new(), consumed: 0, trailers: 0, whole: false };
    for end in ends(text.len(), step) {
        while !reader.is_done() {
            let rest = &text[found.consumed..end];
            match reader.next(rest).ok()? {
                BodyEvent::Data(range) => {
                    assert!(!range.is_empty());
                    found.payload.extend_from_slice(&rest[range.clone()]);
                    found.consumed += range.end;
                }
                BodyEvent::NeedMore(n) => {
                    assert_eq!(n, rest.len());
                    found.consumed += n;
                    break;
                }
                BodyEvent::End(n) => found.consumed += n,
            }
        }
    }
    found.whole = reader.close().is_ok();
    assert_eq!(found.whole, reader.is_done());
    found.trailers = reader.trailers().map_or(0, |trailers| trailers.headers().len());
    Some(found)
}

pub(super) fn chunked(data: &[u8]) {
    let (step, text) = pieces(data);
    let at_once = read(text, text.len().max(1));
    let in_pieces = read(text, step);
    let Some(found) = at_once else {
        // A trailer line that is cut may show its error only at its end.
        return assert!(in_pieces.is_none_or(|found| !found.whole), "refused at once, whole in pieces");
    };
    assert_eq!(in_pieces.as_ref(), Some(&found));
    if !found.whole {
        return;
    }
    assert_eq!(read(&text[..found.consumed], step).as_ref(), Some(&found));
    assert!(read(&text[..found.consumed - 1], step).is_some_and(|cut| !cut.whole), "a cut body looks whole");
    let mut out = Vec::new();
    found.payload.chunks(step).for_each(|piece| encode::chunk(&mut out, piece));
    encode::last_chunk(&mut out, []);
    let again = read(&out, step).expect("what is written can be read");
    assert!(again.whole && again.payload == found.payload && again.consumed == out.len());
}

/// Stdout and stderr, and how many bytes the answer took if it is whole; `None` for an error.
fn decode(text: &[u8], step: usize) -> Option<(Vec<u8>, Vec<u8>, Option<usize>)> {
    let mut decoder = Decoder::new();
    let (mut stdout, mut stderr, mut consumed) = (Vec::new(), Vec::new(), 0);
    for end in ends(text.len(), step) {
        loop {
            let rest = &text[consumed..end];
            match decoder.next(rest).ok()? {
                FastCgiEvent::Stdout(range) => {
                    stdout.extend_from_slice(&rest[range.clone()]);
                    consumed += range.end;
                }
                FastCgiEvent::Stderr(range) => {
                    stderr.extend_from_slice(&rest[range.clone()]);
                    consumed += range.end;
                }
                FastCgiEvent::NeedMore(n) => {
                    assert_eq!(n, rest.len());
                    consumed += n;
                    break;
                }
                FastCgiEvent::End { consumed: n, .. } => return Some((stdout, stderr, Some(consumed + n))),
            }
        }
    }
    Some((stdout, stderr, None))
}

pub(super) fn fastcgi(data: &[u8]) {
    let (step, text) = pieces(data);
    assert_eq!(decode(text, text.len().max(1)), decode(text, step));
}

/// The line is read alike however it comes, and a key never ends one.
pub(super) fn memcached(data: &[u8]) {
    let (step, text) = pieces(data);
    if let Some(key) = gateway::memcached_key(text) {
        assert!(key.len() <= gateway::MOST_KEY && key.iter().all(|&byte| byte > b' ' && byte != 0x7f));
    }
    let read = |end: usize| gateway::memcached_answer(&text[..end], b"key");
    let at_once = read(text.len());
    let in_pieces = ends(text.len(), step)
        .map(read)
        .find(|found| !matches!(found, Ok(Found::NeedMore)))
        .unwrap_or(Ok(Found::NeedMore));
    assert_eq!(at_once, in_pieces);
    if let Ok(Found::Value { line, .. } | Found::Nothing(line)) = at_once {
        assert!(line <= text.len() && text[line - 1] == b'\n');
    }
}

pub(super) fn hello(data: &[u8]) {
    let (step, text) = pieces(data);
    let at_once = hello::peek(text);
    let in_pieces = ends(text.len(), step)
        .map(|end| hello::peek(&text[..end]))
        .find(|found| !matches!(found, Peek::More))
        .unwrap_or(Peek::More);
    assert_eq!(at_once, in_pieces);
    if let Peek::Hello(hello) = at_once {
        assert!(hello.server_name.len() + hello.protocols.len() <= text.len().min(hello::MOST));
    }
}

pub(super) fn proxy_protocol(data: &[u8]) {
    let (step, text) = pieces(data);
    let at_once = proxy_protocol::parse(text);
    let in_pieces = ends(text.len(), step)
        .map(|end| proxy_protocol::parse(&text[..end]))
        .find(|found| !matches!(found, Ok(None)))
        .unwrap_or(Ok(None));
    assert_eq!(at_once, in_pieces);
    let Ok(Some(header)) = at_once else { return };
    assert!(header.len <= text.len().min(proxy_protocol::MAX_HEADER));
    assert!(header.tlvs(text).count() <= proxy_protocol::MAX_HEADER);
    for version in [proxy_protocol::ProxyVersion::V1, proxy_protocol::ProxyVersion::V2] {
        let mut out = Vec::new();
        proxy_protocol::write(version, &header.proxied, &mut out);
        let again = proxy_protocol::parse(&out).expect("what is written can be read").expect("and is whole");
        assert_eq!(again.len, out.len());
        if version == proxy_protocol::ProxyVersion::V2 {
            assert_eq!(again.proxied, header.proxied);
        }
    }
}

/// The peers protocol: whole messages are read the same however much follows them, and entries fit their definitions or are
/// refused.
pub(crate) fn peers(data: &[u8]) {
    use crate::peers::{Hello, Message, TableDefinition, read, read_status, write};
    let _ = (Hello::read(data), read_status(data));
    let mut rest = data;
    let mut table: Option<TableDefinition<'_>> = None;
    while let Ok(Some((message, length))) = read(rest) {
        assert!((2..=rest.len()).contains(&length), "a message has a length that is there");
        assert_eq!(read(&rest[..length]), Ok(Some((message.clone(), length))));
        rest = &rest[length..];
        match message {
            Message::Table(definition) => {
                let mut written = Vec::new();
                write(&Message::Table(definition.clone()), &mut written);
                assert_eq!(read(&written), Ok(Some((Message::Table(definition.clone()), written.len()))));
                table = Some(definition);
            }
            Message::Update { rest, .. } => {
                if let Some(Ok(entry)) = table.as_ref().map(|table| table.entry(rest)) {
                    assert!(entry.key.len() <= rest.len());
                }
            }
            _ => {}
        }
    }
}
