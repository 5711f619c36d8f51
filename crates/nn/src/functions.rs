//! Elementary functions that yield the same bits on every machine, and are simple enough that loops over them
//! vectorise.
//!
//! Accuracy is a few units in the last place over the whole range (there are tests against `f64`).

/// `eˣ`; the argument is clamped to ±87, so the result is a normal number.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0; // 1.5 · 2²³: adding it rounds to an integer
    let x = clamp(x, -87.0, 87.0);
    let shifted = x * std::f32::consts::LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    let r = (x - n * 0.693_359_4) - n * -2.121_944_4e-4;
    let mut p = 1.987_569_1e-4;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 0.5;
    let e = p * r * r + r + 1.0;
    let bits = shifted.to_bits().wrapping_sub(SHIFT.to_bits());
    e * f32::from_bits(bits.wrapping_add(127) << 23)
}

/// The natural logarithm of a positive normal number; anything smaller counts as the smallest one.
#[inline(always)]
pub(crate) fn ln(x: f32) -> f32 {
    let x = if x > f32::MIN_POSITIVE {
        x
    } else {
        f32::MIN_POSITIVE
    };
    let bits = x.to_bits();
    // x = 2ᵉ · m with m in [√½, √2)
    let shifted = bits.wrapping_sub(0x3f35_04f3);
    let e = ((shifted as i32) >> 23) as f32;
    let m = f32::from_bits((shifted & 0x007f_ffff).wrapping_add(0x3f35_04f3)) - 1.0;
    let z = m * m;
    let mut p = 7.037_684e-2;
    p = p * m - 1.151_461e-1;
    p = p * m + 1.167_699_9e-1;
    p = p * m - 1.242_014_1e-1;
    p = p * m + 1.424_932_3e-1;
    p = p * m - 1.666_805_7e-1;
    p = p * m + 2.000_071_5e-1;
    p = p * m - 2.499_999_4e-1;
    p = p * m + 0.333_333_3;
    let y = m * z * p + e * -2.121_944_4e-4 - 0.5 * z;
    m + y + e * 0.693_359_4
}

/// The hyperbolic tangent.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let a = x.abs();
    let z = x * x;
    let mut p = -5.704_988_7e-3;
    p = p * z + 2.063_909e-2;
    p = p * z - 5.373_971e-2;
    p = p * z + 1.333_144_2e-1;
    p = p * z - 3.333_328e-1;
    let small = p * z * x + x;
    let large = 1.0 - 2.0 / (exp(a + a) + 1.0);
    let large = large.copysign(x);
    if a < 0.625 { small } else { large }
}

/// `1 / (1 + e⁻ˣ)`.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// `x` clamped to `[low, high]`; NaN stays NaN.
#[inline(always)]
pub(crate) fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worst(f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64, range: (f32, f32)) -> f64 {
        let n = 200_001;
        (0..n)
            .map(|i| range.0 + (range.1 - range.0) * i as f32 / (n - 1) as f32)
            .map(|x| {
                (f64::from(f(x)) - exact(f64::from(x))).abs() / exact(f64::from(x)).abs().max(1e-30)
            })
            .fold(0.0, f64::max)
    }

    #[test]
    fn functions_agree_with_f64() {
        assert!(worst(exp, f64::exp, (-86.0, 86.0)) < 3e-7);
        assert!(worst(tanh, f64::tanh, (-12.0, 12.0)) < 4e-7);
        assert!(worst(sigmoid, |x| 1.0 / (1.0 + (-x).exp()), (-80.0, 80.0)) < 4e-7);
        assert!(worst(ln, f64::ln, (1.5, 1e6)) < 3e-7);
        assert!(worst(ln, f64::ln, (1e-6, 0.7)) < 3e-7);
    }

    #[test]
    fn ends_are_finite_and_exact() {
        assert_eq!(tanh(0.0), 0.0);
        assert_eq!(tanh(100.0), 1.0);
        assert_eq!(tanh(-100.0), -1.0);
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(ln(1.0), 0.0);
        assert!(exp(1e9).is_finite() && exp(-1e9) > 0.0 && ln(0.0).is_finite());
        assert!(tanh(f32::NAN).is_nan() && sigmoid(f32::NAN).is_nan());
    }

    #[test]
    fn a_vectorised_loop_gives_the_same_bits() {
        let xs: Vec<f32> = (0..1003).map(|i| (i as f32 - 500.0) * 0.037).collect();
        let mut ys = xs.clone();
        crate::simd::for_row_blocks(&mut ys, 1, |_, ys| {
            ys.iter_mut().for_each(|y| *y = tanh(*y))
        });
        assert!(
            xs.iter()
                .zip(&ys)
                .all(|(x, y)| tanh(*x).to_bits() == y.to_bits())
        );
    }
}
