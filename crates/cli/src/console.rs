//! Where log lines go: standard error, in the form of v1, with dots between them.

use std::io::{self, Write};
use std::time::SystemTime;

use trainer::log::{Level, Log, Stamp, format_line};

/// Writes log lines to standard error.
#[derive(Debug, Default)]
pub struct Console {
    after_dot: bool,
}

impl Log for Console {
    fn line(&mut self, level: Level, source: &str, text: &str) {
        let line = format_line(
            level,
            Stamp::at(SystemTime::now()),
            std::process::id(),
            source,
            text,
        );
        let before = if std::mem::take(&mut self.after_dot) {
            "\n"
        } else {
            ""
        };
        // A closed standard error is no reason to stop training.
        let _ = writeln!(io::stderr().lock(), "{before}{line}");
    }

    fn dot(&mut self) {
        self.after_dot = true;
        let _ = io::stderr().lock().write_all(b".");
    }
}
