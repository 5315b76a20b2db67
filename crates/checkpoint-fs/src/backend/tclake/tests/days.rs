//! Credentials across days, by a clock that is set by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use futures::future::join_all;
use serde_json::json;

use super::server::{ManualClock, Reply, Server, keys, volume};
use crate::backend::tclake::vended::VolumeCredentials;
use crate::credentials::CredentialCache;
use crate::error::ErrorKind;
use crate::transport::WallClock;

/// 2026-01-01T00:00:00Z
const START: u64 = 1_767_225_600;
const LIFE: u64 = 43_200;
const CALLERS: usize = 16;

/// A catalog whose keys live for twelve hours, as long as it is not down.
struct Lake {
    clock: Arc<ManualClock>,
    down: Arc<AtomicBool>,
    issued: Arc<AtomicUsize>,
    server: Server,
    cache: Arc<CredentialCache>,
}

impl Lake {
    async fn start() -> Self {
        let clock = Arc::new(ManualClock::default());
        clock.set(Duration::from_secs(START));
        let (down, issued) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let server = Server::start({
            let (clock, down, issued) = (clock.clone(), down.clone(), issued.clone());
            move |request| {
                assert_eq!(request.action(), "DescribeCredentials");
                let now = clock.now().duration_since(UNIX_EPOCH).expect("after").as_secs();
                assert_eq!(request.header("x-tc-timestamp"), now.to_string());
                if down.load(Ordering::SeqCst) {
                    return Reply::error("InternalError");
                }
                keys(issued.fetch_add(1, Ordering::SeqCst) + 1, json!((now + LIFE) * 1_000))
            }
        })
        .await;
        let catalog = Arc::new(server.catalog(clock.clone()));
        let provider = Arc::new(VolumeCredentials::new(catalog, volume()));
        let cache = Arc::new(CredentialCache::new(provider, clock.clone()));
        Self { clock, down, issued, server, cache }
    }

    fn at(&self, seconds: u64) {
        self.clock.set(Duration::from_secs(START + seconds));
    }

    /// Many callers at once; each gets credentials that live. The keys that they got, in order.
    async fn callers(&self) -> Vec<String> {
        let now = self.clock.now();
        let calls = (0..CALLERS).map(|_| async {
            let issued = self.cache.get().await.expect("has credentials");
            let end = issued.credentials.expires_at().expect("ends");
            assert!(end > now, "dead keys at {now:?}");
            issued.credentials.access_key_id().to_owned()
        });
        join_all(calls).await
    }

    fn issued(&self) -> usize {
        self.issued.load(Ordering::SeqCst)
    }

    fn asked(&self) -> usize {
        self.server.received().len()
    }
}

#[tokio::test]
async fn once_for_all_callers_over_a_week_ahead_of_the_end() {
    let lake = Lake::start().await;
    let mut renewed_at = Vec::new();
    for minute in 0..7 * 24 * 60 {
        lake.at(minute * 60);
        let before = lake.issued();
        let got = lake.callers().await;
        if lake.issued() > before {
            renewed_at.push(minute);
            assert_eq!(lake.issued(), before + 1, "one question for {CALLERS} callers");
            let (old, new) = (format!("AKID-{before}"), format!("AKID-{}", before + 1));
            assert!(got.iter().all(|key| *key == old || *key == new), "{got:?}");
        }
    }
    // Every 11 hours and 50 minutes: ten minutes before the end of twelve hours.
    let expected: Vec<u64> = (0..15).map(|n| n * 710).collect();
    assert_eq!(renewed_at, expected);
    assert_eq!(lake.asked(), lake.issued());
}

#[tokio::test]
async fn the_old_ones_serve_while_the_catalog_is_down_and_never_past_their_end() {
    let lake = Lake::start().await;
    assert_eq!(lake.callers().await, vec!["AKID-1"; CALLERS]);
    lake.down.store(true, Ordering::SeqCst);
    let mut attempts = Vec::new();
    for second in LIFE - 600..LIFE {
        lake.at(second);
        let before = lake.asked();
        assert_eq!(lake.callers().await, vec!["AKID-1"; CALLERS]);
        if lake.asked() > before {
            attempts.push(second + 600 - LIFE);
        }
    }
    // The pause doubles from a second to a minute.
    assert_eq!(attempts, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303, 363, 423, 483, 543]);
    lake.at(LIFE);
    let error = lake.cache.get().await.expect_err("they are dead");
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Io, "get credentials"));
    assert_eq!(error.service_code(), Some("InternalError"));
    lake.down.store(false, Ordering::SeqCst);
    assert_eq!(lake.callers().await, vec!["AKID-2"; CALLERS]);
}

#[tokio::test]
async fn refused_callers_share_one_new_set() {
    let lake = Lake::start().await;
    let used = lake.cache.get().await.expect("has credentials");
    let renewed = join_all((0..CALLERS).map(|_| lake.cache.renew(&used))).await;
    for issued in renewed {
        assert_eq!(issued.expect("loads").expect("changed").credentials.access_key_id(), "AKID-2");
    }
    assert_eq!(lake.asked(), 2);
}
