//! Gated recurrent units, row by row (the formulas are in [`super::gru`]): what the layer and the step have in common.

use crate::activation::Activation;
use crate::simd;

/// The functions inside a unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Functions {
    pub gate: Activation,
    pub candidate: Activation,
}

impl Functions {
    /// Sums of the two gates become their values, and `reset` the previous output behind the reset gate.
    pub(super) fn gates(self, size: usize, sums: &mut [f32], previous: &[f32], reset: &mut [f32]) {
        let usual = self.gate == Activation::Sigmoid;
        simd::for_row_blocks2(
            (sums, 3 * size),
            (reset, size),
            #[inline(always)]
            |first, sums, reset| {
                let rows = sums
                    .chunks_exact_mut(3 * size)
                    .zip(reset.chunks_exact_mut(size))
                    .zip(previous[first * size..].chunks_exact(size));
                for ((sums, reset), previous) in rows {
                    let gates = &mut sums[..2 * size];
                    if usual {
                        gates
                            .iter_mut()
                            .for_each(|x| *x = crate::functions::sigmoid(*x));
                    } else {
                        gates.iter_mut().for_each(|x| *x = self.gate.at(*x));
                    }
                    let gate = &sums[size..2 * size];
                    for j in 0..size {
                        reset[j] = gate[j] * previous[j];
                    }
                }
            },
        );
    }

    /// The sum of the candidate becomes its value, and the output is computed.
    pub(super) fn output(self, size: usize, sums: &mut [f32], previous: &[f32], out: &mut [f32]) {
        let usual = self.candidate == Activation::Tanh;
        simd::for_row_blocks2(
            (sums, 3 * size),
            (out, size),
            #[inline(always)]
            |first, sums, out| {
                let rows = sums
                    .chunks_exact_mut(3 * size)
                    .zip(out.chunks_exact_mut(size))
                    .zip(previous[first * size..].chunks_exact(size));
                for ((sums, out), previous) in rows {
                    let (update, candidate) = sums.split_at_mut(2 * size);
                    if usual {
                        candidate
                            .iter_mut()
                            .for_each(|x| *x = crate::functions::tanh(*x));
                    } else {
                        candidate
                            .iter_mut()
                            .for_each(|x| *x = self.candidate.at(*x));
                    }
                    let update = &update[..size];
                    for j in 0..size {
                        out[j] = previous[j] - update[j] * previous[j] + update[j] * candidate[j];
                    }
                }
            },
        );
    }

    /// Values of update gate and candidate become gradients of their sums, and the gradient of the output that part
    /// of the previous output's which does not pass the gates.
    pub(super) fn output_backward(
        self,
        size: usize,
        sums: &mut [f32],
        previous: &[f32],
        grad: &mut [f32],
    ) {
        simd::for_row_blocks2(
            (sums, 3 * size),
            (grad, size),
            #[inline(always)]
            |first, sums, grad| {
                let rows = sums
                    .chunks_exact_mut(3 * size)
                    .zip(grad.chunks_exact_mut(size))
                    .zip(previous[first * size..].chunks_exact(size));
                for ((sums, grad), previous) in rows {
                    let (gates, candidate) = sums.split_at_mut(2 * size);
                    let update = &mut gates[..size];
                    for j in 0..size {
                        let (u, c, g) = (update[j], candidate[j], grad[j]);
                        update[j] = g * (c - previous[j]) * self.gate.slope(u);
                        candidate[j] = g * u * self.candidate.slope(c);
                        grad[j] = g * (1.0 - u);
                    }
                }
            },
        );
    }

    /// The value of the reset gate becomes the gradient of its sum, and the previous output gets its part.
    pub(super) fn reset_backward(
        self,
        size: usize,
        sums: &mut [f32],
        previous: &[f32],
        reset_grad: &[f32],
        grad: &mut [f32],
    ) {
        simd::for_row_blocks2(
            (sums, 3 * size),
            (grad, size),
            #[inline(always)]
            |first, sums, grad| {
                let rows = sums
                    .chunks_exact_mut(3 * size)
                    .zip(grad.chunks_exact_mut(size))
                    .zip(previous[first * size..].chunks_exact(size))
                    .zip(reset_grad[first * size..].chunks_exact(size));
                for (((sums, grad), previous), reset_grad) in rows {
                    let gate = &mut sums[size..2 * size];
                    for j in 0..size {
                        let r = gate[j];
                        grad[j] += reset_grad[j] * r;
                        gate[j] = reset_grad[j] * previous[j] * self.gate.slope(r);
                    }
                }
            },
        );
    }
}
