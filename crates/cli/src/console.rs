//! Where log lines go: standard error, in the form of v1. Between lines, a live line on a terminal or dots elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant, SystemTime};

use launch::display::text;
use trainer::log::{Level, Log, Stamp, format_line};
use trainer::report::Progress;

/// Between two live lines.
const REDRAW: Duration = Duration::from_millis(100);

/// Width of the bar in a live line.
const BAR: usize = 24;

/// Writes log lines to standard error.
#[derive(Debug)]
pub struct Console {
    terminal: bool,
    /// Something without a line end stands on the last line.
    unfinished: bool,
    drawn: Option<Instant>,
    /// Batches of the last whole pass: how long this one will be.
    expected: Option<u64>,
}

impl Default for Console {
    fn default() -> Console {
        Console {
            terminal: io::stderr().is_terminal(),
            unfinished: false,
            drawn: None,
            expected: None,
        }
    }
}

impl Console {
    /// Shows how far a pass is, on a terminal.
    pub fn progress(&mut self, progress: &Progress, samples_per_second: f64) {
        if !self.terminal || self.drawn.is_some_and(|at| at.elapsed() < REDRAW) {
            return;
        }
        self.drawn = Some(Instant::now());
        self.unfinished = true;
        let line = live_line(progress, self.expected, samples_per_second);
        // A closed standard error is no reason to stop training.
        let _ = write!(io::stderr().lock(), "\r\x1b[2K{line}");
    }

    /// A pass of so many batches is over.
    pub fn pass_finished(&mut self, batches: u64) {
        self.expected = Some(batches);
    }
}

fn live_line(progress: &Progress, expected: Option<u64>, samples_per_second: f64) -> String {
    let place = match expected {
        Some(all) => {
            let part = progress.batch as f64 / all.max(1) as f64;
            format!("{} {}/{all}", text::bar(part.min(1.0), BAR), progress.batch)
        }
        None => format!("batch {}", progress.batch),
    };
    format!(
        "pass {} {place}  cost {}  {} samples/s",
        progress.pass,
        text::number(progress.cost),
        text::rate(samples_per_second)
    )
}

impl Log for Console {
    fn line(&mut self, level: Level, source: &str, text: &str) {
        let now = Stamp::at(SystemTime::now());
        let line = format_line(level, now, std::process::id(), source, text);
        let before = match (std::mem::take(&mut self.unfinished), self.terminal) {
            (true, true) => "\r\x1b[2K",
            (true, false) => "\n",
            (false, _) => "",
        };
        let _ = writeln!(io::stderr().lock(), "{before}{line}");
    }

    fn dot(&mut self) {
        if !self.terminal {
            self.unfinished = true;
            let _ = io::stderr().lock().write_all(b".");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_line_shows_where_a_pass_is() {
        let progress = Progress {
            pass: 2,
            batch: 50,
            samples: 6400,
            cost: 0.25,
            current_cost: 0.2,
            waited: 0.0,
            evaluators: vec![],
        };
        let line = live_line(&progress, Some(100), 1234.0);
        assert!(
            line.starts_with("pass 2 ") && line.contains("50/100"),
            "{line}"
        );
        assert!(live_line(&progress, None, 1.0).contains("batch 50"));
    }
}
