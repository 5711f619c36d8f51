//! Random numbers as a pure function of a seed and a place, so that no order of computation can change them.

/// A source of random numbers addressed by index.
#[derive(Debug, Clone, Copy)]
pub struct Noise(u64);

impl Noise {
    /// The source of a seed.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x9e37_79b9_7f4a_7c15))
    }

    /// An independent source inside this one, for instance that of one layer.
    pub fn part(self, index: u64) -> Self {
        Self(mix(self.0 ^ mix(index.wrapping_add(0x632b_e59b_d9b4_e019))))
    }

    /// 64 random bits for place `index`.
    #[inline(always)]
    pub fn bits(self, index: u64) -> u64 {
        mix(self
            .0
            .wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// A number in [0, 1) for place `index`, a multiple of 2⁻²⁴.
    #[inline(always)]
    pub fn uniform(self, index: u64) -> f32 {
        (self.bits(index) >> 40) as f32 * (1.0 / 16_777_216.0)
    }
}

/// A bijection of 64-bit words in which every input bit reaches every output bit (splitmix's finaliser).
#[inline(always)]
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
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
