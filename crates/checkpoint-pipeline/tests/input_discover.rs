//! Finding input: files, directories and globs, in memory and on disk.

use std::path::Path;

use checkpoint_fs::{ObjectPath, Registry, StorageOptions, WriteOptions};
use checkpoint_pipeline::input::{ReadConfig, ReadContext, discover, open};
use checkpoint_pipeline::{Error, ErrorKind, Format};

const FILES: [&str; 16] = [
    "in/b.parquet",
    "in/a.parquet",
    "in/a/z.csv",
    "in/a-1.jsonl.gz",
    "in/notes.txt",
    "in/_SUCCESS",
    "in/SUCCESS",
    "in/.hidden.parquet",
    "in/_tmp/x.parquet",
    "in/.git/y.csv",
    "in/day=1/h=1/p.parquet",
    "in/day=1/h=2/p.parquet",
    "in/day=2/h=1/p.parquet",
    "in/day=2/_part/p.parquet",
    "in/[x].csv",
    "other/data",
];

/// The same tree in memory and in a directory; gives the URLs of both.
async fn trees() -> (Registry, Vec<String>, tempfile::TempDir) {
    let registry = Registry::from_process();
    let dir = tempfile::tempdir().expect("made");
    let unique = dir.path().file_name().and_then(|n| n.to_str()).expect("UTF-8").replace('.', "");
    let roots = vec![format!("memory://{unique}/root"), dir.path().to_str().expect("UTF-8").to_owned()];
    for root in &roots {
        let storage = registry.open_dir(root, &StorageOptions::new()).await.expect("opens");
        for file in FILES {
            let content = if file.ends_with("SUCCESS") { "" } else { "a,b\n1,2\n" };
            let path = ObjectPath::parse(file).expect("valid");
            storage
                .write(&path, content.into(), WriteOptions::new())
                .await
                .and_then(|o| o.into_result(file))
                .expect("written");
        }
    }
    (registry, roots, dir)
}

/// What the inputs find below each root, which must be the same.
async fn find(inputs: &[&str], format: Option<Format>) -> Result<Vec<String>, Error> {
    let (registry, roots, _dir) = trees().await;
    let mut all = Vec::new();
    for root in &roots {
        let inputs: Vec<String> = inputs.iter().map(|input| format!("{root}/{input}")).collect();
        let files = discover(&registry, &inputs, &StorageOptions::new(), format).await;
        all.push(files.map(|files| {
            let paths = files.iter().map(|f| f.location.to_string());
            paths
                .map(|p| p.strip_prefix(root.as_str()).expect("below").trim_start_matches('/').to_owned())
                .collect::<Vec<_>>()
        }));
    }
    let disk = all.pop().expect("two");
    let memory = all.pop().expect("two");
    match (&memory, &disk) {
        (Ok(a), Ok(b)) => assert_eq!(a, b, "memory and disk find the same"),
        (Err(a), Err(b)) => assert_eq!(a.kind(), b.kind()),
        _ => assert_eq!(memory.is_ok(), disk.is_ok(), "memory: {memory:?}, disk: {disk:?}"),
    }
    disk
}

const VISIBLE: [&str; 8] = [
    "in/[x].csv",
    "in/a-1.jsonl.gz",
    "in/a.parquet",
    "in/a/z.csv",
    "in/b.parquet",
    "in/day=1/h=1/p.parquet",
    "in/day=1/h=2/p.parquet",
    "in/day=2/h=1/p.parquet",
];

#[tokio::test]
async fn a_directory_gives_its_visible_files_in_byte_order() {
    assert_eq!(find(&["in"], None).await.expect("found"), VISIBLE);
    assert_eq!(find(&["in/"], None).await.expect("found"), VISIBLE);
    assert_eq!(find(&["in/_tmp", "in/.git"], None).await.expect("named"), ["in/_tmp/x.parquet", "in/.git/y.csv"]);
}

#[tokio::test]
async fn an_explicit_format_takes_every_file_but_empty_marks() {
    let found = find(&["in"], Some(Format::Csv)).await.expect("found");
    let mut expected = VISIBLE.to_vec();
    expected.push("in/notes.txt");
    assert_eq!(found, expected);
    assert_eq!(find(&["other"], Some(Format::Csv)).await.expect("found"), ["other/data"]);
}

#[tokio::test]
async fn inputs_keep_their_order_and_a_file_comes_once() {
    let found = find(&["in/day=2", "in/b.parquet", "in/day=*/h=1", "in/.hidden.parquet"], None).await.expect("found");
    let expected = ["in/day=2/h=1/p.parquet", "in/b.parquet", "in/day=1/h=1/p.parquet", "in/.hidden.parquet"];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn globs() {
    let cases: [(&str, &[&str]); 10] = [
        ("in/*.parquet", &["in/a.parquet", "in/b.parquet"]),
        ("in/{a,b}.parquet", &["in/a.parquet", "in/b.parquet"]),
        ("in/[b-z].parquet", &["in/b.parquet"]),
        ("in/?/*.csv", &["in/a/z.csv"]),
        ("in/**/*.csv", &["in/[x].csv", "in/a/z.csv"]),
        ("in/day=*/h=1/*", &["in/day=1/h=1/p.parquet", "in/day=2/h=1/p.parquet"]),
        ("in/day=2/*", &["in/day=2/h=1/p.parquet"]),
        ("in/{day=1/h=2,a}/*", &["in/a/z.csv", "in/day=1/h=2/p.parquet"]),
        ("in/_*/*", &["in/_tmp/x.parquet"]),
        ("*/[a]*.parquet", &["in/a.parquet"]),
    ];
    for (pattern, expected) in cases {
        assert_eq!(find(&[pattern], None).await.expect(pattern), expected, "{pattern}");
    }
    assert_eq!(find(&["in/[x].csv"], None).await.expect("literal"), ["in/[x].csv"], "what exists literally wins");
}

#[tokio::test]
async fn what_finds_nothing_is_named() {
    for (input, format) in [
        ("missing", None),
        ("missing.parquet", None),
        ("in/*.nope", None),
        ("in/nope/*", None),
        ("in/[", None),
        ("other/data", None),
        ("other", None),
        ("in/_SUCCESS/", None),
    ] {
        let error = find(&[input], format).await.expect_err(input);
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{input}: {error}");
        assert!(error.to_string().contains(input.trim_end_matches('/')), "{input}: {error}");
    }
    let registry = Registry::from_process();
    let none = discover(&registry, &[], &StorageOptions::new(), None).await.expect_err("no input");
    assert_eq!(none.kind(), ErrorKind::InvalidConfig);
}

#[tokio::test]
async fn files_know_their_hash_key_and_read() {
    let (registry, roots, dir) = trees().await;
    for root in &roots {
        let inputs = [format!("{root}/in/[x].csv"), format!("{root}/in/a")];
        let files = discover(&registry, &inputs, &StorageOptions::new(), None).await.expect("found");
        let keys: Vec<String> = files.iter().map(|f| f.hash_key()).collect();
        let below = root.strip_prefix("memory://").unwrap_or(root);
        assert_eq!(keys, [format!("{below}/in/[x].csv"), format!("{below}/in/a/z.csv")]);
        assert_eq!(files[1].meta.size, 8);
        let context = ReadContext::new(tokio::runtime::Handle::current());
        let schemas = checkpoint_pipeline::input::infer_schemas(&files, &context).await.expect("infers");
        let context = context.with_schemas(schemas);
        let rows = tokio::task::spawn_blocking(move || {
            let mut reader = open(&files[1], &ReadConfig::new(), &context).expect("opens");
            reader.next().expect("reads").expect("a row").1.num_rows()
        });
        assert_eq!(rows.await.expect("runs"), 1);
    }
    // A path on disk that changes after discovery, without an entity tag.
    let path = dir.path().join("in/a/z.csv");
    let input = [path.to_str().expect("UTF-8").to_owned()];
    let files = discover(&registry, &input, &StorageOptions::new(), None).await.expect("found");
    touch(&path);
    let context = ReadContext::new(tokio::runtime::Handle::current());
    let error = checkpoint_pipeline::input::infer_schemas(&files, &context).await.expect_err("changed");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
}

/// The same bytes, with a later time of change.
fn touch(path: &Path) {
    let file = std::fs::File::options().write(true).open(path).expect("there");
    let later = std::fs::metadata(path).and_then(|m| m.modified()).expect("there") + std::time::Duration::from_secs(5);
    file.set_modified(later).expect("set");
}
