//! Numbers, durations and times as a report writes them.

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let parts: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|part| std::str::from_utf8(part).unwrap_or(""))
        .collect();
    parts.join(",")
}

/// A duration.
pub(crate) fn seconds(value: f64) -> String {
    match value {
        v if v < 60.0 => format!("{v:.2} s"),
        v => format!(
            "{}:{:02}:{:02}",
            v as u64 / 3600,
            v as u64 / 60 % 60,
            v as u64 % 60
        ),
    }
}

/// A time as `2026-11-16 01:02:03 UTC`.
pub(crate) fn utc(unix: f64) -> String {
    let whole = unix.max(0.0) as i64;
    let (days, rest) = (whole / 86_400, whole % 86_400);
    // Days since 1 March of year 0, in whole eras of 400 years.
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let date = of_year - (153 * shifted + 2) / 5 + 1;
    format!(
        "{year}-{month:02}-{date:02} {:02}:{:02}:{:02} UTC",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_numbers_are_readable() {
        assert_eq!(utc(0.0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_825_600.0), "2000-02-29 12:00:00 UTC");
        assert_eq!(utc(1_794_787_786.0), "2026-11-16 00:09:46 UTC");
        assert_eq!(
            (grouped(1_234_567), seconds(3723.0)),
            ("1,234,567".into(), "1:02:03".into())
        );
    }
}
