//! Memories: the values that a step reads from the previous step; in the first step, those of the boot layer.

use crate::activation::Activation;
use crate::domain::Layout;
use crate::error::LayerError;
use crate::gradients::Gradients;
use crate::matrix::Matrix;
use crate::network::{Context, Graph};
use crate::output::{Output, OutputValues};
use crate::parameters::ParameterIndex;
use crate::simd;

/// A value that the group carries from step to step.
#[derive(Debug)]
pub(super) struct Memory {
    pub target: RememberedLayer,
    pub boot: Boot,
    /// Whether each value is a sequence.
    pub is_sequence: bool,
    pub size: usize,
}

/// The layer whose output is remembered.
#[derive(Debug, Clone, Copy)]
pub(super) enum RememberedLayer {
    /// A node of the step.
    Step(usize),
    /// A node of the wide graph: a layer that depends on no memory.
    Wide(usize),
    /// The word that a generating group chose.
    Word,
}

/// The value in the first step.
#[derive(Debug, Clone)]
pub(super) enum Boot {
    Zero,
    /// The output of a layer outside: this node of the wide graph.
    Layer(usize),
    /// A parameter behind an activation.
    Bias {
        parameter: ParameterIndex,
        activation: Activation,
    },
    /// The same id for all.
    Id(u32),
}

impl Memory {
    /// Fills the value of the first step for a boot that is not a layer.
    pub(super) fn boot(
        &self,
        out: &mut Output,
        units: usize,
        context: Context<'_>,
    ) -> Result<(), LayerError> {
        match &self.boot {
            Boot::Id(id) => {
                let ids = out.ids_mut();
                ids.clear();
                ids.resize(units, *id);
            }
            Boot::Bias {
                parameter,
                activation,
            } => {
                let bias = context.parameters.full(*parameter)?;
                let value = out.value_mut();
                value.resize_zeroed(units, self.size);
                activation.forward(value.values_mut(), self.size, Some(bias));
            }
            Boot::Zero | Boot::Layer(_) => out.value_mut().resize_zeroed(units, self.size),
        }
        Ok(())
    }

    /// Passes the gradient of the first step on to a parameter.
    pub(super) fn boot_backward(
        &self,
        out: &mut Output,
        context: Context<'_>,
        gradients: &mut Gradients,
    ) {
        let Boot::Bias {
            parameter,
            activation,
        } = self.boot
        else {
            return;
        };
        let (grad, value) = out.grad_and_value();
        let mut argument = Matrix::default();
        if activation.needs_argument() {
            argument.resize(value.rows(), self.size);
            let bias = crate::layer::full(context.parameters, parameter);
            for row in argument.iter_rows_mut() {
                row.copy_from_slice(bias);
            }
        }
        activation.backward(
            grad.values_mut(),
            value.values(),
            argument.values(),
            self.size,
        );
        if let Some((bias, mode)) = gradients.dense(parameter) {
            simd::column_sums(bias, grad.values(), mode);
        }
    }

    /// Checks that the remembered layer is a sequence if and only if the memory is one.
    pub(super) fn check(&self, layout: &Layout) -> Result<(), LayerError> {
        if layout.sequences.is_some() == self.is_sequence {
            return Ok(());
        }
        let (a, b) = if self.is_sequence {
            ("is_seq", "is not a sequence")
        } else {
            ("no is_seq", "is a sequence")
        };
        Err(LayerError::Value(format!(
            "a memory has {a}, but what it remembers {b}"
        )))
    }

    /// Copies the rows of the previous step for the units that still run.
    pub(super) fn carry(
        &self,
        before: &Graph,
        node: usize,
        units: usize,
        out: &mut Output,
    ) -> Result<(), LayerError> {
        let source = &before.outputs[node];
        self.check(&source.layout)?;
        let rows = self.rows(&source.layout, units);
        out.clear_rows(source);
        out.append(source, rows, source.layout.rows.as_deref());
        Ok(())
    }

    /// Adds the gradient of a step to that of the rows of the previous step.
    pub(super) fn carry_back(&self, before: &mut Graph, node: usize, units: usize, grad: &Output) {
        let target = &mut before.outputs[node];
        if !target.wants_grad || !matches!(target.data, OutputValues::Dense(_)) {
            return;
        }
        let rows = self.rows(&target.layout, units);
        let index = target.layout.rows.clone();
        let index = index.as_deref().map(|index| &index[..rows]);
        target.add_grad(grad.grad().values(), index);
    }

    /// Number of rows of the first `units` units.
    fn rows(&self, layout: &Layout, units: usize) -> usize {
        match &layout.sequences {
            Some(sequences) => sequences[units] as usize,
            None => units,
        }
    }
}
