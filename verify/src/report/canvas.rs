//! Two columns of text with arrows between them.
//!
//! # What is guaranteed
//! No finished line is wider than [`WIDTH`] columns or ends in a space, and no
//! character of a name reaches it that does not simply show.

use streamweir_trace::shows;

/// The most columns of a line, so that behind the margin of a report it fits a
/// terminal of 78.
pub(super) const WIDTH: usize = 73;
/// The most columns of a cell.
const CELL: usize = 29;
/// The columns between two cells.
const GAP: usize = WIDTH - 2 * CELL;

/// `name` in the columns that a cell has left when `spent` are taken; what is
/// too long is shortened in the middle.
pub(super) fn shortened(name: &str, spent: usize) -> String {
    // One column for one character, whatever it is.
    let plain = |c: char| if shows(c) { c } else { '\u{fffd}' };
    let room = CELL.saturating_sub(spent).max(8);
    // Names may be of any length; no more is looked at than is needed.
    if name.chars().nth(room).is_none() {
        return name.chars().map(plain).collect();
    }
    let (front, back) = ((room - 2).div_ceil(2), (room - 2) / 2);
    let mut tail: Vec<char> = name.chars().rev().take(back).map(plain).collect();
    tail.reverse();
    let front = name.chars().take(front).map(plain);
    front.chain("..".chars()).chain(tail).collect()
}

/// How an arrow is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Solid,
    Dashed,
    /// Dashed, and pointing nowhere.
    Headless,
}

/// An arrow between the columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrow {
    /// The column that it points to.
    pub(super) to: usize,
    pub(super) line: Line,
    pub(super) label: &'static str,
}

#[derive(Debug)]
enum Row {
    Whole(String),
    Cells([String; 2], Option<Arrow>),
}

/// Rows, from top to bottom.
#[derive(Debug, Default)]
pub(super) struct Canvas {
    rows: Vec<Row>,
}

impl Canvas {
    /// A line across both columns; none when it is empty.
    pub(super) fn whole(&mut self, line: String) {
        if !line.is_empty() {
            self.rows.push(Row::Whole(line));
        }
    }

    /// A row of two cells.
    pub(super) fn cells(&mut self, cells: [String; 2], arrow: Option<Arrow>) {
        self.rows.push(Row::Cells(cells, arrow));
    }

    /// A node in `column`, beside the line of the other.
    pub(super) fn node(&mut self, column: usize, node: String, arrow: Option<Arrow>) {
        let mut cells = ["|".to_owned(), "|".to_owned()];
        cells[column] = node;
        self.cells(cells, arrow);
    }

    /// What the node above does; no row when it is empty.
    pub(super) fn note(&mut self, column: usize, note: String) {
        if !note.is_empty() {
            self.node(column, note, None);
        }
    }

    /// What is left out on both sides; no row when that is nothing.
    pub(super) fn between(&mut self, cells: [String; 2]) {
        if cells.iter().all(String::is_empty) {
            return;
        }
        let cells = cells.map(|cell| {
            if cell.is_empty() {
                "|".to_owned()
            } else {
                cell
            }
        });
        self.cells(cells, None);
    }

    /// The lines.
    pub(super) fn finish(self) -> Vec<String> {
        let left = self.rows.iter().map(|row| match row {
            Row::Cells([left, _], _) => left.chars().count(),
            Row::Whole(_) => 0,
        });
        let left = left.max().unwrap_or(0);
        let lines = self.rows.iter().map(|row| match row {
            Row::Whole(line) => line.trim_end().to_owned(),
            Row::Cells([a, b], arrow) => {
                let spare = left - a.chars().count() + GAP - 2;
                let between = match arrow {
                    Some(arrow) => arrow.drawn(spare),
                    None => " ".repeat(spare),
                };
                format!("{a} {between} {b}").trim_end().to_owned()
            }
        });
        lines.collect()
    }
}

impl Arrow {
    /// The arrow in `width` columns.
    fn drawn(self, width: usize) -> String {
        let shaft = |columns: usize| {
            let dash = |at: usize| match self.line {
                Line::Solid => '-',
                _ if at.is_multiple_of(2) => '-',
                _ => ' ',
            };
            (0..columns).map(dash).collect::<String>()
        };
        let head = usize::from(self.line != Line::Headless);
        let rest = width.saturating_sub(self.label.len() + 2 + head);
        // Seen from both ends, so that each of them is a dash.
        let near = shaft(rest / 2);
        let far: String = shaft(rest.div_ceil(2)).chars().rev().collect();
        let line = format!("{near} {} {far}", self.label);
        match (self.line, self.to) {
            (Line::Headless, _) => line,
            (_, 0) => format!("<{line}"),
            (_, _) => format!("{line}>"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shortened_in_the_middle() {
        assert_eq!(shortened("short", 0), "short");
        assert_eq!(shortened("0123456789", CELL - 10), "0123456789");
        assert_eq!(shortened("0123456789a", CELL - 10), "0123..789a");
        assert_eq!(shortened("a\nb", 0), "a\u{fffd}b");
        assert_eq!(shortened(&"\u{fc}".repeat(90), 0).chars().count(), CELL);
    }

    #[test]
    fn no_line_is_wider_than_it_may_be() {
        let mut canvas = Canvas::default();
        let long = || shortened(&"k".repeat(200), 0);
        for line in [Line::Solid, Line::Dashed, Line::Headless] {
            for to in [0, 1] {
                let label = "no order";
                canvas.cells([long(), long()], Some(Arrow { to, line, label }));
            }
        }
        for line in canvas.finish() {
            assert_eq!(line.chars().count(), WIDTH, "{line}");
            assert!(line.contains(" no order "), "{line}");
        }
    }
}
