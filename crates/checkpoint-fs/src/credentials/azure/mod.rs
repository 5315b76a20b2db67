//! Credentials of Azure: account keys, shared access signatures, and tokens of Entra ID.

mod authorization;
mod chain;
mod entra;
mod managed;
mod token;

#[cfg(test)]
pub(crate) use self::authorization::bearer;
pub(crate) use self::authorization::{Authorization, sas, shared_key};
pub(crate) use self::chain::default_source;
pub(crate) use self::entra::{Authority, EntraProvider, Proof};
