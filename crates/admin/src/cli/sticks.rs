//! `show table`, `set table` and `clear table`.
//!
//! Owns: their words, filters by `data.…`, the form of an entry.
//! Never: holds an entry: what runs gives rows, and makes changes.

use std::fmt::Write as _;

use super::context::{Cx, Level};

/// A stick table, as commands see it.
pub trait StickTable {
    /// Its name.
    fn name(&self) -> &str;
    /// What its keys are, in HAProxy's word.
    fn kind(&self) -> &'static str;
    /// Entries at most.
    fn size(&self) -> u64;
    /// Entries.
    fn used(&self) -> u64;
    /// What an entry holds, in the order of its values: names, and periods of rates in milliseconds.
    fn columns(&self) -> &[(String, Option<u64>)];
    /// A key as written; `None` if it is none of this table.
    fn key(&self, text: &str) -> Option<Vec<u8>>;
    /// Entries by their keys, of which the values are wanted.
    fn rows(&self, wanted: &dyn Fn(&[u64]) -> bool) -> Vec<StickRow>;
    /// The entry of a key.
    fn row(&self, key: &[u8]) -> Option<StickRow>;
    /// Makes the entry of a key, or renews it, and sets values by column. False if the table is full.
    fn set(&self, key: &[u8], values: &[(usize, u64)]) -> bool;
    /// Removes the entry of a key. False if it is in use.
    fn remove(&self, key: &[u8]) -> bool;
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StickRow {
    /// A number of its own.
    pub number: u64,
    /// Its key.
    pub key: Vec<u8>,
    /// The key as it is written.
    pub shown: String,
    /// How many track it.
    pub users: u32,
    /// Milliseconds until it expires; zero if it never does.
    pub expires_in: u64,
    /// Its values.
    pub values: Vec<u64>,
}

/// What a command does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Show,
    Set,
    Clear,
}

pub(super) fn show(cx: &mut Cx<'_>) -> String {
    run(cx, Does::Show)
}

pub(super) fn set(cx: &mut Cx<'_>) -> String {
    run(cx, Does::Set)
}

pub(super) fn clear(cx: &mut Cx<'_>) -> String {
    run(cx, Does::Clear)
}

fn run(cx: &Cx<'_>, does: Does) -> String {
    answer(cx, does).unwrap_or_else(|why| why)
}

fn usage(does: Does) -> String {
    match does {
        Does::Show => {
            "Optional argument only supports \"data.<store_data_type>\" <operator> <value> and key <key>\n"
        }
        Does::Set => "Required arguments: <table> key <key> [data.<store_data_type> <value>]*\n",
        Does::Clear => {
            "Required arguments: <table> \"data.<store_data_type>\" <operator> <value> or <table> key <key>\n"
        }
    }
    .to_owned()
}

fn answer(cx: &Cx<'_>, does: Does) -> Result<String, String> {
    let tables = cx.runtime.stick_tables();
    if cx.argument(0).is_empty() {
        return match does {
            Does::Show => Ok(tables.iter().map(|table| head(&**table)).collect()),
            _ => Err(usage(does)),
        };
    }
    let found = tables.iter().find(|table| table.name() == cx.argument(0));
    let table = &**found.ok_or("No such table\n")?;
    let entries = cx.state.level >= Level::Operator;
    match cx.argument(1) {
        "key" => of_key(cx, does, table),
        _ if does == Does::Set => Err(usage(does)),
        word if word.is_empty() || word.starts_with("data.") => {
            let filters = filters(cx, table)?;
            let wanted = |values: &[u64]| filters.iter().all(|filter| filter.holds(values));
            let rows = if entries { table.rows(&wanted) } else { Vec::new() };
            if does == Does::Clear {
                // What is in use stays.
                for row in &rows {
                    table.remove(&row.key);
                }
                return Ok(String::new());
            }
            let mut text = head(table);
            rows.iter().for_each(|row| line(table, row, &mut text));
            Ok(text)
        }
        _ => Err(usage(does)),
    }
}

fn head(table: &dyn StickTable) -> String {
    let (name, kind, size, used) = (table.name(), table.kind(), table.size(), table.used());
    format!("# table: {name}, type: {kind}, size:{size}, used:{used}\n")
}

fn line(table: &dyn StickTable, row: &StickRow, out: &mut String) {
    let StickRow { number, shown, users, expires_in, .. } = row;
    let _ = write!(out, "0x{number:x}: key={shown} use={users} exp={expires_in}");
    for ((name, period), value) in table.columns().iter().zip(&row.values) {
        let _ = match period {
            Some(period) => write!(out, " {name}({period})={value}"),
            None => write!(out, " {name}={value}"),
        };
    }
    out.push('\n');
}

/// What is done about one key.
fn of_key(cx: &Cx<'_>, does: Does, table: &dyn StickTable) -> Result<String, String> {
    if cx.argument(2).is_empty() {
        return Err("Key value expected\n".to_owned());
    }
    if table.kind() == "binary" {
        let doing = match does {
            Does::Show => "Showing keys from",
            Does::Set => "Inserting keys into",
            Does::Clear => "Removing keys from",
        };
        return Err(format!(
            "{doing} tables of type other than ip, ipv6, string and integer is not supported\n"
        ));
    }
    let key = table.key(cx.argument(2)).ok_or("Invalid key\n")?;
    if cx.state.level < Level::Operator {
        return Err("Permission denied\n".to_owned());
    }
    match does {
        Does::Show => {
            let mut text = String::new();
            if let Some(row) = table.row(&key) {
                text = head(table);
                line(table, &row, &mut text);
            }
            Ok(text)
        }
        Does::Clear if table.remove(&key) => Ok(String::new()),
        Does::Clear => Err("Entry currently in use, cannot remove\n".to_owned()),
        Does::Set => {
            let values = values(cx, table)?;
            if table.set(&key, &values) {
                return Ok(String::new());
            }
            Err("Unable to allocate a new entry\n".to_owned())
        }
    }
}

/// `data.TYPE VALUE` of `set table`.
fn values(cx: &Cx<'_>, table: &dyn StickTable) -> Result<Vec<(usize, u64)>, String> {
    let pairs = cx.arguments.get(3..).unwrap_or_default().chunks(2);
    pairs
        .map(|pair| {
            let name = pair.first().and_then(|word| word.strip_prefix("data."));
            let name = name.ok_or("\"data.<type>\" followed by a value expected\n")?;
            let column = column(table, name)?;
            let value = pair.get(1).and_then(|value| value.parse().ok());
            Ok((column, value.ok_or("Require a valid integer value to store\n")?))
        })
        .collect()
}

/// Where a table has data of a type.
fn column(table: &dyn StickTable, name: &str) -> Result<usize, String> {
    let numbered = format!("{name}0");
    let named = |wanted: &str| table.columns().iter().position(|(known, _)| known == wanted);
    // An array is meant by its first.
    let found = named(name).or_else(|| match name {
        "gpc" | "gpt" => named(&numbered),
        "gpc_rate" => named("gpc0_rate"),
        _ => None,
    });
    found.ok_or_else(|| {
        if is_known(name) { "Data type not stored in this table\n" } else { "Unknown data type\n" }.to_owned()
    })
}

/// Whether a type of data is known at all.
fn is_known(name: &str) -> bool {
    const KNOWN: [&str; 25] = [
        "server_id",
        "server_key",
        "gpt",
        "gpt0",
        "gpc",
        "gpc0",
        "gpc1",
        "gpc_rate",
        "gpc0_rate",
        "gpc1_rate",
        "conn_cnt",
        "conn_rate",
        "conn_cur",
        "sess_cnt",
        "sess_rate",
        "http_req_cnt",
        "http_req_rate",
        "http_err_cnt",
        "http_err_rate",
        "http_fail_cnt",
        "http_fail_rate",
        "bytes_in_cnt",
        "bytes_in_rate",
        "bytes_out_cnt",
        "bytes_out_rate",
    ];
    KNOWN.contains(&name)
}

/// One condition on a value.
struct Filter {
    column: usize,
    operator: fn(&u64, &u64) -> bool,
    value: u64,
}

impl Filter {
    fn holds(&self, values: &[u64]) -> bool {
        values.get(self.column).is_some_and(|value| (self.operator)(value, &self.value))
    }
}

/// `data.TYPE OPERATOR VALUE`, at most four times.
fn filters(cx: &Cx<'_>, table: &dyn StickTable) -> Result<Vec<Filter>, String> {
    const MOST: usize = 4;
    let words = cx.arguments.get(1..).unwrap_or_default();
    if let Some(word) = words.get(3 * MOST) {
        let last = words.get(3 * MOST - 1).map_or("", String::as_str);
        return Err(format!("Detected extra data in filter, '{word}' after '{last}'\n"));
    }
    let read = |(at, words): (usize, &[String])| {
        let wrong = |why: &str| format!("Filter entry #{}: {why}", at + 1);
        let name = words.first().and_then(|word| word.strip_prefix("data."));
        let column = column(table, name.unwrap_or_default()).map_err(|why| wrong(&why))?;
        let operator: fn(&u64, &u64) -> bool = match words.get(1).map_or("", String::as_str) {
            "eq" => u64::eq,
            "ne" => u64::ne,
            "le" => u64::le,
            "ge" => u64::ge,
            "lt" => u64::lt,
            "gt" => u64::gt,
            _ => {
                let known = "Require and operator among \"eq\", \"ne\", \"le\", \"ge\", \"lt\", \"gt\"\n";
                return Err(wrong(known));
            }
        };
        let value = words.get(2).and_then(|value| value.parse().ok());
        let value = value.ok_or_else(|| wrong("Require a valid integer value to compare against\n"))?;
        Ok(Filter { column, operator, value })
    };
    words.chunks(3).enumerate().map(read).collect()
}
