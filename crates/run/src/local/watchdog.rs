//! Finds processes that run but make no progress: stopped ones, and those for which the others have waited too long.
//! Pure, with time as a value.
//!
//! Every process writes its state file once a second. A process that does not, while others do, is stopped or hangs as a
//! whole. (If no process writes, the disk is full or the machine was asleep.) A process that writes, but for which the
//! servers have waited long in the same step, hangs in one thread: in a data provider, for example. So does a server that
//! has worked on the same update for long, and a process whose test, save or snapshot makes no progress. All of them are
//! reported, and replaced if the run restarts processes at all.

use std::collections::BTreeMap;
use std::time::Duration;

use super::machine::Elapsed;
use words::process::{ProcessId, Role};
use words::status::{Status, Task};

/// How long a process may make no progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StallLimits {
    /// Without a new state file while others write theirs: it is reported and replaced.
    pub silence: Duration,
    /// While the servers wait for it in the same step, or a server works on the same step: it is reported after this
    /// time,
    pub named: Duration,
    /// and replaced after this time.
    pub stall: Duration,
}

impl Default for StallLimits {
    fn default() -> Self {
        Self {
            silence: Duration::from_secs(8),
            named: Duration::from_secs(9),
            stall: Duration::from_secs(600),
        }
    }
}

/// A process that makes no progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StalledProcess {
    pub process: ProcessId,
    /// A sentence that names it.
    pub text: String,
    /// Whether it is time to replace it.
    pub replace: bool,
}

#[derive(Debug, Default)]
struct Seen {
    /// When its newest state was read.
    state: Option<Elapsed>,
    /// For how long it has written nothing while others did.
    silent: Duration,
    /// Of a server: what its present step lacks,
    wait: Option<StepWait>,
    /// and for how long.
    waited: Duration,
    /// What it had done when it last made progress,
    work: Work,
    /// and for how long it has made none.
    idle: Duration,
    /// It has been reported,
    named: bool,
    /// and it has been reported as one to replace.
    condemned: bool,
}

/// How far a process has come.
#[derive(Debug, Default, PartialEq, Eq)]
struct Work {
    pass: Option<u64>,
    batch: Option<u64>,
    samples: u64,
    task: Option<Task>,
}

/// What the present step of a server lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StepWait {
    step: u64,
    /// Batches of these trainers,
    on: Vec<u32>,
    /// or the server's own work.
    busy: bool,
}

/// What is known about the processes of a run.
#[derive(Debug)]
pub(crate) struct Watchdog {
    patience: StallLimits,
    processes: BTreeMap<ProcessId, Seen>,
    /// When [`Watchdog::look`] was last called.
    looked: Elapsed,
}

/// Between two looks no more time than this is counted: after a longer gap, everything was stopped.
const LONGEST_GAP: Duration = Duration::from_secs(1);

/// A process whose state file is at most this old counts as one that writes.
const WRITES: Duration = Duration::from_secs(3);

impl Watchdog {
    /// No process runs yet.
    pub(crate) fn new(patience: StallLimits) -> Self {
        Self {
            patience,
            processes: BTreeMap::new(),
            looked: Elapsed::ZERO,
        }
    }

    /// A process was started.
    pub(crate) fn started(&mut self, process: ProcessId) {
        self.processes.insert(process, Seen::default());
    }

    /// A process has ended.
    pub(crate) fn ended(&mut self, process: ProcessId) {
        self.processes.remove(&process);
    }

    /// A process wrote this state.
    pub(crate) fn state(&mut self, process: ProcessId, status: &Status, now: Elapsed) {
        let Some(seen) = self.processes.get_mut(&process) else {
            return;
        };
        (seen.state, seen.silent) = (Some(now), Duration::ZERO);
        // Nobody waits for a process that takes no steps, such as a server that holds no table.
        let wait = status.step.map(|step| StepWait {
            step,
            on: status.waits_on.clone(),
            busy: status.busy,
        });
        if seen.wait != wait {
            (seen.wait, seen.waited) = (wait, Duration::ZERO);
        }
        let work = Work {
            pass: status.pass,
            batch: status.batch,
            samples: status.samples,
            task: status.task.clone(),
        };
        if seen.work != work {
            (seen.work, seen.idle) = (work, Duration::ZERO);
        }
    }

    /// The processes that make no progress; each is returned once to be reported, and once to be replaced.
    pub(crate) fn look(&mut self, now: Elapsed) -> Vec<StalledProcess> {
        let passed = now.saturating_sub(self.looked).min(LONGEST_GAP);
        self.looked = now;
        let writes = |seen: &Seen| seen.state.is_some_and(|at| now.saturating_sub(at) < WRITES);
        let somebody = self.processes.values().any(writes);
        for seen in self.processes.values_mut() {
            if somebody && seen.state.is_some() {
                seen.silent += passed;
            }
            seen.waited += passed;
            seen.idle += passed;
        }
        let mut findings = self.silent();
        findings.extend(self.busy());
        findings.extend(self.without_progress());
        findings.extend(self.waited_for());
        findings
    }

    /// Servers that have worked on one update for too long.
    fn busy(&mut self) -> Vec<StalledProcess> {
        let mut findings = Vec::new();
        for (process, seen) in &mut self.processes {
            let Some(wait) = seen.wait.as_ref().filter(|wait| wait.busy) else {
                continue;
            };
            let (step, seconds) = (wait.step, seen.waited.as_secs());
            let text = format!("{process} has worked on the update of step {step} for {seconds} s");
            findings.extend(tell(&self.patience, *process, seen, seen.waited, text));
        }
        findings
    }

    /// Processes whose test, save or snapshot makes no progress.
    fn without_progress(&mut self) -> Vec<StalledProcess> {
        let mut findings = Vec::new();
        for (process, seen) in &mut self.processes {
            let Some(task) = &seen.work.task else {
                continue;
            };
            let (name, seconds) = (&task.name, seen.idle.as_secs());
            let text = format!("{process} has made no progress with {name} for {seconds} s");
            findings.extend(tell(&self.patience, *process, seen, seen.idle, text));
        }
        findings
    }

    fn silent(&mut self) -> Vec<StalledProcess> {
        let mut findings = Vec::new();
        for (process, seen) in &mut self.processes {
            if seen.silent >= self.patience.silence && !seen.condemned {
                (seen.named, seen.condemned) = (true, true);
                findings.push(StalledProcess {
                    process: *process,
                    text: format!(
                        "{process} has not reported anything for {} s, although it runs: it is stopped or hangs",
                        seen.silent.as_secs()
                    ),
                    replace: true,
                });
            }
        }
        findings
    }

    fn waited_for(&mut self) -> Vec<StalledProcess> {
        // All servers that take steps must wait for the same process, in the same step.
        let steps = |seen: &Seen| seen.state.is_none() || seen.wait.is_some();
        let servers = self
            .processes
            .iter()
            .filter(|(id, seen)| id.role == Role::Pserver && steps(seen));
        let waits: Option<Vec<_>> = servers
            .map(|(_, seen)| Some((seen.wait.clone()?, seen.waited)))
            .collect();
        let Some(waits) = waits.filter(|waits| !waits.is_empty()) else {
            return Vec::new();
        };
        let step = waits[0].0.step;
        if waits.iter().any(|(wait, _)| wait.step != step || wait.busy) {
            return Vec::new();
        }
        let waited = waits.iter().map(|(_, waited)| *waited).min();
        let waited = waited.unwrap_or(Duration::ZERO);
        let mut findings = Vec::new();
        for (process, seen) in &mut self.processes {
            let named = waits
                .iter()
                .any(|(wait, _)| wait.on.contains(&process.node));
            if process.role != Role::Trainer || !named {
                continue;
            }
            let seconds = waited.as_secs();
            let text = format!("step {step} of the servers has waited {seconds} s for {process}");
            findings.extend(tell(&self.patience, *process, seen, waited, text));
        }
        findings
    }
}

/// Reports a process that the others have waited for this long, first by name and later as one to replace; each once.
fn tell(
    patience: &StallLimits,
    process: ProcessId,
    seen: &mut Seen,
    waited: Duration,
    text: String,
) -> Option<StalledProcess> {
    let replace = waited >= patience.stall;
    let told = if replace {
        seen.condemned
    } else {
        waited < patience.named || seen.named
    };
    seen.named |= !told;
    seen.condemned |= replace;
    (!told).then_some(StalledProcess {
        process,
        text,
        replace,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: ProcessId = ProcessId::trainer(0);
    const T1: ProcessId = ProcessId::trainer(1);
    const S0: ProcessId = ProcessId::pserver(0);
    const S1: ProcessId = ProcessId::pserver(1);

    fn at(seconds: u64) -> Elapsed {
        Duration::from_secs(seconds)
    }

    fn server(step: u64, waits_on: &[u32]) -> Status {
        Status {
            step: Some(step),
            waits_on: waits_on.to_vec(),
            ..Status::default()
        }
    }

    fn dog() -> Watchdog {
        let mut dog = Watchdog::new(StallLimits::default());
        for process in [S0, S1, T0, T1] {
            dog.started(process);
        }
        dog
    }

    /// All processes but `silent` write; servers wait for `on`. Returns what is found, with the second.
    fn watch(
        dog: &mut Watchdog,
        seconds: std::ops::Range<u64>,
        silent: &[ProcessId],
        on: &[u32],
    ) -> Vec<(u64, StalledProcess)> {
        let mut found = Vec::new();
        for second in seconds {
            for process in [S0, S1, T0, T1] {
                if !silent.contains(&process) {
                    let status = match process.role {
                        Role::Pserver => server(7, on),
                        Role::Trainer => Status::default(),
                    };
                    dog.state(process, &status, at(second));
                }
            }
            found.extend(
                dog.look(at(second))
                    .into_iter()
                    .map(|finding| (second, finding)),
            );
        }
        found
    }

    #[test]
    fn a_server_that_takes_no_steps_does_not_hide_whom_the_others_wait_for() {
        let mut dog = dog();
        let mut found = Vec::new();
        for second in 0..2 * StallLimits::default().named.as_secs() {
            for (process, status) in [
                (S0, server(7, &[1])),
                (S1, Status::default()),
                (T0, Status::default()),
                (T1, Status::default()),
            ] {
                dog.state(process, &status, at(second));
            }
            found.extend(dog.look(at(second)));
        }
        assert!(
            found.iter().all(|finding| finding.process == T1),
            "{found:?}"
        );
        assert!(!found.is_empty());
    }

    #[test]
    fn a_process_that_says_nothing_is_named_within_ten_seconds_and_once() {
        let mut dog = dog();
        assert_eq!(watch(&mut dog, 0..5, &[], &[]), []);
        let found = watch(&mut dog, 5..60, &[S1], &[]);
        let [(second, finding)] = &found[..] else {
            panic!("{found:?}");
        };
        assert!(
            *second <= 14 && finding.process == S1 && finding.replace,
            "{found:?}"
        );
    }

    #[test]
    fn nobody_is_to_blame_when_nobody_can_write() {
        let mut dog = dog();
        watch(&mut dog, 0..5, &[], &[]);
        assert_eq!(
            watch(&mut dog, 5..500, &[S0, S1, T0, T1], &[]),
            [],
            "a full disk"
        );
        // The machine was asleep, or has room on its disk again: one process is the first to write.
        for (second, process) in [(900, T0), (901, S1), (902, T1), (903, S0)] {
            dog.state(process, &Status::default(), at(second));
            assert_eq!(dog.look(at(second)), []);
        }
        assert_eq!(watch(&mut dog, 904..920, &[], &[]), []);
    }

    #[test]
    fn whom_the_servers_wait_for_is_named_within_ten_seconds_and_replaced_later() {
        let mut dog = dog();
        let found = watch(&mut dog, 0..700, &[], &[1]);
        let what: Vec<_> = found
            .iter()
            .map(|(s, f)| (*s, f.process, f.replace))
            .collect();
        assert_eq!(what, [(9, T1, false), (600, T1, true)]);
        assert!(
            found[0].1.text.contains("has waited 9 s for trainer 1"),
            "{found:?}"
        );
    }

    #[test]
    fn a_server_that_works_on_one_update_for_ever_is_named_and_replaced_and_no_trainer_is() {
        let mut dog = dog();
        let mut found = Vec::new();
        for second in 0..700 {
            let hangs = Status {
                busy: true,
                ..server(7, &[])
            };
            dog.state(S0, &server(8, &[0, 1]), at(second));
            dog.state(S1, &hangs, at(second));
            dog.state(T0, &Status::default(), at(second));
            dog.state(T1, &Status::default(), at(second));
            let findings = dog.look(at(second)).into_iter();
            found.extend(findings.map(|f| (second, f.process, f.replace)));
        }
        assert_eq!(found, [(9, S1, false), (600, S1, true)]);
    }

    #[test]
    fn a_task_without_progress_is_named_and_its_process_replaced_and_a_slow_one_is_not() {
        for hung in [T0, S1] {
            let mut dog = dog();
            let mut found = Vec::new();
            for second in 0..700 {
                for process in [S0, S1, T0, T1] {
                    let mut status = match process.role {
                        Role::Pserver => server(7, &[]),
                        Role::Trainer => Status::default(),
                    };
                    let done = if process == hung { 3 } else { second / 8 };
                    status.task = Some(Task {
                        name: "the test".to_owned(),
                        done,
                    });
                    dog.state(process, &status, at(second));
                }
                found.extend(dog.look(at(second)).into_iter().map(|f| (second, f)));
            }
            let what: Vec<_> = found
                .iter()
                .map(|(s, f)| (*s, f.process, f.replace))
                .collect();
            assert_eq!(what, [(9, hung, false), (600, hung, true)]);
            let text = &found[0].1.text;
            assert!(
                text.ends_with("made no progress with the test for 9 s"),
                "{text}"
            );
        }
    }

    #[test]
    fn slow_steps_and_work_at_the_end_of_a_pass_are_no_reason() {
        let mut dog = dog();
        for step in 0..50 {
            for second in 0..8 {
                let now = at(step * 8 + second);
                dog.state(S0, &server(step, &[1]), now);
                dog.state(S1, &server(step, &[1]), now);
                dog.state(T0, &Status::default(), now);
                dog.state(T1, &Status::default(), now);
                assert_eq!(dog.look(now), []);
            }
        }
        assert_eq!(watch(&mut dog, 400..5000, &[], &[]), [], "a long test");
    }

    #[test]
    fn a_process_that_starts_is_given_its_time() {
        let mut dog = dog();
        watch(&mut dog, 0..5, &[], &[]);
        dog.started(T1);
        assert_eq!(watch(&mut dog, 5..100, &[T1], &[]), []);
    }
}
