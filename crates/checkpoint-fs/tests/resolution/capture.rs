//! The URLs that `resolve` gives are those that requests go to: a proxy sees each of them whole.

use std::sync::{Arc, Mutex, PoisonError};

use checkpoint_fs::{Environment, ListOptions, ObjectPath, ReadOptions, Registry, StorageOptions};
use futures::TryStreamExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const LISTING: &str = "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";

/// A proxy that answers by itself, and remembers the URLs it was asked for.
struct Proxy {
    url: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&log)));
            }
        });
        Self { url, seen }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Answers requests without bodies until the client goes.
async fn serve(mut stream: TcpStream, seen: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while let Ok(byte) = stream.read_u8().await {
        head.push(byte);
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        let text = String::from_utf8_lossy(&head).into_owned();
        head.clear();
        let url = text.split(' ').nth(1).unwrap_or_default().to_owned();
        let body = if url.contains("list-type=2") { LISTING } else { "bytes" };
        seen.lock().unwrap_or_else(PoisonError::into_inner).push(url);
        let answer = format!("HTTP/1.1 200 OK\r\netag: \"1\"\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn options(proxy: &Proxy, mut kwargs: Value) -> StorageOptions {
    kwargs["key"] = json!("AK");
    kwargs["secret"] = json!("SK");
    let config = kwargs.as_object_mut().expect("an object").entry("config_kwargs").or_insert_with(|| json!({}));
    config["proxies"] = json!({"http": proxy.url});
    StorageOptions::from_value(json!({"s3": kwargs})).expect("the right shape")
}

#[tokio::test]
async fn requests_go_where_resolve_says() {
    let proxy = Proxy::start().await;
    let registry = Registry::with_environment(Environment::default());
    let virtual_style = json!({"s3": {"addressing_style": "virtual"}});
    for (url, kwargs) in [
        ("s3://my-bucket/dir/obj.bin", json!({"use_ssl": false})),
        ("s3://my.dotted/dir/obj.bin", json!({"use_ssl": false, "client_kwargs": {"region_name": "eu-west-1"}})),
        ("s3://my-bucket/dir/obj.bin", json!({"endpoint_url": "http://minio.local/pre/"})),
        ("s3://my-bucket/a/b", json!({"endpoint_url": "http://minio.local/pre", "config_kwargs": virtual_style})),
        ("s3a://my-bucket/a b+c/é%2F~!*'()=&@:,;#?", json!({"endpoint_url": "http://minio.local:9000"})),
        ("s3://my-bucket/top", json!({"endpoint_url": "http://10.0.0.1", "config_kwargs": virtual_style})),
    ] {
        let options = options(&proxy, kwargs);
        let resolution = registry.resolve(url, &options).await.expect("valid");
        let (storage, name) = registry.open(url, &options).await.expect("opens");
        storage.read(&name, ReadOptions::new()).await.expect("answered");
        assert_eq!(proxy.take(), [resolution.object_url.expect("given")], "{url}");
        let listed = storage.list(&ObjectPath::root(), ListOptions::new()).try_collect::<Vec<_>>().await;
        assert!(listed.expect("answered").is_empty());
        assert_eq!(proxy.take(), [resolution.list_url.expect("given")], "{url}");
    }
}

#[tokio::test]
async fn a_url_that_ends_in_a_slash_names_the_directory_that_is_listed() {
    let proxy = Proxy::start().await;
    let registry = Registry::with_environment(Environment::default());
    for (url, key, prefix) in [
        ("s3://my-bucket/a/dir/", "a/dir", "a%2Fdir%2F"),
        ("s3://my-bucket/a/dir", "a/dir", "a%2F"),
        ("s3://my-bucket/", "", ""),
    ] {
        let options = options(&proxy, json!({"endpoint_url": "http://minio.local"}));
        let resolution = registry.resolve(url, &options).await.expect("valid");
        assert_eq!(resolution.key, key, "{url}");
        let listed = resolution.list_url.expect("given");
        assert!(listed.contains(&format!("&prefix={prefix}&")), "{url}: {listed}");
        if url.ends_with('/') {
            let storage = registry.open_dir(url, &options).await.expect("opens");
            let entries = storage.list(&ObjectPath::root(), ListOptions::new()).try_collect::<Vec<_>>().await;
            assert!(entries.expect("answered").is_empty());
            assert_eq!(proxy.take(), [listed], "{url}");
        }
    }
}

#[tokio::test]
async fn the_slash_means_the_same_to_every_store() {
    let registry = Registry::with_environment(Environment::default());
    let options = StorageOptions::from_value(json!({
        "cos": {"anon": true, "region": "ap-guangzhou"},
        "oss": {"anon": true, "region": "cn-hangzhou"},
        "gs": {"token": "anon"},
        "az": {"anon": true, "account_name": "acct"},
    }))
    .expect("the right shape");
    for directory in ["cos://bkt-1250000000/a/dir", "oss://bkt/a/dir", "gs://bkt/a/dir", "az://bkt/a/dir"] {
        let of = async |url: String| registry.resolve(&url, &options).await.expect("valid").list_url.expect("given");
        let inside = of(format!("{directory}/object")).await;
        assert_eq!(of(format!("{directory}/")).await, inside);
        assert_ne!(of(directory.to_owned()).await, inside);
    }
}

#[tokio::test]
async fn a_missing_profile_is_blamed_on_who_named_it() {
    let named = json!({"s3": {"profile": "nowhere"}});
    for (variables, options, source) in [
        (&[("FSSPEC_S3_PROFILE", "nowhere")][..], json!({}), "environment: FSSPEC_S3_PROFILE"),
        (&[("AWS_PROFILE", "nowhere")], json!({}), "environment: AWS_PROFILE"),
        (&[("AWS_PROFILE", "elsewhere")], named, "options: profile"),
    ] {
        let registry = Registry::with_environment(variables.iter().copied().collect());
        let options = StorageOptions::from_value(options).expect("the right shape");
        let error = registry.resolve("s3://my-bucket/x", &options).await.expect_err("there is none");
        let text = error.to_string();
        assert!(text.contains("nowhere") && text.contains(&format!("source={source:?}")), "{text}");
    }
}
