//! The job: who it is, and what must not change between its attempts.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::names::JobId;

/// One input file, as it was when the job read it. Two are equal when they name the same content, whether
/// their rows are known or not.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InputFile {
    /// The path without its scheme, exactly as row hashes are made from it.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// The store's entity tag, or the time of its last change where there is none.
    pub version: Option<String>,
    /// Its rows, where they are known: a file whose rows are done then needs no look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
}

impl PartialEq for InputFile {
    fn eq(&self, other: &Self) -> bool {
        (&self.path, self.size, &self.version) == (&other.path, other.size, &other.version)
    }
}

impl Eq for InputFile {}

/// What must not change between attempts of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The column of the IDs.
    pub id_column: String,
    /// How the IDs compare; see `IdClass`. Empty while it is not known.
    pub id_class: String,
    /// The Arrow type of the ID column, for people; empty while it is not known.
    pub id_type: String,
    /// Whether the IDs are row hashes: then the input must stay exactly as it was.
    pub row_hash: bool,
    /// The reader's filter, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// The output directory.
    pub output: String,
    /// What the user calls this version of the job's logic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The input files, in reading order.
    pub inputs: Vec<InputFile>,
    /// Whether nobody knows which files are read, or whether there are any: another engine reads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inputs_unknown: bool,
}

/// The file `_meta/job.json`, created once and never changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFile {
    /// The version of the checkpoint's format.
    pub format: u32,
    /// The job's ID, the first part of every name it makes.
    pub job: JobId,
    /// When it was created (RFC 3339), for people.
    pub created: String,
    /// Whether the user allowed it to add to an output that was not empty.
    #[serde(default)]
    pub append: bool,
    /// What the first attempt began with; a later one may have recorded another.
    pub fingerprint: Fingerprint,
}

/// How two fingerprints differ.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// Changes that no flag allows: other IDs, or another output.
    pub identity: Vec<String>,
    /// Changes of what is read or of what it means; `--allow-changed-read` goes on with them.
    pub read: Vec<String>,
}

impl Difference {
    /// Whether nothing differs that matters.
    pub fn is_empty(&self) -> bool {
        self.identity.is_empty() && self.read.is_empty()
    }

    /// The lines that say what changed.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.identity.iter().chain(&self.read).map(String::as_str)
    }
}

impl Fingerprint {
    /// What changed from `self`, the recorded one, to `now`.
    ///
    /// With row hashes every change of the input counts, since a hash is a path and a position. With an ID
    /// column rows may come and files may change; a file that is gone is a difference.
    pub fn difference(&self, now: &Fingerprint) -> Difference {
        let mut difference = Difference::default();
        let mut changed = |list: fn(&mut Difference) -> &mut Vec<String>, what: &str, old: &str, new: &str| {
            if old != new {
                list(&mut difference).push(format!("{what}: was {old}, is {new}"));
            }
        };
        let identity: fn(&mut Difference) -> &mut Vec<String> = |d| &mut d.identity;
        let read: fn(&mut Difference) -> &mut Vec<String> = |d| &mut d.read;
        let optional = |v: &Option<String>| v.as_ref().map_or_else(|| "none".to_owned(), |v| format!("{v:?}"));
        changed(identity, "the ID column", &self.id_column, &now.id_column);
        if !self.id_class.is_empty() && !now.id_class.is_empty() {
            changed(identity, "the type of the IDs", &self.id_class, &now.id_class);
        }
        changed(identity, "row hashes", yes_no(self.row_hash), yes_no(now.row_hash));
        changed(identity, "the output", &self.output, &now.output);
        changed(read, "the reader's filter", &optional(&self.filter), &optional(&now.filter));
        changed(read, "the job's version", &optional(&self.version), &optional(&now.version));
        if !self.inputs_unknown && !now.inputs_unknown {
            difference.read.extend(self.input_changes(now));
        }
        difference
    }

    /// How the IDs compare, where that is known.
    pub(crate) fn known_class(&self) -> Option<&str> {
        Some(self.id_class.as_str()).filter(|class| !class.is_empty())
    }

    /// Takes over from `recorded` what this one does not know.
    pub fn fill_unknown(&mut self, recorded: &Fingerprint) {
        if self.id_class.is_empty() {
            self.id_class.clone_from(&recorded.id_class);
            self.id_type.clone_from(&recorded.id_type);
        }
        if self.inputs_unknown && !recorded.inputs_unknown {
            self.inputs.clone_from(&recorded.inputs);
            self.inputs_unknown = false;
        }
    }

    /// Takes over the rows that `recorded` knows of files that have not changed since.
    pub fn fill_rows(&mut self, recorded: &Fingerprint) {
        let known: HashMap<&str, &InputFile> =
            recorded.inputs.iter().filter(|i| i.rows.is_some()).map(|i| (i.path.as_str(), i)).collect();
        for input in self.inputs.iter_mut().filter(|i| i.rows.is_none() && i.version.is_some()) {
            if let Some(before) = known.get(input.path.as_str()).filter(|before| **before == input) {
                input.rows = before.rows;
            }
        }
    }

    /// Whether `now`, which equals it, knows rows of a file that it does not know.
    pub(crate) fn learns_from(&self, now: &Fingerprint) -> bool {
        self.inputs.iter().zip(&now.inputs).any(|(before, now)| before.rows.is_none() && now.rows.is_some())
    }

    fn input_changes(&self, now: &Fingerprint) -> Vec<String> {
        const SHOWN: usize = 5;
        let by_path =
            |f: &Fingerprint| f.inputs.iter().map(|i| (i.path.clone(), i.clone())).collect::<BTreeMap<_, _>>();
        let (old, new) = (by_path(self), by_path(now));
        let mut groups: [(&str, Vec<String>); 3] =
            [("input file gone", Vec::new()), ("input file added", Vec::new()), ("input file changed", Vec::new())];
        for (path, was) in &old {
            match new.get(path) {
                None => groups[0].1.push(path.clone()),
                Some(is) if self.row_hash && is != was => groups[2].1.push(if is.size == was.size {
                    format!("{path} (same size, written again)")
                } else {
                    format!("{path} ({} bytes, was {})", is.size, was.size)
                }),
                Some(_) => {}
            }
        }
        if self.row_hash {
            groups[1].1.extend(new.keys().filter(|p| !old.contains_key(*p)).cloned());
        }
        let mut lines = Vec::new();
        for (what, paths) in groups {
            lines.extend(paths.iter().take(SHOWN).map(|p| format!("{what}: {p}")));
            if paths.len() > SHOWN {
                lines.push(format!("{what}: {} more", paths.len() - SHOWN));
            }
        }
        lines
    }
}

fn yes_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(row_hash: bool) -> Fingerprint {
        let input = |path: &str| InputFile { path: path.into(), size: 10, version: Some("v1".into()), rows: None };
        Fingerprint {
            id_column: "id".into(),
            id_class: "integer".into(),
            id_type: "Int64".into(),
            row_hash,
            filter: None,
            output: "/out".into(),
            version: None,
            inputs: vec![input("/in/a"), input("/in/b")],
            inputs_unknown: false,
        }
    }

    #[test]
    fn with_row_hashes_every_change_of_the_input_counts() {
        let was = fingerprint(true);
        let mut now = was.clone();
        assert!(was.difference(&now).is_empty());
        now.inputs[0].size = 11;
        now.inputs[1].path = "/in/c".into();
        let lines: Vec<String> = was.difference(&now).lines().map(str::to_owned).collect();
        assert_eq!(
            lines,
            ["input file gone: /in/b", "input file added: /in/c", "input file changed: /in/a (11 bytes, was 10)"]
        );
    }

    #[test]
    fn with_an_id_column_only_a_missing_file_counts() {
        let was = fingerprint(false);
        let mut now = was.clone();
        now.inputs[0].size = 11;
        now.inputs.push(InputFile { path: "/in/new".into(), size: 1, version: None, rows: None });
        assert!(was.difference(&now).is_empty());
        now.inputs.remove(1);
        assert_eq!(was.difference(&now).read, ["input file gone: /in/b"]);
    }

    #[test]
    fn another_id_or_output_is_another_job() {
        let was = fingerprint(false);
        let now =
            Fingerprint { id_column: "uid".into(), output: "/other".into(), version: Some("2".into()), ..was.clone() };
        let difference = was.difference(&now);
        assert_eq!(difference.identity, ["the ID column: was id, is uid", "the output: was /out, is /other"]);
        assert_eq!(difference.read, ["the job's version: was none, is \"2\""]);
    }

    #[test]
    fn what_is_not_known_differs_from_nothing_and_is_taken_over() {
        let was = fingerprint(false);
        let unknown = Fingerprint {
            id_class: String::new(),
            id_type: String::new(),
            inputs: Vec::new(),
            inputs_unknown: true,
            ..was.clone()
        };
        assert!(was.difference(&unknown).is_empty() && unknown.difference(&was).is_empty());
        let mut now = unknown.clone();
        now.fill_unknown(&was);
        assert_eq!(now, was);
        now.fill_unknown(&unknown);
        assert_eq!(now, was, "what is known stays");
        let other = Fingerprint { id_class: "text".into(), ..unknown };
        assert_eq!(was.difference(&other).identity, ["the type of the IDs: was integer, is text"]);
    }

    #[test]
    fn rows_are_no_part_of_what_a_file_is_and_are_taken_over_while_it_stays_the_same() {
        let mut was = fingerprint(true);
        was.inputs[0].rows = Some(7);
        was.inputs[1].rows = Some(8);
        let mut now = fingerprint(true);
        assert!(was == now && was.difference(&now).is_empty());
        now.inputs[1].version = Some("v2".into());
        now.fill_rows(&was);
        assert_eq!([now.inputs[0].rows, now.inputs[1].rows], [Some(7), None]);
        let mut nameless = fingerprint(true);
        (was.inputs[0].version, nameless.inputs[0].version) = (None, None);
        nameless.fill_rows(&was);
        assert_eq!(nameless.inputs[0].rows, None, "without a version nothing says that it is the same");
    }

    #[test]
    fn rows_that_become_known_are_worth_recording() {
        let was = fingerprint(true);
        let mut now = was.clone();
        assert!(!was.learns_from(&now));
        now.inputs[1].rows = Some(3);
        assert!(was.learns_from(&now) && !now.learns_from(&was));
        let json = serde_json::to_string(&now).unwrap();
        assert_eq!(json.matches("rows").count(), 1, "unknown rows are not written: {json}");
        let back: Fingerprint = serde_json::from_str(&json).unwrap();
        assert_eq!(back.inputs[1].rows, Some(3));
    }
}
