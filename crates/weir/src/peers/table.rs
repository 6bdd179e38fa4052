//! A stick table as peers see it.
//!
//! Owns: HAProxy's numbers of what tables store, and entries in the protocol's words.
//! Never: talks to anybody.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_expr::settings::PeerTable;
use weir_expr::{StickData, StickKey};
use weir_http::peers::{Entry, Field, Kind, Message, TableDefinition, Value, write};
use weir_policy::Millis;
use weir_policy::limit::{StickEntry, StickTable, StickValue};

/// Numbers of kinds that are arrays: tags, counters, rates of counters.
const ARRAYS: [u8; 3] = [22, 23, 24];

/// A table that is shared.
pub(super) struct Shared {
    pub(super) table: Arc<StickTable>,
    /// Its name among peers.
    pub(super) name: Box<[u8]>,
    /// Nobody is told of it.
    pub(super) receive_only: bool,
    /// The table that servers and tags which others tell of are noted in, too.
    also_in: Option<Arc<StickTable>>,
    key_size: u32,
    /// What is told of each entry, in the order of the protocol, and where an entry has it.
    fields: Vec<(Field, Vec<usize>)>,
}

/// The number of a kind of data, and its place if it is in an array. `None`: the protocol has none.
fn number_of(data: StickData, [tags, counters, rates]: [bool; 3]) -> Option<(u8, u8)> {
    match data {
        StickData::Gpt(at) if tags => Some((ARRAYS[0], at)),
        StickData::Gpc(at) if counters => Some((ARRAYS[1], at)),
        StickData::GpcRate(at) if rates => Some((ARRAYS[2], at)),
        other => other.number().map(|number| (number, 0)),
    }
}

/// The kind of data of a number; `None`: nothing that is stored here.
fn data_of(number: u8, at: u8) -> Option<StickData> {
    match ARRAYS.iter().position(|known| *known == number) {
        Some(0) => Some(StickData::Gpt(at)),
        Some(1) => Some(StickData::Gpc(at)),
        Some(_) => Some(StickData::GpcRate(at)),
        None => StickData::numbered(number),
    }
}

impl Shared {
    pub(super) fn new(table: Arc<StickTable>, shared: &PeerTable, also_in: Option<Arc<StickTable>>) -> Self {
        let mut fields: BTreeMap<u8, (Field, Vec<usize>)> = BTreeMap::new();
        for (place, data) in table.kinds().enumerate() {
            let Some((kind, _)) = number_of(data, shared.form.arrays) else { continue };
            let stored = table.config().store.iter().find(|stored| stored.data == data);
            let period =
                stored.filter(|_| data.is_rate()).map_or(0, |stored| stored.period.as_millis() as u64);
            let (field, places) =
                fields.entry(kind).or_insert((Field { kind, count: 0, period }, Vec::new()));
            field.count = field.count.saturating_add(1);
            places.push(place);
        }
        Self {
            table,
            name: shared.shared_as.as_bytes().into(),
            receive_only: shared.receive_only,
            also_in,
            key_size: shared.form.key_size,
            fields: fields.into_values().collect(),
        }
    }

    /// Its definition, under a number of ours.
    pub(super) fn definition(&self, number: u64) -> TableDefinition<'_> {
        let config = self.table.config();
        TableDefinition {
            number,
            name: &self.name,
            key: kind_of(config.key),
            key_size: self.key_size.into(),
            fields: self.fields.iter().map(|(field, _)| *field).collect(),
            expire: config.expire.map_or(0, |expire| expire.as_millis() as u64),
        }
    }

    /// Whether entries of a table that another process defined can be in it.
    pub(super) fn takes(&self, theirs: &TableDefinition<'_>) -> bool {
        let kind = kind_of(self.table.config().key);
        // Texts have lengths of their own.
        *theirs.name == *self.name
            && kind == theirs.key
            && (kind == Kind::Text || theirs.key_size == u64::from(self.key_size))
    }

    /// Writes an entry. `number`: of the update.
    pub(super) fn tell(&self, entry: &StickEntry, number: u32, out: &mut Vec<u8>) {
        let value = |place: &usize| match entry.values.get(*place) {
            Some(StickValue::Count(count)) => Value::Number(*count),
            Some(StickValue::Rate { age, current, previous }) => {
                Value::Rate([(*age).into(), (*current).into(), (*previous).into()])
            }
            None => Value::Number(0),
        };
        let values: Vec<Value<'_>> = self.fields.iter().flat_map(|(_, places)| places).map(value).collect();
        let mut rest = Vec::with_capacity(64);
        self.definition(0).write_entry(&entry.key, &values, &mut rest);
        let expires_in = entry.expires_in.map(|left| u32::try_from(left).unwrap_or(u32::MAX));
        write(
            &Message::Update { number: Some(number), expires_in: Some(expires_in.unwrap_or(0)), rest: &rest },
            out,
        );
    }

    /// Takes over an entry. `expires_in`: where it was told; `told`: what they were taught of each group.
    pub(super) fn learn(
        &self,
        entry: &Entry<'_>,
        expires_in: Option<u32>,
        told: &[Option<u64>],
        now: Millis,
    ) {
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let values = entry.values.iter().filter_map(|(kind, at, value)| {
            let value = match *value {
                Value::Number(count) => StickValue::Count(count),
                Value::Rate([age, current, previous]) => {
                    StickValue::Rate { age: small(age), current: small(current), previous: small(previous) }
                }
                Value::Word(..) => return None,
            };
            Some((data_of(*kind, *at)?, value))
        });
        let values: Vec<_> = values.collect();
        let expires_in = expires_in.filter(|left| *left > 0).map(u64::from);
        // A table that is full, or a key that cannot be: it is not learnt.
        let _ = self.table.learn(entry.key, expires_in, &values, told, now);
        if let Some(also) = &self.also_in {
            // What is counted would be counted again by whoever is told in turn.
            let noted =
                |(data, _): &(StickData, StickValue)| matches!(data, StickData::ServerId | StickData::Gpt(_));
            let values: Vec<_> = values.into_iter().filter(noted).collect();
            let _ = also.learn(entry.key, expires_in, &values, &[], now);
        }
    }
}

fn kind_of(key: StickKey) -> Kind {
    match key {
        StickKey::Ip => Kind::Ipv4,
        StickKey::Ipv6 => Kind::Ipv6,
        StickKey::Integer => Kind::Number,
        StickKey::Text(_) => Kind::Text,
        StickKey::Binary(_) => Kind::Bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_kinds_agree() {
        for arrays in [[false; 3], [true; 3]] {
            for number in 0..=24 {
                let Some(data) = data_of(number, 0) else { continue };
                let (back, at) = number_of(data, arrays).expect("each has a number");
                assert_eq!(data_of(back, at), Some(data));
            }
        }
        assert_eq!(number_of(StickData::Gpc(1), [false; 3]), Some((17, 0)));
        assert_eq!(number_of(StickData::Gpc(5), [false, true, false]), Some((23, 5)));
        assert_eq!(data_of(19, 0), None, "names of servers");
    }
}
