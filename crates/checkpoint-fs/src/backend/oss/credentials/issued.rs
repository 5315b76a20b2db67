//! Temporary credentials as Alibaba's services hand them out.

use std::time::SystemTime;

use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use serde::Deserialize;
use serde_json::Value;

use crate::credentials::Credentials;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::ServiceError;

/// The words of an answer that refuses.
pub(crate) fn words(answer: &Value) -> ServiceError {
    let text = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    ServiceError { code: text("Code"), message: text("Message"), request_id: text("RequestId") }
}

/// The fields that the metadata service and STS share. `Debug` is left out on purpose.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Issued {
    access_key_id: String,
    access_key_secret: String,
    security_token: String,
    expiration: String,
}

impl Issued {
    /// As credentials that end when they say.
    ///
    /// # Errors
    /// [`Unauthenticated`](ErrorKind::Unauthenticated) for an end that is no time.
    pub(crate) fn into_credentials(self, source: &str) -> Result<Credentials> {
        let end = DateTime::from_str(&self.expiration, Format::DateTimeWithOffset)
            .ok()
            .and_then(|time| SystemTime::try_from(time).ok())
            .ok_or_else(|| {
                Error::new(ErrorKind::Unauthenticated, format!("credentials end at no time: from={source}"))
            })?;
        Ok(Credentials::new(self.access_key_id, self.access_key_secret)
            .with_session_token(Some(self.security_token))
            .with_expiry(Some(end))
            .with_source(source))
    }
}
