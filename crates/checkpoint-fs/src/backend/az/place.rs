//! Where a location is: the container, the path in it, and what the URL says of the account.

use crate::error::{Error, Result};
use crate::location::Location;
use crate::path::ObjectPath;

/// The parts of a location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) container: String,
    /// The root of the storage in its container.
    pub(super) root: ObjectPath,
    /// The account, where the URL names one.
    pub(super) account: Option<String>,
    /// The host of the account's blob service, where the URL names one.
    pub(super) host: Option<String>,
}

const FORMS: &str = "write az://container/path, abfss://container@account.dfs.core.windows.net/path, or \
                     abfs://account.dfs.core.windows.net/container/path";

impl Place {
    /// Takes a location apart.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a container's name that is none, or a host that
    /// is no account's.
    pub(super) fn of(location: &Location) -> Result<Self> {
        let authority = location.authority();
        let place = if let Some((container, host)) = authority.split_once('@') {
            let (account, host) = match account_host(host) {
                Some((account, host)) => (account, Some(host)),
                // The bare name of an account.
                None if is_account(host) => (host.to_owned(), None),
                None => {
                    return Err(Error::invalid_config(format!("the URL names no account after '@': host={host:?}"))
                        .with_hint(FORMS));
                }
            };
            Self { container: container.to_owned(), root: location.path().clone(), account: Some(account), host }
        } else if let Some((account, host)) = account_host(authority) {
            let path = location.path().as_str();
            let (container, root) = path.split_once('/').unwrap_or((path, ""));
            let root = ObjectPath::parse(root)?;
            Self { container: container.to_owned(), root, account: Some(account), host: Some(host) }
        } else {
            Self { container: authority.to_owned(), root: location.path().clone(), account: None, host: None }
        };
        check_container(&place.container)?;
        Ok(place)
    }
}

/// The account and the host of its blob service, from `account.dfs.<suffix>` or `account.blob.<suffix>`.
fn account_host(host: &str) -> Option<(String, String)> {
    let mut labels = host.splitn(3, '.');
    let (account, service, suffix) = (labels.next()?, labels.next()?, labels.next()?);
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
    let fits = is_account(account)
        && matches!(service, "dfs" | "blob")
        && suffix.contains('.')
        && suffix.bytes().all(plain)
        && !suffix.split('.').any(str::is_empty);
    fits.then(|| (account.to_owned(), format!("{account}.blob.{suffix}")))
}

/// Whether a text could name an account.
pub(super) fn is_account(text: &str) -> bool {
    (3..=24).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

fn check_container(name: &str) -> Result<()> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let fits = matches!(name, "$root" | "$web" | "$logs")
        || ((3..=63).contains(&name.len())
            && name.bytes().all(plain)
            && !name.starts_with('-')
            && !name.ends_with('-')
            && !name.contains("--"));
    if fits {
        return Ok(());
    }
    Err(Error::invalid_config(format!("the container's name is not valid: container={name:?}")).with_hint(
        "a container's name has 3 to 63 lower-case letters, digits and single hyphens; az://container/path names it",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str) -> Result<Place> {
        Place::of(&Location::parse(url)?)
    }

    #[test]
    fn every_form_of_url() {
        let named = (Some("acct"), Some("acct.blob.core.windows.net"));
        for (url, root, (account, host)) in [
            ("az://data/a/b", "a/b", (None, None)),
            ("abfs://data", "", (None, None)),
            ("abfss://data@acct.dfs.core.windows.net/a", "a", named),
            ("az://data@acct.blob.core.windows.net/a/", "a", named),
            ("abfs://acct.dfs.core.windows.net/data/a/b", "a/b", named),
            ("abfs://acct.blob.core.windows.net/data", "", named),
            ("az://data@acct/a", "a", (Some("acct"), None)),
            (
                "abfss://data@acct.dfs.core.chinacloudapi.cn/a",
                "a",
                (Some("acct"), Some("acct.blob.core.chinacloudapi.cn")),
            ),
        ] {
            let got = place(url).expect(url);
            assert_eq!((got.container.as_str(), got.root.as_str()), ("data", root), "{url}");
            assert_eq!((got.account.as_deref(), got.host.as_deref()), (account, host), "{url}");
        }
        assert_eq!(place("az://$web/x").expect("valid").container, "$web");
    }

    #[test]
    fn what_names_no_container_or_account_is_refused() {
        for url in [
            "az://Data/x",
            "az://ab/x",
            "az://a_b_c/x",
            "az://-abc/x",
            "az://a--b/x",
            "az://data@host.example.com/x",
            "az://data@acct.file.core.windows.net/x",
            "az://data@acct.dfs.core.windows.net:8080/x",
            "abfs://acct.dfs.core.windows.net",
        ] {
            assert_eq!(place(url).expect_err(url).kind(), crate::ErrorKind::InvalidConfig);
        }
    }
}
