//! Tables of figures, and how figures are spelled.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::Write as _;

use anyhow::Result;

use crate::settings::Settings;
use crate::target::Target;

/// A table: a side and what it took, row by row.
#[derive(Debug)]
pub(crate) struct Table {
    title: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
    targets: Vec<Target>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new(title: &str, columns: &[&str]) -> Self {
        Self {
            title: title.to_owned(),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            rows: Vec::new(),
            notes: Vec::new(),
            targets: Vec::new(),
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Adds a sentence below.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Adds a target and whether it is met.
    pub(crate) fn target(&mut self, target: Target) {
        self.targets.push(target);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| {
                let cells = self.rows.iter().filter_map(|row| row.get(index)).map(|cell| cell.chars().count());
                cells.chain([column.chars().count()]).max().unwrap_or(0)
            })
            .collect();
        let line = |f: &mut fmt::Formatter<'_>, cells: &[String]| {
            f.write_str("|")?;
            for (cell, width) in cells.iter().zip(&widths) {
                write!(f, " {cell:<width$} |")?;
            }
            f.write_char('\n')
        };
        writeln!(f, "## {}\n", self.title)?;
        line(f, &self.columns)?;
        line(f, &widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>())?;
        for row in &self.rows {
            line(f, row)?;
        }
        for note in &self.notes {
            write!(f, "\n{note}\n")?;
        }
        if !self.targets.is_empty() {
            f.write_char('\n')?;
        }
        for target in &self.targets {
            writeln!(f, "- {target}")?;
        }
        Ok(())
    }
}

/// Prints tables as they come.
#[derive(Debug)]
pub(crate) struct Report {
    file: Option<File>,
    met: usize,
    missed: Vec<String>,
}

impl Report {
    /// Prints to standard output, and to the file that the settings name.
    pub(crate) fn new(settings: &Settings) -> Result<Self> {
        Ok(Self { file: settings.save.as_ref().map(File::create).transpose()?, met: 0, missed: Vec::new() })
    }

    /// Prints a table.
    pub(crate) fn table(&mut self, table: &Table) -> Result<()> {
        self.met += table.targets.iter().filter(|target| target.is_met()).count();
        self.missed.extend(table.targets.iter().filter(|target| !target.is_met()).map(ToString::to_string));
        self.text(&format!("{table}"))
    }

    /// Prints how many targets were met, and which were not.
    pub(crate) fn end(&mut self) -> Result<()> {
        let mut text = format!("## Targets\n\n{} met, {} not met.\n", self.met, self.missed.len());
        for missed in &self.missed {
            writeln!(text, "- {missed}")?;
        }
        self.text(&text)
    }

    /// Prints a text.
    pub(crate) fn text(&mut self, text: &str) -> Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{text}")?;
        out.flush()?;
        if let Some(file) = &mut self.file {
            writeln!(file, "{text}")?;
        }
        Ok(())
    }
}

/// Says what is being measured, beside the tables.
pub(crate) fn progress(text: &str) {
    // A closed terminal is no reason to stop.
    let _ = writeln!(std::io::stderr(), "... {text}");
}

/// `1.23 s`.
pub(crate) fn seconds(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0} s"),
        v if v >= 1.0 => format!("{v:.1} s"),
        v => format!("{:.1} ms", v * 1e3),
    }
}

/// `1.2 GB`, in powers of ten.
pub(crate) fn bytes(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.2} GB", v / 1e9),
        v if v >= 1e6 => format!("{:.1} MB", v / 1e6),
        v if v >= 1e3 => format!("{:.1} kB", v / 1e3),
        v => format!("{v:.0} B"),
    }
}

/// `12.3 M/s`.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        v if v >= 1e6 => format!("{:.1} M/s", v / 1e6),
        v if v >= 1e3 => format!("{:.1} k/s", v / 1e3),
        v => format!("{v:.1} /s"),
    }
}

/// `10 M`.
pub(crate) fn count(value: u64) -> String {
    match value {
        v if v >= 1_000_000 && v % 1_000_000 == 0 => format!("{} M", v / 1_000_000),
        v if v >= 1_000 && v % 1_000 == 0 => format!("{} k", v / 1_000),
        v => v.to_string(),
    }
}

/// Bytes of one of many.
pub(crate) fn each(bytes: f64, of: u64) -> String {
    let each = bytes / of.max(1) as f64;
    if each >= 0.1 { format!("{each:.2}") } else { format!("{each:.5}") }
}
