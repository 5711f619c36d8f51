//! Log lines in the form of v1, so that existing scripts keep working.
//!
//! `I1115 20:30:00.123456  1234 Trainer.cpp:110] text`: level, month and day, local time, thread, source, text.
//! The trainer decides what is logged; the caller decides where it goes, hence [`Log`] is a trait.

use std::time::{SystemTime, UNIX_EPOCH};
pub use words::log::{Level, Topic};

/// Where log lines go. Implemented by the command line; tests collect lines in a `Vec`.
pub trait Log {
    /// A whole line: level, what it is about, and the text.
    fn line(&mut self, level: Level, topic: Topic, text: &str);

    /// Prints a dot that shows that batches are computed; no line end.
    fn dot(&mut self) {}
}

impl<L: Log + ?Sized> Log for &mut L {
    fn line(&mut self, level: Level, topic: Topic, text: &str) {
        (**self).line(level, topic, text);
    }

    fn dot(&mut self) {
        (**self).dot();
    }
}

impl Log for Vec<String> {
    fn line(&mut self, _level: Level, _topic: Topic, text: &str) {
        self.push(text.to_owned());
    }
}

/// A moment in local time, as the prefix of a line shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    month: u8,
    day: u8,
    hour: u8,
    minute: u8,
    second: u8,
    micros: u32,
}

impl Stamp {
    /// Converts to local time.
    pub fn at(time: SystemTime) -> Stamp {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = libc::time_t::try_from(since.as_secs()).unwrap_or(0);
        // SAFETY: `tm` is plain data for which all zeros is a valid value.
        let mut local: libc::tm = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are valid for the call, and `localtime_r` keeps neither.
        unsafe { libc::localtime_r(&seconds, &mut local) };
        let small = |n: i32| u8::try_from(n).unwrap_or(0);
        Stamp {
            month: small(local.tm_mon + 1),
            day: small(local.tm_mday),
            hour: small(local.tm_hour),
            minute: small(local.tm_min),
            second: small(local.tm_sec),
            micros: since.subsec_micros(),
        }
    }
}

/// The full text of a line, without its line end.
pub fn format_line(level: Level, stamp: Stamp, thread: u32, topic: Topic, text: &str) -> String {
    let source = topic.v1_source();
    let letter = match level {
        Level::Info => 'I',
        Level::Warning => 'W',
        Level::Error => 'E',
    };
    let Stamp {
        month,
        day,
        hour,
        minute,
        second,
        micros,
    } = stamp;
    format!(
        "{letter}{month:02}{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06} {thread:5} {source}] {text}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_looks_like_glog() {
        let stamp = Stamp {
            month: 3,
            day: 9,
            hour: 7,
            minute: 5,
            second: 2,
            micros: 42,
        };
        let line = format_line(Level::Info, stamp, 77, Topic::Progress, " Batch=20");
        assert_eq!(
            line,
            "I0309 07:05:02.000042    77 TrainerInternal.cpp:165]  Batch=20"
        );
    }

    #[test]
    fn a_stamp_is_a_real_date() {
        let stamp = Stamp::at(SystemTime::now());
        assert!((1..=12).contains(&stamp.month) && (1..=31).contains(&stamp.day));
    }
}
