//! The cache between a provider and the signer: fresh credentials, loaded once for all callers.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::{CredentialProvider, Credentials};
use crate::error::{Error, ErrorKind, Result};
use crate::transport::WallClock;

/// How long before their end credentials are renewed, at most half of the life that is left.
const MARGIN: Duration = Duration::from_secs(600);
/// The longest pause between failed renewals while the old credentials still live.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Credentials with the number of the load that gave them.
#[derive(Debug)]
pub(crate) struct Issued {
    pub(crate) credentials: Credentials,
    generation: u64,
    renew_at: Option<SystemTime>,
}

#[derive(Debug, Default)]
struct State {
    current: Option<Arc<Issued>>,
    generation: u64,
    failures: u32,
    not_before: Option<SystemTime>,
}

/// Holds the credentials of one storage. Callers share one load; while a renewal that is due ahead of
/// expiry runs, the others go on with the old credentials.
pub(crate) struct CredentialCache {
    provider: Arc<dyn CredentialProvider>,
    clock: Arc<dyn WallClock>,
    state: Mutex<State>,
    loading: tokio::sync::Mutex<()>,
}

impl CredentialCache {
    pub(crate) fn new(provider: Arc<dyn CredentialProvider>, clock: Arc<dyn WallClock>) -> Self {
        Self { provider, clock, state: Mutex::default(), loading: tokio::sync::Mutex::default() }
    }

    /// Credentials that are valid now, loaded or renewed where needed.
    pub(crate) async fn get(&self) -> Result<Arc<Issued>> {
        let now = self.clock.now();
        let (current, paused) = {
            let state = self.state();
            (state.current.clone(), state.not_before.is_some_and(|t| now < t))
        };
        match current {
            Some(issued) if issued.renew_at.is_none_or(|t| now < t) => Ok(issued),
            Some(issued) if issued.credentials.expires_at().is_none_or(|t| now < t) => {
                if paused {
                    return Ok(issued);
                }
                let Ok(_loading) = self.loading.try_lock() else { return Ok(issued) };
                match self.load().await {
                    Ok(renewed) => Ok(renewed),
                    Err(error) => {
                        tracing::warn!(source = self.provider.name(), %error, "credentials were not renewed yet");
                        Ok(issued)
                    }
                }
            }
            stale => {
                let _loading = self.loading.lock().await;
                self.unless_replaced(stale.map(|i| i.generation)).await
            }
        }
    }

    /// Loads again after the service refused what `used` holds. `None` when the source still gives the
    /// same credentials, so that trying again is in vain.
    pub(crate) async fn renew(&self, used: &Issued) -> Result<Option<Arc<Issued>>> {
        let _loading = self.loading.lock().await;
        let issued = self.unless_replaced(Some(used.generation)).await?;
        Ok((issued.credentials != used.credentials).then_some(issued))
    }

    /// Loads, unless somebody else has while this caller waited. Needs the loading lock.
    async fn unless_replaced(&self, seen: Option<u64>) -> Result<Arc<Issued>> {
        let current = self.state().current.clone();
        match current {
            Some(issued) if Some(issued.generation) != seen => Ok(issued),
            _ => self.load().await,
        }
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
        match loaded {
            Ok(credentials) => {
                let renew_at = credentials.expires_at().map(|end| {
                    let left = end.duration_since(now).unwrap_or_default();
                    end - MARGIN.min(left / 2)
                });
                state.generation += 1;
                let issued = Arc::new(Issued { credentials, generation: state.generation, renew_at });
                state.current = Some(Arc::clone(&issued));
                (state.failures, state.not_before) = (0, None);
                Ok(issued)
            }
            Err(error) => {
                let pause = Duration::from_secs(1 << state.failures.min(6)).min(MAX_PAUSE);
                state.failures += 1;
                state.not_before = Some(now + pause);
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
        f.debug_struct("CredentialCache").field("provider", &self.provider).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
