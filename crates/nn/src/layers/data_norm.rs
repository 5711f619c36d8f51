//! Normalises data by statistics that were computed beforehand: `y = (x - offset) · factor`, column by column.
//!
//! The parameter has five rows: minimum, 1 / range, mean, 1 / standard deviation, and 1 / power of ten. `z-score` uses
//! mean and deviation, `min-max` minimum and range, `decimal-scaling` the power of ten.

use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer, Reads, full};
use crate::parameters::ParameterIndex;

/// Normalises columns.
pub(crate) struct DataNorm {
    statistics: ParameterIndex,
    /// Row of the statistics that is subtracted, if any, and the one that is the factor.
    rows: (Option<usize>, usize),
}

/// Builds a `data_norm` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    let size = build.size();
    build.expect(build.input_sizes[0] == size, || {
        format!("input has width {}, the layer {size}", build.input_sizes[0])
    })?;
    let rows = match build.config.data_norm_strategy() {
        "z-score" => (Some(2), 3),
        "min-max" => (Some(0), 1),
        "decimal-scaling" => (None, 4),
        other => {
            return Err(build.error(format!(
                "data_norm_strategy '{other}' is not z-score, min-max or decimal-scaling"
            )));
        }
    };
    let statistics = build.input_parameter(0, 5 * size)?;
    build.expect(build.specs[statistics.0].is_static, || {
        "its parameter must be static".to_owned()
    })?;
    Ok(Box::new(DataNorm { statistics, rows }))
}

impl Layer for DataNorm {
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let x = pass.inputs.dense(0)?;
        let cols = x.cols();
        let statistics = pass.parameters.full(self.statistics)?;
        let row = |row: usize| &statistics[row * cols..(row + 1) * cols];
        let factor = row(self.rows.1);
        let y = pass.out.value_mut();
        y.copy_from(x);
        for y in y.iter_rows_mut() {
            if let Some(offset) = self.rows.0 {
                y.iter_mut().zip(row(offset)).for_each(|(y, o)| *y -= o);
            }
            y.iter_mut().zip(factor).for_each(|(y, f)| *y *= f);
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        if !pass.inputs.wants_grad(0) {
            return;
        }
        let statistics = full(pass.parameters, self.statistics);
        let to = pass.inputs.get_mut(0).grad_mut();
        let cols = to.cols();
        let factor = &statistics[self.rows.1 * cols..(self.rows.1 + 1) * cols];
        for (to, grad) in to.iter_rows_mut().zip(pass.out.grad().iter_rows()) {
            for ((to, grad), factor) in to.iter_mut().zip(grad).zip(factor) {
                *to += grad * factor;
            }
        }
    }
}
