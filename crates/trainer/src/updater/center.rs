//! Local updates with a synchronization on the servers every few batches: v1's `num_batches_per_send_parameter`.
//!
//! Every trainer runs the optimizer on values of its own; the servers hold the *center*. After `every` batches, and at
//! the end of a pass, the trainers meet (`a` is `delta_add_rate` over the number of trainers):
//!
//! - `average`: each sends the change of its values since the last meeting; the center moves by `a` times the sum, and
//!   all continue from it. With a rate of 1 that is the mean of the trainers' values.
//! - `elastic_average`: each sends how far its values are from the center; the center moves by `a` times the sum, and
//!   the trainer by `a` times its own distance, towards the center. Every trainer keeps its own values.
//!
//! The center is what is tested and saved. Of the values that layers maintain (moving averages) it has those of trainer
//! 0.
//!
//! What a trainer alone knows, the state of its optimizer and, with `elastic_average`, its own values, it keeps in a
//! table of its own on the servers, which it pushes whenever the trainers meet. So this table is at the same boundary as
//! the center, in every snapshot and every saved state, and a trainer that joins again continues with it.

use std::path::Path;

use nn::{Gradients, ParameterIndex, ParameterSpec, ParameterValues, Parameters};
use optim::{Distribution, Initial, Method, Rule};
use wire::{JobSpec, Session, TableId, TableSpec, View};

use super::local::{LocalUpdater, PARTS, parts, whole};
use super::{Position, UpdateError, Updater};
use crate::state_file::SavedState;

/// What trainers exchange when they meet, and from which values they continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// All trainers continue from the center.
    Average,
    /// Every trainer moves towards the center.
    Elastic,
}

impl Meeting {
    /// Parses v1's `center_parameter_update_method`.
    pub(crate) fn named(name: &str) -> Option<Meeting> {
        match name {
            "average" => Some(Meeting::Average),
            "elastic_average" => Some(Meeting::Elastic),
            _ => None,
        }
    }
}

/// When and how trainers meet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// Batches between two meetings.
    pub every: u64,
    /// What the trainers exchange.
    pub meeting: Meeting,
    /// Factor on each trainer's difference: v1's `delta_add_rate` over the number of trainers.
    pub rate: f64,
}

impl Terms {
    /// The rule by which the servers apply the differences.
    pub(crate) fn rule(&self) -> Rule {
        Rule {
            method: Method::Add { rate: self.rate },
            ..Rule::sgd(1.0)
        }
    }
}

/// Updates locally and synchronizes with other trainers on the servers of a session.
pub(crate) struct CenterUpdater {
    session: Session,
    local: LocalUpdater,
    terms: Terms,
    /// Index of the parameter of each table.
    parameters: Vec<usize>,
    /// Whether a layer maintains it, of each table.
    maintained: Vec<bool>,
    /// The center as this trainer saw it last, one entry per table.
    center: Vec<Vec<f32>>,
    /// Batches, samples and cost since the last meeting.
    since: (u64, u64, f64),
    stale: bool,
    /// Trainer 0 pushes the values that layers maintain.
    pushes_maintained: bool,
    /// The table of what this trainer alone knows.
    own_table: TableId,
    /// What is or was in that table: the batches of the pass that were done when the trainers met, plus 1; the optimizer's
    /// state; own values.
    kept: Vec<f32>,
    /// Batches of the pass that are done.
    batches: u64,
}

/// The table of what a trainer alone knows.
fn kept_table(trainer: u32, len: usize) -> TableSpec {
    let json = "rules and first values are plain data";
    let zero = Initial {
        distribution: Distribution::Constant(0.0),
        seed: 0,
    };
    TableSpec {
        name: format!("canoe/trainer-{trainer}"),
        rows: len as u64,
        cols: 1,
        sparse: false,
        rule: serde_json::to_string(&Rule::assign()).expect(json),
        initial: serde_json::to_string(&zero).expect(json),
        values: None,
    }
}

impl CenterUpdater {
    /// Joins the job's servers; returns the position at which this trainer begins. `spec` has the tables of the center.
    pub(crate) fn connect(
        config: wire::SessionConfig,
        mut spec: JobSpec,
        specs: &[ParameterSpec],
        local: LocalUpdater,
        terms: Terms,
    ) -> Result<(CenterUpdater, Position), UpdateError> {
        let (trainer, trainers) = (config.trainer.0, config.trainers);
        let pushes_maintained = trainer == 0;
        let parameters: Vec<usize> = (0..specs.len()).filter(|i| specs[*i].changes()).collect();
        let sizes = parameters.iter().map(|i| specs[*i].size());
        let own_values = match terms.meeting {
            Meeting::Average => 0,
            Meeting::Elastic => sizes.clone().sum(),
        };
        let len = PARTS + local.packed_len() + own_values;
        let center = sizes.map(|size| vec![0.0; size]).collect();
        let first = spec.tables.len() as u32;
        spec.tables
            .extend((0..trainers).map(|trainer| kept_table(trainer, len)));
        let (mut session, position) =
            Session::connect(config, spec).map_err(|error| failed(error, terms.every))?;
        session.keep_in((first..first + trainers).map(TableId).collect());
        let updater = CenterUpdater {
            session,
            local,
            terms,
            maintained: parameters.iter().map(|i| specs[*i].maintained).collect(),
            parameters,
            center,
            since: (0, 0, 0.0),
            stale: true,
            pushes_maintained,
            own_table: TableId(first + trainer),
            kept: vec![0.0; len],
            batches: 0,
        };
        Ok((updater, here(position, terms.every)))
    }

    /// Runs a call of the session that receives the center.
    fn receive(
        &mut self,
        call: impl FnOnce(&mut Session, &mut [(TableId, &mut [f32])]) -> Result<(), wire::Error>,
    ) -> Result<(), UpdateError> {
        let tables = (0..).map(TableId).zip(&mut self.center);
        let mut places: Vec<_> = tables
            .map(|(table, values)| (table, values.as_mut_slice()))
            .collect();
        let done = call(&mut self.session, &mut places);
        self.check(done)
    }

    fn check<T>(&mut self, done: Result<T, wire::Error>) -> Result<T, UpdateError> {
        done.map_err(|error| {
            self.stale = true;
            failed(error, self.terms.every)
        })
    }

    fn adopt(&self, parameters: &mut Parameters) {
        for (index, center) in self.parameters.iter().zip(&self.center) {
            own(parameters, *index).copy_from_slice(center);
        }
    }

    /// Sends what this trainer alone knows after this meeting.
    fn keep(&mut self, parameters: &mut Parameters) -> Result<(), UpdateError> {
        self.kept.clear();
        self.kept.extend(parts(self.batches + 1));
        self.local.pack(&mut self.kept);
        if self.terms.meeting == Meeting::Elastic {
            for index in &self.parameters {
                self.kept.extend_from_slice(own(parameters, *index));
            }
        }
        let sent = self.session.push_values(self.own_table, &self.kept);
        self.check(sent)
    }

    /// Continues from the boundary at which the servers are. Returns the batches of the pass that were done at the last
    /// meeting before it.
    fn restore(&mut self, parameters: &mut Parameters) -> Result<u64, UpdateError> {
        self.receive(|session, places| session.pull_dense(places, View::Training))?;
        self.adopt(parameters);
        let pulled = self.session.pull_kept(&mut self.kept);
        self.check(pulled)?;
        let (batches, rest) = self.kept.split_at(PARTS);
        let batches = whole(batches).checked_sub(1);
        let (state, mut values) = rest.split_at(self.local.packed_len());
        self.local.unpack(state);
        // Before the first meeting, the values of all trainers are those of the center.
        if batches.is_some() && self.terms.meeting == Meeting::Elastic {
            for index in &self.parameters {
                let own = own(parameters, *index);
                let (saved, rest) = values.split_at(own.len());
                own.copy_from_slice(saved);
                values = rest;
            }
        }
        self.stale = false;
        Ok(batches.unwrap_or_default())
    }

    fn meet(&mut self, parameters: &mut Parameters) -> Result<(), UpdateError> {
        if self.terms.meeting == Meeting::Elastic {
            self.receive(|session, places| session.pull_dense(places, View::Training))?;
        }
        let (_, samples, cost) = std::mem::take(&mut self.since);
        self.session.start_batch(samples);
        let rate = self.terms.rate as f32;
        for at in 0..self.parameters.len() {
            let (values, table) = (own(parameters, self.parameters[at]), TableId(at as u32));
            if self.maintained[at] {
                if self.pushes_maintained {
                    let sent = self.session.push_values(table, values);
                    self.check(sent)?;
                }
                continue;
            }
            let delta = difference(values, &self.center[at]);
            if self.terms.meeting == Meeting::Elastic {
                values
                    .iter_mut()
                    .zip(&delta)
                    .for_each(|(w, d)| *w -= rate * d);
            }
            let sent = self.session.push_dense(table, &delta, None);
            self.check(sent)?;
        }
        self.keep(parameters)?;
        let done = self.session.finish_batch(cost);
        self.check(done)?;
        self.receive(|session, places| session.wait_values(places))?;
        if self.terms.meeting == Meeting::Average {
            self.adopt(parameters);
        }
        Ok(())
    }
}

fn difference(values: &[f32], center: &[f32]) -> Vec<f32> {
    values.iter().zip(center).map(|(w, c)| w - c).collect()
}

fn own(parameters: &mut Parameters, index: usize) -> &mut [f32] {
    match &mut parameters.0[index] {
        ParameterValues::Full(values) => values,
        ParameterValues::Rows { .. } | ParameterValues::Shared(_) => {
            unreachable!("trainers that meet hold their parameters in full")
        }
    }
}

fn here(position: wire::ResumePoint, every: u64) -> Position {
    Position {
        pass: u32::try_from(position.pass).unwrap_or(u32::MAX),
        batch: position.batch * every,
        passed: position.passed,
    }
}

fn failed(error: wire::Error, every: u64) -> UpdateError {
    match error {
        wire::Error::RolledBack { position, reason } => UpdateError::RolledBack {
            to: here(position, every),
            reason,
        },
        other => UpdateError::Remote(other),
    }
}

impl Updater for CenterUpdater {
    fn start_pass(
        &mut self,
        start: Position,
        parameters: &mut Parameters,
    ) -> Result<u64, UpdateError> {
        self.since = (0, 0, 0.0);
        self.batches = 0;
        if self.stale {
            let batches = self.restore(parameters)?;
            // Without a meeting in this pass, those of the last one are there.
            self.batches = batches.min(start.batch);
        }
        let start = Position {
            batch: self.batches,
            ..start
        };
        self.local.start_pass(start, parameters)
    }

    fn prepare(
        &mut self,
        needed: &[(ParameterIndex, Vec<u32>)],
        samples: u64,
        parameters: &mut Parameters,
    ) -> Result<(), UpdateError> {
        self.local.prepare(needed, samples, parameters)
    }

    fn gradient_ready(&mut self, _parameter: ParameterIndex, _gradients: &Gradients) {}

    fn finish_batch(
        &mut self,
        gradients: &Gradients,
        samples: u64,
        cost: f64,
        parameters: &mut Parameters,
    ) -> Result<(), UpdateError> {
        self.local
            .finish_batch(gradients, samples, cost, parameters)?;
        let (batches, all, sum) = self.since;
        self.since = (batches + 1, all + samples, sum + cost);
        self.batches += 1;
        if self.since.0 == self.terms.every {
            self.meet(parameters)?;
        }
        Ok(())
    }

    fn finish_pass(&mut self, parameters: &mut Parameters) -> Result<(), UpdateError> {
        if self.since.0 > 0 {
            self.meet(parameters)?;
        }
        self.local.finish_pass(parameters)?;
        let done = self.session.finish_pass();
        self.check(done)?;
        self.receive(|session, places| session.pull_dense(places, View::Training))?;
        if self.terms.meeting == Meeting::Average {
            self.adopt(parameters);
        }
        Ok(())
    }

    fn agree(&mut self, said: bool) -> Result<bool, UpdateError> {
        let done = self.session.agree(said);
        self.check(done)
    }

    fn end_pass(&mut self) -> Result<(), UpdateError> {
        let done = self.session.end_pass();
        self.check(done).map(|_| ())
    }

    fn readable(&mut self, parameters: &Parameters) -> Result<Option<Parameters>, UpdateError> {
        let mut shown = parameters.clone();
        self.adopt(&mut shown);
        Ok(Some(shown))
    }

    fn state<'a>(&'a self, _parameters: &'a Parameters) -> Option<SavedState<'a>> {
        None
    }

    fn save_state(&mut self, directory: &Path) -> Result<(), UpdateError> {
        let directory = directory.to_string_lossy();
        let done = self.session.save_state_on_servers(&directory);
        self.check(done)
    }

    fn finish(&mut self) -> Result<(), UpdateError> {
        let done = self.session.close();
        self.check(done)
    }
}
