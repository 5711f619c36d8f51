//! Embedding: a mixed layer whose only term is a table lookup. `y[t] = f(W[id[t]] + b)`.
//!
//! Each distinct id of the batch has one row; positions point to it. Row-wise layers above compute once per id. The
//! gradient has one row per distinct id. The id -1 has a row of zeros.

use crate::domain::worthwhile;
use crate::error::{BuildError, LayerError};
use crate::finish::Finish;
use crate::kept_products::RowOrigin;
use crate::layer::{Backward, BatchUse, Build, Forward, Layer, Lookup, Reads};
use crate::matrix::Matrix;
use crate::parameters::ParameterIndex;
use crate::rows::{NO_ROW, RowSet};
use crate::simd;

/// Looks up one row per distinct id.
pub(crate) struct Embedding {
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
    pub(crate) fn new(build: &mut Build<'_>) -> Result<Self, BuildError> {
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

    fn lookups(&self) -> Vec<Lookup> {
        vec![Lookup {
            source: 0,
            parameter: self.table,
        }]
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let ids = pass.inputs.get(0).ids(0)?;
        self.touched.collect(ids, self.rows)?;
        let distinct = self.touched.ids();
        self.shared = pass.share
            && self.finish.reads() == Reads::Rows
            && !ids.contains(&NO_ROW)
            && worthwhile(distinct.len(), ids.len());
        let spec = &pass.specs[self.table.0];
        let table = pass.parameters.table(self.table, spec);
        let wanted = if self.shared { distinct } else { ids };
        let out = pass.out.value_mut();
        out.resize(wanted.len(), spec.cols);
        for (&id, out) in wanted.iter().zip(out.iter_rows_mut()) {
            if id == NO_ROW {
                out.fill(0.0);
            } else {
                out.copy_from_slice(table.row(id)?);
            }
        }
        if self.shared {
            let place = |row: usize| self.touched.place(ids[row]);
            pass.out.layout.rows = Some(match &pass.out.layout.rows {
                Some(rows) => rows.iter().map(|&row| place(row as usize)).collect(),
                None => (0..ids.len()).map(place).collect(),
            });
        }
        let plain = self.finish.is_identity() && matches!(pass.pass, BatchUse::Test);
        let mut ids = pass
            .out
            .origin
            .take()
            .map_or_else(Vec::new, |origin| origin.ids);
        if plain && pass.parameters.shared(self.table).is_some() {
            ids.clear();
            let source = pass.inputs.get(0).ids(0)?;
            ids.extend_from_slice(if self.shared {
                self.touched.ids()
            } else {
                source
            });
            let table = self.table;
            pass.out.origin = Some(RowOrigin { table, ids });
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
                let rows = ids.iter().zip(grad.iter_rows());
                for (&id, grad) in rows.filter(|(id, _)| **id != NO_ROW) {
                    simd::add(row_grads.row_mut(touched.place(id) as usize), grad);
                }
            },
        );
        pass.gradients
            .add_rows(self.table, touched.ids(), row_grads);
    }
}
