//! A checkpoint in a bucket that keeps old versions, where COS takes a conditional write for a plain one.

use std::process::{Command, Stdio};
use std::time::Duration;

use checkpoint_testkit::mock::{
    Controls, CosMock, CosSettings, OssMock, OssSettings, TcLakeMock, TcLakeSettings, Versioning,
};

use crate::support::{Job, Ran, int_rows, program, write_parquet};

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
        // The answer to the first create shows it where there are versions; else a second one has to fail.
        assert!(on.conditional_writes() >= if code == 2 { 1 } else { 2 });
        if code == 2 {
            ran.complains().says(&["create-only", "--lease-url", "--assume-exclusive"]);
            assert!(!on.job.output().exists(), "nothing was processed");
            on.run(&keys, &["--assume-exclusive"]).exits(0);
        }
    }
}

/// Runs a job that waits with its rows until the lease is taken and the bucket keeps versions, and once more.
fn switched_on_midway(
    controls: &Controls,
    bucket: &str,
    url: &str,
    variables: &[(&str, String)],
    versioning: Versioning,
) {
    let job = Job::new();
    write_parquet(&job.input().join("a.parquet"), &int_rows(0..5));
    let go = job.dir().join("go");
    let exec = format!("while [ ! -e '{}' ]; do sleep 0.02; done; exec cat", go.display());
    let command = || {
        let mut command: Command = program::command();
        command.args(["run", "--id-column", "id", "--exec", &exec, "--keep-checkpoint", "--input"]).arg(job.input());
        command.arg("--output").arg(job.output()).args(["--checkpoint", url]);
        command.envs(variables.iter().map(|(name, value)| (*name, value.as_str())));
        command
    };
    let child = command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("ckpt starts");
    // The lease was taken when the second create was refused.
    let is_taken = || controls.requests().iter().any(|r| r.path.contains("attempts") && r.code == "FileAlreadyExists");
    for _ in 0..1500 {
        if is_taken() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let taken = is_taken();
    if versioning == Versioning::Suspended {
        controls.set_versioning(bucket, Versioning::Enabled);
    }
    controls.set_versioning(bucket, versioning);
    std::fs::write(&go, "").expect("a file is written");
    let ended = Ran::new("run, with versions from the middle on".to_owned(), &child.wait_with_output().expect("ends"));
    assert!(taken, "no lease in 30 seconds: {ended:?}");
    ended.exits(2).complains().says(&["create-only", "--lease-url", "--assume-exclusive"]);
    program::run(&mut command()).exits(2).complains().says(&["--lease-url", "--assume-exclusive"]);
    program::run(command().arg("--assume-exclusive")).exits(0);
    let mut verify = program::command();
    verify.args(["verify", url, "--json", "--output"]).arg(job.output());
    verify.envs(variables.iter().map(|(name, value)| (*name, value.as_str())));
    program::run(&mut verify).exits(0).numbers(&[("committed_ids", 5), ("output_rows", 5)]);
}

#[test]
fn a_run_stops_when_versioning_is_switched_on_midway_on_cos() {
    for versioning in [Versioning::Enabled, Versioning::Suspended] {
        let mock = CosMock::start(CosSettings::default()).expect("a free port");
        let bucket = mock.new_bucket();
        let url = format!("cos://{bucket}/jobs/checkpoint");
        switched_on_midway(&mock, &bucket, &url, &mock.variables(), versioning);
    }
}

#[test]
fn a_run_stops_when_versioning_is_switched_on_midway_on_oss() {
    for versioning in [Versioning::Enabled, Versioning::Suspended] {
        let mock = OssMock::start(OssSettings::default()).expect("a free port");
        let bucket = mock.new_bucket();
        let url = format!("oss://{bucket}/jobs/checkpoint");
        switched_on_midway(&mock, &bucket, &url, &mock.variables(), versioning);
    }
}

/// A volume's credentials may not ask about its bucket.
#[test]
fn a_run_stops_when_versioning_is_switched_on_midway_on_tclake() {
    for versioning in [Versioning::Enabled, Versioning::Suspended] {
        let mock = TcLakeMock::start(TcLakeSettings::default()).expect("a free port");
        let bucket = mock.new_bucket();
        mock.add_volume("cat", "db", "vol", &format!("cosn://{bucket}/lake/vol"));
        switched_on_midway(&mock, &bucket, "tclake://volume/cat/db/vol/checkpoint", &mock.variables(), versioning);
    }
}
