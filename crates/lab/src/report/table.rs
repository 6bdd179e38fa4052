//! A table of text, in the forms of the report.
//!
//! Owns: its layout as HTML, as Markdown and for a terminal.
//! Driven by: `tables`, `verdict`, `guide`.

use super::words::escaped;

/// A table of text: its head (with whether figures stand below), and its rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Table {
    pub(super) head: Vec<(String, bool)>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(head: &[(&str, bool)]) -> Self {
        Self { head: head.iter().map(|(h, n)| ((*h).to_owned(), *n)).collect(), rows: Vec::new() }
    }

    /// As HTML, which scrolls by itself if it is wide; on narrow screens each row is a card.
    pub(super) fn html(&self) -> String {
        let class = |figures: bool| if figures { " class=\"n\"" } else { "" };
        let head: String =
            self.head.iter().map(|(name, n)| format!("<th{}>{}</th>", class(*n), escaped(name))).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&self.head);
            let cells: String = cells
                .map(|(c, (name, n))| {
                    format!("<td data-h=\"{}\"{}>{}</td>", escaped(name), class(*n), cell(c))
                })
                .collect();
            format!("<tr>{cells}</tr>\n")
        };
        let body: String = self.rows.iter().map(line).collect();
        format!(
            "<div class=\"wide\"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>\n"
        )
    }

    /// For a terminal: columns as wide as what stands in them.
    pub(super) fn text(&self) -> String {
        let head: Vec<String> = self.head.iter().map(|h| h.0.clone()).collect();
        let length = |cell: &String| cell.chars().count();
        let width = |n: usize| {
            let column = self.rows.iter().filter_map(|r| r.get(n)).chain(head.get(n));
            column.map(length).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).zip(&self.head);
            let padded = cells.map(|((cell, width), (_, figures))| {
                let gap = " ".repeat(width - length(cell));
                if *figures { gap + cell } else { cell.clone() + &gap }
            });
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
        };
        std::iter::once(&head).chain(&self.rows).map(line).collect()
    }

    /// As Markdown.
    pub(super) fn markdown(&self) -> String {
        let names: Vec<&str> = self.head.iter().map(|h| h.0.as_str()).collect();
        let lines: String = self.head.iter().map(|h| if h.1 { "---:|" } else { "---|" }).collect();
        let rows: String = self.rows.iter().map(|r| format!("| {} |\n", r.join(" | "))).collect();
        format!("| {} |\n|{lines}\n{rows}", names.join(" | "))
    }
}

/// A cell's text; an interval stands below its figure, so that tables stay narrow.
fn cell(text: &str) -> String {
    match text.split_once(" (").and_then(|(figure, rest)| Some((figure, rest.split_once(')')?))) {
        Some((figure, (interval, mark))) if interval.contains('–') => {
            format!("{}{}<small>{}</small>", escaped(figure), escaped(mark.trim()), escaped(interval))
        }
        _ => escaped(text),
    }
}
