//! Mixed: `y = f(Σ projections + Σ operators + b)`.
//!
//! This file computes the general case. Two common cases have layers of their own: a mixed layer with only full-matrix
//! projections is a fully connected layer, and one with a single table lookup is an embedding.

use crate::error::{BuildError, LayerError};
use crate::finish::Finish;
use crate::layer::{Backward, Build, Forward, Layer, Lookup, Reads};
use crate::layers::embedding::Embedding;
use crate::layers::fc::FullyConnected;
use crate::projections::{self, Operator, Projection};

/// A sum of projections and operators.
pub(crate) struct Mixed {
    size: usize,
    projections: Vec<(usize, Box<dyn Projection>)>,
    operators: Vec<(Vec<usize>, Box<dyn Operator>)>,
    finish: Finish,
}

/// Builds a `mixed` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect(!build.input_sizes.is_empty(), || {
        "it has no input".to_owned()
    })?;
    let config = build.config;
    let kinds: Vec<&str> = config
        .inputs
        .iter()
        .map(|input| {
            input
                .proj_conf
                .as_ref()
                .map_or("", |proj| proj.r#type.as_str())
        })
        .collect();
    if config.operator_confs.is_empty()
        && kinds
            .iter()
            .all(|kind| *kind == "fc" || *kind == "trans_fc")
    {
        let transposed: Vec<bool> = kinds.iter().map(|kind| *kind == "trans_fc").collect();
        return Ok(Box::new(FullyConnected::new(build, &transposed)?));
    }
    if config.operator_confs.is_empty() && kinds == ["table"] {
        return Ok(Box::new(Embedding::new(build)?));
    }
    Ok(Box::new(Mixed::new(build)?))
}

impl Mixed {
    fn new(build: &mut Build<'_>) -> Result<Self, BuildError> {
        let (size, config) = (build.size(), build.config);
        let mut projections = Vec::new();
        for (input, input_config) in config.inputs.iter().enumerate() {
            let Some(proj) = &input_config.proj_conf else {
                continue;
            };
            build.expect(proj.output_size as usize == size, || {
                format!(
                    "projection of input {input} has {} columns, the layer {size}",
                    proj.output_size
                )
            })?;
            projections.push((input, projections::projection(build, input, proj)?));
        }
        let mut operators = Vec::new();
        for operator in &config.operator_confs {
            let built = projections::operator(build, operator)?;
            operators.push((
                operator
                    .input_indices
                    .iter()
                    .map(|&input| input as usize)
                    .collect(),
                built,
            ));
        }
        Ok(Self {
            size,
            projections,
            operators,
            finish: build.finish()?,
        })
    }
}

impl Layer for Mixed {
    fn reads(&self) -> Reads {
        let projections = self
            .projections
            .iter()
            .map(|(_, projection)| projection.reads());
        projections.fold(self.finish.reads(), Reads::max)
    }

    fn lookups(&self) -> Vec<Lookup> {
        self.projections
            .iter()
            .filter_map(|(input, projection)| {
                Some(Lookup {
                    source: *input,
                    parameter: projection.lookup()?,
                })
            })
            .collect()
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let rows = pass.inputs.get(0).data.rows();
        for input in 1..pass.inputs.len() {
            pass.inputs.check_rows(input, rows)?;
        }
        let mut out = std::mem::take(pass.out.value_mut());
        out.resize_zeroed(rows, self.size);
        for (input, projection) in &mut self.projections {
            projection.forward(pass, *input, &mut out)?;
        }
        for (inputs, operator) in &mut self.operators {
            operator.forward(pass, inputs, &mut out)?;
        }
        *pass.out.value_mut() = out;
        self.finish.forward(pass)
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        self.finish.backward(pass);
        let grad = pass.out.take_grad();
        for (input, projection) in &mut self.projections {
            projection.backward(pass, *input, &grad);
        }
        for (inputs, operator) in &mut self.operators {
            operator.backward(pass, inputs, &grad);
        }
        pass.out.put_grad(grad);
    }
}
