//! Decides which snapshots a server takes, when a step must wait for one, and which files may be deleted. Pure: it is
//! given what happened and returns what to do, so the simulation runs the same code as the writer thread.
//!
//! All servers must take the same snapshots, and servers do not know each other. So no server ever leaves one out: a
//! snapshot is due at every multiple of the period and at every step that a trainer ordered, and a step whose snapshot
//! is due is not completed while the one before is still being written. Steps are completed by all servers together,
//! so every server has ended the snapshot before the last one: the newest that all have is at most two periods old,
//! however slow a disk is.

use wire::Step;
use wire::message::GenerationStart;
use wire::recovery::expendable;

/// Whether the snapshot of a step is taken: the same on all services of all servers.
pub fn due(step: Step, every: u64, ordered: bool) -> bool {
    ordered || (every > 0 && step.0.is_multiple_of(every))
}

/// Whether the newest common snapshot is so old that a person must look: more than three periods, and trainer 0 has
/// confirmed no newer one for `unconfirmed` milliseconds, longer than heartbeats take.
pub(crate) fn overdue(age: u64, every: u64, unconfirmed: u64) -> bool {
    const HEARTBEATS: u64 = 5_000;
    every > 0 && age > every.saturating_mul(3) && unconfirmed > HEARTBEATS
}

/// Which rows of sparse tables a snapshot holds. Dense tables change as a whole and are always whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RowScope {
    /// All rows.
    #[default]
    All,
    /// Rows that were changed or created since the last snapshot with all rows, the base.
    Changed,
}

/// Whether `changed` bytes of changed rows are few enough to be kept beside a base of `base` bytes. A restore reads both,
/// so it takes at most half as long again as one of all rows, and a little more for the last one before the next base.
pub(crate) fn worth_a_base(changed: u64, base: u64) -> bool {
    changed <= base / 2
}

/// What a written part means for its snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartResult {
    /// Other parts of the snapshot are still to be written.
    More,
    /// It was the last one and all were written: the manifest may be written.
    Last,
    /// It was the last one, and at least one part could not be written.
    Incomplete,
    /// The job has rolled back since the part was handed over: its files must be deleted.
    Stale,
}

/// The snapshots of one server.
#[derive(Debug, Default)]
pub struct SnapshotPlan {
    /// Number of roll-backs so far: parts that were handed over before the last one are no longer needed.
    life: u64,
    /// The newest snapshot that was begun. A service may still have to add its part when others are at later steps.
    taken: Option<Step>,
    /// Parts that no service has handed over yet.
    awaited: usize,
    /// Parts that were handed over and are not written yet.
    queued: usize,
    /// All parts are written, the manifest is not.
    sealing: bool,
    failed: bool,
    /// A step waits for the snapshot that is being written.
    waited_for: bool,
    /// The rows that the newest snapshot that was begun holds.
    scope: RowScope,
    /// There is a base: rows that change are counted since it, and its files can be used.
    base: bool,
    have: Vec<Step>,
    /// The newest snapshot whose writing has ended, with or without success.
    settled: Option<Step>,
    stable: Option<Step>,
}

/// What becomes of a server's snapshots when a generation starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotFate {
    /// All are kept.
    Keep,
    /// Those newer than this step are deleted, because the job repeats the steps after it.
    Rewind(Step),
    /// All are kept under another name, because the job begins again from the start.
    PutAside,
}

/// Decides it from the start of the generation and the newest snapshot that the server has.
pub fn fate(start: GenerationStart, newest: Option<Step>) -> SnapshotFate {
    match start {
        GenerationStart::Continue { .. } => SnapshotFate::Keep,
        GenerationStart::Fresh => SnapshotFate::PutAside,
        // Newer snapshots are not on all servers, or the job would continue from the newest of them.
        GenerationStart::Saved { step, .. } if newest > Some(step) => SnapshotFate::PutAside,
        GenerationStart::Saved { step, .. } | GenerationStart::Restore(step) => {
            SnapshotFate::Rewind(step)
        }
    }
}

impl SnapshotPlan {
    fn busy(&self) -> bool {
        self.awaited + self.queued > 0 || self.sealing
    }

    /// The number of roll-backs so far, to be passed to [`SnapshotPlan::written`] with a part that is handed over now.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Whether a step whose snapshot is due must not be completed yet.
    pub fn must_wait(&mut self, step: Step) -> bool {
        let wait = self.busy() && self.taken != Some(step);
        self.waited_for |= wait;
        wait
    }

    /// The snapshot that training waits for.
    pub fn waited_for(&self) -> Option<Step> {
        self.taken.filter(|_| self.waited_for && self.busy())
    }

    /// One of `services` services has reached a step whose snapshot is due. Returns which rows its part holds; `None`
    /// only if the service did not wait as [`SnapshotPlan::must_wait`] demands.
    pub fn take(&mut self, step: Step, services: usize) -> Option<RowScope> {
        if self.taken == Some(step) {
            return Some(self.scope);
        }
        if self.busy() || self.taken > Some(step) {
            return None;
        }
        self.scope = if self.base {
            RowScope::Changed
        } else {
            RowScope::All
        };
        self.taken = Some(step);
        self.awaited = services;
        self.failed = false;
        self.waited_for = false;
        Some(self.scope)
    }

    /// Which rows the newest snapshot that was begun holds.
    pub fn scope(&self) -> RowScope {
        self.scope
    }

    /// Sets whether the next snapshots may hold changed rows only. Called with true after a snapshot with all rows was
    /// written, and with false when there are so many changed rows ([`worth_a_base`]) that all are written again.
    pub(crate) fn use_base(&mut self, life: u64, base: bool) {
        if life == self.life {
            self.base = base;
        }
    }

    /// A service has handed its part over.
    pub fn handed_over(&mut self) {
        self.awaited = self.awaited.saturating_sub(1);
        self.queued += 1;
    }

    /// A part of `life` has been written, or could not be.
    pub fn written(&mut self, life: u64, good: bool) -> PartResult {
        if life != self.life {
            return PartResult::Stale;
        }
        self.queued = self.queued.saturating_sub(1);
        self.failed |= !good;
        if self.busy() {
            return PartResult::More;
        }
        if self.failed {
            self.settled = self.taken;
            return PartResult::Incomplete;
        }
        self.sealing = true;
        PartResult::Last
    }

    /// The manifest of the snapshot has been written, or could not be. False if the job has rolled back since.
    pub fn sealed(&mut self, life: u64, step: Step, good: bool) -> bool {
        if life != self.life {
            return false;
        }
        self.sealing = false;
        self.settled = Some(step);
        if good && !self.have.contains(&step) {
            self.have.push(step);
            self.have.sort_unstable();
        }
        true
    }

    /// Trainer 0 has reported which snapshot all servers have and which will never be on all. Returns which to delete.
    pub fn confirm(&mut self, stable: Option<Step>, dead: &[Step]) -> Vec<Step> {
        self.stable = stable.max(self.stable);
        let gone = expendable(&self.have, self.stable, dead);
        self.have.retain(|step| !gone.contains(step));
        gone
    }

    /// The job rolls back to `step` (`None`: to its start). Returns the later snapshots, which must be deleted.
    pub fn rewind(&mut self, step: Option<Step>) -> Vec<Step> {
        let later = |have: &Step| step.is_none_or(|step| *have > step);
        let gone: Vec<Step> = self.have.iter().copied().filter(later).collect();
        self.have.retain(|have| !later(have));
        *self = Self {
            life: self.life + 1,
            have: std::mem::take(&mut self.have),
            stable: self.stable.min(step),
            ..Self::default()
        };
        gone
    }

    /// Sets which snapshots were found on the disk.
    pub fn found(&mut self, have: Vec<Step>) {
        self.have = have;
    }

    /// Snapshots that are complete on this server, ascending.
    pub fn have(&self) -> &[Step] {
        &self.have
    }

    /// The newest snapshot whose writing has ended, with or without success.
    pub fn settled(&self) -> Option<Step> {
        self.settled
    }

    /// The newest snapshot that all servers have, as far as is known.
    pub fn stable(&self) -> Option<Step> {
        self.stable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A snapshot of one service, from the step to its manifest.
    fn whole(plan: &mut SnapshotPlan, step: u64, good: bool) {
        assert!(!plan.must_wait(Step(step)));
        assert!(plan.take(Step(step), 1).is_some());
        plan.handed_over();
        let life = plan.life();
        match plan.written(life, good) {
            PartResult::Last => assert!(plan.sealed(life, Step(step), true)),
            part => assert_eq!((part, good), (PartResult::Incomplete, false)),
        }
    }

    #[test]
    fn snapshots_of_a_repeated_past_are_removed_and_those_of_another_beginning_put_aside() {
        let saved = |step| GenerationStart::Saved {
            step: Step(step),
            pass: 1,
        };
        let continued = GenerationStart::Continue {
            step: Step(9),
            pass: 1,
        };
        let newest = Some(Step(8));
        assert_eq!(fate(continued, newest), SnapshotFate::Keep);
        assert_eq!(fate(GenerationStart::Fresh, None), SnapshotFate::PutAside);
        let restored = GenerationStart::Restore(Step(4));
        assert_eq!(fate(restored, newest), SnapshotFate::Rewind(Step(4)));
        assert_eq!(fate(saved(8), newest), SnapshotFate::Rewind(Step(8)));
        assert_eq!(fate(saved(7), newest), SnapshotFate::PutAside);
        assert_eq!(fate(saved(7), None), SnapshotFate::Rewind(Step(7)));
    }

    #[test]
    fn snapshots_continue_when_none_is_confirmed() {
        let mut plan = SnapshotPlan::default();
        for step in 1..100 {
            whole(&mut plan, step * 10, true);
        }
        assert_eq!(plan.have().len(), 99);
        assert_eq!(plan.confirm(Some(Step(980)), &[]).len(), 97);
        assert_eq!(plan.have(), [Step(980), Step(990)]);
    }

    #[test]
    fn a_step_waits_for_the_snapshot_before_and_no_snapshot_is_left_out() {
        let mut plan = SnapshotPlan::default();
        assert!(!plan.must_wait(Step(5)) && plan.take(Step(5), 2).is_some());
        plan.handed_over();
        assert!(!plan.must_wait(Step(5)), "the second service");
        assert!(plan.must_wait(Step(6)));
        assert_eq!(plan.waited_for(), Some(Step(5)));
        assert!(plan.take(Step(5), 2).is_some());
        plan.handed_over();
        assert_eq!(plan.written(0, true), PartResult::More);
        assert!(plan.must_wait(Step(6)));
        assert_eq!(plan.written(0, true), PartResult::Last);
        assert!(plan.must_wait(Step(6)), "the manifest is missing");
        assert!(plan.sealed(0, Step(5), true));
        assert_eq!(plan.waited_for(), None);
        assert!(!plan.must_wait(Step(6)) && plan.take(Step(6), 2).is_some());
    }

    #[test]
    fn one_that_fails_is_settled_and_does_not_hold_up_the_next() {
        let mut plan = SnapshotPlan::default();
        whole(&mut plan, 10, false);
        assert_eq!((plan.settled(), plan.have()), (Some(Step(10)), &[][..]));
        whole(&mut plan, 20, true);
        assert_eq!(plan.have(), [Step(20)]);
    }

    #[test]
    fn what_was_under_way_at_a_roll_back_is_dropped() {
        let mut plan = SnapshotPlan::default();
        whole(&mut plan, 10, true);
        whole(&mut plan, 20, true);
        assert!(plan.take(Step(30), 2).is_some());
        plan.handed_over();
        let past = plan.life();
        assert_eq!(plan.rewind(Some(Step(10))), [Step(20)]);
        assert!(!plan.must_wait(Step(20)), "nothing of the past is awaited");
        assert_eq!(plan.written(past, true), PartResult::Stale);
        assert!(!plan.sealed(past, Step(30), true));
        assert_eq!(plan.have(), [Step(10)]);
        whole(&mut plan, 20, true);
        assert_eq!(plan.have(), [Step(10), Step(20)]);
    }

    #[test]
    fn changed_rows_need_a_base_of_the_same_life() {
        let mut plan = SnapshotPlan::default();
        whole(&mut plan, 10, true);
        assert_eq!(plan.scope(), RowScope::All);
        plan.use_base(plan.life(), true);
        whole(&mut plan, 20, false);
        assert_eq!(plan.scope(), RowScope::Changed);
        // The next one holds what the one that failed would have held.
        whole(&mut plan, 30, true);
        assert_eq!(plan.scope(), RowScope::Changed);
        let past = plan.life();
        plan.rewind(Some(Step(10)));
        plan.use_base(past, true);
        whole(&mut plan, 20, true);
        assert_eq!(plan.scope(), RowScope::All);
        assert!(worth_a_base(50, 100) && !worth_a_base(51, 100));
    }

    #[test]
    fn what_will_never_be_on_all_servers_goes() {
        let mut plan = SnapshotPlan::default();
        (1..5).for_each(|step| whole(&mut plan, step * 10, true));
        assert_eq!(
            plan.confirm(Some(Step(20)), &[Step(30), Step(40)]),
            [Step(30), Step(40)]
        );
        assert_eq!(plan.have(), [Step(10), Step(20)]);
    }

    #[test]
    fn a_common_snapshot_is_overdue_after_three_periods_and_some_heartbeats() {
        assert!(!overdue(301, 100, 400), "heartbeats take their time");
        assert!(!overdue(300, 100, 60_000));
        assert!(overdue(301, 100, 60_000));
        assert!(!overdue(301, 0, 60_000), "no snapshots are wanted");
    }
}
