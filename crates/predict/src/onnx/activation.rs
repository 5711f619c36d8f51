//! The last steps of a layer: bias, activation, and dropout, which is a constant factor when a model is applied.

use config::LayerConfig;

use super::graph::Attribute;
use super::{Done, Export, Made};

impl Export<'_> {
    /// Adds the bias, applies the activation and the factor of dropout.
    pub(super) fn finish(&mut self, layer: &LayerConfig, made: Made) -> Done<Made> {
        let mut made = made;
        // Convolutions and normalisations have added theirs, in their own shape.
        let own = ["exconv", "cudnn_conv", "batch_norm", "cudnn_batch_norm"];
        if let Some(bias) = &layer.bias_parameter_name
            && !own.contains(&layer.r#type.as_str())
        {
            let bias = self.weight(layer, Some(bias), &[made.width])?;
            made.name = self.graph.op("Add", &[&made.name, &bias], &[]);
        }
        made.name = self.activated(layer, &made)?;
        self.kept(layer, made)
    }

    /// Applies the factor of dropout.
    pub(super) fn kept(&mut self, layer: &LayerConfig, mut made: Made) -> Done<Made> {
        let rate = layer.drop_rate() as f32;
        if rate > 0.0 {
            let keep = self.graph.floats("keep", &[], &[1.0 - rate]);
            made.name = self.graph.op("Mul", &[&made.name, &keep], &[]);
        }
        Ok(made)
    }

    fn activated(&mut self, layer: &LayerConfig, made: &Made) -> Done<String> {
        let x = made.name.as_str();
        let number = |export: &mut Self, value: f32| export.graph.floats("number", &[], &[value]);
        Ok(match layer.active_type() {
            "" | "linear" | "identity" => x.to_owned(),
            "tanh" => self.graph.op("Tanh", &[x], &[]),
            "sigmoid" => self.graph.op("Sigmoid", &[x], &[]),
            "relu" => self.graph.op("Relu", &[x], &[]),
            "softmax" => self
                .graph
                .op("Softmax", &[x], &[Attribute::Int("axis", -1)]),
            "abs" => self.graph.op("Abs", &[x], &[]),
            "exponential" => self.graph.op("Exp", &[x], &[]),
            "log" => self.graph.op("Log", &[x], &[]),
            "square" => self.graph.op("Mul", &[x, x], &[]),
            "brelu" => {
                let (low, high) = (number(self, 0.0), number(self, 24.0));
                self.graph.op("Clip", &[x, &low, &high], &[])
            }
            "stanh" => {
                let (inside, outside) = (number(self, 2.0 / 3.0), number(self, 1.7159));
                let scaled = self.graph.op("Mul", &[x, &inside], &[]);
                let tanh = self.graph.op("Tanh", &[&scaled], &[]);
                self.graph.op("Mul", &[&tanh, &outside], &[])
            }
            "softrelu" => {
                let (low, high) = (number(self, -40.0), number(self, 40.0));
                let clipped = self.graph.op("Clip", &[x, &low, &high], &[]);
                self.graph.op("Softplus", &[&clipped], &[])
            }
            "sequence_softmax" => {
                let Some(sequence) = &made.sequence else {
                    return self.refuse(layer, "sequence_softmax of something that is no sequence");
                };
                let padded = self.graph.padded(x, made.width, sequence);
                let mask = self.graph.wide_mask(sequence);
                let least = number(self, f32::MIN);
                let padded = self.graph.op("Where", &[&mask, &padded, &least], &[]);
                let softmax = self
                    .graph
                    .op("Softmax", &[&padded], &[Attribute::Int("axis", 1)]);
                self.graph.rows(&softmax, sequence)
            }
            other => return self.refuse(layer, format!("activation '{other}' has no equivalent")),
        })
    }
}
