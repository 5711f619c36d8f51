//! Replays what a real cluster sent, moment by moment (`e2e/recordings`), and asks at each whether a person would have been
//! told the right thing: within ten seconds of the first sign, for as long as it is so, and nothing else.
//!
//! Each recording is replayed with and without the right to read Nodes.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and prints the table of times"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use k8s::explain::reason::{ContainerExit, Ending, FailedBy, Placement, PodRefusal, PullFailure};
use k8s::explain::{Diagnosis, JobState, Observed, Reason, ShownPod, diagnose};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolumeClaim, Pod};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// How long a person may be left without the reason.
const PROMPT: f64 = 10.0;
const JOB: &str = "quick-start";

/// Whether Nodes can be read.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rights {
    Namespace,
    Machines,
}

struct Line {
    t: f64,
    kind: String,
    object: Value,
}

struct Recording {
    name: String,
    lines: Vec<Line>,
}

/// A moment of a recording and what is told at it.
struct Moment {
    t: f64,
    told: Diagnosis,
}

fn recording(name: &str) -> Recording {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../e2e/recordings/{name}.jsonl"));
    let text = fs::read_to_string(path).unwrap();
    let line = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        Line {
            t: value["t"].as_f64().unwrap_or(0.0),
            kind: value["type"].as_str().unwrap().to_owned(),
            object: value["object"].clone(),
        }
    };
    Recording {
        name: name.to_owned(),
        lines: text.lines().map(line).collect(),
    }
}

impl Recording {
    /// What is told after every line, and once a second in between.
    fn replay(&self, rights: Rights) -> Vec<Moment> {
        let start: Timestamp = self.lines[0].object["time"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        let mut shown = Cluster::default();
        let mut moments = Vec::new();
        for (place, line) in self.lines.iter().enumerate() {
            if !shown.take(line) {
                continue;
            }
            let next = self.lines.get(place + 1).map_or(line.t, |next| next.t);
            let mut t = line.t;
            while t <= next {
                let now = start + SignedDuration::from_millis((t * 1000.0) as i64);
                let told = diagnose(&shown.observed(now, rights));
                moments.push(Moment { t, told });
                t += 1.0;
            }
        }
        moments
    }
}

/// What the API server would show, by uid.
#[derive(Default)]
struct Cluster {
    jobs: BTreeMap<String, Job>,
    pods: BTreeMap<String, Pod>,
    events: BTreeMap<String, Event>,
    claims: BTreeMap<String, PersistentVolumeClaim>,
    machines: BTreeMap<String, Node>,
}

impl Cluster {
    /// `false` if nothing changes that is looked at.
    fn take(&mut self, line: &Line) -> bool {
        match line.object["kind"].as_str() {
            Some("Job") => put(&mut self.jobs, line),
            Some("Pod") => put(&mut self.pods, line),
            Some("Event") => put(&mut self.events, line),
            Some("PersistentVolumeClaim") => put(&mut self.claims, line),
            Some("Node") => put(&mut self.machines, line),
            _ => return false,
        }
        true
    }

    fn observed(&self, now: Timestamp, rights: Rights) -> Observed {
        let job = |name: &str| {
            self.jobs
                .values()
                .find(|job| job.metadata.name.as_deref() == Some(name))
                .cloned()
        };
        let pods = |name: &str| -> Vec<Pod> {
            let label = "batch.kubernetes.io/job-name";
            let is_of = |pod: &&Pod| {
                let labels = pod.metadata.labels.as_ref();
                labels
                    .and_then(|labels| labels.get(label))
                    .is_some_and(|job| job == name)
            };
            self.pods.values().filter(is_of).cloned().collect()
        };
        let data = format!("{JOB}-data");
        Observed {
            job: job(JOB),
            pods: pods(JOB),
            events: self.events.values().cloned().collect(),
            claims: self.claims.values().cloned().collect(),
            machines: (rights == Rights::Machines)
                .then(|| self.machines.values().cloned().collect()),
            data_job: job(&data),
            data_pods: pods(&data),
            now,
        }
    }
}

fn put<T: DeserializeOwned>(into: &mut BTreeMap<String, T>, line: &Line) {
    let uid = line.object["metadata"]["uid"].as_str().unwrap().to_owned();
    if line.kind == "DELETED" {
        into.remove(&uid);
    } else {
        into.insert(uid, T::deserialize(&line.object).unwrap());
    }
}

/// From `from` (plus ten seconds at most) until `until`, a reason of this kind is told.
struct Expected {
    from: f64,
    until: f64,
    what: &'static str,
    is_it: fn(&Reason) -> bool,
}

fn expect(from: f64, until: f64, what: &'static str, is_it: fn(&Reason) -> bool) -> Expected {
    Expected {
        from,
        until,
        what,
        is_it,
    }
}

/// Replays a recording. Trouble may be told only inside of `sick`; states must be reached within ten seconds.
fn check(
    name: &'static str,
    sick: &[(f64, f64)],
    expected: &[Expected],
    states: &[(f64, JobState)],
) {
    let recording = recording(name);
    for rights in [Rights::Namespace, Rights::Machines] {
        let moments = recording.replay(rights);
        let place = format!("{} with {rights:?}", recording.name);
        no_false_alarm(&place, &moments, sick);
        no_node_is_missing(&place, &moments);
        for expected in expected {
            is_told(&place, &moments, expected);
        }
        for (from, state) in states {
            let reached = moments
                .iter()
                .filter(|moment| moment.t >= from - 1.0)
                .find(|moment| moment.told.state == *state);
            let t = reached
                .unwrap_or_else(|| panic!("{place}: {state:?} is never reached after {from}"))
                .t;
            assert!(
                t <= from + PROMPT,
                "{place}: {state:?} at {t}, not at {from}"
            );
        }
    }
}

fn words(told: &Diagnosis) -> String {
    let lines: Vec<String> = told.findings.iter().map(ToString::to_string).collect();
    format!("{}\n  {}", told.summary(), lines.join("\n  "))
}

fn no_false_alarm(place: &str, moments: &[Moment], sick: &[(f64, f64)]) {
    for moment in moments.iter().filter(|moment| moment.told.has_trouble()) {
        let is_sick = sick
            .iter()
            .any(|(from, until)| (*from..=*until).contains(&moment.t));
        assert!(
            is_sick,
            "{place}: false alarm at {}: {}",
            moment.t,
            words(&moment.told)
        );
    }
}

fn no_node_is_missing(place: &str, moments: &[Moment]) {
    for moment in moments
        .iter()
        .filter(|moment| moment.told.state != JobState::Absent)
    {
        let nodes: Vec<Option<u32>> = moment.told.rows.iter().map(|row| row.node).collect();
        assert_eq!(
            nodes,
            [Some(0), Some(1), Some(2)],
            "{place} at {}",
            moment.t
        );
    }
}

fn is_told(place: &str, moments: &[Moment], expected: &Expected) {
    let tells = |moment: &&Moment| {
        moment
            .told
            .findings
            .iter()
            .any(|finding| (expected.is_it)(&finding.reason))
    };
    let inside: Vec<&Moment> = moments
        .iter()
        .filter(|moment| (expected.from..=expected.until).contains(&moment.t))
        .collect();
    let first = inside.iter().position(tells);
    let first = first.unwrap_or_else(|| {
        let last = inside
            .last()
            .map_or(String::new(), |moment| words(&moment.told));
        panic!(
            "{place}: never says {:?} in {} moments, but {last}",
            expected.what,
            inside.len()
        )
    });
    let t = inside[first].t;
    println!(
        "{place}: {:?} is so from {:.1} and told at {t:.1}",
        expected.what, expected.from
    );
    assert!(
        t <= expected.from + PROMPT,
        "{place}: {:?} is told at {t}, not at {}",
        expected.what,
        expected.from
    );
    for moment in &inside[first..] {
        assert!(
            tells(moment),
            "{place}: {:?} is not told at {}: {}",
            expected.what,
            moment.t,
            words(&moment.told)
        );
    }
}

#[test]
fn healthy_runs_raise_no_alarm() {
    check(
        "healthy",
        &[],
        &[],
        &[
            (1.9, JobState::Starting),
            (11.0, JobState::Running),
            (31.0, JobState::Complete),
        ],
    );
    check(
        "healthy-transient-mount",
        &[],
        &[],
        &[(10.0, JobState::Running), (27.0, JobState::Complete)],
    );
    check(
        "slow-start",
        &[],
        &[],
        &[(16.0, JobState::Running), (24.0, JobState::Complete)],
    );
    check(
        "healthy-slow-mount",
        &[],
        &[expect(5.0, 14.0, "the mount is tried again", |reason| {
            matches!(reason, Reason::MountsAgain)
        })],
        &[(23.6, JobState::Running), (40.0, JobState::Complete)],
    );
    check(
        "slow-image-pull",
        &[],
        &[expect(
            2.6,
            52.0,
            "n3 pulls",
            |reason| matches!(reason, Reason::Pulling { machine, .. } if machine == "n3"),
        )],
        &[(58.5, JobState::Running), (65.0, JobState::Complete)],
    );
}

#[test]
fn from_the_moment_a_container_has_ended_its_node_has_finished() {
    let moments = recording("healthy").replay(Rights::Namespace);
    let finished = |moment: &&Moment| {
        moment
            .told
            .rows
            .iter()
            .any(|row| row.shown == ShownPod::Finished)
    };
    let first = moments.iter().find(finished).unwrap().t;
    assert!(first < 31.0, "{first}");
    for moment in moments.iter().filter(|moment| moment.t >= 11.7) {
        assert!(
            moment
                .told
                .rows
                .iter()
                .all(|row| matches!(row.shown, ShownPod::Running | ShownPod::Finished)),
            "{:?}",
            moment.told.rows
        );
    }
}

#[test]
fn images() {
    check(
        "image-unpullable",
        &[(2.5, 1e9)],
        &[expect(
            13.3,
            1e9,
            "the registry cannot be reached",
            |reason| matches!(reason, Reason::ImageNotPulled { image, why: PullFailure::Unreachable } if image == "registry.example/canoe:0.9"),
        )],
        &[],
    );
    check(
        "image-tag-unknown",
        &[(2.2, 1e9)],
        &[expect(
            2.3,
            1e9,
            "no such tag",
            |reason| matches!(reason, Reason::ImageNotPulled { image, why: PullFailure::Unknown } if image == "localhost:5000/canoe:9.9"),
        )],
        &[],
    );
    check(
        "image-name-invalid",
        &[(3.7, 1e9)],
        &[expect(4.2, 1e9, "the name is not valid", |reason| {
            matches!(reason, Reason::ImageNameInvalid { .. })
        })],
        &[],
    );
}

/// Every sentence of every recording, with the second at which it is told first and last: a wrong one beside the right one, and wrong words, show in the
/// difference. `CANOE_BLESS=1 cargo test -p canoe-k8s --test replay` writes the file anew.
#[test]
fn what_is_told_word_by_word() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/recordings");
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".jsonl").map(str::to_owned)
        })
        .collect();
    names.sort();
    assert_eq!(names.len(), 22);
    let mut text = String::new();
    for name in names {
        text += &format!("\n{name}\n");
        for sentence in sentences(&recording(&name).replay(Rights::Machines)) {
            text += &sentence;
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/told.txt");
    if std::env::var_os("CANOE_BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let want = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        want == text,
        "told.txt differs; run with CANOE_BLESS=1 and look at the difference"
    );
}

/// Each with its first and last second; what comes back after it was gone is there twice.
fn sentences(moments: &[Moment]) -> Vec<String> {
    let mut open: BTreeMap<String, f64> = BTreeMap::new();
    let mut closed: Vec<(f64, f64, String)> = Vec::new();
    for moment in moments {
        let findings = moment.told.findings.iter();
        let told: Vec<String> = findings.map(ToString::to_string).collect();
        let gone: Vec<String> = open
            .keys()
            .filter(|it| !told.contains(it))
            .cloned()
            .collect();
        for sentence in gone {
            let from = open.remove(&sentence).unwrap();
            closed.push((from, moment.t, sentence));
        }
        for sentence in told {
            open.entry(sentence).or_insert(moment.t);
        }
    }
    let end = moments.last().map_or(0.0, |moment| moment.t);
    closed.extend(
        open.into_iter()
            .map(|(sentence, from)| (from, end, sentence)),
    );
    closed.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.2.cmp(&other.2)));
    let lines = closed.into_iter();
    lines
        .map(|(from, until, sentence)| format!("{from:7.1} to {until:6.1}  {sentence}\n"))
        .collect()
}

/// The same trouble of several pods is one line.
#[test]
fn the_same_trouble_is_told_once() {
    for (name, from) in [
        ("image-tag-unknown", 6.0),
        ("image-unpullable", 40.0),
        ("claim-missing", 9.0),
        ("unschedulable-cpu", 8.0),
    ] {
        for moment in recording(name)
            .replay(Rights::Machines)
            .iter()
            .filter(|moment| moment.t > from)
        {
            assert_eq!(
                moment.told.findings.len(),
                1,
                "{name} at {}: {}",
                moment.t,
                words(&moment.told)
            );
        }
    }
}

#[test]
fn pods_that_are_not_placed() {
    check(
        "unschedulable-cpu",
        &[(2.7, 1e9)],
        &[expect(
            2.8,
            1e9,
            "not enough cores",
            |reason| matches!(reason, Reason::NotPlaced(why) if matches!(&why[..], [Placement::Cores(Some(asked), _)] if asked == "64")),
        )],
        &[],
    );
    check(
        "node-selector-matches-nothing",
        &[(2.1, 1e9)],
        &[expect(
            2.2,
            1e9,
            "no machine has the label",
            |reason| matches!(reason, Reason::NotPlaced(why) if why.contains(&Placement::Selector("disk=ssd".into()))),
        )],
        &[],
    );
    check(
        "claim-missing",
        &[(2.8, 1e9)],
        &[expect(
            2.95,
            1e9,
            "the claim is missing",
            |reason| matches!(reason, Reason::NotPlaced(why) if why.contains(&Placement::ClaimMissing("no-such-claim".into()))),
        )],
        &[],
    );
}

#[test]
fn pods_that_cannot_be_made() {
    check(
        "pod-security-refuses",
        &[(3.2, 1e9)],
        &[expect(3.3, 1e9, "pod security refuses", |reason| {
            matches!(reason, Reason::NotCreated(PodRefusal::PodSecurity(_)))
        })],
        &[],
    );
    check(
        "quota-exceeded",
        &[(3.0, 1e9)],
        &[
            expect(3.06, 5.5, "the quota is used up", |reason| {
                matches!(reason, Reason::NotCreated(PodRefusal::Quota(_)))
            }),
            expect(
                6.6,
                1e9,
                "with the newest numbers",
                |reason| matches!(reason, Reason::NotCreated(PodRefusal::Quota(numbers)) if numbers.contains("used: requests.memory=2Gi")),
            ),
        ],
        &[],
    );
}

#[test]
fn pods_that_are_replaced() {
    let is_ending = |reason: &Reason| matches!(reason, Reason::Ending(Ending::Deleted));
    check(
        "pod-deleted",
        &[],
        &[
            expect(17.9, 18.5, "the pod is ending", is_ending),
            expect(20.4, 28.3, "the successor comes", |reason| {
                matches!(reason, Reason::NoPodYet)
            }),
        ],
        &[(31.5, JobState::Running), (77.1, JobState::Complete)],
    );
    check(
        "container-killed",
        &[],
        &[
            expect(21.4, 29.8, "killed from outside", |reason| {
                matches!(
                    reason,
                    Reason::PodFailed {
                        exit: ContainerExit::Code(137, None),
                        ..
                    }
                )
            }),
            expect(33.7, 92.0, "it is history", |reason| {
                matches!(
                    reason,
                    Reason::FailedBefore {
                        pods: 1,
                        exit: ContainerExit::Code(137, None)
                    }
                )
            }),
        ],
        &[(33.0, JobState::Running), (94.5, JobState::Complete)],
    );
    check(
        "drain-with-budget",
        &[],
        &[
            expect(
                18.9,
                19.5,
                "n2 is emptied",
                |reason| matches!(reason, Reason::Ending(Ending::Drained(machine)) if machine == "n2"),
            ),
            expect(21.0, 29.0, "the successor of node 1 comes", |reason| {
                matches!(reason, Reason::NoPodYet)
            }),
            expect(
                39.32,
                40.5,
                "n3 is emptied",
                |reason| matches!(reason, Reason::Ending(Ending::Drained(machine)) if machine == "n3"),
            ),
            expect(42.5, 60.0, "the successor of node 0 comes", |reason| {
                matches!(reason, Reason::NoPodYet)
            }),
        ],
        &[
            (34.4, JobState::Running),
            (66.5, JobState::Running),
            (116.8, JobState::Complete),
        ],
    );
}

#[test]
fn jobs_that_fail() {
    let name_error = |reason: &Reason| {
        let wanted = "trainer_config.lr.py:32: NameError: name 'SoftmaxActivatoin' is not defined";
        let is_it =
            |exit: &ContainerExit| *exit == ContainerExit::Code(78, Some(wanted.to_owned()));
        match reason {
            Reason::PodFailed { exit, .. } => is_it(exit),
            Reason::JobFailed {
                cause: Some(cause),
                rule: FailedBy::FailurePolicy,
                ..
            } => is_it(cause),
            _ => false,
        }
    };
    check(
        "configuration-wrong",
        &[(10.4, 1e9)],
        &[
            expect(
                10.6,
                1e9,
                "the configuration cannot be evaluated",
                name_error,
            ),
            expect(12.7, 1e9, "the Job has failed at once", |reason| {
                matches!(
                    reason,
                    Reason::JobFailed {
                        rule: FailedBy::FailurePolicy,
                        ..
                    }
                )
            }),
        ],
        &[(12.7, JobState::Failed)],
    );
    let memory = |reason: &Reason| {
        let is_it =
            |exit: &ContainerExit| *exit == ContainerExit::OutOfMemory(Some("128Mi".to_owned()));
        match reason {
            Reason::PodFailed { exit, .. } | Reason::FailedBefore { exit, .. } => is_it(exit),
            Reason::JobFailed {
                cause: Some(cause),
                rule: FailedBy::Retries(2),
                ..
            } => is_it(cause),
            _ => false,
        }
    };
    check(
        "out-of-memory",
        &[(19.0, 1e9)],
        &[expect(19.2, 1e9, "out of memory", memory)],
        &[(62.8, JobState::Failed)],
    );
    let provider = |reason: &Reason| {
        let is_it = |exit: &ContainerExit| matches!(exit, ContainerExit::Code(1, Some(words)) if words.contains("OSError: the reviews cannot be read"));
        match reason {
            Reason::PodFailed { exit, .. } | Reason::FailedBefore { exit, .. } => is_it(exit),
            Reason::JobFailed {
                cause: Some(cause),
                rule: FailedBy::Retries(2),
                ..
            } => is_it(cause),
            _ => false,
        }
    };
    check(
        "retries-used-up",
        &[(13.9, 1e9)],
        &[expect(14.0, 1e9, "the provider fails", provider)],
        &[(55.1, JobState::Failed)],
    );
}

#[test]
fn machines_in_trouble() {
    check(
        "pod-network-broken-on-one-node",
        &[(17.4, 71.4)],
        &[expect(
            17.5,
            70.4,
            "no free address on n2",
            |reason| matches!(reason, Reason::NoPodNetwork { machine, is_full: true, .. } if machine == "n2"),
        )],
        &[(78.5, JobState::Running), (87.2, JobState::Complete)],
    );
    let lost = |reason: &Reason| matches!(reason, Reason::MachineLost { machine, nodes, .. } if machine == "n3" && nodes == &[0]);
    check(
        "node-cut-off",
        &[(73.5, 408.4)],
        &[
            expect(73.6, 403.9, "n3 does not respond", lost),
            expect(374.0, 403.9, "its pod cannot hear", |reason| {
                matches!(reason, Reason::MachineLost { is_asked: true, .. })
            }),
        ],
        &[(415.3, JobState::Running), (471.4, JobState::Complete)],
    );
    check(
        "job-deleted-with-a-pod-on-a-lost-node",
        &[(71.1, 406.0)],
        &[
            expect(71.2, 124.3, "n3 does not respond", lost),
            expect(124.6, 405.8, "the job is being deleted", |reason| {
                matches!(reason, Reason::BeingDeleted { .. })
            }),
            expect(
                125.5,
                401.5,
                "deletion waits for n3",
                |reason| matches!(reason, Reason::DeletionWaits { machine, .. } if machine == "n3"),
            ),
        ],
        &[(124.5, JobState::Deleting), (406.0, JobState::Absent)],
    );
}

/// Nobody asks a node on a machine that is away how far it is.
#[test]
fn a_lost_node_is_not_asked() {
    for rights in [Rights::Namespace, Rights::Machines] {
        for moment in recording("node-cut-off").replay(rights) {
            if (74.0..408.0).contains(&moment.t) {
                assert_eq!(moment.told.rows[0].shown, ShownPod::Lost);
                assert!(!moment.told.rows[0].can_tell());
            }
        }
    }
}
