//! Streamed writes whose blocks go at the same time: how many, in which order they are listed, and what becomes of one
//! that loses a block.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use checkpoint_fs::{ErrorKind, Storage, WriteMode, WriteOptions, WriteOutcome};
use tokio::sync::Barrier;

use crate::fake::{Fake, Received, Reply};
use crate::{error, path, with_key};

const MIB: usize = 1 << 20;
const AT_ONCE: usize = 4;

/// The name of the block that a request sends, as it stands in its query.
fn block_of(request: &Received) -> Option<String> {
    let (_, rest) = request.target.split_once("blockid=")?;
    Some(rest.split('&').next()?.replace("%3D", "=").replace("%2B", "+").replace("%2F", "/"))
}

fn list_of(fake: &Fake) -> Option<String> {
    let received = fake.received();
    let list = received.iter().find(|r| r.target.contains("comp=blocklist"))?;
    Some(String::from_utf8(list.body.clone()).expect("text"))
}

/// Bytes of which no two blocks are the same.
fn noise(size: usize) -> Bytes {
    let mut bytes = vec![0; size];
    for (number, block) in bytes.chunks_exact_mut(1 << 12).enumerate() {
        block[..8].copy_from_slice(&number.to_le_bytes());
    }
    bytes.into()
}

#[tokio::test]
async fn blocks_go_at_the_same_time_and_are_listed_in_their_order() {
    let bytes = noise(61 * MIB);
    for (mode, piece) in [(WriteMode::Overwrite, 3 * MIB + 1), (WriteMode::IfAbsent, 61 * MIB)] {
        // None of the first is taken before all of them are there, and one of them is taken last.
        let barrier = Arc::new(Barrier::new(AT_ONCE));
        let fake = Fake::start(move |_, n| {
            let pause = Duration::from_millis(if n == 0 { 100 } else { 0 });
            let reply = Reply::Slow(pause, Box::new(Reply::status(201, "")));
            if n < AT_ONCE { Reply::Together(Arc::clone(&barrier), Box::new(reply)) } else { reply }
        })
        .await;
        let options = WriteOptions::new().mode(mode);
        let mut writer = with_key(&fake).writer(&path("x"), options).await.expect("opens");
        for piece in bytes.chunks(piece) {
            writer.write(bytes.slice_ref(piece)).await.expect("takes");
        }
        assert!(matches!(writer.finish().await, Ok(WriteOutcome::Done(meta)) if meta.size == bytes.len() as u64));
        let received = fake.received();
        let sent: BTreeMap<String, &[u8]> =
            received.iter().filter_map(|r| Some((block_of(r)?, r.body.as_slice()))).collect();
        let list = list_of(&fake).expect("it is published");
        let listed = list.split("<Latest>").skip(1).map(|rest| rest.split('<').next().expect("a name"));
        let whole: Vec<u8> = listed.flat_map(|name| sent[name]).copied().collect();
        assert!(whole == bytes, "{mode:?}: other bytes");
        assert_eq!((fake.most_at_once(), sent.len()), (AT_ONCE, 8), "{mode:?}");
    }
}

#[tokio::test]
async fn a_long_body_that_may_replace_goes_in_blocks_and_no_other() {
    let bytes = noise(33 * MIB);
    for (size, mode, requests) in
        [(33, WriteMode::Overwrite, 6), (32, WriteMode::Overwrite, 1), (33, WriteMode::IfAbsent, 1)]
    {
        let fake = Fake::script(vec![Reply::status(201, "")]).await;
        let options = WriteOptions::new().mode(mode);
        let outcome = with_key(&fake).write(&path("x"), bytes.slice(..size * MIB), options).await.expect("written");
        assert!(matches!(outcome, WriteOutcome::Done(_)), "{size} {mode:?}");
        assert_eq!((fake.count(), list_of(&fake).is_some()), (requests, requests > 1), "{size} {mode:?}");
    }
}

#[tokio::test]
async fn a_lost_block_ends_the_write() {
    for lost in [0, 2, 4] {
        let fake = Fake::start(move |request, _| {
            let is_lost = request.body.starts_with(&(lost * 2048_u64).to_le_bytes());
            if is_lost { error(403, "AuthorizationFailure") } else { Reply::status(201, "") }
        })
        .await;
        let written = with_key(&fake).write(&path("x"), noise(33 * MIB), WriteOptions::new()).await;
        let error = written.expect_err("nothing is there, and that is known");
        assert_eq!((error.kind(), error.operation()), (ErrorKind::PermissionDenied, "write"), "{lost}");
        assert_eq!(list_of(&fake), None, "{lost}");
    }
}
