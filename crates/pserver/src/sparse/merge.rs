//! Merges the rows that several trainers push for one shard: sorted lists, one update per distinct row.

/// One trainer's rows of one shard; ids are strictly ascending.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowSource<'a> {
    /// Row ids.
    pub ids: &'a [u32],
    /// Their slots.
    pub slots: &'a [u32],
    /// Their gradients, one after another.
    pub gradients: &'a [f32],
}

/// Calls `update(slot, gradient)` once per distinct row, ascending; the gradient of a row that several sources have is
/// the first one's, plus the second one's, and so on, in the order of `sources`. `sum` is as long as a row.
#[inline(always)]
pub(super) fn each(
    sources: &mut [RowSource<'_>],
    sum: &mut [f32],
    update: &mut impl FnMut(u32, &[f32]),
) {
    let cols = sum.len();
    if let [only] = sources {
        for (slot, gradient) in only.slots.iter().zip(only.gradients.chunks_exact(cols)) {
            update(*slot, gradient);
        }
        return;
    }
    if let [first, second] = sources {
        return two(first, second, sum, update);
    }
    while let Some(lowest) = sources
        .iter()
        .filter_map(|source| source.ids.first())
        .min()
        .copied()
    {
        let mut holders = sources
            .iter_mut()
            .filter(|source| source.ids.first() == Some(&lowest));
        let first = holders.next().expect("the lowest id is somebody's");
        let (slot, gradient) = take(first, cols);
        let mut summed = false;
        for other in holders {
            if !summed {
                sum.copy_from_slice(gradient);
                summed = true;
            }
            let (_, gradient) = take(other, cols);
            sum.iter_mut()
                .zip(gradient)
                .for_each(|(sum, value)| *sum += *value);
        }
        update(slot, if summed { sum } else { gradient });
    }
}

/// The usual case of two trainers, without a search for the smallest id.
#[inline(always)]
fn two(
    first: &RowSource<'_>,
    second: &RowSource<'_>,
    sum: &mut [f32],
    update: &mut impl FnMut(u32, &[f32]),
) {
    let cols = sum.len();
    let (mut a, mut b) = (0, 0);
    while a < first.ids.len() || b < second.ids.len() {
        let one = first.ids.get(a).map_or(u64::MAX, |id| u64::from(*id));
        let other = second.ids.get(b).map_or(u64::MAX, |id| u64::from(*id));
        if one < other {
            update(first.slots[a], &first.gradients[a * cols..(a + 1) * cols]);
            a += 1;
        } else if other < one {
            update(second.slots[b], &second.gradients[b * cols..(b + 1) * cols]);
            b += 1;
        } else {
            let parts = first.gradients[a * cols..]
                .iter()
                .zip(&second.gradients[b * cols..]);
            sum.iter_mut()
                .zip(parts)
                .for_each(|(sum, (one, other))| *sum = one + other);
            update(first.slots[a], sum);
            (a, b) = (a + 1, b + 1);
        }
    }
}

#[inline(always)]
fn take<'a>(source: &mut RowSource<'a>, cols: usize) -> (u32, &'a [f32]) {
    let slot = source.slots[0];
    let (gradient, rest) = source.gradients.split_at(cols);
    source.ids = &source.ids[1..];
    source.slots = &source.slots[1..];
    source.gradients = rest;
    (slot, gradient)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_several_trainers_is_updated_once_with_the_sum_in_their_order() {
        let mut sources = [
            RowSource {
                ids: &[1, 4],
                slots: &[10, 40],
                gradients: &[1.0, 4.0],
            },
            RowSource {
                ids: &[2, 4],
                slots: &[20, 40],
                gradients: &[2.0, 0.5],
            },
            RowSource {
                ids: &[4],
                slots: &[40],
                gradients: &[0.25],
            },
        ];
        let mut seen = Vec::new();
        each(&mut sources, &mut [0.0], &mut |slot, gradient| {
            seen.push((slot, gradient[0]))
        });
        assert_eq!(seen, [(10, 1.0), (20, 2.0), (40, 4.75)]);
    }

    #[test]
    fn two_trainers_merge_like_many() {
        let one = RowSource {
            ids: &[1, 4, 9],
            slots: &[10, 40, 90],
            gradients: &[1.0, 4.0, 9.0],
        };
        let other = RowSource {
            ids: &[0, 4],
            slots: &[0, 40],
            gradients: &[7.0, 0.5],
        };
        let empty = RowSource {
            ids: &[],
            slots: &[],
            gradients: &[],
        };
        let collect = |sources: &mut [RowSource<'_>]| {
            let mut seen = Vec::new();
            each(sources, &mut [0.0], &mut |slot, gradient| {
                seen.push((slot, gradient[0]))
            });
            seen
        };
        let two = collect(&mut [one, other]);
        assert_eq!(two, [(0, 7.0), (10, 1.0), (40, 4.5), (90, 9.0)]);
        assert_eq!(two, collect(&mut [one, empty, other]));
    }
}
