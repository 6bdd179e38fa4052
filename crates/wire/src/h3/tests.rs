//! Field sections and streams, by bytes.

use proptest::prelude::*;
use weir_rt::Buf;

use super::{Code, Fault, Item, OneWay, Opened, RequestReader, data_head, fuzzing, head, settings};
use crate::h2::Fields;

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/x")];

fn list(fields: &[(&str, &str)]) -> Fields {
    let mut list = Fields::new();
    fields.iter().for_each(|(name, value)| list.push(name.as_bytes(), value.as_bytes()));
    list
}

fn request(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    head(&mut bytes, &list(&[&GET[..], fields].concat()));
    bytes
}

fn read(bytes: &[u8]) -> Result<(Vec<Item>, Vec<u8>), Fault> {
    let (mut reader, mut input, mut body) = (RequestReader::new(1000), Buf::new(), Buf::new());
    input.extend(bytes);
    let mut items = Vec::new();
    loop {
        match reader.read(&mut input, &mut body)? {
            Item::More => break,
            Item::TooLarge => return Ok((vec![Item::TooLarge], Vec::new())),
            item => items.push(item),
        }
    }
    reader.end(&input)?;
    Ok((items, body.to_vec()))
}

#[test]
fn a_request_with_a_body_and_trailers() {
    let mut bytes = request(&[("content-length", "5"), ("x-a", "b")]);
    for part in [&b"he"[..], b"llo"] {
        data_head(&mut bytes, part.len());
        bytes.extend_from_slice(part);
        // A frame that nobody knows.
        bytes.extend_from_slice(&[0x21, 2, 9, 9]);
    }
    head(&mut bytes, &list(&[("x-sum", "1")]));
    let all = read(&bytes).expect("a request");
    assert_eq!(all, (vec![Item::Head, Item::Data, Item::Data, Item::Trailers], b"hello".to_vec()));
}

#[test]
fn rules_that_are_broken() {
    let after = |more: &[u8]| [request(&[]), more.to_vec()].concat();
    let connection = |code| Err(Fault::Connection(code));
    let stream = |code| Err(Fault::Stream(code));
    assert_eq!(read(&[0x00, 1, b'x']), connection(Code::FRAME_UNEXPECTED), "a body before its head");
    assert_eq!(read(&after(&[0x04, 0])), connection(Code::FRAME_UNEXPECTED), "settings on a request");
    assert_eq!(read(&after(&[0x02, 0])), connection(Code::FRAME_UNEXPECTED), "a frame of HTTP/2");
    assert_eq!(read(&after(&[0x00, 3, b'x'])), connection(Code::FRAME_ERROR), "a frame that is cut");
    assert_eq!(read(&[0x01, 2, 1, 0]), connection(Code::QPACK_DECOMPRESSION_FAILED), "a dynamic table");
    assert_eq!(read(&[0x01, 3, 0, 0, 0x80]), connection(Code::QPACK_DECOMPRESSION_FAILED), "its entry");
    assert_eq!(read(&[0x01, 4, 0, 0, 0xff, 0x7f]), connection(Code::QPACK_DECOMPRESSION_FAILED), "no entry");
    assert_eq!(read(&[]), stream(Code::REQUEST_INCOMPLETE), "nothing");
    assert_eq!(read(&request(&[("content-length", "5")])), stream(Code::MESSAGE_ERROR), "no body");
    assert_eq!(read(&request(&[("connection", "close")])), stream(Code::MESSAGE_ERROR), "hop by hop");
    let long = "x".repeat(2000);
    assert_eq!(read(&request(&[("x-a", &long)])).expect("told").0, [Item::TooLarge]);
    let idle = [0x21, 0].repeat(101);
    assert_eq!(read(&after(&idle)), connection(Code::EXCESSIVE_LOAD));
}

fn one_way(bytes: &[u8]) -> Result<(), Fault> {
    let (mut stream, mut input) = (OneWay::default(), Buf::new());
    input.extend(bytes);
    stream.read(&mut input, &mut Opened::default()).map(drop)?;
    stream.end()
}

#[test]
fn streams_of_one_direction() {
    let mut good = Vec::new();
    settings(&mut good, 100);
    let closed = Err(Fault::Connection(Code::CLOSED_CRITICAL_STREAM));
    assert_eq!(one_way(&good), closed);
    assert_eq!(one_way(&[0x00, 0x07, 1, 0]), Err(Fault::Connection(Code::MISSING_SETTINGS)));
    assert_eq!(one_way(&[&good[..], &[0x04, 0]].concat()), Err(Fault::Connection(Code::FRAME_UNEXPECTED)));
    assert_eq!(one_way(&[0x00, 0x04, 2, 0x02, 0]), Err(Fault::Connection(Code::SETTINGS_ERROR)));
    assert_eq!(one_way(&[0x00, 0x04, 4, 6, 0, 6, 0]), Err(Fault::Connection(Code::SETTINGS_ERROR)));
    assert_eq!(one_way(&[0x01]), Err(Fault::Connection(Code::STREAM_CREATION_ERROR)));
    assert_eq!(one_way(&[0x02, 0x3f, 0xe1, 0x1f]), Err(Fault::Connection(Code::QPACK_ENCODER_STREAM_ERROR)));
    assert_eq!(one_way(&[0x03, 0x80]), Err(Fault::Connection(Code::QPACK_DECODER_STREAM_ERROR)));
    assert_eq!(one_way(&[0x03, 0x44]), closed);
    assert_eq!(one_way(&[0x2f, 1, 2, 3]), Ok(()));
    // A second control stream.
    let mut opened = Opened::default();
    let mut open = || {
        let mut input = Buf::new();
        input.extend(&good);
        OneWay::default().read(&mut input, &mut opened).map(drop)
    };
    assert_eq!(open(), Ok(()));
    assert_eq!(open(), Err(Fault::Connection(Code::STREAM_CREATION_ERROR)));
}

proptest! {
    #[test]
    fn any_bytes_end(data: Vec<u8>) {
        fuzzing::TARGETS.iter().for_each(|(_, target)| target(&data));
    }

    #[test]
    fn good_input_spoilt_ends(at in 0..200_usize, by: u8) {
        for (name, target) in fuzzing::TARGETS {
            for mut input in fuzzing::corpus(name) {
                let place = at % input.len();
                input[place] ^= by;
                target(&input);
            }
        }
    }
}
