//! A `minio` program, where there is one.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::Access;
use super::daemon::{Daemon, Kennel, answers_http, free_port, wait_until};

/// One node with one directory.
#[derive(Debug)]
pub(super) struct MinioServer {
    access: Access,
    _daemon: Daemon,
    _kennel: Kennel,
}

impl MinioServer {
    pub(super) fn start() -> Result<Self> {
        let mut kennel = Kennel::new("minio-")?;
        let port = free_port()?;
        let access = Access {
            endpoint: format!("http://127.0.0.1:{port}"),
            access_key: "test-access-key".to_owned(),
            secret_key: "test-secret-key".to_owned(),
        };
        let mut command = Command::new("minio");
        command
            .args(["server", "--quiet", "--address", &format!("127.0.0.1:{port}")])
            .arg(kennel.dir().join("data"))
            .env("MINIO_ROOT_USER", &access.access_key)
            .env("MINIO_ROOT_PASSWORD", &access.secret_key);
        let mut daemon = kennel.spawn("minio", &mut command)?;
        wait_until("minio", Duration::from_secs(30), || answers_http(port), || daemon.check_alive())?;
        Ok(Self { access, _daemon: daemon, _kennel: kennel })
    }

    pub(super) fn access(&self) -> &Access {
        &self.access
    }
}
