//! The decision after a loss: where the job goes on. Pure, so that every combination can be tested.
//!
//! Trainer 0 asks every server for its [`Report`] once all trainers have come back, and tells all of them the
//! outcome of [`decide`].

use crate::ids::{Epoch, Step, TrainerId};
use crate::message::Start;
use crate::status::Status;
use serde::{Deserialize, Serialize};

/// What a server is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Waiting for trainers to come (back) and for trainer 0 to open an epoch.
    Lobby,
    /// Serving an epoch.
    Running,
    /// The job cannot go on; [`Report::reason`] says why.
    Failed,
    /// All trainers have left.
    Finished,
}

/// A point between two steps where nothing is half done.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boundary {
    /// Steps applied.
    pub step: Step,
    /// Passes finished.
    pub pass: u64,
    /// Batches of the current pass that each trainer has finished.
    pub batches: Vec<u64>,
}

/// The state of a server as it tells it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The newest epoch it knows.
    pub epoch: Epoch,
    /// What it does.
    pub phase: Phase,
    /// Why it does not run: the loss that ended the epoch, or the failure of the job.
    pub reason: String,
    /// Trainers that are connected and wait to be let in.
    pub waiting: Vec<TrainerId>,
    /// Trainers that are not connected.
    pub missing: Vec<TrainerId>,
    /// Where its tables stand, if they stand at a boundary.
    pub boundary: Option<Boundary>,
    /// Steps whose snapshot it can restore, ascending.
    pub snapshots: Vec<Step>,
    /// It wants a snapshot of this step or a later one on all servers, because its process is to end.
    pub wanted: Option<Step>,
    /// Its own status, with whom it waits for.
    pub status: Status,
}

/// Where the job goes on.
///
/// - All servers stand at the same boundary: from there, nothing is lost.
/// - Otherwise from the newest snapshot that all have.
/// - Without one, from the start.
pub fn decide(reports: &[Report]) -> Start {
    let Some((first, others)) = reports.split_first() else {
        return Start::Fresh;
    };
    if let Some(boundary) = &first.boundary
        && others.iter().all(|r| r.boundary == first.boundary)
    {
        return Start::Continue {
            step: boundary.step,
            pass: boundary.pass,
        };
    }
    stable(reports).map_or(Start::Fresh, Start::Restore)
}

/// The newest snapshot that all servers have.
pub fn stable(reports: &[Report]) -> Option<Step> {
    let (first, others) = reports.split_first()?;
    first
        .snapshots
        .iter()
        .copied()
        .filter(|step| others.iter().all(|r| r.snapshots.contains(step)))
        .max()
}

/// What the reports of all servers mean for a trainer that waits to be let in.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// All servers run this epoch: go in.
    Enter(Epoch, Boundary),
    /// Everybody is there; trainer 0 may open this epoch.
    Open(Epoch, Start),
    /// Not yet, for this reason.
    Wait(String),
    /// The job has ended without this trainer.
    Over,
}

/// What the reports mean. `seen` is the last epoch this trainer was in.
pub fn judge(
    reports: &[Report],
    seen: Epoch,
    trainers: u32,
    name: impl Fn(usize) -> String,
) -> Verdict {
    if reports.iter().any(|r| r.phase == Phase::Finished) {
        return Verdict::Over;
    }
    let newest = reports.iter().map(|r| r.epoch).max().unwrap_or_default();
    let all_run = reports
        .iter()
        .all(|r| r.phase == Phase::Running && r.epoch == newest);
    if all_run
        && newest > seen
        && let Some(boundary) = reports.first().and_then(|r| r.boundary.clone())
    {
        return Verdict::Enter(newest, boundary);
    }
    for (server, report) in reports.iter().enumerate() {
        if report.waiting.len() == trainers as usize {
            continue;
        }
        let list = |ids: &[TrainerId]| {
            ids.iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        };
        return Verdict::Wait(if report.missing.is_empty() {
            format!(
                "server {} waits for trainers to leave the old epoch",
                name(server)
            )
        } else {
            format!(
                "server {} waits for trainers {} to connect",
                name(server),
                list(&report.missing)
            )
        });
    }
    Verdict::Open(Epoch(newest.max(seen).0 + 1), decide(reports))
}

/// Which snapshots a server may delete: all but the newest two, and never the newest one that is known to be
/// on all servers nor anything after it. `have` is ascending.
pub fn expendable(have: &[Step], stable: Option<Step>) -> Vec<Step> {
    let keep_from = have.len().saturating_sub(2);
    have[..keep_from]
        .iter()
        .copied()
        .filter(|step| stable.is_some_and(|stable| *step < stable))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(boundary: Option<u64>, snapshots: &[u64]) -> Report {
        Report {
            epoch: Epoch(3),
            phase: Phase::Lobby,
            reason: String::new(),
            waiting: vec![],
            missing: vec![],
            boundary: boundary.map(|step| Boundary {
                step: Step(step),
                pass: 0,
                batches: vec![step],
            }),
            snapshots: snapshots.iter().map(|s| Step(*s)).collect(),
            wanted: None,
            status: Status::default(),
        }
    }

    #[test]
    fn each_case_has_its_decision() {
        let cases = [
            (vec![report(None, &[]), report(None, &[])], Start::Fresh),
            (
                vec![report(Some(7), &[5]), report(Some(7), &[])],
                Start::Continue {
                    step: Step(7),
                    pass: 0,
                },
            ),
            (
                vec![report(Some(7), &[0, 5]), report(Some(8), &[5])],
                Start::Restore(Step(5)),
            ),
            (
                vec![report(Some(7), &[0, 5]), report(None, &[0])],
                Start::Restore(Step(0)),
            ),
            (
                vec![report(Some(7), &[5]), report(None, &[0])],
                Start::Fresh,
            ),
            (vec![], Start::Fresh),
        ];
        for (reports, wanted) in cases {
            assert_eq!(decide(&reports), wanted, "{reports:?}");
        }
    }

    #[test]
    fn the_same_step_in_another_pass_is_another_boundary() {
        let before = report(Some(7), &[]);
        let mut after = before.clone();
        after.boundary = Some(Boundary {
            step: Step(7),
            pass: 1,
            batches: vec![0],
        });
        assert_eq!(decide(&[before, after]), Start::Fresh);
    }

    #[test]
    fn the_newest_common_snapshot_is_never_deleted() {
        let steps = |list: &[u64]| list.iter().map(|s| Step(*s)).collect::<Vec<_>>();
        let have = steps(&[10, 20, 30, 40]);
        assert_eq!(expendable(&have, None), steps(&[]));
        assert_eq!(expendable(&have, Some(Step(10))), steps(&[]));
        assert_eq!(expendable(&have, Some(Step(20))), steps(&[10]));
        assert_eq!(expendable(&have, Some(Step(40))), steps(&[10, 20]));
        assert_eq!(expendable(&have[..2], Some(Step(20))), steps(&[]));
    }

    fn seat(phase: Phase, epoch: u64, waiting: u32) -> Report {
        Report {
            epoch: Epoch(epoch),
            phase,
            reason: String::new(),
            waiting: (0..waiting).map(TrainerId).collect(),
            missing: (waiting..2).map(TrainerId).collect(),
            boundary: Some(Boundary {
                step: Step(4),
                pass: 0,
                batches: vec![4, 4],
            }),
            snapshots: vec![],
            wanted: None,
            status: Status::default(),
        }
    }

    fn verdict(reports: &[Report], seen: u64) -> Verdict {
        judge(reports, Epoch(seen), 2, |server| format!("s{server}"))
    }

    #[test]
    fn a_trainer_enters_only_what_all_servers_run_and_it_has_not_left() {
        let run = seat(Phase::Running, 5, 2);
        let lobby = seat(Phase::Lobby, 4, 2);
        assert!(matches!(
            verdict(&[run.clone(), run.clone()], 4),
            Verdict::Enter(Epoch(5), _)
        ));
        assert!(matches!(
            verdict(&[run.clone(), lobby.clone()], 4),
            Verdict::Open(Epoch(6), Start::Continue { .. })
        ));
        assert!(matches!(
            verdict(&[run.clone(), run], 5),
            Verdict::Open(Epoch(6), _)
        ));
    }

    #[test]
    fn the_missing_are_named() {
        let wait = verdict(&[seat(Phase::Lobby, 4, 2), seat(Phase::Lobby, 4, 1)], 4);
        assert_eq!(
            wait,
            Verdict::Wait("server s1 waits for trainers 1 to connect".to_owned())
        );
    }
}
