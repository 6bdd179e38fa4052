//! The page as JSON: an array of arrays of typed fields, an inner array a row.

use serde_json::{Value as Json, json};

use super::columns::COLUMNS;
use super::rows::{Row, Value};

pub(super) fn render(rows: &[Row]) -> String {
    let all: Vec<Vec<Json>> = rows.iter().map(fields).collect();
    json!(all).to_string()
}

fn fields(row: &Row) -> Vec<Json> {
    let one = |(place, value): (usize, &Value)| {
        let (kind, value) = match value {
            Value::None => return None,
            Value::Number(number) => ("u32", json!(number)),
            Value::Total(number) => ("u64", json!(number)),
            Value::Signed(number) => ("s32", json!(number)),
            Value::Text(text) => ("str", json!(text)),
        };
        let column = COLUMNS[place];
        Some(json!({
            "objType": row.kind.word(),
            "proxyId": row.proxy,
            "id": row.id,
            "field": { "pos": place, "name": column.name },
            "processNum": 1,
            "tags": { "origin": column.origin, "nature": column.nature, "scope": column.scope },
            "value": { "type": kind, "value": value },
        }))
    };
    row.values().iter().enumerate().filter_map(one).collect()
}
