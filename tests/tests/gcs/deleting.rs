//! Deleting many objects at once: in what requests, and what is said of each.

use anyhow::{Result, ensure};
use checkpoint_fs::{DeleteOptions, ErrorKind, GsStorage, ObjectPath, Retry, Storage};
use checkpoint_testkit::mock::{GcsMock, GcsSettings, Trouble};
use serde_json::json;

use crate::bucket::{error_of, open, open_as, path, start, write_all};

/// 250 objects, of which one is kept for a while and one for good; gives where the deletes went.
async fn delete_where_some_are_kept(mock: &GcsMock, bucket: &str, storage: &GsStorage) -> Result<Vec<String>> {
    let names: Vec<String> = (0..250).map(|number| format!("k {number}&+%")).collect();
    let paths = names.iter().map(|name| path(name)).collect::<Result<_>>()?;
    write_all(storage, names).await?;
    mock.forget_requests();
    mock.keep_key("root/k 7&+%", 2);
    mock.keep_key("root/k 8&+%", 100);
    let failures = storage.delete_many(paths, DeleteOptions::new()).await?;
    let [failure] = failures.as_slice() else { anyhow::bail!("{failures:?}") };
    ensure!(failure.path == path("k 8&+%")? && failure.error.kind() == ErrorKind::RateLimited, "{failure:?}");
    ensure!(failure.error.retry() == Retry::Exhausted && failure.error.url().ends_with("k 8&+%"), "{failure:?}");
    ensure!(mock.names(bucket).0 == ["root/k 8&+%"], "{:?}", mock.names(bucket));
    Ok(mock.requests().into_iter().map(|request| format!("{}?{}", request.path, request.query)).collect())
}

#[tokio::test]
async fn deletes_go_a_thousand_to_a_request_and_each_has_its_own_answer() -> Result<()> {
    let (mock, bucket, storage) = start()?;
    ensure!(storage.capabilities().max_delete_batch == 1000);
    let seen = delete_where_some_are_kept(&mock, &bucket, &storage).await?;
    ensure!(seen == vec![format!("/{bucket}?delete"); 4], "one, and three more for what was kept: {seen:?}");
    let names: Vec<String> = (0..1_100).map(|number| format!("m/{number}")).collect();
    write_all(&storage, names.clone()).await?;
    mock.forget_requests();
    // Twice the same, and some that are not there.
    let named = names.iter().chain(&names[..50]).cloned().chain((0..50).map(|number| format!("none/{number}")));
    let paths = named.map(|name| path(&name)).collect::<Result<_>>()?;
    let failures = storage.delete_many(paths, DeleteOptions::new()).await?;
    ensure!(failures.is_empty() && mock.requests().len() == 2, "{failures:?}");
    ensure!(mock.names(&bucket).0 == ["root/k 8&+%"]);
    for request in mock.requests() {
        ensure!(request.header("content-md5").is_some() && request.status == 200, "{request:?}");
    }
    Ok(())
}

#[tokio::test]
async fn servers_in_the_services_place_get_batches_of_a_hundred() -> Result<()> {
    let mock = GcsMock::start(GcsSettings::default())?;
    let bucket = mock.new_bucket();
    let storage = open_as(&mock, &bucket, json!({}), false)?;
    ensure!(storage.capabilities().max_delete_batch == 100);
    let seen = delete_where_some_are_kept(&mock, &bucket, &storage).await?;
    ensure!(seen == ["/batch/storage/v1?"; 6], "three batches, and three more for what was kept: {seen:?}");
    Ok(())
}

#[tokio::test]
async fn a_multi_delete_carries_odd_keys_and_what_it_cannot_goes_elsewhere() -> Result<()> {
    let (mock, bucket, storage) = start()?;
    let odd =
        [" a ", "b&c", "<d>", "\"e\"", "f'g", "h+i%20", "j\u{e9}\u{1F600}", "k\tl", "]]>", "&amp;", "m;n=o", "p?q#r"];
    let named = odd.iter().copied().chain(["control\u{1}"]);
    write_all(&storage, named.clone().map(str::to_owned).collect()).await?;
    ensure!(mock.names(&bucket).0.len() == 13);
    mock.forget_requests();
    let paths = named.map(path).collect::<Result<_>>()?;
    let failures = storage.delete_many(paths, DeleteOptions::new()).await?;
    ensure!(failures.is_empty() && mock.names(&bucket).0.is_empty(), "{failures:?} {:?}", mock.names(&bucket));
    let seen: Vec<String> = mock.requests().into_iter().map(|request| request.path).collect();
    ensure!(seen == [format!("/{bucket}"), "/batch/storage/v1".to_owned()], "{seen:?}");
    Ok(())
}

#[tokio::test]
async fn what_a_multi_delete_says_of_a_key_is_heard() -> Result<()> {
    let (mock, bucket, storage) = start()?;
    let names = ["fine", "gone", "held", "denied", "once", "unsaid"];
    write_all(&storage, names.map(str::to_owned).to_vec()).await?;
    for (name, code, times) in [
        ("gone", "NoSuchKey", 1),
        ("held", "ObjectUnderActiveHold", 100),
        ("denied", "AccessDenied", 100),
        ("once", "InternalError", 1),
        ("unsaid", "", 1),
    ] {
        mock.keep_key_as(&format!("root/{name}"), code, times);
    }
    mock.forget_requests();
    let paths = names.map(ObjectPath::parse).into_iter().collect::<Result<_, _>>()?;
    let mut failures = storage.delete_many(paths, DeleteOptions::new()).await?;
    failures.sort_by(|a, b| a.path.cmp(&b.path));
    let said: Vec<_> = failures.iter().map(|f| (f.path.as_str(), f.error.kind(), f.error.service_code())).collect();
    ensure!(
        said == [
            ("denied", ErrorKind::PermissionDenied, Some("AccessDenied")),
            ("held", ErrorKind::PermissionDenied, Some("ObjectUnderActiveHold")),
        ],
        "{failures:?}"
    );
    // The key of which nothing was said is gone, and not by the first request.
    ensure!(mock.names(&bucket).0 == ["root/denied", "root/gone", "root/held"], "{:?}", mock.names(&bucket));
    let seen: Vec<String> = mock.requests().into_iter().map(|request| request.path).collect();
    ensure!(seen == [format!("/{bucket}"), format!("/{bucket}"), "/batch/storage/v1".to_owned()], "{seen:?}");
    Ok(())
}

/// Wrong tokens, requests that are too many, answers that are lost.
#[tokio::test]
async fn a_multi_delete_is_refused_and_repeated_like_any_request() -> Result<()> {
    let (mock, bucket, storage) = start()?;
    write_all(&storage, ["a", "b"].map(str::to_owned).to_vec()).await?;
    let both = || vec![ObjectPath::parse("a").expect("valid"), ObjectPath::parse("b").expect("valid")];
    let stranger = open(&mock, &bucket, json!({"token": "ya29.of-somebody-else"}))?;
    let error = error_of(stranger.delete_many(both(), DeleteOptions::new()).await)?;
    ensure!(error.kind() == ErrorKind::Unauthenticated && error.hint().is_some(), "{error:?}");
    ensure!(error.operation() == "delete_many" && error.url().contains(&bucket), "{error:?}");
    for trouble in [Trouble::SlowDown, Trouble::InternalError, Trouble::LostAnswer] {
        mock.forget_requests();
        mock.trouble_next(trouble, 2);
        let failures = storage.delete_many(both(), DeleteOptions::new()).await?;
        ensure!(failures.is_empty() && mock.names(&bucket).0.is_empty(), "{failures:?}");
        let seen = mock.requests();
        ensure!(seen.len() == 3 && seen.iter().all(|request| request.path == format!("/{bucket}")), "{seen:?}");
        write_all(&storage, ["a", "b"].map(str::to_owned).to_vec()).await?;
    }
    mock.trouble_next(Trouble::SlowDown, 4);
    let error = error_of(storage.delete_many(both(), DeleteOptions::new()).await)?;
    ensure!(error.kind() == ErrorKind::RateLimited && error.retry() == Retry::Exhausted, "{error:?}");
    ensure!(mock.names(&bucket).0.len() == 2);
    Ok(())
}
