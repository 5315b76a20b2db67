//! `ckpt fs doctor`: what it finds on stores that keep their word, and on those that do not.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use checkpoint_testkit::mock::{CosMock, CosSettings, Trouble, Versioning};
use checkpoint_testkit::proxy::{FaultProxy, Hardship};
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

/// Options by which a client gives up soon.
const HASTY: &str = r#"{"cos": {"config_kwargs": {"read_timeout": 0.3, "retries": {"max_attempts": 1}}},
    "s3": {"key": "A", "secret": "S", "config_kwargs": {"read_timeout": 0.3, "retries": {"max_attempts": 1}}}}"#;

/// The checks that were tried or left, in order.
fn names(examined: &Value) -> Vec<&str> {
    examined["checks"].as_array().expect("rows").iter().filter_map(|row| row["name"].as_str()).collect()
}

#[test]
fn a_store_that_is_silent_or_not_there_ends_it_with_the_first_check() {
    // Connections wait for it, and nobody takes them; or they are refused.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let refused = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    for address in [silent.local_addr().expect("an address"), refused] {
        let variables = [("AWS_ENDPOINT_URL", format!("http://{address}")), ("AWS_DEFAULT_REGION", "x-1".to_owned())];
        let hasty = ["--json", "--storage-options", HASTY];
        let ran = doctor("s3://bucket/jobs", &variables, &hasty).exits(1);
        let examined = ran.json();
        assert_eq!(names(&examined), ["open", "list", "the rest"], "{}", ran.show());
        assert_eq!((status(&examined, "list"), status(&examined, "the rest")), ("FAIL".to_owned(), "n/a".to_owned()));
        let text = doctor("s3://bucket/jobs", &variables, &hasty[1..]).exits(1);
        assert!(text.out.contains("check the endpoint, the network"), "{}", text.show());
        assert!(text.out.contains("not tried"), "{}", text.show());
    }
}

/// A store that is silent about objects and lists and deletes them, and what a client of it needs to know.
fn silent_about_objects() -> (CosMock, FaultProxy, String, Vec<(&'static str, String)>) {
    let mock = CosMock::start(CosSettings::default()).expect("starts");
    let proxy = FaultProxy::start(&mock.address()).expect("starts");
    proxy.plan(|request| (request.path != "/").then_some(Hardship::Silence));
    let bucket = mock.new_bucket();
    let others = mock.variables().into_iter().filter(|(name, _)| *name != "http_proxy");
    let variables = others.chain([("http_proxy", proxy.address())]).collect();
    (mock, proxy, bucket, variables)
}

#[test]
fn what_a_store_that_fell_silent_has_done_is_cleaned_up() {
    let (mock, _proxy, bucket, variables) = silent_about_objects();
    let ran = doctor(&format!("cos://{bucket}/jobs"), &variables, &["--json", "--storage-options", HASTY]).exits(1);
    let examined = ran.json();
    assert_eq!(names(&examined), ["open", "list", "put", "the rest", "clean up"], "{}", ran.show());
    assert_eq!((status(&examined, "put"), status(&examined, "clean up")), ("FAIL".to_owned(), "ok".to_owned()));
    assert!(mock.names(&bucket).0.is_empty(), "nothing is left");
}

#[test]
fn without_a_first_object_nothing_else_is_tried() {
    let mock = CosMock::start(CosSettings::default()).expect("starts");
    let proxy = FaultProxy::start(&mock.address()).expect("starts");
    let body = "<Error><Code>AccessDenied</Code><Message>No.</Message></Error>".to_owned();
    let denied = Hardship::Answered { status: 403, headers: Vec::new(), body };
    proxy.plan(move |request| (request.method == "PUT").then(|| denied.clone()));
    let others = mock.variables().into_iter().filter(|(name, _)| *name != "http_proxy");
    let variables: Vec<_> = others.chain([("http_proxy", proxy.address())]).collect();
    let ran = doctor(&format!("cos://{}/jobs", mock.new_bucket()), &variables, &["--json"]).exits(1);
    assert_eq!(names(&ran.json()), ["open", "list", "put", "the rest"], "{}", ran.show());
}

/// The first rows are there while a later check goes on, for ever here.
#[test]
fn rows_are_shown_as_they_come() {
    let (_mock, _proxy, bucket, variables) = silent_about_objects();
    let mut command = command();
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command.args(["fs", "doctor", &format!("cos://{bucket}/jobs")]).stdout(Stdio::piped());
    let mut child = command.spawn().expect("ckpt starts");
    let out = BufReader::new(child.stdout.take().expect("a pipe"));
    let (sender, rows) = mpsc::channel();
    let reading = std::thread::spawn(move || {
        let seen = out.lines().map_while(Result::ok).find(|line| line.starts_with("ok    list "));
        // Nobody waits for it any more when it is too late.
        let _ = sender.send(seen);
    });
    let seen = rows.recv_timeout(Duration::from_secs(60));
    let goes_on = child.try_wait().expect("can be asked").is_none();
    child.kill().expect("ends");
    child.wait().expect("ends");
    reading.join().expect("no panic");
    assert!(matches!(seen, Ok(Some(_))) && goes_on, "{seen:?}, it goes on: {goes_on}");
}
