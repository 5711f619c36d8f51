//! Random numbers as a pure function of a seed and an index, so that the order of computation cannot change them.

use words::random::{GAMMA, mix};

/// A source of random numbers addressed by index.
#[derive(Debug, Clone, Copy)]
pub struct Noise(u64);

impl Noise {
    /// The source for a seed.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed ^ GAMMA))
    }

    /// An independent source inside this one, for instance that of one layer.
    pub fn part(self, index: u64) -> Self {
        Self(mix(self.0 ^ mix(index.wrapping_add(0x632b_e59b_d9b4_e019))))
    }

    /// 64 random bits for `index`.
    #[inline(always)]
    pub fn bits(self, index: u64) -> u64 {
        mix(self.0.wrapping_add(index.wrapping_mul(GAMMA)))
    }

    /// A number in [0, 1) for `index`, a multiple of 2⁻²⁴.
    #[inline(always)]
    pub fn uniform(self, index: u64) -> f32 {
        (self.bits(index) >> 40) as f32 * (1.0 / 16_777_216.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_numbers_are_uniform_and_repeatable() {
        let noise = Noise::new(7).part(3);
        let n = 20_000;
        let mean = (0..n).map(|i| f64::from(noise.uniform(i))).sum::<f64>() / n as f64;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        assert_eq!(noise.uniform(5), Noise::new(7).part(3).uniform(5));
        assert_ne!(noise.uniform(5), Noise::new(7).part(4).uniform(5));
    }
}
