//! AWS as this crate sees it: the few calls it needs, as a trait.
//!
//! Two things implement it: the signed-request client, which signs requests and sends them, and the double
//! of the tests, which enforces what no public stand-in does (interfaces that hold groups, exports
//! that hold stacks, buckets that are not empty). Commands are written against the trait, so the code
//! that is tested is the code that runs.

use std::collections::BTreeMap;
use std::future::Future;

use crate::lifecycle::events::StackEvent;
use crate::lifecycle::teardown::Interface;
use crate::policy::Simulation;

/// Why a call failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CloudError {
    /// AWS said no.
    #[error("{action}: {code}: {message}")]
    Refused {
        /// Such as `cloudformation:CreateChangeSet`.
        action: String,
        /// AWS's error code.
        code: String,
        /// AWS's words.
        message: String,
    },
    /// There are no credentials, or they could not be loaded.
    #[error("no AWS credentials: {0}; run `aws configure` or `aws sso login`, or set AWS_PROFILE")]
    Credentials(String),
    /// AWS could not be reached.
    #[error("{action}: cannot reach {endpoint}: {reason}")]
    Unreachable {
        /// Such as `sts:GetCallerIdentity`.
        action: String,
        /// Where the request went.
        endpoint: String,
        /// Why.
        reason: String,
        /// No connection came about: no such host, refused, no route.
        connecting: bool,
    },
    /// The answer could not be read.
    #[error("{action}: the answer of AWS cannot be read: {reason}")]
    Unreadable {
        /// Such as `ec2:DescribeVolumes`.
        action: String,
        /// Why.
        reason: String,
    },
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

    /// Whether trying again later may help.
    pub fn is_temporary(&self) -> bool {
        let temporary = [
            "Throttl",
            "RequestLimitExceeded",
            "TooManyRequests",
            "InternalFailure",
            "InternalError",
        ];
        let more = [
            "ServiceUnavailable",
            "InternalServer",
            "SlowDown",
            "RequestTimeout",
            "PriorRequestNotComplete",
        ];
        matches!(self, Self::Unreachable { .. })
            || temporary
                .iter()
                .chain(&more)
                .any(|word| self.code().contains(word))
    }

    /// Whether the service is not to be found there at all.
    pub fn is_absent_service(&self) -> bool {
        matches!(
            self,
            Self::Unreachable {
                connecting: true,
                ..
            }
        ) || self.code() == "UnknownOperationException"
    }

    /// Whether the credentials are no longer good.
    pub fn is_expired(&self) -> bool {
        [
            "ExpiredToken",
            "RequestExpired",
            "InvalidClientTokenId",
            "UnrecognizedClient",
            "SignatureDoesNotMatch",
        ]
        .iter()
        .any(|word| self.code().contains(word))
    }

    /// Whether a permission is missing.
    pub fn is_denied(&self) -> bool {
        ["AccessDenied", "UnauthorizedOperation", "NotAuthorized"]
            .iter()
            .any(|word| self.code().contains(word))
    }

    /// What the user can do.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Credentials(_) => "sign in, then run this again",
            _ if self.is_expired() => {
                "the credentials have expired or are wrong; sign in again, then run this again: it goes on where it stopped"
            }
            _ if self.is_denied() => {
                "attach what `canoe cluster policy` prints to your user or role, then run this again"
            }
            Self::Unreachable { .. } => {
                "check the network, AWS_ENDPOINT_URL and the region (does it have the service?), then run this again"
            }
            _ if self.is_temporary() => {
                "AWS is busy; run this again in a minute: it goes on where it stopped"
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
    /// As AWS spells it.
    pub status: String,
    /// Why, if AWS says.
    pub reason: String,
    /// Creation time, ISO 8601.
    pub created: String,
    /// Outputs by key.
    pub outputs: BTreeMap<String, String>,
}

/// What a change set would do to one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// `Add`, `Modify`, `Remove`.
    pub action: String,
    /// Logical id.
    pub resource: String,
    /// Type.
    pub kind: String,
    /// Whether the resource is replaced: `True`, `False`, `Conditional` or empty.
    pub replacement: String,
}

/// A change set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeSetView {
    /// `CREATE_COMPLETE` when it can be executed.
    pub status: String,
    /// Why not.
    pub reason: String,
    /// What it would do.
    pub changes: Vec<Change>,
}

impl ChangeSetView {
    /// Whether it failed only because nothing has changed.
    pub fn is_empty_change(&self) -> bool {
        self.status == "FAILED"
            && (self.reason.contains("didn't contain changes")
                || self.reason.contains("No updates are to be performed"))
    }
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
    /// Its template.
    pub template: TemplateSource,
    /// Tags of the stack, which AWS hands on to what it makes.
    pub tags: BTreeMap<String, String>,
}

type Answer<T> = Result<T, CloudError>;

/// The calls.
#[allow(
    missing_docs,
    reason = "each is the AWS call of its name; the arguments say the rest"
)]
pub trait Cloud: Send + Sync {
    fn caller(&self) -> impl Future<Output = Answer<Caller>> + Send;

    fn stack(&self, name: &str) -> impl Future<Output = Answer<Option<StackView>>> + Send;
    /// Oldest first.
    fn stack_events(&self, stack: &str) -> impl Future<Output = Answer<Vec<StackEvent>>> + Send;
    fn create_change_set(
        &self,
        request: &ChangeSetRequest,
    ) -> impl Future<Output = Answer<()>> + Send;
    fn change_set(
        &self,
        stack: &str,
        name: &str,
    ) -> impl Future<Output = Answer<ChangeSetView>> + Send;
    fn execute_change_set(
        &self,
        stack: &str,
        name: &str,
    ) -> impl Future<Output = Answer<()>> + Send;
    fn delete_change_set(&self, stack: &str, name: &str)
    -> impl Future<Output = Answer<()>> + Send;
    fn delete_stack(&self, name: &str) -> impl Future<Output = Answer<()>> + Send;
    /// Starts drift detection; the id is for [`Cloud::drift`].
    fn detect_drift(&self, stack: &str) -> impl Future<Output = Answer<String>> + Send;
    /// `None` while it is still being looked at.
    fn drift(&self, detection: &str) -> impl Future<Output = Answer<Option<String>>> + Send;

    fn zones(&self) -> impl Future<Output = Answer<Vec<String>>> + Send;
    /// Pairs of zone and type.
    fn offered_types(
        &self,
        types: &[String],
    ) -> impl Future<Output = Answer<Vec<(String, String)>>> + Send;
    fn key_pair_exists(&self, name: &str) -> impl Future<Output = Answer<bool>> + Send;
    fn interfaces(&self, vpc: &str) -> impl Future<Output = Answer<Vec<Interface>>> + Send;
    fn delete_interface(&self, id: &str) -> impl Future<Output = Answer<()>> + Send;
    /// Disks that Kubernetes made for claims of this cluster.
    fn volumes(&self, cluster: &str) -> impl Future<Output = Answer<Vec<String>>> + Send;
    fn delete_volume(&self, id: &str) -> impl Future<Output = Answer<()>> + Send;
    /// Load balancers in a VPC that carry no tag of ours: ARNs, and names of classic ones.
    fn foreign_load_balancers(&self, vpc: &str)
    -> impl Future<Output = Answer<Vec<String>>> + Send;
    fn delete_load_balancer(&self, arn: &str) -> impl Future<Output = Answer<()>> + Send;

    /// Security groups that Kubernetes made and left; the cluster itself must be gone.
    fn leftover_groups(&self, cluster: &str) -> impl Future<Output = Answer<Vec<String>>> + Send;
    fn delete_group(&self, id: &str) -> impl Future<Output = Answer<()>> + Send;

    /// Ids of the file systems that carry the cluster's tag.
    fn file_systems(&self, cluster: &str) -> impl Future<Output = Answer<Vec<String>>> + Send;
    fn delete_file_system(&self, id: &str) -> impl Future<Output = Answer<()>> + Send;
    /// How many mount targets a file system has.
    fn mount_targets(&self, file_system: &str) -> impl Future<Output = Answer<usize>> + Send;

    /// Kubernetes versions that EKS offers, with their support status.
    fn eks_versions(&self) -> impl Future<Output = Answer<Vec<(String, String)>>> + Send;
    fn eks_cluster_exists(&self, name: &str) -> impl Future<Output = Answer<bool>> + Send;
    fn role_exists(&self, name: &str) -> impl Future<Output = Answer<bool>> + Send;
    /// Name of a Route 53 zone, without the dot at its end.
    fn hosted_zone(&self, id: &str) -> impl Future<Output = Answer<Option<String>>> + Send;
    /// How many VPCs and elastic addresses the region has.
    fn network_use(&self) -> impl Future<Output = Answer<(usize, usize)>> + Send;

    fn log_groups(&self, prefix: &str) -> impl Future<Output = Answer<Vec<String>>> + Send;
    fn delete_log_group(&self, name: &str) -> impl Future<Output = Answer<()>> + Send;

    fn bucket_exists(&self, bucket: &str) -> impl Future<Output = Answer<bool>> + Send;
    /// Makes a bucket that is closed to the public.
    fn create_bucket(&self, bucket: &str) -> impl Future<Output = Answer<()>> + Send;
    /// The URL under which CloudFormation finds the object.
    fn put_object(
        &self,
        bucket: &str,
        key: &str,
        body: &str,
    ) -> impl Future<Output = Answer<String>> + Send;
    fn objects(&self, bucket: &str) -> impl Future<Output = Answer<Vec<String>>> + Send;
    fn delete_object(&self, bucket: &str, key: &str) -> impl Future<Output = Answer<()>> + Send;
    fn delete_bucket(&self, bucket: &str) -> impl Future<Output = Answer<()>> + Send;

    fn encrypt(
        &self,
        key: &str,
        context: &str,
        plain: &[u8],
    ) -> impl Future<Output = Answer<Vec<u8>>> + Send;
    /// State of a key, such as `PendingDeletion`.
    fn key_state(&self, arn: &str) -> impl Future<Output = Answer<String>> + Send;
    /// Lets the key go in seven days.
    fn schedule_key_deletion(&self, arn: &str) -> impl Future<Output = Answer<()>> + Send;
    /// Actions that the caller may not do, of those asked for; `context` holds for every request.
    fn denied_actions(
        &self,
        arn: &str,
        simulations: &[Simulation],
        context: &[(String, String)],
    ) -> impl Future<Output = Answer<Vec<String>>> + Send;
    /// A quota's value, if the account has it.
    fn quota(&self, service: &str, code: &str) -> impl Future<Output = Answer<Option<f64>>> + Send;
    /// ARNs of everything that carries the cluster's tag.
    fn tagged(&self, cluster: &str) -> impl Future<Output = Answer<Vec<String>>> + Send;
}
