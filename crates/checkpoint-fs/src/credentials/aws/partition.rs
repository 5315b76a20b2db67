//! AWS's partitions: which domain the services of a region live under.

/// A partition's name pattern for regions, and its domains: the usual one and that with IPv6.
struct Partition {
    /// What a region's name starts with; `<word>-<number>` follows.
    prefix: &'static str,
    global: Option<&'static str>,
    domain: &'static str,
    dual_stack_domain: &'static str,
}

const PARTITIONS: [Partition; 7] = [
    Partition {
        prefix: "cn-",
        global: Some("aws-cn-global"),
        domain: "amazonaws.com.cn",
        dual_stack_domain: "api.amazonwebservices.com.cn",
    },
    Partition {
        prefix: "us-gov-",
        global: Some("aws-us-gov-global"),
        domain: "amazonaws.com",
        dual_stack_domain: "api.aws",
    },
    Partition {
        prefix: "us-iso-",
        global: Some("aws-iso-global"),
        domain: "c2s.ic.gov",
        dual_stack_domain: "api.aws.ic.gov",
    },
    Partition {
        prefix: "us-isob-",
        global: Some("aws-iso-b-global"),
        domain: "sc2s.sgov.gov",
        dual_stack_domain: "api.aws.scloud",
    },
    Partition {
        prefix: "eu-isoe-",
        global: Some("aws-iso-e-global"),
        domain: "cloud.adc-e.uk",
        dual_stack_domain: "api.cloud-aws.adc-e.uk",
    },
    Partition {
        prefix: "us-isof-",
        global: Some("aws-iso-f-global"),
        domain: "csp.hci.ic.gov",
        dual_stack_domain: "api.aws.hci.ic.gov",
    },
    Partition {
        prefix: "eusc-de-",
        global: None,
        domain: "amazonaws.eu",
        dual_stack_domain: "api.amazonwebservices.eu",
    },
];

/// The domain of a region's services. A region that no partition knows is taken for one of the first.
pub(crate) fn domain(region: &str, dual_stack: bool) -> &'static str {
    let (domain, dual_stack_domain) = PARTITIONS
        .iter()
        .find(|p| p.global == Some(region) || region.strip_prefix(p.prefix).is_some_and(word_and_number))
        .map_or(("amazonaws.com", "api.aws"), |p| (p.domain, p.dual_stack_domain));
    if dual_stack { dual_stack_domain } else { domain }
}

fn word_and_number(rest: &str) -> bool {
    rest.split_once('-').is_some_and(|(word, number)| {
        !word.is_empty()
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && !number.is_empty()
            && number.bytes().all(|b| b.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_by_partition() {
        for (region, plain, dual) in [
            ("eu-west-1", "amazonaws.com", "api.aws"),
            ("aws-global", "amazonaws.com", "api.aws"),
            ("cn-north-1", "amazonaws.com.cn", "api.amazonwebservices.com.cn"),
            ("aws-cn-global", "amazonaws.com.cn", "api.amazonwebservices.com.cn"),
            ("cn-nowhere", "amazonaws.com", "api.aws"),
            ("us-gov-west-1", "amazonaws.com", "api.aws"),
            ("us-iso-east-1", "c2s.ic.gov", "api.aws.ic.gov"),
            ("us-isob-east-1", "sc2s.sgov.gov", "api.aws.scloud"),
            ("eu-isoe-west-1", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk"),
            ("eusc-de-east-1", "amazonaws.eu", "api.amazonwebservices.eu"),
            ("", "amazonaws.com", "api.aws"),
        ] {
            assert_eq!((domain(region, false), domain(region, true)), (plain, dual), "{region}");
        }
    }
}
