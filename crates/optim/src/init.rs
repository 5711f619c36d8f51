//! Initial values as a pure function of (seed, row, column).
//!
//! A server can compute a row when it is first requested, on any machine and in any order, and gets the same bytes as
//! from filling the whole parameter row by row. The bits come from a counter-based generator (SplitMix64's finalizer
//! over seed, row and column); a normal value is the inverse of the normal distribution (Wichura's algorithm AS 241,
//! relative error about 1e-16 before rounding to f32), which needs one uniform value and only `libm`'s logarithm and
//! root in the tails.

use serde::{Deserialize, Serialize};
use words::random::{GAMMA, mix};

/// How the initial values of a parameter are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Initial {
    /// The distribution of the values.
    pub distribution: Distribution,
    /// The parameter's own seed, see [`seed`].
    pub seed: u64,
}

/// A distribution of initial values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Distribution {
    /// The normal distribution.
    Normal {
        /// Mean of the distribution.
        mean: f64,
        /// Standard deviation of the distribution.
        std: f64,
    },
    /// Equally likely values in `[min, max)`.
    Uniform {
        /// The smallest value.
        min: f64,
        /// The upper bound, which is not reached.
        max: f64,
    },
    /// One value everywhere.
    Constant(f64),
}

impl Initial {
    /// Fills `out` with row `row`, from its first column.
    pub fn fill(&self, row: u64, out: &mut [f32]) {
        let key = mix(self.seed ^ mix(row.wrapping_add(0x5851_f42d_4c95_7f2d)));
        let uniform =
            |column: usize| unit(mix(key.wrapping_add((column as u64).wrapping_mul(GAMMA))));
        match self.distribution {
            Distribution::Normal { mean, std } if std != 0.0 => {
                for (column, out) in out.iter_mut().enumerate() {
                    *out = value(mean + std * normal(uniform(column)));
                }
            }
            Distribution::Uniform { min, max } if min != max => {
                for (column, out) in out.iter_mut().enumerate() {
                    *out = value(min + (max - min) * uniform(column));
                }
            }
            Distribution::Normal { mean: constant, .. }
            | Distribution::Uniform { min: constant, .. }
            | Distribution::Constant(constant) => out.fill(value(constant)),
        }
    }
}

/// The seed of one parameter, from the job's seed and the parameter's name.
pub fn seed(job_seed: u64, name: &str) -> u64 {
    name.bytes().fold(mix(job_seed ^ GAMMA), |hash, byte| {
        mix(hash.wrapping_mul(31).wrapping_add(u64::from(byte) + 1))
    })
}

/// The open unit interval from random bits.
fn unit(bits: u64) -> f64 {
    ((bits >> 11) as f64 + 0.5) * (1.0 / (1u64 << 53) as f64)
}

/// Rounds to f32 without a negative zero, which adding a zero gradient would turn into another bit pattern.
fn value(x: f64) -> f32 {
    x as f32 + 0.0
}

/// The inverse of the standard normal distribution at `p` in (0, 1).
fn normal(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * ratio(r, &CENTRE_ABOVE, &CENTRE_BELOW);
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    let r = libm::sqrt(-libm::log(tail));
    let x = if r <= 5.0 {
        ratio(r - 1.6, &NEAR_ABOVE, &NEAR_BELOW)
    } else {
        ratio(r - 5.0, &FAR_ABOVE, &FAR_BELOW)
    };
    x.copysign(q)
}

/// A quotient of two polynomials, coefficients from the constant upwards.
fn ratio(x: f64, above: &[f64; 8], below: &[f64; 8]) -> f64 {
    let polynomial = |c: &[f64; 8]| c.iter().rev().fold(0.0, |sum, c| sum * x + c);
    polynomial(above) / polynomial(below)
}

const CENTRE_ABOVE: [f64; 8] = [
    3.387_132_872_796_366_5,
    133.141_667_891_784_38,
    1_971.590_950_306_551_3,
    13_731.693_765_509_46,
    45_921.953_931_549_87,
    67_265.770_927_008_7,
    33_430.575_583_588_13,
    2_509.080_928_730_122_7,
];
const CENTRE_BELOW: [f64; 8] = [
    1.0,
    42.313_330_701_600_91,
    687.187_007_492_057_9,
    5_394.196_021_424_751,
    21_213.794_301_586_597,
    39_307.895_800_092_71,
    28_729.085_735_721_943,
    5_226.495_278_852_854,
];
const NEAR_ABOVE: [f64; 8] = [
    1.423_437_110_749_683_5,
    4.630_337_846_156_546,
    5.769_497_221_460_691,
    3.647_848_324_763_204_5,
    1.270_458_252_452_368_4,
    0.241_780_725_177_450_6,
    0.022_723_844_989_269_184,
    7.745_450_142_783_414e-4,
];
const NEAR_BELOW: [f64; 8] = [
    1.0,
    2.053_191_626_637_759,
    1.676_384_830_183_803_8,
    0.689_767_334_985_1,
    0.148_103_976_427_480_08,
    0.015_198_666_563_616_457,
    5.475_938_084_995_345e-4,
    1.050_750_071_644_416_9e-9,
];
const FAR_ABOVE: [f64; 8] = [
    6.657_904_643_501_103,
    5.463_784_911_164_114,
    1.784_826_539_917_291_3,
    0.296_560_571_828_504_87,
    0.026_532_189_526_576_124,
    0.001_242_660_947_388_078_4,
    2.711_555_568_743_487_6e-5,
    2.010_334_399_292_288_1e-7,
];
const FAR_BELOW: [f64; 8] = [
    1.0,
    0.599_832_206_555_888,
    0.136_929_880_922_735_8,
    0.014_875_361_290_850_615,
    7.868_691_311_456_133e-4,
    1.846_318_317_510_054_8e-5,
    1.421_511_758_316_446e-7,
    2.044_263_103_389_939_8e-15,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn initial(distribution: Distribution) -> Initial {
        Initial {
            distribution,
            seed: seed(1, "_emb.w0"),
        }
    }

    #[test]
    fn the_normal_inverse_inverts() {
        for i in 1..1000 {
            let x = (f64::from(i) - 500.0) / 70.0;
            let p = 0.5 * libm::erfc(-x / 2f64.sqrt());
            let tolerance = if x > 0.0 {
                1e-16 / (1.0 - p).max(1e-300)
            } else {
                1e-13
            };
            assert!(
                (normal(p) - x).abs() < 1e-12 + 10.0 * tolerance,
                "{x} {}",
                normal(p)
            );
        }
    }

    #[test]
    fn values_have_the_asked_mean_and_deviation() {
        let normal = initial(Distribution::Normal {
            mean: 0.5,
            std: 2.0,
        });
        let mut out = vec![0.0f32; 1000];
        let (mut sum, mut squares) = (0.0f64, 0.0f64);
        for row in 0..200 {
            normal.fill(row, &mut out);
            for x in &out {
                sum += f64::from(*x);
                squares += f64::from(*x).powi(2);
            }
        }
        let (n, mean) = (200_000.0, sum / 200_000.0);
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        assert!(((squares / n - mean * mean).sqrt() - 2.0).abs() < 0.02);
        let uniform = initial(Distribution::Uniform {
            min: -1.0,
            max: 3.0,
        });
        uniform.fill(3, &mut out);
        assert!(out.iter().all(|x| (-1.0..3.0).contains(x)));
        let mean = out.iter().sum::<f32>() / 1000.0;
        assert!((mean - 1.0).abs() < 0.15, "{mean}");
        initial(Distribution::Constant(0.25)).fill(0, &mut out);
        assert!(out.iter().all(|x| *x == 0.25));
    }

    #[test]
    fn rows_are_independent_of_order_and_width() {
        let normal = initial(Distribution::Normal {
            mean: 0.0,
            std: 1.0,
        });
        let (mut wide, mut narrow, mut other) = ([0.0f32; 9], [0.0f32; 4], [0.0f32; 9]);
        normal.fill(17, &mut wide);
        normal.fill(17, &mut narrow);
        normal.fill(18, &mut other);
        assert_eq!(wide[..4], narrow);
        assert!(wide.iter().zip(&other).all(|(a, b)| a != b));
    }

    #[test]
    fn names_and_job_seeds_give_different_seeds() {
        let seeds = [
            seed(0, ""),
            seed(0, "a"),
            seed(0, "b"),
            seed(1, "a"),
            seed(0, "ab"),
            seed(0, "ba"),
        ];
        for (i, a) in seeds.iter().enumerate() {
            assert!(seeds[i + 1..].iter().all(|b| a != b));
        }
    }

    /// The expected values were computed by Python's `statistics.NormalDist().inv_cdf` from the same bits.
    #[test]
    fn the_values_of_a_seed_never_change() {
        let normal = initial(Distribution::Normal {
            mean: 0.0,
            std: 1.0,
        });
        let mut out = [0.0f32; 4];
        normal.fill(2, &mut out);
        let want = [
            -1.0002756880463344,
            -1.261800884188753,
            -0.19875094956739842,
            0.33060160131088084,
        ];
        assert_eq!(out, want.map(|x: f64| x as f32));
    }
}
