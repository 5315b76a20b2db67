//! The identity that a machine of Google's has by itself.

use std::time::Duration;

use http::header::HeaderValue;
use http::{HeaderMap, HeaderName, Method};

use super::exchange::{Asked, Exchange, Question, TOKEN, encode};
use super::{AccessToken, GoogleParts};
use crate::credentials::service::Route;
use crate::error::{ErrorKind, Result, Retry};
use crate::transport::Failure;

/// The variables of the server's address, in the order they are looked at.
pub(crate) const HOST_VARIABLES: [&str; 2] = ["GCE_METADATA_HOST", "GCE_METADATA_ROOT"];
pub(super) const HOST: &str = "metadata.google.internal";
/// How long the server may take where nobody says that there is one.
const PATIENCE: Duration = Duration::from_secs(3);

const ASKED: Asked = Asked {
    operation: "get the machine's own token",
    hint: "check that the machine has a service account, or give `token` or GOOGLE_APPLICATION_CREDENTIALS",
    wanted: TOKEN,
};

/// The machine's token, from the server that a variable names or else from `usual`; `None` where there is no
/// such server and nobody said that there is one.
pub(super) async fn token(
    exchange: &Exchange,
    parts: &GoogleParts,
    usual: &str,
    is_required: bool,
) -> Result<Option<AccessToken>> {
    let named = HOST_VARIABLES.iter().find_map(|name| parts.environment.get(name));
    let host = named.unwrap_or(usual);
    let scope = encode(parts.scope.url());
    let url = format!("http://{host}/computeMetadata/v1/instance/service-accounts/default/token?scopes={scope}");
    let flavor = (HeaderName::from_static("metadata-flavor"), HeaderValue::from_static("Google"));
    let question = Question {
        method: Method::GET,
        url,
        headers: HeaderMap::from_iter([flavor]),
        body: String::new(),
        secrets: Vec::new(),
        route: Route::Direct,
    };
    if is_required || named.is_some() {
        let answer = exchange.ask(ASKED, question).await.map_err(|failure| failure.error)?;
        return exchange.issued(ASKED, &answer).map(Some);
    }
    match tokio::time::timeout(PATIENCE, exchange.ask(ASKED, question)).await {
        Ok(Ok(answer)) => exchange.issued(ASKED, &answer).map(Some),
        // Nobody there, or somebody who is no such server.
        Err(_) => Ok(None),
        Ok(Err(failure)) if is_absent(&failure) => Ok(None),
        Ok(Err(failure)) => Err(failure.error),
    }
}

/// Whether a failure means that this is no machine of Google's.
fn is_absent(failure: &Failure) -> bool {
    let error = &failure.error;
    let unreached = error.retry() == Retry::Exhausted && matches!(error.kind(), ErrorKind::Io | ErrorKind::Timeout);
    unreached || error.kind() == ErrorKind::Unauthenticated || error.kind() == ErrorKind::Corrupt
}
