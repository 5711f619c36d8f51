//! The command line of `canoe cluster`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Arguments of `canoe cluster`.
#[derive(Debug, Args)]
pub struct ClusterArgs {
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
    /// Check cluster.yaml, and the account, before anything costs money.
    Validate {
        /// Ask no account.
        #[arg(long)]
        offline: bool,
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
    /// Print the least IAM policy that you need for this cluster.
    Policy {
        /// Account number; asked from AWS when absent.
        #[arg(long)]
        account: Option<String>,
        /// Write the documents to files in the folder, and show how to attach them.
        #[arg(long)]
        write: bool,
    },
    /// Estimate the cost an hour, part by part.
    Cost {
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
    /// Print the JSON schema of cluster.yaml.
    Schema,
    /// Write templates, user data or TLS assets into the folder.
    Render {
        #[command(subcommand)]
        what: RenderCommand,
    },
    /// Make the cluster, or bring it up to date.
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
        /// Path of kubectl.
        #[arg(long, default_value = "kubectl")]
        kubectl: String,
        /// Seconds between two looks at AWS.
        #[arg(long, default_value_t = 5.0)]
        poll: f64,
    },
    /// Show what is there and what it costs.
    Status {
        /// Compare every resource with its template (takes a while).
        #[arg(long)]
        drift: bool,
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
        /// Path of kubectl.
        #[arg(long, default_value = "kubectl")]
        kubectl: String,
    },
    /// Write the kubeconfig.
    Kubeconfig {
        /// Put it into ~/.kube/config (or $KUBECONFIG) as well.
        #[arg(long)]
        merge: bool,
    },
    /// Change the number of workers.
    Scale {
        /// How many there should be.
        #[arg(long)]
        workers: u32,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// Seconds between two looks at AWS.
        #[arg(long, default_value_t = 5.0)]
        poll: f64,
    },
    /// Show the steps to another Kubernetes version.
    Upgrade {
        /// Such as 1.35.
        #[arg(long)]
        to: String,
    },
    /// Take everything away, and check that nothing is left.
    Down {
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// Leave the file system and its key.
        #[arg(long)]
        keep_data: bool,
        /// Go on although jobs are running.
        #[arg(long)]
        force: bool,
        /// Path of kubectl.
        #[arg(long, default_value = "kubectl")]
        kubectl: String,
        /// Seconds between two looks at AWS.
        #[arg(long, default_value_t = 5.0)]
        poll: f64,
    },
    /// Print a token for kubectl (the kubeconfig calls this).
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
    /// Whether AWS may be in the middle of something when it is interrupted.
    pub(super) fn changes_aws(&self) -> bool {
        matches!(
            self,
            Self::Up { .. } | Self::Scale { .. } | Self::Down { .. }
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub(super) enum RenderCommand {
    /// Templates and user data.
    Stack,
    /// TLS assets of a self-managed cluster.
    Credentials {
        /// Make a certificate authority.
        #[arg(long)]
        generate_ca: bool,
        /// Use this authority.
        #[arg(long, requires = "ca_key_path", conflicts_with = "generate_ca")]
        ca_cert_path: Option<PathBuf>,
        /// Its key.
        #[arg(long)]
        ca_key_path: Option<PathBuf>,
        /// Replace what is there.
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// Name of the cluster.
    pub(super) name: String,
    /// AWS region; AWS_REGION when absent.
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
    /// An API server on a machine of yours instead of EKS.
    #[arg(long)]
    pub(super) self_managed: bool,
    /// Networks that may reach the API; your own address when absent.
    #[arg(long, value_delimiter = ',')]
    pub(super) allow: Vec<String>,
    /// Reach the API only from inside the VPC.
    #[arg(long, conflicts_with = "allow")]
    pub(super) inside_only: bool,
    /// How workers reach the Internet.
    #[arg(long, value_enum, default_value = "nat")]
    pub(super) egress: EgressArg,
    /// EKS add-ons, separated by commas; `none` for none.
    #[arg(long, value_delimiter = ',')]
    pub(super) addons: Vec<String>,
    /// EC2 key pair for SSH.
    #[arg(long, visible_alias = "key-name")]
    pub(super) ssh_key: Option<String>,
    /// Your own KMS key.
    #[arg(long)]
    pub(super) kms_key_arn: Option<String>,
    /// How the shared file system is paid for and how fast it is.
    #[arg(long, value_enum, default_value = "elastic")]
    pub(super) efs_throughput: ThroughputArg,
    /// A file system that is there already.
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
    /// Speed grows with what is stored.
    Bursting,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum EgressArg {
    Nat,
    NatPerZone,
    Public,
}
