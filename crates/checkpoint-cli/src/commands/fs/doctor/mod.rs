//! `ckpt fs doctor`: how a URL is reached, and whether the store there does what a job needs.

mod checks;
mod report;
mod verdict;

use std::time::Duration;

use checkpoint_fs::{Capabilities, Location, Resolution};
use clap::Args;
use futures::future::BoxFuture;
use serde::Serialize;

use self::checks::Scratch;
use self::report::{Report, Row};
use self::verdict::{Checked, Verdict, Wrong};
use crate::args::JsonArg;
use crate::exit::Exit;
use crate::failure::Result;
use crate::session::Session;

/// `ckpt fs doctor`.
#[derive(Args)]
pub(super) struct DoctorArgs {
    /// A directory or prefix; a scratch directory is made in it and removed again
    #[arg(value_name = "URL")]
    url: String,
    #[command(flatten)]
    json: JsonArg,
}

#[derive(Serialize)]
struct Examined<'a> {
    #[serde(flatten)]
    resolution: &'a Resolution,
    ok: bool,
    scratch: String,
    capabilities: Option<Capabilities>,
    checks: &'a [Row],
}

type Check = for<'a> fn(&'a Scratch) -> BoxFuture<'a, Checked>;

/// The check without which those after it are in vain.
const PUT: &str = "put";

/// The checks by name, in the order in which they are tried.
const CHECKS: [(&str, Check); 13] = [
    ("list", |s| Box::pin(s.list())),
    (PUT, |s| Box::pin(s.put())),
    ("clock", |s| Box::pin(s.clock())),
    ("put if absent", |s| Box::pin(s.put_if_absent())),
    ("8 at once", |s| Box::pin(s.race())),
    ("get", |s| Box::pin(s.get())),
    ("range", |s| Box::pin(s.range())),
    ("list after write", |s| Box::pin(s.list_after_write())),
    ("copy", |s| Box::pin(s.copy())),
    ("rename", |s| Box::pin(s.rename())),
    ("multipart", |s| Box::pin(s.multipart())),
    ("multi-delete", |s| Box::pin(s.delete_many())),
    ("versioning", |s| Box::pin(s.versioning())),
];

/// The names of what else is done.
const OPEN: &str = "open";
const CLEAN_UP: &str = "clean up";

/// How long a step may take: more than one on a slow network, and far less than all attempts on a silent one.
const LIMIT: Duration = Duration::from_secs(120);

/// Resolves, tries everything, and shows how each step ended as soon as it has. Exits with 1 when something does not
/// hold.
pub(super) async fn run(args: &DoctorArgs, session: &Session) -> Result<Exit> {
    let resolution = session.registry.resolve(&args.url, &session.options).await?;
    let json = args.json.json;
    if !json {
        session.out.line(format!("{}\n", super::resolve::text(&resolution)))?;
    }
    let location = Location::parse(&args.url)?.join(&format!("ckpt-doctor-{:016x}", session.runtime.random()))?;
    let mut report = Report::new((!json).then_some(&session.out));
    let started = session.runtime.elapsed();
    let opened = tokio::time::timeout(LIMIT, session.open_location(&location)).await;
    let took = session.runtime.elapsed() - started;
    let mut capabilities = None;
    match opened {
        Ok(Ok(storage)) => {
            report.add(Row::new(OPEN, took, Ok(Verdict::Holds(String::new()))));
            capabilities = Some(storage.capabilities().clone());
            examine(&Scratch { storage, runtime: session.runtime.clone() }, &mut report).await;
        }
        Ok(Err(failure)) => {
            let mut lines = failure.lines(true).into_iter();
            let what = lines.next().unwrap_or_default();
            report.add(Row::new(OPEN, took, Ok(Verdict::Fails(what, lines.collect::<Vec<_>>().join("; ")))));
            report.add(Row::untried("it cannot be opened"));
        }
        Err(_) => {
            report.add(Row::new(OPEN, took, Err(Wrong::silence(LIMIT))));
            report.add(Row::untried(UNREACHED));
        }
    }
    let rows = report.end()?;
    let ok = rows.iter().all(Row::is_well);
    if json {
        let scratch = location.to_string();
        session.out.json(&Examined { resolution: &resolution, ok, scratch, capabilities, checks: &rows })?;
    }
    Ok(if ok { Exit::Done } else { Exit::No })
}

const UNREACHED: &str = "the store was not reached, so nothing else would be";

/// Tries the checks, and cleans up what they may have left.
async fn examine(scratch: &Scratch, report: &mut Report<'_>) {
    let mut written = false;
    for (name, check) in CHECKS {
        let (row, unreached) = timed(scratch, name, check).await;
        let failed = !row.is_well();
        report.add(row);
        // What was asked of a store that fell silent may have been done.
        written |= name == PUT && (!failed || unreached);
        if unreached {
            report.add(Row::untried(UNREACHED));
            break;
        }
        if name == PUT && failed {
            report.add(Row::untried("all of it needs an object"));
            break;
        }
    }
    if written {
        let by_hand = format!("what is left is removed by `ckpt fs rm -r {}`", scratch.storage.url());
        report.add(timed(scratch, CLEAN_UP, |s| Box::pin(s.clean_up())).await.0.advised(&by_hand));
    }
}

/// How a check ended, and whether the store was not reached by it.
async fn timed(scratch: &Scratch, name: &'static str, check: Check) -> (Row, bool) {
    tracing::debug!(check = name, url = scratch.storage.url(), "checking");
    let started = scratch.runtime.elapsed();
    let checked = within(LIMIT, check(scratch)).await;
    let unreached = checked.as_ref().is_err_and(|wrong| wrong.unreached);
    (Row::new(name, scratch.runtime.elapsed() - started, checked), unreached)
}

async fn within(limit: Duration, check: impl Future<Output = Checked>) -> Checked {
    tokio::time::timeout(limit, check).await.unwrap_or_else(|_| Err(Wrong::silence(limit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_check_of_which_nothing_comes_is_given_up() {
        let wrong = within(Duration::from_millis(1), std::future::pending()).await.expect_err("given up");
        assert!(wrong.unreached);
        let held = within(LIMIT, std::future::ready(Ok(Verdict::Holds(String::new())))).await;
        assert!(matches!(held, Ok(Verdict::Holds(_))), "{held:?}");
    }
}
