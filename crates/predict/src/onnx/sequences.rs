//! Layers that work on sequences.

use config::{LayerConfig, ProjectionConfig};

use super::graph::{Attribute, Sequence};
use super::{Done, Export, Made, What};

impl Export<'_> {
    /// The sequence that a layer pools.
    fn pooled(&self, layer: &LayerConfig) -> Done<(Made, Sequence)> {
        if layer.trans_type() != "non-seq" || layer.seq_pool_stride() > 0 {
            return self.refuse(
                layer,
                "pooling of sub-sequences and with a stride has no equivalent",
            );
        }
        let source = self.dense_source(layer, 0)?;
        match source.sequence.clone() {
            Some(sequence) => Ok((source, sequence)),
            None => self.refuse(layer, "its input is not a sequence"),
        }
    }

    fn single(name: String, width: usize) -> Made {
        Made {
            name,
            width,
            sequence: None,
            what: What::Dense,
        }
    }

    /// The lengths as a column of floats, at least 1.
    fn divisors(&mut self, sequence: &Sequence) -> String {
        let one = self.graph.int(1);
        let second = self.graph.ints(&[1]);
        let lengths = self.graph.op("Max", &[&sequence.lengths, &one], &[]);
        let lengths = self
            .graph
            .op("Cast", &[&lengths], &[Attribute::Int("to", 1)]);
        self.graph.op("Unsqueeze", &[&lengths, &second], &[])
    }

    pub(super) fn maximum(&mut self, layer: &LayerConfig) -> Done<Made> {
        if layer.output_max_index() {
            return self.refuse(layer, "positions of maxima have no equivalent");
        }
        let (source, sequence) = self.pooled(layer)?;
        let padded = self.graph.padded(&source.name, source.width, &sequence);
        let mask = self.graph.wide_mask(&sequence);
        let least = self.graph.floats("least", &[], &[f32::MIN]);
        let padded = self.graph.op("Where", &[&mask, &padded, &least], &[]);
        let attributes = [Attribute::Ints("axes", &[1]), Attribute::Int("keepdims", 0)];
        let maximum = self.graph.op("ReduceMax", &[&padded], &attributes);
        // An empty sequence yields 0.
        let zero = self.graph.int(0);
        let some = self.graph.op("Greater", &[&sequence.lengths, &zero], &[]);
        let second = self.graph.ints(&[1]);
        let some = self.graph.op("Unsqueeze", &[&some, &second], &[]);
        let nothing = self.graph.floats("nothing", &[], &[0.0]);
        let name = self.graph.op("Where", &[&some, &maximum, &nothing], &[]);
        Ok(Self::single(name, source.width))
    }

    pub(super) fn average(&mut self, layer: &LayerConfig) -> Done<Made> {
        let (source, sequence) = self.pooled(layer)?;
        let padded = self.graph.padded(&source.name, source.width, &sequence);
        let second = self.graph.ints(&[1]);
        let sum = self.graph.op(
            "ReduceSum",
            &[&padded, &second],
            &[Attribute::Int("keepdims", 0)],
        );
        let name = match layer.average_strategy() {
            "sum" => sum,
            strategy => {
                let mut by = self.divisors(&sequence);
                if strategy == "squarerootn" {
                    by = self.graph.op("Sqrt", &[&by], &[]);
                }
                self.graph.op("Div", &[&sum, &by], &[])
            }
        };
        Ok(Self::single(name, source.width))
    }

    pub(super) fn last(&mut self, layer: &LayerConfig) -> Done<Made> {
        let (source, sequence) = self.pooled(layer)?;
        let padded = self.graph.padded(&source.name, source.width, &sequence);
        let zero = self.graph.int(0);
        let position = if layer.select_first() {
            self.graph.op("Mul", &[&sequence.lengths, &zero], &[])
        } else {
            let one = self.graph.int(1);
            let last = self.graph.op("Sub", &[&sequence.lengths, &one], &[]);
            self.graph.op("Max", &[&last, &zero], &[])
        };
        let second = self.graph.ints(&[1]);
        let position = self.graph.op("Unsqueeze", &[&position, &second], &[]);
        let name = self.graph.op(
            "GatherND",
            &[&padded, &position],
            &[Attribute::Int("batch_dims", 1)],
        );
        Ok(Self::single(name, source.width))
    }

    /// Inputs: a row per sample, and a sequence whose positions all get that row.
    pub(super) fn expand(&mut self, layer: &LayerConfig) -> Done<Made> {
        let rows = self.dense_source(layer, 0)?;
        let like = self.source(layer, 1)?;
        let (Some(sequence), None) = (&like.sequence, &rows.sequence) else {
            return self.refuse(
                layer,
                "only a row per sample can be expanded, to a sequence",
            );
        };
        let samples = self.graph.samples(sequence);
        let name = self.graph.op(
            "Gather",
            &[&rows.name, &samples],
            &[Attribute::Int("axis", 0)],
        );
        Ok(Made {
            name,
            width: rows.width,
            sequence: like.sequence.clone(),
            what: What::Dense,
        })
    }

    /// Neighbours side by side; zeros outside the sequence.
    pub(super) fn window(
        &mut self,
        layer: &LayerConfig,
        source: &Made,
        conf: &ProjectionConfig,
    ) -> Done<String> {
        if conf.trainable_padding() {
            return self.refuse(layer, "a window with trainable padding has no equivalent");
        }
        let Some(sequence) = source.sequence.clone() else {
            return self.refuse(layer, "a window over something that is no sequence");
        };
        let padded = self.graph.padded(&source.name, source.width, &sequence);
        let (start, length) = (
            i64::from(conf.context_start()),
            i64::from(conf.context_length()),
        );
        let (before, after) = ((-start).max(0), (start + length - 1).max(0));
        let pads = self.graph.ints(&[0, before, 0, 0, after, 0]);
        let wide = self.graph.op("Pad", &[&padded, &pads], &[]);
        let axis = self.graph.ints(&[1]);
        let one = self.graph.ints(&[1]);
        let longest = self.graph.op("Reshape", &[&sequence.longest, &one], &[]);
        let mut parts = Vec::new();
        for offset in 0..length {
            let from = self.graph.ints(&[before + start + offset]);
            let to = self.graph.op("Add", &[&from, &longest], &[]);
            parts.push(self.graph.op("Slice", &[&wide, &from, &to, &axis], &[]));
        }
        let names: Vec<&str> = parts.iter().map(String::as_str).collect();
        let joined = self
            .graph
            .op("Concat", &names, &[Attribute::Int("axis", 2)]);
        Ok(self.graph.rows(&joined, &sequence))
    }

    /// v1's LSTM gets the sums of its gates as input, so ONNX's input weight only puts them into ONNX's order; if the
    /// layer below is nothing but a product, its weight is taken instead.
    pub(super) fn lstm(&mut self, layer: &LayerConfig) -> Done<Made> {
        let usual = [
            ("active_type", layer.active_type(), "tanh"),
            ("active_gate_type", layer.active_gate_type(), "sigmoid"),
        ];
        for (field, has, wants) in usual {
            if has != wants {
                return self.refuse(layer, format!("{field} '{has}' has no equivalent"));
            }
        }
        if !["tanh", "sigmoid"].contains(&layer.active_state_type()) {
            return self.refuse(
                layer,
                format!(
                    "active_state_type '{}' has no equivalent",
                    layer.active_state_type()
                ),
            );
        }
        let size = layer.size() as usize;
        let sums = self.dense_source(layer, 0)?;
        let Some(sequence) = sums.sequence.clone() else {
            return self.refuse(layer, "its input is not a sequence");
        };
        let identity: Vec<f32> = (0..16 * size * size)
            .map(|at| {
                if at / (4 * size) == at % (4 * size) {
                    1.0
                } else {
                    0.0
                }
            })
            .collect();
        let input = gates(&identity, 4 * size, size);
        let weight = layer.inputs[0]
            .input_parameter_name
            .clone()
            .unwrap_or_default();
        let weight = gates(&self.values(layer, &weight)?, size, size);
        let bias = match &layer.bias_parameter_name {
            Some(name) => self.values(layer, name)?,
            None => vec![0.0; 7 * size],
        };
        if bias.len() != 7 * size || weight.len() != 4 * size * size {
            return self.refuse(layer, "its parameters have another shape");
        }
        // v1: candidate, input, forget, output; ONNX: input, output, forget, candidate.
        let part = |number: usize| &bias[number * size..(number + 1) * size];
        let mut sums_bias = [part(1), part(3), part(2), part(0)].concat();
        sums_bias.resize(8 * size, 0.0);
        let peepholes = [part(4), part(6), part(5)].concat();
        let w = self.graph.floats("input", &[1, 4 * size, 4 * size], &input);
        let r = self
            .graph
            .floats("recurrence", &[1, 4 * size, size], &weight);
        let b = self.graph.floats("bias", &[1, 8 * size], &sums_bias);
        let p = self.graph.floats("peepholes", &[1, 3 * size], &peepholes);
        let padded = self.graph.padded(&sums.name, sums.width, &sequence);
        let time_major = self.graph.op(
            "Transpose",
            &[&padded],
            &[Attribute::Ints("perm", &[1, 0, 2])],
        );
        let lengths = self
            .graph
            .op("Cast", &[&sequence.lengths], &[Attribute::Int("to", 6)]);
        let direction = if layer.reversed() {
            "reverse"
        } else {
            "forward"
        };
        let state = match layer.active_state_type() {
            "sigmoid" => "Sigmoid",
            _ => "Tanh",
        };
        let output = self.graph.op(
            "LSTM",
            &[&time_major, &w, &r, &b, &lengths, "", "", &p],
            &[
                Attribute::Int("hidden_size", size as i64),
                Attribute::Text("direction", direction),
                Attribute::Texts("activations", &["Sigmoid", "Tanh", state]),
            ],
        );
        let second = self.graph.ints(&[1]);
        let output = self.graph.op("Squeeze", &[&output, &second], &[]);
        let output = self.graph.op(
            "Transpose",
            &[&output],
            &[Attribute::Ints("perm", &[1, 0, 2])],
        );
        let name = self.graph.rows(&output, &sequence);
        let made = Made {
            name,
            width: size,
            sequence: Some(sequence),
            what: What::Dense,
        };
        self.kept(layer, made)
    }
}

/// A matrix `rows × 4 size` of v1's gates as `4 size × rows` of ONNX's.
fn gates(values: &[f32], rows: usize, size: usize) -> Vec<f32> {
    let mut turned = Vec::with_capacity(values.len());
    for gate in [1, 3, 2, 0] {
        for column in 0..size {
            let column = gate * size + column;
            turned.extend((0..rows).filter_map(|row| values.get(row * 4 * size + column)));
        }
    }
    turned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_put_into_onnx_s_order() {
        // One row, size 1: candidate, input, forget, output.
        assert_eq!(
            gates(&[10.0, 20.0, 30.0, 40.0], 1, 1),
            [20.0, 40.0, 30.0, 10.0]
        );
        // Two rows.
        let turned = gates(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], 2, 1);
        assert_eq!(turned, [2.0, 6.0, 4.0, 8.0, 3.0, 7.0, 1.0, 5.0]);
    }
}
