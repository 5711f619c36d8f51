//! Numbers in log lines, as C++ streams print them by default: six significant digits, no trailing zeros.

/// Formats like `std::ostream << double`, that is like C's `%g`.
pub fn general(value: f64) -> String {
    significant(value, 6)
}

/// The same with another number of significant digits, at least one.
pub fn significant(value: f64, digits: usize) -> String {
    let behind = digits.saturating_sub(1);
    if value.is_nan() {
        return if value.is_sign_negative() {
            "-nan"
        } else {
            "nan"
        }
        .to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let scientific = format!("{value:.behind$e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..=behind as i32).contains(&exponent) {
        let decimals = usize::try_from(behind as i32 - exponent).unwrap_or(0);
        return without_trailing_zeros(&format!("{value:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!(
        "{}e{sign}{:02}",
        without_trailing_zeros(mantissa),
        exponent.abs()
    )
}

fn without_trailing_zeros(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::general;

    #[test]
    fn fewer_digits_are_rounded() {
        for (value, text) in [
            (0.628761, "0.6288"),
            (-1.82957e-5, "-1.83e-05"),
            (12345.6, "1.235e+04"),
            (1234.5, "1234"),
        ] {
            assert_eq!(super::significant(value, 4), text);
        }
    }

    #[test]
    fn prints_like_a_stream() {
        let cases = [
            (0.628761, "0.628761"),
            (0.304297, "0.304297"),
            (3.52368, "3.52368"),
            (1.0, "1"),
            (100000.0, "100000"),
            (1234567.0, "1.23457e+06"),
            (999999.5, "1e+06"),
            (0.0001, "0.0001"),
            (0.00001234567, "1.23457e-05"),
            (-0.5, "-0.5"),
            (f64::INFINITY, "inf"),
            (0.0, "0"),
            (0.5, "0.5"),
            (902_826.0, "902826"),
            (0.000_012_34, "1.234e-05"),
            (-3.523_684, "-3.52368"),
        ];
        for (value, text) in cases {
            assert_eq!(general(value), text);
        }
    }
}
