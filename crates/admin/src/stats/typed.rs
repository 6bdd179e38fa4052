//! The rows with types and tags, a line a field (`show stat typed`).

use super::columns::COLUMNS;
use super::rows::{Row, Value};

pub(super) fn render(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let letter = &row.kind.word()[..1];
        for (place, value) in row.values().iter().enumerate() {
            let (kind, value) = match value {
                Value::None => continue,
                Value::Number(number) => ("u32", number.to_string()),
                Value::Total(number) => ("u64", number.to_string()),
                Value::Signed(number) => ("s32", number.to_string()),
                Value::Text(text) => ("str", text.clone()),
            };
            let column = COLUMNS[place];
            // The mark between fixed columns and those of modules is none.
            if column.name == "-" {
                continue;
            }
            let nature = match column.nature {
                "Avg" => "a",
                other => &other[..1],
            };
            let (origin, scope) = (&column.origin[..1], &column.scope[..1]);
            let head = format!("{letter}.{}.{}.{place}.{}.1", row.proxy, row.id, column.name);
            text.push_str(&format!("{head}:{origin}{nature}{scope}:{kind}:{value}\n"));
        }
    }
    text
}
