//! A dense gradient with gaps: in an embedding's gradient, a batch fills only the rows of its words. A block is cut
//! into 64 parts, and only the parts that are not all zero are sent; a mask of 64 bits says which. Unpacking restores
//! the block bit for bit: a negative zero is not a gap.

/// Values in a part of a block.
pub(crate) fn part(len: usize) -> usize {
    len.div_ceil(64).max(1)
}

/// In which part of `size` values a value lies. Nearly all sizes are powers of two, for which no division is needed.
fn part_of(at: usize, size: usize) -> usize {
    match size.is_power_of_two() {
        true => at >> size.trailing_zeros(),
        false => at / size,
    }
}

/// Which parts of a block have anything but zeros.
pub fn mask(block: &[f32]) -> u64 {
    let parts = block.chunks(part(block.len())).enumerate();
    parts.fold(0, |mask, (at, part)| {
        let bits = part.iter().fold(0, |bits, value| bits | value.to_bits());
        mask | (u64::from(bits != 0) << at)
    })
}

/// The parts of a block of `len` values that contain values `from..to`; `to` is at most `len`.
pub fn parts(from: usize, to: usize, len: usize) -> u64 {
    if from >= to {
        return 0;
    }
    let size = part(len);
    let (first, last) = (part_of(from, size), part_of(to - 1, size));
    (u64::MAX >> (63 - last)) & (u64::MAX << first)
}

/// Number of values that a mask selects in a block of this length; `None` if it selects parts that the block lacks.
pub fn count(mask: u64, len: usize) -> Option<usize> {
    let part = part(len);
    let parts = len.div_ceil(part);
    if parts < 64 && mask >> parts != 0 {
        return None;
    }
    let last = parts.checked_sub(1).filter(|last| mask >> last & 1 == 1);
    let missing = last.map_or(0, |_| parts * part - len);
    Some(mask.count_ones() as usize * part - missing)
}

/// Appends the parts of a block that its mask names.
pub fn pack(block: &[f32], mask: u64, out: &mut Vec<f32>) {
    for (at, part) in block.chunks(part(block.len())).enumerate() {
        if mask >> at & 1 == 1 {
            out.extend_from_slice(part);
        }
    }
}

/// Adds the parts that its mask names to a block of which the parts `filled` differ from zero; returns those that do
/// afterwards. The sum is that of whole blocks, bit for bit: a negative zero plus the zero of a gap is a positive one.
pub fn add(mut packed: &[f32], mask: u64, block: &mut [f32], filled: u64) -> u64 {
    let size = part(block.len());
    // `filled` may have more parts than a short block.
    let parts = block.len().div_ceil(size) as u32;
    let mut rest = (mask | filled) & u64::MAX.checked_shr(64 - parts).unwrap_or(0);
    while rest != 0 {
        let at = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        let end = ((at + 1) * size).min(block.len());
        let sum = &mut block[at * size..end];
        if mask >> at & 1 == 0 {
            sum.iter_mut().for_each(|value| *value += 0.0);
            continue;
        }
        let (own, later) = packed.split_at(sum.len());
        sum.iter_mut()
            .zip(own)
            .for_each(|(sum, value)| *sum += *value);
        packed = later;
    }
    mask | filled
}

/// Restores a block from the parts that its mask names: as many values as [`count`] returns.
pub fn unpack(mut packed: &[f32], mask: u64, block: &mut [f32]) {
    let size = part(block.len());
    for (at, part) in block.chunks_mut(size).enumerate() {
        if mask >> at & 1 == 0 {
            part.fill(0.0);
            continue;
        }
        let (own, rest) = packed.split_at(part.len());
        part.copy_from_slice(own);
        packed = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_block_comes_back_bit_for_bit(
            len in 0_usize..5000,
            filled in prop::collection::vec((0_usize..5000, prop::num::f32::ANY), 0..40),
        ) {
            let mut block = vec![0.0_f32; len];
            for (at, value) in filled.into_iter().filter(|(at, _)| *at < len) {
                block[at] = value;
            }
            let mask = mask(&block);
            let mut packed = Vec::new();
            pack(&block, mask, &mut packed);
            prop_assert_eq!(count(mask, len), Some(packed.len()));
            let mut back = vec![7.0_f32; len];
            unpack(&packed, mask, &mut back);
            let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&block), bits(&back));
        }

        #[test]
        fn a_sum_of_parts_is_that_of_whole_blocks(
            len in 1_usize..300,
            filled in prop::collection::vec((0_usize..300, 0_u8..2, -2_i8..3), 0..20),
        ) {
            let mut blocks = [vec![0.0_f32; len], vec![0.0_f32; len]];
            for (at, which, value) in filled.into_iter().filter(|(at, ..)| *at < len) {
                blocks[which as usize][at] = if value == 2 { -0.0 } else { f32::from(value) };
            }
            let [first, second] = &blocks;
            let whole: Vec<f32> = first.iter().zip(second).map(|(a, b)| a + b).collect();
            let mut sum = first.clone();
            let mut packed = Vec::new();
            pack(second, mask(second), &mut packed);
            let filled = add(&packed, mask(second), &mut sum, mask(first));
            let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&sum), bits(&whole));
            prop_assert_eq!(filled, mask(first) | mask(second));
        }
    }

    #[test]
    fn parts_that_are_not_there_are_refused() {
        assert_eq!(count(1 << 10, 10), None);
        assert_eq!(count(u64::MAX, 64), Some(64));
        assert_eq!(count(u64::MAX, 4096), Some(4096));
        // 65 values are 33 parts of two; the last has one.
        assert_eq!(count(1 << 32, 65), Some(1));
        assert_eq!(count(1 << 33, 65), None);
        assert_eq!(count(0, 0), Some(0));
        assert_eq!(count(1, 0), None);
    }

    #[test]
    fn parts_are_those_that_values_lie_in() {
        assert_eq!(parts(0, 4096, 4096), u64::MAX);
        assert_eq!(parts(64, 128, 4096), 0b10);
        assert_eq!(parts(63, 65, 4096), 0b11);
        assert_eq!(parts(4095, 4096, 4096), 1 << 63);
        assert_eq!(parts(5, 5, 4096), 0);
        assert_eq!(parts(64, 65, 65), 1 << 32);
    }

    /// A block that was received whole counts as filled in all 64 parts; one of 610 values has 61.
    #[test]
    fn parts_are_added_to_a_whole_block_that_has_fewer() {
        for len in [0, 1, 3, 65, 610] {
            let mut sum = vec![-0.0; len];
            let first = vec![2.0; part(len).min(len)];
            add(&first, u64::from(len > 0), &mut sum, u64::MAX);
            let mut wanted = vec![0.0; len];
            wanted[..first.len()].fill(2.0);
            let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&sum), bits(&wanted));
        }
    }

    #[test]
    fn a_negative_zero_is_not_a_gap() {
        assert_eq!(mask(&[0.0, -0.0, 0.0]), 0b010);
    }
}
