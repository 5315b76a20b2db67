use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use async_trait::async_trait;

use super::*;

#[derive(Debug, Default)]
struct ManualClock(AtomicU64);

impl ManualClock {
    fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::SeqCst);
    }
}

impl WallClock for ManualClock {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

/// Gives key `AK<n>` on its n-th load, valid for `life` seconds; fails while told to.
#[derive(Debug)]
struct Source {
    clock: Arc<ManualClock>,
    loads: AtomicU64,
    life: Option<u64>,
    failing: std::sync::atomic::AtomicBool,
}

#[async_trait]
impl CredentialProvider for Source {
    fn name(&self) -> &str {
        "test"
    }

    async fn load(&self) -> Result<Option<Credentials>> {
        let n = self.loads.fetch_add(1, Ordering::SeqCst) + 1;
        tokio::task::yield_now().await;
        if self.failing.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Io, "the source is down"));
        }
        let end = self.life.map(|s| self.clock.now() + Duration::from_secs(s));
        let key = if self.life.is_some() { format!("AK{n}") } else { "AKFIXED".to_owned() };
        Ok(Some(Credentials::new(key, "SK").with_expiry(end)))
    }
}

fn setup(life: Option<u64>) -> (Arc<ManualClock>, Arc<Source>, Arc<CredentialCache>) {
    let clock = Arc::new(ManualClock::default());
    let source = Arc::new(Source { clock: clock.clone(), loads: 0.into(), life, failing: false.into() });
    let cache = Arc::new(CredentialCache::new(source.clone(), clock.clone()));
    (clock, source, cache)
}

async fn key(cache: &CredentialCache) -> String {
    cache.get().await.expect("has credentials").credentials.access_key_id().to_owned()
}

#[tokio::test]
async fn concurrent_callers_share_one_load() {
    let (_, source, cache) = setup(Some(43_200));
    let calls = (0..20).map(|_| {
        let cache = cache.clone();
        async move { key(&cache).await }
    });
    let keys = futures::future::join_all(calls).await;
    assert!(keys.iter().all(|k| k == "AK1"), "{keys:?}");
    assert_eq!(source.loads.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn concurrent_callers_share_one_failure() {
    let (_, source, cache) = setup(Some(43_200));
    source.failing.store(true, Ordering::SeqCst);
    let calls = (0..20).map(|_| {
        let cache = cache.clone();
        async move { cache.get().await.expect_err("down").to_string() }
    });
    let errors = futures::future::join_all(calls).await;
    assert!(errors.iter().all(|error| error == "the source is down"), "{errors:?}");
    assert_eq!(source.loads.load(Ordering::SeqCst), 1);

    // Who comes later asks again.
    source.failing.store(false, Ordering::SeqCst);
    assert_eq!(key(&cache).await, "AK2");
}

#[tokio::test]
async fn renewed_ahead_of_expiry_for_days_without_a_stale_key() {
    let (clock, source, cache) = setup(Some(43_200));
    for minute in 0..3 * 24 * 60 {
        clock.set(minute * 60);
        let issued = cache.get().await.expect("has credentials");
        let left = issued.credentials.expires_at().expect("ends").duration_since(clock.now()).expect("alive");
        assert!(left > Duration::from_secs(590), "{left:?}");
    }
    assert_eq!(source.loads.load(Ordering::SeqCst), 7);
}

#[tokio::test]
async fn the_margin_is_never_more_than_half_of_a_short_life() {
    let (clock, _, cache) = setup(Some(300));
    assert_eq!(key(&cache).await, "AK1");
    clock.set(149);
    assert_eq!(key(&cache).await, "AK1");
    clock.set(150);
    assert_eq!(key(&cache).await, "AK2");
}

#[tokio::test]
async fn a_failed_renewal_keeps_the_old_ones_while_they_live() {
    let (clock, source, cache) = setup(Some(1_000));
    assert_eq!(key(&cache).await, "AK1");
    source.failing.store(true, Ordering::SeqCst);
    clock.set(600);
    assert_eq!(key(&cache).await, "AK1");
    assert_eq!(key(&cache).await, "AK1");
    assert_eq!(source.loads.load(Ordering::SeqCst), 2, "paused after the failure");
    clock.set(602);
    assert_eq!(key(&cache).await, "AK1");
    assert_eq!(source.loads.load(Ordering::SeqCst), 3);
    clock.set(1_000);
    assert_eq!(cache.get().await.expect_err("they are dead now").kind(), ErrorKind::Io);
    source.failing.store(false, Ordering::SeqCst);
    assert_eq!(key(&cache).await, "AK5");
}

#[tokio::test]
async fn renewing_what_the_source_still_gives_is_in_vain() {
    let (_, source, cache) = setup(None);
    let used = cache.get().await.expect("has credentials");
    assert!(cache.renew(&used).await.expect("loads").is_none());
    assert_eq!(source.loads.load(Ordering::SeqCst), 2);

    let (_, source, cache) = setup(Some(100));
    let used = cache.get().await.expect("has credentials");
    let (a, b) = tokio::join!(cache.renew(&used), cache.renew(&used));
    for renewed in [a, b] {
        assert_eq!(renewed.expect("loads").expect("changed").credentials.access_key_id(), "AK2");
    }
    assert_eq!(source.loads.load(Ordering::SeqCst), 2, "two refused callers, one load");
}

/// Gives its first keys at once, and the next ones when it is let go.
#[derive(Debug)]
struct SlowSource {
    quick: Source,
    go: tokio::sync::Semaphore,
}

#[async_trait]
impl CredentialProvider for SlowSource {
    fn name(&self) -> &str {
        "slow"
    }

    async fn load(&self) -> Result<Option<Credentials>> {
        if self.quick.loads.load(Ordering::SeqCst) > 0 {
            self.go.acquire().await.expect("never closed").forget();
        }
        self.quick.load().await
    }
}

#[tokio::test]
async fn a_source_that_hangs_holds_nobody_up_while_the_old_ones_live() {
    let clock = Arc::new(ManualClock::default());
    let quick = Source { clock: clock.clone(), loads: 0.into(), life: Some(1_000), failing: false.into() };
    let source = Arc::new(SlowSource { quick, go: tokio::sync::Semaphore::new(0) });
    let cache = CredentialCache::new(source.clone(), clock.clone()).with_patience(Duration::from_millis(1));
    assert_eq!(key(&cache).await, "AK1");
    clock.set(600);
    // Who begins the renewal gets the old ones too, and so do all while it hangs.
    for _ in 0..3 {
        assert_eq!(key(&cache).await, "AK1");
    }
    source.go.add_permits(1);
    while key(&cache).await == "AK1" {
        tokio::task::yield_now().await;
    }
    assert_eq!(key(&cache).await, "AK2", "what went on in the background counts");
    // Without any that live there is no other way than to wait.
    clock.set(1_600);
    source.go.add_permits(1);
    assert_eq!(key(&cache).await, "AK3");
    assert_eq!(source.quick.loads.load(Ordering::SeqCst), 3);
}
