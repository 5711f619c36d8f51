//! A run over the test data with given parameters.

use nn::{Evaluators, Network, Parameters, Pass};

use crate::data::Source;
use crate::error::TrainError;
use crate::meter::Meter;

/// Test data and what is measured on it.
pub struct Tester {
    /// Where test samples come from.
    pub source: Source,
    /// Evaluators of the last test.
    pub evaluators: Evaluators,
}

impl Tester {
    /// Runs over all test data; afterwards `evaluators` hold the results.
    pub fn run(
        &mut self,
        network: &mut Network,
        parameters: &Parameters,
    ) -> Result<Meter, TrainError> {
        let mut meter = Meter::default();
        let mut batch = 0;
        self.evaluators.reset();
        self.source.start_pass(0, 0);
        while let Some(data) = self.source.next_batch()? {
            let cost = network
                .forward(parameters, &data, Pass::Test)
                .map_err(|source| TrainError::Test { batch, source })?;
            self.evaluators
                .accumulate(network)
                .map_err(|source| TrainError::Test { batch, source })?;
            meter.add(cost, data.samples as u64);
            batch += 1;
        }
        Ok(meter)
    }
}
