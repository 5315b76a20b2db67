//! The table of guarantees in docs/backends.md says what the backends claim, and names tests that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use checkpoint_fs::{Capabilities, Environment, Registry, StorageOptions};
use checkpoint_testkit::mock::{CosMock, CosSettings, OssMock, OssSettings, TcLakeMock, TcLakeSettings, Versioning};
use serde_json::{Value, json};

use crate::page::{Page, Table, codes, root};

const BACKENDS: [&str; 8] = ["file", "memory", "s3", "cos", "oss", "gs", "tclake", "az"];

/// A cell that says yes or no: `no` comes first where it is no, and may come later where it depends.
fn yes(cell: &str) -> Result<bool> {
    match cell.split([':', ',', ' ', ';']).next() {
        Some("yes") => Ok(true),
        Some("no") => Ok(false),
        _ => anyhow::bail!("neither yes nor no: {cell:?}"),
    }
}

/// The number that a cell begins with; none for `no limit`.
fn number(cell: &str) -> Result<usize> {
    if cell == "no limit" {
        return Ok(usize::MAX);
    }
    let digits: String = cell.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().with_context(|| format!("no number: {cell:?}"))
}

/// Compares a cell with what a backend, opened at the root of its bucket, claims. `None` where no
/// capability could tell.
fn holds(guarantee: &str, cell: &str, c: &Capabilities) -> Result<Option<bool>> {
    Ok(Some(match guarantee {
        "create-only write" => yes(cell)? == c.write_if_absent,
        "copy that refuses to replace" => yes(cell)? == c.copy_if_absent,
        "atomic rename" => yes(cell)? == c.atomic_rename,
        "list after write" => yes(cell)? == c.consistent_list,
        "ordered list" => yes(cell)? == c.ordered_list,
        "keys in one multi-delete" => number(cell)? == c.max_delete_batch,
        "longest key, bytes" => number(cell)? == c.max_path,
        "directories" => yes(cell)? == c.directories,
        "survives the process" => yes(cell)? == c.durable,
        "versioning is known at open" => yes(cell)? == c.versioning.is_some(),
        _ => return Ok(None),
    }))
}

fn options(options: Value) -> Result<StorageOptions> {
    Ok(StorageOptions::from_value(options)?)
}

async fn opened(environment: Environment, url: &str, given: Value) -> Result<Capabilities> {
    let registry = Registry::with_environment(environment);
    Ok(registry.open_dir(url, &options(given)?).await.with_context(|| url.to_owned())?.capabilities().clone())
}

/// What each backend claims at the root of a bucket; of those that ask at open, a mock's.
async fn claims() -> Result<BTreeMap<&'static str, Capabilities>> {
    let none = Environment::default;
    let (cos, oss) = (CosMock::start(CosSettings::default())?, OssMock::start(OssSettings::default())?);
    let lake = TcLakeMock::start(TcLakeSettings::default())?;
    lake.add_volume("c", "s", "v", &format!("cosn://{}/", lake.new_bucket()));
    let keys = json!({"key": "K", "secret": "S"});
    let mut claims = BTreeMap::from([
        ("memory", opened(none(), "memory://docs", json!({})).await?),
        ("s3", opened(none(), "s3://bucket", json!({"s3": keys})).await?),
        ("cos", opened(cos.environment(), &format!("cos://{}", cos.new_bucket()), json!({})).await?),
        ("oss", opened(oss.environment(), &format!("oss://{}", oss.new_bucket()), json!({})).await?),
        ("gs", opened(none(), "gs://bucket", json!({"gs": {"token": "anon"}})).await?),
        ("tclake", opened(lake.environment(), "tclake://volume/c/s/v", json!({})).await?),
        ("az", opened(none(), "az://container", json!({"az": {"account_name": "acct", "account_key": "a2V5"}})).await?),
    ]);
    // Its limit counts the root.
    let dir = tempfile::tempdir()?;
    let root = dir.path().to_str().context("text")?;
    let mut file = opened(none(), root, json!({})).await?;
    file.max_path += root.len() + 1;
    claims.insert("file", file);
    Ok(claims)
}

/// The tables of the page by the heading of their section and their first column's title.
fn table(heading: &str, first: &str) -> Result<Table> {
    let sections = Page::read("docs/backends.md").sections();
    let section = sections.into_iter().find(|section| section.heading == heading).context("no such section")?;
    section.tables.into_iter().find(|table| table.header[0] == first).context("no such table")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_backend_claims_what_the_table_says() -> Result<()> {
    let table = table("Guarantees", "guarantee")?;
    let columns: Vec<&str> = table.header.iter().skip(1).flat_map(|title| codes(title)).collect();
    ensure!(columns == BACKENDS, "columns: {columns:?}");
    let claims = claims().await?;
    let mut compared = 0;
    for row in &table.rows {
        for (backend, cell) in columns.iter().zip(&row[1..]) {
            let held = holds(&row[0], cell, &claims[backend]).with_context(|| format!("{backend}: {}", row[0]))?;
            ensure!(held != Some(false), "{backend}: {}: the page says {cell:?}: {:?}", row[0], claims[backend]);
            compared += usize::from(held.is_some());
        }
    }
    ensure!(compared == 10 * BACKENDS.len(), "cells that were compared: {compared}");
    Ok(())
}

/// What a cell says after its first word: of versions, of other hosts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_exceptions_in_the_table_are_claimed_too() -> Result<()> {
    let (cos, oss) = (CosMock::start(CosSettings::default())?, OssMock::start(OssSettings::default())?);
    for versioning in [Versioning::Enabled, Versioning::Suspended] {
        let (of_cos, of_oss) = (cos.new_bucket(), oss.new_bucket());
        cos.set_versioning(&of_cos, versioning);
        oss.set_versioning(&of_oss, versioning);
        ensure!(!opened(cos.environment(), &format!("cos://{of_cos}"), json!({})).await?.write_if_absent);
        ensure!(!opened(oss.environment(), &format!("oss://{of_oss}"), json!({})).await?.write_if_absent);
    }
    let elsewhere = json!({"gs": {"token": "anon", "endpoint_url": "http://127.0.0.1:9"}});
    let elsewhere = opened(Environment::default(), "gs://bucket", elsewhere).await?;
    ensure!(!elsewhere.copy_if_absent && elsewhere.max_delete_batch == 100);
    for host in [
        "https://storage.googleapis.com",
        "https://cos.ap-guangzhou.myqcloud.com",
        "https://oss-cn-beijing.aliyuncs.com",
    ] {
        let options = json!({"s3": {"endpoint_url": host, "key": "K", "secret": "S"}});
        ensure!(!opened(Environment::default(), "s3://bucket", options).await?.write_if_absent, "{host}");
    }
    Ok(())
}

#[test]
fn every_row_is_verified_by_tests_that_exist() -> Result<()> {
    let said: Vec<String> = table("Guarantees", "guarantee")?.rows.into_iter().map(|row| row[0].clone()).collect();
    let verified = table("How each is verified", "guarantee")?;
    let rows: Vec<String> = verified.rows.iter().map(|row| row[0].clone()).collect();
    ensure!(said == rows, "rows that say something: {said:?}, rows that verify it: {rows:?}");
    let backends = table("How each is verified", "backend")?;
    let columns: Vec<&str> = backends.rows.iter().flat_map(|row| codes(&row[0])).collect();
    ensure!(columns == BACKENDS, "backends: {columns:?}");

    let (tests, cases) = (functions(true)?, functions(false)?);
    for row in &verified.rows {
        let (of_suite, others) = (codes(&row[1]), codes(&row[2]));
        ensure!(!of_suite.is_empty() || !others.is_empty(), "nothing verifies {}", row[0]);
        for name in of_suite {
            ensure!(cases.contains(name), "{}: no such case: {name}", row[0]);
        }
        for name in others {
            ensure!(tests.contains(name), "{}: no such test: {name}", row[0]);
        }
    }
    for row in &backends.rows {
        for name in codes(&row[3]) {
            ensure!(tests.contains(name), "{}: no such test: {name}", row[0]);
        }
    }
    Ok(())
}

/// The names of all tests, or of the cases of the conformance suite.
fn functions(of_tests: bool) -> Result<BTreeSet<String>> {
    let dirs: &[&str] = if of_tests {
        &["crates/checkpoint-fs", "crates/checkpoint-testkit/src/mock", "tests/tests"]
    } else {
        &["crates/checkpoint-testkit/src/conformance"]
    };
    let mut names = BTreeSet::new();
    for file in dirs.iter().map(|dir| sources(&root().join(dir))).collect::<Result<Vec<_>>>()?.concat() {
        let text = fs::read_to_string(&file)?;
        if !of_tests {
            let listed = text.split("case!(").skip(1).filter_map(|rest| rest.split([',', ')']).next());
            names.extend(listed.map(|name| name.trim().to_owned()));
            continue;
        }
        let mut marked = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                marked = true;
            } else if let Some((_, name)) = line.split_once("fn ").filter(|_| marked) {
                names.extend(name.split('(').next().map(str::to_owned));
                marked = false;
            }
        }
    }
    Ok(names)
}

fn sources(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}
