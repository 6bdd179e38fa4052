//! Packets of MQTT 3.1, 3.1.1 and 5.0: CONNECT and CONNACK, which begin a session.
//!
//! Owns: whether a packet is well formed, and the values of its fields.
//! Source: OASIS MQTT 3.1.1 and 5.0, sections 2 and 3.1, 3.2.

use weir_http::Cursor;

/// Properties of version 5, by how their values are written.
enum Value {
    Byte,
    Short,
    Long,
    Varint,
    Text,
    Pair,
}

fn property(id: u64) -> Option<Value> {
    Some(match id {
        0x01 | 0x17 | 0x19 | 0x24 | 0x25 | 0x28 | 0x29 | 0x2a => Value::Byte,
        0x13 | 0x21 | 0x22 | 0x23 => Value::Short,
        0x02 | 0x11 | 0x18 | 0x27 => Value::Long,
        0x0b => Value::Varint,
        0x03 | 0x08 | 0x09 | 0x12 | 0x15 | 0x16 | 0x1a | 0x1c | 0x1f => Value::Text,
        0x26 => Value::Pair,
        _ => return None,
    })
}

/// A number in groups of seven bits, lowest first; four at most.
fn varint(cursor: &mut Cursor<'_>) -> Option<u64> {
    let mut sum = 0;
    for shift in [0, 7, 14, 21] {
        let byte = cursor.byte()?;
        sum |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(sum);
        }
    }
    None
}

/// Fields of a packet by name; properties by their number.
#[derive(Default)]
struct Packet {
    fields: Vec<(&'static str, Vec<u8>)>,
    properties: Vec<(u64, Vec<u8>)>,
}

impl Packet {
    fn note(&mut self, name: &'static str, value: &[u8]) {
        self.fields.push((name, value.to_vec()));
    }

    fn number(&mut self, name: &'static str, value: u64) {
        self.fields.push((name, value.to_string().into_bytes()));
    }

    fn properties(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        let length = varint(cursor)?;
        let mut inner = Cursor::new(cursor.take(length as usize)?);
        while !inner.is_empty() {
            let id = varint(&mut inner)?;
            let shown = |number: u64| number.to_string().into_bytes();
            let value = match property(id)? {
                Value::Byte => shown(inner.byte()?.into()),
                Value::Short => shown(inner.short()?.into()),
                Value::Long => shown(inner.long()?.into()),
                Value::Varint => shown(varint(&mut inner)?),
                Value::Text => inner.large()?.to_vec(),
                Value::Pair => {
                    inner.large()?;
                    inner.large()?.to_vec()
                }
            };
            self.properties.push((id, value));
        }
        Some(())
    }
}

const CONNECT: u8 = 1;
const CONNACK: u8 = 2;

/// The type of a packet, and what is behind its fixed header, if all of it is there.
fn opened(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let mut cursor = Cursor::new(bytes);
    let first = cursor.byte()?;
    let length = varint(&mut cursor)?;
    (cursor.rest().len() as u64 == length).then_some((first, cursor.rest()))
}

fn connect(body: &[u8]) -> Option<Packet> {
    let mut cursor = Cursor::new(body);
    let mut packet = Packet::default();
    let name = cursor.large()?;
    let version = cursor.byte()?;
    match (name, version) {
        (b"MQIsdp", 3) | (b"MQTT", 4 | 5) => {}
        _ => return None,
    }
    packet.note("protocol_name", name);
    packet.number("protocol_version", version.into());
    let flags = cursor.byte()?;
    // The lowest bit is reserved; without a will nothing about it is said; a password needs a user but in version 5.
    let (will, password, user) = (flags & 4 != 0, flags & 0x40 != 0, flags & 0x80 != 0);
    if flags & 1 != 0
        || (!will && flags & 0x38 != 0)
        || flags & 0x18 == 0x18
        || (password && !user && version < 5)
    {
        return None;
    }
    packet.number("flags", flags.into());
    packet.number("keepalive", cursor.short()?.into());
    if version == 5 {
        packet.properties(&mut cursor)?;
    }
    packet.note("client_identifier", cursor.large()?);
    if will {
        if version == 5 {
            packet.properties(&mut cursor)?;
        }
        packet.note("will_topic", cursor.large()?);
        packet.note("will_payload", cursor.large()?);
    }
    if user {
        packet.note("username", cursor.large()?);
    }
    if password {
        packet.note("password", cursor.large()?);
    }
    cursor.is_empty().then_some(packet)
}

fn connack(body: &[u8]) -> Option<Packet> {
    let mut cursor = Cursor::new(body);
    let mut packet = Packet::default();
    let flags = cursor.byte()?;
    if flags & 0xfe != 0 {
        return None;
    }
    packet.number("flags", flags.into());
    packet.number("reason_code", cursor.byte()?.into());
    let version = if cursor.is_empty() { 4 } else { 5 };
    if version == 5 {
        packet.properties(&mut cursor)?;
    }
    packet.number("protocol_version", version);
    cursor.is_empty().then_some(packet)
}

fn packet(kind: u8, body: &[u8]) -> Option<Packet> {
    match kind {
        CONNECT => connect(body),
        CONNACK => connack(body),
        _ => None,
    }
}

/// Whether some bytes are one packet of MQTT. Of other types than those that begin a session the flags are looked at.
pub(super) fn is_valid(bytes: &[u8]) -> bool {
    let Some((first, body)) = opened(bytes) else { return false };
    let (kind, flags) = (first >> 4, first & 15);
    match kind {
        CONNECT | CONNACK => flags == 0 && packet(kind, body).is_some(),
        3 => flags & 6 != 6,
        6 | 8 | 10 => flags == 2,
        4 | 5 | 7 | 9 | 11..=15 => flags == 0,
        _ => false,
    }
}

/// A field of a packet of a type: by its name, or a property by its number.
pub(super) fn field(bytes: &[u8], kind: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let (first, body) = opened(bytes)?;
    let wanted: u8 = std::str::from_utf8(kind).ok()?.parse().ok()?;
    let found = packet(first >> 4, body).filter(|_| first >> 4 == wanted)?;
    let name = std::str::from_utf8(name).ok()?;
    match name.parse::<u64>() {
        Ok(id) => found.properties.into_iter().find(|(known, _)| *known == id).map(|(_, value)| value),
        Err(_) => found.fields.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Client `c`, user `u`, password `p`, version 3.1.1.
    const HELLO: &[u8] = b"\x10\x13\x00\x04MQTT\x04\xc2\x00\x3c\x00\x01c\x00\x01u\x00\x01p";
    /// Version 5 with a session's expiry and a receive maximum.
    const FIVE: &[u8] = b"\x10\x16\x00\x04MQTT\x05\x02\x00\x3c\x08\x11\x00\x00\x00\x0a\x21\x00\x14\x00\x02ab";

    #[test]
    fn packets_are_checked_and_read() {
        assert!(is_valid(HELLO));
        let told = |bytes: &[u8], name: &str| field(bytes, b"1", name.as_bytes());
        assert_eq!(told(HELLO, "username").unwrap(), b"u");
        assert_eq!(told(HELLO, "keepalive").unwrap(), b"60");
        assert_eq!(told(HELLO, "protocol_version").unwrap(), b"4");
        assert_eq!(told(HELLO, "17"), None);
        assert_eq!(field(HELLO, b"2", b"username"), None);
        let mut five = FIVE.to_vec();
        five[1] = (FIVE.len() - 2) as u8;
        assert!(is_valid(&five));
        assert_eq!(told(&five, "17").unwrap(), b"10");
        assert_eq!(told(&five, "33").unwrap(), b"20");
        assert_eq!(told(&five, "client_identifier").unwrap(), b"ab");
        assert!((0..HELLO.len()).all(|end| !is_valid(&HELLO[..end])));
        assert!(is_valid(b"\x20\x02\x00\x05") && !is_valid(b"\x20\x02\x02\x05"));
        assert_eq!(field(b"\x20\x02\x00\x05", b"2", b"reason_code").unwrap(), b"5");
        assert!(is_valid(b"\xc0\x00") && !is_valid(b"\xc1\x00"));
    }
}
