//! Parses numbers in text without allocating.

/// A decimal integer with an optional sign.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut value = 0i64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    Some(if negative { -value } else { value })
}

/// An integer that may be written with a fraction of zeros, as in `1.0`.
pub(super) fn whole(text: &[u8]) -> Option<i64> {
    integer(text).or_else(|| {
        let value = float(text)?;
        let fits = value.fract() == 0.0 && value.abs() < 1e7;
        fits.then_some(value as i64)
    })
}

/// A finite number.
pub(super) fn float(text: &[u8]) -> Option<f32> {
    if let Some(value) = integer(text).filter(|value| value.abs() < 1 << 24) {
        return Some(value as f32);
    }
    let value: f32 = std::str::from_utf8(text).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_numbers_and_nothing_else() {
        assert_eq!(integer(b"-12"), Some(-12));
        assert_eq!(integer(b"+7"), Some(7));
        for wrong in [&b""[..], b"-", b"1.0", b"x", b"1 ", b"9999999999999999999"] {
            assert_eq!(integer(wrong), None);
        }
        assert_eq!(whole(b"3.0"), Some(3));
        assert_eq!(whole(b"3.5"), None);
        assert_eq!(float(b"-2.5e-1"), Some(-0.25));
        assert_eq!(float(b"16777217"), Some(16_777_216.0));
        for wrong in [&b""[..], b"nan", b"inf", b"1e99", b"--1", b"\xff"] {
            assert_eq!(float(wrong), None);
        }
    }
}
