//! Full and read-only file systems. They are small memory file systems, mounted where only one child
//! process sees them: the test runs itself again in namespaces of its own.

use std::process::Command;

use super::*;

const INSIDE: &str = "CHECKPOINT_TEST_MOUNT";

/// Runs a test of this file again with a 1 MiB file system; gives its directory inside, `None` outside.
fn inside_small_file_system(test: &str) -> Option<std::path::PathBuf> {
    if let Some(dir) = std::env::var_os(INSIDE) {
        return Some(dir.into());
    }
    let dir = tempfile::tempdir().expect("temp dir");
    let script = r#"mount -t tmpfs -o size=1m checkpoint-test "$1" || exit 77; shift; exec "$@""#;
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .arg(dir.path())
        .arg(std::env::current_exe().expect("known"))
        .args(["--exact", &format!("backend::posix::tests::mounts::{test}"), "--nocapture"])
        .env(INSIDE, dir.path())
        .output();
    match output {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains("1 passed"), "the test ran inside: {text}");
        }
        Ok(output) if output.status.code() == Some(77) || output.stderr.starts_with(b"unshare:") => {
            eprintln!("skipped: no namespaces here: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(output) => panic!(
            "failed inside: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => eprintln!("skipped: unshare cannot be started: {error}"),
    }
    None
}

#[tokio::test]
async fn a_full_disk_is_an_error_that_leaves_nothing() {
    let Some(dir) = inside_small_file_system("a_full_disk_is_an_error_that_leaves_nothing") else { return };
    let storage = PosixStorage::open(&dir, PosixOptions::new()).expect("opens");
    put(&storage, "kept", "old").await;
    let big = Bytes::from(vec![1; 2 * 1024 * 1024]);
    for mode in [WriteMode::Overwrite, WriteMode::IfAbsent] {
        let error = storage.write(&path("big"), big.clone(), WriteOptions::new().mode(mode)).await.expect_err("full");
        assert_eq!((error.kind(), error.service_code()), (ErrorKind::Io, Some("ENOSPC")), "{error}");
        assert_eq!((error.operation(), error.retry()), ("write", crate::Retry::Maybe));
        assert!(error.hint().is_some() && error.url().ends_with("/big"));
    }
    let error = storage.write(&path("kept"), big.clone(), WriteOptions::new()).await.expect_err("full");
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(get(&storage, "kept").await.expect("there"), "old");
    let mut writer = storage.writer(&path("big"), WriteOptions::new()).await.expect("starts");
    assert!(writer.write(big).await.is_err());
    assert!(writer.write("more".into()).await.is_err(), "a failed writer stays failed");
    assert!(writer.finish().await.is_err());
    let half = Bytes::from(vec![1; 600 * 1024]);
    let wrote = storage.write(&path("half"), half, WriteOptions::new()).await.expect("fits");
    assert!(matches!(wrote, WriteOutcome::Done(_)));
    let error = storage.copy(&path("half"), &path("copy"), CopyOptions::new()).await.expect_err("full");
    assert_eq!(error.service_code(), Some("ENOSPC"));
    assert_eq!(on_disk(&dir), ["half", "kept"]);
    let reopened = PosixStorage::open(&dir, PosixOptions::new()).expect("opens");
    assert!(reopened.capabilities().write_if_absent, "a full disk says nothing about the calls");
}

#[tokio::test]
async fn a_read_only_file_system_opens_and_refuses_to_change() {
    let Some(dir) = inside_small_file_system("a_read_only_file_system_opens_and_refuses_to_change") else { return };
    let before = PosixStorage::open(&dir, PosixOptions::new()).expect("opens");
    put(&before, "x", "1").await;
    let status = Command::new("mount").args(["-o", "remount,ro"]).arg(&dir).status().expect("starts");
    assert!(status.success());
    let storage = PosixStorage::open(&dir, PosixOptions::new()).expect("opens");
    let capabilities = storage.capabilities();
    assert!(!capabilities.write_if_absent && !capabilities.atomic_rename && !capabilities.copy_if_absent);
    assert_eq!(get(&storage, "x").await.expect("reads"), "1");
    let create = WriteOptions::new().mode(WriteMode::IfAbsent);
    let error = storage.write(&path("y"), "1".into(), create.clone()).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    for error in [
        storage.write(&path("y"), "1".into(), WriteOptions::new()).await.expect_err("refused"),
        storage.write(&path("d/y"), "1".into(), WriteOptions::new()).await.expect_err("refused"),
        before.write(&path("y"), "1".into(), create).await.expect_err("refused"),
        storage.delete(&path("x"), DeleteOptions::new()).await.expect_err("refused"),
        before.rename(&path("x"), &path("y"), RenameOptions::new()).await.expect_err("refused"),
        storage.create_dir(&path("d"), CreateDirOptions::new()).await.expect_err("refused"),
    ] {
        assert_eq!((error.kind(), error.service_code()), (ErrorKind::PermissionDenied, Some("EROFS")), "{error}");
        assert!(error.hint().is_some());
    }
    assert_eq!(on_disk(&dir), ["x"]);
}
