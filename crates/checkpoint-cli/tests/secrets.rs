//! No secret in any output, however loud: with options, the environment, and a server that refuses.

mod program;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use program::{command, write_rows};

const KEY: &str = "AKIDMARKEDKEY";
const SECRET: &str = "marked-secret-91f3";
const TOKEN: &str = "marked-token-77aa";

/// A server that refuses every request, as S3 does with a wrong key. Answers its URL.
fn refusing_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || refuse(stream));
        }
    });
    url
}

fn refuse(mut stream: TcpStream) {
    let body = "<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message><RequestId>R1</RequestId></Error>";
    let answer = format!(
        "HTTP/1.1 403 Forbidden\r\ncontent-type: application/xml\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut request = [0; 8192];
    let _ = stream.read(&mut request);
    let _ = stream.write_all(answer.as_bytes());
}

/// Runs it and checks that it reached the server and said nothing that is secret.
#[track_caller]
fn tells_nothing(mut command: Command) {
    let output = command.output().expect("runs");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("status=403"), "the server was asked: {said}");
    for marked in [SECRET, TOKEN] {
        assert!(!said.contains(marked), "{said}");
    }
    assert!(!said.contains("Signature="), "no signature either: {said}");
}

fn loud(dir: &Path) -> Command {
    let mut command = command(dir);
    command.args(["-vvv"]).env("RUST_LOG", "trace").env("RUST_BACKTRACE", "1");
    command
}

#[test]
fn options_and_environment_stay_secret_at_any_loudness() {
    let dir = tempfile::tempdir().expect("temp dir");
    let dir = dir.path();
    let url = refusing_server();
    write_rows(&dir.join("in/a.parquet"), 0..3);
    let options =
        format!(r#"{{"s3": {{"key": "{KEY}", "secret": "{SECRET}", "token": "{TOKEN}", "endpoint_url": "{url}"}}}}"#);
    std::fs::write(dir.join("options.json"), &options).expect("written");
    let place = "s3://bucket/job";
    for args in [
        &["run", "--input", "in", "--job-dir", place, "--id-column", "id"][..],
        &["run", "--input", place, "--job-dir", "job", "--id-column", "id", "--exec", "cat"],
        &["status", place],
        &["gc", place, "--older-than", "1d"],
        &["fs", "ls", place],
        &["fs", "cp", "in/a.parquet", place],
    ] {
        let mut given = loud(dir);
        given.args(args).args(["--storage-options", &options]);
        tells_nothing(given);
        let mut from_file = loud(dir);
        from_file.args(args).args(["--storage-options", "@options.json"]);
        tells_nothing(from_file);
        let mut from_environment = loud(dir);
        from_environment.args(args).envs([
            ("AWS_ACCESS_KEY_ID", KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
            ("AWS_SESSION_TOKEN", TOKEN),
            ("AWS_ENDPOINT_URL", url.as_str()),
        ]);
        tells_nothing(from_environment);
    }
}

#[test]
fn a_wrong_command_line_does_not_repeat_options() {
    let dir = tempfile::tempdir().expect("temp dir");
    let options = format!(r#"{{"s3": {{"secret": "{SECRET}"}}}}"#);
    for args in [
        vec!["status".to_owned(), "c".to_owned(), options.clone()],
        vec!["status".to_owned(), "c".to_owned(), format!("--storage-option={options}")],
        vec![options.clone()],
        vec!["status".to_owned(), format!("s3://{KEY}:{SECRET}@bucket/x")],
        vec!["rm".to_owned(), "c".to_owned(), format!("s3://{KEY}:{SECRET}@bucket/x")],
    ] {
        let output = command(dir.path()).args(&args).output().expect("runs");
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("error: ") && !said.contains(SECRET), "{said}");
    }
}
