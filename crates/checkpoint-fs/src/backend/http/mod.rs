//! What the object stores share that have nothing to do with any one of them: addresses, and the way from
//! keys to paths.

mod endpoint;
mod listed;

pub(crate) use self::endpoint::{Endpoint, encode_query};
pub(crate) use self::listed::listed_path;
