//! Writes that must not replace.

use std::thread;

use anyhow::Result;
use checkpoint_testkit::mock::Versioning;

use crate::client::{BUCKET, Client, cos};

const FORBID: (&str, &str) = ("x-cos-forbid-overwrite", "true");

/// The statuses of writes at the same time.
fn race(client: &Client, key: &str, header: (&'static str, &'static str)) -> Result<Vec<u16>> {
    let racers: Vec<_> = (0..8)
        .map(|n: u8| {
            let (client, target) = (client.clone(), format!("/{key}"));
            thread::spawn(move || client.ask("PUT", &target, &[header], &[b'0' + n]).map(|said| said.status))
        })
        .collect();
    let ended = racers.into_iter().map(|racer| racer.join().map_err(|_| anyhow::anyhow!("a racer panicked"))?);
    let mut statuses = ended.collect::<Result<Vec<u16>>>()?;
    statuses.sort_unstable();
    Ok(statuses)
}

#[test]
fn one_racer_wins() -> Result<()> {
    let (_mock, client) = cos()?;
    assert_eq!(race(&client, "own", FORBID)?, [200, 409, 409, 409, 409, 409, 409, 409]);
    assert_eq!(race(&client, "aws", ("if-none-match", "*"))?, [200; 8], "the condition of S3 means nothing here");
    Ok(())
}

#[test]
fn puts_copies_and_uploads_that_must_not_replace() -> Result<()> {
    let (mock, client) = cos()?;
    client.ask("PUT", "/taken", &[], b"old")?;
    client.ask("PUT", "/source", &[], b"new")?;
    let source = format!("/{BUCKET}/source");
    let copy = [FORBID, ("x-amz-copy-source", source.as_str())];
    let refused = (409, "FileAlreadyExists");
    assert_eq!(client.ask("PUT", "/taken", &[FORBID], b"new")?.short(), refused);
    assert_eq!(client.ask("PUT", "/taken", &copy, b"")?.short(), refused);
    assert_eq!(client.ask("POST", "/taken?uploads=", &[FORBID], b"")?.short(), refused);
    assert_eq!(client.ask("PUT", "/k", &[("x-cos-forbid-overwrite", "yes")], b"")?.short(), (400, "InvalidArgument"));
    assert_eq!(client.ask("GET", "/taken", &[], b"")?.body, "old");

    // An upload that began while the key was free finds it taken when it completes.
    let begun = client.ask("POST", "/late?uploads=", &[FORBID], b"")?;
    let id = begun.element("UploadId").expect("an ID").to_owned();
    client.ask("PUT", &format!("/late?partNumber=1&uploadId={id}"), &[], b"new")?;
    client.ask("PUT", "/late", &[], b"old")?;
    let etag = "22af645d1859cb5ca6da0c484f1f37ea";
    let parts = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
    );
    let complete =
        |headers: &[(&str, &str)]| client.ask("POST", &format!("/late?uploadId={id}"), headers, parts.as_bytes());
    assert_eq!(complete(&[FORBID])?.short(), refused);
    assert_eq!(mock.names(BUCKET).1, 1);
    assert_eq!(complete(&[])?.short(), (200, ""));
    assert_eq!(client.ask("GET", "/late", &[], b"")?.body, "new");
    Ok(())
}

#[test]
fn buckets_with_versions_ignore_the_wish() -> Result<()> {
    let (mock, client) = cos()?;
    for (versioning, status) in [(Versioning::Enabled, "Enabled"), (Versioning::Suspended, "Suspended")] {
        mock.set_versioning(BUCKET, versioning);
        assert_eq!(client.ask("GET", "/?versioning=", &[], b"")?.element("Status"), Some(status));
        assert_eq!(race(&client, "k", FORBID)?, [200; 8]);
    }
    Ok(())
}
