//! What a URL of S3 resolves to, for those who ask.

use super::config::{Credentialing, S3Config};
use crate::error::{Error, Result};
use crate::location::Location;
use crate::resolution::Resolution;

/// Fills in what is known without any network call.
///
/// # Errors
/// For credentials that are set up and wrong, or expired, and where there are none at all.
pub(super) fn resolution(config: &S3Config, location: &Location) -> Result<Resolution> {
    let mut resolution = Resolution::plain("s3", location);
    let key = location.path().as_str();
    let directory = key.rsplit_once('/').map(|(directory, _)| format!("{directory}/")).unwrap_or_default();
    resolution.bucket = Some(config.bucket().to_owned());
    resolution.endpoint = Some(config.endpoint().value);
    resolution.region = Some(config.region().value.clone());
    resolution.addressing = Some(config.addressing().value.to_string());
    resolution.object_url = Some(config.object_url(key));
    resolution.list_url = Some(config.list_url(&directory, false));
    resolution.anonymous = config.is_anonymous();
    if !config.is_anonymous() {
        resolution.signing_region = Some(config.signing_region().to_owned());
    }
    let credentials = credentials(config, &mut resolution)?;
    let sources = [
        ("addressing", config.addressing().source.to_string()),
        ("credentials", credentials),
        ("endpoint", config.endpoint().source.into_owned()),
        ("region", config.region().source.to_string()),
    ];
    resolution.sources.extend(sources.map(|(name, source)| (name.to_owned(), source)));
    Ok(resolution)
}

/// Fills in the public half of the credentials; gives their source.
fn credentials(config: &S3Config, resolution: &mut Resolution) -> Result<String> {
    match config.credentialing() {
        Credentialing::Anonymous(source) => Ok(format!("none: {source}")),
        Credentialing::Options(fixed, source) => {
            let credentials = fixed.credentials();
            resolution.access_key_id = Some(credentials.access_key_id().to_owned());
            resolution.has_session_token = credentials.session_token().is_some();
            Ok(source.clone())
        }
        Credentialing::Chain(chain) => {
            let described = chain.describe()?;
            resolution.access_key_id = described.access_key_id;
            resolution.has_session_token = described.has_session_token;
            described.source.ok_or_else(|| {
                Error::invalid_config("there are no credentials")
                    .with_hint("give key and secret, set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or set anon to true for a public bucket")
            })
        }
        Credentialing::Program(provider) => Ok(provider.name().to_owned()),
    }
}
