//! The sum of several trainers' gradients, taken in trainer order.
//!
//! The first gradient is copied, the next ones are added: the same order of additions as on a parameter server, hence
//! the same rounding.

use nn::{Gradient, Gradients, ParameterIndex};

/// Adds the gradients of the next trainer to the sum; those of the `first` replace the old sum.
pub(crate) fn add(sum: &mut Gradients, parameters: usize, gradients: &Gradients, first: bool) {
    for index in (0..parameters).map(ParameterIndex) {
        add_one(sum.get_mut(index), gradients.get(index), first);
    }
}

fn add_one(sum: &mut Gradient, gradient: &Gradient, first: bool) {
    match (sum, gradient) {
        (Gradient::Dense(sum), Gradient::Dense(values)) if first => sum.copy_from_slice(values),
        (Gradient::Dense(sum), Gradient::Dense(values)) => {
            for (s, v) in sum.iter_mut().zip(values) {
                *s += v;
            }
        }
        (
            Gradient::Rows { ids, values },
            Gradient::Rows {
                ids: more,
                values: other,
            },
        ) => {
            if first {
                ids.clear();
                values.clear();
            }
            add_rows(ids, values, more, other);
        }
        _ => unreachable!("a parameter's gradient never changes its kind"),
    }
}

/// Merges sorted rows into sorted rows.
fn add_rows(ids: &mut Vec<u32>, values: &mut Vec<f32>, more: &[u32], other: &[f32]) {
    if more.is_empty() {
        return;
    }
    let dim = other.len() / more.len();
    let mut merged_ids = Vec::with_capacity(ids.len() + more.len());
    let mut merged = Vec::with_capacity(values.len() + other.len());
    let (mut i, mut j) = (0, 0);
    while i < ids.len() || j < more.len() {
        let left = ids.get(i).copied();
        let right = more.get(j).copied();
        let take_left = right.is_none_or(|r| left.is_some_and(|l| l <= r));
        let take_right = left.is_none_or(|l| right.is_some_and(|r| r <= l));
        let start = merged.len();
        if take_left {
            merged_ids.extend(left);
            merged.extend_from_slice(&values[i * dim..(i + 1) * dim]);
            i += 1;
        }
        if take_right {
            let row = &other[j * dim..(j + 1) * dim];
            if take_left {
                for (t, v) in merged[start..].iter_mut().zip(row) {
                    *t += v;
                }
            } else {
                merged_ids.extend(right);
                merged.extend_from_slice(row);
            }
            j += 1;
        }
    }
    *ids = merged_ids;
    *values = merged;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_merge_sorted_and_add_where_both_have_them() {
        let mut ids = vec![1, 4, 9];
        let mut values = vec![1.0, 1.0, 4.0, 4.0, 9.0, 9.0];
        add_rows(
            &mut ids,
            &mut values,
            &[0, 4, 10],
            &[0.5, 0.5, 0.25, 0.25, 7.0, 7.0],
        );
        assert_eq!(ids, [0, 1, 4, 9, 10]);
        assert_eq!(values, [0.5, 0.5, 1.0, 1.0, 4.25, 4.25, 9.0, 9.0, 7.0, 7.0]);
    }

    #[test]
    fn empty_sides_are_fine() {
        let (mut ids, mut values) = (vec![], vec![]);
        add_rows(&mut ids, &mut values, &[3], &[1.0]);
        add_rows(&mut ids, &mut values, &[], &[]);
        assert_eq!((ids, values), (vec![3], vec![1.0]));
    }
}
