//! Why a job stands still, in a sentence with the way out: pure, from what the API server shows.
//!
//! People lose hours between `kubectl get`, `describe` and `events`. The common stops are few, and each leaves a known
//! trace: in a pod's conditions, in a container's state, in an event of the Job (if no pod could be made at all), or in a
//! claim. The present state speaks first. Events are memories: one counts only for the pod that it is about, and only
//! while that pod is still at the step that the event speaks of.
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
    /// The machines; `None` if they are not ours to see.
    pub machines: Option<Vec<Node>>,
    /// The Job that splits its data, if there is one.
    pub data_job: Option<Job>,
    /// The pods of that.
    pub data_pods: Vec<Pod>,
    /// The moment.
    pub now: Timestamp,
}

/// One thing that keeps the job from continuing, has ended it, or is good to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is about: everything with the same reason together.
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

/// How many nodes are how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Of the job.
    pub nodes: i32,
    /// That can be used by the others.
    pub ready: i32,
    /// That have a pod which is not ready.
    pub starting: i32,
    /// That have ended well.
    pub finished: i32,
    /// Pods that have failed.
    pub failed: i32,
    /// How many may.
    pub retries: i32,
}

/// What came of looking at a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// Overall.
    pub state: JobState,
    /// The numbers of the summary.
    pub counts: NodeCounts,
    /// What is the matter; trouble first.
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

/// Looks at a job.
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
    // The Job's own numbers come a moment after its pods.
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
    /// How many of its nodes there are.
    pub counts: NodeCounts,
}

/// What the Job alone says, for lists.
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

/// That the Job which copies to an object store has failed for good, and how its pods ended.
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
