//! `ckpt fs doctor`: what it finds on stores that keep their word, and on those that do not.

use checkpoint_testkit::mock::{CosMock, CosSettings, Trouble, Versioning};
use serde_json::Value;

use crate::support::program::{Ran, command, run};

fn doctor(url: &str, variables: &[(&'static str, String)], extra: &[&str]) -> Ran {
    let mut command = command();
    command.envs(variables.iter().map(|(name, value)| (name, value))).args(["fs", "doctor", url]).args(extra);
    run(&mut command)
}

fn status(examined: &Value, check: &str) -> String {
    let rows = examined["checks"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["name"] == check);
    row.and_then(|row| row["status"].as_str()).unwrap_or("missing").to_owned()
}

#[test]
fn a_directory_holds_everything_and_is_left_as_it_was() {
    let dir = tempfile::tempdir().expect("a directory");
    let url = dir.path().to_str().expect("UTF-8");
    let text = doctor(url, &[], &[]).exits(0);
    for word in ["put if absent", "8 at once, one won", "list after write", "multi-delete", " ms"] {
        assert!(text.out.contains(word), "{word}\n{}", text.show());
    }
    let examined = doctor(url, &[], &["--json"]).exits(0).json();
    assert_eq!((&examined["ok"], &examined["backend"]), (&Value::Bool(true), &"file".into()));
    assert_eq!(status(&examined, "rename"), "ok");
    assert_eq!(std::fs::read_dir(dir.path()).expect("lists").count(), 0, "nothing is left");
}

#[test]
fn a_bucket_with_versions_is_found_out() {
    let mock = CosMock::start(CosSettings::default()).expect("starts");
    let bucket = mock.new_bucket();
    let url = format!("cos://{bucket}/jobs");
    let variables = mock.variables();
    let examined = doctor(&url, &variables, &["--json"]).exits(0).json();
    assert_eq!(status(&examined, "put if absent"), "ok");
    assert_eq!(status(&examined, "versioning"), "ok");
    assert!(mock.names(&bucket).0.is_empty(), "nothing is left");

    for versioning in [Versioning::Enabled, Versioning::Suspended] {
        mock.set_versioning(&bucket, versioning);
        let ran = doctor(&url, &variables, &["--json"]).exits(1);
        let examined = ran.json();
        assert_eq!(examined["ok"], false);
        assert_eq!(status(&examined, "put if absent"), "FAIL", "{}", ran.show());
        assert_eq!(status(&examined, "multipart"), "ok", "the rest is tried all the same");
        let text = doctor(&url, &variables, &[]).exits(1);
        assert!(text.out.contains("--lease-url") && text.out.contains("--assume-exclusive"), "{}", text.show());
    }
}

#[test]
fn what_is_wrong_with_the_login_or_the_clock_is_said_and_no_secret_is() {
    let mock = CosMock::start(CosSettings::default()).expect("starts");
    let url = format!("cos://{}/jobs", mock.new_bucket());
    let mut variables = mock.variables();
    let secret = "not-the-secret-of-this-key-at-all";
    for (name, value) in &mut variables {
        if *name == "COS_SECRET_KEY" {
            *value = secret.to_owned();
        }
    }
    let ran = doctor(&url, &variables, &["-v"]).exits(1);
    assert!(ran.out.contains("SignatureDoesNotMatch"), "{}", ran.show());
    assert!(!ran.out.contains(secret) && !ran.err.contains(secret), "{}", ran.show());

    mock.set_clock_ahead(3600);
    let ran = doctor(&url, &mock.variables(), &[]).exits(1);
    assert!(ran.out.contains("clock"), "{}", ran.show());
    mock.set_clock_ahead(120);
    let examined = doctor(&url, &mock.variables(), &["--json"]).exits(0).json();
    assert_eq!(status(&examined, "clock"), "note");
}

#[test]
fn passing_troubles_are_no_finding() {
    let mock = CosMock::start(CosSettings::default()).expect("starts");
    let url = format!("cos://{}/jobs", mock.new_bucket());
    mock.trouble_next(Trouble::SlowDown, 2);
    let examined = doctor(&url, &mock.variables(), &["--json"]).exits(0).json();
    assert_eq!(examined["ok"], true);
}
