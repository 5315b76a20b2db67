//! Signing, as far as OAuth has any: the token goes along.

use std::time::SystemTime;

use bytes::Bytes;
use http::HeaderValue;
use http::header::AUTHORIZATION;

use crate::credentials::Credentials;
use crate::error::{Error, Result};
use crate::transport::Signer;

/// Sends the credentials' secret as a bearer token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bearer;

impl Signer for Bearer {
    fn sign(&self, request: &mut http::Request<Bytes>, credentials: &Credentials, _now: SystemTime) -> Result<()> {
        let text = format!("Bearer {}", credentials.secret_access_key().expose());
        // The cause is left out, as it could hold the token.
        let mut value = HeaderValue::from_str(&text).map_err(|_| {
            Error::invalid_config("the access token cannot be sent in a header")
                .with_hint("check that `token` is a token and holds no line breaks or other control characters")
        })?;
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_sent_and_not_shown() {
        let sign = |token: &str| {
            let mut request = http::Request::get("http://host/o").body(Bytes::new()).expect("valid");
            Bearer.sign(&mut request, &Credentials::new("oauth2", token), SystemTime::UNIX_EPOCH).map(|()| request)
        };
        let request = sign("ya29.hunter2").expect("signs");
        assert_eq!(request.headers()[AUTHORIZATION], "Bearer ya29.hunter2");
        assert!(!format!("{:?}", request.headers()).contains("hunter2"));
        let error = sign("hunter2\nX: y").expect_err("two lines");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}
