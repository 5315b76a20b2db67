//! `ckpt ids`: the IDs that are done, listed, counted or looked up.

mod export;
mod lookup;
mod parse;

use checkpoint_store::{Checkpoint, committed_ids};
use clap::{Args, ValueEnum};
use futures::StreamExt;
use serde::Serialize;

use crate::args::LeaseUrlArg;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::session::Session;

/// `ckpt ids`.
#[derive(Args)]
pub(crate) struct IdsArgs {
    /// The checkpoint's directory
    #[arg(value_name = "CHECKPOINT")]
    checkpoint: String,
    /// How IDs are listed: one a line, as JSON objects, or as a Parquet file
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT", conflicts_with_all = ["count", "contains"])]
    format: IdsFormat,
    /// Count them instead
    #[arg(long, conflicts_with = "contains")]
    count: bool,
    /// Look an ID up instead, written as this command lists it; exit 1 when any is absent
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    contains: Vec<String>,
    #[command(flatten)]
    lease: LeaseUrlArg,
    /// Print the count as one JSON object
    #[arg(long, requires = "count")]
    json: bool,
}

/// How IDs are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum IdsFormat {
    #[default]
    Text,
    Jsonl,
    Parquet,
}

#[derive(Serialize)]
struct Count {
    count: u64,
}

/// Lists, counts or looks up.
pub(crate) async fn run(args: &IdsArgs, session: &Session) -> Result<Exit> {
    let checkpoint = session.checkpoint(&args.checkpoint, &args.lease).await?;
    if args.count {
        let count = Count { count: count(&checkpoint).await? };
        if args.json {
            session.out.json(&count)?
        } else {
            session.out.line(count.count.to_string())?
        }
        return Ok(Exit::Done);
    }
    if !args.contains.is_empty() {
        return lookup::run(&checkpoint, &args.contains, session).await;
    }
    match args.format {
        IdsFormat::Text => export::text(&checkpoint, &session.out).await?,
        IdsFormat::Jsonl => export::jsonl(&checkpoint, &session.out).await?,
        IdsFormat::Parquet if session.out.is_terminal() => {
            return Err(Failure::usage("a Parquet file is not for a terminal")
                .with_hint("send it to a file: ckpt ids CHECKPOINT --format parquet > ids.parquet"));
        }
        IdsFormat::Parquet => export::parquet(&checkpoint, &session.out).await?,
    }
    Ok(Exit::Done)
}

async fn count(checkpoint: &Checkpoint) -> Result<u64> {
    let mut ids = std::pin::pin!(committed_ids(checkpoint).await?);
    let mut total = 0;
    while let Some(column) = ids.next().await {
        total += column?.len() as u64;
    }
    Ok(total)
}

/// The name of the ID column and the type it had when the job began, as far as the checkpoint knows them.
async fn id_column(checkpoint: &Checkpoint) -> Result<(Option<String>, Option<String>)> {
    let snapshot = checkpoint.existing().await?;
    if let Some(fingerprint) = snapshot.fingerprint() {
        return Ok((Some(fingerprint.id_column.clone()), Some(fingerprint.id_type.clone())));
    }
    // A checkpoint that Ray alone has written: its records tell.
    let status = checkpoint_store::status(checkpoint).await?;
    Ok((status.id_column, status.id_type))
}
