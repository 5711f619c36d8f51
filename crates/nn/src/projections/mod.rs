//! Projections and operators: the terms that a mixed layer adds up.
//!
//! A projection is a function of one input, an operator of several. Each is a small file with its formula; a new one
//! needs a line in [`projection`] or [`operator`] and a case in the gradient check.

mod context;
mod convolution;
mod dot_mul;
mod dot_mul_operator;
mod full_matrix;
mod identity;
mod scaling;
mod table;

use config::{OperatorConfig, ProjectionConfig};

use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Reads};
use crate::matrix::Matrix;
use crate::parameters::ParameterIndex;

pub(crate) use context::{ContextWindow, Neighbour};

/// A function of one input whose result a layer adds to its output.
pub trait Projection: Send {
    /// How far it looks.
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    /// The parameter whose rows the input looks up, if it does.
    fn lookup(&self) -> Option<ParameterIndex> {
        None
    }

    /// `out += ` the projection of input `input`; `out` has the projection's output width.
    fn forward(
        &mut self,
        pass: &Forward<'_>,
        input: usize,
        out: &mut Matrix,
    ) -> Result<(), LayerError>;

    /// Adds to the gradients of the input and the parameter, given the gradient of the result.
    fn backward(&mut self, pass: &mut Backward<'_>, input: usize, grad: &Matrix);
}

/// A function of several inputs whose result a layer adds to its output.
pub trait Operator: Send {
    /// `out += ` the result.
    fn forward(
        &mut self,
        pass: &Forward<'_>,
        inputs: &[usize],
        out: &mut Matrix,
    ) -> Result<(), LayerError>;

    /// Adds to the gradients of the inputs, given the gradient of the result.
    fn backward(&mut self, pass: &mut Backward<'_>, inputs: &[usize], grad: &Matrix);
}

/// Builds the projection on an input.
pub fn projection(
    build: &mut Build<'_>,
    input: usize,
    config: &ProjectionConfig,
) -> Result<Box<dyn Projection>, BuildError> {
    let (from, to) = (build.input_sizes[input], config.output_size as usize);
    build.expect(config.input_size as usize == from, || {
        format!(
            "projection of input {input} reads {} columns, the input has {from}",
            config.input_size
        )
    })?;
    Ok(match config.r#type.as_str() {
        "fc" => Box::new(full_matrix::FullMatrix::new(
            build.input_parameter(input, from * to)?,
            from,
            to,
            false,
        )),
        "trans_fc" => Box::new(full_matrix::FullMatrix::new(
            build.input_parameter(input, from * to)?,
            from,
            to,
            true,
        )),
        "table" => Box::new(table::TableLookup::new(
            build.input_parameter(input, from * to)?,
            from,
        )),
        "identity" => Box::new(identity::Identity::new(0)),
        "identity_offset" => {
            let offset = config.offset() as usize;
            build.expect(offset + to <= from, || {
                format!("columns {offset} to {} of {from} do not exist", offset + to)
            })?;
            Box::new(identity::Identity::new(offset))
        }
        "dot_mul" => Box::new(dot_mul::DotMul::new(build.input_parameter(input, from)?)),
        "scaling" => Box::new(scaling::Scaling::new(build.input_parameter(input, 1)?)),
        "context" => Box::new(ContextWindow::new(build, input, config)?),
        "conv" | "convt" => Box::new(convolution::ConvProjection::new(build, input, config)?),
        other => return Err(build.error(format!("projection '{other}' cannot be executed yet"))),
    })
}

/// Builds an operator.
pub fn operator(
    build: &mut Build<'_>,
    config: &OperatorConfig,
) -> Result<Box<dyn Operator>, BuildError> {
    for &input in &config.input_indices {
        let known = usize::try_from(input).is_ok_and(|input| input < build.input_sizes.len());
        build.expect(known, || {
            format!("operator reads input {input}, which does not exist")
        })?;
    }
    match config.r#type.as_str() {
        "dot_mul" => {
            build.expect(config.input_indices.len() == 2, || {
                "dot_mul needs two inputs".to_owned()
            })?;
            Ok(Box::new(dot_mul_operator::DotMulOperator::new(
                config.dotmul_scale() as f32,
            )))
        }
        "conv" | "convt" => Ok(Box::new(convolution::ConvOperator::new(build, config)?)),
        other => Err(build.error(format!("operator '{other}' cannot be executed yet"))),
    }
}
