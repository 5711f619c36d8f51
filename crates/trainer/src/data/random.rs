//! The generator behind the order of samples: SplitMix64, seeded by what the order depends on.

/// A stream of random numbers that is the same on every machine.
pub(crate) struct Random(u64);

impl Random {
    /// The stream of one pass of one trainer.
    pub fn new(seed: u64, pass: u64, trainer: u32) -> Self {
        let mut mixed = Self(seed ^ 0x6361_6e6f_6520_6461);
        for part in [pass, u64::from(trainer)] {
            mixed.0 = mixed.next() ^ part;
        }
        Self(mixed.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, each equally likely (Lemire's method); 0 if `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        let mut product = u128::from(self.next()) * u128::from(limit);
        let unfair = limit.wrapping_neg().checked_rem(limit).unwrap_or(0);
        while (product as u64) < unfair {
            product = u128::from(self.next()) * u128::from(limit);
        }
        (product >> 64) as u64
    }

    /// Puts a slice into random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.below(i as u64 + 1) as usize;
            items.swap(i, j);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_seed_matters() {
        let draw = |seed, pass, trainer| Random::new(seed, pass, trainer).next();
        let first = draw(1, 2, 3);
        assert_eq!(first, draw(1, 2, 3));
        for other in [draw(0, 2, 3), draw(1, 3, 3), draw(1, 2, 4), draw(1, 3, 2)] {
            assert_ne!(first, other);
        }
    }

    #[test]
    fn draws_are_spread_evenly() {
        let mut random = Random::new(7, 0, 0);
        let mut counts = [0u32; 6];
        for _ in 0..60_000 {
            counts[random.below(6) as usize] += 1;
        }
        assert!(
            counts.iter().all(|c| (9_500..10_500).contains(c)),
            "{counts:?}"
        );
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
    }
}
