//! add: adds the changes that trainers computed locally (exchanged every few batches).
//!
//! ```text
//! w += rate*g
//! ```
//!
//! `g` is a difference of values, not a gradient, and `rate` is v1's `delta_add_rate`. Schedule, decay, momentum and
//! clipping are applied by the trainers and not here, as in v1. No state besides the average. By row: equal.

use crate::elements::ParameterPiece;

pub(crate) fn apply(rate: f64, piece: ParameterPiece<'_>) {
    let rate = rate as f32;
    pulp::Arch::new().dispatch(|| {
        for (w, g) in piece.value.iter_mut().zip(piece.grad) {
            *w += rate * g;
        }
    });
}

#[cfg(test)]
mod tests {
    use crate::method::reference;
    use crate::{Method, ParameterProgress, Rule};

    const METHOD: Method = Method::Add { rate: 0.5 };

    #[test]
    fn adds_the_difference_and_nothing_else() {
        let rule = Rule {
            method: METHOD,
            clip: 1.0,
            l1: 0.5,
            l2: 0.5,
            momentum: 0.9,
            ..Rule::sgd(0.1)
        };
        assert_eq!(rule.slots(), 0);
        let (mut progress, mut value) = (ParameterProgress::default(), [1.0f32, -1.0]);
        for _ in 0..100 {
            let step = rule.begin(&mut progress, 10);
            rule.update(&step, &mut value, &mut [], &[2.0, 0.25]);
        }
        assert_eq!(value, [101.0, 11.5]);
        let (mut row, mut last) = (vec![1.0f32], 0);
        rule.catch_up(&progress, &mut row, &mut last);
        assert_eq!(row, [1.0]);
    }

    #[test]
    fn blocks_and_rows() {
        reference::blocks(METHOD);
        reference::rows_equal_dense_exactly(METHOD);
    }
}
