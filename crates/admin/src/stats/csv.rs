//! The page as CSV.

use super::columns::COLUMNS;
use super::rows::{Row, Value};

/// A head line, then a line a row. Each line ends with a comma, as HAProxy's do.
pub(super) fn render(rows: &[Row]) -> String {
    let mut text = String::from("# ");
    for column in &COLUMNS {
        text.push_str(column.name);
        text.push(',');
    }
    text.push('\n');
    for row in rows {
        for value in row.values() {
            match value {
                Value::None => {}
                Value::Number(number) | Value::Total(number) => text.push_str(&number.to_string()),
                Value::Signed(number) => text.push_str(&number.to_string()),
                Value::Text(value) => put_text(&mut text, value),
            }
            text.push(',');
        }
        text.push('\n');
    }
    text
}

/// Quoted where it must be (RFC 4180).
fn put_text(text: &mut String, value: &str) {
    if !value.contains(['"', ',', '\n', '\r']) {
        return text.push_str(value);
    }
    text.push('"');
    text.push_str(&value.replace('"', "\"\""));
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_where_it_must_be() {
        let mut text = String::new();
        put_text(&mut text, "plain");
        put_text(&mut text, "a,\"b\"");
        assert_eq!(text, "plain\"a,\"\"b\"\"\"");
    }
}
