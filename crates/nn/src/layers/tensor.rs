//! One bilinear form per output: `yₖ = f(a Wₖ bᵀ + bias)`; the weight is `size` matrices of `|a| × |b|`.

use crate::error::{BuildError, LayerError};
use crate::finish::Finish;
use crate::layer::{Backward, Build, Forward, Layer, Reads, full};
use crate::matrix::Matrix;
use crate::parameters::ParameterIndex;
use crate::product::{Accumulate, MatrixView, multiply};
use crate::simd;

/// Bilinear forms of two inputs.
pub(crate) struct Tensor {
    size: usize,
    widths: [usize; 2],
    weight: ParameterIndex,
    finish: Finish,
    product: Matrix,
}

/// Builds a `tensor` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(2..=2)?;
    let (size, widths) = (build.size(), [build.input_sizes[0], build.input_sizes[1]]);
    Ok(Box::new(Tensor {
        size,
        widths,
        weight: build.input_parameter(0, widths[0] * widths[1] * size)?,
        finish: build.finish()?,
        product: Matrix::default(),
    }))
}

impl Layer for Tensor {
    fn reads(&self) -> Reads {
        self.finish.reads()
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let [from, to] = self.widths;
        let (a, b) = (pass.inputs.dense_of(0, from)?, pass.inputs.dense_of(1, to)?);
        pass.inputs.check_rows(1, a.rows())?;
        let weight = pass.parameters.full(self.weight)?;
        let out = pass.out.value_mut();
        out.resize(a.rows(), self.size);
        self.product.resize(a.rows(), to);
        for (k, weight) in weight.chunks_exact(from * to).enumerate() {
            multiply(
                self.product.values_mut(),
                a.into(),
                MatrixView::new(weight, from, to),
                Accumulate::Overwrite,
            );
            for (row, out) in out.iter_rows_mut().enumerate() {
                out[k] = simd::dot(self.product.row(row), b.row(row));
            }
        }
        self.finish.forward(pass)
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        self.finish.backward(pass);
        let [from, to] = self.widths;
        let grad = pass.out.take_grad();
        let mut product = std::mem::take(&mut self.product);
        for k in 0..self.size {
            // g ∘ b, whose product with aᵀ is the weight's gradient and with Wₖᵀ that of a
            let b = pass.inputs.get(1).value();
            product.resize_zeroed(b.rows(), to);
            for (row, product) in product.iter_rows_mut().enumerate() {
                simd::add_scaled(product, grad.row(row)[k], b.row(row));
            }
            let a = pass.inputs.get(0).value();
            if let Some((weight, mode)) = pass.gradients.dense(self.weight) {
                // Only the first of the blocks may overwrite, and it must clear the others.
                if mode == Accumulate::Overwrite {
                    weight.fill(0.0);
                }
                let block = &mut weight[k * from * to..(k + 1) * from * to];
                multiply(
                    block,
                    MatrixView::from(a).t(),
                    MatrixView::from(&product),
                    Accumulate::Add,
                );
            }
            let block = &full(pass.parameters, self.weight)[k * from * to..(k + 1) * from * to];
            if pass.inputs.wants_grad(0) {
                let target = pass.inputs.get_mut(0).grad_target();
                multiply(
                    target.grad.values_mut(),
                    MatrixView::from(&product),
                    MatrixView::new(block, from, to).t(),
                    target.mode,
                );
            }
            if pass.inputs.wants_grad(1) {
                let a = pass.inputs.get(0).value();
                multiply(
                    product.values_mut(),
                    a.into(),
                    MatrixView::new(block, from, to),
                    Accumulate::Overwrite,
                );
                let input_grad = pass.inputs.get_mut(1).grad_mut();
                for (row, input_grad) in input_grad.iter_rows_mut().enumerate() {
                    simd::add_scaled(input_grad, grad.row(row)[k], product.row(row));
                }
            }
        }
        self.product = product;
        pass.out.put_grad(grad);
    }
}
