//! Distribution of each parameter's values, as a dashboard shows it at the end of a pass.

use nn::{ParameterSpec, ParameterValues, Parameters};
use words::statistics::ParameterStatistics;

/// Number of bins of a histogram.
const BINS: usize = 40;

/// Statistics of all parameters that this process holds as a whole.
pub(crate) fn of(specs: &[ParameterSpec], parameters: &Parameters) -> Vec<ParameterStatistics> {
    let all = specs.iter().zip(&parameters.0);
    all.filter_map(|(spec, values)| match values {
        ParameterValues::Full(values) if !values.is_empty() => Some(statistics(&spec.name, values)),
        _ => None,
    })
    .collect()
}

fn statistics(name: &str, values: &[f32]) -> ParameterStatistics {
    let (mut sum, mut squares, mut zeros) = (0.0, 0.0, 0u64);
    let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        let value = f64::from(*value);
        sum += value;
        squares += value * value;
        zeros += u64::from(value == 0.0);
        min = min.min(value);
        max = max.max(value);
    }
    let count = values.len() as f64;
    let mean = sum / count;
    ParameterStatistics {
        name: name.to_owned(),
        count: values.len() as u64,
        mean,
        std: (squares / count - mean * mean).max(0.0).sqrt(),
        zeros: zeros as f64 / count,
        min,
        max,
        squares,
        histogram: histogram(values, min, max),
    }
}

fn histogram(values: &[f32], min: f64, max: f64) -> Vec<u64> {
    let mut counts = vec![0; BINS];
    let scale = BINS as f64 / (max - min);
    for value in values {
        // Equal values make the scale infinite, others may be NaN or infinite: both count in the outer bins.
        let bin = (f64::from(*value) - min) * scale;
        counts[(bin as usize).min(BINS - 1)] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_described() {
        let found = statistics("w", &[0.0, 1.0, -1.0, 4.0]);
        assert_eq!((found.count, found.mean, found.zeros), (4, 1.0, 0.25));
        assert_eq!((found.min, found.max, found.squares), (-1.0, 4.0, 18.0));
        assert_eq!(found.std, 3.5f64.sqrt());
        assert_eq!(found.histogram.iter().sum::<u64>(), 4);
        assert_eq!((found.histogram[0], found.histogram[39]), (1, 1));
    }

    #[test]
    fn equal_values_and_no_numbers_do_no_harm() {
        let same = statistics("w", &[2.0; 3]);
        assert_eq!((same.std, same.histogram.iter().sum::<u64>()), (0.0, 3));
        let wild = statistics("w", &[f32::NAN, f32::INFINITY, 1.0]);
        assert_eq!(wild.histogram.iter().sum::<u64>(), 3);
    }
}
