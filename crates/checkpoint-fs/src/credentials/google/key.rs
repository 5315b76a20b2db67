//! The kinds of credential files, read and checked.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use super::check_url;
use super::service_account::SigningKey;
use crate::credentials::Secret;

const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";

/// Credentials, of one of the kinds that Google's libraries write. `Debug` shows no secret.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Key {
    /// A service account with its private key.
    ServiceAccount(ServiceAccount),
    /// A user who has signed in.
    User(User),
    /// An identity of another provider, exchanged for one of Google's.
    External(External),
    /// Credentials that act as a service account.
    Impersonated(Impersonated),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServiceAccount {
    pub(super) email: String,
    pub(super) key_id: Option<String>,
    pub(super) key: SigningKey,
    pub(super) token_url: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct User {
    pub(super) client_id: String,
    pub(super) client_secret: Secret,
    pub(super) refresh_token: Secret,
    pub(super) token_url: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct External {
    pub(super) audience: String,
    pub(super) subject_token_type: String,
    pub(super) token_url: String,
    pub(super) subject: Subject,
    pub(super) subject_field: Option<String>,
    pub(super) client: Option<(String, Secret)>,
    pub(super) user_project: Option<String>,
    pub(super) impersonation: Option<Impersonation>,
}

/// Where the other provider's token is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Subject {
    File(PathBuf),
    Url { url: String, headers: BTreeMap<String, Secret> },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Impersonated {
    pub(super) source: Box<Key>,
    pub(super) impersonation: Impersonation,
}

/// Acting as a service account.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Impersonation {
    pub(super) url: String,
    pub(super) delegates: Vec<String>,
    pub(super) lifetime_seconds: u64,
}

impl Impersonation {
    /// The account's name, which its URL holds.
    fn principal(&self) -> Option<String> {
        let (_, rest) = self.url.split_once("/serviceAccounts/")?;
        Some(rest.split(':').next()?.to_owned()).filter(|name| !name.is_empty())
    }
}

/// A file as it is written; which fields count depends on its type.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Written {
    #[serde(rename = "type")]
    kind: Option<String>,
    client_email: Option<String>,
    private_key: Option<String>,
    private_key_id: Option<String>,
    token_uri: Option<String>,
    client_id: Option<String>,
    client_secret: Option<String>,
    refresh_token: Option<String>,
    audience: Option<String>,
    subject_token_type: Option<String>,
    token_url: Option<String>,
    credential_source: Option<Source>,
    workforce_pool_user_project: Option<String>,
    service_account_impersonation_url: Option<String>,
    service_account_impersonation: Option<Lifetime>,
    delegates: Option<Vec<String>>,
    source_credentials: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Source {
    file: Option<PathBuf>,
    url: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    format: Option<Format>,
    executable: Option<Value>,
    certificate: Option<Value>,
    environment_id: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Format {
    #[serde(rename = "type")]
    kind: Option<String>,
    subject_token_field_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Lifetime {
    token_lifetime_seconds: Option<u64>,
}

/// How long an impersonated token lives when nobody says it.
const LIFETIME: u64 = 3600;

impl Key {
    /// Reads the content of a credential file.
    ///
    /// # Errors
    /// What is wrong, as the end of a sentence; no value is repeated.
    pub(super) fn read(value: &Value) -> Result<Self, String> {
        // A parser's message could hold a value.
        let written = Written::deserialize(value).map_err(|_| "has a field of a wrong type".to_owned())?;
        let kind = written.kind.as_deref().unwrap_or(if written.private_key.is_some() {
            "service_account"
        } else {
            // What gcsfs has always taken: a user's three fields, without a type.
            "authorized_user"
        });
        match kind {
            "service_account" => written.service_account().map(Self::ServiceAccount),
            "authorized_user" => written.user().map(Self::User),
            "external_account" => written.external().map(Self::External),
            "impersonated_service_account" => written.impersonated().map(Self::Impersonated),
            other => Err(format!(
                "is of a type that is not supported here: type={other:?}; service_account, authorized_user, \
                 external_account and impersonated_service_account are"
            )),
        }
    }

    /// The public name of whoever this is.
    pub(super) fn principal(&self) -> Option<String> {
        match self {
            Self::ServiceAccount(account) => Some(account.email.clone()),
            Self::User(user) => Some(user.client_id.clone()),
            Self::External(external) => external.impersonation.as_ref().and_then(Impersonation::principal),
            Self::Impersonated(impersonated) => impersonated.impersonation.principal(),
        }
    }
}

impl Written {
    fn service_account(self) -> Result<ServiceAccount, String> {
        Ok(ServiceAccount {
            email: required(self.client_email, "client_email")?,
            key: SigningKey::from_pem(&required(self.private_key, "private_key")?)?,
            key_id: self.private_key_id,
            token_url: url(self.token_uri.unwrap_or_else(|| TOKEN_URL.to_owned()), "token_uri")?,
        })
    }

    fn user(self) -> Result<User, String> {
        Ok(User {
            client_id: required(self.client_id, "client_id")?,
            client_secret: Secret::new(required(self.client_secret, "client_secret")?),
            refresh_token: Secret::new(required(self.refresh_token, "refresh_token")?),
            token_url: url(self.token_uri.unwrap_or_else(|| TOKEN_URL.to_owned()), "token_uri")?,
        })
    }

    fn external(self) -> Result<External, String> {
        let source = self.credential_source.ok_or_else(|| missing("credential_source"))?;
        if source.executable.is_some() {
            return Err("gets its token from a program, which is not run here: use a file or a URL".to_owned());
        }
        if source.certificate.is_some() || source.environment_id.is_some() {
            return Err(
                "gets its token from AWS or a certificate, which is not supported here: use a file or a URL".to_owned()
            );
        }
        let subject = match (source.file, source.url) {
            (Some(file), None) => Subject::File(file),
            (None, Some(given)) => {
                let headers = source.headers.unwrap_or_default();
                // Machines tell who they are at addresses of their own network, so this need not be https.
                url::Url::parse(&given).map_err(|_| "has a credential_source.url that is not a URL".to_owned())?;
                Subject::Url { url: given, headers: headers.into_iter().map(|(k, v)| (k, Secret::new(v))).collect() }
            }
            _ => return Err("names neither or both of credential_source.file and credential_source.url".to_owned()),
        };
        let format = source.format.unwrap_or_default();
        let subject_field = match format.kind.as_deref() {
            None | Some("text") => None,
            Some("json") => {
                Some(required(format.subject_token_field_name, "credential_source.format.subject_token_field_name")?)
            }
            Some(_) => return Err("has a credential_source.format.type that is neither text nor json".to_owned()),
        };
        let lifetime = self.service_account_impersonation.and_then(|given| given.token_lifetime_seconds);
        let impersonation = match self.service_account_impersonation_url {
            Some(given) => Some(Impersonation {
                url: url(given, "service_account_impersonation_url")?,
                delegates: Vec::new(),
                lifetime_seconds: lifetime.unwrap_or(LIFETIME),
            }),
            None => None,
        };
        Ok(External {
            audience: required(self.audience, "audience")?,
            subject_token_type: required(self.subject_token_type, "subject_token_type")?,
            token_url: url(required(self.token_url, "token_url")?, "token_url")?,
            subject,
            subject_field,
            client: self.client_id.zip(self.client_secret.map(Secret::new)),
            user_project: self.workforce_pool_user_project,
            impersonation,
        })
    }

    fn impersonated(self) -> Result<Impersonated, String> {
        let source = self.source_credentials.ok_or_else(|| missing("source_credentials"))?;
        let source = Key::read(&source).map_err(|why| format!("has source_credentials whose file {why}"))?;
        if matches!(source, Key::Impersonated(_)) {
            return Err("has source_credentials that are impersonated themselves: name them in `delegates`".to_owned());
        }
        let given = required(self.service_account_impersonation_url, "service_account_impersonation_url")?;
        Ok(Impersonated {
            source: Box::new(source),
            impersonation: Impersonation {
                url: url(given, "service_account_impersonation_url")?,
                delegates: self.delegates.unwrap_or_default(),
                lifetime_seconds: LIFETIME,
            },
        })
    }
}

fn required(field: Option<String>, name: &str) -> Result<String, String> {
    field.filter(|text| !text.is_empty()).ok_or_else(|| missing(name))
}

fn missing(name: &str) -> String {
    format!("has no {name}")
}

fn url(text: String, name: &str) -> Result<String, String> {
    check_url(&text, name).map_err(|_| format!("has a {name} that is not an https URL"))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_or_unsupported_is_named_without_values() {
        let external = |source: Value| {
            json!({"type": "external_account", "audience": "a", "subject_token_type": "t",
                   "token_url": "https://sts.googleapis.com/v1/token", "credential_source": source})
        };
        for (value, expected) in [
            (json!({"type": "service_account", "client_email": "e"}), "no private_key"),
            (json!({"type": "service_account", "client_email": "e", "private_key": "hunter2"}), "private_key"),
            (json!({"client_id": "i", "client_secret": "hunter2"}), "no refresh_token"),
            (json!({"client_id": ["hunter2"]}), "wrong type"),
            (json!({"type": "gdch_service_account"}), "not supported"),
            (external(json!({"executable": {"command": "hunter2"}})), "program"),
            (external(json!({"environment_id": "aws1"})), "AWS"),
            (external(json!({})), "neither or both"),
            (external(json!({"file": "/t", "format": {"type": "json"}})), "subject_token_field_name"),
            (
                json!({"client_id": "i", "client_secret": "hunter2", "refresh_token": "r",
                       "token_uri": "http://evil.example/"}),
                "token_uri that is not an https URL",
            ),
        ] {
            let why = Key::read(&value).expect_err(expected);
            assert!(why.contains(expected) && !why.contains("hunter2"), "{why}");
        }
    }

    #[test]
    fn principals_are_public_names() {
        let user = json!({"client_id": "id", "client_secret": "hunter2", "refresh_token": "hunter3"});
        let key = Key::read(&user).expect("a user");
        assert_eq!(key.principal().as_deref(), Some("id"));
        let shown = format!("{key:?}");
        assert!(!shown.contains("hunter"), "{shown}");
        let url = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/sa@p.iam:generateAccessToken";
        let impersonated = json!({"type": "impersonated_service_account", "service_account_impersonation_url": url,
                                  "source_credentials": user});
        assert_eq!(Key::read(&impersonated).expect("valid").principal().as_deref(), Some("sa@p.iam"));
    }
}
