//! `y += W[id]`: the row of a table for each id; nothing for the id -1.

use super::Projection;
use crate::error::LayerError;
use crate::layer::{Backward, Forward};
use crate::matrix::Matrix;
use crate::parameters::ParameterIndex;
use crate::rows::{NO_ROW, RowSet};
use crate::simd;

/// Looks rows up.
pub(super) struct TableLookup {
    table: ParameterIndex,
    rows: usize,
    touched: RowSet,
    row_grads: Matrix,
}

impl TableLookup {
    /// A lookup in a table of `rows` rows.
    pub(super) fn new(table: ParameterIndex, rows: usize) -> Self {
        Self {
            table,
            rows,
            touched: RowSet::default(),
            row_grads: Matrix::default(),
        }
    }
}

impl Projection for TableLookup {
    fn lookup(&self) -> Option<ParameterIndex> {
        Some(self.table)
    }

    fn forward(
        &mut self,
        pass: &Forward<'_>,
        input: usize,
        out: &mut Matrix,
    ) -> Result<(), LayerError> {
        let ids = pass.inputs.get(input).ids(input)?;
        self.touched.collect(ids, self.rows)?;
        let table = pass.parameters.table(self.table, &pass.specs[self.table.0]);
        let rows = ids.iter().zip(out.iter_rows_mut());
        for (&id, out) in rows.filter(|(id, _)| **id != NO_ROW) {
            simd::add(out, table.row(id)?);
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>, input: usize, grad: &Matrix) {
        let Ok(ids) = pass.inputs.get(input).ids(input) else {
            unreachable!("forward read ids")
        };
        self.row_grads
            .resize_zeroed(self.touched.ids().len(), grad.cols());
        let rows = ids.iter().zip(grad.iter_rows());
        for (&id, grad) in rows.filter(|(id, _)| **id != NO_ROW) {
            simd::add(
                self.row_grads.row_mut(self.touched.place(id) as usize),
                grad,
            );
        }
        pass.gradients
            .add_rows(self.table, self.touched.ids(), &self.row_grads);
    }
}
