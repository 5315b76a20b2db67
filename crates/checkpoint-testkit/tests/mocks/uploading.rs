//! Uploads in parts.

use anyhow::Result;

use crate::client::{BUCKET, cos};

#[test]
fn parts_are_listed_and_uploads_end() -> Result<()> {
    let (mock, client) = cos()?;
    let begun = client.ask("POST", "/k?uploads=", &[], b"")?;
    let id = begun.element("UploadId").expect("an ID").to_owned();
    for number in 1..=3 {
        let target = format!("/k?partNumber={number}&uploadId={id}");
        assert_eq!(client.ask("PUT", &target, &[], b"x")?.status, 200);
    }
    assert_eq!(client.ask("PUT", &format!("/k?partNumber=0&uploadId={id}"), &[], b"x")?.short().1, "InvalidArgument");
    let page = client.ask("GET", &format!("/k?max-parts=2&uploadId={id}"), &[], b"")?;
    assert_eq!((page.element("IsTruncated"), page.element("NextPartNumberMarker")), (Some("true"), Some("2")));
    let page = client.ask("GET", &format!("/k?part-number-marker=2&uploadId={id}"), &[], b"")?;
    assert_eq!((page.element("IsTruncated"), page.element("PartNumber")), (Some("false"), Some("3")));
    assert_eq!(client.ask("GET", "/?uploads=", &[], b"")?.element("Key"), Some("k"));
    assert_eq!(mock.names(BUCKET), (Vec::new(), 1));
    assert_eq!(client.ask("DELETE", &format!("/k?uploadId={id}"), &[], b"")?.status, 204);
    assert_eq!(client.ask("DELETE", &format!("/k?uploadId={id}"), &[], b"")?.short(), (404, "NoSuchUpload"));
    assert_eq!(mock.names(BUCKET), (Vec::new(), 0));
    Ok(())
}
