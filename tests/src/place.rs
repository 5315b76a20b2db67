//! Where jobs live: a directory, a bucket of a real S3 server, or a vendor's store as a mock plays it. What is there is read by the file system's
//! own calls, or by plain requests for names and bytes.

use std::any::Any;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use checkpoint_fs::{
    DeleteOptions, ObjectPath, ReadOptions, Registry, StorageExt, StorageOptions, StorageRef, WriteOptions,
};
use checkpoint_testkit::mock::{CosMock, CosSettings, OssMock, OssSettings, TcLakeMock, TcLakeSettings};
use checkpoint_testkit::server::{Azurite, FakeGcsServer, S3Server};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A root for jobs, empty at first.
#[derive(Debug)]
pub struct Place {
    url: String,
    variables: Vec<(&'static str, String)>,
    /// For the files that tests keep beside their jobs: traces and what children print.
    scratch: TempDir,
    root: Root,
    /// The mock that all this is on.
    _mock: Option<Box<dyn Any + Send + Sync>>,
}

#[derive(Debug)]
enum Root {
    Directory(PathBuf),
    Bucket(StorageRef),
}

impl Place {
    /// A new directory.
    ///
    /// # Errors
    /// When none can be made.
    pub fn directory() -> Result<Self> {
        let scratch = tempfile::tempdir()?;
        let root = scratch.path().join("jobs");
        fs::create_dir(&root)?;
        let url = root.to_str().context("the temporary directory is not UTF-8")?.to_owned();
        Ok(Self { url, variables: Vec::new(), scratch, root: Root::Directory(root), _mock: None })
    }

    /// A new bucket of the S3 server that the tests find or start.
    ///
    /// # Errors
    /// When there is no server; says what to install.
    pub fn bucket() -> Result<Self> {
        let server = S3Server::shared()?;
        Self::store(format!("s3://{}/jobs", server.access().new_bucket()?), server.access().variables())
    }

    /// A new bucket of fake-gcs-server.
    ///
    /// # Errors
    /// When it is not installed; says how to install it.
    pub fn gs() -> Result<Self> {
        let server = FakeGcsServer::shared()?;
        Self::store(format!("gs://{}/jobs", server.new_bucket()?), server.variables())
    }

    /// A new container of Azurite.
    ///
    /// # Errors
    /// When it is not installed; says what to do.
    pub fn az() -> Result<Self> {
        let server = Azurite::shared()?;
        Self::store(format!("az://{}/jobs", server.new_container()?), server.variables())
    }

    /// A new bucket of a COS of its own.
    ///
    /// # Errors
    /// When the mock does not start, or its bucket cannot be opened.
    pub fn cos() -> Result<Self> {
        let mock = CosMock::start(CosSettings::default())?;
        Ok(Self::store(format!("cos://{}/jobs", mock.new_bucket()), mock.variables())?.on(mock))
    }

    /// A new bucket of an OSS of its own.
    ///
    /// # Errors
    /// As [`Place::cos`].
    pub fn oss() -> Result<Self> {
        let mock = OssMock::start(OssSettings::default())?;
        Ok(Self::store(format!("oss://{}/jobs", mock.new_bucket()), mock.variables())?.on(mock))
    }

    /// A new volume of a TCLake of its own.
    ///
    /// # Errors
    /// As [`Place::cos`].
    pub fn tclake() -> Result<Self> {
        let mock = TcLakeMock::start(TcLakeSettings::default())?;
        mock.add_volume("cat", "db", "raw", &format!("cosn://{}/volumes/raw", mock.new_bucket()));
        Ok(Self::store("tclake://volume/cat/db/raw/jobs".to_owned(), mock.variables())?.on(mock))
    }

    /// An object store that a URL names, reached by variables.
    fn store(url: String, variables: Vec<(&'static str, String)>) -> Result<Self> {
        let registry = Registry::with_environment(variables.iter().cloned().collect());
        let storage = runtime()?.block_on(registry.open_dir(&url, &StorageOptions::new()))?;
        Ok(Self { url, variables, scratch: tempfile::tempdir()?, root: Root::Bucket(storage), _mock: None })
    }

    fn on(self, mock: impl Any + Send + Sync) -> Self {
        Self { _mock: Some(Box::new(mock)), ..self }
    }

    /// The URL of something in it.
    pub fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.url)
    }

    /// What a child needs in its environment to reach it.
    pub fn variables(&self) -> &[(&'static str, String)] {
        &self.variables
    }

    /// A path for a file of the test's own.
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// All files below a directory, by their path in it, with their sizes; hidden files too.
    ///
    /// # Errors
    /// When it cannot be listed; a directory that is not there is empty.
    pub fn list(&self, dir: &str) -> Result<BTreeMap<String, u64>> {
        let dir = dir.trim_end_matches('/');
        match &self.root {
            Root::Directory(root) => {
                let mut files = BTreeMap::new();
                walk(&root.join(dir), "", &mut files)?;
                Ok(files)
            }
            Root::Bucket(storage) => {
                let listed = runtime()?.block_on(storage.list_files(&ObjectPath::parse(dir)?, true))?;
                let files = listed
                    .into_iter()
                    .map(|(path, meta)| (path.as_str()[dir.len()..].trim_start_matches('/').to_owned(), meta.size));
                Ok(files.collect())
            }
        }
    }

    /// A whole file; `None` where there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self, path: &str) -> Result<Option<Bytes>> {
        match &self.root {
            Root::Directory(root) => match fs::read(root.join(path)) {
                Ok(bytes) => Ok(Some(bytes.into())),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error).with_context(|| format!("reading {path}")),
            },
            Root::Bucket(storage) => {
                let path = ObjectPath::parse(path)?;
                let read = runtime()?.block_on(storage.read_optional(&path, ReadOptions::new()))?;
                Ok(read.map(|read| read.bytes))
            }
        }
    }

    /// A whole file.
    ///
    /// # Errors
    /// When it is not there or cannot be read.
    pub fn existing(&self, path: &str) -> Result<Bytes> {
        self.read(path)?.ok_or_else(|| anyhow!("there is no {path}"))
    }

    /// Writes a file by hand.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &str, bytes: Bytes) -> Result<()> {
        match &self.root {
            Root::Directory(root) => {
                let path = root.join(path);
                fs::create_dir_all(path.parent().context("no parent")?)?;
                Ok(fs::write(path, bytes)?)
            }
            Root::Bucket(storage) => {
                let outcome =
                    runtime()?.block_on(storage.write(&ObjectPath::parse(path)?, bytes, WriteOptions::new()))?;
                Ok(outcome.into_result(storage.url()).map(drop)?)
            }
        }
    }

    /// Everything below a directory.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn copy_out(&self, dir: &str) -> Result<BTreeMap<String, Bytes>> {
        let names = self.list(dir)?.into_keys();
        names.map(|name| Ok((name.clone(), self.existing(&format!("{dir}/{name}"))?))).collect()
    }

    /// Puts a directory back to what [`Place::copy_out`] gave.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put_back(&self, dir: &str, files: &BTreeMap<String, Bytes>) -> Result<()> {
        match &self.root {
            Root::Directory(root) => {
                let dir = root.join(dir);
                if dir.exists() {
                    fs::remove_dir_all(&dir)?;
                }
            }
            Root::Bucket(storage) => {
                let paths: Result<Vec<ObjectPath>, _> =
                    self.list(dir)?.keys().map(|name| ObjectPath::parse(format!("{dir}/{name}"))).collect();
                let failures = runtime()?.block_on(storage.delete_many(paths?, DeleteOptions::new()))?;
                anyhow::ensure!(failures.is_empty(), "not deleted: {failures:?}");
            }
        }
        files.iter().try_for_each(|(name, bytes)| self.write(&format!("{dir}/{name}"), bytes.clone()))
    }
}

fn walk(dir: &Path, prefix: &str, files: &mut BTreeMap<String, u64>) -> Result<()> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("listing {}", dir.display())),
    };
    for entry in entries {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), &format!("{name}/"), files)?;
        } else {
            // A live writer may have renamed it meanwhile.
            let size = entry.metadata().map_or(0, |meta| meta.len());
            files.insert(name, size);
        }
    }
    Ok(())
}

/// One runtime for what tests ask of an object store.
fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    let built = RUNTIME
        .get_or_init(|| tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build())
        .as_ref();
    built.map_err(|error| anyhow!("no runtime: {error}"))
}
