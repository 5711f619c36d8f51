//! Seeded random numbers whose stream never changes.
//!
//! Generated data and shuffles are part of what "same seed, same bytes" promises, so the generator is
//! written out here (xoshiro256++, seeded by splitmix64; both published by Blackman and Vigna) instead of
//! being taken from a crate that may change its stream. Logarithms and cosines come from `libm`, not
//! from the platform.

use words::random::SplitMix64;

/// A deterministic stream of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct SeededRandom {
    state: [u64; 4],
}

impl SeededRandom {
    /// The stream that belongs to `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        let mut mixer = SplitMix64(seed);
        let state = std::array::from_fn(|_| mixer.next_u64());
        Self { state }
    }

    /// An independent stream for the part `name` of a job, so that one part can change without affecting the others.
    pub(crate) fn for_part(seed: u64, name: &str) -> Self {
        Self::new(xxhash_rust::xxh3::xxh3_64_with_seed(name.as_bytes(), seed))
    }

    /// The next 64 bits.
    pub(crate) fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// Uniform in `0..n`, without bias.
    ///
    /// # Panics
    /// If `n` is zero.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "a choice needs at least one possibility");
        let reject = n.wrapping_neg() % n;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            if product as u64 >= reject {
                return (product >> 64) as u64;
            }
        }
    }

    /// Uniform in `[0, 1)`, a multiple of 2^-53.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with probability `p`.
    pub(crate) fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Normally distributed, mean 0, deviation 1 (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * libm::log(1.0 - self.unit())).sqrt();
        radius * libm::cos(2.0 * std::f64::consts::PI * self.unit())
    }

    /// Uniform whole number in `low..=high`.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below((high - low + 1) as u64) as usize
    }

    /// One element, uniformly.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// Puts `items` in a random order (Fisher and Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// Draws indices with given weights.
#[derive(Debug, Clone)]
pub(crate) struct Weighted {
    /// Running sums of the weights.
    sums: Vec<f64>,
}

impl Weighted {
    /// Weights are not negative and at least one is positive.
    pub(crate) fn new(weights: impl IntoIterator<Item = f64>) -> Self {
        let mut total = 0.0;
        let sums = weights
            .into_iter()
            .map(|weight| {
                total += weight;
                total
            })
            .collect();
        Self { sums }
    }

    /// Weights of Zipf's law: item of rank r (from 0) gets `1 / (r + shift)^exponent`.
    pub(crate) fn zipf(items: usize, shift: f64, exponent: f64) -> Self {
        Self::new((0..items).map(|rank| 1.0 / libm::pow(rank as f64 + shift, exponent)))
    }

    /// One index.
    pub(crate) fn draw(&self, random: &mut SeededRandom) -> usize {
        let total = self.sums.last().copied().unwrap_or(0.0);
        let at = random.unit() * total;
        self.sums
            .partition_point(|&sum| sum <= at)
            .min(self.sums.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_pinned() {
        // Reference: the authors' C program for xoshiro256++ seeded with splitmix64(0).
        let mut random = SeededRandom::new(0);
        assert_eq!(
            [random.next_u64(), random.next_u64(), random.next_u64()],
            [0x53175d61490b23df, 0x61da6f3dc380d507, 0x5c0fdf91ec9a7bfc]
        );
    }

    #[test]
    fn below_covers_its_range_evenly() {
        let mut random = SeededRandom::new(7);
        let mut counts = [0usize; 5];
        for _ in 0..50_000 {
            counts[random.below(5) as usize] += 1;
        }
        assert!(
            counts.iter().all(|&n| (9_600..10_400).contains(&n)),
            "{counts:?}"
        );
    }

    #[test]
    fn normal_has_mean_zero_and_deviation_one() {
        let mut random = SeededRandom::new(3);
        let values: Vec<f64> = (0..40_000).map(|_| random.normal()).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance =
            values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / values.len() as f64;
        assert!(
            mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03,
            "{mean} {variance}"
        );
    }

    #[test]
    fn weights_are_followed_and_zero_weight_never_drawn() {
        let weighted = Weighted::new([1.0, 0.0, 3.0]);
        let mut random = SeededRandom::new(11);
        let mut counts = [0usize; 3];
        for _ in 0..40_000 {
            counts[weighted.draw(&mut random)] += 1;
        }
        assert_eq!(counts[1], 0);
        assert!((9_500..10_500).contains(&counts[0]), "{counts:?}");
    }

    #[test]
    fn shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..100).collect();
        SeededRandom::new(1).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
