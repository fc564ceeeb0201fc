//! Tables for people: columns two spaces apart, no lines, nothing that a terminal would act on.

use comfy_table::{ContentArrangement, Table};

/// Widest cell before it is cut, characters.
const CELL_CHARS_MAX: usize = 100;

/// Spaces between columns.
const COLUMN_GAP: u16 = 2;

/// A table with a header; an empty one says so.
pub(crate) fn render(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|row| row.iter().map(|cell| cut(&printable(cell))).collect()).collect();
    if rows.is_empty() {
        return "none\n".to_owned();
    }
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>());
    table.add_rows(rows);
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, COLUMN_GAP));
    });
    lines(&table)
}

/// Names and values, one a line.
pub(crate) fn record(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in rows {
        for (index, line) in value.lines().enumerate() {
            let name = if index == 0 { name } else { "" };
            text.push_str(format!("{name:width$}  {}", printable(line)).trim_end());
            text.push('\n');
        }
    }
    text
}

/// Host names and messages come from machines: a control character in one must not reach a terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || is_direction_mark(c) { '\u{fffd}' } else { c }).collect()
}

fn is_direction_mark(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn cut(text: &str) -> String {
    if text.chars().count() <= CELL_CHARS_MAX {
        return text.to_owned();
    }
    text.chars().take(CELL_CHARS_MAX - 1).chain(['…']).collect()
}

fn lines(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}
