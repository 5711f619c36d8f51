//! Layers that work on single rows, and projections.

use config::{LayerConfig, ProjectionConfig};

use super::graph::Attribute;
use super::{Done, Export, Made, What};

impl Export<'_> {
    fn number(&mut self, value: f32) -> String {
        self.graph.floats("number", &[], &[value])
    }

    /// The first of some layers' rows, with another name and width.
    fn like(made: &Made, name: String, width: usize) -> Made {
        Made {
            name,
            width,
            sequence: made.sequence.clone(),
            what: What::Dense,
        }
    }

    /// Adds the contributions of a layer's inputs.
    fn sum(&mut self, layer: &LayerConfig, parts: Vec<Made>) -> Done<Made> {
        let mut parts = parts.into_iter();
        let Some(mut sum) = parts.next() else {
            return self.refuse(layer, "it has no input");
        };
        for part in parts {
            sum.name = self.graph.op("Add", &[&sum.name, &part.name], &[]);
        }
        Ok(sum)
    }

    /// `x W` of a dense or sparse input.
    fn product(&mut self, layer: &LayerConfig, at: usize, from: usize, to: usize) -> Done<Made> {
        let source = self.source(layer, at)?;
        let weight = self.input_weight(layer, at, &[from, to])?;
        let name = match (&source.what, &source.sequence) {
            (What::Dense, _) => self.graph.op("MatMul", &[&source.name, &weight], &[]),
            (What::Sparse(values), Some(sequence)) => {
                let axis = Attribute::Int("axis", 0);
                let mut rows = self.graph.op("Gather", &[&weight, &source.name], &[axis]);
                if let Some(values) = values {
                    let second = self.graph.ints(&[1]);
                    let column = self.graph.op("Unsqueeze", &[values, &second], &[]);
                    rows = self.graph.op("Mul", &[&rows, &column], &[]);
                }
                let padded = self.graph.padded(&rows, to, sequence);
                let second = self.graph.ints(&[1]);
                let sum = self.graph.op(
                    "ReduceSum",
                    &[&padded, &second],
                    &[Attribute::Int("keepdims", 0)],
                );
                return Ok(Made {
                    name: sum,
                    width: to,
                    sequence: None,
                    what: What::Dense,
                });
            }
            _ => return self.refuse(layer, "ids are multiplied with a matrix"),
        };
        Ok(Self::like(&source, name, to))
    }

    pub(super) fn fc(&mut self, layer: &LayerConfig) -> Done<Made> {
        let size = layer.size() as usize;
        let mut parts = Vec::new();
        for at in 0..layer.inputs.len() {
            let from = self.source(layer, at)?.width;
            parts.push(self.product(layer, at, from, size)?);
        }
        self.sum(layer, parts)
    }

    pub(super) fn mixed(&mut self, layer: &LayerConfig) -> Done<Made> {
        let mut parts = Vec::new();
        for (at, input) in layer.inputs.iter().enumerate() {
            if let Some(projection) = &input.proj_conf {
                parts.push(self.projection(layer, at, projection)?);
            }
        }
        for operator in &layer.operator_confs {
            if operator.r#type != "dot_mul" || operator.input_indices.len() != 2 {
                let reason = format!("operator '{}' has no equivalent", operator.r#type);
                return self.refuse(layer, reason);
            }
            let a = self.dense_source(layer, operator.input_indices[0] as usize)?;
            let b = self.dense_source(layer, operator.input_indices[1] as usize)?;
            let scale = self.number(operator.dotmul_scale() as f32);
            let product = self.graph.op("Mul", &[&a.name, &b.name], &[]);
            let name = self.graph.op("Mul", &[&product, &scale], &[]);
            let width = a.width;
            parts.push(Self::like(&a, name, width));
        }
        self.sum(layer, parts)
    }

    fn projection(
        &mut self,
        layer: &LayerConfig,
        at: usize,
        conf: &ProjectionConfig,
    ) -> Done<Made> {
        let (from, to) = (conf.input_size as usize, conf.output_size as usize);
        match conf.r#type.as_str() {
            "fc" => return self.product(layer, at, from, to),
            "table" => {
                let ids = self.source(layer, at)?;
                if ids.what != What::Ids {
                    return self
                        .refuse(layer, "a table is looked up with something that is not ids");
                }
                let table = self.input_weight(layer, at, &[from, to])?;
                let axis = Attribute::Int("axis", 0);
                let rows = self.graph.op("Gather", &[&table, &ids.name], &[axis]);
                return Ok(Self::like(&ids, rows, to));
            }
            _ => {}
        }
        let source = self.dense_source(layer, at)?;
        let name = match conf.r#type.as_str() {
            "identity" => source.name.clone(),
            "identity_offset" => {
                let offset = conf.offset() as i64;
                let start = self.graph.ints(&[offset]);
                let end = self.graph.ints(&[offset + to as i64]);
                let axis = self.graph.ints(&[1]);
                self.graph
                    .op("Slice", &[&source.name, &start, &end, &axis], &[])
            }
            "dot_mul" => {
                let weight = self.input_weight(layer, at, &[to])?;
                self.graph.op("Mul", &[&source.name, &weight], &[])
            }
            "scaling" => {
                let weight = self.input_weight(layer, at, &[1])?;
                self.graph.op("Mul", &[&source.name, &weight], &[])
            }
            "trans_fc" => {
                let weight = self.input_weight(layer, at, &[to, from])?;
                let turned =
                    self.graph
                        .op("Transpose", &[&weight], &[Attribute::Ints("perm", &[1, 0])]);
                self.graph.op("MatMul", &[&source.name, &turned], &[])
            }
            "context" => self.window(layer, &source, conf)?,
            other => {
                return self.refuse(layer, format!("projection '{other}' has no equivalent"));
            }
        };
        Ok(Self::like(&source, name, to))
    }

    pub(super) fn addto(&mut self, layer: &LayerConfig) -> Done<Made> {
        let parts = (0..layer.inputs.len()).map(|at| self.dense_source(layer, at));
        let parts = parts.collect::<Done<Vec<_>>>()?;
        self.sum(layer, parts)
    }

    fn side_by_side(&mut self, layer: &LayerConfig, parts: &[Made]) -> Done<Made> {
        let Some(first) = parts.first() else {
            return self.refuse(layer, "it has no input");
        };
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        let name = self
            .graph
            .op("Concat", &names, &[Attribute::Int("axis", 1)]);
        let width = parts.iter().map(|part| part.width).sum();
        Ok(Self::like(first, name, width))
    }

    pub(super) fn concat(&mut self, layer: &LayerConfig) -> Done<Made> {
        let parts = (0..layer.inputs.len()).map(|at| self.dense_source(layer, at));
        let parts = parts.collect::<Done<Vec<_>>>()?;
        self.side_by_side(layer, &parts)
    }

    pub(super) fn concat_projections(&mut self, layer: &LayerConfig) -> Done<Made> {
        let mut parts = Vec::new();
        for (at, input) in layer.inputs.iter().enumerate() {
            let Some(projection) = &input.proj_conf else {
                return self.refuse(layer, "an input has no projection");
            };
            parts.push(self.projection(layer, at, projection)?);
        }
        self.side_by_side(layer, &parts)
    }

    pub(super) fn cos(&mut self, layer: &LayerConfig) -> Done<Made> {
        let (a, b) = (self.dense_source(layer, 0)?, self.dense_source(layer, 1)?);
        let axis = self.graph.ints(&[1]);
        let total = |export: &mut Self, x: &str, y: &str| {
            let product = export.graph.op("Mul", &[x, y], &[]);
            export.graph.op(
                "ReduceSum",
                &[&product, &axis],
                &[Attribute::Int("keepdims", 1)],
            )
        };
        let product = total(self, &a.name, &b.name);
        let (own, other) = (total(self, &a.name, &a.name), total(self, &b.name, &b.name));
        let lengths = self.graph.op("Mul", &[&own, &other], &[]);
        let lengths = self.graph.op("Sqrt", &[&lengths], &[]);
        // Rows of zeros have similarity 0.
        let least = self.number(1e-30);
        let lengths = self.graph.op("Max", &[&lengths, &least], &[]);
        let cosine = self.graph.op("Div", &[&product, &lengths], &[]);
        let scale = self.number(layer.cos_scale.unwrap_or(1.0) as f32);
        let name = self.graph.op("Mul", &[&cosine, &scale], &[]);
        Ok(Self::like(&a, name, 1))
    }

    pub(super) fn maxid(&mut self, layer: &LayerConfig) -> Done<Made> {
        let source = self.dense_source(layer, 0)?;
        let attributes = [Attribute::Int("axis", 1), Attribute::Int("keepdims", 0)];
        let name = self.graph.op("ArgMax", &[&source.name], &attributes);
        Ok(Made {
            what: What::Ids,
            ..Self::like(&source, name, 1)
        })
    }

    pub(super) fn slope(&mut self, layer: &LayerConfig) -> Done<Made> {
        let source = self.dense_source(layer, 0)?;
        let slope = self.number(layer.slope.unwrap_or(1.0) as f32);
        let intercept = self.number(layer.intercept.unwrap_or(0.0) as f32);
        let scaled = self.graph.op("Mul", &[&source.name, &slope], &[]);
        let name = self.graph.op("Add", &[&scaled, &intercept], &[]);
        Ok(Self::like(&source, name, source.width))
    }

    /// Inputs: a weight per row, and rows.
    pub(super) fn scaling(&mut self, layer: &LayerConfig) -> Done<Made> {
        let (weight, rows) = (self.dense_source(layer, 0)?, self.dense_source(layer, 1)?);
        let name = self.graph.op("Mul", &[&rows.name, &weight.name], &[]);
        Ok(Self::like(&rows, name, rows.width))
    }

    /// Inputs: a weight `w` per row, `a` and `b`: `w a + (1 - w) b`.
    pub(super) fn interpolation(&mut self, layer: &LayerConfig) -> Done<Made> {
        let weight = self.dense_source(layer, 0)?;
        let (a, b) = (self.dense_source(layer, 1)?, self.dense_source(layer, 2)?);
        let difference = self.graph.op("Sub", &[&a.name, &b.name], &[]);
        let scaled = self.graph.op("Mul", &[&difference, &weight.name], &[]);
        let name = self.graph.op("Add", &[&b.name, &scaled], &[]);
        Ok(Self::like(&a, name, a.width))
    }

    /// Inputs: an exponent per row, and rows.
    pub(super) fn power(&mut self, layer: &LayerConfig) -> Done<Made> {
        let (exponent, rows) = (self.dense_source(layer, 0)?, self.dense_source(layer, 1)?);
        let name = self.graph.op("Pow", &[&rows.name, &exponent.name], &[]);
        Ok(Self::like(&rows, name, rows.width))
    }

    pub(super) fn sum_to_one(&mut self, layer: &LayerConfig) -> Done<Made> {
        let source = self.dense_source(layer, 0)?;
        let axis = self.graph.ints(&[1]);
        let sum = self.graph.op(
            "ReduceSum",
            &[&source.name, &axis],
            &[Attribute::Int("keepdims", 1)],
        );
        let name = self.graph.op("Div", &[&source.name, &sum], &[]);
        Ok(Self::like(&source, name, source.width))
    }
}
