//! A page of the documentation, taken apart as far as the tests need it.

use std::fs;
use std::path::{Path, PathBuf};

/// The text of a page.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) text: String,
}

/// What stands below one heading.
#[derive(Debug)]
pub(crate) struct Section {
    /// The heading without `#`.
    pub(crate) heading: String,
    pub(crate) tables: Vec<Table>,
}

/// A table: rows of cells as they are written.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// Code in a fence.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) lines: Vec<String>,
}

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// Every text between backticks.
pub(crate) fn codes(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split('|').map(|cell| cell.trim().to_owned()).collect()
}

impl Page {
    /// Reads a page by its path in the repository.
    pub(crate) fn read(path: &str) -> Self {
        let text = fs::read_to_string(root().join(path)).expect(path);
        Self { text }
    }

    /// The sections by their headings of the second level; what stands before the first is left out.
    pub(crate) fn sections(&self) -> Vec<Section> {
        let mut sections: Vec<Section> = Vec::new();
        let mut open = false;
        for line in self.prose() {
            if let Some(heading) = line.strip_prefix("## ") {
                sections.push(Section { heading: heading.to_owned(), tables: Vec::new() });
            }
            let Some(section) = sections.last_mut().filter(|_| line.starts_with('|')) else {
                open = false;
                continue;
            };
            let row = cells(line);
            let Some(table) = section.tables.last_mut().filter(|_| open) else {
                section.tables.push(Table { header: row, rows: Vec::new() });
                open = true;
                continue;
            };
            if !row.iter().all(|cell| !cell.is_empty() && cell.bytes().all(|b| b == b'-' || b == b':')) {
                assert_eq!(row.len(), table.header.len(), "a row has other columns than its table: {line}");
                table.rows.push(row);
            }
        }
        sections
    }

    /// The lines outside of fences.
    fn prose(&self) -> impl Iterator<Item = &str> {
        let mut fenced = false;
        self.text.lines().filter(move |line| {
            let fence = line.starts_with("```");
            fenced ^= fence;
            !fenced && !fence
        })
    }

    /// The blocks of code.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut open: Option<Block> = None;
        for line in self.text.lines() {
            match (line.strip_prefix("```"), open.as_mut()) {
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (Some(language), None) => {
                    open = Some(Block { language: language.trim().to_owned(), lines: Vec::new() });
                }
                (None, Some(block)) => block.lines.push(line.to_owned()),
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "a fence is not closed");
        blocks
    }

    /// Targets of links to places in this repository.
    pub(crate) fn links(&self) -> Vec<String> {
        let targets = self.text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        targets.filter(|target| !target.contains("://")).map(str::to_owned).collect()
    }
}
