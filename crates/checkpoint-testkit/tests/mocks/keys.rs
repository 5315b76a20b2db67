//! Whose requests are taken.

use anyhow::Result;

use crate::client::{Client, cos};

#[test]
fn unsigned_and_badly_signed_requests() -> Result<()> {
    let (mock, client) = cos()?;
    assert_eq!(client.send("PUT", "/k", &[], b"x")?.short(), (403, "AccessDenied"));
    let wrong = Client { secret: "wrong".to_owned(), ..client.clone() };
    assert_eq!(wrong.ask("PUT", "/k", &[], b"x")?.short(), (403, "SignatureDoesNotMatch"));
    assert_eq!(wrong.ask("HEAD", "/k", &[], b"")?.status, 403);
    let unknown = Client { id: "AKIDunknown".to_owned(), ..client.clone() };
    assert_eq!(unknown.ask("PUT", "/k", &[], b"x")?.short(), (403, "InvalidAccessKeyId"));
    // What is added after signing is not signed.
    let signed = client.signed("PUT", "/k", &[], b"x")?;
    let mut headers: Vec<(&str, &str)> = signed.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    headers.push(("x-cos-forbid-overwrite", "true"));
    assert_eq!(client.send("PUT", "/k", &headers, b"x")?.short(), (403, "AccessDenied"));
    headers.pop();
    assert_eq!(client.send("PUT", "/k", &headers, b"y")?.short(), (400, "XAmzContentSHA256Mismatch"));
    assert_eq!(client.send("PUT", "/k", &headers, b"x")?.short(), (200, ""));
    let codes: Vec<&str> = mock.requests().iter().map(|r| r.code).collect();
    assert_eq!(codes[..2], ["AccessDenied", "SignatureDoesNotMatch"]);
    Ok(())
}

#[test]
fn clocks_that_differ() -> Result<()> {
    let (mock, client) = cos()?;
    for ahead in [3600, -3600] {
        mock.set_clock_ahead(ahead);
        assert_eq!(client.ask("PUT", "/k", &[], b"x")?.short(), (403, "RequestTimeTooSkewed"), "{ahead}");
    }
    mock.set_clock_ahead(600);
    assert_eq!(client.ask("PUT", "/k", &[], b"x")?.short(), (200, ""));
    Ok(())
}

#[test]
fn temporary_keys_need_their_token_and_end() -> Result<()> {
    let (mock, client) = cos()?;
    mock.add_temporary_key("AKIDtemporary", "secret", "token", 3600);
    let temporary = Client { id: "AKIDtemporary".to_owned(), secret: "secret".to_owned(), ..client };
    let with = |token: Option<&str>| -> Result<(u16, String)> {
        let client = Client { token: token.map(str::to_owned), ..temporary.clone() };
        let said = client.ask("PUT", "/k", &[], b"x")?;
        Ok((said.status, said.short().1.to_owned()))
    };
    assert_eq!(with(None)?, (403, "InvalidAccessKeyId".to_owned()));
    assert_eq!(with(Some("other"))?, (403, "InvalidAccessKeyId".to_owned()));
    assert_eq!(with(Some("token"))?, (200, String::new()));
    mock.expire_temporary_keys();
    assert_eq!(with(Some("token"))?, (400, "ExpiredToken".to_owned()));
    Ok(())
}
