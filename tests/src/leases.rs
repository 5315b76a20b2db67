//! Changing leases by hand, as only another host could.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::job::Job;

/// Where an attempt is, in a job's checkpoint.
pub fn attempt_path(attempt: u64) -> String {
    format!("_meta/attempts/{attempt}.json")
}

fn change(job: &Job<'_>, attempt: u64, with: impl FnOnce(&mut Value)) -> Result<()> {
    let path = job.checkpoint(&attempt_path(attempt));
    let mut file: Value = serde_json::from_slice(&job.place.existing(&path)?)?;
    with(&mut file);
    job.place.write(&path, serde_json::to_vec_pretty(&file)?.into())
}

/// Makes an attempt look like another host's, its lease as short as given.
///
/// # Errors
/// When there is no such attempt.
pub fn forge_foreign_owner(job: &Job<'_>, attempt: u64, lease_seconds: u64) -> Result<()> {
    change(job, attempt, |file| {
        file["owner"]["boot_id"] = "00000000-0000-4000-8000-000000000000".into();
        file["owner"]["host"] = "another-host".into();
        file["lease_seconds"] = lease_seconds.into();
    })
}

/// Renews the lease of an attempt, as its owner would.
///
/// # Errors
/// When there is no such attempt.
pub fn renew(job: &Job<'_>, attempt: u64) -> Result<()> {
    let mut renewals = None;
    change(job, attempt, |file| {
        renewals = file["renewals"].as_u64();
        file["renewals"] = renewals.map_or(Value::Null, |n| (n + 1).into());
    })?;
    renewals.map(drop).context("the attempt counts no renewals")
}
