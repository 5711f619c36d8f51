//! What AWS offers, as far as it can be known without asking: versions, add-ons, instance types.
//!
//! The tables are for early warnings and estimates. Whatever they do not know is not refused here:
//! `validate` asks the account. What it costs is in [`crate::prices`].

use time::{Date, Month, OffsetDateTime};

/// Kubernetes minor version that `init` writes.
pub(crate) const DEFAULT_VERSION: &str = "1.35";

/// Oldest and newest minor version (after the `1.`) that are accepted without asking the account.
pub const VERSIONS: (u32, u32) = (31, 36);

/// When the list of versions was made.
pub const VERSIONS_AS_OF: &str = "2026-11";

/// First day, in UTC, on which EKS bills a minor version as extended support ("Understand the Kubernetes version
/// lifecycle on EKS" in the EKS User Guide). A version that is missing is too new for the list.
const STANDARD_SUPPORT_ENDS: [(u32, (i32, Month, u8)); 5] = [
    (31, (2025, Month::November, 26)),
    (32, (2026, Month::March, 23)),
    (33, (2026, Month::July, 29)),
    (34, (2026, Month::December, 2)),
    (35, (2027, Month::March, 27)),
];

/// Days before the end of standard support from which `validate`, `up` and `status` warn: AWS's own notice
/// comes 60 days before.
pub(crate) const SUPPORT_NOTICE_DAYS: i64 = 60;

/// The day on which standard support of a version ends, if it is known.
pub fn standard_support_ends(version: &str) -> Option<Date> {
    let minor = minor(version)?;
    let (_, (year, month, day)) = STANDARD_SUPPORT_ENDS
        .iter()
        .find(|(known, _)| *known == minor)?;
    Date::from_calendar_date(*year, *month, *day).ok()
}

/// When the standard support of a version ends, or that it has ended.
pub fn support(ends: Option<Date>, now: OffsetDateTime) -> String {
    match ends {
        Some(date) if date <= now.date() => format!("standard support ended on {date}"),
        Some(date) => format!("standard support until {date}"),
        None => "the end of its standard support is not known".to_owned(),
    }
}

/// What to say about a version whose standard support has ended or ends soon.
pub fn support_notice(version: &str, ends: Option<Date>, now: OffsetDateTime) -> Option<String> {
    let ends = ends.or_else(|| standard_support_ends(version))?;
    let days = (ends - now.date()).whole_days();
    if days > SUPPORT_NOTICE_DAYS {
        return None;
    }
    let when = if days > 0 {
        format!("standard support of Kubernetes {version} ends on {ends}, in {days} days")
    } else {
        format!("standard support of Kubernetes {version} ended on {ends}")
    };
    let then = if days > 0 { "then" } else { "now" };
    Some(format!(
        "{when}; EKS {then} upgrades the control plane of a cluster that is there by itself, and the workers stay behind: run \
         `canoe cluster upgrade`; for a new cluster set kubernetesVersion: \"{DEFAULT_VERSION}\""
    ))
}

/// The oldest containerd that the kubelet of a Kubernetes minor version works with: Kubernetes
/// 1.35 is the last that supports containerd 1.x (kubernetes.io, "Kubernetes v1.35 sneak peek").
pub(crate) fn least_containerd(kubernetes_minor: u32) -> &'static str {
    if kubernetes_minor > 35 { "2.0" } else { "1.7" }
}

/// A machine type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct InstanceType {
    /// Name, such as `m5.large`.
    pub name: &'static str,
    /// Virtual CPUs.
    pub cpus: u32,
    pub memory_gib: u32,
    /// USD per hour on demand in us-east-1.
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

/// Types with known prices; [`crate::prices`] says what they were compared with.
pub(crate) const INSTANCE_TYPES: &[InstanceType] = &[
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

/// Regions with the factor of their prices over us-east-1's, which is that of `m5.large`.
pub(crate) const REGIONS: &[(&str, f64)] = &[
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

/// Zones, by their ids, in which EKS puts no control plane ("View Amazon EKS networking requirements for VPC and subnets", EKS
/// User Guide). Their letters differ between accounts.
pub(crate) const ZONES_WITHOUT_EKS: [&str; 3] = ["cac1-az3", "use1-az3", "usw1-az2"];

/// Most networks that EKS takes in `publicAccessCidrs` (quota "Public endpoint access CIDR ranges per cluster").
pub(crate) const MOST_PUBLIC_CIDRS: usize = 40;

/// Add-ons that EKS has and that make sense here.
pub(crate) const ADDONS: &[&str] = &[
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
pub(crate) const LOG_DAYS: &[u32] = &[
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922,
    3288, 3653,
];

/// The type of this name, if its price is known.
pub(crate) fn instance_type(name: &str) -> Option<&'static InstanceType> {
    INSTANCE_TYPES.iter().find(|known| known.name == name)
}

/// Price factor of a region over us-east-1.
pub(crate) fn region_factor(region: &str) -> Option<f64> {
    REGIONS
        .iter()
        .find(|(name, _)| *name == region)
        .map(|(_, factor)| *factor)
}

/// Whether a text has the form of a region, such as `us-west-2`.
pub(crate) fn is_region_form(region: &str) -> bool {
    let parts: Vec<&str> = region.split('-').collect();
    (3..=4).contains(&parts.len())
        && parts[..parts.len() - 1]
            .iter()
            .all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_lowercase()))
        && parts[parts.len() - 1].len() == 1
        && parts[parts.len() - 1].bytes().all(|b| b.is_ascii_digit())
}

/// Whether the family is an ARM one: its generation digit is followed by a `g` (`m7g`, `c6gn`, `t4g`).
pub(crate) fn is_arm(instance_type: &str) -> bool {
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

    /// 1.34 was the default until two weeks before EKS bills six times as much for it.
    #[test]
    fn the_default_version_is_supported_and_the_end_is_announced() {
        let day = |year, month, day| {
            Date::from_calendar_date(year, month, day)
                .unwrap()
                .midnight()
                .assume_utc()
        };
        let ends = standard_support_ends(DEFAULT_VERSION).unwrap();
        assert!((ends - day(2026, Month::November, 17).date()).whole_days() > SUPPORT_NOTICE_DAYS);
        let notice = |now| support_notice("1.34", None, now);
        assert_eq!(notice(day(2026, Month::September, 1)), None);
        let soon = notice(day(2026, Month::November, 17)).unwrap();
        assert!(soon.contains("ends on 2026-12-02, in 15 days"), "{soon}");
        assert!(
            notice(day(2026, Month::December, 2))
                .unwrap()
                .contains("ended on 2026-12-02")
        );
        assert_eq!(
            support_notice("1.99", None, day(2026, Month::December, 2)),
            None
        );
        let told = Date::from_calendar_date(2026, Month::December, 1).ok();
        assert!(support_notice("1.99", told, day(2026, Month::November, 30)).is_some());
    }

    #[test]
    fn the_list_of_support_grows_with_the_versions() {
        assert!(STANDARD_SUPPORT_ENDS.is_sorted());
        assert_eq!(STANDARD_SUPPORT_ENDS[0].0, VERSIONS.0);
        assert!(
            STANDARD_SUPPORT_ENDS
                .iter()
                .all(|(minor, _)| *minor <= VERSIONS.1)
        );
        assert_eq!((least_containerd(35), least_containerd(36)), ("1.7", "2.0"));
    }

    #[test]
    fn support_that_has_ended_is_not_promised() {
        let today = Date::from_calendar_date(2026, Month::November, 19).unwrap();
        let now = today.midnight().assume_utc();
        let of = |version| support(standard_support_ends(version), now);
        assert_eq!(of("1.34"), "standard support until 2026-12-02");
        assert_eq!(of("1.33"), "standard support ended on 2026-07-29");
        assert_eq!(of("1.99"), "the end of its standard support is not known");
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
