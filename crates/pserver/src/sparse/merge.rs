//! Merges the rows that several trainers push for one shard: sorted lists, one update for each distinct row.

/// One trainer's rows of one shard; ids ascend strictly.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// Row ids.
    pub ids: &'a [u32],
    /// Their slots.
    pub slots: &'a [u32],
    /// Their gradients, one after another.
    pub gradients: &'a [f32],
}

/// Calls `update(slot, gradient)` once for each distinct row, ascending; the gradient of a row that several have is
/// the first one's, plus the second one's, and so on, in the order of `sources`. `sum` is as long as a row.
pub fn each(sources: &mut [Source<'_>], sum: &mut [f32], update: &mut impl FnMut(u32, &[f32])) {
    let cols = sum.len();
    if let [only] = sources {
        for (slot, gradient) in only.slots.iter().zip(only.gradients.chunks_exact(cols)) {
            update(*slot, gradient);
        }
        return;
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

fn take<'a>(source: &mut Source<'a>, cols: usize) -> (u32, &'a [f32]) {
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
            Source {
                ids: &[1, 4],
                slots: &[10, 40],
                gradients: &[1.0, 4.0],
            },
            Source {
                ids: &[2, 4],
                slots: &[20, 40],
                gradients: &[2.0, 0.5],
            },
            Source {
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
}
