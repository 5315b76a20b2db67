//! What AWS tools share: configuration files, profiles, and the chain of sources of credentials.
//!
//! The rules are those of botocore, which s3fs and most Python tools go through. [`AwsFiles`] reads the
//! files; [`AwsChain`] finds, in botocore's order, the source that is set up, and asks it. Which one that
//! is can be told without any network call, since each is set up by variables and files; the metadata
//! service of EC2, which every machine may have, comes last.

mod answer;
mod chain;
mod container;
mod endpoint;
mod files;
mod ini;
mod keys;
mod metadata;
mod partition;
mod path;
mod process;
mod profile;
#[cfg(test)]
mod recorded;
mod role;
#[cfg(test)]
mod scripted;
mod service;
mod setup;
mod source;
mod sso;
mod sso_token;
mod sts;
mod web_identity;
mod words;

pub(crate) use self::chain::AwsChain;
pub(crate) use self::files::{AwsFiles, CA_BUNDLE_OF_ALL};
pub(crate) use self::partition::domain;
pub(crate) use self::profile::AwsProfile;
pub(crate) use self::setup::AwsContext;
