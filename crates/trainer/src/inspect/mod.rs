//! Reports details of each batch on request: statistics of layers, gradients that are clipped, and the output of
//! printer evaluators.

pub(crate) mod clipping;
pub(crate) mod layers;
pub(crate) mod printing;

use std::path::Path;

use config::ModelConfig;
use nn::{Evaluators, Gradients, Network};

use crate::error::TrainError;
use crate::report::Reporter;
use crate::settings::Reporting;

use clipping::Clipped;
use printing::Printing;

/// Reports details of each batch that the options ask for.
pub struct Inspector {
    layer_statistics: bool,
    /// Layers with error clipping; empty unless `--log_error_clipping` is set.
    clipped_layers: Vec<Clipped>,
    /// Parameters with gradient clipping; empty unless `--log_clipping` is set.
    clipped_parameters: Vec<Clipped>,
    printing: Printing,
}

impl Inspector {
    /// An inspector for the options in `reporting`; files that evaluators name are relative to `directory`.
    pub fn new(model: &ModelConfig, reporting: Reporting, directory: &Path) -> Inspector {
        let asked = |told: bool, list: Vec<Clipped>| if told { list } else { Vec::new() };
        Inspector {
            layer_statistics: reporting.layer_statistics,
            clipped_layers: asked(reporting.error_clipping, clipping::of_layers(model)),
            clipped_parameters: asked(reporting.clipping, clipping::of_parameters(model)),
            printing: Printing::new(directory),
        }
    }

    /// Loads the dictionaries whose words evaluators print.
    pub(crate) fn load_dictionaries(&self, evaluators: &mut Evaluators) -> Result<(), TrainError> {
        self.printing.load_dictionaries(evaluators)
    }

    /// Call after forward: logs statistics of layers.
    pub fn forward(&self, network: &Network, report: &mut dyn Reporter) {
        if self.layer_statistics {
            layers::report(network, report);
        }
    }

    /// Call after backward: logs clipped layers.
    pub fn backward(&self, network: &Network, report: &mut dyn Reporter) {
        clipping::report_layers(&self.clipped_layers, network, report);
    }

    /// Call before gradients are applied: logs clipped parameters.
    pub fn gradients(&self, network: &Network, gradients: &Gradients, report: &mut dyn Reporter) {
        let (clipped, specs) = (&self.clipped_parameters, network.parameters());
        clipping::report_parameters(clipped, specs, gradients, report);
    }

    /// Call after evaluators have seen a batch: shows the messages of printers.
    pub fn evaluated(
        &mut self,
        evaluators: &mut Evaluators,
        report: &mut dyn Reporter,
    ) -> Result<(), TrainError> {
        self.printing.show(evaluators.take_messages(), report)
    }
}
