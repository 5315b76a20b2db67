//! Connection strings: one text that holds an account, what authorizes it, and where it is.

use std::collections::BTreeMap;

use crate::error::{Error, Result};

/// The account that every emulator knows, and its key, which Microsoft publishes.
const EMULATOR_ACCOUNT: &str = "devstoreaccount1";
const EMULATOR_KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const EMULATOR_PORT: u16 = 10_000;

/// The domain of the public cloud's accounts.
pub(super) const PUBLIC_SUFFIX: &str = "core.windows.net";

/// What a connection string says. Holds secrets, and so has no `Debug`.
pub(super) struct Connection {
    pub(super) account: Option<String>,
    pub(super) key: Option<String>,
    pub(super) sas: Option<String>,
    /// The blob service's URL.
    pub(super) endpoint: String,
}

/// Parses a connection string. Names are taken in any case; values are never repeated in errors.
///
/// # Errors
/// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) that says what is missing; `source` names the text.
pub(super) fn parse(text: &str, source: &str) -> Result<Connection> {
    let wrong = |why: &str| {
        Error::invalid_config(format!("the connection string {why}: source={source}"))
            .with_hint("it looks like AccountName=...;AccountKey=...;EndpointSuffix=core.windows.net")
    };
    let mut parts = BTreeMap::new();
    for part in text.split(';').map(str::trim).filter(|p| !p.is_empty()) {
        let (name, value) = part.split_once('=').ok_or_else(|| wrong("has a part without `=`"))?;
        if parts.insert(name.trim().to_ascii_lowercase(), value.trim()).is_some() {
            return Err(wrong("names something twice"));
        }
    }
    let part = |name: &str| parts.get(name).copied().filter(|v| !v.is_empty());
    if part("usedevelopmentstorage").is_some_and(|v| v.eq_ignore_ascii_case("true")) {
        let host = part("developmentstorageproxyuri").unwrap_or("http://127.0.0.1").trim_end_matches('/');
        return Ok(Connection {
            account: Some(EMULATOR_ACCOUNT.to_owned()),
            key: Some(EMULATOR_KEY.to_owned()),
            sas: None,
            endpoint: format!("{host}:{EMULATOR_PORT}/{EMULATOR_ACCOUNT}"),
        });
    }
    let account = part("accountname");
    let (endpoint, attached) = match (part("blobendpoint"), account) {
        (Some(endpoint), _) => match endpoint.split_once('?') {
            Some((endpoint, sas)) => (endpoint.to_owned(), Some(sas)),
            None => (endpoint.to_owned(), None),
        },
        (None, Some(account)) => {
            let protocol = part("defaultendpointsprotocol").unwrap_or("https");
            (format!("{protocol}://{account}.blob.{}", part("endpointsuffix").unwrap_or(PUBLIC_SUFFIX)), None)
        }
        (None, None) => return Err(wrong("names neither an account nor a blob endpoint")),
    };
    let key = part("accountkey");
    if key.is_some() && account.is_none() {
        return Err(wrong("has an AccountKey without an AccountName"));
    }
    let sas = part("sharedaccesssignature").or(attached);
    let owned = |text: Option<&str>| text.map(str::to_owned);
    Ok(Connection { account: owned(account), key: owned(key), sas: owned(sas), endpoint })
}

#[cfg(test)]
mod tests {
    use super::*;

    type Parts<'p> = (Option<&'p str>, Option<&'p str>, Option<&'p str>, &'p str);

    #[test]
    fn all_forms_are_understood() {
        let emulator = "http://127.0.0.1:10000/devstoreaccount1";
        let cases: [(&str, Parts<'_>); 7] = [
            (
                "DefaultEndpointsProtocol=https;AccountName=acct;AccountKey=a2V5PT0=;EndpointSuffix=core.windows.net",
                (Some("acct"), Some("a2V5PT0="), None, "https://acct.blob.core.windows.net"),
            ),
            (
                "accountname=acct;ACCOUNTKEY=a2V5;endpointsuffix=core.chinacloudapi.cn;",
                (Some("acct"), Some("a2V5"), None, "https://acct.blob.core.chinacloudapi.cn"),
            ),
            (
                "DefaultEndpointsProtocol=http;AccountName=acct;AccountKey=a2V5",
                (Some("acct"), Some("a2V5"), None, "http://acct.blob.core.windows.net"),
            ),
            (
                "BlobEndpoint=http://127.0.0.1:1/devstoreaccount1;AccountName=devstoreaccount1;AccountKey=a2V5",
                (Some("devstoreaccount1"), Some("a2V5"), None, "http://127.0.0.1:1/devstoreaccount1"),
            ),
            (
                "BlobEndpoint=https://b.example;SharedAccessSignature=sv=1&sig=x%3D",
                (None, None, Some("sv=1&sig=x%3D"), "https://b.example"),
            ),
            ("BlobEndpoint=https://b.example/?sv=1&sig=x", (None, None, Some("sv=1&sig=x"), "https://b.example/")),
            ("AccountName=acct", (Some("acct"), None, None, "https://acct.blob.core.windows.net")),
        ];
        for (text, (account, key, sas, endpoint)) in cases {
            let found = parse(text, "test").expect(text);
            let got = (found.account.as_deref(), found.key.as_deref(), found.sas.as_deref(), found.endpoint.as_str());
            assert_eq!(got, (account, key, sas, endpoint), "{text}");
        }
        let found = parse("UseDevelopmentStorage=true", "test").expect("the emulator");
        assert_eq!((found.account.as_deref(), found.endpoint.as_str()), (Some(EMULATOR_ACCOUNT), emulator));
    }

    #[test]
    fn what_is_none_is_refused_without_its_values() {
        for text in
            ["hunter2", "AccountKey=hunter2", "AccountName=a;AccountName=hunter2", "EndpointSuffix=hunter2", ";"]
        {
            let error = parse(text, "environment: X").err().expect(text);
            assert!(error.to_string().contains("environment: X"), "{error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
