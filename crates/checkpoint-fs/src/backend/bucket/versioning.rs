//! Whether a bucket keeps old versions: where it does, some stores take a conditional write for a plain one.

use bytes::Bytes;
use http::Method;

use super::storage::Inner;
use crate::backend::xml;
use crate::capability::Versioning;
use crate::error::{ErrorKind, Result, Retry};
use crate::path::ObjectPath;
use crate::transport::{AnswerForm, Failure};

/// Asks how the bucket is set up, with one request. `None` where the service does not say: credentials for
/// part of a bucket need not allow the question, and not every compatible store knows it.
///
/// # Errors
/// What would fail every other request as well: no connection, wrong credentials, no such bucket.
pub(super) async fn ask(inner: &Inner) -> Result<Option<Versioning>> {
    let call = inner.call("open", &ObjectPath::root(), None);
    let url = inner.config.address.url("", "versioning=");
    let request = inner.wire.request(Method::GET, url, Bytes::new(), AnswerForm::Document);
    match Box::pin(inner.transport.send(&call, &request)).await {
        Ok(answer) => Ok(status(&answer.body)),
        Err(failure) if is_unsaid(&failure) => {
            tracing::debug!(url = call.url, error = %failure.error, "whether the bucket keeps old versions is unknown");
            Ok(None)
        }
        Err(failure) => Err(failure.error),
    }
}

/// Whether the service answered, and only to this question not. Credentials that could not be had are no
/// answer of the service.
fn is_unsaid(failure: &Failure) -> bool {
    let Failure { error, status, .. } = failure;
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::Unsupported => status.is_some(),
        ErrorKind::Corrupt => true,
        ErrorKind::Io => status.is_some() && error.retry() == Retry::Never,
        _ => false,
    }
}

fn status(document: &[u8]) -> Option<Versioning> {
    let root = xml::parse(document).ok().filter(|root| root.name == "VersioningConfiguration")?;
    match root.child_text("Status").trim() {
        "" => Some(Versioning::Off),
        word if word.eq_ignore_ascii_case("enabled") => Some(Versioning::Enabled),
        word if word.eq_ignore_ascii_case("suspended") => Some(Versioning::Suspended),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let document =
            |inside: &str| format!("<VersioningConfiguration xmlns=\"x\">{inside}</VersioningConfiguration>");
        for (text, expected) in [
            (document(""), Some(Versioning::Off)),
            ("<VersioningConfiguration/>".to_owned(), Some(Versioning::Off)),
            (document("<Status>Enabled</Status>"), Some(Versioning::Enabled)),
            (document("\n<Status>Suspended</Status>\n"), Some(Versioning::Suspended)),
            (document("<Status>Perhaps</Status>"), None),
            ("<ListBucketResult></ListBucketResult>".to_owned(), None),
            ("<VersioningConfiguration>".to_owned(), None),
        ] {
            assert_eq!(status(text.as_bytes()), expected, "{text}");
        }
    }
}
