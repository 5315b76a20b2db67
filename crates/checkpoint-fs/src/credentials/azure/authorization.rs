//! The three ways in which Azure authorizes a request, and how [`Credentials`] hold each.

use std::time::SystemTime;

use crate::credentials::Credentials;

/// The public name of a shared access signature; account names have no upper-case letters.
const SAS_NAME: &str = "SAS";

/// What authorizes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Authorization<'c> {
    /// A signature made with the account's key.
    SharedKey { account: &'c str, key: &'c str },
    /// A query that was signed before, without its question mark.
    Sas(&'c str),
    /// A token of Entra ID.
    Bearer(&'c str),
}

impl<'c> Authorization<'c> {
    /// Reads credentials that one of the functions below made. Those from elsewhere are a token when they
    /// have a session token, and an account with its key otherwise.
    pub(crate) fn of(credentials: &'c Credentials) -> Self {
        if let Some(token) = credentials.session_token() {
            return Self::Bearer(token.expose());
        }
        let (account, secret) = (credentials.access_key_id(), credentials.secret_access_key().expose());
        if account == SAS_NAME { Self::Sas(secret) } else { Self::SharedKey { account, key: secret } }
    }
}

/// An account and its key.
pub(crate) fn shared_key(account: &str, key: &str) -> Credentials {
    Credentials::new(account, key)
}

/// A shared access signature.
pub(crate) fn sas(token: &str) -> Credentials {
    Credentials::new(SAS_NAME, token)
}

/// A token of Entra ID; `name` is the public name of whom it was given to.
pub(crate) fn bearer(name: &str, token: &str, expires_at: Option<SystemTime>) -> Credentials {
    Credentials::new(name, "").with_session_token(Some(token.to_owned())).with_expiry(expires_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_hold_each_way() {
        let key = shared_key("sas", "a2V5");
        assert_eq!(Authorization::of(&key), Authorization::SharedKey { account: "sas", key: "a2V5" });
        assert_eq!(Authorization::of(&sas("sv=1&sig=x")), Authorization::Sas("sv=1&sig=x"));
        let token = bearer("client", "eyJ0", None);
        assert_eq!(Authorization::of(&token), Authorization::Bearer("eyJ0"));
        assert!(!format!("{key:?} {token:?}").contains("eyJ0"));
    }
}
