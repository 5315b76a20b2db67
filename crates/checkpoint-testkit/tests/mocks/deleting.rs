//! Deletes of many keys.

use anyhow::Result;

use crate::client::{BUCKET, content_md5, cos, delete_body};

#[test]
fn a_digest_is_wanted_and_checked() -> Result<()> {
    let (mock, client) = cos()?;
    client.ask("PUT", "/k", &[], b"x")?;
    let body = delete_body(&["k"]);
    let short = |headers: &[(&str, &str)]| -> Result<(u16, String)> {
        let said = client.ask("POST", "/?delete=", headers, body.as_bytes())?;
        Ok((said.status, said.short().1.to_owned()))
    };
    assert_eq!(short(&[])?, (400, "InvalidRequest".to_owned()));
    assert_eq!(short(&[("x-amz-checksum-crc32", "AAAAAA==")])?, (400, "InvalidRequest".to_owned()), "no substitute");
    assert_eq!(short(&[("content-md5", &content_md5("other"))])?, (400, "BadDigest".to_owned()));
    assert_eq!(short(&[("content-md5", "no digest")])?, (400, "InvalidDigest".to_owned()));
    assert_eq!(mock.names(BUCKET).0, ["k"]);
    assert_eq!(short(&[("content-md5", &content_md5(&body))])?, (200, String::new()));
    assert!(mock.names(BUCKET).0.is_empty());
    let missing = client.ask("POST", "/?delete=", &[], body.as_bytes())?;
    assert_eq!(missing.element("Message"), Some("Missing required header for this request: Content-MD5"));
    Ok(())
}

#[test]
fn a_thousand_keys_at_most() -> Result<()> {
    let (_mock, client) = cos()?;
    let keys: Vec<String> = (0..1001).map(|n| n.to_string()).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    assert_eq!(client.delete(&keys)?.short(), (400, "MalformedXML"));
    assert_eq!(client.delete(&keys[..1000])?.short(), (200, ""));
    assert_eq!(client.delete(&[])?.short(), (400, "MalformedXML"));
    Ok(())
}

#[test]
fn one_key_can_fail_in_a_success() -> Result<()> {
    let (mock, client) = cos()?;
    for key in ["/a", "/b"] {
        client.ask("PUT", key, &[], b"x")?;
    }
    mock.keep_key("a", "InternalError", 1);
    let said = client.delete(&["a", "b"])?;
    assert_eq!((said.short(), said.element("Key")), ((200, "InternalError"), Some("a")));
    assert_eq!(mock.names(BUCKET).0, ["a"]);
    assert_eq!(client.delete(&["a"])?.short(), (200, ""));
    assert!(mock.names(BUCKET).0.is_empty());
    Ok(())
}
