//! Checkpoint and data must not lie inside each other: deleting one would delete the other.

use std::path::{Path, PathBuf};

use checkpoint_fs::Location;

use crate::error::{Error, Result};

/// Refuses a checkpoint that equals, contains or lies inside the other directory.
pub(crate) fn check(checkpoint: &str, other: &str) -> Result<()> {
    let (Ok(a), Ok(b)) = (Location::parse(checkpoint), Location::parse(other)) else { return Ok(()) };
    if overlap(&a, &b) {
        return Err(Error::invalid_config(format!(
            "the checkpoint and the data lie inside each other: checkpoint={checkpoint} data={other}"
        ))
        .with_hint("give the checkpoint a directory of its own, for example beside the output"));
    }
    Ok(())
}

/// Whether two locations are equal or one contains the other, symbolic links resolved.
pub fn overlap(a: &Location, b: &Location) -> bool {
    if let (Some(a), Some(b)) = (a.local_path(), b.local_path()) {
        let (a, b) = (resolve(&a), resolve(&b));
        return a.starts_with(&b) || b.starts_with(&a);
    }
    a.contains(b) || b.contains(a)
}

/// The real path of what exists of it, and the rest as written.
fn resolve(path: &Path) -> PathBuf {
    let mut rest = Vec::new();
    let mut head = path;
    loop {
        if let Ok(real) = std::fs::canonicalize(head) {
            return rest.iter().rev().fold(real, |p, name| p.join(name));
        }
        match (head.parent(), head.file_name()) {
            (Some(parent), Some(name)) => {
                rest.push(name.to_owned());
                head = parent;
            }
            _ => return path.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_directories_are_refused() {
        for (a, b) in
            [("/x/job", "/x/job"), ("/x/job", "/x/job/out"), ("/x/job/ck", "/x/job"), ("s3://b/a", "s3://b/a/o")]
        {
            assert!(check(a, b).is_err(), "{a} {b}");
        }
        for (a, b) in
            [("/x/job/ck", "/x/job/out"), ("s3://b/a", "s3://b/ab"), ("s3://b/a", "s3://c/a"), ("/b/a", "s3://b/a")]
        {
            assert!(check(a, b).is_ok(), "{a} {b}");
        }
    }

    #[test]
    fn a_symbolic_link_does_not_hide_an_overlap() {
        let dir = std::env::temp_dir().join(format!("ckpt-apart-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("real")).unwrap();
        std::os::unix::fs::symlink(dir.join("real"), dir.join("link")).unwrap();
        let result = check(dir.join("link/out").to_str().unwrap(), dir.join("real").to_str().unwrap());
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(result.is_err());
    }
}
