//! Embedding: a mixed layer whose only term is a table lookup. `y[t] = f(W[id[t]] + b)`.
//!
//! Each distinct id of the batch has one row; positions point to it. What row-wise layers do above, they do once for
//! each id. The gradient has one row for each distinct id.

use crate::domain::worthwhile;
use crate::error::{BuildError, LayerError};
use crate::finish::Finish;
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::matrix::Matrix;
use crate::parameters::ParameterIndex;
use crate::rows::RowSet;
use crate::simd;

/// Looks up one row for each distinct id.
pub struct Embedding {
    table: ParameterIndex,
    rows: usize,
    touched: RowSet,
    /// Whether the output's rows are the distinct ids.
    shared: bool,
    row_grads: Matrix,
    finish: Finish,
}

impl Embedding {
    /// The embedding of the only input.
    pub fn new(build: &mut Build<'_>) -> Result<Self, BuildError> {
        let rows = build.input_sizes[0];
        Ok(Self {
            table: build.input_parameter(0, rows * build.size())?,
            rows,
            touched: RowSet::default(),
            shared: false,
            row_grads: Matrix::default(),
            finish: build.finish()?,
        })
    }
}

impl Layer for Embedding {
    fn reads(&self) -> Reads {
        self.finish.reads()
    }

    fn lookups(&self) -> Vec<(usize, ParameterIndex)> {
        vec![(0, self.table)]
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let ids = pass.inputs.get(0).ids(0)?;
        self.touched.collect(ids, self.rows)?;
        let distinct = self.touched.ids();
        self.shared = pass.share
            && self.finish.reads() == Reads::Rows
            && worthwhile(distinct.len(), ids.len());
        let spec = &pass.specs[self.table.0];
        let table = pass.parameters.table(self.table, spec);
        let wanted = if self.shared { distinct } else { ids };
        let out = pass.out.value_mut();
        out.resize(wanted.len(), spec.cols);
        for (&id, out) in wanted.iter().zip(out.iter_rows_mut()) {
            out.copy_from_slice(table.row(id)?);
        }
        if self.shared {
            pass.out.layout.rows = Some(ids.iter().map(|&id| self.touched.place(id)).collect());
        }
        self.finish.forward(pass)
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        self.finish.backward(pass);
        if self.shared {
            pass.gradients
                .add_rows(self.table, self.touched.ids(), pass.out.grad());
            return;
        }
        let Ok(ids) = pass.inputs.get(0).ids(0) else {
            unreachable!("forward read ids")
        };
        let grad = pass.out.grad();
        self.row_grads
            .resize_zeroed(self.touched.ids().len(), grad.cols());
        let (touched, row_grads) = (&self.touched, &mut self.row_grads);
        simd::vectorised(
            #[inline(always)]
            || {
                for (&id, grad) in ids.iter().zip(grad.iter_rows()) {
                    simd::add(row_grads.row_mut(touched.place(id) as usize), grad);
                }
            },
        );
        pass.gradients
            .add_rows(self.table, touched.ids(), row_grads);
    }
}
