//! Processes that print credentials.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value as Json;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use super::ini::Value;
use super::setup::Setup;
use super::words;
use crate::credentials::{Credentials, expiry};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Environment;

/// How long a process may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The most that is read of what it prints.
const OUTPUT_LIMIT: u64 = 1 << 20;

/// A command, split into words, and the profile that names it. `Debug` shows the profile alone: a command
/// line may hold a secret.
pub(super) struct CredentialProcess {
    profile: String,
    words: Vec<String>,
    timeout: Duration,
}

impl CredentialProcess {
    /// The `credential_process` of a profile.
    ///
    /// # Errors
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) for one that is empty or whose quotes do not match.
    pub(super) fn find(setup: &Setup<'_>, profile: &str) -> Result<Option<Self>> {
        let value = setup.files.profiles.get(profile).and_then(|section| section.get("credential_process"));
        let wrong = |why: &str| {
            Error::invalid_config(format!("credential_process is not a command: {why}: profile={profile:?}"))
                .with_hint("write a program and its arguments, with quotes as in a shell")
        };
        let words = match value {
            None => return Ok(None),
            Some(Value::Nested(_)) => return Err(wrong("it is an indented block")),
            Some(Value::Text(text)) => words::split(text).map_err(wrong)?,
        };
        if words.first().is_none_or(String::is_empty) {
            return Err(wrong("it is empty"));
        }
        Ok(Some(Self { profile: profile.to_owned(), words, timeout: TIMEOUT }))
    }

    /// Runs it, with no shell and nothing to read, and reads what it prints. What it says on its standard
    /// error goes to ours.
    pub(super) async fn load(&self, environment: &Environment) -> Result<Credentials> {
        let mut child = self.spawn(environment)?;
        let mut group = Group::of(&child);
        let output = tokio::time::timeout(self.timeout, Box::pin(output(&mut child))).await;
        let (status, printed) = match output {
            Ok(Ok(done)) => done,
            Ok(Err(error)) => return Err(self.failed("it cannot be read from").with_source(error)),
            Err(_) => {
                let error = format!("the credential process did not end: seconds={}", self.timeout.as_secs());
                return Err(Error::new(ErrorKind::Timeout, error)
                    .with_hint(format!("run the credential_process of the profile {:?} by hand", self.profile)));
            }
        };
        group.ended();
        if !status.success() {
            return Err(self.failed(&format!("it ended with {status}")));
        }
        self.read(&printed)
    }

    fn spawn(&self, environment: &Environment) -> Result<Child> {
        let (program, arguments) = self.words.split_first().ok_or_else(|| self.failed("it is empty"))?;
        Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(environment.iter())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| self.failed("it cannot be started").with_source(e))
    }

    fn read(&self, printed: &[u8]) -> Result<Credentials> {
        // Neither the text nor what the parser says about it is repeated: it holds the secret.
        let Ok(json) = serde_json::from_slice::<Json>(printed) else {
            return Err(self.failed("what it prints is not JSON"));
        };
        if json.get("Version").and_then(Json::as_f64) != Some(1.0) {
            return Err(self.failed("what it prints is not of version 1"));
        }
        let text = |name: &str| json.get(name).and_then(Json::as_str).filter(|text| !text.is_empty());
        let (Some(key), Some(secret)) = (text("AccessKeyId"), text("SecretAccessKey")) else {
            return Err(self.failed("what it prints holds no AccessKeyId or no SecretAccessKey"));
        };
        let expires_at = match json.get("Expiration") {
            None | Some(Json::Null) => None,
            Some(time) => Some(
                time.as_str()
                    .and_then(expiry::parse)
                    .ok_or_else(|| self.failed("the Expiration that it prints is not a time"))?,
            ),
        };
        let token = text("SessionToken").map(str::to_owned);
        Ok(Credentials::new(key, secret).with_session_token(token).with_expiry(expires_at))
    }

    fn failed(&self, why: &str) -> Error {
        Error::new(
            ErrorKind::Unauthenticated,
            format!("the credential process failed: {why}: profile={:?}", self.profile),
        )
        .with_hint("run the profile's credential_process by hand; it prints a JSON object with Version 1")
    }
}

async fn output(child: &mut Child) -> std::io::Result<(std::process::ExitStatus, Vec<u8>)> {
    let mut printed = Vec::new();
    if let Some(pipe) = child.stdout.take() {
        pipe.take(OUTPUT_LIMIT).read_to_end(&mut printed).await?;
    }
    Ok((child.wait().await?, printed))
}

/// The process with those that it started, ended together unless it has ended by itself.
struct Group(Option<rustix::process::Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| rustix::process::Pid::from_raw(id.try_into().ok()?)))
    }

    fn ended(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may be gone already, which is as good.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

impl std::fmt::Debug for CredentialProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CredentialProcess").field(&self.profile).finish()
    }
}

#[cfg(test)]
mod tests;
