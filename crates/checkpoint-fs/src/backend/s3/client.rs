//! The client of S3: certificates, proxies, time limits and attempts.

use std::time::Duration;

use super::settings::Settings;
use crate::backend::bucket::{CHECKSUM_MODES, RETRY_MODES, S3Options};
use crate::credentials::aws::CA_BUNDLE_OF_ALL;
use crate::error::{Error, Result};
use crate::options::Environment;
use crate::transport::{ClientSettings, RetryPolicy, TlsRoots};

/// Requests in flight at once.
pub(super) const DEFAULT_CONCURRENCY: usize = 64;
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The client's settings.
pub(super) fn settings(
    options: &S3Options,
    settings: &Settings<'_>,
    encrypted: bool,
    environment: &Environment,
) -> ClientSettings {
    ClientSettings {
        connect_timeout: options.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT),
        idle_connections: options.concurrency.unwrap_or(DEFAULT_CONCURRENCY),
        tls: roots(options, settings, encrypted),
        environment: options.with_proxies(environment),
    }
}

fn roots(options: &S3Options, settings: &Settings<'_>, encrypted: bool) -> TlsRoots {
    if !encrypted {
        // Nothing is encrypted, so a bundle that is not there is no reason to fail.
        return TlsRoots::System;
    }
    match &options.verify {
        Some(verify) => TlsRoots::of_verify(&verify.value),
        None => settings
            .find("AWS_CA_BUNDLE", "ca_bundle")
            .or_else(|| settings.variable(CA_BUNDLE_OF_ALL))
            .filter(|path| !path.value.is_empty())
            .map_or(TlsRoots::System, |path| TlsRoots::Bundle(path.value.into())),
    }
}

/// How often a request is tried.
pub(super) fn retry(options: &S3Options, settings: &Settings<'_>) -> Result<RetryPolicy> {
    Settings::check_word(&settings.find("AWS_RETRY_MODE", "retry_mode"), &RETRY_MODES)?;
    let configured = settings.find("AWS_MAX_ATTEMPTS", "max_attempts").map(|given| {
        given.value.trim().parse::<u32>().ok().filter(|n| *n > 0).ok_or_else(|| {
            Error::invalid_config(format!("the number of attempts is not one: source={}", given.source))
                .with_hint("write a whole number above 0")
        })
    });
    let attempts = match (options.attempts, configured.transpose()?) {
        (Some(attempts), _) | (None, Some(attempts)) => attempts,
        (None, None) => return Ok(RetryPolicy::default()),
    };
    Ok(RetryPolicy::default().with_attempts(attempts))
}

/// No checksum that a compatible store could refuse is ever sent, whatever these settings say; that they are
/// right is checked all the same.
pub(super) fn check_checksums(settings: &Settings<'_>) -> Result<()> {
    let pairs = [
        ("AWS_REQUEST_CHECKSUM_CALCULATION", "request_checksum_calculation"),
        ("AWS_RESPONSE_CHECKSUM_VALIDATION", "response_checksum_validation"),
    ];
    pairs.iter().try_for_each(|(variable, key)| {
        Settings::check_word_of_any_case(&settings.find(variable, key), &CHECKSUM_MODES)
    })
}
