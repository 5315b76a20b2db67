use super::*;

#[tokio::test]
async fn deletes_files_and_empty_directories_and_nothing_more() {
    let (dir, storage) = scratch();
    put(&storage, "d/x", "1").await;
    put(&storage, "e", "1").await;
    for at in ["none", "none/below", "e/below", "d", ""] {
        storage.delete(&path(at), DeleteOptions::new()).await.expect("no error");
    }
    let root = dir.path().join("root");
    assert_eq!(on_disk(&root), ["d", "d/x", "e"]);
    storage.delete(&path("d/x"), DeleteOptions::new()).await.expect("deletes");
    assert_eq!(on_disk(&root), ["d", "e"], "parents stay");
    storage.delete(&path("d"), DeleteOptions::new()).await.expect("deletes");
    storage.delete(&path("e"), DeleteOptions::new()).await.expect("deletes");
    storage.delete(&ObjectPath::root(), DeleteOptions::new()).await.expect("deletes");
    assert!(!root.exists(), "an empty root goes when it is named");
    storage.delete(&ObjectPath::root(), DeleteOptions::new()).await.expect("no error");
}

#[tokio::test]
async fn many_are_deleted_deepest_first() {
    let (dir, storage) = scratch();
    for at in ["a/b/1", "a/b/2", "a/3", "4", "kept/5"] {
        put(&storage, at, "1").await;
    }
    let named = ["a", "a/b", "4", "a/3", "a/b/1", "a/b/2", "none", "none/6", "kept"].map(path).to_vec();
    let failures = storage.delete_many(named, DeleteOptions::new()).await.expect("answers");
    assert!(failures.is_empty(), "{failures:?}");
    assert_eq!(on_disk(&dir.path().join("root")), ["kept", "kept/5"]);
}

#[tokio::test]
async fn a_guard_that_refuses_half_way_stops_the_rest() {
    let (dir, storage) = scratch();
    for at in ["a/1", "b/2"] {
        put(&storage, at, "1").await;
    }
    let options = DeleteOptions::new().guard(guard_after(2));
    let error = storage.delete_many(vec![path("a/1"), path("b/2")], options).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(on_disk(&dir.path().join("root")), ["a", "a/1", "b"]);
    assert!(storage.delete(&path("a/1"), DeleteOptions::new().guard(guard_after(0))).await.is_err());
    assert!(dir.path().join("root/a/1").exists());
}
