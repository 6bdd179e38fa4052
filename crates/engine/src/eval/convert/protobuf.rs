//! Fields of messages of Protocol Buffers.
//!
//! Owns: the wire types; a number of a field with dots leads into messages within messages.

/// A field of a message in the body of a gRPC call: behind five bytes of its frame.
pub(super) fn grpc_field(body: &[u8], path: &[u8], kind: &[u8]) -> Option<Vec<u8>> {
    let (head, rest) = body.split_at_checked(5)?;
    let length = u32::from_be_bytes(head[1..].try_into().ok()?) as usize;
    // A compressed message says nothing here.
    if head[0] != 0 {
        return None;
    }
    field(rest.get(..length.min(rest.len()))?, path, kind)
}

/// The first field of that number: as bytes, or as a number where its type is named.
pub(super) fn field(message: &[u8], path: &[u8], kind: &[u8]) -> Option<Vec<u8>> {
    let mut numbers = std::str::from_utf8(path).ok()?.split('.').peekable();
    let mut message = message;
    while let Some(number) = numbers.next() {
        let found = find(message, number.parse().ok()?)?;
        if numbers.peek().is_none() {
            return shown(&found, std::str::from_utf8(kind).ok()?);
        }
        message = match found {
            Field::Bytes(inner) => inner,
            _ => return None,
        };
    }
    None
}

enum Field<'m> {
    Varint(u64, &'m [u8]),
    Fixed64([u8; 8]),
    Bytes(&'m [u8]),
    Fixed32([u8; 4]),
}

fn find(message: &[u8], wanted: u64) -> Option<Field<'_>> {
    let mut rest = message;
    while !rest.is_empty() {
        let (key, _) = varint(&mut rest)?;
        let found = match key & 7 {
            0 => varint(&mut rest).map(|(number, raw)| Field::Varint(number, raw))?,
            1 => Field::Fixed64(take(&mut rest, 8)?.try_into().ok()?),
            2 => {
                let length = usize::try_from(varint(&mut rest)?.0).ok()?;
                Field::Bytes(take(&mut rest, length)?)
            }
            5 => Field::Fixed32(take(&mut rest, 4)?.try_into().ok()?),
            _ => return None,
        };
        if key >> 3 == wanted {
            return Some(found);
        }
    }
    None
}

fn take<'m>(rest: &mut &'m [u8], length: usize) -> Option<&'m [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

fn varint<'m>(rest: &mut &'m [u8]) -> Option<(u64, &'m [u8])> {
    let length = rest.iter().take(10).position(|byte| byte & 0x80 == 0)? + 1;
    let raw = take(rest, length)?;
    let number = raw.iter().rev().fold(0u64, |sum, byte| sum << 7 | u64::from(byte & 0x7f));
    Some((number, raw))
}

fn shown(field: &Field<'_>, kind: &str) -> Option<Vec<u8>> {
    let unzigzag = |n: u64| (n >> 1).cast_signed() ^ -(n & 1).cast_signed();
    let text = match (field, kind) {
        (Field::Varint(_, raw), "") => return Some(raw.to_vec()),
        (Field::Fixed64(raw), "") => return Some(raw.to_vec()),
        (Field::Fixed32(raw), "") => return Some(raw.to_vec()),
        (Field::Bytes(raw), "") => return Some(raw.to_vec()),
        (Field::Varint(n, _), "int32" | "enum") => (*n as i32).to_string(),
        (Field::Varint(n, _), "uint32") => (*n as u32).to_string(),
        (Field::Varint(n, _), "int64" | "uint64") => n.cast_signed().to_string(),
        (Field::Varint(n, _), "bool") => u8::from(*n != 0).to_string(),
        (Field::Varint(n, _), "sint32" | "sint64") => unzigzag(*n).to_string(),
        (Field::Fixed64(raw), "fixed64" | "sfixed64") => i64::from_le_bytes(*raw).to_string(),
        (Field::Fixed64(raw), "double") => (f64::from_le_bytes(*raw) as i64).to_string(),
        (Field::Fixed32(raw), "fixed32") => u32::from_le_bytes(*raw).to_string(),
        (Field::Fixed32(raw), "sfixed32") => i32::from_le_bytes(*raw).to_string(),
        (Field::Fixed32(raw), "float") => (f32::from_le_bytes(*raw) as i64).to_string(),
        _ => return None,
    };
    Some(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_and_cut_messages_have_none() {
        // 1: 150, 2: "hi", 3: { 1: -2 as sint32 }, 4: 7 in 32 bits.
        let message = [8, 0x96, 1, 0x12, 2, b'h', b'i', 0x1a, 2, 8, 3, 0x25, 7, 0, 0, 0];
        let get = |path: &str, kind: &str| {
            field(&message, path.as_bytes(), kind.as_bytes())
                .map(|value| String::from_utf8_lossy(&value).into_owned())
        };
        assert_eq!(get("1", "int32").unwrap(), "150");
        assert_eq!(get("2", "").unwrap(), "hi");
        assert_eq!(get("3.1", "sint32").unwrap(), "-2");
        assert_eq!(get("4", "fixed32").unwrap(), "7");
        assert_eq!(get("5", ""), None);
        assert_eq!(get("2", "int32"), None);
        for end in 0..message.len() {
            let _ = field(&message[..end], b"4", b"");
        }
        let body = [&[0, 0, 0, 0, 16][..], &message].concat();
        assert_eq!(grpc_field(&body, b"2", b"").unwrap(), b"hi");
        assert_eq!(grpc_field(&body[..3], b"2", b""), None);
    }
}
