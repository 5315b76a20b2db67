//! `ckpt fs doctor`: how a URL is reached, and whether the store there does what a job needs.

mod checks;

use checkpoint_fs::{Capabilities, Location, Resolution};
use clap::Args;
use futures::future::BoxFuture;
use serde::Serialize;

use self::checks::{Scratch, Verdict};
use crate::args::JsonArg;
use crate::exit::Exit;
use crate::failure::{Result, visible};
use crate::session::Session;
use crate::table::{Align, Table};

/// `ckpt fs doctor`.
#[derive(Args)]
pub(super) struct DoctorArgs {
    /// A directory or prefix; a scratch directory is made in it and removed again
    #[arg(value_name = "URL")]
    url: String,
    #[command(flatten)]
    json: JsonArg,
}

/// A check and how it ended.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    status: &'static str,
    milliseconds: u64,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
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

type Check = for<'a> fn(&'a Scratch) -> BoxFuture<'a, std::result::Result<Verdict, checks::Wrong>>;

/// The checks by name, in the order in which they are tried. Those after `put` are in vain without it.
const CHECKS: [(&str, Check); 13] = [
    ("list", |s| Box::pin(s.list())),
    ("put", |s| Box::pin(s.put())),
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

/// Resolves, tries everything, and prints a table. Exits with 1 when something does not hold.
pub(super) async fn run(args: &DoctorArgs, session: &Session) -> Result<Exit> {
    let resolution = session.registry.resolve(&args.url, &session.options).await?;
    let json = args.json.json;
    if !json {
        session.out.line(super::resolve::text(&resolution))?;
    }
    let location = Location::parse(&args.url)?.join(&format!("ckpt-doctor-{:016x}", session.runtime.random()))?;
    let mut rows = Vec::new();
    let started = session.runtime.elapsed();
    let opened = session.open_location(&location).await;
    let took = session.runtime.elapsed() - started;
    let mut capabilities = None;
    match opened {
        Ok(storage) => {
            rows.push(row("open", took, Ok(Verdict::Holds(String::new()))));
            capabilities = Some(storage.capabilities().clone());
            let scratch = Scratch { storage, runtime: session.runtime.clone() };
            examine(&scratch, &mut rows).await;
        }
        Err(failure) => {
            let mut lines = failure.lines(true).into_iter();
            let what = lines.next().unwrap_or_default();
            rows.push(row("open", took, Ok(Verdict::Fails(what, lines.collect::<Vec<_>>().join("; ")))));
        }
    }
    let ok = rows.iter().all(|row| row.status != "FAIL");
    if json {
        let scratch = location.to_string();
        session.out.json(&Examined { resolution: &resolution, ok, scratch, capabilities, checks: &rows })?;
    } else {
        session.out.line(format!("\n{}", table(&rows)))?;
    }
    Ok(if ok { Exit::Done } else { Exit::No })
}

async fn examine(scratch: &Scratch, rows: &mut Vec<Row>) {
    for (name, check) in CHECKS {
        let row = timed(scratch, name, check).await;
        let in_vain = name == "put" && row.status == "FAIL";
        rows.push(row);
        if in_vain {
            return;
        }
    }
    rows.push(timed(scratch, "clean up", |s| Box::pin(s.clean_up())).await);
}

async fn timed(scratch: &Scratch, name: &'static str, check: Check) -> Row {
    tracing::debug!(check = name, url = scratch.storage.url(), "checking");
    let started = scratch.runtime.elapsed();
    let checked = check(scratch).await;
    row(name, scratch.runtime.elapsed() - started, checked)
}

fn row(name: &'static str, took: std::time::Duration, checked: std::result::Result<Verdict, checks::Wrong>) -> Row {
    let (status, detail, advice) = match checked.unwrap_or_else(Verdict::from) {
        Verdict::Holds(detail) => ("ok", detail, None),
        Verdict::NotHere(why) => ("n/a", why, None),
        Verdict::Noted(detail, advice) => ("note", detail, Some(advice.to_owned())),
        Verdict::Fails(what, advice) => ("FAIL", what, Some(advice)),
    };
    let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    Row { name, status, milliseconds, detail, advice }
}

fn table(rows: &[Row]) -> String {
    let mut table = Table::new([Align::Left, Align::Left, Align::Right, Align::Left]);
    for row in rows {
        let detail = visible(&row.detail);
        table.row([row.status.to_owned(), row.name.to_owned(), format!("{} ms", row.milliseconds), detail]);
        if let Some(advice) = &row.advice {
            table.row([String::new(), String::new(), String::new(), format!("-> {}", visible(advice))]);
        }
    }
    table.render()
}
