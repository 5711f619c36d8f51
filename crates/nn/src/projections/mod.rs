//! Projections and operators: the terms that a mixed layer adds up.
//!
//! A projection is a function of one input, an operator of several. Each is a small file with its formula; a new one
//! needs a line in [`PROJECTIONS`] or [`OPERATORS`] and a case in the gradient check.

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

pub(crate) use context::{ContextWindow, NeighbourValues};

/// A function of one input whose result a layer adds to its output.
pub trait Projection: Send {
    /// What its rows depend on.
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    /// The parameter whose rows the input looks up; `None` if it does not look up rows.
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
    let from = build.input_sizes[input];
    build.expect(config.input_size as usize == from, || {
        format!(
            "projection of input {input} reads {} columns, the input has {from}",
            config.input_size
        )
    })?;
    let known = PROJECTIONS.iter().find(|(kind, _)| *kind == config.r#type);
    match known {
        Some((_, make)) => make(build, input, config),
        None => Err(build.error(format!(
            "projection '{}' cannot be executed yet",
            config.r#type
        ))),
    }
}

/// Builds one type of projection.
type MakeProjection =
    fn(&mut Build<'_>, usize, &ProjectionConfig) -> Result<Box<dyn Projection>, BuildError>;

/// Every type of projection that can be executed.
pub const PROJECTIONS: &[(&str, MakeProjection)] = &[
    ("context", |build, input, config| {
        Ok(Box::new(ContextWindow::new(build, input, config)?))
    }),
    ("conv", convolution),
    ("convt", convolution),
    ("dot_mul", |build, input, config| {
        let weights = build.input_parameter(input, config.input_size as usize)?;
        Ok(Box::new(dot_mul::DotMul::new(weights)))
    }),
    ("fc", |build, input, config| {
        full_matrix(build, input, config, false)
    }),
    ("identity", |_, _, _| {
        Ok(Box::new(identity::IdentityProjection::new(0)))
    }),
    ("identity_offset", identity_offset),
    ("scaling", |build, input, _| {
        let factor = build.input_parameter(input, 1)?;
        Ok(Box::new(scaling::ScalingProjection::new(factor)))
    }),
    ("table", |build, input, config| {
        let (from, to) = (config.input_size as usize, config.output_size as usize);
        let rows = build.input_parameter(input, from * to)?;
        Ok(Box::new(table::TableLookup::new(rows, from)))
    }),
    ("trans_fc", |build, input, config| {
        full_matrix(build, input, config, true)
    }),
];

fn convolution(
    build: &mut Build<'_>,
    input: usize,
    config: &ProjectionConfig,
) -> Result<Box<dyn Projection>, BuildError> {
    let projection = convolution::ConvProjection::new(build, input, config)?;
    Ok(Box::new(projection))
}

fn full_matrix(
    build: &mut Build<'_>,
    input: usize,
    config: &ProjectionConfig,
    transposed: bool,
) -> Result<Box<dyn Projection>, BuildError> {
    let (from, to) = (config.input_size as usize, config.output_size as usize);
    let weights = build.input_parameter(input, from * to)?;
    let matrix = full_matrix::FullMatrix::new(weights, from, to, transposed);
    Ok(Box::new(matrix))
}

fn identity_offset(
    build: &mut Build<'_>,
    _input: usize,
    config: &ProjectionConfig,
) -> Result<Box<dyn Projection>, BuildError> {
    let (from, to) = (config.input_size as usize, config.output_size as usize);
    let offset = config.offset() as usize;
    build.expect(offset + to <= from, || {
        format!("columns {offset} to {} of {from} do not exist", offset + to)
    })?;
    Ok(Box::new(identity::IdentityProjection::new(offset)))
}

/// Every type of operator that can be executed.
pub const OPERATORS: &[(&str, MakeOperator)] = &[
    ("conv", conv_operator),
    ("convt", conv_operator),
    ("dot_mul", |build, config| {
        build.expect(config.input_indices.len() == 2, || {
            "dot_mul needs two inputs".to_owned()
        })?;
        let scale = config.dotmul_scale() as f32;
        Ok(Box::new(dot_mul_operator::DotMulOperator::new(scale)))
    }),
];

/// Builds one type of operator.
type MakeOperator = fn(&mut Build<'_>, &OperatorConfig) -> Result<Box<dyn Operator>, BuildError>;

fn conv_operator(
    build: &mut Build<'_>,
    config: &OperatorConfig,
) -> Result<Box<dyn Operator>, BuildError> {
    Ok(Box::new(convolution::ConvOperator::new(build, config)?))
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
    let known = OPERATORS.iter().find(|(kind, _)| *kind == config.r#type);
    match known {
        Some((_, make)) => make(build, config),
        None => Err(build.error(format!(
            "operator '{}' cannot be executed yet",
            config.r#type
        ))),
    }
}
