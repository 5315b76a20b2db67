//! `ckpt fs ls`: a listing, streamed as the storage gives it.

use checkpoint_fs::{Entry, ListOptions, Location, ObjectMeta, ObjectPath, StorageExt, StorageRef};
use clap::Args;
use futures::TryStreamExt;
use serde::Serialize;

use super::place::{directory_at, file_at, missing};
use crate::amount::moment;
use crate::args::JsonArg;
use crate::exit::Exit;
use crate::failure::{Failure, Result, visible};
use crate::output::Output;
use crate::session::Session;

/// `ckpt fs ls`.
#[derive(Args)]
pub(super) struct LsArgs {
    /// The directory, or a file
    #[arg(value_name = "URL")]
    url: String,
    /// Everything below it
    #[arg(short, long)]
    recursive: bool,
    #[command(flatten)]
    json: JsonArg,
}

/// An entry as `--json` prints it.
#[derive(Serialize)]
struct Shown<'a> {
    url: String,
    path: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    size: Option<u64>,
    last_modified: Option<String>,
    etag: Option<&'a str>,
}

/// Lists and prints.
pub(super) async fn run(args: &LsArgs, session: &Session) -> Result<Exit> {
    let location = Location::parse(&args.url)?;
    let printer = Printer { out: &session.out, json: args.json.json };
    if !args.url.ends_with('/')
        && let Some(meta) = file_at(&location, session).await?
    {
        let (parent, name) = session.open_parent(&location).await?;
        printer.begin()?;
        printer.entry(&parent, &Entry::File { path: name, meta }, true)?;
        return printer.end();
    }
    let Some(storage) = directory_at(&location, session).await? else { return Err(missing(&location)) };
    printer.begin()?;
    let mut entries = storage.list(&ObjectPath::root(), ListOptions::new().recursive(args.recursive));
    let mut first = true;
    while let Some(entry) = entries.try_next().await? {
        printer.entry(&storage, &entry, first)?;
        first = false;
        if session.out.is_closed() {
            break;
        }
    }
    printer.end()
}

struct Printer<'a> {
    out: &'a Output,
    json: bool,
}

impl Printer<'_> {
    fn begin(&self) -> Result<()> {
        if self.json { self.out.bytes(b"{\"entries\":[") } else { Ok(()) }
    }

    fn entry(&self, storage: &StorageRef, entry: &Entry, first: bool) -> Result<()> {
        if !self.json {
            return self.out.bytes(format!("{}\n", line(entry)).as_bytes());
        }
        let url = storage.url_of(entry.path());
        let path = entry.path().as_str();
        let shown = match entry {
            Entry::File { meta, .. } => Shown {
                url,
                path,
                kind: "file",
                size: Some(meta.size),
                last_modified: meta.last_modified.map(moment),
                etag: meta.etag.as_deref(),
            },
            Entry::Dir { .. } => Shown { url, path, kind: "directory", size: None, last_modified: None, etag: None },
        };
        let text = serde_json::to_string(&shown)
            .map_err(|e| Failure::new(Exit::BadData, "an entry cannot be written as JSON").with_causes(&e))?;
        self.out.bytes(format!("{}{text}", if first { "" } else { "," }).as_bytes())
    }

    fn end(&self) -> Result<Exit> {
        if self.json {
            self.out.bytes(b"]}\n")?;
        }
        Ok(Exit::Done)
    }
}

/// Size, time and name; columns of a fixed width, since the listing is not known in advance.
fn line(entry: &Entry) -> String {
    match entry {
        Entry::File { path, meta } => {
            format!("{:>14}  {:<20}  {}", meta.size, modified(meta), visible(path.as_str()))
        }
        Entry::Dir { path } => format!("{:>14}  {:<20}  {}/", "-", "-", visible(path.as_str())),
    }
}

fn modified(meta: &ObjectMeta) -> String {
    meta.last_modified.map_or_else(|| "-".to_owned(), moment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let path = |text: &str| ObjectPath::parse(text).expect("valid");
        let file = Entry::File { path: path("a b"), meta: ObjectMeta::new(1_234) };
        assert_eq!(line(&file), "          1234  -                     a b");
        assert_eq!(line(&Entry::Dir { path: path("d") }), "             -  -                     d/");
    }
}
