//! Why a job stands still, in a sentence with the way out: pure, from what the API server shows.
//!
//! People lose hours between `kubectl get`, `describe` and `events`. The common stops are few, and
//! each leaves a known trace: in a pod's conditions, in a container's state, in an event of the Job
//! (if no pod could be made at all), or in a claim.

mod events;
mod pods;

use serde_json::Value;

/// What the API server shows of a job.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// The Job, if it is there.
    pub job: Option<Value>,
    /// Its pods, also those that have ended.
    pub pods: Vec<Value>,
    /// Events about the Job, its pods and its claim.
    pub events: Vec<Value>,
    /// Its claims.
    pub claims: Vec<Value>,
    /// The Job that splits its data, if there is one.
    pub data_job: Option<Value>,
    /// The pods of that.
    pub data_pods: Vec<Value>,
}

/// One thing that keeps the job from going on, or has ended it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// What it is about, such as `pod ctr-1-x7k2p`.
    pub subject: String,
    /// What is the matter and what to do.
    pub text: String,
}

/// The state of the whole job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// There is no such Job.
    Absent,
    /// Not all pods run yet.
    Starting,
    /// All pods run.
    Running,
    /// All nodes have finished.
    Complete,
    /// It will not go on.
    Failed,
}

/// What came of looking at a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Overall.
    pub state: State,
    /// One line: how many pods run, have ended, have failed.
    pub summary: String,
    /// What is the matter, each once.
    pub findings: Vec<Finding>,
}

/// Looks at a job.
pub fn report(observed: &Observed) -> Report {
    let Some(job) = &observed.job else {
        return Report {
            state: State::Absent,
            summary: "there is no such job; `canoe job submit` makes one".to_owned(),
            findings: Vec::new(),
        };
    };
    let state = state(job);
    let mut findings = Vec::new();
    findings.extend(ended(job, observed));
    if !matches!(state, State::Complete) {
        findings.extend(data(observed));
        findings.extend(pods::findings(&observed.pods));
        findings.extend(claims(observed));
    }
    if job.pointer("/spec/suspend") == Some(&Value::Bool(true)) {
        findings.push(Finding {
            subject: format!("job {}", text(job, "/metadata/name")),
            text: "is suspended: something in the cluster, such as a queue, has to let it run"
                .to_owned(),
        });
    }
    if matches!(state, State::Starting) {
        findings.extend(events::findings(&observed.events));
    }
    let mut seen = std::collections::BTreeSet::new();
    findings.retain(|finding| seen.insert(finding.clone()));
    Report {
        state,
        summary: summary(job),
        findings,
    }
}

/// What is the matter with one pod, whatever it belongs to.
pub fn pod(pod: &Value) -> Vec<String> {
    let found = pods::findings(std::slice::from_ref(pod));
    found.into_iter().map(|finding| finding.text).collect()
}

/// What events say, as far as it keeps something from starting.
pub fn events(events: &[Value]) -> Vec<String> {
    let found = events::findings(events);
    found.into_iter().map(|finding| finding.text).collect()
}

pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

pub(super) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

pub(super) fn count(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// The condition of this type, if it is true.
fn condition<'a>(job: &'a Value, kind: &str) -> Option<&'a Value> {
    list(job, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == kind && text(condition, "/status") == "True")
}

fn state(job: &Value) -> State {
    if condition(job, "Complete").is_some() {
        return State::Complete;
    }
    if condition(job, "Failed").is_some() || condition(job, "FailureTarget").is_some() {
        return State::Failed;
    }
    let (ready, done) = (count(job, "/status/ready"), count(job, "/status/succeeded"));
    if ready > 0 && ready + done >= count(job, "/spec/completions") {
        State::Running
    } else {
        State::Starting
    }
}

fn summary(job: &Value) -> String {
    let nodes = count(job, "/spec/completions");
    let (active, ready) = (count(job, "/status/active"), count(job, "/status/ready"));
    let (done, failed) = (
        count(job, "/status/succeeded"),
        count(job, "/status/failed"),
    );
    let mut line = format!(
        "{nodes} nodes: {ready} ready, {} starting, {done} finished",
        active.saturating_sub(ready)
    );
    if failed > 0 {
        line += &format!(
            "; {failed} pods have failed of at most {}",
            count(job, "/spec/backoffLimit")
        );
    }
    line
}

/// Why the Job has failed.
fn ended(job: &Value, observed: &Observed) -> Option<Finding> {
    let failed = condition(job, "Failed").or(condition(job, "FailureTarget"))?;
    let name = text(job, "/metadata/name");
    let message = text(failed, "/message");
    let last = pods::last_words(&observed.pods)
        .map_or(String::new(), |words| format!("; it said: {words}"));
    let text = match text(failed, "/reason") {
        "PodFailurePolicy" => format!(
            "the job failed at once, because a new pod would fail the same way: {message}{last}"
        ),
        "BackoffLimitExceeded" => format!(
            "the job failed because its pods failed more than {} times{last}; `canoe job logs {name}` shows why",
            count(job, "/spec/backoffLimit")
        ),
        "DeadlineExceeded" => {
            "the job ran longer than `deadlineSeconds` allows; raise it and submit again".to_owned()
        }
        reason => format!("the job failed: {reason}: {message}{last}"),
    };
    Some(Finding {
        subject: format!("job {name}"),
        text,
    })
}

/// What keeps the data from being ready; nodes wait for their shards.
fn data(observed: &Observed) -> Vec<Finding> {
    let Some(job) = &observed.data_job else {
        return Vec::new();
    };
    if condition(job, "Complete").is_some() {
        return Vec::new();
    }
    let mut found = pods::findings(&observed.data_pods);
    if condition(job, "Failed").is_some() {
        let last = pods::last_words(&observed.data_pods)
            .map_or(String::new(), |words| format!("; it said: {words}"));
        let text = format!(
            "the data could not be prepared{last}; mend `data` in job.yaml and submit with --replace"
        );
        found.push(Finding {
            subject: format!("job {}", text_of_name(job)),
            text,
        });
    }
    found
}

fn text_of_name(job: &Value) -> &str {
    text(job, "/metadata/name")
}

/// Claims that wait for a volume.
fn claims(observed: &Observed) -> Vec<Finding> {
    let pending = observed
        .claims
        .iter()
        .filter(|claim| text(claim, "/status/phase") == "Pending");
    pending
        .map(|claim| claim_finding(claim, &observed.events))
        .collect()
}

fn claim_finding(claim: &Value, events: &[Value]) -> Finding {
    let name = text(claim, "/metadata/name");
    let about = |event: &&Value| text(event, "/involvedObject/name") == name;
    let is_warning = |event: &&Value| text(event, "/type") == "Warning";
    let mut about_it = events.iter().filter(about);
    // That somebody waits is told again and again after that something has failed.
    let warning = about_it.clone().rfind(is_warning);
    let last = warning.or(about_it.next_back());
    let last = last.map_or("", |event| text(event, "/message"));
    let class = text(claim, "/spec/storageClassName");
    let volume = text(claim, "/spec/volumeName");
    let way_out = if last.contains("storageclass") && last.contains("not found") {
        format!("there is no storage class {class:?}; `kubectl get storageclass` lists them")
    } else if is_for_one_machine(last) {
        format!(
            "storage class {class:?} makes volumes for one machine only ({last}), but all nodes write this one: name a class with ReadWriteMany, or an NFS server \
             under `volume.nfs`"
        )
    } else if last.contains("first consumer") {
        "it waits for a pod that uses it; look at the pods".to_owned()
    } else if !volume.is_empty() {
        format!("volume {volume} is missing or kept for another claim; `kubectl get pv {volume}`")
    } else if last.contains("no persistent volumes available") {
        "no volume fits it; name a server, a file system or a storage class under `volume` in job.yaml".to_owned()
    } else {
        format!(
            "the volume is not there yet{}",
            if last.is_empty() {
                String::new()
            } else {
                format!(": {last}")
            }
        )
    };
    Finding {
        subject: format!("claim {name}"),
        text: format!("is not bound: {way_out}"),
    }
}

/// What provisioners say who are asked for a volume that many machines mount, and make none.
fn is_for_one_machine(message: &str) -> bool {
    let said = [
        "only supports ReadWriteOnce",
        "MULTI_NODE_MULTI_WRITER",
        "multi writer",
        "Only AccessModes[ReadWriteOnce",
        "AccessModes not supported",
    ];
    said.iter().any(|words| message.contains(words))
}

#[cfg(test)]
mod tests;
