//! Keeping checkpoint, output and input out of each other: one would be read, or deleted, as the other.

use checkpoint_fs::Location;
use checkpoint_store::{FAILED_DIR, overlap};

use crate::error::{Error, Result};
use crate::format::Format;
use crate::input::Reach;

/// Where a job reads and writes.
pub(super) struct Places<'a> {
    pub(super) checkpoint: &'a Location,
    pub(super) output: &'a Location,
    pub(super) inputs: &'a [String],
    /// The format of the output, where it is known.
    pub(super) output_format: Option<Format>,
}

/// Refuses places that lie inside each other. A glob is refused only where its matches could.
///
/// # Errors
/// `InvalidConfig` that names both.
pub(super) fn keep_apart(places: &Places<'_>) -> Result<()> {
    let Places { checkpoint, output, .. } = places;
    if overlap(checkpoint, output) {
        return Err(Error::invalid_config(format!(
            "the checkpoint and the output lie inside each other: checkpoint={checkpoint} output={output}"
        ))
        .with_hint("give each a directory of its own, for example with --job-dir"));
    }
    // Input beside data files is fine, input that holds them is not: symbolic links resolved.
    let in_output_dir = output.join(FAILED_DIR)?;
    for input in places.inputs {
        let Ok(reach) = Reach::of(input) else { continue };
        let (in_checkpoint, in_output) = match &reach {
            Reach::Place(at) => (overlap(checkpoint, at), overlap(&in_output_dir, at)),
            Reach::Glob { base, .. } => (
                checkpoint.contains(base) || reach.takes_any_in(checkpoint, &["parquet"]),
                reach.takes_any_in(output, &places.endings()),
            ),
        };
        if in_checkpoint {
            return Err(Error::invalid_config(format!(
                "the checkpoint and the input lie inside each other: checkpoint={checkpoint} input={input}"
            ))
            .with_hint("give the checkpoint a directory outside the input"));
        }
        if in_output {
            return Err(Error::invalid_config(format!(
                "the output lies inside the input, and the next run would read it: output={output} input={input}"
            ))
            .with_hint("write to a directory outside the input"));
        }
    }
    Ok(())
}

impl Places<'_> {
    /// The extensions that data files may get.
    fn endings(&self) -> Vec<&'static str> {
        match self.output_format {
            Some(format) => vec![format.extension()],
            None => Format::ALL.into_iter().map(Format::extension).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(input: &str, output: &str, checkpoint: &str) -> bool {
        let at = |url: &str| Location::parse(url).expect("valid");
        let (checkpoint, output) = (at(checkpoint), at(output));
        let inputs = [input.to_owned()];
        let places = Places { checkpoint: &checkpoint, output: &output, inputs: &inputs, output_format: None };
        keep_apart(&places).is_err()
    }

    #[test]
    fn a_job_directory_beside_the_matches_of_a_glob_is_fine() {
        for input in ["*.jsonl", "./part-?.parquet", "{a,b}.csv"] {
            assert!(!refused(input, "job/output", "job/checkpoint"), "{input}");
        }
        assert!(!refused("/data/*.parquet", "/data/job/output", "/data/job/checkpoint"));
        assert!(!refused("s3://b/*/x/*.parquet", "s3://b/job/output", "s3://b/job/checkpoint"));
        assert!(!refused("/data/*/part-*.csv", "/data/out", "/data/job/checkpoint"));
    }

    #[test]
    fn a_glob_that_could_match_what_the_job_writes_is_refused() {
        assert!(refused("/data/*", "/out", "/data/checkpoint"));
        assert!(refused("/data/*", "/data/out", "/checkpoint"));
        assert!(refused("/data/*/*.parquet", "/out", "/data/checkpoint"));
        assert!(refused("/data/*/*.parquet", "/data/out", "/checkpoint"));
        assert!(refused("/data/**/*.parquet", "/out", "/data/job/checkpoint"));
        assert!(refused("/data/**/*.csv", "/data/job/output", "/checkpoint"));
        assert!(refused("/data/*.csv", "/data", "/checkpoint"));
        assert!(refused("/data/checkpoint/old/*.csv", "/out", "/data/checkpoint"));
        assert!(refused("*/*/*.parquet", "job/output", "job/checkpoint"));
    }

    #[test]
    fn directories_and_files_are_compared_whole() {
        assert!(refused("/data", "/data/out", "/checkpoint") && refused("/data", "/out", "/data/checkpoint"));
        assert!(refused("/job/checkpoint/a.parquet", "/out", "/job/checkpoint"));
        assert!(!refused("/data/a.csv", "/data/out", "/data/checkpoint"));
        assert!(!refused("/data/a.csv", "/data", "/checkpoint") && !refused("/out/in", "/out", "/checkpoint"));
        assert!(refused("/out/_failed", "/out", "/checkpoint"));
        assert!(refused("s3://b/in", "s3://b/in", "/checkpoint"));
        assert!(!refused("s3://b/in", "s3://b/in2", "/checkpoint"));
    }

    #[test]
    fn a_symbolic_link_does_not_hide_that_the_output_lies_inside_the_input() {
        let dir = tempfile::tempdir().expect("temp dir");
        std::fs::create_dir(dir.path().join("real")).expect("creates");
        std::os::unix::fs::symlink(dir.path().join("real"), dir.path().join("link")).expect("links");
        let at = |name: &str| dir.path().join(name).display().to_string();
        assert!(refused(&at("link"), &at("real"), "/checkpoint"));
        assert!(refused(&at("real"), &at("link/out"), "/checkpoint"));
        assert!(!refused(&at("link"), &at("other"), "/checkpoint"));
    }
}
