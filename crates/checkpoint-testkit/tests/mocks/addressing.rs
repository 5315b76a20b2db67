//! Hosts, keys, queries and bodies that a service would not take.

use anyhow::Result;
use checkpoint_testkit::mock::{CosMock, CosSettings};

use crate::client::{BUCKET, Client, cos};

#[test]
fn hosts_that_name_no_bucket_of_the_service() -> Result<()> {
    let (mock, client) = cos()?;
    let at = |host: &str, target: &str| -> Result<(u16, String)> {
        let client = Client { host: host.to_owned(), ..client.clone() };
        let said = client.ask("PUT", target, &[], b"x")?;
        Ok((said.status, said.short().1.to_owned()))
    };
    let forbidden = (403, "PathStyleDomainForbidden".to_owned());
    assert_eq!(at("cos.ap-guangzhou.myqcloud.com", &format!("/{BUCKET}/k"))?, forbidden);
    assert_eq!(at("127.0.0.1:80", &format!("/{BUCKET}/k"))?, forbidden);
    let absent = (404, "NoSuchBucket".to_owned());
    assert_eq!(at("absent-1250000000.cos.ap-guangzhou.myqcloud.com", "/k")?, absent);
    assert_eq!(at(&format!("{BUCKET}.cos.ap-beijing.myqcloud.com"), "/k")?, absent);
    let unnamed = (400, "InvalidBucketName".to_owned());
    assert_eq!(at("bkt.cos.ap-guangzhou.myqcloud.com", "/k")?, unnamed);
    assert!(mock.names(BUCKET).0.is_empty());
    Ok(())
}

#[test]
fn another_host_is_answered_by_path_where_that_is_allowed() -> Result<()> {
    let mut settings = CosSettings::default();
    settings.path_style_allowed = true;
    let mock = CosMock::start(settings.clone())?;
    mock.create_bucket(BUCKET);
    let address = mock.address();
    let host = address.trim_start_matches("http://").to_owned();
    let client = Client { host, ..Client::new(&address, &settings.secret_id, &settings.secret_key) };
    assert_eq!(client.ask("PUT", &format!("/{BUCKET}/a/b"), &[], b"x")?.status, 200);
    assert_eq!(mock.names(BUCKET).0, ["a/b"]);
    Ok(())
}

#[test]
fn what_the_service_does_not_know_is_refused() -> Result<()> {
    let (mock, client) = cos()?;
    let short = |method: &str, target: &str, headers: &[(&str, &str)]| -> Result<(u16, String)> {
        let said = client.ask(method, target, headers, b"x")?;
        Ok((said.status, said.short().1.to_owned()))
    };
    let unknown = (501, "NotImplemented".to_owned());
    for target in ["/?acl=", "/?list-type=2&tagging=", "/k?versionId=1"] {
        assert_eq!(short("GET", target, &[])?, unknown, "{target}");
    }
    for (name, value) in [
        ("content-encoding", "aws-chunked"),
        ("x-amz-checksum-crc32", "AAAAAA=="),
        ("x-amz-sdk-checksum-algorithm", "CRC32"),
        ("x-amz-trailer", "x-amz-checksum-crc32"),
    ] {
        assert_eq!(short("PUT", "/k", &[(name, value)])?, unknown, "{name}");
    }
    assert_eq!(short("PUT", &format!("/{}", "k".repeat(851)), &[])?, (400, "KeyTooLong".to_owned()));
    assert_eq!(short("PUT", "/k", &[("content-md5", "eA==")])?, (400, "InvalidDigest".to_owned()));
    let other = "rL0Y20zC+Fzt72VPzMSk2A==";
    assert_eq!(short("PUT", "/k", &[("content-md5", other)])?, (400, "BadDigest".to_owned()));
    let missing = (411, "MissingContentLength".to_owned());
    assert_eq!(short("PUT", "/k", &[("transfer-encoding", "chunked")])?, missing);
    assert!(mock.names(BUCKET).0.is_empty());
    Ok(())
}
