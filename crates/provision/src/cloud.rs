//! AWS as this crate sees it: the few calls it needs, as a trait.
//!
//! Two things implement it: the signed-request client, which signs requests and sends them, and the double
//! of the tests, which enforces what no public stand-in does (interfaces that hold groups, exports
//! that hold stacks, buckets that are not empty). Commands are written against the trait, so the code
//! that is tested is the code that runs.

use std::collections::BTreeMap;
use std::future::Future;

use crate::catalog;
use crate::lifecycle::events::StackEvent;
use crate::lifecycle::teardown::Interface;
use crate::ownership::{Tags, Thing};
use crate::policy::Simulation;
use crate::statuses::{
    ChangeAction, ChangeSetStatus, DriftStatus, KeyState, Replacement, ResourceStatus, StackStatus,
    VersionSupport,
};

/// Why a call failed.
#[derive(Debug, Clone, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum CloudError {
    /// AWS said no.
    #[error("{action}: {code}{}", with_colon(.message))]
    Refused {
        /// Such as `cloudformation:CreateChangeSet`.
        action: String,
        /// Of the HTTP response.
        status: u16,
        /// AWS's error code.
        code: String,
        /// AWS's words.
        message: String,
    },
    /// There are no credentials, or they could not be loaded.
    #[error("no AWS credentials: {0}; run `aws configure` or `aws sso login`, or set AWS_PROFILE")]
    Credentials(String),
    /// The environment or the profile asks for something that cannot be had.
    #[error("{0}")]
    Settings(String),
    /// AWS could not be reached.
    #[error("{action}: cannot reach {endpoint}: {reason}")]
    Unreachable {
        /// Such as `sts:GetCallerIdentity`.
        action: String,
        /// Where the request went.
        endpoint: String,
        reason: String,
        /// No connection came about: no such host, refused, no route.
        connecting: bool,
    },
    /// The response could not be read.
    #[error("{action}: the response of AWS cannot be read: {reason}")]
    Unreadable {
        /// Such as `ec2:DescribeVolumes`.
        action: String,
        reason: String,
    },
}

/// Parts of the codes with which services say that they are busy, whatever the status.
const BUSY: &[&str] = &[
    "Throttl",
    "RequestLimitExceeded",
    "BandwidthLimitExceeded",
    "TooManyRequests",
    "TransactionInProgress",
    "SlowDown",
    "RequestTimeout",
    "PriorRequestNotComplete",
];

/// What a region says of good credentials of an account that has not enabled it, as well as of wrong ones.
const NOT_KNOWN_HERE: [&str; 4] = [
    "InvalidClientTokenId",
    "UnrecognizedClient",
    "AuthFailure",
    "OptInRequired",
];

/// Some refusals say nothing but their code.
fn with_colon(message: &str) -> String {
    match message.trim() {
        "" => String::new(),
        message => format!(": {message}"),
    }
}

impl CloudError {
    fn code(&self) -> &str {
        match self {
            Self::Refused { code, .. } => code,
            _ => "",
        }
    }

    /// Whether the thing that was asked for does not exist.
    pub fn is_missing(&self) -> bool {
        let Self::Refused { code, message, .. } = self else {
            return false;
        };
        code.contains("NotFound") || code.contains("NoSuch") || message.contains("does not exist")
    }

    fn has_code(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.code().contains(word))
    }

    /// Whether trying again later may help: no response, a failing server, or too many requests.
    pub(crate) fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { status, .. } => {
                matches!(status, 429 | 500 | 502 | 503 | 504) || self.has_code(BUSY)
            }
            _ => false,
        }
    }

    /// Whether the service is not to be found there at all.
    pub(crate) fn is_absent_service(&self) -> bool {
        matches!(
            self,
            Self::Unreachable {
                connecting: true,
                ..
            }
        ) || self.code() == "UnknownOperationException"
    }

    /// Whether the service may have refused because our clock is wrong; its response carries its own time.
    pub(crate) fn is_about_time(&self) -> bool {
        self.has_code(&[
            "Skewed",
            "RequestExpired",
            "RequestInTheFuture",
            "AuthFailure",
        ]) || self.is_signature_refused()
    }

    fn is_signature_refused(&self) -> bool {
        self.has_code(&["InvalidSignature", "SignatureDoesNotMatch"])
    }

    /// Whether the service says that the signature's time is wrong.
    fn is_skewed(&self) -> bool {
        let Self::Refused { message, .. } = self else {
            return false;
        };
        let words = ["Signature expired", "Signature not yet current"];
        self.has_code(&["Skewed", "RequestInTheFuture"])
            || (self.is_signature_refused() && words.iter().any(|word| message.contains(word)))
    }

    /// Whether the credentials are no longer good.
    pub(crate) fn is_expired(&self) -> bool {
        let words = [
            "ExpiredToken",
            "RequestExpired",
            "InvalidClientTokenId",
            "InvalidAccessKeyId",
            "UnrecognizedClient",
            "AuthFailure",
        ];
        self.has_code(&words) || self.is_signature_refused()
    }

    /// Whether there is something of this name already.
    pub fn is_taken(&self) -> bool {
        self.has_code(&["AlreadyExists", "EntityAlreadyExists"])
    }

    /// Whether a bucket of this name is in another region.
    pub fn is_elsewhere(&self) -> bool {
        let moved = matches!(self, Self::Refused { status: 301, .. });
        moved || self.has_code(&["PermanentRedirect", "AuthorizationHeaderMalformed"])
    }

    /// Whether a permission is missing.
    pub fn is_denied(&self) -> bool {
        self.has_code(&["AccessDenied", "UnauthorizedOperation", "NotAuthorized"])
    }

    /// What the user can do.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Credentials(_) => "then run this again",
            Self::Settings(_) => "correct it, then run this again",
            _ if self.is_skewed() => {
                "the clock of this machine is wrong; set it, then run this again"
            }
            _ if self.has_code(&NOT_KNOWN_HERE) => {
                "the credentials are wrong or have expired, or this account has not enabled the region; sign in again, or enable it \
                 (`aws account list-regions` shows which are), then run this again: it continues where it stopped"
            }
            _ if self.is_expired() => {
                "the credentials have expired or are wrong; sign in again, then run this again: it continues where it stopped"
            }
            _ if self.is_denied() => {
                "attach what `canoe cluster policy` prints to your user or role, then run this again"
            }
            Self::Unreachable { .. } => {
                "check the network, AWS_ENDPOINT_URL and the region (does it have the service?), then run this again"
            }
            _ if self.is_temporary() => {
                "AWS is busy; run this again in a minute: it continues where it stopped"
            }
            _ => "correct what AWS names, then run this again",
        }
    }
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Account number.
    pub account: String,
    /// ARN of user or role.
    pub arn: String,
}

/// A stack that exists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StackView {
    /// ARN, which stays valid after the stack has been deleted.
    pub id: String,
    /// Its state.
    pub status: StackStatus,
    /// Why, if AWS says.
    pub reason: String,
    /// Creation time, ISO 8601.
    pub created: String,
    /// Outputs by key.
    pub outputs: BTreeMap<String, String>,
    /// Its tags. A stack that is only a change set so far may show none.
    pub tags: Tags,
    /// Deletion is refused until the protection is taken off.
    pub protected: bool,
}

/// A resource of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackResource {
    /// Logical id.
    pub id: String,
    /// Its state.
    pub status: ResourceStatus,
}

/// What a change set would do to one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What is done.
    pub action: ChangeAction,
    /// Logical id.
    pub resource: String,
    /// Type.
    pub kind: String,
    /// Whether the resource is made anew; nothing for what is added or removed.
    pub replacement: Replacement,
}

/// A change set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeSetView {
    /// Whether it can be executed.
    pub status: ChangeSetStatus,
    /// Why not.
    pub reason: String,
    /// What it would do.
    pub changes: Vec<Change>,
    /// Tags that the stack will have.
    pub tags: Tags,
}

impl ChangeSetView {
    /// Whether it failed only because nothing has changed.
    pub(crate) fn is_empty_change(&self) -> bool {
        self.status == ChangeSetStatus::Failed
            && (self.reason.contains("didn't contain changes")
                || self.reason.contains("No updates are to be performed"))
    }
}

/// A Kubernetes version that EKS offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Such as `1.35`.
    pub version: String,
    /// Whether it is still supported at the usual price.
    pub support: VersionSupport,
    /// First day of extended support, if AWS says.
    pub standard_ends: Option<time::Date>,
}

/// An instance type that a zone has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeOffer {
    /// Such as `us-west-2a`.
    pub zone: String,
    /// Such as `m6i.large`.
    pub instance_type: String,
}

/// A zone that the account can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneView {
    /// Such as `us-west-2a`; each account has its own letters.
    pub name: String,
    /// Such as `usw2-az1`: the same for everybody.
    pub id: String,
}

impl ZoneView {
    /// Whether EKS puts no control plane there.
    pub fn lacks_eks(&self) -> bool {
        catalog::ZONES_WITHOUT_EKS.contains(&self.id.as_str())
    }
}

/// A subnet that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubnetView {
    /// Such as `subnet-1`.
    pub id: String,
    /// The VPC it is in.
    pub vpc: String,
    /// Availability zone, such as `us-west-2a`.
    pub zone: String,
    /// Its network.
    pub cidr: String,
}

/// The template of a change set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateSource {
    /// In the request.
    Body(String),
    /// In a bucket.
    Url(String),
}

/// A change set to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeSetRequest {
    /// Stack name.
    pub stack: String,
    /// Change set name.
    pub name: String,
    /// The stack does not exist yet.
    pub create: bool,
    /// The template that the stack will have.
    pub template: TemplateSource,
    /// Tags of the stack, which AWS hands on to what it makes.
    pub tags: Tags,
    /// Role by which CloudFormation acts; with the caller's rights when absent.
    pub role: Option<String>,
}

/// A change set that was made. By its own id, since another machine may have made one of the same name meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeSetId {
    /// Its ARN.
    pub arn: String,
    /// ARN of its stack.
    pub stack: String,
}

/// A managed policy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PolicyView {
    /// Its tags.
    pub tags: Tags,
    /// The version that holds.
    pub version: String,
}

/// What counts against the network quotas of a region.
#[derive(Debug, Clone, Copy)]
pub struct NetworkUse {
    /// Number of VPCs in the region.
    pub vpcs: usize,
    /// Elastic addresses.
    pub addresses: usize,
}

type CloudResult<T> = Result<T, CloudError>;

/// The calls.
#[allow(
    missing_docs,
    reason = "each is the AWS call of its name; the arguments say the rest"
)]
pub trait Cloud: Send + Sync {
    fn caller(&self) -> impl Future<Output = CloudResult<Caller>> + Send;

    fn stack(&self, name: &str) -> impl Future<Output = CloudResult<Option<StackView>>> + Send;
    /// Oldest first.
    fn stack_events(
        &self,
        stack: &str,
    ) -> impl Future<Output = CloudResult<Vec<StackEvent>>> + Send;
    fn create_change_set(
        &self,
        request: &ChangeSetRequest,
    ) -> impl Future<Output = CloudResult<ChangeSetId>> + Send;
    /// By name or ARN, as in the next two.
    fn change_set(
        &self,
        stack: &str,
        name: &str,
    ) -> impl Future<Output = CloudResult<ChangeSetView>> + Send;
    fn execute_change_set(
        &self,
        stack: &str,
        name: &str,
    ) -> impl Future<Output = CloudResult<()>> + Send;
    fn delete_change_set(
        &self,
        stack: &str,
        name: &str,
    ) -> impl Future<Output = CloudResult<()>> + Send;
    fn delete_stack(&self, name: &str) -> impl Future<Output = CloudResult<()>> + Send;
    /// Turns protection against deletion on or off.
    fn protect_stack(&self, name: &str, on: bool) -> impl Future<Output = CloudResult<()>> + Send;
    /// What the stack has made, or has tried to.
    fn stack_resources(
        &self,
        stack: &str,
    ) -> impl Future<Output = CloudResult<Vec<StackResource>>> + Send;
    /// Starts drift detection; the id is for [`Cloud::drift`].
    fn detect_drift(&self, stack: &str) -> impl Future<Output = CloudResult<String>> + Send;
    /// `None` while it is still being looked at.
    fn drift(
        &self,
        detection: &str,
    ) -> impl Future<Output = CloudResult<Option<DriftStatus>>> + Send;

    fn zones(&self) -> impl Future<Output = CloudResult<Vec<ZoneView>>> + Send;
    /// Which of these instance types there are, and in which zones.
    fn offered_types(
        &self,
        types: &[String],
    ) -> impl Future<Output = CloudResult<Vec<TypeOffer>>> + Send;
    fn key_pair_exists(&self, name: &str) -> impl Future<Output = CloudResult<bool>> + Send;
    fn interfaces(&self, vpc: &str) -> impl Future<Output = CloudResult<Vec<Interface>>> + Send;
    fn delete_interface(&self, id: &str) -> impl Future<Output = CloudResult<()>> + Send;
    /// Tags of a VPC; `None` when there is none of this id.
    fn vpc_tags(&self, id: &str) -> impl Future<Output = CloudResult<Option<Tags>>> + Send;
    /// Those of these subnets that exist.
    fn subnets(&self, ids: &[String]) -> impl Future<Output = CloudResult<Vec<SubnetView>>> + Send;
    /// The launch template of this name, if there is one; its id is its name here.
    fn launch_template(
        &self,
        name: &str,
    ) -> impl Future<Output = CloudResult<Option<Thing>>> + Send;
    /// The auto-scaling group of this name, if there is one.
    fn scaling_group(&self, name: &str) -> impl Future<Output = CloudResult<Option<Thing>>> + Send;
    /// Image of the self-managed controller of the cluster with this id, if there is one.
    fn controller_image(
        &self,
        id: &str,
    ) -> impl Future<Output = CloudResult<Option<String>>> + Send;
    /// The image that a public parameter of Systems Manager names now.
    fn newest_image(
        &self,
        parameter: &str,
    ) -> impl Future<Output = CloudResult<Option<String>>> + Send;
    /// Tags of a machine that is there; `None` when there is none.
    fn machine_tags(&self, id: &str) -> impl Future<Output = CloudResult<Option<Tags>>> + Send;
    fn terminate_machine(&self, id: &str) -> impl Future<Output = CloudResult<()>> + Send;
    /// Unused disks that Kubernetes made for claims of a cluster of this name, and the disk with etcd of the
    /// self-managed cluster with this id, in use or not.
    fn volumes(
        &self,
        cluster: &str,
        id: &str,
    ) -> impl Future<Output = CloudResult<Vec<Thing>>> + Send;
    fn delete_volume(&self, id: &str) -> impl Future<Output = CloudResult<()>> + Send;
    /// Load balancers in a VPC: ARNs, and names of classic ones.
    fn load_balancers(&self, vpc: &str) -> impl Future<Output = CloudResult<Vec<Thing>>> + Send;
    fn delete_load_balancer(&self, arn: &str) -> impl Future<Output = CloudResult<()>> + Send;

    /// Security groups in a VPC.
    fn groups(&self, vpc: &str) -> impl Future<Output = CloudResult<Vec<Thing>>> + Send;
    fn delete_group(&self, id: &str) -> impl Future<Output = CloudResult<()>> + Send;

    /// Every file system of the region that is not on its way out.
    fn file_systems(&self) -> impl Future<Output = CloudResult<Vec<Thing>>> + Send;
    fn delete_file_system(&self, id: &str) -> impl Future<Output = CloudResult<()>> + Send;
    /// How many mount targets a file system has.
    fn mount_targets(&self, file_system: &str) -> impl Future<Output = CloudResult<usize>> + Send;

    /// Kubernetes versions that EKS offers.
    fn eks_versions(&self) -> impl Future<Output = CloudResult<Vec<Offer>>> + Send;
    /// Version of the EKS cluster of this name, if there is one.
    fn eks_cluster(&self, name: &str) -> impl Future<Output = CloudResult<Option<String>>> + Send;
    /// Version of an add-on that EKS installs by default on this Kubernetes version.
    fn addon_version(
        &self,
        addon: &str,
        kubernetes: &str,
    ) -> impl Future<Output = CloudResult<Option<String>>> + Send;
    /// ARN of a role, with its path.
    fn role_arn(&self, name: &str) -> impl Future<Output = CloudResult<Option<String>>> + Send;
    fn instance_profile_exists(&self, name: &str)
    -> impl Future<Output = CloudResult<bool>> + Send;
    /// A managed policy, if there is one.
    fn policy(&self, arn: &str) -> impl Future<Output = CloudResult<Option<PolicyView>>> + Send;
    /// The document of one of its versions.
    fn policy_document(
        &self,
        arn: &str,
        version: &str,
    ) -> impl Future<Output = CloudResult<String>> + Send;
    /// Gives it another document, which only an administrator may.
    fn update_policy(
        &self,
        arn: &str,
        document: &str,
    ) -> impl Future<Output = CloudResult<()>> + Send;
    /// Tags of an image repository; `None` when there is none of this name.
    fn repository_tags(&self, name: &str)
    -> impl Future<Output = CloudResult<Option<Tags>>> + Send;
    /// Makes a managed policy, which only an administrator may.
    fn create_policy(
        &self,
        name: &str,
        document: &str,
        tags: &Tags,
    ) -> impl Future<Output = CloudResult<()>> + Send;
    fn delete_policy(&self, arn: &str) -> impl Future<Output = CloudResult<()>> + Send;
    /// Name of a Route 53 zone, without the dot at its end.
    fn hosted_zone(&self, id: &str) -> impl Future<Output = CloudResult<Option<String>>> + Send;
    /// What the account has in the region.
    fn network_use(&self) -> impl Future<Output = CloudResult<NetworkUse>> + Send;

    fn log_groups(&self, prefix: &str) -> impl Future<Output = CloudResult<Vec<Thing>>> + Send;
    fn delete_log_group(&self, name: &str) -> impl Future<Output = CloudResult<()>> + Send;

    /// Tags of a bucket; `None` when there is no such bucket.
    fn bucket_tags(&self, bucket: &str) -> impl Future<Output = CloudResult<Option<Tags>>> + Send;
    /// Makes a bucket that is closed to the public.
    fn create_bucket(&self, bucket: &str) -> impl Future<Output = CloudResult<()>> + Send;
    fn tag_bucket(&self, bucket: &str, tags: &Tags)
    -> impl Future<Output = CloudResult<()>> + Send;
    /// Nothing in it is ever public.
    fn close_bucket(&self, bucket: &str) -> impl Future<Output = CloudResult<()>> + Send;
    /// The URL under which CloudFormation finds the object.
    fn put_object(
        &self,
        bucket: &str,
        key: &str,
        body: &str,
    ) -> impl Future<Output = CloudResult<String>> + Send;
    fn objects(&self, bucket: &str) -> impl Future<Output = CloudResult<Vec<String>>> + Send;
    fn delete_object(
        &self,
        bucket: &str,
        key: &str,
    ) -> impl Future<Output = CloudResult<()>> + Send;
    fn delete_bucket(&self, bucket: &str) -> impl Future<Output = CloudResult<()>> + Send;

    fn encrypt(
        &self,
        key: &str,
        context: &str,
        plain: &[u8],
    ) -> impl Future<Output = CloudResult<Vec<u8>>> + Send;
    /// State of a key, by its ARN or by an alias (`alias/…`).
    fn key_state(&self, arn: &str) -> impl Future<Output = CloudResult<KeyState>> + Send;
    /// Lets the key go in seven days.
    fn schedule_key_deletion(&self, arn: &str) -> impl Future<Output = CloudResult<()>> + Send;
    /// Actions that the caller may not do, of those asked for; `context` holds for every request.
    fn denied_actions(
        &self,
        arn: &str,
        simulations: &[Simulation],
        context: &[(String, String)],
    ) -> impl Future<Output = CloudResult<Vec<String>>> + Send;
    /// A quota's value, if the account has it.
    fn quota(
        &self,
        service: &str,
        code: &str,
    ) -> impl Future<Output = CloudResult<Option<f64>>> + Send;
    /// Everything that carries this cluster id, by ARN.
    fn tagged(&self, id: &str) -> impl Future<Output = CloudResult<Vec<Thing>>> + Send;
}
