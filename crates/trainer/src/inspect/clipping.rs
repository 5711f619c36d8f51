//! `--log_clipping` and `--log_error_clipping`: one line for each gradient that exceeds its threshold.
//!
//! For parameters this is the gradient of this process, before servers add those of other trainers.

use config::ModelConfig;
use nn::{Gradient, Gradients, Network, ParameterIndex, ParameterSpec};

use crate::log::{Level, Topic};
use crate::report::Reporter;
use nn::number::general;

/// A layer or parameter whose gradient is clipped.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Clipped {
    /// Name of the layer or parameter.
    pub name: String,
    /// The greatest absolute value that clipping allows.
    pub threshold: f64,
}

impl Clipped {
    fn listed(all: impl Iterator<Item = (String, f64)>) -> Vec<Clipped> {
        all.filter(|(_, threshold)| *threshold > 0.0)
            .map(|(name, threshold)| Clipped { name, threshold })
            .collect()
    }
}

/// The layers of a model that have error clipping.
pub(crate) fn of_layers(model: &ModelConfig) -> Vec<Clipped> {
    let layers = model.layers.iter();
    Clipped::listed(layers.map(|l| (l.name.clone(), l.error_clipping_threshold())))
}

/// The parameters of a model that have gradient clipping.
pub(crate) fn of_parameters(model: &ModelConfig) -> Vec<Clipped> {
    let parameters = model.parameters.iter();
    Clipped::listed(parameters.map(|p| (p.name.clone(), p.gradient_clipping_threshold())))
}

/// Greatest and mean absolute value of a gradient.
#[derive(Default)]
struct Size {
    max: f64,
    sum: f64,
    count: u64,
}

impl Size {
    fn add(&mut self, values: &[f32]) {
        for value in values {
            let value = f64::from(value.abs());
            self.max = self.max.max(value);
            self.sum += value;
        }
        self.count += values.len() as u64;
    }

    /// ` need clipping` in v1's words, if the greatest exceeds the threshold.
    fn text(&self, what: &str, clipped: &Clipped, unit: &str) -> Option<String> {
        (self.max > clipped.threshold).then(|| {
            let (max, mean) = (general(self.max), general(self.sum / self.count as f64));
            let name = &clipped.name;
            format!("{what}={name} need clipping, max {unit}={max} avg {unit}={mean}")
        })
    }
}

/// Logs the layers whose output gradients were clipped in the last backward.
pub(crate) fn report_layers(clipped: &[Clipped], network: &Network, report: &mut dyn Reporter) {
    for layer in clipped {
        let Some(view) = network.output(&layer.name) else {
            continue;
        };
        let mut size = Size::default();
        for grad in (0..view.rows()).filter_map(|row| view.grad(row)) {
            size.add(grad);
        }
        if let Some(text) = size.text(" layer", layer, "error") {
            report.line(Level::Info, Topic::ErrorClipping, &text);
        }
    }
}

/// Logs the parameters whose gradients are about to be clipped.
pub(crate) fn report_parameters(
    clipped: &[Clipped],
    specs: &[ParameterSpec],
    gradients: &Gradients,
    report: &mut dyn Reporter,
) {
    for parameter in clipped {
        let Some(index) = specs.iter().position(|spec| spec.name == parameter.name) else {
            continue;
        };
        let (Gradient::Dense(values) | Gradient::Rows { values, .. }) =
            gradients.get(ParameterIndex(index));
        let mut size = Size::default();
        size.add(values);
        if let Some(text) = size.text("parameter", parameter, "grad") {
            report.line(Level::Info, Topic::GradientClipping, &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clipped(threshold: f64) -> Clipped {
        Clipped {
            name: "w".to_owned(),
            threshold,
        }
    }

    #[test]
    fn only_what_exceeds_its_threshold_is_told() {
        let mut size = Size::default();
        size.add(&[1.0, -3.0]);
        assert_eq!(size.text("parameter", &clipped(3.0), "grad"), None);
        assert_eq!(
            size.text("parameter", &clipped(2.5), "grad").as_deref(),
            Some("parameter=w need clipping, max grad=3 avg grad=2")
        );
    }

    #[test]
    fn a_threshold_of_zero_clips_nothing() {
        let all = [("a".to_owned(), 0.0), ("w".to_owned(), 2.0)];
        assert_eq!(Clipped::listed(all.into_iter()), [clipped(2.0)]);
    }
}
