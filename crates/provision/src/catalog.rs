//! What AWS offers, as far as it can be known without asking: versions, add-ons, types, prices.
//!
//! The tables are for early warnings and estimates. Whatever they do not know is not refused here:
//! `validate` asks the account. Prices are list prices, see [`PRICES_AS_OF`].

/// Kubernetes minor version that `init` writes.
pub const DEFAULT_VERSION: &str = "1.34";

/// Oldest and newest minor version (after the `1.`) that are accepted without asking the account.
pub const VERSIONS: (u32, u32) = (31, 36);

/// When the list of versions was made.
pub const VERSIONS_AS_OF: &str = "2026-11";

/// When the price list was made.
pub const PRICES_AS_OF: &str = "2025-06";

/// A machine type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InstanceType {
    /// Name, such as `m5.large`.
    pub name: &'static str,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Memory in GiB.
    pub memory_gib: u32,
    /// USD an hour on demand in us-east-1.
    pub price: f64,
}

const fn machine(name: &'static str, cpus: u32, memory_gib: u32, price: f64) -> InstanceType {
    InstanceType {
        name,
        cpus,
        memory_gib,
        price,
    }
}

/// Types with known prices.
pub const INSTANCE_TYPES: &[InstanceType] = &[
    machine("t3.small", 2, 2, 0.0208),
    machine("t3.medium", 2, 4, 0.0416),
    machine("t3.large", 2, 8, 0.0832),
    machine("t3.xlarge", 4, 16, 0.1664),
    machine("t4g.medium", 2, 4, 0.0336),
    machine("t4g.large", 2, 8, 0.0672),
    machine("m5.large", 2, 8, 0.096),
    machine("m5.xlarge", 4, 16, 0.192),
    machine("m5.2xlarge", 8, 32, 0.384),
    machine("m5.4xlarge", 16, 64, 0.768),
    machine("m6i.large", 2, 8, 0.096),
    machine("m6i.xlarge", 4, 16, 0.192),
    machine("m6i.2xlarge", 8, 32, 0.384),
    machine("m6i.4xlarge", 16, 64, 0.768),
    machine("m6g.large", 2, 8, 0.077),
    machine("m6g.xlarge", 4, 16, 0.154),
    machine("m7i.large", 2, 8, 0.1008),
    machine("m7i.xlarge", 4, 16, 0.2016),
    machine("m7i.2xlarge", 8, 32, 0.4032),
    machine("m7i.4xlarge", 16, 64, 0.8064),
    machine("m7g.large", 2, 8, 0.0816),
    machine("m7g.xlarge", 4, 16, 0.1632),
    machine("m7g.2xlarge", 8, 32, 0.3264),
    machine("c5.large", 2, 4, 0.085),
    machine("c5.xlarge", 4, 8, 0.17),
    machine("c5.2xlarge", 8, 16, 0.34),
    machine("c5.4xlarge", 16, 32, 0.68),
    machine("c6i.large", 2, 4, 0.085),
    machine("c6i.xlarge", 4, 8, 0.17),
    machine("c6i.2xlarge", 8, 16, 0.34),
    machine("c6i.4xlarge", 16, 32, 0.68),
    machine("c7i.large", 2, 4, 0.08925),
    machine("c7i.xlarge", 4, 8, 0.1785),
    machine("c7i.2xlarge", 8, 16, 0.357),
    machine("c7i.4xlarge", 16, 32, 0.714),
    machine("c7g.large", 2, 4, 0.0725),
    machine("c7g.xlarge", 4, 8, 0.145),
    machine("c7g.2xlarge", 8, 16, 0.29),
    machine("r5.large", 2, 16, 0.126),
    machine("r5.xlarge", 4, 32, 0.252),
    machine("r5.2xlarge", 8, 64, 0.504),
    machine("r5.4xlarge", 16, 128, 1.008),
    machine("r6i.large", 2, 16, 0.126),
    machine("r6i.xlarge", 4, 32, 0.252),
    machine("r6i.2xlarge", 8, 64, 0.504),
    machine("r7i.large", 2, 16, 0.1323),
    machine("r7i.xlarge", 4, 32, 0.2646),
    machine("r7g.large", 2, 16, 0.1071),
    machine("r7g.xlarge", 4, 32, 0.2142),
];

/// Regions with the factor of their prices over us-east-1's.
pub const REGIONS: &[(&str, f64)] = &[
    ("us-east-1", 1.0),
    ("us-east-2", 1.0),
    ("us-west-1", 1.17),
    ("us-west-2", 1.0),
    ("ca-central-1", 1.11),
    ("sa-east-1", 1.59),
    ("eu-west-1", 1.11),
    ("eu-west-2", 1.16),
    ("eu-west-3", 1.17),
    ("eu-central-1", 1.2),
    ("eu-north-1", 1.06),
    ("eu-south-1", 1.17),
    ("ap-south-1", 1.05),
    ("ap-northeast-1", 1.29),
    ("ap-northeast-2", 1.23),
    ("ap-southeast-1", 1.25),
    ("ap-southeast-2", 1.25),
    ("ap-east-1", 1.38),
    ("me-south-1", 1.22),
    ("af-south-1", 1.32),
];

/// Add-ons that EKS has and that make sense here.
pub const ADDONS: &[&str] = &[
    "vpc-cni",
    "kube-proxy",
    "coredns",
    "eks-pod-identity-agent",
    "aws-efs-csi-driver",
    "aws-ebs-csi-driver",
    "eks-node-monitoring-agent",
    "metrics-server",
    "amazon-cloudwatch-observability",
    "aws-guardduty-agent",
    "snapshot-controller",
];

/// Days that CloudWatch accepts as retention.
pub const LOG_DAYS: &[u32] = &[
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922,
    3288, 3653,
];

/// The type of this name, if its price is known.
pub fn instance_type(name: &str) -> Option<&'static InstanceType> {
    INSTANCE_TYPES.iter().find(|known| known.name == name)
}

/// Price factor of a region over us-east-1.
pub fn region_factor(region: &str) -> Option<f64> {
    REGIONS
        .iter()
        .find(|(name, _)| *name == region)
        .map(|(_, factor)| *factor)
}

/// Whether a text has the form of a region, such as `us-west-2`.
pub fn is_region_form(region: &str) -> bool {
    let parts: Vec<&str> = region.split('-').collect();
    (3..=4).contains(&parts.len())
        && parts[..parts.len() - 1]
            .iter()
            .all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_lowercase()))
        && parts[parts.len() - 1].len() == 1
        && parts[parts.len() - 1].bytes().all(|b| b.is_ascii_digit())
}

/// Whether the family is an ARM one: its generation digit is followed by a `g` (`m7g`, `c6gn`, `t4g`).
pub fn is_arm(instance_type: &str) -> bool {
    let family = instance_type.split('.').next().unwrap_or_default();
    let after = family
        .trim_start_matches(|c: char| c.is_ascii_lowercase())
        .trim_start_matches(|c: char| c.is_ascii_digit());
    after.starts_with('g') || family == "a1"
}

/// The minor number of a version such as `1.34`.
pub fn minor(version: &str) -> Option<u32> {
    let digits = version.strip_prefix("1.")?;
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
        .then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_consistent() {
        let mut names: Vec<&str> = INSTANCE_TYPES.iter().map(|t| t.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), INSTANCE_TYPES.len());
        assert!(
            INSTANCE_TYPES
                .iter()
                .all(|t| crate::names::is_instance_type(t.name) && t.price > 0.0)
        );
        assert!(
            REGIONS
                .iter()
                .all(|(name, factor)| is_region_form(name) && *factor >= 1.0)
        );
        let newest = minor(DEFAULT_VERSION).unwrap();
        assert!((VERSIONS.0..=VERSIONS.1).contains(&newest));
    }

    #[test]
    fn forms() {
        assert!(is_arm("m7g.large") && is_arm("c6gn.xlarge") && is_arm("t4g.small"));
        assert!(!is_arm("m5.large") && !is_arm("g5.xlarge") && !is_arm("m7i-flex.large"));
        assert!(
            is_region_form("us-gov-west-1")
                && !is_region_form("us-west")
                && !is_region_form("US-WEST-2")
        );
        assert_eq!(minor("1.34"), Some(34));
        assert_eq!(
            (minor("1.34.1"), minor("1."), minor("34")),
            (None, None, None)
        );
    }
}
