//! The region: where it is set, and what requests are signed for.

use super::aws::{GLOBAL, GLOBAL_REGION};
use super::settings::Settings;
use crate::backend::bucket::Given;
use crate::error::{Error, Result};
use crate::resolution::Setting;

/// The region that is set, in this order: options, `AWS_DEFAULT_REGION`, the profile. `AWS_REGION`, which
/// other tools read and botocore does not, comes last.
///
/// # Errors
/// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a text that no region can be.
pub(super) fn find(option: Given<String>, settings: &Settings<'_>) -> Result<Given<String>> {
    let region = option
        .or_else(|| settings.find("AWS_DEFAULT_REGION", "region"))
        .or_else(|| settings.variable("AWS_REGION").filter(|region| !region.value.is_empty()));
    if let Some(region) = &region {
        check(region)?;
    }
    Ok(region)
}

/// Whether a region's name asks for FIPS endpoints, as old names do; the name without that.
pub(super) fn without_fips(region: Setting<String>) -> (Setting<String>, bool) {
    let plain = region.value.replace("fips-", "").replace("-fips", "");
    let asks = plain != region.value;
    (Setting { value: plain, ..region }, asks)
}

/// The region that requests are signed for.
pub(super) fn of_signatures(region: &str) -> &str {
    if region == GLOBAL { GLOBAL_REGION } else { region }
}

/// A name that could be part of a host; an empty one is for stores that want no region in signatures.
fn check(region: &Setting<String>) -> Result<()> {
    if !region.value.is_empty() && !is_region(&region.value) {
        return Err(Error::invalid_config(format!("the region is not valid: source={}", region.source))
            .with_hint("a region looks like us-east-1; leave it out where the store has none"));
    }
    Ok(())
}

/// Whether a text could be the name of a region.
pub(super) fn is_region(text: &str) -> bool {
    let plain = (1..=63).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    plain && !text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_regions() {
        for good in ["", "us-east-1", "auto", "EU", "a1", &"a".repeat(63)] {
            check(&Setting::new(good.to_owned(), "test")).expect(good);
        }
        for bad in ["-eu", "eu-", "eu.west", "eu_west", "eu west", "12", "\u{e9}u", "eu\n", &"a".repeat(64)] {
            assert!(check(&Setting::new(bad.to_owned(), "test")).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn old_names_of_fips_regions() {
        let name = |text: &str| without_fips(Setting::new(text.to_owned(), "test"));
        assert_eq!((name("fips-us-gov-west-1").0.value.as_str(), name("us-west-2-fips").1), ("us-gov-west-1", true));
        assert!(!name("us-west-2").1);
        assert_eq!((of_signatures("aws-global"), of_signatures("")), ("us-east-1", ""));
    }
}
