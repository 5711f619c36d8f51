//! Finds out why a job stands still, and says it in a sentence with the remedy. Pure: it uses what the API server shows.
//!
//! People lose hours between `kubectl get`, `describe` and `events`. The common causes are few, and each leaves a known
//! trace: in a pod's conditions, in a container's state, in an event of the Job (if no pod could be created), or in a
//! claim. The present state comes first. Events report the past: one counts only for the pod that it is about, and only
//! while that pod is still at the step that the event is about.
//!
//! # Map, in reading order
//!
//! - [`reason`]: every reason as a type.
//! - [`sentence`]: their words.
//! - [`pod`]: what a pod shows by itself; [`placement`] and [`pull`] read the words of the scheduler and of the machine.
//! - [`event`]: what events add, as long as they are about the present.
//! - [`job`]: the whole job: ended, deleted, pods that cannot be made.
//! - [`claim`]: claims without volumes.
//! - [`row`]: the table, with a row for every node.

mod claim;
mod event;
mod job;
mod placement;
mod pod;
mod pull;
pub mod reason;
mod row;
mod sentence;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolumeClaim, Pod};
use k8s_openapi::jiff::Timestamp;

use crate::objects::KEYS_ANNOTATION;

pub use reason::{Reason, Subject, Weight};
pub use row::{NodeRow, ShownPod, every_pod};

/// What the API server shows of a job at one moment.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The Job, if it is there.
    pub job: Option<Job>,
    /// Its pods, also those that have ended.
    pub pods: Vec<Pod>,
    /// Events about the Job, its pods and its claims.
    pub events: Vec<Event>,
    /// The claims of its namespace.
    pub claims: Vec<PersistentVolumeClaim>,
    /// The machines; `None` if the user may not read them.
    pub machines: Option<Vec<Node>>,
    /// The Job that splits its data, if there is one.
    pub data_job: Option<Job>,
    /// The pods of the data Job.
    pub data_pods: Vec<Pod>,
    /// When all this was read.
    pub now: Timestamp,
}

/// One thing that keeps the job from continuing, has ended it, or is good to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// All objects to which the reason applies.
    pub subjects: Vec<Subject>,
    /// Why.
    pub reason: Reason,
}

/// The state of the whole job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// There is no such Job.
    Absent,
    /// It is on its way out.
    Deleting,
    /// Not all nodes run.
    Starting,
    /// All nodes run.
    Running,
    /// All nodes have finished.
    Complete,
    /// It will not continue.
    Failed,
}

impl JobState {
    /// Nothing more will happen.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Absent | Self::Complete | Self::Failed)
    }
}

/// Numbers of nodes by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Nodes of the job.
    pub nodes: i32,
    /// Nodes whose pod is ready.
    pub ready: i32,
    /// Nodes whose pod is not ready.
    pub starting: i32,
    /// Nodes that have finished.
    pub finished: i32,
    /// Pods that have failed.
    pub failed: i32,
    /// How many pods may fail before the job fails.
    pub retries: i32,
}

/// The diagnosis of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// State of the whole job.
    pub state: JobState,
    /// The numbers of the summary.
    pub counts: NodeCounts,
    /// The findings; trouble comes first.
    pub findings: Vec<Finding>,
    /// The table.
    pub rows: Vec<NodeRow>,
}

impl Diagnosis {
    /// Whether somebody has to act.
    pub fn has_trouble(&self) -> bool {
        let is_trouble = |finding: &Finding| finding.reason.weight() == Weight::Trouble;
        self.findings.iter().any(is_trouble)
    }
}

/// Makes the diagnosis of a job.
pub fn diagnose(observed: &Observed) -> Diagnosis {
    let Some(job) = &observed.job else {
        return Diagnosis {
            state: JobState::Absent,
            counts: NodeCounts::default(),
            findings: Vec::new(),
            rows: Vec::new(),
        };
    };
    let state = job::state(job);
    let mut collected = Collected::default();
    match state {
        JobState::Deleting => job::deleting(observed, job, &mut collected),
        JobState::Failed => job::failed(observed, job, &mut collected),
        JobState::Complete | JobState::Absent => {}
        JobState::Starting | JobState::Running => {
            job::not_ended(observed, job, state, &mut collected)
        }
    }
    let rows = row::rows(observed, job);
    let mut counts = job::counts(job);
    // The Job controller updates the Job's counters a moment after its pods.
    let living = rows.iter().filter(|row| row.is_living()).count();
    let living = i32::try_from(living).unwrap_or(i32::MAX);
    counts.starting = counts.starting.max(living - counts.ready);
    Diagnosis {
        state,
        counts,
        findings: collected.sorted(),
        rows,
    }
}

/// The state of a job by the Job alone.
pub struct JobSummary {
    /// What state it is in.
    pub state: JobState,
    /// Numbers of its nodes.
    pub counts: NodeCounts,
}

/// The state according to the Job object alone, for lists.
pub fn summary(job: &Job) -> JobSummary {
    JobSummary {
        state: job::state(job),
        counts: job::counts(job),
    }
}

/// Whether the Secret of a job that has not ended has other keys than those that the job began with. `keys` is the Secret's own
/// fingerprint; a Job of an earlier version has none.
pub fn other_keys(job: &Job, keys: &str) -> Option<Finding> {
    let template = &job.spec.as_ref()?.template.metadata.as_ref()?.annotations;
    let began = template.as_ref()?.get(KEYS_ANNOTATION)?;
    let is_open = matches!(job::state(job), JobState::Starting | JobState::Running);
    let name = job.metadata.name.clone().unwrap_or_default();
    (is_open && began != keys).then(|| Finding {
        subjects: vec![Subject::Job(name.clone())],
        reason: Reason::OtherKeys { job: name },
    })
}

/// A finding if the Job that copies to an object store has failed for good, with how its pods ended.
pub fn copy_failed(job: &Job, pods: &[Pod]) -> Option<Finding> {
    (job::state(job) == JobState::Failed).then(|| Finding {
        subjects: vec![Subject::Job(job.metadata.name.clone().unwrap_or_default())],
        reason: Reason::CopyFailed(job::commonest(pods)),
    })
}

/// What keeps a single pod from running, whatever it belongs to.
pub fn diagnose_pods(observed: &Observed) -> Vec<Finding> {
    let mut collected = Collected::default();
    for pod in &observed.pods {
        match (pod::exit(pod), pod::evicted(pod)) {
            (_, Some(reason)) => collected.add(pod::subject(pod), reason),
            (Some(exit), None) => collected.add(pod::subject(pod), Reason::Ended(exit)),
            (None, None) => pod::not_running(observed, pod, &mut collected),
        }
    }
    claim::unbound(observed, &observed.pods, &mut collected);
    collected.sorted()
}

/// Findings, each reason once.
#[derive(Debug, Default)]
struct Collected(Vec<Finding>);

impl Collected {
    fn add(&mut self, subject: Subject, reason: Reason) {
        match self.0.iter_mut().find(|known| known.reason == reason) {
            Some(known) if known.subjects.contains(&subject) => {}
            Some(known) => known.subjects.push(subject),
            None => self.0.push(Finding {
                subjects: vec![subject],
                reason,
            }),
        }
    }

    fn sorted(self) -> Vec<Finding> {
        let mut findings = self.0;
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.reason.weight()));
        findings
    }
}

#[cfg(test)]
mod tests;
