//! Prints log lines to standard error, in the form of v1. Below them, on a terminal, the same picture as `canoe run`:
//! a bar, a line for the node, the cost so far. Elsewhere dots show progress.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant, SystemTime};

use run::display::screen::Screen;
use run::display::view::TerminalView;
use run::event::JobEvent;
use trainer::log::{Level, Log, Stamp, Topic, format_line};
use trainer::report::PassProgress;
use words::process::ProcessId;
use words::status::Status;

use crate::display::{TerminalSize, terminal_size};

/// Time between two pictures.
const REDRAW: Duration = Duration::from_millis(100);

/// Writes log lines to standard error.
#[derive(Debug)]
pub(crate) struct Console {
    terminal: bool,
    /// The last line on the screen has no line end yet.
    unfinished: bool,
    picture: Option<Picture>,
    /// Batches of the last complete pass: the expected length of this one.
    expected: Option<u64>,
    /// Number of passes, if it is known.
    passes: Option<u64>,
}

#[derive(Debug)]
struct Picture {
    view: TerminalView,
    screen: Screen,
    begun: Instant,
    drawn: Instant,
}

impl Default for Console {
    fn default() -> Console {
        Console {
            terminal: io::stderr().is_terminal(),
            unfinished: false,
            picture: None,
            expected: None,
            passes: None,
        }
    }
}

impl Console {
    /// Sets the number of passes of the job.
    pub(crate) fn passes(&mut self, passes: u64) {
        self.passes = Some(passes);
    }

    /// Shows the progress of a pass, on a terminal.
    pub(crate) fn progress(
        &mut self,
        trainer: u32,
        progress: &PassProgress,
        samples_per_second: f64,
    ) {
        let fresh = |picture: &Picture| picture.drawn.elapsed() < REDRAW;
        if !self.terminal || self.picture.as_ref().is_some_and(fresh) {
            return;
        }
        let process = ProcessId::trainer(trainer);
        let passes = self.passes;
        let picture = self
            .picture
            .get_or_insert_with(|| Picture::new(passes, process));
        let status = status(progress, self.expected, samples_per_second);
        let at = picture.begun.elapsed();
        picture
            .view
            .take(at, &JobEvent::Progress { process, status });
        picture.drawn = Instant::now();
        let TerminalSize { columns, rows } = terminal_size();
        let lines = picture.view.lines(at, columns, rows.saturating_sub(1));
        // A closed standard error is no reason to stop training.
        let _ = io::stderr()
            .lock()
            .write_all(picture.screen.draw(&lines, columns).as_bytes());
    }

    /// A pass of this many batches is over.
    pub(crate) fn pass_finished(&mut self, batches: u64) {
        self.expected = Some(batches);
    }
}

impl Picture {
    fn new(passes: Option<u64>, process: ProcessId) -> Picture {
        let mut view = TerminalView::new(passes);
        view.take(Duration::ZERO, &JobEvent::Ready { process });
        Picture {
            view,
            screen: Screen::new(),
            begun: Instant::now(),
            drawn: Instant::now(),
        }
    }
}

fn status(progress: &PassProgress, expected: Option<u64>, samples_per_second: f64) -> Status {
    Status {
        pass: Some(u64::from(progress.pass)),
        batch: Some(progress.batch),
        pass_batches: expected,
        samples: progress.samples,
        samples_per_second: Some(samples_per_second),
        cost: Some(progress.cost),
        ..Status::default()
    }
}

impl Log for Console {
    fn line(&mut self, level: Level, topic: Topic, text: &str) {
        let now = Stamp::at(SystemTime::now());
        let line = format_line(level, now, std::process::id(), topic, text);
        let text = match &mut self.picture {
            Some(picture) => {
                let TerminalSize { columns, rows } = terminal_size();
                let at = picture.begun.elapsed();
                let lines = picture.view.lines(at, columns, rows.saturating_sub(1));
                picture.screen.above(&line, &lines, columns)
            }
            None if std::mem::take(&mut self.unfinished) => format!("\n{line}\n"),
            None => format!("{line}\n"),
        };
        let _ = io::stderr().lock().write_all(text.as_bytes());
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
    fn the_picture_of_a_trainer_is_that_of_a_job() {
        let progress = PassProgress {
            pass: 2,
            batch: 50,
            samples: 6400,
            cost: 0.25,
            current_cost: 0.2,
            waited: 0.0,
            evaluators: vec![],
        };
        let process = ProcessId::trainer(0);
        let mut picture = Picture::new(Some(5), process);
        let status = status(&progress, Some(100), 1234.0);
        picture
            .view
            .take(Duration::ZERO, &JobEvent::Progress { process, status });
        let lines = picture.view.lines(Duration::from_secs(3), 80, 10);
        assert!(
            lines[0].starts_with("pass 2 (3 of 5) ") && lines[0].contains(" 50%"),
            "{lines:?}"
        );
        assert_eq!(lines[1], "node 0  batch 50/100  1,234/s  cost 0.25");
    }
}
