//! COS: what is sent besides S3's requests, what a bucket's setup changes, and how its failures count.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use checkpoint_fs::{
    BucketStorage, CopyOptions, DeleteOptions, ErrorKind, ObjectPath, ReadOptions, Result, Retry, StatOptions, Storage,
    Versioning, WriteMode, WriteOptions, WriteOutcome,
};
use md5::{Digest, Md5};

use crate::fake::{Fake, Received, Reply};

const EXISTS: &str = "FileAlreadyExists";

fn path(text: &str) -> ObjectPath {
    ObjectPath::parse(text).expect("valid")
}

async fn create(storage: &BucketStorage) -> Result<WriteOutcome> {
    storage.write(&path("k"), "mine".into(), WriteOptions::new().mode(WriteMode::IfAbsent)).await
}

fn state(inside: &str) -> Reply {
    Reply::ok(&format!("<VersioningConfiguration>{inside}</VersioningConfiguration>"))
}

fn signs(request: &Received, header: &str) -> bool {
    let signed = request.header("authorization").split("SignedHeaders=").nth(1).unwrap_or_default();
    signed.split(',').next().is_some_and(|names| names.split(';').any(|name| name == header))
}

#[tokio::test]
async fn a_write_that_must_not_replace_says_so_in_a_signed_header() {
    let fake = Fake::script(vec![Reply::ok("")]).await;
    let storage = fake.cos();
    let only_new = WriteOptions::new().mode(WriteMode::IfAbsent);
    assert!(matches!(create(&storage).await, Ok(WriteOutcome::Done(_))));
    let mut writer = storage.writer(&path("w"), only_new).await.expect("opens");
    writer.write("abc".into()).await.expect("takes it");
    assert!(matches!(writer.finish().await, Ok(WriteOutcome::Done(_))));
    let _ = storage.write(&path("k"), "x".into(), WriteOptions::new()).await.expect("writes");
    let sent = fake.received();
    let forbid = "x-cos-forbid-overwrite";
    assert_eq!(sent.iter().map(|r| r.header(forbid)).collect::<Vec<_>>(), ["true", "true", ""]);
    assert!(sent[..2].iter().all(|r| signs(r, forbid) && signs(r, "x-amz-meta-checkpoint-write-token")));
    for request in &sent {
        assert!(request.header("authorization").contains("/ap-test/s3/aws4_request"), "{request:?}");
        let refused = |name: &String| {
            name == "if-none-match" || name == "transfer-encoding" || name.contains("checksum") || name.contains("sdk")
        };
        assert_eq!(request.headers.keys().find(|name| refused(name)), None);
        assert_ne!(request.header("content-encoding"), "aws-chunked");
    }
}

#[tokio::test]
async fn what_exists_already_is_settled_by_the_token() {
    let meeting = |prefix: &'static str, found: &'static str| async move {
        let mut token = String::new();
        let fake = Fake::start(move |request, n| match request.method.as_str() {
            "HEAD" if found == "nothing" => Reply::status(404, ""),
            "HEAD" => Reply::ok("mine").with(prefix, if found == "ours" { token.as_str() } else { found }),
            _ if n == 0 => {
                request.token().clone_into(&mut token);
                Reply::Close
            }
            _ => Reply::error(409, EXISTS),
        })
        .await;
        let outcome = create(&fake.cos()).await.expect("settled");
        assert_eq!(fake.count(), 3, "a PUT, its repetition, and the question who was first");
        outcome
    };
    for prefix in ["x-amz-meta-checkpoint-write-token", "x-cos-meta-checkpoint-write-token"] {
        assert!(matches!(meeting(prefix, "ours").await, WriteOutcome::Done(_)));
        assert!(matches!(meeting(prefix, "another").await, WriteOutcome::AlreadyExists));
        assert!(matches!(meeting(prefix, "nothing").await, WriteOutcome::Unknown(_)));
    }
}

#[tokio::test]
async fn a_bucket_with_versions_takes_no_conditional_write() {
    for (word, versioning) in [("Enabled", Versioning::Enabled), ("Suspended", Versioning::Suspended)] {
        let fake = Fake::script(vec![state(&format!("<Status>{word}</Status>")), Reply::ok("")]).await;
        let storage = fake.open_cos().await.expect("opens");
        assert_eq!(fake.received()[0].target, "/bkt-125?versioning=");
        assert_eq!(storage.capabilities().versioning, Some(versioning));
        assert!(!storage.capabilities().write_if_absent);
        let only_new = WriteOptions::new().mode(WriteMode::IfAbsent);
        let streamed = storage.writer(&path("k"), only_new).await.map(|_| ()).expect_err("refused");
        for error in [create(&storage).await.expect_err("refused"), streamed] {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains(&format!("versioning={versioning}")), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.contains("--lease-url")), "{error:?}");
        }
        assert_eq!(fake.count(), 1, "nothing was sent");
        let _ = storage.write(&path("k"), "x".into(), WriteOptions::new()).await.expect("replacing is no matter");
    }
}

#[tokio::test]
async fn what_the_bucket_does_not_say_stays_open() {
    let off = Fake::script(vec![state("")]).await.open_cos().await.expect("opens");
    assert_eq!((off.capabilities().versioning, off.capabilities().write_if_absent), (Some(Versioning::Off), true));
    for reply in [
        Reply::error(403, "AccessDenied"),
        Reply::error(501, "NotImplemented"),
        Reply::error(400, "InvalidRequest"),
        state("<Status>Perhaps</Status>"),
    ] {
        let storage = Fake::script(vec![reply]).await.open_cos().await.expect("opens");
        assert_eq!((storage.capabilities().versioning, storage.capabilities().write_if_absent), (None, true));
    }
}

/// What a create came to after `open` was answered with `setup`, and what the storage promises then.
async fn created(setup: Reply, replies: Vec<Reply>) -> (WriteOutcome, BucketStorage, Fake) {
    let fake = Fake::script([vec![setup], replies, vec![Reply::ok("")]].concat()).await;
    let storage = fake.open_cos().await.expect("opens");
    assert!(storage.capabilities().write_if_absent, "nothing speaks against it yet");
    let outcome = create(&storage).await.expect("an outcome");
    (outcome, storage, fake)
}

#[tokio::test]
async fn an_answer_that_shows_versions_takes_the_promise_back() {
    let unsaid = || Reply::error(403, "AccessDenied");
    let suspended = || state("<Status>Suspended</Status>");
    let put = |version: &str| Reply::ok("").with("x-cos-version-id", version);
    for (setup, replies, requests) in [
        (state(""), vec![put("MTg0NDY3")], 2),
        (unsaid(), vec![put("MTg0NDY3")], 2),
        // A suspended bucket says `null`; so it is asked.
        (state(""), vec![put("null"), suspended()], 3),
        (unsaid(), vec![put("null"), unsaid()], 3),
    ] {
        let (outcome, storage, fake) = created(setup, replies).await;
        let WriteOutcome::Unknown(error) = outcome else { panic!("it may have replaced: {outcome:?}") };
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        assert!(error.hint().is_some_and(|hint| hint.contains("--lease-url")), "{error:?}");
        assert!(!storage.capabilities().write_if_absent && storage.capabilities().versioning.is_some());
        assert_eq!(create(&storage).await.expect_err("refused").kind(), ErrorKind::Unsupported);
        assert_eq!(fake.count(), requests, "nothing more was sent");
        let replaced = storage.write(&path("k"), "x".into(), WriteOptions::new()).await;
        assert!(matches!(replaced, Ok(WriteOutcome::Done(_))), "replacing is no matter: {replaced:?}");
    }
    let (outcome, storage, _) = created(state(""), vec![put("null"), state("")]).await;
    assert!(matches!(outcome, WriteOutcome::Done(_)), "the bucket says that it has none: {outcome:?}");
    assert!(storage.capabilities().write_if_absent);
}

#[tokio::test]
async fn a_lost_create_that_reads_back_with_a_version_may_have_replaced() {
    let mut token = String::new();
    let fake = Fake::start(move |request, _| match request.method.as_str() {
        "GET" => state(""),
        "PUT" => {
            request.token().clone_into(&mut token);
            Reply::Close
        }
        _ => Reply::ok("mine")
            .with("x-cos-meta-checkpoint-write-token", token.as_str())
            .with("x-cos-version-id", "MTg0NDY3"),
    })
    .await;
    let storage = fake.open_cos().await.expect("opens");
    let outcome = create(&storage).await.expect("an outcome");
    assert!(matches!(outcome, WriteOutcome::Unknown(_)), "{outcome:?}");
    assert!(!storage.capabilities().write_if_absent);
}

#[tokio::test]
async fn a_read_that_shows_a_version_takes_the_promise_back() {
    for (version, holds) in [("MTg0NDY3", false), ("null", true)] {
        let read = Reply::ok("mine").with("x-cos-version-id", version);
        let storage = Fake::script(vec![state(""), read]).await.open_cos().await.expect("opens");
        storage.stat(&path("k"), StatOptions::new()).await.expect("is there");
        assert_eq!(storage.capabilities().write_if_absent, holds, "{version}");
    }
}

#[tokio::test]
async fn what_fails_every_request_fails_at_open() {
    for (reply, kind, hint, requests) in [
        (Reply::error(404, "NoSuchBucket"), ErrorKind::NotFound, "APPID", 1),
        (Reply::error(403, "SignatureDoesNotMatch"), ErrorKind::Unauthenticated, "secret", 1),
        (Reply::error(403, "PathStyleDomainForbidden"), ErrorKind::InvalidConfig, "addressing_style", 1),
        (Reply::error(503, "SlowDown"), ErrorKind::RateLimited, "slow down", 5),
    ] {
        let fake = Fake::script(vec![reply]).await;
        let error = fake.open_cos().await.expect_err("fails");
        assert_eq!((error.kind(), fake.count()), (kind, requests), "{error}");
        assert!(error.hint().is_some_and(|text| text.contains(hint)), "{error:?}");
    }
}

#[tokio::test]
async fn a_success_with_an_error_inside_is_none() {
    let inside = |code: &str| {
        let Reply::Answer { body, .. } = Reply::error(500, code) else { unreachable!() };
        Reply::ok(&body)
    };
    for (answer, done) in [(inside("InternalError"), true), (inside("AccessDenied"), false)] {
        let mut answers = vec![Reply::ok("<CopyObjectResult><ETag>\"e2\"</ETag></CopyObjectResult>"), answer];
        let fake = Fake::start(move |request, _| match request.method.as_str() {
            "HEAD" => Reply::ok("1234567").with("ETag", "\"e1\""),
            _ => answers.pop().expect("asked twice at most"),
        })
        .await;
        let outcome = fake.cos().copy(&path("a"), &path("b"), CopyOptions::new()).await;
        assert_eq!(matches!(outcome, Ok(WriteOutcome::Done(_))), done, "{outcome:?}");
    }

    let mut completions = 0;
    let fake = Fake::start(move |request, _| match request.method.as_str() {
        "POST" if request.target.ends_with("?uploads=") || request.target.ends_with("?uploads") => {
            Reply::ok("<InitiateMultipartUploadResult><UploadId>UP</UploadId></InitiateMultipartUploadResult>")
        }
        "POST" => {
            completions += 1;
            if completions == 1 {
                inside("SlowDown")
            } else {
                Reply::ok("<CompleteMultipartUploadResult><ETag>\"e-2\"</ETag></CompleteMultipartUploadResult>")
            }
        }
        _ => Reply::ok("").with("ETag", "\"p\""),
    })
    .await;
    let mut writer = fake.cos().writer(&path("k"), WriteOptions::new()).await.expect("opens");
    writer.write(vec![7; 9 << 20].into()).await.expect("takes it");
    let outcome = writer.finish().await;
    assert!(matches!(outcome, Ok(WriteOutcome::Done(_))), "{outcome:?}");
}

#[tokio::test]
async fn each_attempt_of_a_multi_delete_carries_the_digest_of_its_body() {
    let kept = |code: &str| format!("<Error><Key>root/a &amp; b</Key><Code>{code}</Code><Message>m</Message></Error>");
    let fake = Fake::script(vec![
        Reply::error(503, "SlowDown"),
        Reply::Close,
        Reply::ok(&format!("<DeleteResult>{}</DeleteResult>", kept("InternalError"))),
        Reply::ok("<DeleteResult></DeleteResult>"),
    ])
    .await;
    let keys = ["a & b", "<c>", "\"d\"", "e'f", "\u{e9}\u{1F600}", "g  h", "i+j%20"];
    let failures = fake.cos().delete_many(keys.map(path).to_vec(), DeleteOptions::new()).await.expect("deletes");
    assert!(failures.is_empty(), "{failures:?}");
    let sent = fake.received();
    assert_eq!(sent.len(), 4);
    for request in &sent {
        assert_eq!(request.header("content-md5"), BASE64_STANDARD.encode(Md5::digest(&request.body)));
        assert!(signs(request, "content-md5") && signs(request, "x-amz-content-sha256"));
    }
    assert!(sent[0].body == sent[1].body && sent[1].body == sent[2].body);
    let last = String::from_utf8(sent[3].body.clone()).expect("text");
    assert!(last.contains("<Key>root/a &amp; b</Key>") && !last.contains("&lt;c&gt;"), "only what stayed: {last}");
}

#[tokio::test]
async fn failures_name_cos_s_own_request_id() {
    let fake = Fake::script(vec![Reply::status(404, "").with("x-cos-request-id", "COSREQ")]).await;
    let error = fake.cos().stat(&path("k"), StatOptions::new()).await.expect_err("not there");
    assert_eq!((error.kind(), error.request_id()), (ErrorKind::NotFound, Some("COSREQ")));
    let body = "<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>";
    let fake = Fake::script(vec![Reply::status(403, body)]).await;
    let error = fake.cos().read(&path("k"), ReadOptions::new()).await.expect_err("too old");
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unauthenticated, Retry::Never));
    assert!(error.hint().is_some_and(|hint| hint.contains("clock")), "{error:?}");
}
