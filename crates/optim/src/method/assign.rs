//! assign: replaces the values by those that a trainer computed.
//!
//! ```text
//! w = g
//! ```
//!
//! `g` is not a gradient but the new value of a parameter that a layer maintains itself (the moving averages of batch
//! normalisation). One trainer pushes it; in a step without a push, the value does not change. No state.

use crate::elements::ParameterPiece;

pub(crate) fn apply(piece: ParameterPiece<'_>) {
    piece.value.copy_from_slice(piece.grad);
}

#[cfg(test)]
mod tests {
    use crate::{ParameterProgress, Rule};

    #[test]
    fn the_value_is_what_was_pushed_bit_for_bit() {
        let rule = Rule::assign();
        assert!(rule.stays_without_push() && !Rule::sgd(1.0).stays_without_push());
        assert_eq!(rule.slots(), 0);
        let (mut progress, mut value) = (ParameterProgress::default(), [1.0f32, -1.0, 3.0]);
        for pushed in [[0.1f32, -0.0, 1e-40], [7.0, f32::MAX, f32::MIN_POSITIVE]] {
            let step = rule.begin(&mut progress, 10);
            rule.update(&step, &mut value, &mut [], &pushed);
            assert_eq!(value.map(f32::to_bits), pushed.map(f32::to_bits));
        }
    }
}
