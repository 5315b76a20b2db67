//! `ckpt fs resolve`: how a URL would be reached, without reaching for it.

use checkpoint_fs::Resolution;
use clap::Args;

use crate::args::JsonArg;
use crate::exit::Exit;
use crate::failure::{Result, visible};
use crate::session::Session;
use crate::table::Table;

/// `ckpt fs resolve`.
#[derive(Args)]
pub(super) struct ResolveArgs {
    /// The URL of an object
    #[arg(value_name = "URL")]
    url: String,
    #[command(flatten)]
    json: JsonArg,
}

/// Resolves and prints. Sends nothing, and shows no secret.
pub(super) async fn run(args: &ResolveArgs, session: &Session) -> Result<Exit> {
    let resolution = session.registry.resolve(&args.url, &session.options).await?;
    match args.json.json {
        true => session.out.json(&resolution)?,
        false => session.out.line(text(&resolution))?,
    }
    Ok(Exit::Done)
}

/// A line for each setting that there is, with where it came from.
pub(super) fn text(resolution: &Resolution) -> String {
    let flag = |value: bool| Some(if value { "yes" } else { "no" }.to_owned());
    let of_network = resolution.bucket.is_some();
    let rows = [
        ("scheme", Some(resolution.scheme.clone())),
        ("backend", Some(resolution.backend.clone())),
        ("bucket", resolution.bucket.clone()),
        ("key", Some(resolution.key.clone())),
        ("endpoint", resolution.endpoint.clone()),
        ("region", resolution.region.clone()),
        ("signing region", resolution.signing_region.clone()),
        ("addressing", resolution.addressing.clone()),
        ("access key ID", resolution.access_key_id.clone()),
        ("session token", flag(resolution.has_session_token).filter(|_| of_network)),
        ("anonymous", flag(resolution.anonymous).filter(|_| of_network)),
        ("object URL", resolution.object_url.clone()),
        ("list URL", resolution.list_url.clone()),
    ];
    let source = |label: &str| resolution.sources.get(&label.to_lowercase().replace(' ', "_"));
    let facts = rows.into_iter().filter_map(|(label, value)| {
        let shown = match (value?, source(label)) {
            (value, Some(source)) => format!("{value}  ({source})"),
            (value, None) => value,
        };
        Some((label, visible(&shown)))
    });
    let credentials = source("credentials").map(|source| ("credentials", visible(source)));
    Table::facts(facts.chain(credentials))
}

#[cfg(test)]
mod tests {
    use checkpoint_fs::Location;

    use super::*;

    #[test]
    fn settings_stand_beside_their_sources() {
        let location = Location::parse("s3://bkt/dir/x").expect("valid");
        let mut resolution = Resolution::plain("s3", &location);
        resolution.bucket = Some("bkt".to_owned());
        resolution.region = Some("eu-west-1".to_owned());
        resolution.sources.insert("region".to_owned(), "profile dev: region".to_owned());
        resolution.sources.insert("credentials".to_owned(), "environment".to_owned());
        let expected = "  scheme         s3\n  backend        s3\n  bucket         bkt\n  key            dir/x\n  \
                        region         eu-west-1  (profile dev: region)\n  session token  no\n  anonymous      no\n  \
                        credentials    environment";
        assert_eq!(text(&resolution), expected);
        let plain = Resolution::plain("file", &Location::parse("/a/b").expect("valid"));
        assert_eq!(text(&plain), "  scheme   file\n  backend  file\n  key      a/b");
    }
}
