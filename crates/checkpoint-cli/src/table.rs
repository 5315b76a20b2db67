//! Plain aligned text: labels with values, and columns.

/// Which side of its column a cell keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows of cells, aligned when they are written. Nothing is cut and nothing is drawn.
#[derive(Debug)]
pub(crate) struct Table {
    align: Vec<Align>,
    least: Vec<usize>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with so many columns.
    pub(crate) fn new(align: impl Into<Vec<Align>>) -> Self {
        let align = align.into();
        Self { least: vec![0; align.len()], align, rows: Vec::new() }
    }

    /// Makes each column at least so wide, for rows that are shown before the others are known.
    #[must_use]
    pub(crate) fn at_least(mut self, widths: impl Into<Vec<usize>>) -> Self {
        self.least = widths.into();
        self
    }

    /// Labels and their values, indented by two spaces.
    pub(crate) fn facts<'a>(facts: impl IntoIterator<Item = (&'a str, String)>) -> String {
        let mut table = Self::new([Align::Left, Align::Left]);
        for (label, value) in facts {
            table.row([format!("  {label}"), value]);
        }
        table.render()
    }

    /// Adds a row; it has a cell for each column.
    pub(crate) fn row(&mut self, cells: impl Into<Vec<String>>) {
        self.rows.push(cells.into());
    }

    /// The lines, without a line break at the end.
    pub(crate) fn render(&self) -> String {
        let width = |(column, least): (usize, &usize)| {
            self.rows.iter().map(|row| row[column].chars().count()).chain([*least]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = self.least.iter().enumerate().map(width).collect();
        let lines = self.rows.iter().map(|row| {
            let cells = row.iter().zip(&widths).zip(&self.align).map(|((cell, width), align)| match align {
                Align::Left => format!("{cell:<width$}"),
                Align::Right => format!("{cell:>width$}"),
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_keep_their_side_and_lines_have_no_tail() {
        let mut table = Table::new([Align::Right, Align::Left]);
        table.row(["9".to_owned(), "é".to_owned()]);
        table.row(["1,000".to_owned(), String::new()]);
        assert_eq!(table.render(), "    9  é\n1,000");
        let mut one = Table::new([Align::Right, Align::Left, Align::Left]).at_least([3, 2, 0]);
        one.row(["9".to_owned(), "a".to_owned(), "b".to_owned()]);
        assert_eq!(one.render(), "  9  a   b");
        assert_eq!(Table::facts([("a", "1".to_owned()), ("bcd", "2".to_owned())]), "  a    1\n  bcd  2");
    }
}
