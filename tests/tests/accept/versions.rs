//! A checkpoint in a bucket that keeps old versions, where COS takes a conditional write for a plain one.

use std::process::Command;

use checkpoint_testkit::mock::{CosMock, CosSettings, Versioning};

use crate::support::{Job, int_rows, program, write_parquet};

/// `ckpt run` with its checkpoint in a bucket of the mock, by some key.
struct OnCos {
    job: Job,
    mock: CosMock,
    bucket: String,
}

impl OnCos {
    fn new(versioning: Versioning) -> Self {
        let job = Job::new();
        write_parquet(&job.input().join("a.parquet"), &int_rows(0..5));
        let mock = CosMock::start(CosSettings::default()).expect("a free port");
        let bucket = mock.new_bucket();
        mock.set_versioning(&bucket, versioning);
        Self { job, mock, bucket }
    }

    fn run(&self, keys: &[(&str, &str)], extra: &[&str]) -> program::Ran {
        let mut command: Command = program::command();
        command.args(["run", "--id-column", "id", "--input"]).arg(self.job.input());
        command.arg("--output").arg(self.job.output());
        command.arg("--checkpoint").arg(format!("cos://{}/jobs/checkpoint", self.bucket));
        command.envs(self.mock.variables()).envs(keys.iter().copied()).args(extra);
        program::run(&mut command)
    }

    /// The service's answers to the question about versions.
    fn answers(&self) -> Vec<u16> {
        self.mock.requests().iter().filter(|r| r.query.starts_with("versioning")).map(|r| r.status).collect()
    }

    /// Writes that were not to replace.
    fn conditional_writes(&self) -> usize {
        self.mock.requests().iter().filter(|r| r.header("x-cos-forbid-overwrite") == Some("true")).count()
    }
}

#[test]
fn a_bucket_with_versions_needs_its_lease_elsewhere() {
    for (versioning, way_on) in [(Versioning::Enabled, "--lease-url"), (Versioning::Suspended, "--assume-exclusive")] {
        let on = OnCos::new(versioning);
        on.run(&[], &[]).exits(2).complains().says(&["create-only", "--lease-url", "--assume-exclusive"]);
        assert!(on.answers().iter().all(|status| *status == 200) && !on.answers().is_empty());
        assert_eq!(on.conditional_writes(), 0, "the answer was believed");
        assert!(!on.job.output().exists(), "nothing was processed");

        let lease = on.job.dir().join("lease");
        let place = if way_on == "--lease-url" { lease.to_str() } else { None };
        let extra: Vec<&str> = [way_on].into_iter().chain(place).collect();
        on.run(&[], &extra).exits(0);
        assert_eq!(on.conditional_writes(), 0, "none could be relied on");
    }
}

/// A key for one prefix may not ask about the bucket; creating a file twice shows it all the same.
#[test]
fn a_bucket_that_does_not_tell_is_found_out() {
    for (versioning, code) in [(Versioning::Suspended, 2), (Versioning::Off, 0)] {
        let on = OnCos::new(versioning);
        on.mock.add_confined_key("AKIDconfined", "secret-of-the-confined", &on.bucket, "jobs/");
        let keys = [("COS_SECRET_ID", "AKIDconfined"), ("COS_SECRET_KEY", "secret-of-the-confined")];
        let ran = on.run(&keys, &[]).exits(code);
        assert!(on.answers().iter().all(|status| *status == 403) && !on.answers().is_empty());
        assert!(on.conditional_writes() >= 2, "it was created twice");
        if code == 2 {
            ran.complains().says(&["create-only", "--lease-url", "--assume-exclusive"]);
            assert!(!on.job.output().exists(), "nothing was processed");
            on.run(&keys, &["--assume-exclusive"]).exits(0);
        }
    }
}
