//! The dialect of INI of Python's `configparser`, in which the tools around AWS and fsspec read their files.

use std::collections::BTreeMap;
use std::fmt;

/// A setting: its text, of several lines joined by line breaks, and the line that it begins on.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) line: usize,
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Text(line {})", self.line)
    }
}

/// The settings of one section, by their names in lower case.
pub(crate) type Texts = BTreeMap<String, Text>;

/// Why a text is not of this dialect. Repeats nothing of the text but names of sections and settings.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) line: usize,
    pub(crate) why: String,
}

impl Fault {
    pub(crate) fn new(line: usize, why: impl Into<String>) -> Self {
        Self { line, why: why.into() }
    }
}

/// The section whose settings all others inherit.
const INHERITED: &str = "DEFAULT";

/// A setting while its lines are read.
struct Open {
    name: String,
    line: usize,
    pieces: Vec<String>,
}

#[derive(Default)]
struct Draft {
    sections: Vec<(String, Vec<Open>)>,
    inherited: Vec<Open>,
}

impl Draft {
    /// The settings of a section; of the inherited one for `None`.
    fn settings(&mut self, section: Option<usize>) -> &mut Vec<Open> {
        match section {
            Some(at) => &mut self.sections[at].1,
            None => &mut self.inherited,
        }
    }

    /// Joins the lines of values, and gives each section what it inherits.
    fn finish(&self) -> Vec<(String, Texts)> {
        let inherited = close(&self.inherited);
        let with_inherited = |settings: &[Open]| {
            let mut section = inherited.clone();
            section.extend(close(settings));
            section
        };
        self.sections.iter().map(|(name, settings)| (name.clone(), with_inherited(settings))).collect()
    }
}

fn close(settings: &[Open]) -> Texts {
    let text = |open: &Open| open.pieces.join("\n").trim_end_matches(is_space).to_owned();
    settings.iter().map(|open| (open.name.clone(), Text { text: text(open), line: open.line })).collect()
}

/// Parses a text. Sections are in the order of the text.
///
/// A line that starts with `#` or `;` is a comment; there are none behind a value. A line that is
/// indented deeper than the setting above it goes on with its value. A section or a setting may not be
/// given twice.
pub(crate) fn parse(text: &str) -> Result<Vec<(String, Texts)>, Fault> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut draft = Draft::default();
    // Outside any section, in the inherited one, or in one of the others.
    let mut current: Option<Option<usize>> = None;
    let mut in_setting = false;
    let mut indent = 0;
    for (number, line) in (1..).zip(text.split('\n')) {
        let stripped = strip(line);
        let comment = stripped.starts_with(['#', ';']);
        if stripped.is_empty() || comment {
            if let Some(section) = current
                && in_setting
                && !comment
                && let Some(open) = draft.settings(section).last_mut()
            {
                open.pieces.push(String::new());
            }
            continue;
        }
        let own_indent = line.chars().take_while(|c| is_space(*c)).count();
        if let Some(section) = current
            && in_setting
            && own_indent > indent
        {
            if let Some(open) = draft.settings(section).last_mut() {
                open.pieces.push(stripped.to_owned());
            }
            continue;
        }
        indent = own_indent;
        if let Some(name) = header(stripped) {
            in_setting = false;
            if name == INHERITED {
                current = Some(None);
                continue;
            }
            if draft.sections.iter().any(|(n, _)| n == name) {
                return Err(Fault::new(number, format!("a section is there twice: section={name}")));
            }
            draft.sections.push((name.to_owned(), Vec::new()));
            current = Some(Some(draft.sections.len() - 1));
            continue;
        }
        let Some(section) = current else {
            return Err(Fault::new(number, "a setting stands before the first section"));
        };
        let Some((name, value)) = stripped.split_once(['=', ':']) else {
            return Err(Fault::new(number, "a line is neither a section, a setting nor a comment"));
        };
        let name = strip(name).to_lowercase();
        if name.is_empty() {
            return Err(Fault::new(number, "a setting has no name"));
        }
        let settings = draft.settings(section);
        if settings.iter().any(|open| open.name == name) {
            return Err(Fault::new(number, format!("a setting is there twice in its section: setting={name}")));
        }
        settings.push(Open { name, line: number, pieces: vec![strip(value).to_owned()] });
        in_setting = true;
    }
    Ok(draft.finish())
}

/// The name in `[name]`; what follows the last bracket is not looked at.
fn header(line: &str) -> Option<&str> {
    let inside = line.strip_prefix('[')?;
    let name = &inside[..inside.rfind(']')?];
    (!name.is_empty()).then_some(name)
}

pub(crate) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// White space as Python counts it, which knows four more.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(input: &str) -> Texts {
        let mut sections = parse(input).expect("valid");
        assert_eq!(sections.len(), 1);
        sections.remove(0).1
    }

    #[test]
    fn delimiters_comments_and_case() {
        let section = only("# c\n[a]\n; c\nKey = v # kept ; too\nother:x=y\nempty=\n  = : odd\n");
        assert_eq!(section["key"].text, "v # kept ; too");
        assert_eq!(section["other"].text, "x=y");
        assert_eq!(section["empty"].text, "\n= : odd");
    }

    #[test]
    fn indented_blocks_and_long_values() {
        let section = only("[a]\ns3 =\n  Style = path\n\n  # no\n  b = c = d\nlong = x\n   y\n\nz=1");
        assert_eq!((section["s3"].text.as_str(), section["s3"].line), ("\nStyle = path\n\nb = c = d", 2));
        assert_eq!(section["long"].text, "x\ny");
        assert_eq!(section["z"].text, "1");
    }

    #[test]
    fn an_indented_first_setting_is_one_and_deeper_headers_are_not() {
        let section = only("[a]\n  x = 1\n    [b]\n  y = 2");
        assert_eq!(section["x"].text, "1\n[b]");
        assert_eq!(section["y"].text, "2");
    }

    #[test]
    fn sections_inherit_from_the_default_one_in_upper_case() {
        let sections = parse("[DEFAULT]\nregion = r\nx = 0\n[a]\nx = 1\n[default]\n[DEFAULT]\ny = 2\n").expect("valid");
        assert_eq!(sections.iter().map(|(n, _)| n.as_str()).collect::<Vec<_>>(), ["a", "default"]);
        let text = |at: usize, name: &str| sections[at].1[name].text.as_str();
        assert_eq!((text(0, "x"), text(0, "region")), ("1", "r"));
        assert_eq!((text(1, "x"), text(1, "y")), ("0", "2"));
    }

    #[test]
    fn headers_end_at_the_last_bracket() {
        let sections = parse("[a] junk\nx=1\n[b]c]d\r\n[ e ]\r").expect("valid");
        assert_eq!(sections.iter().map(|(n, _)| n.as_str()).collect::<Vec<_>>(), ["a", "b]c", " e "]);
    }

    #[test]
    fn what_is_wrong_is_named_by_line_without_values() {
        for (input, line, word) in [
            ("x = hunter2", 1, "before the first section"),
            ("\u{feff}[a]\n", 1, "before the first section"),
            ("[a]\n\n[a]", 3, "twice: section=a"),
            ("[a]\nx=hunter2\nX : hunter2", 3, "twice in its section: setting=x"),
            ("[a]\nhunter2", 2, "neither"),
            ("[a]\n=hunter2", 2, "no name"),
            ("[]\n", 1, "before the first section"),
        ] {
            let fault = parse(input).expect_err(input);
            assert_eq!(fault.line, line, "{input:?}");
            assert!(fault.why.contains(word) && !fault.why.contains("hunter2"), "{fault:?}");
        }
    }
}
