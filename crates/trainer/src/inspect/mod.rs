//! What a run tells about the inside of its batches, when it is asked to: statistics of layers, gradients that are
//! clipped, and what printer evaluators show.

pub mod clipping;
pub mod layers;
pub mod printing;

use std::path::Path;

use config::ModelConfig;
use nn::{Evaluators, Gradients, Network};

use crate::error::TrainError;
use crate::report::Report;
use crate::settings::Reporting;

use clipping::Clipped;
use printing::Printing;

/// Looks into batches.
pub struct Inspector {
    layer_statistics: bool,
    /// Layers whose arriving gradient is clipped, if that is to be told.
    clipped_layers: Vec<Clipped>,
    /// Parameters whose gradient is clipped, if that is to be told.
    clipped_parameters: Vec<Clipped>,
    printing: Printing,
}

impl Inspector {
    /// Tells what `reporting` asks for; files that evaluators name are relative to `directory`.
    pub fn new(model: &ModelConfig, reporting: Reporting, directory: &Path) -> Inspector {
        let asked = |told: bool, list: Vec<Clipped>| if told { list } else { Vec::new() };
        Inspector {
            layer_statistics: reporting.layer_statistics,
            clipped_layers: asked(reporting.error_clipping, clipping::of_layers(model)),
            clipped_parameters: asked(reporting.clipping, clipping::of_parameters(model)),
            printing: Printing::new(directory),
        }
    }

    /// Gives evaluators the dictionaries that they print words of.
    pub fn load_dictionaries(&self, evaluators: &mut Evaluators) -> Result<(), TrainError> {
        self.printing.load_dictionaries(evaluators)
    }

    /// After forward.
    pub fn forward(&self, network: &Network, report: &mut dyn Report) {
        if self.layer_statistics {
            layers::report(network, report);
        }
    }

    /// After backward.
    pub fn backward(&self, network: &Network, report: &mut dyn Report) {
        clipping::report_layers(&self.clipped_layers, network, report);
    }

    /// Before gradients are applied.
    pub fn gradients(&self, network: &Network, gradients: &Gradients, report: &mut dyn Report) {
        let (clipped, specs) = (&self.clipped_parameters, network.parameters());
        clipping::report_parameters(clipped, specs, gradients, report);
    }

    /// After evaluators have seen a batch.
    pub fn evaluated(
        &mut self,
        evaluators: &mut Evaluators,
        report: &mut dyn Report,
    ) -> Result<(), TrainError> {
        self.printing.show(evaluators.take_messages(), report)
    }
}
