//! The random generator for the order of samples: SplitMix64, seeded with seed, pass and trainer.

use words::random::SplitMix64;

/// A stream of random numbers that is the same on every machine.
pub(crate) struct DataRandom(SplitMix64);

impl DataRandom {
    /// The stream of one pass of one trainer.
    pub(super) fn new(seed: u64, pass: u64, trainer: u32) -> Self {
        let mut mixed = SplitMix64(seed ^ 0x6361_6e6f_6520_6461);
        for part in [pass, u64::from(trainer)] {
            mixed.0 = mixed.next_u64() ^ part;
        }
        Self(SplitMix64(mixed.next_u64()))
    }

    /// A number below `limit`, each equally likely (Lemire's method); 0 if `limit` is 0.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        let mut product = u128::from(self.0.next_u64()) * u128::from(limit);
        let unfair = limit.wrapping_neg().checked_rem(limit).unwrap_or(0);
        while (product as u64) < unfair {
            product = u128::from(self.0.next_u64()) * u128::from(limit);
        }
        (product >> 64) as u64
    }

    /// Shuffles a slice.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
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
        let draw = |seed, pass, trainer| DataRandom::new(seed, pass, trainer).0.next_u64();
        let first = draw(1, 2, 3);
        assert_eq!(first, draw(1, 2, 3));
        for other in [draw(0, 2, 3), draw(1, 3, 3), draw(1, 2, 4), draw(1, 3, 2)] {
            assert_ne!(first, other);
        }
    }

    #[test]
    fn draws_are_spread_evenly() {
        let mut random = DataRandom::new(7, 0, 0);
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
