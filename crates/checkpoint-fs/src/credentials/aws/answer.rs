//! The JSON in which agents and the metadata service give credentials.

use serde_json::Value as Json;

use crate::credentials::{Credentials, expiry};
use crate::transport::DocumentFault;

/// Whether an answer is a whole document. What a parser says could repeat a part of it, and is not told.
pub(super) fn check_json(body: &[u8]) -> Result<(), DocumentFault> {
    serde_json::from_slice::<serde::de::IgnoredAny>(body)
        .map(drop)
        .map_err(|_| DocumentFault::Damaged("it is not JSON".to_owned()))
}

/// The credentials in an answer; `None` where it does not hold all that there should be.
pub(super) fn read(body: &[u8]) -> Option<Credentials> {
    let json: Json = serde_json::from_slice(body).ok()?;
    let text = |name: &str| json.get(name).and_then(Json::as_str).filter(|text| !text.is_empty());
    Some(
        Credentials::new(text("AccessKeyId")?, text("SecretAccessKey")?)
            .with_session_token(Some(text("Token")?.to_owned()))
            .with_expiry(Some(expiry::parse(text("Expiration")?)?)),
    )
}
