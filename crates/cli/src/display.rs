//! Shows a running job: a live picture on a terminal, plain lines elsewhere. Only this file moves the cursor.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use run::display::plain::Plain;
use run::display::screen::Screen;
use run::display::view::TerminalView;
use run::event::JobEvent;

use crate::commands::run::TELL_EVERY;

/// Time between two pictures.
const REDRAW: Duration = Duration::from_millis(100);

/// Shows events as they come.
pub(crate) struct Display {
    begun: Instant,
    form: Form,
}

enum Form {
    Terminal {
        view: Box<TerminalView>,
        screen: Screen,
        at: Option<Instant>,
    },
    Lines(Plain),
}

impl Display {
    /// A display on standard error for a job of `passes` passes, if that is known.
    pub(crate) fn new(passes: Option<u64>) -> Display {
        let form = if io::stderr().is_terminal() {
            Form::Terminal {
                view: Box::new(TerminalView::new(passes)),
                screen: Screen::new(),
                at: None,
            }
        } else {
            Form::Lines(Plain::new(TELL_EVERY))
        };
        Display {
            begun: Instant::now(),
            form,
        }
    }

    /// Shows an event.
    pub(crate) fn take(&mut self, event: &JobEvent) {
        let elapsed = self.begun.elapsed();
        match &mut self.form {
            Form::Lines(plain) => {
                if let Some(line) = plain.line(elapsed, event) {
                    // A reader that went away is no reason to end the job.
                    let _ = writeln!(io::stderr(), "{line}");
                }
            }
            Form::Terminal { view, screen, at } => {
                view.take(elapsed, event);
                if at.is_none_or(|at| at.elapsed() >= REDRAW) {
                    draw(view, elapsed, screen);
                    *at = Some(Instant::now());
                }
            }
        }
    }

    /// Draws the last picture and leaves it on the screen.
    pub(crate) fn end(&mut self) {
        if let Form::Terminal { view, screen, .. } = &mut self.form {
            draw(view, self.begun.elapsed(), screen);
        }
    }
}

fn draw(view: &TerminalView, elapsed: Duration, screen: &mut Screen) {
    let TerminalSize { columns, rows } = terminal_size();
    let lines = view.lines(elapsed, columns, rows.saturating_sub(1));
    // A terminal that was closed is no reason to end the job.
    let _ = io::stderr()
        .lock()
        .write_all(screen.draw(&lines, columns).as_bytes());
}

/// Columns for a help text: those of the terminal that shows it, at most a hundred; `None` if none does.
pub(crate) fn help_width() -> Option<usize> {
    let shown = io::stdout().is_terminal() && io::stderr().is_terminal();
    shown.then(|| terminal_size().columns.min(100))
}

/// How much text a terminal shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TerminalSize {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// The size of the terminal on standard error.
pub(crate) fn terminal_size() -> TerminalSize {
    match rustix::termios::tcgetwinsize(io::stderr()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 1 => TerminalSize {
            columns: usize::from(size.ws_col),
            rows: usize::from(size.ws_row),
        },
        _ => TerminalSize {
            columns: 80,
            rows: 24,
        },
    }
}
