//! Numbers as C++ streams print them by default: six significant digits.

/// A number as v1's log prints it.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "nan"
        } else if value > 0.0 {
            "inf"
        } else {
            "-inf"
        }
        .to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{value:.5e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        return trimmed(&format!("{value:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
}

fn trimmed(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_streams_do() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (0.304297, "0.304297"),
            (0.5, "0.5"),
            (902826.0, "902826"),
            (1234567.0, "1.23457e+06"),
            (0.00001234, "1.234e-05"),
            (-3.523684, "-3.52368"),
            (999999.5, "1e+06"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }
}
