//! Secrets stay secret: not in `Debug`, not in errors, not in any log line of any library at trace level, not in
//! what `ckpt fs resolve` and `ckpt fs doctor` print.
//!
//! What must not show is read off the requests themselves: signatures, tokens, and the keys that they are made with.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::{Result, ensure};
use bytes::Bytes;
use checkpoint_fs::{CopyOptions, DeleteOptions, ObjectPath, ReadOptions, StorageExt, StorageRef, WriteOptions};
use checkpoint_testkit::proxy::{Hardship, Passing};
use checkpoint_tests::{Backend, Stand, on_each_backend};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

on_each_backend! { nothing_shows_a_secret }

/// Variables whose values are secret; all others may be shown.
const SECRET_VARIABLES: [&str; 6] = [
    "AWS_SECRET_ACCESS_KEY",
    "COS_SECRET_KEY",
    "OSS_ACCESS_KEY_SECRET",
    "TENCENTCLOUD_SECRET_KEY",
    "FSSPEC_GS_TOKEN",
    "AZURE_STORAGE_CONNECTION_STRING",
];

/// What every library of this process logs.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// The one of this process, listening from the first call on.
    fn of_process() -> &'static Self {
        static LOG: OnceLock<Log> = OnceLock::new();
        LOG.get_or_init(|| {
            let log = Log::default();
            tracing_subscriber::fmt()
                .with_max_level(LevelFilter::TRACE)
                .with_ansi(false)
                .with_writer(log.clone())
                .init();
            log
        })
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// What a request carries that lets others do the same: signatures and tokens, in headers and in the query.
fn carried(request: &Passing) -> Vec<String> {
    let mut secrets = Vec::new();
    for (name, value) in &request.headers {
        match name.as_str() {
            "authorization" => {
                // The end of it: `Bearer token`, `SharedKey account:signature`, `..., Signature=...`.
                let end = value.rsplit([' ', '=', ':', ',']).find(|part| part.len() >= 16);
                secrets.extend(end.map(str::to_owned));
            }
            "x-amz-security-token" | "x-cos-security-token" | "x-oss-security-token" | "x-tc-token" => {
                secrets.push(value.clone());
            }
            _ => {}
        }
    }
    let signed = request.query.split('&').filter_map(|pair| pair.split_once('='));
    let signed = signed.filter(|(name, _)| matches!(*name, "sig" | "X-Amz-Signature" | "sign" | "Signature"));
    secrets.extend(signed.map(|(_, value)| value.to_owned()));
    secrets
}

/// All that a job does, and what goes wrong: its errors and its `Debug`, as text.
async fn work(storage: &StorageRef) -> Result<String> {
    let path = |text: &str| ObjectPath::parse(text);
    let mut shown = format!("{storage:?}\n{storage:#?}\n");
    storage.write(&path("a b")?, "x".into(), WriteOptions::new()).await?.into_result("a b")?;
    let read = storage.read(&path("a b")?, ReadOptions::new()).await?;
    ensure!(read.bytes == "x");
    let mut writer = storage.writer(&path("large")?, WriteOptions::new()).await?;
    writer.write(Bytes::from(vec![7; 9 << 20])).await?;
    writeln!(shown, "{writer:?}")?;
    writer.finish().await?.into_result("large")?;
    storage.copy(&path("a b")?, &path("c")?, CopyOptions::new()).await?.into_result("c")?;
    storage.list_files(&ObjectPath::root(), true).await?;
    if let Err(error) = storage.read(&path("missing")?, ReadOptions::new()).await {
        writeln!(shown, "{error} {error:?} {error:#?} {:?}", error.hint())?;
    }
    storage.delete(&path("c")?, DeleteOptions::new()).await?;
    storage.delete_many(vec![path("a b")?, path("large")?], DeleteOptions::new()).await?;
    Ok(shown)
}

/// Errors of all kinds of answers, as text.
async fn errors(stand: &Stand, storage: &StorageRef) -> Result<String> {
    let mut shown = String::new();
    for (status, body) in [
        (400, "<Error><Code>InvalidArgument</Code><Message>No.</Message></Error>"),
        (403, "<Error><Code>SignatureDoesNotMatch</Code><Message>No.</Message></Error>"),
        (401, "{\"error\": {\"code\": 401, \"message\": \"No.\"}}"),
        (307, ""),
    ] {
        let headers = vec![("Location".to_owned(), "http://127.0.0.1:1/elsewhere".to_owned())];
        stand.proxy.plan(move |_| Some(Hardship::Answered { status, headers: headers.clone(), body: body.to_owned() }));
        let read = storage.read(&ObjectPath::parse("k")?, ReadOptions::new()).await.map(|read| read.bytes.len());
        let listed = storage.list_files(&ObjectPath::root(), true).await.map(|files| files.len());
        let opened = stand.open().await;
        writeln!(shown, "{read:?} {listed:?} {opened:?}")?;
        for error in [read.err(), listed.err(), opened.err()].into_iter().flatten() {
            writeln!(shown, "{error} {:?}", error.hint())?;
        }
    }
    stand.proxy.plan(|_| Some(Hardship::CutBody));
    let cut = storage.list_files(&ObjectPath::root(), true).await.map(|files| files.len());
    writeln!(shown, "{cut:?}")?;
    Ok(shown)
}

/// What the program prints, standard output and error together.
fn printed(stand: &Stand, args: &[&str]) -> Result<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ckpt-as-shipped"));
    let inherited = std::env::vars_os().filter(|(name, _)| name == "PATH" || name == "HOME" || name == "TMPDIR");
    command.env_clear().envs(inherited).envs(stand.variables());
    let output = command.args(args).arg(stand.url()).output()?;
    let text = [output.stdout, output.stderr].concat();
    ensure!(text.len() > 100, "it prints next to nothing: {}", String::from_utf8_lossy(&text));
    Ok(String::from_utf8_lossy(&text).into_owned())
}

async fn nothing_shows_a_secret(backend: Backend) -> Result<()> {
    let log = Log::of_process();
    let stand = Stand::start(backend).await?;
    let seen: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let watch = |hits: &Arc<Mutex<BTreeSet<String>>>| {
        let hits = Arc::clone(hits);
        move |request: &Passing| -> Option<Hardship> {
            hits.lock().unwrap_or_else(PoisonError::into_inner).extend(carried(request));
            None
        }
    };
    stand.proxy.plan(watch(&seen));
    let storage = stand.open().await?;
    let mut shown = work(&storage).await?;
    shown += &errors(&stand, &storage).await?;
    stand.proxy.plan(watch(&seen));
    let stand = Arc::new(stand);
    for args in
        [&["fs", "resolve"][..], &["fs", "resolve", "--json"], &["fs", "doctor", "-vv"], &["fs", "doctor", "--json"]]
    {
        let stand = Arc::clone(&stand);
        shown += &tokio::task::spawn_blocking(move || printed(&stand, args)).await??;
    }

    let mut secrets = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    ensure!(!secrets.is_empty(), "no request carried a signature or a token");
    for (name, value) in stand.variables() {
        if SECRET_VARIABLES.contains(&name) {
            // Of a connection string, the key alone is secret.
            let key = value.split(';').find_map(|part| part.strip_prefix("AccountKey=")).unwrap_or(&value);
            secrets.insert(key.to_owned());
        }
    }
    ensure!(secrets.iter().all(|secret| secret.len() >= 8), "too short to be looked for: {secrets:?}");
    let logged = log.text();
    ensure!(logged.contains("hyper_util") && logged.contains("checkpoint_fs"), "the log is not complete");
    for (place, text) in [("the log", &logged), ("what is shown", &shown)] {
        for secret in &secrets {
            if let Some(at) = text.find(secret.as_str()) {
                let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
                let line = text[start..].lines().next().unwrap_or_default();
                anyhow::bail!("{place} shows {secret:?}: {line}");
            }
        }
    }
    Ok(())
}
