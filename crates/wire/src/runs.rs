//! Runs of values that are packed one after another: what a batch reads or changes of a table whose rows are narrow. Most
//! runs have a few values, for which a call of `memcpy` takes longer than the copy.

use std::ops::Range;

/// Adds a run at the end of a list; one that begins where the last one ends becomes part of it.
pub fn push(runs: &mut Vec<Range<usize>>, run: Range<usize>) {
    match runs.last_mut() {
        Some(last) if last.end == run.start => last.end = run.end,
        _ => runs.push(run),
    }
}

/// Number of values in runs.
pub fn count(runs: &[Range<usize>]) -> usize {
    runs.iter().map(ExactSizeIterator::len).sum()
}

/// Packs the runs of `values`.
pub fn pack(values: &[f32], runs: &[Range<usize>], out: &mut Vec<f32>) {
    out.resize(count(runs), 0.0);
    let mut rest = out.as_mut_slice();
    for run in runs {
        let (own, later) = rest.split_at_mut(run.len());
        copy(&values[run.clone()], own);
        rest = later;
    }
}

/// Copies packed values to their runs. `values[0]` is the value at `start`.
pub fn unpack(mut packed: &[f32], runs: &[Range<usize>], start: usize, values: &mut [f32]) {
    for run in runs {
        let (own, later) = packed.split_at(run.len());
        copy(own, &mut values[run.start - start..run.end - start]);
        packed = later;
    }
}

fn copy(from: &[f32], to: &mut [f32]) {
    match (from, to) {
        ([a], [x]) => *x = *a,
        ([a, b], [x, y]) => (*x, *y) = (*a, *b),
        ([a, b, c, d], [x, y, z, w]) => (*x, *y, *z, *w) = (*a, *b, *c, *d),
        (from, to) => to.copy_from_slice(from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packed_values_return_to_their_places(
            lens in prop::collection::vec((0_usize..4, 1_usize..9), 0..40),
            start in 0_usize..50,
        ) {
            let (mut runs, mut at, mut count_all) = (Vec::new(), start, 0);
            for (gap, len) in lens {
                at += gap;
                push(&mut runs, at..at + len);
                (at, count_all) = (at + len, count_all + len);
            }
            prop_assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert_eq!(count(&runs), count_all);
            let values: Vec<f32> = (0..at).map(|value| value as f32 + 1.0).collect();
            let mut packed = vec![7.0; 3];
            pack(&values, &runs, &mut packed);
            prop_assert_eq!(packed.len(), count_all);
            let mut back = vec![0.0; at - start];
            unpack(&packed, &runs, start, &mut back);
            for (place, value) in back.iter().enumerate() {
                let inside = runs.iter().any(|run| run.contains(&(place + start)));
                prop_assert_eq!(*value, if inside { values[place + start] } else { 0.0 });
            }
        }
    }
}
