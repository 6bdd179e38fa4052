//! Bodies: chunked coding, lengths, and what a cut means.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_http::body::encode;
use weir_http::{BodyError, BodyEvent, BodyReader, ChunkLimits, Framing, HeaderId, LineError};

/// Reads a body given in pieces: the payload, and how many bytes of the pieces were the body's.
fn read(framing: Framing, pieces: &[&[u8]]) -> Result<(Vec<u8>, usize, BodyReader), BodyError> {
    let mut reader = BodyReader::new(framing, ChunkLimits::default());
    let (mut payload, mut consumed) = (Vec::new(), 0);
    for piece in pieces {
        let mut rest = *piece;
        while !reader.is_done() {
            let used = match reader.next(rest)? {
                BodyEvent::Data(range) => {
                    assert!(!range.is_empty());
                    payload.extend_from_slice(&rest[range.clone()]);
                    range.end
                }
                BodyEvent::NeedMore(n) => {
                    assert_eq!(n, rest.len(), "all is consumed before more is asked for");
                    consumed += n;
                    break;
                }
                BodyEvent::End(n) => n,
            };
            consumed += used;
            rest = &rest[used..];
        }
    }
    reader.close()?;
    Ok((payload, consumed, reader))
}

/// Reads a chunked body at once and byte by byte, and wants the same of both.
#[track_caller]
fn chunked(text: &[u8]) -> Result<(Vec<u8>, usize), BodyError> {
    let whole = read(Framing::Chunked, &[text]).map(|r| (r.0, r.1));
    let bytes: Vec<_> = text.chunks(1).collect();
    assert_eq!(read(Framing::Chunked, &bytes).map(|r| (r.0, r.1)), whole, "{}", text.escape_ascii());
    whole
}

#[test]
fn chunks() {
    assert_eq!(chunked(b"0\r\n\r\nrest"), Ok((vec![], 5)));
    assert_eq!(chunked(b"5\r\nhello\r\n0\r\n\r\n"), Ok((b"hello".to_vec(), 15)));
    assert_eq!(chunked(b"00000A\r\n0123456789\r\n1\r\nx\r\n000\r\n\r\n"), Ok((b"0123456789x".to_vec(), 33)));
    assert_eq!(chunked(b"1;a\r\nx\r\n0;b=\"\\\"\";c=d\r\n\r\n").unwrap().0, b"x");
    // The space before an extension that RFC 9112 §7.1.1 wants taken.
    assert_eq!(chunked(b"1 ;a\r\nx\r\n0\t ; b\r\n\r\n").unwrap().0, b"x");
    assert_eq!(chunked(b"1;a=\";\r\nx\r\n0\r\n\r\n"), Err(BodyError::ChunkExtension));
}

#[test]
fn broken_chunks() {
    use BodyError as E;
    for (text, error) in [
        ("\r\n", E::ChunkSize),
        ("x\r\n", E::ChunkSize),
        (" 5\r\nhello\r\n", E::ChunkSize),
        ("5 \r\nhello\r\n", E::ChunkSize),
        ("5 5\r\nhello\r\n", E::ChunkSize),
        ("5 \nhello\r\n", E::ChunkSize),
        ("+5\r\nhello\r\n", E::ChunkSize),
        ("-5\r\nhello\r\n", E::ChunkSize),
        ("0x5\r\nhello\r\n", E::ChunkSize),
        ("5_0\r\nhello\r\n", E::ChunkSize),
        ("8000000000000000\r\n", E::ChunkSize),
        ("ffffffffffffffff\r\n", E::ChunkSize),
        ("10000000000000005\r\nhello\r\n", E::ChunkSize),
        ("00000000000000005\r\nhello\r\n", E::ChunkSize),
        ("5\nhello\r\n", E::LineEnd),
        ("5\r\rhello\r\n", E::LineEnd),
        ("5;a\nhello\r\n", E::LineEnd),
        ("5;a\0\r\nhello\r\n", E::ChunkExtension),
        ("5\r\nhello\n", E::ChunkEnd),
        ("5\r\nhello\rx", E::ChunkEnd),
        ("5\r\nhello5\r\n", E::ChunkEnd),
        ("5\r\nhello0\r\n\r\n", E::ChunkEnd),
        ("0\r\n\n", E::Trailer(LineError::BareLf)),
        ("0\r\nX : y\r\n\r\n", E::Trailer(LineError::SpaceBeforeColon)),
        ("0\r\n X: y\r\n\r\n", E::Trailer(LineError::Folding)),
        ("0\r\nX: y\n\r\n", E::Trailer(LineError::BareLf)),
        ("0\r\nContent-Length: 5\r\n\r\n", E::ForbiddenTrailer),
        ("0\r\nTransfer-Encoding: chunked\r\n\r\n", E::ForbiddenTrailer),
        ("0\r\nHost: a\r\n\r\n", E::ForbiddenTrailer),
    ] {
        assert_eq!(chunked(text.as_bytes()), Err(error), "{}", text.escape_debug());
    }
}

#[test]
fn a_cut_body_never_looks_whole() {
    let whole = b"5\r\nhello\r\n3;x\r\nabc\r\n0\r\nX-T: y\r\n\r\n";
    assert!(chunked(whole).is_ok());
    for cut in 0..whole.len() {
        assert_eq!(chunked(&whole[..cut]), Err(BodyError::Cut), "{cut}");
    }
    for cut in 0..5 {
        assert_eq!(read(Framing::Length(5), &[&b"hello"[..cut]]).err(), Some(BodyError::Cut));
    }
    assert_eq!(read(Framing::UntilClose, &[b"hel", b"lo"]).unwrap().0, b"hello");
    assert_eq!(
        read(Framing::Length(5), &[b"hel", b"", b"loGET"]).map(|r| (r.0, r.1)),
        Ok((b"hello".to_vec(), 5))
    );
    assert_eq!(read(Framing::None, &[b"GET"]).map(|r| (r.0, r.1)), Ok((vec![], 0)));
}

#[test]
fn trailers() {
    let text = b"1\r\nx\r\n0\r\nX-Sum: 1\r\ngrpc-status:0\r\n\r\nGET /";
    for size in 1..=text.len() {
        let pieces: Vec<_> = text.chunks(size).collect();
        let (_, consumed, reader) = read(Framing::Chunked, &pieces).unwrap();
        assert_eq!(consumed, text.len() - 5, "in pieces of {size}");
        let headers = reader.trailers().unwrap().headers();
        assert_eq!(headers.by_name(b"x-sum"), Some(b"1".as_slice()));
        assert_eq!(headers.by_name(b"grpc-status"), Some(b"0".as_slice()));
    }
    assert!(read(Framing::Chunked, &[b"0\r\n\r\n"]).unwrap().2.trailers().is_none());
}

#[test]
fn bounds() {
    let long = |n: usize| format!("1;{}\r\nx\r\n0\r\n\r\n", "a".repeat(n));
    assert!(chunked(long(16 << 10).as_bytes()).is_ok());
    assert_eq!(chunked(long((16 << 10) + 1).as_bytes()), Err(BodyError::ChunkExtension));
    // The bound is on the whole body: many small ones count together.
    let many = "1;aaaaaaaa\r\nx\r\n".repeat(3000);
    assert_eq!(chunked(many.as_bytes()), Err(BodyError::ChunkExtension));
    let trailers = format!("0\r\nX: {}\r\n\r\n", "a".repeat(9000));
    assert!(matches!(chunked(trailers.as_bytes()), Err(BodyError::Trailer(e)) if e.is_size()));
    let fields = format!("0\r\n{}\r\n", "X: a\r\n".repeat(65));
    assert!(matches!(chunked(fields.as_bytes()), Err(BodyError::Trailer(LineError::TooManyFields))));
}

#[test]
fn what_is_written_is_read() {
    let mut out = Vec::new();
    for payload in [b"a".as_slice(), b"", &[b'x'; 16], &[b'y'; 70_000]] {
        encode::chunk(&mut out, payload);
    }
    encode::last_chunk(
        &mut out,
        [
            (HeaderId::Unknown, b"X-Sum".as_slice(), b"1".as_slice()),
            (HeaderId::ContentLength, b"Content-Length", b"5"),
            (HeaderId::Unknown, b"X-Bad", b"a\r\nb"),
        ],
    );
    let (payload, consumed, reader) = read(Framing::Chunked, &[&out]).unwrap();
    assert_eq!((payload.len(), consumed), (1 + 16 + 70_000, out.len()));
    assert_eq!(reader.trailers().unwrap().headers().len(), 1);
    let mut head = Vec::new();
    encode::chunk_head(&mut head, 0x1f_00a0);
    assert_eq!(head, b"1f00a0\r\n");
    assert_eq!(read(Framing::Chunked, &[encode::LAST_CHUNK]).unwrap().1, 5);
}

#[test]
fn payload_may_go_past_the_reader() {
    let mut reader = BodyReader::new(Framing::Chunked, ChunkLimits::default());
    assert_eq!(reader.next(b"64\r\n"), Ok(BodyEvent::NeedMore(4)));
    assert_eq!(reader.contiguous(), 100);
    reader.skip(60);
    reader.skip(40);
    assert_eq!(reader.contiguous(), 0);
    assert_eq!(reader.next(b"\r\n0\r\n\r\n"), Ok(BodyEvent::End(7)));
    let mut reader = BodyReader::new(Framing::Length(10), ChunkLimits::default());
    reader.skip(10);
    assert!(reader.is_done());
}
