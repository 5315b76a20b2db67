//! What AWS tools share: configuration files, profiles, and the chain of sources of credentials.
//!
//! The rules are those of botocore, which s3fs and most Python tools go through.

mod files;
mod ini;
mod path;
mod profile;
mod words;

pub(crate) use self::files::AwsFiles;
pub(crate) use self::profile::AwsProfile;
