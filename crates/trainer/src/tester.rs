//! Runs the network over the test data with given parameters.

use std::fs;
use std::path::PathBuf;

use nn::{BatchUse, Evaluators, Network};
use words::status::Task;

use crate::data::DataSource;
use crate::error::TrainError;
use crate::inspect::Inspector;
use crate::log::{Level, Topic};
use crate::meter::CostMeter;
use crate::report::Reporter;
use crate::tested_model::ForBatch;

/// The name of a test in a [`words::status::Task`].
pub(crate) const TEST: &str = "its test";

/// Test data and the evaluators that measure on them.
pub struct Tester {
    /// Where test samples come from.
    pub source: DataSource,
    /// Evaluators of the last test.
    pub evaluators: Evaluators,
    /// File for the predictions of the last test, if the user asked for it.
    pub predict_file: Option<PathBuf>,
}

impl Tester {
    /// Tests with these evaluators, whose predictions go to a file if one is named.
    pub fn new(
        source: DataSource,
        mut evaluators: Evaluators,
        predict_file: Option<PathBuf>,
    ) -> Tester {
        if predict_file.is_some() {
            evaluators.keep_predictions();
        }
        Tester {
            source,
            evaluators,
            predict_file,
        }
    }

    /// Runs over all test data; afterwards `evaluators` hold the results.
    pub fn run(
        &mut self,
        network: &mut Network,
        parameters: &mut dyn ForBatch,
        inspector: &mut Inspector,
        report: &mut dyn Reporter,
    ) -> Result<CostMeter, TrainError> {
        let mut meter = CostMeter::default();
        let mut batch = 0;
        self.evaluators.reset();
        self.source.start_pass(0, 0);
        while let Some(data) = self.source.next_batch()? {
            let failed = |source| TrainError::Test { batch, source };
            let parameters = parameters.for_batch(network, &data)?;
            let cost = network
                .forward(parameters, &data, BatchUse::Test)
                .map_err(failed)?;
            inspector.forward(network, report);
            self.evaluators.accumulate(network).map_err(failed)?;
            inspector.evaluated(&mut self.evaluators, report)?;
            meter.add(cost, data.samples as u64);
            batch += 1;
            report.task(Some(Task {
                name: TEST.to_owned(),
                done: batch,
            }));
        }
        if batch == 0 {
            let text = "the test data have no samples";
            report.line(Level::Warning, Topic::Test, text);
        }
        self.write_predictions()?;
        Ok(meter)
    }

    fn write_predictions(&self) -> Result<(), TrainError> {
        let Some(path) = &self.predict_file else {
            return Ok(());
        };
        let lines = self.evaluators.predictions().into_iter();
        let text: String = lines.map(|line| line + "\n").collect();
        fs::write(path, text).map_err(|source| TrainError::Write {
            path: path.clone(),
            source,
        })
    }
}
