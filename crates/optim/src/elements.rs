//! The element-wise operations that the methods share, and the loops that run them.
//!
//! Each method is a [`Kernel`]: what happens to one value. [`run`] provides the loop over pieces of a parameter,
//! compiled for the vector units of the machine (through `pulp`) and for the two conditions that would be expensive to
//! test per element: is there a momentum, is there a regularizer after the update. No kernel uses fused multiply-add,
//! so all variants yield the same bytes.

/// A piece of a parameter with its state and gradient; all slices but `own` and `momentum` are equally long.
pub(crate) struct ParameterPiece<'a> {
    pub value: &'a mut [f32],
    /// The method's own state vectors, one after the other.
    pub own: &'a mut [f32],
    /// The momentum, empty if there is none.
    pub momentum: &'a mut [f32],
    pub grad: &'a [f32],
}

/// The coefficients that all methods share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommonCoefficients {
    /// The scheduled rate, for the regularizers.
    pub rate: f32,
    /// The rate with the method's own correction, for the gradient.
    pub method_rate: f32,
    pub momentum: f32,
    pub clip: f32,
    /// Coefficient of the value in the gradient.
    pub l2: f32,
    /// L1 and L2 rates of the regularizer after the update.
    pub after_l1: f32,
    pub after_l2: f32,
}

impl CommonCoefficients {
    /// The gradient clipped to `[-clip, clip]`; NaN stays NaN.
    #[inline(always)]
    pub(crate) fn clip(&self, g: f32) -> f32 {
        let above = if g > self.clip { self.clip } else { g };
        if above < -self.clip {
            -self.clip
        } else {
            above
        }
    }

    /// The gradient of cost and decay.
    #[inline(always)]
    pub(crate) fn decayed(&self, g: f32, w: f32) -> f32 {
        g + self.l2 * w
    }

    /// A value moved by the method's step factor `r`, with its momentum and regularizer.
    #[inline(always)]
    pub(crate) fn moved<const MOMENTUM: bool, const REGULAR: bool>(
        &self,
        r: f32,
        g: f32,
        w: f32,
        momentum: &mut f32,
    ) -> f32 {
        let change = self.change::<MOMENTUM>(r, g, w, momentum);
        self.regularized::<REGULAR>(w + change, r)
    }

    /// The change of a value with the method's step factor `r`, its momentum included.
    #[inline(always)]
    pub(crate) fn change<const MOMENTUM: bool>(
        &self,
        r: f32,
        g: f32,
        w: f32,
        momentum: &mut f32,
    ) -> f32 {
        let down = self.method_rate * r * self.decayed(g, w);
        if MOMENTUM {
            *momentum = self.momentum * *momentum - down;
            *momentum
        } else {
            -down
        }
    }

    /// The regularizer after the update: L1 shrinks, then L2 scales, both with the method's step factor.
    #[inline(always)]
    pub(crate) fn regularized<const REGULAR: bool>(&self, w: f32, r: f32) -> f32 {
        if REGULAR {
            let rate = self.rate * r;
            shrunk(w, rate * self.after_l1) / (1.0 + rate * self.after_l2)
        } else {
            w
        }
    }
}

/// `w` moved towards zero by `by`, and no further; NaN stays NaN.
#[inline(always)]
pub(crate) fn shrunk(w: f32, by: f32) -> f32 {
    if w.abs() <= by {
        0.0
    } else {
        w - by.copysign(w)
    }
}

/// One value of a parameter and what its update needs, with `STATES` values of the method's own state.
pub(crate) struct ValueUpdate<'a, const STATES: usize> {
    /// The coefficients that all methods share.
    pub tail: &'a CommonCoefficients,
    /// The value before the update.
    pub w: f32,
    /// Its gradient, clipped.
    pub g: f32,
    /// The method's own state, updated in place.
    pub own: &'a mut [f32; STATES],
    /// The momentum, updated in place.
    pub momentum: &'a mut f32,
}

/// A method's formula, with `STATES` state values per parameter value.
pub(crate) trait Kernel<const STATES: usize>: Copy {
    /// The new value; state and momentum are updated in place. Implementations are `#[inline(always)]` so that they
    /// compile for the caller's vector unit.
    fn element<const MOMENTUM: bool, const REGULAR: bool>(self, at: ValueUpdate<'_, STATES>)
    -> f32;
}

/// Updates a piece, value by value.
#[inline(always)]
fn update<const STATES: usize, const MOMENTUM: bool, const REGULAR: bool>(
    kernel: impl Kernel<STATES>,
    tail: &CommonCoefficients,
    piece: ParameterPiece<'_>,
) {
    let n = piece.value.len();
    let (value, grad) = (&mut piece.value[..n], &piece.grad[..n]);
    let mut rest = &mut piece.own[..STATES * n];
    let states: [&mut [f32]; STATES] = std::array::from_fn(
        #[inline(always)]
        |_| {
            let (state, behind) = std::mem::take(&mut rest).split_at_mut(n);
            rest = behind;
            state
        },
    );
    let momentum = &mut piece.momentum[..if MOMENTUM { n } else { 0 }];
    for i in 0..n {
        let mut own = [0.0; STATES];
        for s in 0..STATES {
            own[s] = states[s][i];
        }
        let mut carried = if MOMENTUM { momentum[i] } else { 0.0 };
        value[i] = kernel.element::<MOMENTUM, REGULAR>(ValueUpdate {
            tail,
            w: value[i],
            g: tail.clip(grad[i]),
            own: &mut own,
            momentum: &mut carried,
        });
        for s in 0..STATES {
            states[s][i] = own[s];
        }
        if MOMENTUM {
            momentum[i] = carried;
        }
    }
}

/// What a step updates: one piece, or one piece per row.
pub(crate) trait ParameterPieces {
    /// Whether the pieces have a momentum.
    fn has_momentum(&self) -> bool;

    /// Calls `f` with each piece, and whether this is the first gradient that reaches it. Implementations are
    /// `#[inline(always)]`: the loop over many small pieces must not leave the vector unit's code.
    fn each(self, f: impl FnMut(bool, ParameterPiece<'_>));
}

/// A single piece.
pub(crate) struct One<'a> {
    pub first: bool,
    pub piece: ParameterPiece<'a>,
}

impl ParameterPieces for One<'_> {
    fn has_momentum(&self) -> bool {
        !self.piece.momentum.is_empty()
    }

    #[inline(always)]
    fn each(self, mut f: impl FnMut(bool, ParameterPiece<'_>)) {
        f(self.first, self.piece);
    }
}

/// Runs a kernel, with one version for untouched and one for touched pieces, on the machine's vector unit.
pub(crate) fn run<const STATES: usize, K: Kernel<STATES>>(
    kernel: impl Fn(bool) -> K,
    tail: &CommonCoefficients,
    pieces: impl ParameterPieces,
) {
    match (
        pieces.has_momentum(),
        tail.after_l1 != 0.0 || tail.after_l2 != 0.0,
    ) {
        (false, false) => dispatch::<STATES, K, false, false>(kernel, tail, pieces),
        (false, true) => dispatch::<STATES, K, false, true>(kernel, tail, pieces),
        (true, false) => dispatch::<STATES, K, true, false>(kernel, tail, pieces),
        (true, true) => dispatch::<STATES, K, true, true>(kernel, tail, pieces),
    }
}

fn dispatch<const STATES: usize, K: Kernel<STATES>, const MOMENTUM: bool, const REGULAR: bool>(
    kernel: impl Fn(bool) -> K,
    tail: &CommonCoefficients,
    pieces: impl ParameterPieces,
) {
    let kernels = [kernel(false), kernel(true)];
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            pieces.each(
                #[inline(always)]
                |first, piece| {
                    let kernel = kernels[usize::from(first)];
                    update::<STATES, MOMENTUM, REGULAR>(kernel, tail, piece);
                },
            );
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(clip: f32) -> CommonCoefficients {
        CommonCoefficients {
            rate: 0.1,
            method_rate: 0.1,
            momentum: 0.0,
            clip,
            l2: 0.0,
            after_l1: 0.0,
            after_l2: 0.0,
        }
    }

    #[test]
    fn clipping_keeps_what_is_not_a_number() {
        let t = tail(2.0);
        assert_eq!(t.clip(5.0), 2.0);
        assert_eq!(t.clip(-5.0), -2.0);
        assert_eq!(t.clip(1.5), 1.5);
        assert!(t.clip(f32::NAN).is_nan());
        assert_eq!(tail(f32::INFINITY).clip(1e30), 1e30);
    }

    #[test]
    fn shrinking_stops_at_zero() {
        assert_eq!(shrunk(1.0, 0.25), 0.75);
        assert_eq!(shrunk(-1.0, 0.25), -0.75);
        assert_eq!(shrunk(0.1, 0.25).to_bits(), 0.0f32.to_bits());
        assert_eq!(shrunk(-0.1, 0.25).to_bits(), 0.0f32.to_bits());
        assert_eq!(shrunk(0.7, 0.0), 0.7);
        assert!(shrunk(f32::NAN, 0.25).is_nan());
    }
}
