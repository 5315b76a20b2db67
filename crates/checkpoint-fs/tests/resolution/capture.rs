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
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
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
