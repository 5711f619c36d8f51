//! What a process says about itself on its status page (`GET /status`, JSON, loopback only).
//!
//! Every field may be missing and unknown fields are allowed: a server has no cost, a trainer
//! that still evaluates its configuration has no batch, and processes of another version may say
//! more than we know.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Where a process is. Numbers are those of the process itself, not of the job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// `trainer` or `pserver`.
    pub role: Option<String>,
    /// Node id.
    pub id: Option<u32>,
    /// The pass under way, counted from 0.
    pub pass: Option<u64>,
    /// Batches done in this pass.
    pub batch: Option<u64>,
    /// Batches in a pass, if known.
    pub pass_batches: Option<u64>,
    /// Samples done since the job began.
    pub samples: Option<u64>,
    /// Recent speed.
    #[serde(alias = "samples_per_second")]
    pub samples_per_s: Option<f64>,
    /// Cost per sample: mean since the start of the pass.
    pub cost: Option<f64>,
    /// Evaluators by name, since the start of the pass.
    pub evals: BTreeMap<String, f64>,
    /// Whom or what it waits for, in words; missing when it does not wait.
    pub waits_for: Option<String>,
    /// The newest complete snapshot (servers).
    pub snapshot_step: Option<u64>,
    /// What a server does: `lobby`, `running`, `failed`, `finished`.
    pub phase: Option<String>,
    /// A server that is to end wants the snapshot of this step, or a later one, on all servers.
    pub snapshot_wanted: Option<u64>,
    /// The newest snapshot that all servers have, as far as a server knows.
    pub snapshot_on_all: Option<u64>,
    /// The snapshot it last went back to.
    pub rolled_back_to: Option<u64>,
    /// All trainers have finished with this server.
    pub done: Option<bool>,
}

impl Status {
    /// Reads a page. Fails on text that is not a JSON object of this shape.
    pub fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        let mut status: Self = serde_json::from_slice(json)?;
        status.waits_for = status.waits_for.filter(|reason| !reason.is_empty());
        if status.samples == Some(0) {
            (status.batch, status.cost, status.samples_per_s) = (None, None, None);
        }
        Ok(status)
    }

    /// Takes over what `newer` knows and keeps the rest.
    pub fn merge(&mut self, newer: Status) {
        fn take<T>(old: &mut Option<T>, new: Option<T>) {
            if new.is_some() {
                *old = new;
            }
        }
        take(&mut self.role, newer.role);
        take(&mut self.id, newer.id);
        take(&mut self.pass, newer.pass);
        take(&mut self.batch, newer.batch);
        take(&mut self.pass_batches, newer.pass_batches);
        take(&mut self.samples, newer.samples);
        take(&mut self.samples_per_s, newer.samples_per_s);
        take(&mut self.cost, newer.cost);
        take(&mut self.snapshot_step, newer.snapshot_step);
        take(&mut self.snapshot_on_all, newer.snapshot_on_all);
        take(&mut self.phase, newer.phase);
        take(&mut self.rolled_back_to, newer.rolled_back_to);
        take(&mut self.done, newer.done);
        if !newer.evals.is_empty() {
            self.evals = newer.evals;
        }
        self.waits_for = newer.waits_for;
        self.snapshot_wanted = newer.snapshot_wanted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_may_leave_out_and_add_fields() {
        let status = Status::parse(
            br#"{"role":"trainer","id":1,"pass":2,"batch":40,"cost":0.5,"evals":{"error":0.25},"colour":"red"}"#,
        )
        .unwrap();
        assert_eq!(
            (status.id, status.pass, status.batch),
            (Some(1), Some(2), Some(40))
        );
        assert_eq!(status.evals["error"], 0.25);
        assert_eq!(status.samples, None);
        assert!(Status::parse(b"<html>").is_err());
        assert!(Status::parse(br#"{"pass":-1}"#).is_err());
    }

    #[test]
    fn numbers_of_a_process_that_has_done_nothing_yet_mean_nothing() {
        let page = br#"{"role":"trainer","batch":0,"samples":0,"samples_per_second":0.0,"cost":0.0,"waits_for":""}"#;
        let status = Status::parse(page).unwrap();
        assert_eq!(
            (status.batch, status.cost, status.waits_for),
            (None, None, None)
        );
        let status = Status::parse(br#"{"samples":9,"samples_per_second":4.5}"#).unwrap();
        assert_eq!(status.samples_per_s, Some(4.5));
    }

    #[test]
    fn merging_keeps_what_is_not_told_again_but_ends_a_wait() {
        let mut status = Status {
            cost: Some(0.5),
            waits_for: Some("trainer 2".into()),
            ..Status::default()
        };
        status.merge(Status {
            batch: Some(3),
            ..Status::default()
        });
        assert_eq!(
            (status.cost, status.batch, status.waits_for),
            (Some(0.5), Some(3), None)
        );
    }
}
