use proptest::prelude::*;

use super::*;

#[test]
fn numbers_are_as_the_protocol_has_them() {
    let written = |number| {
        let mut out = Vec::new();
        write_number(number, &mut out);
        out
    };
    assert_eq!(written(0), [0]);
    assert_eq!(written(239), [239]);
    assert_eq!(written(240), [240, 0]);
    assert_eq!(written(255), [255, 0]);
    assert_eq!(written(256), [240, 1]);
    assert_eq!(written(2287), [255, 127]);
    assert_eq!(written(2288), [240, 128, 0]);
    assert_eq!(read_number(&[240]), Ok(None));
    assert_eq!(read_number(&[255; 16]), Err(Fault::Protocol), "more than 64 bits");
}

#[test]
fn callers_and_their_answers() {
    let lines = Hello::lines("there", "here", 7);
    assert_eq!(lines, "HAProxyS 2.1\nthere\nhere 7 1\n");
    let hello = Hello { minor: 1, to: "there".into(), from: "here".into() };
    assert_eq!(Hello::read(lines.as_bytes()), Ok(Some((hello, lines.len()))));
    assert_eq!(Hello::read(&lines.as_bytes()[..20]), Ok(None));
    assert_eq!(Hello::read(b"HAProxyS 3.0\na\nb 1 1\n"), Err(Status::Version));
    assert_eq!(Hello::read(b"GET / HTTP/1.1\nHost: a\n\n"), Err(Status::Protocol));
    assert_eq!(Hello::read(&[b'x'; 600]), Err(Status::Protocol));
    assert_eq!(read_status(b"200\n"), Ok(Some((Status::Agreed, 4))));
    assert_eq!(read_status(b"503\r\nmore"), Ok(Some((Status::NotMe, 5))));
}

fn fields() -> impl Strategy<Value = Vec<Field>> {
    prop::collection::btree_map(0u8..=26, (1u8..4, 1u64..100_000), 0..8).prop_map(|all| {
        let one = |(kind, (count, period))| Field {
            kind,
            count: if matches!(kind, 22..=24) { count } else { 1 },
            period: if [3, 5, 8, 10, 12, 14, 16, 18, 21, 24, 26].contains(&kind) { period } else { 0 },
        };
        all.into_iter().map(one).collect()
    })
}

proptest! {
    #[test]
    fn numbers_come_back(number: u64, more in prop::collection::vec(any::<u8>(), 0..4)) {
        let mut out = Vec::new();
        write_number(number, &mut out);
        for cut in 0..out.len() {
            prop_assert_eq!(read_number(&out[..cut]), Ok(None));
        }
        out.extend(&more);
        prop_assert_eq!(read_number(&out), Ok(Some((number, &more[..]))));
    }

    /// Definitions and entries come back as they were, and no part of them is taken for a whole one.
    #[test]
    fn tables_and_entries_come_back(
        number: u64,
        name in prop::collection::vec(any::<u8>(), 0..20),
        text: bool,
        fields in fields(),
        key in prop::collection::vec(any::<u8>(), 1..30),
        parts in prop::collection::vec(any::<u32>(), 100),
        update: Option<u32>,
        expires_in: Option<u32>,
    ) {
        let kind = if text { Kind::Text } else { Kind::Bytes };
        let table = TableDefinition { number, name: &name, key: kind, key_size: key.len() as u64, fields, expire: 5 };
        let mut out = Vec::new();
        write(&Message::Table(table.clone()), &mut out);
        prop_assert_eq!(read(&out[..out.len() - 1]), Ok(None));
        prop_assert_eq!(read(&out), Ok(Some((Message::Table(table.clone()), out.len()))));

        let mut parts = parts.into_iter().map(u64::from);
        let mut part = || parts.next().unwrap_or(1);
        let mut values = Vec::new();
        for field in &table.fields {
            for at in 0..field.count {
                let value = match (field.kind, field.period) {
                    (19, _) => Value::Word(part() + 1, Some(&name)),
                    (_, 0) => Value::Number(part()),
                    _ => Value::Rate([part(), part(), part()]),
                };
                values.push((field.kind, at, value));
            }
        }
        let plain: Vec<_> = values.iter().map(|(_, _, value)| *value).collect();
        let mut rest = Vec::new();
        table.write_entry(&key, &plain, &mut rest);
        let message = Message::Update { number: update, expires_in, rest: &rest };
        let mut out = Vec::new();
        write(&message, &mut out);
        prop_assert_eq!(read(&out), Ok(Some((message, out.len()))));
        prop_assert_eq!(table.entry(&rest), Ok(Entry { key: &key, values }));
    }

    /// Whatever comes is read or refused, without end or panic.
    #[test]
    fn anything_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        crate::fuzzing::peers(&bytes);
    }
}
