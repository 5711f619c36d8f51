//! `--show_parameter_stats_period`: one line per parameter with the size of its values and of its gradient.

use nn::{Gradient, Gradients, ParameterIndex, ParameterSpec, ParameterValues, Parameters};

use nn::number::general;

/// The lines of all parameters that learn, in v1's form.
pub(crate) fn lines(
    specs: &[ParameterSpec],
    parameters: &Parameters,
    gradients: &Gradients,
) -> Vec<String> {
    let learning = specs.iter().enumerate().filter(|(_, spec)| !spec.is_static);
    learning
        .map(|(index, spec)| {
            let values = match &parameters.0[index] {
                ParameterValues::Full(values) | ParameterValues::Rows { values, .. } => values,
                ParameterValues::Shared(shared) => shared.values(),
            };
            let gradient = gradients.get(ParameterIndex(index));
            let (Gradient::Dense(gradient)
            | Gradient::Rows {
                values: gradient, ..
            }) = gradient;
            line(&spec.name, size(values), size(gradient))
        })
        .collect()
}

fn line(name: &str, value: Size, gradient: Size) -> String {
    format!(
        "{name:<20} avg_abs_val={:<11} max_val={:<11} avg_abs_grad={:<11} max_grad={:<11}",
        general(value.mean),
        general(value.max),
        general(gradient.mean),
        general(gradient.max),
    )
}

/// Mean and largest absolute value.
#[derive(Clone, Copy)]
struct Size {
    mean: f64,
    max: f64,
}

fn size(values: &[f32]) -> Size {
    let absolute = values.iter().map(|v| f64::from(v.abs()));
    Size {
        mean: absolute.clone().fold(0.0, |sum, v| sum + v) / values.len().max(1) as f64,
        max: absolute.fold(0.0, f64::max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_looks_as_in_v1() {
        let line = line("_w", size(&[1.0, -3.0]), size(&[]));
        assert_eq!(
            line,
            "_w                   avg_abs_val=2           max_val=3           avg_abs_grad=0           max_grad=0          "
        );
    }
}
