use std::sync::Arc;
use std::time::Duration;

use super::super::scripted::home;
use super::*;

fn process(words: &[&str], timeout: Duration) -> CredentialProcess {
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    CredentialProcess { profile: "p".to_owned(), words, timeout }
}

fn environment() -> Environment {
    [("PATH", "/usr/bin:/bin"), ("KEY", "AKPROC")].into_iter().collect()
}

#[tokio::test]
async fn it_gets_the_given_variables_and_nothing_to_read() {
    let script =
        r#"read line; printf '{"Version": 1, "AccessKeyId": "%s", "SecretAccessKey": "%s"}' "$KEY" "S$line$HOME""#;
    let found = process(&["sh", "-c", script], TIMEOUT).load(&environment()).await.expect("prints");
    assert_eq!((found.access_key_id(), found.secret_access_key().expose()), ("AKPROC", "S"));
}

#[tokio::test]
async fn one_that_does_not_end_is_ended() {
    let error = process(&["sleep", "600"], Duration::from_millis(50)).load(&environment()).await.expect_err("hangs");
    assert_eq!(error.kind(), ErrorKind::Timeout);
}

#[tokio::test]
async fn one_that_prints_without_end_is_cut_off() {
    let error = process(&["yes", "hunter2"], TIMEOUT).load(&environment()).await.expect_err("no JSON");
    assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
}

/// Whether a process is there and not just a dead entry.
fn is_alive(id: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[tokio::test]
async fn what_it_started_ends_with_it() {
    let dir = home(&[]);
    let file = dir.path().join("id");
    let script = format!("sleep 600 & echo $! > '{0}.new'; mv '{0}.new' '{0}'; wait", file.display());
    let child = Arc::new(process(&["sh", "-c", &script], TIMEOUT));
    let running = tokio::spawn({
        let child = Arc::clone(&child);
        async move { child.load(&environment()).await.map(drop) }
    });
    let id = loop {
        if let Ok(id) = std::fs::read_to_string(&file) {
            break id.trim().to_owned();
        }
        assert!(!running.is_finished(), "it waits");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(is_alive(&id));
    running.abort();
    assert!(running.await.expect_err("aborted").is_cancelled());
    tokio::time::timeout(Duration::from_secs(30), async {
        while is_alive(&id) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the process that it started is gone");
}

#[test]
fn debug_shows_no_command() {
    let shown = format!("{:?}", process(&["get", "--password", "hunter2"], TIMEOUT));
    assert!(shown.contains('p') && !shown.contains("hunter2"), "{shown}");
}
