//! Requests that the product never makes, like those that make buckets: signed by the testkit itself.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use aws_sigv4::http_request::{PayloadChecksumKind, SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;

use super::{Access, REGION};

/// Tries that a server gets which is up but not ready.
const TRIES: usize = 20;

/// Makes a bucket. Blocks; safe to call inside and outside of a runtime.
pub(super) fn create(access: &Access, name: &str) -> Result<()> {
    let target = format!("/{name}");
    blocking(async {
        let mut failure = anyhow!("the bucket was never asked for");
        for _ in 0..TRIES {
            match answer(access, "PUT", &target, &[], &[]).await {
                Ok((200..300, _)) => return Ok(()),
                Ok((_, said)) if said.contains("BucketAlreadyOwnedByYou") => return Ok(()),
                Ok((status, said)) => failure = anyhow!("the bucket was not made: status={status} answer={said}"),
                Err(error) => failure = error,
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Err(failure)
    })
}

/// Sends a request and gives its answer; see [`Access::send`].
pub(super) fn send(
    access: &Access,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Result<(u16, String)> {
    blocking(answer(access, method, target, headers, body))
}

/// Runs it on a thread of its own, since the caller may be inside of a runtime.
fn blocking<T: Send>(work: impl Future<Output = Result<T>> + Send) -> Result<T> {
    let run = || tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work);
    std::thread::scope(|scope| scope.spawn(run).join()).map_err(|_| anyhow!("the request panicked"))?
}

async fn answer(
    access: &Access,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Result<(u16, String)> {
    let mut request = http::Request::builder().method(method).uri(format!("{}{target}", access.endpoint));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(body.to_vec())?;
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
    let signable = SignableRequest::new(method, uri, headers.iter().copied(), SignableBody::Bytes(body))?;
    let (instructions, _) = sign(signable, &params)?.into_parts();
    instructions.apply_to_request_http1x(&mut request);
    let client = reqwest::Client::builder().no_proxy().build()?;
    let answer = client.execute(reqwest::Request::try_from(request)?).await.context("the server did not answer")?;
    Ok((answer.status().as_u16(), answer.text().await.context("the answer was cut short")?))
}
