//! Uploads whose parts go at the same time: how many, in which order they are put together, and what becomes of one
//! that loses a part.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::fake::{Fake, Received, Reply};
use crate::requests::{friendly, seen};
use bytes::Bytes;
use checkpoint_fs::{Error, ErrorKind, Guard, ObjectPath, Storage, WriteMode, WriteOptions, WriteOutcome};
use tokio::sync::Barrier;

const MIB: usize = 1 << 20;
const PART: usize = 8 * MIB;
const AT_ONCE: usize = 4;
const FREED: &str = "DELETE /bkt/root/k?uploadId=UP";

fn path() -> ObjectPath {
    ObjectPath::parse("k").expect("valid")
}

/// The number of the part that a request sends.
fn part_of(request: &Received) -> Option<usize> {
    let (_, rest) = request.target.split_once("partNumber=")?;
    rest.split('&').next()?.parse().ok()
}

fn is_completion(request: &Received) -> bool {
    request.method == "POST" && request.target.ends_with("uploadId=UP")
}

/// A server that answers parts as it is told, with an entity tag for each.
async fn server(mut part: impl FnMut(usize) -> Reply + Send + 'static) -> Fake {
    Fake::start(move |request, n| match part_of(request) {
        Some(number) => part(number),
        None => friendly(request, n),
    })
    .await
}

fn taken(number: usize) -> Reply {
    Reply::ok("").with("ETag", format!("\"tag-{number}\""))
}

/// Bytes of which no two parts are the same.
fn noise(size: usize) -> Bytes {
    let mut bytes = vec![0; size];
    for (number, block) in bytes.chunks_exact_mut(1 << 12).enumerate() {
        block[..8].copy_from_slice(&number.to_le_bytes());
    }
    bytes.into()
}

/// What the upload put together, by the order that its completion names.
fn put_together(fake: &Fake) -> Vec<u8> {
    let received = fake.received();
    let parts: BTreeMap<usize, &[u8]> =
        received.iter().filter_map(|r| Some((part_of(r)?, r.body.as_slice()))).collect();
    let completions: Vec<&Received> = received.iter().filter(|r| is_completion(r)).collect();
    assert_eq!(completions.len(), 1, "it is completed once");
    let body = String::from_utf8(completions[0].body.clone()).expect("text");
    let mut whole = Vec::new();
    for named in body.split("<PartNumber>").skip(1) {
        let number: usize = named.split('<').next().and_then(|n| n.parse().ok()).expect("a number");
        assert!(named.contains(&format!("tag-{number}")), "part {number} is named with its own tag: {named}");
        whole.extend_from_slice(parts[&number]);
    }
    whole
}

#[tokio::test]
async fn parts_go_at_the_same_time_and_are_put_together_in_their_order() {
    let bytes = noise(85 * MIB);
    for piece in [bytes.len(), PART, 3 * MIB + 1] {
        // None of the first is taken before all of them are there, and the very first is taken last.
        let barrier = Arc::new(Barrier::new(AT_ONCE));
        let fake = server(move |number| {
            let pause = Duration::from_millis(if number == 1 { 100 } else { 0 });
            let reply = Reply::Slow(pause, Box::new(taken(number)));
            if number <= AT_ONCE { Reply::Together(Arc::clone(&barrier), Box::new(reply)) } else { reply }
        })
        .await;
        let mut writer = fake.storage().writer(&path(), WriteOptions::new()).await.expect("opens");
        for piece in bytes.chunks(piece) {
            writer.write(bytes.slice_ref(piece)).await.expect("takes");
        }
        let outcome = writer.finish().await.expect("finishes");
        assert!(matches!(outcome, WriteOutcome::Done(meta) if meta.size == bytes.len() as u64), "{piece}");
        assert!(put_together(&fake) == bytes, "other bytes, in pieces of {piece}");
        assert_eq!(fake.most_at_once(), AT_ONCE, "pieces of {piece}");
        let sizes: Vec<usize> = fake.received().iter().filter(|r| part_of(r).is_some()).map(|r| r.body.len()).collect();
        assert_eq!((sizes.len(), sizes.iter().filter(|size| **size == PART).count()), (11, 10), "{sizes:?}");
    }
}

#[tokio::test]
async fn a_long_body_that_may_replace_goes_in_parts_and_no_other() {
    let bytes = noise(41 * MIB);
    let fake = server(taken).await;
    let outcome = fake.storage().write(&path(), bytes.clone(), WriteOptions::new()).await.expect("written");
    assert!(matches!(outcome, WriteOutcome::Done(meta) if meta.size == bytes.len() as u64));
    assert!(put_together(&fake) == bytes);
    for (bytes, mode) in [(bytes.slice(..32 * MIB), WriteMode::Overwrite), (bytes, WriteMode::IfAbsent)] {
        let fake = server(taken).await;
        let outcome = fake.storage().write(&path(), bytes, WriteOptions::new().mode(mode)).await.expect("written");
        assert!(matches!(outcome, WriteOutcome::Done(_)), "{mode:?}");
        assert_eq!(seen(&fake), ["PUT /bkt/root/k"], "{mode:?}");
        assert_eq!(fake.received()[0].header("if-none-match") == "*", mode == WriteMode::IfAbsent);
    }
}

#[tokio::test]
async fn a_part_that_is_not_taken_is_sent_again() {
    let mut left = 3;
    let fake = server(move |number| {
        if number == 2 && left > 0 {
            left -= 1;
            return if left == 1 { Reply::Close } else { Reply::error(503, "SlowDown") };
        }
        taken(number)
    })
    .await;
    let bytes = noise(41 * MIB);
    let outcome = fake.storage().write(&path(), bytes.clone(), WriteOptions::new()).await.expect("written");
    assert!(matches!(outcome, WriteOutcome::Done(_)));
    assert!(put_together(&fake) == bytes);
    assert_eq!(fake.received().iter().filter(|r| part_of(r) == Some(2)).count(), 4);
}

#[tokio::test]
async fn a_lost_part_ends_the_write_and_frees_the_others() {
    // The first, one in the middle, and the last one, of which only the end of the write can tell.
    for lost in [1, 4, 6] {
        for reply in [Reply::error(403, "AccessDenied"), Reply::Close] {
            let is_refused = matches!(reply, Reply::Answer { .. });
            let fake = server(move |number| if number == lost { reply.clone() } else { taken(number) }).await;
            let written = fake.storage().write(&path(), noise(41 * MIB), WriteOptions::new()).await;
            let error = written.expect_err("nothing is there, and that is known");
            let kind = if is_refused { ErrorKind::PermissionDenied } else { ErrorKind::Io };
            assert_eq!((error.kind(), error.operation(), error.url()), (kind, "write", "s3://bkt/root/k"), "{lost}");
            freed(&fake).await;
            let seen = seen(&fake);
            assert_eq!(seen.last().map(String::as_str), Some(FREED), "no part follows: {lost} {seen:?}");
            assert!(!fake.received().iter().any(is_completion), "{lost} {seen:?}");
        }
    }
}

#[tokio::test]
async fn a_stream_tells_of_a_lost_part_before_its_turn() {
    // The first would be waited for as long as it takes.
    let fake = server(|number| match number {
        1 => Reply::Stall(String::new()),
        2 => Reply::error(403, "AccessDenied"),
        _ => taken(number),
    })
    .await;
    for at_its_end in [false, true] {
        let mut writer = fake.storage().writer(&path(), WriteOptions::new()).await.expect("opens");
        let written = async {
            if !at_its_end {
                return writer.write(noise(9 * PART)).await;
            }
            writer.write(noise(3 * PART)).await.expect("takes");
            writer.finish().await.map(|outcome| panic!("{outcome:?}"))
        };
        let told = tokio::time::timeout(Duration::from_secs(20), written).await.expect("before the first times out");
        assert_eq!(told.expect_err("refused").kind(), ErrorKind::PermissionDenied);
    }
    assert!(!fake.received().iter().any(is_completion));
}

#[tokio::test]
async fn what_is_given_up_sends_no_part_behind_its_end() {
    for drops in [true, false] {
        let begun = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&begun);
        let fake = server(move |number| {
            *counted.lock().expect("not poisoned") += 1;
            // Each is refused for now, so that it waits for its next attempt when the write is given up.
            if number < 3 { Reply::error(503, "SlowDown").with("Retry-After", "1") } else { taken(number) }
        })
        .await;
        let mut writer = fake.storage().writer(&path(), WriteOptions::new()).await.expect("opens");
        writer.write(noise(5 * PART)).await.expect("takes");
        while *begun.lock().expect("not poisoned") < 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if drops {
            drop(writer);
            freed(&fake).await;
        } else {
            writer.abort().await.expect("freed");
        }
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let seen = seen(&fake);
        assert_eq!(seen.last().map(String::as_str), Some(FREED), "{seen:?}");
        assert_eq!(seen.iter().filter(|line| *line == FREED).count(), 1, "{seen:?}");
    }
}

#[tokio::test]
async fn no_part_is_sent_past_the_guard() {
    let is_over = Arc::new(AtomicBool::new(false));
    let guard = {
        let is_over = Arc::clone(&is_over);
        Guard::new(move || match is_over.load(Ordering::SeqCst) {
            false => Ok(Duration::from_secs(60)),
            true => Err(Error::new(ErrorKind::Conflict, "the lease is gone")),
        })
    };
    let fake = {
        let is_over = Arc::clone(&is_over);
        server(move |number| {
            if number == 3 {
                is_over.store(true, Ordering::SeqCst);
            }
            taken(number)
        })
        .await
    };
    let options = WriteOptions::new().guard(Some(guard));
    let error = fake.storage().write(&path(), noise(100 * MIB), options).await.expect_err("stopped");
    assert_eq!((error.kind(), error.message()), (ErrorKind::Conflict, "the lease is gone"));
    let sent = fake.received().iter().filter(|r| part_of(r).is_some()).count();
    assert!(sent < 8, "{sent} parts of 13");
    assert!(!fake.received().iter().any(is_completion));
    assert_eq!(seen(&fake).last().map(String::as_str), Some(FREED));
}

/// Waits until the parts are freed.
async fn freed(fake: &Fake) {
    let freed = async {
        while !seen(fake).iter().any(|line| line == FREED) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), freed).await.expect("the parts are freed");
}
