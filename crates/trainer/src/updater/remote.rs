//! Updates on parameter servers: gradients are pushed while backward still computes, values come back for the next
//! batch.
//!
//! Every parameter that learns is a table of the job. Dense ones are pushed and received in full; those that are
//! updated by row are transferred by row: [`Updater::prepare`] fetches just the rows that a batch reads into a compact
//! [`ParameterValues::Rows`], and their gradients are pushed by row. Parameters that never change stay in this process.
//! Those that layers maintain (moving averages) are tables, too, so a recovery restores them together with the others:
//! trainer 0 pushes its values, which replace those of the servers, and all trainers receive them.
//!
//! Of a large dense parameter that is only looked up by row, just the rows that a batch reads are fetched (copied, if the
//! servers are on the same host and keep dense values in shared memory), together with the other values if the batch is there
//! early enough ([`Updater::announce`]), and the others on request ([`Updater::refresh`]).

use std::path::Path;
use std::sync::Arc;

use nn::{Gradient, Gradients, ParameterIndex, ParameterSpec, ParameterValues, Parameters};
use optim::{Initial, Rule};
use wire::client::RowRequest;
use wire::spec::Origin;
use wire::{JobSpec, Mode, Session, TableId, TableSpec, View};

use super::{Position, UpdateError, Updater};
use crate::state_file::SavedState;

/// Only a parameter with at least this many values, in wide enough rows, is copied by row.
const LARGE: usize = 1 << 18;
const WIDE: usize = 16;
/// Only a parameter with at least this many values is sent by row.
const SENT: usize = 1 << 14;

/// Updates parameters on the servers of a session.
pub(crate) struct RemoteUpdater {
    session: Session,
    specs: Vec<ParameterSpec>,
    /// The table of each parameter; `None` for those that never change.
    tables: Vec<Option<TableId>>,
    /// An error during backward; returned when the batch ends.
    pending: Option<wire::Error>,
    /// The values here are older than those of the servers.
    stale: bool,
    /// Rows that no batch has read since they changed are older than those of the servers.
    partial: bool,
    averaged: bool,
    /// Tables by row stay on the servers: no trainer holds a whole one.
    rows_stay: bool,
    /// Trainer 0 pushes the values that layers maintain.
    pushes_maintained: bool,
    /// The rows that the batch looks up in dense parameters by row, ascending: only these have a gradient.
    looked_up: Vec<(ParameterIndex, Vec<u32>)>,
}

/// Everything that describes a job's tables.
pub(crate) struct JobTables<'a> {
    /// The parameters, in the model's order.
    pub specs: &'a [ParameterSpec],
    /// Update rule of each parameter.
    pub rules: &'a [Rule],
    /// Initial values of each parameter.
    pub initials: &'a [Initial],
    /// Values to start from instead, if a model was loaded; only trainer 0 sends them.
    pub loaded: Option<&'a Parameters>,
    /// The model that the servers load themselves, if any.
    pub origin: Option<Origin>,
    /// Number of passes that are done, and so the first to run.
    pub first_pass: u32,
}

impl JobTables<'_> {
    /// The description that all trainers of the job send to the servers.
    pub(crate) fn job_spec(&self, job: String, mode: Mode, snapshot_every: u64) -> JobSpec {
        let changing = (0..self.specs.len()).filter(|i| self.specs[*i].changes());
        JobSpec {
            job,
            mode,
            snapshot_every,
            first_pass: u64::from(self.first_pass),
            origin: self.origin.clone(),
            tables: changing.map(|i| self.table(i)).collect(),
        }
    }

    fn table(&self, index: usize) -> TableSpec {
        let spec = &self.specs[index];
        let json = "rules and first values are plain data";
        let rule = match spec.maintained {
            true => &Rule::assign(),
            false => &self.rules[index],
        };
        let values = self.loaded.and_then(|p| match &p.0[index] {
            ParameterValues::Full(values) => Some(Arc::from(values.as_slice())),
            ParameterValues::Rows { .. } | ParameterValues::Shared(_) => None,
        });
        TableSpec {
            name: spec.name.clone(),
            rows: spec.rows as u64,
            cols: spec.cols as u32,
            sparse: spec.by_row,
            rule: serde_json::to_string(rule).expect(json),
            initial: serde_json::to_string(&self.initials[index]).expect(json),
            values,
        }
    }
}

impl RemoteUpdater {
    /// Joins the job's servers; returns the position at which this trainer begins, which is not the start after a
    /// restart.
    pub(crate) fn connect(
        config: wire::SessionConfig,
        spec: JobSpec,
        specs: &[ParameterSpec],
        averaged: bool,
        rows_stay: bool,
    ) -> Result<(RemoteUpdater, Position), UpdateError> {
        let pushes_maintained = config.trainer.0 == 0;
        let (session, position) = Session::connect(config, spec).map_err(failed)?;
        let mut next = 0;
        let mut number = |spec: &ParameterSpec| {
            spec.changes().then(|| {
                next += 1;
                TableId(next - 1)
            })
        };
        let mut updater = RemoteUpdater {
            session,
            specs: specs.to_vec(),
            tables: specs.iter().map(&mut number).collect(),
            pending: None,
            stale: true,
            partial: false,
            averaged,
            rows_stay,
            pushes_maintained,
            looked_up: Vec::new(),
        };
        let by_row = updater.changing();
        let copied = updater.session.shares_memory();
        let by_row = by_row.filter(|(at, _)| pays_by_row(&updater.specs[*at], copied));
        let by_row = by_row.map(|(_, table)| table).collect();
        updater.session.fetch_by_row(by_row);
        Ok((updater, here(position)))
    }

    fn changing(&self) -> impl Iterator<Item = (usize, TableId)> + '_ {
        let tables = self.tables.iter().enumerate();
        tables.filter_map(|(i, table)| table.map(|t| (i, t)))
    }

    /// Runs a call of the session that fills dense parameters.
    fn fill_dense(
        &mut self,
        parameters: &mut Parameters,
        call: impl FnOnce(&mut Session, &mut [(TableId, &mut [f32])]) -> Result<(), wire::Error>,
    ) -> Result<(), UpdateError> {
        let dense = parameters.0.iter_mut().zip(&self.tables).zip(&self.specs);
        let mut places: Vec<_> = dense
            .filter_map(|((values, table), spec)| match (values, table) {
                (ParameterValues::Full(values), Some(table)) if !spec.by_row => {
                    Some((*table, values.as_mut_slice()))
                }
                _ => None,
            })
            .collect();
        let done = call(&mut self.session, &mut places);
        self.settle(done)
    }

    /// Handles the result of a call: after any failure, the session may be at another position than the values here.
    fn settle<T>(&mut self, done: Result<T, wire::Error>) -> Result<T, UpdateError> {
        done.map_err(|error| {
            self.stale = true;
            failed(error)
        })
    }

    /// Pushes what layers have assigned in this batch.
    fn push_maintained(&mut self, parameters: &Parameters) -> Result<(), UpdateError> {
        for (at, spec) in self.specs.iter().enumerate() {
            if let (true, Some(table), ParameterValues::Full(values)) =
                (spec.maintained, self.tables[at], &parameters.0[at])
            {
                let sent = self.session.push_values(table, values);
                sent.map_err(|error| {
                    self.stale = true;
                    failed(error)
                })?;
            }
        }
        Ok(())
    }

    /// Fetches all dense values.
    fn fetch(&mut self, parameters: &mut Parameters) -> Result<(), UpdateError> {
        self.fill_dense(parameters, |session, places| {
            session.pull_dense(places, View::Training)
        })?;
        self.partial = false;
        Ok(())
    }

    /// Fetches the rows that a batch looks up in dense parameters.
    fn read_rows(
        &mut self,
        looked_up: &[&(ParameterIndex, Vec<u32>)],
        parameters: &mut Parameters,
    ) -> Result<(), UpdateError> {
        let all = parameters.0.iter_mut().zip(&self.tables).enumerate();
        let mut wanted: Vec<_> = all
            .filter_map(|(at, (values, table))| {
                let (_, ids) = looked_up.iter().find(|(index, _)| index.0 == at)?;
                match (table, values) {
                    (Some(table), ParameterValues::Full(values)) => {
                        Some((*table, ids.as_slice(), values.as_mut_slice()))
                    }
                    _ => None,
                }
            })
            .collect();
        let done = self.session.read_rows(&mut wanted);
        self.settle(done)
    }

    fn view(&self) -> View {
        if self.averaged {
            View::Averaged
        } else {
            View::Current
        }
    }
}

/// Whether it pays to fetch only the rows that a batch reads: by a copy, or over a connection.
fn pays_by_row(spec: &ParameterSpec, copied: bool) -> bool {
    let large = match copied {
        true => spec.cols >= WIDE && spec.size() >= LARGE,
        false => spec.size() >= SENT,
    };
    spec.looked_up && !spec.by_row && large
}

fn here(position: wire::ResumePoint) -> Position {
    Position {
        pass: u32::try_from(position.pass).unwrap_or(u32::MAX),
        batch: position.batch,
        passed: position.passed,
    }
}

fn failed(error: wire::Error) -> UpdateError {
    match error {
        wire::Error::RolledBack { position, reason } => UpdateError::RolledBack {
            to: here(position),
            reason,
        },
        other => UpdateError::Remote(other),
    }
}

impl Updater for RemoteUpdater {
    fn start_pass(
        &mut self,
        start: Position,
        parameters: &mut Parameters,
    ) -> Result<u64, UpdateError> {
        self.pending = None;
        if self.stale {
            self.fetch(parameters)?;
            self.stale = false;
        }
        Ok(start.batch)
    }

    fn wants_rows(&self, parameter: ParameterIndex) -> bool {
        self.tables[parameter.0].is_some_and(|table| self.session.is_by_row(table))
    }

    fn prepare(
        &mut self,
        needed: &[(ParameterIndex, Vec<u32>)],
        samples: u64,
        parameters: &mut Parameters,
    ) -> Result<(), UpdateError> {
        let by_row = |(index, _): &&(ParameterIndex, _)| self.specs[index.0].by_row;
        let (needed, looked_up): (Vec<_>, Vec<_>) = needed.iter().partition(by_row);
        self.read_rows(&looked_up, parameters)?;
        self.looked_up = looked_up.into_iter().cloned().collect();
        let mut fetched: Vec<Vec<f32>> = needed.iter().map(|_| Vec::new()).collect();
        let mut wanted: Vec<_> = needed
            .iter()
            .zip(&mut fetched)
            .filter_map(|((index, ids), values)| {
                let table = self.tables[index.0]?;
                Some(RowRequest { table, ids, values })
            })
            .collect();
        if !wanted.is_empty() {
            let got = self.session.pull_rows(&mut wanted);
            self.settle(got)?;
        }
        for ((index, ids), values) in needed.iter().zip(fetched) {
            if self.tables[index.0].is_some() {
                let ids = ids.clone();
                parameters.0[index.0] = ParameterValues::Rows { ids, values };
            }
        }
        self.session.start_batch(samples);
        Ok(())
    }

    fn announce(&mut self, needed: &[(ParameterIndex, Vec<u32>)]) {
        let rows = needed.iter();
        let rows = rows.filter_map(|(at, ids)| Some((self.tables[at.0]?, ids.as_slice())));
        let rows: Vec<_> = rows.collect();
        self.session.announce_rows(&rows);
    }

    fn gradient_ready(&mut self, parameter: ParameterIndex, gradients: &Gradients) {
        let Some(table) = self.tables[parameter.0] else {
            return;
        };
        if self.pending.is_some() {
            return;
        }
        let sent = match gradients.get(parameter) {
            Gradient::Dense(values) => {
                // Those of the gradient are in the order of the samples, with repetitions.
                let looked_up = self.looked_up.iter();
                let known = looked_up.filter(|(index, _)| *index == parameter);
                let known = known.map(|(_, ids)| ids.as_slice()).next();
                let rows = gradients.rows(parameter);
                let rows = rows.map(|rows| known.unwrap_or(rows));
                self.session.push_dense(table, values, rows)
            }
            Gradient::Rows { ids, values } => self.session.push_rows(table, ids, values),
        };
        self.pending = sent.err();
    }

    fn finish_batch(
        &mut self,
        _gradients: &Gradients,
        _samples: u64,
        cost: f64,
        parameters: &mut Parameters,
    ) -> Result<(), UpdateError> {
        let sent = self.pending.take().map_or(Ok(()), Err);
        self.settle(sent)?;
        if self.pushes_maintained {
            self.push_maintained(parameters)?;
        }
        let done = self.session.finish_batch(cost);
        self.settle(done)?;
        self.partial |= (0..self.specs.len()).any(|at| self.wants_rows(ParameterIndex(at)));
        self.fill_dense(parameters, |session, places| session.wait_values(places))
    }

    fn finish_pass(&mut self, parameters: &mut Parameters) -> Result<(), UpdateError> {
        let done = self.session.finish_pass();
        self.settle(done)?;
        self.fetch(parameters)
    }

    fn agree(&mut self, said: bool) -> Result<bool, UpdateError> {
        let done = self.session.agree(said);
        self.settle(done)
    }

    fn end_pass(&mut self) -> Result<(), UpdateError> {
        let done = self.session.end_pass();
        self.settle(done).map(|_| ())
    }

    fn refresh(&mut self, parameters: &mut Parameters) -> Result<(), UpdateError> {
        if self.partial {
            self.fetch(parameters)?;
        }
        Ok(())
    }

    fn readable(&mut self, parameters: &Parameters) -> Result<Option<Parameters>, UpdateError> {
        let by_row: Vec<_> = self
            .changing()
            .filter(|(i, _)| self.specs[*i].by_row && !self.rows_stay)
            .collect();
        if by_row.is_empty() && !self.averaged {
            return Ok(None);
        }
        let view = self.view();
        let mut copy = parameters.clone();
        self.fill_dense(&mut copy, |session, places| {
            session.pull_dense(places, view)
        })?;
        for (index, table) in by_row {
            let mut all = Vec::with_capacity(self.specs[index].size());
            let mut append = |_row: u64, values: &[f32]| all.extend_from_slice(values);
            let got = self.session.download(table, view, &mut append);
            self.settle(got)?;
            copy.0[index] = ParameterValues::Full(all);
        }
        Ok(Some(copy))
    }

    fn state<'a>(&'a self, _parameters: &'a Parameters) -> Option<SavedState<'a>> {
        None
    }

    fn save_state(&mut self, directory: &Path) -> Result<(), UpdateError> {
        let directory = directory.to_string_lossy();
        let done = self.session.save_state_on_servers(&directory);
        self.settle(done)
    }

    fn save_rows(&mut self, directory: &Path) -> Result<(), UpdateError> {
        if !self.rows_stay || !self.changing().any(|(i, _)| self.specs[i].by_row) {
            return Ok(());
        }
        let directory = directory.to_string_lossy();
        let done = self.session.save_on_servers(&directory);
        self.settle(done)
    }

    fn finish(&mut self) -> Result<(), UpdateError> {
        let done = self.session.close();
        self.settle(done)
    }
}
