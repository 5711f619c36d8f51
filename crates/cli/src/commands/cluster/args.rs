//! The command line of `canoe cluster`.

use std::path::PathBuf;

use crate::form::Form;
use clap::{Args, Subcommand, ValueEnum};

/// Arguments of `canoe cluster`.
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    /// Folder of the cluster's files.
    #[arg(long, global = true, default_value = ".")]
    pub(super) dir: PathBuf,
    #[command(subcommand)]
    pub(super) command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum ClusterCommand {
    /// Write cluster.yaml, with every option explained in it.
    Init(Box<InitArgs>),
    /// Check cluster.yaml and the account before anything costs money.
    Validate {
        /// Do not contact AWS.
        #[arg(long)]
        offline: bool,
        #[command(flatten)]
        form: Form,
    },
    /// Print the least-privilege IAM policy for this cluster.
    Policy {
        /// Account number (default: the account of your credentials).
        #[arg(long, value_parser = account)]
        account: Option<String>,
        /// Write the documents to files in the folder, and show how to attach them.
        #[arg(long)]
        write: bool,
    },
    /// Estimate the cost per hour, item by item.
    Cost {
        #[command(flatten)]
        form: Form,
    },
    /// Print the JSON schema of cluster.yaml.
    Schema,
    /// Write templates, user data or TLS assets into the folder.
    Render {
        #[command(subcommand)]
        what: RenderCommand,
    },
    /// Create the cluster, or update it.
    Up {
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// Also put the cluster into ~/.kube/config (or $KUBECONFIG).
        #[arg(long)]
        merge: bool,
        /// Do not wait for the nodes, and do not install the volume.
        #[arg(long)]
        no_wait: bool,
        /// Seconds between two polls of AWS.
        #[arg(long, default_value_t = 5.0, value_parser = seconds, allow_negative_numbers = true)]
        poll: f64,
    },
    /// Show what exists and what it costs.
    Status {
        /// Compare every resource with its template (takes a while).
        #[arg(long)]
        drift: bool,
        #[command(flatten)]
        form: Form,
    },
    /// Write the kubeconfig.
    Kubeconfig {
        /// Put it into ~/.kube/config (or $KUBECONFIG) as well.
        #[arg(long)]
        merge: bool,
    },
    /// Change the number of workers.
    Scale(ScaleArgs),
    /// List the Kubernetes versions on offer, or upgrade to one, a minor version at a time.
    Upgrade(UpgradeArgs),
    /// Delete everything, and check that nothing is left.
    Down {
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// Leave the file system, its key and disks of claims; without a word about them, --yes does so too.
        #[arg(long)]
        keep_data: bool,
        /// Delete the file system with all its data, its key, and disks of claims.
        #[arg(long, conflicts_with = "keep_data")]
        delete_data: bool,
        /// Continue although jobs are running, or although the cluster cannot be reached.
        #[arg(long)]
        force: bool,
        /// Seconds between two polls of AWS.
        #[arg(long, default_value_t = 5.0, value_parser = seconds, allow_negative_numbers = true)]
        poll: f64,
    },
    /// Print a token for the API server (the kubeconfig calls this).
    Token {
        /// Cluster name.
        #[arg(long)]
        name: String,
        /// Region.
        #[arg(long)]
        region: String,
    },
}

impl ClusterCommand {
    /// What to do after an interruption, if AWS may be in the middle of something then.
    pub(super) fn after_interruption(&self) -> Option<&'static str> {
        match self {
            Self::Up { .. } => Some(
                "run the same command again to follow it, or `canoe cluster down` to delete what was made",
            ),
            Self::Scale { .. } | Self::Upgrade { .. } | Self::Down { .. } => {
                Some("run the same command again to follow it")
            }
            _ => None,
        }
    }
}

/// A pause. (A number that is none, or has no end, is a float, too.)
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && seconds >= 0.0 => Ok(seconds),
        _ => Err("write a number of seconds, such as 5 or 0.5".to_owned()),
    }
}

/// The number of an AWS account.
fn account(text: &str) -> Result<String, String> {
    let good = text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit());
    good.then(|| text.to_owned()).ok_or(
        "an account number has 12 digits; `aws sts get-caller-identity` shows yours".to_owned(),
    )
}

#[derive(Debug, Args)]
pub(super) struct ScaleArgs {
    /// The new number of workers; with 0 control plane, network, key and files are still paid for.
    #[arg(long)]
    pub(super) workers: Option<u32>,
    /// As many workers as the jobs of the cluster want, up to workers.max; none if there is no job.
    #[arg(long, conflicts_with = "workers")]
    pub(super) auto: bool,
    /// With --auto: keep looking, until interrupted.
    #[arg(long, requires = "auto")]
    pub(super) follow: bool,
    /// With --follow: minutes without demand after which there are fewer workers.
    #[arg(long, default_value_t = 10)]
    pub(super) idle_minutes: u64,
    /// With spot capacity: how many of the workers are on demand.
    #[arg(long, requires = "workers")]
    pub(super) on_demand: Option<u32>,
    /// Do not ask.
    #[arg(long)]
    pub(super) yes: bool,
    /// Seconds between two polls of AWS.
    #[arg(long, default_value_t = 5.0, value_parser = seconds, allow_negative_numbers = true)]
    pub(super) poll: f64,
}

#[derive(Debug, Args)]
pub(super) struct UpgradeArgs {
    /// Minor version, such as 1.36 (default: list what is on offer).
    #[arg(long)]
    pub(super) to: Option<String>,
    /// Show the steps and change nothing.
    #[arg(long, requires = "to")]
    pub(super) plan: bool,
    /// Do not ask.
    #[arg(long)]
    pub(super) yes: bool,
    /// Seconds between two polls of AWS.
    #[arg(long, default_value_t = 5.0, value_parser = seconds, allow_negative_numbers = true)]
    pub(super) poll: f64,
}

#[derive(Debug, Subcommand)]
pub(super) enum RenderCommand {
    /// Templates and user data.
    Stack,
    /// TLS assets of a self-managed cluster.
    Credentials {
        /// Create a certificate authority (CA).
        #[arg(long)]
        generate_ca: bool,
        /// Certificate of an existing CA.
        #[arg(long, requires = "ca_key_path", conflicts_with = "generate_ca")]
        ca_cert_path: Option<PathBuf>,
        /// Private key of that CA.
        #[arg(long)]
        ca_key_path: Option<PathBuf>,
        /// Replace existing files.
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// Name of the cluster.
    pub(super) name: String,
    /// AWS region (default: AWS_REGION).
    #[arg(long)]
    pub(super) region: Option<String>,
    /// Zones, one to three, separated by commas.
    #[arg(long, visible_alias = "availability-zone", value_delimiter = ',')]
    pub(super) zones: Vec<String>,
    /// Number of workers.
    #[arg(long)]
    pub(super) workers: Option<u32>,
    /// Instance types, separated by commas.
    #[arg(long, value_delimiter = ',')]
    pub(super) instance_types: Vec<String>,
    /// Use spot capacity.
    #[arg(long)]
    pub(super) spot: bool,
    /// Kubernetes minor version.
    #[arg(long)]
    pub(super) kubernetes_version: Option<String>,
    /// Run the API server on your own EC2 instance instead of EKS.
    #[arg(long)]
    pub(super) self_managed: bool,
    /// Networks that may reach the API (default: your own address).
    #[arg(long, value_delimiter = ',')]
    pub(super) allow: Vec<String>,
    /// Allow access to the API only from inside the VPC.
    #[arg(long, conflicts_with = "allow")]
    pub(super) inside_only: bool,
    /// How workers reach the Internet.
    #[arg(long, value_enum, default_value = "nat")]
    pub(super) egress: EgressArg,
    /// An existing VPC to use, with --private-subnets.
    #[arg(long, requires = "private_subnets")]
    pub(super) vpc_id: Option<String>,
    /// Private subnets of that VPC, one per zone in the order of --zones.
    #[arg(long, value_delimiter = ',', requires = "vpc_id")]
    pub(super) private_subnets: Vec<String>,
    /// Public subnets of that VPC, for load balancers.
    #[arg(long, value_delimiter = ',', requires = "vpc_id")]
    pub(super) public_subnets: Vec<String>,
    /// Network of that VPC.
    #[arg(long, requires = "vpc_id")]
    pub(super) vpc_cidr: Option<String>,
    /// S3 buckets that pods may read and write.
    #[arg(long, value_delimiter = ',')]
    pub(super) buckets: Vec<String>,
    /// Make an image repository (ECR) with the cluster.
    #[arg(long)]
    pub(super) image_repository: bool,
    /// EKS add-ons, separated by commas; `none` for none.
    #[arg(long, value_delimiter = ',')]
    pub(super) addons: Vec<String>,
    /// EC2 key pair for SSH.
    #[arg(long, visible_alias = "key-name")]
    pub(super) ssh_key: Option<String>,
    /// Your own KMS key.
    #[arg(long)]
    pub(super) kms_key_arn: Option<String>,
    /// Throughput mode of the shared file system, which decides price and speed.
    #[arg(long, value_enum, default_value = "elastic")]
    pub(super) efs_throughput: ThroughputArg,
    /// An existing file system to use.
    #[arg(long)]
    pub(super) file_system_id: Option<String>,
    /// Name of the API server.
    #[arg(long)]
    pub(super) external_dns_name: Option<String>,
    /// Route 53 zone of that name.
    #[arg(long)]
    pub(super) hosted_zone_id: Option<String>,
    /// Tags, KEY=VALUE.
    #[arg(long = "tag")]
    pub(super) tags: Vec<String>,
    /// Replace an existing cluster.yaml.
    #[arg(long)]
    pub(super) force: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum ThroughputArg {
    /// Pay per byte moved, fast from the first byte.
    Elastic,
    /// Throughput grows with the amount of data stored.
    Bursting,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum EgressArg {
    /// Private subnets, one NAT gateway.
    Nat,
    /// Private subnets, a NAT gateway per zone.
    NatPerZone,
    /// Public subnets with no way in.
    Public,
    /// No Internet; the services of AWS through VPC endpoints.
    Endpoints,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--poll nan` ended with a panic, and a policy was printed for an account `abc`.
    #[test]
    fn what_is_no_pause_and_no_account_is_refused() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        for wrong in ["nan", "inf", "-1", "five", ""] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        assert!(account("123456789012").is_ok());
        for wrong in ["abc", "12345678901", "1234-5678-9012"] {
            assert!(account(wrong).unwrap_err().contains("12 digits"), "{wrong}");
        }
    }
}
