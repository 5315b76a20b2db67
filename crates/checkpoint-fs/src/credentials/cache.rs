//! The cache between a provider and the signer: fresh credentials, loaded once for all callers.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::{CredentialProvider, Credentials};
use crate::error::{Error, ErrorKind, Result};
use crate::transport::WallClock;

/// How long before their end credentials are renewed, at most half of the life that is left.
const MARGIN: Duration = Duration::from_secs(600);
/// How long a caller waits for credentials that are renewed while the old ones still live.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest pause between failed renewals while the old credentials still live.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Credentials with the number of the load that gave them.
#[derive(Debug)]
pub(crate) struct Issued {
    pub(crate) credentials: Credentials,
    generation: u64,
    renew_at: Option<SystemTime>,
}

impl Issued {
    fn lives(&self, now: SystemTime) -> bool {
        self.credentials.expires_at().is_none_or(|end| now < end)
    }
}

#[derive(Debug, Default)]
struct State {
    current: Option<Arc<Issued>>,
    generation: u64,
    failures: u32,
    not_before: Option<SystemTime>,
    /// Loads that have ended, well or not.
    ended: u64,
    /// How the last load failed.
    failure: Option<Error>,
}

/// What a caller knew when it began to wait.
#[derive(Debug, Clone, Copy)]
struct Seen {
    generation: Option<u64>,
    ended: u64,
}

/// Holds the credentials of one storage. Callers share one load, and its failure too; while a renewal that is due ahead of
/// expiry runs, the others go on with the old credentials, and so does who began it when it takes long.
pub(crate) struct CredentialCache {
    shared: Arc<Shared>,
    patience: Duration,
}

/// What a renewal in the background needs.
struct Shared {
    provider: Arc<dyn CredentialProvider>,
    clock: Arc<dyn WallClock>,
    state: Mutex<State>,
    loading: Arc<tokio::sync::Mutex<()>>,
}

impl CredentialCache {
    pub(crate) fn new(provider: Arc<dyn CredentialProvider>, clock: Arc<dyn WallClock>) -> Self {
        let shared = Shared { provider, clock, state: Mutex::default(), loading: Arc::default() };
        Self { shared: Arc::new(shared), patience: PATIENCE }
    }

    #[cfg(test)]
    pub(crate) fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Credentials that are valid now, loaded or renewed where needed.
    pub(crate) async fn get(&self) -> Result<Arc<Issued>> {
        let now = self.shared.clock.now();
        let (current, paused, ended) = {
            let state = self.shared.state();
            (state.current.clone(), state.not_before.is_some_and(|t| now < t), state.ended)
        };
        let seen = Seen { generation: current.as_ref().map(|issued| issued.generation), ended };
        if let Some(issued) = &current
            && issued.lives(now)
        {
            if paused || issued.renew_at.is_none_or(|t| now < t) {
                return Ok(Arc::clone(issued));
            }
            if let Some(renewed) = self.renew_ahead(seen).await {
                return Ok(renewed);
            }
            // They may have died while this caller waited.
            if issued.lives(self.shared.clock.now()) {
                return Ok(Arc::clone(issued));
            }
        }
        let _loading = self.shared.loading.lock().await;
        self.shared.unless_ended(seen).await
    }

    /// Renews credentials that still live, in the background: waits a little for new ones and no longer.
    /// `None` where there are none yet, or somebody else is at it.
    async fn renew_ahead(&self, seen: Seen) -> Option<Arc<Issued>> {
        let loading = Arc::clone(&self.shared.loading).try_lock_owned().ok()?;
        let shared = Arc::clone(&self.shared);
        let renewal = tokio::spawn(async move {
            let _loading = loading;
            let renewed = shared.unless_ended(seen).await;
            renewed
                .inspect_err(|error| {
                    tracing::warn!(source = shared.provider.name(), %error, "credentials were not renewed yet");
                })
                .ok()
        });
        tokio::time::timeout(self.patience, renewal).await.ok()?.ok()?
    }

    /// Loads again after the service refused what `used` holds. `None` when the source still gives the
    /// same credentials, so that trying again is in vain.
    pub(crate) async fn renew(&self, used: &Issued) -> Result<Option<Arc<Issued>>> {
        let seen = Seen { generation: Some(used.generation), ended: self.shared.state().ended };
        let _loading = self.shared.loading.lock().await;
        let issued = self.shared.unless_ended(seen).await?;
        Ok((issued.credentials != used.credentials).then_some(issued))
    }
}

impl Shared {
    /// Loads, unless somebody else has while this caller waited: what a source that is down keeps one caller
    /// waiting for, it would keep the next one waiting for as well. Needs the loading lock.
    async fn unless_ended(&self, seen: Seen) -> Result<Arc<Issued>> {
        {
            let state = self.state();
            match (&state.current, &state.failure) {
                (Some(issued), _) if Some(issued.generation) != seen.generation => return Ok(Arc::clone(issued)),
                (_, Some(failure)) if state.ended != seen.ended => return Err(failure.repeated()),
                _ => {}
            }
        }
        self.load().await
    }

    /// Loads. Needs the loading lock.
    async fn load(&self) -> Result<Arc<Issued>> {
        let loaded = match self.provider.load().await {
            Ok(Some(credentials)) => self.check(credentials),
            Ok(None) => Err(none_found()),
            Err(error) => Err(error),
        };
        let now = self.clock.now();
        let mut state = self.state();
        state.ended += 1;
        match loaded {
            Ok(credentials) => {
                let renew_at = credentials.expires_at().map(|end| {
                    let left = end.duration_since(now).unwrap_or_default();
                    end - MARGIN.min(left / 2)
                });
                state.generation += 1;
                let issued = Arc::new(Issued { credentials, generation: state.generation, renew_at });
                state.current = Some(Arc::clone(&issued));
                (state.failures, state.not_before, state.failure) = (0, None, None);
                Ok(issued)
            }
            Err(error) => {
                let pause = Duration::from_secs(1 << state.failures.min(6)).min(MAX_PAUSE);
                state.failures += 1;
                state.not_before = Some(now + pause);
                state.failure = Some(error.repeated());
                Err(error)
            }
        }
    }

    fn check(&self, credentials: Credentials) -> Result<Credentials> {
        if credentials.expires_at().is_some_and(|end| end <= self.clock.now()) {
            return Err(Error::new(ErrorKind::Unauthenticated, "the credentials have expired")
                .with_hint("renew them where they come from, and check this machine's clock"));
        }
        Ok(credentials)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn none_found() -> Error {
    Error::new(ErrorKind::Unauthenticated, "no credentials were found").with_hint(
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, give `key` and `secret`, or `anon: true` for a public bucket",
    )
}

impl fmt::Debug for CredentialCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialCache").field("provider", &self.shared.provider).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
