//! A saved model while it is tested: whole parameters are in memory, and rows of tables that servers saved are read
//! when a batch needs them.

use std::path::Path;

use config::TrainerConfig;
use nn::{Batch, Network, ParameterSpec, ParameterValues, Parameters};
use optim::{Initial, Rule};

use crate::error::TrainError;
use crate::loading;
use crate::rules;
use crate::saved_rows::{RowInterpretation, SavedRows};
use crate::settings::TrainerSettings;

/// Provides the values that a batch needs.
pub trait ForBatch {
    /// Parameters with at least the rows that the batch reads.
    fn for_batch(&mut self, network: &Network, batch: &Batch) -> Result<&Parameters, TrainError>;
}

impl ForBatch for &Parameters {
    fn for_batch(&mut self, _: &Network, _: &Batch) -> Result<&Parameters, TrainError> {
        Ok(self)
    }
}

/// A model of a pass directory.
#[derive(Debug)]
pub(crate) struct TestedModel {
    parameters: Parameters,
    rows: Option<SavedRows>,
    initials: Vec<Initial>,
    rules: Vec<Rule>,
}

/// A model after [`TestedModel::load`].
pub(crate) struct LoadedModel {
    pub(crate) model: TestedModel,
    /// Tables whose saved state belongs to another learning method: their values are used as they were written.
    pub(crate) unlike: Vec<String>,
}

impl TestedModel {
    /// Loads a pass directory or a merged model.
    pub(crate) fn load(
        directory: &Path,
        config: &TrainerConfig,
        network: &Network,
        settings: &TrainerSettings,
    ) -> Result<LoadedModel, TrainError> {
        let configs = config.model_config.as_ref();
        let configs = configs.map_or(&[][..], |model| &model.parameters);
        let specs = network.parameters();
        // A merged model is a file and has all parameters.
        let rows = if directory.is_file() {
            None
        } else {
            SavedRows::open(directory)?
        };
        let stored = |spec: &ParameterSpec| {
            let saved = rows.as_ref().is_some_and(|rows| rows.has(&spec.name));
            saved && !directory.join(&spec.name).exists()
        };
        let initials = configs.iter().map(|p| rules::initial(p, settings.seed));
        let mut model = Self {
            parameters: loading::draw_those(configs, specs, settings.seed, |spec| !stored(spec)),
            initials: initials.collect(),
            rules: rules::rules(&config.opt_config, configs)?,
            rows: None,
        };
        let missing = settings.passes.missing;
        loading::load(directory, specs, missing, &mut model.parameters)?;
        let mut unlike = Vec::new();
        for (at, spec) in specs.iter().enumerate() {
            let Some(rows) = rows.as_ref().filter(|_| stored(spec)) else {
                continue;
            };
            let reading = model.reading(at, spec);
            if !rows.fits(&reading) {
                unlike.push(spec.name.clone());
            }
            // A parameter that a layer reads as a whole must be in memory as a whole.
            let mut whole = Vec::new();
            let ids = if spec.by_row { 0 } else { spec.rows as u32 };
            rows.read(&reading, 0..ids, &mut whole)?;
            if !spec.by_row {
                model.parameters.0[at] = ParameterValues::Full(whole);
            }
        }
        model.rows = rows;
        Ok(LoadedModel { model, unlike })
    }

    fn reading<'a>(&'a self, at: usize, spec: &'a ParameterSpec) -> RowInterpretation<'a> {
        RowInterpretation {
            spec,
            initial: &self.initials[at],
            rule: &self.rules[at],
        }
    }
}

impl ForBatch for TestedModel {
    fn for_batch(&mut self, network: &Network, batch: &Batch) -> Result<&Parameters, TrainError> {
        let Some(rows) = &self.rows else {
            return Ok(&self.parameters);
        };
        for (index, wanted) in network.rows_needed(batch, |_| false) {
            let reading = self.reading(index.0, &network.parameters()[index.0]);
            if matches!(self.parameters.0[index.0], ParameterValues::Full(_)) {
                continue;
            }
            let mut read = Vec::new();
            rows.read(&reading, wanted.iter().copied(), &mut read)?;
            self.parameters.0[index.0] = ParameterValues::Rows {
                ids: wanted,
                values: read,
            };
        }
        Ok(&self.parameters)
    }
}
