//! Making buckets, which the product never does: a signed request of the testkit's own.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use aws_sigv4::http_request::{PayloadChecksumKind, SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;

use super::{Access, REGION};

/// Tries that a server gets which is up but not ready.
const TRIES: usize = 20;

/// Makes a bucket. Blocks; safe to call inside and outside of a runtime.
pub(super) fn create(access: &Access, name: &str) -> Result<()> {
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let client = reqwest::Client::builder().no_proxy().build()?;
            let mut failure = anyhow!("the bucket was never asked for");
            for _ in 0..TRIES {
                match put(&client, access, name).await {
                    Ok(()) => return Ok(()),
                    Err(error) => failure = error,
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            Err(failure)
        })
    };
    // A thread of its own, since the caller may be inside of a runtime.
    std::thread::scope(|scope| scope.spawn(work).join()).map_err(|_| anyhow!("making the bucket panicked"))?
}

async fn put(client: &reqwest::Client, access: &Access, name: &str) -> Result<()> {
    let mut request = http::Request::put(format!("{}/{name}", access.endpoint)).body(Vec::new())?;
    let identity = aws_credential_types::Credentials::new(
        access.access_key.as_str(),
        access.secret_key.as_str(),
        None,
        None,
        "testkit",
    )
    .into();
    let mut settings = SigningSettings::default();
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    #[expect(clippy::disallowed_methods, reason = "a real server checks the time of a signature")]
    let now = std::time::SystemTime::now();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(REGION)
        .name("s3")
        .time(now)
        .settings(settings)
        .build()?
        .into();
    let uri = request.uri().to_string();
    let signable = SignableRequest::new("PUT", uri, std::iter::empty(), SignableBody::Bytes(&[]))?;
    let (instructions, _) = sign(signable, &params)?.into_parts();
    instructions.apply_to_request_http1x(&mut request);
    let answer = client.execute(reqwest::Request::try_from(request)?).await.context("the server did not answer")?;
    let status = answer.status();
    let said = answer.text().await.unwrap_or_default();
    if status.is_success() || said.contains("BucketAlreadyOwnedByYou") {
        return Ok(());
    }
    bail!("the bucket was not made: status={status} answer={said}")
}
