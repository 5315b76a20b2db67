//! `ckpt fs stat`: what is known of one file.

use checkpoint_fs::{Location, StorageExt};
use clap::Args;
use serde::Serialize;

use super::place::no_file;
use crate::amount::{count, moment, size};
use crate::args::JsonArg;
use crate::exit::Exit;
use crate::failure::{Result, visible};
use crate::session::Session;
use crate::table::Table;

/// `ckpt fs stat`.
#[derive(Args)]
pub(super) struct StatArgs {
    /// The file
    #[arg(value_name = "URL")]
    url: String,
    #[command(flatten)]
    json: JsonArg,
}

#[derive(Serialize)]
struct Stat {
    url: String,
    size: u64,
    last_modified: Option<String>,
    etag: Option<String>,
}

/// Asks and prints.
pub(super) async fn run(args: &StatArgs, session: &Session) -> Result<Exit> {
    let location = Location::parse(&args.url)?;
    let (parent, name) = session.open_parent(&location).await?;
    let meta = if name.is_root() { None } else { parent.stat_optional(&name).await? };
    let Some(meta) = meta else { return Err(no_file(&location, session).await?) };
    let stat = Stat {
        url: parent.url_of(&name),
        size: meta.size,
        last_modified: meta.last_modified.map(moment),
        etag: meta.etag,
    };
    if args.json.json {
        session.out.json(&stat)?;
        return Ok(Exit::Done);
    }
    let bytes = format!("{} bytes", count(stat.size));
    let mut facts = vec![("size", if stat.size < 1024 { bytes } else { format!("{} ({bytes})", size(stat.size)) })];
    facts.extend(stat.last_modified.map(|time| ("modified", time)));
    facts.extend(stat.etag.map(|etag| ("etag", etag)));
    session.out.line(format!("{}\n{}", visible(&stat.url), Table::facts(facts)))?;
    Ok(Exit::Done)
}
