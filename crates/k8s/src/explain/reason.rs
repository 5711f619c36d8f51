//! The reasons why a job stands still, has ended or is slow, as types. [`sentence`](super::sentence) has their words.

/// What a finding is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A Job.
    Job(String),
    /// One pod of the job, by name.
    Pod(String),
    /// A PersistentVolumeClaim that the job mounts, by name.
    Claim(String),
    /// A machine of the cluster.
    Machine(String),
    /// A node of the job that has no pod.
    Node(u32),
}

/// Whether a person has to do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Nothing is to be done: it passes by itself, or it is only good to know.
    Note,
    /// Somebody has to act, or the job does not continue.
    Trouble,
}

/// The reason of a finding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum Reason {
    /// The Job has failed for good.
    JobFailed {
        /// The rule of the Job that failed it.
        rule: FailedBy,
        /// What its pods ended with.
        cause: Option<ContainerExit>,
        /// The command that shows the logs.
        logs: String,
    },
    /// The Job that prepares the data has failed for good.
    DataFailed(Option<ContainerExit>),
    /// The Job that copies to an object store has failed for good.
    CopyFailed(Option<ContainerExit>),
    /// The Job no longer exists, but its files do.
    OnlyFiles {
        /// The command that brings them.
        get: String,
    },
    /// The Secret has other keys than the Job began with.
    OtherKeys {
        /// The job's name.
        job: String,
    },
    /// The Job is suspended.
    Suspended {
        /// The queue that holds it, if it names one.
        queue: Option<String>,
        /// The last message of the queue.
        said: Option<String>,
    },
    /// The Job is being deleted; pods that have not ended yet.
    BeingDeleted {
        /// How many pods are left.
        pods: usize,
    },
    /// The deletion of the Job waits for a pod on a machine that does not respond.
    DeletionWaits {
        machine: String,
        pod: String,
        namespace: String,
    },
    /// The deletion of the Job waits for finalizers on it or on its pods.
    FinalizersHold {
        /// The finalizers.
        finalizers: Vec<String>,
    },
    /// No pod can be made.
    NotCreated(PodRefusal),
    /// A pod could not be made for a reason that passes; the Job tries again.
    CreatesAgain(String),
    /// A node of the job has no pod at the moment; the Job makes one.
    NoPodYet,
    /// No machine takes the pod.
    NotPlaced(Vec<Placement>),
    /// The scheduler does not look at the pod as long as it has gates.
    HeldBack {
        /// Their names.
        gates: String,
    },
    /// No machine has room, and the cluster adds one.
    MachineComes {
        /// The autoscaler's message.
        message: String,
    },
    /// The image is being pulled.
    Pulling {
        image: String,
        machine: String,
        /// For how many seconds at least; in steps, so that a watching user does not get a line per second.
        seconds: i64,
    },
    /// The image cannot be pulled.
    ImageNotPulled { image: String, why: PullFailure },
    /// The image has an impossible name.
    ImageNameInvalid { image: String },
    /// The image is not on the machine and may not be pulled.
    ImageNeverPulled { image: String },
    /// The container cannot be made.
    NotStarted {
        /// In the words of the machine.
        message: String,
        /// A Secret or a ConfigMap is missing.
        is_incomplete: bool,
    },
    /// The container crashes repeatedly; how it ended last.
    Crashes(Option<ContainerExit>),
    /// A volume cannot be mounted.
    NotMounted(MountFailure),
    /// A mount did not work at first; the machine tries again.
    MountsAgain,
    /// Pods on this machine get no network.
    NoPodNetwork {
        machine: String,
        /// No address is left.
        is_full: bool,
        /// In its words.
        message: String,
    },
    /// The machine cannot make pods, for a reason that is not its network.
    NoSandbox {
        machine: String,
        /// In its words.
        message: String,
    },
    /// The network of the pod is being set up again.
    NetworkAgain,
    /// Another part of the preparation of a pod did not work at first; the machine tries again.
    SandboxAgain,
    /// The machine does not respond.
    MachineLost {
        machine: String,
        /// The nodes of the job on that machine.
        nodes: Vec<u32>,
        /// Its pods have been asked to end, but the request cannot reach them.
        is_asked: bool,
    },
    /// An operator has marked the machine as out of service; its pods are replaced.
    MachineGivenUp,
    /// The pod is ending because it was asked to.
    Ending(Ending),
    /// The pod should have ended, and has not.
    EndsLate {
        machine: String,
        /// The finalizers that keep it.
        finalizers: Vec<String>,
    },
    /// The machine did not take the pod, or ended it when it was shut down.
    TurnedAway {
        /// Kubernetes' word for it.
        reason: String,
        /// In the words of the machine.
        message: String,
    },
    /// The machine ended the container because it did not respond.
    Unresponsive,
    /// The pod was evicted by its machine.
    Evicted {
        /// For its disk, which job.yaml limits.
        for_disk: bool,
        /// In the words of the machine.
        message: String,
    },
    /// The pod has failed; a new one comes as long as there are retries.
    PodFailed {
        /// How it ended.
        exit: ContainerExit,
        /// Retries that were used.
        used: i32,
        /// Retries that there are.
        limit: i32,
    },
    /// The pod has failed, and no controller creates another one.
    Ended(ContainerExit),
    /// Some pods failed earlier and have been replaced; all nodes run now.
    FailedBefore {
        pods: usize,
        /// How the last of them ended.
        exit: ContainerExit,
    },
    /// The claim has no volume.
    NotBound(Unbound),
}

/// The rule by which a Job has failed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailedBy {
    /// An exit code that a new pod would end with, too.
    FailurePolicy,
    /// Too many pods have failed; how many were allowed to.
    Retries(i32),
    /// `deadlineSeconds`.
    Deadline,
    /// An unknown reason; the cluster's message.
    Other(String),
}

/// How a container has ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContainerExit {
    /// It used more memory than it may; the limit, if the pod has one.
    OutOfMemory(Option<String>),
    /// Its machine needed the room, in its words.
    Evicted(String),
    /// It could not be started, in the words of the machine.
    CannotRun(String),
    /// With this code, and the error that it reported.
    Code(i32, Option<String>),
}

/// Why a pod was asked to end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// A user or a controller deleted it.
    Deleted,
    /// Its machine is being emptied.
    Drained(String),
    /// A more important pod needs the room.
    Preempted,
    /// Its machine is no longer in the cluster.
    MachineGone(String),
}

/// Why the API server takes no pod of the Job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodRefusal {
    /// Pod security; what it complains of.
    PodSecurity(String),
    /// The quota is used up; its numbers.
    Quota(String),
    /// The quota wants limits that the job does not set.
    QuotaWantsLimits(String),
    /// The service account is missing.
    NoAccount,
    /// A LimitRange of the namespace; what it complains of.
    LimitRange(String),
    /// The priority class does not exist.
    NoPriorityClass(String),
    /// An admission webhook or policy; its words.
    Webhook(String),
    /// An admission webhook that does not respond; the server's words.
    WebhookSilent(String),
    /// The namespace is being deleted.
    NamespaceGoes,
    /// In the words of the server.
    Other(String),
}

/// Why no machine takes a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Placement {
    /// Cores; what the pod asks for and the most that a machine has, if they are known.
    Cores(Option<String>, Option<String>),
    /// Memory, in the same way.
    Memory(Option<String>, Option<String>),
    /// Room on the disk.
    Disk,
    /// Something else that pods ask for; its name.
    Resource(String),
    /// Taints that the pod does not tolerate, if they are known.
    Taint(String),
    /// Machines are closed for new pods.
    Cordoned,
    /// Machines are not ready.
    NotReady,
    /// Machines run short of this.
    Pressure(String),
    /// Not all pods of the group find room.
    Gang,
    /// Labels that no machine has.
    Selector(String),
    /// A claim without a volume.
    ClaimUnbound,
    /// A claim that is not there; its name.
    ClaimMissing(String),
    /// A claim that is being deleted; its name.
    ClaimGoes(String),
    /// No volume can be bound on the machines with room.
    NoVolumeThere,
    /// Machines have as many pods as they may.
    TooManyPods,
    /// The volume is in another zone than the machines with room.
    VolumeElsewhere,
    /// The cluster has no machines.
    NoMachines,
    /// In the words of the scheduler.
    Other(String),
}

/// Why an image cannot be pulled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PullFailure {
    /// The registry does not have it.
    Unknown,
    /// The name has no registry, so Docker Hub was asked.
    NoRegistry,
    /// The registry wants a login.
    Login,
    /// The registry does not respond.
    Unreachable,
    /// The registry limits pulls.
    Limited,
    /// The registry does not have it, or does not show it to everybody.
    UnknownOrLogin,
    /// The secret for the registry does not exist; its name.
    NoSecret(String),
    /// The registry's certificate is not trusted.
    Certificate,
    /// The registry speaks no TLS.
    PlainHttp,
    /// The registry responds with an error of its own.
    ServerFails,
    /// It is not made for the machine's processors.
    Platform,
    /// The machine's disk is full.
    DiskFull,
    /// The machine pulls too many at once, and pauses.
    MachinePauses,
    /// In the words of the machine.
    Other(String),
}

/// Why a volume cannot be mounted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum MountFailure {
    /// A Secret or ConfigMap is not there, in the words of the machine.
    Missing(String),
    /// Only one machine can have it.
    OneMachineOnly,
    /// The machine has no program for this kind of volume.
    NoHelper,
    /// The file server refuses.
    Denied,
    /// The folder on the file server does not exist.
    NoFolder,
    /// The machine has no driver for it.
    NoDriver,
    /// The file server does not respond.
    NoAnswer,
    /// In the words of the machine.
    Other(String),
}

/// Why a claim has no volume.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unbound {
    /// The storage class does not exist.
    NoClass(String),
    /// The class makes volumes for one machine only; what its provisioner said.
    OneMachineOnly(String, String),
    /// It is bound when a pod uses it.
    WaitsForPod,
    /// Its volume is missing or kept for another claim.
    VolumeTaken(String),
    /// No volume fits.
    NoVolume,
    /// Its volume is gone.
    Lost,
    /// The provisioner cannot make one; its words.
    Failed(String),
    /// No provisioner has made one for many seconds; the text names the one that should.
    Nobody(String),
    /// A volume is being made, as far as can be seen; what was said last.
    InTheMaking(String),
}

impl Reason {
    /// Whether somebody has to act.
    pub fn weight(&self) -> Weight {
        match self {
            Self::BeingDeleted { .. }
            | Self::NoPodYet
            | Self::Pulling { .. }
            | Self::MountsAgain
            | Self::NetworkAgain
            | Self::SandboxAgain
            | Self::MachineGivenUp
            | Self::Ending(_)
            | Self::FailedBefore { .. }
            | Self::Suspended { .. }
            | Self::CreatesAgain(_)
            | Self::OnlyFiles { .. }
            | Self::HeldBack { .. }
            | Self::MachineComes { .. }
            | Self::TurnedAway { .. }
            | Self::Unresponsive
            | Self::ImageNotPulled {
                why: PullFailure::MachinePauses,
                ..
            }
            | Self::Evicted {
                for_disk: false, ..
            }
            | Self::NotBound(Unbound::WaitsForPod | Unbound::InTheMaking(_)) => Weight::Note,
            // The claim has a finding of its own.
            Self::NotPlaced(reasons) if matches!(&reasons[..], [Placement::ClaimUnbound]) => {
                Weight::Note
            }
            // Killed from outside, ended on request, or a temporary failure: the successor needs no action of a person.
            Self::PodFailed {
                exit: ContainerExit::Code(137 | 143 | 75, _),
                ..
            } => Weight::Note,
            _ => Weight::Trouble,
        }
    }
}

impl ContainerExit {
    /// Whether a new pod would end in the same way, so that the Job makes none: wrong usage, wrong configuration.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Code(64 | 78, _))
    }
}
