//! The program as a library: an engine's own scheme, and the exit as a value.

mod program;

use std::ffi::OsString;
use std::sync::Arc;

use async_trait::async_trait;
use checkpoint_cli::Exit;
use checkpoint_fs::{
    Environment, Location, ObjectPath, OpenContext, Registry, Result, Scheme, StorageExt, StorageOptions, StorageRef,
};

/// A scheme that keeps everything in memory under another name.
#[derive(Debug)]
struct Mine(Registry);

#[async_trait]
impl Scheme for Mine {
    fn names(&self) -> &'static [&'static str] {
        &["mine"]
    }

    fn check_options(&self, _: &OpenContext) -> Result<()> {
        Ok(())
    }

    async fn open(&self, location: &Location, context: &OpenContext) -> Result<StorageRef> {
        let real = Location::from_parts("memory", location.authority(), location.path().clone());
        self.0.open_location(&real, &context.options).await
    }
}

async fn run(registry: &Registry, args: &[&str]) -> Exit {
    let args: Vec<OsString> = ["ckpt", "-q"].iter().chain(args).map(OsString::from).collect();
    checkpoint_cli::run(args, registry.clone()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_over_a_scheme_of_ones_own() {
    let dir = tempfile::tempdir().expect("temp dir");
    let input = dir.path().join("in.parquet");
    program::write_rows(&input, 0..20);
    let input = input.to_str().expect("text");
    let real = Registry::with_environment(Environment::default());
    let mut registry = real.clone();
    registry.register(Arc::new(Mine(real.clone())));
    let job = ["run", "--input", input, "--job-dir", "mine://embedded/job", "--id-column", "id", "--keep-checkpoint"];
    assert_eq!(run(&real, &job).await, Exit::Usage, "the scheme is not known to others");
    assert_eq!(run(&registry, &job).await, Exit::Done);
    assert_eq!(run(&registry, &job).await, Exit::Done, "done already");
    let checkpoint = "mine://embedded/job/checkpoint";
    let verify = ["verify", checkpoint, "--output", "mine://embedded/job/output"];
    assert_eq!(run(&registry, &verify).await, Exit::Done);
    assert_eq!(run(&registry, &["ids", checkpoint, "--contains", "19", "--contains", "20"]).await, Exit::No);
    let output = real.open_dir("memory://embedded/job/output", &StorageOptions::new()).await.expect("opens");
    let files = output.list_files(&ObjectPath::root(), false).await.expect("lists");
    assert!(!files.is_empty(), "the data is where the scheme put it");
    assert_eq!(run(&registry, &["rm", checkpoint]).await, Exit::Usage);
    assert_eq!(run(&registry, &["rm", checkpoint, "--yes"]).await, Exit::Done);
    assert_eq!(run(&registry, &["status", checkpoint]).await.code(), 2);
}
