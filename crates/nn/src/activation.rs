//! Activation functions, forward and backward, in one file.
//!
//! Forward works in place on the rows of an output, together with the bias; backward turns the gradient of the
//! result into the gradient of the argument, in place. Names are those of v1.

use crate::functions::{clamp, exp, ln, sigmoid, tanh};
use crate::matrix::Matrix;
use crate::simd;

/// A named activation function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `x`.
    Linear,
    /// `tanh x`.
    Tanh,
    /// `1 / (1 + e⁻ˣ)`.
    Sigmoid,
    /// `eˣ / Σ eˣ` over the row.
    Softmax,
    /// `eˣ / Σ eˣ` over the sequence; rows have one column.
    SequenceSoftmax,
    /// `max(x, 0)`.
    Relu,
    /// `x` clamped to [0, 24].
    BoundedRelu,
    /// `ln(1 + eˣ)`, `x` clamped to ±40.
    SoftRelu,
    /// `1.7159 tanh(2x/3)`.
    ScaledTanh,
    /// `|x|`.
    Abs,
    /// `x²`.
    Square,
    /// `eˣ`.
    Exponential,
    /// `ln x`.
    Log,
}

const BOUND: f32 = 24.0;
const SOFT_BOUND: f32 = 40.0;
const STANH_A: f32 = 1.7159;
const STANH_B: f32 = 2.0 / 3.0;

impl Activation {
    /// The function of a v1 name; `None` if there is none.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "" | "linear" | "identity" => Self::Linear,
            "tanh" => Self::Tanh,
            "sigmoid" => Self::Sigmoid,
            "softmax" => Self::Softmax,
            "sequence_softmax" => Self::SequenceSoftmax,
            "relu" => Self::Relu,
            "brelu" => Self::BoundedRelu,
            "softrelu" => Self::SoftRelu,
            "stanh" => Self::ScaledTanh,
            "abs" => Self::Abs,
            "square" => Self::Square,
            "exponential" => Self::Exponential,
            "log" => Self::Log,
            _ => return None,
        })
    }

    /// Whether backward needs the argument, because it cannot be computed from the result.
    pub(crate) fn needs_argument(self) -> bool {
        matches!(self, Self::Abs | Self::Square | Self::Log)
    }

    /// Whether `f(x) ≤ f(y)` whenever `x ≤ y`, element by element, so that it commutes with a maximum.
    pub(crate) fn is_monotone(self) -> bool {
        matches!(
            self,
            Self::Linear
                | Self::Tanh
                | Self::Sigmoid
                | Self::Relu
                | Self::ScaledTanh
                | Self::SoftRelu
        )
    }

    /// `values = f(values + bias)`, rows of `cols`. Sequence softmax only adds the bias, see [`sequence_softmax`].
    pub fn forward(self, values: &mut [f32], cols: usize, bias: Option<&[f32]>) {
        match self {
            Self::Linear | Self::SequenceSoftmax => {
                if let Some(bias) = bias {
                    map(
                        values,
                        cols,
                        Some(bias),
                        #[inline(always)]
                        |x| x,
                    );
                }
            }
            Self::Tanh => map(values, cols, bias, tanh),
            Self::Sigmoid => map(values, cols, bias, sigmoid),
            Self::Softmax => softmax(values, cols, bias),
            Self::Relu => map(
                values,
                cols,
                bias,
                #[inline(always)]
                |x| if x > 0.0 { x } else { 0.0 },
            ),
            Self::BoundedRelu => map(
                values,
                cols,
                bias,
                #[inline(always)]
                |x| clamp(x, 0.0, BOUND),
            ),
            Self::SoftRelu => map(
                values,
                cols,
                bias,
                #[inline(always)]
                |x| ln(1.0 + exp(clamp(x, -SOFT_BOUND, SOFT_BOUND))),
            ),
            Self::ScaledTanh => map(
                values,
                cols,
                bias,
                #[inline(always)]
                |x| STANH_A * tanh(STANH_B * x),
            ),
            Self::Abs => map(values, cols, bias, f32::abs),
            Self::Square => map(
                values,
                cols,
                bias,
                #[inline(always)]
                |x| x * x,
            ),
            Self::Exponential => map(values, cols, bias, exp),
            Self::Log => map(values, cols, bias, ln),
        }
    }

    /// `grad *= f'(argument)`, given the result and, where it is needed, the argument.
    pub fn backward(self, grad: &mut [f32], result: &[f32], argument: &[f32], cols: usize) {
        match self {
            Self::Linear | Self::SequenceSoftmax => {}
            Self::Tanh => scale(
                grad,
                result,
                cols,
                #[inline(always)]
                |y| 1.0 - y * y,
            ),
            Self::Sigmoid => scale(
                grad,
                result,
                cols,
                #[inline(always)]
                |y| y * (1.0 - y),
            ),
            Self::Softmax => softmax_backward(grad, result, cols),
            Self::Relu => scale(
                grad,
                result,
                cols,
                #[inline(always)]
                |y| if y > 0.0 { 1.0 } else { 0.0 },
            ),
            Self::BoundedRelu => scale(
                grad,
                result,
                cols,
                #[inline(always)]
                |y| if y > 0.0 && y < BOUND { 1.0 } else { 0.0 },
            ),
            Self::SoftRelu => scale(
                grad,
                result,
                cols,
                #[inline(always)]
                |y| 1.0 - exp(-y),
            ),
            Self::ScaledTanh => scale(
                grad,
                result,
                cols,
                #[inline(always)]
                |y| STANH_A * STANH_B - STANH_B / STANH_A * y * y,
            ),
            Self::Abs => scale(
                grad,
                argument,
                cols,
                #[inline(always)]
                |x| {
                    if x > 0.0 {
                        1.0
                    } else if x < 0.0 {
                        -1.0
                    } else {
                        0.0
                    }
                },
            ),
            Self::Square => scale(
                grad,
                argument,
                cols,
                #[inline(always)]
                |x| 2.0 * x,
            ),
            Self::Exponential => scale(
                grad,
                result,
                cols,
                #[inline(always)]
                |y| y,
            ),
            Self::Log => scale(
                grad,
                argument,
                cols,
                #[inline(always)]
                |x| 1.0 / x,
            ),
        }
    }

    /// The value of an element-wise function at one point, for gates.
    #[inline(always)]
    pub fn at(self, x: f32) -> f32 {
        match self {
            Self::Tanh => tanh(x),
            Self::Sigmoid => sigmoid(x),
            Self::Relu => {
                if x > 0.0 {
                    x
                } else {
                    0.0
                }
            }
            Self::BoundedRelu => clamp(x, 0.0, BOUND),
            Self::SoftRelu => ln(1.0 + exp(clamp(x, -SOFT_BOUND, SOFT_BOUND))),
            Self::ScaledTanh => STANH_A * tanh(STANH_B * x),
            Self::Exponential => exp(x),
            _ => x,
        }
    }

    /// The derivative of an element-wise function where its value is `y`, for gates.
    #[inline(always)]
    pub fn slope(self, y: f32) -> f32 {
        match self {
            Self::Tanh => 1.0 - y * y,
            Self::Sigmoid => y * (1.0 - y),
            Self::Relu => {
                if y > 0.0 {
                    1.0
                } else {
                    0.0
                }
            }
            Self::BoundedRelu => {
                if y > 0.0 && y < BOUND {
                    1.0
                } else {
                    0.0
                }
            }
            Self::SoftRelu => 1.0 - exp(-y),
            Self::ScaledTanh => STANH_A * STANH_B - STANH_B / STANH_A * y * y,
            Self::Exponential => y,
            _ => 1.0,
        }
    }

    /// Whether [`Activation::at`] and [`Activation::slope`] are defined for this function.
    pub(crate) fn is_gate(self) -> bool {
        !self.needs_argument() && !matches!(self, Self::Softmax | Self::SequenceSoftmax)
    }
}

#[inline(always)]
fn map(
    values: &mut [f32],
    cols: usize,
    bias: Option<&[f32]>,
    f: impl Fn(f32) -> f32 + Send + Sync,
) {
    match bias {
        Some(bias) => simd::for_row_blocks(
            values,
            cols,
            #[inline(always)]
            |_, block| {
                for row in block.chunks_exact_mut(cols) {
                    for (value, bias) in row.iter_mut().zip(bias) {
                        *value = f(*value + bias);
                    }
                }
            },
        ),
        None => simd::for_row_blocks(
            values,
            cols,
            #[inline(always)]
            |_, block| {
                for value in block {
                    *value = f(*value);
                }
            },
        ),
    }
}

#[inline(always)]
fn scale(grad: &mut [f32], of: &[f32], cols: usize, slope: impl Fn(f32) -> f32 + Send + Sync) {
    simd::for_row_blocks(
        grad,
        cols,
        #[inline(always)]
        |first, block| {
            let start = first * cols;
            for (grad, &of) in block.iter_mut().zip(&of[start..]) {
                *grad *= slope(of);
            }
        },
    );
}

/// Softmax of one row, in place.
#[inline(always)]
pub(crate) fn softmax_row(row: &mut [f32]) {
    let max = simd::max(row);
    for x in row.iter_mut() {
        *x = exp(*x - max);
    }
    let scale = 1.0 / simd::sum(row);
    for x in row.iter_mut() {
        *x *= scale;
    }
}

fn softmax(values: &mut [f32], cols: usize, bias: Option<&[f32]>) {
    simd::for_row_blocks(
        values,
        cols,
        #[inline(always)]
        |_, block| {
            for row in block.chunks_exact_mut(cols) {
                if let Some(bias) = bias {
                    simd::add(row, bias);
                }
                softmax_row(row);
            }
        },
    );
}

fn softmax_backward(grad: &mut [f32], result: &[f32], cols: usize) {
    simd::for_row_blocks(
        grad,
        cols,
        #[inline(always)]
        |first, block| {
            for (row, grad) in block.chunks_exact_mut(cols).enumerate() {
                let y = &result[(first + row) * cols..(first + row + 1) * cols];
                softmax_row_backward(grad, y);
            }
        },
    );
}

#[inline(always)]
/// The gradient of [`softmax_row`].
pub(crate) fn softmax_row_backward(grad: &mut [f32], y: &[f32]) {
    let mean = simd::dot(grad, y);
    for (grad, y) in grad.iter_mut().zip(y) {
        *grad = y * (*grad - mean);
    }
}

/// Softmax over each sequence of a one-column matrix.
pub(crate) fn sequence_softmax(values: &mut Matrix, sequences: &[u32]) {
    for range in sequences.windows(2) {
        if range[1] > range[0] {
            softmax_row(&mut values.values_mut()[range[0] as usize..range[1] as usize]);
        }
    }
}

/// The gradient of [`sequence_softmax`].
pub(crate) fn sequence_softmax_backward(grad: &mut Matrix, result: &Matrix, sequences: &[u32]) {
    for range in sequences.windows(2) {
        let range = range[0] as usize..range[1] as usize;
        softmax_row_backward(
            &mut grad.values_mut()[range.clone()],
            &result.values()[range],
        );
    }
}
