//! Finds the rows of a table that are closest to one by cosine, without a second copy of the table.

use crate::error::PredictError;
use crate::export::ListedParameter;
use crate::model::Model;

/// A row and its similarity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbour {
    /// Index of the row.
    pub row: u32,
    /// Cosine of the angle between the rows, -1 to 1.
    pub cosine: f32,
}

/// The id of a row that a user names: a word of the rows' dictionary, or a number (`#7` if the word could be meant).
pub fn row(listed: &ListedParameter, text: &str) -> Result<u32, PredictError> {
    let limit = listed.shape.first().copied().unwrap_or(0);
    let word = listed.rows.as_ref().and_then(|words| words.id(text));
    let number = || text.strip_prefix('#').unwrap_or(text).parse::<u32>().ok();
    let found = word.or_else(number).filter(|row| (*row as usize) < limit);
    found.ok_or_else(|| PredictError::UnknownRow {
        parameter: listed.readable.clone(),
        row: text.to_owned(),
        rows: limit,
    })
}

/// Called with the number and the values of each row.
pub(crate) type EachRow<'a> = dyn FnMut(u32, &[f32]) -> Result<(), PredictError> + 'a;

/// Calls `each` for every row of a table, in order.
pub fn each_row(
    model: &Model,
    listed: &ListedParameter,
    each: &mut EachRow<'_>,
) -> Result<(), PredictError> {
    let cols = cols(listed);
    let (mut row, mut rest) = (0, Vec::new());
    model.each_chunk(listed.at, &mut |values| {
        let mut values = values;
        // A row may begin in one chunk and end in the next.
        if !rest.is_empty() {
            let (head, tail) = values.split_at((cols - rest.len()).min(values.len()));
            rest.extend_from_slice(head);
            values = tail;
            if rest.len() == cols {
                each(row, &rest)?;
                row += 1;
                rest.clear();
            }
        }
        let rows = values.chunks_exact(cols);
        rest.extend_from_slice(rows.remainder());
        for values in rows {
            each(row, values)?;
            row += 1;
        }
        Ok(())
    })
}

/// Length of a row.
pub fn cols(listed: &ListedParameter) -> usize {
    listed.shape.iter().skip(1).product::<usize>().max(1)
}

/// The rows closest to one, closest first, without itself. Rows of zeros have no direction and are left out.
pub fn nearest(
    model: &Model,
    listed: &ListedParameter,
    to: u32,
    count: usize,
) -> Result<Vec<Neighbour>, PredictError> {
    let mut query = Vec::new();
    each_row(model, listed, &mut |row, values| {
        if row == to {
            query = values.to_vec();
        }
        Ok(())
    })?;
    let length = norm(&query);
    let mut best: Vec<Neighbour> = Vec::with_capacity(count + 1);
    each_row(model, listed, &mut |row, values| {
        let product = dot(&query, values);
        let cosine = (product / (length * norm(values))) as f32;
        let worst = best.last().map_or(f32::NEG_INFINITY, |last| last.cosine);
        if row == to || !cosine.is_finite() || (best.len() == count && cosine <= worst) {
            return Ok(());
        }
        let at = best.partition_point(|other| other.cosine >= cosine);
        best.insert(at, Neighbour { row, cosine });
        best.truncate(count);
        Ok(())
    })?;
    Ok(best)
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter()
        .zip(b)
        .map(|(a, b)| f64::from(*a) * f64::from(*b))
        .sum()
}

fn norm(values: &[f32]) -> f64 {
    dot(values, values).sqrt()
}
