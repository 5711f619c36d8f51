//! Updates in this process: the same arithmetic as on servers.
//!
//! The state of a dense parameter is stored in blocks of [`BLOCK`] values, one state vector after the other inside a
//! block, so that threads can work on blocks; updates are element-wise, so the number of threads does not change the
//! result. A parameter that is updated by row stores, next to its values, the state of each row and the step that last
//! updated it.

use nn::{Gradient, Gradients, ParameterIndex, ParameterSpec, ParameterValues, Parameters};
use optim::{ParameterProgress, Rule, TouchedRows};
use rayon::prelude::*;

use super::{Position, UpdateError, Updater};
use crate::state_file::{ParameterState, SavedState};

/// Values per block.
pub(crate) const BLOCK: usize = 16 * 1024;

/// Updates parameters that this process holds in full.
#[derive(Debug)]
pub(crate) struct LocalUpdater {
    tables: Vec<Table>,
    seed: u64,
}

#[derive(Debug)]
struct Table {
    spec: ParameterSpec,
    rule: Rule,
    progress: ParameterProgress,
    state: Vec<f32>,
    last: Vec<u32>,
}

impl LocalUpdater {
    /// An updater for parameters with these rules, in the model's order.
    pub(crate) fn new(specs: &[ParameterSpec], rules: Vec<Rule>, seed: u64) -> LocalUpdater {
        let tables = specs.iter().zip(rules);
        LocalUpdater {
            tables: tables.map(|(spec, rule)| Table::new(spec, rule)).collect(),
            seed,
        }
    }

    /// Restores saved state. Returns the names of parameters whose state does not fit and starts from zero, for example
    /// because the learning method was changed.
    pub(crate) fn restore(
        &mut self,
        saved: &SavedState<'_>,
        parameters: &mut Parameters,
    ) -> Vec<String> {
        let mut misfits = Vec::new();
        for (table, values) in self.tables.iter_mut().zip(&mut parameters.0) {
            let found = saved.parameters.iter().find(|p| p.name == table.spec.name);
            match found {
                Some(p) if table.fits(p) => table.restore(p, full(values)),
                _ => misfits.push(table.spec.name.clone()),
            }
        }
        misfits
    }
}

/// Numbers that hold the progress of a table in [`LocalUpdater::pack`].
const PROGRESS: usize = 4 * PARTS;
/// Numbers that hold 64 bits.
pub(crate) const PARTS: usize = 4;

/// A number in parts of 16 bits, which values of 32 bits hold exactly.
pub(crate) fn parts(number: u64) -> [f32; PARTS] {
    [0, 16, 32, 48].map(|shift| f32::from((number >> shift) as u16))
}

/// The number of these [`parts`].
pub(crate) fn whole(parts: &[f32]) -> u64 {
    let parts = parts.iter().rev();
    parts.fold(0, |number, part| number << 16 | *part as u64)
}

impl LocalUpdater {
    /// Length of what [`LocalUpdater::pack`] appends.
    pub(crate) fn packed_len(&self) -> usize {
        let lens = self.tables.iter().map(|table| PROGRESS + table.state.len());
        lens.sum()
    }

    /// Appends the state and progress of all parameters, of which none is updated by row or averaged, as numbers. New
    /// ones are zeros.
    pub(crate) fn pack(&self, into: &mut Vec<f32>) {
        for table in &self.tables {
            let ParameterProgress {
                step,
                samples,
                pass,
                rate,
                average: _,
            } = &table.progress;
            for number in [*step, *samples, *pass, rate.to_bits()] {
                into.extend(parts(number));
            }
            into.extend_from_slice(&table.state);
        }
    }

    /// Continues from what [`LocalUpdater::pack`] has appended.
    pub(crate) fn unpack(&mut self, mut from: &[f32]) {
        for table in &mut self.tables {
            let (progress, rest) = from.split_at(PROGRESS);
            let (state, rest) = rest.split_at(table.state.len());
            let number = |at: usize| whole(&progress[at * PARTS..(at + 1) * PARTS]);
            table.progress = ParameterProgress {
                step: number(0),
                samples: number(1),
                pass: number(2),
                rate: f64::from_bits(number(3)),
                ..ParameterProgress::default()
            };
            table.state.copy_from_slice(state);
            from = rest;
        }
    }
}

impl Table {
    fn new(spec: &ParameterSpec, rule: Rule) -> Table {
        let values = if spec.is_static { 0 } else { spec.size() };
        Table {
            state: vec![0.0; rule.slots() * values],
            last: vec![0; if spec.by_row { spec.rows } else { 0 }],
            progress: ParameterProgress::default(),
            spec: spec.clone(),
            rule,
        }
    }

    fn fits(&self, saved: &ParameterState<'_>) -> bool {
        saved.rule.method == self.rule.method
            && saved.rule.slots() == self.rule.slots()
            && saved.state.len() == self.state.len()
            && saved.last.len() == self.last.len()
            && (saved.values.is_empty() || saved.values.len() == self.spec.size())
    }

    fn restore(&mut self, saved: &ParameterState<'_>, values: &mut [f32]) {
        self.progress = saved.progress.clone();
        self.state.copy_from_slice(&saved.state);
        self.last.copy_from_slice(&saved.last);
        if !saved.values.is_empty() {
            values.copy_from_slice(&saved.values);
        }
    }

    fn apply(&mut self, values: &mut [f32], gradient: &Gradient, samples: u64) {
        let step = self.rule.begin(&mut self.progress, samples);
        match gradient {
            Gradient::Dense(gradient) => {
                let rule = &self.rule;
                for_each_block(rule.slots(), values, &mut self.state, |block, state, at| {
                    rule.update(&step, block, state, &gradient[at..at + block.len()]);
                });
            }
            Gradient::Rows {
                ids,
                values: gradient,
            } => {
                let (rule, rows) = self.rows(values);
                rule.update_rows(&step, rows, ids, gradient);
            }
        }
    }

    /// The table in the form that `optim` expects.
    fn rows<'a>(&'a mut self, values: &'a mut [f32]) -> (&'a Rule, TouchedRows<'a>) {
        let rows = TouchedRows {
            values,
            state: &mut self.state,
            last: &mut self.last,
            dim: self.spec.cols,
        };
        (&self.rule, rows)
    }

    fn catch_up(&mut self, ids: &[u32], values: &mut [f32]) {
        let progress = self.progress.clone();
        let (rule, rows) = self.rows(values);
        rule.catch_up_rows(&progress, rows, ids);
    }

    fn saved<'a>(&'a self, values: &'a ParameterValues) -> ParameterState<'a> {
        let values = match values {
            ParameterValues::Full(values) if self.differs() => values.as_slice(),
            _ => &[],
        };
        ParameterState {
            name: self.spec.name.clone(),
            dims: (self.spec.rows as u64, self.spec.cols as u64),
            rule: self.rule.clone(),
            progress: self.progress.clone(),
            values: values.into(),
            state: (&self.state).into(),
            last: (&self.last).into(),
        }
    }

    /// Whether the values to test and save differ from those that training uses.
    fn differs(&self) -> bool {
        !self.spec.is_static && (self.rule.average.is_some() || self.spec.by_row)
    }

    /// The values to test and save. Rows are caught up on a copy, so that training is not affected.
    fn readable(&self, values: &[f32]) -> Vec<f32> {
        let mut out = values.to_vec();
        if self.spec.by_row {
            self.readable_rows(values, &mut out);
        } else {
            let slots = self.rule.slots();
            for (at, block) in values.chunks(BLOCK).enumerate() {
                let at = at * BLOCK;
                let state = &self.state[at * slots..(at + block.len()) * slots];
                let out = &mut out[at..at + block.len()];
                self.rule.averaged(&self.progress, block, state, out);
            }
        }
        out
    }

    fn readable_rows(&self, values: &[f32], out: &mut [f32]) {
        let dim = self.spec.cols;
        let width = self.rule.slots() * dim;
        let mut row = Vec::with_capacity(dim + width);
        for (id, value) in values.chunks_exact(dim).enumerate() {
            row.clear();
            row.extend_from_slice(value);
            row.extend_from_slice(&self.state[id * width..(id + 1) * width]);
            let mut last = self.last[id];
            self.rule.catch_up(&self.progress, &mut row, &mut last);
            let (value, state) = row.split_at(dim);
            let out = &mut out[id * dim..(id + 1) * dim];
            self.rule.averaged(&self.progress, value, state, out);
        }
    }
}

/// Calls `f` with each block of `values`, its state, and its offset; on all threads of the pool.
fn for_each_block(
    slots: usize,
    values: &mut [f32],
    state: &mut [f32],
    f: impl Fn(&mut [f32], &mut [f32], usize) + Sync,
) {
    if values.len() <= BLOCK {
        return f(values, state, 0);
    }
    let blocks = values.par_chunks_mut(BLOCK).enumerate();
    if slots == 0 {
        return blocks.for_each(|(b, block)| f(block, &mut [], b * BLOCK));
    }
    blocks
        .zip(state.par_chunks_mut(BLOCK * slots))
        .for_each(|((b, block), state)| f(block, state, b * BLOCK));
}

fn full(values: &mut ParameterValues) -> &mut [f32] {
    match values {
        ParameterValues::Full(values) => values,
        ParameterValues::Rows { .. } | ParameterValues::Shared(_) => {
            unreachable!("a local run holds its parameters in full")
        }
    }
}

impl Updater for LocalUpdater {
    fn start_pass(
        &mut self,
        start: Position,
        _parameters: &mut Parameters,
    ) -> Result<u64, UpdateError> {
        let pass = u64::from(start.pass);
        for table in &mut self.tables {
            table.rule.start_pass(&mut table.progress, pass);
        }
        Ok(start.batch)
    }

    fn prepare(
        &mut self,
        needed: &[(ParameterIndex, Vec<u32>)],
        _samples: u64,
        parameters: &mut Parameters,
    ) -> Result<(), UpdateError> {
        for (index, ids) in needed {
            self.tables[index.0].catch_up(ids, full(&mut parameters.0[index.0]));
        }
        Ok(())
    }

    fn gradient_ready(&mut self, _parameter: ParameterIndex, _gradients: &Gradients) {}

    fn finish_batch(
        &mut self,
        gradients: &Gradients,
        samples: u64,
        _cost: f64,
        parameters: &mut Parameters,
    ) -> Result<(), UpdateError> {
        for (index, table) in self.tables.iter_mut().enumerate() {
            if !table.spec.is_static {
                let values = full(&mut parameters.0[index]);
                table.apply(values, gradients.get(ParameterIndex(index)), samples);
            }
        }
        Ok(())
    }

    fn finish_pass(&mut self, _parameters: &mut Parameters) -> Result<(), UpdateError> {
        for table in &mut self.tables {
            table.rule.finish_pass(&mut table.progress);
        }
        Ok(())
    }

    fn readable(&mut self, parameters: &Parameters) -> Result<Option<Parameters>, UpdateError> {
        if !self.tables.iter().any(Table::differs) {
            return Ok(None);
        }
        let mut copy = parameters.clone();
        for (index, table) in self.tables.iter().enumerate() {
            if table.differs() {
                let values = full(&mut copy.0[index]);
                let readable = table.readable(values);
                values.copy_from_slice(&readable);
            }
        }
        Ok(Some(copy))
    }

    fn state<'a>(&'a self, parameters: &'a Parameters) -> Option<SavedState<'a>> {
        let tables = self.tables.iter().zip(&parameters.0);
        let parameters = tables.map(|(table, values)| table.saved(values));
        Some(SavedState {
            seed: self.seed,
            parameters: parameters.collect(),
        })
    }

    fn finish(&mut self) -> Result<(), UpdateError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn updater(rule: &Rule) -> LocalUpdater {
        let spec = |name: &str, is_static| ParameterSpec {
            name: name.to_owned(),
            rows: 2,
            cols: 3,
            is_static,
            by_row: false,
            looked_up: false,
            maintained: false,
        };
        let specs = [spec("w", false), spec("fixed", true), spec("b", false)];
        LocalUpdater::new(&specs, vec![rule.clone(); 3], 7)
    }

    #[test]
    fn what_is_packed_is_unpacked_bit_for_bit() {
        let adam = Rule {
            method: optim::Method::Adam {
                beta1: 0.9,
                beta2: 0.999,
                epsilon: 1e-8,
            },
            ..Rule::sgd(0.05)
        };
        for rule in [adam, Rule::sgd(0.1)] {
            let mut old = updater(&rule);
            for (at, table) in old.tables.iter_mut().enumerate() {
                table.progress = ParameterProgress {
                    step: u64::MAX - at as u64,
                    samples: 0x0001_8000_7fff_ffff,
                    pass: 3,
                    rate: 0.1 / 3.0,
                    ..ParameterProgress::default()
                };
                let values = (0..).map(|i| f32::from_bits(0x3f00_0001 + i));
                table.state.iter_mut().zip(values).for_each(|(s, v)| *s = v);
            }
            let mut packed = Vec::new();
            old.pack(&mut packed);
            assert_eq!(packed.len(), old.packed_len());
            let mut new = updater(&rule);
            new.unpack(&packed);
            for (old, new) in old.tables.iter().zip(&new.tables) {
                assert_eq!((&new.progress, &new.state), (&old.progress, &old.state));
            }
            let nothing = vec![0.0; packed.len()];
            new.unpack(&nothing);
            for (fresh, new) in updater(&rule).tables.iter().zip(&new.tables) {
                assert_eq!((&new.progress, &new.state), (&fresh.progress, &fresh.state));
            }
        }
    }
}
