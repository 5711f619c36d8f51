//! One LSTM cell, forward and backward, in loops that vectorise (the formulas are in [`super::lstm`]).
//!
//! The usual functions (tanh, sigmoid, tanh) have loops of their own; any others share one that selects the function
//! per value.

use std::ops::Range;

use crate::activation::Activation;

/// The functions inside a cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Functions {
    pub candidate: Activation,
    pub gate: Activation,
    pub state: Activation,
}

impl Functions {
    fn are_usual(self) -> bool {
        (self.candidate, self.gate, self.state)
            == (Activation::Tanh, Activation::Sigmoid, Activation::Tanh)
    }

    /// One row: sums of the gates become their values, and the cell is filled.
    #[inline(always)]
    pub(super) fn forward(
        self,
        size: usize,
        gates: &mut [f32],
        cell: &mut [f32],
        before: Option<&[f32]>,
        peepholes: Option<&[f32]>,
    ) {
        use crate::functions::{sigmoid, tanh};
        if self.are_usual() {
            cell_forward(size, gates, cell, before, peepholes, (tanh, sigmoid, tanh));
        } else {
            let functions = (
                #[inline(always)]
                |x| self.candidate.at(x),
                #[inline(always)]
                |x| self.gate.at(x),
                #[inline(always)]
                |x| self.state.at(x),
            );
            cell_forward(size, gates, cell, before, peepholes, functions);
        }
    }

    /// One row: values of the gates become gradients of their sums, and the gradient of the state that of the one before.
    #[allow(clippy::too_many_arguments, reason = "all that a cell knows")]
    #[inline(always)]
    pub(super) fn backward(
        self,
        size: usize,
        gates: &mut [f32],
        state_grad: &mut [f32],
        cell: &[f32],
        before: Option<&[f32]>,
        output_grad: &[f32],
        peepholes: Option<&[f32]>,
    ) {
        if self.are_usual() {
            let slopes = (
                #[inline(always)]
                |y: f32| 1.0 - y * y,
                #[inline(always)]
                |y: f32| y * (1.0 - y),
                #[inline(always)]
                |y: f32| 1.0 - y * y,
            );
            cell_backward(
                size,
                gates,
                state_grad,
                cell,
                before,
                output_grad,
                peepholes,
                slopes,
            );
        } else {
            let slopes = (
                #[inline(always)]
                |y| self.candidate.slope(y),
                #[inline(always)]
                |y| self.gate.slope(y),
                #[inline(always)]
                |y| self.state.slope(y),
            );
            cell_backward(
                size,
                gates,
                state_grad,
                cell,
                before,
                output_grad,
                peepholes,
                slopes,
            );
        }
    }
}

/// Zeros to read where there are no values: before the first step, or without peepholes.
const ZEROS: [f32; 4096] = [0.0; 4096];

/// Stretches of a cell that are not longer than [`ZEROS`].
#[inline(always)]
fn parts(size: usize) -> impl Iterator<Item = Range<usize>> {
    (0..size)
        .step_by(ZEROS.len())
        .map(move |start| start..size.min(start + ZEROS.len()))
}

/// Part of the state before and of the peepholes of input, forget and output gate.
#[inline(always)]
fn inputs<'a>(
    size: usize,
    before: Option<&'a [f32]>,
    peepholes: Option<&'a [f32]>,
    part: &Range<usize>,
) -> [&'a [f32]; 4] {
    let width = part.len();
    let zeros = &ZEROS[..];
    let peephole = |n: usize| peepholes.map_or(zeros, |all| &all[n * size + part.start..]);
    let before = before.map_or(zeros, |before| &before[part.start..]);
    [
        &before[..width],
        &peephole(0)[..width],
        &peephole(1)[..width],
        &peephole(2)[..width],
    ]
}

/// Part of candidate, input gate, forget gate and output gate.
#[inline(always)]
fn gates_of<'a>(size: usize, gates: &'a mut [f32], part: &Range<usize>) -> [&'a mut [f32]; 4] {
    let (c, rest) = gates.split_at_mut(size);
    let (i, rest) = rest.split_at_mut(size);
    let (f, o) = rest.split_at_mut(size);
    // All slices end with `[..width]`: a loop without bounds checks has no rest to compute value by value.
    let width = part.len();
    [
        &mut c[part.clone()][..width],
        &mut i[part.clone()][..width],
        &mut f[part.clone()][..width],
        &mut o[part.clone()][..width],
    ]
}

#[inline(always)]
fn cell_forward(
    size: usize,
    gates: &mut [f32],
    cell: &mut [f32],
    before: Option<&[f32]>,
    peepholes: Option<&[f32]>,
    (act, gate, state_act): (
        impl Fn(f32) -> f32,
        impl Fn(f32) -> f32,
        impl Fn(f32) -> f32,
    ),
) {
    for part in parts(size) {
        let [before, pi, pf, po] = inputs(size, before, peepholes, &part);
        let [c, i, f, o] = gates_of(size, gates, &part);
        let width = part.len();
        let (state, rest) = cell.split_at_mut(size);
        let (activated, out) = rest.split_at_mut(size);
        let (state, activated, out) = (
            &mut state[part.clone()][..width],
            &mut activated[part.clone()][..width],
            &mut out[part][..width],
        );
        for j in 0..width {
            c[j] = act(c[j]);
            i[j] = gate(i[j] + before[j] * pi[j]);
            f[j] = gate(f[j] + before[j] * pf[j]);
            state[j] = c[j] * i[j] + before[j] * f[j];
            o[j] = gate(o[j] + state[j] * po[j]);
            activated[j] = state_act(state[j]);
            out[j] = o[j] * activated[j];
        }
    }
}

#[allow(clippy::too_many_arguments, reason = "all that a cell knows")]
#[inline(always)]
fn cell_backward(
    size: usize,
    gates: &mut [f32],
    state_grad: &mut [f32],
    cell: &[f32],
    before: Option<&[f32]>,
    output_grad: &[f32],
    peepholes: Option<&[f32]>,
    (act, gate, state_act): (
        impl Fn(f32) -> f32,
        impl Fn(f32) -> f32,
        impl Fn(f32) -> f32,
    ),
) {
    for part in parts(size) {
        let [before, pi, pf, po] = inputs(size, before, peepholes, &part);
        let [c, i, f, o] = gates_of(size, gates, &part);
        let width = part.len();
        let activated = &cell[size..2 * size][part.clone()][..width];
        let output_grad = &output_grad[part.clone()][..width];
        let state_grad = &mut state_grad[part][..width];
        for j in 0..width {
            let d_o = output_grad[j] * activated[j] * gate(o[j]);
            let d_state =
                state_grad[j] + output_grad[j] * o[j] * state_act(activated[j]) + d_o * po[j];
            let d_i = d_state * c[j] * gate(i[j]);
            let d_f = d_state * before[j] * gate(f[j]);
            let d_c = d_state * i[j] * act(c[j]);
            state_grad[j] = d_state * f[j] + d_i * pi[j] + d_f * pf[j];
            c[j] = d_c;
            i[j] = d_i;
            f[j] = d_f;
            o[j] = d_o;
        }
    }
}
