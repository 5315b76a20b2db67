//! Servers that send clients elsewhere: nobody follows, so that no credentials reach another host.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, bail, ensure};
use checkpoint_fs::{DeleteOptions, ErrorKind, ObjectPath, StatOptions, StorageExt, WriteOutcome};
use checkpoint_testkit::proxy::Hardship;
use checkpoint_tests::{Backend, Stand, on_each_backend};
use tokio::net::TcpListener;

use crate::objects::{bounded, create, failed, get, path, put};

on_each_backend! { nobody_follows_a_redirect }

/// A listener that counts who comes.
async fn trap() -> Result<(String, Arc<AtomicUsize>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/stolen", listener.local_addr()?);
    let came = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&came);
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    Ok((url, came))
}

async fn nobody_follows_a_redirect(backend: Backend) -> Result<()> {
    let stand = Stand::start(backend).await?;
    // The other host is reached through the same proxy, if at all: what comes there is seen, too.
    let storage = stand.open().await?;
    put(&storage, "k", "x".into()).await?;
    let (trap, came) = trap().await?;
    let authority = trap.trim_start_matches("http://").split('/').next().unwrap_or_default().to_owned();
    for status in [301, 302, 303, 307, 308] {
        let headers = vec![("Location".to_owned(), trap.clone())];
        let stranger = authority.clone();
        let led_astray = Arc::new(AtomicUsize::new(0));
        let astray = Arc::clone(&led_astray);
        stand.proxy.plan(move |request| {
            if request.host == stranger {
                astray.fetch_add(1, Ordering::SeqCst);
            }
            Some(Hardship::Answered { status, headers: headers.clone(), body: String::new() })
        });
        let written = match bounded("write", create(&storage, "new", "x".into())).await? {
            Ok(WriteOutcome::Unknown(error)) | Err(error) => error,
            Ok(outcome) => bail!("{status}: {outcome:?}"),
        };
        let many = match bounded("delete", storage.delete_many(vec![path("k")?], DeleteOptions::new())).await? {
            Err(error) => error,
            Ok(failures) => match failures.into_iter().next() {
                Some(failure) => failure.error,
                None => bail!("{status}: it says that the object is deleted"),
            },
        };
        let errors = [
            failed("read", bounded("read", get(&storage, "k")).await?)?,
            failed("stat", bounded("stat", storage.stat(&path("k")?, StatOptions::new())).await?)?,
            failed("list", bounded("list", storage.list_files(&ObjectPath::root(), true)).await?)?,
            failed("delete", bounded("delete", storage.delete(&path("k")?, DeleteOptions::new())).await?)?,
            written,
            many,
        ];
        for error in errors {
            ensure!(matches!(error.kind(), ErrorKind::Io | ErrorKind::InvalidConfig), "{status}: {error:?}");
        }
        if backend == Backend::Tclake {
            failed("open", bounded("open", stand.open()).await?)?;
        }
        ensure!(led_astray.load(Ordering::SeqCst) == 0, "{status}: somebody followed");
    }
    ensure!(came.load(Ordering::SeqCst) == 0, "somebody followed");
    stand.proxy.calm();
    ensure!(get(&storage, "k").await? == "x", "nothing was done meanwhile");
    Ok(())
}
