//! Every price that an estimate uses, in one place.
//!
//! List prices of us-east-1 in USD, before tax and discounts, as AWS's public pricing pages had them at
//! [`AS_OF`]; [`SOURCES`] names the pages. Other regions are this table times a factor
//! ([`crate::catalog::REGIONS`]). Nothing is fetched: an estimate must not depend on the network.

/// When the pages were read. What was compared with other sources since, and when, is in [`COMPARED`].
pub const AS_OF: &str = "2025-06";

/// Prices that other sites quote: which, who and when, and what they say. Everything else is not compared.
pub const COMPARED: [(&str, &str, &str); 2] = [
    (
        "EFS",
        "cloudburn.io/blog/amazon-efs-pricing, 2026-03",
        "0.30 USD for storage, the same",
    ),
    (
        "EFS",
        "factualminds.com/blog/amazon-efs-pricing-throughput-modes-storage-classes, 2026-06",
        "0.30 for storage, 0.03 for reads, 0.06 for writes, 0.01 for access to what is seldom used: the same; 0.025 for \
         storage that is seldom used, where this table has 0.016",
    ),
];

/// Where the prices stand.
pub const SOURCES: [(&str, &str); 11] = [
    ("machines", "https://aws.amazon.com/ec2/pricing/on-demand/"),
    ("EKS", "https://aws.amazon.com/eks/pricing/"),
    ("disks", "https://aws.amazon.com/ebs/pricing/"),
    ("files", "https://aws.amazon.com/efs/pricing/"),
    ("network", "https://aws.amazon.com/vpc/pricing/"),
    (
        "load balancers",
        "https://aws.amazon.com/elasticloadbalancing/pricing/",
    ),
    ("endpoints", "https://aws.amazon.com/privatelink/pricing/"),
    ("images", "https://aws.amazon.com/ecr/pricing/"),
    ("keys", "https://aws.amazon.com/kms/pricing/"),
    ("logs", "https://aws.amazon.com/cloudwatch/pricing/"),
    ("objects", "https://aws.amazon.com/s3/pricing/"),
];

/// Hours that a month is taken to have.
pub const HOURS_PER_MONTH: f64 = 730.0;
/// EKS control plane per hour, with a version in standard support.
pub const EKS: f64 = 0.10;
/// The same with a version in extended support.
pub const EKS_EXTENDED: f64 = 0.60;
/// NAT gateway per hour, without its address.
pub const NAT_GATEWAY: f64 = 0.045;
/// NAT gateway per GiB in either direction.
pub const NAT_GIB: f64 = 0.045;
/// Public IPv4 address per hour; the same in all regions.
pub const PUBLIC_ADDRESS: f64 = 0.005;
/// Interface endpoint per hour and zone.
pub const ENDPOINT: f64 = 0.01;
/// Interface endpoint per GiB.
pub const ENDPOINT_GIB: f64 = 0.01;
/// Traffic between zones per GiB, in each direction.
pub const CROSS_ZONE_GIB: f64 = 0.01;
/// Traffic to the Internet per GiB, after the first 100 GiB of a month.
pub const INTERNET_GIB: f64 = 0.09;
/// Network load balancer per hour.
pub const LOAD_BALANCER: f64 = 0.0225;
/// Network load balancer per capacity unit and hour.
pub const LOAD_BALANCER_UNIT: f64 = 0.006;
/// gp3 disk per GiB and month.
pub const DISK_GIB_MONTH: f64 = 0.08;
/// KMS key per month; the same in all regions.
pub const KEY_MONTH: f64 = 1.0;
/// EFS, frequently used data, per GiB and month.
pub const FILES_GIB_MONTH: f64 = 0.30;
/// EFS, data that was not used for 30 days, per GiB and month.
pub const FILES_COLD_GIB_MONTH: f64 = 0.016;
/// EFS, reading or writing such data, per GiB.
pub const FILES_COLD_ACCESS_GIB: f64 = 0.01;
/// EFS reads with elastic throughput, per GiB.
pub const FILES_READ_GIB: f64 = 0.03;
/// EFS writes with elastic throughput, per GiB.
pub const FILES_WRITE_GIB: f64 = 0.06;
/// AWS Backup of EFS per GiB and month.
pub const BACKUP_GIB_MONTH: f64 = 0.05;
/// Logs that CloudWatch takes in, per GiB.
pub const LOGS_GIB: f64 = 0.50;
/// Logs that CloudWatch keeps, per GiB and month.
pub const LOGS_GIB_MONTH: f64 = 0.03;
/// Images in ECR per GiB and month.
pub const IMAGES_GIB_MONTH: f64 = 0.10;
/// S3 standard storage per GiB and month.
pub const OBJECTS_GIB_MONTH: f64 = 0.023;
/// Share of the on-demand price that spot capacity is taken to cost; it moves.
pub const SPOT_SHARE: f64 = 0.35;
