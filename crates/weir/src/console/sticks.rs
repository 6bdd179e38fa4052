//! Stick tables as commands see them.
//!
//! Owns: the form of rows, the order of entries.
//! Never: holds the engine: a table is shared by whoever has to do with it.
//! Driven by: `runtime`.

use std::sync::Arc;

use weir_admin::cli;
use weir_expr::{StickData, StickKey};
use weir_policy::Millis;
use weir_policy::limit::{StickRow, StickTable};

/// A table at a moment.
pub(super) struct Table {
    name: String,
    table: Arc<StickTable>,
    now: Millis,
    data: Vec<StickData>,
    columns: Vec<(String, Option<u64>)>,
}

impl Table {
    pub(super) fn new(name: &str, table: Arc<StickTable>, now: Millis) -> Self {
        let mut data: Vec<StickData> = Vec::new();
        let mut columns = Vec::new();
        for stored in &table.config().store {
            if !data.contains(&stored.data) {
                let period = stored.data.is_rate().then(|| weir_policy::millis(stored.period));
                data.push(stored.data);
                columns.push((stored.data.to_string(), period));
            }
        }
        Self { name: name.to_owned(), table, now, data, columns }
    }

    fn row_of(&self, row: StickRow) -> cli::StickRow {
        let shown = self.table.shown(&row.key);
        let StickRow { number, key, users, expires_in, values } = row;
        cli::StickRow { number, key: key.to_vec(), shown, users, expires_in, values }
    }
}

impl cli::StickTable for Table {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        match self.table.config().key {
            StickKey::Ip => "ip",
            StickKey::Ipv6 => "ipv6",
            StickKey::Integer => "integer",
            StickKey::Text(_) => "string",
            StickKey::Binary(_) => "binary",
        }
    }

    fn size(&self) -> u64 {
        self.table.config().size
    }

    fn used(&self) -> u64 {
        self.table.used(self.now) as u64
    }

    fn columns(&self) -> &[(String, Option<u64>)] {
        &self.columns
    }

    fn key(&self, text: &str) -> Option<Vec<u8>> {
        let digits = || text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u32>().is_ok();
        let is_key = match self.table.config().key {
            StickKey::Integer => digits(),
            _ => true,
        };
        self.table.key_of(text.as_bytes()).filter(|_| is_key).map(|key| key.to_vec())
    }

    fn rows(&self, wanted: &dyn Fn(&[u64]) -> bool) -> Vec<cli::StickRow> {
        let groups = 0..self.table.groups();
        let mut rows: Vec<_> = groups
            .flat_map(|group| self.table.rows(group, self.now, wanted))
            .map(|row| self.row_of(row))
            .collect();
        rows.sort_by(|one, other| one.key.cmp(&other.key));
        rows
    }

    fn row(&self, key: &[u8]) -> Option<cli::StickRow> {
        self.table.row(key, self.now).map(|row| self.row_of(row))
    }

    fn set(&self, key: &[u8], values: &[(usize, u64)]) -> bool {
        let set = |(column, value): &(usize, u64)| {
            self.data.get(*column).is_some_and(|data| self.table.set(key, *data, self.now, *value))
        };
        self.table.touch(key, self.now) && values.iter().all(set)
    }

    fn remove(&self, key: &[u8]) -> bool {
        self.table.clear(key)
    }
}
