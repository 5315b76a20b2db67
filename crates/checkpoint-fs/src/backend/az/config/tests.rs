use super::*;
use crate::ErrorKind;
use crate::options::StorageOptions;

fn resolve(url: &str, options: serde_json::Value, variables: &[(&str, &str)]) -> Result<AzConfig> {
    let context = OpenContext {
        options: StorageOptions::from_value(serde_json::json!({"az": options})).expect("the right shape"),
        environment: variables.iter().copied().collect(),
    };
    AzConfig::resolve(&Location::parse(url)?, &context)
}

const CONNECTION: &str = "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:1/devstoreaccount1";

#[test]
fn accounts_and_endpoints_by_precedence() {
    let of_connection = ("devstoreaccount1", "http://127.0.0.1:1/devstoreaccount1");
    let public = ("acct", "https://acct.blob.core.windows.net");
    let variable = [("AZURE_STORAGE_CONNECTION_STRING", CONNECTION)];
    let account = [("AZURE_STORAGE_ACCOUNT_NAME", "acct")];
    for (url, options, variables, (name, endpoint), source) in [
        ("az://data", serde_json::json!({"account_name": "acct"}), &[][..], public, "default of Azure"),
        ("az://data", serde_json::json!({}), &account[..], public, "default of Azure"),
        ("az://data", serde_json::json!({"account_name": "acct"}), &variable[..], public, "default of Azure"),
        ("abfss://data@acct.dfs.core.windows.net", serde_json::json!({}), &variable[..], public, "URL"),
        (
            "az://data",
            serde_json::json!({}),
            &variable[..],
            of_connection,
            "environment: AZURE_STORAGE_CONNECTION_STRING",
        ),
        (
            "az://data",
            serde_json::json!({"connection_string": CONNECTION}),
            &account[..],
            of_connection,
            "options: connection_string",
        ),
        (
            "az://data@acct",
            serde_json::json!({"account_host": "acct.blob.core.usgovcloudapi.net"}),
            &[],
            ("acct", "https://acct.blob.core.usgovcloudapi.net"),
            "options: account_host",
        ),
        (
            "az://data",
            serde_json::json!({"account_host": "http://127.0.0.1:1/devstoreaccount1/"}),
            &[],
            of_connection,
            "options: account_host",
        ),
    ] {
        let options_and_key = {
            let mut options = options.clone();
            if options.get("connection_string").is_none() && !variables.iter().any(|(_, v)| *v == CONNECTION) {
                options["account_key"] = "a2V5".into();
            }
            options
        };
        let config = resolve(url, options_and_key, variables).expect(url);
        assert_eq!((config.account().value.as_str(), config.endpoint().value.as_str()), (name, endpoint), "{options}");
        assert_eq!(config.endpoint().source, source, "{options}");
    }
}

#[tokio::test]
async fn credentials_by_precedence() {
    let key = ("AZURE_STORAGE_ACCOUNT_KEY", "ZW52");
    let anon = ("AZURE_STORAGE_ANON", "true");
    let principal = [
        ("AZURE_STORAGE_CLIENT_ID", "app"),
        ("AZURE_STORAGE_CLIENT_SECRET", "hunter2"),
        ("AZURE_STORAGE_TENANT_ID", "contoso.com"),
    ];
    for (options, variables, source, name) in [
        (serde_json::json!({"account_key": "b3B0"}), vec![key], "options: account_key", Some("acct")),
        (serde_json::json!({"sas_token": "?sv=1&sig=x"}), vec![key], "options: sas_token", Some("SAS")),
        (serde_json::json!({}), vec![key], "environment: AZURE_STORAGE_ACCOUNT_KEY", Some("acct")),
        (serde_json::json!({}), vec![key, anon], "environment: AZURE_STORAGE_ACCOUNT_KEY", Some("acct")),
        (serde_json::json!({"anon": true}), vec![key], "options: anon", None),
        (serde_json::json!({"anon": true, "account_key": "b3B0"}), vec![], "options: account_key", Some("acct")),
        (serde_json::json!({}), vec![anon], "environment: AZURE_STORAGE_ANON", None),
        (serde_json::json!({"anon": false}), vec![anon], "managed identity", None),
        (serde_json::json!({}), vec![("AZURE_STORAGE_ANON", "F")], "managed identity", None),
        (serde_json::json!({}), principal.to_vec(), "environment: AZURE_STORAGE_CLIENT_ID", Some("app")),
        (
            serde_json::json!({"client_id": "own", "client_secret": "hunter2", "tenant_id": "contoso.com"}),
            vec![key],
            "options: client_id",
            Some("own"),
        ),
        (serde_json::json!({}), vec![("AZURE_STORAGE_ACCOUNT_NAME", "other"), key], "managed identity", None),
    ] {
        let mut with_account = options.clone();
        with_account["account_name"] = "acct".into();
        let config = resolve("az://data", with_account, &variables).expect("valid");
        let shown = config.resolution(&Location::parse("az://data/x").expect("valid"));
        assert_eq!(shown.sources["credentials"], source, "{options} {variables:?}");
        assert_eq!(shown.access_key_id.as_deref(), name, "{options} {variables:?}");
        assert_eq!(shown.anonymous, config.is_anonymous());
        assert!(!format!("{config:?}").contains("hunter2"), "{config:?}");
    }
}

#[test]
fn resolutions_show_urls_and_no_secret() {
    let options = serde_json::json!({"account_name": "acct", "sas_token": "sv=1&sig=hunter2"});
    let location = Location::parse("abfs://data/dir/a b").expect("valid");
    let shown = resolve("abfs://data/dir/a b", options, &[]).expect("valid").resolution(&location);
    assert_eq!(shown.object_url.as_deref(), Some("https://acct.blob.core.windows.net/data/dir/a%20b"));
    let list = "https://acct.blob.core.windows.net/data?restype=container&comp=list&prefix=dir%2F&delimiter=%2F&include=metadata";
    assert_eq!(shown.list_url.as_deref(), Some(list));
    assert_eq!((shown.scheme.as_str(), shown.backend.as_str(), shown.bucket.as_deref()), ("abfs", "az", Some("data")));
    assert!(!format!("{shown:?}").contains("hunter2"), "{shown:?}");
}

#[test]
fn what_is_wrong_or_contradicts_itself_is_refused() {
    for (url, options, expected) in [
        ("az://data", serde_json::json!({}), "no storage account is named"),
        ("az://data@acct", serde_json::json!({"account_name": "other"}), "account_name differ"),
        ("az://data@acct", serde_json::json!({"connection_string": CONNECTION}), "for another account"),
        ("az://data", serde_json::json!({"account_name": "Acct.blob"}), "not the name of an account"),
        ("az://data@acct", serde_json::json!({"account_key": "hunter2!"}), "not base64"),
        ("az://data@acct", serde_json::json!({"sas_token": "hunter2"}), "has no `sig=`"),
        ("az://data@acct", serde_json::json!({"client_id": "app"}), "without `client_secret`"),
        ("az://data@acct", serde_json::json!({"account_host": "ftp://x"}), "neither http nor https"),
        ("az://data@acct", serde_json::json!({"account_host": "user:hunter2@x"}), "holds credentials"),
        ("az://data@acct", serde_json::json!({"account_host": "http://b.example"}), "a token is not sent over http"),
    ] {
        let error = resolve(url, options, &[]).expect_err(expected);
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
    let misplaced = [("AZURE_STORAGE_ACCOUNT_NAME", "AccountName=acct;AccountKey=hunter2=")];
    let error = resolve("az://data", serde_json::json!({}), &misplaced).expect_err("no name");
    assert!(error.to_string().contains("AZURE_STORAGE_ACCOUNT_NAME"), "{error}");
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
}

#[test]
fn options_are_checked_without_an_account() {
    let check = |options: serde_json::Value| {
        AzConfig::check(&OpenContext {
            options: StorageOptions::from_value(serde_json::json!({"az": options})).expect("the right shape"),
            environment: Environment::default(),
        })
    };
    check(serde_json::json!({"account_key": "a2V5"})).expect("the URL may name the account");
    check(serde_json::json!({"account_key": "!"})).expect_err("never a key");
}
