//! The registry from outside: another crate's scheme, and what unknown names are told.

use std::sync::Arc;

use async_trait::async_trait;
use checkpoint_fs::{
    Environment, ErrorKind, Location, MemoryStorage, ObjectPath, OpenContext, OptionUse, ReadOptions, Registry, Result,
    Scheme, StorageExt, StorageOptions, StorageRef, WriteOptions,
};

/// A scheme as an engine would add it: its own names, options and storage.
#[derive(Debug)]
struct Attic;

#[async_trait]
impl Scheme for Attic {
    fn names(&self) -> &'static [&'static str] {
        &["attic", "loft"]
    }

    fn check_options(&self, context: &OpenContext) -> Result<()> {
        let mut kwargs = context.options.kwargs(self.names());
        kwargs.count("boxes", 1);
        kwargs.nested("door", |door| door.text("lock"));
        kwargs.ignored(&["light"], "it is dark there");
        kwargs.refused(&["lift"], "there are stairs");
        kwargs.finish()
    }

    async fn open(&self, location: &Location, context: &OpenContext) -> Result<StorageRef> {
        let key = context.environment.get("ATTIC_KEY").unwrap_or("none");
        Ok(Arc::new(MemoryStorage::new(&format!("{location}#key={key}"))))
    }
}

fn registry() -> Registry {
    let environment = [("ATTIC_KEY", "under the mat")].into_iter().collect::<Environment>();
    let mut registry = Registry::with_environment(environment);
    registry.register(Arc::new(Attic));
    registry
}

fn options(json: &str) -> StorageOptions {
    StorageOptions::from_json(json).expect("JSON")
}

#[tokio::test]
async fn a_crate_outside_adds_a_scheme() {
    let registry = registry();
    let given = options(r#"{"attic": {"boxes": 3}, "file": {"fsync": false}}"#);
    let (storage, path) = registry.open("attic://house/old/letters", &given).await.expect("opens");
    assert_eq!((storage.url(), path.as_str()), ("attic://house/old#key=under the mat", "letters"));
    let _ = storage.write(&path, "dear".into(), WriteOptions::new()).await.expect("writes");
    assert_eq!(&storage.read(&path, ReadOptions::new()).await.expect("reads").bytes[..], b"dear");
    let loft = registry.open_dir("LOFT://house/", &StorageOptions::new()).await.expect("the other name, in any case");
    assert_eq!(loft.url_of(&ObjectPath::root()), "loft://house#key=under the mat");
    assert!(registry.names().any(|name| name == "attic") && registry.names().any(|name| name == "file"));
}

#[tokio::test]
async fn a_newcomer_takes_a_name_that_is_taken() {
    #[derive(Debug)]
    struct Impostor;

    #[async_trait]
    impl Scheme for Impostor {
        fn names(&self) -> &'static [&'static str] {
            &["memory"]
        }

        fn check_options(&self, _context: &OpenContext) -> Result<()> {
            Ok(())
        }

        async fn open(&self, _location: &Location, _context: &OpenContext) -> Result<StorageRef> {
            Ok(Arc::new(MemoryStorage::new("impostor")))
        }
    }

    let mut registry = registry();
    registry.register(Arc::new(Impostor));
    let storage = registry.open_dir("memory://x", &StorageOptions::new()).await.expect("opens");
    assert_eq!(storage.url(), "impostor");
}

#[tokio::test]
async fn an_unknown_scheme_is_told_the_nearest_and_all() {
    for (url, near) in [("atic://x/y", Some("attic://")), ("memroy://x", Some("memory://")), ("qqq://x/y", None)] {
        let error = registry().open_dir(url, &StorageOptions::new()).await.expect_err("unknown");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{url}");
        let scheme = url.split_once("://").expect("a URL").0;
        assert!(error.message().contains(scheme), "{error}");
        let hint = error.hint().expect("a hint");
        assert!(hint.contains("attic") && hint.contains("file"), "names the known ones: {hint}");
        assert_eq!(hint.contains("did you mean"), near.is_some(), "{hint}");
        assert!(near.is_none_or(|near| hint.contains(near)), "{hint}");
    }
}

#[tokio::test]
async fn options_of_any_protocol_are_checked_before_anything_opens() {
    let cases = [
        (r#"{"attik": {}}"#, "did you mean `attic`"),
        (r#"{"zzzzz": {"key": "hunter2"}}"#, "unknown protocol `zzzzz`"),
        (r#"{"attic": {"boxs": 1}}"#, "did you mean `boxes`"),
        (r#"{"attic": {"boxes": 0}}"#, "boxes must be a whole number of at least 1"),
        (r#"{"file": {"fsyncs": true}}"#, "did you mean `fsync`"),
        (r#"{"memory": {"size": "hunter2"}}"#, "size is not an option of `memory`"),
    ];
    for (json, expected) in cases {
        // The URL is of another protocol: a typing error would go unnoticed otherwise.
        for url in ["memory://x", "attic://house"] {
            let error = registry().open_dir(url, &options(json)).await.expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{json}");
            let text = format!("{error} {error:?}");
            assert!(text.contains(expected), "{json}: {text}");
            assert!(!text.contains("hunter2"), "a value is shown: {text}");
        }
    }
}

#[tokio::test]
async fn plain_paths_and_file_urls_are_one_place() {
    let dir = tempfile::tempdir().expect("temp dir");
    let plain = dir.path().to_str().expect("text").to_owned();
    // What comes before `..` must exist, as for the kernel.
    std::fs::create_dir(dir.path().join("b")).expect("made");
    let none = StorageOptions::new();
    let (storage, path) = registry().open(&format!("{plain}/a/x"), &none).await.expect("opens");
    let _ = storage.write(&path, "1".into(), WriteOptions::new()).await.expect("writes");
    for url in [format!("file://{plain}/a/"), format!("local://{plain}/a"), format!("{plain}/b/../a")] {
        let storage = registry().open_dir(&url, &none).await.expect("opens");
        assert_eq!(storage.url(), format!("{plain}/a"), "{url}");
        assert_eq!(&storage.read(&path, ReadOptions::new()).await.expect("reads").bytes[..], b"1", "{url}");
    }
    let error = registry().open_dir(&format!("{plain}/a/x"), &none).await.expect_err("a file is no directory");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
}

#[test]
fn a_protocol_tells_the_options_that_it_knows() {
    use OptionUse::{Honoured, Ignored, Refused};
    let known = registry().option_names("loft").expect("registered");
    let known: Vec<(&str, OptionUse)> = known.iter().map(|option| (option.name.as_str(), option.usage)).collect();
    let cache = |name| (name, Honoured);
    let expected = [
        ("boxes", Honoured),
        ("door.lock", Honoured),
        ("lift", Refused),
        ("light", Ignored),
        cache("listings_expiry_time"),
        cache("max_paths"),
        cache("use_listings_cache"),
    ];
    assert_eq!(known, expected);
    assert_eq!(registry().option_names("qqq").expect_err("unknown").kind(), ErrorKind::Unsupported);
}
