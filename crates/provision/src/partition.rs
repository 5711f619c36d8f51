//! Partitions: worlds of AWS with hosts, ARNs and accounts of their own.
//!
//! A region belongs to one of them. What differs is in one table: the word in ARNs, the ends of host
//! names, and where the services without a region (IAM, Route 53) are and for which region their requests
//! are signed. The partitions of governments that are cut off from the Internet are not in it.

/// One partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    /// The word in ARNs, such as `aws-cn`.
    pub name: &'static str,
    /// How names of its regions begin; empty for the one that has all others.
    prefix: &'static str,
    /// End of host names.
    pub suffix: &'static str,
    /// End of host names that have IPv6 addresses, too.
    pub dual_stack_suffix: &'static str,
    /// Where IAM, which has no regions, is reached.
    pub iam: Global,
    /// Where Route 53, which has no regions, is reached.
    pub route53: Global,
    /// Whether it has hosts with validated cryptography (FIPS) under names of their own.
    pub fips: Fips,
}

/// A service that has no region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Global {
    /// What stands between the service's name and the suffix, with a dot at its end, or nothing.
    pub place: &'static str,
    /// The same for hosts with IPv6.
    pub dual_stack_place: &'static str,
    /// The region that requests are signed for.
    pub signing_region: &'static str,
}

/// Hosts with validated cryptography.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fips {
    /// Under names with `-fips`.
    Named,
    /// Most hosts are such anyway.
    Everywhere,
    /// There are none.
    Absent,
}

const fn global(place: &'static str, dual: &'static str, signing_region: &'static str) -> Global {
    Global {
        place,
        dual_stack_place: dual,
        signing_region,
    }
}

/// The table; the last one has every region that no prefix claims.
const PARTITIONS: [Partition; 3] = [
    Partition {
        name: "aws-cn",
        prefix: "cn-",
        suffix: "amazonaws.com.cn",
        dual_stack_suffix: "api.amazonwebservices.com.cn",
        iam: global("cn-north-1.", "global.", "cn-north-1"),
        route53: global("", "global.", "cn-northwest-1"),
        fips: Fips::Absent,
    },
    Partition {
        name: "aws-us-gov",
        prefix: "us-gov-",
        suffix: "amazonaws.com",
        dual_stack_suffix: "api.aws",
        iam: global("us-gov.", "us-gov.", "us-gov-west-1"),
        route53: global("us-gov.", "us-gov.", "us-gov-west-1"),
        fips: Fips::Everywhere,
    },
    Partition {
        name: "aws",
        prefix: "",
        suffix: "amazonaws.com",
        dual_stack_suffix: "api.aws",
        iam: global("", "global.", "us-east-1"),
        route53: global("", "global.", "us-east-1"),
        fips: Fips::Named,
    },
];

impl Partition {
    /// The partition of a region.
    pub fn of(region: &str) -> &'static Self {
        let found = PARTITIONS.iter().find(|one| region.starts_with(one.prefix));
        found.expect("the last prefix is empty")
    }

    /// Whether prices and the list of regions are known: only those of the common partition are.
    pub(crate) fn is_common(&self) -> bool {
        self.prefix.is_empty()
    }

    /// Names of all partitions, as they stand in ARNs.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PARTITIONS.iter().map(|one| one.name)
    }

    /// An ARN of this partition: `rest` is what follows it, such as `iam::123456789012:role/x`.
    pub fn arn(&self, rest: &str) -> String {
        format!("arn:{}:{rest}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_region_has_one() {
        for (region, name) in [
            ("us-west-2", "aws"),
            ("us-gov-west-1", "aws-us-gov"),
            ("cn-northwest-1", "aws-cn"),
            ("eu-central-1", "aws"),
            ("nonsense", "aws"),
        ] {
            assert_eq!(Partition::of(region).name, name, "{region}");
        }
        let arn = Partition::of("cn-north-1").arn("iam::1:role/x");
        assert_eq!(arn, "arn:aws-cn:iam::1:role/x");
    }
}
