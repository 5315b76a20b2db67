//! The identity that a machine of Google's has by itself.

use std::time::Duration;

use super::exchange::{Asked, Exchange, encode};
use super::{AccessToken, GoogleParts};
use crate::error::{Error, ErrorKind, Result, Retry};

/// The variables of the server's address, in the order they are looked at.
pub(crate) const HOST_VARIABLES: [&str; 2] = ["GCE_METADATA_HOST", "GCE_METADATA_ROOT"];
pub(super) const HOST: &str = "metadata.google.internal";
/// How long the server may take where nobody says that there is one.
const PATIENCE: Duration = Duration::from_secs(3);

const ASKED: Asked = Asked {
    what: "the machine's own token",
    hint: "check that the machine has a service account, or give `token` or GOOGLE_APPLICATION_CREDENTIALS",
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
    let request = || exchange.direct().get(&url).header("metadata-flavor", "Google");
    if is_required || named.is_some() {
        let answer = exchange.ask(ASKED, request).await?;
        return exchange.issued(ASKED, answer).map(Some);
    }
    match tokio::time::timeout(PATIENCE, exchange.ask(ASKED, request)).await {
        Ok(Ok(answer)) => exchange.issued(ASKED, answer).map(Some),
        // Nobody there, or somebody who is no such server.
        Err(_) => Ok(None),
        Ok(Err(error)) if is_absent(&error) => Ok(None),
        Ok(Err(error)) => Err(error),
    }
}

/// Whether a failure means that this is no machine of Google's.
fn is_absent(error: &Error) -> bool {
    let unreached = error.retry() == Retry::Exhausted && matches!(error.kind(), ErrorKind::Io | ErrorKind::Timeout);
    unreached || error.kind() == ErrorKind::Unauthenticated || error.kind() == ErrorKind::Corrupt
}
