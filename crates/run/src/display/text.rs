//! Small pieces of text: numbers, durations, bars, spark lines, cutting to a width.

use std::time::Duration;

/// `1234567` as `1,234,567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A speed: whole from 10 on, else one decimal place.
pub fn rate(per_second: f64) -> String {
    if per_second.is_finite() && per_second >= 10.0 {
        count(per_second.round() as u64)
    } else {
        format!("{per_second:.1}")
    }
}

/// Six significant digits, as v1 prints costs.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "nan".to_owned()
        } else if value > 0.0 {
            "inf".to_owned()
        } else {
            "-inf".to_owned()
        };
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let exponent = format!("{value:.5e}");
    let (mantissa, power) = exponent.split_once('e').unwrap_or((&exponent, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    if (-4..6).contains(&power) {
        let decimals = usize::try_from(5 - power).unwrap_or(0);
        return without_trailing_zeros(&format!("{value:.decimals$}"));
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!(
        "{}e{sign}{:02}",
        without_trailing_zeros(mantissa),
        power.abs()
    )
}

fn without_trailing_zeros(text: &str) -> String {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text.to_owned()
    }
}

/// `0:07`, `12:34`, `1:02:03`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// A bar of `width` cells of which the fraction `part` (0 to 1) is filled.
pub fn bar(part: f64, width: usize) -> String {
    let part = if part.is_finite() {
        part.clamp(0.0, 1.0)
    } else {
        0.0
    };
    let filled = (part * width as f64).floor() as usize;
    "█".repeat(filled) + &"░".repeat(width - filled)
}

/// The values as a line of at most `width` blocks, the largest full; neighbours are averaged if
/// there are more values. Values that are not finite show as `!`.
pub(crate) fn spark(values: &[f64], width: usize) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let cells = values.len().min(width);
    if cells == 0 {
        return String::new();
    }
    let mean = |cell: usize| {
        let part = &values[cell * values.len() / cells..(cell + 1) * values.len() / cells];
        part.iter().sum::<f64>() / part.len() as f64
    };
    let means: Vec<f64> = (0..cells).map(mean).collect();
    let finite = || means.iter().copied().filter(|value| value.is_finite());
    let (low, high) = (
        finite().fold(f64::INFINITY, f64::min),
        finite().fold(f64::NEG_INFINITY, f64::max),
    );
    let block = |value: &f64| {
        if !value.is_finite() {
            return '!';
        }
        let height = if high > low {
            (value - low) / (high - low)
        } else {
            0.0
        };
        BLOCKS[(height * 7.0).round() as usize]
    };
    means.iter().map(block).collect()
}

/// A reason to wait as part of a sentence: processes report either the names of the processes they wait for, or a
/// sentence.
pub fn wait(reason: &str) -> String {
    if reason.contains("wait") {
        reason.to_owned()
    } else if is_name(reason) {
        format!("waits for {reason}")
    } else {
        format!("waits: {reason}")
    }
}

/// Whether a reason only names processes: `trainer 1, trainer 2`, `server 0`, `trainer 0 at step 620`, `trainers`.
fn is_name(reason: &str) -> bool {
    let mut words = reason.split([' ', ',']);
    match (words.next(), words.next()) {
        (Some("trainers" | "servers"), None) => true,
        (Some("trainer" | "server" | "pserver"), Some(id)) => {
            id.parse::<u32>().is_ok() && matches!(words.next(), None | Some("" | "at"))
        }
        _ => false,
    }
}

/// How often a job, or a node, repeated batches after a loss; `None` if never.
pub fn roll_backs(times: usize) -> Option<String> {
    match times {
        0 => None,
        1 => Some("rolled back to a snapshot once".to_owned()),
        times => Some(format!("rolled back to a snapshot {times} times")),
    }
}

/// At most `width` characters, with `…` at the end if something was cut; control characters become blanks.
pub fn fit(text: &str, width: usize) -> String {
    let clean = text.chars().map(|character| {
        if character.is_control() {
            ' '
        } else {
            character
        }
    });
    if clean.clone().count() <= width {
        return clean.collect();
    }
    clean
        .take(width.saturating_sub(1))
        .chain("…".chars())
        .take(width)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_to_wait_become_sentences() {
        for (reason, sentence) in [
            ("trainer 1, trainer 2", "waits for trainer 1, trainer 2"),
            ("trainer 0 at step 620", "waits for trainer 0 at step 620"),
            ("server 1", "waits for server 1"),
            ("trainers", "waits for trainers"),
            ("step 7 waits for trainer 2", "step 7 waits for trainer 2"),
            (
                "server a:7164 cannot be reached: connection refused",
                "waits: server a:7164 cannot be reached: connection refused",
            ),
        ] {
            assert_eq!(wait(reason), sentence);
        }
    }

    #[test]
    fn numbers_read_as_in_v1() {
        for (value, text) in [
            (0.628761, "0.628761"),
            (3.52368, "3.52368"),
            (0.5, "0.5"),
            (0.0, "0"),
            (1234567.0, "1.23457e+06"),
            (0.000012345678, "1.23457e-05"),
            (0.00012345678, "0.000123457"),
            (999999.7, "1e+06"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!(
            (count(0), count(999), count(1000), count(1234567)),
            ("0".into(), "999".into(), "1,000".into(), "1,234,567".into())
        );
        assert_eq!((rate(0.25), rate(12345.6)), ("0.2".into(), "12,346".into()));
        assert_eq!(duration(Duration::from_secs(3723)), "1:02:03");
        assert_eq!(duration(Duration::from_secs(67)), "1:07");
    }

    #[test]
    fn bars_and_sparks_have_the_asked_width() {
        assert_eq!(bar(0.5, 4), "██░░");
        assert_eq!(bar(f64::NAN, 2), "░░");
        assert_eq!(bar(7.0, 2), "██");
        assert_eq!(spark(&[4.0, 3.0, 2.0, 1.0], 4), "█▆▃▁");
        assert_eq!(spark(&[1.0, 1.0], 8), "▁▁");
        assert_eq!(spark(&[1.0, f64::NAN, 2.0], 3), "▁!█");
        assert_eq!(spark(&[8.0; 1000], 10).chars().count(), 10);
        assert_eq!(spark(&[], 10), "");
    }

    #[test]
    fn long_text_is_cut_by_characters_and_cannot_move_the_cursor() {
        assert_eq!(fit("héllo", 5), "héllo");
        assert_eq!(fit("héllo!", 5), "héll…");
        assert_eq!(fit("a\x1b[2Jb", 10), "a [2Jb");
        assert_eq!((fit("abc", 1), fit("abc", 0)), ("…".into(), String::new()));
    }
}
