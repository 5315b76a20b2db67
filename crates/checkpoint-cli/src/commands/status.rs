//! `ckpt status`: counting what is done, beside a live run or after it.

use checkpoint_store::{AttemptState, LastAttempt, Status};
use clap::Args;

use crate::amount::{counted, size};
use crate::args::{JsonArg, LeaseUrlArg};
use crate::exit::Exit;
use crate::failure::Result;
use crate::session::Session;
use crate::table::Table;

/// `ckpt status`.
#[derive(Args)]
pub(crate) struct StatusArgs {
    /// The checkpoint's directory
    #[arg(value_name = "CHECKPOINT")]
    checkpoint: String,
    #[command(flatten)]
    lease: LeaseUrlArg,
    #[command(flatten)]
    json: JsonArg,
}

/// Counts and prints.
pub(crate) async fn run(args: &StatusArgs, session: &Session) -> Result<Exit> {
    let checkpoint = session.checkpoint(&args.checkpoint, &args.lease).await?;
    let status = checkpoint_store::status(&checkpoint).await?;
    if args.json.json {
        session.out.json(&status)?;
    } else {
        session.out.line(describe(&status))?;
    }
    Ok(Exit::Done)
}

fn describe(status: &Status) -> String {
    let tasks = |rows: u64, tasks: u64| format!("{} in {}", counted(rows, "row"), counted(tasks, "task"));
    let ids = match (&status.id_column, &status.id_type) {
        (Some(column), Some(id_type)) => format!("{column} ({id_type})"),
        (Some(column), None) => column.clone(),
        (None, _) => "not known yet".to_owned(),
    };
    let mut facts = vec![("id column", ids), ("committed", tasks(status.committed_rows, status.committed_tasks))];
    if status.pending_tasks > 0 {
        facts.push(("pending", tasks(status.pending_rows, status.pending_tasks)));
    }
    if status.void_tasks > 0 {
        facts.push(("void", format!("{}, swept by the next run", counted(status.void_tasks, "task"))));
    }
    facts.push(("attempts", status.attempts.to_string()));
    if let Some(last) = &status.last_attempt {
        facts.push(("last attempt", owner(last)));
    }
    let per_id = status.bytes_per_id.map_or(String::new(), |bytes| format!(", {bytes:.1} bytes an ID"));
    facts.push(("records", format!("{}{per_id}", size(status.bytes))));
    if let Some(last) = &status.last_commit {
        facts.push(("last commit", last.clone()));
    }
    if status.complete {
        facts.push(("complete", "yes; the next run finishes deleting the checkpoint".to_owned()));
    }
    format!("{}\n{}", status.checkpoint, Table::facts(facts))
}

/// The last attempt in words. Whether a process that says it runs was killed, only its next renewal tells.
fn owner(last: &LastAttempt) -> String {
    let LastAttempt { attempt, host, pid, renewed, .. } = last;
    let who = format!("process {pid} on host {host}");
    match last.state {
        AttemptState::Running => format!("{attempt}, running or killed: {who}, lease renewed {renewed}"),
        AttemptState::Succeeded => format!("{attempt}, succeeded {renewed}"),
        AttemptState::Failed => format!("{attempt}, failed {renewed}: {who}"),
        AttemptState::Interrupted => format!("{attempt}, interrupted {renewed}: {who}"),
        AttemptState::Maintained => format!("{attempt}, maintenance, ended {renewed}"),
        _ => format!("{attempt}, ended {renewed}"),
    }
}
