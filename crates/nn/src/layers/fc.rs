//! Fully connected: `y = f(Σᵢ xᵢ Wᵢ + b)`, also for mixed layers of full-matrix projections only.
//!
//! Each input is multiplied on its own stored rows, however few they are; where inputs of different domains meet,
//! the products (not the inputs) are gathered and added. Sparse inputs add up rows of the weights.

use crate::error::{BuildError, LayerError};
use crate::finish::Finish;
use crate::kept_products::KeptProducts;
use crate::layer::{Backward, Build, Forward, Layer, Lookup, Reads, full};
use crate::matrix::{Matrix, SparseRows};
use crate::output::{OutputValues, scatter_add_rows};
use crate::parameters::ParameterIndex;
use crate::product::{Accumulate, MatrixView, multiply_weight};
use crate::rows::RowSet;
use crate::simd;

/// A fully connected layer.
pub(crate) struct FullyConnected {
    size: usize,
    weights: Vec<Weight>,
    finish: Finish,
}

/// The weight of one input.
struct Weight {
    parameter: ParameterIndex,
    /// Rows of the weight: width of the input.
    rows: usize,
    /// Whether it is stored transposed.
    transposed: bool,
    /// The product, or its gradient, on the rows of this input.
    product: Matrix,
    touched: RowSet,
    row_grads: Matrix,
    kept: KeptProducts,
}

/// Builds an `fc` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect(!build.input_sizes.is_empty(), || {
        "it has no input".to_owned()
    })?;
    let transposed = vec![false; build.input_sizes.len()];
    Ok(Box::new(FullyConnected::new(build, &transposed)?))
}

impl FullyConnected {
    /// One weight for each input, some of them stored transposed.
    pub(crate) fn new(build: &mut Build<'_>, transposed: &[bool]) -> Result<Self, BuildError> {
        let size = build.size();
        let mut weights = Vec::new();
        for (input, &transposed) in transposed.iter().enumerate() {
            let rows = build.input_sizes[input];
            weights.push(Weight {
                parameter: build.input_parameter(input, rows * size)?,
                rows,
                transposed,
                product: Matrix::default(),
                touched: RowSet::default(),
                row_grads: Matrix::default(),
                kept: KeptProducts::default(),
            });
        }
        Ok(Self {
            size,
            weights,
            finish: build.finish()?,
        })
    }
}

impl Layer for FullyConnected {
    fn reads(&self) -> Reads {
        self.finish.reads()
    }

    fn gathers(&self) -> bool {
        true
    }

    fn lookups(&self) -> Vec<Lookup> {
        self.weights
            .iter()
            .enumerate()
            .map(|(source, weight)| Lookup {
                source,
                parameter: weight.parameter,
            })
            .collect()
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let rows = match pass.inputs.index(0) {
            Some(index) => index.len(),
            None => pass.inputs.get(0).data.rows(),
        };
        pass.out.value_mut().resize(rows, self.size);
        let mut mode = Accumulate::Overwrite;
        for (input, weight) in self.weights.iter_mut().enumerate() {
            let got = pass
                .inputs
                .index(input)
                .map_or(pass.inputs.get(input).data.rows(), <[u32]>::len);
            if got != rows {
                return Err(LayerError::Rows {
                    input,
                    got,
                    want: rows,
                });
            }
            if pass.inputs.index(input).is_none() {
                let mut product = std::mem::take(pass.out.value_mut());
                let result = weight.multiply(&mut product, pass, input, mode);
                *pass.out.value_mut() = product;
                result?;
            } else {
                let mut product = std::mem::take(&mut weight.product);
                product.resize(pass.inputs.get(input).data.rows(), self.size);
                let result = weight.multiply(&mut product, pass, input, Accumulate::Overwrite);
                weight.product = product;
                result?;
                if let Some(index) = pass.inputs.index(input) {
                    gather_add(pass.out.value_mut(), &weight.product, index, mode);
                }
            }
            mode = Accumulate::Add;
        }
        self.finish.forward(pass)
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        self.finish.backward(pass);
        for (input, weight) in self.weights.iter_mut().enumerate() {
            match pass.inputs.index(input) {
                None => weight.backward(pass, input, false),
                Some(index) => {
                    weight
                        .product
                        .resize_zeroed(pass.inputs.get(input).data.rows(), self.size);
                    scatter_add_rows(&mut weight.product, pass.out.grad().values(), index);
                    weight.backward(pass, input, true);
                }
            }
        }
    }
}

impl Weight {
    /// `out = x W` on the stored rows of an input.
    fn multiply(
        &mut self,
        out: &mut Matrix,
        pass: &Forward<'_>,
        input: usize,
        mode: Accumulate,
    ) -> Result<(), LayerError> {
        let size = out.cols();
        match &pass.inputs.get(input).data {
            OutputValues::Dense(_) => {
                let x = pass.inputs.dense_of(input, self.rows)?;
                let values = pass.parameters.full(self.parameter)?;
                let weight = self.view(values, size);
                let from = (pass.packed, self.parameter, 0);
                if mode == Accumulate::Overwrite {
                    let mut kept = std::mem::take(&mut self.kept);
                    let product = kept.get(pass, input, (self.parameter, size), |x, out| {
                        multiply_weight(from, (out, size), x.into(), weight, mode);
                    });
                    let found = product.map(|found| {
                        for (out, place) in out.iter_rows_mut().zip(found.places) {
                            out.copy_from_slice(found.products.row(*place as usize));
                        }
                    });
                    self.kept = kept;
                    if found.is_some() {
                        return Ok(());
                    }
                }
                multiply_weight(from, (out.values_mut(), size), x.into(), weight, mode);
                Ok(())
            }
            OutputValues::Sparse(x) if !self.transposed => {
                if mode == Accumulate::Overwrite {
                    out.values_mut().fill(0.0);
                }
                let spec = &pass.specs[self.parameter.0];
                let table = pass.parameters.table(self.parameter, spec);
                if spec.by_row || !table.is_whole() {
                    self.touched.collect(&x.columns, self.rows)?;
                }
                if table.is_whole() {
                    sparse_product(
                        out,
                        x,
                        table.values(),
                        #[inline(always)]
                        |column| column as usize,
                    );
                    return Ok(());
                }
                let ids = self.touched.ids().iter();
                let places = ids
                    .map(|&id| table.place(id))
                    .collect::<Result<Vec<_>, _>>()?;
                let touched = &self.touched;
                let place = |column: u32| places[touched.place(column) as usize];
                sparse_product(out, x, table.values(), place);
                Ok(())
            }
            other => Err(LayerError::Kind {
                input,
                got: other.kind(),
                want: "dense or sparse rows",
            }),
        }
    }

    fn view<'a>(&self, values: &'a [f32], size: usize) -> MatrixView<'a> {
        if self.transposed {
            MatrixView::new(values, size, self.rows).t()
        } else {
            MatrixView::new(values, self.rows, size)
        }
    }

    /// Adds to the gradients of the weight and of the input, given the gradient of their product.
    fn backward(&mut self, pass: &mut Backward<'_>, input: usize, own: bool) {
        let grad = if own { &self.product } else { pass.out.grad() };
        let size = grad.cols();
        let source = pass.inputs.get_mut(input);
        match &source.data {
            OutputValues::Dense(x) => {
                let (left, right) = if self.transposed {
                    (MatrixView::from(grad), MatrixView::from(x))
                } else {
                    (MatrixView::from(x), MatrixView::from(grad))
                };
                pass.gradients.add_product(self.parameter, 0, left, right);
                if source.wants_grad {
                    let values = full(pass.parameters, self.parameter);
                    let target = source.grad_target();
                    let weight = if self.transposed {
                        MatrixView::new(values, size, self.rows)
                    } else {
                        MatrixView::new(values, self.rows, size).t()
                    };
                    let (cols, from) = (target.grad.cols(), (pass.packed, self.parameter, 0));
                    let out = (target.grad.values_mut(), cols);
                    multiply_weight(from, out, grad.into(), weight, target.mode);
                }
            }
            OutputValues::Sparse(x) => {
                if pass.gradients.by_row(self.parameter) {
                    let (touched, rows) = (&self.touched, &mut self.row_grads);
                    rows.resize_zeroed(touched.ids().len(), size);
                    sparse_gradient(rows.values_mut(), x, grad, |column| {
                        touched.place(column) as usize
                    });
                    pass.gradients.add_rows(self.parameter, touched.ids(), rows);
                } else if let Some(weight) = pass.gradients.dense_rows(self.parameter, &x.columns) {
                    sparse_gradient(
                        weight,
                        x,
                        grad,
                        #[inline(always)]
                        |column| column as usize,
                    );
                }
            }
            OutputValues::Ids(_) => unreachable!("forward refused ids"),
        }
    }
}

/// `out[r] += Σ value · weight[place(column)]` over the entries of each row (`place` is the index of a stored row).
#[inline(always)]
fn sparse_product(
    out: &mut Matrix,
    x: &SparseRows,
    weight: &[f32],
    place: impl Fn(u32) -> usize + Sync,
) {
    let size = out.cols();
    simd::for_row_blocks(
        out.values_mut(),
        size,
        #[inline(always)]
        |first, block| match size {
            1 => narrow_product::<1>(first, block, x, weight, &place),
            2 => narrow_product::<2>(first, block, x, weight, &place),
            _ => {
                for (row, out) in block.chunks_exact_mut(size).enumerate() {
                    for entry in x.range(first + row) {
                        let start = place(x.columns[entry]) * size;
                        simd::add_scaled(out, x.value(entry), &weight[start..start + size]);
                    }
                }
            }
        },
    );
}

/// [`sparse_product`] for rows so narrow that they stay in registers.
#[inline(always)]
fn narrow_product<const N: usize>(
    first: usize,
    block: &mut [f32],
    x: &SparseRows,
    weight: &[f32],
    place: &impl Fn(u32) -> usize,
) {
    let (weight, _) = weight.as_chunks::<N>();
    for (row, out) in block.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        let range = x.range(first + row);
        // A copy, since sums behind a reference would be stored after every addition.
        let mut sums = *out;
        if x.values.is_empty() {
            for &column in &x.columns[range] {
                let weight = &weight[place(column)];
                for col in 0..N {
                    sums[col] += weight[col];
                }
            }
        } else {
            for (&column, &value) in x.columns[range.clone()].iter().zip(&x.values[range]) {
                let weight = &weight[place(column)];
                for col in 0..N {
                    sums[col] += value * weight[col];
                }
            }
        }
        *out = sums;
    }
}

/// `weight[place(column)] += value · grad[r]` over the entries of each row, in order.
#[inline(always)]
fn sparse_gradient(
    weight: &mut [f32],
    x: &SparseRows,
    grad: &Matrix,
    place: impl Fn(u32) -> usize,
) {
    let size = grad.cols();
    simd::vectorised(
        #[inline(always)]
        || match size {
            1 => narrow_gradient::<1>(weight, x, grad, &place),
            2 => narrow_gradient::<2>(weight, x, grad, &place),
            _ => {
                for row in 0..x.rows() {
                    let grad = grad.row(row);
                    for entry in x.range(row) {
                        let start = place(x.columns[entry]) * size;
                        simd::add_scaled(&mut weight[start..start + size], x.value(entry), grad);
                    }
                }
            }
        },
    );
}

/// [`sparse_gradient`] for rows so narrow that they stay in registers.
#[inline(always)]
fn narrow_gradient<const N: usize>(
    weight: &mut [f32],
    x: &SparseRows,
    grad: &Matrix,
    place: &impl Fn(u32) -> usize,
) {
    let (weight, _) = weight.as_chunks_mut::<N>();
    for (row, grad) in grad.values().as_chunks::<N>().0.iter().enumerate() {
        for entry in x.range(row) {
            let (weight, value) = (&mut weight[place(x.columns[entry])], x.value(entry));
            for col in 0..N {
                weight[col] += value * grad[col];
            }
        }
    }
}

/// `out[r] (+)= product[index[r]]`.
pub(crate) fn gather_add(out: &mut Matrix, product: &Matrix, index: &[u32], mode: Accumulate) {
    let cols = out.cols();
    simd::for_row_blocks(
        out.values_mut(),
        cols,
        #[inline(always)]
        |first, block| {
            for (row, out) in block.chunks_exact_mut(cols).enumerate() {
                let from = product.row(index[first + row] as usize);
                if mode == Accumulate::Add {
                    simd::add(out, from);
                } else {
                    out.copy_from_slice(from);
                }
            }
        },
    );
}
