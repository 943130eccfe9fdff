//! Tables, times and names for people.

use console::{Alignment, measure_text_width, pad_str};
use std::borrow::Cow;
use std::io::{self, Write};

/// Text that a user of the database chose, without what a terminal would obey.
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return text.into();
    }
    text.chars().map(|it| if it.is_control() { '\u{fffd}' } else { it }).collect::<String>().into()
}

/// A length of time in its two largest units: `45 ms`, `7 s`, `3 min 5 s`, `2 d 4 h`.
pub fn duration(seconds: f64) -> String {
    if seconds < 1.0 {
        return format!("{:.0} ms", seconds.max(0.0) * 1000.0);
    }
    let whole = seconds as u64;
    let units = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let first = units.iter().position(|(length, _)| whole >= *length).unwrap_or(3);
    let (length, unit) = units[first];
    let mut text = format!("{} {unit}", whole / length);
    if let Some((smaller, unit)) = units.get(first + 1)
        && whole % length >= *smaller
    {
        text += &format!(" {} {unit}", whole % length / smaller);
    }
    text
}

/// Columns, aligned: those whose headings are right have numbers.
pub struct Table {
    headings: Vec<(&'static str, Alignment)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Headings, separated by spaces; one that begins with `>` is of numbers.
    pub fn new(headings: &'static str) -> Table {
        let column = |heading: &'static str| match heading.strip_prefix('>') {
            Some(heading) => (heading, Alignment::Right),
            None => (heading, Alignment::Left),
        };
        Table { headings: headings.split_whitespace().map(column).collect(), rows: Vec::new() }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, without space at their ends.
    pub fn lines(&self) -> Vec<String> {
        let headings: Vec<String> = self.headings.iter().map(|(it, _)| it.to_string()).collect();
        let all: Vec<&Vec<String>> = std::iter::once(&headings).chain(&self.rows).collect();
        let widths: Vec<usize> = (0..headings.len())
            .map(|n| all.iter().map(|row| measure_text_width(&row[n])).max().unwrap_or(0))
            .collect();
        let line = |row: &&Vec<String>| {
            let cells = row.iter().zip(&widths).zip(&self.headings);
            let cells = cells.map(|((cell, width), (_, side))| pad_str(cell, *width, *side, None));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        all.iter().map(line).collect()
    }

    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        self.lines().iter().try_for_each(|line| writeln!(out, "{line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_their_two_largest_units() {
        for (seconds, text) in [
            (0.0, "0 ms"),
            (0.0451, "45 ms"),
            (1.9, "1 s"),
            (185.0, "3 min 5 s"),
            (3_600.0, "1 h"),
            (3_605.0, "1 h"),
            (187_200.0, "2 d 4 h"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn what_a_terminal_obeys_is_not_written() {
        assert_eq!(plain("a\u{1b}[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
        assert_eq!(plain("Größe 数"), "Größe 数");
    }

    #[test]
    fn columns_are_aligned_by_what_is_seen() {
        let mut table = Table::new("NAME >N");
        table.row(["数".to_owned(), "7".to_owned()]);
        table.row(["abcde".to_owned(), "1234".to_owned()]);
        assert_eq!(table.lines(), ["NAME      N", "数        7", "abcde  1234"]);
    }
}
