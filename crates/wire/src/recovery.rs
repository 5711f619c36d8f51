//! The decision after a loss: where the job continues. Pure, so that every combination can be tested.
//!
//! Once all trainers are connected again, trainer 0 asks every server for its [`ServerReport`] and sends the result of
//! [`decide`] to all of them.

use crate::ids::{Generation, Step, TrainerId};
use crate::lines::Traffic;
use crate::message::GenerationStart;
use crate::status::PeerStatus;
use serde::{Deserialize, Serialize};
use words::status::Phase;

/// A point between two steps at which no table is half updated.
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

/// What a server found in the folder of its snapshots, besides those that it can restore.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// The folder; empty if it keeps none.
    pub folder: String,
    /// The newest snapshot of this run that all servers once had.
    pub confirmed: Option<Step>,
    /// What cannot be read, as a sentence: damaged snapshots of this run, or the folder itself.
    pub unreadable: Option<String>,
}

/// The state of a server, as it reports it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerReport {
    /// The newest generation it knows.
    pub epoch: Generation,
    /// What the server is doing.
    pub phase: Phase,
    /// Why it does not run: the loss that ended the generation, or the failure of the job. Empty while it runs.
    pub reason: String,
    /// Trainers that are connected and wait to be admitted.
    pub waiting: Vec<TrainerId>,
    /// Trainers that are not connected.
    pub missing: Vec<TrainerId>,
    /// The boundary that its tables are at; `None` while one is half updated.
    pub boundary: Option<Boundary>,
    /// Steps whose snapshot it can restore, ascending.
    pub snapshots: Vec<Step>,
    /// The newest snapshot of this generation whose writing has ended, with or without success.
    pub settled: Option<Step>,
    /// What it found in the folder of its snapshots.
    pub disk: Disk,
    /// This server wants a snapshot of this step or a later one on all servers, because its process is about to end.
    pub wanted: Option<Step>,
    /// What it has counted on the data connections of the trainer that it reports to, by port; see [`crate::lines`].
    /// Empty while there are none.
    pub lines: Vec<Traffic>,
    /// Its own status, with the processes that it waits for.
    pub status: PeerStatus,
}

/// What is to be done after a loss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The job continues.
    Start(GenerationStart),
    /// The job could only start from the beginning although it had snapshots; the user must allow that with `--fresh`.
    /// The text says what is missing and where.
    Lost(String),
}

/// What trainer 0 knows in addition to the reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CoordinatorKnowledge {
    /// `--fresh`: the user allows the job to begin again if snapshots are lost.
    pub fresh: bool,
    /// The newest state that was saved with a pass of this run: steps applied, and the pass that comes next.
    pub saved: Option<(Step, u64)>,
    /// Passes of this run that were saved, whether or not their state is still there.
    pub passes_saved: u64,
}

/// Where the job continues.
///
/// The reports are those of the servers that hold tables ([`held`]).
///
/// - All servers are at the same boundary: from there, nothing is lost.
/// - Otherwise from the newest snapshot that all have, or from the newest pass directory of this run if that is newer.
/// - Without either, from the start, if there never was a snapshot or the user allows it.
pub fn decide(
    reports: &[ServerReport],
    known: CoordinatorKnowledge,
    name: impl Fn(usize) -> String,
) -> Decision {
    let Some((first, others)) = reports.split_first() else {
        return Decision::Start(GenerationStart::Fresh);
    };
    if let Some(boundary) = &first.boundary
        && others.iter().all(|r| r.boundary == first.boundary)
    {
        return Decision::Start(GenerationStart::Continue {
            step: boundary.step,
            pass: boundary.pass,
        });
    }
    let stable = stable(reports);
    let newer = |(step, _): &(Step, u64)| stable.is_none_or(|stable| *step > stable);
    match (stable, known.saved.filter(newer)) {
        (_, Some((step, pass))) if !(known.fresh && stable.is_none()) => {
            Decision::Start(GenerationStart::Saved { step, pass })
        }
        (Some(step), _) => Decision::Start(GenerationStart::Restore(step)),
        (None, _) => match loss(reports, known.passes_saved, name) {
            Some(text) if !known.fresh => Decision::Lost(text),
            _ => Decision::Start(GenerationStart::Fresh),
        },
    }
}

/// Which snapshots servers should have and do not have, as a sentence; `None` if the job never had a common snapshot
/// or saved a pass, and nothing is unreadable. Only for reports without a common snapshot.
fn loss(
    reports: &[ServerReport],
    passes_saved: u64,
    name: impl Fn(usize) -> String,
) -> Option<String> {
    let confirmed = reports.iter().filter_map(|r| r.disk.confirmed).max();
    let mut causes = Vec::new();
    for (server, report) in reports.iter().enumerate() {
        let folder = &report.disk.folder;
        if let Some(text) = &report.disk.unreadable {
            causes.push(format!("server {}: {text}", name(server)));
        } else if confirmed.is_some() && report.snapshots.is_empty() {
            let name = name(server);
            causes.push(format!(
                "server {name} has no snapshot of this run in {folder}"
            ));
        }
    }
    if passes_saved > 0 {
        let passes = if passes_saved == 1 { "pass" } else { "passes" };
        causes.push(format!(
            "this run has saved {passes_saved} {passes}, and no pass directory has a state of the servers (canoe.servers) that can be used"
        ));
    }
    if causes.is_empty() {
        confirmed?;
        causes.push("the servers have snapshots of different steps only".to_owned());
    }
    let known = confirmed.map(|step| format!(", all servers once had that of step {step}"));
    Some(format!(
        "no snapshot is on all servers{}: {}. Nothing was deleted. Bring the files back, continue from a saved pass with \
         --start_pass, or begin again with --fresh, which keeps what is there under another name",
        known.unwrap_or_default(),
        causes.join("; ")
    ))
}

/// The reports of the servers that hold tables, the first `holders`. The others have nothing that could be lost, and know
/// no step.
pub fn held(reports: &[ServerReport], holders: u32) -> &[ServerReport] {
    &reports[..reports.len().min(holders as usize)]
}

/// The newest snapshot that all servers have.
pub fn stable(reports: &[ServerReport]) -> Option<Step> {
    let (first, others) = reports.split_first()?;
    first
        .snapshots
        .iter()
        .copied()
        .filter(|step| others.iter().all(|r| r.snapshots.contains(step)))
        .max()
}

/// Snapshots that some server has and that will never be on all servers, because another one failed to write its part.
pub fn dead(reports: &[ServerReport]) -> Vec<Step> {
    let Some(first) = reports.first() else {
        return Vec::new();
    };
    // A server that rolled back writes the same steps again.
    let alike = |r: &ServerReport| r.epoch == first.epoch && r.phase == Phase::Running;
    if !reports.iter().all(alike) {
        return Vec::new();
    }
    let lacks =
        |r: &ServerReport, step: Step| r.settled >= Some(step) && !r.snapshots.contains(&step);
    let steps = reports.iter().flat_map(|report| &report.snapshots).copied();
    let mut dead: Vec<Step> = steps
        .filter(|step| reports.iter().any(|report| lacks(report, *step)))
        .collect();
    dead.sort_unstable();
    dead.dedup();
    dead
}

impl ServerReport {
    /// Whether a trainer that is in generation `at` has to leave it: the server runs another one, or none.
    pub fn ends(&self, at: Generation) -> bool {
        let runs = self.phase == Phase::Running && self.epoch == at;
        !runs && self.phase != Phase::Finished
    }
}

/// What the reports of all servers mean for a trainer that waits to be admitted.
#[derive(Debug, Clone, PartialEq)]
pub enum AdmissionVerdict {
    /// All servers run this generation: join it.
    Enter(Generation, Boundary),
    /// All trainers are connected; trainer 0 may open this generation.
    Open(Generation, GenerationStart),
    /// The job has lost what it needs to continue; see [`Decision::Lost`].
    Lost(String),
    /// Not yet, for this reason.
    Wait(String),
    /// The job has ended without this trainer.
    Over,
}

impl AdmissionVerdict {
    /// The verdict for one trainer. Only trainer 0 opens a generation or ends the job, and it does not open another one
    /// because of reports that are older than the generation that it has `opened`.
    pub fn of_trainer(
        self,
        trainer: TrainerId,
        opened: Generation,
        reports: &[ServerReport],
    ) -> Self {
        let coordinator = trainer == TrainerId(0);
        match self {
            Self::Open(..) if reports.iter().any(|report| report.epoch < opened) => {
                Self::Wait("waiting for all servers to open the generation".to_owned())
            }
            Self::Open(..) if !coordinator => {
                Self::Wait("waiting for trainer 0 to open the job".to_owned())
            }
            Self::Lost(text) if !coordinator => Self::Wait(text),
            other => other,
        }
    }
}

/// What a waiting trainer may do, from the reports of all servers. `seen` is the last generation that this trainer was
/// in; `holders` is the number of servers that hold tables.
pub fn judge(
    reports: &[ServerReport],
    seen: Generation,
    known: CoordinatorKnowledge,
    trainers: u32,
    holders: u32,
    name: impl Fn(usize) -> String,
) -> AdmissionVerdict {
    if reports.iter().any(|r| r.phase == Phase::Finished) {
        return AdmissionVerdict::Over;
    }
    let newest = reports.iter().map(|r| r.epoch).max().unwrap_or_default();
    let all_run = reports
        .iter()
        .all(|r| r.phase == Phase::Running && r.epoch == newest);
    if all_run
        && newest > seen
        && let Some(boundary) = reports.first().and_then(|r| r.boundary.clone())
    {
        return AdmissionVerdict::Enter(newest, boundary);
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
        return AdmissionVerdict::Wait(if report.missing.is_empty() {
            format!(
                "server {} waits for trainers to leave the previous generation",
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
    match decide(held(reports, holders), known, name) {
        Decision::Start(start) => AdmissionVerdict::Open(Generation(newest.max(seen).0 + 1), start),
        Decision::Lost(text) => AdmissionVerdict::Lost(text),
    }
}

/// The snapshots that a server may delete: those that will never be on all servers ([`dead`]), and of the others all
/// but the newest two, but never the newest one that is known to be on all servers, nor any after it. `have` is
/// ascending.
pub fn expendable(have: &[Step], stable: Option<Step>, dead: &[Step]) -> Vec<Step> {
    let useful = have.iter().filter(|step| !dead.contains(step));
    let kept: Vec<&Step> = useful.rev().take(2).collect();
    let old = |step: &Step| stable.is_some_and(|stable| *step < stable) && !kept.contains(&step);
    let expendable = have.iter().filter(|step| dead.contains(step) || old(step));
    expendable.copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(boundary: Option<u64>, snapshots: &[u64]) -> ServerReport {
        ServerReport {
            epoch: Generation(3),
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
            settled: None,
            disk: Disk::default(),
            wanted: None,
            lines: Vec::new(),
            status: PeerStatus::default(),
        }
    }

    fn decided(reports: &[ServerReport], fresh: bool) -> Decision {
        let known = CoordinatorKnowledge {
            fresh,
            ..CoordinatorKnowledge::default()
        };
        decide(reports, known, |server| format!("s{server}"))
    }

    #[test]
    fn only_trainer_0_opens_and_ends_and_no_generation_twice() {
        let reports = [report(None, &[]), report(None, &[])];
        let at = reports[0].epoch;
        let open = || AdmissionVerdict::Open(Generation(at.0 + 1), GenerationStart::Fresh);
        let lost = || AdmissionVerdict::Lost("gone".to_owned());
        let of = |verdict: AdmissionVerdict, trainer, opened| {
            verdict.of_trainer(TrainerId(trainer), opened, &reports)
        };
        assert_eq!(of(open(), 0, Generation(0)), open());
        let again = of(open(), 0, Generation(at.0 + 1));
        assert!(matches!(again, AdmissionVerdict::Wait(_)), "{again:?}");
        let other = of(open(), 1, Generation(0));
        assert!(matches!(other, AdmissionVerdict::Wait(_)), "{other:?}");
        assert_eq!(of(lost(), 0, Generation(0)), lost());
        assert_eq!(
            of(lost(), 1, Generation(0)),
            AdmissionVerdict::Wait("gone".to_owned())
        );
    }

    #[test]
    fn a_report_of_another_generation_ends_the_own_one_unless_the_job_has_finished() {
        let of = |phase, epoch| ServerReport {
            phase,
            epoch: Generation(epoch),
            ..report(None, &[])
        };
        assert!(!of(Phase::Running, 3).ends(Generation(3)));
        assert!(of(Phase::Running, 4).ends(Generation(3)));
        assert!(of(Phase::Lobby, 3).ends(Generation(3)));
        assert!(!of(Phase::Finished, 3).ends(Generation(3)));
    }

    #[test]
    fn a_job_that_saved_passes_does_not_begin_again_without_a_word() {
        let reports = [report(None, &[]), report(None, &[])];
        let after = |fresh| {
            let known = CoordinatorKnowledge {
                fresh,
                saved: None,
                passes_saved: 3,
            };
            decide(&reports, known, |server| server.to_string())
        };
        let Decision::Lost(text) = after(false) else {
            panic!("three passes are lost");
        };
        for words in ["this run has saved 3 passes", "--start_pass", "--fresh"] {
            assert!(text.contains(words), "{text}");
        }
        assert_eq!(after(true), Decision::Start(GenerationStart::Fresh));
    }

    #[test]
    fn a_saved_pass_is_used_when_it_is_newer_than_every_snapshot() {
        let after = |reports: &[ServerReport], fresh, saved: Option<u64>| {
            let saved = saved.map(|step| (Step(step), 3));
            let known = CoordinatorKnowledge {
                fresh,
                saved,
                passes_saved: 0,
            };
            decide(reports, known, |server| server.to_string())
        };
        let saved = |step| {
            let step = Step(step);
            Decision::Start(GenerationStart::Saved { step, pass: 3 })
        };
        let both = [report(None, &[400, 500]), report(None, &[400, 500])];
        let restore = Decision::Start(GenerationStart::Restore(Step(500)));
        assert_eq!(after(&both, false, Some(450)), restore);
        assert_eq!(after(&both, false, Some(500)), restore);
        assert_eq!(after(&both, false, Some(600)), saved(600));
        assert_eq!(after(&both, false, None), restore);
        let lost = [
            with_disk(&[400, 500], Some(500), None),
            with_disk(&[], None, None),
        ];
        assert_eq!(
            after(&lost, false, Some(450)),
            saved(450),
            "not from the start"
        );
        assert!(matches!(after(&lost, false, None), Decision::Lost(_)));
        assert_eq!(
            after(&lost, true, Some(450)),
            Decision::Start(GenerationStart::Fresh)
        );
        let never = [report(None, &[]), report(None, &[])];
        assert_eq!(after(&never, false, Some(60)), saved(60));
        let here = [report(Some(70), &[]), report(Some(70), &[])];
        assert!(matches!(
            after(&here, false, Some(60)),
            Decision::Start(GenerationStart::Continue { .. })
        ));
    }

    fn with_disk(
        snapshots: &[u64],
        confirmed: Option<u64>,
        unreadable: Option<&str>,
    ) -> ServerReport {
        ServerReport {
            disk: Disk {
                folder: "/snapshots".to_owned(),
                confirmed: confirmed.map(Step),
                unreadable: unreadable.map(str::to_owned),
            },
            ..report(None, snapshots)
        }
    }

    #[test]
    fn a_job_that_had_snapshots_does_not_begin_again_without_a_word() {
        let gone = [
            with_disk(&[400, 500], Some(500), None),
            with_disk(&[], None, None),
        ];
        let Decision::Lost(text) = decided(&gone, false) else {
            panic!("a server lost its folder");
        };
        for words in [
            "server s1 has no snapshot of this run in /snapshots",
            "step 500",
            "--fresh",
        ] {
            assert!(text.contains(words), "{text}");
        }
        assert_eq!(
            decided(&gone, true),
            Decision::Start(GenerationStart::Fresh)
        );
        let unreadable = [
            with_disk(&[], None, Some("list /snapshots: Permission denied")),
            with_disk(&[], None, None),
        ];
        let Decision::Lost(text) = decided(&unreadable, false) else {
            panic!("a folder cannot be read");
        };
        assert!(
            text.contains("server s0: list /snapshots: Permission denied"),
            "{text}"
        );
        let parted = [
            with_disk(&[500], Some(500), None),
            with_disk(&[400], Some(400), None),
        ];
        assert!(matches!(decided(&parted, false), Decision::Lost(_)));
    }

    #[test]
    fn what_all_servers_have_is_restored_whatever_else_is_damaged() {
        let damaged = with_disk(&[400], Some(500), Some("step 500 is damaged"));
        let reports = [with_disk(&[400, 500], Some(500), None), damaged];
        assert_eq!(
            decided(&reports, false),
            Decision::Start(GenerationStart::Restore(Step(400)))
        );
    }

    #[test]
    fn a_first_snapshot_that_only_one_server_has_is_no_loss() {
        let reports = [with_disk(&[100], None, None), with_disk(&[], None, None)];
        assert_eq!(
            decided(&reports, false),
            Decision::Start(GenerationStart::Fresh)
        );
    }

    #[test]
    fn each_case_has_its_decision() {
        let cases = [
            (
                vec![report(None, &[]), report(None, &[])],
                GenerationStart::Fresh,
            ),
            (
                vec![report(Some(7), &[5]), report(Some(7), &[])],
                GenerationStart::Continue {
                    step: Step(7),
                    pass: 0,
                },
            ),
            (
                vec![report(Some(7), &[0, 5]), report(Some(8), &[5])],
                GenerationStart::Restore(Step(5)),
            ),
            (
                vec![report(Some(7), &[0, 5]), report(None, &[0])],
                GenerationStart::Restore(Step(0)),
            ),
            (
                vec![report(Some(7), &[5]), report(None, &[0])],
                GenerationStart::Fresh,
            ),
            (vec![], GenerationStart::Fresh),
        ];
        for (reports, wanted) in cases {
            assert_eq!(
                decided(&reports, false),
                Decision::Start(wanted),
                "{reports:?}"
            );
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
        let decision = decided(&[before, after], false);
        assert_eq!(decision, Decision::Start(GenerationStart::Fresh));
    }

    #[test]
    fn the_newest_common_snapshot_is_never_deleted() {
        let steps = |list: &[u64]| list.iter().map(|s| Step(*s)).collect::<Vec<_>>();
        let have = steps(&[10, 20, 30, 40]);
        let expendable = |have: &[Step], stable| expendable(have, stable, &[]);
        assert_eq!(expendable(&have, None), steps(&[]));
        assert_eq!(expendable(&have, Some(Step(10))), steps(&[]));
        assert_eq!(expendable(&have, Some(Step(20))), steps(&[10]));
        assert_eq!(expendable(&have, Some(Step(40))), steps(&[10, 20]));
        assert_eq!(expendable(&have[..2], Some(Step(20))), steps(&[]));
    }

    #[test]
    fn a_snapshot_that_one_server_could_not_write_is_dead_on_all() {
        let settled = |snapshots: &[u64], settled| ServerReport {
            phase: Phase::Running,
            settled: Some(Step(settled)),
            ..report(None, snapshots)
        };
        let steps = |list: &[u64]| list.iter().map(|s| Step(*s)).collect::<Vec<_>>();
        let (whole, failed) = (settled(&[10, 20, 30], 30), settled(&[10], 20));
        let reports = [whole.clone(), failed.clone()];
        assert_eq!(dead(&reports), steps(&[20]), "30 may still come");
        assert_eq!(
            expendable(&whole.snapshots, stable(&reports), &dead(&reports)),
            steps(&[20])
        );
        let past = ServerReport {
            epoch: Generation(2),
            ..failed.clone()
        };
        assert_eq!(dead(&[whole.clone(), past]), steps(&[]));
        let lobby = ServerReport {
            phase: Phase::Lobby,
            ..failed
        };
        assert_eq!(dead(&[whole, lobby]), steps(&[]));
    }

    fn seat(phase: Phase, epoch: u64, waiting: u32) -> ServerReport {
        ServerReport {
            epoch: Generation(epoch),
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
            settled: None,
            disk: Disk::default(),
            wanted: None,
            lines: Vec::new(),
            status: PeerStatus::default(),
        }
    }

    fn verdict(reports: &[ServerReport], seen: u64) -> AdmissionVerdict {
        judge(
            reports,
            Generation(seen),
            CoordinatorKnowledge::default(),
            2,
            2,
            |server| format!("s{server}"),
        )
    }

    #[test]
    fn a_trainer_enters_only_what_all_servers_run_and_it_has_not_left() {
        let run = seat(Phase::Running, 5, 2);
        let lobby = seat(Phase::Lobby, 4, 2);
        assert!(matches!(
            verdict(&[run.clone(), run.clone()], 4),
            AdmissionVerdict::Enter(Generation(5), _)
        ));
        assert!(matches!(
            verdict(&[run.clone(), lobby.clone()], 4),
            AdmissionVerdict::Open(Generation(6), GenerationStart::Continue { .. })
        ));
        assert!(matches!(
            verdict(&[run.clone(), run], 5),
            AdmissionVerdict::Open(Generation(6), _)
        ));
    }

    #[test]
    fn a_server_that_holds_nothing_has_nothing_to_say_about_where_to_continue() {
        let holder = seat(Phase::Lobby, 4, 2);
        let replaced = ServerReport {
            epoch: Generation(0),
            boundary: None,
            disk: Disk {
                unreadable: Some("nothing is there".to_owned()),
                ..Disk::default()
            },
            ..seat(Phase::Lobby, 4, 2)
        };
        let judged = |holders| {
            judge(
                &[holder.clone(), replaced.clone()],
                Generation(4),
                CoordinatorKnowledge::default(),
                2,
                holders,
                |server| format!("s{server}"),
            )
        };
        assert!(matches!(
            judged(1),
            AdmissionVerdict::Open(Generation(5), GenerationStart::Continue { .. })
        ));
        assert!(matches!(judged(2), AdmissionVerdict::Lost(_)));
        let absent = ServerReport {
            waiting: vec![],
            ..holder.clone()
        };
        let reports = [holder.clone(), absent];
        let known = CoordinatorKnowledge::default();
        assert!(
            matches!(
                judge(&reports, Generation(4), known, 2, 1, |server| format!(
                    "s{server}"
                )),
                AdmissionVerdict::Wait(_)
            ),
            "but all trainers have to be connected to it"
        );
    }

    #[test]
    fn the_missing_are_named() {
        let wait = verdict(&[seat(Phase::Lobby, 4, 2), seat(Phase::Lobby, 4, 1)], 4);
        assert_eq!(
            wait,
            AdmissionVerdict::Wait("server s1 waits for trainers 1 to connect".to_owned())
        );
    }
}
