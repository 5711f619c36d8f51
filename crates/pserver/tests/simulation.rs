//! A seeded simulation of whole jobs: the real barrier, membership and recovery decisions, on a network and machines
//! that delay, lose and repeat messages, stop, crash and come back.
//!
//! One step of a table is an integer mixed from its value and the contributions in trainer order, so that any lost,
//! repeated, re-ordered or stale application shows in the result. Each schedule must end, and must end with the
//! numbers of an undisturbed run; trainer 0 takes its time to save, is lost meanwhile, and no save may be missing. `SEED=n` runs one schedule, `SCHEDULES=n` that many.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod sim;

use sim::{Plan, World};
use std::collections::BTreeMap;

fn check(seed: u64) {
    let plan = Plan::from_seed(seed);
    let (wanted, wanted_saves) = plan.undisturbed();
    let mut world = World::new(plan, seed);
    if let Err(reason) = world.run() {
        panic!("seed {seed}: {reason}");
    }
    for model in world.results() {
        assert_eq!(
            model,
            wanted,
            "seed {seed}: the model differs after {} recoveries",
            world.recoveries()
        );
    }
    assert!(!world.results().is_empty());
    for (place, values) in &world.saved {
        assert_eq!(
            Some(values),
            wanted_saves.get(place),
            "seed {seed}: {place:?} is saved with other values"
        );
    }
    let saved: BTreeMap<_, _> = world.saved.into_iter().collect();
    let missing: Vec<_> = wanted_saves
        .keys()
        .filter(|place| !saved.contains_key(place))
        .collect();
    assert!(missing.is_empty(), "seed {seed}: {missing:?} are not saved");
}

#[test]
fn every_schedule_ends_with_the_undisturbed_model() {
    if let Some(seed) = number("SEED") {
        check(seed);
        return;
    }
    for seed in 0..number("SCHEDULES").unwrap_or(2000) {
        check(seed);
    }
}

#[test]
fn the_faults_really_happen() {
    let (mut recoveries, mut ordered, mut saves, mut oldest) = (0, 0, 0, 0);
    for seed in 0..100 {
        let mut world = World::new(Plan::from_seed(seed), seed);
        world.run().unwrap();
        recoveries += world.recoveries();
        ordered += world.ordered;
        saves += world.interrupted_saves;
        oldest = oldest.max(world.oldest);
    }
    assert!(oldest > 1, "disks are too fast for a test of ages");
    assert!(ordered > 10, "only {ordered} snapshots were taken on order");
    assert!(saves > 5, "only {saves} saves were interrupted");
    assert!(
        recoveries > 50,
        "only {recoveries} recoveries in 50 schedules"
    );
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
